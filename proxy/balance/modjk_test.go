package balance

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// run picks n times, one after the other, and returns the routes.
func run(t *testing.T, b *Balancer, n int, r Request, carried uint64) string {
	t.Helper()
	var got []string
	for range n {
		l, err := b.Pick(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Route())
		l.Carried(carried).Done(OK)
	}
	return strings.Join(got, "")
}

func values(b *Balancer) map[string]uint64 {
	all := map[string]uint64{}
	for _, s := range b.Snapshot() {
		all[s.Route] = s.LBValue
	}
	return all
}

// TestMethodVectors runs the vectors of mod_jk.md 3.3 [T].
func TestMethodVectors(t *testing.T) {
	tests := []struct {
		method  Method
		carried uint64
		want    string
		value   uint64 // of each member at the end
	}{
		{ByRequest, 0, "abcababcaababcaaba", 18},
		{BySession, 0, "abcababcaababcaaba", 18},
		{ByNext, 0, "abcababcaababcaaba", 18},
		{ByTraffic, 1, "abcababcaababcaaba", 18},
		{ByTraffic, 500, "abcababcaababcaaba", 9000},
		{ByBusyness, 0, "abcabcabcabcabcabc", 0},
	}
	for _, tt := range tests {
		t.Run(tt.method.String(), func(t *testing.T) {
			b := newWith(t, Config{Members: routes("a:3", "b:2", "c:1"), Method: tt.method})
			if got := run(t, b, 18, Request{}, tt.carried); got != tt.want {
				t.Errorf("picked %s, want %s", got, tt.want)
			}
			for route, v := range values(b) {
				if v != tt.value {
					t.Errorf("lb_value of %s = %d, want %d", route, v, tt.value)
				}
			}
		})
	}
}

// TestAccounting checks what each method counts and when (mod_jk.md 3.3, trap 11).
func TestAccounting(t *testing.T) {
	type row struct {
		req           Request
		during, after uint64 // lb_value of a, whose lb_mult is 2, and which carries 10 bytes
		sessions      uint64
	}
	plain, named := Request{}, Request{Primary: []byte("a"), Session: true}
	unknown, stateless := Request{Session: true}, Request{Stateless: true}
	tests := map[Method][]row{
		ByRequest:  {{plain, 2, 2, 1}, {named, 2, 2, 0}, {unknown, 2, 2, 0}, {stateless, 2, 2, 0}},
		BySession:  {{plain, 2, 2, 1}, {named, 0, 0, 0}, {unknown, 0, 0, 0}, {stateless, 0, 0, 0}},
		ByNext:     {{plain, 2, 2, 1}, {named, 0, 0, 0}, {unknown, 0, 0, 0}, {stateless, 0, 0, 0}},
		ByTraffic:  {{plain, 0, 20, 1}, {named, 0, 20, 0}, {unknown, 0, 20, 0}, {stateless, 0, 20, 0}},
		ByBusyness: {{plain, 2, 0, 1}, {named, 2, 0, 0}, {unknown, 2, 0, 0}, {stateless, 2, 0, 0}},
	}
	for method, rows := range tests {
		for i, tt := range rows {
			b := newWith(t, Config{Members: routes("a:1", "b:2"), Method: method})
			l, err := b.Pick(tt.req)
			if err != nil || l.Route() != "a" {
				t.Fatalf("%v, row %d: Pick = %q, %v", method, i, l.Route(), err)
			}
			if got := status(t, b, "a"); got.LBValue != tt.during || got.Sessions != tt.sessions {
				t.Errorf("%v, row %d, under way: lb_value %d, sessions %d; want %d, %d", method, i, got.LBValue, got.Sessions, tt.during, tt.sessions)
			}
			l.Carried(10).Done(Failed) // each attempt counts, a failed one too
			if got := status(t, b, "a"); got.LBValue != tt.after {
				t.Errorf("%v, row %d, at the end: lb_value %d, want %d", method, i, got.LBValue, tt.after)
			}
		}
	}
}

// TestBusyness checks that B sends where least is under way for its lbfactor.
func TestBusyness(t *testing.T) {
	b := newWith(t, Config{Members: routes("a:2", "b:1"), Method: ByBusyness})
	var got string
	for range 6 {
		l, err := b.Pick(Request{})
		if err != nil {
			t.Fatal(err)
		}
		got += l.Route()
	}
	if strings.Count(got, "a") != 4 {
		t.Errorf("six requests at a time went to %s, want four to a", got)
	}
}

// TestDistance checks mod_jk.md 3.4: the nearest class alone is used while a member
// of it can be, and a stateless request takes turns in it.
func TestDistance(t *testing.T) {
	members := []Member{{Route: "a", Distance: 1}, {Route: "b"}, {Route: "c", LBFactor: 9}, {Route: "d", Distance: -1, Activation: Disabled}}
	b := newBalancer(t, members...)
	if got := run(t, b, 10, Request{}, 0); got != "bccccccccc" {
		t.Errorf("picked %s, want b, and c nine times", got)
	}
	if got := run(t, b, 4, Request{Stateless: true}, 0); got != "bcbc" {
		t.Errorf("stateless requests went to %s, want b and c in turns", got)
	}
	b.Fail("b")
	b.Fail("c")
	if got := run(t, b, 2, Request{}, 0); got != "aa" {
		t.Errorf("with b and c in error: picked %s, want aa", got)
	}
}

