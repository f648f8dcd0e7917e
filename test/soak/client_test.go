package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/understudy-lb/understudy/test/stage"
)

const (
	think       = 60 * time.Millisecond // a client's pause, on average
	giveUp      = 8 * time.Second       // of a client
	checkLimit  = time.Minute           // for one history
	maxUnknown  = 12                    // requests of a session without a reply; then it is ended, so that its check stays easy
	maxSession  = 400                   // operations of a session, likewise
	oldestFirst = 60                    // lines of a history that a violation shows
)

// An op is one operation on the counter of a session.
type op struct {
	count bool // else it looks
}

// A result is what a reply showed.
type result struct {
	value   int
	unknown bool // there was no reply
}

// counter is what a session must look like: requests that look say how often it
// was counted. One without a reply may have been done at any time after it was
// sent, or never, which is the same as last.
var counter = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		n, _ := state.(int)
		in, _ := input.(op)
		out, _ := output.(result)
		if in.count {
			n++
		}
		return out.unknown || out.value == n, n
	},
}

// A pair is two windows of one browser: one session, a cookie of its own each.
type pair struct {
	s    *cluster
	r    *report
	rand [2]*rand.Rand
	win  [2]*stage.Client

	mu      sync.Mutex // guards what follows
	id      string
	history []porcupine.Operation
	unknown int
	broken  bool // there was a violation, so that the rest is not judged
}

func newPair(s *cluster, r *report, seed uint64, n int) *pair {
	p := &pair{s: s, r: r}
	for i := range p.win {
		p.win[i] = stage.NewClient(s.t, s.listen, giveUp, nil)
		p.rand[i] = rand.New(rand.NewPCG(seed, uint64(2+2*n+i)))
	}
	return p
}

// run has one session after the other until halted.
func (p *pair) run(halted context.Context) {
	for halted.Err() == nil {
		if !p.begin(halted) {
			continue
		}
		life, done := context.WithTimeout(halted, time.Duration(10+p.rand[0].IntN(30))*time.Second)
		var both sync.WaitGroup
		for i := range p.win {
			both.Go(func() { p.use(life, i) })
		}
		both.Wait()
		done()
		p.end(context.WithoutCancel(halted))
		p.check()
	}
}

// begin gives both windows a new session.
func (p *pair) begin(halted context.Context) bool {
	p.win[0].Session = ""
	p.mu.Lock()
	p.id, p.history, p.unknown, p.broken = "", nil, 0, false
	p.mu.Unlock()
	// What an error leaves behind is a session that nobody knows of.
	start := time.Now()
	r, err := p.win[0].Do(context.WithoutCancel(halted), http.MethodPost, "/counter")
	if err != nil {
		p.note(err, start)
		stage.Sleep(halted, think)
		return false
	}
	p.record(op{count: true}, 0, start, r, nil)
	p.win[1].SharedWith(p.win[0])
	return true
}

// use counts and looks in one window until the session is to end.
func (p *pair) use(life context.Context, i int) {
	for life.Err() == nil && p.goesOn() {
		stage.Sleep(life, time.Duration(p.rand[i].Int64N(int64(2*think))))
		o, method, path := op{}, http.MethodGet, "/peek"
		if p.rand[i].IntN(3) > 0 {
			o, method, path = op{count: true}, http.MethodPost, "/counter"
		}
		start := time.Now()
		r, err := p.win[i].Do(context.WithoutCancel(life), method, path)
		p.record(o, i, start, r, err)
	}
}

func (p *pair) goesOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.broken && p.unknown < maxUnknown && len(p.history) < maxSession
}

// note counts a reply.
func (p *pair) note(err error, start time.Time) {
	code := 0
	if status, ok := errors.AsType[*stage.StatusError](err); ok {
		code = status.Code
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if err != nil {
		p.r.errors[strconv.Itoa(code)]++
		return
	}
	p.r.good++
	p.r.worst = max(p.r.worst, time.Since(start))
}

// record adds a request to the history.
func (p *pair) record(o op, i int, start time.Time, r stage.Reply, err error) {
	p.note(err, start)
	p.mu.Lock()
	defer p.mu.Unlock()
	done := porcupine.Operation{ClientId: i, Input: o, Call: start.UnixNano(), Return: time.Now().UnixNano(), Metadata: r}
	switch {
	case err != nil && !o.count:
		return // it means nothing
	case err != nil:
		p.unknown++
		done.Output, done.Return, done.Metadata = result{unknown: true}, 1<<62, err
	case p.broken:
		return
	case r.Lost || p.id != "" && r.SessionID != p.id:
		p.broken = true
		p.r.violation("window %d has another session, or lost: %v; before:\n%s", i, r, p.text())
		return
	default:
		p.id, done.Output = r.SessionID, result{value: r.Counter}
	}
	p.history = append(p.history, done)
}

// end invalidates the session, after which neither window may find it again.
func (p *pair) end(ctx context.Context) {
	if _, err := p.win[0].Ask(ctx, http.MethodPost, "/invalidate"); err != nil || p.broken {
		return // it may be there or not
	}
	for range 3 {
		if r, err := p.win[1].Do(ctx, http.MethodGet, "/peek"); err == nil && (r.SessionID == p.id || r.Counter > 0) {
			p.r.violation("a session that was ended is served: %v, before:\n%s", r, p.text())
			return
		}
	}
}

// check judges the history.
func (p *pair) check() {
	p.r.mu.Lock()
	p.r.sessions++
	p.r.longest = max(p.r.longest, len(p.history))
	p.r.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(counter, p.history, checkLimit) {
	case porcupine.Ok:
	case porcupine.Illegal:
		p.r.violation("not one counter:\n%s", p.text())
	default:
		p.r.violation("no verdict within %v, with %d operations of which %d are unknown:\n%s", checkLimit, len(p.history), p.unknown, p.text())
	}
}

// text is the end of the history, in the order in which replies came.
func (p *pair) text() string {
	var b strings.Builder
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }
	all := slices.Clone(p.history)
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, o := range all[max(0, len(all)-oldestFirst):] {
		in, _ := o.Input.(op)
		end := "…"
		if o.Return < 1<<62 {
			end = at(o.Return)
		}
		fmt.Fprintf(&b, "  %s %s window %d, counts %v: %v\n", at(o.Call), end, o.ClientId, in.count, o.Metadata)
	}
	return b.String()
}
