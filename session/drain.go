package session

import (
	"context"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
)

// Draining (SESS-39, R16): a member says by gossip that it drains. Its sessions
// are not pushed to others; these come for them. Whoever holds a session's first
// copy takes it over, as it would for a request; whoever has a copy here moves it
// to the next in rank. All that is the restorer's, at its pace.

const (
	handOverPoll = 20 * time.Millisecond // how often HandOver looks how many are left
	nudgeEvery   = time.Second           // how often it asks after copies that nobody takes back
	stuckFor     = time.Second           // when it gives up copies that nobody takes back and only one could
)

// Drain announces that this member will leave. It gets no new sessions, and the
// other members take over those that it has; [Manager.HandOver] waits for that.
// Requests of a session are served as long as it is here; all others are answered
// with Not-Executed. Requests under way go on. Drain is undone by Resume, but not
// after Close.
func (m *Manager) Drain() {
	m.mu.Lock()
	if m.state == cluster.Draining {
		m.mu.Unlock()
		return
	}
	m.state = cluster.Draining
	m.mu.Unlock()
	m.announceState()
	m.log.Info().Int("sessions", m.Left()).Msg("draining")
}

// Resume undoes Drain: this member serves again, as soon as it has compared its
// sessions with all members, which Ready tells. It does nothing if this member
// does not drain, or is closed.
func (m *Manager) Resume() {
	m.mu.Lock()
	if m.state != cluster.Draining || m.idle != nil {
		m.mu.Unlock()
		return
	}
	m.state, m.waiting = cluster.Starting, "it has just resumed"
	m.mu.Unlock()
	m.saidFull.Store(false)
	m.log.Info().Msg("not draining any more")
	m.wake()
}

// announceState tells the cluster the state of this member. Of several calls at a
// time the last one tells what came last.
func (m *Manager) announceState() {
	m.announcing.Lock()
	defer m.announcing.Unlock()
	m.mu.Lock()
	state := m.state
	m.mu.Unlock()
	if state == cluster.Running && m.saidFull.Load() {
		state = cluster.Overloaded
	}
	m.cluster.SetState(state)
}

// drains reports whether this member drains.
func (m *Manager) drains() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == cluster.Draining
}

// Left returns how many sessions and copies this member holds.
func (m *Manager) Left() int {
	return int(m.stats.roles[primary].Load() + m.stats.roles[secondary].Load())
}

// HandOver waits until this member, which drains, holds no session and no copy,
// and returns how many are left: more than none if there is nobody who could take
// them, if ctx is done, or after Resume. With no more other members than
// [Config.Secondaries] that is how many copies they have put here and can put
// nowhere else. Whoever leaves then loses none
// that has a copy elsewhere. A copy whose primary cannot be reached may be the
// last: it is waited for, until that one is back or this member has taken over.
func (m *Manager) HandOver(ctx context.Context) (left int) {
	tick := time.NewTicker(handOverPoll)
	defer tick.Stop()
	nudged, fell, before := time.Now(), time.Now(), 0
	for {
		if left = m.Left(); left != before {
			fell, before = time.Now(), left
		}
		takers := m.takers()
		// If the others have taken over all and there are no more of them than each
		// session is to have copies, they cannot put those that are here anywhere else.
		stuck := takers <= m.secondaries && m.stats.roles[primary].Load() == 0 && time.Since(fell) >= stuckFor
		if stuck && takers > 0 && m.stranded() {
			stuck, fell = false, time.Now()
		}
		if left == 0 || stuck || !m.drains() || takers == 0 {
			return left
		}
		if time.Since(nudged) >= nudgeEvery {
			nudged = time.Now()
			m.nudge()
		}
		select {
		case <-tick.C:
		case <-m.closed:
			return left
		case <-ctx.Done():
			return left
		}
	}
}

// stranded reports whether there is a copy here whose primary is not connected.
func (m *Manager) stranded() bool {
	found := false
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		found = e.role == secondary && m.facts(e.machine.Record().Primary)&owner.Connected == 0
		return !found
	})
	return found
}

// nudge sends the headers of the copies that are left to their primaries. One
// that counts on the copy will replace it; one that does not says so, and the
// copy is discarded: it was told before, and that was lost (R17).
func (m *Manager) nudge() {
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.role == secondary && !e.machine.Busy() {
			if l := m.links.find(e.machine.Record().Primary); l != nil {
				l.send(owner.Compare, m.compare(e, l.version()))
			}
		}
		return true
	})
}

// keeps reports whether this member is the primary of the session of that id.
func (m *Manager) keeps(id string) bool {
	e := m.table.hold(id)
	defer m.table.drop(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.role == primary
}
