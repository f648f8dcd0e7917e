package session

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

var noticeKey = NewKey[string]("notice")

// A flash value is shown by the request after the one that set it, once, also
// if that is on another member.
func TestPop(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.with(f.nodes["a"], func(s *Session) { must(t, noticeKey.Set(s, "saved")) })
		f.kill("a")
		b.with(f.nodes["b"], func(s *Session) {
			if v, ok := noticeKey.Pop(s); v != "saved" || !ok {
				t.Errorf("Pop = %q, %v; want saved", v, ok)
			}
			if v, ok := noticeKey.Pop(s); ok {
				t.Errorf("Pop again = %q", v)
			}
		})
		b.with(f.nodes["b"], func(s *Session) {
			if v, ok := noticeKey.Pop(s); ok || !s.Exists() {
				t.Errorf("Pop in the next request = %q", v)
			}
		})
		(&browser{t: t}).with(f.nodes["b"], func(s *Session) {
			if _, ok := noticeKey.Pop(s); ok || s.Exists() {
				t.Error("Pop without a session makes one")
			}
		})
	})
}

// TestRenewIDWithGrace: requests that the client sent with the old id at the same
// time go on, without what the new one has gained, and do not overwrite its
// cookie; then the old id is gone everywhere (session fixation, H10).
func TestRenewIDWithGrace(t *testing.T) {
	login := NewKey[string]("login")
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		planted := &browser{t: t, value: b.value}
		b.with(f.nodes["a"], func(s *Session) {
			must(t, login.Set(s, "ada"))
			must(t, s.Flush(t.Context())) // too early, but nothing is given away by it
			must(t, s.RenewID(10*time.Second))
		})
		if b.value == planted.value {
			t.Fatal("the client has the old cookie")
		}
		old := func(n *node, want int) {
			t.Helper()
			before := planted.value
			got := planted.get(n, "/counter")
			if got.code != http.StatusOK || got.Counter != want || slices.Contains(got.Names, "login") || got.Lost || got.IsNew {
				t.Errorf("the old id at %s: %+v; want the counter at %d and no login", n.name, got, want)
			}
			if planted.value != before {
				t.Errorf("the old id at %s got a cookie, which overwrites the new one", n.name)
			}
		}
		old(f.nodes["a"], 2)
		old(f.nodes["b"], 3) // the pair changes
		old(f.nodes["c"], 4)
		b.with(f.nodes["a"], func(s *Session) {
			if v, _ := login.Get(s); v != "ada" {
				t.Errorf("the session has login %q", v)
			}
			if n, _ := counterKey.Get(s); n != 1 {
				t.Errorf("what was done by the old id has come through: %d", n)
			}
			if names := s.Names(); !slices.Equal(names, []string{"counter", "login"}) {
				t.Errorf("names: %q", names)
			}
		})
		time.Sleep(11 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			if got := (&browser{t: t, value: planted.value}).get(f.nodes[name], "/peek"); !got.IsNew || got.Counter != 0 {
				t.Errorf("the old id at %s after its grace: %+v", name, got)
			}
		}
		b.count(f.nodes["a"], 2, "a!b")
	})
}

// The member that renewed the id dies in the grace: the old id ends all the same.
func TestRenewIDAndDie(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		old := &browser{t: t, value: b.value}
		b.with(f.nodes["a"], func(s *Session) { must(t, s.RenewID(10*time.Second)) })
		f.kill("a")
		b.count(f.nodes["b"], 2, "b!c")
		old.count(f.nodes["b"], 2, "")
		time.Sleep(11 * time.Second)
		if got := old.get(f.nodes["b"], "/peek"); !got.IsNew {
			t.Errorf("the old id: %+v", got)
		}
	})
}

