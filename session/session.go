package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
)

// A Session is one request's view of the client's session. It exists also if
// the client has none: the first [Key.Set] creates one, so that a request that
// only looks makes none.
//
// What a request reads is what the session is now, as far as it is acknowledged,
// with the request's own changes on top. Its changes are applied to the session, key by key, when they
// are flushed: before the first byte of the reply leaves, at the end of the
// handler, and by [Session.Flush]. Of requests that change one key at the same
// time the last one wins (SESS-8), unless they are [Exclusive]; an invalidation always wins (I01).
//
// A Session is good for the time of its request, for several goroutines.
type Session struct {
	m         *Manager
	presented cookie.Value // what the client brought; zero if nothing that verifies
	fromPath  bool
	links     bool   // the client may need its session in links
	page      string // escaped path of the request, for links without one

	// flushing has a token while a flush is under way, so that there is one at
	// a time and no lock is held while it waits.
	flushing chan struct{}

	mu          sync.Mutex    // guards what follows; never held across I/O; before entry.mu
	e           *entry        // nil if there is no session
	call        *call         // this request's, at e
	out         bool          // call was given something and has not answered
	sending     owner.Changes // the last flush
	sendingIdle time.Duration // likewise
	over        bool          // the handler's part has ended
	seen        owner.Attrs
	isNew       bool
	lost        bool
	ended       bool                    // invalidated, by this request or another
	ender       bool                    // by this one
	denied      error                   // why it has no session that it was to have, or no change of it
	unrun       bool                    // and the handler that needs it has not run
	begun       bool                    // the head of the reply has left, without what is new since
	rotate      string                  // the new id, until the next flush
	changes     map[string][]byte       // since the last flush; nil is a removal
	exclusive   bool                    // it has its turn at whatever session it has
	turns       []*entry                // where, to be released
	born        bool                    // this request has made it
	leftover    bool                    // it goes by an old id, for a grace
	before      owner.Attrs             // what it was when this request began
	idleBefore  int64                   // likewise, in milliseconds
	flushed     map[string]bool         // names of what this request has flushed
	idleSent    bool                    // it has flushed a time-out, too
	grace       time.Duration           // of the old id, with rotate
	accessed    time.Time               // before this request
	idle        time.Duration           // a new idle time-out since the last flush, or zero
	acked       cookie.Value            // what the cookie may say; zero before the first flush
	version     uint64                  // of the last flush
	stale       bool                    // the client must go on with its old cookie, so that it is told that it lost something
	linked      map[cookie.Value]string // as they stand in links that were handed out
}

var (
	errNoKey = errors.New("the zero Key names nothing")
	errBegun = errors.New("the reply has begun, so its client cannot be told of a new session")
	errOver  = errors.New("the request has ended")
)

type contextKey struct{}

// FromContext returns the session of the request with that context, or nil if
// it did not pass [Manager.Handler].
func FromContext(ctx context.Context) *Session {
	s, _ := ctx.Value(contextKey{}).(*Session)
	return s
}

// Exists reports whether there is a session: the client's, or one that this
// request created.
func (s *Session) Exists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.e != nil && !s.ended
}

// Create makes a session if there is none. It fails once the reply has begun,
// since the client could not be told of it. After [Session.Invalidate] it makes
// a new one with a new id, but not before [Session.Flush].
func (s *Session) Create() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errOver
	case s.ended && s.call != nil:
		return ErrInvalidated // the old one first has to end: Flush
	case s.e != nil && !s.ended:
		return nil
	}
	_, err := s.create(nil)
	return err
}

// ID returns the id of the session, which is a secret, or "" if there is none.
// It has 32 characters of A-Z a-z 0-9 '-' '_' with 192 random bits.
func (s *Session) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.e == nil || s.ended:
		return ""
	case s.rotate != "":
		return s.rotate
	}
	return s.e.id
}

// IsNew reports whether the client has brought no session that goes on here:
// there is none (any more), or this request has created it.
func (s *Session) IsNew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isNew || s.e == nil || s.ended
}

// Lost reports whether something that the client had seen is gone: nobody has
// its session any more, so that [Session.IsNew] is true, or only a state that
// does not descend from what it had seen, and then that goes on (SESS-35, G2).
// A session that ended by itself or by [Session.Invalidate] is not lost.
func (s *Session) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Primary returns the name of the member that owns the session, "" if there is
// none.
func (s *Session) Primary() string { return s.value().Primary }

