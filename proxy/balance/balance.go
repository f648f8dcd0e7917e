package balance

import (
	"cmp"
	"errors"
	"fmt"
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

	// Method is how load is measured (method).
	Method Method

	// StickyForce keeps sessions from members that they do not name: there is
	// [ErrNoMember] instead (sticky_session_force).
	StickyForce bool

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

	// SlowStart is how long a member that is back after a failure, or new, takes
	// until it gets its whole share; it begins with a tenth of it. If zero, it gets
	// all of it at once.
	SlowStart time.Duration

	// DrainDeadline is how long a [Disabled] member serves its sessions; then it is
	// [Stopped]. If zero, there is no end, as in mod_jk.
	DrainDeadline time.Duration

	// DrainIdle is how long after its last request a session counts as one that a
	// Disabled member still has. If zero, it is 30 minutes.
	DrainIdle time.Duration

	// FastFail makes a request fail with [ErrNoMember] at once if all members are in
	// error and each has a trial under way already. Otherwise every request tries
	// members in error when there is nobody else (mod_jk.md 3.8).
	FastFail bool

	// Compat restores what mod_jk does where this is not unsafe: a member that
	// cannot be reached is tolerated for ErrorEscalationTime under load, it recovers
	// in a maintenance only, and a trial that runs keeps everybody else away.
	Compat bool
}

// A Balancer hands out members to requests. It is safe for concurrent use.
type Balancer struct {
	mu sync.Mutex // guards what follows and all members; held for O(members), never across I/O

	maintain         time.Duration
	slowStart        time.Duration
	drainDeadline    time.Duration
	drainIdle        time.Duration
	fastFail, compat bool

	members    []*member // in the order they were added
	byRoute    map[string]*member
	slots      []bool // which slots are taken
	next       int    // index in members where the next choice by value begins
	multiple   uint64 // of all lbfactors: what a member's mult is a share of
	maintained time.Time
	tuning     Tuning
	asked      Tuning // as configured last; what differs was changed since

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
	tuning := Tuning{
		Method: cfg.Method, StickyForce: cfg.StickyForce,
		RecoverTime: cfg.RecoverTime, ErrorEscalationTime: cfg.ErrorEscalationTime, MaxReplyTimeouts: cfg.MaxReplyTimeouts,
	}
	if err := tuning.check(); err != nil {
		return nil, err
	}
	if cfg.SlowStart < 0 || cfg.DrainDeadline < 0 || cfg.DrainIdle < 0 {
		return nil, fmt.Errorf("balance: SlowStart is %v, DrainDeadline %v, DrainIdle %v, want 0 or more", cfg.SlowStart, cfg.DrainDeadline, cfg.DrainIdle)
	}
	now := time.Now()
	b := &Balancer{
		maintain:  cfg.Maintain,
		slowStart: cfg.SlowStart, drainDeadline: cfg.DrainDeadline, drainIdle: cmp.Or(cfg.DrainIdle, 30*time.Minute), fastFail: cfg.FastFail, compat: cfg.Compat,
		byRoute:    make(map[string]*member),
		multiple:   1,
		maintained: now,
		tuning:     tuning,
		asked:      tuning,
		resetAt:    now,
	}
	for _, m := range cfg.Members {
		if err := b.Add(m); err != nil {
			return nil, err
		}
	}
	for _, m := range b.members {
		m.warmFrom = time.Time{} // all are new
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

	// Key is what [Rendezvous] hashes of the request: its session or its client.
	// Pick does not retain it.
	Key []byte

	// Stateless says that the request creates no session: among members without
	// preference it goes to one after the other, whatever their load values, and
	// it is not counted as a new session (mod_jk.md 3.3, 3.4).
	Stateless bool

	// Round remembers what this request has tried. If nil, nothing is remembered
	// between two picks.
	Round *Round
}

// Activations are the activations of some members, by name.
type Activations map[string]Activation

// of returns the activation that holds for m.
func (a Activations) of(m *member) Activation {
	if a != nil {
		if is, ok := a[m.Name]; ok {
			return is
		}
	}
	return m.activation()
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

// Pick reserves a member for one request: its primary if usable, else its
// secondary, else who stands in for its primary, else by the balancer's method (see
// the package comment). A member that the Round has tried is not usable. Pick does
// not allocate.
//
// The caller must call [Lease.Done] exactly once. The error is [ErrNoMember]
// when no member is usable, not even by forced recovery.
func (b *Balancer) Pick(r Request) (Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := time.Now()
	b.refresh(now)
	m, why := b.choose(&r, now)
	if m == nil && !r.Avoid && b.force(r.Round) {
		m, why = b.choose(&r, now)
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
	charged := b.begin(m, fresh, now)
	if m.drain != nil && r.Session {
		m.drain.note(r.Key, now)
	}
	r.Round.add(m.slot)
	l := Lease{b: b, m: m, route: m.Route, value: m.Value, life: m.life, reason: why, fresh: fresh, charged: charged, activation: r.Activations.of(m)}
	if b.tuning.Method == LeastTime {
		l.at = now
	}
	return l, nil
}

// Serves reports whether a session that names route would have a member now because
// of that: the one with this route, or who stands in for it by redirect or domain.
// r says what else the request wants, its session aside. Serves does not allocate and
// does not retain route.
func (b *Balancer) Serves(route []byte, r *Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(time.Now())
	return b.route(route, r) != nil
}

// Knows reports whether a member has the route, however it fares.
func (b *Balancer) Knows(route []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.named(route) != nil
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
		switch {
		case m.state == StateError:
			m.force()
			round.remove(m.slot)
		case m.state == StateProbe && !round.has(m.slot) && !b.compat && !b.fastFail:
			m.force()
		default:
			continue
		}
		if b.fastFail {
			m.state = StateRecover // so only one request gets it
		}
		forced = true
	}
	return forced
}
