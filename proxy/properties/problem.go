package properties

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says what a [Problem] does to the start.
type Severity uint8

// The severities. Errors are what mod_jk dies of or refuses the file for, whatever
// is wrong in an http worker, and what this version cannot do yet; every other trap
// is a warning, and what mod_jk makes of it counts (design.md D10).
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

// A Problem is something that the operator of a file should know or must mend.
type Problem struct {
	File     string
	Line     int // counted from 1; zero if it is about the whole file
	Severity Severity
	Text     string // mostly "<name of the property>: <what is wrong with it>"
}

// String returns the problem in one line, without its severity:
//
//	workers.properties:14: worker.lb.balance_workers: no worker "node9"
func (p Problem) String() string { return p.Place() + ": " + p.Text }

// Place returns where the problem is: file:line, or the file.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// A SyntaxError is what is wrong with a file that cannot be used. It holds the
// problems of severity [Error], at least one, in the order of their lines.
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

// MaxProblems is how many problems are kept; a file has no end of them.
const MaxProblems = 500

// Problems collects what is wrong. Its zero value is empty.
type Problems struct {
	all []Problem
}

// Add adds a problem, if there is room for more, and an error in any case.
func (c *Problems) Add(s Severity, file string, line int, format string, args ...any) {
	if len(c.all) >= MaxProblems {
		if s == Warning {
			return
		}
		// An error must not be lost in warnings.
		c.all = c.all[:MaxProblems-1]
	}
	c.all = append(c.all, Problem{File: file, Line: line, Severity: s, Text: fmt.Sprintf(format, args...)})
}

// Full reports whether a further warning would not be kept.
func (c *Problems) Full() bool { return len(c.all) >= MaxProblems }

// Sorted returns the problems by file and line, each once: one line may be the
// business of several workers or rules.
func (c *Problems) Sorted() []Problem {
	all := slices.Clone(c.all)
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	seen := make(map[Problem]bool, len(all))
	return slices.DeleteFunc(all, func(p Problem) bool {
		if seen[p] {
			return true
		}
		seen[p] = true
		return false
	})
}

// Err returns a [*SyntaxError] with the errors among the problems, or nil.
func (c *Problems) Err() error {
	bad := slices.DeleteFunc(c.Sorted(), func(p Problem) bool { return p.Severity != Error })
	if len(bad) == 0 {
		return nil
	}
	return &SyntaxError{Problems: bad}
}
