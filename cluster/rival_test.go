package cluster

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// told returns what n's Duplicate has to say, or "".
func (n *node) told() string {
	synctest.Wait()
	select {
	case err := <-n.Duplicate():
		return err.Error()
	default:
		return ""
	}
}

// trio starts a, b, c and lets them meet.
func (w *world) trio() (a, b, c *node) {
	w.t.Helper()
	a = w.start("a", ipA)
	b = w.start("b", ipB, gossipAt(ipA))
	c = w.start("c", ipC, gossipAt(ipA))
	w.meet(2*time.Second, a, b, c)
	return a, b, c
}

// TestRestartUnderTheSameName covers D12, K02, FAIL-6: the new boot is a member
// at once, and the old one is gone for good.
func TestRestartUnderTheSameName(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ip    string
		after time.Duration // between death and restart
	}{
		{name: "at its address", ip: ipB},
		{name: "elsewhere", ip: ipD},
		{name: "at its address, when it has failed already", ip: ipB, after: 10 * time.Second},
		{name: "elsewhere, when it has failed already", ip: ipD, after: 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, b, c := w.trio()
				b.host.Kill()
				time.Sleep(tt.after)
				again := w.start("b", tt.ip, gossipAt(ipA))
				w.within(time.Second, "b#4 is a member, b#2 is gone", func() bool {
					ok := true
					for _, n := range []*node{a, c, again} {
						ok = ok && n.names() == "a#1 b#4 c#3"
					}
					return ok && a.Gone("b#2") && c.Gone("b#2")
				})
				w.within(time.Second, "log", func() bool { return a.log.contains("member replaced", `"member":"b"`, `"boot":2`, gossipAt(tt.ip)) })
				time.Sleep(time.Minute)
				if got := a.names(); got != "a#1 b#4 c#3" {
					t.Errorf("a minute later a sees %s", got)
				}
				if s := again.told(); s != "" {
					t.Errorf("the new boot is told to stop: %s", s)
				}
			})
		})
	}
}

// TestRestartWithAClockThatIsBehind: the start times say that the newcomer is
// the older one, and the network knows better.
func TestRestartWithAClockThatIsBehind(t *testing.T) {
	for _, ip := range []string{ipB, ipD} {
		t.Run(ip, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, b, c := w.trio()
				b.host.Kill()
				again := w.start("b", ip, gossipAt(ipA))
				again.mu.Lock()
				again.self.start = 0
				again.mu.Unlock()
				again.SetState(Running)
				w.meet(time.Second, a, c, again)
				if !a.Gone("b#2") || a.Gone("b#4") {
					t.Errorf("Gone(b#2) = %v, Gone(b#4) = %v", a.Gone("b#2"), a.Gone("b#4"))
				}
				if s := again.told(); s != "" {
					t.Errorf("the new boot is told to stop: %s", s)
				}
			})
		})
	}
}

// TestAllRestartAtOnce covers K02: nobody stays dead to anybody.
func TestAllRestartAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.trio()
		for range 3 {
			for _, n := range []*node{a, b, c} {
				n.host.Kill()
			}
			seeds := []string{gossipAt(ipA), gossipAt(ipB), gossipAt(ipC)}
			a, b, c = w.start("a", ipA, seeds...), w.start("b", ipB, seeds...), w.start("c", ipC, seeds...)
			w.meet(3*time.Second, a, b, c)
		}
	})
}

func TestLiveDuplicateIsToldToStop(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.trio()
		second := w.start("b", ipD, gossipAt(ipA))
		var said string
		w.within(2*time.Second, "the newcomer is told", func() bool { said = second.told(); return said != "" })
		for _, want := range []string{`"b"`, gossipAt(ipB), gossipAt(ipD), "older"} {
			if !strings.Contains(said, want) {
				t.Errorf("error %q does not name %s", said, want)
			}
		}
		if s := second.told(); s != "" {
			t.Errorf("told twice: %s", s)
		}
		if err := second.Leave(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		w.meet(time.Second, a, b, c)
		if s := b.told(); s != "" {
			t.Errorf("the older one is told: %s", s)
		}
		if a.Gone("b#2") || !a.Gone("b#4") {
			t.Error("the wrong boot is gone")
		}
	})
}

// TestSilenceProvesNothing: the older boot is stopped, or cut off, or something
// of it is alive; both count as members, until the older one fails.
func TestSilenceProvesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, _ := w.trio()
		b.host.Freeze()
		second := w.start("b", ipD, gossipAt(ipA))
		w.within(time.Second, "both count", func() bool { return a.names() == "a#1 b#2 b#4 c#3" })
		time.Sleep(30 * time.Second)
		if a.Gone("b#2") {
			t.Error("silence counts as proof")
		}
		if s := second.told(); s != "" {
			t.Errorf("the new boot is told to stop: %s", s)
		}
		b.host.Thaw()
		w.within(5*time.Second, "the older one answers", func() bool { return second.told() != "" })
	})
}

