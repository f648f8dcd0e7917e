package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTwoThatDialAtOnceGetOneConnection(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond, 7 * time.Millisecond} {
		for _, lead := range []time.Duration{0, time.Millisecond / 2, 3 * time.Millisecond, 14 * time.Millisecond, 15 * time.Millisecond, 22 * time.Millisecond} {
			for _, keys := range []int{0, 1} {
				t.Run(fmt.Sprintf("latency=%v/lead=%v/keys=%d", latency, lead, keys), func(t *testing.T) {
					bubble(t, func(w *world) {
						w.net.SetLatency(latency)
						set := func(cfg *Config, _ *driver) { cfg.Keys = cfg.Keys[:keys] }
						a, b := w.start("a", 1, set), w.start("b", 2, set)
						all := []Member{a.me, b.me}
						a.Members(all)
						time.Sleep(lead)
						b.Members(all)
						time.Sleep(time.Second)
						wantUp(t, a, b)
						wantEvents(t, a, "open b#2", "up b#2")
						wantEvents(t, b, "open a#1", "up a#1")
						if sa, sb := a.Stats(), b.Stats(); sa.Garbage+sb.Garbage > 0 || sa.Opened-sa.Broken != 1 || sb.Opened-sb.Broken != 1 {
							t.Errorf("stats %+v, %+v", sa, sb)
						}
					})
				})
			}
		}
	}
}

func TestFramesArriveInOrder(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		c := a.Conn(b.me.ID)
		want := []string{"open a#1", "up a#1"}
		for i := range 50 {
			text := fmt.Sprint("frame ", i)
			if err := c.Send([]byte(text)); err != nil {
				t.Fatal(err)
			}
			want = append(want, "plain a#1 "+text)
		}
		long := strings.Repeat("x", 300<<10) // longer than pieces, buffers and what pipenet holds
		if err := c.Send([]byte(long)); err != nil {
			t.Fatal(err)
		}
		number, err := c.Ask([]byte("question"))
		if err != nil || number != 1 {
			t.Fatalf("Ask = %d, %v; want 1", number, err)
		}
		want = append(want, "plain a#1 "+long, "ask a#1 question")
		synctest.Wait()
		wantEvents(t, b, want...)
		wantEvents(t, a, "open b#2", "up b#2", "answer b#2 question")
	})
}

func TestKilledMemberIsGoneAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		killed := time.Now()
		b.host.Kill()
		time.Sleep(50 * time.Millisecond)
		wantEvents(t, a, "open b#2", "up b#2", "down b#2", "gone b#2")
		if d := a.when("gone b#2").Sub(killed); d > 10*time.Millisecond {
			t.Errorf("proven gone after %v", d)
		}
		if st := a.Status(); len(st) != 1 || st[0].State != Gone {
			t.Errorf("Status = %+v, want gone", st)
		}
		b.stop()

		// Its next boot takes the address, and is met at once when gossip knows it.
		b2 := w.start("b", 3)
		know(a, b2)
		time.Sleep(20 * time.Millisecond)
		wantUp(t, a, b2)
	})
}

// C5, D12: gossip is late, so a still dials b#2, but b#3 answers.
func TestOtherBootAtTheAddressProvesGone(t *testing.T) {
	for _, keys := range []int{0, 1} {
		t.Run(fmt.Sprint("keys=", keys), func(t *testing.T) {
			bubble(t, func(w *world) {
				set := func(cfg *Config, _ *driver) { cfg.Keys = cfg.Keys[:keys] }
				a, b := w.start("a", 1, set), w.start("b", 3, set)
				a.Members([]Member{{ID{"b", 2}, b.me.Addr}})
				time.Sleep(20 * time.Millisecond)
				wantEvents(t, a, "gone b#2")
			})
		})
	}
}

// Another name at the address may be a mistake in somebody's settings.
func TestOtherNameAtTheAddressProvesNothing(t *testing.T) {
	for _, keys := range []int{0, 1} {
		t.Run(fmt.Sprint("keys=", keys), func(t *testing.T) {
			bubble(t, func(w *world) {
				set := func(cfg *Config, _ *driver) { cfg.Keys = cfg.Keys[:keys] }
				a, b := w.start("a", 1, set), w.start("b", 2, set)
				a.Members([]Member{{ID{"c", 2}, b.me.Addr}})
				time.Sleep(20 * time.Millisecond)
				wantEvents(t, a, "unreachable c#2")
			})
		})
	}
}

