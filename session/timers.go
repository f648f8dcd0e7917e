package session

import (
	"container/heap"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// timers is what Manager.run has to do later, or outside of all locks.
type timers struct {
	wakeup chan struct{} // capacity one

	mu        sync.Mutex // guards deadlines; a leaf; held for O(log n)
	deadlines deadlines  // a heap
}

// A deadline is something that is to be done to a session later, under its lock.
type deadline struct {
	id string
	at time.Time
	do func(*entry)
}

// deadlines are a [heap.Interface], the next one first. There may be many: one for
// each id that was renewed within the last minute, and for each question that was
// put within the time for which one is waited for.
type deadlines []deadline

func (d *deadlines) Len() int           { return len(*d) }
func (d *deadlines) Less(i, j int) bool { return (*d)[i].at.Before((*d)[j].at) }
func (d *deadlines) Swap(i, j int)      { (*d)[i], (*d)[j] = (*d)[j], (*d)[i] }

func (d *deadlines) Push(x any) {
	y, _ := x.(deadline)
	*d = append(*d, y)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	return x
}

func newTimers() *timers { return &timers{wakeup: make(chan struct{}, 1)} }

func (t *timers) wake() {
	select {
	case t.wakeup <- struct{}{}:
	default: // it will look at everything anyway
	}
}

// after has do called for the session after d.
func (t *timers) after(id string, d time.Duration, do func(*entry)) {
	at := time.Now().Add(d)
	t.mu.Lock()
	first := len(t.deadlines) == 0 || at.Before(t.deadlines[0].at)
	heap.Push(&t.deadlines, deadline{id, at, do})
	t.mu.Unlock()
	if first { // else run looks before that
		t.wake()
	}
}

// due takes what is due at now, in order, and returns when there is more.
func (t *timers) due(now time.Time) (due []deadline, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.deadlines) > 0 {
		if at := t.deadlines[0].at; at.After(now) {
			return due, at
		}
		d, _ := heap.Pop(&t.deadlines).(deadline)
		due = append(due, d)
	}
	return due, time.Time{}
}

// meet does what is due, and returns when there is more.
func (m *Manager) meet() (next time.Time) {
	due, next := m.timers.due(time.Now())
	for _, d := range due {
		e := m.table.hold(d.id)
		e.mu.Lock()
		d.do(e)
		e.mu.Unlock()
		m.table.drop(e)
	}
	return next
}

// outlast has the session told when the promise to p is over (C3). e.mu must be
// held.
func (m *Manager) outlast(e *entry, p owner.Member) {
	left, _ := m.set.Promise(peerID(p))
	m.timers.after(e.id, left, func(e *entry) {
		m.step(e, &owner.Event{Kind: owner.PromiseOver, Peer: p}, nil)
	})
}
