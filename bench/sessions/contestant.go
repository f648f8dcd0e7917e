package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A contestant is one way to keep sessions, as processes that run.
type contestant struct {
	name  string
	addrs []string // of the nodes, for requests
	redis string   // address of its Redis; empty without one
	wire  []int    // ports whose traffic is that of replication

	cmds []*exec.Cmd
	dir  string
}

// Names of the contestants, in the order of the report. Ours is the first.
const ours = "understudy"

func names() []string {
	return []string{
		ours, "tomcat-backup-sync", "tomcat-backup-async", "tomcat-delta-sync", "tomcat-delta-async",
		"tomcat-alone", "scs-redis", "scs-memory",
	}
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

// A stage is where contestants are started.
type stage struct {
	dir  string // for files; removed at the end
	node string // the binary of package node
	pin  bool   // servers on the first core, the load on the others
	heap string // of a Java machine: -Xmx
	next int    // the next free port
}

func (s *stage) port() int { s.next++; return s.next }

// start starts the contestant with n nodes and waits until each is ready.
func (s *stage) start(ctx context.Context, name string, n int) (_ *contestant, err error) {
	c := &contestant{name: name, dir: filepath.Join(s.dir, fmt.Sprintf("%s-%d", name, n))}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", name, err), c.stop())
		}
	}()
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	if m, ok := tomcat(name); ok {
		err = s.tomcats(ctx, c, m, n)
	} else {
		err = s.nodes(ctx, c, n)
	}
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, 5*time.Minute) // eight Java machines on one core take their time
	defer cancel()
	for _, addr := range c.addrs {
		for !answers(wait, "http://"+addr+"/ready") {
			if !pause(wait, 100*time.Millisecond) {
				return nil, fmt.Errorf("%s is not ready; its output is in %s", addr, c.dir)
			}
		}
	}
	return c, nil
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	rep, err := client().Do(req)
	if err != nil {
		return false
	}
	return rep.Body.Close() == nil && rep.StatusCode == http.StatusOK
}

// client asks one question.
func client() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

func (s *stage) nodes(ctx context.Context, c *contestant, n int) error {
	if c.name == "scs-redis" {
		port := s.port()
		c.redis = fmt.Sprintf("127.0.0.1:%d", port)
		c.wire = []int{port}
		if err := s.run(ctx, c, nil, "redis-server", "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"); err != nil {
			return err
		}
	}
	seed := ""
	for i := range n {
		c.addrs = append(c.addrs, fmt.Sprintf("127.0.0.1:%d", s.port()))
		args := []string{"-name", fmt.Sprintf("n%d", i), "-listen", c.addrs[i], "-store", c.name, "-redis", c.redis}
		if c.name == ours {
			gossip, replication := fmt.Sprintf("127.0.0.1:%d", s.port()), s.port()
			c.wire = append(c.wire, replication)
			args = append(args, "-gossip", gossip, "-replication", fmt.Sprintf("127.0.0.1:%d", replication), "-join", seed)
			if seed == "" {
				seed = gossip
			}
		}
		if err := s.run(ctx, c, nil, s.node, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) tomcats(ctx context.Context, c *contestant, m manager, n int) error {
	members := make([]int, n)
	for i := range members {
		members[i] = s.port()
	}
	if m.class != "" {
		c.wire = members
	}
	for i := range n {
		http := s.port()
		c.addrs = append(c.addrs, fmt.Sprintf("127.0.0.1:%d", http))
		base := filepath.Join(c.dir, fmt.Sprintf("n%d", i))
		if err := m.base(base, http, s.port(), members, i); err != nil {
			return err
		}
		env := []string{
			"CATALINA_HOME=" + catalinaHome, "CATALINA_BASE=" + base,
			"CATALINA_OPTS=-Xmx" + s.heap + " -Djava.net.preferIPv4Stack=true -Djava.security.egd=file:/dev/urandom",
		}
		if err := s.run(ctx, c, env, filepath.Join(catalinaHome, "bin", "catalina.sh"), "run"); err != nil {
			return err
		}
	}
	return nil
}

// run starts one process of c. It ends with this one.
func (s *stage) run(ctx context.Context, c *contestant, env []string, name string, args ...string) error {
	if s.pin {
		args = append([]string{"-c", "0", name}, args...)
		name = "taskset"
	}
	out, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("out%d", len(c.cmds))))
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the process has its own
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmds = append(c.cmds, cmd)
	return nil
}

func (c *contestant) pids() []int {
	var pids []int
	for _, cmd := range c.cmds {
		pids = append(pids, cmd.Process.Pid)
	}
	return pids
}

// stop ends every process of c and waits for it.
func (c *contestant) stop() error {
	var errs []error
	for _, cmd := range c.cmds {
		errs = append(errs, cmd.Process.Kill())
		_ = cmd.Wait() // killed: it cannot end well
	}
	c.cmds = nil
	return errors.Join(errs...)
}

// missing says what is not installed of what the contestant needs.
func missing(name string) string {
	switch {
	case strings.HasPrefix(name, "tomcat"):
		if _, err := os.Stat(catalinaHome); err != nil {
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
