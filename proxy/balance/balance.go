package balance

import (
	"errors"
	"sync"
	"time"
)

// ErrNoMember is returned by [Balancer.Pick] when no member is usable.
var ErrNoMember = errors.New("balance: no usable member")

// MaxMembers is how many members a balancer may have.
const MaxMembers = 1024

// maxFactor bounds lbfactor, so that load values never overflow.
const maxFactor = 1 << 31

// Config sets up a [Balancer].
type Config struct {
	// Members are the members at the start. There may be none: they can be added
	// later. Where two are equally behind their share at the very start, the one
	// listed first is chosen.
	Members []Member

	// RecoverTime is how long a failed member is left alone before a request may
	// try it again (recover_time). If zero, it is 60 seconds.
	RecoverTime time.Duration

	// ErrorEscalationTime is how long a member with other requests in flight may
	// fail before it is in error (error_escalation_time). If zero, the first
	// failure counts.
	ErrorEscalationTime time.Duration

	// MaxReplyTimeouts is how many reply time-outs are tolerated, halved by each
	// maintenance (max_reply_timeouts).
	MaxReplyTimeouts int

	// Maintain is how often load values are halved (worker.maintain). If zero,
	// it is 60 seconds. If negative, never, and then a failed member comes back
	// by forced recovery or by [Balancer.Clear] alone, as in mod_jk.
	Maintain time.Duration
}

// A Balancer hands out members to requests. It is safe for concurrent use.
type Balancer struct {
	maintain time.Duration

	mu         sync.Mutex // guards what follows and all members; held for O(members), never across I/O
	members    []*member  // in the order they were added
	byRoute    map[string]*member
	slots      []bool // which slots are taken
	next       int    // index in members where the next choice by value begins
	multiple   uint64 // of all lbfactors: what a member's mult is a share of
	maintained time.Time
	tuning     Tuning

	busy, maxBusy int       // leases
	resetAt       time.Time // since when maxBusy is the most
}

