package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Forward is one step of a tunnel, in one direction: it waits until the peer has
// sent something and sends that to dst as it is, without knowing what it means.
// While it waits over TCP it holds no buffer. What was read with the last head
// comes first. It is a [Conn.Release] as well: the last head cannot be used
// afterwards.
//
// It is part of the reading side of c and the writing side of dst; the time-outs
// are c's read time-out and dst's write time-out. n is the number of bytes that
// dst has taken. rerr is why c cannot be read, io.EOF if its peer has ended its
// side, and werr why dst cannot be written to; at most one of them is set.
func (c *Conn) Forward(dst *Conn) (n int64, rerr, werr error) {
	if err := c.awaitAny(); err != nil {
		c.Release()
		return 0, err, nil
	}
	full := c.w == len(c.buf)
	m, werr := dst.Write(c.buf[c.r:c.w])
	c.r = c.w
	c.Release()
	if werr != nil || !full || !canSplice || c.tcp == nil || dst.tcp == nil {
		return int64(m), nil, werr
	}
	n, rerr, werr = c.splice(dst)
	return int64(m) + n, rerr, werr
}

// awaitAny waits until something is unread. Where the descriptor is out of reach
// it holds a buffer: Await would get one byte at a time.
func (c *Conn) awaitAny() error {
	c.Release()
	switch {
	case c.r < c.w:
		return nil
	case c.raw != nil:
		return c.Await()
	}
	return c.fill()
}

// canSplice says that the kernel can move bytes from one TCP connection to
// another by itself (splice(2), by way of net.TCPConn.ReadFrom).
const canSplice = runtime.GOOS == "linux"

// How much, and for how long, is spliced before Forward returns: whoever calls it
// looks after idleness, and a tunnel that has become quiet must not hold a pipe.
const (
	spliceBytes = 4 << 20
	spliceTime  = time.Second
)

// splice lets the kernel pass on what comes. Its time-out for reads is no error.
func (c *Conn) splice(dst *Conn) (n int64, rerr, werr error) {
	if err := c.readBy.exact(time.Now().Add(spliceTime), c.nc.SetReadDeadline); err != nil {
		return 0, err, nil
	}
	if c.interrupted.Load() {
		return 0, ErrInterrupted, nil // by whom the deadline has overwritten
	}
	if err := dst.armWrite(); err != nil {
		return 0, nil, err
	}
	n, err := dst.tcp.ReadFrom(&io.LimitedReader{R: c.tcp, N: spliceBytes})
	switch {
	case err == nil:
		return n, nil, nil // the end, if that was it, will be read again
	case !errors.Is(err, os.ErrDeadlineExceeded):
		if errors.Is(err, syscall.EPIPE) {
			return n, nil, err
		}
		return n, err, nil // of either side: the system does not say
	case c.interrupted.Load():
		return n, ErrInterrupted, nil
	case dst.writeTimeout > 0 && !time.Now().Before(dst.writeBy.at):
		return n, nil, err
	}
	return n, nil, nil
}

// CloseWrite ends our side of the connection: the peer reads to the end of what
// was sent, and may still send. The error is [errors.ErrUnsupported] if the
// connection cannot be ended by halves.
func (c *Conn) CloseWrite() error {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Abort closes the connection so that the peer sees that it was broken off, where
// that can be told: over TCP by a reset. It may be called by anybody, as Close.
func (c *Conn) Abort() error {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it cannot be told, it cannot
	}
	return c.nc.Close()
}
