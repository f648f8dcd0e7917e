package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
)

// errUnsafe is what a handler that ran is told, and then its client, if its
// changes could not be made safe: the session went to a member that cannot be
// reached (R10), or on which others have changed the same attributes since.
var errUnsafe = errors.New("the changes are not safe: the session was taken over by a member that cannot be reached, or that has newer values of the same attributes")

// create makes the session, with changes in its first version, and reports
// whether they are in it: not if the client's lost session was made anew by
// another request meanwhile (H31), which this one then joins. s.mu must be held;
// it is released while that is waited for.
func (s *Session) create(changes owner.Changes) (applied bool, err error) {
	if s.begun {
		return false, errBegun
	}
	m := s.m
	old := s.e // one that has ended
	lost := ""
	if s.lost {
		lost = s.presented.ID
	}
	e, c, joined, err := m.reborn.make(m, lost, changes)
	if err != nil {
		s.denied = err
		return false, err
	}
	if joined {
		s.mu.Unlock()
		a := m.wait(c)
		s.mu.Lock()
		if s.over || s.e != old { // the request has ended, or another goroutine of it was faster
			s.mu.Unlock()
			if a.handle {
				m.end(e, c)
			} else {
				m.table.drop(e)
			}
			s.mu.Lock()
			if s.over {
				return false, errOver
			}
			return false, nil
		}
		if !a.handle {
			m.table.drop(e)
			if e, c, err = m.bear(changes); err != nil {
				s.denied = err
				return false, err
			}
			joined = false
		}
	}
	if old != nil {
		m.table.drop(old)
	}
	s.e, s.call, s.isNew, s.ended = e, c, true, false
	s.born, s.leftover, s.before, s.flushed = !joined, false, nil, nil
	if joined {
		s.before, s.idleBefore = e.record().Attrs, e.record().Expiry.Idle
	}
	r := e.record()
	s.seen, s.version = r.Attrs, r.Version
	if s.exclusive && !joined {
		s.mu.Unlock()
		m.own(s, e.id)
		s.mu.Lock()
	}
	return !joined, nil
}

// bear makes a new session, unless there are too many. The entry is held.
func (m *Manager) bear(changes owner.Changes) (*entry, *call, error) {
	if m.alone() {
		m.stats.noReplica.Add(1)
		return nil, nil, ErrNoReplica
	}
	m.births.Lock()
	defer m.births.Unlock()
	if m.full() {
		m.stats.tooMany.Add(1)
		return nil, nil, ErrTooManySessions
	}
	e, c := m.found(changes)
	return e, c, nil
}

// found makes a new session. The entry is held.
func (m *Manager) found(changes owner.Changes) (*entry, *call) {
	now := m.clock()
	e := m.table.hold(newID())
	c := m.newCall()
	e.mu.Lock()
	e.next = EventCreated
	m.step(e, &owner.Event{Kind: owner.Create, Op: &c.op, Changes: changes, Expiry: owner.Expiry{
		Idle: m.firstIdle.Milliseconds(), Access: now, End: now + m.lifetime.Milliseconds(),
	}}, nil)
	e.mu.Unlock()
	m.stats.created.Add(1)
	return e, c
}

// end takes back a call that has nothing to say.
func (m *Manager) end(e *entry, c *call) {
	e.mu.Lock()
	m.step(e, &owner.Event{Kind: owner.Return, Op: &c.op}, nil)
	e.mu.Unlock()
	m.wait(c)
	m.table.drop(e)
}

// rebornFor is how long requests that bring a lost session share the one that
// the first of them made in its place.
const rebornFor = 10 * time.Second

// reborn is what became of sessions that were lost: of many requests that come
// at once with the same reference only one makes a new session (H31).
type reborn struct {
	mu  sync.Mutex         // guards ids; before entry.mu
	ids map[string]newborn // by the id that was lost
}

type newborn struct {
	id    string
	until time.Time
}

