package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/understudy-lb/understudy/proxy/worker"
)

// readWorkers parses the workers file at path. The file is not nil if it could
// be read at all, even if it is wrong: it then has the problems.
func readWorkers(path string, getenv func(string) (string, bool)) (*worker.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--workers: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return worker.Parse(path, f, getenv)
}

// run prints the configuration that a workers file amounts to, and every
// problem in it. It fails if there is an error, with --strict also on warnings.
func (c *checkConfig) run(e env) error {
	file, err := readWorkers(c.Workers, variables(e.getenv))
	var wrong *worker.SyntaxError
	if err != nil && !errors.As(err, &wrong) {
		return err
	}
	problems := []worker.Problem(nil)
	if file != nil {
		problems = file.Problems
	}
	if file == nil && wrong != nil {
		problems = wrong.Problems
	}
	warned := false
	for _, p := range problems {
		warned = warned || p.Severity == worker.Warning
		place, text := fmt.Sprintf("%s:%d", p.File, p.Line), p.Text
		if p.Line == 0 {
			place = p.File
		}
		if _, err := fmt.Fprintf(e.stdout, "%s: %v: %s\n", place, p.Severity, text); err != nil {
			return err
		}
	}
	if wrong != nil {
		return errFailed
	}
	if _, err := fmt.Fprint(e.stdout, file); err != nil {
		return err
	}
	if warned && c.Strict {
		return errFailed
	}
	return nil
}
