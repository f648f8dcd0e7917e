package endpoint

import (
	"context"
	"sync"
	"time"
)

// A Client is who waits for a request to be sent.
type Client interface {
	// Gone reports whether the client has gone away, so that nobody waits.
	Gone() bool
}

// A Wait says how to wait for one's turn when a member has as many requests as it
// may have. The zero Wait waits for AcquireTimeout, whatever becomes of the client.
type Wait struct {
	// Client is asked now and then whether it is still there. Nil always is.
	Client Client

	// Until, unless zero, is when it ends in any case.
	Until time.Time

	// Not says not to wait at all: another member may have room.
	Not bool
}

// A queue is the requests in flight to a member, and those that wait for their
// turn. It has no goroutine: who ends hands the turn to who has waited longest, and
// nobody who comes later is before them.
type queue struct {
	limit int // requests in flight; 0: no limit
	busy  int // requests in flight at which one more does not even wait; 0: no limit
	most  int // that wait

	mu         sync.Mutex // guards what follows; held for a few instructions, in dismiss for O(waiting)
	flying     int
	waiting    int
	head, tail *turn
}

// A turn is one request in a queue. Each is in the list until it is called,
// dismissed, or has left.
type turn struct {
	called     chan bool // capacity one; false: it is dismissed
	prev, next *turn
	queued     bool
}

// enter takes the request in, or puts it last in the queue and returns its turn;
// if there is no room either, or it must not wait, it does neither.
func (q *queue) enter(wait bool) (t *turn, in bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.busy > 0 && q.flying >= q.busy:
		return nil, false
	case q.limit == 0 || q.flying < q.limit:
		// Nobody waits: a turn that is free has been handed on.
		q.flying++
		return nil, true
	case !wait || q.waiting >= q.most:
		return nil, false
	}
	t = &turn{called: make(chan bool, 1), prev: q.tail, queued: true}
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
	q.waiting++
	return t, false
}

// leave ends a request, and hands its place on.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.head; t != nil {
		q.remove(t)
		t.called <- true
		return
	}
	q.flying--
}

// quit takes a turn out of the queue, and reports false if it was called meanwhile:
// then it has a place.
func (q *queue) quit(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.queued {
		q.remove(t)
		return true
	}
	return !<-t.called
}

// dismiss sends everybody away who waits.
func (q *queue) dismiss() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head != nil {
		t := q.head
		q.remove(t)
		t.called <- false
	}
}

// remove takes t out of the list. q.mu must be held.
func (q *queue) remove(t *turn) {
	if t.prev == nil {
		q.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next, t.queued = nil, nil, false
	q.waiting--
}

// numbers returns how many requests are in flight, and how many wait.
func (q *queue) numbers() (flying, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flying, q.waiting
}

// full reports whether so many requests in flight are as many as there may be.
func (q *queue) full(flying int) bool {
	return q.limit > 0 && flying >= q.limit || q.busy > 0 && flying >= q.busy
}

// The first look for a client that has gone is made after lookFirst, then less and
// less often.
const (
	lookFirst = 50 * time.Millisecond
	lookLast  = time.Second
)

// getSlot waits for the right to have one more request in flight, and returns
// for how long it did.
func (e *Endpoint) getSlot(ctx context.Context, w Wait) (waited time.Duration, f *Failure) {
	if err := ctx.Err(); err != nil {
		return 0, e.fail(Canceled, err)
	}
	t, in := e.queue.enter(!w.Not && e.acquire > 0)
	switch {
	case in:
		return 0, nil
	case t == nil:
		if !w.Not {
			e.counts.busy.Add(1)
		}
		return 0, e.fail(Busy, errBusy)
	}
	begun := time.Now()
	until := begun.Add(e.acquire)
	if !w.Until.IsZero() && w.Until.Before(until) {
		until = w.Until
	}
	f = e.await(ctx, t, w.Client, until)
	return time.Since(begun), f
}

// await waits for the turn of a request in the queue.
func (e *Endpoint) await(ctx context.Context, t *turn, client Client, until time.Time) *Failure {
	e.counts.queued.Add(1)
	timer := time.NewTimer(min(lookFirst, time.Until(until)))
	defer timer.Stop()
	for step := lookFirst; ; {
		var f *Failure
		select {
		case in := <-t.called:
			if in {
				return nil
			}
			return e.dismissed()
		case <-ctx.Done():
			f = e.fail(Canceled, ctx.Err())
		case now := <-timer.C:
			switch {
			case client != nil && client.Gone():
				f = e.fail(Left, errLeft)
			case !now.Before(until):
				f = e.fail(Busy, errBusy)
			default:
				step = min(2*step, lookLast)
				timer.Reset(min(step, until.Sub(now)))
				continue
			}
		}
		if !e.queue.quit(t) {
			if f.Kind == Busy {
				return nil // at the last moment
			}
			e.queue.leave()
		}
		if f.Kind == Busy {
			e.counts.busy.Add(1)
		}
		return f
	}
}

// dismissed is the failure of a request that was sent away.
func (e *Endpoint) dismissed() *Failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return e.fail(Closed, errClosed)
	}
	return e.fail(Busy, errDismissed)
}

func (e *Endpoint) freeSlot() { e.queue.leave() }

// Dismiss sends away the requests that wait for their turn, with [Busy]: the
// member is not to be used now, and others may have room (peers.md D23).
func (e *Endpoint) Dismiss() { e.queue.dismiss() }
