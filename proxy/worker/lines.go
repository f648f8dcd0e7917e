package worker

import (
	"io"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

const (
	maxKeys          = 50_000  // properties, inherited ones included
	maxDepth         = 20      // of references
	maxName          = 1024    // bytes of a name that a reference makes
	maxReferenceWork = 1 << 26 // properties looked at for references
	maxMembers       = 20_000  // of all balancers together
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
	file     *File
	getenv   func(string) (string, bool)
	problems properties.Problems

	props map[string]*property
	order []*property // as they came, inherited ones last
	text  int         // bytes of all values

	referred map[string]bool   // names of workers that a reference names
	workers  map[string]*named // after the references are resolved
	folded   map[string]string // name of a worker in lower case → as it is
	built    int               // members
}

func (p *parser) warn(line int, format string, args ...any) {
	p.problems.Add(properties.Warning, p.file.Name, line, format, args...)
}

func (p *parser) fail(line int, format string, args ...any) {
	p.problems.Add(properties.Error, p.file.Name, line, format, args...)
}

// read takes in all lines of r. It is false if it could not.
func (p *parser) read(r io.Reader) bool {
	return properties.Read(r, properties.Config{
		Name: p.file.Name, Left: "name",
		Set: p.set, Lookup: p.lookup, Getenv: p.getenv,
		Secret: func(name string) bool { return strings.HasSuffix(name, ".secret") },
	}, &p.problems)
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
		p.warn(n, "%s: set again, line %d has no effect any more", properties.Show(key), old.line)
	case rep == appends:
		joined = old.value + sep + value
	default:
		joined = old.value + sep + value
		p.warn(n, "%s: set again; with line %d the value is %s", properties.Show(key), old.line, properties.Quote(joined))
	}
	if old == nil {
		old = &property{key: key, origin: key}
	}
	p.text += len(joined) - len(old.value)
	switch {
	case len(joined) > properties.MaxValue:
		p.fail(n, "%s: the value has more than %d bytes", properties.Show(key), properties.MaxValue)
		return false
	case p.text > properties.MaxText:
		p.fail(n, "all values together have more than %d bytes", properties.MaxText)
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
		if !p.problems.Full() {
			hint = nearest(name)
		}
		if hint != "" {
			hint = ", did you mean " + hint + "?"
		}
		p.fail(n, "%s: unknown directive %s%s", properties.Show(key), properties.Quote(name), hint)
		return false
	}
	if d.old != "" {
		p.warn(n, "%s: %s is deprecated: %s", properties.Show(key), name, d.old)
	}
	return true
}

// suspectPrefix warns of "wrker.n1.port", which is a legal variable.
func (p *parser) suspectPrefix(n int, key string) {
	first, _, _ := strings.Cut(key, ".")
	if _, _, ok := directiveOf(key); ok && first != key && distance(strings.ToLower(first), "worker", 1) {
		p.warn(n, "%s: a variable and not a property, because it does not begin with \"worker.\"", properties.Show(key))
	}
}

// lookup returns the value of a variable that the file defines.
func (p *parser) lookup(name string) (string, bool) {
	if prop := p.props[name]; prop != nil {
		return prop.value, true
	}
	return "", false
}

// A Property is a name and its value.
type Property struct{ Name, Value string }

// open returns all properties but the secret ones: mod_jk shows those that a
// variable or a secretkey holds (mod_jk.md 6.3).
func (p *parser) open() []Property {
	secrets := map[string]bool{}
	for _, prop := range p.order {
		if isSecret(prop.key) {
			secrets[prop.value] = true
		}
	}
	var all []Property
	for _, prop := range p.order {
		if !isSecret(prop.key) && !secrets[prop.value] {
			all = append(all, Property{prop.key, prop.value})
		}
	}
	return all
}

func isSecret(key string) bool {
	name := key[strings.LastIndexByte(key, '.')+1:]
	return name == "secret" || name == "secretkey"
}
