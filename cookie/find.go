package cookie

import (
	"bytes"
	"fmt"
	"strings"
)

// Bounds of one Find. They are stated in the package comment.
const (
	maxScan   = 64 << 10 // bytes of the path, and of the cookie lines
	maxVerify = 8        // values whose signature is computed
	maxRoutes = 64       // calls of usable
	maxDots   = 16       // suffixes of one value
	maxTail   = 255      // bytes at the end of a value in which routes begin
)

// A Reference is what a request says about its session.
//
// With Signed, the view is what the signed value says, and the value was ours.
// Without, it is a hint that any client can make up: Primary is a route that is
// usable, Secondary one that a ranked list names next (usually none), ID what
// stands before them. If no route was usable, Primary is empty and ID is the
// first candidate as it was received.
type Reference struct {
	View

	// Signed tells that the value has verified.
	Signed bool

	// FromPath tells that the value stood in the path, not in a cookie. While
	// Primary is empty it is false.
	FromPath bool

	// Present tells that there was a candidate at all, usable or not. An empty
	// value is none.
	Present bool

	// Forged counts the values that look signed and did not verify: changed,
	// cut, signed with a key that is not ours, or one more than is checked in a
	// request. It is for a metric; the values are passed over. Once a value has
	// verified the rest is not looked at.
	Forged int
}

// FinderConfig sets up a [Finder].
type FinderConfig struct {
	// Cookie is the name of the session cookie, mod_jk's session_cookie. If
	// empty, it is JSESSIONID. Case matters.
	Cookie string

	// Param is the name of the path parameter, mod_jk's session_path. A ';' in
	// front, as mod_jk has it, may be left out. If empty, it is jsessionid.
	// Case matters.
	Param string

	// Codec verifies signed values. If nil, only plain ones are read.
	Codec *Codec
}

// A Finder finds the session that a request names. It is safe for concurrent use.
type Finder struct {
	cookie, param []byte
	codec         *Codec
}

// NewFinder returns the finder that cfg describes. It fails if a name has
// characters that cannot stand where the name is looked for.
func NewFinder(cfg FinderConfig) (*Finder, error) {
	if cfg.Cookie == "" {
		cfg.Cookie = "JSESSIONID"
	}
	cfg.Param = strings.TrimPrefix(cfg.Param, ";")
	if cfg.Param == "" {
		cfg.Param = "jsessionid"
	}
	if i := strings.IndexFunc(cfg.Cookie, notToken); i >= 0 {
		return nil, fmt.Errorf("cookie: FinderConfig.Cookie %q has a character that a cookie's name cannot have (RFC 6265 section 4.1.1)", cfg.Cookie)
	}
	if i := strings.IndexFunc(cfg.Param, notParam); i >= 0 {
		return nil, fmt.Errorf("cookie: FinderConfig.Param %q has a character that a path parameter's name cannot have (RFC 3986 section 3.3)", cfg.Param)
	}
	return &Finder{cookie: []byte(cfg.Cookie), param: []byte(cfg.Param), codec: cfg.Codec}, nil
}

// notToken is RFC 9110 section 5.6.2.
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// notParam allows what may stand in a path segment and ends no name.
func notParam(r rune) bool {
	return r >= 0x80 || !isUnreserved(byte(r)) && !strings.ContainsRune("!$&'()*+,:@", r)
}

// Find looks for the session of a request. path is the request target as it was
// received; a query in it is not searched. cookies are the values of the Cookie
// lines, in order. usable tells whether a plain route leads to a member that may
// get the request; it is called with slices it must not retain, and nil is the
// same as one that always says no.
//
// The order is that of design D1: the first cookie that verifies; else the first
// path parameter that does; else the plain candidates in mod_jk's order, which is
// the path parameters of all segments and then all cookies, and the first of them
// that names a usable route. So a stale id in a bookmark does not hide a good
// cookie.
//
// How a candidate is cut out (spec peers 4A): pairs end at ';' even between
// quotes; a value in quotes is read without them, one with a single quote is
// not; the whole value counts before the part in front of a comma. A path
// parameter ends at ';', '/' or '?' and is percent-decoded. In a plain value
// every suffix behind a dot is a route, the longest first; one that is not
// usable and has ':' is a ranked list.
//
// A line of cookies that a proxy joined with commas is read too, but what
// follows a comma is only a plain candidate, never a signed one: a cookie whose
// value a stranger chose must not be able to bring a session along.
//
// Find allocates nothing. The reference points into path, cookies and s.
func (f *Finder) Find(path []byte, cookies [][]byte, usable func(route []byte) bool, s *Scratch) Reference {
	q := search{usable: usable, scratch: s, codec: f.codec}
	path, _ = cut(clip(path, maxScan), '?')
	if f.codec != nil && (f.signedCookie(cookies, &q) || f.signedParam(path, &q)) {
		return q.ref
	}
	if !f.plainParam(path, &q) {
		f.plainCookie(cookies, &q)
	}
	return q.ref
}

