package session

import (
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// maxGrace is how long an old id may be good.
const maxGrace = time.Minute

// leftoverKey names the attribute by which members know a session that has got
// another id. No other attribute is called so.
const leftoverKey = ""

// retire ends the old id of a session: now, or after its grace. Until then it has
// what it had when the request began.
func (m *Manager) retire(s *Session, old *entry, c *call) answer {
	s.mu.Lock()
	ev := owner.Event{Kind: owner.Return, Op: &c.op, Invalidate: s.grace == 0}
	if s.grace > 0 {
		ev.Changes = append(s.undo(), owner.Change{Key: leftoverKey, Value: []byte{1}})
		ev.Expiry.Idle = s.grace.Milliseconds() // if this member does not live to end it
		m.timers.after(old.id, s.grace, m.endLeftover)
	}
	s.mu.Unlock()
	_ = m.submit(old, nil, &ev) // undo makes it no larger than it was
	return m.wait(c)
}

// endLeftover ends an old id. e.mu must be held.
func (m *Manager) endLeftover(e *entry) {
	m.step(e, &owner.Event{Kind: owner.Expire, Invalidate: true}, nil)
}

// inherit sees to it that an old id ends of which this member has become the
// primary: who renewed it may be gone, and its idle time-out, which is the grace,
// ends only one that nobody uses. e.mu must be held.
func (m *Manager) inherit(e *entry, r *owner.Record) {
	if _, leftover := r.Attrs.Get(leftoverKey); leftover {
		m.timers.after(e.id, time.Duration(r.Expiry.Idle)*time.Millisecond, m.endLeftover)
	}
}
