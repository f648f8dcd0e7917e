package balance

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// maxMultiple bounds the least common multiple of the lbfactors. Beyond it shares
// are exact to one part in maxMultiple/lbfactor.
const maxMultiple = 1 << 32

// Add adds a member. It is as far behind its share as the member that is ahead of
// all, so it is neither flooded nor starved.
//
// The error names what is wrong with m; a second member of one route is refused.
func (b *Balancer) Add(m Member) error {
	if m.LBFactor == 0 {
		m.LBFactor = 1
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := m.check(); err != nil {
		return err
	}
	switch {
	case b.byRoute[m.Route] != nil:
		return twoRoutes(m.Route)
	case len(b.members) == MaxMembers:
		return fmt.Errorf("balance: member %q is one more than %d", m.Route, MaxMembers)
	}
	added := b.insert(m)
	b.weigh()
	b.catchUp(added)
	return nil
}

// insert adds a member behind all others. b.mu must be held.
func (b *Balancer) insert(m Member) *member {
	slot := slices.Index(b.slots, false)
	if slot < 0 {
		slot = len(b.slots)
		b.slots = append(b.slots, false)
	}
	b.slots[slot] = true
	if m.Name == "" {
		m.Name = m.Route
	}
	added := &member{Member: m, asked: m, slot: slot, resetAt: time.Now(), seed: mix(hash(fnvOffset, []byte(m.Name)))}
	added.derive()
	added.warm(b, time.Now())
	b.members = append(b.members, added)
	b.byRoute[m.Route] = added
	return added
}

func twoRoutes(route string) error { return fmt.Errorf("balance: two members have route %q", route) }

// derive fills in what follows from m.Member.
func (m *member) derive() { m.domain, m.redirect = []byte(m.Domain), []byte(m.Redirect) }

// Remove removes the member of the given route and reports whether there was one.
// Leases on it stay valid.
func (b *Balancer) Remove(route string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil {
		return false
	}
	at := slices.Index(b.members, m)
	b.members = slices.Delete(b.members, at, at+1)
	if b.next > at {
		b.next--
	}
	if b.next >= len(b.members) {
		b.next = 0
	}
	delete(b.byRoute, route)
	b.slots[m.slot] = false
	m.life++
	b.weigh()
	return true
}

// Clear forgets how the member of the given route has fared, as when it is back
// with a new boot: it is usable at once (PLUG-108), and what requests that are
// under way find out does not count. Clear reports whether there is such a
// member.
func (b *Balancer) Clear(route string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil {
		return false
	}
	b.clear(m)
	return true
}

// clear is Clear. b.mu must be held.
func (b *Balancer) clear(m *member) {
	m.life++
	m.replyTimeouts = 0
	m.firstError, m.lastError = time.Time{}, time.Time{}
	if m.state.failed() {
		b.catchUp(m)
		m.warm(b, time.Now())
	}
	m.state = StateIdle
}

// Heal tells that the member of the given route has answered a probe. If it was in
// error because it could not be reached, it is usable at once, as after [Balancer.Clear];
// if it was because of what it answered, or did not answer in time, one request may try
// it once RecoverTime is over.
func (b *Balancer) Heal(route string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refresh(now)
	m := b.byRoute[route]
	switch {
	case m == nil || m.state != StateError:
	case !m.reached:
		b.clear(m)
	case now.Sub(m.lastError) >= b.tuning.RecoverTime:
		b.recover(m)
	}
}

// Ail tells that the member of the given route has not answered a probe. While that is
// told again and again no request is made to try it, unless there is nobody else.
func (b *Balancer) Ail(route string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.byRoute[route]; m != nil && m.state == StateError {
		m.silentAt = time.Now()
	}
}

// Fail puts the member of the given route in error, as when a probe outside of
// any request was not answered, and reports whether there is such a member.
func (b *Balancer) Fail(route string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil {
		return false
	}
	m.errors++
	m.fail(time.Now())
	return true
}

// SetPhase notes what the member of the given route says of itself, and reports
// whether there is such a member. One that serves everybody again has not been
// chosen meanwhile; it is as far behind its share then as a newcomer.
func (b *Balancer) SetPhase(route string, p Phase) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.byRoute[route]
	if m == nil {
		return false
	}
	if p == Running && m.Phase != Running {
		b.catchUp(m)
	}
	m.Phase = p
	return true
}

// most returns the highest load value. b.mu must be held.
func (b *Balancer) most() uint64 {
	var most uint64
	for _, m := range b.members {
		most = max(most, m.lbValue)
	}
	return most
}

// weigh computes what one request adds to the load value of each member
// (mod_jk.md 3.2), and brings the values to the new scale, so that nobody's share
// so far is forgotten. b.mu must be held.
func (b *Balancer) weigh() {
	multiple := uint64(1)
	for _, m := range b.members {
		f := uint64(m.LBFactor)
		multiple *= f / gcd(multiple, f)
		if multiple > maxMultiple {
			multiple = maxMultiple
			break
		}
	}
	for _, m := range b.members {
		m.mult = max(1, multiple/uint64(m.LBFactor))
		if b.tuning.Method.inFlight() {
			m.lbValue = uint64(m.busy) * m.mult
		} else {
			m.lbValue = scale(m.lbValue, multiple, b.multiple)
		}
	}
	b.multiple = multiple
}

// scale returns v*to/from, or a value that is about as large as values get.
func scale(v, to, from uint64) uint64 {
	hi, lo := bits.Mul64(v, to)
	if hi >= from {
		return 1 << 61
	}
	q, _ := bits.Div64(hi, lo, from)
	return min(q, 1<<61)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