// TestRoutes checks by_route of mod_jk.md 3.6, row by row.
func TestRoutes(t *testing.T) {
	east := func(route string) Member { return Member{Route: route, Domain: "east"} }
	tests := []struct {
		name    string
		members []Member
		failed  string // routes, one letter each
		force   bool   // sticky_session_force
		req     Request
		want    string // "" for none
		reason  Reason
	}{{
		name:    "the member itself",
		members: []Member{east("a"), {Route: "b", Redirect: "c"}, {Route: "c"}},
		req:     sticky("b", ""), want: "b", reason: ByPrimary,
	}, {
		name:    "its redirect, which may be disabled",
		members: []Member{{Route: "a"}, {Route: "b", Redirect: "c"}, {Route: "c", Activation: Disabled}},
		failed:  "b",
		req:     sticky("b", ""), want: "c", reason: ByRedirect,
	}, {
		name:    "not a stopped redirect",
		members: []Member{{Route: "a"}, {Route: "b", Redirect: "c"}, {Route: "c", Activation: Stopped}},
		failed:  "b",
		req:     sticky("b", ""), want: "a",
	}, {
		name:    "redirect comes before the domain, which is not tried then",
		members: []Member{{Route: "x"}, east("a"), {Route: "b", Domain: "east", Redirect: "c"}, {Route: "c"}},
		failed:  "bc",
		req:     sticky("b", ""), want: "x",
	}, {
		name:    "a member of its domain",
		members: []Member{{Route: "x"}, east("b"), east("a")},
		failed:  "b",
		req:     sticky("b", ""), want: "a", reason: ByDomain,
	}, {
		name:    "the nearest of its domain",
		members: []Member{east("b"), {Route: "x", Domain: "east", Distance: 2}, {Route: "y", Domain: "east", Distance: 1}},
		failed:  "b",
		req:     sticky("b", ""), want: "y", reason: ByDomain,
	}, {
		name:    "not a disabled one of its domain (trap 15)",
		members: []Member{{Route: "x"}, east("b"), {Route: "a", Domain: "east", Activation: Disabled}},
		failed:  "b",
		req:     sticky("b", ""), want: "x",
	}, {
		name:    "an unknown route names a domain by what it has before its first dot (trap 14)",
		members: []Member{{Route: "x"}, east("a")},
		req:     sticky("east.gone.too", ""), want: "a", reason: ByDomain,
	}, {
		name:    "or as a whole",
		members: []Member{{Route: "x"}, east("a")},
		req:     sticky("east", ""), want: "a", reason: ByDomain,
	}, {
		name:    "an unknown domain is none",
		members: []Member{{Route: "x"}, east("a")},
		req:     sticky("west.gone", ""), want: "x",
	}, {
		name:    "a stopped member loses its sessions to its redirect",
		members: []Member{{Route: "a"}, {Route: "b", Redirect: "c", Activation: Stopped}, {Route: "c"}},
		req:     sticky("b", ""), want: "c", reason: ByRedirect,
	}, {
		name:    "the secondary holds the session, so it comes before the redirect",
		members: []Member{{Route: "a"}, {Route: "b", Redirect: "c"}, {Route: "c"}},
		failed:  "b",
		req:     sticky("b", "a"), want: "a", reason: BySecondary,
	}, {
		name:    "force: nobody else",
		members: []Member{{Route: "a"}, {Route: "b", Redirect: "a", Activation: Stopped}},
		force:   true,
		req:     sticky("b", ""), want: "",
	}, {
		name:    "force: not for an unknown route either (trap 16) [T]",
		members: routes("a", "b"), force: true,
		req: sticky("zz", ""), want: "",
	}, {
		name:    "force: nor for an id without a route (trap 16) [T]",
		members: routes("a", "b"), force: true,
		req: Request{Session: true}, want: "",
	}, {
		name:    "force: a request without a session is balanced",
		members: routes("a", "b"), force: true,
		req: Request{}, want: "a",
	}, {
		name:    "force: an unknown route may still name a domain",
		members: []Member{{Route: "x"}, east("a")}, force: true,
		req: sticky("east.gone", ""), want: "a", reason: ByDomain,
	}, {
		name:    "force: the secondary holds the session",
		members: routes("a", "b"), failed: "a", force: true,
		req: sticky("a", "b"), want: "b", reason: BySecondary,
	}, {
		name:    "force: in error and forced to recover, because nobody else may (3.8)",
		members: routes("a", "b"), failed: "a", force: true,
		req: sticky("a", ""), want: "a", reason: ByPrimary,
	}, {
		name:    "force: with a single member there is no other [T]",
		members: routes("a"), force: true,
		req: sticky("zz", ""), want: "a",
	}, {
		name:    "a single disabled member serves its sessions",
		members: []Member{{Route: "a", Activation: Disabled}},
		req:     sticky("a", ""), want: "a", reason: ByPrimary,
	}, {
		name:    "and no others",
		members: []Member{{Route: "a", Activation: Disabled}},
		req:     sticky("zz", ""), want: "",
	}, {
		name:    "hot standby: the first redirect there is, if nobody can be chosen (3.4)",
		members: []Member{{Route: "a", Activation: Stopped}, {Route: "b", Redirect: "c", Activation: Stopped}, {Route: "c", Activation: Disabled}},
		req:     Request{}, want: "c", reason: ByRedirect,
	}, {
		name:    "hot standby: only the first redirect counts",
		members: []Member{{Route: "a", Redirect: "gone", Activation: Stopped}, {Route: "b", Redirect: "c", Activation: Stopped}, {Route: "c", Activation: Disabled}},
		req:     Request{}, want: "",
	}, {
		name:    "a rule's activations count for redirects",
		members: []Member{{Route: "a"}, {Route: "b", Redirect: "c", Activation: Stopped}, {Route: "c"}},
		req:     Request{Primary: []byte("b"), Activations: Activations{"c": Stopped}}, want: "a",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newWith(t, Config{Members: tt.members, StickyForce: tt.force})
			for _, r := range tt.failed {
				b.Fail(string(r))
			}
			l, err := b.Pick(tt.req)
			got := ""
			if err == nil {
				got = l.Route()
			}
			if got != tt.want {
				t.Fatalf("Pick(%q, %q) = %q, want %q", tt.req.Primary, tt.req.Secondary, got, tt.want)
			}
			if err == nil && l.Reason() != tt.reason {
				t.Errorf("Reason = %v, want %v", l.Reason(), tt.reason)
			}
			l.Done(OK)
		})
	}
}

