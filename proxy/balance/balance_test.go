package balance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newBalancer(t testing.TB, members ...Member) *Balancer {
	t.Helper()
	return newWith(t, Config{Members: members})
}

func newWith(t testing.TB, cfg Config) *Balancer {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// routes makes members of words like "a" or "a:3" for lbfactor 3.
func routes(words ...string) []Member {
	var all []Member
	for _, w := range words {
		m := Member{Route: w}
		if _, err := fmt.Sscanf(strings.ReplaceAll(w, ":", " "), "%s %d", &m.Route, &m.LBFactor); err != nil {
			m.Route = w
		}
		all = append(all, m)
	}
	return all
}

// pick returns the route that a request gets, "" if none, and ends its lease with
// o at once.
func pick(t testing.TB, b *Balancer, r Request, o Outcome) string {
	t.Helper()
	l, err := b.Pick(r)
	if err != nil {
		if !errors.Is(err, ErrNoMember) {
			t.Fatal(err)
		}
		return ""
	}
	l.Done(o)
	return l.Route()
}

// sticky is a request whose session names a primary and a secondary.
func sticky(primary, secondary string) Request {
	return Request{Primary: []byte(primary), Secondary: []byte(secondary)}
}

// status returns the status of a member.
func status(t testing.TB, b *Balancer, route string) Status {
	t.Helper()
	for _, s := range b.Snapshot() {
		if s.Route == route {
			return s
		}
	}
	t.Fatalf("no member %q", route)
	return Status{}
}

func wantState(t testing.TB, b *Balancer, route string, want State) {
	t.Helper()
	if got := status(t, b, route).State; got != want {
		t.Errorf("state of %s = %v, want %v", route, got, want)
	}
}

func TestPick(t *testing.T) {
	tests := []struct {
		name    string
		members []Member
		failed  string // route of the member that has just failed
		req     Request
		want    string // route picked, "" for ErrNoMember
		reason  Reason
	}{{
		name:    "no session takes the first of equals",
		members: routes("n1", "n2"),
		want:    "n1",
	}, {
		name:    "session sticks to its primary",
		members: routes("n1", "n2", "n3"),
		req:     sticky("n2", "n3"),
		want:    "n2",
		reason:  ByPrimary,
	}, {
		name:    "session fails over to its secondary",
		members: routes("n1", "n2", "n3"),
		failed:  "n2",
		req:     sticky("n2", "n3"),
		want:    "n3",
		reason:  BySecondary,
	}, {
		name:    "session without a secondary fails over to anyone",
		members: routes("n1", "n2"),
		failed:  "n2",
		req:     sticky("n2", "NONE"),
		want:    "n1",
	}, {
		name:    "disabled member keeps its sessions",
		members: []Member{{Route: "n1"}, {Route: "n2", Activation: Disabled}},
		req:     sticky("n2", ""),
		want:    "n2",
		reason:  ByPrimary,
	}, {
		name:    "disabled member takes over as the secondary",
		members: []Member{{Route: "n1"}, {Route: "n2", Activation: Disabled}, {Route: "n3"}},
		failed:  "n1",
		req:     sticky("n1", "n2"),
		want:    "n2",
		reason:  BySecondary,
	}, {
		name:    "disabled member gets no new session",
		members: []Member{{Route: "n1", Activation: Disabled}, {Route: "n2"}},
		want:    "n2",
	}, {
		name:    "disabled member gets no new session even if it is the last",
		members: []Member{{Route: "n1", Activation: Disabled}},
	}, {
		name:    "stopped member loses its sessions",
		members: []Member{{Route: "n1"}, {Route: "n2", Activation: Stopped}},
		req:     sticky("n2", ""),
		want:    "n1",
	}, {
		name:    "draining member keeps its sessions (D3)",
		members: []Member{{Route: "n1"}, {Route: "n2", Phase: Draining}},
		req:     sticky("n2", ""),
		want:    "n2",
		reason:  ByPrimary,
	}, {
		name:    "draining member gets no new session (D3)",
		members: []Member{{Route: "n1", Phase: Draining}, {Route: "n2"}},
		want:    "n2",
	}, {
		name:    "overloaded member gets no new session (D3)",
		members: []Member{{Route: "n1", Phase: Overloaded}, {Route: "n2"}},
		want:    "n2",
	}, {
		name:    "gossip alone takes nobody out of service (D3)",
		members: []Member{{Route: "n1", Phase: Overloaded}},
		want:    "n1",
	}, {
		name:    "a starting member is not ready, so its session goes to the secondary",
		members: []Member{{Route: "n1", Phase: Starting}, {Route: "n2"}},
		req:     sticky("n1", "n2"),
		want:    "n2",
		reason:  BySecondary,
	}, {
		name:    "a draining member is better than a starting one",
		members: []Member{{Route: "n1", Phase: Starting}, {Route: "n2", Phase: Draining}},
		want:    "n2",
	}, {
		name:    "route of no member (PLUG-110)",
		members: routes("n1"),
		req:     sticky("gone", "gone too"),
		want:    "n1",
	}, {
		name:    "a request that may have killed its primary goes to neither holder (D8)",
		members: routes("n1", "n2", "n3"),
		req:     Request{Primary: []byte("n1"), Secondary: []byte("n2"), Avoid: true},
		want:    "n3",
	}, {
		name:    "and to nobody if there are only these",
		members: routes("n1", "n2"),
		req:     Request{Primary: []byte("n1"), Secondary: []byte("n2"), Avoid: true},
	}, {
		name: "no members",
		req:  Request{},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBalancer(t, tt.members...)
			if tt.failed != "" && !b.Fail(tt.failed) {
				t.Fatalf("Fail(%q) = false", tt.failed)
			}
			l, err := b.Pick(tt.req)
			got := ""
			if err == nil {
				got = l.Route()
			} else if !errors.Is(err, ErrNoMember) {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Fatalf("Pick(%q, %q) = %q, %v; want %q", tt.req.Primary, tt.req.Secondary, got, err, tt.want)
			}
			if err == nil && l.Reason() != tt.reason {
				t.Errorf("Reason = %v, want %v", l.Reason(), tt.reason)
			}
			l.Done(OK)
		})
	}
}

