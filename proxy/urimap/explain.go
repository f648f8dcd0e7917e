package urimap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// An Explanation tells how a path came to its [Match].
type Explanation struct {
	Path  string // without scheme, host and query
	Match Match

	// Readings are the ways in which servers read the path: mostly one, none if
	// it is refused before it is compared with anything.
	Readings []Reading
}

// A Reading is one form in which a path was compared with the rules.
type Reading struct {
	Normal string // normal form; empty if it has none
	Match  Match

	// Steps are the rules in the order in which they were looked at: those that
	// map, up to the first that matches; further ones that match too; and then
	// the exclusions.
	Steps []Step
}

// A Step is what one rule had to do with it.
type Step struct {
	Rule    *Rule
	Matches bool // its pattern describes the path
	Decides bool // because of it the match is what it is
	Why     string
}

// Explain returns what [Map.Match] says of a path, and why. It also takes a whole
// URI, of which it looks at the path.
func (m *Map) Explain(uri string) Explanation {
	m = m.For([]byte(hostOf(uri)))
	e := Explanation{Path: pathOf(uri)}
	path := []byte(e.Path)
	e.Match, _ = m.Match(path, nil)
	doubts, o := m.survey(path)
	if o != Mapped {
		return e
	}
	for r := doubts; ; r = (r - 1) & doubts {
		one := m.explain(path, r)
		if !slices.ContainsFunc(e.Readings, func(other Reading) bool { return other.Normal == one.Normal }) {
			e.Readings = append(e.Readings, one)
		}
		if r == 0 {
			return e
		}
	}
}

// pathOf returns the path of a URI.
func pathOf(uri string) string {
	uri, _, _ = strings.Cut(uri, "#")
	uri, _, _ = strings.Cut(uri, "?")
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || strings.Contains(scheme, "/") {
		return uri
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// hostOf returns the host of a URI, with its port, or "".
func hostOf(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || strings.ContainsAny(scheme, "/?#") {
		return ""
	}
	return rest[:strings.IndexAny(rest+"/", "/?#")]
}

// explain explains one reading.
func (m *Map) explain(path []byte, r reading) Reading {
	normal, ok := normalForm(nil, path, r)
	if !ok {
		return Reading{Match: Match{Outcome: Malformed}}
	}
	one := Reading{Normal: string(normal), Match: m.find(normal)}
	if one.Match.Outcome != TooLong {
		one.look(m, normal)
	}
	return one
}

// look goes through all rules, one after the other.
func (r *Reading) look(m *Map, path []byte) {
	var first *Rule
	for _, rule := range m.own {
		if rule.Exclude {
			continue
		}
		s := Step{Rule: rule, Matches: rule.glob.matches(path)}
		switch {
		case rule.Disabled && s.Matches:
			s.Why = "would match, but is disabled"
		case rule.Disabled:
			s.Why = "is disabled"
		case !s.Matches && rule.Exact():
			s.Why = "is not equal"
		case !s.Matches:
			s.Why = "does not match"
		case first == nil:
			first = rule
			s.Decides = r.Match.Rule == rule
			s.Why = "matches, the first"
		default:
			s.Why = "matches too, but comes later: " + later(rule, first)
		}
		if s.Matches || first == nil {
			r.Steps = append(r.Steps, s)
		}
	}
	if first != nil {
		r.exclude(m, path, first)
	}
}

// exclude goes through all exclusions.
func (r *Reading) exclude(m *Map, path []byte, first *Rule) {
	for _, rule := range m.own {
		if !rule.Exclude {
			continue
		}
		s := Step{Rule: rule, Matches: rule.glob.matches(path)}
		switch {
		case rule.Disabled && s.Matches:
			s.Why = "would exclude, but is disabled"
		case rule.Disabled:
			s.Why = "is disabled"
		case !s.Matches:
			s.Why = "does not exclude"
		case rule.Worker != first.Worker && rule.Worker != everyWorker:
			s.Why = "matches, but excludes from worker " + properties.Show(rule.Worker) + " only"
		default:
			s.Decides = r.Match.Rule == rule
			s.Why = "excludes from worker " + properties.Show(first.Worker)
		}
		r.Steps = append(r.Steps, s)
	}
}

// later returns why rule a comes behind rule b, which both match.
func later(a, b *Rule) string {
	switch {
	case a.slashes() != b.slashes():
		return fmt.Sprintf("fewer slashes, %d instead of %d", a.slashes(), b.slashes())
	case len(a.Pattern) != len(b.Pattern):
		return fmt.Sprintf("shorter, %d bytes instead of %d", len(a.Pattern), len(b.Pattern))
	case a.Source != b.Source:
		return "equal, but from a " + a.Source.String()
	case a.Exact() != b.Exact():
		return "equal, but with wildcards"
	}
	return "equal, but further down"
}

// String returns the explanation for people, in several lines.
func (e Explanation) String() string {
	var b strings.Builder
	for _, r := range e.Readings {
		switch r.Normal {
		case "":
			fmt.Fprintf(&b, "%s goes above the root\n", properties.Show(e.Path))
		case e.Path:
			fmt.Fprintf(&b, "%s is in normal form\n", properties.Show(e.Path))
		default:
			fmt.Fprintf(&b, "%s is compared as %s\n", properties.Show(e.Path), properties.Show(r.Normal))
		}
		for _, s := range r.Steps {
			fmt.Fprintf(&b, "  %s:%d: %s: %s\n", s.Rule.File, s.Rule.Line, s.Rule, s.Why)
		}
	}
	switch e.Match.Outcome {
	case Mapped:
		fmt.Fprintf(&b, "%s: worker %s%s\n", properties.Show(e.Path), e.Match.Worker, e.Match.Rule.Extensions.String())
	default:
		fmt.Fprintf(&b, "%s: %d, %s\n", properties.Show(e.Path), e.Match.Outcome.Status(), e.Match.Outcome)
	}
	return b.String()
}
