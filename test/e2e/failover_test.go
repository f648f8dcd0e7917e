package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// pair checks that r names two different living nodes, and that the primary
// is the one that served.
func pair(t *testing.T, s *stage, r reply) {
	t.Helper()
	if r.Node != r.Primary || r.Primary == r.Secondary || s.nodes[r.Secondary] == nil {
		t.Fatalf("pair %s!%s served by %s: want two nodes, the primary serving", r.Primary, r.Secondary, r.Node)
	}
}

// TestFailover is TC-1: the node that serves dies, its secondary goes on.
func TestFailover(t *testing.T) {
	for _, gossip := range []bool{true, false} {
		t.Run(fmt.Sprintf("gossip=%v", gossip), func(t *testing.T) {
			s := newStage(t, "a", "b", "c")
			p := s.proxy(s.workers("a", "b", "c"), gossip)
			c := newClient(t, p.listen)
			c.protected(s)
			before := c.countN(5)
			pair(t, s, before)

			s.nodes[before.Primary].kill()
			after := c.count()
			if after.Node != before.Secondary {
				t.Errorf("served by %s, want the secondary %s", after.Node, before.Secondary)
			}
			pair(t, s, after)
			if after.Secondary == before.Primary {
				t.Errorf("the new secondary is %s, which is dead", after.Secondary)
			}
			c.countN(4)
		})
	}
}

