package e2e

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// exchange is one request of a counting client, for the judgement afterwards.
type exchange struct {
	start, end time.Time
	primary    string // of the session, by the reply before
	err        error
}

// counting counts until stop is closed, keeping the account of design 5: after
// an error it reads /peek and accepts that the lost reply's change was made or
// not; never a value below the last acknowledged one.
//
// It thinks between two requests: a client that always waits for a reply would
// tell nothing about those that have nothing in flight when a node dies.
func counting(c *client, think time.Duration, stop <-chan struct{}) (log []exchange, faults []string) {
	ctx := context.Background()
	expect := c.last.Counter
	for {
		select {
		case <-stop:
			return log, faults
		default:
		}
		x := exchange{start: time.Now(), primary: c.last.Primary}
		r, err := c.do(ctx, http.MethodPost, "/counter")
		x.end, x.err = time.Now(), err
		log = append(log, x)
		if err == nil {
			pause(think)
			if r.Counter != expect+1 || r.Lost {
				faults = append(faults, "counted "+describe(r, expect))
			}
			expect = r.Counter
			continue
		}
		for {
			if r, err = c.do(ctx, http.MethodGet, "/peek"); err == nil {
				break
			}
			faults = append(faults, "peek after an error: "+err.Error())
			pause(50 * time.Millisecond)
			select {
			case <-stop:
				return log, faults
			default:
			}
		}
		if r.Lost || (r.Counter != expect && r.Counter != expect+1) {
			faults = append(faults, "after an error "+describe(r, expect))
		}
		expect = r.Counter
	}
}

func describe(r reply, acknowledged int) string {
	return time.Now().Format("15:04:05.000") + " " + r.Node + " says " + r.Primary + "!" + r.Secondary + "!" + r.Epoch +
		" counter " + strconv.Itoa(r.Counter) + " after acknowledged " + strconv.Itoa(acknowledged)
}

// TestKillUnderLoad kills the primary of a client 20 times under 50 counting
// clients, three other nodes alive. No request fails that was not in flight on
// the dead node, and no acknowledged count is lost.
func TestKillUnderLoad(t *testing.T) {
	kills, clients := 20, 50
	s := newStage(t, "a", "b", "c", "d")
	p := s.proxy(s.workers("a", "b", "c", "d"), true)
	names := []string{"a", "b", "c", "d"}
	var next []time.Duration // from a death to the next good reply, of clients with nothing in flight
	failed := 0
	cs := make([]*client, clients)
	for i := range cs {
		cs[i] = newClient(t, p.listen)
		cs[i].protected(s)
	}
	for k := range kills {
		victim := s.nodes[names[k%len(names)]]
		stop := make(chan struct{})
		logs := make([][]exchange, clients)
		faults := make([][]string, clients)
		var wg sync.WaitGroup
		for i, c := range cs {
			wg.Go(func() { logs[i], faults[i] = counting(c, time.Duration(i%5)*10*time.Millisecond, stop) })
		}
		pause(300 * time.Millisecond) // of undisturbed load
		before := time.Now()
		victim.kill()
		dead := time.Now()
		pause(700 * time.Millisecond) // of load after the death
		close(stop)
		wg.Wait()
		for i := range cs {
			for _, f := range faults[i] {
				t.Errorf("kill %d of %s, client %d: %s", k, victim.name, i, f)
			}
			for j, x := range logs[i] {
				switch {
				case x.err != nil && (x.primary != victim.name || x.start.After(dead) || x.end.Before(before)):
					t.Errorf("kill %d of %s, client %d: a request that was not in flight there failed: primary %s, started %v after the death: %v",
						k, victim.name, i, x.primary, x.start.Sub(dead), x.err)
				case x.err != nil:
					failed++
				case x.primary == victim.name && x.start.After(dead) && (j == 0 || logs[i][j-1].err == nil):
					next = append(next, x.end.Sub(dead))
				}
			}
		}
		s.launch(victim)
		s.ready(victim.name)
		for _, c := range cs {
			c.protected(s) // redundancy is restored before the next death
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

// pause lets load run: the one thing here that is measured in time.
func pause(d time.Duration) { time.Sleep(d) }
