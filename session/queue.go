package session

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

const (
	// batchPause is how long FastAsyncQueue lets changes gather.
	batchPause = 10 * time.Millisecond

	// laneBytes and laneAsks are how much one member is sent beyond what it
	// has taken. The rest waits here, where it gathers; and a member that is
	// slow, but answers, is not taken for a silent one because of it.
	laneBytes = 256 << 10
	laneAsks  = 64

	// lanePause is when a window is looked at again in any case.
	lanePause = 5 * time.Millisecond

	// maxSlotKeys is how many attributes a slot names. Beyond it all of the
	// session is sent.
	maxSlotKeys = 64
)

// A queue is what asynchronous modes have not sent yet (TC-M2, TC-M4): which
// sessions, to whom. It keeps no values: when a session's turn comes it is sent
// as it is then, so that all that happened to it meanwhile is one message, and
// the queue needs the same little memory for each.
//
// What else is said of the session to that member sends the slot first: messages
// about one session stay in order.
type queue struct {
	limit  int           // slots
	pause  time.Duration // before a batch
	wakeup chan struct{} // capacity one

	size    atomic.Int64 // slots
	stalled atomic.Bool  // some lane's window is full

	mu    sync.Mutex // guards what follows; a leaf; held for one batch
	lanes map[owner.Member]*lane
}

// A lane is what waits for one member.
type lane struct {
	slots map[string]*list.Element
	order list.List // of *slot, oldest first
}

// A slot is one session that waits.
type slot struct {
	id            string
	epoch         owner.Epoch
	base          uint64 // the member has, or will have had, this version
	full, newCopy bool   // all is sent
	serial        uint32
	keys          []string // what changed, unless full; each once
	since         time.Time
}

func newQueue(limit int, pause time.Duration) *queue {
	return &queue{limit: limit, pause: pause, wakeup: make(chan struct{}, 1), lanes: map[owner.Member]*lane{}}
}

func (q *queue) full() bool { return q.size.Load() >= int64(q.limit) }

func (q *queue) wake() {
	select {
	case q.wakeup <- struct{}{}:
	default: // a token is already waiting
	}
}

// add puts an Update into the queue, or reports false if it is to be sent at
// once: it asks for an answer and changes nothing (R3), or the queue is full.
// joined says that it became one with another.
func (q *queue) add(to owner.Member, id string, msg *owner.Message) (added, joined bool) {
	if msg.Kind != owner.Update || msg.Header.Dead || !msg.Full && msg.Base == msg.Header.Version {
		return false, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[to]
	if l == nil {
		l = &lane{slots: map[string]*list.Element{}}
		q.lanes[to] = l
	}
	if e := l.slots[id]; e != nil {
		s, _ := e.Value.(*slot)
		s.join(msg)
		return true, true
	}
	if q.full() {
		return false, false
	}
	s := &slot{id: id, epoch: msg.Header.Epoch, base: msg.Base, since: time.Now()}
	s.join(msg)
	l.slots[id] = l.order.PushBack(s)
	q.size.Add(1)
	return true, false
}

// join adds what msg says to what s says.
func (s *slot) join(msg *owner.Message) {
	if msg.Header.Epoch != s.epoch {
		s.epoch, s.full, s.newCopy, s.keys, s.base = msg.Header.Epoch, false, false, nil, msg.Base
	}
	s.serial = msg.Serial
	s.full, s.newCopy = s.full || msg.Full, s.newCopy || msg.NewCopy
	for i := range msg.Changes {
		s.name(msg.Changes[i].Key)
	}
	if s.full || len(s.keys) > maxSlotKeys {
		s.full, s.keys = true, nil
	}
}

func (s *slot) name(key string) {
	if !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
	}
}

// message is what there is to say of r now, or nothing if the slot is of an
// epoch that is over: the next one's first message has all of it.
func (s *slot) message(r *owner.Record) (msg owner.Message, ok bool) {
	if r.Dead || r.Epoch != s.epoch {
		return msg, false
	}
	msg = owner.Message{Kind: owner.Update, Serial: s.serial, Expiry: r.Expiry}
	if s.full {
		msg.Header, msg.Attrs, msg.Full, msg.NewCopy = r.Header, r.Attrs, true, s.newCopy
		return msg, true
	}
	msg.Header, msg.Base = owner.Header{Epoch: r.Epoch, Version: r.Version, Start: r.Start}, s.base
	for _, key := range s.keys {
		v, had := r.Attrs.Get(key)
		msg.Changes = append(msg.Changes, owner.Change{Key: key, Value: v, Removed: !had})
	}
	return msg, true
}

