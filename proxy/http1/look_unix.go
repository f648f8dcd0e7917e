//go:build unix

package http1

import (
	"io"
	"os"
	"syscall"
)

// initRaw gets at the descriptor of a TCP connection.
func (c *Conn) initRaw() {
	if c.tcp == nil {
		return
	}
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return // closed already; the first read says so
	}
	c.raw, c.rawRead, c.rawLook = raw, c.readOnce, c.lookOnce
}

// awaitRaw waits for bytes and reads them into a buffer that is taken only when
// they are there.
func (c *Conn) awaitRaw() error {
	c.rawErr = nil
	if err := c.raw.Read(c.rawRead); err != nil {
		return err
	}
	return c.rawErr
}

// readOnce is the callback of awaitRaw. It tries before it waits: a readiness
// that came before RawConn.Read began is forgotten by it.
func (c *Conn) readOnce(fd uintptr) bool {
	buf := c.bufs.Get()
	for {
		n, err := syscall.Read(int(fd), buf)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			c.bufs.Put(buf)
			return false
		case err != nil:
			c.rawErr = os.NewSyscallError("read", err)
		case n == 0:
			c.rawErr = io.EOF
		default:
			c.buf, c.w = buf, n
			return true
		}
		c.bufs.Put(buf)
		return true
	}
}

func (c *Conn) lookRaw() Sight {
	if err := c.raw.Control(c.rawLook); err != nil {
		return Closed
	}
	return c.rawSight
}
