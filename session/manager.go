package session

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

const (
	// maxFrame is the longest message, in bytes; what [Config.MaxBytes] allows
	// fits with its header.
	maxFrame = DefaultMaxBytes + 4<<20

	// maxQueue bounds what waits for one member, in bytes. All sessions that
	// two members have to bring in line when they meet wait there.
	maxQueue = 256 << 20
)

// A Manager keeps the sessions of one member. Wrap handlers with
// [Manager.Handler]. All its methods are safe for concurrent use.
type Manager struct {
	self           owner.Member
	cluster        Cluster
	codec          codec
	cookies        *cookie.Codec
	finder         *cookie.Finder
	param          string
	template       http.Cookie // of every Set-Cookie; Secure is what Config says
	trustForwarded bool
	rewriting      bool
	idleTimeout    time.Duration
	lifetime       time.Duration
	sweepInterval  time.Duration
	joinTimeout    time.Duration
	ackTimeout     time.Duration
	placement      Placement
	secondaries    int // of each session
	buffer         int
	maxBytes       int
	warnBytes      int
	limits         limits
	firstIdle      time.Duration
	rollback       bool // on a panic
	exclusive      bool
	exclusiveWait  time.Duration
	noAck          bool // replies do not wait for acknowledgements
	requireReplica bool
	pool           chan struct{} // of Pooled, a token for each reply that waits; else nil
	packFrom       int           // bytes
	queue          *queue        // of the asynchronous modes, else nil
	now            func() time.Time
	log            zerolog.Logger

	start     time.Time // what uptime counts from
	set       *peer.Set
	table     *table
	links     *links
	sweeping  atomic.Int64                          // when the sweep began that is under way, in nanoseconds since start; 0 for none
	sweepTook atomic.Int64                          // nanoseconds, the last one
	comparing atomic.Int64                          // connections between Open and Up or Down
	leaving   atomic.Pointer[map[owner.Member]bool] // who drains; never written again
	era       atomic.Uint64                         // counts the ends of connections
	lastOp    atomic.Uint64
	lastReign atomic.Uint32
	reignBoot uint32 // of the reigns of this process: boots of two names may be equal, these are not
	stats     counters
	timers    *timers
	restorer  *restorer
	events    *events
	graves    graves
	large     large
	saidFull  atomic.Bool // the proxies were told that this member is full
	births    sync.Mutex  // held while a session is made, so that no more are made than may be; before entry.mu
	reborn    reborn
	works     sync.Pool // of *work
	scratches sync.Pool // of *cookie.Scratch
	bodies    sync.Pool // of *[]byte, what a response holds
	messages  sync.Pool // of *[]byte, what is said to others

	announcing sync.Mutex // one announceState at a time; before mu

	closed  chan struct{}      // closed by Close: no request waits any more
	closing sync.Once          // of closed
	stop    context.CancelFunc // ends run
	running sync.WaitGroup     // run, and the restorer's
	told    chan struct{}      // closed by Close when nothing more happens
	toldAll sync.Once          // of told
	telling sync.WaitGroup     // events.run

	able   map[owner.Member]bool // run's own: who could hold copies when it last looked
	listed map[peer.ID]listing   // run's own

	mu       sync.Mutex    // guards what follows; a leaf
	state    cluster.State // what was announced: Starting, Running, Draining
	waiting  string        // why the state is Starting
	requests int           // under way
	idle     chan struct{} // closed when requests has reached 0 after Close began; nil before
}

