package urimap

import "bytes"

// Normalise returns the normal form of a decoded path (mod_jk.md 5.5): without
// path parameters, which go from ';' to the next '/' or the end; without empty
// segments and "." ones; with ".." segments resolved. A path that is normal
// already is returned as it is; otherwise the result is in dst[:0], which is
// grown if it has no room. Dst may be path[:0], or nil.
//
// It is not ok, and the answer is 400, if path does not begin with '/' or goes
// above the root.
func Normalise(dst, path []byte) (normal []byte, ok bool) {
	if len(path) == 0 || path[0] != '/' {
		return dst[:0], false
	}
	if isNormal(path) {
		return path, true
	}
	return resolve(dst, path, true)
}

// isNormal reports whether a path that begins with '/' is its own normal form.
func isNormal(path []byte) bool {
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case ';':
			return false
		case '/', '.':
			if path[i-1] == '/' && isDots(path[i:]) {
				return false
			}
		}
	}
	return true
}

// isPlain reports whether a path as received is its own normal form, and has
// nothing that could be read in two ways.
func isPlain(path []byte) bool {
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case ';', '%', '\\', 0:
			return false
		case '/', '.':
			if path[i-1] == '/' && isDots(path[i:]) {
				return false
			}
		}
	}
	return true
}

// isDots reports whether the segment at the start of rest is ".", ".." or, with
// another segment behind it, empty.
func isDots(rest []byte) bool {
	n := 0
	for n < len(rest) && n < 2 && rest[n] == '.' {
		n++
	}
	return n == len(rest) || rest[n] == '/'
}

// resolve brings a path that begins with '/' into normal form, in dst[:0], which
// may be path[:0]. A ';' begins a parameter only if params is set.
func resolve(dst, path []byte, params bool) ([]byte, bool) {
	dst = append(dst[:0], '/')
	for rest := path[1:]; len(rest) > 0; {
		segment, more := rest, false
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			segment, rest, more = rest[:i], rest[i+1:], true
		} else {
			rest = nil
		}
		if params {
			segment, _, _ = bytes.Cut(segment, []byte{';'})
		}
		// Dst ends with '/' here, and never reaches beyond what has been read.
		switch string(segment) {
		case "", ".":
		case "..":
			if len(dst) == 1 {
				return dst[:0], false
			}
			dst = dst[:bytes.LastIndexByte(dst[:len(dst)-1], '/')+1]
		default:
			dst = append(dst, segment...)
			if more {
				dst = append(dst, '/')
			}
		}
	}
	return dst, true
}

// A reading is one of the ways in which servers read a path. They differ in what
// three things mean, and a path that has none of them has only one reading. The
// zero value is how Tomcat and net/http read.
type reading uint8

const (
	// Parameters are cut after decoding, as mod_jk does, so that %3B begins one
	// and %2F ends one. Tomcat cuts them before.
	decodedParams reading = 1 << iota
	// %2F separates segments. Otherwise it is a part of one.
	decodedSlash
	// A backslash separates segments, as on Windows.
	backslash
)

// survey checks the escapes of a path and returns in which respects it can be
// read in several ways. The outcome is Mapped if it has to be read.
func (m *Map) survey(path []byte) (reading, Outcome) {
	if len(path) == 1 && path[0] == '*' {
		return 0, Unmapped
	}
	if len(path) == 0 || path[0] != '/' {
		return 0, Malformed
	}
	var doubts reading
	var params, unsafe bool
	for i := 0; i < len(path); {
		c, n := byteAt(path, i)
		encoded := n > 1
		switch {
		case n == 0 || c == 0:
			return 0, Malformed
		case c == '/' && encoded:
			doubts |= decodedSlash
		case c == ';' && encoded:
			doubts |= decodedParams
		case c == ';':
			params = true
		case c == '\\':
			doubts |= backslash
			unsafe = true
		case c == '%':
			unsafe = true
		}
		i += n
	}
	switch {
	case doubts&decodedSlash != 0 && !m.encodedSlashes:
		return 0, EncodedSlash
	case unsafe && m.rejectUnsafe:
		return 0, Unsafe
	}
	if params && doubts != 0 {
		doubts |= decodedParams // what ends a parameter is in doubt
	}
	return doubts, Mapped
}

// byteAt returns the byte that is written at path[i], and in how many bytes: one,
// or three for an escape, or none for an escape that is broken.
func byteAt(path []byte, i int) (c byte, n int) {
	if path[i] != '%' {
		return path[i], 1
	}
	if i+2 >= len(path) {
		return 0, 0
	}
	high, low := hex(path[i+1]), hex(path[i+2])
	if high > 15 || low > 15 {
		return 0, 0
	}
	return high<<4 | low, 3
}

// hex returns the value of a hexadecimal digit, or 255.
func hex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}

// normalForm decodes a path that survey has accepted and brings it into normal
// form, in dst[:0], which must not overlap path.
func normalForm(dst, path []byte, r reading) ([]byte, bool) {
	dst = dst[:0]
	inParam := false
	for i := 0; i < len(path); {
		c, n := byteAt(path, i)
		i += n
		encoded := n > 1
		switch {
		case c == '/' && encoded && r&decodedSlash == 0:
			if !inParam {
				dst = append(dst, "%2F"...)
			}
			continue
		case c == '/' && !encoded:
			inParam = false
		case c == '/', c == '\\' && r&backslash != 0:
			c = '/'
			inParam = inParam && r&decodedParams == 0
		case c == ';' && (!encoded || r&decodedParams != 0):
			inParam = true
		}
		if !inParam {
			dst = append(dst, c)
		}
	}
	return resolve(dst, dst, false)
}
