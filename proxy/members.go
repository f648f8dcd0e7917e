package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// MemberState is what a member says of itself by gossip.
type MemberState uint8

// The states.
const (
	Starting   MemberState = iota // not ready: gets nothing
	Running                       // serves every request
	Draining                      // about to leave: gets no new sessions
	Overloaded                    // refuses new sessions: gets none
)

func (s MemberState) phase() balance.Phase {
	switch s {
	case Starting:
		return balance.Starting
	case Draining:
		return balance.Draining
	case Overloaded:
		return balance.Overloaded
	default:
		return balance.Running
	}
}

// A Member is an app node as gossip describes it.
type Member struct {
	Route   string // its name, which sessions carry
	Address string // host:port that serves requests
	Boot    uint32 // another one after each start of the node, and a higher one
	State   MemberState

	// ID is a number that only this boot of this node has, and not zero, and
	// Restored are the IDs of lost boots from whose loss all its sessions have
	// recovered: another death would cost none of them (design D8). Both are for
	// resends alone.
	ID       uint64
	Restored []uint64
}

// gossip is what [Proxy.SetMembers] was last told.
type gossip struct {
	mu      sync.Mutex // guards what follows; held while members are compared, changed by an operator, or replaced by a reload; never across I/O
	known   map[string]Member
	changed chan struct{} // closed, and replaced, when known is; nil before the first
}

// SetMembers tells the proxy whom gossip knows, all of them each time; of two
// boots of one name the newer counts. Design D3:
//
//   - What it says of a route holds for the members with that route in all lbs.
//   - A newcomer is added to the lb of [Config.Newcomers], with the settings of that
//     lb's first member.
//   - One that drains or is overloaded gets no new sessions.
//   - One that vanished is probed at once, and the probe decides: if it answers it
//     stays; if not it is in error, and removed if it is not in the file.
//   - One that is back, or has a new boot, is usable at once.
//   - The file's address of a member counts as long as something answers there,
//     and until the member announces another one with a new boot.
//
// It does not wait for probes. It may be called by one goroutine at a time, and
// not after Close.
func (p *Proxy) SetMembers(members []Member) {
	g := &p.gossip
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.known
	g.known = make(map[string]Member, len(members))
	for _, m := range members {
		if old, twice := g.known[m.Route]; twice && old.Boot > m.Boot {
			continue
		}
		g.known[m.Route] = m
	}
	g.announce()
	for route, now := range g.known {
		old, was := before[route]
		p.present(now, old, was)
	}
	for route := range before {
		if _, still := g.known[route]; !still {
			p.vanished(route)
		}
	}
}

// present deals with a member that gossip names. p.gossip.mu must be held.
func (p *Proxy) present(now, old Member, was bool) {
	all := p.find(now.Route)
	if len(all) == 0 {
		// One that starts has nothing to do until it is ready, and must not fall
		// behind its share meanwhile.
		if now.State != Starting {
			p.join(now, !was || old.State == Starting || now.Boot != old.Boot)
		}
		return
	}
	reborn := was && now.Boot != old.Boot
	fresh := !was || reborn || old.State == Starting && now.State != Starting
	for _, l := range p.table.Load().workers {
		l.balancer.SetPhase(now.Route, now.State.phase())
		if fresh {
			l.balancer.Clear(now.Route)
		}
	}
	for _, m := range all {
		m.gossiped.Store(true)
		m.boot.Store(now.ID)
		moved := was && now.Address != old.Address
		switch {
		case reborn || !was:
			m.endpoint().CloseKept()
			fallthrough
		case moved:
			if !p.settle(m, now, reborn && moved || moved && !m.fromFile) {
				continue
			}
		}
		if reborn || now.State == Draining || now.State == Starting {
			m.endpoint().Dismiss() // it would refuse them
		}
		if !was || reborn || now.State != old.State {
			p.log.Info().Str("member", m.name).Uint32("boot", now.Boot).Stringer("state", now.State.phase()).Msg("member by gossip")
		}
	}
}

