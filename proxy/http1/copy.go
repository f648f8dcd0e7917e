package http1

import (
	"errors"
	"io"
	"time"
)

// A Source hands out a body piece by piece. [Body] is one; the adapter of
// another protocol may be another.
type Source interface {
	// Next returns the next piece, at least one byte, valid until the next
	// call, or io.EOF after the last one.
	Next() ([]byte, error)
	// Ready reports whether Next would return without waiting.
	Ready() bool
	// Trailer returns the lines to send after a chunked body, once Next has
	// returned io.EOF. Nil means none.
	Trailer() *Head
}

// Write sends p within the write time-out. n is how many bytes the operating
// system took; with n = 0 nothing was sent.
func (c *Conn) Write(p []byte) (n int, err error) {
	if err := c.armWrite(); err != nil {
		return 0, err
	}
	return c.nc.Write(p)
}

// Send writes what out holds and empties it; its buffer stays with it. After an
// error nothing sensible is left in it.
func (c *Conn) Send(out *Out) error {
	if out.Len() == 0 {
		return nil
	}
	_, err := c.Write(out.b)
	out.Truncate(0)
	return err
}

// CopyBody sends what out holds and then the content of src, framed by f,
// which out's head has announced. Small pieces are combined in out, long ones
// are sent from where they were read; whenever src would wait, everything is
// sent first, so a stream is not held back. In the end out is empty.
//
// n is the number of bytes of content sent or collected. rerr is why src ended
// early and werr why this connection failed; at most one of them is set.
func (c *Conn) CopyBody(out *Out, f Framing, src Source) (n int64, rerr, werr error) {
	for {
		if !src.Ready() {
			if werr = c.Send(out); werr != nil {
				return n, nil, werr
			}
			if n >= longBody {
				out.Free() // it may be a big one, and the wait long
			}
		}
		p, err := src.Next()
		if err == io.EOF { //nolint:errorlint // a Source returns it bare, as an io.Reader does
			out.EndBody(f, src.Trailer())
			return n, nil, c.Send(out)
		}
		if err != nil {
			_ = c.Send(out) // what came before the fault is the client's
			return n, err, nil
		}
		n += int64(len(p))
		if f == NoBody {
			continue // a body where none was announced: nobody may see it
		}
		if out.Fits(len(p)) || n >= longBody && out.fitsBig(len(p)) {
			out.Piece(f, p)
		} else if werr = c.sendWith(out, f, p); werr != nil {
			return n, nil, werr
		}
	}
}

// longBody is how much of a body has to have come before its small pieces are
// combined in a big buffer, for fewer system calls.
const longBody = 64 << 10

// sendWith sends what out holds and p, framed, in one system call where the
// connection can.
func (c *Conn) sendWith(out *Out, f Framing, p []byte) error {
	if err := c.armWrite(); err != nil {
		return err
	}
	v := c.vec[:0]
	if f == Chunked {
		out.chunkHead(len(p))
	}
	if out.Len() > 0 {
		v = append(v, out.b)
	}
	v = append(v, p)
	if f == Chunked {
		// The line end lies in out's buffer, behind what is sent of it.
		n := out.Len()
		out.RawString("\r\n")
		v[0] = out.b[:n]
		v = append(v, out.b[n:])
	}
	c.writev = v
	_, err := c.writev.WriteTo(c.nc)
	clear(c.vec[:])
	out.Truncate(0)
	return err
}

// Linger closes the connection so that the peer can read what was last sent to
// it although it is still sending: our side is closed, and what comes is thrown
// away until the peer closes too, or limit bytes, or d is over. Without that a
// reset would overtake the reply (RFC 9112 section 9.6; peers.md C17).
func (c *Conn) Linger(limit int64, d time.Duration) error {
	defer func() { _ = c.nc.Close() }() // there is nobody left to tell
	defer c.Release()
	switch err := c.CloseWrite(); {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	c.pin, c.r, c.w = 0, 0, 0
	c.SetReadDeadline(time.Now().Add(d))
	for limit > 0 {
		if err := c.fill(); err != nil {
			return nil // the end that was waited for, of whatever kind
		}
		limit -= int64(c.w)
		c.r, c.w = 0, 0
	}
	return nil
}
