// Package properties reads the lines of mod_jk's two files, workers.properties and
// uriworkermap.properties (mod_jk.md 1.1, 1.3, 5.1), and collects what is wrong
// with a file. What a property means is the business of packages worker and urimap.
//
// The grammar is mod_jk's own, not that of Java's properties:
//
//	file = *line
//	line = [ name "=" value ] [ "#" comment ]    blanks around each are stripped
//
// '#' begins a comment wherever it stands. There are no escapes, no quotes, no
// continued lines and no empty values. $(name) in a value is what a line above has
// set, else an environment variable, else itself.
package properties

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// Bounds of a file.
const (
	MaxLine  = 8191    // bytes of a line that mod_jk reads at once; the rest is another line
	MaxFile  = 1 << 20 // bytes of a file
	MaxValue = 1 << 16 // bytes of a value; a caller of [Read] refuses a longer one
	MaxText  = 1 << 24 // bytes of all values together; likewise

	maxSubstitutions = 21 // of variables in one value
)

// Blanks are the bytes that are stripped.
const Blanks = " \t\r\n\v\f"

// Config says what [Read] does with the lines of a file.
type Config struct {
	Name string // of the file, for problems
	Left string // what stands left of '=', for problems: "name", "pattern"

	// Set takes one property, and reports whether reading can go on. The value
	// may be longer than [MaxValue].
	Set func(line int, name, value string) bool

	// Lookup returns the value of a property that was set before.
	Lookup func(name string) (string, bool)

	// Getenv looks up what the file does not define. It may be nil.
	Getenv func(name string) (string, bool)

	// Secret reports whether a comment in the line of a property is suspicious
	// wherever it stands. It may be nil.
	Secret func(name string) bool
}

// A reader is one run of [Read].
type reader struct {
	Config
	problems *Problems
}

// Read takes in all lines of r and adds to problems. It is false if it could not:
// then the rest of the file would only seem to be missing.
func Read(r io.Reader, cfg Config, problems *Problems) bool {
	p := reader{cfg, problems}
	limited := &io.LimitedReader{R: r, N: MaxFile + 1}
	br := bufio.NewReaderSize(limited, MaxLine)
	line := 1
	for {
		// ReadSlice returns a full buffer as it is: mod_jk's split of long lines.
		raw, err := br.ReadSlice('\n')
		if limited.N == 0 {
			problems.Add(Error, p.Name, 0, "the file is larger than %d bytes", MaxFile)
			return false
		}
		if len(raw) > 0 && !p.line(line, string(raw)) {
			return false
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, bufio.ErrBufferFull):
			p.warn(line, "longer than %d bytes: what follows is read as another line", MaxLine)
		case errors.Is(err, io.EOF):
			return true
		default:
			problems.Add(Error, p.Name, line, "%v", err)
			return false
		}
	}
}

func (p *reader) warn(line int, format string, args ...any) {
	p.problems.Add(Warning, p.Name, line, format, args...)
}

// line takes in one line and reports whether reading can go on.
func (p *reader) line(n int, text string) bool {
	if n == 1 && strings.HasPrefix(text, "\ufeff") {
		p.warn(n, "begins with a byte order mark, which becomes a part of the first %s", p.Left)
	}
	if before, _, found := strings.Cut(text, "\x00"); found {
		text = before
		p.warn(n, "has a zero byte: nothing behind it is read")
	}
	text, _, commented := strings.Cut(text, "#")
	cut := commented && text != "" && !strings.ContainsAny(text[len(text)-1:], Blanks)
	text = strings.Trim(text, Blanks)
	if text == "" {
		return true
	}
	key, value, ok := strings.Cut(text, "=")
	key, value = strings.Trim(key, Blanks), strings.Trim(value, Blanks)
	switch {
	case !ok:
		p.warn(n, "no '=' in %s: the line is ignored", Quote(text))
		return true
	case key == "":
		p.warn(n, "no %s before '=': the line is ignored", p.Left)
		return true
	case value == "":
		p.warn(n, "%s: no value, so the line is ignored; nothing can be set to the empty string", Show(key))
		return true
	}
	if cut || commented && p.Secret != nil && p.Secret(key) {
		p.warn(n, "%s: '#' begins a comment, also in the middle of a %s or a value", Show(key), p.Left)
	}
	if strings.HasSuffix(value, `\`) {
		p.warn(n, `%s: '\' at the end is a part of the value; there are no continued lines`, Show(key))
	}
	return p.Set(n, key, p.substitute(n, key, value))
}

// substitute replaces $(name) in a value. What it inserts is not looked at again.
func (p *reader) substitute(n int, key, value string) string {
	var out strings.Builder
	rest := value
	for range maxSubstitutions {
		begin := strings.Index(rest, "$(")
		if begin < 0 {
			break
		}
		end := strings.IndexByte(rest[begin:], ')')
		if end < 0 {
			p.warn(n, "%s: \"$(\" without \")\"", Show(key))
			break
		}
		end += begin
		name := rest[begin+2 : end]
		out.WriteString(rest[:begin])
		if v, ok := p.variable(name); ok {
			out.WriteString(v)
		} else {
			p.warn(n, "%s: $(%s) is not defined above in this file, so it stays as it is", Show(key), Show(name))
			out.WriteString(rest[begin : end+1])
		}
		rest = rest[end+1:]
		if out.Len() > MaxValue {
			return out.String() // Set refuses it
		}
	}
	out.WriteString(rest)
	return out.String()
}

// variable returns the value of a variable.
func (p *reader) variable(name string) (string, bool) {
	if v, ok := p.Lookup(name); ok {
		return v, true
	}
	if p.Getenv == nil {
		return "", false
	}
	return p.Getenv(name)
}
