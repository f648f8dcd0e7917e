package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Exchange is one request of a counting client.
type Exchange struct {
	Start, End time.Time
	Peek       bool   // read after an error, nothing was added
	Before     Reply  // the last good reply before it
	Reply      Reply  // zero with Err
	Fault      string // what may not be; "" if all is well
	Err        error
}

// Took is how long the client waited.
func (x Exchange) Took() time.Duration { return x.End.Sub(x.Start) }

// A Counting is a client that counts by POST in the background and judges what
// it sees by the rule of design 5: after an error it reads /peek and accepts
// that the lost request was done or not, also later; never a value below the
// last acknowledged one unless the reply is flagged, never one above the
// acknowledged ones and the errors.
type Counting struct {
	client *Client
	think  time.Duration
	halt   context.CancelFunc
	wg     sync.WaitGroup

	acked int // value of the last good reply
	maybe int // failed requests of which nobody knows whether they were done

	mu  sync.Mutex // guards log
	log []Exchange
}

// StartCounting makes c count until [Counting.Stop], with a pause of think
// between a good reply and the next request. Nobody else uses c meanwhile.
func StartCounting(c *Client, think time.Duration) *Counting {
	halted, halt := context.WithCancel(context.Background())
	n := &Counting{client: c, think: think, halt: halt, acked: c.last.Counter}
	n.wg.Go(func() { n.run(halted) })
	c.t.Cleanup(func() { n.Stop() })
	return n
}

// Stop ends the counting when the request that is under way has its reply, and
// returns all of its exchanges. It may be called again.
func (n *Counting) Stop() []Exchange {
	n.halt()
	n.wg.Wait()
	return n.Log()
}

// Log is what has been seen so far.
func (n *Counting) Log() []Exchange {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.log)
}

// Good counts the good replies to requests that were sent after since.
func (n *Counting) Good(since time.Time) int {
	good := 0
	for _, x := range n.Log() {
		if x.Err == nil && x.Start.After(since) {
			good++
		}
	}
	return good
}

func (n *Counting) run(halted context.Context) {
	peek := false
	for halted.Err() == nil {
		x := n.once(context.WithoutCancel(halted), peek)
		n.mu.Lock()
		n.log = append(n.log, x)
		n.mu.Unlock()
		peek = x.Err != nil
		pause := n.think
		if peek {
			pause = max(pause, 20*time.Millisecond) // an error that comes at once
		}
		Sleep(halted, pause)
	}
}

func (n *Counting) once(ctx context.Context, peek bool) Exchange {
	method, path, add := http.MethodPost, "/counter", 1
	if peek {
		method, path, add = http.MethodGet, "/peek", 0
	}
	x := Exchange{Before: n.client.last, Peek: peek, Start: time.Now()}
	x.Reply, x.Err = n.client.Do(ctx, method, path)
	x.End = time.Now()
	if x.Err != nil {
		n.maybe += add
		return x
	}
	r, surplus := x.Reply, x.Reply.Counter-n.acked-add
	switch {
	case r.Lost:
		// It says so; what requests that failed before did is gone too, or not.
	case surplus < 0:
		x.Fault = fmt.Sprintf("%v, below what was acknowledged: %d", r, n.acked+add)
	case surplus > n.maybe:
		x.Fault = fmt.Sprintf("%v, above what was acknowledged, %d, and %d errors", r, n.acked+add, n.maybe)
	case x.Before.SessionID != "" && r.SessionID != x.Before.SessionID:
		x.Fault = fmt.Sprintf("%v: another session, and not flagged", r)
	default:
		n.maybe -= surplus
	}
	n.acked = r.Counter
	return x
}

// Sleep waits for d or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Seen says what clients saw of an event.
type Seen struct {
	Requests int           // that ended after the event
	Failed   int           // of them
	Refused  map[int]int   // failed ones by status
	Lost     int           // replies flagged lost
	InFlight time.Duration // longest wait, from the event on, of requests that were under way then
	First    time.Duration // longest wait among the first requests of each client that were sent after the event
	Worst    time.Duration // longest wait of requests sent after the event
	Median   time.Duration // of them
	Good     time.Duration // from the event to the last client's first good reply
	Gap      time.Duration // longest time without a good reply, of all clients
	Without  int           // clients that had no good reply
	Error    string        // of the first that failed
}

// See looks at what the clients of these logs saw of an event between from and
// to.
func See(from, to time.Time, logs ...[]Exchange) *Seen {
	s := &Seen{Refused: map[int]int{}}
	var took []time.Duration
	for _, log := range logs {
		took = append(took, s.client(from, to, log)...)
	}
	slices.Sort(took)
	if len(took) > 0 {
		s.Median, s.Worst = took[len(took)/2], took[len(took)-1]
	}
	return s
}

func (s *Seen) client(from, to time.Time, log []Exchange) (took []time.Duration) {
	first, good, last := true, true, from
	for _, x := range log {
		if !x.End.After(from) || x.Start.After(to) {
			continue
		}
		s.Requests++
		s.count(x)
		if x.Start.Before(from) {
			s.InFlight = max(s.InFlight, x.End.Sub(from))
		} else {
			took = append(took, x.Took())
			if first {
				s.First, first = max(s.First, x.Took()), false
			}
		}
		if x.Err != nil {
			continue
		}
		s.Gap = max(s.Gap, x.End.Sub(last))
		last = x.End
		if good && x.Start.After(from) {
			s.Good, good = max(s.Good, x.End.Sub(from)), false
		}
	}
	if good {
		s.Without++
	}
	return took
}

func (s *Seen) count(x Exchange) {
	if x.Err == nil {
		if x.Reply.Lost {
			s.Lost++
		}
		return
	}
	s.Failed++
	if s.Error == "" {
		s.Error = x.End.Format("15:04:05.000 ") + x.Err.Error()
	}
	code := 0
	if status, ok := errors.AsType[*StatusError](x.Err); ok {
		code = status.Code
	}
	s.Refused[code]++
}

// String is one line for the log of a test.
func (s *Seen) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	text := fmt.Sprintf("%d requests, %d failed", s.Requests, s.Failed)
	if s.Failed > 0 {
		text += fmt.Sprintf(" %v", s.Refused)
	}
	text += fmt.Sprintf(", %d lost; first %v, worst %v, median %v; in flight %v; first good reply after %v, longest gap %v",
		s.Lost, ms(s.First), ms(s.Worst), s.Median.Round(10*time.Microsecond), ms(s.InFlight), ms(s.Good), ms(s.Gap))
	if s.Without > 0 {
		text += fmt.Sprintf("; %d clients without a good reply", s.Without)
	}
	if s.Error != "" {
		text += "; first error at " + strings.TrimSpace(s.Error)
	}
	return text
}
