package proxy

import (
	"time"

	"github.com/understudy-lb/understudy/proxy/balance"
)

// drainEvery is how often members that drain are looked at.
const drainEvery = time.Second

// watchDrains has it logged when a disabled member is not needed any more, or is
// stopped because of Config.DrainDeadline. It is called whenever a member may have
// become one.
func (p *Proxy) watchDrains() {
	if p.drains() && p.draining.CompareAndSwap(false, true) {
		p.lookAtDrains(map[drainOf]bool{})
	}
}

// lookAtDrains does so, again and again while there are any. told are those that there
// is nothing more to say of.
func (p *Proxy) lookAtDrains(told map[drainOf]bool) {
	if !p.drains() {
		p.draining.Store(false)
		p.watchDrains() // for one that has begun just now
		return
	}
	for _, l := range p.table.Load().workers {
		for _, s := range l.balancer.Snapshot() {
			p.tellDrain(l, &s, told)
		}
	}
	p.after(drainEvery, func() { p.lookAtDrains(told) })
}

// A drainOf is one drain of one member of one lb.
type drainOf struct {
	lb, member string
	since      time.Time
}

// drains reports whether some member drains.
func (p *Proxy) drains() bool {
	for _, l := range p.table.Load().workers {
		for _, s := range l.balancer.Snapshot() {
			if !s.Drain.Since.IsZero() {
				return true
			}
		}
	}
	return false
}

// tellDrain logs how far a drain is, if that is news.
func (p *Proxy) tellDrain(l *lb, s *balance.Status, told map[drainOf]bool) {
	is := drainOf{l.name, s.Name, s.Drain.Since}
	over := s.Activation == balance.Stopped
	empty := s.Drain.Left == 0 && s.Busy == 0 && time.Since(is.since) >= l.balancer.DrainIdle()
	if is.since.IsZero() || told[is] || !over && !empty {
		return
	}
	told[is] = true
	event := p.log.Info().Str("worker", l.name).Str("member", s.Name).Int("left", s.Drain.Left)
	if over {
		event.Msg("drain ended by its deadline")
	} else {
		event.Msg("member drained")
	}
}
