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

// C2: up is after both sides have compared: each has handled the other's whole
// series, and the replies to its own.
func TestUpAfterBothHaveCompared(t *testing.T) {
	bubble(t, func(w *world) {
		const n = 1000
		send := func(cfg *Config, d *driver) {
			self := cfg.Self
			d.series = func(c *Conn) error {
				for i := range n {
					if err := errors.Join(c.Room(), c.Header(fmt.Appendf(nil, "%v %d", self, i))); err != nil {
						return err
					}
				}
				return nil
			}
			d.frame = func(c *Conn, f Frame) {
				if f.Kind == Header && strings.HasPrefix(string(f.Data), c.ID().String()) {
					if err := c.Header([]byte("reply to " + string(f.Data))); err != nil {
						t.Error(err)
					}
				}
			}
		}
		a, b := w.pair(send)
		for x, other := range map[*node]ID{a: b.me.ID, b: a.me.ID} {
			got := x.all()
			up := slices.Index(got, "up "+other.String())
			if up != 1+2*n || len(got) != up+1 {
				t.Fatalf("%v: up is event %d of %d, want the last of %d", x.me, up, len(got), 2+2*n)
			}
			next, reply := 0, 0
			for _, e := range got[1:up] {
				switch e {
				case fmt.Sprintf("header %v %v %d", other, other, next):
					next++
				case fmt.Sprintf("header %v reply to %v %d", other, x.me.ID, reply):
					reply++
				default:
					t.Fatalf("%v: %q out of order", x.me, e)
				}
			}
		}
	})
}

// Before Up the two are not connected for any purpose.
func TestNothingButHeadersBeforeUp(t *testing.T) {
	bubble(t, func(w *world) {
		hold := make(chan struct{})
		a := w.start("a", 1, func(_ *Config, d *driver) {
			d.series = func(*Conn) error { <-hold; return nil }
		})
		b := w.start("b", 2)
		know(a, b)
		time.Sleep(5 * time.Second) // heartbeats keep it alive
		wantEvents(t, a, "open b#2")
		wantEvents(t, b, "open a#1")
		conn := a.open(b.me.ID)
		if a.Conn(b.me.ID) != nil || conn.Leased() {
			t.Error("connected before Up")
		}
		if left, connected := b.Promise(a.me.ID); !connected || left == 0 {
			t.Errorf("b's promise to a while they compare: %v, %v", left, connected)
		}
		_, askErr := conn.Ask(nil)
		for name, err := range map[string]error{"Send": conn.Send(nil), "Ask": askErr, "Answer": conn.Answer(1, nil)} {
			if !errors.Is(err, ErrNotUp) {
				t.Errorf("%s before Up: %v, want %v", name, err, ErrNotUp)
			}
		}
		if err := conn.Header([]byte("changed meanwhile")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantEvents(t, b, "open a#1", "header a#1 changed meanwhile")
		if st := a.Status(); len(st) != 1 || st[0].State != Comparing || st[0].Generation == 0 {
			t.Errorf("Status = %+v", st)
		}
		close(hold)
		synctest.Wait()
		wantUp(t, a, b)
		if err := conn.Header([]byte("later")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantEvents(t, b, "open a#1", "header a#1 changed meanwhile", "up a#1", "header a#1 later")
	})
}

func TestCompareThatDoesNotEndIsBroken(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", 1, func(_ *Config, d *driver) {
			d.series = func(c *Conn) error { <-c.broken; return nil }
		})
		b := w.start("b", 2)
		know(a, b)
		synctest.Wait()
		opened := time.Now()
		time.Sleep(DefaultCompareTimeout + time.Second)
		if d := a.when("down b#2").Sub(opened); d < DefaultCompareTimeout || d > DefaultCompareTimeout+DefaultHeartbeat {
			t.Errorf("broken after %v", d)
		}
	})
}

func TestSeriesThatFailsBreaks(t *testing.T) {
	bubble(t, func(w *world) {
		boom := errors.New("boom")
		a := w.start("a", 1, func(_ *Config, d *driver) {
			d.series = func(*Conn) error { return boom }
		})
		b := w.start("b", 2)
		know(a, b)
		time.Sleep(10 * time.Second)
		if err := a.err(b.me.ID); !errors.Is(err, boom) {
			t.Errorf("Down with %v", err)
		}
		if n := a.count("open b#2"); n < 20 || n > 80 { // each side dials about every half second
			t.Errorf("tried %d times in 10 s", n)
		}
	})
}

// A series is longer than the queue; Room makes it wait.
func TestSeriesLongerThanTheQueue(t *testing.T) {
	bubble(t, func(w *world) {
		const n = 5000
		small := func(cfg *Config, d *driver) {
			cfg.MaxFrame, cfg.MaxQueue = 1<<10, 64<<10
			d.series = func(c *Conn) error {
				for range n {
					if err := errors.Join(c.Room(), c.Header(make([]byte, 1<<10))); err != nil {
						return err
					}
				}
				return nil
			}
		}
		a, b := w.pair(small)
		if got := len(a.all()) + len(b.all()); got != 2*(n+2) {
			t.Errorf("%d events, want %d", got, 2*(n+2))
		}
	})
}

// C1: an old connection that a series still waits for ends with it.
func TestRoomEndsWithTheConnection(t *testing.T) {
	bubble(t, func(w *world) {
		ended := make(chan error, 10)
		a := w.alone(func(cfg *Config, d *driver) {
			cfg.MaxFrame, cfg.MaxQueue = 64<<10, 1<<20
			d.series = func(c *Conn) error {
				for {
					if err := c.Room(); err != nil {
						ended <- err
						return err
					}
					if err := c.Header(make([]byte, 60<<10)); err != nil {
						return err
					}
				}
			}
		})
		s := w.strange(a)
		s.greet(strangerID, a, 4)
		synctest.Wait() // it does not read
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrBroken) {
			t.Errorf("Room = %v, want %v", err, ErrBroken)
		}
		synctest.Wait()
		if a.count("down z#26") != 1 {
			t.Errorf("a was told %q", a.all())
		}
	})
}
