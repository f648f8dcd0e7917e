// Package e2e starts the built commands as real processes and speaks HTTP to
// them. It imports nothing of ours but the harness: what it asserts, a user could
// see.
package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// binaries are the built commands; zero with -short.
var binaries stage.Binaries

func TestMain(m *testing.M) {
	os.Exit(stage.Main(m, "understudy-e2e-", &binaries)) //nolint:forbidigo // a TestMain ends the process
}

// start runs a command until the test ends, at the latest.
func start(t *testing.T, name, binary string, args ...string) *stage.Process {
	t.Helper()
	return stage.Start(t, stage.Command{Name: name, Binary: binary, Args: args})
}

// A node is one app node. It keeps its addresses when it is started again.
type node struct {
	*stage.Process
	name                  string
	listen, gossip, admin string
	args                  []string
}

// A proxy is one in front of the nodes.
type proxy struct {
	*stage.Process
	listen, admin string
	args          []string
}

// A cluster is app nodes on loopback, with the proxies in front of them. When the
// test ends each of its processes must give back what the test made it hold.
type cluster struct {
	t       *testing.T
	dir     string
	key     string // file
	nodes   map[string]*node
	proxies []*proxy
	clients []*client

	ended      sync.Once
	proxyMarks []*stage.Mark
	nodeMarks  []*stage.Mark // in the order in which they were taken
}

// newCluster starts nodes of these names and waits until each is ready and
// connected with all others.
func newCluster(t *testing.T, names ...string) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	s := &cluster{t: t, dir: t.TempDir(), nodes: map[string]*node{}}
	out, err := exec.Command(binaries.Proxy, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	s.key = s.file("cluster.key", string(out))
	for _, name := range names {
		s.add(name)
	}
	for _, name := range names {
		s.ready(name)
	}
	return s
}

// add starts a node that joins the others; args are further flags.
func (s *cluster) add(name string, args ...string) *node {
	s.t.Helper()
	n := &node{name: name, listen: stage.FreeAddr(s.t), gossip: stage.FreeAddr(s.t), admin: stage.FreeAddr(s.t), args: args}
	s.nodes[name] = n
	s.launch(n)
	return n
}

// launch starts n, also again.
func (s *cluster) launch(n *node) {
	s.t.Helper()
	args := append([]string{
		"--name", n.name, "--listen", n.listen, "--gossip", n.gossip, "--admin", n.admin,
		"--cluster-key", s.key, "--stop-timeout", "5s",
	}, n.args...)
	if seeds := s.seeds(n); seeds != "" {
		args = append(args, "--join", seeds)
	}
	n.Process = start(s.t, "node "+n.name, binaries.AppNode, args...)
	s.t.Cleanup(s.end) // before the processes are ended
}

// seeds are the gossip addresses of all nodes but n.
func (s *cluster) seeds(n *node) string {
	var seeds []string
	for _, m := range s.nodes {
		if m != n {
			seeds = append(seeds, m.gossip)
		}
	}
	slices.Sort(seeds)
	return strings.Join(seeds, ",")
}

// ready waits until a node says so and is connected with all others, and takes its
// mark.
func (s *cluster) ready(name string) {
	s.t.Helper()
	n := s.nodes[name]
	stage.Wait(s.t, "node "+name+" is ready", func() bool { return answers(s.t, "http://"+n.listen+"/readyz") })
	stage.Wait(s.t, "node "+name+" is connected with all others", func() bool {
		others := -1
		for _, m := range s.nodes {
			if m.Running() {
				others++
			}
		}
		return metric(s.t, n.admin, "understudy_peers_up") == float64(others)
	})
	s.nodeMarks = append(s.nodeMarks, stage.Hold(s.t, n.Process, "http://"+n.admin, nil))
}

// workers writes a workers file that lists these nodes as members of one lb.
func (s *cluster) workers(names ...string) string {
	s.t.Helper()
	text := fmt.Sprintf("worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n", strings.Join(names, ","))
	return s.file(fmt.Sprintf("workers-%s.properties", strings.Join(names, "")), s.servers(names...)+text)
}

// servers are the lines of a workers file that say where nodes are.
func (s *cluster) servers(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		host, port, _ := net.SplitHostPort(s.nodes[name].listen)
		fmt.Fprintf(&b, "worker.%s.type=http\nworker.%[1]s.host=%[2]s\nworker.%[1]s.port=%[3]s\n", name, host, port)
	}
	return b.String()
}

// file writes a file and returns its path.
func (s *cluster) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// proxy starts a proxy over a workers file and returns it when it answers.
// With gossip it also joins the nodes.
func (s *cluster) proxy(workers string, gossip bool, args ...string) *proxy {
	s.t.Helper()
	p := &proxy{listen: stage.FreeAddr(s.t), admin: stage.FreeAddr(s.t)}
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

// launchProxy starts p, also again, and takes its mark.
func (s *cluster) launchProxy(p *proxy) {
	s.t.Helper()
	p.Process = start(s.t, "proxy", binaries.Proxy, p.args...)
	s.t.Cleanup(s.end) // before the processes are ended
	stage.Wait(s.t, "the proxy is ready", func() bool { return answers(s.t, "http://"+p.admin+"/readyz") })
	s.proxyMarks = append(s.proxyMarks, stage.Hold(s.t, p.Process, "http://"+p.admin, nil))
}

// end looks whether each process gives back what it has got since its mark, and
// ends it: the proxies first, which keep connections to nodes, then the nodes, the
// last one first, which was no peer of the others when theirs was taken.
func (s *cluster) end() {
	s.ended.Do(func() {
		for _, c := range s.clients {
			c.Close()
		}
		marks := slices.Clone(s.nodeMarks)
		slices.Reverse(marks)
		for _, m := range append(s.proxyMarks, marks...) {
			if s.t.Failed() {
				return // it may have left anything behind
			}
			m.Returned(s.t)
			m.Process().Kill()
		}
	})
}

// quick asks for one page at a time; it keeps no connections, so that a test
// which kills processes does not meet its own broken ones.
var quick = &http.Client{
	Timeout:       stage.Patience,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answers reports whether there is a good answer at url.
func answers(t *testing.T, url string) bool {
	_, err := stage.Page(t.Context(), url, nil)
	return err == nil
}

// metric reads one sample of a metrics page, 0 if it is not there.
func metric(t *testing.T, admin, sample string) float64 {
	v, _ := stage.Metric(t.Context(), "http://"+admin+"/metrics", sample, nil) // 0 with an error
	return v
}

// A client is a browser in front of a cluster.
type client struct {
	*stage.Client
	s *cluster
}

// client returns one of the proxy or node at addr.
func (s *cluster) client(addr string) *client {
	c := &client{stage.NewClient(s.t, addr, stage.Patience, nil), s}
	s.clients = append(s.clients, c)
	return c
}

// protected counts until the session has a living secondary; the reply names
// the pair. New copies are made in the background after a change of members.
func (c *client) protected() stage.Reply {
	c.s.t.Helper()
	return c.CountUntil("the session has a secondary", func(r stage.Reply) bool {
		n := c.s.nodes[r.Secondary]
		return n != nil && n.Running()
	})
}
