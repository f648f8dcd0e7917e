package accesslog

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text is a line under way.
type text struct {
	b    []byte
	json bool
}

const (
	digits = "0123456789abcdef"
	cut    = "..." // at the end of a field that is too long
)

// put appends at most limit bytes of p, escaped.
func (t *text) put(p []byte, limit int) { escape(t, p, limit) }

// puts is put for a string.
func (t *text) puts(s string, limit int) { escape(t, s, limit) }

func escape[T []byte | string](t *text, p T, limit int) {
	long := len(p) > limit
	if long {
		p = p[:limit]
	}
	done := 0
	for i := 0; i < len(p); {
		c := p[i]
		if plain(c) {
			i++
			continue
		}
		t.b = append(t.b, p[done:i]...)
		width := 1
		switch {
		case c < utf8.RuneSelf:
			t.ascii(c)
		case !t.json:
			t.hex(c)
		default:
			var r rune
			r, width = utf8.DecodeRuneInString(string(p[i:min(i+utf8.UTFMax, len(p))]))
			t.rune(r)
		}
		i += width
		done = i
	}
	t.b = append(t.b, p[done:]...)
	if long {
		t.b = append(t.b, cut...)
	}
}

// plain reports whether c stands for itself in every format.
func plain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// orDash is put for a quoted field that may be missing.
func (t *text) orDash(p []byte) {
	if len(p) == 0 {
		t.b = append(t.b, '-')
		return
	}
	t.put(p, maxLong)
}

// bare appends p for a field without quotes, which ends at a blank.
func (t *text) bare(p []byte, limit int) {
	if len(p) == 0 {
		t.b = append(t.b, '-')
		return
	}
	for _, c := range p[:min(len(p), limit)] {
		if c <= ' ' || c == '"' || c >= utf8.RuneSelf {
			t.hex(c)
		} else {
			t.ascii(c)
		}
	}
}

// ascii appends one byte below 0x80.
func (t *text) ascii(c byte) {
	switch {
	case plain(c):
		t.b = append(t.b, c)
	case c == '"' || c == '\\':
		t.b = append(t.b, '\\', c)
	case t.json:
		t.rune(rune(c))
	default:
		t.hex(c)
	}
}

// hex appends a byte as Apache does.
func (t *text) hex(c byte) { t.b = append(t.b, '\\', 'x', digits[c>>4], digits[c&15]) }

// rune appends r as JSON escapes it: so it does not matter which of them a
// terminal obeys. What is not UTF-8 is U+FFFD.
func (t *text) rune(r rune) {
	if r > 0xffff {
		hi, lo := utf16.EncodeRune(r)
		t.rune(hi)
		t.rune(lo)
		return
	}
	t.b = append(t.b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
