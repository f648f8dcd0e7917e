package urimap

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// Parse reads a uriworkermap.properties from r. Name stands in problems.
//
// The Map is never nil and holds the rules that are good, also when the error,
// then a [*properties.SyntaxError], says that it must not be used. Parse reads on after a
// mistake, so that the operator sees all of them at once.
func Parse(name string, r io.Reader, cfg Config) (*Map, error) {
	p := parser{
		m:     &Map{Name: name, encodedSlashes: cfg.EncodedSlashes, rejectUnsafe: cfg.RejectUnsafe},
		cfg:   cfg,
		props: map[string]*property{},
	}
	p.know()
	p.read(r)
	p.build()
	p.mount()
	p.hosts()
	p.sort()
	p.check()
	p.index()
	p.m.Problems = p.problems.Sorted()
	return p.m, p.problems.Err()
}

// know notes which workers there are.
func (p *parser) know() {
	if p.cfg.Workers == nil {
		return
	}
	p.workers, p.members = map[string]*Worker{}, map[string]bool{}
	for i := range p.cfg.Workers {
		w := &p.cfg.Workers[i]
		p.workers[w.Name] = w
		for _, m := range w.Members {
			p.members[m] = true
		}
	}
}

// build makes rules of the lines.
func (p *parser) build() {
	for _, prop := range p.order {
		if prop.line > 0 {
			p.rules(prop)
		}
	}
}

// rules makes the rules of one line (mod_jk.md 5.2).
func (p *parser) rules(prop *property) {
	path, disabled := strings.CutPrefix(prop.key, "-")
	path, exclude := strings.CutPrefix(path, "!")
	switch {
	case strings.HasPrefix(path, "*"):
		p.warn(prop.line, "%s: mod_jk refuses a pattern without '/' at its start; it is read as %s", properties.Show(prop.key), properties.Show("/"+path))
		path = "/" + path
	case exclude && strings.HasPrefix(path, "-"):
		p.warn(prop.line, "%s: '-' must stand before '!', so this is no rule", properties.Show(prop.key))
		return
	case !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "|"):
		if !prop.used {
			p.warn(prop.line, "%s: does not begin with '/', so this is no rule, and nothing uses it as a variable", properties.Show(prop.key))
		}
		return
	}
	rule := Rule{
		File: p.m.Name, Line: prop.line, Text: prop.key,
		Exclude: exclude, Disabled: disabled,
	}
	p.value(&rule, prop.value)
	first, more, two := strings.Cut(path, "|")
	patterns := []string{first}
	if two {
		patterns = append(patterns, first+more)
	}
	for _, pattern := range patterns {
		if !strings.HasPrefix(pattern, "/") {
			p.warnRule(&rule, "%s does not begin with '/', so this half is no rule", properties.Quote(pattern))
			continue
		}
		rule.Pattern = pattern
		if !p.add(rule) {
			return
		}
	}
}

// mount makes the rules of the mount directives.
func (p *parser) mount() {
	for _, m := range p.cfg.Mounts {
		for _, text := range m.Patterns {
			r := Rule{File: m.File, Line: m.Line, Source: FromMount, Text: text, Worker: m.Worker}
			r.Pattern, r.Disabled = strings.CutPrefix(text, "-")
			r.Pattern, r.Exclude = strings.CutPrefix(r.Pattern, "!")
			if !strings.HasPrefix(r.Pattern, "/") {
				p.problems.Add(properties.Warning, m.File, m.Line, "worker.%s.mount: %s does not begin with '/', so it is no rule", m.Worker, properties.Quote(text))
				continue
			}
			if strings.Contains(r.Pattern, "|") {
				p.problems.Add(properties.Warning, m.File, m.Line, "worker.%s.mount: %s: '|' is a character like others here", m.Worker, properties.Quote(text))
			}
			if !p.add(r) {
				return
			}
		}
	}
}

// add adds a rule, and reports whether there is room for more.
func (p *parser) add(r Rule) bool {
	if len(p.m.Rules) >= maxRules {
		p.problems.Add(properties.Error, r.File, r.Line, "more than %d rules", maxRules)
		return false
	}
	r.glob = newGlob(r.Pattern)
	p.m.Rules = append(p.m.Rules, &r)
	return true
}

// Exact reports whether the pattern has no wildcards, so that only a path equal
// to it matches.
func (r *Rule) Exact() bool { return !strings.ContainsAny(r.Pattern, wildcards) }

// slashes returns what rules are ordered by first.
func (r *Rule) slashes() int { return strings.Count(r.Pattern, "/") }

// sort brings the rules into the order in which they are tried (mod_jk.md 5.3).
func (p *parser) sort() {
	slices.SortStableFunc(p.m.Rules, compare)
	for i, r := range p.m.Rules {
		r.place = i
	}
}

// compare returns whether rule a is tried before rule b. That an exact pattern
// comes first, and then what stands first, is ours: mod_jk leaves it open.
func compare(a, b *Rule) int {
	return cmp.Or(
		cmp.Compare(b.slashes(), a.slashes()),
		cmp.Compare(len(b.Pattern), len(a.Pattern)),
		cmp.Compare(a.Source, b.Source),
		compareBool(b.Exact(), a.Exact()),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// hosts finds out which rules are for which hosts.
func (p *parser) hosts() {
	p.m.hosts = map[string]*Map{}
	for _, name := range p.cfg.Hosts {
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		if name == "" || len(name) > maxHost || strings.ContainsAny(name, "/*?|=#; ") {
			p.fail(0, "%s is not the name of a host", properties.Quote(name))
			continue
		}
		p.m.hosts[name] = &Map{Name: p.m.Name, encodedSlashes: p.m.encodedSlashes, rejectUnsafe: p.m.rejectUnsafe}
		n := 0
		for _, r := range p.m.Rules {
			rest, ok := strings.CutPrefix(r.Pattern, "/"+name)
			if ok && strings.HasPrefix(rest, "/") {
				r.Host, r.Pattern, r.glob = name, rest, newGlob(rest)
				n++
			}
		}
		if n == 0 {
			p.warn(0, "no rule begins with /%s/, so requests to this host are not mapped", properties.Show(name))
		}
	}
}

// index prepares the map for [Map.Match].
func (p *parser) index() {
	for _, r := range p.m.Rules {
		of := p.m
		if r.Host != "" {
			of = p.m.hosts[r.Host]
		}
		of.own = append(of.own, r)
	}
	p.m.index()
	for _, of := range p.m.hosts {
		of.Rules = of.own
		of.index()
	}
}

// index fills the indexes of one map.
func (m *Map) index() {
	excluded := map[string]*index{}
	for _, r := range m.own {
		switch {
		case r.Disabled:
		case !r.Exclude:
			m.mapping.add(r)
		case r.Worker == everyWorker:
			m.always.add(r)
		default:
			if excluded[r.Worker] == nil {
				excluded[r.Worker] = &index{}
			}
			excluded[r.Worker].add(r)
		}
	}
	for _, r := range m.own {
		r.excluded = excluded[r.Worker]
	}
}

// everyWorker is the worker of an exclusion that holds for all of them.
const everyWorker = "*"
