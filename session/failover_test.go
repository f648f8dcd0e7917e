package session

import (
	"testing"
	"testing/synctest"
)

func TestFailover(t *testing.T) { // TC-1, SESS-31
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t, Config{Placement: Ring}, "a", "b", "c")
		defer f.close()
		b := &browser{t: t}
		first := b.count(f.nodes["a"], 1, "a!b")
		if !first.IsNew || first.Lost || first.Version != 1 {
			t.Errorf("first reply = %+v, want a new session at version 1", first)
		}
		for n := 2; n <= 5; n++ {
			if got := b.count(f.nodes["a"], n, "a!b"); got.ID != first.ID || got.IsNew {
				t.Fatalf("reply %d = %+v, want session %q to go on", n, got, first.ID)
			}
		}
		f.kill("a")
		b.count(f.nodes["b"], 6, "b!c")
		f.kill("b")
		b.count(f.nodes["c"], 7, "c!")
	})
}
