//go:build linux

package hosts

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// evaluation are the settings of the seed's evaluation (seeds.md 7.2).
var evaluation = []string{"socket_timeout=3", "prepost_timeout=500", "reply_timeout=10000", "retries=3"}

// soon makes a balancer without gossip try a failed member again in test time;
// mod_jk's default is a minute.
var soon = []string{"recover_time=3"}

// TestCable is TC-4: the cable between the proxy and the primary is cut
// silently, and restored. With "alone" the primary is cut off from the other
// nodes as well.
func TestCable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		s     setting
		alone bool
		// With "long" the cut lasts longer than anybody waits before sessions
		// get new places (D7), and the node that is alone is asked itself.
		long bool
		// The longest that any request may take. The seed's settings: per try
		// a probe of 0.5 s and a connect of 3 s, three tries, 0.1 s between them.
		longest time.Duration
	}{
		{"evaluation", setting{member: evaluation, lb: soon}, false, false, 14 * time.Second},
		{"evaluation, alone", setting{member: evaluation, lb: soon}, true, true, 14 * time.Second},
		{"defaults", setting{lb: soon}, false, false, 5 * time.Second},
		{"defaults, alone", setting{lb: soon}, true, false, 5 * time.Second},
		{"defaults, alone for long", setting{lb: soon}, true, true, 5 * time.Second},
		{"defaults with gossip", setting{gossip: true}, false, false, 5 * time.Second},
		{"defaults with gossip, alone", setting{gossip: true}, true, false, 5 * time.Second},
		{"defaults with gossip, alone for long", setting{gossip: true}, true, true, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.s.nodes = []string{"a", "b", "c"}
			c := newCluster(t, tt.s)
			p := c.proxy(tt.s)
			crowd := c.count(p, 12, 100*time.Millisecond)
			idle := c.client(p) // its connection is idle when the cable is cut
			victim := c.protected(idle).Primary
			lonely := c.session(p, victim, "")
			old := c.client(p)
			old.SharedWith(idle) // a window that is forgotten until the repair
			elapse(1500 * time.Millisecond)

			ways := between(service, []string{victim}, []string{"p1"})
			if tt.alone {
				ways = append(ways, between(replication, []string{victim}, c.others(victim))...)
			}
			c.cut(ways...)
			cut := time.Now()
			was := idle.Last()
			first := idle.Must(http.MethodGet, "/peek")
			waited := time.Since(cut)
			if first.Node == victim || first.Lost || first.Counter != was.Counter {
				t.Errorf("the first reply is %v, want that of another node than %s, after %v", first, victim, was)
			}
			crowd.moving(t, 2*stage.Patience, cut)
			moved := time.Now()
			elapse(time.Second)
			if tt.long {
				elapse(10 * time.Second)
				lonely.Must(http.MethodPost, "/counter")
				c.direct(victim, lonely, false)
			}

			c.heal()
			healed := time.Now()
			stage.WaitFor(t, 2*stage.Patience, "the node behind the cable gets new sessions again", func() bool {
				return c.client(p).Count().Node == victim
			})
			back := time.Since(healed)
			if tt.long {
				c.settled(tt.s.nodes...)
				c.direct(victim, idle, true)
				c.direct(victim, old, true)
			}
			idle.CountN(3)
			logs := crowd.stop(t)

			its := of(logs, cut, func(r stage.Reply) bool { return r.Primary == victim })
			rest := of(logs, cut, func(r stage.Reply) bool { return r.Primary != victim && r.Secondary != victim })
			seen := stage.See(cut, moved, its...)
			saw(t, "its clients: %v", seen)
			saw(t, "its clients, later: %v", stage.See(moved, healed, its...))
			saw(t, "clients of the other two: %v", stage.See(cut, healed, rest...))
			saw(t, "one whose connection was idle: %v; the node gets new sessions %v after the repair", waited.Round(time.Millisecond), back.Round(time.Millisecond))
			never(t, stage.See(cut, time.Now(), logs...), tt.longest)
			unflagged(t, logs)
		})
	}
}

// direct is SESS-37: who asks a node itself, past the proxy, with the session
// of a client that has counted up to its last reply, does not get an older
// state of it without a word. If connected, the node has to fetch the newest.
func (c *cluster) direct(node string, client *stage.Client, connected bool) {
	c.t.Helper()
	window := stage.NewClient(c.t, c.nodes[node].addr(service)+":"+port, giveUp, c.clients.dial)
	window.SharedWith(client)
	r, err := window.Do(c.t.Context(), http.MethodGet, "/peek")
	switch {
	case err != nil && connected:
		c.t.Errorf("%s itself: %v", node, err)
	case err != nil:
		saw(c.t, "%s itself, cut off: %v", node, err)
	case connected && (r.Lost || r.Counter < client.Last().Counter) || !r.Lost && r.Counter < client.Last().Counter:
		c.t.Errorf("%s itself: %v, after %v was acknowledged", node, r, client.Last())
	default:
		saw(c.t, "%s itself, connected %v: %v after %v", node, connected, r, client.Last())
	}
}

