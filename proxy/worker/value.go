package worker

import (
	"math"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// MaxName is how many bytes a name may have.
const MaxName = 63

// parseInt reads an integer as mod_jk does (mod_jk.md 1.5): properties.Blanks, a sign,
// digits, and a directly following k or m for 1024 and 1048576. It returns what
// stands behind. It is not ok without a digit or beyond 32 bits.
func parseInt(s string) (n int, scaled bool, rest string, ok bool) {
	n, rest, ok = parseDigits(s)
	if !ok || rest == "" {
		return n, false, rest, ok
	}
	switch rest[0] {
	case 'k', 'K':
		n, scaled = n*1024, true
	case 'm', 'M':
		n, scaled = n*1024*1024, true
	}
	if scaled {
		rest = rest[1:]
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return 0, scaled, rest, false
	}
	return n, scaled, rest, true
}

// parseDigits reads properties.Blanks, a sign and digits, and returns what stands behind
// them.
func parseDigits(s string) (n int, rest string, ok bool) {
	s = strings.TrimLeft(s, properties.Blanks)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	i := 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if n <= math.MaxInt32 {
			n = n*10 + int(s[i]-'0')
		}
	}
	if negative {
		n = -n
	}
	return n, s[i:], i > 0 && n >= math.MinInt32 && n <= math.MaxInt32
}

// parseBool reads a truth value as mod_jk does.
func parseBool(s string) (value, ok bool) {
	switch s[0] {
	case 't', 'T', 'y', 'Y':
		return true, true
	case 'f', 'F', 'n', 'N':
		return false, true
	}
	switch s {
	case "1", "on":
		return true, true
	case "0", "off":
		return false, true
	}
	return false, false
}

// isBool reports whether s is a truth value that nobody can mistake.
func isBool(s string) bool {
	switch strings.ToLower(s) {
	case "1", "on", "true", "t", "yes", "y", "0", "off", "false", "f", "no", "n":
		return true
	}
	return false
}

// isSeparator reports whether r separates the elements of a list.
func isSeparator(r rune) bool { return r == ' ' || r == '\t' || r == ',' }

// elements returns the elements of a list, each with the line it stands on.
func (prop *property) elements() []part {
	if prop == nil {
		return nil
	}
	parts := prop.parts
	if parts == nil {
		parts = []part{{prop.value, prop.line}}
	}
	var all []part
	for _, p := range parts {
		for _, e := range strings.FieldsFunc(p.value, isSeparator) {
			all = append(all, part{e, p.line})
		}
	}
	return all
}

// values returns the elements of a list without their lines.
func (prop *property) values() []string {
	var all []string
	for _, e := range prop.elements() {
		all = append(all, e.value)
	}
	return all
}

// section reads the properties of one worker. In a strict section, a worker of
// type http, what mod_jk would make something of is an error; otherwise it is a
// warning, and mod_jk's value is used.
type section struct {
	*parser
	prefix string // "worker.n1."
	strict bool
}

// get returns the property of a directive, or nil.
func (s *section) get(name string) *property { return s.props[s.prefix+name] }

// complain reports that prop is not as it should be, and what is made of it.
func (s *section) complain(prop *property, wrong string, used any) {
	if s.strict {
		s.fail(prop.line, "%s: %s", properties.Show(prop.origin), wrong)
		return
	}
	s.warn(prop.line, "%s: %s; mod_jk makes it %v", properties.Show(prop.origin), wrong, used)
}

// integer returns the number of a directive, or def.
func (s *section) integer(name string, def int) int {
	n, _, _ := s.number(name, def)
	return n
}

