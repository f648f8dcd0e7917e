package session

import (
	"slices"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
)

// fill makes n sessions at a member without a request, each with the value.
func (n *node) fill(sessions int, value []byte) {
	for range sessions {
		e, c := n.m.found(owner.Changes{{Key: "k", Value: value}})
		n.m.end(e, c)
	}
}

// restored waits until these members report that redundancy is restored after
// the loss of gone.
func (f *farm) restored(gone *node, names ...string) {
	f.t.Helper()
	for _, name := range names {
		n := f.nodes[name]
		for range 600 {
			if r := n.m.Redundancy(); slices.Contains(r.Restored, gone.self.ID()) && !r.Restoring {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if r := n.m.Redundancy(); !slices.Contains(r.Restored, gone.self.ID()) || r.Restoring {
			f.t.Fatalf("%s: %+v after 30 s, want redundancy restored after the loss of %s", name, r, gone.self.ID())
		}
	}
}

// A member says that it has dealt with a loss only when all copies are there.
func TestRedundancyIsReported(t *testing.T) { // D7, D8
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		const sessions = 300
		for _, n := range f.nodes {
			n.fill(sessions, []byte("v"))
		}
		if r := f.nodes["b"].m.Redundancy(); r.Restoring || r.Lacking != 0 || len(r.Restored) != 0 {
			t.Fatalf("nothing has happened: %+v", r)
		}
		f.net.SetLatency(10 * time.Millisecond)
		a := f.nodes["a"]
		f.kill("a")
		seen := false
		for range 200 {
			time.Sleep(5 * time.Millisecond)
			for _, name := range []string{"b", "c"} {
				r := f.nodes[name].m.Redundancy()
				seen = seen || r.Restoring && r.Lacking > 0
				if slices.Contains(r.Restored, a.self.ID()) && r.Lacking > 0 {
					t.Fatalf("%s has restored what a held, and lacks %d copies", name, r.Lacking)
				}
			}
		}
		if !seen {
			t.Error("nobody was ever seen restoring")
		}
		f.restored(a, "b", "c")
		var primary, secondary int
		for _, name := range []string{"b", "c"} {
			s := f.nodes[name].m.Stats()
			primary, secondary = primary+s.Primary, secondary+s.Secondary
		}
		if primary != 3*sessions || secondary != 3*sessions {
			t.Errorf("%d primaries and %d copies are left, want %d of each", primary, secondary, 3*sessions)
		}
		// With nobody to hold a copy there is nothing to do, and another loss would
		// be that of all sessions.
		b, c := f.nodes["b"], f.nodes["c"].m
		f.kill("b")
		time.Sleep(10 * time.Second)
		if r := c.Redundancy(); r.Restoring || r.Lacking != 0 || slices.Contains(r.Restored, b.self.ID()) {
			t.Errorf("alone: %+v, want nothing to do and b not restored", r)
		}
		f.start("b")
		f.ready("b")
		f.restored(b, "c")
	})
}

// A member that is back may hold copies again, so that its loss was dealt with is
// taken back; and one that is only silent is not lost.
func TestRedundancyIsTakenBack(t *testing.T) { // D8
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		a := f.nodes["a"].m
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(lostAfter - time.Second)
		if got := a.Redundancy().Restored; len(got) != 0 {
			t.Errorf("of a member that is only silent: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := a.Redundancy().Restored; !slices.Equal(got, []string{f.nodes["b"].self.ID()}) {
			t.Errorf("after %v: %q, want b", lostAfter, got)
		}
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(3 * time.Second)
		if got := a.Redundancy().Restored; len(got) != 0 {
			t.Errorf("after the heal: %q, want nothing", got)
		}
	})
}

