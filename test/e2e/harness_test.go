// Package e2e starts the built commands as real processes and speaks HTTP to
// them. It imports nothing of ours: what it asserts, a user could see.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for an event that must come. It is no
// performance claim: a loaded machine may need seconds for what takes
// milliseconds.
const patience = 30 * time.Second

// Where the commands were built, "" if they were not needed.
var proxyBinary, appnodeBinary string

func TestMain(m *testing.M) {
	os.Exit(testMain(m)) //nolint:forbidigo // a TestMain ends the process
}

func testMain(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run() // every test skips
	}
	dir, err := os.MkdirTemp("", "understudy-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator),
		"github.com/understudy-lb/understudy/cmd/proxy", "github.com/understudy-lb/understudy/cmd/appnode")
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, text)
		return 1
	}
	proxyBinary, appnodeBinary = filepath.Join(dir, "proxy"), filepath.Join(dir, "appnode")
	return m.Run()
}

// A process is a command that a test has started.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when the process has ended; err is set before
	err  error
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs binary until the test ends, at the latest.
func start(t *testing.T, name, binary string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(binary, args...), out: &output{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("---- %s %v:\n%s", name, args, tail(p.out.String(), 60))
		}
	})
	return p
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// kill ends p as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop asks p to end and returns its exit status.
func (p *process) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	return p.wait()
}

// wait returns the exit status of p, which must end by itself.
func (p *process) wait() int {
	p.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		p.t.Fatalf("%s does not end", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// nextPort is the port that freeAddr tries next. The kernel takes its own
// ports from 32768 on, so nobody gets one of these by chance in between.
var nextPort atomic.Int32

// running reports whether there is a process n.
func running(n int) bool {
	p, err := os.FindProcess(n)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// freeAddr returns an address on loopback on which nothing listens, neither by
// TCP nor by UDP.
func freeAddr(t *testing.T) string {
	t.Helper()
	nextPort.CompareAndSwap(0, int32(12000+os.Getpid()%15000))
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+int(nextPort.Add(1)-12000)%20000))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		ln.Close()
		pc, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		pc.Close()
		return addr
	}
	t.Fatal("no free port")
	return ""
}

// A node is one app node. It keeps its addresses when it is started again.
type node struct {
	*process
	name                  string
	listen, gossip, admin string
	args                  []string
}

// A stage is a cluster of app nodes with the proxies in front of it.
type stage struct {
	t       *testing.T
	dir     string
	key     string // file
	nodes   map[string]*node
	proxies []*proxyProcess
}

type proxyProcess struct {
	*process
	listen, admin string
	args          []string
}

// newStage starts nodes of these names and waits until each is ready.
func newStage(t *testing.T, names ...string) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	s := &stage{t: t, dir: t.TempDir(), nodes: map[string]*node{}}
	s.key = filepath.Join(s.dir, "cluster.key")
	out, err := exec.Command(proxyBinary, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.key, out, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s.add(name)
	}
	for _, name := range names {
		s.ready(name)
	}
	for _, name := range names {
		s.wait("node "+name+" is connected with all others", func() bool {
			return metric(t, s.nodes[name].admin, "understudy_peers_up") == float64(len(names)-1)
		})
	}
	return s
}

// add starts a node that joins the others; args are further flags.
func (s *stage) add(name string, args ...string) *node {
	s.t.Helper()
	n := &node{name: name, listen: freeAddr(s.t), gossip: freeAddr(s.t), admin: freeAddr(s.t), args: args}
	s.nodes[name] = n
	s.launch(n)
	return n
}

// launch starts n, also again.
func (s *stage) launch(n *node) {
	s.t.Helper()
	args := append([]string{
		"--name", n.name, "--listen", n.listen, "--gossip", n.gossip, "--admin", n.admin,
		"--cluster-key", s.key, "--stop-timeout", "5s",
	}, n.args...)
	if seeds := s.seeds(n); seeds != "" {
		args = append(args, "--join", seeds)
	}
	n.process = start(s.t, "node "+n.name, appnodeBinary, args...)
}

// seeds are the gossip addresses of all nodes but n.
func (s *stage) seeds(n *node) string {
	var seeds []string
	for _, m := range s.nodes {
		if m != n {
			seeds = append(seeds, m.gossip)
		}
	}
	slices.Sort(seeds)
	return strings.Join(seeds, ",")
}

