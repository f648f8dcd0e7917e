package urimap

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says what a [Problem] does to the start.
type Severity uint8

// The severities. Errors are what mod_jk refuses the whole file for; every other
// trap is a warning, and what mod_jk makes of it counts (design.md D10).
const (
	Warning Severity = iota
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// A Problem is something that the operator of a uriworkermap.properties should
// know or must mend.
type Problem struct {
	File     string // as named by the caller of [Parse], or the file of a [Mount]
	Line     int    // counted from 1; zero if it is about the whole file
	Severity Severity
	Text     string // mostly "<the pattern>: <what is wrong with it>"
}

// String returns the problem in one line, without its severity:
//
//	uriworkermap.properties:3: /shop/*: no worker "shoplb"
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// A SyntaxError is returned by [Parse] for a file that cannot be used. It holds
// the problems of severity [Error], at least one, in the order of their lines.
type SyntaxError struct {
	Problems []Problem
}

// Error returns the first problem, and how many more there are, in one line.
func (e *SyntaxError) Error() string {
	if n := len(e.Problems); n > 1 {
		return fmt.Sprintf("%v (and %d more)", e.Problems[0], n-1)
	}
	return e.Problems[0].String()
}

// sortProblems orders ps by line and drops what was said twice, as happens when
// one line is two rules.
func sortProblems(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	seen := make(map[Problem]bool, len(ps))
	return slices.DeleteFunc(ps, func(p Problem) bool {
		if seen[p] {
			return true
		}
		seen[p] = true
		return false
	})
}

// errorOf returns a [*SyntaxError] with the errors among ps, or nil.
func errorOf(ps []Problem) error {
	var bad []Problem
	for _, p := range ps {
		if p.Severity == Error {
			bad = append(bad, p)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return &SyntaxError{Problems: bad}
}