func TestRefusedGossipWithLiveReplicationProvesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b, err := w.try(ipB, Config{Self: Member{Name: "b", Replication: ipC + ":7070"}, Join: []string{gossipAt(ipA)}})
		if err != nil {
			t.Fatal(err)
		}
		w.meet(2*time.Second, a, b)
		other := w.net.Host(ipC)
		ln, err := other.Listen("tcp", ":7070")
		if err != nil {
			t.Fatal(err)
		}
		b.host.Kill()
		w.start("b", ipD, gossipAt(ipA))
		w.within(time.Second, "both count", func() bool { return a.names() == "a#1 b#2 b#3" })
		time.Sleep(time.Second)
		if a.Gone("b#2") {
			t.Error("gone although its replication address accepts")
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		w.within(2*time.Second, "gone", func() bool { return a.Gone("b#2") })
	})
}

// TestForeignAnswerProvesNothing: the port was taken by what is no member.
func TestForeignAnswerProvesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, _ := w.trio()
		b.host.Kill()
		ln, err := w.net.Host(ipB).Listen("tcp", ":7946")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 10)))
				_ = c.Close()
			}
		}()
		second := w.start("b", ipD, gossipAt(ipA))
		w.within(time.Second, "both count", func() bool { return a.names() == "a#1 b#2 b#4 c#3" })
		time.Sleep(20 * time.Second)
		if a.Gone("b#2") {
			t.Error("a foreign answer counts as proof")
		}
		if s := second.told(); s != "" {
			t.Errorf("the new boot is told to stop by a foreign answer: %s", s)
		}
		if got := a.names(); got != "a#1 b#4 c#3" {
			t.Errorf("a sees %s, want the old boot failed by now", got)
		}
		_ = ln.Close()
		<-done
	})
}

// TestOtherNameAtTheSameAddress covers K10: the machine was replaced.
func TestOtherNameAtTheSameAddress(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.trio()
		b.host.Kill()
		d := w.start("d", ipB, gossipAt(ipA))
		w.meet(time.Second, a, c, d)
		if !a.Gone("b#2") {
			t.Error("b is not gone although d has its address")
		}
	})
}

// TestSameBootTwice: a process was copied, number and all.
func TestSameBootTwice(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, _ := w.trio()
		time.Sleep(time.Millisecond)
		second, err := w.try(ipD, Config{Self: Member{Name: "b", Boot: 2}, Join: []string{gossipAt(ipA)}})
		if err != nil {
			t.Fatal(err)
		}
		var said string
		w.within(2*time.Second, "the copy is told", func() bool { said = second.told(); return said != "" })
		if !strings.Contains(said, gossipAt(ipB)) || !strings.Contains(said, gossipAt(ipD)) {
			t.Errorf("error %q does not name both addresses", said)
		}
		if s := b.told(); s != "" {
			t.Errorf("the original is told: %s", s)
		}
		if got := a.names(); got != "a#1 b#2 c#3" {
			t.Errorf("a sees %s", got)
		}
	})
}

// TestSameAddressAnnouncedTwice: a wrong Advertise. Who has it is told, and
// nobody else suffers.
func TestSameAddressAnnouncedTwice(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.trio()
		wrong, err := w.try(ipD, Config{Self: Member{Name: "d"}, Advertise: gossipAt(ipB), Join: []string{gossipAt(ipA)}})
		if err != nil {
			t.Fatal(err)
		}
		var said string
		w.within(2*time.Second, "it is told", func() bool { said = wrong.told(); return said != "" })
		if !strings.Contains(said, gossipAt(ipB)) {
			t.Errorf("error %q does not name the address", said)
		}
		time.Sleep(time.Minute)
		w.meet(0, a, b, c)
		for _, n := range []*node{a, b, c} {
			if s := n.told(); s != "" {
				t.Errorf("%s is told: %s", n.Self().Name, s)
			}
		}
	})
}

