package session

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"sync"

	"github.com/understudy-lb/understudy/session/owner"
)

// Snapshots, which are all attributes of a session, travel compressed if they
// are large and that makes them smaller; changes never do (SESS-7).
const (
	// maxPacked is the largest snapshot that is compressed, in bytes. It is done
	// where nothing else of the session happens, and perhaps nothing else of a
	// connection: of this size it takes some 20 ms, and on the network not much
	// longer.
	maxPacked = 2 << 20

	// packGain is the part, one in so many, by which it has to become smaller.
	packGain = 8
)

// A packer is a compressor with its buffers.
type packer struct {
	raw    []byte
	packed bytes.Buffer
	w      *flate.Writer
}

//nolint:gochecknoglobals // pools, of which there is one per process
var (
	packers   = sync.Pool{New: func() any { return new(packer) }}
	unpackers = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
)

// appendPacked appends attributes in packed form, unless that is no gain.
func appendPacked(dst []byte, as owner.Attrs) ([]byte, bool) {
	p, _ := packers.Get().(*packer)
	defer packers.Put(p)
	p.raw = appendAttrs(p.raw[:0], as)
	p.packed.Reset()
	if p.w == nil {
		w, err := flate.NewWriter(&p.packed, flate.BestSpeed)
		if err != nil {
			return dst, false
		}
		p.w = w
	} else {
		p.w.Reset(&p.packed)
	}
	if _, err := p.w.Write(p.raw); err != nil {
		return dst, false
	}
	if err := p.w.Close(); err != nil || p.packed.Len() > len(p.raw)-len(p.raw)/packGain {
		return dst, false
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.raw)))
	dst = binary.AppendUvarint(dst, uint64(p.packed.Len()))
	return append(dst, p.packed.Bytes()...), true
}

// packed takes attributes in packed form. What they claim to be is bounded by
// what a frame may have, and nothing of that size is made before it is there.
func (d *decoder) packed() owner.Attrs {
	size := d.u64()
	in := d.bytes(d.u64())
	if d.bad != "" || size > maxFrame {
		d.fail("packed attributes")
		return nil
	}
	r, _ := unpackers.Get().(io.ReadCloser)
	defer unpackers.Put(r)
	src := bytes.NewReader(in)
	var raw bytes.Buffer
	if err := r.(flate.Resetter).Reset(src, nil); err != nil { //nolint:forcetypeassert // flate promises it
		d.fail("packed attributes")
		return nil
	}
	if n, err := io.Copy(&raw, io.LimitReader(r, int64(size)+1)); err != nil || uint64(n) != size || src.Len() != 0 {
		d.fail("packed attributes")
		return nil
	}
	inner := decoder{b: raw.Bytes(), version: d.version}
	as := inner.attrs()
	if inner.bad != "" || len(inner.b) != 0 {
		d.fail("packed attributes")
		return nil
	}
	return as
}