// Secondary returns the name of the member that holds the copy, "" if none
// does.
func (s *Session) Secondary() string { return s.value().Secondary }

// Epoch returns the epoch of the session, which counts the changes of its pair;
// zero if there is none.
func (s *Session) Epoch() cookie.Epoch { return s.value().Epoch }

// Version returns how often the session was flushed with changes. After
// [Session.Flush] it includes those of this request.
func (s *Session) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e == nil || s.ended {
		return 0
	}
	return s.version
}

// Created returns when the session was created, the zero time if there is none.
func (s *Session) Created() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e == nil || s.ended {
		return time.Time{}
	}
	// The clock of the member that made it, less what it may differ.
	return time.UnixMilli(s.e.record().Expiry.End).Add(-s.m.lifetime)
}

// LastAccess returns when a request used the session before this one, to within
// a tenth of its idle time-out if the session has changed hands since (SESS-12);
// the zero time if there is none, or this request has created it.
func (s *Session) LastAccess() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e == nil || s.ended {
		return time.Time{}
	}
	return s.accessed
}

// IdleTimeout returns after what time without a request the session ends; zero
// if there is none.
func (s *Session) IdleTimeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.e == nil || s.ended:
		return 0
	case s.idle != 0:
		return s.idle
	}
	return time.Duration(s.e.record().Expiry.Idle) * time.Millisecond
}

// SetIdleTimeout changes after what time without a request the session ends, on
// all members (H19). d is raised to one second and lowered to
// [Config.Lifetime]. It creates no session.
func (s *Session) SetIdleTimeout(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e != nil && !s.ended && !s.leftover { // that ends with its grace
		s.idle = min(max(d, time.Second), s.m.lifetime)
	}
}

// Names returns the names of all attributes, sorted.
func (s *Session) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]bool{}
	if s.e != nil && !s.ended {
		for _, a := range s.attributes() {
			names[a.Key] = true
		}
	}
	for name, raw := range s.changes {
		names[name] = raw != nil
	}
	delete(names, leftoverKey)
	maps.DeleteFunc(names, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(names))
}

// Has reports whether there is an attribute of that name, of whatever type.
func (s *Session) Has(name string) bool {
	_, ok := s.get(name)
	return ok && name != leftoverKey
}

// Remove removes the attribute of that name. It creates no session.
func (s *Session) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name)
}

// Clear removes all attributes. The session stays.
func (s *Session) Clear() {
	for _, name := range s.Names() {
		s.Remove(name)
	}
}

// RenewID gives the session a new id and keeps what is in it. Call it when a
// client logs in, before anything is set that only it may have, so that nobody
// can have planted the id (session fixation).
//
// The old id is dead on all members when the reply leaves (H10), or after grace,
// at most a minute, for requests that the client has sent at the same time: until
// then they find what was in the session before this request, not what it gains,
// and what they change dies with the old id. Who has planted the id gets nothing
// by it.
//
// Without a session RenewID does nothing: there is no id that anybody knows. It
// fails once the reply has begun, since the client could not be told of the new
// id.
func (s *Session) RenewID(grace time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errOver
	case s.e != nil && s.begun:
		return errBegun
	case s.e == nil || s.ended || s.rotate != "":
		return nil // nothing to renew (I07), or one new id for one reply (I04)
	}
	s.rotate, s.grace = newID(), min(max(grace, 0), maxGrace)
	return nil
}

// Rollback takes back all that this request has changed so far, also what was
// flushed (TC-8): attributes and time-out are what they were when it began, and
// what other requests have changed meanwhile stays unless it is the same
// attribute. A session that this request has made ends. An id that it has
// renewed stays new, and a session that it has invalidated and flushed stays
// dead.
func (s *Session) Rollback() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e == nil || s.over || s.ended && s.call == nil {
		return
	}
	s.changes, s.rotate, s.idle = nil, "", 0
	if s.ended = s.born; s.born {
		s.ender = true
		return
	}
	s.ender = false
	for _, c := range s.undo() {
		s.change(c.Key, c.Value)
	}
	if s.idleSent {
		s.idle = time.Duration(s.idleBefore) * time.Millisecond
	}
}

