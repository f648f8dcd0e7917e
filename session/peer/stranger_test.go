package peer

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stranger speaks the protocol by hand, without keys.
type stranger struct {
	net.Conn
	t *testing.T
	r *reader
}

// strange dials n from the host of another member.
func (w *world) strange(n *node) *stranger {
	w.t.Helper()
	c, err := (&node{host: w.net.Host("10.0.0.77")}).call(w.t.Context(), n.me.Addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return &stranger{c, w.t, newReader(c, DefaultMaxFrame)}
}

func (s *stranger) write(b []byte) {
	s.t.Helper()
	if _, err := s.Write(b); err != nil {
		s.t.Errorf("stranger: %v", err)
	}
}

func (s *stranger) frame(k Kind, number uint64, payload string) {
	s.t.Helper()
	s.write(appendFrame(nil, k, number, []byte(payload)))
}

// greet does the handshake.
func (s *stranger) greet(from ID, to *node, gen uint64) reply {
	s.t.Helper()
	s.write(hello{Min: 1, Max: 1, Self: from, Want: to.me.ID, Gen: gen}.encode())
	r, err := readReply(s)
	if err != nil {
		s.t.Fatalf("stranger: %v", err)
	}
	if r.Verdict == accepted {
		s.write(encodeConfirm(gen))
	}
	return r
}

// until reads frames until one of that kind, and answers heartbeats.
func (s *stranger) until(k Kind) {
	s.t.Helper()
	for {
		f, _, err := s.r.next()
		if err != nil {
			s.t.Fatalf("stranger waits for kind %d: %v", k, err)
		}
		if f.Kind == heartbeat {
			s.frame(beatback, f.Number, "")
		}
		if f.Kind == k {
			return
		}
	}
}

// meet greets and compares, as generation 4.
func (s *stranger) meet(from ID, to *node) {
	s.t.Helper()
	const gen = 4
	if r := s.greet(from, to, gen); r.Verdict != accepted || r.Version != 1 || r.Gen != gen || r.Self != to.me.ID {
		s.t.Fatalf("reply %+v", r)
	}
	s.frame(end, 0, "")
	s.until(end)
	s.until(done)
	s.frame(done, 0, "")
	synctest.Wait()
}

// closed reports whether the other side has closed.
func (s *stranger) closed() bool {
	_ = s.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := io.Copy(io.Discard, s.Conn)
	return err == nil || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset")
}

var strangerID = ID{"z", 26}

// alone starts a#1, which knows the stranger as a member that cannot be dialled.
func (w *world) alone(change ...func(*Config, *driver)) *node {
	a := w.start("a", 1, append([]func(*Config, *driver){plain}, change...)...)
	a.Members([]Member{{strangerID, "10.9.9.9:1"}}) // without keys, it is not dialled
	synctest.Wait()
	return a
}

// C1: once a newer generation is accepted nothing is read from an older one.
func TestNothingIsReadFromAnOlderGeneration(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.alone()
		old, fresh := w.strange(a), w.strange(a)
		old.meet(strangerID, a)
		old.frame(Plain, 0, "first")
		synctest.Wait()
		fresh.greet(strangerID, a, 6)
		synctest.Wait()
		_, _ = old.Write(appendFrame(nil, Plain, 0, []byte("late"))) // it may be closed already
		synctest.Wait()
		wantEvents(t, a, "unreachable z#26", "open z#26", "up z#26", "plain z#26 first", "down z#26", "open z#26")
		if err := a.err(strangerID); !errors.Is(err, ErrReplaced) {
			t.Errorf("Down with %v, want %v", err, ErrReplaced)
		}
		if !old.closed() {
			t.Error("the older connection is open")
		}
		if r := w.strange(a).greet(strangerID, a, 6); r.Verdict != staleGen || r.Gen != 6 {
			t.Errorf("the same generation again: %+v", r)
		}
		if r := w.strange(a).greet(strangerID, a, 3); r.Verdict != staleGen || r.Gen != 6 {
			t.Errorf("an older generation: %+v", r)
		}
		if r := w.strange(a).greet(strangerID, a, 1<<63); r.Verdict != staleGen {
			t.Errorf("a generation that uses the numbers up: %+v", r)
		}
	})
}

