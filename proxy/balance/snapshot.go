package balance

import "time"

// A Status is how one member stands, for people and programs that look.
type Status struct {
	Route         string
	Name          string // as in [Member]
	Slot          int    // as [Lease.Slot]
	Activation    Activation
	Phase         Phase
	Distance      int
	Domain        string
	Redirect      string
	State         State
	LBFactor      int
	LBMult        uint64 // what one request adds to LBValue
	LBValue       uint64
	Busy, MaxBusy int    // requests in flight: now, and the most since ResetAt
	Served        uint64 // requests sent, each attempt counts
	Sessions      uint64 // those without a session
	Errors        uint64
	ClientErrors  uint64
	ReplyTimeouts uint64        // decays
	LastError     time.Time     // zero if there was none since the last success
	RecoverIn     time.Duration // until a trial is allowed; zero if it is, or not in error
	ResetAt       time.Time     // since when it is counted
	Drain         Drain
	Value         any // as in [Member]
}

// A Drain is how far a [Disabled] member is; zero for any other.
type Drain struct {
	Since  time.Time
	Left   int           // sessions that it has served since, and lately; at most 65536
	EndsIn time.Duration // until it is [Stopped]; zero if it is, or that has no end
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
			Name:          m.Name,
			Slot:          m.slot,
			Activation:    m.activation(),
			Phase:         m.Phase,
			Distance:      m.Distance,
			Domain:        m.Domain,
			Redirect:      m.Redirect,
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
			ResetAt:       m.resetAt,
			Value:         m.Value,
		}
		if m.state == StateError {
			s.RecoverIn = max(0, b.recoverIn(m, now))
		}
		if d := m.drain; d != nil {
			s.Drain = Drain{Since: d.since, Left: d.count(b.drainIdle, now)}
			if b.drainDeadline > 0 {
				s.Drain.EndsIn = max(0, b.drainDeadline-now.Sub(d.since))
			}
		}
		all = append(all, s)
	}
	return all
}

// A Load is how a balancer stands as a whole.
type Load struct {
	Busy, MaxBusy int           // leases: now, and the most since ResetAt
	ResetAt       time.Time     // when the balancer was made, or last reset
	MaintainIn    time.Duration // until the next maintenance; negative: never
}

// Load returns how the balancer stands.
func (b *Balancer) Load() Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refresh(now)
	l := Load{Busy: b.busy, MaxBusy: b.maxBusy, ResetAt: b.resetAt, MaintainIn: b.maintain}
	if b.maintain > 0 {
		l.MaintainIn = max(0, b.maintain-now.Sub(b.maintained))
	}
	return l
}
