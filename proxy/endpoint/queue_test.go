package endpoint

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// leaver is a client that may go away.
type leaver struct{ gone atomic.Bool }

func (l *leaver) Gone() bool { return l.gone.Load() }

// A caller is a request that waits for its turn.
type caller struct {
	c    *Conn
	f    *Failure
	took time.Duration
	done bool
}

// crowd has a member that answers, an endpoint for it with MaxConns taken, and a way
// to let further requests wait.
func crowd(t *testing.T, cfg Config, f func(e *Endpoint, busy []*Conn, call func(Wait) *caller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, nil)
		e := b.endpoint(t, cfg)
		var busy []*Conn
		for range cfg.MaxConns {
			c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
			if f != nil {
				t.Fatal(f)
			}
			busy = append(busy, c)
		}
		var wg sync.WaitGroup
		f(e, busy, func(w Wait) *caller {
			r := &caller{}
			wg.Go(func() {
				begun := time.Now()
				r.c, r.f = e.Send(t.Context(), []byte(getRequest), w)
				r.took, r.done = time.Since(begun).Truncate(time.Millisecond), true
			})
			synctest.Wait()
			return r
		})
		wg.Wait()
	})
}

// end ends a request as one that got its reply.
func (c *Conn) end(t *testing.T) {
	t.Helper()
	var rep http1.Reply
	if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
		t.Fatal(f)
	}
	if err := rep.Body.Discard(100); err != nil {
		t.Fatal(err)
	}
	c.Done(&rep)
	time.Sleep(time.Microsecond) // a look at a kept connection takes its time here
	synctest.Wait()
}

// Who has waited longest is next, and at once.
func TestQueueIsFair(t *testing.T) {
	crowd(t, Config{MaxConns: 1, AcquireTimeout: time.Minute}, func(e *Endpoint, busy []*Conn, call func(Wait) *caller) {
		first, second, third := call(Wait{}), call(Wait{}), call(Wait{})
		if s := e.Stats(); s.Waiting != 3 || s.InFlight != 1 || s.Queued != 3 {
			t.Errorf("Stats = %+v, want 3 that wait", s)
		}
		if r := call(Wait{Not: true}); r.f == nil || r.f.Kind != Busy || r.took != 0 {
			t.Errorf("who must not wait = %+v, want busy at once", r)
		}
		time.Sleep(10 * time.Second)
		busy[0].end(t)
		late := call(Wait{})
		if !first.done || second.done || late.done || first.took != 10*time.Second {
			t.Fatalf("after one has ended: %+v, %+v, %+v; want the first alone, without delay", first, second, late)
		}
		first.c.end(t)
		second.c.end(t)
		third.c.end(t)
		if !late.done {
			t.Fatal("who came last never got a turn")
		}
		late.c.end(t)
	})
}

func TestQueueIsBounded(t *testing.T) {
	crowd(t, Config{MaxConns: 1, MaxQueue: 2, AcquireTimeout: time.Second}, func(e *Endpoint, busy []*Conn, call func(Wait) *caller) {
		waiting := []*caller{call(Wait{}), call(Wait{})}
		if r := call(Wait{}); !r.done || r.f.Kind != Busy || r.took != 0 {
			t.Errorf("behind two = %+v, want busy at once", r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, r := range waiting {
			if !r.done || r.f.Kind != Busy || r.took != time.Second {
				t.Errorf("after AcquireTimeout: %+v, want busy", r)
			}
		}
		if s := e.Stats(); s.Waiting != 0 || s.Busy != 3 {
			t.Errorf("Stats = %+v, want nobody in the queue and 3 busy", s)
		}
		busy[0].end(t)
	})
}

// A client that goes away leaves the queue, and takes nobody's turn.
func TestQueueClientLeaves(t *testing.T) {
	crowd(t, Config{MaxConns: 1, AcquireTimeout: time.Minute}, func(_ *Endpoint, busy []*Conn, call func(Wait) *caller) {
		var l leaver
		first, second := call(Wait{Client: &l}), call(Wait{Client: new(leaver)})
		time.Sleep(30 * time.Millisecond)
		l.gone.Store(true)
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if !first.done || first.f == nil || first.f.Kind != Left || !first.f.Kind.NothingSent() || first.took != lookFirst {
			t.Errorf("the client that has left: %+v, want left after %v", first, lookFirst)
		}
		busy[0].end(t)
		if !second.done || second.f != nil {
			t.Fatalf("the other one: %+v, want its turn", second)
		}
		second.c.end(t)
	})
}

// Those who wait for a member that is not to be used go elsewhere at once.
func TestQueueIsDismissed(t *testing.T) { // D23
	for _, end := range []struct {
		name string
		do   func(*Endpoint)
		kind Kind
	}{{"Dismiss", (*Endpoint).Dismiss, Busy}, {"Close", (*Endpoint).Close, Closed}} {
		t.Run(end.name, func(t *testing.T) {
			crowd(t, Config{MaxConns: 1, AcquireTimeout: time.Minute}, func(e *Endpoint, busy []*Conn, call func(Wait) *caller) {
				var all []*caller
				for range 30 {
					all = append(all, call(Wait{}))
				}
				time.Sleep(time.Second)
				end.do(e)
				synctest.Wait()
				for i, r := range all {
					if !r.done || r.f == nil || r.f.Kind != end.kind || r.took != time.Second {
						t.Fatalf("%d: %+v, want %v at once", i, r, end.kind)
					}
				}
				busy[0].end(t)
			})
		})
	}
}

func TestBusyLimit(t *testing.T) {
	crowd(t, Config{MaxConns: 3, BusyLimit: 3, AcquireTimeout: time.Minute}, func(_ *Endpoint, busy []*Conn, call func(Wait) *caller) {
		if r := call(Wait{}); !r.done || r.f.Kind != Busy || r.took != 0 {
			t.Errorf("over busy_limit = %+v, want busy at once", r)
		}
		for _, c := range busy {
			c.end(t)
		}
	})
}

// However requests come, end, give up and are dismissed, there are never more in
// flight than there may be, and no turn is lost.
func TestQueueStorm(t *testing.T) {
	const limit = 3
	q := queue{limit: limit, most: 20}
	e := &Endpoint{acquire: 2 * time.Millisecond}
	e.queue.limit, e.queue.most = q.limit, q.most
	var flying, most, served atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			var l leaver
			l.gone.Store(i%5 == 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 50 {
				if _, f := e.getSlot(ctx, Wait{Client: &l, Not: i%7 == 0}); f != nil {
					continue
				}
				n := flying.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				served.Add(1)
				if i == 1 {
					e.Dismiss()
				}
				flying.Add(-1)
				e.freeSlot()
			}
		})
	}
	wg.Wait()
	if most.Load() > limit || served.Load() == 0 {
		t.Errorf("%d requests were in flight at a time, %d in all; want at most %d", most.Load(), served.Load(), limit)
	}
	if n, waiting := e.queue.numbers(); n != 0 || waiting != 0 {
		t.Errorf("at the end %d are in flight and %d wait", n, waiting)
	}
}
