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

// A grace is the time for which an old id is good.
type grace struct {
	id string
	at time.Time
}

// retire ends the old id of a session: now, or after its grace. Until then it has
// what it had when the request began.
func (m *Manager) retire(s *Session, old *entry, c *call) answer {
	s.mu.Lock()
	ev := owner.Event{Kind: owner.Return, Op: &c.op, Invalidate: s.grace == 0}
	if s.grace > 0 {
		ev.Changes = append(s.undo(), owner.Change{Key: leftoverKey, Value: []byte{1}})
		ev.Expiry.Idle = s.grace.Milliseconds() // if this member does not live to end it
		m.timers.end(old.id, s.grace)
	}
	s.mu.Unlock()
	_ = m.submit(old, &ev) // undo makes it no larger than it was
	return m.wait(c)
}

// end has a session ended after d.
func (t *timers) end(id string, d time.Duration) {
	t.mu.Lock()
	t.graces = append(t.graces, grace{id, time.Now().Add(d)})
	t.mu.Unlock()
	t.wake()
}

// endGraces ends the old ids whose grace is over, and returns when the next is.
func (m *Manager) endGraces() (next time.Time) {
	t := m.timers
	now := time.Now()
	var over []grace
	t.mu.Lock()
	rest := t.graces[:0]
	for _, g := range t.graces {
		if g.at.After(now) {
			next = earliest(next, g.at)
			rest = append(rest, g)
			continue
		}
		over = append(over, g)
	}
	t.graces = rest
	t.mu.Unlock()
	for _, g := range over {
		m.tell(g.id, &owner.Event{Kind: owner.Expire})
	}
	return next
}
