package worker

import (
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// inherit resolves every reference (mod_jk.md 1.6): worker.a.reference=worker.b
// gives a whatever b has, and what b inherits, unless a has it. It is false if there
// is no end to it.
func (p *parser) inherit() bool {
	r := resolver{parser: p, suffixes: map[string][]*property{}}
	// Keys that are added on the way are looked at too: they stand behind.
	for i := 0; i < len(p.order) && r.work <= maxReferenceWork; i++ {
		if prop := p.order[i]; isReference(prop.key) {
			r.resolve(strings.TrimSuffix(prop.key, ".reference"), 0)
		}
	}
	if r.work > maxReferenceWork {
		p.fail(0, "too many references")
		return false
	}
	return true
}

func isReference(key string) bool {
	return strings.HasPrefix(key, "worker.") && strings.HasSuffix(key, ".reference")
}

type resolver struct {
	*parser
	suffixes map[string][]*property // prefix → its properties, once it is resolved
	done     map[string]bool
	work     int // properties looked at
}

// resolve adds to the worker with the given prefix ("worker.a") what it inherits.
func (r *resolver) resolve(prefix string, depth int) {
	ref := r.props[prefix+".reference"]
	if ref == nil || r.done[prefix] {
		return
	}
	from := ref.value
	if depth >= maxDepth {
		r.fail(ref.line, "%s: references go in a circle, or deeper than %d", properties.Show(ref.origin), maxDepth)
		return
	}
	if strings.HasPrefix(from, "worker.") {
		r.resolve(from, depth+1)
	}
	all := r.of(from)
	if len(all) == 0 {
		r.fail(ref.line, "%s: nothing begins with %s (a reference is a complete prefix, such as worker.template)", properties.Show(ref.origin), properties.Quote(from+"."))
	}
	r.referred[strings.TrimPrefix(from, "worker.")] = true
	for _, prop := range all {
		r.work++
		key := prefix + prop.key[len(from):]
		if r.props[key] != nil {
			continue
		}
		r.text += len(key)
		if len(key) > maxName || len(r.order) >= maxKeys || r.text > properties.MaxText || r.work > maxReferenceWork {
			r.work = maxReferenceWork + 1
			return
		}
		heir := *prop
		heir.key = key
		r.props[key] = &heir
		r.order = append(r.order, &heir)
	}
	if r.done == nil {
		r.done = map[string]bool{}
	}
	r.done[prefix] = true
}

// of returns the properties whose names begin with prefix and a dot.
func (r *resolver) of(prefix string) []*property {
	all, ok := r.suffixes[prefix]
	if ok {
		return all
	}
	r.work += len(r.order)
	for _, prop := range r.order {
		if strings.HasPrefix(prop.key, prefix) && len(prop.key) > len(prefix)+1 && prop.key[len(prefix)] == '.' {
			all = append(all, prop)
		}
	}
	r.suffixes[prefix] = all
	return all
}
