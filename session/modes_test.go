package session

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// post counts by POST.
func (b *browser) post(n *node) reply {
	b.t.Helper()
	return b.through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Method = http.MethodPost
		n.h.ServeHTTP(w, r)
	}), n, "/counter")
}

// TestModes shows what a reply waits for in each mode, and what a client finds
// whose primary dies right after the reply (TC-M1 to TC-M5).
func TestModes(t *testing.T) {
	const way = 40 * time.Millisecond
	tests := []struct {
		mode  Mode
		noAck bool
		waits bool // for the acknowledgement
	}{
		{Synchronous, false, true},
		{Synchronous, true, false},
		{Asynchronous, false, false},
		{Asynchronous, true, false},
		{Pooled, false, true},
		{Pooled, true, false},
		{FastAsyncQueue, false, false},
		{FastAsyncQueue, true, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v/waitForAck=%v", tt.mode, !tt.noAck), func(t *testing.T) {
			bubble(t, Config{Mode: tt.mode, NoAck: tt.noAck}, "ab", func(t *testing.T, f *farm) {
				a, b := f.nodes["a"], &browser{t: t}
				b.count(a, 1, "a!b")
				time.Sleep(time.Second)
				f.net.SetLatency(way)
				begin := time.Now()
				b.count(a, 2, "a!b")
				switch took := time.Since(begin); {
				case tt.waits && took < 2*way:
					t.Errorf("a reply took %v, want it to wait for the secondary, %v away", took, way)
				case !tt.waits && took > 0:
					t.Errorf("a reply took %v, want it not to wait", took)
				}
				for n := 3; n <= 20; n++ { // several on their way at a time
					b.count(a, n, "a!b")
				}
				time.Sleep(time.Second)
				if got := f.nodes["b"].m.Stats(); got.Secondary != 1 {
					t.Fatalf("b holds %d copies, want 1", got.Secondary)
				}
				other := &browser{t: t, value: b.value}
				b.count(a, 21, "a!b")
				f.kill("a")
				f.net.SetLatency(0)
				got := b.get(f.nodes["b"], "/counter")
				if got.code != http.StatusOK || got.IsNew {
					t.Fatalf("after the death of a: %+v, want the session to go on", got)
				}
				if tt.waits {
					if got.Counter != 22 || got.Lost {
						t.Errorf("after the death of a: counter %d, lost %v; want 22, as acknowledged", got.Counter, got.Lost)
					}
					return
				}
				least, most := 21, 22 // what waited is lost, and it may have waited no longer
				switch tt.mode {
				case Asynchronous, modes:
				case FastAsyncQueue:
					most = 21
				case Synchronous, Pooled:
					least = 22 // what was given to the network outlives the process
				}
				if got.Counter < least || got.Counter > most || !got.Lost {
					t.Errorf("after the death of a: counter %d, lost %v; want %d to %d, and that the client is told", got.Counter, got.Lost, least, most)
				}
				if again := b.get(f.nodes["b"], "/counter"); again.Lost {
					t.Error("lost is said again to who knows")
				}
				if got := other.get(f.nodes["b"], "/peek"); !got.Lost {
					t.Error("lost is not said to another who had that cookie")
				}
			})
		})
	}
}

// What happens to one session while it waits is one message.
func TestCoalescing(t *testing.T) {
	for _, tt := range []struct {
		mode Mode
		most uint64 // messages
	}{{Synchronous, 101}, {FastAsyncQueue, 3}} {
		t.Run(tt.mode.String(), func(t *testing.T) {
			bubble(t, Config{Mode: tt.mode}, "ab", func(t *testing.T, f *farm) {
				a, b := f.nodes["a"], &browser{t: t}
				b.count(a, 1, "a!b")
				time.Sleep(time.Second)
				before := a.m.Stats()
				for n := 2; n <= 101; n++ {
					b.get(a, fmt.Sprintf("/set?name=x%d&value=%d", n%3, n))
					b.count(a, n, "a!b")
				}
				b.get(a, "/remove?name=x1")
				time.Sleep(time.Second)
				got := a.m.Stats()
				if sent, joined := got.Updates-before.Updates, got.Coalesced-before.Coalesced; tt.mode.queued() && (sent > tt.most || joined+sent != 201) {
					t.Errorf("%d messages for 201 changes, %d joined; want at most %d", sent, joined, tt.most)
				} else if !tt.mode.queued() && sent != 201 {
					t.Errorf("%d messages for 201 changes, want one each", sent)
				}
				if got.Queued != 0 || got.QueueLag != 0 {
					t.Errorf("%d sessions wait, for %v; want none", got.Queued, got.QueueLag)
				}
				f.kill("a")
				if got := b.get(f.nodes["b"], "/peek"); got.Counter != 101 || strings.Join(got.Names, " ") != "counter x0 x2" {
					t.Errorf("the copy has counter %d and %q, want 101 and all that is not removed", got.Counter, got.Names)
				}
			})
		})
	}
}

