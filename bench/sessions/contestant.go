package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/understudy-lb/understudy/bench/stage"
)

// A contestant is one way to keep sessions, as processes that run.
type contestant struct {
	*stage.Troupe
	name  string
	addrs []string // of the nodes, for requests
	redis string   // address of its Redis; empty without one
	wire  []int    // ports whose traffic is that of replication
}

// Names of the contestants, in the order of the report. Ours, with what it does
// unless told otherwise, is the first.
const ours = "understudy"

func names() []string {
	return []string{
		ours, ours + "-no-ack", ours + "-pooled", ours + "-asynchronous", ours + "-fastasyncqueue", "tomcat-backup-sync", "tomcat-backup-async", "tomcat-delta-sync", "tomcat-delta-async",
		"tomcat-alone", "scs-redis", "scs-memory",
	}
}

// understudy returns how the contestant name replicates, as flags of its nodes.
func understudy(name string) (flags []string, ok bool) {
	mode, ok := strings.CutPrefix(name, ours)
	switch mode = strings.TrimPrefix(mode, "-"); mode {
	case "":
	case "no-ack":
		flags = []string{"-ack=false"}
	default:
		flags = []string{"-mode", mode}
	}
	return flags, ok
}

// tomcat returns how Tomcat keeps sessions as the contestant name.
func tomcat(name string) (m manager, ok bool) {
	switch name {
	case "tomcat-alone":
	case "tomcat-delta-sync":
		m = manager{"DeltaManager", sendSynchronized}
	case "tomcat-delta-async":
		m = manager{"DeltaManager", sendAsynchronous}
	case "tomcat-backup-sync":
		m = manager{"BackupManager", sendSynchronized}
	case "tomcat-backup-async":
		m = manager{"BackupManager", sendAsynchronous}
	default:
		return m, false
	}
	return m, true
}

// A bill is how contestants are started.
type bill struct {
	*stage.Stage
	node string // the binary of package node
	heap string // of a Java machine: -Xmx
}

// start starts the contestant with n nodes and waits until each is ready.
func (s *bill) start(ctx context.Context, name string, n int) (_ *contestant, err error) {
	troupe, err := s.Troupe(fmt.Sprintf("%s-%d", name, n), true)
	if err != nil {
		return nil, err
	}
	c := &contestant{Troupe: troupe, name: name}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", name, err), c.Stop())
		}
	}()
	if m, ok := tomcat(name); ok {
		err = s.tomcats(ctx, c, m, n)
	} else {
		err = s.nodes(ctx, c, n)
	}
	if err != nil {
		return nil, err
	}
	for _, addr := range c.addrs {
		if err := stage.Answers(ctx, "http://"+addr+"/ready"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (s *bill) nodes(ctx context.Context, c *contestant, n int) error {
	if c.name == "scs-redis" {
		port := s.Port()
		c.redis = fmt.Sprintf("127.0.0.1:%d", port)
		c.wire = []int{port}
		if err := c.Start(ctx, nil, "redis-server", "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"); err != nil {
			return err
		}
	}
	seed := ""
	for i := range n {
		c.addrs = append(c.addrs, s.Addr())
		store := c.name
		flags, us := understudy(c.name)
		if us {
			store = ours
		}
		args := append([]string{"-name", fmt.Sprintf("n%d", i), "-listen", c.addrs[i], "-store", store, "-redis", c.redis}, flags...)
		if us {
			gossip, replication := s.Addr(), s.Port()
			c.wire = append(c.wire, replication)
			args = append(args, "-gossip", gossip, "-replication", fmt.Sprintf("127.0.0.1:%d", replication), "-join", seed)
			if seed == "" {
				seed = gossip
			}
		}
		if err := c.Start(ctx, nil, s.node, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *bill) tomcats(ctx context.Context, c *contestant, m manager, n int) error {
	members := make([]int, n)
	for i := range members {
		members[i] = s.Port()
	}
	if m.class != "" {
		c.wire = members
	}
	for i := range n {
		http := s.Port()
		c.addrs = append(c.addrs, fmt.Sprintf("127.0.0.1:%d", http))
		base := filepath.Join(c.Dir, fmt.Sprintf("n%d", i))
		if err := m.base(base, http, s.Port(), members, i); err != nil {
			return err
		}
		if err := c.Start(ctx, stage.TomcatEnv(base, s.heap), stage.Catalina(), "run"); err != nil {
			return err
		}
	}
	return nil
}

// missing says what is not installed of what the contestant needs.
func missing(name string) string {
	switch {
	case strings.HasPrefix(name, "tomcat"):
		if _, err := os.Stat(stage.CatalinaHome); err != nil {
			return "Debian's package tomcat10"
		}
		if _, err := exec.LookPath("java"); err != nil {
			return "a Java runtime"
		}
	case name == "scs-redis":
		if _, err := exec.LookPath("redis-server"); err != nil {
			return "Debian's package redis-server"
		}
	}
	return ""
}
