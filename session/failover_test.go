package session

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/cluster"
)

// bubble runs test on a farm of these members in a synctest bubble.
func bubble(t *testing.T, cfg Config, names string, test func(t *testing.T, f *farm)) {
	t.Helper()
	bubbleOf(t, cfg, nil, names, test)
}

// bubbleOf is bubble with members that have settings of their own.
func bubbleOf(t *testing.T, cfg Config, own func(name string, cfg *Config), names string, test func(t *testing.T, f *farm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for _, r := range names {
			all = append(all, string(r))
		}
		f := newFarmOf(t, cfg, own, all...)
		defer f.close()
		test(t, f)
	})
}

func TestFailover(t *testing.T) { // TC-1, SESS-31
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		first := b.count(f.nodes["a"], 1, "a!b")
		if !first.IsNew || first.Lost || first.Version != 1 {
			t.Errorf("first reply = %+v, want a new session at version 1", first)
		}
		for n := 2; n <= 5; n++ {
			if got := b.count(f.nodes["a"], n, "a!b"); got.ID != first.ID || got.IsNew || got.header.Get("Set-Cookie") != "" {
				t.Fatalf("reply %d = %+v, want session %q to go on without another cookie", n, got, first.ID)
			}
		}
		f.kill("a")
		b.count(f.nodes["b"], 6, "b!c")
		f.kill("b")
		b.count(f.nodes["c"], 7, "c!")
	})
}

func TestTwoMembers(t *testing.T) { // SESS-32, ownership vector 24
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.kill("a")
		b.count(f.nodes["b"], 2, "b!")
		f.start("a")
		f.ready("a")
		time.Sleep(time.Second)
		b.count(f.nodes["b"], 3, "b!a")
		f.kill("b")
		b.count(f.nodes["a"], 4, "a!")
	})
}

// A session without a copy gets one when somebody comes who can hold it,
// without a request.
func TestCopyForNewcomer(t *testing.T) { // SESS-32
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!") // SESS-V11
		if got := f.nodes["a"].m.Stats().Unprotected; got == 0 {
			t.Error("Unprotected = 0, want the reply counted")
		}
		f.start("b")
		f.ready("b")
		time.Sleep(time.Second)
		if got := f.nodes["b"].m.Stats().Secondary; got != 1 {
			t.Fatalf("b holds %d copies, want 1", got)
		}
		f.kill("a")
		b.count(f.nodes["b"], 2, "b!")
	})
}

// As TestCopyForNewcomer, but the session had a copy before, and nobody else
// could hold it when that was lost (H02).
func TestCopyAfterAllOthersWereLost(t *testing.T) {
	t.Run("the member is back", func(t *testing.T) {
		bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			f.kill("b")
			time.Sleep(10 * time.Second)
			f.start("b")
			f.ready("b")
			time.Sleep(2 * time.Second)
			f.kill("a")
			b.count(f.nodes["b"], 2, "b!")
		})
	})
	t.Run("another has come", func(t *testing.T) {
		bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
			f.net.Cut("10.0.0.99", f.nodes["b"].ip) // c does not reach b
			time.Sleep(10 * time.Second)
			f.start("c")
			f.ready("c")
			time.Sleep(2 * time.Second)
			f.kill("a")
			b.count(f.nodes["c"], 2, "c!")
		})
	})
}

// Who is back while its copies are being replaced keeps those that are left, and
// what it asks for is not dropped.
func TestBackWhileReplaced(t *testing.T) {
	bubble(t, Config{Placement: Ring, RestoreRate: 1}, "abc", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		a.fill(20, []byte("v"))
		f.net.Cut(a.ip, f.nodes["b"].ip)
		time.Sleep(lostAfter + 5*time.Second)
		f.net.Heal(a.ip, f.nodes["b"].ip)
		time.Sleep(20 * time.Second)
		left, moved := f.nodes["b"].m.Stats().Secondary, f.nodes["c"].m.Stats().Secondary
		if left < 10 || moved == 0 || left+moved != 20 {
			t.Errorf("b has %d copies and c %d, want those that were not replaced in 5 s, and the others", left, moved)
		}
	})
}

