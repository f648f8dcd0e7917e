package session

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
)

// TestTooManySessions is OVER-9: the thirteenth of twelve is refused, the twelve
// go on, and when one has ended another may come.
func TestTooManySessions(t *testing.T) {
	bubble(t, Config{MaxSessions: 12, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		var all []*browser
		for range 12 {
			b := &browser{t: t}
			b.count(a, 1, "a!b")
			all = append(all, b)
		}
		b := &browser{t: t}
		got := b.get(a, "/counter")
		if got.code != http.StatusServiceUnavailable || got.header.Get(NotExecuted) != "full" || got.header.Get("Retry-After") == "" || b.value != "" {
			t.Errorf("the thirteenth: %d %v, want 503 that names %s", got.code, got.header, NotExecuted)
		}
		if got := b.get(a, "/peek"); got.code != http.StatusOK {
			t.Errorf("a request that makes no session: %d, want 200", got.code)
		}
		for _, b := range all {
			b.count(a, 2, "a!b")
		}
		if got := a.m.Stats(); got.Primary != 12 || got.TooMany != 1 {
			t.Errorf("stats: %d sessions, %d too many; want 12, 1", got.Primary, got.TooMany)
		}
		synctest.Wait()
		if got := (&seat{f.dir, a.self}).Self().State; got != cluster.Overloaded {
			t.Errorf("the proxies were told that it is %v, want overloaded (OVER-23)", got)
		}
		all[0].get(a, "/invalidate")
		b.count(a, 1, "a!b")
		all[1].get(a, "/invalidate")
		synctest.Wait()
		if got := (&seat{f.dir, a.self}).Self().State; got != cluster.Running {
			t.Errorf("the proxies were told that it is %v, want running", got)
		}
	})
}

// TestTooManySessionsOnOneMember is OVER-10, with the proxy's part played by the
// test: the copies that a member holds for others take no place of its own
// sessions.
func TestTooManySessionsOnOneMember(t *testing.T) {
	bubble(t, Config{MaxSessions: 1}, "abc", func(t *testing.T, f *farm) {
		for i, name := range []string{"a", "b", "c"} {
			for _, full := range []string{"a", "b", "c"}[:i] {
				if got := (&browser{t: t}).get(f.nodes[full], "/counter"); got.header.Get(NotExecuted) == "" {
					t.Errorf("client %d at %s: %d, want %s", i, full, got.code, NotExecuted)
				}
			}
			b := &browser{t: t}
			if got := b.count(f.nodes[name], 1, ""); got.Secondary == "" {
				t.Errorf("client %d has no copy", i)
			}
		}
	})
}

// A method that is not safe is not tried elsewhere once its handler has run (D8);
// with Required it has not.
func TestTooManySessionsByMethod(t *testing.T) {
	bubble(t, Config{MaxSessions: 1}, "a", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		(&browser{t: t}).count(a, 1, "")
		ran := 0
		h := func(w http.ResponseWriter, r *http.Request) {
			ran++
			if err := counterKey.Set(FromContext(r.Context()), 1); !errors.Is(err, ErrTooManySessions) {
				t.Errorf("Set = %v, want ErrTooManySessions", err)
			}
			switch r.URL.Path {
			case "/error":
				http.Error(w, "sorry", http.StatusInternalServerError)
			default:
				_, _ = fmt.Fprint(w, "without a session, then")
			}
		}
		tests := []struct {
			name, method, path string
			h                  http.Handler
			code, ran          int
			elsewhere          bool
		}{
			{"GET", http.MethodGet, "/error", http.HandlerFunc(h), 503, 1, true},
			{"HEAD", http.MethodHead, "/error", http.HandlerFunc(h), 503, 1, true},
			{"POST", http.MethodPost, "/error", http.HandlerFunc(h), 503, 1, false},
			{"POST, Required", http.MethodPost, "/error", Required(http.HandlerFunc(h)), 503, 0, true},
			{"the handler copes", http.MethodPost, "/cope", http.HandlerFunc(h), 200, 1, false},
		}
		for _, tt := range tests {
			ran = 0
			w := httptest.NewRecorder()
			a.m.Handler(tt.h).ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			if elsewhere := w.Header().Get(NotExecuted) != ""; w.Code != tt.code || ran != tt.ran || elsewhere != tt.elsewhere {
				t.Errorf("%s: %d, the handler ran %d times, elsewhere %v; want %d, %d, %v", tt.name, w.Code, ran, elsewhere, tt.code, tt.ran, tt.elsewhere)
			}
			if strings.Contains(w.Body.String(), "sorry") {
				t.Errorf("%s: the handler's reply left: %q", tt.name, w.Body)
			}
		}
	})
}

