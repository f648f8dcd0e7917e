package balance

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUpdate: mod_jk.md 6.5, the side effects of an update.
func TestUpdate(t *testing.T) {
	b := newBalancer(t, routes("a", "b:2")...)
	for range 3 {
		pick(t, b, sticky("a", ""), OK)
	}
	if err := b.Update("a", func(m *Member) { m.LBFactor = 4 }); err != nil {
		t.Fatal(err)
	}
	// The multiple is 4 now, and a's share of it 1.
	if a := status(t, b, "a"); a.LBFactor != 4 || a.LBMult != 1 || a.LBValue == 0 {
		t.Errorf("after a factor of 4: %+v, want lb_mult 1, and what it has had", a)
	}
	if err := b.Update("b", func(m *Member) { m.Activation = Disabled }); err != nil {
		t.Fatal(err)
	}
	for _, s := range b.Snapshot() {
		if s.LBValue != 0 {
			t.Errorf("after a change of an activation %s has lb_value %d, want 0", s.Route, s.LBValue)
		}
	}
	for range 3 {
		if got := pick(t, b, Request{}, OK); got != "a" {
			t.Errorf("with b disabled, Pick = %q, want a", got)
		}
	}
	if err := b.Update("a", func(m *Member) { m.LBFactor, m.Activation = 0, Stopped }); err == nil {
		t.Error("Update to lbfactor 0 = nil")
	}
	if a := status(t, b, "a"); a.LBFactor != 4 || a.Activation != Active {
		t.Errorf("after an Update that failed: %+v, want what was", a)
	}
	if err := b.Update("c", func(*Member) {}); !errors.Is(err, ErrNoRoute) {
		t.Errorf("Update of nobody = %v, want ErrNoRoute", err)
	}
}

// Another route, redirect, domain and distance hold at once; open leases keep the route
// by which they were chosen.
func TestUpdateRoute(t *testing.T) {
	b := newBalancer(t, routes("a", "b", "c")...)
	open := began(t, b, sticky("a", ""))
	if err := b.Update("a", func(m *Member) { m.Route, m.Redirect, m.Domain, m.Distance = "z", "b", "east", 2 }); err != nil {
		t.Fatal(err)
	}
	if open.Done(OK); open.Route() != "a" {
		t.Errorf("the route of an open lease became %q", open.Route())
	}
	if got := status(t, b, "z"); got.Name != "a" || got.Redirect != "b" || got.Domain != "east" || got.Distance != 2 || got.Served != 1 {
		t.Errorf("after Update: %+v", got)
	}
	if l := began(t, b, sticky("a", "")); l.Reason() != ByValue {
		t.Errorf("the old route led to %q by %v", l.Route(), l.Reason())
	}
	if got := pick(t, b, sticky("east.x", ""), OK); got != "z" {
		t.Errorf("its new domain led to %q, want z", got)
	}
	b.Fail("z")
	if l := began(t, b, sticky("z", "")); l.Route() != "b" || l.Reason() != ByRedirect {
		t.Errorf("with z in error: %q by %v, want b by redirect", l.Route(), l.Reason())
	}
	for _, bad := range []func(*Member){
		func(m *Member) { m.Distance, m.Route = 5, "b" },
		func(m *Member) { m.Distance, m.Route = 5, "" },
		func(m *Member) { m.Distance, m.Activation = 5, Stopped+1 },
	} {
		if err := b.Update("z", bad); err == nil || status(t, b, "z").Distance != 2 {
			t.Errorf("Update = %v, and the member is %+v", err, status(t, b, "z"))
		}
	}
}

