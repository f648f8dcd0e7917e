//go:build linux

package hosts

import (
	"fmt"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// stall is the longest that a request may wait for a member that falls silent:
// one ack_timeout and the search, G8 and design 6, with room for a machine that
// is busy with something else.
const stall = 5 * time.Second

// TestInterconnect is TC-9: the replication cable of a node breaks, its service
// cable does not; then the node that serves dies.
func TestInterconnect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// broken is what becomes of a session a!b when it breaks.
		broken func(c *cluster)
		// isolated: a reaches no other node, so that its copy cannot go elsewhere.
		isolated bool
	}{
		{"a's interface down", func(c *cluster) { c.nodes["a"].down(replication) }, true},
		{"a's cable silent", func(c *cluster) { c.cut(between(replication, []string{"a"}, c.others("a"))...) }, true},
		{"b's interface down", func(c *cluster) { c.nodes["b"].down(replication) }, false},
		{"b's cable silent", func(c *cluster) { c.cut(between(replication, []string{"b"}, c.others("b"))...) }, false},
		{"a to b silent", func(c *cluster) { c.cut(between(replication, []string{"a"}, []string{"b"})...) }, false},
		{"a to b one way", func(c *cluster) { c.cut(way{replication, "a", "b"}) }, false},
		{"b to a one way", func(c *cluster) { c.cut(way{replication, "b", "a"}) }, false},
		{"b refuses a", func(c *cluster) { c.nodes["b"].refuse(replication, c.nodes["a"].host) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := setting{nodes: []string{"a", "b", "c"}, gossip: true}
			c := newCluster(t, s)
			p := c.proxy(s)
			watched := c.session(p, "a", "b")
			crowd := c.count(p, 24, 50*time.Millisecond)
			tt.broken(c)
			cut := time.Now()

			// Requests go on; the pair changes before the reply.
			waited := took(func() { watched.Count() })
			r := watched.Last()
			if waited > stall {
				t.Errorf("the first request took %v, want at most %v", waited, stall)
			}
			if want := map[bool]string{true: "NONE", false: "c"}[tt.isolated]; r.Primary != "a" || r.Secondary != want {
				t.Errorf("the pair is %s!%s, want a!%s before the reply", r.Primary, r.Secondary, want)
			}
			crowd.moving(t, stage.Patience, cut)
			elapse(2 * time.Second)
			logs := crowd.stop(t)
			to := time.Now()
			pair := func(one, other string) func(stage.Reply) bool {
				return func(r stage.Reply) bool {
					return r.Primary == one && r.Secondary == other || r.Primary == other && r.Secondary == one
				}
			}
			for _, who := range []string{"ab", "ac", "bc"} {
				saw(t, "pair %s and %s: %v", who[:1], who[1:], stage.See(cut, to, of(logs, cut, pair(who[:1], who[1:]))...))
			}
			saw(t, "one of a!b: %v", waited)
			never(t, stage.See(cut, to, logs...), stall)
			unflagged(t, logs)

			// The node that serves dies: what the copy has is served, and only
			// if nobody has it a new session that says so.
			before := watched.Last()
			c.nodes["a"].Kill()
			after := watched.Must("POST", "/counter")
			switch {
			case tt.isolated && (!after.Lost || after.Counter != 1):
				t.Errorf("%v after %v, which no other node had: want a new session, flagged lost", after, before)
			case !tt.isolated && (after.Lost || after.Counter != before.Counter+1):
				t.Errorf("%v after %v: want the session to go on", after, before)
			}
			saw(t, "after the death of a: %v after %v", after, before)
		})
	}
}

// TestInterconnectHeals is TC-9's repair: afterwards all nodes hold the same
// again, each session twice (G6), and TC-9b: while the cable was cut every
// node said whom it had lost, in its log and to whoever asked how it is.
func TestInterconnectHeals(t *testing.T) {
	t.Parallel()
	s := setting{nodes: []string{"a", "b", "c"}, gossip: true}
	c := newCluster(t, s)
	p := c.proxy(s)
	const sessions = 24
	crowd := c.count(p, sessions, 50*time.Millisecond)
	c.cut(between(replication, []string{"a"}, c.others("a"))...)
	cut := time.Now()
	for _, name := range []string{"b", "c"} {
		stage.Wait(t, name+" logs that it has lost a", func() bool {
			return c.nodes[name].Logged("member failed", `"member":"a"`)
		})
		saw(t, "%s has logged the loss of a %v after the cut", name, time.Since(cut).Round(time.Millisecond))
		c.connected(name, 1)
	}
	c.connected("a", 0)
	c.says("a", "degraded: not connected with b, c; sessions have no copies", 1)
	c.says("b", "degraded: not connected with a", 1)
	c.says("c", "degraded: not connected with a", 1)
	crowd.moving(t, stage.Patience, cut)
	c.heal()
	healed := time.Now()
	c.settled("a", "b", "c")
	for _, name := range s.nodes {
		c.says(name, "ok", 0)
	}
	saw(t, "all connected %v after the repair", time.Since(healed).Round(time.Millisecond))
	crowd.moving(t, stage.Patience, healed)
	logs := crowd.stop(t)
	saw(t, "%v", stage.See(cut, time.Now(), logs...))
	never(t, stage.See(cut, time.Now(), logs...), stall)
	unflagged(t, logs)
	c.whole(sessions)
	saw(t, "each session has its two holders %v after the repair", time.Since(healed).Round(time.Millisecond))
}

