package balance

import "time"

// refresh does what time alone does to members. There is no timer: it is called
// before members are looked at. b.mu must be held.
func (b *Balancer) refresh(now time.Time) {
	if b.maintain < 0 {
		return
	}
	if since := now.Sub(b.maintained); since >= b.maintain {
		b.maintained = now.Add(-(since % b.maintain))
		b.maintainAll(uint(min(since/b.maintain, 63)), now)
	}
	for _, m := range b.members {
		switch {
		case m.state == StateError && now.Sub(m.lastError) >= b.tuning.RecoverTime,
			m.state == StateProbe && now.Sub(m.trialAt) >= b.tuning.RecoverTime: // a trial that never ends
			b.recover(m)
		}
	}
}

// maintainAll makes up for so many runs of maintenance (mod_jk.md 3.9).
// b.mu must be held.
func (b *Balancer) maintainAll(runs uint, now time.Time) {
	inError := 0
	for _, m := range b.members {
		m.lbValue >>= runs
		m.replyTimeouts >>= runs
		switch m.state {
		case StateError, StateRecover, StateProbe, StateBusy:
		case StateIdle, StateOK, StateForce:
			if !m.firstError.IsZero() && now.Sub(m.firstError) >= b.tuning.ErrorEscalationTime {
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
	if inError == len(b.members) {
		for _, m := range b.members {
			m.force()
		}
	}
}
