package httpdconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// A reader is one run of [Read].
type reader struct {
	cfg        Config
	directives map[string]known
	out        *File
	problems   properties.Problems

	root    string            // ServerRoot
	defined map[string]string // Define
	env     map[string]string // envvars
	modules map[string]bool   // by LoadModule, without mod_ and _module

	files   int
	text    int
	entries int
	depth   int
	rules   int
	names   int
	full    bool // a bound was reached: nothing more is read

	sections []section
	server   *Server // where directives go
	copyAll  bool    // JkMountCopy All
}

// A section is one that has not ended.
type section struct {
	name string // in lower case
	args []string
	line int
	off  string // why its directives do not count; "" if they do
}

func newReader(name string, cfg Config) *reader {
	main := &Server{File: name, Line: 1, Main: true}
	return &reader{
		cfg: cfg, directives: directives(), out: &File{Servers: []*Server{main}}, server: main, root: path.Dir(name),
		defined: map[string]string{}, env: map[string]string{}, modules: map[string]bool{"jk": true},
	}
}

func (r *reader) warn(at properties.Problem, format string, args ...any) {
	r.problems.Add(properties.Warning, at.File, at.Line, format, args...)
}

func (r *reader) fail(at properties.Problem, format string, args ...any) {
	r.problems.Add(properties.Error, at.File, at.Line, format, args...)
}

// give up ends reading because of a bound.
func (r *reader) giveUp(at properties.Problem, format string, args ...any) {
	if !r.full {
		r.full = true
		r.fail(at, format, args...)
	}
}

// load returns the text of a file.
func (r *reader) load(name string) (string, error) {
	f, err := r.cfg.FS.Open(fsPath(name))
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("open %s: it is no file", name)
	}
	left := maxText - r.text
	b, err := io.ReadAll(io.LimitReader(f, int64(left)+1))
	if err != nil {
		return "", err
	}
	if len(b) > left {
		return "", fmt.Errorf("%s: with it, all files together are larger than %d bytes", name, maxText)
	}
	r.text += len(b)
	return string(b), nil
}

// fsPath returns the name of an absolute path in an [fs.FS].
func fsPath(name string) string {
	if p := strings.TrimPrefix(path.Clean("/"+name), "/"); p != "" {
		return p
	}
	return "."
}

// absolute returns a path of the configuration as an absolute one.
func (r *reader) absolute(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(r.root, name)
	}
	return path.Clean(name)
}

// environment reads envvars, the shell script in which Debian sets variables.
func (r *reader) environment() {
	text, err := r.load(path.Join(r.root, "envvars"))
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !ok || strings.ContainsAny(name, " \t#$\"'") || len(value) > properties.MaxLine {
			continue
		}
		// $SUFFIX is empty but for a second server of the same machine.
		value = strings.ReplaceAll(strings.Trim(value, `"'`), "$SUFFIX", "")
		if !strings.Contains(value, "$") {
			r.env[name] = value
		}
	}
}

