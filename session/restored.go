package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// A recovery is how far the sessions have got after losses of members. It is
// run's own.
type recovery struct {
	look    bool      // a member was lost, and the sessions were not looked at since
	since   time.Time // when look was true last
	lacking []string  // sessions that lacked a holder, when they were last looked at
	told    []string  // what Config.Restored was last told
}

// How often a session that lacks a holder is looked at again: often at first,
// when a request may wait for it (design D8), and more seldom the longer it takes.
const (
	lookSoon = 5 * time.Millisecond
	lookLate = time.Second
)

// restored finds out whether all sessions have recovered from the loss of
// members, tells it if that has changed, and returns when to look again. What is
// told of a boot is true of each session that this member holds, so it waits
// until [Manager.replace] has been through all of them.
func (m *Manager) restored() (next time.Time) {
	r := &m.recovery
	if r.look {
		r.look, r.since, r.lacking = false, time.Now(), m.lacking()
	}
	for n := len(r.lacking); n > 0 && !m.lacks(r.lacking[n-1]); n-- {
		r.lacking = r.lacking[:n-1]
	}
	if len(r.lacking) > 0 {
		next = time.Now().Add(min(max(time.Since(r.since)/4, lookSoon), lookLate))
	} else {
		r.lacking = nil
	}

	type loss struct {
		boot string
		at   int64
	}
	var losses []loss
	for p, l := range m.links.snapshot() {
		l.mu.Lock()
		if l.conn == nil && (l.told || l.toldGone) {
			l.recovered = l.recovered || len(r.lacking) == 0
			if l.recovered {
				losses = append(losses, loss{p.String(), l.since})
			}
		}
		l.mu.Unlock()
	}
	slices.SortFunc(losses, func(a, b loss) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.boot, b.boot)) })
	var boots []string
	for _, l := range losses {
		boots = append(boots, l.boot)
	}
	if m.onRestored != nil && !slices.Equal(boots, r.told) {
		m.onRestored(slices.Clone(boots))
	}
	r.told = boots
	return next
}

// lacking returns the sessions that lack a holder now.
func (m *Manager) lacking() (ids []string) {
	m.table.each(func(e *entry) bool {
		if m.lacksHolder(e) {
			ids = append(ids, e.id)
		}
		return true
	})
	return ids
}

// lacks is lacksHolder for a session that may have ended.
func (m *Manager) lacks(id string) bool {
	e := m.table.hold(id)
	defer m.table.drop(e)
	return m.lacksHolder(e)
}

// lacksHolder reports whether the loss of this member, or of the one other that
// holds the session, would lose the session, or an acknowledged change of it.
// e.mu must not be held.
func (m *Manager) lacksHolder(e *entry) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.role {
	case primary:
		return len(e.copies) == 0 || !e.machine.Acknowledged() || slices.ContainsFunc(e.copies, m.isLost)
	case secondary:
		return m.isLost(e.primary())
	default:
		return false
	}
}

// primary returns the primary of what is held. e.mu must be held.
func (e *entry) primary() owner.Member {
	r := e.machine.Record()
	return r.Primary
}
