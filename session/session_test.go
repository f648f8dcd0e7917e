package session

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// with runs do as the handler of one request of b at n.
func (b *browser) with(n *node, do func(s *Session)) reply {
	b.t.Helper()
	h := n.m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		do(s)
		if err := s.Flush(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		tell(w, s)
	}))
	return b.through(h, n, "/")
}

type cart struct {
	Items []string
	Total int
}

var (
	cartKey = NewKey[cart]("cart")
	ptrKey  = NewKey[*cart]("ptr")
	anyKey  = NewKey[any]("any")
)

func TestValues(t *testing.T) {
	tests := []struct {
		name   string
		first  func(t *testing.T, s *Session)
		second func(t *testing.T, s *Session) // the next request, after a failover
	}{{
		name: "a value is what it was at Set",
		first: func(t *testing.T, s *Session) {
			must(t, cartKey.Set(s, cart{Items: []string{"tea"}, Total: 3}))
		},
		second: func(t *testing.T, s *Session) {
			if got, ok := cartKey.Get(s); !ok || got.Total != 3 || !slices.Equal(got.Items, []string{"tea"}) {
				t.Errorf("Get = %+v, %v", got, ok)
			}
		},
	}, {
		name: "H16, SESS-5: changed after Set",
		first: func(t *testing.T, s *Session) {
			c := &cart{Total: 1}
			must(t, ptrKey.Set(s, c))
			c.Total = 2
			if got, _ := ptrKey.Get(s); got.Total != 1 {
				t.Errorf("Get in the same request = %+v, want what was set", got)
			}
		},
		second: func(t *testing.T, s *Session) {
			if got, _ := ptrKey.Get(s); got.Total != 1 {
				t.Errorf("Get = %+v, want what was set", got)
			}
		},
	}, {
		name: "I13, SESS-4: changed after Get without Set",
		first: func(t *testing.T, s *Session) {
			must(t, ptrKey.Set(s, &cart{Total: 1}))
			got, _ := ptrKey.Get(s)
			got.Total = 2
		},
		second: func(t *testing.T, s *Session) {
			if got, _ := ptrKey.Get(s); got.Total != 1 {
				t.Errorf("Get = %+v, want what was set", got)
			}
		},
	}, {
		name: "H16: the same pointer set again",
		first: func(t *testing.T, s *Session) {
			c := &cart{Total: 1}
			must(t, ptrKey.Set(s, c))
			c.Total = 2
			must(t, ptrKey.Set(s, c))
		},
		second: func(t *testing.T, s *Session) {
			if got, _ := ptrKey.Get(s); got.Total != 2 {
				t.Errorf("Get = %+v, want the second", got)
			}
		},
	}, {
		name: "H25, SESS-6: one value cannot be encoded",
		first: func(t *testing.T, s *Session) {
			must(t, counterKey.Set(s, 7))
			for _, v := range []any{make(chan int), func() {}, map[string]any{"f": func() {}}} {
				if err := anyKey.Set(s, v); err == nil || !strings.Contains(err.Error(), `"any"`) {
					t.Errorf("Set(%T) = %v, want an error that names the key", v, err)
				}
			}
		},
		second: func(t *testing.T, s *Session) {
			if n, ok := counterKey.Get(s); n != 7 || !ok || s.Has("any") {
				t.Errorf("counter = %d, %v; any: %v", n, ok, s.Has("any"))
			}
		},
	}, {
		name: "nil is a value",
		first: func(t *testing.T, s *Session) {
			must(t, ptrKey.Set(s, nil))
		},
		second: func(t *testing.T, s *Session) {
			if v, ok := ptrKey.Get(s); v != nil || !ok {
				t.Errorf("Get = %v, %v; want nil, true", v, ok)
			}
		},
	}, {
		name: "H26: fields that this version does not know",
		first: func(t *testing.T, s *Session) {
			must(t, NewKey[map[string]any]("cart").Set(s, map[string]any{"Total": 4, "New": "x"}))
			must(t, counterKey.Set(s, 1))
		},
		second: func(t *testing.T, s *Session) {
			if got, ok := cartKey.Get(s); !ok || got.Total != 4 {
				t.Errorf("Get = %+v, %v", got, ok)
			}
			if got, _ := NewKey[map[string]any]("cart").Get(s); got["New"] != "x" {
				t.Errorf("the unknown field became %v", got["New"])
			}
		},
	}, {
		name: "of another type",
		first: func(t *testing.T, s *Session) {
			must(t, NewKey[string]("counter").Set(s, "x"))
		},
		second: func(t *testing.T, s *Session) {
			if n, ok := counterKey.Get(s); n != 0 || ok {
				t.Errorf("Get = %d, %v; want 0, false", n, ok)
			}
			if _, ok, err := counterKey.Load(s); !ok || err == nil || !strings.Contains(err.Error(), `"counter"`) {
				t.Errorf("Load = %v, %v; want true and an error that names the key", ok, err)
			}
		},
	}, {
		name: "removed, cleared",
		first: func(t *testing.T, s *Session) {
			must(t, counterKey.Set(s, 1))
			must(t, ptrKey.Set(s, nil))
			ptrKey.Remove(s)
			if s.Has("ptr") || !slices.Equal(s.Names(), []string{"counter"}) {
				t.Errorf("Names = %v", s.Names())
			}
			must(t, cartKey.Set(s, cart{}))
			s.Clear()
			must(t, NewKey[bool]("last").Set(s, true))
		},
		second: func(t *testing.T, s *Session) {
			if got := s.Names(); !slices.Equal(got, []string{"last"}) {
				t.Errorf("Names = %v, want only the last", got)
			}
		},
	}, {
		name: "I11: a value longer than any cookie",
		first: func(t *testing.T, s *Session) {
			must(t, NewKey[[]byte]("big").Set(s, make([]byte, 1<<20)))
		},
		second: func(t *testing.T, s *Session) {
			if got, _ := NewKey[[]byte]("big").Get(s); len(got) != 1<<20 {
				t.Errorf("%d bytes", len(got))
			}
		},
	}, {
		name: "I11: too large at Set",
		first: func(t *testing.T, s *Session) {
			must(t, counterKey.Set(s, 1))
			big := NewKey[[]byte]("big")
			if err := big.Set(s, make([]byte, DefaultMaxBytes)); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `"big"`) {
				t.Errorf("Set = %v, want ErrTooLarge that names the key", err)
			}
		},
		second: func(t *testing.T, s *Session) {
			if got := s.Names(); !slices.Equal(got, []string{"counter"}) {
				t.Errorf("Names = %v", got)
			}
		},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
				b := &browser{t: t}
				b.with(f.nodes["a"], func(s *Session) { tt.first(t, s) })
				f.kill("a")
				if got := b.with(f.nodes["b"], func(s *Session) { tt.second(t, s) }); got.Lost || got.IsNew {
					t.Errorf("after the failover: %+v", got)
				}
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestKeyNames(t *testing.T) {
	if got := counterKey.Name(); got != "counter" {
		t.Errorf("Name = %q", got)
	}
	for _, name := range []string{"", strings.Repeat("x", 256)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewKey of %d bytes does not panic", len(name))
				}
			}()
			NewKey[int](name)
		}()
	}
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.with(f.nodes["a"], func(s *Session) {
			if err := (Key[int]{}).Set(s, 1); err == nil {
				t.Error("Set of the zero Key = nil")
			}
		})
	})
}