// The same while the handler is at work on a frame of the older one, with more
// of it read already: the present call ends, no other begins.
func TestNewGenerationWaitsForTheHandler(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.alone()
		release := make(chan struct{})
		a.frame = func(*Conn, Frame) { <-release }
		old, fresh := w.strange(a), w.strange(a)
		old.meet(strangerID, a)
		two := appendFrame(nil, Plain, 0, []byte("one"))
		old.write(appendFrame(two, Plain, 0, []byte("two")))
		synctest.Wait()
		fresh.greet(strangerID, a, 6)
		synctest.Wait()
		wantEvents(t, a, "unreachable z#26", "open z#26", "up z#26", "plain z#26 one")
		close(release)
		synctest.Wait()
		wantEvents(t, a, "unreachable z#26", "open z#26", "up z#26", "plain z#26 one", "down z#26", "open z#26")
	})
}

// C1: what arrived before the end is handled before the end is reported, also
// if this side was writing when the other one went.
func TestWhatArrivedBeforeTheEndIsHandled(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.alone()
		stall := make(chan struct{})
		var once bool
		a.frame = func(*Conn, Frame) {
			if !once {
				once = true
				<-stall
			}
		}
		s := w.strange(a)
		s.meet(strangerID, a)
		for range 3 {
			s.frame(Plain, 0, strings.Repeat("x", 40<<10)) // more than one reading
		}
		s.frame(Plain, 0, "grant")
		synctest.Wait()
		w.net.Host("10.0.0.77").Kill() // as kill -9 does: a reset
		if err := a.Conn(strangerID).Send([]byte("to the dead")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		close(stall)
		time.Sleep(drainTime)
		got := a.all()
		if i := slices.Index(got, "down z#26"); i < 1 || got[i-1] != "plain z#26 grant" {
			t.Errorf("a was told %.30q", got)
		}
	})
}

func TestGarbageIsClosedAndCounted(t *testing.T) {
	good := func(a *node) hello {
		return hello{Min: 1, Max: 1, Self: strangerID, Want: a.me.ID, Gen: 4}
	}
	tests := []struct {
		name string
		send func(a *node) []byte
		keys bool
		want string // the counter that is one
	}{
		{"HTTP", func(*node) []byte { return []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }, false, "garbage"},
		{"HTTP instead of TLS", func(*node) []byte { return []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }, true, "garbage"},
		{"a hello instead of TLS", func(a *node) []byte { return good(a).encode() }, true, "garbage"},
		{"nothing, for ever", func(*node) []byte { return nil }, false, "garbage"},
		{"nothing, for ever, instead of TLS", func(*node) []byte { return nil }, true, "garbage"},
		{"half a hello, for ever", func(a *node) []byte { return good(a).encode()[:20] }, false, "garbage"},
		{"a body longer than any", func(*node) []byte { return append([]byte(magic), whatHello, 0xff, 0xff) }, false, "garbage"},
		{"a reply", func(*node) []byte { return reply{Self: strangerID, Gen: 4}.encode() }, false, "garbage"},
		{"no generation", func(a *node) []byte { h := good(a); h.Gen = 0; return h.encode() }, false, "garbage"},
		{"no name", func(a *node) []byte { h := good(a); h.Self.Name = ""; return h.encode() }, false, "garbage"},
		{"a name with #", func(a *node) []byte { h := good(a); h.Self.Name = "a#"; return h.encode() }, false, "garbage"},
		{"no confirm", func(a *node) []byte { return good(a).encode() }, false, "garbage"},
		{"a confirm of another generation", func(a *node) []byte { return append(good(a).encode(), encodeConfirm(6)...) }, false, "garbage"},
		{"another version", func(a *node) []byte { h := good(a); h.Min, h.Max = MaxVersion+1, MaxVersion+2; return h.encode() }, false, "refused"},
		{"another cluster", func(a *node) []byte { h := good(a); h.Cluster = "x"; return h.encode() }, false, "refused"},
		{"another boot wanted", func(a *node) []byte { h := good(a); h.Want.Boot++; return h.encode() }, false, "refused"},
		{"an older boot", func(a *node) []byte { h := good(a); h.Self.Boot--; return h.encode() }, false, "refused"},
		{"itself", func(a *node) []byte { h := good(a); h.Self = a.me.ID; return h.encode() }, false, "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.alone(func(cfg *Config, _ *driver) {
					if tt.keys {
						cfg.Keys = [][]byte{testKey}
					}
				})
				s := w.strange(a)
				s.write(tt.send(a))
				time.Sleep(2 * DefaultHandshakeTimeout)
				if !s.closed() {
					t.Error("the connection is open")
				}
				st := a.Stats()
				got := map[string]uint64{"garbage": st.Garbage, "refused": st.Refused}
				if got[tt.want] != 1 || st.Garbage+st.Refused+st.Abandoned != 1 || a.count("open z#26") != 0 {
					t.Errorf("%+v, %q", st, a.all())
				}
			})
		})
	}
}

