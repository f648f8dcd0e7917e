package http1

import (
	"net/http"
	"strconv"
)

// An Out collects a message that is to be sent: a start line, header lines,
// the empty line, and as much of the body as fits. What it holds can be sent
// several times (to one member after another) with [Conn.Write] and
// [Out.Bytes], or once with [Conn.Send].
//
// Its zero value is not usable: [Out.Init]. It takes a buffer with the first
// byte and keeps it until [Out.Free].
type Out struct {
	bufs *Buffers
	b    []byte
}

// Init sets the free list that o takes its buffers from.
func (o *Out) Init(bufs *Buffers) { o.bufs = bufs }

// Bytes returns what was collected. It is valid until o is changed.
func (o *Out) Bytes() []byte { return o.b }

// Len returns how many bytes were collected.
func (o *Out) Len() int { return len(o.b) }

// Room returns how many bytes fit before o needs a longer buffer. Bodies are
// collected only as far as they fit; heads may be longer.
func (o *Out) Room() int {
	if o.b == nil {
		return o.bufs.size
	}
	return cap(o.b) - len(o.b)
}

// Truncate forgets all but the first n bytes.
func (o *Out) Truncate(n int) { o.b = o.b[:n] }

// Free forgets everything and gives the buffer back.
func (o *Out) Free() {
	if o.b != nil {
		o.bufs.Put(o.b)
		o.b = nil
	}
}

// grow makes room for n more bytes.
func (o *Out) grow(n int) {
	switch {
	case o.b == nil && n <= o.bufs.size:
		o.b = o.bufs.Get()[:0]
	case cap(o.b)-len(o.b) >= n:
	default:
		var next []byte
		if need := len(o.b) + n; need <= o.bufs.big {
			next = o.bufs.GetBig()[:0]
		} else {
			next = make([]byte, 0, 2*need) // one long head; Put leaves it to the collector
		}
		next = append(next, o.b...)
		o.Free()
		o.b = next
	}
}

// Raw appends p as it is.
func (o *Out) Raw(p []byte) {
	o.grow(len(p))
	o.b = append(o.b, p...)
}

// RawString appends s as it is.
func (o *Out) RawString(s string) {
	o.grow(len(s))
	o.b = append(o.b, s...)
}

// RequestLine appends the request line for a member: the method, the target in
// origin form (or "*"; the authority of CONNECT), and HTTP/1.1 (RFC 9112
// section 3.2.1, RFC 9110 section 2.5).
func (o *Out) RequestLine(r *Request) {
	o.grow(len(r.MethodName) + len(r.Target) + len("  / HTTP/1.1\r\n"))
	o.b = append(o.b, r.MethodName...)
	o.b = append(o.b, ' ')
	if r.Form == FormAuthority {
		o.b = append(o.b, r.Target...)
	} else {
		o.b = append(o.b, r.Path...)
		o.b = append(o.b, r.Query...)
	}
	o.b = append(o.b, " HTTP/1.1\r\n"...)
}

// StatusLine appends the status line of a reply, in HTTP/1.1 whatever the
// client speaks (RFC 9112 section 2.3). An empty reason is sent as such.
func (o *Out) StatusLine(status int, reason []byte) {
	o.grow(len("HTTP/1.1 200 \r\n") + len(reason))
	o.b = append(o.b, "HTTP/1.1 "...)
	o.b = strconv.AppendInt(o.b, int64(status), 10)
	o.b = append(o.b, ' ')
	o.b = append(o.b, reason...)
	o.b = append(o.b, "\r\n"...)
}

// StatusText appends the status line of a reply of our own.
func (o *Out) StatusText(status int) {
	text := http.StatusText(status)
	o.RawString("HTTP/1.1 ")
	o.b = strconv.AppendInt(o.b, int64(status), 10)
	o.RawString(" ")
	o.RawString(text)
	o.RawString("\r\n")
}

// Lines appends the lines of h that are not marked with Drop, runs of them in
// one copy.
func (o *Out) Lines(h *Head) {
	for i := 0; i < len(h.Lines); {
		if h.Lines[i].Drop {
			i++
			continue
		}
		start := h.Lines[i].start
		for i < len(h.Lines) && !h.Lines[i].Drop {
			i++
		}
		o.Raw(h.buf[start:h.Lines[i-1].end])
	}
}

// Field appends a line of ours. Control bytes in value, which would end the
// line, are sent as blanks (RFC 9110 section 5.5).
func (o *Out) Field(name string, value []byte) {
	o.grow(len(name) + len(value) + 4)
	o.b = append(o.b, name...)
	o.b = append(o.b, ": "...)
	n := len(o.b)
	o.b = append(o.b, value...)
	o.endField(n)
}

