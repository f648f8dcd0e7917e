package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
)

// Redundancy is how far a member is with giving copies to the sessions that
// lost one (D7).
type Redundancy struct {
	// Lacking is how many sessions this member has to find a holder for:
	// those of which it is the primary and no other member is known to hold
	// the record as it is now, and those that it is to take over from a primary
	// that is gone or drains, or that gave them up to nobody. It is zero if there is nobody who could hold a copy.
	Lacking int

	// Restoring reports whether this member has something to do: Lacking is
	// not zero, or a member was lost and not all sessions have been looked at
	// since.
	Restoring bool

	// Restored are the members, name#boot, that are lost and from whose loss all
	// sessions have recovered: what they held has another holder, as far as it is
	// for this member to see to it, and another loss would lose nobody's session
	// (D8). So none are added while nobody can hold a copy. The last 64, in the
	// order in which they were done. A member that comes back is taken out.
	Restored []string
}

// What is done for sessions that nobody asks for (D7, R13, R14, R16, SESS-32):
// whoever loses a copy gets another, whose primary is gone or drains is taken
// over by the first in line, and who has come and ranks better gets its share.
//
// One goroutine does all of it, session by session. It waits between two of them
// as [Config.RestoreRate] and [Config.RestoreBytes] say, and never has more
// under way than a request can wait for: see window.

const (
	// windowSessions and windowBytes bound what is under way in the background
	// and not acknowledged. What a request sends may have to wait behind it on a
	// connection, and an Update that is answered late breaks the connection for
	// all (C4), so it is small; on a network with a round trip of 1 ms it still
	// lets 250 MB/s through.
	windowSessions = 64
	windowBytes    = 256 << 10

	// settleIn is how long a member is ready before copies move to it that have
	// a place already (D7): one that restarts again and again does not get any.
	settleIn = 30 * time.Second

	// againIn is when sessions that still lack a copy are looked at again.
	againIn = time.Second

	// starvedFor is how long rounds may be put off by what is noticed meanwhile.
	starvedFor = 3 * againIn

	// maxNoticed bounds the sessions that are remembered one by one; more are
	// found by looking at all.
	maxNoticed = 1024

	// keepRestored bounds Redundancy.Restored.
	keepRestored = 64

	// saved is how long a pause may be saved up, so that short sleeps need not be
	// exact.
	saved = 20 * time.Millisecond
)

// A restorer knows what there is to do in the background, and how much of it is
// under way.
type restorer struct {
	m          *Manager
	wakeup     chan struct{} // capacity one: there is something to do
	changed    chan struct{} // capacity one: restored is another
	perSession time.Duration // between two
	perByte    float64       // in nanoseconds
	free       time.Time     // when the next may go; its goroutine's own

	mu       sync.Mutex     // guards what follows; a leaf
	looking  []owner.Member // lost; not all sessions have been looked at since
	looked   []owner.Member // they have, and some lack a copy yet
	restored []owner.Member // all is done; latest last
	since    time.Time      // of the first of looking and looked
	noticed  []string       // sessions that have become a case on their own
	all      bool           // all sessions are to be looked at
	ready    map[owner.Member]readiness
	round    uint32 // counts the ends of connections: what was under way then is not waited for
	sessions int    // under way in this round
	bytes    int
	room     chan struct{} // capacity one: less is under way
	second   int64         // of the last session that was done, in Unix time
	rate     [2]int        // done in that second, and in the one before
}

// readiness is since when a member is ready, and whether copies have moved to it.
type readiness struct {
	at    time.Time
	moved bool
}

func newRestorer(m *Manager, rate int, bytes int64) *restorer {
	return &restorer{
		m: m, wakeup: make(chan struct{}, 1), changed: make(chan struct{}, 1), room: make(chan struct{}, 1), ready: map[owner.Member]readiness{},
		perSession: time.Second / time.Duration(rate), perByte: float64(time.Second) / float64(bytes),
	}
}

// signal puts a token into a channel of capacity one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // a token is already waiting
	}
}

// lost notes that p is lost; all sessions are looked at after that.
func (r *restorer) lost(p owner.Member) {
	r.mu.Lock()
	r.remove(p)
	if len(r.looking)+len(r.looked) == 0 {
		r.since = time.Now()
	}
	r.looking = append(r.looking, p)
	r.all = true
	r.mu.Unlock()
	signal(r.wakeup)
}

// look has all sessions looked at.
func (r *restorer) look() {
	r.mu.Lock()
	r.all = true
	r.mu.Unlock()
	signal(r.wakeup)
}

