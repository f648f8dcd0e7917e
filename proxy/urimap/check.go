package urimap

import (
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// check warns of rules that do not do what they seem to.
func (p *parser) check() {
	used := map[string]bool{} // workers that something is mapped to
	for _, r := range p.m.Rules {
		if !r.Exclude && !r.Disabled {
			used[r.Worker] = true
		}
	}
	type kind struct {
		host, pattern string
		worker        string // of an exclusion
		exclude       bool
	}
	firsts := map[kind]*Rule{}
	kindOf := func(r *Rule) kind {
		if r.Exclude {
			return kind{r.Host, r.Pattern, r.Worker, true}
		}
		return kind{host: r.Host, pattern: r.Pattern}
	}
	for _, r := range p.m.Rules {
		if r.Disabled {
			continue
		}
		if first := firsts[kindOf(r)]; first != nil {
			p.warnRule(r, "%s has no effect, because %s has the same pattern and comes first", properties.Show(r.Pattern), first.where())
			continue
		}
		firsts[kindOf(r)] = r
		if why := unmatchable(r.Pattern); why != "" {
			p.warnRule(r, "%s can never match: %s", properties.Show(r.Pattern), why)
		}
		p.worker(r, used)
	}
	p.reach()
	for i := range p.cfg.Workers {
		if name := p.cfg.Workers[i].Name; !used[name] {
			p.warn(0, "no rule maps to worker %s, so it gets no requests", properties.Quote(name))
		}
	}
	for _, r := range p.m.Rules {
		if other := firsts[kindOf(r)]; r.Disabled && other != nil {
			p.warnRule(r, "'-' disables this rule only; %s has the same pattern and is in force", other.where())
		}
	}
}

// maxCompared is how many rules are compared with each other by reach.
const maxCompared = 2000

// reach warns of rules that match, but never count: an earlier one matches all that
// they do, or an exclusion does. mod_jk orders rules by slashes and length, so a rule
// for one path may stand behind one for many.
func (p *parser) reach() {
	if len(p.m.Rules) > maxCompared {
		return
	}
	for i, r := range p.m.Rules {
		if r.Disabled || r.Exclude {
			continue
		}
		if by := p.coveredBy(i); by != nil && by.Exclude {
			p.warnRule(r, "%s never maps anything: %s excludes all that it matches", properties.Show(r.Pattern), by.where())
		} else if by != nil {
			p.warnRule(r, "%s never counts: %s comes first and matches all that it does", properties.Show(r.Pattern), by.where())
		}
	}
}

// coveredBy returns a rule because of which rule i never counts, or nil. Equal ones
// have been warned of.
func (p *parser) coveredBy(i int) *Rule {
	r := p.m.Rules[i]
	for j, o := range p.m.Rules {
		switch {
		case o.Disabled || o.Host != r.Host:
		case o.Exclude && o.Worker != r.Worker && o.Worker != everyWorker:
		case !o.Exclude && (j >= i || o.Pattern == r.Pattern):
		case covers(o.Pattern, r.Pattern):
			return o
		}
	}
	return nil
}

// covers reports whether pattern a matches all that pattern b matches, as far as that
// can be told by looking at one byte after the other: a '*' of b by a '*' of a alone.
func covers(a, b string) bool {
	i, star, from := 0, -1, 0
	for j := 0; j < len(b); {
		switch {
		case i < len(a) && a[i] == '*':
			star, from = i, j
			i++
		case i < len(a) && (a[i] == b[j] && b[j] != '*' || a[i] == '?' && b[j] != '*'):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(a[i:], "*") == ""
}

// unmatchable returns why no normalised path can match a pattern, or "".
func unmatchable(pattern string) string {
	switch {
	case strings.Contains(pattern, "//"):
		return "several slashes are one when it is compared"
	case strings.Contains(pattern, "/./"), strings.HasSuffix(pattern, "/."),
		strings.Contains(pattern, "/../"), strings.HasSuffix(pattern, "/.."):
		return `"." and ".." are resolved when it is compared`
	case strings.Contains(pattern, ";"):
		return "path parameters are cut off when it is compared"
	case len(strings.Trim(pattern, "*")) > maxPath:
		return "it is too long"
	}
	for i := range len(pattern) {
		if _, n := byteAt([]byte(pattern[i:min(i+3, len(pattern))]), 0); n == 3 {
			return "paths are decoded when it is compared"
		}
	}
	return ""
}

// worker warns if a rule that is in force names a worker that there is not, or
// that cannot do what the rule asks.
func (p *parser) worker(r *Rule, used map[string]bool) {
	switch {
	case r.Worker == "":
		p.warnRule(r, "no worker before ';'; its requests get 500")
		return
	case r.Exclude:
		if r.Worker != everyWorker && !used[r.Worker] {
			p.warnRule(r, "excludes nothing: no rule maps to worker %s%s", properties.Quote(r.Worker), p.like(r.Worker))
		}
		return
	case r.Worker == everyWorker:
		p.warnRule(r, `"*" is every worker only in an exclusion; its requests get 500`)
		return
	}
	w := p.workers[r.Worker]
	switch {
	case p.workers == nil:
	case w != nil:
		p.fit(r, w)
	case p.members[r.Worker]:
		p.warnRule(r, "worker %s is a member of a balancer and not in worker.list; its requests get 500", properties.Quote(r.Worker))
	default:
		p.warnRule(r, "no worker %s in worker.list%s; its requests get 500", properties.Quote(r.Worker), p.like(r.Worker))
	}
}

// like returns a hint at a worker whose name differs in case only.
func (p *parser) like(name string) string {
	for i := range p.cfg.Workers {
		if w := p.cfg.Workers[i].Name; w != name && strings.EqualFold(w, name) {
			return "; there is " + properties.Quote(w)
		}
	}
	return ""
}

// where returns where a rule stands, for messages about another one.
func (r *Rule) where() string {
	return properties.Problem{File: r.File, Line: r.Line, Text: properties.Show(r.Text)}.String()
}
