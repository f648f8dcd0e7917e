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
	if !p.task(func() { p.nurse(m) }) {
		m.probing.Store(false)
	}
}

func (p *Proxy) looksAfter(m *member) bool { return p.health > 0 || m.gossiped.Load() }

// nurse is the task of look.
func (p *Proxy) nurse(m *member) {
	every := cmp.Or(p.health, probeEvery)
	// One that answers probes, but not requests, must not fail a request each time
	// that it is believed: it is believed less and less often.
	if time.Since(m.rose) > m.patience+relapse {
		m.patience = every
	} else {
		m.patience = min(2*m.patience, relapse)
	}
	for wait := m.patience; p.pause(wait) && p.looksAfter(m) && p.inError(m); wait = every {
		if m.endpoint().Probe(p.ctx) != nil {
			p.ail(m)
			continue
		}
		if p.heal(m) {
			break
		}
	}
	m.rose = time.Now()
	m.probing.Store(false)
	if p.inError(m) {
		p.look(m) // it has failed again before anybody else could look
	}
}

// relapse is how soon after it came back a member that fails has not been well.
const relapse = time.Minute

// ail tells all lbs of m that it has not answered a probe.
func (p *Proxy) ail(m *member) {
	for _, l := range p.table.Load().workers {
		if l.find(m.route) == m {
			l.balancer.Ail(m.route)
		}
	}
}

// heal tells all lbs of m that it has answered a probe, and reports whether it is in
// error with none of them any more.
func (p *Proxy) heal(m *member) bool {
	tried := false // by a request, which then tells how m fares
	for _, l := range p.table.Load().workers {
		if l.find(m.route) != m {
			continue
		}
		l.balancer.Heal(m.route)
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