// When the queue is full replies wait for the secondary: nobody outruns it for
// good, and no memory is used up (H22).
func TestQueueFull(t *testing.T) {
	bubble(t, Config{Mode: FastAsyncQueue, QueueLimit: 4}, "ab", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		f.net.SetLatency(30 * time.Millisecond)
		for n := range 9 {
			b := &browser{t: t}
			begin := time.Now()
			b.count(a, 1, "a!b")
			b.count(a, 2, "a!b") // it is in the queue or acknowledged
			if took := time.Since(begin); (took > 0) != (n == 4 || n == 8) {
				t.Errorf("session %d was made in %v; want only the fifth and the ninth to wait: four are in the queue, and then it was emptied", n, took)
			}
		}
		got := a.m.Stats()
		if got.QueueFull != 2 || got.Queued > 4 {
			t.Errorf("the queue was full %d times, and %d wait; want 2 times and at most 4", got.QueueFull, got.Queued)
		}
		time.Sleep(time.Second)
		if got := f.nodes["b"].m.Stats().Secondary; got != 9 {
			t.Errorf("b holds %d copies, want 9", got)
		}
	})
}

// A secondary that takes little slows nobody down, and is not taken for dead;
// what waits gathers.
func TestSlowSecondary(t *testing.T) {
	for _, mode := range []Mode{Asynchronous, FastAsyncQueue} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, Config{Mode: mode}, "ab", func(t *testing.T, f *farm) {
				a, b := f.nodes["a"], &browser{t: t}
				b.count(a, 1, "a!b")
				time.Sleep(time.Second)
				f.net.SetBandwidth(1 << 20)
				value := strings.Repeat("v", 2000)
				var took time.Duration
				for n := range 2000 { // 4 MB, of which the network takes 1 MB a second
					begin := time.Now()
					b.get(a, fmt.Sprintf("/set?name=x&value=%d%s", n, value))
					took += time.Since(begin)
					if n%10 == 9 {
						time.Sleep(time.Millisecond)
					}
				}
				if took > 0 {
					t.Errorf("2000 replies took %v, want them not to wait", took)
				}
				time.Sleep(2 * time.Second)
				got := a.m.Stats()
				if got.Coalesced < 1000 || got.Strikes != 0 || got.Queued != 0 || got.Peer.Broken != 0 {
					t.Errorf("%d changes joined others, %d strikes, %d wait, %d connections broke; want most joined, and nothing else", got.Coalesced, got.Strikes, got.Queued, got.Peer.Broken)
				}
				f.kill("a")
				f.use(func(w http.ResponseWriter, r *http.Request) {
					v, _ := NewKey[[]byte]("x").Get(FromContext(r.Context()))
					_, _ = w.Write(v)
				})
				if got := b.get(f.nodes["b"], "/"); got.body != "1999"+value {
					t.Errorf("the copy has %.10q…, want the last value", got.body)
				}
			})
		})
	}
}

// A secondary that falls silent is given up in every mode, and the copy is
// elsewhere.
func TestSilentSecondaryInEveryMode(t *testing.T) {
	for mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, Config{Mode: mode, Placement: Ring}, "abc", func(t *testing.T, f *farm) {
				a, b := f.nodes["a"], &browser{t: t}
				b.count(a, 1, "a!b")
				time.Sleep(time.Second)
				f.net.Cut(a.ip, f.nodes["b"].ip)
				b.count(a, 2, "")
				time.Sleep(2 * time.Second)
				b.count(a, 3, "a!c")
				time.Sleep(time.Second)
				f.kill("a")
				b.count(f.nodes["c"], 4, "")
			})
		})
	}
}

func TestPooled(t *testing.T) { // TC-M3
	bubble(t, Config{Mode: Pooled, Pool: 2}, "ab", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		var bs []*browser
		for range 6 {
			bs = append(bs, &browser{t: t})
			bs[len(bs)-1].count(a, 1, "a!b")
		}
		f.net.SetLatency(50 * time.Millisecond)
		begin := time.Now()
		var wg sync.WaitGroup
		for _, b := range bs {
			wg.Go(func() { b.count(a, 2, "a!b") })
		}
		wg.Wait()
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("6 replies, 2 at a time, took %v, want three times there and back", took)
		}
		if got := a.m.Stats().PoolWaits; got < 4 {
			t.Errorf("PoolWaits = %d, want 4 at least", got)
		}
	})
}

