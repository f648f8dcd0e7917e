package balance

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoRoute is returned, wrapped, for a route that no member has.
var ErrNoRoute = errors.New("no member has the route")

// Update lets change set what an operator may change of the member of the given
// route, at once and for all requests that follow; Name, Phase and Value are to be left
// alone. If the activation changes, all members begin their shares anew, as in
// mod_jk (mod_jk.md 6.5): one that was stopped for long would get everything
// otherwise. change must not call the balancer.
//
// The error says what is wrong with the member as changed, and nothing has been
// changed then.
func (b *Balancer) Update(route string, change func(*Member)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil {
		return fmt.Errorf("balance: %w %q", ErrNoRoute, route)
	}
	now := m.Member
	change(&now)
	if err := now.check(); err != nil {
		return err
	}
	was := m.Member
	if now.Route != route {
		if b.byRoute[now.Route] != nil {
			return twoRoutes(now.Route)
		}
		delete(b.byRoute, route)
		b.byRoute[now.Route] = m
	}
	m.Member = now
	m.derive()
	if now.LBFactor != was.LBFactor {
		b.weigh()
	}
	b.drainAll(time.Now())
	if now.Activation != was.Activation {
		for _, m := range b.members {
			b.empty(m)
		}
	}
	return nil
}

// check returns what is wrong with m.
func (m *Member) check() error {
	switch {
	case m.Route == "":
		return errors.New("balance: a member has no route")
	case m.Activation > Stopped:
		return fmt.Errorf("balance: member %q: no activation has the number %d", m.Route, m.Activation)
	case m.LBFactor < 1 || m.LBFactor > maxFactor:
		return fmt.Errorf("balance: member %q has lbfactor %d, want 1 to %d", m.Route, m.LBFactor, maxFactor)
	}
	return nil
}

// A Tuning is what an operator may change of a balancer while it runs. The fields
// are those of [Config], but zero is zero.
type Tuning struct {
	Method              Method
	StickyForce         bool
	RecoverTime         time.Duration
	ErrorEscalationTime time.Duration
	MaxReplyTimeouts    int
}

func (t Tuning) check() error {
	switch {
	case t.Method > Rendezvous:
		return fmt.Errorf("balance: no method has the number %d", t.Method)
	case t.RecoverTime < 0:
		return fmt.Errorf("balance: RecoverTime is %v, want 0 or more", t.RecoverTime)
	case t.ErrorEscalationTime < 0:
		return fmt.Errorf("balance: ErrorEscalationTime is %v, want 0 or more", t.ErrorEscalationTime)
	case t.MaxReplyTimeouts < 0:
		return fmt.Errorf("balance: MaxReplyTimeouts is %d, want 0 or more", t.MaxReplyTimeouts)
	}
	return nil
}

// Tuning returns what holds now.
func (b *Balancer) Tuning() Tuning {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tuning
}

// Tune replaces it. The error says what is wrong with t, which then does not count.
func (b *Balancer) Tune(t Tuning) error {
	if err := t.check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.tuning.Method
	b.tuning = t
	if t.Method != before {
		for _, m := range b.members { // the values mean something else now
			b.empty(m)
		}
	}
	return nil
}

// empty makes the load value of m that of one that has had nothing but what is under
// way. b.mu must be held.
func (b *Balancer) empty(m *member) {
	m.lbValue = 0
	if b.tuning.Method.inFlight() {
		m.lbValue = uint64(m.busy) * m.mult
	}
}

// Reset forgets how the member of the given route has fared and what was counted
// of it, but for what is under way (mod_jk.md 6.3), and reports whether there is
// such a member. What requests that are under way find out does not count.
func (b *Balancer) Reset(route string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil {
		return false
	}
	b.resetMember(m, time.Now())
	return true
}

// ResetAll is Reset for all members, and for what is counted of the balancer.
func (b *Balancer) ResetAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.maxBusy, b.resetAt = b.busy, now
	for _, m := range b.members {
		b.resetMember(m, now)
	}
}

// resetMember is Reset. b.mu must be held.
func (b *Balancer) resetMember(m *member, now time.Time) {
	m.life++
	m.state = StateIdle
	b.empty(m)
	m.firstError, m.lastError = time.Time{}, time.Time{}
	m.served, m.seen, m.sessions, m.errors, m.clientErrors, m.replyTimeouts = 0, 0, 0, 0, 0, 0
	m.maxBusy, m.resetAt = m.busy, now
}

// Recover lets the next request try the member of the given route, which must be
// in error, without waiting for Config.RecoverTime (mod_jk.md 6.3). It reports
// whether it was.
func (b *Balancer) Recover(route string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil || m.state != StateError {
		return false
	}
	b.recover(m)
	return true
}

// recover makes m wait for its trial. b.mu must be held.
func (b *Balancer) recover(m *member) {
	m.state = StateRecover
	b.catchUp(m)
	m.replyTimeouts = 0
}
