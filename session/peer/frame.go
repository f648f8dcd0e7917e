package peer

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds on the wire that no [Handler] sees; the others are the exported kinds.
const (
	heartbeat Kind = iota + 5 // 8 times a second; number counts them from 1
	beatback                  // its answer, same number
	end                       // all headers of the series are sent
	done                      // all headers of the other side are handled
)

// numbered says which kinds carry a number on the wire.
func (k Kind) numbered() bool {
	return k == Answer || k == heartbeat || k == beatback
}

// bare says which kinds have no payload.
func (k Kind) bare() bool {
	return k == heartbeat || k == beatback || k == end || k == done
}

const (
	maxOverhead = 1 + binary.MaxVarintLen64 // kind and number, in bytes
	readBuffer  = 16 << 10                  // one TLS record
	keepBuffer  = 1 << 20                   // buffers longer than this are not kept
)

// appendFrame appends a whole frame to dst. The number is written only if the
// kind has one.
func appendFrame(dst []byte, k Kind, number uint64, payload []byte) []byte {
	var num [binary.MaxVarintLen64]byte
	n := 0
	if k.numbered() {
		n = binary.PutUvarint(num[:], number)
	}
	dst = binary.AppendUvarint(dst, uint64(1+n+len(payload)))
	dst = append(dst, byte(k))
	dst = append(dst, num[:n]...)
	return append(dst, payload...)
}

// parseFrame takes the first frame off b. It returns the size of that frame on
// the wire, or 0 and how many bytes of b are needed at least to tell more.
// Frames longer than limit, unknown kinds and numbers that are not in their
// shortest form are an [ErrFrame].
func parseFrame(b []byte, limit int) (f Frame, size, need int, err error) {
	length, n := binary.Uvarint(b)
	switch {
	case n == 0 && len(b) < binary.MaxVarintLen64:
		return f, 0, len(b) + 1, nil
	case n <= 0 || n > 1 && b[n-1] == 0:
		return f, 0, 0, fmt.Errorf("%w: bad length", ErrFrame)
	case length == 0:
		return f, 0, 0, fmt.Errorf("%w: empty", ErrFrame)
	case length > uint64(limit+maxOverhead):
		return f, 0, 0, fmt.Errorf("%w: %d bytes, more than the %d allowed", ErrFrame, length, limit)
	}
	size = n + int(length)
	if len(b) < size {
		return f, 0, size, nil
	}
	f.Kind, f.Data = Kind(b[n]), b[n+1:size:size]
	if f.Kind < Header || f.Kind > done {
		return f, 0, 0, fmt.Errorf("%w: unknown kind %d", ErrFrame, f.Kind)
	}
	if f.Kind.numbered() {
		v, m := binary.Uvarint(f.Data)
		if m <= 0 || v == 0 || m > 1 && f.Data[m-1] == 0 {
			return f, 0, 0, fmt.Errorf("%w: bad number", ErrFrame)
		}
		f.Number, f.Data = v, f.Data[m:]
	}
	if f.Kind.bare() && len(f.Data) > 0 || len(f.Data) > limit {
		return f, 0, 0, fmt.Errorf("%w: payload of %d bytes", ErrFrame, len(f.Data))
	}
	return f, size, 0, nil
}

// A reader takes frames off a stream, into one buffer that it uses again. The
// buffer grows only as bytes arrive, not by what a length claims.
type reader struct {
	src   io.Reader
	limit int
	buf   []byte // [start:end] is read and not yet returned
	start int
	end   int
}

func newReader(src io.Reader, limit int) *reader {
	return &reader{src: src, limit: limit, buf: make([]byte, readBuffer)}
}

// next returns the next frame and its size on the wire. Its Data is valid until
// the next call. All frames that arrived before an error are returned before it.
func (r *reader) next() (Frame, int, error) {
	for {
		f, size, need, err := parseFrame(r.buf[r.start:r.end], r.limit)
		if err != nil {
			return Frame{}, 0, err
		}
		if size > 0 {
			r.start += size
			return f, size, nil
		}
		if err := r.fill(need); err != nil {
			return Frame{}, 0, err
		}
	}
}

// fill reads once, after it has made room for a frame of need bytes or for
// twice of what is there.
func (r *reader) fill(need int) error {
	held := r.end - r.start
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, held
	}
	if held == 0 && len(r.buf) > keepBuffer {
		r.buf = make([]byte, readBuffer)
	}
	if r.end == len(r.buf) {
		grown := make([]byte, max(min(need, 2*len(r.buf)), len(r.buf)+1))
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil // the error comes again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	if err == io.EOF && held > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}
