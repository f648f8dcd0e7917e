package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxLine  = 8191    // bytes of a line that mod_jk reads at once; the rest is another line
	maxFile  = 1 << 20 // bytes of a file
	maxKeys  = 50_000  // properties, inherited ones included
	maxValue = 1 << 16 // bytes of a value, after variables and repeated lines
	maxText  = 1 << 24 // bytes of all values together

	maxSubstitutions = 21      // of variables in one value
	maxDepth         = 20      // of references
	maxProblems      = 500     // that are kept; a file has no end of them
	maxName          = 1024    // bytes of a name that a reference makes
	maxReferenceWork = 1 << 26 // properties looked at for references
	maxMembers       = 20_000  // of all balancers together

	blanks = " \t\r\n\v\f"
)

// A property is one name of the file with its value.
type property struct {
	key    string // its name; for an inherited one the heir's
	origin string // its name as the file has it
	value  string
	line   int    // of the last line that contributed
	parts  []part // of a list: each line by itself
}

// A part is what one line contributed to a list.
type part struct {
	value string
	line  int
}

// A parser is one run of [Parse].
type parser struct {
	file   *File
	getenv func(string) (string, bool)

	props map[string]*property
	order []*property // as they came, inherited ones last
	text  int         // bytes of all values

	referred map[string]bool   // names of workers that a reference names
	workers  map[string]*named // after the references are resolved
	folded   map[string]string // name of a worker in lower case → as it is
	built    int               // members
}

func (p *parser) problem(sev Severity, line int, format string, args ...any) {
	if len(p.file.Problems) >= maxProblems {
		if sev == Warning {
			return
		}
		// An error must not be lost in warnings.
		p.file.Problems = p.file.Problems[:maxProblems-1]
	}
	p.file.Problems = append(p.file.Problems, Problem{
		File: p.file.Name, Line: line, Severity: sev, Text: fmt.Sprintf(format, args...),
	})
}

func (p *parser) warn(line int, format string, args ...any) {
	p.problem(Warning, line, format, args...)
}

func (p *parser) fail(line int, format string, args ...any) {
	p.problem(Error, line, format, args...)
}

// read takes in all lines of r (mod_jk.md 1.1). It is false if it could not: then
// the rest of the file would only seem to be missing.
func (p *parser) read(r io.Reader) bool {
	limited := &io.LimitedReader{R: r, N: maxFile + 1}
	br := bufio.NewReaderSize(limited, maxLine)
	line := 1
	for {
		// ReadSlice returns a full buffer as it is: mod_jk's split of long lines.
		raw, err := br.ReadSlice('\n')
		if limited.N == 0 {
			p.fail(line, "the file is larger than %d bytes", maxFile)
			return false
		}
		if len(raw) > 0 && !p.line(line, string(raw)) {
			return false
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, bufio.ErrBufferFull):
			p.warn(line, "longer than %d bytes: what follows is read as another line", maxLine)
		case errors.Is(err, io.EOF):
			return true
		default:
			p.fail(line, "%v", err)
			return false
		}
	}
}

// line takes in one line and reports whether reading can go on.
func (p *parser) line(n int, text string) bool {
	if n == 1 && strings.HasPrefix(text, "\ufeff") {
		p.warn(n, "begins with a byte order mark, which becomes a part of the first name")
	}
	if before, _, found := strings.Cut(text, "\x00"); found {
		text = before
		p.warn(n, "has a zero byte: nothing behind it is read")
	}
	text, _, commented := strings.Cut(text, "#")
	cut := commented && text != "" && !strings.ContainsAny(text[len(text)-1:], blanks)
	text = strings.Trim(text, blanks)
	if text == "" {
		return true
	}
	key, value, ok := strings.Cut(text, "=")
	key, value = strings.Trim(key, blanks), strings.Trim(value, blanks)
	switch {
	case !ok:
		p.warn(n, "no '=' in %s: the line is ignored", quote(text))
		return true
	case key == "":
		p.warn(n, "no name before '=': the line is ignored")
		return true
	case value == "":
		p.warn(n, "%s: no value, so the line is ignored; nothing can be set to the empty string", show(key))
		return true
	}
	if commented && (cut || strings.HasSuffix(key, ".secret")) {
		p.warn(n, "%s: '#' begins a comment, also in the middle of a value", show(key))
	}
	if strings.HasSuffix(value, `\`) {
		p.warn(n, `%s: '\' at the end is a part of the value; there are no continued lines`, show(key))
	}
	return p.set(n, key, p.substitute(n, key, value))
}

