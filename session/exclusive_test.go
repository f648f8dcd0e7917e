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
)

// slowly adds one to the counter, and takes its time between reading and writing.
func slowly(w http.ResponseWriter, r *http.Request) {
	s := FromContext(r.Context())
	n, _ := counterKey.Get(s)
	time.Sleep(20 * time.Millisecond)
	if err := counterKey.Set(s, n+1); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprint(w, n+1)
}

// ask sends a request with that cookie and a context, and returns the status.
func ask(ctx context.Context, h http.Handler, cookie string) (code int, set string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
	if cookie != "" {
		r.Header.Set("Cookie", "JSESSIONID="+cookie)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		set = c.Value
	}
	return w.Code, set
}

// TestExclusive is SESS-8 with ExclusiveSession: the counter is exact, on one
// member and on all at once, by setting and by handler.
func TestExclusive(t *testing.T) {
	const requests = 30
	tests := []struct {
		name    string
		cfg     Config
		handler http.Handler
		members []string
		lost    bool // they all come with a session that is lost
	}{
		{"one member", Config{Exclusive: true}, http.HandlerFunc(slowly), []string{"a"}, false},
		{"some handlers", Config{}, Exclusive(http.HandlerFunc(slowly)), []string{"a"}, false},
		{"all members", Config{Exclusive: true}, http.HandlerFunc(slowly), []string{"a", "b", "c"}, false},
		{"twice the middleware", Config{Exclusive: true}, Exclusive(http.HandlerFunc(slowly)), []string{"a", "b"}, false},
		{"a lost session", Config{Exclusive: true}, http.HandlerFunc(slowly), []string{"a"}, true}, // H31
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tt.cfg, "abc", func(t *testing.T, f *farm) {
				b := &browser{t: t}
				b.count(f.nodes["a"], 1, "")
				want := 1 + requests
				if tt.lost {
					v, err := f.codec.Decode(b.value)
					must(t, err)
					v.ID = newID()
					b.value, err = f.codec.Encode(v)
					must(t, err)
					want = requests
				}
				var wg sync.WaitGroup
				var mu sync.Mutex
				for i := range requests {
					h := f.nodes[tt.members[i%len(tt.members)]].m.Handler(tt.handler)
					wg.Go(func() {
						code, set := ask(t.Context(), h, b.value)
						if code != http.StatusOK {
							t.Errorf("request %d: %d", i, code)
						}
						mu.Lock()
						defer mu.Unlock()
						if tt.lost && set != "" {
							b.before = set
						}
					})
				}
				wg.Wait()
				if tt.lost {
					b.value = b.before
				}
				b.with(f.nodes["a"], func(s *Session) {
					if n, _ := counterKey.Get(s); n != want {
						t.Errorf("the counter is %d after %d requests at once, want %d", n, requests, want)
					}
				})
			})
		})
	}
}

// A request waits no longer than ExclusiveWait and than its client, and leaves
// nothing behind.
func TestExclusiveWait(t *testing.T) {
	bubble(t, Config{ExclusiveWait: time.Second, Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		stuck := make(chan struct{})
		var wg sync.WaitGroup
		h := f.nodes["a"].m.Handler(Exclusive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-stuck
			slowly(w, r)
		})))
		wg.Go(func() {
			if code, _ := ask(t.Context(), h, b.value); code != http.StatusOK {
				t.Errorf("the first: %d", code)
			}
		})
		synctest.Wait()

		start := time.Now()
		if code, _ := ask(t.Context(), h, b.value); code != http.StatusServiceUnavailable || time.Since(start) != time.Second {
			t.Errorf("one that waits: %d after %v, want 503 after a second", code, time.Since(start))
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		ask(ctx, h, b.value)
		if cancel(); time.Since(start) != 100*time.Millisecond {
			t.Errorf("one whose client has left waited %v, want 100 ms", time.Since(start))
		}
		if code, _ := ask(t.Context(), f.nodes["a"].m.Handler(http.HandlerFunc(slowly)), b.value); code != http.StatusOK {
			t.Errorf("a handler that is not exclusive: %d", code)
		}
		close(stuck)
		wg.Wait()
		if code, _ := ask(t.Context(), h, b.value); code != http.StatusOK {
			t.Errorf("the next: %d", code)
		}
		b.with(f.nodes["a"], func(s *Session) {
			if n, _ := counterKey.Get(s); n != 4 {
				t.Errorf("the counter is %d, want 4", n)
			}
		})
	})
}

