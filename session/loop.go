package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

// timers is what run has to do later or outside of all locks.
type timers struct {
	wakeup chan struct{} // capacity one

	mu        sync.Mutex // guards what follows; a leaf
	promises  []promise
	conflicts []Conflict
}

// A promise is one that a session waits for the end of.
type promise struct {
	id string
	p  owner.Member
	at time.Time
}

func newTimers() *timers { return &timers{wakeup: make(chan struct{}, 1)} }

func (t *timers) wake() {
	select {
	case t.wakeup <- struct{}{}:
	default: // it will look at everything anyway
	}
}

// wait has the session told, after d, that the promise to p is over.
func (t *timers) wait(id string, p owner.Member, d time.Duration) {
	t.mu.Lock()
	t.promises = append(t.promises, promise{id, p, time.Now().Add(d)})
	t.mu.Unlock()
	t.wake()
}

func (t *timers) conflict(c Conflict) {
	t.mu.Lock()
	t.conflicts = append(t.conflicts, c)
	t.mu.Unlock()
	t.wake()
}

// told takes the conflicts that were not told of yet.
func (t *timers) told() []Conflict {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.conflicts
	t.conflicts = nil
	return all
}

// due takes the promises that are over at now, and returns when the next one is.
func (t *timers) due(now time.Time) (over []promise, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.promises[:0]
	for _, p := range t.promises {
		switch {
		case !p.at.After(now):
			over = append(over, p)
			continue
		case next.IsZero() || p.at.Before(next):
			next = p.at
		}
		rest = append(rest, p)
	}
	t.promises = rest
	return over, next
}

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

	// burst, in bytes, and handful, in messages, are what is sent in the
	// background between two times of pause. An Update that is answered late
	// breaks the connection for all (C4), so what waits has to stay short.
	burst   = 8 << 20
	handful = 4096
	pause   = 50 * time.Millisecond
)

// A pace bounds how fast run goes through all sessions.
type pace struct {
	m              *Manager
	sent, messages uint64 // Manager.stats, when the last pause ended
}

func (m *Manager) pace() *pace { return &pace{m, m.stats.sent.Load(), m.stats.updates.Load()} }

// keep pauses if enough was sent, and meanwhile does what cannot wait. It
// reports false once ctx is done. No lock may be held.
func (p *pace) keep(ctx context.Context) bool {
	c := &p.m.stats
	if c.sent.Load()-p.sent < burst && c.updates.Load()-p.messages < handful {
		return true
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	}
	p.m.urgent()
	p.sent, p.messages = c.sent.Load(), c.updates.Load()
	return true
}

// run does what no request does: it follows the membership, replaces copies on
// members that are lost, waits for promises, and sweeps. It is the only caller of
// OnConflict.
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
		next := m.lost(ctx)
		if m.arrived.Swap(false) {
			m.protect(ctx)
		}
		for _, c := range m.timers.told() {
			if m.onConflict != nil {
				m.onConflict(c)
			}
		}
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
	next = m.late()
	over, at := m.timers.due(time.Now())
	for _, p := range over {
		m.tell(p.id, &owner.Event{Kind: owner.PromiseOver, Peer: p.p})
	}
	return earliest(next, at)
}

// earliest returns the earlier of two times, of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// tell gives one session an event.
func (m *Manager) tell(id string, ev *owner.Event) {
	e := m.table.hold(id)
	defer m.table.drop(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	m.step(e, ev, nil)
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
	running := map[owner.Member]bool{}
	for _, c := range m.others() {
		listed = append(listed, peer.Member{ID: peer.ID{Name: c.Name, Boot: c.Boot}, Addr: c.Replication})
		if p := ownerMember(c); c.State == cluster.Running {
			running[p] = true
			if l := m.links.find(p); l != nil && !m.able[p] {
				if up, _ := l.isUp(); up { // else Up will do it
					m.arrived.Store(true)
				}
			}
		}
	}
	m.able = running
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
func (m *Manager) lost(ctx context.Context) (next time.Time) {
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
		old := gone && l.toldGone && now-l.since > forgetAfter.Milliseconds()
		l.mu.Unlock()
		switch {
		case tell:
			m.log.Info().Stringer("member", p).Bool("proven", gone).Msg("replacing the copies of a lost member")
			m.replace(ctx, p, gone)
		case old && m.cluster.Gone(p.String()):
			m.links.forget(p)
		}
	}
	return next
}

// replace gives the sessions that p held other copies (D7), a burst at a time.
// If p is proven gone, those of which it was the primary go to the first holder
// in line; while it is only silent they wait for a request, for to promote then
// makes a second branch. It ends when p is back: what p asks for then must not
// be dropped as if nobody waited.
func (m *Manager) replace(ctx context.Context, p owner.Member, gone bool) {
	pace := m.pace()
	m.losses.begin(p)
	back := false
	defer func() { m.losses.end(p, !back && ctx.Err() == nil) }()
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		back = m.links.get(p).connected()
		if !back && (e.machine.Busy() || e.machine.Concerns(p)) {
			m.step(e, &owner.Event{Kind: owner.PeerLost, Peer: p}, nil)
			if r := e.machine.Record(); gone && e.role == secondary && r.Primary == p && r.Copies[0] == m.self {
				e.orphan = true
				m.step(e, &owner.Event{Kind: owner.Recover, Op: &m.newCall().op}, nil) // R14; nobody waits
			}
		}
		e.mu.Unlock()
		return !back && pace.keep(ctx)
	})
}

// protect gives a copy to the sessions that lack one, a burst at a time, because
// somebody has come who can hold it (SESS-32): those that have none, and those
// whose copy was lost when nobody could take its place.
func (m *Manager) protect(ctx context.Context) {
	pace := m.pace()
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		if e.role == primary {
			for _, c := range e.copies {
				if m.isLost(c) {
					m.step(e, &owner.Event{Kind: owner.PeerLost, Peer: c}, nil)
				}
			}
			if len(e.copies) == 0 {
				m.step(e, &owner.Event{Kind: owner.PeerUp}, nil)
			}
		}
		e.mu.Unlock()
		return pace.keep(ctx)
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
	m.cluster.SetState(cluster.Running)
	m.log.Info().Msg("ready")
	if errors.Is(m.Ready(), errDraining) {
		m.cluster.SetState(cluster.Draining) // it began between the two
	}
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