func TestNoSessionWithoutNeed(t *testing.T) {
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		got := b.with(f.nodes["a"], func(s *Session) {
			s.Remove("x")
			s.Invalidate()
			s.SetIdleTimeout(time.Minute)
			must(t, s.RenewID(0))
			if s.Exists() || s.ID() != "" || !s.IsNew() || s.Lost() || s.Primary() != "" || !s.Created().IsZero() || s.IdleTimeout() != 0 {
				t.Error("there is a session")
			}
		})
		if b.value != "" || got.header.Get("Set-Cookie") != "" || f.nodes["a"].m.Stats().Primary != 0 {
			t.Errorf("a request that changed nothing made a session: %+v", got)
		}
		b.with(f.nodes["a"], func(s *Session) {
			must(t, s.Create())
			if !s.Exists() || s.Primary() != "a" || s.Secondary() != "b" || s.Version() != 1 || s.Epoch().N != 1 {
				t.Errorf("Create made %q, %q, version %d, epoch %v", s.Primary(), s.Secondary(), s.Version(), s.Epoch())
			}
		})
		if b.value == "" {
			t.Error("no cookie for a session that was made")
		}
	})
}

func TestSetWhatIsThere(t *testing.T) {
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		set := func(s *Session) { must(t, NewKey[map[string]int]("m").Set(s, map[string]int{"a": 1, "b": 2, "c": 3})) }
		b.with(f.nodes["a"], set)
		for range 5 {
			if got := b.with(f.nodes["a"], set); got.Version != 1 {
				t.Fatalf("version %d after setting what was there, want 1", got.Version)
			}
		}
	})
}