func TestCutBreaksAfterTheTimeoutAndNotEarlier(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		for range 20 {
			time.Sleep(333 * time.Millisecond)
		}
		wantUp(t, a, b)
		cut := time.Now()
		w.net.Cut(ip("a"), ip("b"))
		time.Sleep(3 * time.Second)
		for n, other := range map[*node]ID{a: b.me.ID, b: a.me.ID} {
			d := n.when("down " + other.String()).Sub(cut)
			if d < DefaultAckTimeout || d > DefaultAckTimeout+DefaultHeartbeat {
				t.Errorf("%v broke the connection %v after the cut", n.me, d)
			}
			if err := n.err(other); errors.Is(err, ErrSilent) {
				t.Errorf("%v: last error %v, want that of a dial", n.me, err)
			}
			if n.count("unreachable "+other.String()) != 1 || n.count("gone "+other.String()) != 0 {
				t.Errorf("%v was told %q", n.me, n.all())
			}
		}
		if got := a.Stats().Silent; got != 1 {
			t.Errorf("Silent = %d, want 1", got)
		}
		w.net.Heal(ip("a"), ip("b"))
		time.Sleep(2 * time.Second) // design 6
		wantUp(t, a, b)
	})
}

// C4: one wait for the member, and all others end with it. Vector 28.
func TestLateAnswerBreaksTheConnectionOnce(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		b.mute = true
		c := a.Conn(b.me.ID)
		asked := time.Now()
		for range 100 {
			if _, err := c.Ask([]byte("?")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if d := a.when("down b#2").Sub(asked); d != DefaultAckTimeout {
			t.Errorf("broken after %v, want %v", d, DefaultAckTimeout)
		}
		if n := a.count("down b#2"); n != 1 {
			t.Errorf("down %d times", n)
		}
		if _, err := c.Ask([]byte("?")); !errors.Is(err, ErrBroken) || !errors.Is(err, ErrSilent) {
			t.Errorf("Ask on the broken connection: %v", err)
		}
		wantUp(t, a, b) // the next generation
	})
}

func TestAnswersMayComeInAnyOrder(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		var waiting []uint64
		b.frame = func(c *Conn, f Frame) {
			if waiting = append(waiting, f.Number); len(waiting) == 3 {
				for _, n := range []uint64{waiting[1], waiting[2], waiting[0]} {
					if err := c.Answer(n, fmt.Append(nil, n)); err != nil {
						t.Error(err)
					}
				}
				waiting = nil
			}
		}
		c := a.Conn(b.me.ID)
		for range 30 {
			if _, err := c.Ask([]byte("?")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		wantUp(t, a, b)
		if got := a.all()[2:5]; !slices.Equal(got, []string{"answer b#2 2", "answer b#2 3", "answer b#2 1"}) {
			t.Errorf("answers %q", got)
		}
	})
}

// An answer to what was not asked makes no sense, and neither does a second one.
func TestSecondAnswerBreaks(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		b.frame = func(c *Conn, f Frame) {
			for range 2 {
				if err := c.Answer(f.Number, nil); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := a.Conn(b.me.ID).Ask([]byte("?")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := a.err(b.me.ID); !errors.Is(err, ErrFrame) {
			t.Errorf("a: %v, want %v", err, ErrFrame)
		}
		if a.Stats().Garbage != 1 {
			t.Errorf("Garbage = %d, want 1", a.Stats().Garbage)
		}
	})
}

func TestFrozenMemberIsUnreachableAndComesBack(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.pair()
		b.host.Freeze()
		frozen := time.Now()
		time.Sleep(10 * time.Second)
		if d := a.when("down b#2").Sub(frozen); d < DefaultAckTimeout || d > DefaultAckTimeout+DefaultHeartbeat {
			t.Errorf("broken after %v", d)
		}
		if a.count("gone b#2") != 0 || a.count("unreachable b#2") != 1 {
			t.Errorf("a was told %q", a.all())
		}
		b.host.Thaw()
		time.Sleep(2 * time.Second)
		wantUp(t, a, b)
		// The dials that waited in its backlog must not have become connections.
		if n := b.count("open a#1"); n != 2 {
			t.Errorf("b opened %d connections, want 2", n)
		}
	})
}