// TestVectors runs the vectors that mod_jk's own code gave (mod_jk.md 3.3).
func TestVectors(t *testing.T) {
	t.Run("lbfactor 3,2,1", func(t *testing.T) {
		b := newBalancer(t, routes("a:3", "b:2", "c:1")...)
		for _, s := range b.Snapshot() {
			if want := map[string]uint64{"a": 2, "b": 3, "c": 6}[s.Route]; s.LBMult != want {
				t.Errorf("LBMult of %s = %d, want %d", s.Route, s.LBMult, want)
			}
		}
		var got []string
		for range 18 {
			got = append(got, pick(t, b, Request{}, OK))
		}
		const want = "abcababcaababcaaba"
		if s := strings.Join(got, ""); s != want {
			t.Errorf("picked %s, want %s", s, want)
		}
		for _, s := range b.Snapshot() {
			if s.LBValue != 18 {
				t.Errorf("LBValue of %s = %d, want 18", s.Route, s.LBValue)
			}
		}
	})
	t.Run("after three requests with x.b", func(t *testing.T) {
		b := newBalancer(t, routes("a:3", "b:2", "c:1")...)
		for range 3 {
			if got := pick(t, b, sticky("b", ""), OK); got != "b" {
				t.Fatalf("sticky to b: picked %q", got)
			}
		}
		var got []string
		for range 6 {
			got = append(got, pick(t, b, Request{}, OK))
		}
		const want = "acaaca"
		if s := strings.Join(got, ""); s != want {
			t.Errorf("picked %s, want %s", s, want)
		}
	})
	t.Run("ties go to the member after the one chosen last", func(t *testing.T) {
		b := newBalancer(t, routes("a", "b", "c", "d")...)
		var got []string
		for range 8 {
			got = append(got, pick(t, b, Request{}, OK))
		}
		const want = "abcdabcd"
		if s := strings.Join(got, ""); s != want {
			t.Errorf("picked %s, want %s", s, want)
		}
	})
}

