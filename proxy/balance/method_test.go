package balance

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func began(t *testing.T, b *Balancer, r Request) Lease {
	t.Helper()
	l, err := b.Pick(r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func activate(t *testing.T, b *Balancer, route string, a Activation) {
	t.Helper()
	if err := b.Update(route, func(m *Member) { m.Activation = a }); err != nil {
		t.Fatal(err)
	}
}

// TestTwoChoices checks p2c: nobody has all, a member that is slow gets less, and
// shares are lbfactors.
func TestTwoChoices(t *testing.T) {
	b := newWith(t, Config{Members: routes("a:3", "b:1", "c:4"), Method: P2C})
	activate(t, b, "c", Disabled)
	got := map[string]int{}
	for range 4000 {
		got[pick(t, b, Request{}, OK)]++
	}
	if got["c"] != 0 || got["a"] < 2700 || got["a"] > 3300 {
		t.Errorf("with lbfactor 3 to 1 and nothing in flight: %v, want about 3000 and 1000", got)
	}

	b = newWith(t, Config{Members: routes("a", "b", "c", "d"), Method: P2C})
	for range 100 {
		began(t, b, sticky("a", ""))
	}
	for range 30 {
		if l := began(t, b, Request{}); l.Route() == "a" {
			t.Fatal("of two the one with more in flight was chosen")
		}
	}
	b = newWith(t, Config{Members: []Member{{Route: "a", Distance: 1}, {Route: "b"}}, Method: P2C})
	for range 20 {
		if l := began(t, b, Request{}); l.Route() != "b" {
			t.Fatalf("picked %q, which is farther away", l.Route())
		}
	}
	b.Fail("b")
	if got := pick(t, b, Request{}, OK); got != "a" {
		t.Errorf("picked %q, want the only one left", got)
	}
}

// TestLeastTime checks that who answers sooner gets more, and that who was slow once
// gets another chance.
func TestLeastTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("slow", "fast"), Method: LeastTime})
		once := func(r Request) string {
			l := began(t, b, r)
			if l.Route() == "slow" {
				time.Sleep(time.Second)
			} else {
				time.Sleep(10 * time.Millisecond)
			}
			l.Replied()
			l.Done(OK)
			return l.Route()
		}
		if a, b := once(Request{}), once(Request{}); a == b {
			t.Fatalf("both went to %s; nobody has answered yet", a)
		}
		for range 50 {
			if got := once(Request{}); got != "fast" {
				t.Fatal("went to the slow one")
			}
		}
		var open []Lease
		for range 60 {
			l := began(t, b, Request{})
			if open = append(open, l); l.Route() == "slow" {
				t.Fatalf("the slow one got request %d of those in flight; it takes a hundred times as long", len(open))
			}
		}
		for range 60 {
			open = append(open, began(t, b, Request{}))
		}
		n := 0
		for _, l := range open {
			if l.Route() == "slow" {
				n++
			}
			l.Done(OK)
		}
		if n == 0 {
			t.Error("the slow one got nothing although the fast one had a hundred times as much to do")
		}
		time.Sleep(10 * answerHalf) // fast ages as well
		once(sticky("fast", ""))
		if got := once(Request{}); got != "slow" {
			t.Errorf("much later it went to %q; the slow one is to get another chance", got)
		}
	})
}

