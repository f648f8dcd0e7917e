package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// A cluster is app nodes on loopback and a proxy in front of them.
type cluster struct {
	t      *testing.T
	r      *report
	key    string // file
	names  []string
	nodes  map[string]*node
	proxy  *stage.Process
	listen string // of the proxy
}

// A node is one app node. It keeps its addresses when it is started again.
type node struct {
	*stage.Process
	name                  string
	listen, gossip, admin string
}

func newCluster(t *testing.T, r *report, names ...string) *cluster {
	t.Helper()
	s := &cluster{t: t, r: r, names: names, nodes: map[string]*node{}, listen: stage.FreeAddr(t)}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := exec.Command(binaries.Proxy, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	s.key = file("cluster.key", string(key))
	workers := fmt.Sprintf("worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n", strings.Join(names, ","))
	for _, name := range names {
		n := &node{name: name, listen: stage.FreeAddr(t), gossip: stage.FreeAddr(t), admin: stage.FreeAddr(t)}
		s.nodes[name] = n
		host, port, _ := net.SplitHostPort(n.listen)
		workers += fmt.Sprintf("worker.%s.type=http\nworker.%[1]s.host=%[2]s\nworker.%[1]s.port=%[3]s\n", name, host, port)
	}
	for _, name := range names {
		s.start(name)
	}
	admin := stage.FreeAddr(t)
	s.proxy = stage.Start(t, stage.Command{Name: "proxy", Binary: binaries.Proxy, Args: []string{
		"serve", "--workers", file("workers.properties", workers), "--listen", s.listen, "--admin", admin,
		"--cluster-key", s.key, "--join", s.seeds(""),
	}})
	stage.Wait(t, "the proxy is ready", func() bool { return answers(t, admin) })
	s.whole()
	return s
}

// seeds are the gossip addresses of all nodes but the one of that name.
func (s *cluster) seeds(but string) string {
	var seeds []string
	for _, name := range s.names {
		if name != but {
			seeds = append(seeds, s.nodes[name].gossip)
		}
	}
	return strings.Join(seeds, ",")
}

// start starts a node, also again. The requests of a session run one after the
// other there, so that it is one counter also for two windows.
func (s *cluster) start(name string) {
	s.t.Helper()
	n := s.nodes[name]
	n.Process = stage.Start(s.t, stage.Command{Name: "node " + name, Binary: binaries.AppNode, Args: []string{
		"--name", name, "--listen", n.listen, "--gossip", n.gossip, "--admin", n.admin, "--join", s.seeds(name),
		"--cluster-key", s.key, "--exclusive", "--drain-timeout", "20s", "--stop-timeout", "5s",
	}})
}

// whole waits until all nodes are ready and connected with each other, and no
// session lacks a copy.
func (s *cluster) whole() {
	s.t.Helper()
	began := time.Now()
	for _, name := range s.names {
		n := s.nodes[name]
		stage.Wait(s.t, "node "+name+" is ready", func() bool { return answers(s.t, n.listen) })
		stage.Wait(s.t, "node "+name+" is connected with all others", func() bool {
			return s.metric(n, "understudy_peers_up") == float64(len(s.names)-1)
		})
	}
	s.safe(s.names)
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.recovered = max(s.r.recovered, time.Since(began))
}

// safe waits until these nodes say that no session lacks a copy.
func (s *cluster) safe(names []string) {
	s.t.Helper()
	for _, name := range names {
		stage.Wait(s.t, "node "+name+" has restored redundancy", func() bool {
			n := s.nodes[name]
			return s.metric(n, "understudy_restoring") == 0 && s.metric(n, "understudy_sessions_lacking_copy") == 0
		})
	}
}

// metric reads one sample of a node, -1 if it is not there.
func (s *cluster) metric(n *node, sample string) float64 {
	v, err := stage.Metric(s.t.Context(), "http://"+n.admin+"/metrics", sample, nil)
	if err != nil {
		return -1
	}
	return v
}

// answers reports whether what listens there is ready.
func answers(t *testing.T, addr string) bool {
	_, err := stage.Page(t.Context(), "http://"+addr+"/readyz", nil)
	return err == nil
}

// plague does one thing after the other to the nodes until halted.
func (s *cluster) plague(halted context.Context, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	pause := func(from, to time.Duration) { stage.Sleep(halted, from+time.Duration(rnd.Int64N(int64(to-from)))) }
	for pause(time.Second, 3*time.Second); halted.Err() == nil; pause(time.Second, 3*time.Second) {
		for _, name := range s.names {
			if !s.nodes[name].Running() {
				s.t.Errorf("node %s has ended by itself: %s", name, lastLines(s.nodes[name].Output()))
				s.start(name)
			}
		}
		name := s.names[rnd.IntN(len(s.names))]
		n := s.nodes[name]
		switch kind := rnd.IntN(4); kind {
		case 0, 1: // it comes back before the others have recovered, or after
			s.r.fault("kill -9")
			n.Kill()
			pause(0, 4*time.Second)
			if kind == 0 {
				s.safe(slices.DeleteFunc(slices.Clone(s.names), func(x string) bool { return x == name }))
			}
			s.start(name)
		case 2:
			s.r.fault("freeze")
			n.Freeze()
			pause(100*time.Millisecond, 9*time.Second)
			n.Thaw()
		case 3:
			s.r.fault("drain")
			if code := n.Stop(); code != 0 {
				s.t.Errorf("node %s ended with %d: %s", name, code, lastLines(n.Output()))
			}
			pause(0, 3*time.Second)
			s.start(name)
		}
		s.whole()
	}
}

func lastLines(text string) string { return text[max(0, len(text)-2000):] }