// TestNodeAdded is TC-2: a node that joins later takes over when the others
// die, and gets sessions of its own.
func TestNodeAdded(t *testing.T) {
	s := newStage(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := newClient(t, p.listen)
	c.protected(s)
	first := c.countN(3)

	s.add("c")
	s.ready("c")
	s.wait("the proxy sends new sessions to c", func() bool {
		return newClient(t, p.listen).must(http.MethodPost, "/counter").Node == "c"
	})
	c.countN(3)

	s.nodes[first.Primary].kill()
	second := c.protected(s)
	if second.Secondary != "c" {
		t.Errorf("secondary is %s, want c: no other is left", second.Secondary)
	}
	s.nodes[second.Primary].kill()
	if r := c.count(); r.Node != "c" || r.Secondary != "NONE" {
		t.Errorf("served by %s with secondary %s, want c and NONE", r.Node, r.Secondary)
	}
}

// TestReturn is TC-3: a node dies, comes back, and takes over in its turn.
func TestReturn(t *testing.T) {
	s := newStage(t, "a", "b", "c")
	p := s.proxy(s.workers("a", "b", "c"), true)
	c := newClient(t, p.listen)
	c.protected(s)
	first := c.countN(3)
	s.nodes[first.Primary].kill()
	second := c.protected(s)
	c.countN(3)

	s.launch(s.nodes[first.Primary])
	s.ready(first.Primary)
	// Whoever is left besides the one that came back dies now.
	s.nodes[second.Primary].kill()
	third := c.protected(s)
	c.countN(3)
	s.nodes[third.Primary].kill()
	if last := c.count(); last.Node != third.Secondary {
		t.Errorf("served by %s, want %s", last.Node, third.Secondary)
	}
}

// TestRecoverTimeTrap is TC-3b: of two nodes one dies and is back, then the
// other dies. mod_jk regards the first as dead for all of recover_time.
func TestRecoverTimeTrap(t *testing.T) {
	for _, gossip := range []bool{true, false} {
		t.Run(fmt.Sprintf("gossip=%v", gossip), func(t *testing.T) {
			s := newStage(t, "a", "b")
			p := s.proxy(s.workers("a", "b"), gossip)
			c := newClient(t, p.listen)
			c.protected(s)
			first := c.countN(3)
			s.nodes[first.Primary].kill()
			second := c.count()
			if second.Secondary != "NONE" {
				t.Fatalf("secondary is %s, want NONE", second.Secondary)
			}
			s.launch(s.nodes[first.Primary])
			s.ready(first.Primary)
			if r := c.protected(s); r.Secondary != first.Primary {
				t.Fatalf("secondary is %s, want %s, which is back", r.Secondary, first.Primary)
			}
			s.nodes[second.Primary].kill()
			if r := c.count(); r.Node != first.Primary {
				t.Errorf("served by %s, want %s", r.Node, first.Primary)
			}
		})
	}
}

// TestBackAtOnce is D12: a node killed and started again under its name and
// addresses is a member at once, and nobody takes it for the one that died.
func TestBackAtOnce(t *testing.T) {
	s := newStage(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := newClient(t, p.listen)
	for range 3 {
		r := c.protected(s)
		n := s.nodes[r.Primary]
		n.kill()
		s.launch(n)
		if next := c.count(); next.Node != r.Secondary {
			t.Errorf("served by %s, want the secondary %s", next.Node, r.Secondary)
		}
		s.ready(n.name)
	}
}

// TestTwoNodes is SESS-32: alone a node goes on without a copy; when the other
// returns it becomes the secondary, and later the primary.
func TestTwoNodes(t *testing.T) {
	s := newStage(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := newClient(t, p.listen)
	first := c.protected(s)
	s.nodes[first.Primary].kill()
	if r := c.count(); r.Node != first.Secondary || r.Secondary != "NONE" {
		t.Fatalf("served by %s with secondary %s, want %s and NONE", r.Node, r.Secondary, first.Secondary)
	}
	s.launch(s.nodes[first.Primary])
	s.ready(first.Primary)
	if r := c.protected(s); r.Secondary != first.Primary {
		t.Fatalf("secondary is %s, want %s", r.Secondary, first.Primary)
	}
	s.nodes[first.Secondary].kill()
	if r := c.count(); r.Node != first.Primary {
		t.Errorf("served by %s, want %s", r.Node, first.Primary)
	}
	c.countN(3)
}

// TestChain is TC-5: the node that has just served dies, again and again,
// until one is left.
func TestChain(t *testing.T) {
	s := newStage(t, "a", "b", "c", "d")
	p := s.proxy(s.workers("a", "b", "c", "d"), true)
	c := newClient(t, p.listen)
	r := c.protected(s)
	for range 3 {
		s.nodes[r.Node].kill()
		r = c.count()
	}
	if r.Secondary != "NONE" {
		t.Errorf("secondary is %s, want NONE", r.Secondary)
	}
	c.countN(3)
}

// TestChainOfSecondaries is TC-5 with the copies dying: SESS-30, a new
// secondary is made without waiting for a request.
func TestChainOfSecondaries(t *testing.T) {
	s := newStage(t, "a", "b", "c", "d")
	p := s.proxy(s.workers("a", "b", "c", "d"), true)
	c := newClient(t, p.listen)
	r := c.protected(s)
	s.nodes[r.Secondary].kill()
	// No request: the primary finds out by itself and makes a new copy.
	s.wait("the primary has told the new secondary", func() bool {
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
	s.nodes[r.Primary].kill()
	next := c.count()
	if next.Lost || next.Counter != r.Counter+1 {
		t.Errorf("%+v after %+v: want the counter to go on", next, r)
	}
}

// TestSimultaneous is TC-6: all nodes but one die at the same instant. The one
// left goes on if it held the session; otherwise the client gets a new
// session that says so, never an error.
func TestSimultaneous(t *testing.T) {
	for _, holds := range []bool{true, false} {
		t.Run(fmt.Sprintf("survivor holds the copy=%v", holds), func(t *testing.T) {
			names := []string{"a", "b", "c", "d"}
			s := newStage(t, names...)
			p := s.proxy(s.workers(names...), true)
			c := newClient(t, p.listen)
			r := c.protected(s)
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
					s.nodes[name].cmd.Process.Kill()
				}
			}
			for _, name := range names {
				if name != survivor {
					s.nodes[name].kill()
				}
			}
			got := c.must(http.MethodPost, "/counter")
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