// make makes a session, or joins the one that was made in place of lost. The
// entry is held; of a call that joined, the answer is to be waited for.
func (r *reborn) make(m *Manager, lost string, changes owner.Changes) (e *entry, c *call, joined bool, err error) {
	if lost == "" {
		e, c, err = m.bear(changes)
		return e, c, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if n, ok := r.ids[lost]; ok && now.Before(n.until) {
		e, c = m.arrive(n.id)
		return e, c, true, nil
	}
	if e, c, err = m.bear(changes); err != nil {
		return nil, nil, false, err
	}
	if r.ids == nil {
		r.ids = make(map[string]newborn)
	}
	r.ids[lost] = newborn{e.id, now.Add(rebornFor)}
	return e, c, false, nil
}

// find returns the id of the session that was made in place of lost, or "".
func (r *reborn) find(lost string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := r.ids[lost]; ok && time.Now().Before(n.until) {
		return n.id
	}
	return ""
}

func (r *reborn) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, n := range r.ids {
		if !now.Before(n.until) {
			delete(r.ids, id)
		}
	}
}

// arrive begins a request for the session of that id, of which nothing else is
// known. The entry is held; the call answers when the handler may run, or must not.
func (m *Manager) arrive(id string) (*entry, *call) {
	return m.arriveAs(nil, cookie.Value{ID: id, Primary: m.self.Name}, false)
}

// arriveAs begins a request that presents v (R1 to R6) and has its turn at the
// session, if s is not nil. If it may go elsewhere, a member that drains does not
// take the session back for it.
func (m *Manager) arriveAs(s *Session, v cookie.Value, elsewhere bool) (*entry, *call) {
	e := m.table.hold(v.ID)
	c := m.newCall()
	c.turn = s
	ev := owner.Event{Kind: owner.Request, Op: &c.op, Cookie: epochOf(v.Epoch), Primary: m.living(v.Primary), Expiry: owner.Expiry{Access: m.clock()}}
	e.mu.Lock()
	defer e.mu.Unlock()
	m.expire(e)
	if elsewhere && e.role != primary && m.drains() {
		c.done <- answer{Result: owner.Result{Outcome: owner.NotExecuted}}
		return e, c
	}
	r := e.machine.Record()
	c.accessed = r.Expiry.Access
	if v.Secondary != "" && (!e.machine.Primary(m.self) || !r.Descends(ev.Cookie)) {
		ev.Secondary = m.living(v.Secondary)
	}
	m.step(e, &ev, nil)
	return e, c
}

// settle has what the request has seen and changed so far acknowledged (D5). If
// last, the handler has returned and the session is not changed any more.
func (m *Manager) settle(ctx context.Context, s *Session, last bool) error {
	select {
	case s.flushing <- struct{}{}:
		defer func() { <-s.flushing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	s.over = s.over || last
	e, c, out := s.e, s.call, s.out
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	end, err := m.turnInPool(ctx)
	if err != nil {
		if last {
			m.giveUp(s)
		}
		return err
	}
	defer end()
	if out { // an earlier Flush was given up by its caller
		err := m.await(ctx, s, e, c)
		s.heard(err)
		if err != nil && !last {
			return err
		}
	}
	s.mu.Lock()
	rotate, ended := s.rotate, s.ended
	s.mu.Unlock()
	if rotate != "" && !ended {
		if err := m.rotate(ctx, s); err != nil {
			if last {
				m.giveUp(s)
			}
			return err
		}
		s.mu.Lock()
		e, c = s.e, s.call
		s.mu.Unlock()
	}
	s.mu.Lock()
	ev := owner.Event{Kind: owner.Flush, Op: &c.op, Loose: m.loose(e), Changes: s.pending(), Expiry: owner.Expiry{Access: m.clock(), Idle: s.idle.Milliseconds()}}
	if last || s.ended {
		ev.Kind, ev.Invalidate = owner.Return, s.ended
		s.call = nil
	}
	if !last { // nobody can take anything back any more
		s.sent(ev.Changes)
	}
	changes := ev.Changes
	s.sending, s.sendingIdle = changes, s.idle
	s.changes, s.idle, s.out = nil, 0, true
	s.mu.Unlock()
	refused := m.submit(e, s, &ev)
	err = cmp.Or(m.await(ctx, s, e, c), refused)
	if err == nil {
		err = m.unprotected(s, len(changes) > 0)
	}
	if err == nil && ev.Loose && m.queue == nil {
		m.handOver(ctx, e)
	}
	if !last {
		if refused != nil {
			s.restore()
		} else {
			s.heard(err)
		}
	}
	return err
}

// heard is what a flush, of which err is the answer, does to what it has sent. If
// it was given up the answer is yet to come.
func (s *Session) heard(err error) {
	switch {
	case err == nil:
		s.keep()
	case errors.Is(err, errUnsafe):
		s.restore()
	}
}

// giveUp ends the request's call without its changes.
func (m *Manager) giveUp(s *Session) {
	s.mu.Lock()
	e, c := s.e, s.call
	s.call = nil
	s.mu.Unlock()
	if c == nil {
		return
	}
	_ = m.submit(e, nil, &owner.Event{Kind: owner.Return, Op: &c.op}) // without changes it fits
	m.wait(c)
}

// sent notes what Rollback would have to take back. s.mu must be held.
func (s *Session) sent(changes owner.Changes) {
	s.idleSent = s.idleSent || s.idle != 0
	for _, c := range changes {
		if s.flushed == nil {
			s.flushed = make(map[string]bool)
		}
		s.flushed[c.Key] = true
	}
}

// undo returns the changes that take back what was flushed by this request. s.mu
// must be held.
func (s *Session) undo() owner.Changes {
	var ch owner.Changes
	for name := range s.flushed {
		old, had := s.before.Get(name)
		ch = append(ch, owner.Change{Key: name, Value: old, Removed: !had})
	}
	return ch
}

// keep has the request see what it has flushed, also if the session has gone to
// another member meanwhile.
func (s *Session) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.sending
	if len(changes) == 0 {
		return
	}
	all := make(map[string][]byte, len(s.seen)+len(changes))
	for _, a := range s.seen {
		all[a.Key] = a.Value
	}
	for _, c := range changes {
		if all[c.Key] = c.Value; c.Removed {
			delete(all, c.Key)
		}
	}
	s.seen = make(owner.Attrs, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		s.seen = append(s.seen, owner.Attr{Key: key, Value: all[key]})
	}
}

// restore takes back what a flush has not made safe, for the next one.
func (s *Session) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	for _, c := range s.sending {
		if _, newer := s.changes[c.Key]; !newer {
			s.change(c.Key, c.Value)
		}
	}
	s.idle = cmp.Or(s.idle, s.sendingIdle)
}

