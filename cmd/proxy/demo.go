package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/settings"
)

// appnodePackage is built when no appnode stands beside this executable.
const appnodePackage = "github.com/understudy-lb/understudy/cmd/appnode"

// restartAfter is how long the demo leaves a node that was killed dead.
const restartAfter = 20 * time.Second

// demoNode is one app node of the demo.
type demoNode struct {
	name, listen, gossip string
}

// run starts app nodes as processes of their own and a proxy in this one, and
// stops them all when ctx is done.
func (d *demoConfig) run(ctx context.Context, e env) error {
	if d.Nodes < 1 || d.Nodes > 9 {
		return fmt.Errorf("--nodes %d: want 1 to 9", d.Nodes)
	}
	dir, err := os.MkdirTemp("", "understudy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary folder is no failure

	binary, err := findAppnode(ctx, dir)
	if err != nil {
		return err
	}
	nodes, err := d.reserve(ctx)
	if err != nil {
		return err
	}
	key := filepath.Join(dir, "cluster.key")
	if err := os.WriteFile(key, []byte(keyfile.Generate().Hex()+"\n"), 0o600); err != nil {
		return err
	}
	workers := filepath.Join(dir, "workers.properties")
	if err := os.WriteFile(workers, demoWorkers(nodes), 0o600); err != nil {
		return err
	}

	token, tokenFile := rand.Text(), filepath.Join(dir, "admin.token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		return err
	}

	out := &lineWriter{w: e.stdout}
	cfg, err := d.serving(workers, key, tokenFile, nodes[0].gossip, nodes[len(nodes)-1].gossip)
	if err != nil {
		return err
	}
	front, err := newServer(ctx, cfg, env{getenv: e.getenv, stdout: out, stderr: io.Discard})
	if err != nil {
		return err
	}
	say(out, `
  Understudy: %d app nodes and a proxy.

    open     http://%s/        the demo application
    look at  http://%s/        the status page
    kill     the node that serves you: the page says how
             (it comes back after %v)
    drain    a node on the status page, with the token
             %s
    stop     with ^C

`, d.Nodes, d.Listen, d.Admin, restartAfter, token)

	// The nodes outlive ctx by as long as the proxy needs to finish.
	running, stopNodes := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopNodes()
	for _, n := range nodes {
		wg.Go(func() { n.keep(running, out, binary, key, nodes[0].gossip) })
	}
	return front.serve(ctx, e)
}

// serving is what the proxy of the demo is set to: as by a command line, so that
// it has the defaults of all other settings.
func (d *demoConfig) serving(workers, key, token string, join ...string) (serveConfig, error) {
	var c commands
	_, err := settings.Parse(&c, settings.Config{
		Name: "proxy", Stdout: io.Discard, Getenv: func(string) string { return "" },
		Args: []string{
			"serve", "--workers", workers, "--listen", d.Listen, "--admin", d.Admin, "--cluster-key", key, "--admin-token", token,
			"--join", strings.Join(join, ","), "--log-level", "warn", "--stop-timeout", "5s",
		},
	})
	return c.Serve, err
}

// reserve chooses names and free ports.
func (d *demoConfig) reserve(ctx context.Context) ([]demoNode, error) {
	var nodes []demoNode
	var held []net.Listener
	defer func() {
		for _, ln := range held {
			ln.Close() //nolint:errcheck // it was only held so that the kernel gives each port once
		}
	}()
	free := func() (string, error) {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		held = append(held, ln)
		return ln.Addr().String(), nil
	}
	for i := range d.Nodes {
		listen, err := free()
		if err != nil {
			return nil, err
		}
		gossip, err := free()
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, demoNode{string(rune('a' + i)), listen, gossip})
	}
	return nodes, nil
}

// demoWorkers is the workers file of the demo.
func demoWorkers(nodes []demoNode) []byte {
	var b bytes.Buffer
	var names []string
	for _, n := range nodes {
		host, port, _ := net.SplitHostPort(n.listen)
		fmt.Fprintf(&b, "worker.%s.type=http\nworker.%[1]s.host=%[2]s\nworker.%[1]s.port=%[3]s\n", n.name, host, port)
		names = append(names, n.name)
	}
	fmt.Fprintf(&b, "worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n", strings.Join(names, ","))
	return b.Bytes()
}

// findAppnode returns the appnode beside this executable, or builds one in
// dir.
func findAppnode(ctx context.Context, dir string) (string, error) {
	name := "appnode"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	binary := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, appnodePackage)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("no %s beside this executable, and it cannot be built here: %w\n%s", name, err, text)
	}
	return binary, nil
}

// keep runs n until ctx is done, and again a while after it has ended.
func (n demoNode) keep(ctx context.Context, out io.Writer, binary, key, join string) {
	for ctx.Err() == nil {
		err := n.once(ctx, out, binary, key, join)
		if ctx.Err() != nil {
			return
		}
		how := "has stopped"
		if err != nil {
			how = "is gone: " + err.Error()
		}
		say(out, "  node %s %s; back in %v\n", n.name, how, restartAfter)
		t := time.NewTimer(restartAfter)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// once runs n as a process until it ends; when ctx is done it is asked to.
func (n demoNode) once(ctx context.Context, out io.Writer, binary, key, join string) error {
	cmd := exec.CommandContext(ctx, binary, "--name", n.name, "--listen", n.listen, "--gossip", n.gossip,
		"--join", join, "--cluster-key", key, "--stop-timeout", "3s")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var last lastLine
	cmd.Stderr = &last
	if err := cmd.Start(); err != nil {
		return err
	}
	say(out, "  node %s: http://%s/ process %d\n", n.name, n.listen, cmd.Process.Pid)
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return fmt.Errorf("%w: %s", err, last.text())
	}
	return err
}

// say tells whoever tries the demo; if nobody listens that is no failure.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// lineWriter lets several goroutines write lines to one writer.
type lineWriter struct {
	mu sync.Mutex // guards w; held for one write to a terminal or pipe, which is all that it is for
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// lastLine keeps the end of what a process says.
type lastLine struct {
	mu   sync.Mutex // guards tail
	tail []byte     // at most the last maxTail bytes
}

// maxTail is how much of a node's last words the demo keeps.
const maxTail = 4 << 10

func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	if n := len(l.tail) - maxTail; n > 0 {
		l.tail = append(l.tail[:0], l.tail[n:]...)
	}
	return len(p), nil
}

func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := ""
	for s := bufio.NewScanner(bytes.NewReader(l.tail)); s.Scan(); {
		if s.Text() != "" {
			last = s.Text()
		}
	}
	return last
}