// file reads a file. at is who includes it.
func (r *reader) file(name string, at properties.Problem) {
	if r.full {
		return
	}
	if r.files++; r.files > maxFiles {
		r.giveUp(at, "more than %d files", maxFiles)
		return
	}
	if r.depth++; r.depth > maxDepth {
		r.giveUp(at, "files include each other more than %d deep", maxDepth)
		return
	}
	defer func() { r.depth-- }()
	text, err := r.load(name)
	if err != nil {
		r.fail(at, "%v", err)
		return
	}
	open := len(r.sections)
	number := 0
	var joined strings.Builder
	first := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if joined.Len() == 0 {
			first = number
		}
		if more, ok := strings.CutSuffix(line, `\`); ok {
			joined.WriteString(more)
			continue
		}
		joined.WriteString(line)
		r.line(properties.Problem{File: name, Line: first}, joined.String())
		joined.Reset()
		if r.full {
			return
		}
	}
	if joined.Len() > 0 {
		r.line(properties.Problem{File: name, Line: first}, joined.String())
	}
	for len(r.sections) > open {
		s := r.sections[len(r.sections)-1]
		r.fail(properties.Problem{File: name, Line: s.line}, "<%s> does not end in this file", properties.Show(s.name))
		r.leave()
	}
}

// line takes in one line.
func (r *reader) line(at properties.Problem, text string) {
	text = strings.TrimSpace(text)
	switch {
	case text == "", text[0] == '#':
		return
	case len(text) > properties.MaxLine:
		r.fail(at, "longer than %d bytes", properties.MaxLine)
		return
	case strings.HasPrefix(text, "</"):
		name := strings.ToLower(strings.TrimSpace(strings.TrimSuffix(text[2:], ">")))
		if n := len(r.sections); n == 0 || r.sections[n-1].name != name {
			r.fail(at, "%s ends no section that has begun", properties.Show(text))
			return
		}
		r.leave()
		return
	}
	begins := text[0] == '<'
	if begins {
		text = strings.TrimSpace(strings.TrimSuffix(text[1:], ">"))
	}
	words, err := split(text)
	if err != nil || len(words) == 0 {
		r.fail(at, "%s: %v", properties.Show(text), err)
		return
	}
	name := strings.ToLower(words[0])
	args := words[1:]
	for i := range args {
		args[i] = r.expand(at, args[i])
	}
	if begins {
		r.enter(at, name, args)
		return
	}
	r.directive(at, words[0], name, args)
}

var errQuote = errors.New("a quote does not end")

// split cuts a line into words.
func split(text string) ([]string, error) {
	var words []string
	for {
		text = strings.TrimLeft(text, " \t\v\f")
		if text == "" {
			return words, nil
		}
		if q := text[0]; q == '"' || q == '\'' {
			word, rest, ok := quoted(text[1:], q)
			if !ok {
				return nil, errQuote
			}
			words, text = append(words, word), rest
			continue
		}
		end := strings.IndexAny(text, " \t\v\f")
		if end < 0 {
			end = len(text)
		}
		words, text = append(words, text[:end]), text[end:]
	}
}

// quoted returns the text up to the quote q.
func quoted(text string, q byte) (word, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == q:
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text) && (text[i+1] == q || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// expand replaces ${NAME}. What it inserts is not looked at again.
func (r *reader) expand(at properties.Problem, text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	var out strings.Builder
	for {
		begin := strings.Index(text, "${")
		if begin < 0 {
			break
		}
		end := strings.IndexByte(text[begin:], '}')
		if end < 0 {
			break
		}
		end += begin
		name := text[begin+2 : end]
		out.WriteString(text[:begin])
		if v, ok := r.variable(name); ok {
			out.WriteString(v)
		} else {
			if r.on() {
				r.warn(at, "${%s} is not defined, so it stays as it is", properties.Show(name))
			}
			out.WriteString(text[begin : end+1])
		}
		text = text[end+1:]
		if out.Len() > properties.MaxLine {
			r.fail(at, "longer than %d bytes with its variables", properties.MaxLine)
			return ""
		}
	}
	out.WriteString(text)
	if r.text += out.Len(); r.text > maxText {
		r.giveUp(at, "with its variables, all text together is larger than %d bytes", maxText)
	}
	return out.String()
}

func (r *reader) variable(name string) (string, bool) {
	if v, ok := r.defined[name]; ok {
		return v, true
	}
	if v, ok := r.env[name]; ok {
		return v, true
	}
	if r.cfg.Getenv == nil {
		return "", false
	}
	return r.cfg.Getenv(name)
}

// on reports whether directives count here.
func (r *reader) on() bool {
	return !slices.ContainsFunc(r.sections, func(s section) bool { return s.off != "" })
}

// include reads what a pattern names.
func (r *reader) include(at properties.Problem, pattern string, optional bool) {
	pattern = r.absolute(pattern)
	names, err := r.glob(pattern)
	if err != nil {
		r.giveUp(at, "%s: %v", properties.Show(pattern), err)
		return
	}
	if len(names) == 0 && !optional {
		r.fail(at, "Include %s: there is no such file", properties.Show(pattern))
	}
	for _, name := range names {
		if info, err := fs.Stat(r.cfg.FS, fsPath(name)); err == nil && info.IsDir() {
			if name == pattern { // of a directory all files are read, but not what else a wildcard finds
				r.include(at, pattern+"/*", true)
			}
			continue
		}
		r.file(name, at)
	}
}

var errEntries = fmt.Errorf("more than %d names to look at", maxEntries)

// glob returns the paths that a pattern describes, sorted.
func (r *reader) glob(pattern string) ([]string, error) {
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, `*?[\`) {
				name := path.Join(dir, part)
				if _, err := fs.Stat(r.cfg.FS, fsPath(name)); err == nil {
					next = append(next, name)
				}
				continue
			}
			entries, err := fs.ReadDir(r.cfg.FS, fsPath(dir))
			if err != nil {
				continue // it is no directory, or not ours to read
			}
			if r.entries += len(entries); r.entries > maxEntries {
				return nil, errEntries
			}
			for _, e := range entries {
				if ok, err := path.Match(part, e.Name()); err != nil {
					return nil, err
				} else if ok && (e.Name()[0] != '.' || part[0] == '.') {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	slices.Sort(found)
	return found, nil
}