// submit gives the session an event of s, or of nobody. If the session would
// become too large with its changes, s has lost its turn, or nobody can hold the
// copy that there has to be, the event comes without them, and submit says so.
func (m *Manager) submit(e *entry, s *Session, ev *owner.Event) error {
	m.stats.flushes.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.revoked(s) && (len(ev.Changes) > 0 || ev.Expiry.Idle != 0 || ev.Invalidate) {
		ev.Changes, ev.Expiry.Idle, ev.Invalidate = nil, 0, false
		m.step(e, ev, nil)
		m.stats.failed.Add(1)
		m.log.Warn().Str("session", HashID(e.id)).Msg("exclusive request was too slow")
		return errRevoked
	}
	if s != nil && len(ev.Changes) > 0 && m.alone() {
		ev.Changes = nil
		m.step(e, ev, nil)
		m.stats.noReplica.Add(1)
		return ErrNoReplica
	}
	fits := m.fits(e, ev.Changes)
	if !fits {
		ev.Changes = nil
	}
	m.step(e, ev, nil)
	if fits {
		return nil
	}
	m.stats.failed.Add(1)
	m.log.Warn().Str("session", HashID(e.id)).Int("limit", m.maxBytes).Msg("changes of several requests are too large together")
	return ErrTooLarge
}

// fits reports whether the session stays within MaxBytes with these changes, or
// does not grow. Each request has looked at its own; but several at a time can
// make more together than a frame carries. e.mu must be held.
func (m *Manager) fits(e *entry, changes owner.Changes) bool {
	if len(changes) == 0 {
		return true
	}
	held, added := 0, 0
	r := e.machine.Record()
	for _, a := range r.Attrs {
		held += len(a.Key) + len(a.Value)
	}
	for _, c := range changes {
		if !c.Removed {
			added += len(c.Key) + len(c.Value)
		}
	}
	if held+added <= m.maxBytes {
		return true
	}
	for _, c := range changes {
		if old, ok := r.Attrs.Get(c.Key); ok {
			added -= len(c.Key) + len(old)
		}
	}
	return added <= 0 || held+added <= m.maxBytes
}

