package e2e

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// pair checks that r names two different living nodes, and that the primary
// is the one that served.
func pair(t *testing.T, s *cluster, r stage.Reply) {
	t.Helper()
	if r.Node != r.Primary || r.Primary == r.Secondary || s.nodes[r.Secondary] == nil {
		t.Fatalf("pair %s!%s served by %s: want two nodes, the primary serving", r.Primary, r.Secondary, r.Node)
	}
}

// TestFailover is TC-1: the node that serves dies, its secondary goes on.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, gossip := range []bool{true, false} {
		t.Run(fmt.Sprintf("gossip=%v", gossip), func(t *testing.T) {
			s := newCluster(t, "a", "b", "c")
			p := s.proxy(s.workers("a", "b", "c"), gossip)
			c := s.client(p.listen)
			c.protected()
			before := c.CountN(5)
			pair(t, s, before)

			s.nodes[before.Primary].Kill()
			after := c.Count()
			if after.Node != before.Secondary {
				t.Errorf("served by %s, want the secondary %s", after.Node, before.Secondary)
			}
			pair(t, s, after)
			if after.Secondary == before.Primary {
				t.Errorf("the new secondary is %s, which is dead", after.Secondary)
			}
			c.CountN(4)
		})
	}
}

// TestNodeAdded is TC-2: a node that joins later takes over when the others
// die, and gets sessions of its own.
func TestNodeAdded(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := s.client(p.listen)
	c.protected()
	first := c.CountN(3)

	s.add("c")
	s.ready("c")
	stage.Wait(t, "the proxy sends new sessions to c", func() bool {
		return s.client(p.listen).Must(http.MethodPost, "/counter").Node == "c"
	})
	c.CountN(3)

	s.nodes[first.Primary].Kill()
	second := c.protected()
	if second.Secondary != "c" {
		t.Errorf("secondary is %s, want c: no other is left", second.Secondary)
	}
	s.nodes[second.Primary].Kill()
	if r := c.Count(); r.Node != "c" || r.Secondary != "NONE" {
		t.Errorf("served by %s with secondary %s, want c and NONE", r.Node, r.Secondary)
	}
}

// TestReturn is TC-3: a node dies, comes back, and takes over in its turn.
func TestReturn(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "a", "b", "c")
	p := s.proxy(s.workers("a", "b", "c"), true)
	c := s.client(p.listen)
	c.protected()
	first := c.CountN(3)
	s.nodes[first.Primary].Kill()
	second := c.protected()
	c.CountN(3)

	s.launch(s.nodes[first.Primary])
	s.ready(first.Primary)
	// Whoever is left besides the one that came back dies now.
	s.nodes[second.Primary].Kill()
	third := c.protected()
	c.CountN(3)
	s.nodes[third.Primary].Kill()
	if last := c.Count(); last.Node != third.Secondary {
		t.Errorf("served by %s, want %s", last.Node, third.Secondary)
	}
}

// TestRecoverTimeTrap is TC-3b: of two nodes one dies and is back, then the
// other dies. mod_jk regards the first as dead for all of recover_time.
func TestRecoverTimeTrap(t *testing.T) {
	t.Parallel()
	for _, gossip := range []bool{true, false} {
		t.Run(fmt.Sprintf("gossip=%v", gossip), func(t *testing.T) {
			s := newCluster(t, "a", "b")
			p := s.proxy(s.workers("a", "b"), gossip)
			c := s.client(p.listen)
			c.protected()
			first := c.CountN(3)
			s.nodes[first.Primary].Kill()
			second := c.Count()
			if second.Secondary != "NONE" {
				t.Fatalf("secondary is %s, want NONE", second.Secondary)
			}
			s.launch(s.nodes[first.Primary])
			s.ready(first.Primary)
			if r := c.protected(); r.Secondary != first.Primary {
				t.Fatalf("secondary is %s, want %s, which is back", r.Secondary, first.Primary)
			}
			s.nodes[second.Primary].Kill()
			if r := c.Count(); r.Node != first.Primary {
				t.Errorf("served by %s, want %s", r.Node, first.Primary)
			}
		})
	}
}

// TestBackAtOnce is D12: a node killed and started again under its name and
// addresses is a member at once, and nobody takes it for the one that died.
func TestBackAtOnce(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := s.client(p.listen)
	for range 3 {
		r := c.protected()
		n := s.nodes[r.Primary]
		n.Kill()
		s.launch(n)
		if next := c.Count(); next.Node != r.Secondary {
			t.Errorf("served by %s, want the secondary %s", next.Node, r.Secondary)
		}
		s.ready(n.name)
	}
}

