package balance

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestReconfigure: what stays keeps everything, and what goes is gone.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Config{Members: []Member{{Route: "a", Value: "a1"}, {Route: "b", LBFactor: 2}, {Route: "c"}}, RecoverTime: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var leases []Lease
		for range 8 {
			l, err := b.Pick(Request{})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		b.Fail("b")
		if err := b.Update("a", func(m *Member) { m.Activation, m.LBFactor = Disabled, 3 }); err != nil {
			t.Fatal(err)
		}
		if err := b.Tune(Tuning{RecoverTime: time.Hour, MaxReplyTimeouts: 7}); err != nil {
			t.Fatal(err)
		}
		b.SetPhase("b", Draining)
		before := map[string]Status{}
		for _, s := range b.Snapshot() {
			before[s.Route] = s
		}
		if err := b.Reconfigure(Config{Members: []Member{{Route: "b", LBFactor: 2}, {Route: ""}}}); err == nil {
			t.Error("Reconfigure with a member without a route: no error")
		}
		if err := b.Reconfigure(Config{Members: []Member{{Route: "x"}, {Route: "x"}}}); err == nil || len(b.Snapshot()) != 3 {
			t.Errorf("Reconfigure with two members of one route = %v, and %d members; want an error, and those before", err, len(b.Snapshot()))
		}
		err = b.Reconfigure(Config{
			Members:     []Member{{Route: "b", LBFactor: 4}, {Route: "d"}, {Route: "a", Value: "a2"}},
			RecoverTime: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		got := b.Snapshot()
		if names := fmt.Sprintf("%s %s %s %d", got[0].Route, got[1].Route, got[2].Route, len(got)); names != "b d a 3" {
			t.Fatalf("members: %s, want those of the Config in its order", names)
		}
		for _, s := range []Status{got[0], got[2]} {
			old := before[s.Route]
			if s.State != old.State || s.Served != old.Served || s.Busy != old.Busy || s.Activation != old.Activation || s.Phase != old.Phase || s.Slot != old.Slot {
				t.Errorf("member %s: %+v, before %+v", s.Route, s, old)
			}
		}
		if got[0].LBFactor != 4 || got[0].RecoverIn > time.Minute {
			t.Errorf("b has lbfactor %d and recovers in %v, want 4 and at most a minute", got[0].LBFactor, got[0].RecoverIn)
		}
		if got[2].LBFactor != 3 {
			t.Errorf("a has lbfactor %d, want 3 as it was changed to", got[2].LBFactor)
		}
		if want := (Tuning{RecoverTime: time.Minute, MaxReplyTimeouts: 7}); b.Tuning() != want {
			t.Errorf("Tuning = %+v, want %+v: one from the Config, one as it was changed to", b.Tuning(), want)
		}
		if got[2].Value != "a2" || leases[0].Value() != "a1" {
			t.Errorf("the Value is %v, and that of a lease from before %v; want a2, a1", got[2].Value, leases[0].Value())
		}
		if got[1].LBValue < got[2].LBValue || got[1].LBValue < got[0].LBValue {
			t.Errorf("a new member is not behind the others: %d of %d, %d", got[1].LBValue, got[0].LBValue, got[2].LBValue)
		}
		for _, l := range leases {
			l.Done(OK)
		}
		for _, s := range b.Snapshot() {
			if s.Busy != 0 {
				t.Errorf("member %s has %d leases when all are done", s.Route, s.Busy)
			}
		}
		if b.Serves([]byte("c"), nil) {
			t.Error("c, which was removed, would be served")
		}
		if err := b.Reconfigure(Config{Members: []Member{{Route: "a", Activation: Stopped}}}); err != nil || b.Snapshot()[0].Activation != Stopped {
			t.Errorf("an activation that the Config changes is %v, %v; want STP", b.Snapshot()[0].Activation, err)
		}
		if _, err := b.Pick(Request{}); err == nil {
			t.Error("the only member is stopped, and was picked")
		}
	})
}

// TestReconfigureRoutes: a route that an operator has changed stays, unless another
// member is to have it now.
func TestReconfigureRoutes(t *testing.T) {
	b := newBalancer(t, Member{Name: "n1", Route: "a"}, Member{Name: "n2", Route: "b"})
	if err := b.Update("a", func(m *Member) { m.Route = "x" }); err != nil {
		t.Fatal(err)
	}
	pick(t, b, sticky("x", ""), OK)
	served := status(t, b, "x").Served
	for _, step := range []struct{ n1, n2, want1, want2 string }{
		{"a", "b", "x", "b"},
		{"a", "c", "x", "c"},
		{"a", "x", "a", "x"},
		{"x", "a", "x", "a"},
	} {
		if err := b.Reconfigure(Config{Members: []Member{{Name: "n1", Route: step.n1}, {Name: "n2", Route: step.n2}}}); err != nil {
			t.Fatal(err)
		}
		if n1, n2 := status(t, b, step.want1), status(t, b, step.want2); n1.Name != "n1" || n2.Name != "n2" || n1.Served != served {
			t.Errorf("with routes %s, %s in the Config: %+v, %+v; want routes %s, %s", step.n1, step.n2, n1, n2, step.want1, step.want2)
		}
	}
}
