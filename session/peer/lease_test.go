package peer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// wantFence checks the one thing that leases and promises are for (C3, G3):
// when b may promote over a, a does not rely on b.
func wantFence(t *testing.T, a, b *node, when string) {
	t.Helper()
	left, connected := b.Promise(a.me.ID)
	if left > 0 || connected {
		return
	}
	if c := a.Conn(b.me.ID); c != nil && c.Leased() {
		t.Fatalf("%s: %v relies on %v, which may promote over it", when, a.me, b.me)
	}
}

// Vector 9: a is frozen; b may promote half a second after its last answer, and
// then a's lease is over, whenever a wakes up.
func TestLeaseOfAFrozenPrimary(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		time.Sleep(time.Second)
		c := a.Conn(b.me.ID)
		if !c.Leased() {
			t.Fatal("no lease on a quiet connection")
		}
		a.host.Freeze()
		frozen := time.Now()
		var over time.Duration
		for range 1500 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			wantFence(t, a, b, "frozen")
			if left, connected := b.Promise(a.me.ID); over == 0 && left == 0 && !connected {
				over = time.Since(frozen)
			}
		}
		if over < DefaultAckTimeout-DefaultHeartbeat || over > DefaultAckTimeout+DefaultHeartbeat {
			t.Errorf("b may promote %v after a froze", over)
		}
		if c.Leased() {
			t.Error("a relies on the connection that b has broken")
		}
		a.host.Thaw()
		for range 2000 {
			time.Sleep(time.Millisecond)
			wantFence(t, a, b, "thawed")
		}
		if c.Leased() || c.Generation() == a.Conn(b.me.ID).Generation() {
			t.Error("a relies on the older connection")
		}
		if !a.Conn(b.me.ID).Leased() {
			t.Error("no lease on the new connection")
		}
	})
}

// Hearing the other one's heartbeats is not enough (C3): what counts is what it
// answered. One way is cut at a time.
func TestLeaseNeedsAnswers(t *testing.T) {
	for _, from := range []string{"a", "b"} {
		t.Run("from="+from, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, b := w.pair()
				time.Sleep(time.Second)
				to := map[string]string{"a": "b", "b": "a"}[from]
				ca, cb := a.Conn(b.me.ID), b.Conn(a.me.ID)
				w.net.CutOneWay(ip(from), ip(to))
				time.Sleep(DefaultAckTimeout + 1)
				if ca.Leased() || cb.Leased() {
					t.Errorf("%v after the cut: a's lease %v, b's %v", DefaultAckTimeout, ca.Leased(), cb.Leased())
				}
			})
		})
	}
}

// An Ack counts: a lease goes on as long as asks are answered.
func TestAnswersRenewTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		long := func(cfg *Config, _ *driver) { cfg.Heartbeat, cfg.AckTimeout = time.Hour, 2*time.Hour }
		a, b := w.pair(long)
		time.Sleep(2 * time.Hour)
		c := a.Conn(b.me.ID)
		before := c.answered.Load()
		time.Sleep(time.Minute)
		asked := a.clock()
		if _, err := c.Ask(nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := c.answered.Load(); got != asked || got == before {
			t.Errorf("answered is %d, want %d: when it was asked", got, asked)
		}
		if got := b.link(a.me.ID).promised.Load(); got < asked {
			t.Errorf("b promised at %d, before it was asked at %d", got, asked)
		}
	})
}

// Cuts of one way and both, freezes, kills and delays in any order; at every
// millisecond the fence holds, generations grow, and what arrives on a
// connection is what was sent on that connection, in order, without a gap (C1).
func TestFenceHoldsWhateverBreaks(t *testing.T) {
	seeds := 24
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			bubble(t, func(w *world) { walk(t, w, rand.New(rand.NewPCG(1, uint64(seed)))) })
		})
	}
}

func walk(t *testing.T, w *world, rnd *rand.Rand) {
	ordered := func(_ *Config, d *driver) {
		last := map[*Conn]int{}
		gens := map[ID]uint64{}
		d.frame = func(c *Conn, f Frame) { // one peer boot at a time
			var gen uint64
			var n int
			if _, err := fmt.Sscanf(string(f.Data), "%d %d", &gen, &n); err != nil {
				t.Error(err)
			}
			if gen != c.Generation() || n != last[c]+1 {
				t.Errorf("frame %d of generation %d after %d of %d", n, gen, last[c], c.Generation())
			}
			last[c] = n
			if c.Generation() < gens[c.ID()] {
				t.Errorf("generation %d after %d", c.Generation(), gens[c.ID()])
			}
			gens[c.ID()] = c.Generation()
		}
	}
	a, b := w.start("a", 1, ordered), w.start("b", 2, ordered)
	know(a, b)
	sent := map[*Conn]int{}
	boot := uint32(2)
	for range 60 {
		switch rnd.IntN(10) {
		case 0:
			w.net.Cut(ip("a"), ip("b"))
		case 1:
			w.net.CutOneWay(ip("a"), ip("b"))
		case 2:
			w.net.CutOneWay(ip("b"), ip("a"))
		case 3, 4:
			w.net.Heal(ip("a"), ip("b"))
		case 5:
			[]*node{a, b}[rnd.IntN(2)].host.Freeze()
		case 6, 7:
			a.host.Thaw()
			b.host.Thaw()
		case 8:
			w.net.SetLatency(time.Duration(rnd.IntN(3)) * time.Duration(rnd.IntN(100)) * time.Millisecond)
		case 9:
			if rnd.IntN(4) == 0 {
				boot++
				b.host.Kill()
				b.stop()
				b = w.start("b", boot, ordered)
				know(a, b)
			}
		}
		for range 1 + rnd.IntN(400) {
			time.Sleep(time.Millisecond)
			wantFence(t, a, b, "walk")
			wantFence(t, b, a, "walk")
			for n, to := range map[*node]ID{a: b.me.ID, b: a.me.ID} {
				if c := n.Conn(to); c != nil && rnd.IntN(3) == 0 {
					if c.Send(fmt.Appendf(nil, "%d %d", c.Generation(), sent[c]+1)) == nil {
						sent[c]++
					}
				}
			}
		}
	}
	// In the end all is well again.
	w.net.SetLatency(0)
	w.net.Heal(ip("a"), ip("b"))
	a.host.Thaw()
	b.host.Thaw()
	time.Sleep(4 * time.Second)
	wantUp(t, a, b)
	if c := a.Conn(b.me.ID); !c.Leased() {
		t.Error("no lease in the end")
	}
}