// An orderly end loses nothing that waits.
func TestCloseEmptiesTheQueue(t *testing.T) {
	bubble(t, Config{Mode: FastAsyncQueue}, "ab", func(t *testing.T, f *farm) {
		a, b := f.nodes["a"], &browser{t: t}
		b.count(a, 1, "a!b")
		time.Sleep(time.Second)
		b.count(a, 2, "a!b")
		if got := a.m.Stats().Queued; got != 1 {
			t.Fatalf("%d sessions wait, want 1", got)
		}
		if err := a.m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		f.dir.remove(a.self.ID(), true)
		synctest.Wait()
		b.count(f.nodes["b"], 3, "b!")
	})
}

// TestRequireReplica has changes refused that only the primary would have.
func TestRequireReplica(t *testing.T) {
	refused := func(t *testing.T, got reply, executed bool) {
		t.Helper()
		if why := got.header.Get(NotExecuted); got.code != http.StatusServiceUnavailable || !executed && why != noReplica || executed && why != "" {
			t.Errorf("reply = %d, %s %q; want a 503, executed %v", got.code, NotExecuted, why, executed)
		}
	}
	t.Run("nobody else is there", func(t *testing.T) {
		bubble(t, Config{RequireReplica: true}, "a", func(t *testing.T, f *farm) {
			a, b := f.nodes["a"], &browser{t: t}
			refused(t, b.post(a), false)
			refused(t, b.get(a, "/counter"), false) // the handler said 500, and may run elsewhere
			if got := b.get(a, "/peek"); got.code != http.StatusOK {
				t.Errorf("/peek = %d, want 200: it changes nothing", got.code)
			}
			if b.value != "" || a.m.Stats().NoReplica != 2 || a.m.Stats().Primary != 0 {
				t.Errorf("cookie %q, stats %+v; want no session, and two refusals", b.value, a.m.Stats())
			}
			f.start("b")
			f.ready("b")
			b.count(a, 1, "a!b")
		})
	})
	t.Run("the copy is gone", func(t *testing.T) {
		bubble(t, Config{RequireReplica: true}, "ab", func(t *testing.T, f *farm) {
			a, b := f.nodes["a"], &browser{t: t}
			b.count(a, 1, "a!b")
			f.kill("b")
			refused(t, b.post(a), false)
			refused(t, b.get(a, "/counter"), false)
			refused(t, b.get(a, "/remove?name=counter"), true)
			if got := b.get(a, "/peek"); got.Counter != 1 {
				t.Errorf("counter = %d, want 1: nothing was changed", got.Counter)
			}
		})
	})
	t.Run("the copy is lost while the reply waits", func(t *testing.T) {
		bubble(t, Config{RequireReplica: true}, "ab", func(t *testing.T, f *farm) {
			a, b := f.nodes["a"], &browser{t: t}
			b.count(a, 1, "a!b")
			f.net.Cut(a.ip, f.nodes["b"].ip)
			refused(t, b.post(a), true)
			fresh := &browser{t: t}
			refused(t, fresh.post(a), false)
		})
	})
	t.Run("off", func(t *testing.T) {
		bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
			a, b := f.nodes["a"], &browser{t: t}
			if got := b.post(a); got.code != http.StatusOK || a.m.Stats().Unprotected != 1 {
				t.Errorf("reply = %d, %d unprotected; want 200, counted", got.code, a.m.Stats().Unprotected)
			}
		})
	})
}

// Only what changed travels (SESS-7).
func TestBytesOfAChange(t *testing.T) {
	for mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, Config{Mode: mode}, "ab", func(t *testing.T, f *farm) {
				a := f.nodes["a"]
				f.use(func(_ http.ResponseWriter, r *http.Request) {
					s := FromContext(r.Context())
					if r.URL.Path == "/big" {
						_ = NewKey[[]byte]("big").Set(s, make([]byte, 1<<20))
					}
					_ = NewKey[string]("small").Set(s, r.FormValue("v"))
				})
				b := &browser{t: t}
				b.get(a, "/big?v=0123456789")
				time.Sleep(time.Second)
				before := a.m.Stats().Sent
				b.get(a, "/?v=9876543210")
				time.Sleep(time.Second)
				if n := a.m.Stats().Sent - before; n == 0 || n >= 1000 {
					t.Errorf("a change of 10 bytes beside a megabyte sent %d bytes, want less than 1000", n)
				}
			})
		})
	}
}

func TestParseMode(t *testing.T) {
	for mode := range modes {
		if got, err := ParseMode(mode.String()); got != mode || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", mode, got, err)
		}
	}
	if _, err := ParseMode("fast"); err == nil {
		t.Error("ParseMode takes what is no mode")
	}
}