// A handler that does not end does not keep its session from going elsewhere; what
// it changes afterwards is dropped, and its client is told.
func TestExclusiveTakeOver(t *testing.T) {
	bubble(t, Config{Exclusive: true, ExclusiveWait: time.Second, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		for i, took := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
			var wg sync.WaitGroup
			h := f.nodes["a"].m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(took)
				slowly(w, r)
			}))
			codes := make([]int, 2)
			wg.Go(func() { codes[0], _ = ask(t.Context(), h, b.value) })
			synctest.Wait()
			wg.Go(func() { codes[1], _ = ask(t.Context(), f.nodes["c"].m.Handler(http.HandlerFunc(slowly)), b.value) })
			wg.Wait()
			want := [][]int{{200, 200}, {503, 200}}[i]
			if !slices.Equal(codes, want) {
				t.Errorf("a handler that takes %v: %v, want %v", took, codes, want)
			}
		}
		if got := b.count(f.nodes["a"], 5, ""); got.Lost { // 1, both, the second only, this one
			t.Error("lost")
		}
	})
}

// The member on which it is somebody's turn dies: the others go on at once.
func TestExclusiveFailover(t *testing.T) {
	bubble(t, Config{Exclusive: true, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		stuck := make(chan struct{})
		h := f.nodes["a"].m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
		var wg sync.WaitGroup
		wg.Go(func() { ask(t.Context(), h, b.value) })
		synctest.Wait()
		done := make(chan struct{})
		wg.Go(func() { // waits for a's handler when a dies
			defer close(done)
			time.Sleep(time.Millisecond)
			b.count(f.nodes["c"], 2, "")
		})
		time.Sleep(100 * time.Millisecond)
		f.nodes["a"].host.Kill()
		start := time.Now()
		<-done
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		close(stuck)
		wg.Wait()
		f.kill("a")
	})
}

// A handler that asks for its own session waits for itself, but not for ever.
func TestExclusiveWithinItself(t *testing.T) {
	bubble(t, Config{Exclusive: true, ExclusiveWait: time.Second, Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		inner := 0
		h := f.nodes["a"].m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner, _ = ask(r.Context(), f.nodes["a"].h, b.value)
			slowly(w, r)
		}))
		if code, _ := ask(t.Context(), h, b.value); code != http.StatusOK || inner != http.StatusServiceUnavailable {
			t.Errorf("outer %d, inner %d; want 200, 503", code, inner)
		}
	})
}

// An id that is renewed, a session that is made, one that is ended: the turn goes
// with it.
func TestExclusiveThroughChanges(t *testing.T) {
	bubble(t, Config{Exclusive: true, Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		b.get(f.nodes["a"], "/rotate")
		b.count(f.nodes["a"], 2, "a!b")
		b.with(f.nodes["a"], func(s *Session) {
			s.Invalidate()
			must(t, s.Flush(t.Context()))
			must(t, s.Create())
			must(t, counterKey.Set(s, 10))
		})
		b.count(f.nodes["a"], 11, "a!b")
		b.count(f.nodes["b"], 12, "b!a")
	})
}

// Who was too slow does not end the session of those that go on by giving it a
// new id.
func TestExclusiveTooSlowToRenew(t *testing.T) {
	bubble(t, Config{Exclusive: true, ExclusiveWait: time.Second, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		h := f.nodes["a"].m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			if err := FromContext(r.Context()).RenewID(0); err != nil {
				t.Error(err)
			}
		}))
		var wg sync.WaitGroup
		wg.Go(func() {
			if code, set := ask(t.Context(), h, b.value); code != http.StatusServiceUnavailable || set != "" {
				t.Errorf("the slow one: %d, cookie %q; want 503 and none", code, set)
			}
		})
		synctest.Wait()
		b.count(f.nodes["c"], 2, "")
		wg.Wait()
		b.count(f.nodes["c"], 3, "")
	})
}

