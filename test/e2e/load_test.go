package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestKillUnderLoad kills the primary of a client 20 times under 50 counting
// clients, three other nodes alive. No request fails that was not in flight on
// the dead node, and no acknowledged count is lost.
func TestKillUnderLoad(t *testing.T) {
	kills, clients := 20, 50
	s := newCluster(t, "a", "b", "c", "d")
	p := s.proxy(s.workers("a", "b", "c", "d"), true)
	names := []string{"a", "b", "c", "d"}
	var next []time.Duration // from a death to the next good stage.Reply, of clients with nothing in flight
	failed := 0
	cs := make([]*client, clients)
	for i := range cs {
		cs[i] = s.client(p.listen)
		cs[i].protected()
	}
	for k := range kills {
		victim := s.nodes[names[k%len(names)]]
		counting := make([]*stage.Counting, clients)
		for i, c := range cs {
			// It thinks between two requests: a client that always waits for a reply
			// would tell nothing about those that have nothing in flight when a node
			// dies.
			counting[i] = stage.StartCounting(c.Client, time.Duration(i%5)*10*time.Millisecond)
		}
		stage.Sleep(t.Context(), 300*time.Millisecond) // of undisturbed load
		before := time.Now()
		victim.Kill()
		dead := time.Now()
		stage.Sleep(t.Context(), 700*time.Millisecond) // of load after the death
		for i := range counting {
			log := counting[i].Stop()
			for j, x := range log {
				if x.Fault != "" {
					t.Errorf("kill %d of %s, client %d: %s", k, victim.name, i, x.Fault)
				}
				primary := x.Before.Primary
				switch {
				case x.Err != nil && (primary != victim.name || x.Start.After(dead) || x.End.Before(before)):
					t.Errorf("kill %d of %s, client %d: a request that was not in flight there failed: primary %s, started %v after the death: %v",
						k, victim.name, i, primary, x.Start.Sub(dead), x.Err)
				case x.Err != nil:
					failed++
				case primary == victim.name && x.Start.After(dead) && (j == 0 || log[j-1].Err == nil):
					next = append(next, x.End.Sub(dead))
				}
			}
		}
		s.launch(victim)
		s.ready(victim.name)
		for _, c := range cs {
			c.protected() // redundancy is restored before the next death
		}
		if t.Failed() {
			return
		}
	}
	slices.Sort(next)
	if len(next) == 0 {
		t.Fatal("no session had its primary on a node that was killed")
	}
	t.Logf("%d kills, %d requests in flight on a dead node failed; time to the next good reply: median %v, worst %v (%d samples)",
		kills, failed, next[len(next)/2], next[len(next)-1], len(next))
}
