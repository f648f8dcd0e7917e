package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A Set keeps one connection to every listed member. Its methods are safe for
// concurrent use. Lock order: Set.mu, link.mu, Conn.mu.
type Set struct {
	self             ID
	cluster          string
	listener         net.Listener
	dial             func(ctx context.Context, addr string) (net.Conn, error)
	tls              *tls.Config // nil without keys
	handler          Handler
	heartbeat        time.Duration
	ackTimeout       time.Duration
	handshakeTimeout time.Duration
	compareTimeout   time.Duration
	maxVersion       uint8
	maxFrame         int
	maxQueue         int
	log              zerolog.Logger
	start            time.Time // what clock counts from
	stats            counters

	conns atomic.Pointer[map[ID]*Conn] // those that are up; written under mu, never changed after

	wg      sync.WaitGroup // all goroutines
	mu      sync.Mutex     // guards the fields below; held for O(members), never across I/O or a call of Handler
	closed  bool
	links   map[ID]*link
	pending []net.Conn // accepted, handshake under way; oldest first
	dialled []net.Conn // dialled, handshake under way
}

// counters are what Stats reads.
type counters struct {
	accepted, garbage, refused, abandoned, crowded, dials, opened, broken, silent atomic.Uint64
	framesIn, framesOut, bytesIn, bytesOut, writes                                atomic.Uint64
}

// A link is what the set knows of one boot of another member.
type link struct {
	id       ID
	turn     chan struct{} // capacity one: held from Open to Down, and for Failed
	promised atomic.Int64  // when this member last answered it; set.clock, 0 for never

	mu       sync.Mutex // guards the fields below; held for O(1), never across I/O or a call of Handler
	addr     string
	listed   bool
	shut     bool               // no connection is installed any more
	stop     context.CancelFunc // ends the dialling; nil while there is none
	conn     *Conn              // of the highest generation accepted; nil if it has ended
	accepted uint64             // that generation
	floor    uint64             // highest generation heard of or proposed
	proposed uint64             // sent in a hello that is not answered yet; 0 if there is none
	greeting int                // hellos from there that were accepted and are not confirmed yet
	state    State
	err      error // of the last dial or connection
}

