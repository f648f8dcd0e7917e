package status

import (
	"strconv"
	"strings"
)

// params are what a status worker was asked, by name (mod_jk.md 6.1).
type params map[string]string

// parse adds what stands in a query, or in a form. A parameter without '=' is
// none, and of several with one name the last counts. What would be markup in
// mod_jk's pages becomes '@', as there.
func (q params) parse(query string) {
	for part := range strings.SplitSeq(query, "&") {
		name, value, ok := strings.Cut(part, "=")
		if ok && name != "" {
			q[clean(name)] = clean(value)
		}
	}
}

var unsafeBytes = strings.NewReplacer("<", "@", ">", "@", "?", "@", `"`, "@") //nolint:gochecknoglobals // a read-only table

// clean decodes a name or a value. An escape that is none stays as it is.
func clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s):
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c = byte(n)
				i += 2
			}
		}
		if c < ' ' || c == 0x7f {
			c = '@' // it would be a line of its own in a log or a file
		}
		b.WriteByte(c)
	}
	return unsafeBytes.Replace(strings.ToValidUTF8(b.String(), "@"))
}

// number returns a parameter by C's atoi: its leading digits, 0 without any.
func (q params) number(name string) int { return atoi(q[name]) }

func atoi(s string) int {
	s = strings.TrimLeft(s, " ")
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	n := 0
	for i := 0; i < len(digits) && digits[i] >= '0' && digits[i] <= '9'; i++ {
		n = min(n*10+int(digits[i]-'0'), 1<<31-1)
	}
	if negative {
		return -n
	}
	return n
}

// The bits of opt.
const (
	hideMembers   = 0x1
	hideMaps      = 0x2
	hideLegend    = 0x4
	hideBalancers = 0x8
	hideAJP       = 0x10
	readOnlyView  = 0x20
	hideLBConfig  = 0x40
	hideLBSummary = 0x80
	hideAJPConfig = 0x100
)