// TestTwoNodes is SESS-32: alone a node goes on without a copy; when the other
// returns it becomes the secondary, and later the primary.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := s.client(p.listen)
	first := c.protected()
	s.nodes[first.Primary].Kill()
	if r := c.Count(); r.Node != first.Secondary || r.Secondary != "NONE" {
		t.Fatalf("served by %s with secondary %s, want %s and NONE", r.Node, r.Secondary, first.Secondary)
	}
	s.launch(s.nodes[first.Primary])
	s.ready(first.Primary)
	if r := c.protected(); r.Secondary != first.Primary {
		t.Fatalf("secondary is %s, want %s", r.Secondary, first.Primary)
	}
	s.nodes[first.Secondary].Kill()
	if r := c.Count(); r.Node != first.Primary {
		t.Errorf("served by %s, want %s", r.Node, first.Primary)
	}
	c.CountN(3)
}

// TestChain is TC-5: the node that has just served dies, again and again,
// until one is left.
func TestChain(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "a", "b", "c", "d")
	p := s.proxy(s.workers("a", "b", "c", "d"), true)
	c := s.client(p.listen)
	r := c.protected()
	for range 3 {
		s.nodes[r.Node].Kill()
		r = c.Count()
	}
	if r.Secondary != "NONE" {
		t.Errorf("secondary is %s, want NONE", r.Secondary)
	}
	c.CountN(3)
}

// TestChainOfSecondaries is TC-5 with the copies dying: SESS-30, a new
// secondary is made without waiting for a request.
func TestChainOfSecondaries(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "a", "b", "c", "d")
	p := s.proxy(s.workers("a", "b", "c", "d"), true)
	c := s.client(p.listen)
	r := c.protected()
	s.nodes[r.Secondary].Kill()
	// No request: the primary finds out by itself and makes a new copy.
	stage.Wait(t, "the primary has told the new secondary", func() bool {
		for name, n := range s.nodes {
			if name == r.Primary || name == r.Secondary {
				continue
			}
			if metric(t, n.admin, `understudy_sessions{role="secondary"}`) == 1 {
				return true
			}
		}
		return false
	})
	s.nodes[r.Primary].Kill()
	next := c.Count()
	if next.Lost || next.Counter != r.Counter+1 {
		t.Errorf("%+v after %+v: want the counter to go on", next, r)
	}
}

// TestSimultaneous is TC-6: all nodes but one die at the same instant. The one
// left goes on if it held the session; otherwise the client gets a new
// session that says so, never an error.
func TestSimultaneous(t *testing.T) {
	t.Parallel()
	for _, holds := range []bool{true, false} {
		t.Run(fmt.Sprintf("survivor holds the copy=%v", holds), func(t *testing.T) {
			names := []string{"a", "b", "c", "d"}
			s := newCluster(t, names...)
			p := s.proxy(s.workers(names...), true)
			c := s.client(p.listen)
			r := c.protected()
			survivor := r.Secondary
			if !holds {
				for _, name := range names {
					if name != r.Primary && name != r.Secondary {
						survivor = name
					}
				}
			}
			for _, name := range names {
				if name != survivor {
					s.nodes[name].Signal(os.Kill)
				}
			}
			for _, name := range names {
				if name != survivor {
					s.nodes[name].Kill()
				}
			}
			got := c.Must(http.MethodPost, "/counter")
			switch {
			case got.Node != survivor:
				t.Errorf("served by %s, want %s", got.Node, survivor)
			case holds && (got.Counter != r.Counter+1 || got.Lost || got.IsNew || got.SessionID != r.SessionID):
				t.Errorf("%+v: want the session to go on after %+v", got, r)
			case !holds && (got.Counter != 1 || !got.Lost || !got.IsNew):
				t.Errorf("%+v: want a new session, flagged lost", got)
			}
		})
	}
}

// TestSeveralSecondaries is --secondaries: the primary and the first copy die at
// the same instant, and the session goes on with the second one.
func TestSeveralSecondaries(t *testing.T) {
	t.Parallel()
	for _, copies := range []string{"2", "all"} {
		t.Run(copies, func(t *testing.T) {
			names := []string{"a", "b", "c", "d"}
			s := newCluster(t)
			for _, name := range names {
				s.add(name, "--secondaries", copies)
			}
			s.ready("a")
			s.ready("b")
			s.ready("c")
			s.ready("d")
			p := s.proxy(s.workers(names...), true)
			c := s.client(p.listen)
			c.protected()
			r := c.CountN(3)
			for _, name := range []string{r.Primary, r.Secondary} {
				s.nodes[name].Signal(os.Kill)
			}
			for _, name := range []string{r.Primary, r.Secondary} {
				s.nodes[name].Kill()
			}
			after := c.Count()
			if after.Node == r.Primary || after.Node == r.Secondary || after.Lost || after.SessionID != r.SessionID {
				t.Errorf("%+v: want the session to go on after %+v", after, r)
			}
			c.CountN(3)
		})
	}
}
