package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// An lb is a worker of type lb, ready to be used.
type lb struct {
	name     string
	balancer *balance.Balancer
	finder   *cookie.Finder
	usable   func(route []byte) bool // balancer.Serves, bound once
	sticky   bool
	rounds   int           // over the members
	interval time.Duration // between rounds
	template *worker.Member
}

// A member is one server behind an lb. What changes is atomic.
type member struct {
	name      string
	route     string
	fromFile  bool
	trustKeys bool // the proxy has cookie keys, so its http members are ours
	recovery  recovery
	failOn    []worker.StatusRule
	silence   time.Duration // the longest while a reply is awaited or comes; zero: no limit

	at       atomic.Pointer[endpoint.Endpoint]
	gossiped atomic.Bool // gossip names it now
	failed   atomic.Bool // the last that was logged of it is that it failed
	probing  atomic.Bool // a task of the proxy looks after it
	differs  atomic.Bool // it was logged that file and gossip have different addresses

	vigil  vigil
	counts memberCounts
}

// endpoint returns the connections to m. It is another one after the member has
// moved.
func (m *member) endpoint() *endpoint.Endpoint { return m.at.Load() }

// isOurs reports whether m is an app node of ours, so that its
// Understudy-Not-Executed can be believed.
func (m *member) isOurs() bool { return m.gossiped.Load() || m.trustKeys }

// failsOn reports whether a status is in the member's fail_on_status. The first
// hit decides.
func (m *member) failsOn(status int) (soft, hit bool) {
	for _, r := range m.failOn {
		if r.Status == status {
			return r.Soft, true
		}
	}
	return false, false
}

// build makes the lb that the workers file describes.
func (p *Proxy) build() error {
	f := p.file
	if len(f.Statuses) > 0 {
		s := f.Statuses[0]
		return fmt.Errorf("%s:%d: worker.%s.type: status is not supported yet; the admin listener has the status page", f.Name, s.Line, s.Name)
	}
	from, err := p.onlyLB()
	if err != nil {
		return err
	}
	finder, err := cookie.NewFinder(cookie.FinderConfig{Cookie: from.SessionCookie, Param: from.SessionParam(), Codec: p.codec})
	if err != nil {
		return fmt.Errorf("%s:%d: worker.%s: %w", f.Name, from.Line, from.Name, err)
	}
	maintain := f.Maintain
	b, err := balance.New(balance.Config{
		RecoverTime:         from.RecoverTime,
		ErrorEscalationTime: from.ErrorEscalationTime,
		MaxReplyTimeouts:    from.MaxReplyTimeouts,
		Maintain:            maintain,
	})
	if err != nil {
		return fmt.Errorf("%s:%d: worker.%s: %w", f.Name, from.Line, from.Name, err)
	}
	p.lb = &lb{
		name: from.Name, balancer: b, finder: finder, usable: b.Serves, sticky: from.Sticky,
		rounds: from.Retries, interval: from.RetryInterval,
	}
	if len(from.Members) == 0 {
		return fmt.Errorf("%s:%d: worker.%s.balance_workers: it names no member", f.Name, from.Line, from.Name)
	}
	for i := range from.Members {
		w := &from.Members[i]
		m, err := p.newMember(w)
		if err != nil {
			return fmt.Errorf("%s:%d: worker.%s: %w", f.Name, w.Line, w.Name, err)
		}
		m.fromFile = true
		if err := b.Add(balanceMember(w, m)); err != nil {
			m.endpoint().Close()
			return fmt.Errorf("%s:%d: worker.%s: %w", f.Name, w.Line, w.Name, err)
		}
	}
	// A newcomer that only gossip knows is like the first member, but for what
	// makes that one special.
	template := from.Members[0]
	template.Activation, template.LBFactor = worker.Active, 1
	p.lb.template = &template
	return nil
}

// balanceMember is w as the balancer knows it.
func balanceMember(w *worker.Member, m *member) balance.Member {
	a := balance.Active
	switch {
	case w.Activation == worker.Stopped, w.PoolSize < 0:
		a = balance.Stopped
	case w.Activation == worker.Disabled:
		a = balance.Disabled
	}
	return balance.Member{Route: w.Route, LBFactor: w.LBFactor, Activation: a, Value: m}
}

// newMember makes the running side of w.
func (p *Proxy) newMember(w *worker.Member) (*member, error) {
	if w.Type != worker.TypeHTTP {
		return nil, fmt.Errorf("type %s is not supported yet", w.Type)
	}
	return p.newMemberAt(w, w.Address())
}

// newMemberAt is newMember for an address that the file need not have.
func (p *Proxy) newMemberAt(w *worker.Member, address string) (*member, error) {
	e, err := p.newEndpoint(w, address)
	if err != nil {
		return nil, err
	}
	m := &member{
		name: w.Name, route: w.Route, trustKeys: p.codec != nil,
		recovery: recovery{set: w.RecoverySet, bits: int(w.RecoveryOptions)},
		failOn:   w.FailOnStatus,
		// As in mod_jk, reply_timeout decides while a reply is awaited, and
		// socket_timeout only without it (TC-4b: nine seconds of work are not
		// cut by a socket_timeout of three).
		silence: cmp.Or(w.ReplyTimeout, w.SocketTimeout),
	}
	m.vigil.joined = make(chan struct{}, 1)
	m.at.Store(e)
	return m, nil
}

// newEndpoint makes the connections to w at an address, which may be another one
// than the file has.
func (p *Proxy) newEndpoint(w *worker.Member, address string) (*endpoint.Endpoint, error) {
	cfg := endpoint.Config{
		Address:        address,
		Dial:           p.dial,
		KeepAlive:      w.SocketKeepalive,
		Buffers:        p.bufs,
		Limits:         p.limits,
		ConnectTimeout: limit(w.SocketConnectTimeout),
		SocketTimeout:  w.SocketTimeout,
		ReplyTimeout:   w.ReplyTimeout,
		Retries:        w.Retries,
		RetryInterval:  limit(w.RetryInterval),
		MaxConns:       max(0, w.PoolSize),
		AcquireTimeout: limit(w.AcquireTimeout),
		MinIdle:        w.PoolMinSize,
		IdleTimeout:    w.PoolTimeout,
	}
	if w.Retries == modJKRetries {
		cfg.Retries = 1
	}
	switch {
	case w.PrepostTimeout == 0:
		cfg.ProbeAfter = -1
	case w.ProbeIdle == 0:
		cfg.Prepost, cfg.ProbeTimeout = w.PrepostTimeout, w.PrepostTimeout
	default:
		cfg.ProbeAfter = w.ProbeIdle
	}
	if w.Source != "" {
		if cfg.Source = net.ParseIP(w.Source); cfg.Source == nil {
			return nil, errors.New("source: it is no IP address")
		}
	}
	return endpoint.New(cfg)
}

// modJKRetries is what retries is in mod_jk without being set. It would try a
// member that is dead twice, with a pause between; we go to the next member at
// once (design D8), unless the file asks for more.
const modJKRetries = 2

// limit is d as package endpoint has it, where zero is a default and negative
// means none.
func limit(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// close closes the connections to all members.
func (l *lb) close() {
	for _, s := range l.balancer.Snapshot() {
		s.Value.(*member).endpoint().Close()
	}
}

// find returns the member of a route, or nil.
func (l *lb) find(route string) *member {
	for _, s := range l.balancer.Snapshot() {
		if s.Route == route {
			return s.Value.(*member)
		}
	}
	return nil
}
