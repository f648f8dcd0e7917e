package urimap

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
	maxRules = 50_000
	maxValue = 1 << 16 // bytes of a value, after variables
	maxText  = 1 << 24 // bytes of all values together

	maxSubstitutions = 21  // of variables in one value
	maxProblems      = 500 // that are kept; a file has no end of them

	blanks = " \t\r\n\v\f"
)

// A property is one line of the file: a rule, a variable, or both.
type property struct {
	key   string
	value string
	line  int
	used  bool // as a variable
}

// A parser is one run of [Parse].
type parser struct {
	m   *Map
	cfg Config

	props map[string]*property
	order []*property
	text  int // bytes of all values

	workers map[string]*Worker // of Config; nil if they are not known
	members map[string]bool    // names of workers that are only members
}

func (p *parser) problem(at Problem, format string, args ...any) {
	at.Text = fmt.Sprintf(format, args...)
	if len(p.m.Problems) >= maxProblems {
		if at.Severity == Warning {
			return
		}
		// An error must not be lost in warnings.
		p.m.Problems = p.m.Problems[:maxProblems-1]
	}
	p.m.Problems = append(p.m.Problems, at)
}

func (p *parser) warn(line int, format string, args ...any) {
	p.problem(Problem{File: p.m.Name, Line: line}, format, args...)
}

func (p *parser) fail(line int, format string, args ...any) {
	p.problem(Problem{File: p.m.Name, Line: line, Severity: Error}, format, args...)
}

// warnRule reports something about one rule.
func (p *parser) warnRule(r *Rule, format string, args ...any) {
	p.problem(Problem{File: r.File, Line: r.Line}, "%s: %s", show(r.Text), fmt.Sprintf(format, args...))
}

// read takes in all lines of r, as those of workers.properties are read
// (mod_jk.md 1.1, 5.1).
func (p *parser) read(r io.Reader) {
	limited := &io.LimitedReader{R: r, N: maxFile + 1}
	br := bufio.NewReaderSize(limited, maxLine)
	line := 1
	for {
		// ReadSlice returns a full buffer as it is: mod_jk's split of long lines.
		raw, err := br.ReadSlice('\n')
		if limited.N == 0 {
			p.fail(0, "the file is larger than %d bytes", maxFile)
			return
		}
		if len(raw) > 0 && !p.line(line, string(raw)) {
			return
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, bufio.ErrBufferFull):
			p.warn(line, "longer than %d bytes: what follows is read as another line", maxLine)
		case errors.Is(err, io.EOF):
			return
		default:
			p.fail(line, "%v", err)
			return
		}
	}
}

// line takes in one line and reports whether reading can go on.
func (p *parser) line(n int, text string) bool {
	if n == 1 && strings.HasPrefix(text, "\ufeff") {
		p.warn(n, "begins with a byte order mark, which becomes a part of the first pattern")
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
		p.warn(n, "no pattern before '=': the line is ignored")
		return true
	case value == "":
		p.warn(n, "%s: no worker, so the line is ignored", show(key))
		return true
	}
	if cut {
		p.warn(n, "%s: '#' begins a comment, also in the middle of a pattern or a value", show(key))
	}
	if strings.HasSuffix(value, `\`) {
		p.warn(n, `%s: '\' at the end is a part of the value; there are no continued lines`, show(key))
	}
	return p.set(n, key, p.substitute(n, key, value))
}

// set stores one property, in place of an earlier one of the same name.
func (p *parser) set(n int, key, value string) bool {
	if strings.HasPrefix(key, "worker.") {
		p.fail(n, "%s: belongs into workers.properties; mod_jk refuses all rules if it does not know the directive", show(key))
		return true
	}
	p.text += len(value)
	switch {
	case len(value) > maxValue:
		p.fail(n, "%s: the value has more than %d bytes", show(key), maxValue)
		return false
	case p.text > maxText:
		p.fail(n, "all values together have more than %d bytes", maxText)
		return false
	}
	if old := p.props[key]; old != nil {
		p.warn(n, "%s: set again, line %d has no effect any more", show(key), old.line)
		old.line = 0 // for build: there is no such line
	}
	prop := &property{key: key, value: value, line: n}
	p.props[key] = prop
	p.order = append(p.order, prop)
	return true
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
			p.warn(n, "%s: $(%s) is not defined above in this file, so it stays as it is", show(key), show(name))
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
		prop.used = true
		return prop.value, true
	}
	if p.cfg.Getenv == nil {
		return "", false
	}
	return p.cfg.Getenv(name)
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
