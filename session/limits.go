package session

import (
	"errors"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
)

// ErrTooManySessions is returned when a session is to be made on a member that
// has as many as [Config.MaxSessions] or [Config.MaxMemory] allow (OVER-9).
// Sessions that exist go on. A handler may do without a session and reply; if
// it replies with a status of 500 or above, the reply is a 503 in its place, and
// if the method is safe or the handler has not run ([Required]), the next
// member is tried (OVER-10).
var ErrTooManySessions = errors.New("this node has as many sessions as it may")

const (
	// overhead is what a session or a tombstone takes beside the names and
	// values of its attributes, in bytes: BenchmarkSessionMemory, rounded up.
	overhead = 512

	// attrOverhead is what an attribute takes beside its name and value.
	attrOverhead = 48

	// crowdedFor is how long a member that had no room for a copy is not asked
	// again.
	crowdedFor = 30 * time.Second

	// keptForCopies is the part of MaxMemory, one in so many, that new sessions
	// leave to copies: a copy protects a session that somebody has already.
	keptForCopies = 10
)

// limits are how much this member holds at most.
type limits struct {
	sessions   int64 // as primary: beyond it none is made; twice as many copies are taken
	memory     int64 // bytes
	tombstones int64
}

// unlimited is no limit. Sums with it stay in range.
const unlimited = math.MaxInt64 / 4

// newLimits reads them off cfg, which has its defaults.
func newLimits(cfg *Config) limits {
	or := func(n, def int64) int64 {
		switch {
		case n < 0:
			return unlimited
		case n == 0:
			return def
		}
		return n
	}
	memory := int64(-1)
	if total := debug.SetMemoryLimit(-1); total < math.MaxInt64 {
		memory = total / 2
	}
	return limits{
		sessions:   or(int64(cfg.MaxSessions), DefaultMaxSessions),
		memory:     or(cfg.MaxMemory, or(memory, 0)),
		tombstones: or(int64(cfg.MaxTombstones), DefaultMaxTombstones),
	}
}

// memory is what sessions, copies and tombstones take, in bytes, about.
func (c *counters) memory() int64 {
	n := c.roles[primary].Load() + c.roles[secondary].Load() + c.roles[tombstone].Load()
	return n*overhead + c.bytes[primary].Load() + c.bytes[secondary].Load()
}

// full reports whether this member makes no new sessions.
func (m *Manager) full() bool {
	l := &m.limits
	return m.stats.roles[primary].Load() >= l.sessions || m.stats.memory() >= l.memory-l.memory/keptForCopies
}

// roomy reports whether there is so much room that a member that said it is full
// says so no more: a twentieth, so that it does not change its mind all the time.
func (m *Manager) roomy() bool {
	l := &m.limits
	return m.stats.roles[primary].Load() <= l.sessions-l.sessions/20 && m.stats.memory() <= l.memory-l.memory/keptForCopies-l.memory/20 && !m.full()
}

// crowded reports whether this member takes no more copies, of which the next
// one has so many bytes.
func (m *Manager) crowded(size int) bool {
	l := &m.limits
	return m.stats.roles[secondary].Load() >= 2*l.sessions || m.stats.memory()+overhead+int64(size) > l.memory
}

// refuses reports whether the message is a copy that this member does not hold
// yet and has no room for; the next in rank is asked then (R13). What it holds
// it goes on holding. e.mu must be held.
func (m *Manager) refuses(e *entry, msg *owner.Message) bool {
	return msg.Kind == owner.Update && msg.NewCopy && !msg.Header.Dead && e.role == nothing && m.crowded(sizeOf(msg.Attrs))
}

// noRoom answers a copy that is refused. e.mu must be held.
func (m *Manager) noRoom(e *entry, to owner.Member, msg *owner.Message, in *inbound) {
	m.stats.noRoom.Add(1)
	m.send(e, &owner.Action{Kind: owner.Send, To: to, Message: owner.Message{
		Kind: owner.Refused, About: msg.Header.Epoch, Serial: msg.Serial, Reason: owner.NoRoom,
	}}, in)
}

// sizeOf is what attributes take, in bytes.
func sizeOf(as owner.Attrs) int {
	n := len(as) * attrOverhead
	for i := range as {
		n += len(as[i].Key) + len(as[i].Value)
	}
	return n
}

// account notes in what role and with how many bytes the session counts. e.mu
// must be held.
func (m *Manager) account(e *entry, r *owner.Record, now role) {
	size := e.size
	if r.Version != e.version || r.Epoch != e.epoch || now != e.role {
		size = sizeOf(r.Attrs)
	}
	c := &m.stats
	if now != e.role {
		c.roles[e.role].Add(-1)
		c.roles[now].Add(1)
	}
	c.bytes[e.role].Add(-int64(e.size))
	c.bytes[now].Add(int64(size))
	e.size, e.version = size, r.Version
	if size >= m.warnBytes && now == primary && !e.large {
		e.large = true
		m.warnLarge(e.id, size, r.Attrs)
	}
}

