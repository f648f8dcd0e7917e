package http1

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// A Framing says how the end of a body is found (RFC 9112 section 6.3).
type Framing uint8

// The framings.
const (
	NoBody     Framing = iota // there is none, and nothing says so
	Length                    // Content-Length bytes, maybe 0
	Chunked                   // chunks up to one of size 0, then a trailer
	UntilClose                // up to the end of the connection; replies only
)

// Where the reader of a chunked body stands.
type chunkState uint8

const (
	atSize    chunkState = iota // before a chunk-size line
	inData                      // left bytes of data to come
	atDataEnd                   // before the CRLF after the data
	inTrailer                   // after the line of the last chunk
)

// chunkSlack is how many bytes of framing beyond the ordinary a chunked body
// may have in excess of its data, so that nobody makes us read for ever for
// one byte of content.
const chunkSlack = 16 << 10

// A Body reads the content of one message, decoded, from a [Conn]. It is a
// field of [Request] and [Reply]; its zero value is an empty body.
type Body struct {
	c       *Conn
	from    Source // instead of c, see From
	framing Framing
	state   chunkState
	ended   bool
	err     error // why no more can be read; also io.EOF
	length  int64 // Content-Length
	left    int64 // of the length or of the current chunk
	read    int64 // handed out
	slack   int   // see chunkSlack
	trailer Head
}

// start makes the body read from c.
func (b *Body) start(c *Conn) {
	b.c = c
	b.left = b.length
	b.ended = b.framing == NoBody || b.framing == Length && b.length == 0
}

// From has the body read from src, which another protocol frames, instead of from
// the connection. How long it may be is still what the head says: more or less than
// its Content-Length is an error, and what comes where there is no body is thrown
// away. It has ended when src has, even if it is empty.
func (b *Body) From(src Source) {
	b.from, b.left, b.ended = src, b.length, false
}

// external is next for a body of another protocol.
func (b *Body) external() ([]byte, error) {
	for {
		p, err := b.from.Next()
		known := b.framing == Length
		switch {
		case err == io.EOF: //nolint:errorlint // a Source returns it bare
			if known && b.left > 0 {
				return nil, errBodyShort
			}
			b.ended = true
			return nil, io.EOF
		case err != nil:
			return nil, err
		case b.framing == NoBody:
			continue
		case known && int64(len(p)) > b.left:
			return nil, errBodyLong
		case known:
			b.left -= int64(len(p))
		}
		return p, nil
	}
}

// Framing returns how the message frames its body.
func (b *Body) Framing() Framing { return b.framing }

// Length returns the length of the body in bytes if it is known beforehand,
// else -1.
func (b *Body) Length() int64 {
	switch b.framing {
	case NoBody:
		return 0
	case Length:
		return b.length
	default:
		return -1
	}
}

// Ended reports whether the body has been read to its end, trailer included.
// An empty body has ended before it is read.
func (b *Body) Ended() bool { return b.ended }

// Count returns how many bytes of content have been handed out.
func (b *Body) Count() int64 { return b.read }

// Err returns the error that Next returned and will return again, or nil. After
// an interruption or a time-out nothing is lost, and Next can be called again.
func (b *Body) Err() error { return b.err }

// Trailer returns the trailer of a chunked body that has ended. Fields that may
// not stand there (RFC 9110 section 6.5.1) are marked as dropped. It is valid
// as long as the head is.
func (b *Body) Trailer() *Head { return &b.trailer }

// Next returns the next piece of the content, at least one byte. It aliases the
// read buffer and is valid until the next call. It reads from the connection
// only if nothing is buffered ([Body.Ready]).
//
// The error is io.EOF after the last piece, [io.ErrUnexpectedEOF] if the
// connection ended before the body, an [*Error] if the framing is broken,
// [ErrInterrupted], or what the connection says.
func (b *Body) Next() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	p, err := b.next()
	if err != nil {
		if err == io.EOF && !b.ended { //nolint:errorlint // our own reads return it bare
			err = io.ErrUnexpectedEOF
		}
		if !errors.Is(err, ErrInterrupted) && !errors.Is(err, os.ErrDeadlineExceeded) {
			b.err = err
		}
		return nil, err
	}
	b.read += int64(len(p))
	return p, nil
}

func (b *Body) next() ([]byte, error) {
	switch {
	case b.ended:
		return nil, io.EOF
	case b.from != nil:
		return b.external()
	case b.framing == Length:
		p, err := b.data()
		b.ended = err == nil && b.left == 0
		return p, err
	case b.framing == UntilClose:
		b.left = 1<<63 - 1 // whatever comes
		p, err := b.data()
		b.ended = err == io.EOF //nolint:errorlint // our own reads return it bare
		return p, err
	}
	for {
		if b.state == inData {
			p, err := b.data()
			if b.left == 0 {
				b.state = atDataEnd
			}
			return p, err
		}
		more, err := b.frame()
		if err != nil {
			return nil, err
		}
		if b.ended {
			return nil, io.EOF
		}
		if more {
			if err := b.c.fill(); err != nil {
				return nil, err
			}
		}
	}
}

