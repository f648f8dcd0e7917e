package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/properties"
	"github.com/understudy-lb/understudy/proxy/urimap"
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

// run prints the configuration that the files amount to, every problem in them,
// and what becomes of a URI. It fails if there is an error, with --strict also on
// warnings.
func (c *checkConfig) run(e env) error {
	r := report{out: e.stdout}
	read := c.files
	if c.HTTPD != "" {
		read = c.translated
	}
	file, rules, err := read(&r, e)
	if err != nil {
		return err
	}
	if !r.failed {
		// What is wrong between the files, or beyond their grammar.
		_, codec, err := readKeys(c.keyConfig, true)
		if err != nil {
			return err
		}
		p, err := proxy.New(proxy.Config{Workers: file, URIMap: rules, Codec: codec})
		if err != nil {
			r.printf("%v\n", err)
			r.failed = true
		} else {
			defer p.Close()
			r.printf("%v", file)
			if rules != nil {
				r.printf("\nrules, in the order in which they are tried:\n%v", rules)
			}
			if c.Explain != "" {
				r.printf("\n")
				r.explain(p, rules, c.Explain, c.Cookie)
			}
		}
	}
	switch {
	case r.err != nil:
		return r.err
	case r.failed, r.warned && c.Strict:
		return errFailed
	}
	return nil
}

// files reads the files that are set.
func (c *checkConfig) files(r *report, e env) (*worker.File, *urimap.Map, error) {
	file, err := readWorkers(c.Workers, variables(e.getenv))
	if err != nil && !isSyntax(err) {
		return nil, nil, err
	}
	r.problems(file.Problems)
	rules, err := c.read(file, variables(e.getenv))
	if err != nil && !isSyntax(err) {
		return nil, nil, err
	}
	if rules != nil {
		r.problems(rules.Problems)
	}
	return file, rules, nil
}

// isSyntax reports whether err is that of a file that was read and is wrong.
func isSyntax(err error) bool {
	_, ok := errors.AsType[*properties.SyntaxError](err)
	return ok
}

// A report is what check prints.
type report struct {
	out            io.Writer
	err            error // the first of printing
	warned, failed bool
}

func (r *report) printf(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.out, format, args...)
	}
}

func (r *report) problems(all []properties.Problem) {
	for _, p := range all {
		isError := p.Severity == properties.Error
		r.warned, r.failed = r.warned || !isError, r.failed || isError
		r.printf("%s: %v: %s\n", p.Place(), p.Severity, p.Text)
	}
}