func TestNewSecondaryWithoutRequest(t *testing.T) { // SESS-30, D7
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.kill("b")
		time.Sleep(time.Second)
		if got := f.nodes["c"].m.Stats().Secondary; got != 1 {
			t.Fatalf("c holds %d copies a second after b went, want 1", got)
		}
		f.kill("a")
		b.count(f.nodes["c"], 2, "c!")
	})
}

func TestThirdMemberFetches(t *testing.T) { // SESS-33
	t.Run("from the primary", func(t *testing.T) {
		bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			b.count(f.nodes["c"], 2, "c!a")
		})
	})
	t.Run("from the secondary", func(t *testing.T) {
		bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			f.kill("a")
			b.count(f.nodes["c"], 2, "c!b")
		})
	})
}

func TestStickinessLost(t *testing.T) { // SESS-34, ownership vector 23
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		for n := 1; n <= 10; n += 2 {
			b.count(f.nodes["a"], n, "a!b")
			b.count(f.nodes["b"], n+1, "b!a")
		}
	})
}

func TestBothHoldersGone(t *testing.T) { // SESS-35, TC-6, ownership vector 25
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		old := b.count(f.nodes["a"], 1, "a!b")
		for _, name := range []string{"a", "b"} {
			f.nodes[name].host.Kill()
		}
		got := b.count(f.nodes["c"], 1, "c!")
		if !got.Lost || !got.IsNew || got.ID == old.ID {
			t.Errorf("reply = %+v, want another session, new and lost", got)
		}
		if got := b.count(f.nodes["c"], 2, "c!"); got.Lost || got.IsNew {
			t.Errorf("second reply = %+v, want neither new nor lost", got)
		}
	})
}

// A member that reaches none of the holders does not say that the session is
// lost while somebody else reaches them (ownership vectors 29 and 37).
func TestHoldersOutOfReach(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abcd", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		d := f.nodes["d"]
		for _, holder := range []string{"a", "b"} {
			f.net.Cut(f.nodes[holder].ip, d.ip)
		}
		for range 2 { // at once, and when nothing is left to wait for
			if got := b.get(d, "/counter"); got.code != http.StatusServiceUnavailable || got.header.Get(NotExecuted) != "owner; member=a" {
				t.Errorf("behind the cut: %d %+v, want it not executed here", got.code, got)
			}
			time.Sleep(2 * time.Second)
		}
		f.net.Cut(f.nodes["c"].ip, d.ip)
		time.Sleep(2 * time.Second)
		if got := b.get(d, "/counter"); !got.Lost || !got.IsNew {
			t.Errorf("cut off from all: %d %+v, want a new session, lost", got.code, got)
		}
	})
}

// A link that drops everything costs the request that meets it AckTimeout, once,
// and no other (TC-9, SESS-10, ownership vector 28).
func TestCutLink(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b, other := &browser{t: t}, &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		other.count(f.nodes["a"], 1, "a!b")
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		start := time.Now()
		b.count(f.nodes["a"], 2, "a!c")
		if took := time.Since(start); took > DefaultAckTimeout+500*time.Millisecond {
			t.Errorf("the reply took %v, want at most ack_timeout + 500 ms", took)
		}
		start = time.Now()
		other.count(f.nodes["a"], 2, "a!c")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the reply of another session took %v, want no wait", took)
		}
		if got := f.nodes["a"].m.Stats().Strikes; got == 0 {
			t.Error("Strikes = 0")
		}
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(3 * time.Second)
		b.count(f.nodes["a"], 3, "a!c")
		f.kill("a")
		b.count(f.nodes["c"], 4, "c!b")
	})
}