// TestOutcome checks mod_jk.md 3.7: what the end of an exchange does to a member,
// alone or with another request running there.
func TestOutcome(t *testing.T) {
	tests := []struct {
		outcome     Outcome
		alone, busy State
	}{
		{OK, StateOK, StateOK},
		{ClientFailed, StateOK, StateOK},
		{Refused, StateOK, StateOK},
		{Busy, StateIdle, StateIdle},
		{Failed, StateError, StateOK},
		{Unreachable, StateError, StateError},
		{StatusFailed, StateError, StateError},
		{ReplyTimeout, StateError, StateError},
		{Unused, StateIdle, StateIdle},
	}
	for _, tt := range tests {
		t.Run(tt.outcome.String(), func(t *testing.T) {
			for _, other := range []bool{false, true} {
				b := newWith(t, Config{Members: routes("a", "b"), ErrorEscalationTime: time.Minute})
				want := tt.alone
				if other {
					want = tt.busy
					if _, err := b.Pick(sticky("a", "")); err != nil {
						t.Fatal(err)
					}
				}
				if got := pick(t, b, sticky("a", ""), tt.outcome); got != "a" {
					t.Fatalf("picked %q, want a", got)
				}
				if got := status(t, b, "a").State; got != want {
					t.Errorf("with another request running %v: state = %v, want %v", other, got, want)
				}
			}
		})
	}
}

// TestEscalation checks that a busy member which only fails is in error after
// error_escalation_time, and that one success begins anew (mod_jk.md 3.7).
func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("a", "b"), ErrorEscalationTime: 30 * time.Second, Maintain: time.Hour})
		if _, err := b.Pick(sticky("a", "")); err != nil { // keeps a busy
			t.Fatal(err)
		}
		fail := func() { t.Helper(); pick(t, b, sticky("a", ""), Failed) }
		fail()
		time.Sleep(20 * time.Second)
		pick(t, b, sticky("a", ""), OK)
		fail()
		time.Sleep(30*time.Second - 1)
		fail()
		wantState(t, b, "a", StateOK)
		time.Sleep(time.Nanosecond)
		fail()
		wantState(t, b, "a", StateError)
	})
	t.Run("zero means at once", func(t *testing.T) {
		b := newBalancer(t, routes("a", "b")...)
		if _, err := b.Pick(sticky("a", "")); err != nil {
			t.Fatal(err)
		}
		pick(t, b, sticky("a", ""), Failed)
		wantState(t, b, "a", StateError)
	})
}

// TestReplyTimeouts checks max_reply_timeouts and its decay.
func TestReplyTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("a", "b"), MaxReplyTimeouts: 2})
		slow := func() { t.Helper(); pick(t, b, sticky("a", ""), ReplyTimeout) }
		slow()
		slow()
		wantState(t, b, "a", StateOK)
		time.Sleep(time.Minute) // two become one
		slow()
		wantState(t, b, "a", StateOK)
		slow()
		wantState(t, b, "a", StateError)
	})
}

// TestRecover checks the life of a failure: left alone for RecoverTime, then
// tried by one request, then back in rotation.
func TestRecover(t *testing.T) {
	for _, outcome := range []Outcome{OK, Unreachable, Unused, Busy} {
		t.Run("trial "+outcome.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBalancer(t, routes("n1", "n2")...)
				b.Fail("n1")
				time.Sleep(time.Minute - 1)
				if got := pick(t, b, sticky("n1", ""), OK); got != "n2" {
					t.Fatalf("before RecoverTime: picked %q, want n2", got)
				}
				time.Sleep(time.Nanosecond)
				trial, err := b.Pick(sticky("n1", ""))
				if err != nil || trial.Route() != "n1" {
					t.Fatalf("at RecoverTime: Pick = %v, %v, want n1", trial, err)
				}
				wantState(t, b, "n1", StateProbe)
				if got := pick(t, b, sticky("n1", ""), OK); got != "n2" {
					t.Errorf("while one request tries n1: picked %q, want n2", got)
				}
				trial.Done(outcome)
				want := map[Outcome]State{OK: StateOK, Unreachable: StateError, Unused: StateRecover, Busy: StateRecover}[outcome]
				wantState(t, b, "n1", want)
			})
		})
	}
}

