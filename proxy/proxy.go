package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A Proxy takes requests to members. It is safe for concurrent use.
type Proxy struct {
	codec       *cookie.Codec
	maxResend   int
	request     time.Duration // zero: no limit
	age         time.Duration // zero: no limit
	retryBudget int           // percent; negative: no limit
	resendWait  time.Duration
	health      time.Duration // zero: members that gossip does not name are not probed
	slowStart   time.Duration
	deadline    time.Duration // of drains
	drainIdle   time.Duration
	draining    atomic.Bool // members that drain are watched
	fastFail    bool
	compat      bool
	maxBody     int64
	body        time.Duration
	write       time.Duration
	headTime    time.Duration

	kept       int           // bytes of a request that are kept in memory
	tunnelIdle time.Duration // zero: no limit
	maxTunnels int           // zero: no limit

	limits  http1.Limits
	trusted networks
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	log     zerolog.Logger

	access *accesslog.Log // may be nil
	timed  bool           // access wants the phases of requests

	bufs      *http1.Buffers
	table     atomic.Pointer[table]
	newcomers string                                     // worker that they join; empty: the only one
	newStatus func(*worker.Status) (http.Handler, error) // may be nil
	pages     map[int]ErrorPage
	suspects  suspects
	tunnels   tunnels
	spool     *spool
	counts    counts
	gossip    gossip
	started   time.Time

	// ctx ends with Close, and with it the probes of tasks.
	ctx   context.Context //nolint:containedctx // it is the life of the proxy, which no call brings along
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu    sync.Mutex // guards what follows; held for a few instructions
	idle  []*exchange
	ended bool // by Close: no task begins
}

// New returns a proxy for cfg. It connects to nobody yet.
//
// The error names the line of the workers file that has to be mended.
func New(cfg Config) (*Proxy, error) {
	if cfg.Workers == nil {
		return nil, errors.New("proxy: Config.Workers is not set")
	}
	p := &Proxy{
		newcomers: cfg.Newcomers, newStatus: cfg.Status, codec: cfg.Codec, dial: cfg.Dial, limits: cfg.Limits,
		maxResend: cmp.Or(cfg.MaxResend, defaultMaxResend), resendWait: cmp.Or(cfg.ResendWait, defaultResendWait), maxBody: cfg.MaxBody,
		body: cmp.Or(cfg.BodyTimeout, defaultBodyTimeout), write: cmp.Or(cfg.WriteTimeout, defaultWriteTimeout),
		headTime:   cmp.Or(cfg.HeadTimeout, defaultHeadTimeout),
		tunnelIdle: max(0, cmp.Or(cfg.TunnelTimeout, defaultTunnel)), maxTunnels: cfg.MaxTunnels,
		trusted: slices.Clone(cfg.TrustedNetworks),
		log:     cfg.Log, access: cfg.Access, timed: cfg.Access.Timed(),
		kept:    max(leastKept, cmp.Or(cfg.Spool.Memory, defaultKept)),
		spool:   newSpool(cfg.Spool, cfg.Log),
		bufs:    http1.NewBuffers(http1.BuffersConfig{}),
		started: time.Now(),
	}
	p.health, p.slowStart, p.fastFail, p.compat = cfg.HealthInterval, cfg.SlowStart, cfg.FastFail, cfg.Compat
	p.deadline, p.drainIdle = cfg.DrainDeadline, cfg.DrainIdle
	if p.compat {
		p.health = 0
	}
	if cfg.MaxBody < 0 || p.health < 0 || cfg.MaxTunnels < 0 || p.body < 0 || p.write < 0 || p.headTime < 0 {
		return nil, errors.New("proxy: Config.MaxBody, MaxTunnels, HealthInterval, BodyTimeout, WriteTimeout or HeadTimeout is negative")
	}
	var err error
	if p.pages, err = checkPages(cfg.ErrorPages); err != nil {
		return nil, err
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.request, p.age = cfg.RequestTimeout, max(0, cmp.Or(cfg.ConnectionAge, defaultAge))
	p.retryBudget = cmp.Or(cfg.RetryBudget, defaultRetryBudget)
	b := p.newBuilder(cfg.Workers, cfg.URIMap)
	if err := b.build(); err != nil {
		p.stop()
		return nil, err
	}
	p.table.Store(b.t)
	p.watchDrains()
	return p, nil
}

// Close ends what the proxy does by itself and closes the connections that it
// keeps. It returns when that is done. Requests must have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.stop()
	p.tasks.Wait()
	for _, l := range p.table.Load().workers {
		l.close()
	}
}

