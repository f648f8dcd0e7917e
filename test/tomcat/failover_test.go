package tomcat

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// Sessions stay where they are, and follow to whoever has a copy: the checks of the
// seed (TC-1 to TC-7) with its own Tomcats. What needs cables is in test/hosts.

// Sessions go to the Tomcat of their jvmRoute, by cookie and by path.
func TestSticky(t *testing.T) {
	s := newSite(t, []string{"a", "b", "c"}, nil, "", nil)
	served := map[string]bool{}
	for range 6 {
		b := s.browser()
		first := b.count(1)
		served[first] = true
		if !strings.HasSuffix(b.cookie, "."+first) {
			t.Errorf("%q has given the session %q", first, b.cookie)
		}
		for i := 2; i <= 5; i++ {
			if at := b.count(i); at != first {
				t.Errorf("request %d went to %q, want %q", i, at, first)
			}
		}
		byPath := s.browser().must(http.MethodGet, "/peek;jsessionid="+b.cookie, nil)
		if byPath.member() != first || !strings.HasPrefix(byPath.body, "5 ") {
			t.Errorf("by path: %q from %q, want 5 from %q", byPath.body, byPath.member(), first)
		}
	}
	if len(served) != 3 {
		t.Errorf("new sessions went to %v, want all three", served)
	}
}

// TC-1, TC-3 and TC-5: one after the other dies, comes back, and the session goes on.
func TestChain(t *testing.T) {
	s := newSite(t, []string{"a", "b", "c"}, nil, "", nil)
	b := s.browser()
	at, n := "", 0
	for range 5 {
		n++
		at = b.count(n)
	}
	first := at
	for range 2 { // TC-1, TC-5
		s.nodes[at].Kill()
		n++
		next := b.count(n)
		if next == at {
			t.Fatalf("%q has served after its death", at)
		}
		if !strings.HasSuffix(b.cookie, "."+next) {
			t.Errorf("the session is %q at %q", b.cookie, next)
		}
		for range 4 {
			n++
			if m := b.count(n); m != next {
				t.Errorf("request %d went to %q, want %q", n, m, next)
			}
		}
		at = next
	}
	s.start(first) // TC-3
	s.ready(first) // it has got all sessions before
	s.together()
	n++
	b.count(n)
	s.nodes[at].Kill()
	n++
	if m := b.count(n); m != first {
		t.Errorf("it went to %q, want %q, which is back", m, first)
	}
}

// TC-2: a Tomcat that comes later takes over.
func TestJoin(t *testing.T) {
	s := newSite(t, []string{"a", "b", "c"}, []string{"c"}, "", nil)
	b := s.browser()
	for i := 1; i <= 3; i++ {
		b.count(i)
	}
	s.start("c")
	s.ready("c")
	s.together()
	for i := 4; i <= 6; i++ {
		b.count(i)
	}
	s.nodes["a"].Kill()
	b.count(7)
	s.nodes["b"].Kill()
	if at := b.count(8); at != "c" {
		t.Errorf("it went to %q, want c", at)
	}
}

// TC-3b: a Tomcat that is back is used at once if nobody else is left, whatever
// recover_time says.
func TestRecoverTime(t *testing.T) {
	s := newSite(t, []string{"a", "b"}, nil, "", nil)
	b := s.browser()
	first := b.count(1)
	s.nodes[first].Kill()
	second := b.count(2)
	s.start(first)
	s.ready(first)
	s.together()
	b.count(3)
	s.nodes[second].Kill()
	begun := time.Now()
	if at := b.count(4); at != first {
		t.Errorf("it went to %q, want %q", at, first)
	}
	t.Logf("the first request after that took %v", time.Since(begun))
}

// TC-6: all but one die at once.
func TestSimultaneous(t *testing.T) {
	s := newSite(t, []string{"a", "b", "c"}, nil, "", nil)
	b := s.browser()
	b.count(1)
	at := b.count(2)
	left := ""
	for name, n := range s.nodes {
		switch {
		case name != at && left == "":
			left = name
		default:
			n.Kill()
		}
	}
	if m := b.count(3); m != left {
		t.Errorf("it went to %q, want %q", m, left)
	}
}

// TC-7: a request that kills who serves it does not kill all.
func TestDeadlyRequest(t *testing.T) {
	tests := []struct {
		name, method, lines string
		dead                int
	}{
		{"GET", http.MethodGet, "", 2}, // sent again once, and not to the last one
		{"POST", http.MethodPost, "", 1},
		{"GET, recovery_options=3", http.MethodGet, "worker.a.recovery_options=3\nworker.b.recovery_options=3\nworker.c.recovery_options=3\n", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, []string{"a", "b", "c"}, nil, tt.lines, nil)
			b := s.browser()
			b.count(1)
			b.count(2)
			if a, err := b.do(tt.method, "/exit", nil); err != nil || a.status != http.StatusBadGateway {
				t.Errorf("%d, %v; want 502", a.status, err)
			}
			dead := func() (n int) {
				for _, node := range s.nodes {
					if !node.Running() {
						n++
					}
				}
				return n
			}
			stage.Wait(t, fmt.Sprint(tt.dead, " have died"), func() bool { return dead() >= tt.dead })
			if tt.dead == 1 {
				b.count(3)
			} else {
				// The second Tomcat has given the session its own route before it died,
				// and told the third one, but not the client.
				b.must(http.MethodGet, "/counter", nil)
			}
			if n := dead(); n != tt.dead {
				t.Errorf("%d have died, want %d", n, tt.dead)
			}
		})
	}
}

// A Tomcat that is frozen is found out by the CPING on its kept connection (TC-4
// without cables). What needs no session goes on: those with one wait, because
// Tomcats replicate to one that takes connections and never answers.
func TestFrozen(t *testing.T) {
	s := newSite(t, []string{"a", "b"}, nil, "", nil)
	b := s.browser()
	for range 4 {
		b.must(http.MethodGet, "/header", nil)
	}
	s.nodes["a"].Freeze()
	defer s.nodes["a"].Thaw()
	time.Sleep(1100 * time.Millisecond) // the kept connection is idle for longer than it is trusted
	for i := range 4 {
		if a := b.must(http.MethodGet, "/header", nil); a.member() != "b" {
			t.Errorf("request %d: %q has served although it is frozen", i, a.member())
		}
	}
}
