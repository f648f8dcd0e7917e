package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/proxy/ajp"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// Config sets up an [Endpoint]. Where mod_jk waits for ever by default we do
// not; each such deviation is named (design D10).
type Config struct {
	// Address is the member's host:port. The name is resolved at every dial,
	// which mod_jk's is not.
	Address string

	// PacketSize, if positive, says that the member speaks AJP13, in packets of at
	// most so many bytes (max_packet_size): [ajp.MinPacket] to [ajp.MaxPacket]. Buffers
	// must have big ones of that size. If zero, it speaks HTTP/1.1.
	PacketSize int

	// Host is what a probe names as Host. If empty, it is Address.
	Host string

	// Dial connects. If nil, it is a [net.Dialer] with Source and KeepAlive.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// PreferIPv6 tries the IPv6 addresses of a name before the others (prefer_ipv6).
	PreferIPv6 bool

	// Lookup resolves names for PreferIPv6. If nil, it is the system's.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

	// SocketBuffer is the size of the system's buffers of a connection, in bytes
	// (socket_buffer). If zero, the system chooses.
	SocketBuffer int

	// Source is the local IP address of connections (source). If nil, the
	// system chooses.
	Source net.IP

	// KeepAlive turns TCP keep-alive on (socket_keepalive).
	KeepAlive bool

	// Buffers is where buffers come from. If nil, the endpoint has its own.
	Buffers *http1.Buffers

	// Limits bounds replies.
	Limits http1.Limits

	// ConnectTimeout bounds a dial (socket_connect_timeout). If zero, it is
	// 500 ms; mod_jk leaves it to the operating system. Negative: no limit.
	ConnectTimeout time.Duration

	// ConnectProbe, if positive, probes each new connection and waits so long
	// for the answer (connect_timeout, ping_mode C).
	ConnectProbe time.Duration

	// Prepost, if positive, probes a connection before each request and waits
	// so long for the answer (prepost_timeout, ping_mode P). A new connection
	// that passed ConnectProbe is not probed again.
	Prepost time.Duration

	// ProbeAfter is how long a connection may be idle before it is probed
	// before use, although Prepost is zero. If zero, it is 1 s; mod_jk does
	// not. Negative: never.
	ProbeAfter time.Duration

	// ProbeTimeout is how long such a probe, and [Endpoint.Probe], waits for
	// the answer. If zero, it is 300 ms: together with the connect time-out
	// that follows, a member behind a cut cable costs less than a second.
	ProbeTimeout time.Duration

	// PingAfter is how long a connection may be idle before it is probed while it is
	// kept, and again after that time (connection_ping_interval, ping_mode I); the
	// answer is awaited for PingTimeout. If zero, it is not.
	PingAfter, PingTimeout time.Duration

	// SocketTimeout bounds each read (socket_timeout). If zero, there is no
	// limit.
	SocketTimeout time.Duration

	// ReplyTimeout is the longest silence while a reply is awaited or comes
	// (reply_timeout), at most an eighth of it and a second more. If zero,
	// there is no limit. The shorter one of both counts.
	ReplyTimeout time.Duration

	// WriteTimeout bounds each write. If zero, it is SocketTimeout, and if that
	// is zero too, a minute; mod_jk has no limit. Negative: no limit.
	WriteTimeout time.Duration

	// Retries is how many connections are tried, as long as nothing was sent
	// (retries). If zero, it is 1: another member is tried without a pause
	// (design D8). mod_jk's 2 is for a worker that sets it. A kept connection
	// that the member has closed is replaced without being counted.
	Retries int

	// RetryInterval is the pause before a second and later try
	// (retry_interval). If zero, it is 100 ms. Negative: none.
	RetryInterval time.Duration

	// MaxConns is the largest number of requests at a time
	// (connection_pool_size). If zero, there is no limit.
	MaxConns int

	// AcquireTimeout is how long a request waits when MaxConns are in use
	// (connection_acquire_timeout). If zero, it is 200 ms. Negative: it does
	// not wait.
	AcquireTimeout time.Duration

	// MaxQueue is how many requests may wait then; one more fails with [Busy] at
	// once. If zero, it is MaxConns, and 64 at least: who comes behind more than
	// that would hardly get its turn in time.
	MaxQueue int

	// BusyLimit is how many requests at a time are too many: one more fails with
	// [Busy] at once (busy_limit). If zero, there is no limit.
	BusyLimit int

	// MaxIdle is how many connections are kept. If zero, it is MaxConns, and
	// if that is zero too, 256. Negative: none is kept.
	MaxIdle int

	// MinIdle is how many kept connections IdleTimeout leaves
	// (connection_pool_minsize).
	MinIdle int

	// IdleTimeout is how long a connection is kept without being used
	// (connection_pool_timeout). If zero, until the member closes it.
	IdleTimeout time.Duration

	// MaxAge is how long after its dial a connection is used for further
	// requests, less up to a tenth, so that those made together do not end
	// together. If zero, there is no limit.
	MaxAge time.Duration
}