// H13: nothing depends on how much time has passed.
func TestRequestsAtOneInstant(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		for n := 1; n <= 20; n++ {
			if got := b.count(f.nodes["a"], n, "a!b"); got.Version != uint64(n) {
				t.Fatalf("version %d, want %d", got.Version, n)
			}
		}
		f.kill("a")
		b.count(f.nodes["b"], 21, "b!")
	})
}

func TestDeltaOnTheWire(t *testing.T) { // SESS-7
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.with(f.nodes["a"], func(s *Session) { must(t, NewKey[[]byte]("big").Set(s, make([]byte, 1<<20))) })
		before := f.nodes["a"].m.Stats().Peer.BytesOut
		b.with(f.nodes["a"], func(s *Session) { must(t, NewKey[string]("small").Set(s, "0123456789")) })
		if sent := f.nodes["a"].m.Stats().Peer.BytesOut - before; sent > 200 {
			t.Errorf("%d bytes were sent for a change of ten beside a megabyte, want at most 200", sent)
		}
	})
}

func TestInvalidate(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		old := &browser{t: t, value: b.value}
		if got := b.get(f.nodes["a"], "/invalidate"); got.code != http.StatusOK || got.ID != "" || b.value != "" {
			t.Errorf("reply %+v, cookie %q; want no session and the cookie cleared", got, b.value)
		}
		for _, name := range []string{"a", "b", "c"} {
			if got := f.nodes[name].m.Stats(); got.Primary+got.Secondary != 0 || got.Tombstones != 1 {
				t.Errorf("%s: %d and %d sessions, %d tombstones; want 0, 0, 1", name, got.Primary, got.Secondary, got.Tombstones)
			}
			if got := old.get(f.nodes[name], "/peek"); got.Counter != 0 || !got.IsNew || got.Lost {
				t.Errorf("%s answers %+v to the old cookie, want a new session that is not lost", name, got)
			}
		}
		f.start("d")
		f.ready("d")
		if got := old.get(f.nodes["d"], "/peek"); got.Counter != 0 || got.Lost {
			t.Errorf("a newcomer answers %+v to the old cookie (vector 8)", got)
		}
		if got := old.count(f.nodes["b"], 1, ""); !got.IsNew {
			t.Errorf("reply %+v, want a new session", got)
		}
	})
}

// A request that is under way when another one ends the session changes
// nothing, fails in nothing, and the session stays dead.
func TestInvalidateWins(t *testing.T) { // I01, H17
	for _, at := range []string{"a", "b"} {
		t.Run("invalidated at "+at, func(t *testing.T) {
			bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
				b := &browser{t: t}
				b.count(f.nodes["a"], 1, "a!b")
				slow := &browser{t: t, value: b.value}
				began, ended := make(chan struct{}), make(chan struct{})
				done := make(chan reply)
				go func() {
					done <- slow.with(f.nodes["a"], func(s *Session) {
						n, _ := counterKey.Get(s)
						close(began)
						<-ended
						if at == "a" && (s.Has("counter") || len(s.Names()) != 0) {
							t.Error("the session is still to be seen")
						}
						_ = counterKey.Set(s, n+1)
					})
				}()
				<-began
				b.get(f.nodes[at], "/invalidate")
				close(ended)
				if got := <-done; got.code != http.StatusOK || slow.value != slow.before && slow.before != "" {
					t.Errorf("the slow request: %+v", got)
				}
				for _, name := range []string{"a", "b", "c"} {
					if got := slow.get(f.nodes[name], "/peek"); got.Counter != 0 {
						t.Errorf("logged in again at %s: %+v", name, got)
					}
				}
			})
		})
	}
}