// TestTimeouts is TC-4b: what the three time-outs of the evaluation mean.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	s := setting{nodes: []string{"a", "b", "c"}, member: evaluation}

	// (a) Nobody answers the connect: 3 s each, three tries.
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, s)
		p := c.proxy(s)
		fresh := c.proxy(s) // has no connection to any node
		client := c.client(p)
		victim := c.protected(client).Primary
		c.cut(between(service, []string{victim}, []string{"p2"})...)
		client.Base = "http://" + fresh.addr(service) + ":" + port
		first := took(func() { client.Count() })
		later := took(func() { client.Count() })
		saw(t, "the first request: %v, the next: %v", first, later)
		if first < 3*3*time.Second || first > 14*time.Second {
			t.Errorf("the first request took %v, want three times 3s and not much more", first)
		}
		if later > 3*time.Second {
			t.Errorf("the next request took %v: the node is known to be in error", later)
		}
	})

	// (b) The connection stands, the probe before the request is not answered:
	// 0.5 s each, on the kept connection and on new ones.
	t.Run("probe", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, s)
		p := c.proxy(s)
		client := c.client(p)
		r := c.protected(client)
		frozen := c.nodes[r.Primary]
		frozen.Freeze()
		begin := time.Now()
		r = client.Count()
		first := time.Since(begin)
		later := took(func() { client.Count() })
		frozen.Thaw()
		saw(t, "the first request: %v, the next: %v", first, later)
		if first < 500*time.Millisecond || first > 6*time.Second {
			t.Errorf("the first request took %v, want some probes of 0.5s, and a copy that is given up", first)
		}
		if r.Node == frozen.name {
			t.Errorf("served by %s, which was frozen", r.Node)
		}
		elapse(2 * time.Second)
		client.CountN(3)
	})

	// (c) The request is taken and not answered: 10 s, then 504, or once more by
	// method. What takes 9 s is not cut.
	t.Run("reply", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, s)
		p := c.proxy(s)
		tests := []struct {
			method, path string
			want         int
			min, max     time.Duration
		}{
			{http.MethodPost, "/sleep?ms=9000", http.StatusOK, 9 * time.Second, 10 * time.Second},
			{http.MethodGet, "/sleep?ms=9000", http.StatusOK, 9 * time.Second, 10 * time.Second},
			{http.MethodPost, "/stuck", http.StatusGatewayTimeout, 10 * time.Second, 16 * time.Second},
			{http.MethodGet, "/stuck", http.StatusGatewayTimeout, 20 * time.Second, 26 * time.Second},
		}
		var wg sync.WaitGroup
		for _, tt := range tests {
			client := c.client(p)
			c.protected(client)
			wg.Go(func() {
				code, took := status(client, tt.method, tt.path)
				saw(t, "%s %s: %d after %v", tt.method, tt.path, code, took.Round(time.Millisecond))
				if code != tt.want || took < tt.min || took > tt.max {
					t.Errorf("%s %s: %d after %v, want %d after %v to %v", tt.method, tt.path, code, took, tt.want, tt.min, tt.max)
				}
			})
		}
		wg.Wait()
	})
}

// took is how long f takes.
func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin).Round(time.Millisecond)
}

// TestRefused: the node refuses the proxy's connections (a rule of a firewall,
// a process that is gone while the host is there): any method goes to the next
// member without a pause (D8, PLUG-100).
func TestRefused(t *testing.T) {
	t.Parallel()
	s := setting{nodes: []string{"a", "b", "c"}, gossip: true}
	c := newCluster(t, s)
	p := c.proxy(s)
	crowd := c.count(p, 12, 50*time.Millisecond)
	victim := c.nodes["a"]
	victim.refuse(service, p.host)
	cut := time.Now()
	crowd.moving(t, stage.Patience, cut)
	elapse(time.Second)
	victim.admit()
	healed := time.Now()
	stage.WaitFor(t, 2*stage.Patience, "the node gets new sessions again", func() bool {
		return c.client(p).Count().Node == "a"
	})
	back := time.Since(healed)
	logs := crowd.stop(t)
	its := of(logs, cut, func(r stage.Reply) bool { return r.Primary == "a" })
	saw(t, "its clients: %v", stage.See(cut, healed, its...))
	saw(t, "all clients: %v", stage.See(cut, healed, logs...))
	saw(t, "the node gets new sessions %v after the repair", back.Round(time.Millisecond))
	never(t, stage.See(cut, healed, logs...), 5*time.Second)
	unflagged(t, logs)
}

// TestOneWayService: only one direction between the proxy and a node is cut.
// What the node gets it may run, so that a request which fails is done or not.
func TestOneWayService(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		ways func(node string) []way
	}{
		{"requests are lost", func(node string) []way { return []way{{service, "p1", node}} }},
		{"replies are lost", func(node string) []way { return []way{{service, node, "p1"}} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := setting{nodes: []string{"a", "b", "c"}, gossip: true}
			c := newCluster(t, s)
			p := c.proxy(s)
			crowd := c.count(p, 12, 50*time.Millisecond)
			c.cut(tt.ways("a")...)
			cut := time.Now()
			crowd.moving(t, 2*stage.Patience, cut)
			moved := time.Now()
			elapse(2 * time.Second)
			c.heal()
			healed := time.Now()
			stage.WaitFor(t, 2*stage.Patience, "the node gets new sessions again", func() bool {
				return c.client(p).Count().Node == "a"
			})
			back := time.Since(healed)
			logs := crowd.stop(t)
			its := of(logs, cut, func(r stage.Reply) bool { return r.Primary == "a" })
			saw(t, "its clients: %v", stage.See(cut, moved, its...))
			saw(t, "its clients, later: %v", stage.See(moved, healed, its...))
			saw(t, "all others: %v", stage.See(cut, healed, of(logs, cut, func(r stage.Reply) bool { return r.Primary != "a" })...))
			saw(t, "the node gets new sessions %v after the repair", back.Round(time.Millisecond))
			never(t, stage.See(cut, time.Now(), logs...), 5*time.Second)
			unflagged(t, logs)
		})
	}
}

// survivors are the nodes that run.
func (c *cluster) survivors() []string {
	var names []string
	for name, n := range c.nodes {
		if n.Running() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