// TestRollbackOnPanic is TC-8 with the option: the state before the request is on
// both members, the reply is the application's 500, the member stays up.
func TestRollbackOnPanic(t *testing.T) {
	bubble(t, Config{Placement: Ring, RollbackOnPanic: true}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		b.with(f.nodes["a"], func(s *Session) { must(t, noticeKey.Set(s, "kept")) })
		recovering := func(n *node, do func(s *Session)) reply {
			return b.through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					if recover() != nil {
						http.Error(w, "sorry", http.StatusInternalServerError)
					}
				}()
				n.m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					do(FromContext(r.Context()))
					panic("as the test asked for")
				})).ServeHTTP(w, r)
			}), n, "/")
		}
		got := recovering(f.nodes["a"], func(s *Session) {
			must(t, counterKey.Set(s, 100))
			must(t, s.Flush(t.Context())) // the copy has it already
			must(t, counterKey.Set(s, 200))
			must(t, NewKey[int]("other").Set(s, 1))
			s.Remove("notice")
			s.SetIdleTimeout(time.Minute)
			must(t, s.Flush(t.Context()))
			must(t, s.RenewID(0))
			s.Invalidate()
		})
		if got.code != http.StatusInternalServerError {
			t.Errorf("the reply is %d, want 500", got.code)
		}
		check := func(n *node) {
			t.Helper()
			got := b.with(n, func(s *Session) {
				if v, _ := noticeKey.Get(s); v != "kept" || s.IdleTimeout() != DefaultIdleTimeout {
					t.Errorf("at %s: notice %q, idle time-out %v", n.name, v, s.IdleTimeout())
				}
			})
			if got.Counter != 1 || !slices.Equal(got.Names, []string{"counter", "notice"}) {
				t.Errorf("at %s: counter %d, names %q; want 1 and counter, notice", n.name, got.Counter, got.Names)
			}
		}
		check(f.nodes["a"])
		f.kill("a")
		check(f.nodes["b"])

		b = &browser{t: t} // a session that the request itself has made
		recovering(f.nodes["b"], func(s *Session) {
			must(t, counterKey.Set(s, 100))
			must(t, s.Flush(t.Context()))
		})
		if got := b.get(f.nodes["b"], "/peek"); b.value != "" || !got.IsNew {
			t.Errorf("a session is left behind: %+v", got)
		}
		synctest.Wait()
		if got := f.nodes["b"].m.Stats(); got.Primary != 1 {
			t.Errorf("b holds %d sessions, want 1", got.Primary)
		}
	})
}

// What other requests change meanwhile is not rolled back.
func TestRollbackKeepsWhatOthersDid(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		other := &browser{t: t, value: b.value}
		b.with(f.nodes["a"], func(s *Session) {
			must(t, noticeKey.Set(s, "mine"))
			must(t, s.Flush(t.Context()))
			other.count(f.nodes["a"], 2, "a!b")
			s.Rollback()
		})
		if got := b.count(f.nodes["a"], 3, "a!b"); !slices.Equal(got.Names, []string{"counter"}) {
			t.Errorf("names %q, want counter alone", got.Names)
		}
	})
}

// A diary is what OnEvent was told.
type diary struct {
	mu     sync.Mutex
	events []Event
}

func (d *diary) note(ev Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, ev)
}

// kinds returns what was told of the session so far, after all is quiet.
func (d *diary) kinds(id string) []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, ev := range d.events {
		if ev.ID == id {
			out = append(out, ev.Kind.String())
		}
	}
	return out
}

func TestEvents(t *testing.T) {
	var d diary
	cfg := Config{Placement: Ring, IdleTimeout: time.Minute, OnEvent: d.note}
	check := func(t *testing.T, id string, want ...string) {
		t.Helper()
		if got := d.kinds(id); !slices.Equal(got, want) {
			t.Errorf("told: %q, want %q", got, want)
		}
	}
	t.Run("one of each in the cluster, in order", func(t *testing.T) { // H05
		bubble(t, cfg, "", func(t *testing.T, f *farm) {
			told := map[string]*diary{} // what two members tell comes in any order
			for _, name := range []string{"a", "b", "c"} {
				told[name] = new(diary)
				f.cfg.OnEvent = told[name].note
				f.start(name)
			}
			f.ready("a", "b", "c")
			b := &browser{t: t}
			id := b.count(f.nodes["a"], 1, "a!b").ID
			b.get(f.nodes["a"], "/peek")
			b.count(f.nodes["a"], 2, "a!b")
			b.count(f.nodes["c"], 3, "c!a") // takes it over
			f.kill("c")
			b.count(f.nodes["a"], 4, "a!b")
			b.get(f.nodes["a"], "/invalidate")
			for name, want := range map[string][]string{
				"a": {"created", "changed", "demoted", "promoted", "changed", "ended"},
				"b": nil,
				"c": {"promoted", "changed"},
			} {
				if got := told[name].kinds(id); !slices.Equal(got, want) {
					t.Errorf("%s told: %q, want %q", name, got, want)
				}
			}
		})
	})
	t.Run("expired", func(t *testing.T) {
		bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
			id := (&browser{t: t}).count(f.nodes["a"], 1, "a!b").ID
			time.Sleep(3 * time.Minute)
			check(t, id, "created", "expired")
		})
	})
	t.Run("renewed", func(t *testing.T) {
		bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			id := b.count(f.nodes["a"], 1, "a!b").ID
			renewed := b.get(f.nodes["a"], "/rotate").ID
			check(t, id, "created", "ended")
			check(t, renewed, "renewed")
			if got := d.events[len(d.events)-2]; got.Kind != EventRenewed || got.Old != id {
				t.Errorf("renewed: %+v", got)
			}
		})
	})
	t.Run("lost", func(t *testing.T) {
		bubble(t, cfg, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			id := b.count(f.nodes["a"], 1, "a!b").ID
			f.nodes["b"].host.Kill()
			f.kill("a")
			f.kill("b")
			b.count(f.nodes["c"], 1, "")
			check(t, id, "created", "lost")
		})
	})
}