// A full holder refuses a copy, and the next in rank is asked (R13, D7); what it
// holds it keeps, and when it has room again it is asked again.
func TestCopiesWhereThereIsRoom(t *testing.T) {
	bubble(t, Config{MaxMemory: 100_000, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		big := NewKey[[]byte]("big")
		fill := &browser{t: t}
		fill.with(f.nodes["b"], func(s *Session) { must(t, big.Set(s, make([]byte, 60_000))) }) // b, copy on c
		one := &browser{t: t}
		one.with(f.nodes["a"], func(s *Session) { must(t, big.Set(s, make([]byte, 30_000))) })
		if got := one.count(f.nodes["a"], 1, ""); got.pair() != "a!b" {
			t.Fatalf("the first is on %s, want a!b", got.pair())
		}
		two := &browser{t: t}
		two.with(f.nodes["a"], func(s *Session) { must(t, big.Set(s, make([]byte, 20_000))) })
		if got := two.count(f.nodes["a"], 1, ""); got.pair() != "a!c" {
			t.Errorf("the second is on %s, want a!c: b is full", got.pair())
		}
		three := &browser{t: t}
		three.with(f.nodes["a"], func(s *Session) { must(t, big.Set(s, make([]byte, 30_000))) })
		if got := three.count(f.nodes["a"], 1, ""); got.Secondary != "" {
			t.Errorf("the third is on %s, want no copy: b and c are full", got.pair())
		}
		if got := (&browser{t: t}).get(f.nodes["a"], "/counter"); got.header.Get(NotExecuted) != "full" && got.code != http.StatusOK {
			t.Errorf("a new one: %d", got.code)
		}
		if got := f.nodes["b"].m.Stats(); got.NoRoom == 0 || got.SecondaryBytes < 30_000 || got.PrimaryBytes < 60_000 {
			t.Errorf("b: %+v", got)
		}
		one.count(f.nodes["a"], 2, "a!b") // the copy that b has grows on
		fill.get(f.nodes["b"], "/invalidate")
		time.Sleep(crowdedFor + 5*time.Second)
		if got := three.count(f.nodes["a"], 2, ""); got.Secondary == "" {
			t.Errorf("the third has no copy although there is room again")
		}
	})
}

// TestFlood is H32: a flood of requests without cookies is capped, its sessions
// are short-lived, and so is what is known of those that have ended.
func TestFlood(t *testing.T) {
	cfg := Config{MaxSessions: 500, MaxTombstones: 100, IdleTimeout: time.Hour, FirstIdleTimeout: time.Minute, Placement: Ring}
	bubble(t, cfg, "ab", func(t *testing.T, f *farm) {
		a, b := f.nodes["a"], f.nodes["b"]
		guest := &browser{t: t}
		guest.count(a, 1, "a!b")
		guest.count(a, 2, "a!b")
		for range 1000 {
			(&browser{t: t}).get(a, "/counter")
		}
		if got := a.m.Stats(); got.Primary != 500 || got.TooMany != 501 {
			t.Errorf("%d sessions, %d too many; want 500, 501", got.Primary, got.TooMany)
		}
		if got := b.m.Stats().Secondary; got != 500 {
			t.Errorf("b holds %d copies, want 500", got)
		}
		time.Sleep(3 * time.Minute)
		for _, n := range []*node{a, b} {
			if got := n.m.Stats(); got.Primary+got.Secondary != 1 || got.Tombstones > 100 {
				t.Errorf("%s: %d sessions, %d copies, %d tombstones; want one of the guest, and at most 100", n.name, got.Primary, got.Secondary, got.Tombstones)
			}
		}
		guest.count(a, 3, "a!b")
		guest.with(a, func(s *Session) {
			if got := s.IdleTimeout(); got != time.Hour {
				t.Errorf("the guest's idle time-out is %v, want an hour", got)
			}
		})
	})
}