// Before a hello has come, the set writes nothing: a stranger learns nothing.
func TestStrangerIsNotSpokenTo(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.alone()
		s := w.strange(a)
		s.write([]byte("SSH-2.0-x\r\n"))
		b, err := io.ReadAll(s)
		if len(b) > 0 {
			t.Errorf("read %q, %v", b, err)
		}
	})
}

func TestMalformedFramesBreak(t *testing.T) {
	tests := []struct {
		name string
		up   bool
		send []byte
	}{
		{"empty frame", true, []byte{0}},
		{"unknown kind", true, []byte{1, 99}},
		{"kind zero", true, []byte{1, 0}},
		{"huge frame", true, []byte{0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"length without end", true, bytes.Repeat([]byte{0xff}, 10)},
		{"length in a longer form", true, []byte{0x81, 0x00, byte(Plain)}},
		{"payload after a heartbeat", true, []byte{3, byte(heartbeat), 1, 1}},
		{"heartbeat without number", true, []byte{1, byte(heartbeat)}},
		{"answer to nothing", true, appendFrame(nil, Answer, 1, nil)},
		{"answer to a heartbeat not sent", true, appendFrame(nil, beatback, 1000, nil)},
		{"second end", true, appendFrame(nil, end, 0, nil)},
		{"second done", true, appendFrame(nil, done, 0, nil)},
		{"plain before the compare", false, appendFrame(nil, Plain, 0, nil)},
		{"ask before the compare", false, appendFrame(nil, Ask, 0, nil)},
		{"done before end", false, appendFrame(nil, done, 0, nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a := w.alone()
				if !tt.up { // its series has not ended, so it owes a done
					a.series = func(c *Conn) error { <-c.broken; return nil }
				}
				s := w.strange(a)
				if tt.up {
					s.meet(strangerID, a)
				} else {
					s.greet(strangerID, a, 4)
				}
				synctest.Wait()
				s.write(tt.send)
				synctest.Wait()
				if err := a.err(strangerID); !errors.Is(err, ErrFrame) || !errors.Is(err, ErrBroken) {
					t.Errorf("%v, want %v\n%q", err, ErrFrame, a.all())
				}
				if st := a.Stats(); st.Garbage != 1 || st.Broken != 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A frame is not believed to be long before it has come.
func TestLongFrameIsReadAsItComes(t *testing.T) {
	r := newReader(io.MultiReader(bytes.NewReader([]byte{0x80, 0x80, 0x80, 0x04, byte(Plain)}), bytes.NewReader(make([]byte, 20<<10))), DefaultMaxFrame)
	if _, _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("next = %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if len(r.buf) > 64<<10 {
		t.Errorf("the buffer has %d bytes for the 20 KiB that came", len(r.buf))
	}
}

// Long frames and short ones in any order, read in pieces of any size; after a
// long one its buffer is given up.
func TestFramesOfAllLengths(t *testing.T) {
	lengths := []int{0, 1, readBuffer - 3, readBuffer, keepBuffer - 3, keepBuffer, keepBuffer + 5, 3 * keepBuffer}
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(2, seed))
		var stream []byte
		var want []int
		for range 12 {
			n := lengths[rnd.IntN(len(lengths))]
			want = append(want, n)
			stream = appendFrame(stream, Plain, 0, bytes.Repeat([]byte{byte(n)}, n))
		}
		piece := 1 + rnd.IntN(2*keepBuffer)
		r := newReader(readerFunc(func(b []byte) (int, error) {
			if len(stream) == 0 {
				return 0, io.EOF
			}
			n := copy(b[:min(len(b), piece)], stream)
			stream = stream[n:]
			return n, nil
		}), DefaultMaxFrame)
		for _, n := range want {
			f, _, err := r.next()
			if err != nil || len(f.Data) != n || n > 0 && (f.Data[0] != byte(n) || f.Data[n-1] != byte(n)) {
				t.Fatalf("seed %d: a frame of %d bytes, %v; want %d", seed, len(f.Data), err, n)
			}
		}
		if _, _, err := r.next(); !errors.Is(err, io.EOF) || len(r.buf) > keepBuffer {
			t.Errorf("seed %d: %v with a buffer of %d bytes at the end, want %v and at most %d", seed, err, len(r.buf), io.EOF, keepBuffer)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestStrangersDoNotCrowdMembersOut(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.alone()
		var silent []*stranger
		for range maxPending + 10 {
			silent = append(silent, w.strange(a))
			synctest.Wait()
		}
		w.strange(a).meet(strangerID, a)
		if st := a.Stats(); st.Crowded != 11 || st.Opened != 1 {
			t.Errorf("%+v", st)
		}
		if !silent[0].closed() || silent[maxPending+9].closed() {
			t.Error("not the oldest was given up")
		}
	})
}

// A flood has as many connections as are wanted, at once. They say
// nothing, and their ends are noticed late.
type flood struct {
	left chan struct{}
	end  chan struct{}
}

func (l *flood) Accept() (net.Conn, error) {
	select {
	case <-l.left:
		return &late{end: l.end}, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

func (l *flood) Close() error {
	close(l.end)
	return nil
}

func (l *flood) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

type late struct {
	net.Conn // nil: of the rest nothing is called
	end      chan struct{}
}

func (c *late) Read([]byte) (int, error) {
	<-c.end
	return 0, net.ErrClosed
}

func (c *late) Write([]byte) (int, error)   { return 0, net.ErrClosed }
func (c *late) Close() error                { return nil }
func (c *late) SetDeadline(time.Time) error { return nil }
func (c *late) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// The bound holds also if connections come faster than their handshakes end.
func TestHandshakesAreBounded(t *testing.T) {
	bubble(t, func(w *world) {
		l := &flood{left: make(chan struct{}, 3*maxPending), end: make(chan struct{})}
		for range cap(l.left) {
			l.left <- struct{}{}
		}
		a := w.start("a", 1, plain, func(cfg *Config, _ *driver) { cfg.Listener = l })
		synctest.Wait()
		a.Set.mu.Lock()
		pending := len(a.pending)
		a.Set.mu.Unlock()
		if st := a.Stats(); pending != maxPending || st.Crowded != 2*maxPending {
			t.Errorf("%d handshakes are under way, %+v; want %d", pending, st, maxPending)
		}
	})
}