// What is under way is to be seen in the counts.
func TestRestoringIsCounted(t *testing.T) { // D7
	bubble(t, Config{RestoreRate: 100}, "abc", func(t *testing.T, f *farm) {
		const sessions = 300
		for _, n := range f.nodes {
			n.fill(sessions, []byte("v"))
		}
		for _, n := range f.nodes {
			if s, r := n.m.Stats(), n.m.Redundancy(); r.Restoring || r.Lacking != 0 || s.Restored != 0 {
				t.Fatalf("nothing has happened: %+v, %+v", r, s)
			}
		}
		copies := f.nodes["a"].m.Stats().Secondary
		f.kill("a")
		time.Sleep(1500 * time.Millisecond)
		for _, name := range []string{"b", "c"} {
			if s, r := f.nodes[name].m.Stats(), f.nodes[name].m.Redundancy(); !r.Restoring || s.RestoreRate < 90 || s.RestoreRate > 110 {
				t.Errorf("%s: restoring %v, %d a second; want true, about 100", name, r.Restoring, s.RestoreRate)
			}
		}
		f.restored(f.nodes["a"], "b", "c")
		var primary, secondary, restored int
		for _, name := range []string{"b", "c"} {
			s := f.nodes[name].m.Stats()
			primary, secondary, restored = primary+s.Primary, secondary+s.Secondary, restored+int(s.Restored)
		}
		if primary != 3*sessions || secondary != 3*sessions {
			t.Errorf("%d primaries and %d copies are left, want %d of each", primary, secondary, 3*sessions)
		}
		if restored != sessions+copies {
			t.Errorf("%d sessions restored, want the %d of a and the %d whose copy it had", restored, sessions, copies)
		}
	})
}

// A chain of deaths without a request in between: idle sessions survive as long
// as redundancy is restored before the next one (TC-5, SESS-30).
func TestIdleSessionsSurviveAChainOfDeaths(t *testing.T) {
	bubble(t, Config{}, "abcd", func(t *testing.T, f *farm) {
		const sessions = 250 // of each member, to begin with
		var browsers []*browser
		for _, n := range []string{"a", "b", "c", "d"} {
			for range sessions {
				b := &browser{t: t}
				b.count(f.nodes[n], 1, "")
				browsers = append(browsers, b)
			}
		}
		left := []string{"b", "c", "d"}
		for _, victim := range []string{"a", "b", "c"} {
			gone := f.nodes[victim]
			f.kill(victim)
			if victim != "c" {
				f.restored(gone, left...)
			}
			left = left[1:]
		}
		for _, b := range browsers {
			b.count(f.nodes["d"], 2, "d!")
		}
		if s := f.nodes["d"].m.Stats(); s.Lost != 0 || s.Primary != 4*sessions {
			t.Errorf("d: %d lost, %d primaries; want 0, %d", s.Lost, s.Primary, 4*sessions)
		}
	})
}

// As before, but the members die while sessions are being restored, and nobody
// waits: only the sessions of which both holders went are lost.
func TestDeathWhileRestoring(t *testing.T) {
	bubble(t, Config{RestoreRate: 200}, "abcd", func(t *testing.T, f *farm) {
		const sessions = 200
		for _, n := range f.nodes {
			n.fill(sessions, []byte("v"))
		}
		count := func() (primary, secondary int) {
			for _, name := range []string{"c", "d"} {
				s := f.nodes[name].m.Stats()
				primary, secondary = primary+s.Primary, secondary+s.Secondary
			}
			return primary, secondary
		}
		f.kill("a")
		time.Sleep(300 * time.Millisecond)
		b := f.nodes["b"]
		f.kill("b")
		f.restored(f.nodes["a"], "c", "d")
		f.restored(b, "c", "d")
		primary, secondary := count()
		// Both of the first pair were a and b: two of twelve pairs at most.
		if primary != secondary || primary < 4*sessions*3/4 {
			t.Errorf("%d primaries, %d copies, want as many of each, and at least %d", primary, secondary, 4*sessions*3/4)
		}
	})
}

// A request does not wait behind what goes on in the background, though that
// takes long and the network is slow (D7).
func TestFlushDoesNotWaitForTheRestorer(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		const sessions, size = 2000, 16 << 10
		a := f.nodes["a"]
		a.fill(sessions, make([]byte, size))
		live := &browser{t: t}
		live.count(a, 1, "a!b")
		f.kill("b") // from now on everything goes to c
		f.net.SetLatency(time.Millisecond)
		f.net.SetBandwidth(20 << 20) // 32 MiB take 1.6 s
		live.count(a, 2, "a!c")
		slowest, during := time.Duration(0), 0
		for n := 3; a.m.Redundancy().Lacking > 0; n++ {
			began := time.Now()
			live.count(a, n, "a!c")
			slowest, during = max(slowest, time.Since(began)), during+1
		}
		// A window of bulk is in front, and one session of the next.
		bound := 2*time.Millisecond + time.Second*(windowBytes+2*size)/(20<<20) + 5*time.Millisecond
		if slowest > bound || during < 20 {
			t.Errorf("of %d requests the slowest took %v, want at most %v, of at least 20", during, slowest, bound)
		}
		if s := a.m.Stats(); s.Peer.Broken > 1 {
			t.Errorf("%d connections broke, want that to b alone", s.Peer.Broken)
		}
	})
}