// New returns a set that accepts connections from members listed later. The
// Config's error names the field to mend. On error the Listener stays the
// caller's.
func New(cfg Config) (*Set, error) {
	s := &Set{
		self: cfg.Self, cluster: cfg.Cluster, listener: cfg.Listener, dial: cfg.Dial, handler: cfg.Handler,
		heartbeat:        cmp.Or(cfg.Heartbeat, DefaultHeartbeat),
		ackTimeout:       cmp.Or(cfg.AckTimeout, DefaultAckTimeout),
		handshakeTimeout: cmp.Or(cfg.HandshakeTimeout, DefaultHandshakeTimeout),
		compareTimeout:   cmp.Or(cfg.CompareTimeout, DefaultCompareTimeout),
		maxVersion:       cmp.Or(cfg.MaxVersion, MaxVersion),
		maxFrame:         cmp.Or(cfg.MaxFrame, DefaultMaxFrame),
		maxQueue:         cmp.Or(cfg.MaxQueue, DefaultMaxQueue),
		log:              cfg.Log,
		start:            time.Now().Add(-time.Nanosecond), // so that clock is never 0
		links:            map[ID]*link{},
	}
	switch {
	case !s.self.valid():
		return nil, fmt.Errorf("peer: Config.Self: %q is not 1 to %d bytes of visible ASCII without '#'", s.self.Name, maxName)
	case len(s.cluster) > maxCluster:
		return nil, fmt.Errorf("peer: Config.Cluster has %d bytes, at most %d are possible", len(s.cluster), maxCluster)
	case s.listener == nil:
		return nil, errors.New("peer: Config.Listener is missing")
	case s.handler == nil:
		return nil, errors.New("peer: Config.Handler is missing")
	case s.heartbeat < 0 || s.ackTimeout < 2*s.heartbeat:
		return nil, fmt.Errorf("peer: Config.AckTimeout %v is shorter than two of Config.Heartbeat %v", s.ackTimeout, s.heartbeat)
	case s.handshakeTimeout < 0 || s.compareTimeout < 0:
		return nil, errors.New("peer: Config.HandshakeTimeout or Config.CompareTimeout is negative")
	case s.maxVersion < MinVersion || s.maxVersion > MaxVersion:
		return nil, fmt.Errorf("peer: Config.MaxVersion is %d, want %d to %d", s.maxVersion, MinVersion, MaxVersion)
	case s.maxFrame < 0 || s.maxQueue < 2*s.maxFrame:
		return nil, fmt.Errorf("peer: Config.MaxQueue %d is less than two of Config.MaxFrame %d", s.maxQueue, s.maxFrame)
	case len(cfg.Keys) == 0 && !loopback(s.listener.Addr().String()):
		return nil, fmt.Errorf("peer: open address without key: %v is outside loopback and Config.Keys is empty", s.listener.Addr())
	}
	if s.dial == nil {
		var d net.Dialer
		s.dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if len(cfg.Keys) > 0 {
		var err error
		if s.tls, err = newTLS(s.self, cfg.Keys); err != nil {
			return nil, err
		}
	}
	s.conns.Store(&map[ID]*Conn{})
	s.wg.Go(s.accept)
	return s, nil
}

// loopback reports whether an address stays within this machine: an IP address,
// or localhost (RFC 6761 section 6.3). What other names mean can change.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// clock returns the nanoseconds since the set was made, on the monotonic clock.
func (s *Set) clock() int64 { return int64(time.Since(s.start)) }

// Addr returns the listener's address.
func (s *Set) Addr() net.Addr { return s.listener.Addr() }

// Members lists the members there are, this one included or not. To those that
// are new in it the set connects, and from those it accepts connections. One
// that is missing is neither dialled nor accepted any more, but a connection
// that lives is kept: that gossip lost a member proves nothing. See [Set.Gone]
// for one that is known to be gone.
func (s *Set) Members(ms []Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := map[ID]bool{}
	for _, m := range ms {
		if m.ID == s.self || !m.valid() {
			continue
		}
		now[m.ID] = true
		l := s.links[m.ID]
		if l == nil {
			l = &link{id: m.ID, turn: make(chan struct{}, 1)}
			s.links[m.ID] = l
		}
		if ctx := l.list(m.Addr); ctx != nil {
			s.wg.Go(func() { s.keep(ctx, l) })
		}
	}
	for id, l := range s.links {
		if !now[id] && l.unlist(nil) && s.left(l) == 0 {
			delete(s.links, id)
		}
	}
}

// Gone says that a boot is proven gone: it left, or was replaced (D12). Its
// connection is broken with [ErrGone]; it is not dialled until Members lists it
// again.
func (s *Set) Gone(id ID) {
	if l := s.link(id); l != nil {
		l.unlist(ErrGone)
	}
}

// Conn returns the connection to a boot if it is up, else nil.
func (s *Set) Conn(id ID) *Conn {
	if c := (*s.conns.Load())[id]; c != nil && c.met.Load() {
		return c
	}
	return nil
}

// Promise returns how long this member must still not promote over that one
// (C3): until Config.AckTimeout after it last answered it. While there is a
// connection, up or comparing, the promise does not end, whatever the time: it
// returns connected, and the full Config.AckTimeout as a time to look again.
//
// Proven gone (C5) there is nobody to keep a promise to, and a member that has
// itself said that it is not the primary of a session does not rely on it: both
// are the caller's to know.
func (s *Set) Promise(id ID) (left time.Duration, connected bool) {
	l := s.link(id)
	if l == nil {
		return 0, false
	}
	l.mu.Lock()
	connected = l.conn != nil
	l.mu.Unlock()
	if connected {
		return s.ackTimeout, true
	}
	return s.left(l), false
}

// left returns what is left of the promise if nothing renews it.
func (s *Set) left(l *link) time.Duration {
	at := l.promised.Load()
	if at == 0 {
		return 0
	}
	return max(0, s.ackTimeout-time.Duration(s.clock()-at))
}

// Status returns how each listed or connected member stands, by name and boot.
func (s *Set) Status() []Status {
	s.mu.Lock()
	links := slices.Collect(maps.Values(s.links))
	s.mu.Unlock()
	var all []Status
	for _, l := range links {
		l.mu.Lock()
		if l.listed || l.conn != nil {
			st := Status{Member: Member{l.id, l.addr}, State: l.state, Err: l.err}
			if l.conn != nil {
				st.Generation = l.accepted
			}
			all = append(all, st)
		}
		l.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Status) int {
		if a.less(b.ID) {
			return -1
		}
		return 1
	})
	return all
}