// Another method begins with what is under way.
func TestTuneMethod(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	run(t, b, 3, Request{}, 0)
	open := began(t, b, sticky("a", ""))
	tuning := b.Tuning()
	tuning.Method, tuning.StickyForce = ByBusyness, true
	if err := b.Tune(tuning); err != nil {
		t.Fatal(err)
	}
	if got := values(b); got["a"] != 1 || got["b"] != 0 {
		t.Errorf("values are %v, want what is in flight: 1 and 0", got)
	}
	b.ResetAll()
	open.Done(OK)
	if got := values(b); got["a"] != 0 {
		t.Errorf("values are %v, want nothing in flight", got)
	}
	if _, err := b.Pick(Request{Session: true}); !errors.Is(err, ErrNoMember) {
		t.Errorf("with StickyForce: Pick = %v, want ErrNoMember", err)
	}
}

// TestReset: mod_jk.md 6.3. What is under way goes on, and its end changes nothing.
func TestReset(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	pick(t, b, sticky("a", ""), StatusFailed)
	pick(t, b, sticky("b", ""), OK)
	if err := b.Update("b", func(m *Member) { m.LBFactor = 3 }); err != nil {
		t.Fatal(err)
	}
	l1, err := b.Pick(sticky("b", ""))
	if err != nil {
		t.Fatal(err)
	}
	l2, err := b.Pick(sticky("b", ""))
	if err != nil {
		t.Fatal(err)
	}
	l1.Done(OK)
	if l := b.Load(); l.Busy != 1 || l.MaxBusy != 2 {
		t.Errorf("Load = %+v, want 1 busy of at most 2", l)
	}
	if !b.Reset("a") || b.Reset("c") {
		t.Error("Reset of a = false, or of nobody = true")
	}
	if a, other := status(t, b, "a"), status(t, b, "b"); a.State != StateIdle || a.Served != 0 || a.Errors != 0 || !a.LastError.IsZero() || other.Served != 3 {
		t.Errorf("after Reset of a: %+v, %+v", a, other)
	}
	b.ResetAll()
	l2.Done(Unused) // takes back nothing that is not counted any more
	s := status(t, b, "b")
	if s.Served != 0 || s.LBValue != 0 || s.Busy != 0 || s.MaxBusy != 1 || s.LBFactor != 3 {
		t.Errorf("after ResetAll: %+v, want zeroes, the lease of before in max_busy, and the factor", s)
	}
	if l := b.Load(); l.Busy != 0 || l.MaxBusy != 1 {
		t.Errorf("Load = %+v, want nobody busy, and 1 at most", l)
	}
}

// TestRecoverByHand: mod_jk.md 6.3, recover.
func TestRecoverByHand(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	if b.Recover("a") || b.Recover("c") {
		t.Error("Recover of a member that is well, or of nobody, = true")
	}
	pick(t, b, sticky("b", ""), OK)
	pick(t, b, sticky("a", ""), StatusFailed)
	if !b.Recover("a") {
		t.Fatal("Recover of a member in error = false")
	}
	wantState(t, b, "a", StateRecover)
	if got := status(t, b, "a").LBValue; got != 1 {
		t.Errorf("lb_value = %d, want the highest of all", got)
	}
	pick(t, b, sticky("a", ""), OK)
	wantState(t, b, "a", StateOK)
}

func TestTune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBalancer(t, routes("a", "b")...)
		tuning := b.Tuning()
		tuning.RecoverTime = 5 * time.Second
		if err := b.Tune(tuning); err != nil {
			t.Fatal(err)
		}
		if l := b.Load(); l.MaintainIn != time.Minute {
			t.Errorf("Load = %+v, want a minute to the maintenance", l)
		}
		pick(t, b, sticky("a", ""), StatusFailed)
		if got := status(t, b, "a").RecoverIn; got != 5*time.Second {
			t.Errorf("RecoverIn = %v, want 5s", got)
		}
		time.Sleep(5 * time.Second)
		wantState(t, b, "a", StateRecover)
		tuning.RecoverTime = -1
		if err := b.Tune(tuning); err == nil || b.Tuning().RecoverTime != 5*time.Second {
			t.Errorf("Tune with a negative time = %v, and %+v holds", err, b.Tuning())
		}
	})
}
