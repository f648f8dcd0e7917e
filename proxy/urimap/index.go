package urimap

import (
	"bytes"
	"strings"
)

// An index finds the first of its rules that matches a path, without trying those
// that cannot. Its zero value has no rules. Once it is filled it is only read.
type index struct {
	exact map[string]*Rule // without wildcards, by pattern
	root  dir
}

// A dir holds the rules that begin with one literal directory. Since '*' and '?'
// match '/' too, only what stands before the first of them can be relied on.
type dir struct {
	rules []candidate // in the order of their places
	dirs  map[string]*dir
}

// A candidate is a rule of a [dir].
type candidate struct {
	rest glob // of the pattern behind the directory
	rule *Rule
}

// add adds a rule. Rules must be added in the order of their places.
func (x *index) add(r *Rule) {
	wild := strings.IndexAny(r.Pattern, wildcards)
	if wild < 0 {
		if x.exact == nil {
			x.exact = map[string]*Rule{}
		}
		if x.exact[r.Pattern] == nil {
			x.exact[r.Pattern] = r
		}
		return
	}
	d, rest := &x.root, r.Pattern[1:]
	for {
		name, behind, ok := strings.Cut(rest, "/")
		if !ok || strings.ContainsAny(name, wildcards) {
			break
		}
		if d.dirs == nil {
			d.dirs = map[string]*dir{}
		}
		if d.dirs[name] == nil {
			d.dirs[name] = &dir{}
		}
		d, rest = d.dirs[name], behind
	}
	d.rules = append(d.rules, candidate{newGlob(rest), r})
}

// first returns the rule with the lowest place that matches a path, which begins
// with '/', or nil. x may be nil.
func (x *index) first(path []byte) *Rule {
	if x == nil {
		return nil
	}
	best := x.exact[string(path)]
	d, rest := &x.root, path[1:]
	for {
		if r := d.first(rest, best); r != nil {
			best = r
		}
		if d.dirs == nil {
			return best
		}
		end := bytes.IndexByte(rest, '/')
		if end < 0 {
			return best
		}
		if d = d.dirs[string(rest[:end])]; d == nil {
			return best
		}
		rest = rest[end+1:]
	}
}

// first returns the first rule of the directory that matches the rest of a path
// and comes before best, which may be nil; or nil.
func (d *dir) first(rest []byte, best *Rule) *Rule {
	for i := range d.rules {
		c := &d.rules[i]
		if best != nil && c.rule.place > best.place {
			return nil
		}
		if c.rest.matches(rest) {
			return c.rule
		}
	}
	return nil
}