func TestInvalidateStaysDead(t *testing.T) { // I05
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		old := b.count(f.nodes["a"], 1, "")
		keep := &browser{t: t, value: b.value}
		b.with(f.nodes["a"], func(s *Session) {
			must(t, counterKey.Set(s, 5))
			s.Invalidate()
			if err := counterKey.Set(s, 6); !errors.Is(err, ErrInvalidated) {
				t.Errorf("Set after Invalidate = %v, want ErrInvalidated", err)
			}
			s.Remove("counter")
			if s.Exists() || s.ID() != "" {
				t.Error("the session exists")
			}
		})
		if got := keep.get(f.nodes["b"], "/peek"); got.Counter != 0 {
			t.Errorf("it came back: %+v", got)
		}
		// A new one can follow, under another id.
		b.count(f.nodes["a"], 1, "")
		got := b.with(f.nodes["a"], func(s *Session) {
			s.Invalidate()
			must(t, s.Flush(t.Context()))
			must(t, s.Create())
			must(t, counterKey.Set(s, 9))
		})
		if got.Counter != 9 || !got.IsNew || got.ID == old.ID || b.value == "" {
			t.Errorf("after Invalidate and Create: %+v", got)
		}
		if got := b.get(f.nodes["b"], "/peek"); got.Counter != 9 {
			t.Errorf("the next request: %+v", got)
		}
	})
}

func TestRenewID(t *testing.T) { // H10, I04, gofiber#2606
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		first := b.count(f.nodes["a"], 1, "a!b")
		old := &browser{t: t, value: b.value}
		time.Sleep(time.Minute)
		var created time.Time
		got := b.with(f.nodes["a"], func(s *Session) {
			created = s.Created()
			for n := range 3 {
				must(t, NewKey[int](fmt.Sprint("k", n)).Set(s, n))
			}
			must(t, s.RenewID(0))
			must(t, s.RenewID(0))
			if s.ID() == first.ID {
				t.Error("ID is the old one")
			}
		})
		if got.ID == first.ID || got.Counter != 1 || len(got.Names) != 4 || got.IsNew || got.Lost {
			t.Errorf("after the rotation: %+v, want all of the session under another id", got)
		}
		b.with(f.nodes["a"], func(s *Session) {
			if d := s.Created().Sub(created); d < -time.Second || d > time.Second {
				t.Errorf("Created moved by %v", d)
			}
		})
		for _, name := range []string{"a", "b", "c"} {
			if got := old.get(f.nodes[name], "/peek"); got.Counter != 0 || got.Lost {
				t.Errorf("%s answers %+v to the old id", name, got)
			}
		}
		f.kill("a")
		b.count(f.nodes["b"], 2, "b!c")
	})
}

func TestRenewIDOfASessionThatEnded(t *testing.T) { // I07
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		first := b.count(f.nodes["a"], 1, "")
		other := &browser{t: t, value: b.value}
		got := b.with(f.nodes["a"], func(s *Session) {
			other.get(f.nodes["b"], "/invalidate")
			must(t, s.RenewID(0))
			must(t, NewKey[int]("user").Set(s, 1))
		})
		if got.code != http.StatusOK || got.ID == first.ID || got.Counter != 0 {
			t.Errorf("%+v, want a new session without what was in the old one", got)
		}
	})
}

func TestTwoBrowsers(t *testing.T) { // I08
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		key := NewKey[[]byte]("v")
		long, short := &browser{t: t}, &browser{t: t}
		buf := bytes.Repeat([]byte("l"), 1000)
		long.with(f.nodes["a"], func(s *Session) { must(t, key.Set(s, buf)) })
		copy(buf, bytes.Repeat([]byte("s"), 1000))
		short.with(f.nodes["a"], func(s *Session) { must(t, key.Set(s, buf[:10])) })
		long.with(f.nodes["b"], func(s *Session) {
			if v, _ := key.Get(s); len(v) != 1000 || v[0] != 'l' {
				t.Errorf("the long one has %d of %q", len(v), v[:1])
			}
		})
	})
}

