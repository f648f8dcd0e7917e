package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// SpoolConfig says how much of requests is kept until a member has answered, so
// that another member can be sent the same (design D8). What is longer can be sent
// once only.
type SpoolConfig struct {
	// Memory is how many bytes of a request, its head and framing included, are
	// kept in memory. If zero, it is 64 KiB; less than 4 KiB counts as 4 KiB.
	Memory int

	// PerRequest is how many bytes of one body, and Total how many of all that are
	// under way, may be kept in files beyond that. If zero, they are 16 MiB and
	// 256 MiB. If either is negative there are no files.
	PerRequest, Total int64

	// Dir is the directory of the files. They have no name there after they were
	// made, so that nothing is left behind whatever happens. If empty, it is that
	// of [os.TempDir].
	Dir string
}

// What zero means in SpoolConfig.
const (
	defaultKept    = 64 << 10
	leastKept      = 4 << 10
	defaultSpooled = 16 << 20
	defaultSpool   = 256 << 20
)

// errSpool is a body that cannot be read back.
var errSpool = errors.New("proxy: the spool")

// A spool is the files of all requests under way. That a body is not spooled, for
// whatever reason, is no error: the request just cannot be sent again.
type spool struct {
	most, total int64
	create      func() (*os.File, error)
	log         zerolog.Logger

	used    atomic.Int64 // bytes in files
	refused atomic.Uint64
	full    seldom // that the limit of all holds somebody back
	failed  atomic.Uint64
	broken  atomic.Bool // the last that was logged is that it failed
}

func newSpool(cfg SpoolConfig, log zerolog.Logger) *spool {
	return &spool{
		most: max(0, cmp.Or(cfg.PerRequest, defaultSpooled)), total: max(0, cmp.Or(cfg.Total, defaultSpool)), log: log,
		create: func() (*os.File, error) { return createUnnamed(cfg.Dir) },
	}
}

// createUnnamed makes a file that has no name any more.
func createUnnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "understudy-body-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// A spooled is what the spool has of one request. Its zero value has nothing, and
// holds no file.
type spooled struct {
	s *spool
	f *os.File
	n int64
}

// add appends p and reports whether that worked. If not, there is nothing any
// more.
func (d *spooled) add(p []byte) bool {
	n := int64(len(p))
	if used := d.s.used.Add(n); used > d.s.total || d.n+n > d.s.most {
		d.s.used.Add(-n)
		d.s.refused.Add(1)
		if d.n+n <= d.s.most && d.s.full.due() {
			d.s.log.Warn().Int64("limit", d.s.total).Msg("spool full")
		}
		d.free()
		return false
	}
	d.n += n // what free gives back
	err := d.write(p, d.n-n)
	if err != nil {
		d.free()
		d.s.failed.Add(1)
		if d.s.broken.CompareAndSwap(false, true) {
			d.s.log.Warn().Err(err).Msg("spool failed")
		}
		return false
	}
	if d.s.broken.Load() && d.s.broken.CompareAndSwap(true, false) {
		d.s.log.Info().Msg("spool works again")
	}
	return true
}

func (d *spooled) write(p []byte, at int64) error {
	if d.f == nil {
		var err error
		if d.f, err = d.s.create(); err != nil {
			return err
		}
	}
	_, err := d.f.WriteAt(p, at)
	return err
}

// read fills p with what lies at offset at.
func (d *spooled) read(p []byte, at int64) error {
	if _, err := d.f.ReadAt(p, at); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	return nil
}

// free gives everything back.
func (d *spooled) free() {
	if d.n == 0 {
		return // as mostly: the count is shared by all requests
	}
	d.s.used.Add(-d.n)
	d.n = 0
	if d.f != nil {
		_ = d.f.Close() // nobody wants what is in it
		d.f = nil
	}
}

// A rest is the part of a request's body that has no room in memory, as the pump
// sends it: what the spool has of it already, then what the client still sends,
// which goes to the spool as well, behind the member's back. It is an
// [http1.Source].
//
// A disk that is slow makes an upload slow: each piece is written before the next
// one is read. Files are written through the system's cache, so that takes a disk
// with more to write than its machine has memory for.
type rest struct {
	x    *exchange
	at   int64  // how much of the spool was read
	buf  []byte // for that
	last []byte // the piece that was handed out last, if it is not spooled yet
	held bool   // last was read and not handed out
}

// Next returns the next piece.
func (r *rest) Next() ([]byte, error) {
	x := r.x
	x.pump.touch()
	if r.held {
		r.held = false
		return r.last, nil
	}
	r.store()
	if r.at < x.spooled.n {
		return r.again()
	}
	r.release()
	piece, err := x.pump.next(x)
	if err != nil {
		return nil, err
	}
	r.last = piece
	return piece, nil
}

// again returns a piece of the spool.
func (r *rest) again() ([]byte, error) {
	if r.buf == nil {
		r.buf = r.x.p.bufs.GetBig()
	}
	p := r.buf[:min(int64(len(r.buf)), r.x.spooled.n-r.at)]
	if err := r.x.spooled.read(p, r.at); err != nil {
		return nil, err
	}
	r.at += int64(len(p))
	return p, nil
}

// store spools the last piece, unless nobody will want it again.
func (r *rest) store() {
	p, x := &r.x.pump, r.x
	if !p.spilled && p.settled.Load() && r.at >= x.spooled.n {
		p.spilled = true
		x.spooled.free()
		r.at = 0
	}
	if len(r.last) > 0 && !p.spilled {
		p.spilled = !x.spooled.add(r.last)
		r.at = x.spooled.n
	}
	r.last, r.held = nil, false
}

// Trailer returns the client's trailer.
func (r *rest) Trailer() *http1.Head { return r.x.in.Trailer() }

// release gives the buffer back.
func (r *rest) release() {
	if r.buf != nil {
		r.x.p.bufs.Put(r.buf)
		r.buf = nil
	}
}

// Ready reports whether Next would not wait for the client.
func (r *rest) Ready() bool { return r.held || r.at < r.x.spooled.n || r.x.in.Ready() }