// serve takes one request through the pipeline: read, route, balance, exchange,
// reply. It returns when the client has its reply, or cannot have one. The head
// of the request is in x.req, and its first byte came at x.start.
func (x *exchange) serve() {
	x.locate()
	x.want.Round = &x.round
	if x.p.request > 0 {
		x.until = x.start.Add(x.p.request)
	}
	x.identify()
	x.pump.reset(x.req.Body.Length() == 0)
	to := nextMember
	answered, f := x.serveOwn()
	if answered {
		return
	}
	if x.failure = f; f == failNone {
		x.failure = x.refusal()
	}
	if x.failure == failNone {
		if answered, x.failure = x.serveStatus(); answered {
			return
		}
	}
	if x.failure == failNone {
		x.failure = x.begin() // read
	}
	x.mark(&x.phases.Read)
	if x.failure == failNone {
		x.failure = x.route()
	}
	if x.failure != failNone {
		to = x.failover()
	}
	for to != giveUp && to != cutClient && !x.late() && x.balance(to) {
		x.failure = x.exchange()
		if x.failure == failNone {
			x.failure = x.reply()
		}
		to = x.failover()
	}
	x.finish(to)
}

// late reports whether the time is over that the request may take, and notes it.
// Its lease is ended.
func (x *exchange) late() bool {
	if !x.overdue() {
		return false
	}
	x.failure = x.failed(failOverdue, errOverdue)
	x.failover()
	return true
}

// balance gets x a member, and reports whether there is one.
func (x *exchange) balance(to whither) bool {
	if x.again = to == sameMember; x.again {
		return true // the lease is still ours
	}
	if to == nextNoCopy || to == nextRestored {
		x.want.Avoid, x.wary = true, to == nextNoCopy
	}
	if x.lb.from == nil && x.attempts > 0 {
		return false // a single server has nobody beside it
	}
	for {
		if most := x.lb.perRound; most > 0 && x.inRound >= most && (x.final() || !x.nextRound()) {
			return false
		}
		if x.attempts > 0 {
			x.refind()
		}
		lease, err := x.lb.balancer.Pick(x.want)
		if err != nil && x.want.Avoid && !x.wary {
			x.want.Avoid = false // all others are holders, and none is the only one
			continue
		}
		if err == nil {
			x.lease, x.member = lease, lease.Value().(*member)
			x.inRound++
			x.here = 0
			x.silence = x.mapping.silence(x.member)
			return true
		}
		if x.full && !x.patient && !x.failure.sent() {
			x.patient = true
			x.round.Again()
			continue
		}
		if !errors.Is(err, balance.ErrNoMember) || x.final() || !x.nextRound() {
			return false
		}
	}
}

// final reports whether there is no further round after the last failure: somebody has
// worked at the request, and there is a limit to how often that may be.
func (x *exchange) final() bool { return x.failure.sent() && x.p.maxResend >= 0 }

// nextRound begins another round over the members, after a pause, if the lb's
// retries allow one.
func (x *exchange) nextRound() bool {
	own := x.lb.tuning.Load()
	if x.rounds+1 >= own.rounds || x.attempts == 0 {
		return false
	}
	x.rounds++
	x.inRound = 0
	if own.interval > 0 {
		t := time.NewTimer(x.within(own.interval))
		defer t.Stop()
		select {
		case <-t.C:
		case <-x.p.ctx.Done():
			return false
		}
	}
	x.round.Again()
	return !x.late() && !x.out.gone()
}

// failover ends what is to be ended of the last attempt and says where the
// request goes from here: design D8.
func (x *exchange) failover() whither {
	f := facts{
		failure: x.failure, method: x.req.Method, replayable: x.pump.replayable(),
		status: x.rep.Status, resends: x.resends, maxResend: x.p.maxResend, crowded: x.crowded,
	}
	if x.failure == failNone {
		x.done(x.outcome(f))
		return giveUp
	}
	if x.member != nil {
		f.compat = x.p.compat && x.p.maxResend < 0
		f.enough = x.here >= 2
		if f.compat {
			f.enough = x.here >= x.member.settings().Retries
		}
		f.recovery = x.member.recovery()
		x.survey(&f)
	}
	d := decide(f)
	if d.to != giveUp && d.to != cutClient && f.pays() {
		if x.paid = x.lb.budget.take(); !x.paid {
			d.to = giveUp
			x.p.counts.unpaid.Add(1)
			if x.lb.unpaid.due() {
				x.p.log.Warn().Str("worker", x.lb.name).Msg("retry budget spent")
			}
		}
	}
	if !x.begun {
		x.status = d.status
	}
	if d.to != sameMember && x.member != nil {
		x.logFailure(f, d)
		x.done(x.outcome(f))
	}
	if d.to == nextRestored {
		d.to = x.awaitRestored()
	}
	if d.resend && d.to != giveUp && d.to != cutClient {
		x.resends++
		x.p.counts.resent.Add(1)
	}
	return d.to
}

