package http1

import (
	"bytes"
	"net/http"
)

// A Method is a request method that a rule of ours knows.
type Method uint8

// The methods of RFC 9110 section 9.3 and PATCH (RFC 5789); every other one is
// MethodOther. Methods are case-sensitive.
const (
	MethodOther Method = iota
	MethodGet
	MethodHead
	MethodPost
	MethodPut
	MethodDelete
	MethodConnect
	MethodOptions
	MethodTrace
	MethodPatch
)

// Idempotent reports whether RFC 9110 section 9.2.2 calls the method so.
func (m Method) Idempotent() bool {
	switch m {
	case MethodGet, MethodHead, MethodPut, MethodDelete, MethodOptions, MethodTrace:
		return true
	default:
		return false
	}
}

func lookupMethod(b []byte) Method {
	switch string(b) {
	case http.MethodGet:
		return MethodGet
	case http.MethodHead:
		return MethodHead
	case http.MethodPost:
		return MethodPost
	case http.MethodPut:
		return MethodPut
	case http.MethodDelete:
		return MethodDelete
	case http.MethodConnect:
		return MethodConnect
	case http.MethodOptions:
		return MethodOptions
	case http.MethodTrace:
		return MethodTrace
	case http.MethodPatch:
		return MethodPatch
	}
	return MethodOther
}

// A Form is one of the four forms of a request target (RFC 9112 section 3.2).
type Form uint8

// The forms.
const (
	FormOrigin    Form = iota // /path?query
	FormAbsolute              // http://host/path?query
	FormAuthority             // host:port, CONNECT only
	FormAsterisk              // *, OPTIONS only
)

// A Request is the head of a request and its body. It can be used again for
// the next one; its slices are then overwritten. They alias the connection's
// buffer until [Conn.Release].
type Request struct {
	Head

	Method     Method
	MethodName []byte // as sent
	Form       Form
	Target     []byte // as sent

	// Host is the one host of this request, with port if it was given: that of
	// an absolute target or of CONNECT (which outrank the Host line, RFC 9112
	// sections 3.2.2 and 3.2.3), else that of the Host line. It is empty only in HTTP/1.0 without
	// a Host line.
	Host []byte

	// Path is the path as sent: "/" if an absolute target has none, "*" for
	// the asterisk, empty for the authority form.
	Path []byte

	// Query is the query as sent with its leading '?', or empty.
	Query []byte

	// Minor is the minor version: 0 or 1.
	Minor uint8

	// Close says that the client wants no further request on this connection.
	Close bool

	// ExpectContinue says that the client waits for 100 Continue before it
	// sends the body (RFC 9110 section 10.1.1). False in HTTP/1.0.
	ExpectContinue bool

	// Upgrade says that there is an Upgrade line and that Connection names it.
	Upgrade bool

	// TETrailers says that the client accepts trailers (TE: trailers).
	TETrailers bool

	// Body reads the content. Its framing is known, also if it is empty.
	Body Body

	blanks int     // length of empty lines skipped before the request line
	star   [1]byte // what Path is for OPTIONS with an absolute target without path
}

func (r *Request) reset() {
	r.Head.reset()
	lines := r.Lines
	trailer := r.Body.trailer.Lines
	*r = Request{Head: Head{Lines: lines}}
	r.Body.trailer.Lines = trailer[:0]
}

// Parse parses the head at the start of b, which is all that has been read so
// far: after n = 0 and no error the caller calls it again with the same bytes
// and more; a Request that is used again must have been [Request.Reset]. n is
// the length of the head. The slices of the request alias b. The error is an
// [*Error] or [ErrHTTP2].
//
// Adapters of other protocols use it to get the same checks for their own
// heads; [Conn.ReadRequest] does it for connections.
func (r *Request) Parse(b []byte, lim Limits) (n int, err error) {
	lim = lim.withDefaults()
	return r.parse(b, &lim)
}

