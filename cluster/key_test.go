package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKeyRotation covers K07 and D11: append the new key everywhere, move it to
// the front everywhere, remove the old one; each step restarts one member after
// the other. At no time does a member lose sight of those that run.
func TestKeyRotation(t *testing.T) {
	bubble(t, func(w *world) {
		ips := []string{ipA, ipB, ipC}
		seeds := []string{gossipAt(ipA), gossipAt(ipB), gossipAt(ipC)}
		ns := make([]*node, 3)
		start := func(i int, keys ...[]byte) {
			n, err := w.try(ips[i], Config{Self: Member{Name: fmt.Sprint("n", i)}, Join: seeds, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			ns[i] = n
		}
		for i := range ns {
			start(i, keyOld)
		}
		w.meet(3*time.Second, ns...)
		for _, keys := range [][][]byte{{keyOld, keyNew}, {keyNew, keyOld}, {keyNew}} {
			for i := range ns {
				if err := errors.Join(ns[i].Leave(w.t.Context()), ns[i].Close()); err != nil {
					t.Fatal(err)
				}
				start(i, keys...)
				w.meet(3*time.Second, ns...)
				time.Sleep(20 * time.Second)
				w.meet(0, ns...)
			}
		}
		for _, n := range ns {
			if n.log.contains("member failed") {
				t.Error("somebody lost sight of a member")
			}
			if st := n.Stats(); st.Streams != 0 {
				t.Errorf("%+v, want no stream dropped", st)
			}
		}
	})
}

// TestAskDuringRotation: who asks has the new key in front, who answers the old.
func TestAskDuringRotation(t *testing.T) {
	bubble(t, func(w *world) {
		for i, keys := range [][][]byte{{keyOld, keyNew}, {keyNew, keyOld}} {
			other := [][]byte{keys[1], keys[0]}
			b, err := w.try(fmt.Sprint("10.0.7.", i+1), Config{Self: Member{Name: "b"}, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			a, err := w.try(fmt.Sprint("10.0.8.", i+1), Config{Self: Member{Name: "a"}, Keys: other})
			if err != nil {
				t.Fatal(err)
			}
			got, err := a.transport.ask(w.t.Context(), b.Self().Gossip)
			if want := (answer{id: b.Self().ID()}); got != want || err != nil {
				t.Errorf("ask = %+v, %v; want %+v", got, err, want)
			}
		}
	})
}

func TestWrongKeyNeverJoins(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		w.meet(2*time.Second, a, b)
		stranger, err := w.try(ipC, Config{Self: Member{Name: "b"}, Join: []string{gossipAt(ipA), gossipAt(ipB)}, Keys: [][]byte{keyNew}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		w.meet(0, a, b)
		w.meet(0, stranger)
		if st := a.Stats(); st.Garbage == 0 {
			t.Errorf("Stats = %+v, want garbage", st)
		}
		before := a.Stats().Streams
		if _, err := stranger.transport.ask(w.t.Context(), gossipAt(ipA)); err == nil {
			t.Error("a tells a stranger who it is")
		}
		if st := a.Stats(); st.Streams != before+1 {
			t.Errorf("Stats = %+v, want one stream more dropped than %d", st, before)
		}
		if !a.log.contains("garbage on the gossip port") {
			t.Error("the log does not mention the garbage")
		}
	})
}

// TestStrangerStops is K08, and K07 done in the wrong order: whoever comes with a
// key to members without one, or the other way round, or with another key, is told
// so and stops; it does not go on as half of a cluster. Without a key there is no
// other machine, so encryption is turned on by a start of all (docs/operations.md).
func TestStrangerStops(t *testing.T) {
	none := [][]byte{}
	tests := []struct {
		name         string
		theirs, ours [][]byte
		proxy        bool
		stops        bool
	}{
		{"K08: a key, and members without one", none, [][]byte{keyOld}, false, true},
		{"K08: no key, and members with one", [][]byte{keyOld}, none, false, true},
		{"K07: the old key was taken out too early", [][]byte{keyOld}, [][]byte{keyNew}, false, true},
		{"K07: the new key is believed already", [][]byte{keyOld, keyNew}, [][]byte{keyNew, keyOld}, false, false},
		{"no key anywhere", none, none, false, false},
		{"a proxy", [][]byte{keyOld}, [][]byte{keyNew}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				seed := gossipAt("127.0.0.1")
				a, err := w.try("127.0.0.1", Config{Self: Member{Name: "a"}, Keys: tt.theirs})
				if err != nil {
					t.Fatal(err)
				}
				b, err := w.try("127.0.0.1", Config{
					Self: Member{Name: "b", Proxy: tt.proxy}, Bind: "127.0.0.1:8000", Keys: tt.ours, Join: []string{"127.0.0.1:9000", seed}, // nobody is at the first
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				select {
				case err := <-b.Duplicate():
					if !tt.stops || !strings.Contains(err.Error(), seed) || !strings.Contains(err.Error(), "--cluster-key") {
						t.Errorf("it is to stop: %v; want %v, and an error that names seed and flag", err, tt.stops)
					}
				default:
					if tt.stops {
						t.Error("it goes on")
					}
				}
				if got := b.log.contains("seed knows another key"); got != tt.proxy {
					t.Errorf("it is logged: %v, want %v", got, tt.proxy)
				}
				select {
				case err := <-a.Duplicate():
					t.Errorf("who was there first is to stop: %v", err)
				default:
				}
			})
		})
	}
}

// Who has met others and is the last one left has all sessions: it does not stop
// because the other one comes back with a key that it does not know. That one does.
func TestLastOneGoesOn(t *testing.T) {
	bubble(t, func(w *world) {
		seeds := []string{gossipAt(ipA), gossipAt(ipB)}
		start := func(name, ip string, key []byte) *node {
			n, err := w.try(ip, Config{Self: Member{Name: name}, Join: seeds, Keys: [][]byte{key}})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		a, b := start("a", ipA, keyOld), start("b", ipB, keyOld)
		w.meet(3*time.Second, a, b)
		if err := errors.Join(a.Leave(w.t.Context()), a.Close()); err != nil {
			t.Fatal(err)
		}
		a = start("a", ipA, keyNew)
		time.Sleep(time.Minute)
		select {
		case err := <-a.Duplicate():
			t.Logf("it stops: %v", err)
		default:
			t.Error("who comes with another key goes on")
		}
		select {
		case err := <-b.Duplicate():
			t.Errorf("who is left stops, too: %v", err)
		default:
		}
	})
}

func TestNewErrors(t *testing.T) {
	long := strings.Repeat("x", 200)
	tests := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"no name", Config{}, []string{"Config.Self.Name"}},
		{"name of nobody", Config{Self: Member{Name: "NONE"}}, []string{"Config.Self.Name", "NONE"}},
		{"name too long", Config{Self: Member{Name: strings.Repeat("n", 64)}}, []string{"Config.Self.Name", "64 bytes"}},
		{"name with !", Config{Self: Member{Name: "a!b"}}, []string{"Config.Self.Name", `"a!b"`}},
		{"name with a space", Config{Self: Member{Name: "a b"}}, []string{"Config.Self.Name"}},
		{"no address", Config{Self: Member{Name: "a", HTTP: "8080"}}, []string{"Config.Self.HTTP", `"8080"`}},
		{"port 0 announced", Config{Self: Member{Name: "a", Replication: "h:0"}}, []string{"Config.Self.Replication"}},
		{"no text", Config{Self: Member{Name: "a", Machine: "\x00"}}, []string{"Config.Self.Machine"}},
		{"one field too long", Config{Self: Member{Name: "a", Machine: long + long}}, []string{"Config.Self", "Machine has 400 bytes"}},
		{
			"more than gossip carries",
			Config{Self: Member{Name: "a", Machine: long, Group: long, SecondaryGroup: long}},
			[]string{"Config.Self", "616 bytes", "434", "Machine 200", "Group 200", "SecondaryGroup 200"},
		},
		{"bind without port", Config{Self: Member{Name: "a"}, Bind: "127.0.0.1"}, []string{"Config.Bind", `"127.0.0.1"`}},
		{"bind to a wrong port", Config{Self: Member{Name: "a"}, Bind: "127.0.0.1:x"}, []string{"Config.Bind"}},
		{"join without port", Config{Self: Member{Name: "a"}, Join: []string{"h:1", "h"}}, []string{"Config.Join[1]", `"h"`}},
		{"join without host", Config{Self: Member{Name: "a"}, Join: []string{":7946"}}, []string{"Config.Join[0]"}},
		{"join port 0", Config{Self: Member{Name: "a"}, Join: []string{"h:0"}}, []string{"Config.Join[0]"}},
		{"short key", Config{Self: Member{Name: "a"}, Keys: [][]byte{keyOld, {1, 2}}}, []string{"Config.Keys[1]", "2 bytes"}},
		{"open without key", Config{Self: Member{Name: "a"}, Bind: "0.0.0.0:0"}, []string{"open address without key", "0.0.0.0:0", "--cluster-key"}},
		{"open without key, every address", Config{Self: Member{Name: "a"}, Bind: ":0"}, []string{"open address without key"}},
		{"open without key, one address", Config{Self: Member{Name: "a"}, Bind: "10.1.2.3:0"}, []string{"open address without key"}},
		{"announced without key", Config{Self: Member{Name: "a"}, Advertise: "10.1.2.3:0"}, []string{"Config.Advertise", "open address without key"}},
		{"replication without key", Config{Self: Member{Name: "a", Replication: "10.1.2.3:70"}}, []string{"Config.Self.Replication", "open address without key"}},
		{"announces every address", Config{Self: Member{Name: "a"}, Keys: [][]byte{keyOld}, Advertise: "0.0.0.0:1"}, []string{"Config.Advertise"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New(tt.cfg)
			if err == nil {
				_ = c.Close()
				t.Fatal("New succeeded")
			}
			for _, w := range append(tt.want, "cluster: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

// TestEveryAddress: what listens on all addresses announces a private one.
func TestEveryAddress(t *testing.T) {
	c, err := New(Config{Self: Member{Name: "a", Boot: 1}, Bind: ":0", Keys: [][]byte{keyOld}})
	if err != nil {
		if !strings.Contains(err.Error(), "Config.Advertise is needed") {
			t.Fatal(err)
		}
		return // this machine has no private address
	}
	defer func() { _ = c.Close() }()
	ap, err := netip.ParseAddrPort(c.Self().Gossip)
	if err != nil || !ap.Addr().IsPrivate() || ap.Port() == 0 {
		t.Errorf("announces %s, want a private address", c.Self().Gossip)
	}
}

func TestPortTaken(t *testing.T) {
	bubble(t, func(w *world) {
		w.start("a", ipA)
		_, err := w.try(ipA, Config{Self: Member{Name: "b"}})
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), gossipAt(ipA)) {
			t.Errorf("error %v, want EADDRINUSE at %s", err, gossipAt(ipA))
		}
		// A port from the kernel may be taken for packets: another is tried.
		host := w.net.Host(ipB)
		ln, err := host.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		var port int
		if _, err := fmt.Sscanf(ln.Addr().String(), ipB+":%d", &port); err != nil {
			t.Fatal(err)
		}
		if _, err := host.ListenPacket(fmt.Sprint(":", port+1)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.try(ipB, Config{Self: Member{Name: "b"}, Bind: ":0"}); err != nil {
			t.Errorf("New: %v", err)
		}
	})
}

func TestConfigIsNotRetained(t *testing.T) {
	bubble(t, func(w *world) {
		keys, join := [][]byte{slices.Clone(keyOld)}, []string{gossipAt(ipA)}
		a := w.start("a", ipA)
		b, err := w.try(ipB, Config{Self: Member{Name: "b"}, Join: join, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		keys[0][0], join[0] = 99, "x"
		w.meet(2*time.Second, a, b)
		if !bytes.Equal(b.transport.identity.keys[0], keyOld) {
			t.Error("the keys are those of the caller")
		}
	})
}