// running notes which other members are ready.
func (r *restorer) running(now map[owner.Member]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range now {
		if _, known := r.ready[p]; !known {
			r.ready[p] = readiness{at: time.Now()}
			signal(r.wakeup) // to set its timer
		}
	}
	for p := range r.ready {
		if !now[p] {
			delete(r.ready, p)
		}
	}
}

// newcomers returns the members to which copies are to move now if they rank
// better, and when the next one will be there; zero for none.
func (r *restorer) newcomers() (now []owner.Member, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, is := range r.ready {
		switch left := settleIn - time.Since(is.at); {
		case is.moved:
		case left <= 0:
			now = append(now, p)
		case next == 0 || left < next:
			next = left
		}
	}
	return now, next
}

// back notes that p can be reached again, so that its next loss is another one.
func (r *restorer) back(p owner.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
}

// remove forgets p. r.mu must be held.
func (r *restorer) remove(p owner.Member) {
	is := func(q owner.Member) bool { return p == q }
	r.looking = slices.DeleteFunc(r.looking, is)
	r.looked = slices.DeleteFunc(r.looked, is)
	if slices.Contains(r.restored, p) {
		r.restored = slices.DeleteFunc(r.restored, is)
		signal(r.changed)
	}
}

// notice remembers a session that has become a case on its own.
func (r *restorer) notice(id string) {
	r.mu.Lock()
	if len(r.noticed) < maxNoticed {
		r.noticed = append(r.noticed, id)
	} else {
		r.all = true
	}
	r.mu.Unlock()
	signal(r.wakeup)
}

// begin counts a session of that size as under way, and returns its round.
func (r *restorer) begin(size int) (round uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions++
	r.bytes += size
	return r.round
}

// done counts it out.
func (r *restorer) done(size int, round uint32) {
	now := time.Now().Unix()
	r.mu.Lock()
	switch now {
	case r.second:
	case r.second + 1:
		r.rate = [2]int{0, r.rate[0]}
	default:
		r.rate = [2]int{}
	}
	r.second = now
	r.rate[0]++
	if round == r.round {
		r.sessions--
		r.bytes -= size
	}
	r.mu.Unlock()
	signal(r.room)
}

// forget stops waiting for all that is under way: some of it may have been on a
// connection that has ended.
func (r *restorer) forget() {
	r.mu.Lock()
	r.round++
	r.sessions, r.bytes = 0, 0
	r.mu.Unlock()
	signal(r.room)
}

// perSecond is how many sessions were done in the last whole second.
func (r *restorer) perSecond() int {
	now := time.Now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now {
	case r.second:
		return r.rate[1]
	case r.second + 1:
		return r.rate[0]
	}
	return 0
}

// full reports whether another session of that size has to wait. One alone
// never has to.
func (r *restorer) full(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions >= windowSessions || r.sessions > 0 && r.bytes+size > windowBytes
}

// wait waits until a session of that size may be dealt with, and reports false
// once ctx is done. No lock may be held.
func (r *restorer) wait(ctx context.Context, size int) bool {
	now := time.Now()
	if low := now.Add(-saved); r.free.Before(low) {
		r.free = low
	}
	r.free = r.free.Add(max(r.perSession, time.Duration(float64(size)*r.perByte)))
	if d := r.free.Sub(now); d > 0 && !pause(ctx, d) {
		return false
	}
	for r.full(size) {
		select {
		case <-r.room:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// pause waits for d, or reports false once ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// run looks at the sessions whenever something has happened, until ctx is done.
func (r *restorer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	rested := time.Now() // when the last round was, or nobody waited for one
	for {
		late := false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			late = true
		case <-r.wakeup:
			late = time.Since(rested) >= starvedFor
		}
		r.review(ctx, late)
		lacking := r.m.stats.lacking.Load() > 0 && r.m.helpful()
		if late || !lacking {
			rested = time.Now()
		}
		now, next := r.newcomers()
		if lacking || len(now) > 0 {
			next = againIn
		}
		if next == 0 {
			timer.Stop()
		} else {
			timer.Reset(next)
		}
		r.m.wake() // settle
	}
}

// review deals with the sessions that were noticed, or with all; late says that
// it is time for another round.
func (r *restorer) review(ctx context.Context, late bool) {
	r.mu.Lock()
	all := late || r.all
	r.all = false
	looking := slices.Clone(r.looking)
	r.mu.Unlock()
	if !all {
		r.attend(ctx)
		return
	}
	newcomers, _ := r.newcomers()
	if r.m.stats.lacking.Load() > 0 || len(looking) > 0 {
		newcomers = nil // who has no copy comes first
	}
	r.m.table.each(func(e *entry) bool { return r.attend(ctx) && r.see(ctx, e, newcomers, late) })
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range looking {
		if k := slices.Index(r.looking, p); k >= 0 { // else it is back, or lost once more
			r.looking = slices.Delete(r.looking, k, k+1)
			r.looked = append(r.looked, p)
		}
	}
	for _, p := range newcomers {
		if is, ok := r.ready[p]; ok {
			r.ready[p] = readiness{is.at, true}
		}
	}
}

// attend deals with the sessions that were noticed. It reports false once ctx is
// done.
func (r *restorer) attend(ctx context.Context) bool {
	for ctx.Err() == nil {
		r.mu.Lock()
		noticed := r.noticed
		r.noticed = nil
		r.mu.Unlock()
		if len(noticed) == 0 {
			return true
		}
		for _, id := range noticed {
			e := r.m.table.hold(id)
			r.see(ctx, e, nil, false)
			r.m.table.drop(e)
		}
	}
	return false
}

// settle notes from whose loss all sessions have recovered. Manager.run calls it.
func (r *restorer) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.looking) > 0 || len(r.looked) == 0 || r.m.stats.lacking.Load() > 0 {
		return
	}
	r.restored = append(r.restored, r.looked...)
	r.restored = slices.Delete(r.restored, 0, max(0, len(r.restored)-keepRestored))
	r.looked = nil
	r.m.log.Info().Dur("took", time.Since(r.since)).Msg("redundancy restored")
	signal(r.changed)
}

