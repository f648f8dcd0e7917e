package proxy

import (
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

// An lb is a worker that requests can be sent to, ready to be used: one of type
// lb, or a single server, which is then its only member.
type lb struct {
	name      string
	typ       worker.Type
	balancer  *balance.Balancer
	balancing balance.Config // what the file makes of balancer

	tuning        atomic.Pointer[tuning]
	tuned         tuning // what the file makes of it
	cookie, param string
	setCookie     bool   // members' routes are set as cookies
	cookiePath    string // of these
	perRound      int    // members tried in one of them; zero: all
	budget        *budget
	unpaid        seldom // that there was nothing left of it

	from *worker.LB // nil for a single server

	members  map[string]*worker.Member // of the file, by name
	template *worker.Member            // of newcomers; nil if it can have none
}

// tuning is what an operator may change of an lb while it runs; the balancer has
// more of that. Nobody writes to one that is in use.
type tuning struct {
	sticky      bool          // sessions are looked for
	pessimistic bool          // no difference in one process
	rounds      int           // over the members
	interval    time.Duration // between rounds
}

// after returns t with what an operator has changed of old, unless the file asks for
// another value than before.
func (t tuning) after(old *lb) *tuning {
	now, was := old.tuning.Load(), &old.tuned
	if t.sticky == was.sticky {
		t.sticky = now.sticky
	}
	if t.pessimistic == was.pessimistic {
		t.pessimistic = now.pessimistic
	}
	if t.rounds == was.rounds {
		t.rounds = now.rounds
	}
	if t.interval == was.interval {
		t.interval = now.interval
	}
	return &t
}

// A member is one server, behind one lb or several. Connections and counts are
// its own, by whichever lb a request came; how it fared is each balancer's
// (mod_jk.md 3.12, where connections are an lb's own). What changes is atomic.
type member struct {
	name      string
	route     string // in the file, or by gossip
	fromFile  bool
	trustKeys bool // the proxy has cookie keys, so its http members are ours

	file     *worker.Member                // likewise, as the file has it
	set      atomic.Pointer[worker.Member] // without the address, which may be another one
	at       atomic.Pointer[endpoint.Endpoint]
	gossiped atomic.Bool   // gossip names it now
	boot     atomic.Uint64 // the ID of the boot that gossip named last; zero if it never did
	failed   atomic.Bool   // the last that was logged of it is that it failed
	probing  atomic.Bool   // the proxy looks after it
	rose     time.Time     // of who probes: when the member was last back
	patience time.Duration // of who probes: the pause before the first one
	doubted  atomic.Bool   // a task finds out why it refuses connections
	differs  atomic.Bool   // it was logged that file and gossip have different addresses

	tunnels atomic.Int64 // open ones
	vigil   vigil
	busy    seldom // that all its connections were in use
	counts  memberCounts
}

// settings returns how m is reached, and what its failures mean. It is another one
// after an operator has changed something.
func (m *member) settings() *worker.Member { return m.set.Load() }

// recovery returns what may be sent again after a failure of m.
func (m *member) recovery() recovery {
	w := m.settings()
	return recovery{set: w.RecoverySet, bits: int(w.RecoveryOptions)}
}

// endpoint returns the connections to m. It is another one after the member has
// moved.
func (m *member) endpoint() *endpoint.Endpoint { return m.at.Load() }

// isOurs reports whether m is an app node of ours, so that its
// Understudy-Not-Executed can be believed.
func (m *member) isOurs() bool { return m.gossiped.Load() || m.trustKeys }

// build makes the workers that requests can be sent to, and says which of them
// gets what.
func (b *builder) build() error {
	f := b.t.file
	list, mapping := f.List, b.mapByRules
	if b.t.uris == nil {
		only, err := onlyLB(f)
		if err != nil {
			return err
		}
		list, mapping = []string{only.Name}, func() error { return b.mapAll(b.t.workers[0]) }
	}
	for _, name := range list {
		if err := b.buildWorker(name); err != nil {
			return err
		}
	}
	for _, s := range f.Statuses {
		if err := b.buildStatus(s); err != nil {
			return fmt.Errorf("%s:%d: worker.%s: %w", f.Name, s.Line, s.Name, err)
		}
	}
	return errors.Join(mapping(), b.choose())
}

// buildWorker makes a worker of worker.list.
func (b *builder) buildWorker(name string) error {
	for _, w := range b.t.file.LBs {
		if w.Name == name {
			return b.buildLB(w)
		}
	}
	for _, w := range b.t.file.Members {
		if w.Name == name {
			return b.buildSingle(w)
		}
	}
	return nil
}

// onlyLB returns the worker that all paths go to.
func onlyLB(f *worker.File) (*worker.LB, error) {
	switch lbs := f.LBs; len(lbs) {
	case 0:
		return nil, fmt.Errorf("%s: worker.list: no worker of type lb, and without a uriworkermap all paths go to one", f.Name)
	case 1:
		return lbs[0], nil
	default:
		return nil, fmt.Errorf("%s:%d: worker.list: both %q and %q are of type lb; without a uriworkermap all paths go to one", f.Name, lbs[1].Line, lbs[0].Name, lbs[1].Name)
	}
}

// choose sets the lb that newcomers join: the named one, or the only one.
func (b *builder) choose() error {
	n, name := 0, b.newcomers
	for _, l := range b.t.workers {
		if l.template != nil && (name == "" || l.name == name) {
			b.t.newcomers = l
			n++
		}
	}
	if n == 1 {
		return nil
	}
	b.t.newcomers = nil
	if name != "" {
		return fmt.Errorf("%s: worker.list: it has no worker %q of type lb for newcomers to join", b.t.file.Name, name)
	}
	return nil
}

// buildLB makes a worker of type lb.
func (b *builder) buildLB(from *worker.LB) error {
	where := func(err error) error {
		return fmt.Errorf("%s:%d: worker.%s: %w", b.t.file.Name, from.Line, from.Name, err)
	}
	cfg := balance.Config{
		Method:              balance.Method(from.Method), // the same numbers
		StickyForce:         from.StickyForce,
		RecoverTime:         from.RecoverTime,
		ErrorEscalationTime: from.ErrorEscalationTime,
		MaxReplyTimeouts:    from.MaxReplyTimeouts,
		Maintain:            b.t.file.Maintain,
		SlowStart:           b.slowStart,
		DrainDeadline:       b.deadline,
		DrainIdle:           b.drainIdle,
		FastFail:            b.fastFail,
		Compat:              b.compat,
	}
	balancer, err := balance.New(cfg)
	if err != nil {
		return where(err)
	}
	l := &lb{
		from: from,
		name: from.Name, typ: worker.TypeLB, balancer: balancer, balancing: cfg,
		cookie: from.SessionCookie, param: from.SessionParam(),
		setCookie: from.SetSessionCookie, cookiePath: from.SessionCookiePath,
		perRound: b.perRound(from), budget: newBudget(b.retryBudget),
	}
	l.tuned = tuning{sticky: from.Sticky, pessimistic: from.Pessimistic, rounds: from.Retries, interval: from.RetryInterval}
	l.tuning.Store(&l.tuned)
	// Here, because a rule may use other names.
	if _, err := cookie.NewFinder(cookie.FinderConfig{Cookie: l.cookie, Param: l.param, Codec: b.codec}); err != nil {
		return where(err)
	}
	if l.setCookie {
		for i := range from.Members {
			if err := checkRoute(&from.Members[i]); err != nil {
				return where(err)
			}
		}
	}
	if len(from.Members) == 0 {
		return fmt.Errorf("%s:%d: worker.%s.balance_workers: it names no member", b.t.file.Name, from.Line, from.Name)
	}
	// A newcomer that only gossip knows is like the first member that speaks HTTP, as
	// all app nodes do, but for what makes that one special.
	for _, m := range from.Members {
		if m.Type == worker.TypeHTTP {
			m.Activation, m.LBFactor = worker.Active, 1
			m.Distance, m.Domain, m.Redirect = 0, "", ""
			l.template = &m
			break
		}
	}
	b.t.workers = append(b.t.workers, l)
	for i := range from.Members {
		if err := b.addFromFile(l, &from.Members[i]); err != nil {
			return err
		}
	}
	return nil
}

// perRound returns how many members a request may try in one round: all, unless the
// file says lb_retries. mod_jk's default of two may miss the only member that lives.
func (b *builder) perRound(from *worker.LB) int {
	switch {
	case b.compat:
		return min(from.LBRetries, len(from.Members))
	case from.LBRetriesSet:
		return from.LBRetries
	}
	return 0
}

// buildSingle makes a listed worker that is no lb. It is tried by every request,
// however it fared (mod_jk.md 3.9), since its balancer has nobody else.
func (b *builder) buildSingle(w *worker.Member) error {
	cfg := balance.Config{Maintain: b.t.file.Maintain}
	balancer, err := balance.New(cfg)
	if err != nil {
		return err
	}
	l := &lb{name: w.Name, typ: w.Type, balancer: balancer, balancing: cfg, budget: newBudget(b.retryBudget)}
	l.tuned.rounds = 1
	l.tuning.Store(&l.tuned)
	b.t.workers = append(b.t.workers, l)
	return b.addFromFile(l, w)
}

// addFromFile adds a member of the file to l.
func (b *builder) addFromFile(l *lb, w *worker.Member) error {
	m, err := b.member(w)
	if err != nil {
		return fmt.Errorf("%s:%d: worker.%s: %w", b.t.file.Name, w.Line, w.Name, err)
	}
	if l.members == nil {
		l.members = map[string]*worker.Member{}
	}
	l.members[w.Name] = w
	add := balanceMember(w, m)
	if l.typ != worker.TypeLB && !unusable(w) {
		add.Activation = balance.Active // what the file says of that is for lbs (mod_jk.md 2.5)
	}
	l.balancing.Members = append(l.balancing.Members, add)
	if err := l.balancer.Add(add); err != nil {
		return fmt.Errorf("%s:%d: worker.%s: %w", b.t.file.Name, w.Line, w.Name, err)
	}
	return nil
}

// unusable reports whether the file makes w a member that nothing can be sent to.
func unusable(w *worker.Member) bool { return w.Port == 0 || w.PoolSize < 0 }

// balanceMember is w as the balancer knows it.
func balanceMember(w *worker.Member, m *member) balance.Member {
	a := balance.Active
	switch {
	case w.Activation == worker.Stopped, unusable(w):
		a = balance.Stopped
	case w.Activation == worker.Disabled:
		a = balance.Disabled
	}
	return balance.Member{
		Route: w.Route, Name: w.Name, LBFactor: w.LBFactor, Activation: a,
		Distance: w.Distance, Domain: w.Domain, Redirect: w.Redirect, Value: m,
	}
}

// newMember makes the running side of w.
func (p *Proxy) newMember(w *worker.Member) (*member, error) {
	if w.Type != worker.TypeHTTP && w.Type != worker.TypeAJP13 {
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
		name: w.Name, route: w.Route, file: w, trustKeys: p.codec != nil && w.Type == worker.TypeHTTP,
	}
	m.set.Store(w)
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
		PreferIPv6:     w.PreferIPv6,
		SocketBuffer:   w.SocketBuffer,
		Buffers:        p.bufs,
		Limits:         p.limits,
		ConnectTimeout: limit(w.SocketConnectTimeout),
		SocketTimeout:  w.SocketTimeout,
		ReplyTimeout:   w.ReplyTimeout,
		Retries:        w.Retries,
		RetryInterval:  limit(w.RetryInterval),
		MaxConns:       max(0, w.PoolSize),
		AcquireTimeout: limit(w.AcquireTimeout),
		BusyLimit:      w.BusyLimit,
		MinIdle:        w.PoolMinSize,
		IdleTimeout:    w.PoolTimeout,
		MaxAge:         p.age,
	}
	cfg.PingAfter, cfg.PingTimeout = w.PingInterval, w.PingTimeout
	if w.Type == worker.TypeAJP13 {
		cfg.PacketSize, cfg.ConnectProbe = w.MaxPacketSize, w.ConnectTimeout
	}
	if w.Retries == modJKRetries && !p.compat {
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

// routeOf returns the route of m in l, or "" if it is none of its members.
func (l *lb) routeOf(m *member) string {
	for _, s := range l.balancer.Snapshot() {
		if s.Value == m {
			return s.Route
		}
	}
	return ""
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
