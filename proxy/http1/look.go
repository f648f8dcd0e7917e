package http1

import (
	"errors"
	"os"
	"time"
)

// A Sight is what [Conn.Look] finds on a connection that should be quiet.
type Sight uint8

// The sights.
const (
	Quiet    Sight = iota // open, nothing to read
	Readable              // bytes nobody has asked for, or a reply already
	Closed                // closed or broken by the peer
)

// Look looks at the connection without waiting and without consuming anything.
// It tells a kept connection that the peer has closed from one that can be
// used: design D8 wants it before each write. Over TCP it is one recv with
// MSG_PEEK. Over another net.Conn it is a read that may take a nanosecond: in a
// synctest bubble that finds what has arrived on an in-memory connection, and
// in the world it finds nothing.
func (c *Conn) Look() Sight {
	switch {
	case c.r < c.w:
		return Readable
	case c.raw != nil:
		return c.lookRaw()
	}
	if err := c.readBy.exact(time.Now().Add(time.Nanosecond), c.nc.SetReadDeadline); err != nil {
		return Closed
	}
	n, err := c.nc.Read(c.one[:])
	if n > 0 {
		c.room()
		c.buf[c.w] = c.one[0]
		c.w++
		return Readable
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Quiet
	}
	return Closed
}
