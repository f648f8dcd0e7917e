package http1

// A Reply is the head of a reply and its body. It can be used again for the
// next one. Its slices alias the connection's buffer until [Conn.Release].
type Reply struct {
	Head

	// Status is the status code, 100 to 999.
	Status int

	// Reason is the reason phrase as sent, maybe empty.
	Reason []byte

	// Minor is the minor version: 0 or 1.
	Minor uint8

	// Close says that the connection ends with this reply: the member said so,
	// or only the end of the connection ends the body, or the framing is such
	// that nothing after it can be trusted.
	Close bool

	// ContentLength is the value of the Content-Length line, or -1. In the
	// reply to HEAD, and in a 304, it describes a body that is not sent; a
	// proxy may pass it on. It is -1 where the line has no meaning (1xx, 204).
	ContentLength int64

	// Body reads the content. After a 101 it is empty, and what follows on the
	// connection is another protocol ([Conn.Detach]).
	Body Body
}

// Interim reports whether a final reply is still to come: every 1xx but 101.
func (r *Reply) Interim() bool { return r.Status < 200 && r.Status != 101 }

// Switched reports whether the member has left HTTP/1.1 (101, RFC 9110 section
// 15.2.2).
func (r *Reply) Switched() bool { return r.Status == 101 }

func (r *Reply) reset() {
	r.Head.reset()
	lines := r.Lines
	trailer := r.Body.trailer.Lines
	*r = Reply{Head: Head{Lines: lines}, ContentLength: -1}
	r.Body.trailer.Lines = trailer[:0]
}

// Reset makes r ready for the next head. [Conn.ReadReply] does so itself.
func (r *Reply) Reset() { r.reset() }

// Parse parses the head at the start of b, as [Request.Parse] does. to is the
// method of the request that it answers: to HEAD there is no body. The error
// is an [*Error] with status 502.
func (r *Reply) Parse(b []byte, to Method, lim Limits) (n int, err error) {
	lim = lim.withDefaults()
	n, e := r.parse(b, to, &lim)
	if e != nil {
		return 0, badReply(e)
	}
	return n, nil
}

func (r *Reply) parse(b []byte, to Method, lim *Limits) (int, *Error) {
	if r.first == 0 {
		line, ok, err := r.nextLine(b)
		switch {
		case err != nil:
			return 0, err
		case !ok && notStatusLine(b):
			return 0, errStatusLine // what is no HTTP at all need not have a line end
		case !ok && len(b) >= lim.HeadBytes:
			return 0, errHeadLong
		case !ok:
			return 0, nil
		}
		if err := r.statusLine(line); err != nil {
			return 0, err
		}
		r.first = r.pos
	}
	done, err := r.parseLines(b, lim.HeadLines)
	switch {
	case err != nil:
		return 0, err
	case r.pos > lim.HeadBytes || !done && len(b) >= lim.HeadBytes:
		return 0, errHeadLong
	case !done:
		return 0, nil
	}
	r.buf = b
	r.Reason = b[min(len("HTTP/1.1 200 "), r.first-2) : r.first-2]
	return r.pos, r.finish(to)
}

func notStatusLine(b []byte) bool {
	const start = "HTTP/1."
	n := min(len(b), len(start))
	return string(b[:n]) != start[:n]
}

// statusLine reads "HTTP/1.1 200 reason". The reason, and the blank before an
// empty one, may be absent: members leave them out, and nothing hangs on them.
func (r *Reply) statusLine(line []byte) *Error {
	if len(line) < len("HTTP/1.1 200") || notStatusLine(line) ||
		line[7] != '0' && line[7] != '1' || line[8] != ' ' {
		return errStatusLine
	}
	for _, c := range line[9:12] {
		if !isDigit(c) {
			return errStatusLine
		}
		r.Status = r.Status*10 + int(c-'0')
	}
	if r.Status < 100 {
		return errStatus
	}
	if len(line) > 12 && line[12] != ' ' {
		return errStatusLine
	}
	if !allText(line[12:]) {
		return errControl
	}
	r.Minor = line[7] - '0'
	return nil
}

func (r *Reply) finish(to Method) *Error {
	f := framer{length: -1}
	var o options
	names := 0
	for i := range r.Lines {
		var err *Error
		switch r.Lines[i].Name {
		case NameContentLength:
			err = f.contentLength(r.Value(i))
		case NameTransferEncoding:
			err = f.transferEncoding(r.Value(i))
		case NameConnection:
			err = r.connection(i, &o, &names)
		default:
		}
		if err != nil {
			return err
		}
	}
	if err := f.check(r.Minor); err != nil {
		return err
	}
	r.Close = o.close || r.Minor == 0 && !o.keepAlive
	r.ContentLength = f.length
	switch {
	case r.Status < 200 || r.Status == 204:
		// RFC 9110 section 8.6, RFC 9112 section 6.1: neither line may be
		// there. If it is, a body may follow that nobody asked for.
		r.ContentLength = -1
		r.Close = r.Close || f.chunked || f.length > 0
	case to == MethodHead || r.Status == 304:
	case f.chunked:
		r.Body.framing = Chunked
	case f.length >= 0:
		r.Body.framing, r.Body.length = Length, f.length
	default:
		r.Body.framing, r.Close = UntilClose, true
	}
	return nil
}