// TestRendezvous checks that a key has its member, that all get their share of keys,
// and that one which leaves or comes moves its own keys alone.
func TestRendezvous(t *testing.T) {
	b := newWith(t, Config{Members: routes("a:1", "b:1", "c:2"), Method: Rendezvous})
	owners := func() map[string]string {
		all := map[string]string{}
		for i := range 4000 {
			key := fmt.Sprintf("192.0.2.%d:%d", i%256, i)
			all[key] = pick(t, b, Request{Key: []byte(key)}, OK)
		}
		return all
	}
	before := owners()
	got := map[string]int{}
	for key, owner := range before {
		got[owner]++
		if again := pick(t, b, Request{Key: []byte(key)}, OK); again != owner {
			t.Fatalf("%s went to %s, and then to %s", key, owner, again)
		}
	}
	if got["a"] < 850 || got["a"] > 1150 || got["c"] < 1850 || got["c"] > 2150 {
		t.Errorf("keys are shared %v, want about 1000, 1000, 2000", got)
	}
	b.Fail("b")
	for key, owner := range owners() {
		if was := before[key]; was != "b" && was != owner {
			t.Fatalf("%s moved from %s to %s when b failed", key, was, owner)
		}
	}
	b.Clear("b")
	for key, owner := range owners() {
		if before[key] != owner {
			t.Fatalf("%s is with %s after b is back, want %s", key, owner, before[key])
		}
	}
	if err := b.Add(Member{Route: "d"}); err != nil {
		t.Fatal(err)
	}
	for key, owner := range owners() {
		if owner != "d" && before[key] != owner {
			t.Fatalf("%s moved from %s to %s when d came", key, before[key], owner)
		}
	}
	if got := pick(t, b, Request{Key: []byte("k"), Primary: []byte("a")}, OK); got != "a" {
		t.Errorf("a session of a went to %q", got)
	}
}

// TestSlowStart checks that a member that is back gets a tenth of its share, then
// more and more, and all of it after SlowStart; also one that is new.
func TestSlowStart(t *testing.T) {
	for _, method := range []Method{ByRequest, BySession, ByTraffic, P2C} {
		t.Run(method.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newWith(t, Config{Members: routes("a", "b"), Method: method, SlowStart: 100 * time.Second, Maintain: time.Hour})
				share := func() int {
					n := 0
					for range 1000 {
						l := began(t, b, Request{})
						if l.Route() == "a" {
							n++
						}
						l.Carried(5).Done(OK)
					}
					return n
				}
				if n := share(); n < 420 || n > 580 {
					t.Errorf("at first a got %d of 1000, want half: all are new", n)
				}
				b.Fail("a")
				b.Clear("a")
				if n := share(); n < 60 || n > 130 {
					t.Errorf("at the begin of its slow start a got %d of 1000, want a tenth of b's", n)
				}
				time.Sleep(50 * time.Second)
				if n := share(); n < 270 || n > 400 {
					t.Errorf("half way a got %d of 1000, want half of b's", n)
				}
				time.Sleep(50 * time.Second)
				if n := share(); n < 420 || n > 580 {
					t.Errorf("afterwards a got %d of 1000, want half", n)
				}
			})
		})
	}
	t.Run("Busyness", func(t *testing.T) {
		b := newWith(t, Config{Members: routes("a", "b"), Method: ByBusyness, SlowStart: time.Hour})
		b.Fail("a")
		b.Clear("a")
		n := 0
		for range 22 {
			if began(t, b, Request{}).Route() == "a" {
				n++
			}
		}
		if n != 2 {
			t.Errorf("a has %d of 22 in flight, want 2", n)
		}
	})
}

// TestFastFail checks that with all members in error each gets one trial at a time,
// and other requests fail at once.
func TestFastFail(t *testing.T) {
	b := newWith(t, Config{Members: routes("a", "b"), FastFail: true})
	b.Fail("a")
	b.Fail("b")
	first, second := began(t, b, Request{}), began(t, b, Request{})
	if first.Route() == second.Route() {
		t.Errorf("both trials at %s", first.Route())
	}
	if got := pick(t, b, Request{}, OK); got != "" {
		t.Errorf("a third request went to %q, want none", got)
	}
	second.Done(OK)
	if got := pick(t, b, Request{}, OK); got != second.Route() {
		t.Errorf("after a trial that worked: picked %q, want %q", got, second.Route())
	}
	first.Done(Unreachable)
	wantState(t, b, first.Route(), StateError)
}