// ready waits until a node says so.
func (s *stage) ready(name string) {
	s.t.Helper()
	s.wait("node "+name+" is ready", func() bool {
		res, err := quick.Get("http://" + s.nodes[name].listen + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// workers writes a workers file that lists these nodes as members of one lb.
func (s *stage) workers(names ...string) string {
	s.t.Helper()
	text := fmt.Sprintf("worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n", strings.Join(names, ","))
	return s.file(fmt.Sprintf("workers-%s.properties", strings.Join(names, "")), s.servers(names...)+text)
}

// servers are the lines of a workers file that say where nodes are.
func (s *stage) servers(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		host, port, _ := net.SplitHostPort(s.nodes[name].listen)
		fmt.Fprintf(&b, "worker.%s.type=http\nworker.%[1]s.host=%[2]s\nworker.%[1]s.port=%[3]s\n", name, host, port)
	}
	return b.String()
}

// file writes a file and returns its path.
func (s *stage) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// proxy starts a proxy over a workers file and returns it when it answers.
// With gossip it also joins the nodes.
func (s *stage) proxy(workers string, gossip bool, args ...string) *proxyProcess {
	s.t.Helper()
	p := &proxyProcess{listen: freeAddr(s.t), admin: freeAddr(s.t)}
	p.args = append([]string{
		"serve", "--workers", workers, "--listen", p.listen, "--admin", p.admin, "--cluster-key", s.key, "--stop-timeout", "5s",
	}, args...)
	if gossip {
		p.args = append(p.args, "--join", s.seeds(nil))
	}
	s.proxies = append(s.proxies, p)
	s.launchProxy(p)
	return p
}

func (s *stage) launchProxy(p *proxyProcess) {
	s.t.Helper()
	p.process = start(s.t, "proxy", proxyBinary, p.args...)
	s.wait("the proxy is ready", func() bool {
		res, err := quick.Get("http://" + p.admin + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// wait polls until ok: processes have no other way to tell.
func (s *stage) wait(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			s.t.Fatalf("waited %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// quick asks for one page at a time; it keeps no connections, so that a test
// which kills processes does not meet its own broken ones.
var quick = &http.Client{
	Timeout:       patience,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// A reply is what the demo application says.
type reply struct {
	Counter   int    `json:"counter"`
	Node      string `json:"node"`
	SessionID string `json:"sessionID"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	Epoch     string `json:"epoch"`
	Version   uint64 `json:"version"`
	IsNew     bool   `json:"isNew"`
	Lost      bool   `json:"lost"`
}

// A client is a browser: it keeps the session cookie.
type client struct {
	t      *testing.T
	base   string // scheme and address
	http   *http.Client
	cookie string // as it was set, "" without one
	id     string // of the session, once known
	last   reply
}

func newClient(t *testing.T, addr string) *client {
	c := &client{t: t, base: "http://" + addr, http: &http.Client{Timeout: patience, Transport: &http.Transport{}, CheckRedirect: quick.CheckRedirect}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// do sends one request; the error covers statuses from 400 on too.
func (c *client) do(ctx context.Context, method, path string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return reply{}, err
	}
	if c.cookie != "" {
		req.Header.Set("Cookie", "JSESSIONID="+c.cookie)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	for _, set := range res.Cookies() {
		if set.Name == "JSESSIONID" {
			c.cookie = set.Value
			if set.MaxAge < 0 {
				c.cookie = ""
			}
		}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return reply{}, fmt.Errorf("%s %s: %s: %.200s", method, path, res.Status, body)
	}
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return reply{}, fmt.Errorf("%s %s: %w: %.200s", method, path, err, body)
	}
	c.last = r
	return r, nil
}

// must is do for requests that have to succeed.
func (c *client) must(method, path string) reply {
	c.t.Helper()
	r, err := c.do(c.t.Context(), method, path)
	if err != nil {
		c.t.Fatalf("%v (the reply before: %+v)", err, c.last)
	}
	return r
}

// count adds one by POST and checks that the session goes on where it stood.
func (c *client) count() reply {
	c.t.Helper()
	before := c.last
	r := c.must(http.MethodPost, "/counter")
	if r.Counter != before.Counter+1 {
		c.t.Fatalf("counter is %d after %d: %+v after %+v", r.Counter, before.Counter, r, before)
	}
	if c.id == "" {
		c.id = r.SessionID
	}
	if r.Lost || r.SessionID != c.id || (before.Counter > 0 && r.IsNew) {
		c.t.Fatalf("the session does not go on: %+v after %+v", r, before)
	}
	return r
}

// countN counts n times.
func (c *client) countN(n int) reply {
	c.t.Helper()
	var r reply
	for range n {
		r = c.count()
	}
	return r
}

// protected counts until the session has a living secondary; the reply names
// the pair. New copies are made in the background after a change of members.
func (c *client) protected(s *stage) reply {
	c.t.Helper()
	var r reply
	s.wait("the session has a secondary", func() bool {
		r = c.count()
		n := s.nodes[r.Secondary]
		if n == nil {
			return false
		}
		select {
		case <-n.done:
			return false
		default:
			return true
		}
	})
	return r
}