func (r *Request) parse(b []byte, lim *Limits) (n int, err error) {
	if r.first == 0 {
		line, ok, e := r.startLine(b)
		if e != nil {
			return 0, e
		}
		if !ok {
			if len(b) >= lim.HeadBytes {
				return 0, errTargetLong
			}
			return 0, nil
		}
		if string(line) == "PRI * HTTP/2.0" {
			return 0, ErrHTTP2
		}
		if e := r.requestLine(line); e != nil {
			return 0, e
		}
		r.first = r.pos
	}
	done, e := r.parseLines(b, lim.HeadLines)
	switch {
	case e != nil:
		return 0, e
	case r.pos > lim.HeadBytes || !done && len(b) >= lim.HeadBytes:
		return 0, errHeadLong
	case !done:
		return 0, nil
	}
	r.buf = b
	if e := r.finish(b); e != nil {
		return 0, e
	}
	return r.pos, nil
}

// Reset makes r ready for the next head. [Conn.ReadRequest] does so itself.
func (r *Request) Reset() { r.reset() }

// Own moves the head into memory of its own, so that it outlives
// [Conn.Release]: for a request whose connection goes on as a tunnel. Its body
// cannot be read any more.
func (r *Request) Own() {
	own := bytes.Clone(r.buf[:r.pos])
	most := len(r.Lines)
	r.reset()
	if _, err := r.Parse(own, Limits{HeadBytes: len(own), HeadLines: max(1, most)}); err != nil {
		panic("http1: a head that was parsed cannot be parsed: " + err.Error())
	}
}

// startLine returns the request line. One empty line before it is skipped, as
// RFC 9112 section 2.2 asks for.
func (r *Request) startLine(b []byte) (line []byte, ok bool, err *Error) {
	line, ok, err = r.nextLine(b)
	if ok && len(line) == 0 && r.blanks == 0 {
		r.blanks = r.pos
		line, ok, err = r.nextLine(b)
	}
	return line, ok, err
}

const maxMethod = 64

// requestLine checks the shape of the line and takes what does not alias it;
// finish does the rest, since the buffer may move until the head is complete.
func (r *Request) requestLine(line []byte) *Error {
	sp := bytes.IndexByte(line, ' ')
	if sp < 0 {
		return errRequestLine
	}
	if sp > maxMethod || !IsToken(line[:sp]) {
		return errMethod
	}
	r.Method = lookupMethod(line[:sp])
	rest := line[sp+1:]
	sp = bytes.IndexByte(rest, ' ')
	if sp < 0 {
		return errNoVersion
	}
	if sp == 0 {
		return errRequestLine
	}
	for _, c := range rest[:sp] {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return errTarget
		}
	}
	v := rest[sp+1:]
	if len(v) != 8 || string(v[:5]) != "HTTP/" || !isDigit(v[5]) || v[6] != '.' || !isDigit(v[7]) {
		return errRequestLine
	}
	if v[5] != '1' || v[7] > '1' {
		return errVersion
	}
	r.Minor = v[7] - '0'
	return nil
}

// finish fills in what the complete head says.
func (r *Request) finish(b []byte) *Error {
	line := b[r.blanks : r.first-2]
	sp := bytes.IndexByte(line, ' ')
	r.MethodName = line[:sp]
	r.Target = line[sp+1 : len(line)-len(" HTTP/1.1")]
	if err := r.splitTarget(); err != nil {
		return err
	}
	f := framer{length: -1}
	var o options
	hosts, names := 0, 0
	for i := range r.Lines {
		var err *Error
		switch r.Lines[i].Name {
		case NameHost:
			hosts++
			err = r.hostLine(i, hosts)
		case NameContentLength:
			err = f.contentLength(r.Value(i))
		case NameTransferEncoding:
			err = f.transferEncoding(r.Value(i))
		case NameConnection:
			err = r.connection(i, &o, &names)
		case NameExpect:
			err = r.expect(i)
		case NameTE:
			r.TETrailers = r.TETrailers || hasItem(r.Value(i), "trailers")
		case NameUpgrade:
			r.Upgrade = true
		default:
		}
		if err != nil {
			return err
		}
	}
	if hosts == 0 && r.Minor > 0 {
		return errNoHost
	}
	if err := f.check(r.Minor); err != nil {
		return err
	}
	r.Upgrade = r.Upgrade && o.upgrade && r.Minor > 0
	// After CONNECT the connection is a tunnel or nothing.
	r.Close = o.close || r.Minor == 0 && !o.keepAlive || r.Method == MethodConnect
	switch {
	case f.chunked:
		r.Body.framing = Chunked
	case f.length > 0:
		r.Body.framing, r.Body.length = Length, f.length
	case f.length == 0:
		r.Body.framing = Length
	}
	return nil
}

