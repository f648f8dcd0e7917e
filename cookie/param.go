package cookie

import (
	"bytes"
	"strings"
)

// params walks through the path parameters of one name, in all segments.
type params struct {
	rest  []byte // what follows the parameter last seen; no query in it
	name  []byte
	value []byte // of the parameter last seen; not empty
}

// next goes to the next parameter that has a value.
func (p *params) next() bool {
	for {
		i := bytes.IndexByte(p.rest, ';')
		if i < 0 {
			return false
		}
		p.rest = p.rest[i+1:]
		end := paramEnd(p.rest)
		param := p.rest[:end:end]
		p.rest = p.rest[end:]
		if !bytes.HasPrefix(param, p.name) {
			continue
		}
		if param = param[len(p.name):]; len(param) == 0 {
			continue
		}
		if p.value = param[equals(param):]; len(p.value) > 0 && len(p.value) < len(param) {
			return true
		}
	}
}

// paramEnd returns where the parameter ends that b begins with.
func paramEnd[T []byte | string](b T) int {
	for i := range len(b) {
		if b[i] == ';' || b[i] == '/' {
			return i
		}
	}
	return len(b)
}

// equals returns the length of the '=' that b begins with, 0 if with none.
// Something on the way that encodes the '=' of a value encodes this one too.
func equals[T []byte | string](b T) int {
	switch {
	case len(b) > 0 && b[0] == '=':
		return 1
	case len(b) > 2 && b[0] == '%' && b[1] == '3' && (b[2] == 'D' || b[2] == 'd'):
		return 3
	}
	return 0
}

// StripParam returns path without the path parameters called param, with or
// without a value, in every segment: "/a;jsessionid=x;v=1/b" is "/a;v=1/b".
// Everything else stays as it is, and so does a query. path is the path as it was
// received, percent-encoding included, so that an encoded '/' in a value ends
// nothing; param is a name as [FinderConfig] has it.
//
// After it, [Finder.Find] finds no candidate in the path.
func StripParam(path, param string) string {
	param = strings.TrimPrefix(param, ";")
	query := len(path)
	if i := strings.IndexByte(path, '?'); i >= 0 {
		query = i
	}
	var out strings.Builder
	kept := 0 // path[:kept] is in out, or left out
	for i := 0; i < query; {
		semi := strings.IndexByte(path[i:query], ';')
		if semi < 0 {
			break
		}
		start := i + semi
		i = start + 1 + paramEnd(path[start+1:query])
		if rest, ok := strings.CutPrefix(path[start+1:i], param); ok && (rest == "" || equals(rest) > 0) {
			out.WriteString(path[kept:start])
			kept = i
		}
	}
	if kept == 0 {
		return path
	}
	out.WriteString(path[kept:])
	return out.String()
}
