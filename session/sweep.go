package session

import (
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

const (
	// sweepStep is how many sessions one step of a sweep looks at: some 100
	// microseconds (BenchmarkSweep). sweepPause is the time until the next, for
	// which requests have the processor: a million sessions take some seconds.
	sweepStep  = 256
	sweepPause = time.Millisecond

	// sweepEnds is after how many ended sessions a step stops, at the end of a
	// batch: each is told to all members, and a request whose change waits behind
	// them at one of these waits for all. With 64 the sweep kept both processors of `make million` busy, and
	// the median of a request was four times what it is otherwise.
	sweepEnds = 16
)

// A sweeper looks for sessions that are over, a step at a time, so that neither
// requests nor what else run has to do wait for it.
type sweeper struct {
	walk *walk // nil between two sweeps
}

// step looks at some sessions: it ends what is over, and forgets those whose
// memory is over too. It reports whether that was the end of this sweep.
func (s *sweeper) step(m *Manager) (done bool) {
	if s.walk == nil {
		s.walk = &walk{t: m.table}
		m.sweeping.Store(max(1, int64(time.Since(m.start))))
	}
	ended := 0
	for seen := 0; seen < sweepStep && ended < sweepEnds; seen += batch {
		more := s.walk.next(func(e *entry) bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			if m.expire(e) {
				ended++
			}
			if e.role == tombstone && m.outlived(e) {
				m.forget(e)
			}
			return true
		})
		if !more {
			s.walk = nil
			m.sweepTook.Store(int64(time.Since(m.start)) - m.sweeping.Swap(0))
			m.reborn.sweep(time.Now())
			m.uncrowd()
			return true
		}
	}
	return false
}

// forget drops what is held, without a word to anybody, unless something is
// under way. e.mu must be held.
func (m *Manager) forget(e *entry) {
	if e.machine.Busy() {
		return
	}
	m.account(e, &owner.Record{}, nothing)
	e.machine, e.role, e.buried = m.table.blank, nothing, 0
	e.epoch, e.copies, e.astray, e.moving, e.large = owner.Epoch{}, nil, false, false, false
	e.next = 0
	m.weigh(e)
}

// outlived reports whether a tombstone can be forgotten: no cookie of its
// session is good any more. e.mu must be held.
func (m *Manager) outlived(e *entry) bool {
	if end := e.machine.Record().Expiry.End; end > 0 {
		return m.clock() >= end+copyGrace.Milliseconds()
	}
	return m.uptime()-e.buried >= m.lifetime.Milliseconds()
}

// expire ends the session if it is over, and reports whether it was. Only the
// primary can say that it is, and tells the others; any other holder may have a
// copy that the session has left behind, and drops just that. e.mu must be
// held.
func (m *Manager) expire(e *entry) bool {
	if e.role != primary && e.role != secondary {
		return false
	}
	r := e.machine.Record()
	switch {
	case !over(r.Expiry, m.clock(), e.role == primary):
		return false
	case e.role == primary:
		m.step(e, &owner.Event{Kind: owner.Expire}, nil)
	default:
		m.forget(e)
	}
	return true
}

// copyGrace is how much longer than its primary a holder of a copy takes a
// session for alive, on top of what it may not have heard (SESS-12).
const copyGrace = 10 * time.Second

// over reports whether a session has ended by itself at now; primary is whether
// this member is its primary. Any other holder gives a grace: it never finds a
// session over before its primary does (SESS-12).
func over(x owner.Expiry, now int64, primary bool) bool {
	idle, end := x.Idle, x.End
	if !primary {
		grace := copyGrace.Milliseconds()
		idle += x.Idle/10 + grace // an access is told of only after Idle/10
		end += grace
	}
	return x.Idle > 0 && now-x.Access >= idle || x.End > 0 && now >= end
}

// Every member keeps the times of a session by its own clock. On the way between
// two they are times from now, so that clocks may differ (SESS-12, D9): what is
// on its way for long makes a session live longer by that, never shorter. No
// time is zero, which says that there is none.

// relative returns x as it travels.
func (m *Manager) relative(x owner.Expiry) owner.Expiry {
	now := m.clock()
	for _, at := range []*int64{&x.Access, &x.End} {
		if *at != 0 {
			if *at -= now; *at <= 0 {
				*at--
			}
		}
	}
	return x
}

// absolute is the inverse of relative, by this member's clock.
func (m *Manager) absolute(x owner.Expiry) owner.Expiry {
	now := m.clock()
	for _, at := range []*int64{&x.Access, &x.End} {
		if *at != 0 {
			if *at < 0 {
				*at++
			}
			*at += now
		}
	}
	return x
}