// TestTrialThatNeverEnds checks that nobody is stuck in recover.
func TestTrialThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBalancer(t, routes("n1", "n2")...)
		b.Fail("n1")
		time.Sleep(time.Minute)
		lost, err := b.Pick(sticky("n1", ""))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := pick(t, b, sticky("n1", ""), OK); got != "n1" {
			t.Errorf("RecoverTime after a trial began: picked %q, want n1", got)
		}
		lost.Done(OK)
		wantState(t, b, "n1", StateOK)
	})
}

// TestNoMaintenance checks worker.maintain=0: no recovery by time, but a forced
// one (mod_jk.md 2.1, trap 18).
func TestNoMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("n1", "n2"), Maintain: -1})
		b.Fail("n1")
		time.Sleep(24 * time.Hour)
		if got := pick(t, b, sticky("n1", ""), OK); got != "n2" {
			t.Errorf("a day later: picked %q, want n2", got)
		}
		b.Fail("n2")
		if got := pick(t, b, sticky("n1", ""), OK); got != "n1" {
			t.Errorf("with nobody else: picked %q, want n1", got)
		}
	})
}

// TestForce checks forced recovery (mod_jk.md 3.8, PLUG-108, TC-3b).
func TestForce(t *testing.T) {
	t.Run("all in error are tried at once", func(t *testing.T) {
		b := newBalancer(t, routes("a", "b")...)
		b.Fail("a")
		b.Fail("b")
		if got := pick(t, b, Request{}, OK); got != "a" {
			t.Errorf("picked %q, want a", got)
		}
		wantState(t, b, "a", StateOK)
		wantState(t, b, "b", StateForce)
	})
	t.Run("once per request", func(t *testing.T) {
		b := newBalancer(t, routes("a", "b")...)
		b.Fail("a")
		b.Fail("b")
		var round Round
		var got []string
		for range 4 {
			got = append(got, pick(t, b, Request{Round: &round}, Unreachable))
		}
		if want := []string{"a", "b", "", ""}; !slices.Equal(got, want) {
			t.Errorf("one request with everybody dead picked %q, want %q", got, want)
		}
		round.Again()
		if got := pick(t, b, Request{Round: &round}, OK); got != "" {
			t.Errorf("in another round of the same request: picked %q, want nobody", got)
		}
	})
	t.Run("a member that has just failed is tried once more", func(t *testing.T) {
		b := newBalancer(t, routes("a")...)
		var round Round
		var got []string
		for range 3 {
			got = append(got, pick(t, b, Request{Round: &round}, Failed))
		}
		if want := []string{"a", "a", ""}; !slices.Equal(got, want) {
			t.Errorf("picked %q, want %q", got, want)
		}
	})
	t.Run("activation still counts", func(t *testing.T) {
		b := newBalancer(t, Member{Route: "a", Activation: Stopped}, Member{Route: "b"})
		b.Fail("a")
		b.Fail("b")
		for range 3 {
			if got := pick(t, b, sticky("a", ""), OK); got != "b" {
				t.Errorf("picked %q, want b", got)
			}
		}
	})
	t.Run("a slow trial does not keep others out when nobody else is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBalancer(t, routes("a", "b")...)
			b.Fail("a")
			time.Sleep(time.Minute)
			if _, err := b.Pick(sticky("a", "")); err != nil { // the trial, still running
				t.Fatal(err)
			}
			b.Fail("b")
			var round Round
			first := pick(t, b, Request{Round: &round}, Unreachable)
			second := pick(t, b, Request{Round: &round}, Unreachable)
			if first+second != "ab" && first+second != "ba" {
				t.Errorf("picked %q, then %q; want a and b", first, second)
			}
		})
	})
	t.Run("maintenance forces if all are in error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newWith(t, Config{Members: routes("a", "b"), RecoverTime: time.Hour})
			b.Fail("a")
			b.Fail("b")
			time.Sleep(time.Minute)
			wantState(t, b, "a", StateForce)
		})
	})
}