// New returns a manager that keeps connections to the other members from now
// on. It serves as soon as it has compared what it holds with all of them; until
// then [Manager.Ready] says why not. The error names the field of cfg to mend.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	values, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	self := cfg.Cluster.Self()
	if err := cookie.ValidName(self.Name); err != nil {
		return nil, fmt.Errorf("session: Config.Cluster: Self().Name: %w", err)
	}
	finder, err := cookie.NewFinder(cookie.FinderConfig{Cookie: cfg.Cookie, Param: cfg.Param, Codec: cfg.Codec})
	if err != nil {
		return nil, fmt.Errorf("session: Config.Cookie, Config.Param: %w", err)
	}
	m := &Manager{
		self: ownerMember(self), cluster: cfg.Cluster, codec: values, cookies: cfg.Codec, finder: finder,
		param: cfg.Param, trustForwarded: cfg.TrustForwarded,
		rewriting: cfg.URLRewriting, idleTimeout: cfg.IdleTimeout, lifetime: cfg.Lifetime, sweepInterval: cfg.SweepInterval, joinTimeout: cfg.JoinTimeout,
		placement: cfg.Placement, secondaries: cfg.Secondaries, buffer: cfg.Buffer, maxBytes: cfg.MaxBytes, warnBytes: cfg.WarnBytes, now: cfg.Now, log: cfg.Log,
		template: http.Cookie{
			Name: cfg.Cookie, Path: cfg.Path, Domain: cfg.Domain, HttpOnly: true, Secure: cfg.Secure,
			SameSite: cfg.SameSite, Partitioned: cfg.Partitioned,
		},
		exclusive: cfg.Exclusive, exclusiveWait: cfg.ExclusiveWait,
		noAck: cfg.NoAck, requireReplica: cfg.RequireReplica, packFrom: cfg.CompressFrom,
		rollback: cfg.RollbackOnPanic, events: newEvents(cfg.OnEvent, cfg.OnConflict),
		limits: newLimits(&cfg), firstIdle: cfg.FirstIdleTimeout,
		ackTimeout: cfg.AckTimeout, reignBoot: reignBoot(self),
		start: time.Now(), table: newTable(cfg.Secondaries, cfg.MaxBytes, cfg.NoAck || cfg.Mode.queued()), links: newLinks(), timers: newTimers(), closed: make(chan struct{}), told: make(chan struct{}), listed: map[peer.ID]listing{},
		works:     sync.Pool{New: func() any { return new(work) }},
		scratches: sync.Pool{New: func() any { return new(cookie.Scratch) }},
		messages:  sync.Pool{New: func() any { return new([]byte) }},
		bodies:    sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }},
		waiting:   "it has just begun",
	}
	switch cfg.Mode {
	case Asynchronous:
		m.queue = newQueue(cfg.QueueLimit, 0)
	case FastAsyncQueue:
		m.queue = newQueue(cfg.QueueLimit, batchPause)
	case Pooled:
		m.pool = make(chan struct{}, cfg.Pool)
	case Synchronous, modes:
	}
	m.leaving.Store(&map[owner.Member]bool{})
	m.restorer = newRestorer(m, cfg.RestoreRate, cfg.RestoreBytes)
	m.set, err = peer.New(peer.Config{
		Self: peerID(m.self), Listener: cfg.Listener, Dial: cfg.Dial, Keys: cfg.Keys, Handler: peers{m},
		MaxVersion: cfg.WireVersion, AckTimeout: cfg.AckTimeout, MaxFrame: maxFrame, MaxQueue: maxQueue, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("session: Config.Listener, Config.Keys, Config.WireVersion: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() { m.run(ctx) })
	m.running.Go(func() { m.restorer.run(ctx) })
	if m.queue != nil {
		m.running.Go(func() { m.queue.run(ctx, m) })
	}
	m.telling.Go(func() { m.events.run(m.told) })
	return m, nil
}

var errDraining = errors.New("session: draining")

// reignBoot makes one number of a member's name and boot.
func reignBoot(self cluster.Member) uint32 {
	sum := sha256.Sum256([]byte(self.ID()))
	return binary.BigEndian.Uint32(sum[:])
}

// Ready returns why this member does not take requests, or nil if it does: it
// has not compared what it holds with the other members (C2), or it drains.
func (m *Manager) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case cluster.Running:
		return nil
	case cluster.Draining:
		return errDraining
	default:
	}
	return fmt.Errorf("session: starting: %s", m.waiting)
}

// Close drains, waits until the requests under way have been answered or ctx is
// done, and then closes the connections to the other members, for whom this one
// is gone from then on. It returns ctx's error if it did not wait for all.
func (m *Manager) Close(ctx context.Context) error {
	m.Drain()
	m.mu.Lock()
	if m.idle == nil {
		m.idle = make(chan struct{})
		if m.requests == 0 {
			close(m.idle)
		}
	}
	m.mu.Unlock()
	var err error
	select {
	case <-m.idle:
	case <-ctx.Done():
		err = fmt.Errorf("session: close: requests are under way: %w", ctx.Err())
	}
	if m.queue != nil {
		m.queue.empty(ctx, m)
	}
	m.closing.Do(func() { close(m.closed) })
	m.stop()
	m.running.Wait()
	err = errors.Join(err, m.set.Close())
	m.toldAll.Do(func() { close(m.told) })
	m.telling.Wait()
	return err
}

// enter counts a request in, or returns why it may not run. If this member
// drains only those of sessions that are still here may.
func (m *Manager) enter() (draining bool, refusal string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	draining = m.state == cluster.Draining
	if m.state != cluster.Running && !draining || m.idle != nil {
		return false, m.state.String()
	}
	m.requests++
	return draining, ""
}

// leave counts a request out.
func (m *Manager) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests--
	if m.requests == 0 && m.idle != nil {
		close(m.idle)
	}
}

