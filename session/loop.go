package session

import (
	"context"
	"maps"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

func (m *Manager) wake() { m.timers.wake() }

const (
	// patience is how long a starting member waits for one that gossip says
	// lives and that cannot be reached.
	patience = 5 * time.Second

	// keepDialling is how long a member is dialled that gossip has lost: that
	// proves nothing, and a refused dial does.
	keepDialling = time.Minute

	// forgetAfter is how long it is remembered how a member stood that is gone.
	forgetAfter = time.Hour
)

// run does what no request does: it follows the membership, finds out who is lost,
// waits for promises, and sweeps. What takes long is the restorer's.
func (m *Manager) run(ctx context.Context) {
	changed, unsubscribe := m.cluster.Subscribe()
	defer unsubscribe()
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweep := time.Now().Add(m.sweepInterval)
	var sweeper sweeper
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			m.follow() //nolint:contextcheck // the set dials for as long as it lives, not for as long as run does
		case <-m.timers.wakeup:
		case <-timer.C:
		}
		next := m.lost()
		m.restorer.settle()
		if now := time.Now(); !now.Before(sweep) {
			sweep = now.Add(sweepPause)
			if sweeper.step(m) {
				m.follow() //nolint:contextcheck // as above
				sweep = now.Add(m.sweepInterval)
			}
		}
		m.announceRoom()
		next = earliest(next, m.clearGraves())
		next = earliest(next, earliest(m.urgent(), earliest(sweep, m.prepare())))
		timer.Reset(time.Until(next))
	}
}

// urgent does what requests wait for, and returns when there is more of it.
func (m *Manager) urgent() (next time.Time) {
	return earliest(m.late(), m.meet())
}

// earliest returns the earlier of two times, of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A listing is a member that is or was to be dialled.
type listing struct {
	peer.Member
	seen int64 // uptime when gossip last knew it
}

// others returns the members that hold sessions, without this one.
func (m *Manager) others() []cluster.Member {
	var out []cluster.Member
	for _, c := range m.cluster.Members() {
		if !c.Proxy && c.Replication != "" && ownerMember(c) != m.self {
			out = append(out, c)
		}
	}
	return out
}

// follow takes over what the cluster says.
func (m *Manager) follow() {
	var listed []peer.Member
	running, leaving := map[owner.Member]bool{}, map[owner.Member]bool{}
	for _, c := range m.others() {
		listed = append(listed, peer.Member{ID: peer.ID{Name: c.Name, Boot: c.Boot}, Addr: c.Replication})
		switch c.State {
		case cluster.Running, cluster.Overloaded: // the second holds copies all the same, and is nobody new when it has room
			running[ownerMember(c)] = true
		case cluster.Draining:
			leaving[ownerMember(c)] = true
		default:
		}
	}
	if m.cluster.Self().State == cluster.Draining {
		leaving[m.self] = true
	}
	m.restorer.running(running)
	if !maps.Equal(running, m.able) || !maps.Equal(leaving, *m.leaving.Load()) {
		m.able = running
		m.leaving.Store(&leaving)
		m.restorer.look()
	}
	now := m.uptime()
	for _, l := range listed {
		m.listed[l.ID] = listing{l, now}
	}
	for id, l := range m.listed {
		switch {
		case l.seen == now:
		case now-l.seen > keepDialling.Milliseconds(), m.cluster.Gone(id.String()):
			delete(m.listed, id)
		default:
			listed = append(listed, l.Member)
		}
	}
	m.set.Members(listed)
	for p, l := range m.links.snapshot() {
		if m.cluster.Gone(p.String()) && !l.gone.Swap(true) {
			m.log.Info().Stringer("member", p).Msg("member gone")
			m.set.Gone(peerID(p))
		}
	}
}

// lost tells the sessions of members that are lost, and returns when the next
// one will be: proven gone, or unreachable for long.
func (m *Manager) lost() (next time.Time) {
	now := m.uptime()
	for p, l := range m.links.snapshot() {
		gone := l.gone.Load()
		l.mu.Lock()
		at := l.since + lostAfter.Milliseconds()
		silent := l.conn == nil && l.since > 0
		tell := silent && (gone && !l.toldGone || !l.told && now >= at)
		if tell {
			l.told, l.toldGone = true, gone
		} else if silent && !l.told {
			next = earliest(next, m.start.Add(time.Duration(at)*time.Millisecond))
		}
		again := silent && !tell && l.again > 0
		if again && now < l.again {
			next, again = earliest(next, m.start.Add(time.Duration(l.again)*time.Millisecond)), false
		}
		if again {
			l.again = 0
		}
		old := gone && l.toldGone && now-l.since > forgetAfter.Milliseconds()
		l.mu.Unlock()
		switch {
		case tell:
			m.log.Info().Stringer("member", p).Bool("proven", gone).Msg("member lost: restoring redundancy")
			m.bereave(p)
			m.restorer.lost(p)
		case again:
			m.restorer.look()
		case old && m.cluster.Gone(p.String()):
			m.links.forget(p)
		}
	}
	return next
}

// bereave tells the requests that are under way that p is lost: they do not wait
// for their turn in the background. It ends when p is back: what p asks for then
// must not be dropped as if nobody waited.
func (m *Manager) bereave(p owner.Member) {
	l := m.links.get(p)
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		back := l.connected()
		if !back && e.machine.Busy() {
			m.step(e, &owner.Event{Kind: owner.PeerLost, Peer: p}, nil)
		}
		return !back
	})
}

// prepare makes this member ready once it has compared its sessions with all
// others (C2). It returns when to look again, never if nothing has to be waited
// for.
func (m *Manager) prepare() (next time.Time) {
	m.mu.Lock()
	starting := m.state == cluster.Starting
	m.mu.Unlock()
	if !starting {
		return time.Time{}
	}
	if why := m.missing(); why != "" {
		m.mu.Lock()
		m.waiting = why
		m.mu.Unlock()
		// A connection that comes up wakes run; this is for patience.
		return time.Now().Add(patience / 50)
	}
	m.mu.Lock()
	starting = m.state == cluster.Starting
	if starting {
		m.state = cluster.Running
	}
	m.mu.Unlock()
	if !starting {
		return time.Time{}
	}
	m.announceState()
	m.log.Info().Msg("ready")
	return time.Time{}
}

// missing returns what this member waits for before it is ready, or "".
func (m *Manager) missing() string {
	others := m.others()
	if len(others) == 0 && time.Since(m.start) < m.joinTimeout {
		return "it has not found another member"
	}
	patient := time.Since(m.start) < patience
	for _, c := range others {
		p := ownerMember(c)
		l := m.links.find(p)
		switch {
		case l == nil && patient:
			return "it is not connected with " + p.String()
		case l == nil || l.gone.Load():
			continue
		}
		up, _ := l.isUp()
		if !up && (patient || l.comparing() != nil) {
			return "it has not compared its sessions with " + p.String()
		}
	}
	return ""
}