// take takes the slot of a session, if there is one.
func (q *queue) take(to owner.Member, id string) *slot {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[to]
	if l == nil || l.slots[id] == nil {
		return nil
	}
	s, _ := l.order.Remove(l.slots[id]).(*slot)
	delete(l.slots, id)
	q.size.Add(-1)
	return s
}

// forget drops what waits for a member whose connection has ended: when it is
// back both compare, and it is sent what it lacks.
func (q *queue) forget(to owner.Member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lanes[to]; l != nil {
		q.size.Add(-int64(len(l.slots)))
		delete(q.lanes, to)
	}
}

// waiting returns for whom something waits, and since when the oldest does.
func (q *queue) waiting() (members []owner.Member, oldest time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p, l := range q.lanes {
		if first := l.order.Front(); first != nil {
			members = append(members, p)
			s, _ := first.Value.(*slot)
			oldest = earliest(oldest, s.since)
		}
	}
	return members, oldest
}

// has reports whether the session is in the queue already.
func (q *queue) has(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		if l.slots[id] != nil {
			return true
		}
	}
	return false
}

// lag returns how many slots there are, and how long the oldest has waited. A nil
// queue has none.
func (q *queue) lag() (slots int, oldest time.Duration) {
	if q == nil {
		return 0, 0
	}
	if _, at := q.waiting(); !at.IsZero() {
		oldest = time.Since(at)
	}
	return int(q.size.Load()), oldest
}

// oldest returns the ids that have waited longest for a member, at most n.
func (q *queue) oldest(to owner.Member, n int) (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[to]
	if l == nil {
		return nil
	}
	for e := l.order.Front(); e != nil && len(ids) < n; e = e.Next() {
		s, _ := e.Value.(*slot)
		ids = append(ids, s.id)
	}
	return ids
}

// run sends what waits in the queue, until ctx is done.
func (q *queue) run(ctx context.Context, m *Manager) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wakeup:
		case <-timer.C:
		}
		if q.pause > 0 {
			timer.Reset(q.pause)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		again := time.Hour
		if q.batch(m) {
			again = lanePause
		}
		timer.Reset(again)
	}
}

// batch sends what waits, as far as the windows allow, and reports whether
// something is left.
func (q *queue) batch(m *Manager) (left bool) {
	// First, so that an answer that comes from here on wakes the next batch.
	q.stalled.Store(true)
	members, _ := q.waiting()
	sent := false
	for _, p := range members {
		c := m.links.conn(p)
		for {
			n := batch
			if c != nil {
				bytes, asks := c.Load()
				if n = min(n, laneAsks-asks); bytes >= laneBytes || n <= 0 || !m.links.find(p).raised() {
					left = true
					break
				}
			}
			ids := q.oldest(p, n)
			if len(ids) == 0 {
				break
			}
			for _, id := range ids {
				e := m.table.hold(id)
				e.mu.Lock()
				m.sendSlot(e, p)
				e.mu.Unlock()
				m.table.drop(e)
				sent = true
			}
		}
	}
	q.stalled.Store(left)
	if sent {
		m.stats.batches.Add(1)
	}
	return left
}

// heard looks at the windows again: a member has answered.
func (q *queue) heard() {
	if q.stalled.Load() {
		q.wake()
	}
}

// sendSlot sends what waits of a session for a member. e.mu must be held.
func (m *Manager) sendSlot(e *entry, to owner.Member) {
	s := m.queue.take(to, e.id)
	if s == nil {
		return
	}
	r := e.machine.Record()
	if msg, ok := s.message(&r); ok && r.Primary == m.self {
		m.transmit(e.id, to, &msg, nil)
	}
}

// empty sends all that waits and gives it to the network, for an orderly end.
func (q *queue) empty(ctx context.Context, m *Manager) {
	tick := time.NewTicker(lanePause)
	defer tick.Stop()
	for ctx.Err() == nil {
		members, _ := q.waiting()
		if len(members) == 0 {
			break
		}
		if q.batch(m) {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
	for p := range m.links.snapshot() {
		if c := m.links.conn(p); c != nil {
			_ = c.Written(ctx)
		}
	}
}

// enqueue puts a message into the queue of an asynchronous mode, or sends what
// waits before it. It reports whether that is all there is to do. e.mu must be
// held.
func (m *Manager) enqueue(e *entry, to owner.Member, msg *owner.Message, in *inbound) bool {
	if in == nil || in.kind != peer.Ask {
		if added, joined := m.queue.add(to, e.id, msg); added {
			if joined {
				m.stats.coalesced.Add(1)
			}
			m.queue.wake()
			return true
		}
	}
	m.sendSlot(e, to)
	return false
}
