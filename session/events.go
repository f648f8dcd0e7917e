package session

import "sync"

// EventKind is what happened to a session.
type EventKind uint8

// The kinds of [Event]. But for EventLost they happen at the session's primary, so
// that in the cluster there is one of each, not one per copy.
const (
	// EventCreated: a request on this member has made it.
	EventCreated EventKind = iota + 1

	// EventRenewed: it has a new id, ID; Old is the one that it had
	// ([Session.RenewID]). EventEnded of Old follows, perhaps after a grace.
	EventRenewed

	// EventChanged: its attributes or its time-out have changed; Version is now
	// so high. The copies may not have acknowledged it yet.
	EventChanged

	// EventPromoted: this member has become its primary, because the one before
	// is gone or has given it away.
	EventPromoted

	// EventDemoted: this member is not its primary any more: another one has
	// taken it over.
	EventDemoted

	// EventEnded: it was invalidated.
	EventEnded

	// EventExpired: nobody used it for its idle time-out, or it is older than
	// Config.Lifetime.
	EventExpired

	// EventLost: a request has brought its cookie, and nobody has it any more.
	EventLost
)

// String returns the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{"none", "created", "renewed", "changed", "promoted", "demoted", "ended", "expired", "lost"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// An Event is something that happened to a session on this member; see
// [Config.OnEvent].
type Event struct {
	Kind    EventKind
	ID      string // of the session: a secret, not for logs
	Old     string // with EventRenewed: likewise
	Version uint64 // of the session then; see [Session.Version]
}

const (
	// maxEvents bounds the events that wait for OnEvent or OnConflict.
	maxEvents = 1 << 16

	// maxLost bounds the bytes of lost values that wait for OnConflict.
	maxLost = 64 << 20
)

// events is what OnEvent and OnConflict were not told of yet. One goroutine tells
// them, in order, with no lock held.
type events struct {
	onEvent    func(Event)
	onConflict func(Conflict)
	added      chan struct{} // capacity one

	mu      sync.Mutex // guards what follows; a leaf
	queue   []notice
	dropped uint64
	lost    int // bytes of the values in queue
}

// A notice is one of the two.
type notice struct {
	event    Event
	conflict *Conflict
}

func newEvents(onEvent func(Event), onConflict func(Conflict)) *events {
	return &events{onEvent: onEvent, onConflict: onConflict, added: make(chan struct{}, 1)}
}

// tell queues an event, if anybody wants to know.
func (q *events) tell(ev Event) {
	if q.onEvent != nil {
		q.add(notice{event: ev})
	}
}

// conflict is tell for a conflict.
func (q *events) conflict(c Conflict) {
	if q.onConflict != nil {
		q.add(notice{conflict: &c})
	}
}

func (q *events) add(n notice) {
	q.mu.Lock()
	if len(q.queue) >= maxEvents {
		q.dropped++ // a listener that does not keep up must not stop requests, nor fill the memory
	} else {
		if c := n.conflict; c != nil {
			if size := c.size(); q.lost+size > maxLost {
				c.lost = nil // its keys are told all the same
			} else {
				q.lost += size
			}
		}
		q.queue = append(q.queue, n)
	}
	q.mu.Unlock()
	select {
	case q.added <- struct{}{}:
	default: // a token is waiting already
	}
}

// run tells until done is closed, and then what is left.
func (q *events) run(done <-chan struct{}) {
	var batch []notice
	for going := true; going; {
		select {
		case <-q.added:
		case <-done:
			going = false
		}
		q.mu.Lock()
		batch, q.queue, q.lost = q.queue, batch[:0], 0
		q.mu.Unlock()
		for _, n := range batch {
			if n.conflict != nil {
				q.onConflict(*n.conflict)
			} else {
				q.onEvent(n.event)
			}
		}
		clear(batch)
	}
}

// size is how many bytes the values of c have.
func (c *Conflict) size() (n int) {
	for _, a := range c.lost {
		n += len(a.Value)
	}
	return n
}

// overflown returns how many were dropped.
func (q *events) overflown() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// remark tells of what has become of a session. e.mu must be held, and e be as it
// was before.
func (m *Manager) remark(e *entry, now role, version uint64) {
	if m.events.onEvent == nil {
		return
	}
	ev := Event{ID: e.id, Version: version}
	switch {
	case now == primary && e.role == primary:
		if version <= e.version {
			return
		}
		ev.Kind = EventChanged
	case now == primary && e.next == EventRenewed: // who renews it tells
		e.next = 0
		return
	case now == primary && e.next != 0:
		ev.Kind, e.next = e.next, 0
	case now == primary:
		ev.Kind = EventPromoted
	case e.role == primary && now == tombstone:
		ev.Kind = EventEnded
		if e.next != 0 {
			ev.Kind, e.next = e.next, 0
		}
		ev.Version = e.version
	case e.role == primary:
		ev.Kind = EventDemoted
	default:
		return
	}
	m.events.tell(ev)
}