// says waits until a node answers with this when it is asked how it is, and its
// metrics with that.
func (c *cluster) says(name, want string, degraded float64) {
	c.t.Helper()
	stage.Wait(c.t, fmt.Sprintf("node %s says %q, and %v in its metrics", name, want, degraded), func() bool {
		page, err := stage.Page(c.t.Context(), adminPage+"/healthz", c.nodes[name].dial)
		return err == nil && page == want+"\n" && c.metric(name, "understudy_replication_degraded") == degraded
	})
}

// whole waits until so many sessions have one primary and one secondary each.
func (c *cluster) whole(sessions int) {
	c.t.Helper()
	var held string
	names := c.survivors()
	defer func() {
		if c.t.Failed() {
			c.t.Log(held)
		}
	}()
	stage.Wait(c.t, fmt.Sprintf("%d sessions have one primary and one secondary each", sessions), func() bool {
		primaries := c.sum(`understudy_sessions{role="primary"}`, names...)
		secondaries := c.sum(`understudy_sessions{role="secondary"}`, names...)
		held = fmt.Sprintf("there are %v primaries and %v secondaries", primaries, secondaries)
		return primaries == float64(sessions) && secondaries == float64(sessions)
	})
}

// TestFrozen is FAIL-8 and G3: a node is frozen (SIGSTOP) for longer than
// gossip's patience and goes on. While it stands still others serve; when it
// goes on it serves nothing that is old, and is a member again.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for _, gossip := range []bool{true, false} {
		t.Run(fmt.Sprintf("gossip=%v", gossip), func(t *testing.T) {
			t.Parallel()
			s := setting{nodes: []string{"a", "b", "c"}, gossip: gossip, lb: soon}
			c := newCluster(t, s)
			p := c.proxy(s)
			const sessions = 24
			crowd := c.count(p, sessions, 50*time.Millisecond)
			c.nodes["a"].Freeze()
			cut := time.Now()
			crowd.moving(t, stage.Patience, cut)
			moved := time.Now()
			stage.Wait(t, "b has lost a", func() bool { return c.nodes["b"].Logged("member failed", `"member":"a"`) })
			elapse(2 * time.Second)
			c.nodes["a"].Thaw()
			thawed := time.Now()
			c.settled("a", "b", "c")
			settled := time.Since(thawed)
			stage.WaitFor(t, 2*stage.Patience, "the node gets new sessions again", func() bool {
				return c.client(p).Count().Node == "a"
			})
			back := time.Since(thawed)
			crowd.moving(t, stage.Patience, thawed)
			logs := crowd.stop(t)
			see := func(who string, from, to time.Time, ok func(stage.Reply) bool) {
				saw(t, "%s: %v", who, stage.See(from, to, of(logs, cut, ok)...))
			}
			isPrimary := func(r stage.Reply) bool { return r.Primary == "a" }
			isSecondary := func(r stage.Reply) bool { return r.Secondary == "a" }
			neither := func(r stage.Reply) bool { return r.Primary != "a" && r.Secondary != "a" }
			see("primary frozen", cut, moved, isPrimary)
			see("primary frozen, later", moved, thawed, isPrimary)
			see("secondary frozen", cut, moved, isSecondary)
			see("secondary frozen, later", moved, thawed, isSecondary)
			see("all others", cut, thawed, neither)
			saw(t, "%v", stage.See(thawed, time.Now(), logs...))
			saw(t, "connected %v after it went on, new sessions after %v", settled.Round(time.Millisecond), back.Round(time.Millisecond))
			never(t, stage.See(cut, time.Now(), logs...), stall)
			unflagged(t, logs)
		})
	}
}

// TestShortFreeze freezes and thaws a node again and again, for less than
// anybody's patience and for a little more: no acknowledged count is lost, and
// nobody waits for long.
func TestShortFreeze(t *testing.T) {
	t.Parallel()
	s := setting{nodes: []string{"a", "b", "c"}, gossip: true}
	c := newCluster(t, s)
	p := c.proxy(s)
	crowd := c.count(p, 24, 20*time.Millisecond)
	begin := time.Now()
	for i := range 12 {
		n := c.nodes[s.nodes[i%3]]
		n.Freeze()
		elapse(time.Duration(200+100*i) * time.Millisecond)
		n.Thaw()
		elapse(500 * time.Millisecond)
	}
	crowd.moving(t, stage.Patience, time.Now())
	logs := crowd.stop(t)
	seen := stage.See(begin, time.Now(), logs...)
	saw(t, "%v", seen)
	never(t, seen, 2*stall)
	unflagged(t, logs)
}
