package proxy

import (
	"net/http"
	"slices"
	"time"
)

// announce wakes the requests that wait for a change of what gossip says.
// g.mu must be held.
func (g *gossip) announce() {
	if g.changed != nil {
		close(g.changed)
	}
	g.changed = make(chan struct{})
}

// A restoration is what a request waits for that was in flight when a member died,
// and so may have killed it (design D8): that each session has two holders again,
// so that another death would lose none.
type restoration struct {
	dead   []uint64 // boots that died, or vanished meanwhile
	living []boot   // boots that gossip named when it began, and that may hold sessions
}

// A boot is one start of a node.
type boot struct {
	route string
	id    uint64
}

// begin notes who has to recover from the death of a boot.
func (g *gossip) begin(dead uint64) (r restoration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.dead = append(r.dead, dead)
	for route, m := range g.known {
		if m.ID != dead && m.State != Starting {
			r.living = append(r.living, boot{route, m.ID})
		}
	}
	return r
}

// A verdict is how a restoration stands.
type verdict uint8

const (
	unrestored verdict = iota // somebody has not said yet that it has recovered
	restored
	hopeless // fewer than two members are left: the request may not be risked
)

// look says how r stands, and what to wait for if that is unrestored. Who is lost
// while r waits has to be recovered from as well.
func (g *gossip) look(r *restoration) (v verdict, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.living = slices.DeleteFunc(r.living, func(b boot) bool {
		gone := g.known[b.route].ID != b.id
		if gone {
			r.dead = append(r.dead, b.id)
		}
		return gone
	})
	if len(r.living) < minOthers {
		return hopeless, nil
	}
	for _, b := range r.living {
		said := g.known[b.route].Restored
		for _, dead := range r.dead {
			if !slices.Contains(said, dead) {
				return unrestored, g.changed
			}
		}
	}
	return restored, nil
}

// minOthers is how many members must live beside one that died before a request
// is sent on that may have killed it.
const minOthers = 2

// awaitRestored waits, at most for resend_wait, until the cluster has recovered
// from the death of the boot that x was sent to, and says where x goes then: on,
// or nowhere, because that was not in time or the client has gone.
func (x *exchange) awaitRestored() whither {
	p := x.p
	p.counts.held.Add(1)
	r := p.gossip.begin(x.boot)
	until := time.Now().Add(x.within(p.resendWait))
	t := time.NewTimer(0)
	defer t.Stop()
	for step := watchFirst; ; step = min(2*step, watchLast) {
		v, changed := p.gossip.look(&r)
		left := time.Until(until)
		switch {
		case v == restored:
			return nextRestored
		case v == hopeless || left <= 0:
			p.counts.unrestored.Add(1)
			if x.overdue() {
				x.failure, x.status = x.failed(failOverdue, errOverdue), http.StatusGatewayTimeout
			}
			return giveUp
		}
		t.Reset(min(step, left))
		select {
		case <-changed:
		case <-t.C:
			if x.out.gone() {
				x.failure, x.status = x.failed(failGone, errGone), statusClientGone
				return cutClient
			}
		case <-p.ctx.Done():
			return giveUp
		}
	}
}