// What zero means in Config.
const (
	defaultConnect    = 500 * time.Millisecond
	defaultProbeAfter = time.Second
	defaultProbe      = 300 * time.Millisecond
	defaultWrite      = time.Minute
	defaultInterval   = 100 * time.Millisecond
	defaultAcquire    = 200 * time.Millisecond
	defaultMaxIdle    = 256
	minQueue          = 64
)

// An Endpoint is the connections to one member. Its methods are safe for
// concurrent use.
type Endpoint struct {
	address string
	packet  int // Config.PacketSize
	dial    dial
	wire    http1.ConnConfig
	probe   []byte // the probe as sent

	connect, connectProbe, prepost   time.Duration
	probeAfter, probeTimeout         time.Duration
	pingAfter, pingTimeout           time.Duration
	retries                          int
	interval, acquire, idleTime, age time.Duration
	maxIdle, minIdle                 int

	queue queue

	mu      sync.Mutex // guards what follows; held for a few instructions, in sweep and drop for O(kept)
	kept    []*Conn    // least recently used first
	used    []*Conn    // in no order; a request or a probe has each
	open    int        // connections that exist
	most    int        // open at a time
	closed  bool
	retired bool        // nothing is kept any more
	timer   *time.Timer // runs sweep while connections are kept; nil before the first
	armed   bool        // timer will fire
	pinged  *Conn       // by sweep, now
	sweeps  sync.WaitGroup

	counts counts
}

// counts are the counters of [Stats].
type counts struct {
	dials, dialFailures, reuses, stale, probes, probeFailures, queued, busy atomic.Uint64
}

// Stats is a snapshot of an endpoint's connections and counts since it was made.
type Stats struct {
	Open, Kept, InFlight int
	MaxOpen              int  // the most since New, or ForgetMost
	Waiting              int  // requests, for their turn
	Full                 bool // one more request would have to wait, or fail

	Dials, DialFailures uint64
	Reuses              uint64 // requests over a kept connection
	Stale               uint64 // kept connections that could not be used again
	Probes              uint64
	ProbeFailures       uint64
	Queued              uint64 // requests that had to wait for their turn
	Busy                uint64 // requests that did not get it within AcquireTimeout, or found no room to wait
}