// survey looks around for what decide must know after a failure: whether the
// member lives, how many others do, and whether this request is one to beware of.
func (x *exchange) survey(f *facts) {
	switch f.failure {
	case failDropped, failBegun:
		// Another boot that answers proves that the one which was asked is dead.
		same := x.boot == 0 || x.boot == x.member.boot.Load()
		f.alive = !x.lost && same && x.member.endpoint().Probe(x.p.ctx) == nil
		if f.alive || f.failure == failBegun {
			break
		}
		f.others = x.lease.Others()
		f.gossip = x.boot != 0
		f.poisoned = x.p.suspects.add(x.req.MethodName, x.req.Path, x.session())
		return
	case failTimeout:
	case failTunnel:
		f.alive = !x.lost && x.member.endpoint().Probe(x.p.ctx) == nil
		return
	default:
		return
	}
	f.poisoned = x.p.suspects.has(x.req.MethodName, x.req.Path, x.session())
}

// session tells the request's session from others. That of a plain value is what
// stands before the first dot, wherever its routes lead now.
func (x *exchange) session() []byte {
	id := x.ref.ID
	if i := bytes.IndexByte(id, '.'); i >= 0 && !x.ref.Signed {
		return id[:i]
	}
	return id
}

// outcome is what the balancer is told of an attempt.
func (x *exchange) outcome(f facts) balance.Outcome {
	switch f.failure {
	case failNone, failReplaced:
		return balance.OK
	case failConnect:
		if x.spare {
			return balance.Unused
		}
		if x.busy {
			return balance.Busy
		}
		return balance.Unreachable
	case failNotRun, failMalformed:
		return balance.Refused
	case failStatus:
		if soft, _ := x.failsOn(x.rep.Status); soft {
			return balance.Refused
		}
		return balance.StatusFailed
	case failDropped, failBegun:
		if f.alive {
			return balance.Failed
		}
		return balance.Unreachable
	case failTunnel:
		if f.alive {
			return balance.OK // how a tunnel is to end, only its ends know
		}
		return balance.Unreachable
	case failIdle:
		return balance.OK
	case failTimeout:
		if x.lost {
			return balance.Unreachable
		}
		return balance.ReplyTimeout
	default:
		return balance.ClientFailed
	}
}

// answered lets the balancer know early that the member has answered, for a reply
// that may take for ever. What has come of it in the end is then old news.
func (x *exchange) answered() {
	if !x.settled {
		x.settled = true
		x.lease = x.lease.Answered()
		x.p.note(x.lb, x.member, balance.OK, nil)
	}
}

// done ends the lease.
func (x *exchange) done(o balance.Outcome) {
	read, written := uint64(x.written)+uint64(x.headBytes), uint64(x.msg.Len())+uint64(x.beyond)
	x.member.counts.read.Add(read)
	x.member.counts.written.Add(written)
	x.lease.Carried(read + written).Done(o)
	if !x.settled || o != balance.OK && o != balance.ClientFailed {
		x.p.note(x.lb, x.member, o, x.cause)
	}
	x.lease, x.member, x.settled, x.beyond = balance.Lease{}, nil, false, 0
}

// finish answers a client that has had no reply, counts, and logs.
func (x *exchange) finish(to whither) {
	if x.paid {
		x.lb.budget.refund() // there was nobody to send it to
	}
	if len(x.id) == 0 {
		x.identify() // it could not be read
	}
	if !x.begun && to != cutClient {
		x.status = cmp.Or(x.status, http.StatusServiceUnavailable)
		n, err := x.out.refuse(x.status)
		x.written = n
		if err != nil {
			x.failed(failGone, err)
		}
	}
	if x.upgrade {
		x.p.tunnels.leave()
	}
	x.p.counts.add(x)
	x.logRequest()
}

// Wire is how connections of clients are to be made for [Proxy.Serve].
func (p *Proxy) Wire() http1.ConnConfig {
	return http1.ConnConfig{Buffers: p.bufs, Limits: p.limits, ReadTimeout: p.body, WriteTimeout: p.write}
}
