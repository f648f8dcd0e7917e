package urimap

import (
	"bytes"
	"strings"
)

// wildcards are the characters of a pattern that stand for others.
const wildcards = "*?"

// A glob is a pattern, or what is left of one behind its directory, cut so that
// most of the texts that do not match need two comparisons only.
type glob struct {
	head   string // before the first wildcard
	middle string // from the first wildcard to the last; empty if there is none
	tail   string // behind the last wildcard
}

func newGlob(pattern string) glob {
	first := strings.IndexAny(pattern, wildcards)
	if first < 0 {
		return glob{head: pattern}
	}
	last := strings.LastIndexAny(pattern, wildcards)
	return glob{pattern[:first], pattern[first : last+1], pattern[last+1:]}
}

// matches reports whether the pattern describes all of s.
func (g *glob) matches(s []byte) bool {
	rest := len(s) - len(g.head) - len(g.tail)
	if rest < 0 || string(s[:len(g.head)]) != g.head || string(s[len(s)-len(g.tail):]) != g.tail {
		return false
	}
	switch g.middle {
	case "*":
		return true
	case "":
		return rest == 0
	}
	return expand(g.middle, s[len(g.head):len(s)-len(g.tail)])
}

// expand reports whether s can be had from p by replacing each '*' by any bytes
// and each '?' by one. Only the last '*' that was met is ever tried again: an
// earlier one could only give away what that one can take as well. So the time
// is at most len(p)*len(s), whatever a client sends.
func expand(p string, s []byte) bool {
	star, begin := -1, 0 // the last '*' in p, and where in s that what is behind it is tried
	i, j := 0, 0         // in p, in s
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, begin = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == s[j]):
			i++
			j++
		case star < 0:
			return false
		default:
			begin++
			if next := star + 1; next < len(p) && p[next] != '?' {
				skip := bytes.IndexByte(s[begin:], p[next])
				if skip < 0 {
					return false
				}
				begin += skip
			}
			i, j = star+1, begin
		}
	}
	return strings.Trim(p[i:], "*") == ""
}