// large says how many sessions are large, and not too often.
type large struct {
	mu      sync.Mutex // guards what follows; a leaf
	next    time.Time  // when the next one may be logged
	skipped int        // since the last one that was
}

// largePause is the time between two lines of the log about large sessions.
const largePause = time.Second

// due counts a large session, and reports whether it is to be logged, and how many
// were not.
func (l *large) due() (yes bool, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.After(l.next) {
		l.next, others, l.skipped = now.Add(largePause), l.skipped, 0
		return true, others
	}
	l.skipped++
	return false, 0
}

// warnLarge logs that a session has become large (SESS-7): so many bytes, most of
// them in one attribute perhaps.
func (m *Manager) warnLarge(id string, size int, attrs owner.Attrs) {
	yes, others := m.large.due()
	if !yes {
		return
	}
	most := owner.Attr{}
	for _, a := range attrs {
		if len(a.Value) > len(most.Value) {
			most = a
		}
	}
	m.log.Warn().Str("session", HashID(id)).Int("bytes", size).Str("key", most.Key).Int("key_bytes", len(most.Value)).Int("others", others).Msg("session is large")
}

// saysWrong reports whether the proxies have to be told something else than they
// were.
func (m *Manager) saysWrong() bool {
	if m.saidFull.Load() {
		return m.roomy()
	}
	return m.full()
}

// announceRoom tells the proxies whether new sessions are welcome (OVER-23). run
// calls it.
func (m *Manager) announceRoom() {
	m.mu.Lock()
	running := m.state == cluster.Running
	m.mu.Unlock()
	if !running || !m.saysWrong() {
		return
	}
	full := m.full()
	m.saidFull.Store(full)
	if full {
		m.log.Warn().Int64("sessions", m.stats.roles[primary].Load()).Int64("bytes", m.stats.memory()).Msg("full")
	} else {
		m.log.Info().Msg("no longer full")
	}
	m.announceState()
}

// graves are the tombstones in the order in which they came, so that the oldest
// are forgotten if there are too many (H32).
type graves struct {
	mu  sync.Mutex // guards ids; a leaf
	ids []string   // some may be forgotten already
}

// dig notes a tombstone.
func (g *graves) dig(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ids = append(g.ids, id)
}

// oldest takes some off: most of held, and what is more than twice that here, but
// at most n.
func (g *graves) oldest(held, most int64, n int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	n = int(min(int64(n), int64(len(g.ids)), max(0, held-most, int64(len(g.ids))-2*most)))
	ids := g.ids[:n:n]
	if g.ids = g.ids[n:]; len(g.ids) == 0 {
		g.ids = nil
	}
	return ids
}

// clearGraves forgets the oldest tombstones beyond the limit, a handful, and
// returns when to go on: never if none is left. A session whose tombstone is
// forgotten can return only from a member that was cut off when it ended.
func (m *Manager) clearGraves() (next time.Time) {
	ids := m.graves.oldest(m.stats.roles[tombstone].Load(), m.limits.tombstones, sweepStep)
	for _, id := range ids {
		e := m.table.hold(id)
		e.mu.Lock()
		if e.role == tombstone {
			m.forget(e)
		}
		e.mu.Unlock()
		m.table.drop(e)
	}
	if len(ids) < sweepStep {
		return time.Time{}
	}
	return time.Now().Add(sweepPause)
}

// heedRoom notes that a member has no room for more copies. It is not asked for
// a while.
func (m *Manager) heedRoom(from owner.Member, msg *owner.Message) {
	if msg.Kind != owner.Refused || msg.Reason != owner.NoRoom {
		return
	}
	if l := m.links.find(from); l != nil {
		l.mu.Lock()
		l.crowded = m.uptime() + crowdedFor.Milliseconds()
		l.mu.Unlock()
	}
}

// isCrowded reports whether p has said that it has no room.
func (m *Manager) isCrowded(p owner.Member) bool {
	l := m.links.find(p)
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return m.uptime() < l.crowded
}

// uncrowd has copies looked for again once a member may have room.
func (m *Manager) uncrowd() {
	now := m.uptime()
	for _, l := range m.links.snapshot() {
		l.mu.Lock()
		if l.crowded != 0 && now >= l.crowded {
			l.crowded = 0
			m.restorer.look()
		}
		l.mu.Unlock()
	}
}
