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
		// With nobody to hold a copy nothing lacks.
		b := f.nodes["b"]
		f.kill("b")
		f.restored(b, "c")
	})
}
