package urimap

import (
	"fmt"
	"strings"
)

// String returns the rule as `proxy check` shows it: pattern, worker, extensions
// and what is special about it.
func (r *Rule) String() string {
	prefix := ""
	if r.Disabled {
		prefix = "-"
	}
	if r.Exclude {
		prefix += "!"
	}
	return fmt.Sprintf("%s%s=%s%s", prefix, r.Pattern, r.Worker, r.Extensions.String())
}

// String returns the table of rules, one a line, in the order in which they are
// tried, each with where it comes from.
func (m *Map) String() string {
	var b strings.Builder
	for _, r := range m.Rules {
		fmt.Fprintf(&b, "%s:%d: %s\n", r.File, r.Line, r)
	}
	return b.String()
}

// String returns what the outcome means, for people.
func (o Outcome) String() string {
	switch o {
	case Unmapped:
		return "not mapped: no rule matches"
	case Mapped:
		return "mapped"
	case Excluded:
		return "not mapped: excluded"
	case Malformed:
		return "refused: malformed, or above the root"
	case Ambiguous:
		return "refused: servers read this path in different ways, with different results"
	case TooLong:
		return fmt.Sprintf("not mapped: longer than %d bytes", maxPath)
	case EncodedSlash:
		return "not mapped: it has an encoded slash"
	case Unsafe:
		return `not mapped: it has a '%' or a '\' when it is decoded`
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Status returns the status of the reply to a request that is not mapped, 400 or
// 404, and 0 for Mapped.
func (o Outcome) Status() int {
	switch o {
	case Mapped:
		return 0
	case Malformed, Ambiguous:
		return 400
	}
	return 404
}