// New returns a balancer over cfg.Members, all of them [StateIdle].
func New(cfg Config) (*Balancer, error) {
	if cfg.RecoverTime == 0 {
		cfg.RecoverTime = time.Minute
	}
	if cfg.Maintain == 0 {
		cfg.Maintain = time.Minute
	}
	tuning := Tuning{RecoverTime: cfg.RecoverTime, ErrorEscalationTime: cfg.ErrorEscalationTime, MaxReplyTimeouts: cfg.MaxReplyTimeouts}
	if err := tuning.check(); err != nil {
		return nil, err
	}
	now := time.Now()
	b := &Balancer{
		maintain:   cfg.Maintain,
		byRoute:    make(map[string]*member),
		multiple:   1,
		maintained: now,
		tuning:     tuning,
		resetAt:    now,
	}
	for _, m := range cfg.Members {
		if err := b.Add(m); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// A Request says what a request wants.
type Request struct {
	// Primary and Secondary are the routes that the request's session names, in
	// this order of preference; empty, or a route of no member, is no preference.
	// Pick does not retain them.
	Primary, Secondary []byte

	// Session says that the request names a session, though perhaps no route. It
	// is implied by Primary, and matters to the count of new sessions alone.
	Session bool

	// Avoid makes Primary and Secondary the members that are not chosen, in place
	// of those that are preferred (a request that may have killed its primary,
	// design.md D8). It forces no recovery.
	Avoid bool

	// Activations are those that hold for this request in place of the members'
	// own. Pick does not write to it.
	Activations Activations

	// Stateless says that the request creates no session: among members without
	// preference it goes to one after the other, whatever their load values, and
	// it is not counted as a new session (mod_jk.md 3.3, 3.4).
	Stateless bool

	// Round remembers what this request has tried. If nil, nothing is remembered
	// between two picks.
	Round *Round
}

// Activations are the activations of some members, by route.
type Activations map[string]Activation

// of returns the activation that holds for m.
func (a Activations) of(m *member) Activation {
	if a != nil {
		if is, ok := a[m.Route]; ok {
			return is
		}
	}
	return m.Activation
}

// A Round is what one request remembers from pick to pick: whom it has tried
// (mod_jk's local errors) and whether it has forced a recovery. Its zero value is
// ready; it must not be shared by requests that run at the same time.
type Round struct {
	tried  [MaxMembers / 64]uint64 // by slot
	forced bool
}

// Again begins another round: all members may be tried again. A recovery that
// this request has forced is not forced twice.
func (r *Round) Again() { r.tried = [MaxMembers / 64]uint64{} }

func (r *Round) has(slot int) bool { return r != nil && r.tried[slot/64]&(1<<(slot%64)) != 0 }

func (r *Round) add(slot int) {
	if r != nil {
		r.tried[slot/64] |= 1 << (slot % 64)
	}
}

func (r *Round) remove(slot int) {
	if r != nil {
		r.tried[slot/64] &^= 1 << (slot % 64)
	}
}

// Reason says why a member was chosen.
type Reason uint8

// The reasons.
const (
	ByValue     Reason = iota // it was furthest behind its share
	ByPrimary                 // the session names it as its primary
	BySecondary               // the session names it as its secondary
)

// String returns "value", "primary" or "secondary".
func (r Reason) String() string { return [...]string{"value", "primary", "secondary"}[r] }

// Pick reserves a member for one request: its primary if usable, else its
// secondary, else by load value (see the package comment). A member that the
// Round has tried is not usable. Pick does not allocate.
//
// The caller must call [Lease.Done] exactly once. The error is [ErrNoMember]
// when no member is usable, not even by forced recovery.
func (b *Balancer) Pick(r Request) (Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := time.Now()
	b.refresh(now)
	m, why := b.choose(&r)
	if m == nil && !r.Avoid && b.force(r.Round) {
		m, why = b.choose(&r)
	}
	if m == nil {
		return Lease{}, ErrNoMember
	}
	if m.state == StateRecover {
		m.state = StateProbe
		m.trialAt = now
	}
	m.served++
	fresh := !r.Session && len(r.Primary) == 0 && !r.Stateless
	if fresh {
		m.sessions++
	}
	m.busy++
	m.maxBusy = max(m.maxBusy, m.busy)
	b.busy++
	b.maxBusy = max(b.maxBusy, b.busy)
	b.account(m)
	r.Round.add(m.slot)
	return Lease{b: b, m: m, life: m.life, reason: why, fresh: fresh}, nil
}

// Serves reports whether a session that names route would be served by it now:
// whether there is such a member, and it is usable. For the activations of a, which
// may be nil, see [Request]. Serves does not allocate and does not retain route.
func (b *Balancer) Serves(route []byte, a Activations) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(time.Now())
	m := b.byRoute[string(route)]
	return m != nil && m.sticky(a)
}

// choose returns the member for r, or nil. b.mu must be held.
func (b *Balancer) choose(r *Request) (*member, Reason) {
	var primary, secondary *member
	if len(r.Primary) > 0 {
		primary = b.byRoute[string(r.Primary)]
	}
	if len(r.Secondary) > 0 {
		secondary = b.byRoute[string(r.Secondary)]
	}
	if r.Avoid {
		return b.byValue(r, primary, secondary), ByValue
	}
	if primary != nil && primary.sticky(r.Activations) && !r.Round.has(primary.slot) {
		return primary, ByPrimary
	}
	if secondary != nil && secondary.sticky(r.Activations) && !r.Round.has(secondary.slot) {
		return secondary, BySecondary
	}
	return b.byValue(r, nil, nil), ByValue
}

// sticky reports whether m may serve a session that names it.
func (m *member) sticky(a Activations) bool {
	return m.state.usable() && a.of(m) != Stopped && m.Phase != Starting
}

// byValue returns the usable member with the lowest load value that is neither
// not1 nor not2, or nil (mod_jk.md 3.4). Of equals it is the first behind the one
// chosen last. A member that is not Running is taken only if no other can be.
// b.mu must be held.
func (b *Balancer) byValue(r *Request, not1, not2 *member) *member {
	var best *member
	next := b.next
	for i := range b.members {
		at := b.next + i
		if at >= len(b.members) {
			at -= len(b.members)
		}
		m := b.members[at]
		if !m.state.usable() || r.Activations.of(m) != Active || m == not1 || m == not2 || r.Round.has(m.slot) {
			continue
		}
		if best == nil || less(m, best, r.Stateless) {
			best = m
			next = at + 1
		}
	}
	b.next = next % max(1, len(b.members))
	return best
}

// less reports whether m is to be preferred to best.
func less(m, best *member, stateless bool) bool {
	if a, b := m.Phase.rank(), best.Phase.rank(); a != b {
		return a < b
	}
	return !stateless && m.lbValue < best.lbValue
}

// account adds one request to the load of m. b.mu must be held.
func (b *Balancer) account(m *member) {
	m.lbValue += m.mult
	if m.lbValue < 1<<62 {
		return
	}
	for _, m := range b.members { // only after years without maintenance
		m.lbValue >>= 1
	}
}

// force makes every member in error usable, once in a round, and reports whether
// there was one (mod_jk.md 3.8). b.mu must be held.
func (b *Balancer) force(round *Round) bool {
	if round != nil {
		if round.forced {
			return false
		}
		round.forced = true
	}
	forced := false
	for _, m := range b.members {
		if m.state == StateError {
			m.force()
			round.remove(m.slot)
			forced = true
		} else if m.state == StateProbe && !round.has(m.slot) {
			m.force()
			forced = true
		}
	}
	return forced
}

// A Lease is one request's hold on a member. It is a value; the zero Lease holds
// nothing.
type Lease struct {
	b      *Balancer
	m      *member
	life   uint32
	reason Reason
	fresh  bool // counted as a new session
	told   bool // Answered was called
}

// Route returns the route of the leased member.
func (l Lease) Route() string { return l.m.Route }

// Slot returns a number below [MaxMembers] that belongs to the leased member for
// as long as it is one.
func (l Lease) Slot() int { return l.m.slot }

// Value returns the Value of the leased member.
func (l Lease) Value() any { return l.m.Value }

// Reason returns why the member was chosen.
func (l Lease) Reason() Reason { return l.reason }

// Answered records before the end of the exchange that the member has answered,
// with the effect of [OK], for one whose rest may take hours: its trial, if it is
// one, is over. The lease that it returns takes the place of l. If that ends with
// OK or [ClientFailed] nothing is said of the member any more, which may have
// fared otherwise since.
func (l Lease) Answered() Lease {
	if l.b == nil {
		return l
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.life == l.m.life {
		l.m.result(l.b, OK, time.Now())
	}
	l.told = true
	return l
}

// Others returns how many members beside the leased one could serve a session that
// names them: those that live, as far as is known (last-node guard, design.md D8).
func (l Lease) Others() int {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(time.Now())
	n := 0
	for _, m := range b.members {
		if m != l.m && m.sticky(nil) {
			n++
		}
	}
	return n
}

// Done ends the lease and records how the exchange went. If the member was
// cleared or removed meanwhile the outcome is ignored: it says nothing of the
// member that is there now. Done does not allocate.
func (l Lease) Done(o Outcome) {
	if l.b == nil {
		return
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.m.busy--
	l.b.busy--
	if l.life != l.m.life {
		return
	}
	switch {
	case o == Unused:
		l.m.undo(l.fresh)
		return
	case l.told && o == OK:
		return
	case l.told && o == ClientFailed:
		l.m.clientErrors++
		return
	}
	l.m.result(l.b, o, time.Now())
}
