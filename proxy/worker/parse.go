package worker

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// Parse reads a workers.properties from r. Name stands in problems. Variables
// that the file does not define are looked up with getenv, which may be nil.
//
// The File is never nil and holds what could be made of the text, also when the
// error, then a [*properties.SyntaxError], says that it must not be used. Parse reads on
// after a mistake, so that the operator sees all of them at once.
func Parse(name string, r io.Reader, getenv func(string) (string, bool)) (*File, error) {
	p := parser{
		file:     &File{Name: name},
		getenv:   getenv,
		props:    map[string]*property{},
		referred: map[string]bool{},
		workers:  map[string]*named{},
		folded:   map[string]string{},
	}
	if p.read(r) && p.inherit() {
		p.group()
		p.build()
		p.effects()
	}
	p.file.Properties = p.open()
	p.file.Problems = p.problems.Sorted()
	return p.file, p.problems.Err()
}

// effects warns of directives and workers that do nothing.
func (p *parser) effects() {
	for _, name := range slices.Sorted(maps.Keys(p.workers)) {
		w := p.workers[name]
		if name == "" {
			p.warn(w.line, "%s: there is no name between the dots", properties.Show(w.props[0].origin))
			continue
		}
		if w.roles == 0 && !p.isReferred(name) {
			p.warn(w.line, "worker.%s: it is defined, but neither listed nor a member%s", properties.Show(name), p.otherCase(name))
		}
		if w.roles == 0 {
			continue
		}
		for _, prop := range w.props {
			p.effect(w, prop)
		}
	}
}

// isReferred reports whether a reference names the worker, or the first part of
// its name.
func (p *parser) isReferred(name string) bool {
	for {
		if p.referred[name] {
			return true
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			return false
		}
		name = name[:dot]
	}
}

// effect warns if a property does nothing.
func (p *parser) effect(w *named, prop *property) {
	name, d, _ := directiveOf(prop.key)
	switch {
	case d.old != "":
	case d.roles == asGlobal:
		p.warn(prop.line, "%s: has no effect, only worker.%s counts", properties.Show(prop.origin), name)
	case d.roles&w.roles == 0 && prop.origin == prop.key:
		p.warn(prop.line, "%s: has no effect on %s", properties.Show(prop.origin), w.roles)
	case name == "mount" && !slices.Contains(p.file.List, strings.TrimSuffix(strings.TrimPrefix(prop.key, "worker."), ".mount")):
		p.warn(prop.line, "%s: has no effect, because the worker is not in worker.list", properties.Show(prop.origin))
	}
}

// String returns what a worker is used as, for messages.
func (r role) String() string {
	var all []string
	for _, is := range []struct {
		role
		text string
	}{
		{asLB, "a balancer"},
		{asStatus, "a status worker"},
		{asAJP, "an ajp worker"},
		{asHTTP, "an http worker"},
	} {
		if r&is.role != 0 {
			all = append(all, is.text)
		}
	}
	text := strings.Join(all, " and ")
	if r&asServer != 0 && r&asMember == 0 {
		text += " that is no member"
	}
	return text
}
