package proxy_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/status"
)

// node is what gossip says of a member that runs.
func node(route, address string, boot uint32) proxy.Member {
	return proxy.Member{Route: route, Address: address, Boot: boot, State: proxy.Running}
}

var (
	nodeA = node("a", "10.0.1.1:8080", 1)
	nodeB = node("b", "10.0.1.2:8080", 1)
	nodeC = node("c", "10.0.1.3:8080", 1)
)

// serves counts who serves n requests without a session.
func (w *world) serves(n int) map[string]int {
	w.t.Helper()
	by := map[string]int{}
	for range n {
		a := w.get("/", "")
		if a.status != 200 {
			w.t.Fatalf("status %d", a.status)
		}
		by[a.member]++
	}
	return by
}

// member is how the proxy sees a member once what comes after a reply is done.
func (w *world) member(name string) status.Member {
	w.t.Helper()
	synctest.Wait()
	ms := w.proxy.Snapshot().Workers[0].Members
	i := slices.IndexFunc(ms, func(m status.Member) bool { return m.Name == name })
	if i < 0 {
		return status.Member{}
	}
	return ms[i]
}

func TestNewcomer(t *testing.T) { // PLUG-5, D26
	one(t, options{members: []string{"a", "b"}}, func(t *testing.T, w *world) {
		c := newFake(t, w.net, "10.0.1.3", "c", counter)
		c.start()
		w.members["c"] = c
		starting := nodeC
		starting.State = proxy.Starting
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, starting})
		if by := w.serves(10); by["c"] != 0 {
			t.Errorf("a member that starts got %d requests", by["c"])
		}
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
		if by := w.serves(30); by["c"] != 10 {
			t.Errorf("a newcomer got %d of 30 requests, want 10", by["c"])
		}
		if a := w.get("/", "s.c"); a.member != "c" {
			t.Errorf("its session went to %q", a.member)
		}
		if m := w.member("c"); !m.ByGossip || m.Phase != "running" || m.Boot != 1 {
			t.Errorf("snapshot: %+v", m)
		}
		// It leaves: gossip loses it, nobody answers, and it is gone from the list.
		c.kill()
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB})
		synctest.Wait()
		if m := w.member("c"); m.Name != "" {
			t.Errorf("it is gone and still listed: %+v", m)
		}
		if a := w.get("/", "s.c"); a.status != 200 {
			t.Errorf("its session = %d, want 200 from another", a.status)
		}
	})
}

func TestDrainAndOverload(t *testing.T) { // D29, PLUG-83
	for _, s := range []proxy.MemberState{proxy.Draining, proxy.Overloaded} {
		one(t, options{}, func(t *testing.T, w *world) {
			busy := nodeA
			busy.State = s
			w.proxy.SetMembers([]proxy.Member{busy, nodeB, nodeC})
			if by := w.serves(20); by["a"] != 0 {
				t.Errorf("state %d: %d new sessions", s, by["a"])
			}
			if a := w.get("/", "s.a"); a.member != "a" {
				t.Errorf("state %d: its session went to %q", s, a.member)
			}
			w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
			if by := w.serves(20); by["a"] == 0 {
				t.Errorf("state %d undone: no new sessions", s)
			}
		})
	}
}

// D3: gossip alone never takes a living member out of service.
func TestVanishedButAlive(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		all := []proxy.Member{nodeA, nodeB, nodeC}
		w.proxy.SetMembers(all)
		w.proxy.SetMembers(nil)
		synctest.Wait()
		if by := w.serves(30); by["a"] != 10 || by["b"] != 10 || by["c"] != 10 {
			t.Errorf("gossip has lost all members, which answer: %v", by)
		}
	})
}

// PLUG-96: a member that dies while the proxy is idle costs no request anything.
func TestVanishedAndDead(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
		w.net.Cut("10.0.0.1", "10.0.1.1")
		w.proxy.SetMembers([]proxy.Member{nodeB, nodeC})
		time.Sleep(time.Second) // the probe
		start := time.Now()
		a := w.get("/", "s.a")
		if d := time.Since(start); a.status != 200 || a.member == "a" || d > 10*time.Millisecond {
			t.Errorf("request = %d from %q after %v", a.status, a.member, d)
		}
		if m := w.member("a"); m.InService || m.LastError == "" {
			t.Errorf("snapshot: %+v", m)
		}
	})
}

