package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// rulesConfig is what an operator sets of the rules that choose a worker.
type rulesConfig struct {
	URIMap         string   `name:"urimap" placeholder:"FILE" help:"uriworkermap.properties, as mod_jk reads it. Without it, and without a mount in the workers file, all paths go to the only lb worker."`
	MapHosts       []string `placeholder:"HOST" help:"Hosts that have rules of their own: those that begin with /HOST/. Requests to other hosts go by the other rules."`
	EncodedSlashes bool     `help:"Map paths with %2F, if it makes no difference whether that is a slash; otherwise they are answered 404 (httpd's AllowEncodedSlashes)."`
	RejectUnsafe   bool     `help:"Map no path that has a % or a \\ when it is decoded (mod_jk's RejectUnsafeURI)."`
}

// read parses the rules that cfg and the workers file amount to. The map is nil if
// there are none at all; if there are wrong ones it has the problems.
func (cfg rulesConfig) read(file *worker.File, getenv func(string) (string, bool)) (*urimap.Map, error) {
	known := cfg.known(file, getenv)
	if cfg.URIMap == "" {
		if len(known.Mounts) == 0 {
			return nil, nil //nolint:nilnil // no rules is a choice, not a failure
		}
		return urimap.Parse(file.Name, strings.NewReader(""), known)
	}
	f, err := os.Open(cfg.URIMap)
	if err != nil {
		return nil, fmt.Errorf("--urimap: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return urimap.Parse(cfg.URIMap, f, known)
}

// known is what is known to rules of a workers file, and set for them.
func (cfg rulesConfig) known(file *worker.File, getenv func(string) (string, bool)) urimap.Config {
	return urimap.Config{
		Getenv: getenv, Workers: ruleWorkers(file), Mounts: ruleMounts(file), Hosts: cfg.MapHosts,
		EncodedSlashes: cfg.EncodedSlashes, RejectUnsafe: cfg.RejectUnsafe,
	}
}

// ruleWorkers are the workers that a rule may name.
func ruleWorkers(file *worker.File) []urimap.Worker {
	all := []urimap.Worker{}
	for _, lb := range file.LBs {
		w := urimap.Worker{Name: lb.Name, Balancer: true}
		for i := range lb.Members {
			w.Members = append(w.Members, lb.Members[i].Name)
		}
		all = append(all, w)
	}
	for _, m := range file.Members {
		all = append(all, urimap.Worker{Name: m.Name})
	}
	for _, s := range file.Statuses {
		all = append(all, urimap.Worker{Name: s.Name})
	}
	return all
}

// ruleMounts are the rules that the workers file itself has.
func ruleMounts(file *worker.File) []urimap.Mount {
	var all []urimap.Mount
	add := func(name string, mounts []worker.Mount) {
		for _, m := range mounts {
			all = append(all, urimap.Mount{File: file.Name, Line: m.Line, Worker: name, Patterns: []string{m.Pattern}})
		}
	}
	for _, lb := range file.LBs {
		add(lb.Name, lb.Mount)
	}
	for _, m := range file.Members {
		add(m.Name, m.Mount)
	}
	for _, s := range file.Statuses {
		add(s.Name, s.Mount)
	}
	return all
}

// variables looks up $(name) in the environment, for both files.
func variables(getenv func(string) string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v := getenv(name)
		return v, v != ""
	}
}
