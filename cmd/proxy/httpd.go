package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/understudy-lb/understudy/proxy/httpdconf"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// translated reads an httpd's configuration instead of files, and prints the files
// that are equal to it.
func (c *checkConfig) translated(r *report, e env) (*worker.File, *urimap.Map, error) {
	path, err := filepath.Abs(c.HTTPD)
	if err != nil {
		return nil, nil, fmt.Errorf("--httpd: %w", err)
	}
	env := variables(e.getenv)
	t, err := httpdconf.Translate(filepath.ToSlash(path), httpdconf.Config{Getenv: env})
	if err != nil && !isSyntax(err) {
		return nil, nil, fmt.Errorf("--httpd: %w", err)
	}
	r.problems(t.Problems)
	r.printf("# ---- workers.properties ----\n%s", ended(t.Workers))
	if t.Rules != "" {
		r.printf("# ---- uriworkermap.properties ----\n%s", ended(t.Rules))
	}
	r.printf("# ---- to serve it ----\n# proxy serve --workers=workers.properties")
	if t.Rules != "" {
		r.printf(" --urimap=uriworkermap.properties")
	}
	for _, flag := range t.Flags {
		r.printf(" %s", flag)
		host, ok := strings.CutPrefix(flag, "--map-hosts=")
		switch {
		case ok:
			c.MapHosts = append(c.MapHosts, host)
		case flag == "--encoded-slashes":
			c.EncodedSlashes = true
		case flag == "--reject-unsafe":
			c.RejectUnsafe = true
		}
	}
	r.printf("\n# ---- what they mean ----\n")
	file, err := worker.Parse("workers.properties", strings.NewReader(t.Workers), func(name string) (string, bool) {
		if name == "ServerRoot" {
			return t.ServerRoot, true
		}
		return env(name)
	})
	if err != nil && !isSyntax(err) {
		return nil, nil, err
	}
	r.problems(file.Problems)
	if t.Rules == "" && len(ruleMounts(file)) == 0 {
		return file, nil, nil
	}
	rules, err := urimap.Parse("uriworkermap.properties", strings.NewReader(t.Rules), c.known(file, env))
	if err != nil && !isSyntax(err) {
		return nil, nil, err
	}
	r.problems(rules.Problems)
	return file, rules, nil
}

// ended returns text with a newline at its end.
func ended(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		return text + "\n"
	}
	return text
}
