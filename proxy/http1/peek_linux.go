package http1

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// lookOnce is the callback of lookRaw. It is a raw system call because it never
// blocks, and because unix.Recvfrom allocates an address that TCP does not have.
func (c *Conn) lookOnce(fd uintptr) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&c.one[0])), 1,
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		c.rawSight = Quiet
	case errno != 0 || n == 0:
		c.rawSight = Closed
	default:
		c.rawSight = Readable
	}
}