// set stores one property, or combines it with an earlier one of the same name.
func (p *parser) set(n int, key, value string) bool {
	if !p.legal(n, key) {
		return true
	}
	old := p.props[key]
	rep, sep := repeatOf(key)
	joined := value
	switch {
	case old == nil:
	case rep == replaces:
		p.warn(n, "%s: set again, line %d has no effect any more", show(key), old.line)
	case rep == appends:
		joined = old.value + sep + value
	default:
		joined = old.value + sep + value
		p.warn(n, "%s: set again; with line %d the value is %s", show(key), old.line, quote(joined))
	}
	if old == nil {
		old = &property{key: key, origin: key}
	}
	p.text += len(joined) - len(old.value)
	switch {
	case len(joined) > maxValue:
		p.fail(n, "%s: the value has more than %d bytes", show(key), maxValue)
		return false
	case p.text > maxText:
		p.fail(n, "all values together have more than %d bytes", maxText)
		return false
	case p.props[key] == nil && len(p.order) >= maxKeys:
		p.fail(n, "more than %d properties", maxKeys)
		return false
	}
	if p.props[key] == nil {
		p.props[key] = old
		p.order = append(p.order, old)
	}
	old.value, old.line = joined, n
	if rep == appends {
		old.parts = append(old.parts, part{value, n})
	}
	return true
}

// legal reports whether a name may stand in the file (mod_jk.md 1.2).
func (p *parser) legal(n int, key string) bool {
	if !strings.HasPrefix(key, "worker.") {
		p.suspectPrefix(n, key)
		return true
	}
	name, d, ok := directiveOf(key)
	if !ok {
		hint := ""
		if len(p.file.Problems) < maxProblems {
			hint = nearest(name)
		}
		if hint != "" {
			hint = ", did you mean " + hint + "?"
		}
		p.fail(n, "%s: unknown directive %s%s", show(key), quote(name), hint)
		return false
	}
	if d.old != "" {
		p.warn(n, "%s: %s is deprecated: %s", show(key), name, d.old)
	}
	return true
}

// suspectPrefix warns of "wrker.n1.port", which is a legal variable.
func (p *parser) suspectPrefix(n int, key string) {
	first, _, _ := strings.Cut(key, ".")
	if _, _, ok := directiveOf(key); ok && first != key && distance(strings.ToLower(first), "worker", 1) {
		p.warn(n, "%s: a variable and not a property, because it does not begin with \"worker.\"", show(key))
	}
}

// substitute replaces $(name) in a value by an earlier property or by the
// environment (mod_jk.md 1.3). What it inserts is not looked at again.
func (p *parser) substitute(n int, key, value string) string {
	var out strings.Builder
	rest := value
	for range maxSubstitutions {
		begin := strings.Index(rest, "$(")
		if begin < 0 {
			break
		}
		end := strings.IndexByte(rest[begin:], ')')
		if end < 0 {
			p.warn(n, "%s: \"$(\" without \")\"", show(key))
			break
		}
		end += begin
		name := rest[begin+2 : end]
		out.WriteString(rest[:begin])
		if v, ok := p.lookup(name); ok {
			out.WriteString(v)
		} else {
			p.warn(n, "%s: $(%s) is not defined above, so it stays as it is", show(key), show(name))
			out.WriteString(rest[begin : end+1])
		}
		rest = rest[end+1:]
		if out.Len() > maxValue {
			return out.String() // set refuses it
		}
	}
	out.WriteString(rest)
	return out.String()
}

// lookup returns the value of a variable.
func (p *parser) lookup(name string) (string, bool) {
	if prop := p.props[name]; prop != nil {
		return prop.value, true
	}
	if p.getenv == nil {
		return "", false
	}
	return p.getenv(name)
}

// show returns s for a message: as it is if it is plain and short, else quoted.
func show(s string) string {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return quote(s)
		}
	}
	if len(s) > 80 {
		return quote(s)
	}
	return s
}

// quote returns s in quotes, cut if it is long.
func quote(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q…", s[:80])
	}
	return fmt.Sprintf("%q", s)
}
