package http1

// The bytes of a token (RFC 9110 section 5.6.2) as two halves of a bit set.
const (
	tokenLow = 1<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.' |
		0x3ff<<'0'
	tokenHigh = 0x3ffffff<<('A'-64) | 0x3ffffff<<('a'-64) |
		1<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) | 1<<('|'-64) | 1<<('~'-64)
)

func isToken(c byte) bool {
	if c < 64 {
		return uint64(tokenLow)>>c&1 != 0
	}
	return c < 128 && uint64(tokenHigh)>>(c-64)&1 != 0
}

// IsToken reports whether b is a token (RFC 9110 section 5.6.2).
func IsToken(b []byte) bool {
	for _, c := range b {
		if !isToken(c) {
			return false
		}
	}
	return len(b) > 0
}

// isText reports whether c may stand in a field value: no control byte but the
// horizontal tab (RFC 9110 section 5.5).
func isText(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

// IsText reports whether b may stand in a field value or be a reason phrase.
func IsText(b []byte) bool { return allText(b) }

func allText(b []byte) bool {
	for _, c := range b {
		if !isText(c) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// unhex returns the value of a hexadecimal digit, or 16.
func unhex(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// EqualFold reports whether b is lower, ignoring the case of ASCII letters in
// b. The caller writes lower in lower case.
func EqualFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func equalFoldBytes(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		d := b[i]
		if c == d {
			continue
		}
		if c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z' {
			return false
		}
	}
	return true
}

// trim takes blanks and tabs off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// NextItem cuts the first item off a comma-separated list (RFC 9110 section
// 5.6.1), without the blanks around it. Empty items are skipped; the item is
// nil if there is none left. Quoted strings are not known: for lists of tokens.
func NextItem(list []byte) (item, rest []byte) {
	for len(list) > 0 {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		item = trim(list[:i])
		list = list[min(i+1, len(list)):]
		if len(item) > 0 {
			return item, list
		}
	}
	return nil, nil
}

// parseLength reads the number of a Content-Length: digits only, leading zeros
// allowed, at most 2^63-1.
func parseLength(b []byte) (int64, bool) {
	var n int64
	for _, c := range b {
		if !isDigit(c) || n > (1<<63-1-int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}
