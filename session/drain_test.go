package session

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// stop ends a member as SIGTERM does, and returns how many sessions were left.
func (f *farm) stop(name string, timeout time.Duration) (left int) {
	f.t.Helper()
	n := f.nodes[name]
	ctx, cancel := context.WithTimeout(f.t.Context(), timeout)
	defer cancel()
	n.m.Drain()
	left = n.m.HandOver(ctx)
	if err := n.m.Close(f.t.Context()); err != nil {
		f.t.Errorf("close %s: %v", name, err)
	}
	n.host.Kill()
	f.dir.remove(n.self.ID(), true)
	return left
}

// seat gives each of n clients a session at the member.
func (f *farm) clients(name string, n int) (all []*browser) {
	for range n {
		b := &browser{t: f.t}
		b.count(f.nodes[name], 1, "")
		all = append(all, b)
	}
	return all
}

// sum adds up what these members hold.
func (f *farm) sum(names ...string) (s Stats) {
	for _, name := range names {
		is := f.nodes[name].m.Stats()
		s.Primary, s.Secondary, s.Lost = s.Primary+is.Primary, s.Secondary+is.Secondary, s.Lost+is.Lost
	}
	return s
}

// A member that drains hands over sessions that nobody uses, and copies; then it
// can go.
func TestDrain(t *testing.T) { // SESS-39, R16
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		const sessions = 200
		clients := map[string][]*browser{}
		for _, name := range []string{"a", "b", "c"} {
			clients[name] = f.clients(name, sessions)
		}
		if left := f.stop("a", time.Minute); left != 0 {
			t.Fatalf("%d sessions are left at a", left)
		}
		if s := f.sum("b", "c"); s.Primary != 3*sessions || s.Secondary != 3*sessions {
			t.Errorf("%d primaries and %d copies, want %d of each", s.Primary, s.Secondary, 3*sessions)
		}
		if takes := f.nodes["b"].m.Stats().Takes + f.nodes["c"].m.Stats().Takes; takes != sessions {
			t.Errorf("%d take-overs, want %d: the sessions of a alone", takes, sessions)
		}
		f.kill("b") // whoever was handed over has a copy again
		for _, name := range []string{"a", "b", "c"} {
			for _, b := range clients[name] {
				b.count(f.nodes["c"], 2, "c!")
			}
		}
	})
}

// What a member that drains still has it serves; what it has not any more, and
// what it never had, it does not.
func TestDrainServesWhatIsLeft(t *testing.T) { // SESS-39, D8
	bubble(t, Config{Placement: Ring, RestoreRate: 1}, "abc", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		clients := f.clients("a", 10)
		a.m.Drain()
		time.Sleep(2500 * time.Millisecond)
		left := a.m.Stats().Primary
		if left == 0 || left == len(clients) {
			t.Fatalf("a has %d of %d sessions, want some", left, len(clients))
		}
		served := 0
		for _, b := range clients {
			got := b.get(a, "/counter")
			switch {
			case got.code == http.StatusOK && got.Counter == 2 && got.Primary == "a":
				served++
			case got.header.Get(NotExecuted) == "draining":
				b.count(f.nodes["b"], 2, "")
			default:
				t.Errorf("at a: %+v", got)
			}
		}
		if served != left {
			t.Errorf("a has served %d, want the %d that it has", served, left)
		}
		refused(t, (&browser{t: t}).get(a, "/counter"), "draining")
		if left := f.stop("a", time.Minute); left != 0 {
			t.Errorf("%d sessions are left", left)
		}
		for _, b := range clients {
			b.count(f.nodes["b"], 3, "b!c")
		}
	})
}