// find returns the members of a route. There may be several: lbs may have
// different workers with one route.
func (p *Proxy) find(route string) []*member {
	var all []*member
	for _, l := range p.table.Load().workers {
		if m := l.find(route); m != nil && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// settle makes the endpoint of m fit what gossip says. sure says that gossip's
// address is the one to use; otherwise the endpoint's is probed first.
func (p *Proxy) settle(m *member, now Member, sure bool) bool {
	e := m.endpoint()
	if e.Address() == now.Address {
		return true
	}
	if sure || !m.fromFile {
		return p.move(m, now.Address)
	}
	p.task(func() {
		if p.sameAddress(e.Address(), now.Address) {
			return
		}
		if m.differs.CompareAndSwap(false, true) {
			p.log.Warn().Str("member", m.name).Str("file", e.Address()).Str("gossip", now.Address).Msg("member has two addresses")
		}
		if e.Probe(p.ctx) == nil || p.ctx.Err() != nil {
			return
		}
		p.gossip.mu.Lock()
		defer p.gossip.mu.Unlock()
		if known, ok := p.gossip.known[m.route]; ok && known.Boot == now.Boot && known.Address == now.Address && m.endpoint() == e {
			p.move(m, now.Address)
			p.clear(m)
		}
	})
	return true
}

// sameAddress reports whether a, whose host may be a name, is b, whose host is an
// address.
func (p *Proxy) sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	if net.ParseIP(hostA) != nil {
		return hostA == hostB
	}
	ctx, cancel := context.WithTimeout(p.ctx, lookupTime)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, hostA)
	return err == nil && slices.Contains(addresses, hostB)
}

// lookupTime bounds the resolution of a name of the file.
const lookupTime = 5 * time.Second

// clear forgets how m has fared, in all its lbs.
func (p *Proxy) clear(m *member) {
	for _, l := range p.table.Load().workers {
		if route := l.routeOf(m); route != "" {
			l.balancer.Clear(route)
		}
	}
}

// move gives m connections to another address.
func (p *Proxy) move(m *member, address string) bool {
	e, err := p.newEndpoint(m.settings(), address)
	if err != nil {
		p.log.Error().Str("member", m.name).Str("address", address).Err(err).Msg("member cannot be used")
		return false
	}
	old := m.at.Swap(e)
	p.log.Info().Str("member", m.name).Str("from", old.Address()).Str("to", address).Msg("member moved")
	p.task(old.Close)
	return true
}

// join adds a member that is not in the file. news says that it could not have
// joined before.
func (p *Proxy) join(now Member, news bool) {
	l := p.table.Load().newcomers
	if l == nil {
		if news {
			p.log.Warn().Str("member", now.Route).Str("address", now.Address).Msg("member has no worker")
		}
		return
	}
	w := *l.template
	w.Name, w.Route = now.Route, now.Route
	w.Domain = worker.DomainOf(w.Route)
	m, err := p.newMemberAt(&w, now.Address)
	if err != nil {
		p.log.Error().Str("member", now.Route).Str("address", now.Address).Err(err).Msg("member cannot be used")
		return
	}
	m.gossiped.Store(true)
	m.boot.Store(now.ID)
	add := balanceMember(&w, m)
	add.Phase = now.State.phase()
	if err := l.balancer.Add(add); err != nil {
		p.log.Error().Str("member", now.Route).Err(err).Msg("member cannot be used")
		p.task(m.endpoint().Close)
		return
	}
	p.log.Info().Str("member", m.name).Str("worker", l.name).Str("address", now.Address).Uint32("boot", now.Boot).Stringer("state", now.State.phase()).Msg("member added")
}

// vanished has a member probed that gossip does not name any more.
// p.gossip.mu must be held.
func (p *Proxy) vanished(route string) {
	for _, l := range p.table.Load().workers {
		l.balancer.SetPhase(route, balance.Running)
	}
	for _, m := range p.find(route) {
		m.gossiped.Store(false)
		p.task(func() { p.decide(m) })
	}
}

