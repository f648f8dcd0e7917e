package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in 20 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// onTCP starts a member on a real socket.
func onTCP(t *testing.T, name string, boot uint32, change ...func(*Config, *driver)) *node {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{driver: &driver{t: t}, me: Member{ID{name, boot}, ln.Addr().String()}}
	cfg := Config{Self: n.me.ID, Listener: ln, Handler: n.driver, Keys: [][]byte{testKey}}
	for _, f := range change {
		f(&cfg, n.driver)
	}
	if n.Set, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func tcpPair(t *testing.T, change ...func(*Config, *driver)) (a, b *node) {
	t.Helper()
	a, b = onTCP(t, "a", 1, change...), onTCP(t, "b", 2, change...)
	know(a, b)
	eventually(t, "up", func() bool { return a.Conn(b.me.ID) != nil && b.Conn(a.me.ID) != nil })
	return a, b
}

func TestOverTCP(t *testing.T) {
	a, b := tcpPair(t)
	wantUp(t, a, b)
	c := a.Conn(b.me.ID)
	for i := range 1000 {
		if _, err := c.Ask(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "answers", func() bool { return len(a.all()) == 1002 })
	for i, e := range a.all()[2:] {
		if want := fmt.Sprintf("answer b#2 %d", i); e != want {
			t.Fatalf("%q, want %q", e, want)
		}
	}
	if !c.Leased() {
		t.Error("no lease")
	}
	if st := a.Stats(); st.Writes > st.FramesOut {
		t.Errorf("%d writes for %d frames", st.Writes, st.FramesOut)
	}
}

// Frames of all lengths both ways, with heartbeats between their pieces: none is
// torn, lost or out of order.
func TestBulkOverTCP(t *testing.T) {
	const frames = 300
	lengths := []int{0, 1, 100, pieceSize - 6, pieceSize, pieceSize + 1, 3 * pieceSize, keepBuffer + 1}
	payload := func(i int) []byte {
		return bytes.Repeat([]byte{byte(i)}, lengths[i*7%len(lengths)])
	}
	var got [2]atomic.Int64
	busy := func(side int) func(*Config, *driver) {
		return func(cfg *Config, d *driver) {
			cfg.Heartbeat, cfg.AckTimeout, cfg.MaxQueue = time.Millisecond, 20*time.Second, 1<<30
			d.quiet = true
			d.frame = func(_ *Conn, f Frame) {
				if n := int(got[side].Add(1)) - 1; !bytes.Equal(f.Data, payload(n)) {
					t.Errorf("frame %d has %d bytes, want %d of %d", n, len(f.Data), len(payload(n)), byte(n))
				}
			}
		}
	}
	a, b := onTCP(t, "a", 1, busy(0)), onTCP(t, "b", 2, busy(1))
	know(a, b)
	eventually(t, "up", func() bool { return a.Conn(b.me.ID) != nil && b.Conn(a.me.ID) != nil })
	ca, cb := a.Conn(b.me.ID), b.Conn(a.me.ID)
	for i := range frames {
		if err := errors.Join(ca.Send(payload(i)), cb.Send(payload(i))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all frames", func() bool { return got[0].Load() == frames && got[1].Load() == frames })
	if a.Conn(b.me.ID) != ca {
		t.Error("the connection broke")
	}
}

// A process that ends: its sockets are closed, then its address refuses.
func TestEndOverTCPProvesGone(t *testing.T) {
	a, b := tcpPair(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gone", func() bool { return a.count("gone b#2") == 1 })
	if a.count("down b#2") != 1 {
		t.Errorf("a was told %q", a.all())
	}
}

// What a strange key says on a real socket.
func TestStrangeKeyOverTCP(t *testing.T) {
	a := onTCP(t, "a", 1)
	b := onTCP(t, "b", 2, func(cfg *Config, _ *driver) { cfg.Keys = [][]byte{make([]byte, 32)} })
	know(a, b)
	eventually(t, "unreachable", func() bool { return a.count("unreachable b#2") == 1 && b.count("unreachable a#1") == 1 })
}

// A counted connection counts what TLS writes.
type counted struct {
	net.Conn
	bytes, writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// Design 6: a counter request costs at most 350 B with TCP/IP headers. What
// session sends for one is 65 bytes, and 35 come back.
func TestBytesPerAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n, writes atomic.Int64
		w := newWorld(t)
		count := func(cfg *Config, d *driver) {
			dial, ln := cfg.Dial, cfg.Listener
			cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := dial(ctx, addr)
				return counted{c, &n, &writes}, err
			}
			cfg.Listener = countedListener{ln, &n, &writes}
			cfg.Heartbeat, cfg.AckTimeout = time.Hour, 2*time.Hour
			d.frame = func(c *Conn, f Frame) {
				if f.Kind == Ask {
					if err := c.Answer(f.Number, make([]byte, 35)); err != nil {
						t.Error(err)
					}
				}
			}
		}
		a, b := w.pair(count)
		c := a.Conn(b.me.ID)
		n.Store(0)
		writes.Store(0)
		const asks = 200
		for range asks {
			if _, err := c.Ask(make([]byte, 65)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		const headers = 52              // IPv4 and TCP with time stamps
		packets := writes.Load() + asks // and a bare acknowledgement of the answer
		if got := float64(n.Load()+packets*headers) / asks; got > 350 {
			t.Errorf("%.1f bytes for a request, want at most 350", got)
		} else {
			t.Logf("%.1f bytes for a request, in %.2f writes", got, float64(writes.Load())/asks)
		}
	})
}

type countedListener struct {
	net.Listener
	bytes, writes *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return counted{c, l.bytes, l.writes}, err
}

// echo answers without remembering anything.
type echo struct {
	answers chan struct{}
}

func (e *echo) Open(*Conn) func() error { return func() error { return nil } }
func (e *echo) Up(*Conn)                {}
func (e *echo) Down(*Conn, error)       {}
func (e *echo) Failed(ID, bool, error)  {}
func (e *echo) Frame(c *Conn, f Frame) {
	if f.Kind == Ask {
		_ = c.Answer(f.Number, f.Data) // an error ends the benchmark by its time-out
		return
	}
	e.answers <- struct{}{}
}

// echoes returns a connection over real TCP to one who answers.
func echoes(tb testing.TB, keys ...[]byte) (*Conn, *echo) {
	e := &echo{answers: make(chan struct{}, 1)}
	var sets [2]*Set
	var ms []Member
	for i := range sets {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		m := Member{ID{"m", uint32(i + 1)}, ln.Addr().String()}
		if sets[i], err = New(Config{Self: m.ID, Listener: ln, Handler: e, Keys: keys, AckTimeout: 10 * time.Second}); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := sets[i].Close(); err != nil {
				tb.Error(err)
			}
		})
		ms = append(ms, m)
	}
	for _, s := range sets {
		s.Members(ms)
	}
	for sets[0].Conn(ms[1].ID) == nil || sets[1].Conn(ms[0].ID) == nil {
		time.Sleep(time.Millisecond)
	}
	return sets[0].Conn(ms[1].ID), e
}

func TestAskAllocatesNothing(t *testing.T) {
	tests := []struct {
		name string
		keys [][]byte
		want float64
	}{
		{"plain", nil, 0},
		{"TLS", [][]byte{testKey}, 4}, // by crypto/tls, for each record read: 2, or 4 with -race
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, e := echoes(t, tt.keys...)
			payload := make([]byte, 55)
			ask := func() {
				if _, err := c.Ask(payload); err != nil {
					t.Fatal(err)
				}
				<-e.answers
			}
			for range 200 {
				ask()
			}
			if n := testing.AllocsPerRun(500, ask); n > tt.want {
				t.Errorf("an Ask and its answer allocate %v times on both sides, want %v", n, tt.want)
			}
			if n := testing.AllocsPerRun(500, func() { c.Leased() }); n > 0 {
				t.Errorf("Leased allocates %v times", n)
			}
		})
	}
}

func BenchmarkAsk(b *testing.B) {
	for _, size := range []int{55, 4 << 10} {
		b.Run(fmt.Sprint("size=", size), func(b *testing.B) {
			c, e := echoes(b, testKey)
			payload := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Ask(payload); err != nil {
					b.Fatal(err)
				}
				<-e.answers
			}
		})
	}
}

func BenchmarkLeased(b *testing.B) {
	c, _ := echoes(b)
	b.ReportAllocs()
	for b.Loop() {
		c.Leased()
	}
}
