package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/understudy-lb/understudy/session/owner"
)

// A Mode is what a reply waits for (TC-M1 to TC-M4). Whatever the mode, a
// session has one primary and all its changes are sent to its secondaries, in
// order, over the one connection to each; a secondary that is silent is given
// up and replaced, an invalidation is known everywhere before its reply leaves,
// and a request that comes to another member finds what its primary has.
//
// In the modes that do not wait, what was acknowledged to the client is lost if
// the primary dies before it was sent. The member that goes on cannot know
// whether it was, so a session whose primary died is always flagged there:
// [Session.Lost] is true for the next request of each client.
type Mode uint8

const (
	// Synchronous is the default: changes are sent at once, and the reply waits
	// for the secondaries (D5). With [Config.NoAck] it waits only until the
	// changes are given to the network.
	Synchronous Mode = iota

	// Asynchronous puts the session into a queue, and the reply leaves; a
	// goroutine beside the requests sends what has changed. Changes of a session
	// that is in the queue become one message with them.
	Asynchronous

	// Pooled is Synchronous for [Config.Pool] replies at a time; others wait for
	// their turn.
	Pooled

	// FastAsyncQueue is Asynchronous, but the queue is emptied in batches, some
	// milliseconds apart: less work for sessions that change often, and so much
	// more that may be lost.
	FastAsyncQueue

	modes // how many there are
)

//nolint:gochecknoglobals // read-only
var modeNames = [modes]string{"synchronous", "asynchronous", "pooled", "fastasyncqueue"}

// String returns the mode's name as Tomcat spells it.
func (m Mode) String() string {
	if m >= modes {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return modeNames[m]
}

// ParseMode returns the mode of that name.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("replication mode %q: want one of %q", name, modeNames)
}

func (m Mode) queued() bool { return m == Asynchronous || m == FastAsyncQueue }

// ErrNoReplica is returned, with [Config.RequireReplica], when a session is to
// be made or changed and no other member can hold its copy. What becomes of the
// request is as with [ErrTooManySessions].
var ErrNoReplica = errors.New("no other node can hold a copy of the session")

// noReplica is the reason in [NotExecuted].
const noReplica = "no replica"

// alone reports whether no other member can hold a copy, and that matters.
func (m *Manager) alone() bool {
	if !m.requireReplica {
		return false
	}
	self := m.cluster.Self()
	for _, c := range Rank(self, m.cluster.Members(), "", m.placement) {
		if p := ownerMember(c); m.facts(p)&owner.Connected != 0 && !m.isCrowded(p) {
			return false
		}
	}
	return true
}

// unprotected returns an error if what was made or changed is acknowledged by
// this member alone, and that is not enough.
func (m *Manager) unprotected(s *Session, changed bool) error {
	if !m.requireReplica {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !changed && !s.born || s.acked.Secondary != "" || s.ended {
		return nil
	}
	m.stats.noReplica.Add(1)
	return ErrNoReplica
}

// safe reports whether a request of that method is not to change anything (RFC
// 9110 9.2.1), so that another member may be tried after its handler has run.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// loose reports whether a reply need not wait for the secondaries now. If there
// is a queue and it is full, it waits: then nobody is faster than the
// secondaries (H22).
func (m *Manager) loose(e *entry) bool {
	switch {
	case m.queue == nil:
		return m.noAck
	case m.queue.full() && !m.queue.has(e.id):
		m.stats.queueFull.Add(1)
		return false
	}
	return true
}

// turnInPool waits until one more reply may wait for secondaries. The function
// that it returns ends the turn.
func (m *Manager) turnInPool(ctx context.Context) (func(), error) {
	if m.pool == nil {
		return func() {}, nil
	}
	select {
	case m.pool <- struct{}{}:
	default:
		m.stats.poolWaits.Add(1)
		select {
		case m.pool <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.closed:
			return nil, errUnsafe
		}
	}
	return func() { <-m.pool }, nil
}

// handOver waits until what was sent for the session is given to the network.
// That a connection breaks meanwhile is what the mode does not wait for.
func (m *Manager) handOver(ctx context.Context, e *entry) {
	e.mu.Lock()
	copies := e.copies // never written again
	e.mu.Unlock()
	for _, p := range copies {
		if c := m.links.conn(p); c != nil {
			_ = c.Written(ctx)
		}
	}
}
