package accesslog

import "bytes"

// path appends a path without the parameters of its segments, one of which is
// the session; which one, every application decides for itself. A link that was
// copied from somewhere may have its semicolon encoded.
func (t *text) path(p []byte) {
	p, room := p[:min(len(p), maxLong+1)], maxLong
	for len(p) > 0 {
		end := semicolon(p)
		t.put(p[:end], room)
		if room -= end; room < 0 {
			return
		}
		next := bytes.IndexByte(p[end:], '/')
		if next < 0 {
			return
		}
		p = p[end+next:]
	}
}

// semicolon returns where the first one is, or len(p). It may be encoded, and
// that again, any number of times: %3B, %253B.
func semicolon(p []byte) int {
	if bytes.IndexByte(p, ';') < 0 && bytes.IndexByte(p, '%') < 0 {
		return len(p)
	}
	for i, c := range p {
		if c == ';' {
			return i
		}
		if c != '%' {
			continue
		}
		rest := p[i+1:]
		for len(rest) > 2 && rest[0] == '2' && rest[1] == '5' {
			rest = rest[2:]
		}
		if len(rest) > 1 && rest[0] == '3' && lower(rest[1]) == 'b' {
			return i
		}
	}
	return len(p)
}

// query appends a query, in which a session's value, if it stands under one of
// names, is replaced by "-" up to the next "&". The name is found wherever it
// stands: a page to log in at gets the link to go on with as a parameter, encoded
// once or more.
func (t *text) query(p []byte, names []string) {
	p, room := p[:min(len(p), maxLong+1)], maxLong
	for len(p) > 0 && room >= 0 {
		start, end := session(p, names)
		t.put(p[:end], room)
		room -= end
		if start == len(p) {
			return
		}
		p = p[end:]
		next := bytes.IndexByte(p, '&')
		if next < 0 {
			next = len(p)
		}
		if next > 0 {
			t.b = append(t.b, "=-"...)
		}
		p = p[next:]
	}
}

// session returns where in p the first of names begins and ends; both are len(p)
// if none is there.
func session(p []byte, names []string) (start, end int) {
	for i := range p {
		for _, name := range names {
			if n := named(p[i:], name); n > 0 && (len(name) >= telling || i == 0 || !wordByte(p[i-1]) || escaped(p[:i])) {
				return i, i + n
			}
		}
	}
	return len(p), len(p)
}

// telling is the length from which a name is taken for the session's also in the
// middle of a word: it stands there behind a separator that was encoded twice.
const telling = 6

// named returns the length of name at the beginning of p, in any case and
// percent-encoded or not, if the word ends with it; otherwise 0.
func named(p []byte, name string) int {
	n := 0
	for i := range len(name) {
		if n == len(p) {
			return 0
		}
		c, width := p[n], 1
		if c == '%' && n+2 < len(p) {
			c, width = unhex(p[n+1])<<4|unhex(p[n+2]), 3
		}
		if lower(c) != name[i] {
			return 0
		}
		n += width
	}
	if n < len(p) && wordByte(p[n]) {
		return 0
	}
	return n
}

// escaped reports whether p ends with a percent-encoded byte.
func escaped(p []byte) bool { return len(p) >= 3 && p[len(p)-3] == '%' }

func wordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= lower(c) && lower(c) <= 'z' || c == '_'
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// unhex returns the value of a hexadecimal digit, or any other number.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}

// referer appends the link that the client says it has followed, or "-": like a
// path, and like a query if queries are logged, and without a password.
func (t *text) referer(p []byte, names []string, query bool) {
	if len(p) == 0 {
		t.b = append(t.b, '-')
		return
	}
	link, rest := p, []byte(nil)
	if i := bytes.IndexByte(p, '?'); i >= 0 {
		link, rest = p[:i], p[i:]
	}
	if i := bytes.Index(link, []byte("://")); i >= 0 {
		host := link[i+3:]
		if end := bytes.IndexByte(host, '/'); end >= 0 {
			host = host[:end]
		}
		if at := bytes.LastIndexByte(host, '@'); at >= 0 {
			t.put(link[:i+3], maxShort)
			link = link[i+3+at+1:]
		}
	}
	t.path(link)
	if query {
		t.query(rest, names)
	}
}