// Stats returns the counts since New.
func (s *Set) Stats() Stats {
	c := &s.stats
	return Stats{
		Accepted: c.accepted.Load(), Garbage: c.garbage.Load(), Refused: c.refused.Load(), Abandoned: c.abandoned.Load(), Crowded: c.crowded.Load(),
		Dials: c.dials.Load(), Opened: c.opened.Load(), Broken: c.broken.Load(), Silent: c.silent.Load(),
		FramesIn: c.framesIn.Load(), FramesOut: c.framesOut.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), Writes: c.writes.Load(),
	}
}

// Close stops listening and dialling, breaks all connections and returns when
// Down has been called for each and every goroutine has ended. To the others a
// member that no longer listens is proven gone, and its promises with it, so
// Close it only when it serves nothing any more.
func (s *Set) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.wg.Wait()
		return nil
	}
	s.closed = true
	for _, l := range s.links {
		l.mu.Lock()
		l.shut = true
		l.mu.Unlock()
		l.unlist(ErrClosed)
	}
	waiting := slices.Concat(s.pending, s.dialled)
	s.mu.Unlock()
	err := s.listener.Close()
	for _, raw := range waiting {
		err = errors.Join(err, ignoreClosed(raw.Close()))
	}
	s.wg.Wait()
	return ignoreClosed(err)
}

// ignoreClosed returns nil if all that was wrong is that it was closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Set) link(id ID) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[id]
}

// raised makes a connection visible after its Up.
func (s *Set) raised(c *Conn) {
	l := c.link
	l.mu.Lock()
	if l.conn == c {
		l.state, l.err = Up, nil
	}
	l.mu.Unlock()
	s.publish(func(m map[ID]*Conn) { m[l.id] = c })
	c.mu.Lock()
	c.met.Store(c.err == nil)
	c.mu.Unlock()
	s.log.Info().Stringer("member", l.id).Uint64("generation", c.gen).Msg("connection up")
}

// opened notes that the compare has begun.
func (s *Set) opened(c *Conn) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.link.conn == c {
		c.link.state = Comparing
	}
}

// lost takes an ended connection away, before its Down.
func (s *Set) lost(c *Conn) {
	l := c.link
	s.publish(func(m map[ID]*Conn) {
		if m[l.id] == c {
			delete(m, l.id)
		}
	})
	l.mu.Lock()
	if l.conn == c {
		l.conn, l.state, l.err = nil, Dialling, c.err
	}
	l.mu.Unlock()
	s.stats.broken.Add(1)
	s.log.Info().Stringer("member", l.id).Uint64("generation", c.gen).Err(c.err).Msg("connection ended")
}

func (s *Set) publish(change func(map[ID]*Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := maps.Clone(*s.conns.Load())
	change(m)
	s.conns.Store(&m)
}

// promise notes that this member answers the other one now.
func (l *link) promise(now int64) {
	for at := l.promised.Load(); at < now && !l.promised.CompareAndSwap(at, now); at = l.promised.Load() {
	}
}

// list notes that the member is listed, and where. If nobody dials it yet it
// returns the context in which somebody should.
func (l *link) list(addr string) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addr, l.listed = addr, true
	if l.stop != nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	if l.conn == nil {
		l.state, l.err = Dialling, nil
	}
	return ctx
}

// unlist ends the dialling, and with an error also the connection. It reports
// whether there is none.
func (l *link) unlist(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = false
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
	if l.conn != nil && err != nil {
		l.conn.fail(err)
	}
	return l.conn == nil
}

// install makes c the connection of its link, and breaks an older one. It
// reports false if a newer generation was accepted meanwhile, or the member is
// not listed any more.
func (l *link) install(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut || !l.listed || c.gen <= l.accepted {
		return false
	}
	old := l.conn
	l.conn, l.accepted, l.floor = c, c.gen, max(l.floor, c.gen)
	if old != nil {
		old.fail(ErrReplaced)
	}
	return true
}