// Ready reports whether Next would return without reading from the connection.
// A caller that combines pieces sends them when it is false.
func (b *Body) Ready() bool {
	if b.ended || b.err != nil {
		return true
	}
	if b.from != nil {
		return b.from.Ready()
	}
	if b.framing != Chunked || b.state == inData {
		return b.c.r < b.c.w
	}
	for b.state != inData && !b.ended {
		more, err := b.frame()
		if err != nil {
			b.err = err
			return true
		}
		if more {
			return false
		}
	}
	return b.ended || b.c.r < b.c.w
}

// data returns what is buffered of the content, reading if that is nothing.
func (b *Body) data() ([]byte, error) {
	c := b.c
	if c.r == c.w {
		if long := int64(c.bufs.big); b.left >= long && (b.framing != UntilClose || b.read >= long) {
			c.widen()
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	n := int(min(b.left, int64(c.w-c.r)))
	p := c.buf[c.r : c.r+n]
	c.r += n
	b.left -= int64(n)
	return p, nil
}

// frame takes one piece of framing from the buffer: the line of a chunk, its
// end, or the trailer. more says that it needs more bytes.
func (b *Body) frame() (more bool, err error) {
	c := b.c
	buf := c.buf[c.r:c.w]
	var n int
	var e *Error
	switch b.state {
	case atSize:
		n, e = b.sizeLine(buf)
	case atDataEnd:
		switch {
		case len(buf) > 0 && buf[0] != '\r', len(buf) > 1 && buf[1] != '\n':
			e = errChunkEnd
		case len(buf) > 1:
			n, b.state = 2, atSize
		}
	case inTrailer:
		n, e = b.readTrailer(buf)
	default:
		panic("http1: frame called inside data")
	}
	if e != nil {
		return false, c.fault(e)
	}
	c.r += n
	return n == 0, nil
}

// sizeLine reads "1a;name=value" CRLF. Extensions are checked and ignored, as
// RFC 9112 section 7.1.1 asks for; blanks are not allowed anywhere, since
// readers differ about them.
func (b *Body) sizeLine(buf []byte) (n int, err *Error) {
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		if len(buf) >= b.c.lim.ChunkLine {
			return 0, errChunkLong
		}
		end = len(buf) // look at what is there, to refuse garbage at once
	} else {
		if end+1 > b.c.lim.ChunkLine {
			return 0, errChunkLong
		}
		if end == 0 || buf[end-1] != '\r' {
			return 0, errChunkSize
		}
		n = end + 1
		end--
	}
	size, i := int64(0), 0
	for ; i < end && buf[i] != ';'; i++ {
		d := unhex(buf[i])
		if d == 16 {
			if n == 0 && buf[i] == '\r' && i == end-1 && i > 0 {
				return 0, nil // its line feed is still to come
			}
			return 0, errChunkSize
		}
		if size >= 1<<58 {
			return 0, errChunkSize
		}
		size = size<<4 | int64(d)
	}
	if n == 0 {
		return 0, nil
	}
	if i == 0 || i > 16 {
		return 0, errChunkSize
	}
	if !allText(buf[i:end]) {
		return 0, errChunkExt
	}
	// Each chunk may bring its line, as long as it brings data as well.
	b.slack = max(0, b.slack+n-16-int(min(size, chunkSlack)))
	if b.slack > chunkSlack {
		return 0, errChunkPadding
	}
	b.left, b.state = size, inData
	if size == 0 {
		b.state = inTrailer
		b.trailer.reset()
	}
	return n, nil
}

// readTrailer parses the trailer in place; it is taken from the buffer only
// when it is complete, so that its lines stay together.
func (b *Body) readTrailer(buf []byte) (n int, err *Error) {
	done, err := b.trailer.parseLines(buf, b.c.lim.HeadLines)
	switch {
	case err != nil:
		return 0, err
	case b.trailer.pos > b.c.lim.TrailerBytes || !done && len(buf) >= b.c.lim.TrailerBytes:
		return 0, errTrailerLong
	case !done:
		return 0, nil
	}
	b.trailer.buf = buf
	for i := range b.trailer.Lines {
		l := &b.trailer.Lines[i]
		l.Drop = !l.Name.trailing() || !l.Alias.trailing()
	}
	b.ended = true
	return b.trailer.pos, nil
}

// Discard reads the rest of the body and throws it away. It returns
// [ErrTooLong] when more than limit bytes of content are left, as soon as that
// is known; with a known length nothing is read in that case.
func (b *Body) Discard(limit int64) error {
	if !b.ended && b.framing == Length && b.left > limit {
		return ErrTooLong
	}
	for !b.ended {
		p, err := b.Next()
		if err == io.EOF { //nolint:errorlint // Next returns it bare
			return nil
		}
		if err != nil {
			return err
		}
		if limit -= int64(len(p)); limit < 0 {
			return ErrTooLong
		}
	}
	return nil
}

// Read makes a Body an io.Reader, for those who need one. It is not for a body of
// another protocol.
func (b *Body) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	piece, err := b.Next()
	if err != nil {
		return 0, err
	}
	n := copy(p, piece)
	b.unread(len(piece) - n)
	return n, nil
}

// unread gives the last n bytes of the piece that Next returned back.
func (b *Body) unread(n int) {
	if n == 0 {
		return
	}
	b.c.r -= n
	b.left += int64(n)
	b.read -= int64(n)
	b.ended = false
	if b.framing == Chunked {
		b.state = inData
	}
}
