package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// idlers gives n clients of the proxy a session, which they leave alone.
func (s *cluster) idlers(p *proxy, n int) []*client {
	s.t.Helper()
	all := make([]*client, n)
	for i := range all {
		all[i] = s.client(p.listen)
		all[i].Count()
		all[i].Close()
	}
	return all
}

// TestChainOfDeaths is TC-5 without a request in between: nodes are killed one
// after the other, each as soon as all others say that redundancy is restored,
// and 1,000 sessions that nobody uses meanwhile go on at the last one.
func TestChainOfDeaths(t *testing.T) { // SESS-30, D7
	left := []string{"a", "b", "c", "d"}
	s := newCluster(t, left...)
	p := s.proxy(s.workers(left...), true)
	idle := s.idlers(p, 1000)
	for deaths := 1; len(left) > 1; deaths++ {
		victim := s.nodes[left[0]]
		left = left[1:]
		began := time.Now()
		victim.Kill()
		if len(left) == 1 {
			break
		}
		for _, name := range left {
			n := s.nodes[name]
			stage.Wait(t, "node "+name+" has restored redundancy", func() bool {
				return len(n.Lines("redundancy restored")) == deaths &&
					metric(t, n.admin, "understudy_restoring") == 0 && metric(t, n.admin, "understudy_sessions_lacking_copy") == 0
			})
		}
		t.Logf("redundancy restored %v after the death of %s", time.Since(began).Round(time.Millisecond), victim.name)
	}
	for i, c := range idle {
		if r := c.Count(); r.Node != "d" || r.Counter != 2 {
			t.Fatalf("session %d: %v, want 2 from d", i, r)
		}
		c.Close()
	}
}

// A visitor counts by POST and looks by GET, in turns. Unlike [counting] it takes
// no error for granted: nobody dies here.
type visitor struct {
	*client
	posts, gets int
	faults      []string
}

func (v *visitor) visit(halted context.Context, think time.Duration) {
	for n := 0; halted.Err() == nil; n++ {
		before := v.Last()
		method, path, want := http.MethodPost, "/counter", before.Counter+1
		if n%2 == 1 {
			method, path, want = http.MethodGet, "/peek", before.Counter
			v.gets++
		} else {
			v.posts++
		}
		r, err := v.Do(context.WithoutCancel(halted), method, path)
		switch {
		case err != nil:
			v.fault("%v; the reply before: %v", err, before)
		case r.Counter != want, r.Lost, r.SessionID != before.SessionID:
			v.fault("%s %s: %v after %v", method, path, r, before)
		}
		stage.Sleep(halted, think)
	}
}

func (v *visitor) fault(format string, a ...any) {
	v.faults = append(v.faults, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, a...))
}

// TestRollingRestart restarts every node in turn, three times, under 200 clients:
// no session is lost, no request fails, and all counters are exact.
func TestRollingRestart(t *testing.T) { // SESS-39
	const rounds, visitors = 3, 200
	names := []string{"a", "b", "c", "d"}
	s := newCluster(t, names...)
	p := s.proxy(s.workers(names...), true)
	idle := s.idlers(p, 200)
	halted, halt := context.WithCancel(t.Context())
	defer halt()
	var wg sync.WaitGroup
	all := make([]*visitor, visitors)
	for i := range all {
		v := &visitor{client: s.client(p.listen)}
		v.Count()
		all[i] = v
		wg.Go(func() { v.visit(halted, time.Duration(150+i)*time.Millisecond) })
	}
	for round := range rounds {
		for _, name := range names {
			n := s.nodes[name]
			began := time.Now()
			if code := n.Stop(); code != 0 {
				t.Errorf("round %d: node %s ended with %d", round, name, code)
			}
			stopped := time.Since(began)
			if !n.Logged("sessions handed over", `"left":0,`) {
				t.Errorf("round %d: node %s did not hand over all its sessions: %q", round, name, n.Lines("sessions handed over"))
			}
			s.launch(n)
			s.ready(name)
			t.Logf("round %d: %s stopped in %v, back after %v", round, name, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		}
	}
	halt()
	wg.Wait()
	posts, gets, faults := 0, 0, 0
	for i, v := range all {
		posts, gets, faults = posts+v.posts, gets+v.gets, faults+len(v.faults)
		if want := v.posts + 1; v.Last().Counter != want {
			t.Errorf("visitor %d: counter %d after %d requests that count", i, v.Last().Counter, want)
		}
		for _, f := range v.faults[:min(len(v.faults), 3)] {
			t.Errorf("visitor %d: %s", i, f)
		}
		v.Close()
	}
	for _, c := range idle {
		c.Count()
		c.Close()
	}
	t.Logf("%d requests that count and %d that look, %d faults", posts, gets, faults)
	if posts < visitors*10 {
		t.Errorf("%d requests: hardly a load", posts)
	}
}