func TestUnlistedMemberIsNotAccepted(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.start("a", 1), w.start("b", 2)
		a.Members([]Member{b.me})
		time.Sleep(time.Second)
		wantEvents(t, a) // it is alive and about to hear of us: no news yet
		wantEvents(t, b)
		if b.Stats().Refused == 0 {
			t.Error("nothing was refused")
		}
		time.Sleep(3 * time.Second)
		wantEvents(t, a, "unreachable b#2")
		b.Members([]Member{a.me})
		time.Sleep(20 * time.Millisecond)
		wantUp(t, a, b)

		// Gossip loses it: the connection stays. Then it is proven gone.
		b.Members(nil)
		time.Sleep(time.Second)
		wantUp(t, a, b)
		a.Members(nil)
		b.Gone(a.me.ID)
		time.Sleep(time.Second)
		if err := b.err(a.me.ID); !errors.Is(err, ErrGone) {
			t.Errorf("Down with %v, want %v", err, ErrGone)
		}
		if n := b.count("open a#1"); n != 1 {
			t.Errorf("opened %d times", n)
		}
	})
}

func TestOlderBootIsNotAccepted(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", 1)
		b2 := w.start("b", 2)
		a.Members([]Member{{ID{"b", 3}, "127.0.0.1:7009"}})
		b2.Members([]Member{a.me})
		time.Sleep(time.Second)
		if a.count("open b#2") != 0 || a.Stats().Refused == 0 {
			t.Errorf("a was told %q, %+v", a.all(), a.Stats())
		}
	})
}

func TestOtherClusterIsRefused(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", 1, plain, func(cfg *Config, _ *driver) { cfg.Cluster = "one" })
		b := w.start("b", 2, plain, func(cfg *Config, _ *driver) { cfg.Cluster = "two" })
		know(a, b)
		time.Sleep(time.Second)
		wantEvents(t, a, "unreachable b#2")
		if err := a.err(b.me.ID); err == nil || !strings.Contains(err.Error(), otherCluster.String()) {
			t.Errorf("a: %v", err)
		}
	})
}

// D11: append the new key everywhere, then move it to the top everywhere, then
// remove the old one; at each moment members of two steps must meet.
func TestKeyRotation(t *testing.T) {
	old, fresh := testKey, []byte("fedcba9876543210fedcba9876543210")
	tests := []struct {
		name string
		a, b [][]byte
		want bool
	}{
		{"before", [][]byte{old}, [][]byte{old}, true},
		{"b has appended it", [][]byte{old}, [][]byte{old, fresh}, true},
		{"both have", [][]byte{old, fresh}, [][]byte{old, fresh}, true},
		{"b has moved it to the top", [][]byte{old, fresh}, [][]byte{fresh, old}, true},
		{"both have moved it", [][]byte{fresh, old}, [][]byte{fresh, old}, true},
		{"b has removed the old one", [][]byte{fresh, old}, [][]byte{fresh}, true},
		{"both have removed it", [][]byte{fresh}, [][]byte{fresh}, true},
		{"a stranger's key", [][]byte{old}, [][]byte{fresh}, false},
		{"a step was left out", [][]byte{old}, [][]byte{fresh, old}, false},
		{"no key on one side", [][]byte{old}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.start("a", 1, func(cfg *Config, _ *driver) { cfg.Keys = tt.a })
				b := w.start("b", 2, func(cfg *Config, _ *driver) { cfg.Keys = tt.b })
				know(a, b)
				time.Sleep(2 * time.Second)
				if tt.want {
					wantUp(t, a, b)
				} else {
					wantEvents(t, a, "unreachable b#2")
					wantEvents(t, b, "unreachable a#1")
					if a.Stats().Garbage == 0 {
						t.Error("garbage was not counted")
					}
				}
			})
		})
	}
}