// PLUG-108: a new boot clears an error at once, whatever recover_time says.
func TestReborn(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
		w.get("/", "s.a")
		w.members["a"].kill()
		if a := w.get("/", "s.a"); a.member == "a" {
			t.Fatal("served by the dead")
		}
		if w.member("a").InService {
			t.Fatal("a is in service though it is dead")
		}
		w.members["a"].start()
		back := nodeA
		back.Boot = 2
		w.proxy.SetMembers([]proxy.Member{back, nodeB, nodeC})
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("the session went to %q, want a", a.member)
		}
	})
}

// A member that could not be reached for a moment, while gossip sees it, is used
// again within two seconds.
func TestUnreachableForAMoment(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
		w.net.Cut("10.0.0.1", "10.0.1.1")
		if a := w.get("/", "s.a"); a.member == "a" {
			t.Fatal("served over a cut cable")
		}
		time.Sleep(10 * time.Second)
		w.net.Heal("10.0.0.1", "10.0.1.1")
		time.Sleep(2 * time.Second)
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("two seconds after the cable was mended the session went to %q", a.member)
		}
	})
}

func TestMoved(t *testing.T) { // F04
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
		w.get("/", "s.a")
		w.members["a"].kill()
		w.members["a"].start(":9999")
		w.proxy.SetMembers([]proxy.Member{node("a", "10.0.1.1:9999", 2), nodeB, nodeC})
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("after a restart on another port its session went to %q", a.member)
		}
		if got := w.member("a").Address; got != "10.0.1.1:9999" {
			t.Errorf("address %q", got)
		}
	})
}

// An address that changes takes the connections to the old one along, also if
// somebody still answers there.
func TestMovedAway(t *testing.T) { // F02
	one(t, options{members: []string{"a", "b"}}, func(t *testing.T, w *world) {
		for i, ip := range []string{"10.0.1.3", "10.0.1.4"} {
			m := newFake(t, w.net, ip, ip, counter)
			m.start()
			w.members[ip] = m
			w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, node("c", ip+":8080", uint32(i+1))})
			for range 3 {
				if a := w.get("/", "s.c"); a.member != ip {
					t.Errorf("at %s its session went to %q", ip, a.member)
				}
			}
			synctest.Wait()
		}
		old := w.members["10.0.1.3"]
		old.mu.Lock()
		defer old.mu.Unlock()
		if n := len(old.open); n != 0 {
			t.Errorf("%d connections to the old address are still open", n)
		}
	})
}

// The file's address counts as long as somebody answers there.
func TestFileAddress(t *testing.T) {
	elsewhere := node("a", "10.0.9.9:1", 1)
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{elsewhere, nodeB, nodeC})
		time.Sleep(5 * time.Second)
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("served by %q; want a, at the file's address", a.member)
		}
	})
	one(t, options{without: []string{"a"}}, func(t *testing.T, w *world) {
		w.members["a"].start(":9999")
		w.proxy.SetMembers([]proxy.Member{node("a", "10.0.1.1:9999", 1), nodeB, nodeC})
		time.Sleep(5 * time.Second)
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("served by %q; want a, at gossip's address", a.member)
		}
	})
}

// D12: of two boots of one name the newer counts, in whatever order they come.
func TestTwoBoots(t *testing.T) {
	old, young := nodeA, nodeA
	old.Address, young.Boot = "10.0.1.1:1", 2
	for _, list := range [][]proxy.Member{{old, young}, {young, old}} {
		one(t, options{}, func(t *testing.T, w *world) {
			w.proxy.SetMembers(list)
			synctest.Wait()
			if m := w.member("a"); m.Boot != 2 || m.Address != "10.0.1.1:8080" {
				t.Errorf("SetMembers(%v): %+v", list, m)
			}
		})
	}
}

func TestGossipNonsense(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{node("x", "nowhere", 1), node("", "10.0.1.1:8080", 1)})
		w.proxy.SetMembers(nil)
		if by := w.serves(30); len(by) != 3 {
			t.Errorf("served by %v", by)
		}
	})
}