// Redundancy returns how things stand now. It is cheap.
func (m *Manager) Redundancy() Redundancy {
	var out Redundancy
	helpful := m.helpful()
	if helpful {
		out.Lacking = int(m.stats.lacking.Load())
	}
	r := m.restorer
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Restoring = out.Lacking > 0 || len(r.looking) > 0 && helpful
	for _, p := range r.restored {
		out.Restored = append(out.Restored, p.String())
	}
	return out
}

// RedundancyChanged returns a channel that gets a token whenever
// [Redundancy.Restored] has changed. It has one reader.
func (m *Manager) RedundancyChanged() <-chan struct{} { return m.restorer.changed }

// see does for one session what there is to do; late says that a round has passed
// since the last one. It reports false once ctx is done.
func (r *restorer) see(ctx context.Context, e *entry, newcomers []owner.Member, late bool) bool {
	m := r.m
	e.mu.Lock()
	defer e.mu.Unlock()
	kind, _ := m.due(e, newcomers)
	if kind == owner.Recover && !m.first(e) && (!late || !e.astray) {
		// The first in line may hold nothing of it, or only what came before, for
		// the primary went before it had told all: if it has not taken over by the
		// next round, who holds a copy looks for itself.
		e.astray, kind = true, 0
		m.weigh(e)
	}
	if kind == 0 {
		return ctx.Err() == nil
	}
	size := e.size + overhead
	e.mu.Unlock()
	ok := r.wait(ctx, size)
	e.mu.Lock()
	if !ok {
		return false
	}
	kind, p := m.due(e, newcomers)
	if kind == 0 {
		return true
	}
	if e.under == 0 {
		e.under, e.round = max(1, uint32(size)), r.begin(size)
	}
	ev := owner.Event{Kind: kind, Peer: p} // whom to relieve, with Recover: nobody else
	if kind == owner.Recover {
		c := m.newCall()
		c.quiet = true
		e.astray = true
		ev.Op = &c.op
	}
	epoch := e.epoch
	m.step(e, &ev, nil)
	switch {
	case kind == owner.Recover: // it goes on until its Reply
	case e.epoch == epoch: // nobody can take the place
		e.astray = e.astray || kind == owner.PeerLost
		m.release(e)
	case kind == owner.Relocate:
		e.moving = true // the old copy is there until the new one is
	}
	m.weigh(e)
	return true
}

// release stops waiting for what is under way for the session in the background.
// e.mu must be held.
func (m *Manager) release(e *entry) {
	if e.under > 0 {
		m.restorer.done(int(e.under), e.round)
		e.under = 0
	}
}

