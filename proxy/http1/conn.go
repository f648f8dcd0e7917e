package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// A Conn reads and writes messages over a net.Conn. It is the only type here
// that knows the network.
//
// One goroutine at a time may use the reading side (Await, ReadRequest,
// ReadReply, Release, Recycle, Detach, Look, Forward, the bodies) and one the writing side (Write,
// Send, CloseWrite); they may be different ones. Interrupt, Close, Abort and
// NetConn may be called by anybody.
type Conn struct {
	nc   net.Conn
	tcp  *net.TCPConn    // nc, if it is one
	raw  syscall.RawConn // of tcp; nil where the descriptor is out of reach
	bufs *Buffers
	lim  Limits

	// The reading side. Unread is buf[r:w]. buf[:pin] is in use by a head or a
	// trailer. held is a buffer that a head was left in because the rest of it
	// became too small to read into.
	buf       []byte
	r, w, pin int
	held      []byte
	client    bool // reads replies: faults are a member's
	one       [1]byte
	rawRead   func(fd uintptr) bool // readOnce, bound once
	rawLook   func(fd uintptr)      // lookOnce, bound once
	rawErr    error
	rawSight  Sight

	readTimeout  time.Duration
	writeTimeout time.Duration
	absolute     time.Time // a deadline instead of readTimeout; zero for none
	readBy       deadline
	writeBy      deadline
	interrupted  atomic.Bool

	vec    [3][]byte
	writev net.Buffers
}

// ConnConfig is what all connections of a listener or member share.
type ConnConfig struct {
	// Buffers is where buffers come from. It must be set.
	Buffers *Buffers

	// Limits bounds the messages read.
	Limits Limits

	// ReadTimeout is the longest silence while something is read; see
	// [Conn.SetReadTimeout]. If zero, there is no limit.
	ReadTimeout time.Duration

	// WriteTimeout is the longest time one write may take. If zero, there is
	// no limit.
	WriteTimeout time.Duration
}

// NewConn wraps nc. It sets no option of nc and holds no buffer yet.
func NewConn(nc net.Conn, cfg ConnConfig) *Conn {
	c := &Conn{
		nc: nc, bufs: cfg.Buffers, lim: cfg.Limits.withDefaults(),
		readTimeout: cfg.ReadTimeout, writeTimeout: cfg.WriteTimeout,
	}
	c.lim.HeadBytes = min(c.lim.HeadBytes, c.bufs.big)
	c.lim.ChunkLine = min(c.lim.ChunkLine, c.bufs.size/2)
	c.lim.TrailerBytes = min(c.lim.TrailerBytes, c.bufs.size/2)
	c.tcp, _ = nc.(*net.TCPConn)
	c.initRaw()
	return c
}

// NetConn returns the connection underneath, for its addresses and options.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Buffered returns the number of bytes read from the network and not consumed.
func (c *Conn) Buffered() int { return c.w - c.r }

// Await waits until there is something to read, holding no buffer meanwhile,
// and reads it. It is a [Conn.Release] as well: the last head cannot be used
// afterwards. It returns at once if something is buffered. The error is io.EOF
// if the peer has closed the connection.
func (c *Conn) Await() error {
	c.Release()
	if c.r < c.w {
		return nil
	}
	if err := c.armRead(); err != nil {
		return err
	}
	if c.raw != nil {
		return c.readErr(c.awaitRaw())
	}
	n, err := c.nc.Read(c.one[:])
	if n == 0 {
		return c.readErr(noProgress(err))
	}
	c.buf = c.bufs.Get()
	c.buf[0], c.w = c.one[0], 1
	return nil
}

