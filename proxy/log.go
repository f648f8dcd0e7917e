package proxy

import (
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/status"
)

// counts are the proxy's counters since it was made.
type counts struct {
	requests   atomic.Uint64
	failed     atomic.Uint64 // answered by us, or cut
	resent     atomic.Uint64 // sent again after a member had got them
	held       atomic.Uint64 // that waited for redundancy before they were sent again
	unrestored atomic.Uint64 // of these: in vain
	unpaid     atomic.Uint64 // not tried again for want of budget
	forged     atomic.Uint64 // session values that looked signed and did not verify
	gone       atomic.Uint64 // whose client went away
}

func (c *counts) add(x *exchange) {
	c.requests.Add(1)
	switch x.failure {
	case failNone, failIdle:
	case failGone:
		c.gone.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Counts returns the counters.
func (p *Proxy) Counts() status.Counts {
	c := &p.counts
	return status.Counts{
		Requests: c.requests.Load(), Failed: c.failed.Load(), Gone: c.gone.Load(),
		Resent: c.resent.Load(), Held: c.held.Load(), Unrestored: c.unrestored.Load(),
		Unpaid: c.unpaid.Load(), Forged: c.forged.Load(),
	}
}

// memberCounts are a member's counters since it was made.
type memberCounts struct {
	retries   atomic.Uint64 // attempts here that followed a failure
	malformed atomic.Uint64 // replies that broke the rules
	read      atomic.Uint64 // bytes of replies
	written   atomic.Uint64 // bytes of requests
	last      atomic.Pointer[trouble]
}

// A seldom lets an event through once in ten seconds at most: under load something
// that is full is so again and again.
type seldom struct{ next atomic.Int64 } // nanoseconds of Unix time

func (s *seldom) due() bool {
	now := time.Now().UnixNano()
	next := s.next.Load()
	return now >= next && s.next.CompareAndSwap(next, now+int64(seldomEvery))
}

const seldomEvery = 10 * time.Second

// trouble is the last error of a member.
type trouble struct {
	at   time.Time
	text string
}

// note keeps the books of a member after an attempt, logs if its state has
// changed, and looks after it if it cannot be reached.
func (p *Proxy) note(l *lb, m *member, o balance.Outcome, cause error) {
	switch o {
	case balance.OK, balance.Refused, balance.ClientFailed:
		if m.failed.Load() && m.failed.CompareAndSwap(true, false) {
			p.log.Info().Str("member", m.name).Str("address", m.endpoint().Address()).Msg("member serves again")
		}
		return
	case balance.Unused:
		return
	case balance.Busy:
		p.doubt(m, cause)
		return
	default:
	}
	if cause != nil {
		m.counts.last.Store(&trouble{at: time.Now(), text: cause.Error()})
	}
	if !l.inError(m) {
		return
	}
	if m.failed.CompareAndSwap(false, true) {
		p.log.Warn().Str("member", m.name).Str("address", m.endpoint().Address()).Err(cause).Stringer("outcome", o).Msg("member in error")
		m.endpoint().Dismiss()
	}
	p.look(m)
}

// logFailure logs an attempt that failed (PLUG-106): where, in which phase, and
// what becomes of the request. Those that are nobody's fault here are in the
// access log alone.
func (x *exchange) logFailure(f facts, d decision) {
	switch f.failure {
	case failGone, failClient, failTooLarge, failSlow, failNotRun, failReplaced, failIdle:
		return
	case failMalformed:
		x.member.counts.malformed.Add(1)
	default:
	}
	if x.busy && x.member.busy.due() {
		x.p.log.Warn().Str("member", x.member.name).Err(x.cause).Msg("member busy")
	}
	e := x.p.log.Debug()
	if e == nil {
		return
	}
	e.Bytes("id", x.id).Str("member", x.member.name).Stringer("failure", f.failure).Int("attempt", x.attempts).
		Int64("body", x.read).Bool("again", d.to != giveUp && d.to != cutClient).Err(x.cause).Msg("attempt failed")
}