// FindStrings is Find for a request whose strings come from net/http: the
// escaped path or the request target, and Header["Cookie"]. It copies them into
// s, and allocates only to make s large enough.
func (f *Finder) FindStrings(path string, cookies []string, usable func(route []byte) bool, s *Scratch) Reference {
	size := min(len(path), maxScan)
	for _, line := range cookies {
		size += len(line)
	}
	if size = min(size, 2*maxScan); cap(s.text) < size {
		s.text = make([]byte, 0, size)
	}
	s.text = append(s.text[:0], path[:min(len(path), maxScan)]...)
	target := s.text
	s.lines = s.lines[:0]
	for _, line := range cookies {
		n := len(s.text)
		s.text = append(s.text, line[:min(len(line), cap(s.text)-n)]...)
		s.lines = append(s.lines, s.text[n:])
	}
	return f.Find(target, s.lines, usable, s)
}

// clip returns the first n bytes of b.
func clip(b []byte, n int) []byte { return b[:min(len(b), n)] }

func (f *Finder) signedCookie(cookies [][]byte, q *search) bool {
	left := maxScan
	for _, line := range cookies {
		line = clip(line, left)
		left -= len(line)
		for pair, rest := cut(line, ';'); pair != nil; pair, rest = cut(rest, ';') {
			v, ok := f.value(pair)
			if !ok || len(v) == 0 {
				continue
			}
			whole := unquote(v)
			if q.signed(whole) {
				return true
			}
			forged := q.looksSigned(whole)
			if first, _, ok := bytes.Cut(v, []byte{','}); ok {
				first = unquote(trim(first))
				if q.signed(first) {
					return true
				}
				forged = forged || q.looksSigned(first)
			}
			if forged {
				q.ref.Forged++
			}
		}
	}
	return false
}

func (f *Finder) signedParam(path []byte, q *search) bool {
	for p := (params{rest: path, name: f.param}); p.next(); {
		if q.signed(p.value) {
			q.ref.FromPath = true
			return true
		}
		if q.looksSigned(p.value) {
			q.ref.Forged++
		}
	}
	return false
}

func (f *Finder) plainParam(path []byte, q *search) bool {
	for p := (params{rest: path, name: f.param}); p.next(); {
		v := p.value
		if bytes.IndexByte(v, '%') >= 0 {
			v = unescape(q.scratch.buf[:], v)
		}
		if q.plain(v, p.value) {
			q.ref.FromPath = true
			return true
		}
	}
	return false
}

func (f *Finder) plainCookie(cookies [][]byte, q *search) {
	left := maxScan
	for _, line := range cookies {
		line = clip(line, left)
		left -= len(line)
		for pair, rest := cut(line, ';'); pair != nil; pair, rest = cut(rest, ';') {
			if v, ok := f.value(pair); ok {
				if v = unquote(v); q.plain(v, v) {
					return
				}
			}
			if bytes.IndexByte(pair, ',') < 0 {
				continue
			}
			for part, more := cut(pair, ','); part != nil; part, more = cut(more, ',') {
				if v, ok := f.value(part); ok {
					if v = unquote(v); q.plain(v, v) {
						return
					}
				}
			}
		}
	}
}

// value returns what pair says about the session cookie, and false if it is
// about another one.
func (f *Finder) value(pair []byte) ([]byte, bool) {
	pair = trim(pair)
	if !bytes.HasPrefix(pair, f.cookie) {
		return nil, false
	}
	pair = trim(pair[len(f.cookie):])
	if len(pair) == 0 || pair[0] != '=' {
		return nil, false
	}
	return trim(pair[1:]), true
}

// cut splits b at the first sep. The part is nil behind the end.
func cut(b []byte, sep byte) (part, rest []byte) {
	if i := bytes.IndexByte(b, sep); i >= 0 {
		return b[:i:i], b[i+1:]
	}
	return b, nil
}