// New returns an endpoint for cfg. It does not connect.
func New(cfg Config) (*Endpoint, error) {
	host, port, err := net.SplitHostPort(cfg.Address)
	if err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("endpoint: Config.Address %q is not host:port", cfg.Address)
	}
	if cfg.Retries < 0 || cfg.MaxConns < 0 || cfg.MaxQueue < 0 || cfg.BusyLimit < 0 || cfg.MinIdle < 0 {
		return nil, errors.New("endpoint: Config.Retries, MaxConns, MaxQueue, BusyLimit or MinIdle is negative")
	}
	if n := cfg.PacketSize; n != 0 && (n < ajp.MinPacket || n > ajp.MaxPacket) {
		return nil, fmt.Errorf("endpoint: Config.PacketSize is %d, want %d to %d", n, ajp.MinPacket, ajp.MaxPacket)
	}
	if cfg.Buffers == nil {
		cfg.Buffers = http1.NewBuffers(http1.BuffersConfig{})
	}
	if cfg.Host == "" {
		cfg.Host = cfg.Address
	}
	e := &Endpoint{
		address:      cfg.Address,
		packet:       cfg.PacketSize,
		dial:         dialer(cfg),
		probe:        probeRequest(cfg),
		connect:      cmp.Or(cfg.ConnectTimeout, defaultConnect),
		connectProbe: cfg.ConnectProbe,
		prepost:      cfg.Prepost,
		probeAfter:   cmp.Or(cfg.ProbeAfter, defaultProbeAfter),
		probeTimeout: cmp.Or(cfg.ProbeTimeout, defaultProbe),
		pingAfter:    cfg.PingAfter,
		pingTimeout:  cmp.Or(cfg.PingTimeout, defaultProbe),
		retries:      cmp.Or(cfg.Retries, 1),
		interval:     cmp.Or(cfg.RetryInterval, defaultInterval),
		acquire:      cmp.Or(cfg.AcquireTimeout, defaultAcquire),
		idleTime:     cfg.IdleTimeout,
		age:          cfg.MaxAge,
		maxIdle:      cmp.Or(cfg.MaxIdle, cfg.MaxConns, defaultMaxIdle),
		minIdle:      cfg.MinIdle,
		wire: http1.ConnConfig{
			Buffers:      cfg.Buffers,
			Limits:       cfg.Limits,
			ReadTimeout:  shorter(cfg.SocketTimeout, cfg.ReplyTimeout),
			WriteTimeout: max(0, cmp.Or(cfg.WriteTimeout, cfg.SocketTimeout, defaultWrite)),
		},
	}
	e.queue.limit, e.queue.busy, e.queue.most = cfg.MaxConns, cfg.BusyLimit, cmp.Or(cfg.MaxQueue, max(cfg.MaxConns, minQueue))
	return e, nil
}

// shorter is the shorter one of two limits of which zero is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// PacketSize returns Config.PacketSize: not zero if the member speaks AJP13.
func (e *Endpoint) PacketSize() int { return e.packet }

// Address returns the member's host:port.
func (e *Endpoint) Address() string { return e.address }

// InFlight returns how many requests have a connection now.
func (e *Endpoint) InFlight() int {
	n, _ := e.queue.numbers()
	return n
}

// Stats returns a snapshot.
func (e *Endpoint) Stats() Stats {
	e.mu.Lock()
	open, most, kept := e.open, e.most, len(e.kept)
	e.mu.Unlock()
	flying, waiting := e.queue.numbers()
	return Stats{
		Open: open, MaxOpen: most, Kept: kept, InFlight: flying, Waiting: waiting, Full: e.queue.full(flying),
		Dials: e.counts.dials.Load(), DialFailures: e.counts.dialFailures.Load(),
		Reuses: e.counts.reuses.Load(), Stale: e.counts.stale.Load(),
		Probes: e.counts.probes.Load(), ProbeFailures: e.counts.probeFailures.Load(),
		Queued: e.counts.queued.Load(), Busy: e.counts.busy.Load(),
	}
}

// ForgetMost lets Stats.MaxOpen count anew.
func (e *Endpoint) ForgetMost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.most = e.open
}

// Retire is for an endpoint in whose place is another one: it keeps no connection any
// more, and those that it has are closed. Requests that have it still are served as
// before. Nothing is left of it once they have ended, so Close need not be called.
func (e *Endpoint) Retire() {
	e.mu.Lock()
	e.retired = true
	e.disarm()
	e.mu.Unlock()
	e.CloseKept()
	e.sweeps.Wait()
}

// Close closes the kept connections, dismisses who waits, and returns when the endpoint's timer has
// ended. Connections in use are closed when their requests end; new requests
// fail with [Closed].
func (e *Endpoint) Close() {
	e.mu.Lock()
	e.closed = true
	e.disarm()
	if e.pinged != nil {
		e.pinged.wire.Interrupt()
	}
	e.mu.Unlock()
	e.Dismiss()
	e.CloseKept()
	e.sweeps.Wait()
}