// Others counts who lives beside the leased member: the last-node guard of D8.
func TestOthers(t *testing.T) {
	b := newWith(t, Config{Members: []Member{{Route: "a"}, {Route: "b", Activation: Disabled}, {Route: "c", Activation: Stopped}, {Route: "d", Phase: Starting}, {Route: "e"}}})
	l, err := b.Pick(sticky("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Others(); n != 2 {
		t.Errorf("Others = %d, want b and e", n)
	}
	if got := pick(t, b, sticky("e", ""), Unreachable); got != "e" {
		t.Fatalf("picked %q", got)
	}
	if n := l.Others(); n != 1 {
		t.Errorf("Others = %d after e failed, want b", n)
	}
	l.Done(Unreachable)
	if n := l.Others(); n != 1 {
		t.Errorf("Others = %d once the leased one is in error, want b", n)
	}
}

// TestRound checks local errors: a request does not get a member twice in a round
// (mod_jk.md 3.7), while others do.
func TestRound(t *testing.T) {
	b := newWith(t, Config{Members: routes("a", "b", "c"), ErrorEscalationTime: time.Hour})
	for range 3 { // keeps everybody busy, so that failures are local
		if _, err := b.Pick(Request{}); err != nil {
			t.Fatal(err)
		}
	}
	var round Round
	req := sticky("b", "c")
	req.Round = &round
	var got []string
	for range 4 {
		got = append(got, pick(t, b, req, Failed))
	}
	if want := []string{"b", "c", "a", ""}; !slices.Equal(got, want) {
		t.Errorf("one request picked %q, want %q", got, want)
	}
	if got := pick(t, b, sticky("b", "c"), OK); got != "b" {
		t.Errorf("another request picked %q, want b", got)
	}
	round.Again()
	if got := pick(t, b, req, OK); got != "b" {
		t.Errorf("in the next round it picked %q, want b", got)
	}
}

func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBalancer(t, routes("a", "b")...)
		for range 8 {
			pick(t, b, sticky("a", ""), OK)
		}
		time.Sleep(2 * time.Minute)
		if got := status(t, b, "a"); got.LBValue != 2 || got.State != StateOK {
			t.Errorf("after two maintenances a has value %d and is %v, want 8>>2 and OK", got.LBValue, got.State)
		}
		time.Sleep(time.Minute)
		wantState(t, b, "a", StateIdle)
		time.Sleep(1000 * time.Hour)
		if got := status(t, b, "a").LBValue; got != 0 {
			t.Errorf("much later the value is %d, want 0", got)
		}
	})
	t.Run("a local error without a success since escalates", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newWith(t, Config{Members: routes("a", "b"), ErrorEscalationTime: 30 * time.Second, RecoverTime: time.Hour})
			l, err := b.Pick(sticky("a", ""))
			if err != nil {
				t.Fatal(err)
			}
			pick(t, b, sticky("a", ""), Failed)
			wantState(t, b, "a", StateOK)
			time.Sleep(time.Minute)
			wantState(t, b, "a", StateError)
			l.Done(OK)
			wantState(t, b, "a", StateOK)
		})
	})
}

