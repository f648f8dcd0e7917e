package balance

import (
	"bytes"
	"time"
)

// Reason says why a member was chosen.
type Reason uint8

// The reasons.
const (
	ByValue     Reason = iota // by the balancer's method
	ByPrimary                 // the session names it as its primary
	BySecondary               // the session names it as its secondary
	ByRedirect                // the session's member cannot serve, and redirects to it; or nobody can, and it is a standby
	ByDomain                  // it is in the domain of the session's member
)

// String returns the reason in a word.
func (r Reason) String() string {
	return [...]string{"value", "primary", "secondary", "redirect", "domain"}[r]
}

// choose returns the member for r, or nil. b.mu must be held.
func (b *Balancer) choose(r *Request, now time.Time) (*member, Reason) {
	primary, secondary := b.named(r.Primary), b.named(r.Secondary)
	// With a single member there is nobody to lose the session to (mod_jk.md 3.6).
	forced := b.tuning.StickyForce && (r.Session || len(r.Primary) > 0) && len(b.members) > 1
	if r.Avoid {
		if forced {
			return nil, ByValue
		}
		return b.byValue(r, primary, secondary, now), ByValue
	}
	if primary != nil && b.serves(primary, r) {
		return primary, ByPrimary
	}
	if secondary != nil && b.serves(secondary, r) {
		return secondary, BySecondary
	}
	if m, why := b.instead(r.Primary, primary, r); m != nil {
		return m, why
	}
	if forced {
		return nil, ByValue
	}
	if m := b.byValue(r, nil, nil, now); m != nil {
		return m, ByValue
	}
	return b.standby(r), ByRedirect
}

// named returns the member of a route, or nil. b.mu must be held.
func (b *Balancer) named(route []byte) *member {
	if len(route) == 0 {
		return nil
	}
	return b.byRoute[string(route)]
}

// serves reports whether m may serve a session that names it, or a redirect to it.
func (b *Balancer) serves(m *member, r *Request) bool {
	return m.sticky(r.Activations) && !r.Round.has(m.slot)
}

// sticky is serves for a request that has tried nobody.
func (m *member) sticky(a Activations) bool {
	return m.state.usable() && a.of(m) != Stopped && m.Phase != Starting
}

// free reports whether m may serve a request that names nobody.
func (b *Balancer) free(m *member, r *Request) bool {
	return m.state.usable() && r.Activations.of(m) == Active && !r.Round.has(m.slot)
}

// route returns the member for a session that names route (by_route in mod_jk.md
// 3.6), or nil. b.mu must be held.
func (b *Balancer) route(route []byte, r *Request) *member {
	m := b.named(route)
	if m == nil || !b.serves(m, r) {
		m, _ = b.instead(route, m, r)
	}
	return m
}

// instead returns who serves a session that names route in place of m, which cannot,
// or is nil because no member has the route. It may be nobody. b.mu must be held.
func (b *Balancer) instead(route []byte, m *member, r *Request) (*member, Reason) {
	switch {
	case len(route) == 0:
		return nil, ByValue
	case m == nil:
		if i := bytes.IndexByte(route, '.'); i >= 0 {
			route = route[:i]
		}
		return b.inDomain(route, r), ByDomain
	case b.tuning.StickyForce:
		return nil, ByValue
	case m.Redirect != "":
		// It comes before the domain, which is not looked at then.
		if to := b.byRoute[m.Redirect]; to != nil && b.serves(to, r) {
			return to, ByRedirect
		}
		return nil, ByRedirect
	}
	return b.inDomain(m.domain, r), ByDomain
}

// inDomain returns the best member of a domain: the nearest with the lowest load
// value, the first of equals. b.mu must be held.
func (b *Balancer) inDomain(domain []byte, r *Request) *member {
	var best *member
	if len(domain) == 0 {
		return nil
	}
	for _, m := range b.members {
		if m.Domain != string(domain) || !b.free(m, r) || m.Phase == Starting {
			continue
		}
		if best == nil || m.nearer(best) || !best.nearer(m) && m.lbValue < best.lbValue {
			best = m
		}
	}
	return best
}

// standby returns the member that the first one with a redirect redirects to, even
// if it is disabled: a hot standby (mod_jk.md 3.4). b.mu must be held.
func (b *Balancer) standby(r *Request) *member {
	for _, m := range b.members {
		if m.Redirect != "" {
			return b.route(m.redirect, r)
		}
	}
	return nil
}

// byValue returns the member that the method chooses among those that may be chosen
// and are neither not1 nor not2, or nil: of the nearest the one with the lowest load
// value; of equals the first behind the one chosen last (mod_jk.md 3.4). A member
// that is not Running is taken only if no other can be. b.mu must be held.
func (b *Balancer) byValue(r *Request, not1, not2 *member, now time.Time) *member {
	switch {
	case b.tuning.Method == P2C && !r.Stateless:
		return b.twoChoices(r, not1, not2, now)
	case b.tuning.Method == Rendezvous && len(r.Key) > 0:
		return b.owner(r, not1, not2)
	}
	var best *member
	var least uint64
	var known time.Duration
	if b.tuning.Method == LeastTime {
		known = b.shortest(now)
	}
	next := b.next
	for i := range b.members {
		at := b.next + i
		if at >= len(b.members) {
			at -= len(b.members)
		}
		m := b.members[at]
		if !b.free(m, r) || m == not1 || m == not2 {
			continue
		}
		cost := b.cost(m, known, now)
		if best == nil || m.nearer(best) || !best.nearer(m) && !r.Stateless && cost < least {
			best, least = m, cost
			next = at + 1
		}
	}
	b.next = next % max(1, len(b.members))
	return best
}