// number is integer, and also returns the property, nil if it is not set, and
// whether its number ended in k or m.
func (s *section) number(name string, def int) (n int, prop *property, scaled bool) {
	prop = s.get(name)
	if prop == nil {
		return def, nil, false
	}
	n, scaled, rest, ok := parseInt(prop.value)
	switch {
	case !ok:
		n = def
		s.complain(prop, properties.Quote(prop.value)+" is not a number of at most 32 bits", def)
	case rest != "":
		s.complain(prop, properties.Quote(prop.value)+" is not a number", n)
	}
	return n, prop, scaled
}

// count is integer for a directive that mod_jk raises to at least 1.
func (s *section) count(name string, def int) int {
	n, prop, _ := s.number(name, def)
	if n < 1 {
		s.complain(prop, properties.Quote(prop.value)+" is too low", 1)
		return 1
	}
	return n
}

// duration returns the time of a directive that is a number of units, or def.
// What is negative becomes zero.
func (s *section) duration(name string, unit, def time.Duration) time.Duration {
	d := s.signed(name, unit, def)
	if d < 0 && d != def {
		s.complain(s.get(name), "is negative", 0)
		return 0
	}
	return d
}

// signed is duration for a directive where less than zero means something.
func (s *section) signed(name string, unit, def time.Duration) time.Duration {
	const unset = math.MinInt
	n, prop, scaled := s.number(name, unset)
	if n == unset {
		return def
	}
	d := time.Duration(n) * unit
	if scaled {
		s.complain(prop, properties.Quote(prop.value)+": k and m multiply by 1024 and 1048576, they are no units of time", d)
	}
	if low, high := usual(name); prop != nil && n > 0 && (d < low || d > high) {
		s.warn(prop.line, "%s: %d %s, is that meant?", properties.Show(prop.origin), n, unitName(unit))
	}
	return d
}

// usual returns the range outside of which a time was probably written in the
// wrong unit (mod_jk.md 10.6).
func usual(name string) (low, high time.Duration) {
	switch name {
	case "connect_timeout", "prepost_timeout", "ping_timeout", "socket_connect_timeout":
		return 50 * time.Millisecond, time.Hour
	case "reply_timeout":
		return 500 * time.Millisecond, 24 * time.Hour
	case "socket_timeout", "recover_time", "error_escalation_time":
		return 0, time.Hour
	}
	return 0, math.MaxInt64
}

func unitName(unit time.Duration) string {
	if unit == time.Second {
		return "seconds"
	}
	return "milliseconds"
}

// boolean returns the truth value of a directive, or def.
func (s *section) boolean(name string, def bool) bool {
	prop := s.get(name)
	if prop == nil {
		return def
	}
	v, ok := parseBool(prop.value)
	if !ok {
		v = def
	}
	if !isBool(prop.value) {
		s.complain(prop, properties.Quote(prop.value)+" is neither true nor false", v)
	}
	return v
}

// text returns the text of a directive, or def. More than 63 bytes are an error.
func (s *section) text(name, def string) string {
	prop := s.get(name)
	if prop == nil {
		return def
	}
	if len(prop.value) > MaxName {
		s.fail(prop.line, "%s: has %d bytes, want at most %d", properties.Show(prop.origin), len(prop.value), MaxName)
	}
	return prop.value
}

// choice returns the index of the word of which the directive's value has the
// first letter, or whose index it is, or def. Words are in mod_jk's order.
func (s *section) choice(name string, def int, words ...string) int {
	prop := s.get(name)
	if prop == nil {
		return def
	}
	value := strings.ToLower(prop.value)
	n := -1
	for i, w := range words {
		if value[0] == w[0] || value[0] == '0'+byte(i) {
			n = i
		}
	}
	if n < 0 {
		s.complain(prop, properties.Quote(prop.value)+" is none of "+strings.Join(words, ", "), words[def])
		return def
	}
	if w := words[n]; len(value) > 1 && !strings.HasPrefix(w, value) && !strings.HasPrefix(value, w) {
		s.complain(prop, properties.Quote(prop.value)+" is none of "+strings.Join(words, ", ")+"; the first letter decides", w)
	}
	return n
}