// uptime is the time since New in milliseconds, by a clock that nobody sets.
func (m *Manager) uptime() int64 { return time.Since(m.start).Milliseconds() }

// clock is the wall clock in milliseconds.
func (m *Manager) clock() int64 { return m.now().UnixMilli() }

// Stats counts since New, but for what comes before Created, which is of now.
type Stats struct {
	Primary    int // sessions of which this member is the primary
	Secondary  int // sessions of which it holds a copy
	Tombstones int // sessions that it knows to have ended

	PrimaryBytes, SecondaryBytes int64 // what their attributes take
	// RestoreRate is how many sessions were dealt with in the background in the
	// last second.
	RestoreRate int

	// Sweeping is whether sessions that are over are being looked for just now, and
	// SweepTook is how long that took the last time.
	Sweeping  bool
	SweepTook time.Duration

	Created   uint64 // sessions made here
	TooMany   uint64 // sessions that were not made, because this member has too many
	NoRoom    uint64 // copies that were not taken, likewise
	Ended     uint64 // requests whose session had been invalidated, or was by them
	Expired   uint64 // sessions found to be over here
	Lost      uint64 // requests whose session nobody holds
	Flagged   uint64 // requests that went on with a state that does not descend from what the client had seen
	Conflicts uint64 // sessions of which accepted changes were lost at a heal (G4)
	Late      uint64 // requests that failed because others had changed the same keys since
	NoReplica uint64 // requests refused, or sessions not made or changed, for want of a member to hold the copy (Config.RequireReplica)

	Queued    int           // sessions that wait to be sent (Asynchronous, FastAsyncQueue), for each secondary
	QueueLag  time.Duration // how long the oldest of them has waited
	QueueFull uint64        // replies that waited for their secondaries because the queue was full (H22)
	Coalesced uint64        // changes that became one message with those that waited before them
	Batches   uint64        // times that the queue was emptied, or as much of it as the members take
	PoolWaits uint64        // replies that waited for their turn (Pooled)

	Unprotected uint64 // replies acknowledged by no other member
	Flushes     uint64 // times that changes or a reply waited for acknowledgement
	Updates     uint64 // records and changes sent to copies
	Sent        uint64 // bytes of all that was sent about sessions, without frames and TLS (SESS-7)
	Takes       uint64 // sessions asked for
	Grants      uint64 // sessions given away
	Strikes     uint64 // copies given up by the primary
	Restored    uint64 // sessions that got another holder in the background
	NotExecuted uint64 // requests refused before their handler ran
	Failed      uint64 // replies that could not be acknowledged
	Forged      uint64 // references that looked signed and did not verify
	Garbage     uint64 // messages that made no sense
	Skipped     uint64 // messages that only later programs know, and this one can do without
	Unheard     uint64 // events that were dropped, because Config.OnEvent or OnConflict did not keep up

	Peer peer.Stats // of the connections to other members
}

// Stats returns the counts. They are read one after the other.
func (m *Manager) Stats() Stats {
	c := &m.stats
	queued, lag := m.queue.lag()
	return Stats{
		NoReplica: c.noReplica.Load(), Queued: queued, QueueLag: lag, QueueFull: c.queueFull.Load(), Coalesced: c.coalesced.Load(),
		Batches: c.batches.Load(), PoolWaits: c.poolWaits.Load(),
		Primary: int(c.roles[primary].Load()), Secondary: int(c.roles[secondary].Load()), Tombstones: int(c.roles[tombstone].Load()),
		PrimaryBytes: c.bytes[primary].Load(), SecondaryBytes: c.bytes[secondary].Load(),
		TooMany: c.tooMany.Load(), NoRoom: c.noRoom.Load(),
		Sweeping: m.sweeping.Load() != 0, SweepTook: time.Duration(m.sweepTook.Load()),
		RestoreRate: m.restorer.perSecond(), Restored: c.restored.Load(),
		Created: c.created.Load(), Ended: c.ended.Load(), Expired: c.expired.Load(), Lost: c.lost.Load(), Flagged: c.flagged.Load(),
		Conflicts: c.conflicts.Load(), Late: c.late.Load(), Unprotected: c.unprotected.Load(), Flushes: c.flushes.Load(), Updates: c.updates.Load(), Sent: c.sent.Load(),
		Takes: c.takes.Load(), Grants: c.grants.Load(), Strikes: c.strikes.Load(), NotExecuted: c.notExecuted.Load(),
		Failed: c.failed.Load(), Forged: c.forged.Load(), Garbage: c.garbage.Load(), Skipped: c.skipped.Load(), Unheard: m.events.overflown(), Peer: m.set.Stats(),
	}
}

// Peers returns how the connections to the other members stand.
func (m *Manager) Peers() []peer.Status { return m.set.Status() }
