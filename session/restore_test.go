package session

import (
	"slices"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// fill makes n sessions at a member without a request, each with the value.
func (n *node) fill(sessions int, value []byte) {
	for range sessions {
		e, c := n.m.found(owner.Changes{{Key: "k", Value: value}})
		n.m.end(e, c)
	}
}

// restored waits until these members report that redundancy is restored after
// the loss of gone.
func (f *farm) restored(gone *node, names ...string) {
	f.t.Helper()
	for _, name := range names {
		n := f.nodes[name]
		for range 600 {
			if r := n.m.Redundancy(); slices.Contains(r.Restored, gone.self.ID()) && !r.Restoring {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if r := n.m.Redundancy(); !slices.Contains(r.Restored, gone.self.ID()) || r.Restoring {
			f.t.Fatalf("%s: %+v after 30 s, want redundancy restored after the loss of %s", name, r, gone.self.ID())
		}
	}
}

// A member says that it has dealt with a loss only when all copies are there.
func TestRedundancyIsReported(t *testing.T) { // D7, D8
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		const sessions = 300
		for _, n := range f.nodes {
			n.fill(sessions, []byte("v"))
		}
		if r := f.nodes["b"].m.Redundancy(); r.Restoring || r.Lacking != 0 || len(r.Restored) != 0 {
			t.Fatalf("nothing has happened: %+v", r)
		}
		f.net.SetLatency(10 * time.Millisecond)
		a := f.nodes["a"]
		f.kill("a")
		seen := false
		for range 200 {
			time.Sleep(5 * time.Millisecond)
			for _, name := range []string{"b", "c"} {
				r := f.nodes[name].m.Redundancy()
				seen = seen || r.Restoring && r.Lacking > 0
				if slices.Contains(r.Restored, a.self.ID()) && r.Lacking > 0 {
					t.Fatalf("%s has restored what a held, and lacks %d copies", name, r.Lacking)
				}
			}
		}
		if !seen {
			t.Error("nobody was ever seen restoring")
		}
		f.restored(a, "b", "c")
		var primary, secondary int
		for _, name := range []string{"b", "c"} {
			s := f.nodes[name].m.Stats()
			primary, secondary = primary+s.Primary, secondary+s.Secondary
		}
		if primary != 3*sessions || secondary != 3*sessions {
			t.Errorf("%d primaries and %d copies are left, want %d of each", primary, secondary, 3*sessions)
		}
		// With nobody to hold a copy there is nothing to do, and another loss would
		// be that of all sessions.
		b, c := f.nodes["b"], f.nodes["c"].m
		f.kill("b")
		time.Sleep(10 * time.Second)
		if r := c.Redundancy(); r.Restoring || r.Lacking != 0 || slices.Contains(r.Restored, b.self.ID()) {
			t.Errorf("alone: %+v, want nothing to do and b not restored", r)
		}
		f.start("b")
		f.ready("b")
		f.restored(b, "c")
	})
}

// A member that is back may hold copies again, so that its loss was dealt with is
// taken back; and one that is only silent is not lost.
func TestRedundancyIsTakenBack(t *testing.T) { // D8
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		a := f.nodes["a"].m
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(lostAfter - time.Second)
		if got := a.Redundancy().Restored; len(got) != 0 {
			t.Errorf("of a member that is only silent: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := a.Redundancy().Restored; !slices.Equal(got, []string{f.nodes["b"].self.ID()}) {
			t.Errorf("after %v: %q, want b", lostAfter, got)
		}
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(3 * time.Second)
		if got := a.Redundancy().Restored; len(got) != 0 {
			t.Errorf("after the heal: %q, want nothing", got)
		}
	})
}
