package session

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// recovered returns what n has said last.
func (n *node) recovered() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.restored
}

// holders returns how many living members hold the session, no older than at n.
func (f *farm) holders(id string, version uint64) (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, n := range f.nodes {
		if f.down[name] {
			continue
		}
		e := n.m.table.hold(id)
		if r := e.record(); r.Held() && !r.Dead && r.Version >= version {
			count++
		}
		n.m.table.drop(e)
	}
	return count
}

// A member says that its sessions have recovered from a loss when they have: not
// before each of them has two holders, and not before it has noticed.
func TestRestored(t *testing.T) { // D8
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		const sessions = 300
		f.net.SetLatency(5 * time.Millisecond)
		for _, n := range f.nodes {
			for range sessions {
				e, c := n.m.found(owner.Changes{{Key: "k", Value: []byte("v")}})
				n.m.end(e, c)
			}
		}
		time.Sleep(time.Second)
		said := 0
		f.onRestored = func(n *node) {
			said++
			n.m.table.each(func(e *entry) bool {
				r := e.record()
				if got := f.holders(e.id, r.Version); r.Held() && got < 2 {
					t.Errorf("%s says that it has recovered, and a session of %v has %d holder", n.name, r.Primary, got)
					return false
				}
				return true
			})
		}
		f.mu.Lock()
		f.down["a"] = true
		f.mu.Unlock()
		f.kill("a")
		time.Sleep(2 * time.Second)
		want := []string{f.nodes["a"].self.ID()}
		for _, name := range []string{"b", "c"} {
			if got := f.nodes[name].recovered(); !slices.Equal(got, want) {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if said == 0 {
			t.Error("nobody has said anything")
		}
	})
}

// Who cannot place a copy does not say that it has recovered, until it can.
func TestNotRestored(t *testing.T) { // D8
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		lost := f.nodes["b"].self.ID()
		f.kill("b")
		time.Sleep(time.Minute)
		if got := f.nodes["a"].recovered(); got != nil {
			t.Errorf("alone: %q, want nothing", got)
		}
		f.start("b")
		f.ready("b")
		time.Sleep(2 * time.Second)
		if got := f.nodes["a"].recovered(); !slices.Equal(got, []string{lost}) {
			t.Errorf("with another b: %q, want %q", got, lost)
		}
	})
}

// A member that is back may have copies again: that all have recovered from its
// loss is taken back.
func TestRestoredIsTakenBack(t *testing.T) { // D8
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(lostAfter - time.Second)
		if got := f.nodes["a"].recovered(); got != nil {
			t.Errorf("of a member that is only silent: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := f.nodes["a"].recovered(); !slices.Equal(got, []string{f.nodes["b"].self.ID()}) {
			t.Errorf("after %v: %q, want b", lostAfter, got)
		}
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := f.nodes["a"].recovered(); len(got) != 0 {
			t.Errorf("after the heal: %q, want nothing", got)
		}
	})
}