// TestAdvertise: members that are reached elsewhere than where they listen meet,
// and a restart is known for one although nobody is sure of its own address.
func TestAdvertise(t *testing.T) {
	bubble(t, func(w *world) {
		start := func() *node {
			n, err := w.try(ipA, Config{Self: Member{Name: "a"}, Bind: ":7946", Advertise: ipA + ":0", Join: []string{gossipAt(ipB)}})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		a := start()
		b := w.start("b", ipB)
		w.meet(3*time.Second, a, b)
		if got := a.Self().Gossip; got != gossipAt(ipA) {
			t.Errorf("a announces %s", got)
		}
		a.host.Kill()
		a = start()
		w.meet(time.Second, a, b)
		if s := a.told(); s != "" {
			t.Error(s)
		}
	})
}

// TestDeclaredGone: others are convinced that this boot is gone.
func TestDeclaredGone(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, _ := w.trio()
		a.view.depart("b#2", replaced, "")
		a.delegate.tell(departure{"b#2", replaced})
		var said string
		w.within(2*time.Second, "b is told", func() bool { said = b.told(); return said != "" })
		if !strings.Contains(said, gossipAt(ipB)) {
			t.Errorf("error %q does not name the address", said)
		}
	})
}

// TestPartition covers K01: a cut that lasts longer than gossip remembers, with
// and without seeds, and both views afterwards.
func TestPartition(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sides [2][]int // indices of members
		long  time.Duration
	}{
		{"two members", [2][]int{{0}, {1}}, 5 * time.Minute},
		{"one of four", [2][]int{{0, 1, 2}, {3}}, 5 * time.Minute},
		{"two and two", [2][]int{{0, 1}, {2, 3}}, 5 * time.Minute},
		{"two and two, shorter than gossip remembers", [2][]int{{0, 1}, {2, 3}}, 15 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				ips := []string{ipA, ipB, ipC, ipD}
				var ns []*node
				for i := range len(tt.sides[0]) + len(tt.sides[1]) {
					ns = append(ns, w.start(fmt.Sprint("n", i), ips[i], gossipAt(ipA)))
				}
				w.meet(3*time.Second, ns...)
				each := func(f func(a, b string)) {
					for _, i := range tt.sides[0] {
						for _, j := range tt.sides[1] {
							f(ips[i], ips[j])
						}
					}
				}
				each(w.net.Cut)
				for _, side := range tt.sides {
					var part []*node
					for _, i := range side {
						part = append(part, ns[i])
					}
					w.meet(15*time.Second, part...)
				}
				time.Sleep(tt.long)
				each(w.net.Heal)
				start := time.Now()
				w.meet(10*time.Second, ns...)
				t.Logf("together again %v after the heal", time.Since(start))
				for _, n := range ns {
					for _, m := range ns {
						if n.Gone(m.Self().ID()) {
							t.Errorf("%s holds %s for gone", n.Self().ID(), m.Self().ID())
						}
					}
					if s := n.told(); s != "" {
						t.Error(s)
					}
				}
			})
		})
	}
}

// TestFrozenMemberIsReadmitted covers FAIL-8.
func TestFrozenMemberIsReadmitted(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, c := w.trio()
		b.host.Freeze()
		w.meet(15*time.Second, a, c)
		time.Sleep(20 * time.Second)
		b.host.Thaw()
		w.meet(5*time.Second, a, b, c)
		if a.Gone("b#2") {
			t.Error("b is held for gone")
		}
	})
}

// TestBusyMemberDoesNotFlap covers K05: a member that stands still for a second
// now and then, and whose network is slow, stays a member.
func TestBusyMemberDoesNotFlap(t *testing.T) {
	bubble(t, func(w *world) {
		w.net.SetLatency(20 * time.Millisecond)
		a, b, c := w.trio()
		for range 20 {
			b.host.Freeze()
			time.Sleep(time.Second)
			b.host.Thaw()
			time.Sleep(3 * time.Second)
		}
		if a.log.contains("member failed") || c.log.contains("member failed") {
			t.Error("a busy member was held for failed")
		}
	})
}

func TestSettleAsksNobodyWithoutReason(t *testing.T) {
	bubble(t, func(w *world) {
		a, b, _ := w.trio()
		if rs := a.view.conflicts(); len(rs) != 0 {
			t.Errorf("rivals %v", rs)
		}
		// Two names on one machine, at different ports, are no rivals.
		d, err := w.try(ipD, Config{Self: Member{Name: "d"}, Join: []string{gossipAt(ipA)}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := w.try(ipD, Config{Self: Member{Name: "e"}, Bind: net.JoinHostPort(ipD, "7947"), Join: []string{gossipAt(ipA)}})
		if err != nil {
			t.Fatal(err)
		}
		w.within(2*time.Second, "all five", func() bool { return len(a.Members()) == 5 && len(b.Members()) == 5 })
		if rs := a.view.conflicts(); len(rs) != 0 {
			t.Errorf("rivals %v", rs)
		}
		if d.Gone(e.Self().ID()) {
			t.Error("e is gone")
		}
	})
}
