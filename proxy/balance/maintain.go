package balance

import (
	"math"
	"time"
)

// refresh does what time alone does to members. There is no timer: it is called
// before members are looked at. b.mu must be held.
func (b *Balancer) refresh(now time.Time) {
	b.drainAll(now)
	if b.maintain < 0 {
		return
	}
	if since := now.Sub(b.maintained); since >= b.maintain {
		b.maintained = now.Add(-(since % b.maintain))
		b.maintainAll(uint(min(since/b.maintain, 63)), now)
	}
	if b.compat {
		return
	}
	for _, m := range b.members {
		switch {
		case m.state == StateError && b.recoverIn(m, now) <= 0,
			m.state == StateProbe && now.Sub(m.trialAt) >= b.tuning.RecoverTime: // a trial that never ends
			b.recover(m)
		}
	}
}

// recoverIn returns how long it is until time alone lets a request try m, which is in
// error. b.mu must be held.
func (b *Balancer) recoverIn(m *member, now time.Time) time.Duration {
	last := m.lastError
	if m.silentAt.After(last) {
		last = m.silentAt
	}
	return b.tuning.RecoverTime - now.Sub(last)
}

// catchUp makes a member that was not chosen for a while as far behind its share as
// the one that is ahead of all, so that it is neither flooded nor starved.
// b.mu must be held.
func (b *Balancer) catchUp(m *member) {
	if !b.tuning.Method.inFlight() {
		m.lbValue = b.most()
	}
}

// decay makes up for so many runs of maintenance. b.mu must be held.
func (b *Balancer) decay(runs uint) {
	var least uint64
	if b.tuning.Method == ByNext {
		least = math.MaxUint64
		for _, m := range b.members {
			if m.state.usable() && m.activation() == Active {
				least = min(least, m.lbValue)
			}
		}
		if least == math.MaxUint64 {
			least = 0
		}
	}
	for _, m := range b.members {
		m.replyTimeouts >>= runs
		switch {
		case b.tuning.Method == ByNext:
			m.lbValue -= min(least, m.lbValue)
		case !b.tuning.Method.inFlight():
			m.lbValue >>= runs
		}
	}
}

// maintainAll makes up for so many runs of maintenance (mod_jk.md 3.9).
// b.mu must be held.
func (b *Balancer) maintainAll(runs uint, now time.Time) {
	inError := 0
	b.decay(runs)
	for _, m := range b.members {
		local := !m.firstError.IsZero() && now.Sub(m.firstError) >= b.tuning.ErrorEscalationTime
		switch m.state {
		case StateRecover, StateBusy:
		case StateError:
			// mod_jk counts whole seconds.
			if b.compat && now.Sub(m.lastError).Truncate(time.Second) > b.tuning.RecoverTime {
				b.recover(m)
			}
		case StateProbe:
			if b.compat && local {
				m.state = StateError
			}
		case StateIdle, StateOK, StateForce:
			if local {
				m.state = StateError
			} else if m.state == StateOK && m.served == m.seen && m.busy == 0 {
				m.state = StateIdle
			}
		}
		m.seen = m.served
		if m.state == StateError {
			inError++
		}
	}
	if inError == len(b.members) && !b.fastFail {
		for _, m := range b.members {
			m.force()
		}
	}
}
