package balance

import (
	"time"
)

// Activation is what the operator wants of a member.
type Activation uint8

// The activations, in mod_jk's words.
const (
	Active   Activation = iota // serves every request
	Disabled                   // serves only sessions that name it
	Stopped                    // serves nothing
)

// String returns mod_jk's short form: ACT, DIS or STP.
func (a Activation) String() string { return [...]string{"ACT", "DIS", "STP"}[a] }

// Phase is what a member says of itself by gossip. A member that does not gossip
// is Running.
type Phase uint8

// The phases.
const (
	Running    Phase = iota // serves every request
	Draining                // about to leave: no new sessions while another member can take them
	Overloaded              // refuses new sessions: likewise
	Starting                // not ready: nothing at all while another member can serve
)

// String returns the phase in lower case.
func (p Phase) String() string {
	return [...]string{"running", "draining", "overloaded", "starting"}[p]
}

// rank orders the phases by how welcome a new session is.
func (p Phase) rank() int { return [...]int{0, 1, 1, 2}[p] }

// State is how a member has fared (mod_jk.md 3.7).
type State uint8

// The states, with mod_jk's numbers.
const (
	StateIdle    State = iota // no request since the last maintenance, or never
	StateOK                   // the last exchange worked
	StateRecover              // was in error; the next suitable request is the trial
	StateForce                // was in error, but there was nothing better
	StateBusy                 // it has no room; for who shows states, since only the caller knows
	StateError                // out of service
	StateProbe                // the trial is running
)

// String returns the state as mod_jk's status worker shows it.
func (s State) String() string {
	return [...]string{"OK/IDLE", "OK", "ERR/REC", "ERR/FRC", "OK/BUSY", "ERR", "ERR/PRB"}[s]
}

// usable reports whether a member in state s may get a request.
func (s State) usable() bool { return s <= StateForce }

// failed reports whether s is a state of a member that failed and has not yet
// proven otherwise.
func (s State) failed() bool { return s != StateIdle && s != StateOK && s != StateBusy }

// Outcome is how the exchange with a member went.
type Outcome uint8

// The outcomes, and what they do to the member (mod_jk.md 3.7).
const (
	// OK: the member answered, with whatever status. It is [StateOK].
	OK Outcome = iota

	// ClientFailed: the client went away, or its request was at fault. The
	// member is as after OK.
	ClientFailed

	// Refused: the member answered that it did not execute the request
	// (design.md D8), or with a soft fail_on_status. It lives, so it is as after
	// OK.
	Refused

	// Busy: there was no free connection to the member in time. Nothing is known
	// of it; other requests may be luckier.
	Busy

	// Failed: the connection broke, or the member spoke nonsense. It is in error
	// if no other request is running on it, or if it has failed for
	// Config.ErrorEscalationTime without a success; else nothing changes.
	Failed

	// Unreachable: no connection could be made, or a probe was not answered, so
	// others need not try. It is in error at once.
	Unreachable

	// StatusFailed: the status of its reply is in fail_on_status. It is in error
	// at once.
	StatusFailed

	// ReplyTimeout: it was silent for reply_timeout. It is in error if that
	// happened more than Config.MaxReplyTimeouts times, where the count is
	// halved by each maintenance.
	ReplyTimeout

	// Unused: the lease was not used after all. The trial, if it was one, is
	// open again.
	Unused
)

// String returns the name of the outcome in lower case.
func (o Outcome) String() string {
	return [...]string{"ok", "client failed", "refused", "busy", "failed", "unreachable", "status failed", "reply timeout", "unused"}[o]
}

// A Member is one server behind a balancer, as configured.
type Member struct {
	Route      string     // by which sessions name it; unique in a balancer, not empty
	Name       string     // of its worker, for [Activations]; if empty, it is Route
	LBFactor   int        // share of the load relative to the others; if zero, 1
	Activation Activation // what the operator wants of it
	Phase      Phase      // what it says of itself
	Distance   int        // the members with the lowest one are chosen, as long as one of them can be
	Domain     string     // members of one domain stand in for each other; empty for none
	Redirect   string     // route of the member that stands in for it; empty for none

	// Value is what the caller wants back with a lease on this member, such as
	// its endpoint. The balancer does nothing with it.
	Value any
}