// The counts of bytes follow the sessions through all that happens to them.
func TestBytes(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		value := NewKey[[]byte]("value")
		b := &browser{t: t}
		check := func(when string, want map[string][2]int64) {
			t.Helper()
			synctest.Wait()
			for name, n := range f.nodes {
				if f.down[name] {
					continue
				}
				s := n.m.Stats()
				if got := [2]int64{s.PrimaryBytes, s.SecondaryBytes}; got != want[name] {
					t.Errorf("%s: %s has %v bytes, want %v", when, name, got, want[name])
				}
			}
		}
		size := func(n int) int64 { return int64(len("value") + 3 + n + attrOverhead) } // 3: CBOR of more than 255 bytes
		b.with(f.nodes["a"], func(s *Session) { must(t, value.Set(s, bytes.Repeat([]byte("x"), 1000))) })
		check("made", map[string][2]int64{"a": {size(1000), 0}, "b": {0, size(1000)}})
		b.with(f.nodes["a"], func(s *Session) { must(t, value.Set(s, bytes.Repeat([]byte("x"), 2000))) })
		check("changed", map[string][2]int64{"a": {size(2000), 0}, "b": {0, size(2000)}})
		b.with(f.nodes["b"], func(*Session) {})
		check("taken over", map[string][2]int64{"b": {size(2000), 0}, "a": {0, size(2000)}})
		f.kill("b")
		f.down["b"] = true
		b.with(f.nodes["a"], func(*Session) {})
		check("failed over", map[string][2]int64{"a": {size(2000), 0}, "c": {0, size(2000)}})
		b.with(f.nodes["a"], func(s *Session) { s.Invalidate() })
		check("ended", map[string][2]int64{})
	})
}

// A copy for which there was no room is made up for once there is, also for
// sessions that nobody uses and that have another one.
func TestSecondCopyOnceThereIsRoom(t *testing.T) { // R13, D7
	bubble(t, Config{Secondaries: 2}, "ab", func(t *testing.T, f *farm) {
		f.cfg.MaxSessions = 1 // two copies
		f.start("c")
		f.ready("c")
		first := f.clients("a", 2)
		f.clients("b", 5)
		if got := f.sum("a", "b", "c").Secondary; got != 9 {
			t.Fatalf("%d copies, want 2 each for two sessions and one each for five", got)
		}
		for _, client := range first {
			client.get(f.nodes["a"], "/invalidate")
		}
		time.Sleep(crowdedFor + settleIn + time.Minute)
		if got := f.sum("a", "b", "c").Secondary; got != 5+2 {
			t.Errorf("%d copies of five sessions, and room for two more; want 7", got)
		}
	})
}

// What is known of ended sessions goes with them, also if there is no limit.
func TestUnlimitedTombstonesAreForgotten(t *testing.T) { // H32
	bubble(t, Config{MaxTombstones: -1, IdleTimeout: time.Second, Lifetime: time.Minute}, "a", func(t *testing.T, f *farm) {
		for _, client := range f.clients("a", 10) {
			client.get(f.nodes["a"], "/invalidate")
		}
		time.Sleep(3 * time.Minute)
		m := f.nodes["a"].m
		if got := m.Stats().Tombstones; got != 0 {
			t.Errorf("%d tombstones after the lifetime, want 0", got)
		}
		m.graves.mu.Lock()
		defer m.graves.mu.Unlock()
		if got := len(m.graves.ids); got != 0 {
			t.Errorf("%d ids of ended sessions are kept for ever", got)
		}
	})
}

// A session over 64 KiB is logged once, by its primary, whatever becomes of it, and
// of many at once only one a second (SESS-7).
func TestLargeSessionsAreLogged(t *testing.T) {
	var lines bytes.Buffer
	own := func(name string, cfg *Config) {
		if name == "a" {
			cfg.Log = zerolog.New(zerolog.SyncWriter(&lines))
		}
	}
	bubbleOf(t, Config{Placement: Ring}, own, "ab", func(t *testing.T, f *farm) {
		count := func() int {
			synctest.Wait()
			return strings.Count(lines.String(), "session is large")
		}
		big, small := NewKey[[]byte]("big"), NewKey[[]byte]("small")
		set := func(b *browser, n int) {
			b.with(f.nodes["a"], func(s *Session) {
				must(t, big.Set(s, make([]byte, n)))
				must(t, small.Set(s, make([]byte, 5000)))
			})
		}
		first := &browser{t: t}
		set(first, 60_000)
		if n := count(); n != 0 {
			t.Errorf("%d lines about a session of 65,000 bytes, want none", n)
		}
		for _, n := range []int{61_000, 100, 70_000} {
			set(first, n)
		}
		if got := lines.String(); count() != 1 || !strings.Contains(got, `"key":"big","key_bytes":61003,"others":0`) || strings.Contains(got, first.value) {
			t.Errorf("logged: %s", got)
		}
		for range 5 {
			set(&browser{t: t}, 100_000)
		}
		if n := count(); n != 1 {
			t.Errorf("%d lines within one second, want one", n)
		}
		time.Sleep(2 * time.Second)
		set(&browser{t: t}, 100_000)
		if n := count(); n != 2 || !strings.Contains(lines.String(), `"others":5`) {
			t.Errorf("%d lines after a second, want two: %s", n, &lines)
		}
	})
}