// FieldString is Field for a string.
func (o *Out) FieldString(name, value string) {
	o.grow(len(name) + len(value) + 4)
	o.b = append(o.b, name...)
	o.b = append(o.b, ": "...)
	n := len(o.b)
	o.b = append(o.b, value...)
	o.endField(n)
}

// FieldInt is Field for a number.
func (o *Out) FieldInt(name string, value int64) {
	o.grow(len(name) + 20 + 4)
	o.b = append(o.b, name...)
	o.b = append(o.b, ": "...)
	o.b = strconv.AppendInt(o.b, value, 10)
	o.b = append(o.b, "\r\n"...)
}

// Line appends a header line of another protocol, unless name or value cannot stand
// in one; it reports whether they can. What would end the line early is refused and
// not cleaned: somebody tries to say more than one thing.
func (o *Out) Line(name, value []byte) bool {
	if !IsToken(name) || !allText(value) {
		return false
	}
	o.grow(len(name) + len(value) + 4)
	o.b = append(o.b, name...)
	o.b = append(o.b, ": "...)
	o.b = append(o.b, value...)
	o.b = append(o.b, "\r\n"...)
	return true
}

// endField cleans a value that starts at n and ends its line.
func (o *Out) endField(n int) {
	for i := n; i < len(o.b); i++ {
		if !isText(o.b[i]) {
			o.b[i] = ' '
		}
	}
	o.b = append(o.b, "\r\n"...)
}

// EndHead appends the empty line.
func (o *Out) EndHead() { o.RawString("\r\n") }

// FrameRequest appends the line that frames body for a member and returns the
// framing: that of the client, with a Content-Length in its plain form. The
// client's own framing lines must have been dropped.
func (o *Out) FrameRequest(body *Body) Framing {
	o.frame(body.framing, body.length)
	return body.framing
}

// FrameReply appends the line that frames the body of rep for a client that
// speaks HTTP/1.minor, and returns the framing: none for a reply that has no
// body, chunked where the end is not known beforehand, but [UntilClose] for
// HTTP/1.0, which has no chunks: the caller then closes the connection, and
// says so. In the reply to HEAD and in a 304 the member's Content-Length is
// passed on. The member's own framing lines must have been dropped.
func (o *Out) FrameReply(rep *Reply, minor uint8) Framing {
	f := rep.Body.framing
	switch {
	case f == NoBody && rep.ContentLength >= 0:
		o.FieldInt("Content-Length", rep.ContentLength)
		return NoBody
	case f == UntilClose && minor > 0:
		f = Chunked
	case f == Chunked && minor == 0:
		f = UntilClose
	}
	o.frame(f, rep.Body.length)
	return f
}

func (o *Out) frame(f Framing, length int64) {
	switch f {
	case Length:
		o.FieldInt("Content-Length", length)
	case Chunked:
		o.RawString("Transfer-Encoding: chunked\r\n")
	case NoBody, UntilClose:
	}
}

// chunkFrame is the most that one piece needs besides its bytes: sixteen
// digits, two line ends.
const chunkFrame = 20

// Piece appends a piece of a body as f frames it, which must not be empty. The
// caller has made sure that it fits ([Out.Fits]).
func (o *Out) Piece(f Framing, p []byte) {
	if f != Chunked {
		o.Raw(p)
		return
	}
	o.chunkHead(len(p))
	o.Raw(p)
	o.RawString("\r\n")
}

// Fits reports whether n bytes of a body fit, framed.
func (o *Out) Fits(n int) bool { return n+chunkFrame <= o.Room() }

// fitsBig reports whether n bytes of a body are a small piece that fits, framed, into
// a big buffer behind what is there.
func (o *Out) fitsBig(n int) bool {
	return n <= o.bufs.size && len(o.b)+n+chunkFrame <= o.bufs.big
}

func (o *Out) chunkHead(n int) {
	o.grow(chunkFrame)
	o.b = strconv.AppendInt(o.b, int64(n), 16)
	o.b = append(o.b, "\r\n"...)
}

// EndBody appends what ends a body framed by f: for chunks the last one with
// the lines of trailer that are not dropped; trailer may be nil.
func (o *Out) EndBody(f Framing, trailer *Head) {
	if f != Chunked {
		return
	}
	o.RawString("0\r\n")
	if trailer != nil {
		o.Lines(trailer)
	}
	o.RawString("\r\n")
}