// Rolling restarts: all members one after the other, while clients count.
func TestRollingRestart(t *testing.T) { // SESS-39
	rounds, riders := 3, 12
	if testing.Short() {
		rounds = 1
	}
	bubble(t, Config{}, "abcd", func(t *testing.T, f *farm) {
		f.net.SetLatency(200 * time.Microsecond)
		names := []string{"a", "b", "c", "d"}
		idle := f.clients("a", 100)
		done := make(chan struct{})
		var wg sync.WaitGroup
		all := make([]*rider, riders)
		for i := range all {
			r := newRider(t, uint64(i))
			all[i] = r
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					r.ride(f, names)
					time.Sleep(time.Duration(5+r.rand.IntN(20)) * time.Millisecond)
				}
			})
		}
		for range rounds {
			for _, name := range names {
				time.Sleep(time.Second)
				if left := f.stop(name, 30*time.Second); left != 0 {
					t.Errorf("%d sessions were left at %s", left, name)
				}
				f.start(name)
				f.ready(name)
			}
		}
		close(done)
		wg.Wait()
		requests := 0
		for _, r := range all {
			requests += r.last
			if r.lost != 0 || r.failures != 0 {
				t.Errorf("a client: %d replies flagged, %d requests failed", r.lost, r.failures)
			}
		}
		for _, b := range idle {
			if got := b.get(f.nodes["d"], "/counter"); got.Counter != 2 || got.Lost {
				t.Fatalf("an idle session: %+v", got)
			}
		}
		if requests < 100 {
			t.Errorf("%d requests: hardly a load", requests)
		}
	})
}

// Things go wrong while a member hands over.
func TestTroubleWhileHandingOver(t *testing.T) { // SESS-39
	const sessions = 100
	slow := Config{RestoreRate: 100}
	begin := func(f *farm) (clients []*browser) {
		clients = f.clients("a", sessions)
		f.nodes["a"].m.Drain()
		time.Sleep(300 * time.Millisecond)
		if left := f.nodes["a"].m.Stats().Primary; left < 10 || left > sessions-10 {
			f.t.Fatalf("%d of %d left, want some", left, sessions)
		}
		return clients
	}
	t.Run("who drains dies", func(t *testing.T) {
		bubble(t, slow, "abc", func(t *testing.T, f *farm) {
			clients := begin(f)
			a := f.nodes["a"]
			f.kill("a")
			f.restored(a, "b", "c")
			for _, b := range clients {
				b.count(f.nodes["c"], 2, "")
			}
			if s := f.sum("b", "c"); s.Primary != sessions || s.Secondary != sessions {
				t.Errorf("%d primaries, %d copies", s.Primary, s.Secondary)
			}
		})
	})
	t.Run("who takes over dies", func(t *testing.T) {
		bubble(t, slow, "abcd", func(t *testing.T, f *farm) {
			clients := begin(f)
			f.kill("b")
			if left := f.stop("a", time.Minute); left != 0 {
				t.Errorf("%d sessions are left", left)
			}
			lost := 0
			for _, b := range clients {
				if got := b.get(f.nodes["c"], "/counter"); got.Counter != 2 || got.Lost {
					lost++
				}
			}
			if lost != 0 { // a had them or their copies
				t.Errorf("%d sessions are lost", lost)
			}
		})
	})
	t.Run("the link to who takes over is cut", func(t *testing.T) {
		bubble(t, slow, "abc", func(t *testing.T, f *farm) {
			clients := begin(f)
			f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
			f.stop("a", time.Minute)
			if s := f.nodes["a"].m.Stats(); s.Primary != 0 { // of copies of b's it cannot know that they are not needed
				t.Errorf("%d sessions are left", s.Primary)
			}
			for _, b := range clients {
				b.count(f.nodes["c"], 2, "")
			}
		})
	})
	t.Run("the link is cut and heals", func(t *testing.T) {
		bubble(t, slow, "abc", func(t *testing.T, f *farm) {
			clients := begin(f)
			f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
			time.Sleep(2 * time.Second)
			f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
			if left := f.stop("a", time.Minute); left != 0 {
				t.Errorf("%d sessions are left", left)
			}
			for _, b := range clients {
				b.count(f.nodes["b"], 2, "")
			}
		})
	})
	t.Run("two drain at once", func(t *testing.T) {
		bubble(t, slow, "abcd", func(t *testing.T, f *farm) {
			clients := append(begin(f), f.clients("b", sessions)...)
			f.nodes["b"].m.Drain()
			for _, name := range []string{"a", "b"} {
				if left := f.stop(name, time.Minute); left != 0 {
					t.Errorf("%d sessions are left at %s", left, name)
				}
			}
			if s := f.sum("c", "d"); s.Primary != 2*sessions || s.Secondary != 2*sessions {
				t.Errorf("%d primaries, %d copies, want %d of each", s.Primary, s.Secondary, 2*sessions)
			}
			for _, b := range clients {
				b.count(f.nodes["c"], 2, "c!d")
			}
		})
	})
	t.Run("two of three drain at once", func(t *testing.T) {
		bubble(t, slow, "abc", func(t *testing.T, f *farm) {
			clients := append(begin(f), f.clients("b", sessions)...)
			f.nodes["b"].m.Drain()
			began := time.Now()
			f.stop("a", time.Minute)
			f.stop("b", time.Minute)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v, as if copies could go somewhere", took)
			}
			for _, b := range clients {
				b.count(f.nodes["c"], 2, "c!")
			}
		})
	})
	t.Run("the last one drains", func(t *testing.T) {
		bubble(t, slow, "a", func(t *testing.T, f *farm) {
			f.clients("a", sessions)
			began := time.Now()
			if left := f.stop("a", time.Minute); left != sessions || time.Since(began) > time.Second {
				t.Errorf("%d left after %v, want all at once: there is nobody to take them", left, time.Since(began))
			}
		})
	})
	t.Run("time is up", func(t *testing.T) {
		bubble(t, Config{RestoreRate: 1}, "abc", func(t *testing.T, f *farm) {
			clients := f.clients("a", sessions)
			a := f.nodes["a"]
			if left := f.stop("a", 5*time.Second); left < sessions/2 {
				t.Errorf("%d left, want most", left)
			}
			time.Sleep(lostAfter)
			for _, b := range clients { // they have copies
				b.count(f.nodes["b"], 2, "")
			}
			f.restored(a, "b")
		})
	})
}

