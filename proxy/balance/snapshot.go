package balance

import "time"

// A Status is how one member stands, for people and programs that look.
type Status struct {
	Route         string
	Slot          int // as [Lease.Slot]
	Activation    Activation
	Phase         Phase
	State         State
	LBFactor      int
	LBMult        uint64 // what one request adds to LBValue
	LBValue       uint64
	Busy, MaxBusy int    // requests in flight: now, and the most ever
	Served        uint64 // requests sent, each attempt counts
	Sessions      uint64 // those without a session
	Errors        uint64
	ClientErrors  uint64
	ReplyTimeouts uint64        // decays
	LastError     time.Time     // zero if there was none since the last success
	RecoverIn     time.Duration // until a trial is allowed; zero if it is, or not in error
	Value         any           // as in [Member]
}

// Snapshot returns how every member stands, in the order in which they were
// added.
func (b *Balancer) Snapshot() []Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refresh(now)
	all := make([]Status, 0, len(b.members))
	for _, m := range b.members {
		s := Status{
			Route:         m.Route,
			Slot:          m.slot,
			Activation:    m.Activation,
			Phase:         m.Phase,
			State:         m.state,
			LBFactor:      m.LBFactor,
			LBMult:        m.mult,
			LBValue:       m.lbValue,
			Busy:          m.busy,
			MaxBusy:       m.maxBusy,
			Served:        m.served,
			Sessions:      m.sessions,
			Errors:        m.errors,
			ClientErrors:  m.clientErrors,
			ReplyTimeouts: m.replyTimeouts,
			LastError:     m.lastError,
			Value:         m.Value,
		}
		if m.state == StateError {
			s.RecoverIn = max(0, b.recoverTime-now.Sub(m.lastError))
		}
		all = append(all, s)
	}
	return all
}
