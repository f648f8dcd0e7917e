//go:build unix && !linux

package http1

import (
	"errors"

	"golang.org/x/sys/unix"
)

// lookOnce is the callback of lookRaw. Go's sockets do not block.
func (c *Conn) lookOnce(fd uintptr) {
	n, _, err := unix.Recvfrom(int(fd), c.one[:], unix.MSG_PEEK)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		c.rawSight = Quiet
	case err != nil || n == 0:
		c.rawSight = Closed
	default:
		c.rawSight = Readable
	}
}