// member is the running side of a [Member]. Its balancer's mu guards it.
type member struct {
	Member
	asked Member // as configured last; what differs was changed since
	slot  int    // stable index, free for others once the member is removed
	mult  uint64 // lb_mult
	life  uint32 // raised when the past is forgotten: earlier leases change no state

	state   State
	lbValue uint64 // lb_value

	drain *drain // of a Disabled member

	domain, redirect []byte        // as in Member
	seed             uint64        // for Rendezvous
	warmFrom         time.Time     // begin of its slow start; zero if it gets its whole share
	answer           time.Duration // how long it took to answer, for LeastTime; zero if not known
	answerAt         time.Time     // when that was noted

	firstError time.Time // zero if none since the last success
	lastError  time.Time // likewise
	silentAt   time.Time // when a probe was last not answered
	reached    bool      // it had the request when it failed last, so a probe proves little
	trialAt    time.Time // when state became StateProbe
	seen       uint64    // served at the last maintenance

	resetAt       time.Time
	busy, maxBusy int
	served        uint64 // requests sent, each attempt counts ("elected")
	sessions      uint64 // those without a session
	errors        uint64
	clientErrors  uint64
	replyTimeouts uint64 // decays
}

// result records the end of one exchange. The caller holds the balancer's mu.
func (m *member) result(b *Balancer, o Outcome, now time.Time) {
	switch o {
	case OK, Refused:
		m.succeed(b, now)
	case ClientFailed:
		m.clientErrors++
		m.succeed(b, now)
	case Failed:
		m.errors++
		m.local(b, now)
	case Unreachable:
		m.errors++
		if b.compat {
			m.local(b, now)
		} else {
			m.fail(now)
		}
	case StatusFailed:
		m.errors++
		m.fail(now)
		m.reached = true
	case ReplyTimeout:
		m.replyTimeouts++
		m.answered()
		if m.replyTimeouts > uint64(b.tuning.MaxReplyTimeouts) {
			m.errors++
			m.fail(now)
			m.reached = true
		}
	case Busy, Unused:
		m.reopen()
	}
}

// local notes a failure that other requests need not share yet.
func (m *member) local(b *Balancer, now time.Time) {
	m.answered()
	if m.firstError.IsZero() {
		m.firstError = now
	}
	m.lastError, m.reached = now, false
	if m.busy == 0 || now.Sub(m.firstError) >= b.tuning.ErrorEscalationTime {
		m.state = StateError
	}
}

// answered is the rule that whatever ends a request ends its trial.
func (m *member) answered() {
	if m.state != StateError {
		m.state = StateOK
	}
}

// undo takes back what Pick counted.
func (m *member) undo(fresh bool, charged uint64) {
	m.served--
	if fresh {
		m.sessions--
	}
	m.lbValue -= min(charged, m.lbValue)
	m.reopen()
}

// reopen lets another request be the trial that this one was not.
func (m *member) reopen() {
	if m.state == StateProbe {
		m.state = StateRecover
	}
}

func (m *member) succeed(b *Balancer, now time.Time) {
	if m.state.failed() {
		m.warm(b, now)
	}
	m.state = StateOK
	m.firstError, m.lastError = time.Time{}, time.Time{}
}

// warm begins the slow start of m.
func (m *member) warm(b *Balancer, now time.Time) {
	if b.slowStart > 0 {
		m.warmFrom = now
	}
}

func (m *member) fail(now time.Time) {
	m.state, m.reached = StateError, false
	m.firstError, m.lastError = now, now
}

// force makes a member that failed usable again because there is nothing better.
func (m *member) force() {
	m.state = StateForce
	m.replyTimeouts = 0
}
