package oracle

import (
	"net/url"
	"regexp"
	"strings"
)

// A deviation excuses one kind of difference. Its predicate is as narrow as what
// one step shows allows.
type deviation struct {
	name    string   // what the report calls it
	row     string   // first cell of its row in docs/deviations.md
	classes []string // of differences, or their beginnings up to a blank
	parts   bool     // the members are in different states afterwards
	excuses func(x *exchange, d difference) bool
}

// excuse returns the deviation that d is, or nil.
func excuse(x *exchange, d difference) *deviation {
	for i := range deviations {
		v := &deviations[i]
		for _, class := range v.classes {
			if (d.class == class || strings.HasPrefix(d.class, class+" ")) && v.excuses(x, d) {
				return v
			}
		}
	}
	return nil
}

// outcome is what differs if a request is served by another member or by none.
var outcome = []string{"attempts", "served by", "status"}

var deviations = []deviation{{
	name:    "an ambiguous path is refused",
	row:     "a path that servers read in different ways",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		path, _, _ := strings.Cut(strings.ToLower(x.request.target), "?")
		odd := strings.Contains(path, "%2f") || strings.Contains(path, "%3b") || strings.Contains(path, "%5c") || strings.Contains(path, `\`) ||
			strings.Contains(path, ";") && strings.Contains(path, "/..")
		return x.ours.reply.status == 400 && len(x.ours.attempts) == 0 && odd
	},
}, {
	name:    "a NUL in a path is refused",
	row:     "`%00` in a path",
	classes: []string{"status"},
	excuses: func(x *exchange, d difference) bool {
		return strings.Contains(x.request.target, "%00") && d.jk == "404" && d.ours == "400"
	},
}, {
	name:    "a path goes on as it came",
	row:     "the forwarded path",
	classes: []string{"request uri"},
	excuses: func(x *exchange, d difference) bool {
		path, _, _ := strings.Cut(x.request.target, "?")
		return d.ours == path && normal(path) == normal(d.jk)
	},
}, {
	name:    "a rule without a / at its start counts",
	row:     "a rule without a `/` at its start",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		path, _, _ := strings.Cut(x.request.target, "?")
		path = parameters.ReplaceAllString(normal(path), "")
		for _, rule := range x.rules {
			pattern, _, _ := strings.Cut(strings.TrimLeft(rule, "-!"), "=")
			if pattern = strings.TrimSpace(pattern); strings.HasPrefix(pattern, "/") {
				continue
			}
			for _, side := range sides("/" + pattern) {
				if matches(side, path) {
					return true
				}
			}
		}
		return false
	},
}, {
	name:    "the route of a session that is served in its domain",
	row:     "the route that a member is told",
	classes: []string{"request attribute route"},
	excuses: func(_ *exchange, d difference) bool {
		return !printable.MatchString(d.jk) // a pointer to what is no more
	},
}}

var (
	parameters = regexp.MustCompile(`;[^/]*`)
	printable  = regexp.MustCompile(`^[\w.-]+$`)
)

// normal is a path as httpd has it when mod_jk gets it: decoded, and without empty
// segments and those of dots.
func normal(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	var segments []string
	all := strings.Split(path, "/")
	for i, segment := range all {
		last := i == len(all)-1
		switch segment {
		case "", ".":
			if last {
				segments = append(segments, "")
			}
		case "..":
			segments = segments[:max(len(segments)-1, 0)]
			if last {
				segments = append(segments, "")
			}
		default:
			segments = append(segments, segment)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// matches reports whether a pattern with * and ? is about a path.
func matches(pattern, path string) bool {
	r := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("^(?s:" + r + ")$").MatchString(path)
}