// A copy moves to a newcomer that ranks better, half a minute after it is ready,
// and not faster than allowed.
func TestCopiesMoveToTheBetterRanked(t *testing.T) { // D7
	t.Run("its share", func(t *testing.T) {
		bubble(t, Config{RestoreRate: 50}, "abc", func(t *testing.T, f *farm) {
			const sessions = 300
			f.nodes["a"].fill(sessions, []byte("v"))
			f.start("d")
			f.ready("d")
			time.Sleep(settleIn - time.Second)
			d := f.nodes["d"].m
			if got := d.Stats().Secondary; got != 0 {
				t.Fatalf("d holds %d copies before its time", got)
			}
			time.Sleep(2 * time.Second)
			if got := d.Stats().Secondary; got < 20 || got > 60 {
				t.Errorf("d holds %d copies after a second of moving, want about 50", got)
			}
			time.Sleep(10 * time.Second)
			total, s, r := 0, f.nodes["a"].m.Stats(), f.nodes["a"].m.Redundancy()
			for _, name := range []string{"b", "c", "d"} {
				got := f.nodes[name].m.Stats().Secondary
				total += got
				if got < sessions/3-50 || got > sessions/3+50 {
					t.Errorf("%s holds %d copies, want about a third of %d", name, got, sessions)
				}
			}
			if total != sessions || s.Primary != sessions || r.Lacking != 0 || r.Restoring {
				t.Errorf("%d copies of %d sessions, %d lacking: old copies must go when the new ones are there", total, s.Primary, r.Lacking)
			}
			f.kill("a")
			f.restored(f.nodes["a"], "b", "c", "d")
		})
	})
	t.Run("nothing is lost when the primary dies meanwhile", func(t *testing.T) {
		bubble(t, Config{RestoreRate: 100}, "abc", func(t *testing.T, f *farm) {
			const sessions = 300
			f.net.SetLatency(5 * time.Millisecond)
			f.nodes["a"].fill(sessions, []byte("v"))
			f.start("d")
			f.ready("d")
			time.Sleep(settleIn + 500*time.Millisecond)
			a := f.nodes["a"]
			f.kill("a")
			f.restored(a, "b", "c", "d")
			primary, secondary := 0, 0
			for _, name := range []string{"b", "c", "d"} {
				s := f.nodes[name].m.Stats()
				primary, secondary = primary+s.Primary, secondary+s.Secondary
			}
			if primary != sessions || secondary != sessions {
				t.Errorf("%d primaries and %d copies, want %d of each", primary, secondary, sessions)
			}
		})
	})
	t.Run("one that was there stays", func(t *testing.T) {
		bubble(t, Config{Placement: Ring}, "abd", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			f.start("c") // ranks behind b
			f.ready("c")
			time.Sleep(2 * settleIn)
			b.count(f.nodes["a"], 2, "a!b")
		})
	})
}

// A member that comes back while its sessions still wait for somebody to take its
// place is not lost any more, and there is nobody to be replaced.
func TestLostMemberReturns(t *testing.T) { // D7
	bubble(t, Config{Placement: Ring}, "ab", func(_ *testing.T, f *farm) {
		a, b := f.nodes["a"], f.nodes["b"]
		f.cfg.MaxMemory = 1 // c takes no copies
		f.start("c")
		f.ready("c")
		clients := f.clients("a", 2*windowSessions)
		f.net.SetLatency(50 * time.Millisecond)
		f.net.Cut(a.ip, b.ip)
		time.Sleep(lostAfter + 2*time.Second)
		f.net.Heal(a.ip, b.ip)
		c := &seat{f.dir, f.nodes["c"].self}
		for range 200 { // c says that it is full, and that it is not, so that all sessions are looked at
			time.Sleep(5 * time.Millisecond)
			c.SetState(cluster.Running)
			time.Sleep(5 * time.Millisecond)
			c.SetState(cluster.Overloaded)
		}
		time.Sleep(5 * time.Second)
		for _, client := range clients {
			client.count(a, 2, "a!b")
		}
	})
}

