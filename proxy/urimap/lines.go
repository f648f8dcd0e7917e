package urimap

import (
	"fmt"
	"io"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// maxRules is how many rules a map may have.
const maxRules = 50_000

// A property is one line of the file: a rule, a variable, or both.
type property struct {
	key   string
	value string
	line  int
	used  bool // as a variable
}

// A parser is one run of [Parse].
type parser struct {
	m        *Map
	cfg      Config
	problems properties.Problems

	props map[string]*property
	order []*property
	text  int // bytes of all values

	workers map[string]*Worker // of Config; nil if they are not known
	members map[string]bool    // names of workers that are only members
}

func (p *parser) warn(line int, format string, args ...any) {
	p.problems.Add(properties.Warning, p.m.Name, line, format, args...)
}

func (p *parser) fail(line int, format string, args ...any) {
	p.problems.Add(properties.Error, p.m.Name, line, format, args...)
}

// warnRule reports something about one rule.
func (p *parser) warnRule(r *Rule, format string, args ...any) {
	p.problems.Add(properties.Warning, r.File, r.Line, "%s: %s", properties.Show(r.Text), fmt.Sprintf(format, args...))
}

// read takes in all lines of r, as far as it can.
func (p *parser) read(r io.Reader) {
	properties.Read(r, properties.Config{
		Name: p.m.Name, Left: "pattern",
		Set: p.set, Lookup: p.lookup, Getenv: p.cfg.Getenv,
	}, &p.problems)
}

// set stores one property, in place of an earlier one of the same name.
func (p *parser) set(n int, key, value string) bool {
	if strings.HasPrefix(key, "worker.") {
		p.fail(n, "%s: belongs into workers.properties; mod_jk refuses all rules if it does not know the directive", properties.Show(key))
		return true
	}
	p.text += len(value)
	switch {
	case len(value) > properties.MaxValue:
		p.fail(n, "%s: the value has more than %d bytes", properties.Show(key), properties.MaxValue)
		return false
	case p.text > properties.MaxText:
		p.fail(n, "all values together have more than %d bytes", properties.MaxText)
		return false
	}
	if old := p.props[key]; old != nil {
		p.warn(n, "%s: set again, line %d has no effect any more", properties.Show(key), old.line)
		old.line = 0 // for build: there is no such line
	}
	prop := &property{key: key, value: value, line: n}
	p.props[key] = prop
	p.order = append(p.order, prop)
	return true
}

// lookup returns the value of a variable that the file defines.
func (p *parser) lookup(name string) (string, bool) {
	if prop := p.props[name]; prop != nil {
		prop.used = true
		return prop.value, true
	}
	return "", false
}