// TestClear checks PLUG-108: a member that is back is used at once, and gets its
// share, not more and not less.
func TestClear(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	old, err := b.Pick(sticky("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	b.Fail("a")
	for range 100 {
		if got := pick(t, b, Request{}, OK); got != "b" {
			t.Fatalf("with a in error: picked %q", got)
		}
	}
	if !b.Clear("a") || b.Clear("nobody") {
		t.Error("Clear does not report whether there is such a member")
	}
	got := map[string]int{}
	for range 10 {
		got[pick(t, b, Request{}, OK)]++
	}
	if got["a"] != 5 || got["b"] != 5 {
		t.Errorf("after Clear the next ten went to %v, want five each", got)
	}
	old.Done(Unreachable)
	wantState(t, b, "a", StateOK) // what an old boot did is not held against the new one
	if n := status(t, b, "a").Busy; n != 0 {
		t.Errorf("Busy = %d, want 0", n)
	}
}

// TestMembership adds and removes members under way.
func TestMembership(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	for range 50 {
		pick(t, b, Request{}, OK)
	}
	if err := b.Add(Member{Route: "c", LBFactor: 3, Value: "endpoint of c"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for range 50 {
		got[pick(t, b, Request{}, OK)]++
	}
	if got["a"] != 10 || got["b"] != 10 || got["c"] != 30 {
		t.Errorf("with c of lbfactor 3 the next 50 went to %v, want 10, 10, 30", got)
	}

	lease, err := b.Pick(sticky("c", ""))
	if err != nil || lease.Value() != "endpoint of c" {
		t.Fatalf("Pick(c) = %v, %v, want its value", lease.Value(), err)
	}
	if !b.Remove("c") || b.Remove("c") {
		t.Error("Remove does not report whether there was such a member")
	}
	if got := pick(t, b, sticky("c", "b"), OK); got != "b" {
		t.Errorf("after Remove: picked %q, want the secondary", got)
	}
	slot := lease.Slot()
	if err := b.Add(Member{Route: "d"}); err != nil {
		t.Fatal(err)
	}
	if got := status(t, b, "d").Slot; got != slot {
		t.Errorf("slot of d = %d, want the free one, %d", got, slot)
	}
	lease.Done(Unreachable)
	wantState(t, b, "d", StateIdle)
	if lease.Route() != "c" {
		t.Errorf("route of the old lease = %q, want c", lease.Route())
	}
	for _, r := range []string{"a", "b", "d"} {
		b.Remove(r)
	}
	if got := pick(t, b, Request{}, OK); got != "" {
		t.Errorf("with no members: picked %q", got)
	}
	if err := b.Add(Member{Route: "e"}); err != nil {
		t.Fatal(err)
	}
	if got := pick(t, b, Request{}, OK); got != "e" {
		t.Errorf("picked %q, want e", got)
	}
}

// TestMembershipKeepsShares checks that members that come and go do not make the
// others forget how far ahead they are, nor whose turn it is.
func TestMembershipKeepsShares(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	for range 30 {
		pick(t, b, sticky("a", ""), OK)
	}
	// Now one request weighs 3 for a and b and 1 for c.
	if err := b.Add(Member{Route: "c", LBFactor: 3}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if got := pick(t, b, Request{}, OK); got != "b" {
			t.Fatalf("request %d went to %q; b is 30 behind", i, got)
		}
	}

	b = newBalancer(t, routes("a", "b", "c", "d")...)
	pick(t, b, Request{}, OK)
	pick(t, b, Request{}, OK)
	pick(t, b, sticky("c", ""), OK)
	pick(t, b, sticky("d", ""), OK)
	b.Remove("a")
	if got := pick(t, b, Request{}, OK); got != "c" {
		t.Errorf("after a, b and the removal of a: picked %q, want c", got)
	}
}

// TestFactorOfAReturned gives a member another weight while it is down: it comes
// back with the new one (D22).
func TestFactorOfAReturned(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	b.Fail("b")
	for range 4 {
		pick(t, b, Request{}, OK)
	}
	if !b.Remove("b") {
		t.Fatal("b was not there")
	}
	if err := b.Add(Member{Route: "b", LBFactor: 3}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for range 40 {
		got[pick(t, b, Request{}, OK)]++
	}
	if got["b"] != 3*got["a"] {
		t.Errorf("a got %d and b %d of 40, want 10 and 30", got["a"], got["b"])
	}
}

func TestSetPhase(t *testing.T) {
	b := newBalancer(t, routes("a", "b")...)
	if !b.SetPhase("a", Draining) || b.SetPhase("nobody", Draining) {
		t.Error("SetPhase does not report whether there is such a member")
	}
	for range 3 {
		if got := pick(t, b, Request{}, OK); got != "b" {
			t.Errorf("with a draining: picked %q, want b", got)
		}
	}
	if !b.Serves([]byte("a"), &Request{}) || b.Serves([]byte("nobody"), &Request{}) {
		t.Error("Serves(a, nobody) is not true, false")
	}
	b.SetPhase("a", Starting)
	if b.Serves([]byte("a"), &Request{}) {
		t.Error("Serves(a) while it starts")
	}
	b.SetPhase("a", Running)
	if got := pick(t, b, Request{}, OK); got != "a" {
		t.Errorf("back again: picked %q, want a", got)
	}
}

// A member that was not chosen for a while, because it said so, gets its share when
// it is back, and not everything until it has caught up.
func TestBackToItsShare(t *testing.T) {
	for _, p := range []Phase{Draining, Overloaded, Starting} {
		b := newBalancer(t, routes("a", "b", "c")...)
		b.SetPhase("a", p)
		for range 1000 {
			pick(t, b, Request{}, OK)
		}
		b.SetPhase("a", Running)
		by := map[string]int{}
		for range 30 {
			by[pick(t, b, Request{}, OK)]++
		}
		if by["a"] < 9 || by["a"] > 11 {
			t.Errorf("after %v it got %d of 30 requests, want 10", p, by["a"])
		}
	}
}

func TestNewErrors(t *testing.T) {
	tests := []struct {
		cfg  Config
		want string
	}{
		{Config{RecoverTime: -1}, "balance: RecoverTime is -1ns, want 0 or more"},
		{Config{ErrorEscalationTime: -1}, "balance: ErrorEscalationTime is -1ns, want 0 or more"},
		{Config{MaxReplyTimeouts: -1}, "balance: MaxReplyTimeouts is -1, want 0 or more"},
		{Config{SlowStart: -1}, "balance: SlowStart is -1ns, DrainDeadline 0s, DrainIdle 0s, want 0 or more"},
		{Config{Method: Rendezvous + 1}, "balance: no method has the number 8"},
		{Config{Members: routes("a", "a")}, `balance: two members have route "a"`},
		{Config{Members: []Member{{}}}, "balance: a member has no route"},
		{Config{Members: []Member{{Route: "a", LBFactor: -2}}}, `balance: member "a" has lbfactor -2, want 1 to 2147483648`},
	}
	for _, tt := range tests {
		if _, err := New(tt.cfg); err == nil || err.Error() != tt.want {
			t.Errorf("New = %v, want %s", err, tt.want)
		}
	}
	b := newBalancer(t)
	for i := range MaxMembers {
		if err := b.Add(Member{Route: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add(Member{Route: "too many"}); err == nil {
		t.Error("Add beyond MaxMembers = nil")
	}
}

// TestHugeFactors checks that shares survive lbfactors whose least common
// multiple has no room, and values that reach their bound.
func TestHugeFactors(t *testing.T) {
	b := newBalancer(t, Member{Route: "a", LBFactor: 2000000011}, Member{Route: "b", LBFactor: 999999937}, Member{Route: "c", LBFactor: 1000003})
	got := map[string]int{}
	for range 3000 {
		got[pick(t, b, Request{}, OK)]++
	}
	// c's step is so large beside the others' that it is chosen once.
	if got["a"] < 1990 || got["b"] < 990 || got["c"] < 1 {
		t.Errorf("shares of 2000:1000:1 are %v", got)
	}
	b.mu.Lock()
	b.members[0].lbValue = 1<<62 - 1
	b.mu.Unlock()
	pick(t, b, sticky("a", ""), OK)
	if v := status(t, b, "a").LBValue; v >= 1<<62 {
		t.Errorf("LBValue = %d, not rebased", v)
	}
}

func TestCounts(t *testing.T) {
	b := newBalancer(t, routes("a")...)
	pick(t, b, Request{}, OK)
	pick(t, b, Request{Session: true}, OK)
	pick(t, b, sticky("gone", ""), ClientFailed)
	pick(t, b, Request{}, Unused)
	l1, _ := b.Pick(Request{})
	l2, _ := b.Pick(Request{})
	l2.Done(Unreachable)
	got := status(t, b, "a")
	want := Status{
		Route: "a", Name: "a", LBFactor: 1, LBMult: 1, LBValue: 5, State: StateError,
		Busy: 1, MaxBusy: 2, Served: 5, Sessions: 3, Errors: 1, ClientErrors: 1,
		LastError: got.LastError, RecoverIn: got.RecoverIn, ResetAt: got.ResetAt,
	}
	if got != want {
		t.Errorf("Snapshot = %+v\nwant %+v", got, want)
	}
	if got.RecoverIn <= 0 || got.LastError.IsZero() {
		t.Errorf("RecoverIn = %v, LastError = %v", got.RecoverIn, got.LastError)
	}
	l1.Done(OK)
	(Lease{}).Done(OK) // holds nothing
}

// TestAllocs is the gate of design.md 6: choosing a member allocates nothing.
func TestAllocs(t *testing.T) {
	for method := range Rendezvous + 1 {
		members := routes("a:3", "b:2", "c", "d")
		members[0].Redirect, members[1].Domain = "d", "a domain with a name of more than 32 bytes"
		b := newWith(t, Config{Members: members, Method: method, SlowStart: time.Hour})
		activate(t, b, "a", Stopped)
		b.Fail("d")
		b.Clear("d")
		routes := [][]byte{[]byte("a"), []byte("b"), []byte("gone"), []byte("a domain with a name of more than 32 bytes.x")}
		var own Round
		if n := testing.AllocsPerRun(1000, func() {
			for _, route := range routes {
				for _, r := range []Request{{Key: route}, {Primary: route, Secondary: routes[1]}, {Primary: route, Avoid: true}, {Stateless: true}} {
					r.Round = &own
					l, err := b.Pick(r)
					if err != nil {
						t.Fatal(err)
					}
					_, _, _ = l.Route(), l.Value(), b.Serves(route, &r)
					l.Replied()
					l.Carried(7).Done(OK)
					own.Again()
				}
			}
		}); n != 0 {
			t.Errorf("%v: Pick and Done allocate %v times, want 0", method, n)
		}
	}
}

// A rule's activations hold for its requests alone (mod_jk.md 5.6), and a stateless
// request goes round whatever the load values (3.4).
func TestRulesOfARequest(t *testing.T) {
	b := newBalancer(t, Member{Route: "a"}, Member{Route: "b", Activation: Disabled}, Member{Route: "c", LBFactor: 8})
	pick := func(r Request) string {
		l, err := b.Pick(r)
		if err != nil {
			return "nobody"
		}
		defer l.Done(OK)
		return l.Route()
	}
	only := Activations{"a": Stopped, "b": Active, "c": Disabled}
	for range 3 {
		if got := pick(Request{Activations: only}); got != "b" {
			t.Errorf("only b is active: picked %s", got)
		}
	}
	if got := pick(Request{Activations: only, Primary: []byte("c")}); got != "c" {
		t.Errorf("a session of c, which is disabled: picked %s", got)
	}
	if got := pick(Request{Activations: only, Primary: []byte("a")}); got != "b" {
		t.Errorf("a session of a, which is stopped: picked %s", got)
	}
	if b.Serves([]byte("a"), &Request{Activations: only}) || !b.Serves([]byte("a"), &Request{}) {
		t.Error("Serves does not look at the activations")
	}
	if got := pick(Request{Activations: Activations{"a": Stopped, "c": Stopped}}); got != "nobody" {
		t.Errorf("nobody is active: picked %s", got)
	}
	got := ""
	for range 6 {
		got += pick(Request{Stateless: true})
	}
	if got != "acacac" && got != "cacaca" {
		t.Errorf("stateless requests went to %s, want one after the other", got)
	}
}