// trim drops the white space of RFC 9110 section 5.6.3 at both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// unquote drops a pair of quotes. A backslash means nothing: no value of ours
// has one, and mod_jk takes it as it stands.
func unquote(b []byte) []byte {
	if len(b) > 1 && b[0] == '"' && b[len(b)-1] == '"' {
		return b[1 : len(b)-1]
	}
	return b
}

// unescape writes src to dst with its percent-encoding undone (RFC 3986 section
// 2.1), once. What is no encoding stays. It returns nil if that is longer than dst.
func unescape(dst, src []byte) []byte {
	n := 0
	for i := 0; i < len(src); i++ {
		if n == len(dst) {
			return nil
		}
		c := src[i]
		if c == '%' && i+2 < len(src) {
			if hi, lo := unhex(src[i+1]), unhex(src[i+2]); hi|lo < 16 {
				c = hi<<4 | lo
				i += 2
			}
		}
		dst[n] = c
		n++
	}
	return dst[:n]
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return notDigit
}

// A search is one Find under way.
type search struct {
	ref     Reference
	usable  func(route []byte) bool
	scratch *Scratch
	codec   *Codec
	hashed  int // values whose signature was computed
	asked   int // calls of usable
}

// signed tries v as a signed value. A client or something before us may have
// percent-encoded it, '=' above all; no signed value has a '%' of its own.
func (q *search) signed(v []byte) bool {
	if len(v) > 0 {
		q.ref.Present = true
	}
	if q.hashed == maxVerify {
		return false
	}
	if bytes.IndexByte(v, '%') >= 0 {
		v = unescape(q.scratch.buf[:], v)
	}
	view, hashed, ok := q.codec.verify(v, q.scratch)
	if hashed {
		q.hashed++
	}
	if ok {
		q.ref.View, q.ref.Signed = view, true
	}
	return ok
}

// looksSigned reports whether v, which did not verify, was meant to, as it
// stands or percent-encoded.
func (q *search) looksSigned(v []byte) bool {
	digit := &q.codec.base64.digit
	return beginsWithTime(digit, v) ||
		bytes.IndexByte(v, '%') >= 0 && beginsWithTime(digit, unescape(q.scratch.buf[:], v))
}

// beginsWithTime reports whether v is long enough for a signed value and begins
// as a time between 2001 and 2096 does in base64, give or take one byte, so that
// it does not matter which byte of a good value was changed. A plain id that is
// long enough passes for it once in some thousand.
func beginsWithTime(digit *[256]byte, v []byte) bool {
	if len(v) < minSigned {
		return false
	}
	// Three digits of ASCII, 0011dddd, the first of them 1, 2 or 3, are the bits
	// 001100 dd0011 dddd00 11dddd.
	match := 0
	if v[0] == 'M' {
		match++
	}
	if v[1] == 'T' || v[1] == 'j' || v[1] == 'z' {
		match++
	}
	if d := digit[v[2]]; d < 40 && d&3 == 0 {
		match++
	}
	if d := digit[v[3]]; 48 <= d && d < 58 {
		match++
	}
	return match >= 3
}

// plain tries v as id.route. raw is v as it was received.
func (q *search) plain(v, raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	if q.ref.ID == nil {
		q.ref.ID = raw
	}
	q.ref.Present = true
	if len(v) > MaxLength {
		return false
	}
	first, dots := len(v), 0
	for i := len(v) - 1; i >= max(0, len(v)-1-maxTail) && dots < maxDots; i-- {
		if v[i] == '.' {
			first = i
			dots++
		}
	}
	for i := first; i < len(v); i++ {
		if v[i] == '.' && q.route(v[i+1:]) {
			q.ref.ID = v[:i]
			return true
		}
	}
	return false
}

// route tries r as one route, then as a list of them joined by ':', best first
// (peers A25). The next usable one of the list is taken for the secondary.
func (q *search) route(r []byte) bool {
	if q.ask(r) {
		q.ref.Primary = r
		return true
	}
	if bytes.IndexByte(r, ':') < 0 {
		return false
	}
	for rank, rest := cut(r, ':'); rank != nil; rank, rest = cut(rest, ':') {
		if !q.ask(rank) {
			continue
		}
		if q.ref.Primary != nil {
			if !bytes.Equal(rank, q.ref.Primary) {
				q.ref.Secondary = rank
				return true
			}
			continue
		}
		q.ref.Primary = rank
	}
	return q.ref.Primary != nil
}

func (q *search) ask(route []byte) bool {
	if q.usable == nil || len(route) == 0 || q.asked == maxRoutes {
		return false
	}
	q.asked++
	return q.usable(route)
}