// await takes the machine's answer to a flush.
func (m *Manager) await(ctx context.Context, s *Session, e *entry, c *call) error {
	var a answer
	select {
	case a = <-c.done:
	default:
		select {
		case a = <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		case <-m.closed:
			return errUnsafe
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = false
	switch a.Outcome {
	case owner.Served:
		s.take(e.id, &a.Result)
		return nil
	case owner.Ended:
		m.stats.ended.Add(1)
		s.ended = true
		return nil
	default:
	}
	m.stats.failed.Add(1)
	m.log.Warn().Str("session", HashID(e.id)).Msg("changes not acknowledged")
	return errUnsafe
}

// take notes what was acknowledged. s.mu must be held.
func (s *Session) take(id string, r *owner.Result) {
	if s.over && len(r.Header.Copies) == 0 {
		s.m.stats.unprotected.Add(1)
	}
	if r.Flagged && !s.lost {
		// The handler does not know. If it cannot ask any more the client
		// keeps its cookie, and the next request says so.
		s.lost, s.stale = true, s.over
		s.m.stats.flagged.Add(1)
	}
	s.acked, s.version = cookieValue(id, r.Header), r.Header.Version
}

// pending returns the changes since the last flush. s.mu must be held.
func (s *Session) pending() owner.Changes {
	if len(s.changes) == 0 {
		return nil
	}
	ch := make(owner.Changes, 0, len(s.changes))
	for name, raw := range s.changes {
		ch = append(ch, owner.Change{Key: name, Value: raw, Removed: raw == nil})
	}
	return ch
}

// rotate gives the session its new id: a new session with all that is in the
// old one, and then the old one ends. If the first fails the old one is as it
// was; the flushing token must be held.
func (m *Manager) rotate(ctx context.Context, s *Session) error {
	s.mu.Lock()
	old, oldCall := s.e, s.call
	if old.isRevoked(s) {
		s.mu.Unlock()
		m.stats.failed.Add(1)
		return errRevoked
	}
	r := old.record()
	if r.Dead { // meanwhile, by another request: the new one begins empty (I07)
		s.seen = nil
	}
	attrs := s.attributes()
	if r.Primary == m.self {
		attrs = r.Attrs // also what nobody has acknowledged: it will be, under the new id
	}
	var all owner.Changes
	for _, a := range attrs {
		if _, changed := s.changes[a.Key]; !changed && a.Key != leftoverKey {
			all = append(all, owner.Change{Key: a.Key, Value: a.Value})
		}
	}
	for _, c := range s.pending() {
		if !c.Removed {
			all = append(all, c)
		}
	}
	id, idle, exclusive := s.rotate, s.idle, s.exclusive
	made := s.pending()
	s.mu.Unlock()
	size := 0
	for _, c := range all {
		size += len(c.Key) + len(c.Value)
	}
	if size > m.maxBytes {
		return ErrTooLarge
	}

	if exclusive {
		m.own(s, id)
	}
	e := m.table.hold(id)
	c := m.newCall()
	x := owner.Expiry{Access: m.clock(), Idle: r.Expiry.Idle, End: r.Expiry.End}
	if idle != 0 {
		x.Idle = idle.Milliseconds()
	}
	if r.Dead {
		x = owner.Expiry{Access: x.Access, Idle: m.idleTimeout.Milliseconds(), End: x.Access + m.lifetime.Milliseconds()}
	}
	e.mu.Lock()
	e.next = EventRenewed
	m.step(e, &owner.Event{Kind: owner.Create, Op: &c.op, Changes: all, Expiry: x}, nil)
	m.events.tell(Event{Kind: EventRenewed, ID: id, Old: old.id, Version: 1})
	m.step(e, &owner.Event{Kind: owner.Flush, Op: &c.op, Loose: m.loose(e), Expiry: owner.Expiry{Access: x.Access}}, nil)
	e.mu.Unlock()
	a := m.wait(c)
	if a.Outcome != owner.Served {
		m.stats.failed.Add(1)
		_ = m.submit(e, nil, &owner.Event{Kind: owner.Return, Op: &c.op, Invalidate: true}) // without changes it fits
		m.wait(c)
		m.table.drop(e)
		return errUnsafe
	}
	s.mu.Lock()
	s.take(id, &a.Result)
	s.e, s.call, s.rotate, s.changes, s.idle, s.seen = e, c, "", nil, 0, e.record().Attrs
	s.leftover = false
	s.mu.Unlock()

	gone := m.retire(s, old, oldCall)
	s.mu.Lock()
	s.sent(made)
	s.mu.Unlock()
	m.table.drop(old)
	if gone.Outcome != owner.Ended && (s.grace == 0 || gone.Outcome != owner.Served) {
		return errUnsafe
	}
	return ctx.Err()
}
