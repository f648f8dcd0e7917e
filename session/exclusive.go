package session

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

var (
	errBusy      = errors.New("another request of this session takes too long")
	errUnreached = errors.New("the session went to a member that cannot be reached")
	errRevoked   = errors.New("another member has taken the session over, because this request took too long")
)

// Exclusive returns next for one request of a session at a time (SESS-8): it
// finds what the one before has changed, and nobody changes anything beside it
// but handlers that are not Exclusive. [Config.Exclusive] makes all so. It
// belongs inside of [Manager.Handler]. A request that has no session waits for
// nobody.
//
// A request waits for the others, in the order in which they came, at most
// [Config.ExclusiveWait]; then it is answered 503, and next does not run. It
// waits no longer than its client does. If the others are on another member, the
// session is taken over when they have ended, or when that time is over: what a
// handler has changed that was still running then is dropped, and its client
// gets a 503. So a handler that does not end, or asks for its own session by
// another request, costs that time and blocks nothing. If the session has gone
// to a member that cannot be reached from here, or this one drains, the proxy
// tries another one, unless the method is not safe and a handler around this one
// has run (D8): then it is a 503 for the client.
func Exclusive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		// What is around this handler has run, so only a request that can do no harm
		// may be tried elsewhere (D8).
		again := safe(r.Method)
		switch refusal, err := s.exclude(r.Context(), again); {
		case err != nil:
			busy(w, err)
		case refusal != "" && !again:
			busy(w, errUnreached)
		case refusal != "":
			s.m.refuse(w, refusal)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// busy answers a request that has waited for its turn for too long. No other
// member is to be tried: it would wait, too.
func busy(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// A turn says whose turn it is at a session on this member. All of it is guarded
// by the entry's mu.
type turn struct {
	by       *Session
	running  bool // its handler; before, it still looks for the session, and whoever else does must not wait for it
	waiting  []waiter
	deferred []take // asked for by other members
	revoked  bool   // they were not made to wait any longer
}

// A waiter is a request that waits for its turn.
type waiter struct {
	s     *Session
	ready chan struct{} // closed when it has it
}

// A take is a [owner.Take] that waits for the end of a turn.
type take struct {
	conn *peer.Conn
	msg  owner.Message
	at   time.Time // when it is not to wait any longer
}

// exclude gives the request its turn, until it ends. If the session cannot be
// served here any more the refusal says so. elsewhere is whether the request may
// be tried on another member.
func (s *Session) exclude(ctx context.Context, elsewhere bool) (refusal string, err error) {
	s.mu.Lock()
	again := s.exclusive
	s.exclusive = true
	e, lost := s.e, s.lost
	s.mu.Unlock()
	switch {
	case again || e == nil && !lost:
		return "", nil
	case e == nil: // one of those that bring a lost session makes a new one (H31)
		if _, err := s.m.claim(ctx, s, s.presented.ID); err != nil {
			return "", err
		}
		s.m.rejoin(s)
		s.mu.Lock()
		e = s.e
		s.mu.Unlock()
		if e == nil {
			return "", nil
		}
	}
	waited, err := s.m.claim(ctx, s, e.id)
	if err != nil {
		return "", err
	}
	return s.m.refresh(ctx, s, waited, elsewhere)
}

// seeks is how often an exclusive request looks for its session: while it is in
// demand everywhere one may always come too late.
const seeks = 4

// seek begins a request for the session of that id, and waits until it may run, or
// must not. v is what its client has seen; elsewhere is as in arriveAs. The entry
// is held.
func (m *Manager) seek(s *Session, id string, v cookie.Value, elsewhere bool) (e *entry, c *call, a answer) {
	v.ID = id
	for try := 1; ; try++ {
		e, c = m.arriveAs(s, v, elsewhere)
		a = m.wait(c)
		if a.handle || a.Outcome != owner.Failed || len(s.turns) == 0 || try == seeks {
			return e, c, a
		}
		m.table.drop(e)
	}
}

// claim waits for the session's turn at the session of that id, and reports
// whether there was anybody to wait for. endTurns gives it back.
func (m *Manager) claim(ctx context.Context, s *Session, id string) (waited bool, err error) {
	e := m.table.hold(id)
	e.mu.Lock()
	if e.turn == nil {
		e.turn = &turn{by: s}
		e.mu.Unlock()
		s.keepTurn(e)
		return false, nil
	}
	w := waiter{s, make(chan struct{})}
	e.turn.waiting = append(e.turn.waiting, w)
	e.mu.Unlock()

	t := time.NewTimer(m.exclusiveWait)
	defer t.Stop()
	select {
	case <-w.ready:
		s.keepTurn(e)
		return true, nil
	case <-t.C:
		err = errBusy
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.closed:
		err = errBusy
	}
	e.mu.Lock()
	if e.turn.by == s { // just now
		m.next(e)
	} else {
		e.turn.waiting = slices.DeleteFunc(e.turn.waiting, func(x waiter) bool { return x.s == s })
	}
	e.mu.Unlock()
	m.table.drop(e)
	return true, err
}

// own is claim for a session that this request makes, of which nobody knows yet.
func (m *Manager) own(s *Session, id string) {
	e := m.table.hold(id)
	e.mu.Lock()
	free := e.turn == nil
	if free {
		e.turn = &turn{by: s, running: true}
	}
	e.mu.Unlock()
	if !free { // but for one that was lost, and another request has just found made anew
		m.table.drop(e)
		return
	}
	s.keepTurn(e)
}

// keepTurn notes what is to be released.
func (s *Session) keepTurn(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, e)
}

// endTurns ends the turns of a request that has ended.
func (m *Manager) endTurns(s *Session) {
	s.mu.Lock()
	turns := s.turns
	s.turns = nil
	s.mu.Unlock()
	for _, e := range turns {
		e.mu.Lock()
		m.next(e)
		e.mu.Unlock()
		m.table.drop(e)
	}
}

// next ends a turn: members that have asked for the session get it, and then the
// request that has waited longest has its turn. e.mu must be held.
func (m *Manager) next(e *entry) {
	m.giveAway(e)
	if len(e.turn.waiting) == 0 {
		e.turn = nil
		return
	}
	w := e.turn.waiting[0]
	e.turn = &turn{by: w.s, waiting: e.turn.waiting[1:]}
	close(w.ready)
}

// defers has a Take wait for the end of the turn at this member, as the machine
// has one wait for a promise. e.mu must be held.
func (m *Manager) defers(e *entry, c *peer.Conn, msg *owner.Message) bool {
	if msg.Kind != owner.Take || e.turn == nil || !e.turn.running || e.turn.revoked || e.role != primary {
		return false
	}
	e.turn.deferred = append(e.turn.deferred, take{c, *msg, time.Now().Add(m.exclusiveWait)})
	m.timers.after(e.id, m.exclusiveWait, m.revoke)
	return true
}

// revoke lets other members have the session although the turn has not ended, if
// they have waited long enough. e.mu must be held.
func (m *Manager) revoke(e *entry) {
	if e.turn == nil || len(e.turn.deferred) == 0 || time.Now().Before(e.turn.deferred[0].at) {
		return
	}
	e.turn.revoked = true
	m.giveAway(e)
}

// giveAway does the Takes that wait. e.mu must be held.
func (m *Manager) giveAway(e *entry) {
	takes := e.turn.deferred
	e.turn.deferred = nil
	for i := range takes {
		t := &takes[i]
		from := memberOf(t.conn.ID())
		l := m.links.find(from)
		if l == nil || !l.on(t.conn) {
			continue // its question is lost, and it knows
		}
		m.expire(e)
		m.step(e, &owner.Event{Kind: owner.Receive, Peer: from, Message: &t.msg}, nil)
	}
}

// on reports whether c is the connection that is up.
func (l *link) on(c *peer.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up && l.conn == c
}

// revoked reports whether what s has changed comes too late. e.mu must be held.
func (e *entry) revoked(s *Session) bool { return e.turn != nil && e.turn.by == s && e.turn.revoked }

// isRevoked is revoked for who does not hold e.mu.
func (e *entry) isRevoked(s *Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.revoked(s)
}

// refresh has the request see what the session is now that it has its turn: it
// begins it anew if others have changed it meanwhile, or have taken it over;
// elsewhere is as in arriveAs.
func (m *Manager) refresh(ctx context.Context, s *Session, waited, elsewhere bool) (refusal string, err error) {
	s.mu.Lock()
	e, pending := s.e, len(s.changes) > 0 || s.idle != 0 || s.out || s.rotate != ""
	e.mu.Lock()
	r := e.machine.Record()
	same := !waited && e.role == primary && r.Version == s.version
	e.turn.running = same
	e.mu.Unlock()
	s.mu.Unlock()
	if same {
		return "", nil
	}
	if pending { // of a handler around this one
		if err := m.settle(ctx, s, false); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	c := s.call
	s.call = nil
	e = s.e
	seen := s.acked
	if seen.ID != e.id {
		seen = s.presented
	}
	s.mu.Unlock()
	if c == nil {
		return "", nil // it has ended
	}
	_ = m.submit(e, nil, &owner.Event{Kind: owner.Return, Op: &c.op}) // without changes it fits
	m.wait(c)
	held, c, a := m.seek(s, e.id, seen, elsewhere)
	m.table.drop(held) // s holds it already
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a.handle:
		s.start(e, c, &a)
		s.lost = s.lost || a.Flagged
		return "", nil
	case a.Outcome == owner.Ended:
		s.ended = true
		return "", nil
	case a.Outcome == owner.NotExecuted:
		return a.elsewhere(), nil
	}
	return noAnswer, nil
}