// TestServes checks that a session names a member as soon as somebody stands in for
// it, and that what the request has tried does not.
func TestServes(t *testing.T) {
	b := newBalancer(t, Member{Route: "a", Redirect: "b"}, Member{Route: "b"}, Member{Route: "c", Domain: "east"})
	b.Fail("a")
	for route, want := range map[string]bool{"a": true, "b": true, "c": true, "east.x": true, "west.x": false, "": false} {
		if got := b.Serves([]byte(route), &Request{}); got != want {
			t.Errorf("Serves(%q) = %v, want %v", route, got, want)
		}
	}
	var round Round
	if got := pick(t, b, Request{Primary: []byte("a"), Round: &round}, Failed); got != "b" {
		t.Fatalf("picked %q, want b by redirect", got)
	}
	if b.Serves([]byte("a"), &Request{Round: &round}) {
		t.Error("Serves(a) though the request has tried its redirect")
	}
	if !b.Knows([]byte("a")) || b.Knows([]byte("east.x")) {
		t.Error("Knows(a, east.x) is not true, false")
	}
}

// TestDecay checks what maintenance does to load values (mod_jk.md 3.9).
func TestDecay(t *testing.T) {
	tests := []struct {
		method Method
		a, b   uint64 // after two maintenances; 9 and 5 before
	}{
		{ByRequest, 2, 1},
		{BySession, 2, 1},
		{ByTraffic, 2, 1},
		{Rendezvous, 2, 1},
		{ByNext, 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.method.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newWith(t, Config{Members: routes("a", "b"), Method: tt.method})
				b.mu.Lock()
				b.members[0].lbValue, b.members[1].lbValue = 9, 5
				b.mu.Unlock()
				time.Sleep(2 * time.Minute)
				if got := values(b); got["a"] != tt.a || got["b"] != tt.b {
					t.Errorf("values are %v, want %d and %d", got, tt.a, tt.b)
				}
			})
		})
	}
	t.Run("Busyness has none, and nothing to catch up with", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newWith(t, Config{Members: routes("a", "b"), Method: ByBusyness})
			for range 5 {
				if _, err := b.Pick(sticky("a", "")); err != nil {
					t.Fatal(err)
				}
			}
			b.Fail("b")
			time.Sleep(2 * time.Minute)
			if got := values(b); got["a"] != 5 || got["b"] != 0 {
				t.Errorf("values are %v, want 5 and 0", got)
			}
		})
	})
	t.Run("Next looks at members that can be chosen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newWith(t, Config{Members: []Member{{Route: "a"}, {Route: "b"}, {Route: "c", Activation: Disabled}}, Method: ByNext})
			b.mu.Lock()
			b.members[0].lbValue, b.members[1].lbValue, b.members[2].lbValue = 9, 5, 2
			b.mu.Unlock()
			time.Sleep(time.Minute)
			if got := values(b); got["a"] != 4 || got["b"] != 0 || got["c"] != 0 {
				t.Errorf("values are %v, want 4, 0, 0", got)
			}
		})
	})
}