// Invalidate ends the session. When the reply leaves, no member that can be
// reached serves it any more, whatever other requests do that are under way
// (I01, I05). Changes that this request made before are dropped.
func (s *Session) Invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e == nil || s.over {
		return
	}
	s.ended, s.ender = true, true
	s.changes, s.rotate, s.idle = nil, "", 0
}

// Flush makes the changes of this request safe now: it returns when the
// secondary has them, or when the pair has changed and its new secondary has
// them. Handlers need it only in replies that do not end, and to know
// [Session.Version] and [Session.Secondary] exactly; else the reply does it.
//
// The wait is bounded by [Config.AckTimeout] for each member that falls silent
// meanwhile. After an error nobody knows whether the changes are safe.
func (s *Session) Flush(ctx context.Context) error {
	if err := s.m.settle(ctx, s, false); err != nil {
		return fmt.Errorf("session: flush: %w", err)
	}
	return nil
}

// get returns the encoded value of the attribute, which must not be changed.
func (s *Session) get(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(name)
}

// lookup is get. s.mu must be held.
func (s *Session) lookup(name string) ([]byte, bool) {
	if s.e == nil || s.ended {
		return nil, false
	}
	if raw, ok := s.changes[name]; ok {
		return raw, raw != nil
	}
	return s.attributes().Get(name)
}

// attributes returns what the session is now, without this request's own
// changes. What another request has changed and nobody has acknowledged yet is
// not shown: the reply waits only for what there was when the request began
// (R12). A member that loses the session while the request runs goes on with
// what it saw last. s.mu must be held.
func (s *Session) attributes() owner.Attrs {
	switch r, acknowledged := s.e.look(); {
	case r.Dead:
		return nil // by another request (H17)
	case r.Primary == s.m.self && acknowledged:
		s.seen = r.Attrs
	}
	return s.seen
}

// size is what the attributes and their names take, with the changes. s.mu must
// be held.
func (s *Session) size() int {
	n := 0
	if s.e != nil {
		for _, a := range s.attributes() {
			if _, changed := s.changes[a.Key]; !changed {
				n += len(a.Key) + len(a.Value)
			}
		}
	}
	for name, raw := range s.changes {
		if raw != nil {
			n += len(name) + len(raw)
		}
	}
	return n
}

// value is what the cookie would say now. s.mu must not be held.
func (s *Session) value() cookie.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current()
}

// current is value. s.mu must be held.
func (s *Session) current() cookie.Value {
	switch {
	case s.e == nil || s.ended:
		return cookie.Value{}
	case s.acked.ID == s.e.id && s.rotate == "":
		return s.acked
	}
	v := cookieValue(s.e.id, s.e.header())
	if s.rotate != "" {
		v.ID = s.rotate
	}
	return v
}

// cookieValue names the pair and epoch of h.
func cookieValue(id string, h owner.Header) cookie.Value {
	v := cookie.Value{ID: id, Primary: h.Primary.Name, Epoch: cookie.Epoch{N: h.Epoch.N, Boot: h.Epoch.Reign.Boot, Seq: h.Epoch.Reign.Seq}}
	if len(h.Copies) > 0 {
		v.Secondary = h.Copies[0].Name
	}
	return v
}

// set stores raw, which it retains.
func (s *Session) set(name string, raw []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case name == "":
		return errNoKey
	case s.over:
		return errOver
	case s.ended:
		return ErrInvalidated
	}
	old, had := s.lookup(name)
	if had && bytes.Equal(old, raw) {
		return nil
	}
	grown := len(raw) - len(old)
	if !had {
		grown += len(name)
	}
	if s.size()+grown > s.m.maxBytes {
		return fmt.Errorf("%d bytes: %w", len(raw), ErrTooLarge)
	}
	if s.e != nil && s.m.alone() {
		s.m.stats.noReplica.Add(1)
		s.denied = ErrNoReplica
		return ErrNoReplica
	}
	if s.e == nil {
		if applied, err := s.create(owner.Changes{{Key: name, Value: raw}}); applied || err != nil {
			return err
		}
	}
	s.change(name, raw)
	return nil
}

// remove is Remove. s.mu must be held.
func (s *Session) remove(name string) {
	if _, ok := s.lookup(name); ok && !s.over && name != leftoverKey {
		s.change(name, nil)
	}
}

// change notes a change. s.mu must be held.
func (s *Session) change(name string, raw []byte) {
	if s.changes == nil {
		s.changes = make(map[string][]byte, 1)
	}
	s.changes[name] = raw
}