func TestIdleTimeout(t *testing.T) {
	cfg := Config{IdleTimeout: time.Minute, Placement: Ring}
	t.Run("idle ends on all members", func(t *testing.T) { // SESS-12, H14
		bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
			one, two := &browser{t: t}, &browser{t: t}
			one.count(f.nodes["a"], 1, "a!b")
			two.count(f.nodes["a"], 1, "a!b")
			time.Sleep(time.Minute)
			if got := one.get(f.nodes["a"], "/peek"); got.Counter != 0 || got.Lost || !got.IsNew {
				t.Errorf("after the idle time-out: %+v, want a new session, not lost", got)
			}
			time.Sleep(time.Minute)
			for _, name := range []string{"a", "b", "c"} {
				if got := f.nodes[name].m.Stats(); got.Primary+got.Secondary != 0 {
					t.Errorf("%s still has %d and %d", name, got.Primary, got.Secondary)
				}
			}
			if got := two.get(f.nodes["b"], "/peek"); got.Counter != 0 || got.Lost {
				t.Errorf("the other one: %+v", got)
			}
		})
	})
	t.Run("reading keeps both copies", func(t *testing.T) { // H05, I02
		bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			for range 20 {
				time.Sleep(30 * time.Second)
				if got := b.get(f.nodes["a"], "/peek"); got.Counter != 1 || got.Version != 1 {
					t.Fatalf("reading: %+v", got)
				}
			}
			f.kill("a")
			b.count(f.nodes["b"], 2, "b!c")
		})
	})
	t.Run("a copy whose primary is gone ends too", func(t *testing.T) { // SESS-12
		bubble(t, cfg, "ab", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			f.kill("a")
			time.Sleep(2 * time.Minute)
			if got := f.nodes["b"].m.Stats(); got.Primary+got.Secondary != 0 {
				t.Errorf("b still has %d and %d", got.Primary, got.Secondary)
			}
		})
	})
	t.Run("changed on another member", func(t *testing.T) { // H19
		bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			b.with(f.nodes["b"], func(s *Session) { s.SetIdleTimeout(time.Hour) })
			time.Sleep(30 * time.Minute)
			b.with(f.nodes["a"], func(s *Session) {
				if n, _ := counterKey.Get(s); n != 1 || s.IdleTimeout() != time.Hour {
					t.Errorf("counter %d, idle time-out %v", n, s.IdleTimeout())
				}
			})
		})
	})
	t.Run("the lifetime ends it in any case", func(t *testing.T) {
		cfg := cfg
		cfg.Lifetime = 10 * time.Minute
		bubble(t, cfg, "ab", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			for n := 2; n < 20; n++ {
				time.Sleep(30 * time.Second)
				b.count(f.nodes["a"], n, "a!b")
			}
			time.Sleep(time.Minute)
			if got := b.get(f.nodes["a"], "/peek"); got.Counter != 0 {
				t.Errorf("after its lifetime: %+v", got)
			}
			time.Sleep(11 * time.Minute)
			for _, name := range []string{"a", "b"} {
				if got := f.nodes[name].m.Stats(); got.Tombstones != 0 {
					t.Errorf("%s remembers %d sessions that no cookie can name", name, got.Tombstones)
				}
			}
		})
	})
	t.Run("while a request changes it", func(t *testing.T) { // H34
		bubble(t, cfg, "ab", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			got := b.with(f.nodes["a"], func(s *Session) {
				time.Sleep(2 * time.Minute)
				_ = counterKey.Set(s, 2)
			})
			if got.code != http.StatusOK {
				t.Errorf("%+v", got)
			}
		})
	})
}

// SESS-12 with clocks that differ: nobody ends a session early (D9).
func TestSkewedClocks(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			bubble(t, Config{IdleTimeout: time.Minute, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
				f.skew = map[string]time.Duration{"b": skew}
				b := &browser{t: t}
				b.count(f.nodes["a"], 1, "a!b")
				for n := 2; n <= 9; n++ {
					time.Sleep(50 * time.Second)
					b.count(f.nodes[string("abc"[n%3])], n, "")
				}
				time.Sleep(50 * time.Second)
				f.kill("a")
				time.Sleep(5 * time.Second)
				b.count(f.nodes["b"], 10, "")
				time.Sleep(50 * time.Second)
				b.count(f.nodes["c"], 11, "")
			})
		})
	}
}

