package urimap

import (
	"fmt"
	"net/http"
	"strings"
)

// String returns the rule as it stands in the table: with its prefixes, its
// pattern without '|', its worker, and the extensions that count.
func (r *Rule) String() string {
	prefix := ""
	if r.Disabled {
		prefix = "-"
	}
	if r.Exclude {
		prefix += "!"
	}
	if r.Host != "" {
		prefix += "/" + r.Host
	}
	return prefix + r.Pattern + "=" + r.Worker + r.Extensions.String()
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
		return "not mapped, no rule matches"
	case Mapped:
		return "mapped"
	case Excluded:
		return "not mapped, excluded"
	case Malformed:
		return "refused: no path, a broken escape, or above the root"
	case Ambiguous:
		return "refused: servers read it in different ways, and that makes a difference"
	case TooLong:
		return fmt.Sprintf("not mapped, longer than %d bytes", maxPath)
	case EncodedSlash:
		return "not mapped, it has an encoded slash"
	case Unsafe:
		return `not mapped, it has a '%' or a '\' when it is decoded`
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Status returns the status of the reply to a request that is not mapped, 400 or
// 404 (mod_jk.md 5.4, 5.5), and 0 for Mapped.
func (o Outcome) Status() int {
	switch o {
	case Mapped:
		return 0
	case Malformed, Ambiguous:
		return http.StatusBadRequest
	default:
		return http.StatusNotFound
	}
}
