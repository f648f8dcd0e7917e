package pipenet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxInFlight bounds the bytes of one direction that were written and not yet
// read: the send and receive buffers of both kernels. A writer past it waits.
const maxInFlight = 256 << 10

// A segment is what travels in one piece: bytes, or the end of them.
type segment struct {
	data     []byte
	at       time.Time // not here before
	fin, rst bool
}

// A flow is one direction of a connection.
type flow struct {
	net      *Net
	way      link
	src, dst *conn

	// Guarded by net.mu.
	queue  []segment // on the wire, in order
	ready  []byte    // arrived and not read
	wire   int       // bytes in queue
	eof    bool      // a fin arrived
	timing bool      // a timer will call advance
}

// send puts s on the wire. net.mu must be held.
func (f *flow) send(s segment) {
	s.at = f.net.leaves(f.way, len(s.data)).Add(f.net.latency)
	f.queue = append(f.queue, s)
	f.wire += len(s.data)
	f.net.flows[f] = struct{}{}
	f.advance()
}

// advance delivers what may arrive now. net.mu must be held.
func (f *flow) advance() {
	for len(f.queue) > 0 {
		if f.net.isCut(f.way.from, f.way.to) {
			return // Heal calls again
		}
		s := f.queue[0]
		if wait := time.Until(s.at); wait > 0 {
			f.wakeIn(wait)
			return
		}
		f.queue = f.queue[1:]
		f.wire -= len(s.data)
		f.arrive(s)
	}
	f.queue = nil
	delete(f.net.flows, f)
}

// wakeIn calls advance later, unless that is arranged already. net.mu must be
// held.
func (f *flow) wakeIn(d time.Duration) {
	if f.timing {
		return
	}
	f.timing = true
	time.AfterFunc(d, func() {
		f.net.mu.Lock()
		defer f.net.mu.Unlock()
		f.timing = false
		f.advance()
	})
}

// arrive is what the kernel of the receiver does. net.mu must be held.
func (f *flow) arrive(s segment) {
	dst := f.dst
	switch {
	case s.rst:
		dst.reset = true
		dst.out.drop()
	case dst.reset:
	case s.fin:
		f.eof = true
	case dst.closed:
		dst.out.send(segment{rst: true}) // nobody will read this
	default:
		f.ready = append(f.ready, s.data...)
	}
	dst.cond.Broadcast()
	f.src.cond.Broadcast()
}

// drop forgets what is on the wire. net.mu must be held.
func (f *flow) drop() {
	f.queue, f.wire = nil, 0
	delete(f.net.flows, f)
}

// A conn is one end of a connection: a net.Conn with CloseWrite.
type conn struct {
	host          *Host
	local, remote *net.TCPAddr
	in, out       *flow
	cond          *sync.Cond // on net.mu, which guards what follows

	closed  bool // by this side
	halved  bool // CloseWrite was called
	reset   bool // by the other side
	reading deadline
	writing deadline
}

// Read is net.Conn's. It returns syscall.ECONNRESET after a reset, once what
// arrived before it has been read.
func (c *conn) Read(b []byte) (int, error) {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	for ; ; c.cond.Wait() {
		switch {
		case c.host.frozen:
		case c.closed:
			return 0, opError("read", "tcp", c.local, c.remote, net.ErrClosed)
		case c.reading.passed():
			return 0, opError("read", "tcp", c.local, c.remote, os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case len(c.in.ready) > 0:
			n := copy(b, c.in.ready)
			if c.in.ready = c.in.ready[n:]; len(c.in.ready) == 0 {
				c.in.ready = nil
			}
			c.in.src.cond.Broadcast()
			return n, nil
		case c.reset:
			return 0, opError("read", "tcp", c.local, c.remote, syscall.ECONNRESET)
		case c.in.eof:
			return 0, io.EOF
		}
	}
}

// Write is net.Conn's. It returns as soon as the bytes are in the buffer: that
// they were sent says nothing about whether they arrive.
func (c *conn) Write(b []byte) (int, error) {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	done := 0
	for ; ; c.cond.Wait() {
		switch {
		case c.host.frozen:
			continue
		case c.closed:
			return done, opError("write", "tcp", c.local, c.remote, net.ErrClosed)
		case c.writing.passed():
			return done, opError("write", "tcp", c.local, c.remote, os.ErrDeadlineExceeded)
		case c.reset:
			return done, opError("write", "tcp", c.local, c.remote, syscall.ECONNRESET)
		case c.halved:
			return done, opError("write", "tcp", c.local, c.remote, syscall.EPIPE)
		}
		if n := min(len(b)-done, maxInFlight-c.out.wire-len(c.out.ready)); n > 0 {
			c.out.send(segment{data: append([]byte(nil), b[done:done+n]...)})
			done += n
		}
		if done == len(b) {
			return done, nil
		}
	}
}

// CloseWrite ends the bytes of this side; the other reads io.EOF, and may still
// write.
func (c *conn) CloseWrite() error {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	if c.closed {
		return opError("close", "tcp", c.local, c.remote, net.ErrClosed)
	}
	c.host.unlessFrozen(func() {
		if !c.closed && !c.halved && !c.reset {
			c.halved = true
			c.out.send(segment{fin: true})
			c.cond.Broadcast()
		}
	})
	return nil
}

// Close is net.Conn's. With bytes that arrived and were not read it resets the
// connection, as Linux does.
func (c *conn) Close() error {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	if c.closed {
		return opError("close", "tcp", c.local, c.remote, net.ErrClosed)
	}
	c.host.unlessFrozen(func() {
		switch {
		case len(c.in.ready) > 0:
			c.end(segment{rst: true})
		case c.halved:
			c.end(segment{})
		default:
			c.end(segment{fin: true})
		}
	})
	return nil
}

// abort resets the connection. net.mu must be held.
func (c *conn) abort() { c.end(segment{rst: true}) }

// end closes this side and tells the other by last. net.mu must be held.
func (c *conn) end(last segment) {
	if c.closed {
		return
	}
	c.closed = true
	c.reading.stop()
	c.writing.stop()
	c.in.ready = nil
	delete(c.host.conns, c)
	if !c.reset && (last.fin || last.rst) {
		c.out.send(last)
	}
	c.cond.Broadcast()
	c.in.src.cond.Broadcast()
}

// LocalAddr is net.Conn's, a *net.TCPAddr.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is net.Conn's, a *net.TCPAddr.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is net.Conn's.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.reading, &c.writing) }

// SetReadDeadline is net.Conn's.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.reading) }

// SetWriteDeadline is net.Conn's.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writing) }

func (c *conn) setDeadlines(t time.Time, ds ...*deadline) error {
	c.cond.L.Lock()
	defer c.cond.L.Unlock()
	if c.closed {
		return opError("set", "tcp", c.local, c.remote, net.ErrClosed)
	}
	for _, d := range ds {
		d.set(t, c.cond)
	}
	return nil
}

// A deadline is when to give up waiting; zero is never.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set moves the deadline and wakes who waits on cond, now and when it passes.
// The lock of cond must be held.
func (d *deadline) set(t time.Time, cond *sync.Cond) {
	d.stop()
	d.at = t
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			cond.L.Lock()
			defer cond.L.Unlock()
			cond.Broadcast()
		})
	}
	cond.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