// A secondary whose primary is silent for 5 s takes over by itself, and somebody
// gets a copy, though nobody asks for the session (D7, R14): a machine that has
// lost power refuses nothing.
func TestSilentPrimaryIsReplaced(t *testing.T) {
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		f.isolate("a", "bc")
		time.Sleep(lostAfter - time.Second)
		if s := f.nodes["b"].m.Stats(); s.Primary != 0 {
			t.Errorf("after 4 s: %+v, want no primary at b", s)
		}
		time.Sleep(2 * time.Second)
		for _, name := range []string{"b", "c"} {
			s, r := f.nodes[name].m.Stats(), f.nodes[name].m.Redundancy()
			if s.Primary+s.Secondary != 1 || r.Lacking != 0 || s.Failed+s.Lost != 0 {
				t.Errorf("%s after 6 s: %+v and %+v, want the session", name, s, r)
			}
		}
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		f.net.Heal(f.nodes["a"].ip, f.nodes["c"].ip)
		time.Sleep(3 * time.Second)
		if s := f.nodes["a"].m.Stats(); s.Primary != 0 || s.Conflicts != 0 {
			t.Errorf("a after the heal: %+v, want no primary and nothing lost", s)
		}
		if got := b.count(f.nodes["a"], 2, ""); got.Lost {
			t.Errorf("%+v, want it not lost", got)
		}
	})
}

// Nobody takes over from a primary that others reach; once they do not, whoever
// has the copy does, though it hears nothing of that (R6, R14).
func TestSilentPrimaryThatOthersReach(t *testing.T) {
	own := func(name string, cfg *Config) {
		if name == "c" {
			cfg.MaxSessions = 1
		}
	}
	bubbleOf(t, Config{Placement: Ring}, own, "abc", func(t *testing.T, f *farm) {
		f.nodes["c"].fill(1, []byte("v"))
		f.nodes["b"].fill(2, []byte("v")) // then c has no room
		time.Sleep(time.Second)
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		before := f.nodes["b"].m.Stats().Primary
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		time.Sleep(2 * lostAfter)
		s, r := f.nodes["b"].m.Stats(), f.nodes["b"].m.Redundancy()
		if s.Primary != before || r.Lacking != 0 {
			t.Fatalf("b: %+v and %+v; want that it leaves the session to a", s, r)
		}
		f.net.Cut(f.nodes["a"].ip, f.nodes["c"].ip)
		time.Sleep(4 * lostAfter)
		if s := f.nodes["b"].m.Stats(); s.Primary != before+1 {
			t.Errorf("nobody reaches a: %+v, want b as the primary of %d", s, before+1)
		}
	})
}

// isolate cuts one off from others.
func (f *farm) isolate(name, others string) {
	for _, x := range others {
		f.net.Cut(f.nodes[name].ip, f.nodes[string(x)].ip)
	}
}

// A member that was full for a while, and has room again, is nobody new: what its
// neighbours hold does not move to it all at once.
func TestMemberWithRoomAgainIsNotNew(t *testing.T) { // D7, OVER-23
	bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
		a, b := f.nodes["a"], f.nodes["b"]
		time.Sleep(2 * settleIn)
		is := func() bool {
			a.m.restorer.mu.Lock()
			defer a.m.restorer.mu.Unlock()
			return a.m.restorer.ready[ownerMember(b.self)].moved
		}
		if !is() {
			t.Fatal("b has not settled")
		}
		for _, state := range []cluster.State{cluster.Overloaded, cluster.Running} {
			(&seat{f.dir, b.self}).SetState(state)
			time.Sleep(time.Second)
			if !is() {
				t.Errorf("%v: a takes b for new", state)
			}
		}
		b.m.Drain()
		time.Sleep(time.Second)
		b.m.Resume()
		f.ready("b")
		time.Sleep(time.Second)
		if is() { // it has given away all that it had
			t.Error("a does not take b for new after it has drained")
		}
	})
}
