package proxy

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/proxy/endpoint"
)

// How a vigil goes. With the default time-outs a member behind a cut cable is
// found out after 0.8 s, and a frozen app node after 0.9 s.
const (
	vigilAfter   = 150 * time.Millisecond // silence after which an exchange joins
	vigilStagger = 150 * time.Millisecond // a second probe, if the first has no answer yet
	vigilGap     = 250 * time.Millisecond // between two rounds, while exchanges join
	vigilMost    = 8 * time.Second        // between two rounds, when all is well for long
	vigilConnect = 500 * time.Millisecond // for a member that is only connected to
)

// A vigil is kept over a member while exchanges wait for it. By default nothing
// bounds that wait, and a request that takes long is no fault; but a member behind
// a cable that was cut, or a process that is frozen, never answers. So the member
// is asked on other connections whether it lives. If it does not, all exchanges
// that wait for it are treated as timed out (design D8).
//
// An app node of ours must answer a probe. Of any other server only a connection
// is wanted: it may be unable to do two things at once.
type vigil struct {
	mu      sync.Mutex    // guards what follows; never held across I/O
	waiting int           // exchanges
	running bool          // the task is
	joined  chan struct{} // capacity one
}

// keepVigil has the member of an exchange watched that waits for it. leaveVigil
// ends that.
func (p *Proxy) keepVigil(m *member) {
	v := &m.vigil
	v.mu.Lock()
	v.waiting++
	begin := !v.running
	v.running = true
	v.mu.Unlock()
	select {
	case v.joined <- struct{}{}:
	default: // a token is already waiting
	}
	if begin && !p.task(func() { p.watch(m) }) {
		v.mu.Lock()
		v.running = false
		v.mu.Unlock()
	}
}

func (m *member) leaveVigil() {
	m.vigil.mu.Lock()
	defer m.vigil.mu.Unlock()
	m.vigil.waiting--
}

// watch is the task of a vigil. It ends when nobody waits.
func (p *Proxy) watch(m *member) {
	v := &m.vigil
	for wait := vigilGap; ; wait = min(2*wait, vigilMost) {
		select {
		case <-v.joined:
			wait = vigilGap
		default:
		}
		e := m.endpoint()
		if f := p.ask(m); f != nil && p.ctx.Err() == nil {
			p.log.Warn().Str("member", m.name).Err(f).Msg("member silent")
			e.Abandon()
		}
		if !p.rest(v, wait) {
			return
		}
	}
}

// rest waits for the next round, and reports whether there is one. Somebody who
// joins brings it nearer.
func (p *Proxy) rest(v *vigil, wait time.Duration) bool {
	on := p.pause(vigilGap)
	if wait > vigilGap && on {
		t := time.NewTimer(wait - vigilGap)
		defer t.Stop()
		select {
		case <-t.C:
		case <-v.joined:
			select {
			case v.joined <- struct{}{}: // for watch
			default: // somebody has joined meanwhile
			}
		case <-p.ctx.Done():
			on = false
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if on && v.waiting > 0 {
		return true
	}
	v.running = false
	return false
}

// ask asks m whether it lives, and again if there is no answer. It does not
// return before all its probes have ended.
func (p *Proxy) ask(m *member) *endpoint.Failure {
	results := make(chan *endpoint.Failure, 2)
	probe := func() { results <- p.probe(m) }
	go probe()
	t := time.NewTimer(vigilStagger)
	defer t.Stop()
	var first *endpoint.Failure
	answered := false
	select {
	case first = <-results:
		answered = true
	case <-t.C:
	}
	if answered && first == nil {
		return nil
	}
	go probe()
	if !answered {
		first = <-results
	}
	second := <-results
	switch {
	case first == nil || second == nil:
		return nil
	case second.Kind == endpoint.ProbeFailed:
		// It has been connected to. A process that had no time for so long may
		// have some now.
		return p.probe(m)
	}
	return second
}

// probe asks once. A refusal is an answer: so does a member that stops in good
// order, and still has our requests to finish. The end of the connection is one too:
// of a process that does not want to be asked, or of one that is dead, whose other
// connections end as well.
func (p *Proxy) probe(m *member) *endpoint.Failure {
	var f *endpoint.Failure
	if m.isOurs() {
		f = m.endpoint().Probe(p.ctx)
	} else {
		f = p.connect(m.endpoint().Address())
	}
	switch {
	case f == nil, f.Kind == endpoint.Refused, f.Kind == endpoint.Closed, f.Kind == endpoint.Canceled:
		return nil
	case f.Kind == endpoint.ProbeFailed && !isTimeout(f):
		return nil
	}
	return f
}

// connect tries whether a connection can be made.
func (p *Proxy) connect(address string) *endpoint.Failure {
	ctx, cancel := context.WithTimeout(p.ctx, vigilConnect)
	defer cancel()
	dial := p.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, "tcp", address)
	if err == nil {
		_ = nc.Close() // it has told all it can
		return nil
	}
	if ctx.Err() == nil {
		return nil // an answer of some kind, in time
	}
	return &endpoint.Failure{Kind: endpoint.ConnectTimeout, Address: address, Tries: 1, Err: err}
}