func TestMembersMeetWhateverTheirClocks(t *testing.T) {
	ca, err := newAuthority(testKey)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newAuthority(testKey)
	if err != nil {
		t.Fatal(err)
	}
	if !ca.cert.Equal(again.cert) {
		t.Error("the authority is not a function of the key")
	}
	if y := ca.cert.NotBefore.Year(); y != 1970 {
		t.Errorf("holds from %d", y)
	}
	if y := ca.cert.NotAfter.Year(); y != 9999 {
		t.Errorf("holds until %d", y)
	}
}

func TestSlowMemberIsBrokenAndDoesNotBlock(t *testing.T) {
	bubble(t, func(w *world) {
		small := func(cfg *Config, _ *driver) { cfg.MaxFrame, cfg.MaxQueue = 64<<10, 1<<20 }
		a, b := w.pair(small)
		release := make(chan struct{})
		b.frame = func(*Conn, Frame) { <-release }
		c := a.Conn(b.me.ID)
		var err error
		for n := 0; err == nil && n < 100; n++ {
			err = c.Send(make([]byte, 60<<10))
			if err == nil && n > 30 {
				t.Fatal("the queue has no end")
			}
			synctest.Wait()
		}
		if !errors.Is(err, ErrSlow) {
			t.Fatalf("Send to one who does not read: %v, want %v", err, ErrSlow)
		}
		if err := c.Send(nil); !errors.Is(err, ErrBroken) || !errors.Is(err, ErrSlow) {
			t.Errorf("Send afterwards: %v", err)
		}
		if err := c.Send(make([]byte, 64<<10+1)); !errors.Is(err, ErrTooLong) {
			t.Errorf("Send of too much: %v, want %v", err, ErrTooLong)
		}
		close(release)
		time.Sleep(time.Second)
		wantUp(t, a, b)
	})
}

func TestNewRefuses(t *testing.T) {
	bubble(t, func(w *world) {
		ln, err := w.net.Host("10.0.0.1").Listen("tcp", ":7000")
		if err != nil {
			t.Fatal(err)
		}
		good := Config{Self: ID{"a", 1}, Listener: ln, Handler: &driver{t: t}, Keys: [][]byte{testKey}}
		tests := []struct {
			want   string
			change func(*Config)
		}{
			{"Config.Self", func(c *Config) { c.Self.Name = "" }},
			{"Config.Self", func(c *Config) { c.Self.Name = "a#b" }},
			{"Config.Self", func(c *Config) { c.Self.Name = strings.Repeat("a", 64) }},
			{"Config.Cluster", func(c *Config) { c.Cluster = strings.Repeat("a", 256) }},
			{"Config.Listener", func(c *Config) { c.Listener = nil }},
			{"Config.Handler", func(c *Config) { c.Handler = nil }},
			{"Config.AckTimeout", func(c *Config) { c.AckTimeout = time.Millisecond }},
			{"Config.CompareTimeout", func(c *Config) { c.CompareTimeout = -1 }},
			{"Config.MaxQueue", func(c *Config) { c.MaxQueue = 1 }},
			{"Config.Keys[1]", func(c *Config) { c.Keys = [][]byte{testKey, testKey[:31]} }},
			{"open address without key", func(c *Config) { c.Keys = nil }},
		}
		for _, tt := range tests {
			cfg := good
			tt.change(&cfg)
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, want an error with %q", err, tt.want)
			}
		}
		s, err := New(good)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		s.Members([]Member{{ID{"b", 2}, "10.0.0.2:7000"}}) // does nothing
	})
}

func TestWithoutKeysNothingOutsideLoopbackIsDialled(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", 1, plain)
		a.Members([]Member{{ID{"b", 2}, "10.0.0.2:7000"}, {ID{"c", 3}, "c.example:7000"}})
		time.Sleep(100 * time.Millisecond)
		for _, id := range []ID{{"b", 2}, {"c", 3}} {
			if err := a.err(id); err == nil || !strings.Contains(err.Error(), "open address without key") {
				t.Errorf("%v: %v", id, err)
			}
		}
		if n := a.Stats().Dials; n != 0 {
			t.Errorf("%d dials", n)
		}
	})
}