// due returns the event with which this member is to do something for a session
// in the background, and the member that it is about; 0 if there is nothing.
// e.mu must be held.
func (m *Manager) due(e *entry, newcomers []owner.Member) (owner.EventKind, owner.Member) {
	switch e.role {
	case primary:
		if k := slices.IndexFunc(e.copies, m.isLost); k >= 0 { // one that is astray may be back, and not have said so yet
			if !e.astray || m.helpful() {
				return owner.PeerLost, e.copies[k]
			}
			break
		}
		switch {
		case len(e.copies) == 0:
			if m.helpful() {
				return owner.PeerUp, owner.Member{} // SESS-32
			}
		case len(e.copies) < m.secondaries && m.roomier(e):
			return owner.PeerUp, owner.Member{}
		default:
			return m.better(e, newcomers)
		}
	case secondary:
		p := e.machine.Record().Primary
		if !p.IsZero() && !slices.Contains(e.copies, m.self) || e.astray && e.machine.Busy() {
			break
		}
		switch {
		case p.IsZero():
			return owner.Recover, p
		case m.leaves(p) && !m.leaves(m.self) && m.first(e): // R16
			return owner.Recover, p
		case m.isLost(p) && (m.isGone(p) || m.helpful()): // R14; alone, a new epoch gains nothing
			return owner.Recover, owner.Member{}
		}
	default:
	}
	return 0, owner.Member{}
}

// roomier reports whether there is a place for one more copy: a member that can be
// reached, and has room. e.mu must be held.
func (m *Manager) roomier(e *entry) bool {
	return !m.leaves(m.self) && slices.ContainsFunc(m.cluster.Members(), func(c cluster.Member) bool {
		p := ownerMember(c)
		return !c.Proxy && c.State != cluster.Draining && c.Name != m.self.Name &&
			!slices.Contains(e.copies, p) && m.facts(p)&owner.Connected != 0 && !m.isCrowded(p)
	})
}

// better returns the move of a copy that has a place to a better one: because
// that member drains, or because a newcomer ranks better. e.mu must be held.
func (m *Manager) better(e *entry, newcomers []owner.Member) (owner.EventKind, owner.Member) {
	for _, c := range e.copies {
		if m.leaves(c) && m.helpful() {
			return owner.Relocate, c
		}
	}
	if len(newcomers) == 0 || m.leaves(m.self) {
		return 0, owner.Member{}
	}
	ranked := Rank(m.cluster.Self(), m.cluster.Members(), e.id, m.placement)
	best := ranked[:min(len(ranked), len(e.copies))]
	for _, c := range best {
		p := ownerMember(c)
		if slices.Contains(e.copies, p) || !slices.Contains(newcomers, p) || m.facts(p)&owner.Connected == 0 || m.isCrowded(p) {
			continue
		}
		for _, old := range slices.Backward(e.copies) {
			if !slices.ContainsFunc(best, func(c cluster.Member) bool { return ownerMember(c) == old }) {
				return owner.Relocate, old
			}
		}
	}
	return 0, owner.Member{}
}

// first reports whether this member is the first in the line of succession of a
// session of which it holds a copy, as far as it knows. If the session has no
// primary and nobody of the line can be reached, whoever holds a copy is: one that
// was left behind (R17), when the primary that it was given to followed another
// branch. e.mu must be held.
func (m *Manager) first(e *entry) bool {
	for _, c := range e.copies {
		switch {
		case c == m.self:
			return true
		case m.isLost(c), m.leaves(c):
		default:
			return false
		}
	}
	return e.machine.Record().Primary.IsZero()
}

// isGone reports whether p is proven gone (C5).
func (m *Manager) isGone(p owner.Member) bool {
	l := m.links.find(p)
	return l != nil && l.gone.Load() || m.cluster.Gone(p.String())
}

// leaves reports whether p drains.
func (m *Manager) leaves(p owner.Member) bool { return (*m.leaving.Load())[p] }

// takers returns how many other members can hold copies.
func (m *Manager) takers() (n int) {
	for _, c := range m.cluster.Members() {
		if c.Proxy || c.Name == m.self.Name || c.State == cluster.Draining {
			continue
		}
		if l := m.links.find(ownerMember(c)); l != nil {
			if up, _ := l.isUp(); up {
				n++
			}
		}
	}
	return n
}

// helpful reports whether there is another member that can hold copies.
func (m *Manager) helpful() bool { return m.takers() > 0 }

// lacks reports whether this member has to find a holder for the session. e.mu
// must be held.
func (e *entry) lacks() bool {
	switch e.role {
	case primary:
		r := e.machine.Record()
		// What was never acknowledged, nobody but a request that waits knows of.
		return e.astray || !e.moving && e.machine.Copied() < max(1, len(r.Copies)) && (r.Epoch.N > 1 || len(r.Copies) == 0)
	case secondary:
		return e.astray
	default:
		return false
	}
}

// troubled reports whether members are lost or leaving.
func (m *Manager) troubled() bool {
	if len(*m.leaving.Load()) > 0 {
		return true
	}
	m.restorer.mu.Lock()
	defer m.restorer.mu.Unlock()
	return len(m.restorer.looking)+len(m.restorer.looked) > 0
}
