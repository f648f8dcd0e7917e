package session

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
)

// TestNegativeSettings is H29: a negative size or time is an error at the
// start, never a loop.
func TestNegativeSettings(t *testing.T) {
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		m := f.nodes["a"].m
		for name, cfg := range map[string]Config{
			"IdleTimeout":      {IdleTimeout: -time.Second},
			"Lifetime":         {Lifetime: -time.Second},
			"SweepInterval":    {SweepInterval: -time.Second},
			"AckTimeout":       {AckTimeout: -time.Second},
			"ExclusiveWait":    {ExclusiveWait: -time.Second},
			"FirstIdleTimeout": {FirstIdleTimeout: -time.Second},
			"JoinTimeout":      {JoinTimeout: -time.Second},
			"MaxBytes":         {MaxBytes: -1},
			"Mode":             {Mode: modes},
			"Pool":             {Pool: -1},
			"QueueLimit":       {QueueLimit: -1},
		} {
			cfg.Cluster, cfg.Codec, cfg.Listener = m.cluster, m.cookies, refusing{}
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "Config."+name) {
				t.Errorf("New with a negative %s: %v, want an error that names it", name, err)
			}
		}
	})
}

// refusing is a listener that must not be used.
type refusing struct{ net.Listener }

// A curious value looks into its session while it is encoded.
type curious struct{ s *Session }

func (c curious) MarshalCBOR() ([]byte, error) {
	_, _ = counterKey.Get(c.s)
	c.s.Names()
	return []byte{0x01}, nil
}

// TestEncodingHoldsNoLock is H11.
func TestEncodingHoldsNoLock(t *testing.T) {
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.with(f.nodes["a"], func(s *Session) {
			must(t, counterKey.Set(s, 1))
			must(t, NewKey[curious]("c").Set(s, curious{s}))
		})
	})
}

// TestPromotedOnce is H04: the copy becomes the primary once, the cookie says
// so at once, and nobody else takes the session for its own.
func TestPromotedOnce(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.kill("a")
		b.count(f.nodes["b"], 2, "b!c")
		b.count(f.nodes["b"], 3, "b!c")
		if n, m := f.nodes["b"].m.Stats(), f.nodes["c"].m.Stats(); n.Primary != 1 || n.Secondary != 0 || m.Primary != 0 || m.Secondary != 1 {
			t.Errorf("b holds %d as primary and %d as secondary, c %d and %d; want 1, 0, 0, 1", n.Primary, n.Secondary, m.Primary, m.Secondary)
		}
	})
}

// TestTransferMeetsChanges is H07 and H08: changes go on while a new copy gets
// all of the session, and the copy ends up with the last of each.
func TestTransferMeetsChanges(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		ballast := NewKey[[]byte]("ballast")
		want := bytes.Repeat([]byte("x"), 1<<20)
		b.with(f.nodes["a"], func(s *Session) {
			must(t, ballast.Set(s, want))
			must(t, counterKey.Set(s, 0))
		})
		f.kill("b")
		for n := 1; n <= 20; n++ {
			b.count(f.nodes["a"], n, "a!c")
		}
		f.kill("a")
		b.count(f.nodes["c"], 21, "c!")
		b.with(f.nodes["c"], func(s *Session) {
			if v, _ := ballast.Get(s); !bytes.Equal(v, want) {
				t.Errorf("%d bytes of ballast are left, want all", len(v))
			}
		})
	})
}

// TestIdleSessionsOutliveTheirHolders is H01 and H02: both holders of a session go
// one after the other, in whatever way, while nobody asks for it.
func TestIdleSessionsOutliveTheirHolders(t *testing.T) {
	restart := func(f *farm, name string) {
		if left := f.stop(name, time.Minute); left != 0 {
			f.t.Errorf("%d sessions were left at %s", left, name)
		}
		f.start(name)
		f.ready(name)
	}
	tests := []struct {
		name string
		goes func(f *farm, name string)
		ends []string // who is killed then
	}{
		{"H01: both are restarted", restart, nil},
		{"H01: both are restarted, and the others go", restart, []string{"c"}},
		{"H02: both die", func(f *farm, name string) {
			f.kill(name)
			time.Sleep(lostAfter + 2*time.Second) // gossip proves nothing here
			delete(f.nodes, name)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
				var all []*browser
				for range 20 {
					b := &browser{t: t}
					b.count(f.nodes["a"], 1, "a!b")
					all = append(all, b)
				}
				tt.goes(f, "a")
				tt.goes(f, "b")
				for _, name := range tt.ends {
					f.kill(name)
					delete(f.nodes, name)
				}
				at := f.nodes["b"]
				if at == nil {
					at = f.nodes["c"]
				}
				for _, b := range all {
					if got := b.count(at, 2, ""); got.Lost || got.IsNew {
						t.Fatalf("%+v", got)
					}
				}
			})
		})
	}
}