// Who drains does not go with the last copy of a session whose primary has fallen
// silent or died meanwhile: it takes over, and hands over.
func TestDrainBesideADeath(t *testing.T) { // SESS-39, R14, R16
	for _, how := range []string{"silent", "killed"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, Config{Placement: Ring}, "abc", func(_ *testing.T, f *farm) {
				clients := f.clients("a", 50) // a!b
				f.nodes["b"].m.Drain()
				if how == "silent" {
					f.isolate("a", "bc")
				} else {
					f.kill("a")
				}
				f.stop("b", time.Minute)
				for _, b := range clients {
					b.count(f.nodes["c"], 2, "")
				}
			})
		})
	}
}

// An operator thinks better of it.
func TestResume(t *testing.T) { // SESS-39
	bubble(t, Config{}, "abc", func(t *testing.T, f *farm) {
		a := f.nodes["a"]
		clients := f.clients("a", 50)
		a.m.Drain()
		if left := a.m.HandOver(t.Context()); left != 0 {
			t.Fatalf("%d left", left)
		}
		refused(t, (&browser{t: t}).get(a, "/counter"), "draining")
		a.m.Resume()
		f.ready("a")
		(&browser{t: t}).count(a, 1, "")
		for _, b := range clients {
			b.count(a, 2, "") // it fetches them, as any member does
		}
		for _, name := range []string{"b", "c"} {
			for _, m := range f.nodes[name].m.cluster.Members() {
				if m.Name == "a" && m.State.String() != "running" {
					t.Errorf("%s takes a for %v", name, m.State)
				}
			}
		}
		time.Sleep(settleIn + time.Second)
		f.clients("b", 50)
		if got := a.m.Stats().Secondary; got == 0 {
			t.Error("a gets no copies")
		}
	})
}

// A member that leaves does not wait for copies that only it can hold, however
// many copies each session is to have.
func TestDrainWithSeveralSecondaries(t *testing.T) { // SESS-39, R16
	bubble(t, Config{Secondaries: 2}, "abc", func(t *testing.T, f *farm) {
		clients := f.clients("a", 20)
		began := time.Now()
		left := f.stop("b", time.Minute)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("handed over in %v, with %d left; want no longer than it takes", took, left)
		}
		f.kill("a")
		for _, client := range clients {
			client.count(f.nodes["c"], 2, "c!")
		}
	})
}