// B promotes while A is cut off from it, and A goes on with another copy: both
// sides serve, and at the heal one of them wins and the other's loss is told.
func TestSplit(t *testing.T) { // G4
	var mu sync.Mutex
	var conflicts []Conflict
	cfg := Config{OnConflict: func(c Conflict) {
		mu.Lock()
		defer mu.Unlock()
		conflicts = append(conflicts, c)
	}}
	bubble(t, cfg, "ab", func(t *testing.T, f *farm) {
		left, right := &browser{t: t}, &browser{t: t}
		left.count(f.nodes["a"], 1, "a!b")
		right.value = left.value
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(2 * time.Second)
		left.count(f.nodes["a"], 2, "a!")
		right.count(f.nodes["b"], 2, "b!")
		right.count(f.nodes["b"], 3, "b!")
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(5 * time.Second)
		mu.Lock()
		n := len(conflicts)
		mu.Unlock()
		if n != 1 {
			t.Errorf("%d conflicts were told, want 1: %+v", n, conflicts)
		} else if v, ok := counterKey.Lost(conflicts[0]); v != 2 || !ok {
			t.Errorf("lost is %d, %v, want the 2 of a", v, ok)
		} else if _, ok := NewKey[string]("other").Lost(conflicts[0]); ok {
			t.Error("a key that nobody has set is said to be lost")
		}
		// One side goes on unflagged, the other is told.
		a, b := left.get(f.nodes["a"], "/peek"), right.get(f.nodes["b"], "/peek")
		if a.Counter != 3 || b.Counter != 3 || !a.Lost || b.Lost || a.IsNew || b.IsNew {
			t.Errorf("after the heal: %+v and %+v, want what b has, where more was changed, and the first flagged", a, b)
		}
	})
}

func TestParallelRequestsMerge(t *testing.T) { // SESS-8, H28, I01
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		const requests = 50
		var wg sync.WaitGroup
		for n := range requests {
			wg.Go(func() {
				tab := &browser{t: t, value: b.value}
				if got := tab.get(f.nodes["a"], fmt.Sprintf("/set?name=k%d&value=v%d", n, n)); got.code != http.StatusOK {
					t.Errorf("request %d: %d %s", n, got.code, got.body)
				}
			})
		}
		wg.Wait()
		got := b.get(f.nodes["a"], "/peek")
		if len(got.Names) != requests+1 || got.Version != requests+1 {
			t.Errorf("%d attributes at version %d, want %d at %d", len(got.Names), got.Version, requests+1, requests+1)
		}
		f.kill("a")
		if got := b.get(f.nodes["b"], "/peek"); len(got.Names) != requests+1 || got.Counter != 1 {
			t.Errorf("on the secondary: %d attributes, counter %d; want %d, 1", len(got.Names), got.Counter, requests+1)
		}
	})
}

// Requests of one session at all members at once: nobody fails, nothing is lost.
func TestParallelEverywhere(t *testing.T) { // SESS-34
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "")
		const requests = 30
		var wg sync.WaitGroup
		for n := range requests {
			wg.Go(func() {
				tab := &browser{t: t, value: b.value}
				at := f.nodes[string("abc"[n%3])]
				if got := tab.get(at, fmt.Sprintf("/set?name=k%d&value=v%d", n, n)); got.code != http.StatusOK || got.Lost {
					t.Errorf("request %d at %s: %d %s lost=%v", n, at.name, got.code, got.body, got.Lost)
				}
			})
		}
		wg.Wait()
		if got := b.get(f.nodes["b"], "/peek"); len(got.Names) != requests+1 || got.Lost {
			t.Errorf("%d attributes, lost %v; want %d", len(got.Names), got.Lost, requests+1)
		}
	})
}

func TestParallelFirstRequestsOfALostSession(t *testing.T) { // H31, H20
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		value, err := f.codec.Encode(cookieValue(newID(), f.nodes["a"].header()))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]int{}
		for n := range 50 {
			wg.Go(func() {
				tab := &browser{t: t, value: value}
				got := tab.get(f.nodes["a"], fmt.Sprintf("/set?name=k%d&value=v", n))
				if got.code != http.StatusOK || !got.Lost || !got.IsNew || got.Primary != "a" || got.Secondary == "" {
					t.Errorf("request %d: %+v", n, got)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[got.ID]++
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Errorf("%d sessions, want 1", len(ids))
		}
		if got := f.nodes["a"].m.Stats(); got.Primary != 1 {
			t.Errorf("a has %d sessions, want 1", got.Primary)
		}
	})
}