// decide probes a member that vanished. As long as it answers it serves; one that
// is not in the file is probed again from time to time.
func (p *Proxy) decide(m *member) {
	for {
		f := m.endpoint().Probe(p.ctx)
		if p.ctx.Err() != nil || m.gossiped.Load() {
			return
		}
		if f != nil {
			p.bury(m, f)
			return
		}
		p.log.Info().Str("member", m.name).Msg("member stays without gossip")
		if m.fromFile || !p.pause(vanishedEvery) {
			return
		}
	}
}

// vanishedEvery is how often a member is probed that gossip once named, that is
// not in the file, and that answers all the same.
const vanishedEvery = 10 * time.Second

// bury takes a member out of service that is gone.
func (p *Proxy) bury(m *member, why *endpoint.Failure) {
	e := m.endpoint()
	if !p.takeOut(m, why) {
		return // it is back
	}
	if why.Kind != endpoint.Refused {
		// One that refuses may be stopping in good order, and finish what it has
		// got; another one will not.
		e.Abandon()
	}
	e.CloseKept()
	if !m.fromFile {
		e.Close()
	}
}

// takeOut puts m in error, or removes it if it is not in the file, unless gossip
// names it again.
func (p *Proxy) takeOut(m *member, why *endpoint.Failure) bool {
	p.gossip.mu.Lock()
	defer p.gossip.mu.Unlock()
	if m.gossiped.Load() {
		return false
	}
	m.counts.last.Store(&trouble{at: time.Now(), text: why.Error()})
	for _, l := range p.table.Load().workers {
		switch route := l.routeOf(m); {
		case route == "":
		case m.fromFile:
			l.balancer.Fail(route)
		default:
			l.balancer.Remove(route)
		}
	}
	if m.fromFile {
		p.look(m)
	}
	m.endpoint().Dismiss()
	if !m.fromFile {
		p.log.Warn().Str("member", m.name).Err(why).Msg("member removed")
	} else if m.failed.CompareAndSwap(false, true) {
		p.log.Warn().Str("member", m.name).Err(why).Str("outcome", "lost by gossip").Msg("member in error")
	}
	return true
}

// How long it is doubted whether a member that refuses connections, while other
// requests run on it, is only busy.
const (
	doubtEvery = 100 * time.Millisecond
	doubtFor   = time.Second
)

// doubt probes a member that has refused a connection although requests run on it
// (peers.md D13): its backlog may be full for a moment, and then its sessions go on;
// or it accepts nothing more.
func (p *Proxy) doubt(m *member, cause error) {
	if f, ok := errors.AsType[*endpoint.Failure](cause); !ok || f.Kind != endpoint.Refused || !m.doubted.CompareAndSwap(false, true) {
		return
	}
	started := p.task(func() {
		defer m.doubted.Store(false)
		var f *endpoint.Failure
		for until := time.Now().Add(doubtFor); time.Now().Before(until); {
			if f = m.endpoint().Probe(p.ctx); f == nil || !p.pause(doubtEvery) {
				return
			}
			if m.endpoint().InFlight() == 0 {
				break
			}
		}
		m.counts.last.Store(&trouble{at: time.Now(), text: f.Error()})
		for _, l := range p.table.Load().workers {
			if route := l.routeOf(m); route != "" {
				l.balancer.Fail(route)
			}
		}
		m.endpoint().Dismiss()
		if m.failed.CompareAndSwap(false, true) {
			p.log.Warn().Str("member", m.name).Str("address", m.endpoint().Address()).Err(f).Stringer("outcome", balance.Unreachable).Msg("member in error")
		}
		p.look(m)
	})
	if !started {
		m.doubted.Store(false)
	}
}

// task runs f in a goroutine that Close waits for, and reports whether it does.
func (p *Proxy) task(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.tasks.Go(f)
	return true
}

// pause waits for d and reports whether the proxy still runs.
func (p *Proxy) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}
