package balance

import "time"

// A drain is what is known of a member that is [Disabled]: since when, and which
// sessions it has served meanwhile.
type drain struct {
	since time.Time
	over  bool                 // Config.DrainDeadline has passed
	seen  map[uint64]time.Time // by hash, when last; at most maxSeen

	counted time.Time // when those were last forgotten that are over
}

// maxSeen bounds the sessions of a member that drains which are told apart.
const maxSeen = 1 << 16

// recount is how often they are counted at most.
const recount = time.Second

// drainAll begins and ends the drains of members whose activation has changed.
// b.mu must be held.
func (b *Balancer) drainAll(now time.Time) {
	for _, m := range b.members {
		switch {
		case m.Activation != Disabled:
			m.drain = nil
		case m.drain == nil:
			m.drain = &drain{since: now, seen: map[uint64]time.Time{}}
		case b.drainDeadline > 0 && now.Sub(m.drain.since) >= b.drainDeadline:
			m.drain.over = true
		}
	}
}

// activation is m.Activation, but [Stopped] once the deadline of its drain has passed.
func (m *member) activation() Activation {
	if m.drain != nil && m.drain.over {
		return Stopped
	}
	return m.Activation
}

// note notes that a session was served. It allocates for one that is new, at most.
func (d *drain) note(key []byte, now time.Time) {
	h := hash(fnvOffset, key)
	if _, known := d.seen[h]; known || len(d.seen) < maxSeen {
		d.seen[h] = now
	}
}

// count returns how many sessions have been served within idle, and forgets the
// others.
func (d *drain) count(idle time.Duration, now time.Time) int {
	if now.Sub(d.counted) < recount {
		return len(d.seen) // with those that are new since
	}
	for h, last := range d.seen {
		if now.Sub(last) >= idle {
			delete(d.seen, h)
		}
	}
	d.counted = now
	return len(d.seen)
}

// DrainIdle returns Config.DrainIdle.
func (b *Balancer) DrainIdle() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drainIdle
}