// noProgress is err, or what a read of nothing without an error comes to.
func noProgress(err error) error {
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// ReadRequest reads the next request into req. The slices of req and its body
// are valid until [Conn.Release] or the next request. The body of the request
// before must have ended.
//
// The error is io.EOF if the connection ended before the first byte, an
// [*Error] with the status to answer, [ErrHTTP2], [ErrInterrupted],
// [io.ErrUnexpectedEOF], or what the connection says.
func (c *Conn) ReadRequest(req *Request) error {
	c.Release()
	req.reset()
	for {
		if c.r < c.w {
			n, err := req.parse(c.buf[c.r:c.w], &c.lim)
			if err != nil {
				return err
			}
			if n > 0 {
				c.take(n)
				req.Body.start(c)
				return nil
			}
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

// ReadReply reads the next reply head into rep, which answers a request with
// method to. After an interim reply ([Reply.Interim]) it is called again. All
// else is as in [Conn.ReadRequest].
func (c *Conn) ReadReply(rep *Reply, to Method) error {
	c.Release()
	c.client = true
	rep.reset()
	for {
		if c.r < c.w {
			n, err := rep.parse(c.buf[c.r:c.w], to, &c.lim)
			if err != nil {
				return badReply(err)
			}
			if n > 0 {
				c.take(n)
				rep.Body.start(c)
				return nil
			}
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

// take consumes a head of n bytes and pins it.
func (c *Conn) take(n int) {
	c.r += n
	c.pin = c.r
}

// more reads on inside a head.
func (c *Conn) more() error {
	begun := c.r < c.w
	err := c.fill()
	if begun && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Release ends the use of the last head, body and trailer. The buffer goes back
// unless something unread is in it.
func (c *Conn) Release() {
	c.pin = 0
	if c.held != nil {
		c.bufs.Put(c.held)
		c.held = nil
	}
	if c.r == c.w && c.buf != nil {
		c.bufs.Put(c.buf)
		c.buf, c.r, c.w = nil, 0, 0
	}
}

// Detach gives the connection away, for another protocol: nc, and a copy of
// what was read from it and not consumed. The Conn must not be used afterwards.
func (c *Conn) Detach() (nc net.Conn, rest []byte) {
	if c.r < c.w {
		rest = append(rest, c.buf[c.r:c.w]...)
		c.r = c.w
	}
	c.Release()
	_ = c.nc.SetDeadline(time.Time{}) // a connection that is broken says so to its next user
	return c.nc, rest
}

// Recycle gives all buffers back, also with something unread: the connection has
// been closed, or is about to be, and nothing is read from it any more. It is for
// who reads.
func (c *Conn) Recycle() {
	c.r = c.w
	c.Release()
}

// Close closes the connection. A read or write in progress ends with an error.
// The buffers go back with [Conn.Recycle], by who reads.
func (c *Conn) Close() error { return c.nc.Close() }

// minRead is the smallest room worth a read.
const minRead = 2 << 10

// Unread returns what was read and not consumed, for a reader of another protocol.
// It is valid until the next read.
func (c *Conn) Unread() []byte { return c.buf[c.r:c.w] }

// Skip consumes the first n bytes of Unread.
func (c *Conn) Skip(n int) { c.r += n }

// More reads on behind what is unread, which a big buffer of [Buffers] must have
// room for. If long, a big one is taken for what comes. The error is io.EOF if the
// peer has closed the connection.
func (c *Conn) More(long bool) error {
	if long && c.r == c.w {
		c.widen()
	}
	return c.fill()
}

// fill reads once more behind what is unread.
func (c *Conn) fill() error {
	c.room()
	if err := c.armRead(); err != nil {
		return err
	}
	n, err := c.nc.Read(c.buf[c.w:])
	if n > 0 {
		c.w += n
		return nil // an error will come again
	}
	return c.readErr(noProgress(err))
}

// room makes room for a read. What is pinned stays where it is.
func (c *Conn) room() {
	if c.buf == nil {
		c.buf = c.bufs.Get()
		return
	}
	if c.r == c.w {
		c.r, c.w = c.pin, c.pin
	}
	if len(c.buf)-c.w >= minRead {
		return
	}
	unread := c.w - c.r
	switch {
	case c.pin == 0 && c.r >= minRead:
		copy(c.buf, c.buf[c.r:c.w])
	case c.pin > 0 && c.held == nil:
		next := c.bufs.Get()
		if len(next)-unread < minRead {
			c.bufs.Put(next)
			next = c.bufs.GetBig()
		}
		copy(next, c.buf[c.r:c.w])
		c.held, c.buf, c.pin = c.buf, next, 0
	case c.pin == 0 && len(c.buf) < c.bufs.big:
		next := c.bufs.GetBig()
		copy(next, c.buf[c.r:c.w])
		c.bufs.Put(c.buf)
		c.buf = next
	default:
		if c.w < len(c.buf) {
			return // the little that is left has to do
		}
		copy(c.buf[c.pin:], c.buf[c.r:c.w])
		c.r, c.w = c.pin, c.pin+unread
		return
	}
	c.r, c.w = 0, unread
}

// widen takes a big buffer for what is read next, when nothing is unread: long
// bodies take fewer system calls then.
func (c *Conn) widen() {
	if len(c.buf) == c.bufs.big || c.pin > 0 && c.held != nil {
		return
	}
	if c.pin > 0 {
		c.held = c.buf
	} else if c.buf != nil {
		c.bufs.Put(c.buf)
	}
	c.buf, c.pin, c.r, c.w = c.bufs.GetBig(), 0, 0, 0
}

// fault turns e into what this side calls it.
func (c *Conn) fault(e *Error) error {
	if c.client {
		return badReply(e)
	}
	return e
}

// readErr names an interruption.
func (c *Conn) readErr(err error) error {
	if err != nil && c.interrupted.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrInterrupted
	}
	return err
}