// The lifetime is the same by whatever clocks: a member whose clock is a day
// ahead does not end what others have made, and one that is behind does not keep
// it (SESS-12, D9).
func TestLifetimeWithSkewedClocks(t *testing.T) {
	cfg := Config{IdleTimeout: 10 * time.Minute, Lifetime: time.Hour, Placement: Ring}
	bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
		f.skew = map[string]time.Duration{"b": 25 * time.Hour, "c": -25 * time.Hour}
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		n := 1
		for range 11 {
			time.Sleep(5 * time.Minute)
			n++
			b.count(f.nodes[string("abc"[n%3])], n, "")
			b.with(f.nodes[string("abc"[n%3])], func(s *Session) {
				age := f.nodes[string("abc"[n%3])].m.now().Sub(s.Created())
				if want := time.Duration(n-1) * 5 * time.Minute; age < want-time.Second || age > want+time.Second {
					t.Errorf("its age is %v, want %v", age, want)
				}
			})
		}
		time.Sleep(5 * time.Minute)
		if got := b.get(f.nodes["b"], "/peek"); got.Counter != 0 || got.Lost {
			t.Errorf("after its lifetime: %+v, want a new session, not lost", got)
		}
		time.Sleep(2 * time.Minute)
		for name, n := range f.nodes {
			if got := n.m.Stats(); got.Primary+got.Secondary+got.Tombstones != 0 {
				t.Errorf("%s still has %d, %d and %d", name, got.Primary, got.Secondary, got.Tombstones)
			}
		}
	})
}

func TestNewID(t *testing.T) { // SESS-46; at least 128 random bits
	if bits := 8 * idBytes; bits < 128 {
		t.Errorf("an id has %d random bits, want at least 128", bits)
	}
	var ones [8 * idBytes]int // of each bit
	defer func() {
		for i, n := range ones {
			if n < 49_000 || n > 51_000 { // six standard deviations of 100,000 coins
				t.Errorf("bit %d is set in %d of 100,000 ids, want half", i, n)
			}
		}
	}()
	seen := map[string]bool{}
	for range 100_000 {
		id := newID()
		if len(id) != 32 || strings.ContainsFunc(id, func(r rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", r)
		}) {
			t.Fatalf("newID = %q", id)
		}
		if seen[id] {
			t.Fatalf("%q twice", id)
		}
		raw, err := base64.RawURLEncoding.DecodeString(id)
		must(t, err)
		for i := range ones {
			ones[i] += int(raw[i/8] >> (i % 8) & 1)
		}
		seen[id] = true
	}
}

// A reply waits for the copy: the way there and back is part of every request
// that changed something, and of none that did not (D5, section 6 of ownership).
func TestReplyWaits(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		f.net.SetLatency(20 * time.Millisecond)
		b := &browser{t: t}
		start := time.Now()
		b.count(f.nodes["a"], 1, "a!b")
		if took := time.Since(start); took < 40*time.Millisecond || took > 60*time.Millisecond {
			t.Errorf("a change took %v, want one way there and back, 40ms", took)
		}
		start = time.Now()
		b.get(f.nodes["a"], "/peek")
		if took := time.Since(start); took != 0 {
			t.Errorf("a look took %v, want no wait", took)
		}
	})
}

// Ownership vector 1: a reader waits for what it has seen.
func TestReaderWaits(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.net.SetLatency(20 * time.Millisecond)
		go func() { (&browser{t: t, value: b.value}).get(f.nodes["a"], "/counter") }()
		time.Sleep(time.Millisecond)
		start := time.Now()
		if got := b.get(f.nodes["a"], "/peek"); got.Counter != 2 {
			t.Errorf("counter %d, want what the other request has set", got.Counter)
		}
		if took := time.Since(start); took < 38*time.Millisecond {
			t.Errorf("the look took %v, want to wait for the other one's change", took)
		}
		synctest.Wait()
	})
}

// What a request reads while it runs is acknowledged before its reply can show
// it, also if another request has changed it meanwhile (D5, R12).
func TestReaderSeesNothingUnsafe(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.net.SetLatency(20 * time.Millisecond)
		began, look := make(chan struct{}), make(chan struct{})
		replied := make(chan int)
		go func() {
			seen := 0
			h := f.nodes["a"].m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(began)
				<-look
				seen, _ = counterKey.Get(FromContext(r.Context()))
			}))
			(&browser{t: t, value: b.value}).through(h, f.nodes["a"], "/")
			replied <- seen
		}()
		<-began
		start := time.Now()
		go func() { (&browser{t: t, value: b.value}).get(f.nodes["a"], "/counter") }()
		time.Sleep(time.Millisecond)
		close(look)
		if seen := <-replied; seen != 1 && time.Since(start) < 40*time.Millisecond {
			t.Errorf("after %v a reply showed counter %d, which the copy cannot have acknowledged", time.Since(start), seen)
		}
		time.Sleep(time.Second)
		b.count(f.nodes["a"], 3, "a!b")
	})
}