func (r *Request) hostLine(i, hosts int) *Error {
	if hosts > 1 {
		return errHosts
	}
	v := r.Value(i)
	if !validHost(v) {
		return errHost
	}
	if len(r.Host) == 0 {
		r.Host = v
	}
	return nil
}

func (r *Request) expect(i int) *Error {
	if r.Minor == 0 {
		return nil // RFC 9110 section 10.1.1: ignored
	}
	if !EqualFold(r.Value(i), "100-continue") {
		return errExpectation
	}
	r.ExpectContinue = true
	return nil
}

func (r *Request) splitTarget() *Error {
	t := r.Target
	switch {
	case r.Method == MethodConnect:
		if !validHost(t) || bytes.LastIndexByte(t, ':') <= bytes.LastIndexByte(t, ']') {
			return errTarget
		}
		r.Form, r.Host = FormAuthority, t
		return nil
	case t[0] == '/':
		r.splitQuery(t)
		return nil
	case len(t) == 1 && t[0] == '*':
		if r.Method != MethodOptions {
			return errTarget
		}
		r.Form, r.Path = FormAsterisk, t
		return nil
	}
	return r.splitAbsolute(t)
}

func (r *Request) splitAbsolute(t []byte) *Error {
	i := bytes.Index(t, []byte("://"))
	if i < 0 {
		return errTarget
	}
	if !EqualFold(t[:i], "http") && !EqualFold(t[:i], "https") {
		return errScheme
	}
	root := t[i+1 : i+2] // a slash that is at hand
	t = t[i+3:]
	end := bytes.IndexAny(t, "/?")
	if end < 0 {
		end = len(t)
	}
	if !validHost(t[:end]) {
		return errTarget
	}
	r.Form, r.Host = FormAbsolute, t[:end]
	t = t[end:]
	switch {
	case len(t) == 0 && r.Method == MethodOptions:
		r.star[0] = '*' // RFC 9112 section 3.2.4
		r.Path = r.star[:]
	case len(t) == 0 || t[0] == '?':
		r.Path, r.Query = root, t
	default:
		r.splitQuery(t)
	}
	return nil
}

func (r *Request) splitQuery(t []byte) {
	r.Path = t
	if i := bytes.IndexByte(t, '?'); i >= 0 {
		r.Path, r.Query = t[:i], t[i:]
	}
}

func hasItem(list []byte, lower string) bool {
	for {
		item, rest := NextItem(list)
		if item == nil {
			return false
		}
		if EqualFold(item, lower) {
			return true
		}
		list = rest
	}
}

// validHost reports whether b is uri-host [ ":" port ] (RFC 9110 section 7.2,
// RFC 3986 section 3.2.2) with a host that is not empty. A zone identifier is
// local to the sender, and refused.
func validHost(b []byte) bool {
	host, port := b, []byte(nil)
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || !validIPLiteral(b[1:end]) {
			return false
		}
		host, port = b[:end+1], b[end+1:]
	} else if i := bytes.IndexByte(b, ':'); i >= 0 {
		host, port = b[:i], b[i:]
	}
	if len(port) > 0 && port[0] != ':' || len(port) > 6 {
		return false
	}
	for i, c := range port {
		if i > 0 && !isDigit(c) {
			return false
		}
	}
	if len(host) == 0 || host[0] == '[' {
		return len(host) > 0
	}
	return validRegName(host)
}

// validIPLiteral is loose: hexadecimal digits, colons and the dots of an IPv4
// tail. Whether it is an address is not our business; that it is one token is.
func validIPLiteral(b []byte) bool {
	if bytes.IndexByte(b, ':') < 0 {
		return false
	}
	for _, c := range b {
		if unhex(c) == 16 && c != ':' && c != '.' {
			return false
		}
	}
	return true
}

// validRegName checks unreserved, sub-delims and percent-encoded bytes.
func validRegName(b []byte) bool {
	for i, c := range b {
		switch {
		case isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z':
		case c == '-' || c == '.' || c == '_' || c == '~':
		case c == '!' || c == '$' || c == '&' || c == '\'' || c == '(' || c == ')' ||
			c == '*' || c == '+' || c == ';' || c == '=':
		case c == '%':
			if i+2 >= len(b) || unhex(b[i+1]) == 16 || unhex(b[i+2]) == 16 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