// A listener may use the manager and may be slow: no request waits for it, and
// Close waits until it was told all.
func TestEventsAreToldOutsideOfLocks(t *testing.T) {
	var f *farm
	var d diary
	cfg := Config{Placement: Ring, OnEvent: func(ev Event) {
		time.Sleep(time.Second)
		f.nodes["a"].m.Stats()
		d.note(ev)
	}}
	synctest.Test(t, func(t *testing.T) {
		f = newFarm(t, cfg, "a", "b")
		b := &browser{t: t}
		start := time.Now()
		id := ""
		for n := 1; n <= 10; n++ {
			id = b.count(f.nodes["a"], n, "a!b").ID
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("ten requests took %v", took)
		}
		f.close()
		if got := d.kinds(id); len(got) < 10 {
			t.Errorf("told after Close: %q, want ten", got)
		}
	})
}

// A listener that stands still costs its events, not the memory.
func TestEventsAreBounded(t *testing.T) {
	block := make(chan struct{})
	q := newEvents(func(Event) { <-block }, nil)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() { q.run(done) })
	for range 3 * maxEvents {
		q.tell(Event{})
	}
	if n := len(q.queue); n > maxEvents || q.overflown() < maxEvents {
		t.Errorf("%d wait and %d were dropped", n, q.overflown())
	}
	close(block)
	close(done)
	wg.Wait()
}

// What was lost at a heal waits for OnConflict with its values only up to a bound.
func TestLostValuesAreBounded(t *testing.T) {
	value := make([]byte, maxLost/4)
	with, without := 0, 0
	q := newEvents(nil, func(c Conflict) {
		if len(c.lost) > 0 {
			with++
		} else {
			without++
		}
	})
	for range 6 {
		q.conflict(Conflict{lost: owner.Attrs{{Key: "x", Value: value}}})
	}
	done := make(chan struct{})
	close(done)
	q.run(done)
	if with != 4 || without != 2 || q.lost != 0 {
		t.Errorf("%d with their values, %d without, %d bytes wait; want 4, 2 and 0", with, without, q.lost)
	}
}

// The member that renewed the id has handed its sessions over and is gone before
// the grace is: who has planted the id cannot keep it by using it all the time.
func TestRenewIDAndHandOver(t *testing.T) { // H10
	for _, idle := range []time.Duration{0, 10 * time.Second} { // FirstIdleTimeout, the same as the grace
		bubble(t, Config{Placement: Ring, FirstIdleTimeout: idle}, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			old := &browser{t: t, value: b.value}
			b.with(f.nodes["a"], func(s *Session) { must(t, s.RenewID(10*time.Second)) })
			if left := f.stop("a", time.Minute); left != 0 {
				t.Fatalf("%d sessions are left", left)
			}
			used := 0
			for range 30 {
				if got := old.get(f.nodes["b"], "/peek"); got.IsNew {
					break
				}
				old.with(f.nodes["b"], func(s *Session) { s.SetIdleTimeout(time.Hour) })
				used++
				time.Sleep(2 * time.Second)
			}
			if used == 0 || used > 10 {
				t.Errorf("the old id was good for %d requests, one every 2 s; want some, and none after its grace", used)
			}
			b.count(f.nodes["b"], 2, "")
		})
	}
}