// Members die one after the other and nobody asks for the session meanwhile: it
// has two holders again each time (TC-5, H02, D7, R14).
func TestChainWithoutRequests(t *testing.T) {
	bubble(t, Config{}, "abcd", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		got := b.count(f.nodes["a"], 1, "")
		left := []string{"a", "b", "c", "d"}
		for _, victim := range []string{got.Primary, got.Secondary} {
			f.kill(victim)
			left = slices.DeleteFunc(left, func(name string) bool { return name == victim })
			time.Sleep(time.Second)
			var sum Stats
			for _, name := range left {
				s := f.nodes[name].m.Stats()
				sum.Primary += s.Primary
				sum.Secondary += s.Secondary
			}
			if sum.Primary != 1 || sum.Secondary != 1 {
				t.Fatalf("without %s: %d primaries and %d copies, want 1 and 1", victim, sum.Primary, sum.Secondary)
			}
		}
		holder := left[0]
		for _, name := range left {
			if f.nodes[name].m.Stats().Primary == 1 {
				holder = name
			}
		}
		f.kill(holder)
		left = slices.DeleteFunc(left, func(name string) bool { return name == holder })
		b.count(f.nodes[left[0]], 2, left[0]+"!")
	})
}

// With several secondaries a session survives as many deaths at once, and gets
// new copies for those that are lost (--secondaries).
func TestSeveralSecondaries(t *testing.T) {
	for _, tt := range []struct {
		name        string
		secondaries int
		copies      int // of a session on five members
	}{{"two", 2, 2}, {"all", -1, 4}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{Placement: Ring, Secondaries: tt.secondaries}, "abcde", func(t *testing.T, f *farm) {
				copies := func() (n int) {
					for _, x := range f.nodes {
						n += x.m.Stats().Secondary
					}
					return n
				}
				b := &browser{t: t}
				b.count(f.nodes["a"], 1, "a!b")
				if got := copies(); got != tt.copies {
					t.Fatalf("%d copies, want %d", got, tt.copies)
				}
				b.count(f.nodes["e"], 2, "e!a") // a take-over leaves as many
				time.Sleep(time.Second)
				if got := copies(); got != tt.copies {
					t.Fatalf("%d copies after a take-over, want %d", got, tt.copies)
				}
				f.kill("e")
				f.kill("a")
				b.count(f.nodes["d"], 3, "d!b") // it holds nothing, or is the last in line
				time.Sleep(time.Second)
				if got, want := copies(), min(tt.copies, 2); got != want {
					t.Fatalf("%d copies on three members, want %d", got, want)
				}
				f.kill("d")
				b.count(f.nodes["c"], 4, "c!b")
				f.kill("b")
				b.count(f.nodes["c"], 5, "c!")
				f.start("a")
				f.start("b")
				f.ready("a", "b")
				time.Sleep(time.Minute)
				if got := copies(); got != 2 {
					t.Errorf("%d copies when two members have come, want 2", got)
				}
			})
		})
	}
}

// A cut that lasts longer than gossip remembers: the members find each other
// again, and one branch wins (K01).
func TestHealAfterGossipForgot(t *testing.T) {
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		left, right := &browser{t: t}, &browser{t: t}
		left.count(f.nodes["a"], 1, "a!b")
		right.value = left.value
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		for _, n := range f.nodes {
			f.dir.remove(n.self.ID(), false)
		}
		time.Sleep(keepDialling + time.Minute)
		left.count(f.nodes["a"], 2, "a!")
		right.count(f.nodes["b"], 2, "b!")
		right.count(f.nodes["b"], 3, "b!")
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		for _, n := range f.nodes {
			self := n.self
			self.State = cluster.Running
			f.dir.join(self)
		}
		time.Sleep(10 * time.Second)
		a, b := left.get(f.nodes["a"], "/peek"), right.get(f.nodes["b"], "/peek")
		if a.Counter != 3 || b.Counter != 3 || !a.Lost || b.Lost || a.IsNew || b.IsNew {
			t.Errorf("after the heal: %+v and %+v, want what b has, and the first flagged", a, b)
		}
		if pair := right.get(f.nodes["b"], "/counter").pair(); pair != "b!a" && pair != "a!b" {
			t.Errorf("the pair is %s, want both members", pair)
		}
	})
}

