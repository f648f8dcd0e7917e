package proxy

import (
	"cmp"
	"time"

	"github.com/understudy-lb/understudy/proxy/balance"
)

// probeEvery is how often a member in error that gossip names is probed, if
// Config.HealthInterval says nothing.
const probeEvery = time.Second

// look probes a member in error until it is used again, so that this does not take
// recover_time, nor requests of clients as trials (mod_jk.md 12). Without
// Config.HealthInterval only members that gossip names are probed, and recover_time
// decides of the others, as in mod_jk.
func (p *Proxy) look(m *member) {
	if !p.looksAfter(m) || !m.probing.CompareAndSwap(false, true) {
		return
	}
	// One that answers probes, but not requests, must not fail a request each time
	// that it is believed: it is believed less and less often.
	if time.Since(m.rose) > m.patience+relapse {
		m.patience = p.probeEvery()
	} else {
		m.patience = min(2*m.patience, relapse)
	}
	p.after(m.patience, func() { p.visit(m) })
}

func (p *Proxy) looksAfter(m *member) bool { return p.health > 0 || m.gossiped.Load() }

func (p *Proxy) probeEvery() time.Duration { return cmp.Or(p.health, probeEvery) }

// visit is one round of look.
func (p *Proxy) visit(m *member) {
	if p.looksAfter(m) && p.inError(m) {
		dead := m.endpoint().Probe(p.ctx) != nil
		if dead {
			p.ail(m)
		}
		if dead || !p.heal(m) {
			p.after(p.probeEvery(), func() { p.visit(m) })
			return
		}
	}
	m.rose = time.Now()
	m.probing.Store(false)
	if p.inError(m) {
		p.look(m) // it has failed again before anybody else could look
	}
}

// after has f run as a task in a while, unless the proxy is closed. Nothing waits
// meanwhile: a member may be dead for days.
func (p *Proxy) after(wait time.Duration, f func()) { time.AfterFunc(wait, func() { p.task(f) }) }

// relapse is how soon after it came back a member that fails has not been well.
const relapse = time.Minute

// ail tells all lbs of m that it has not answered a probe.
func (p *Proxy) ail(m *member) {
	for _, l := range p.table.Load().workers {
		if route := l.routeOf(m); route != "" {
			l.balancer.Ail(route)
		}
	}
}

// heal tells all lbs of m that it has answered a probe, and reports whether it is in
// error with none of them any more.
func (p *Proxy) heal(m *member) bool {
	tried := false // by a request, which then tells how m fares
	for _, l := range p.table.Load().workers {
		route := l.routeOf(m) // an operator may have changed it
		if route == "" {
			continue
		}
		l.balancer.Heal(route)
		switch l.state(m) {
		case balance.StateError:
			return false
		case balance.StateRecover:
			tried = true
		default:
		}
	}
	if !tried && m.failed.CompareAndSwap(true, false) {
		p.log.Info().Str("member", m.name).Msg("member serves again")
	}
	return true
}

// inError reports whether some lb has m in error.
func (p *Proxy) inError(m *member) bool {
	for _, l := range p.table.Load().workers {
		if l.inError(m) {
			return true
		}
	}
	return false
}

// inError reports whether the balancer has m in error.
func (l *lb) inError(m *member) bool { return l.state(m) == balance.StateError }

// state returns how m fares in the balancer's eyes; as one that never served if it is
// none of l's.
func (l *lb) state(m *member) balance.State {
	for _, s := range l.balancer.Snapshot() {
		if s.Value == m {
			return s.State
		}
	}
	return balance.StateIdle
}