// What several requests set at one time is bounded together: a record that no
// frame can carry broke the connections for all sessions, for ever.
func TestTooLargeTogether(t *testing.T) {
	run := func(t *testing.T, at [2]string, then func(f *farm, b *browser)) {
		bubble(t, Config{Placement: Ring, MaxBytes: 1000}, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			var codes []int
			var began, first sync.WaitGroup
			began.Add(2)
			first.Add(1)
			replies := make(chan int)
			for n, name := range at {
				go func() {
					tab := &browser{t: t, value: b.value}
					got := tab.with(f.nodes[name], func(s *Session) {
						must(t, NewKey[[]byte](fmt.Sprint("k", n)).Set(s, make([]byte, 600)))
						began.Done()
						first.Wait()
					})
					replies <- got.code
				}()
				time.Sleep(time.Second) // the session goes to one after the other
			}
			began.Wait()
			first.Done()
			codes = append(codes, <-replies, <-replies)
			slices.Sort(codes)
			if !slices.Equal(codes, []int{http.StatusOK, http.StatusServiceUnavailable}) {
				t.Errorf("replies %d, want one that failed", codes)
			}
			then(f, b)
		})
	}
	after := func(f *farm, b *browser) {
		if got := b.get(f.nodes["a"], "/counter"); got.Counter != 2 || len(got.Names) != 2 {
			b.t.Errorf("afterwards: %+v, want the counter and one of the two", got)
		}
		for name, n := range f.nodes {
			if got := n.m.Stats().Peer.Broken; got != 0 {
				b.t.Errorf("%s: %d connections broken", name, got)
			}
			n.m.table.each(func(e *entry) bool {
				if e.machine.Busy() {
					b.t.Errorf("%s: something is still under way", name)
				}
				return true
			})
		}
	}
	t.Run("at one member", func(t *testing.T) { run(t, [2]string{"a", "a"}, after) })
	t.Run("forwarded", func(t *testing.T) { run(t, [2]string{"a", "b"}, after) })
}

// A Flush that its caller has given up, and that fails after that, has not made its
// changes safe: the end of the reply tries again, and says so if that fails.
func TestFlushGivenUp(t *testing.T) { // D5
	for _, heal := range []bool{false, true} {
		bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
			a, c := f.nodes["a"], f.nodes["c"]
			b := &browser{t: t}
			b.count(a, 1, "a!b")
			slow := &browser{t: t, value: b.value}
			h := a.m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := FromContext(r.Context())
				b.count(c, 2, "c!a") // takes it over
				must(t, NewKey[string]("k").Set(s, "v"))
				f.net.SetLatency(100 * time.Millisecond)
				ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
				defer cancel()
				if err := s.Flush(ctx); err == nil {
					t.Error("Flush has not waited")
				}
				f.net.Cut(a.ip, c.ip)
				time.Sleep(2 * time.Second)
				if heal {
					f.net.SetLatency(0)
					f.net.Heal(a.ip, c.ip)
					time.Sleep(3 * time.Second)
				}
				_, _ = w.Write([]byte("done"))
			}))
			got := slow.through(h, a, "/")
			kept := false
			time.Sleep(3 * time.Second)
			b.with(c, func(s *Session) { kept = s.Has("k") })
			if (got.code == http.StatusOK) != kept || heal && !kept {
				t.Errorf("healed %v: reply %d, and the session has what was changed: %v", heal, got.code, kept)
			}
		})
	}
}

// Byte strings are encoded as the library does it, whatever their length.
func TestEncodeBytes(t *testing.T) {
	c, err := newCodec()
	must(t, err)
	for _, n := range []int{-1, 0, 1, 23, 24, 255, 256, 65535, 65536, 1 << 20} {
		var v []byte
		if n >= 0 {
			v = bytes.Repeat([]byte("x"), n)
		}
		want, err := c.enc.Marshal(v)
		must(t, err)
		got, err := c.encode(v)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d bytes that begin with %x, %v; want %d that begin with %x", n, len(got), got[:min(9, len(got))], err, len(want), want[:min(9, len(want))])
		}
		var back []byte
		if err := c.dec.Unmarshal(got, &back); err != nil || !bytes.Equal(back, v) {
			t.Errorf("%d bytes: back come %d, %v", n, len(back), err)
		}
	}
}