// A request that stands still with its member, while its client goes on
// elsewhere, fails afterwards and undoes nothing (34).
func TestLateRequest(t *testing.T) {
	var mu sync.Mutex
	var told []Conflict
	cfg := Config{Placement: Ring, OnConflict: func(c Conflict) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, c)
	}}
	bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
		goOn := make(chan struct{})
		f.use(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/slow" {
				demo(w, r)
				return
			}
			s := FromContext(r.Context())
			n, _ := counterKey.Get(s)
			<-goOn
			_ = counterKey.Set(s, n+1)
			_ = NewKey[string]("slow").Set(s, "done")
		})
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		slow := &browser{t: t, value: b.value}
		var late reply
		var wg sync.WaitGroup
		wg.Go(func() { late = slow.get(f.nodes["a"], "/slow") })
		synctest.Wait()
		for _, other := range []string{"b", "c"} {
			f.net.Cut(f.nodes["a"].ip, f.nodes[other].ip)
		}
		time.Sleep(2 * time.Second)
		b.count(f.nodes["b"], 2, "b!c")
		b.count(f.nodes["b"], 3, "b!c")
		for _, other := range []string{"b", "c"} {
			f.net.Heal(f.nodes["a"].ip, f.nodes[other].ip)
		}
		time.Sleep(5 * time.Second)
		close(goOn)
		wg.Wait()
		if late.code != http.StatusServiceUnavailable {
			t.Errorf("the late request: %d, want 503", late.code)
		}
		if got := b.get(f.nodes["c"], "/peek"); got.Counter != 3 || slices.Contains(got.Names, "slow") || got.Lost {
			t.Errorf("afterwards: %+v, want 3 and nothing of the late request", got)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || !told[0].Late || !slices.Equal(told[0].Keys, []string{"counter", "slow"}) {
			t.Errorf("OnConflict was told %+v, want the two attributes of the late request", told)
		}
	})
}

// TestClientGone: a request whose client has gone before its handler could run is
// not run, and leaves the session as it was for whoever comes next: a proxy that
// had no answer in time has told the client so.
func TestClientGone(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		ctx, leave := context.WithCancel(t.Context())
		leave()
		for _, name := range []string{"a", "b", "c"} { // the primary, the copy, somebody who has to fetch it
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/counter", nil)
			r.Header.Set("Cookie", "JSESSIONID="+b.value)
			w := httptest.NewRecorder()
			f.nodes[name].h.ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get(NotExecuted) != "" {
				t.Errorf("at %s: %d, %s %q; want 503 and no word to a proxy, which has gone", name, w.Code, NotExecuted, w.Header().Get(NotExecuted))
			}
		}
		if got := b.get(f.nodes["b"], "/counter"); got.Counter != 2 || got.Lost || got.code != http.StatusOK {
			t.Errorf("the next request: %+v, want 2", got)
		}
	})
}

// A member that has lost a session, because it was cut off or stood still, finds
// it over when it looks: it has not heard of those who use it elsewhere. The
// session goes on (38, 39).
func TestOverWhereNobodyUsesIt(t *testing.T) {
	for _, how := range []string{"cut off", "cut off, with another", "stands still"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, Config{Placement: Ring, IdleTimeout: time.Minute}, "abcd", func(t *testing.T, f *farm) {
				b := &browser{t: t}
				b.count(f.nodes["a"], 1, "a!b")
				switch how {
				case "cut off":
					f.isolate("a", "bcd")
				case "cut off, with another":
					f.isolate("a", "bc")
					f.isolate("d", "bc")
				default:
					f.nodes["a"].host.Freeze()
				}
				for n := range 9 {
					time.Sleep(10 * time.Second)
					b.count(f.nodes["b"], 2+n, "b!c")
				}
				f.nodes["a"].host.Thaw()
				for _, x := range []string{"a", "d"} {
					for _, y := range []string{"a", "b", "c"} {
						f.net.Heal(f.nodes[x].ip, f.nodes[y].ip)
					}
				}
				time.Sleep(5 * time.Second)
				for n, name := range []string{"d", "a", "b", "c"} {
					if got := b.count(f.nodes[name], 11+n, ""); got.Lost {
						t.Errorf("%s: %+v", name, got)
					}
				}
				for name, n := range f.nodes {
					if s := n.m.Stats(); s.Tombstones != 0 {
						t.Errorf("%s knows %d sessions to have ended", name, s.Tombstones)
					}
				}
			})
		})
	}
}