// TestExclusiveWhileDraining: a request that waits for its turn on a member that
// drains goes to whoever has the session when the turn has ended; it does not
// take the session back, unless its handler has begun and must not run twice (D8).
func TestExclusiveWhileDraining(t *testing.T) {
	wrapped := Exclusive(http.HandlerFunc(slowly))
	nested := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wrapped.ServeHTTP(w, r) })
	tests := []struct {
		name      string
		exclusive bool
		method    string
		refused   bool
	}{
		{"by setting", true, http.MethodPost, true},
		{"by handler, and a safe method", false, http.MethodGet, true},
		{"by handler, and it must not run twice", false, http.MethodPost, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{Exclusive: tt.exclusive, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
				a := f.nodes["a"]
				b := &browser{t: t}
				b.count(a, 1, "a!b")
				end := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					ask(t.Context(), a.m.Handler(Exclusive(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))), b.value)
				})
				synctest.Wait()
				w := httptest.NewRecorder()
				wg.Go(func() { // waits for its turn
					r := httptest.NewRequest(tt.method, "/", nil)
					r.Header.Set("Cookie", "JSESSIONID="+b.value)
					a.m.Handler(nested).ServeHTTP(w, r)
				})
				synctest.Wait()
				a.m.Drain()
				time.Sleep(time.Second) // b asks for the session, and is to have it after the turn
				close(end)
				wg.Wait()
				takes := a.m.Stats().Takes
				switch {
				case tt.refused && (w.Code != http.StatusServiceUnavailable || w.Header().Get(NotExecuted) != "draining" || takes != 0):
					t.Errorf("it got %d, %s %q, and a asked for the session %d times; want 503, draining, never", w.Code, NotExecuted, w.Header().Get(NotExecuted), takes)
				case !tt.refused && w.Code != http.StatusOK:
					t.Errorf("it got %d, want 200", w.Code)
				}
				if left := f.stop("a", time.Minute); left != 0 {
					t.Errorf("%d sessions are left", left)
				}
			})
		})
	}
}

// A session that has gone where nobody can reach it while a request waited for its
// turn: what is around an Exclusive handler has run, so only a request that does
// no harm is tried elsewhere (D8).
func TestExclusiveRefusesLate(t *testing.T) {
	inner := Exclusive(http.HandlerFunc(slowly))
	for _, tt := range []struct {
		method    string
		elsewhere bool
	}{{http.MethodGet, true}, {http.MethodHead, true}, {http.MethodPost, false}, {http.MethodPut, false}} {
		t.Run(tt.method, func(t *testing.T) {
			bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
				a := f.nodes["a"]
				b := &browser{t: t}
				b.count(a, 1, "a!b")
				ran := 0
				h := a.m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ran++
					c := &browser{t: t, value: b.value}
					c.count(f.nodes["c"], 2, "c!a") // takes it over
					f.net.Cut(a.ip, f.nodes["c"].ip)
					time.Sleep(2 * time.Second)
					c.count(f.nodes["c"], 3, "c!b") // b knows of it, a does not
					inner.ServeHTTP(w, r)
				}))
				r := httptest.NewRequest(tt.method, "/", nil)
				r.Header.Set("Cookie", "JSESSIONID="+b.value)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if got := w.Header().Get(NotExecuted) != ""; w.Code != http.StatusServiceUnavailable || got != tt.elsewhere || ran != 1 {
					t.Errorf("%d, elsewhere %v (%q), ran %d times; want 503, %v, once", w.Code, got, w.Header().Get(NotExecuted), ran, tt.elsewhere)
				}
			})
		})
	}
}
