package cluster

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// eventually waits on the real clock for what the kernel has to do first.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if <-tick.C; time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestGarbageOnTheRealPort sends what is no gossip to a member on loopback. It is
// dropped and counted, the stream is closed, and the cluster goes on. Nothing
// runs afterwards.
func TestGarbageOnTheRealPort(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys [][]byte
	}{{"without keys", nil}, {"with keys", [][]byte{keyOld}}} {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			start := func(name string, join ...string) *Cluster {
				c, err := New(Config{Self: Member{Name: name, Boot: 1}, Keys: tt.keys, Join: join})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			a := start("a")
			defer func() { _ = a.Close() }()
			b := start("b", a.Self().Gossip)
			defer func() { _ = b.Close() }()
			eventually(t, "a and b meet", func() bool { return len(a.Members()) == 2 && len(b.Members()) == 2 })

			before := a.Stats()
			packets := garbage()
			pc, err := net.Dial("udp", a.Self().Gossip)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = pc.Close() }()
			foreign := uint64(0)
			for i, p := range packets {
				if _, err := pc.Write(p); err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(p, []byte(gossipLabel)) {
					foreign++
				}
				eventually(t, "packet counted", func() bool {
					st := a.Stats()
					if tt.keys == nil { // nonsense may be a message, by chance
						return st.Packets-before.Packets >= foreign
					}
					return st.Packets+st.Garbage-before.Packets-before.Garbage >= uint64(i+1)
				})
			}
			before = a.Stats()
			for i, p := range packets {
				c, err := net.Dial("tcp", a.Self().Gossip)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
					t.Fatal(err)
				}
				// Write and read until the member ends it; half close, so that it
				// does not wait for more of a message that was cut.
				_, _ = c.Write(p)
				_ = c.(*net.TCPConn).CloseWrite()
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the stream of garbage %d was not closed", i)
				}
				_ = c.Close()
			}
			eventually(t, "streams counted", func() bool {
				st := a.Stats()
				return st.Streams+st.Garbage-before.Streams-before.Garbage >= uint64(len(packets)/2)
			})
			if len(a.Members()) != 2 || len(b.Members()) != 2 {
				t.Error("the garbage changed the members")
			}
			a.SetState(Running)
			eventually(t, "gossip goes on", func() bool { return b.Members()[0].State == Running })
			if err := errors.Join(b.Leave(t.Context()), b.Close()); err != nil {
				t.Error(err)
			}
			eventually(t, "b is gone", func() bool { return a.Gone("b#1") })
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// garbage returns what strangers send: other protocols, our head with nonsense
// behind it, and noise.
func garbage() [][]byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return string(b)
	}
	gs := []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise(200),
		"U", "U" + noise(48), "U" + noise(1000),
		"\xf4", "\xf4understud", "\xf4underdog..." + noise(20),
		"\xf4\x0aunderstudy" + noise(20),
		noise(1), noise(2000),
		strings.Repeat("A", 5000), // longer than any packet of ours
	}
	for kind := range 16 { // each type of memberlist's messages, and some that it has not
		gs = append(gs, gossipLabel+string(rune(kind))+noise(30+kind))
	}
	for range 20 {
		gs = append(gs, gossipLabel+noise(1+rnd.IntN(1300)))
	}
	gs = append(gs, gossipLabel+"\x0a\xff\xff\xff\xff"+noise(100)) // encrypted, 4 GB
	var bs [][]byte
	for _, g := range gs {
		bs = append(bs, []byte(g))
	}
	return bs
}
