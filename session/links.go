package session

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

const (
	// lostAfter is how long a member may be unreachable before its sessions get
	// other copies without a request (D7).
	lostAfter = 5 * time.Second

	// lookAgainMost is the longest time between two looks at the sessions of a
	// member that is silent here, while others can reach it.
	lookAgainMost = 5 * time.Minute

	// tombMargin is how long before the end of a connection a tombstone may
	// have been sent on it without having arrived. An Update is answered in
	// AckTimeout or the connection breaks (C4), so this is ample.
	tombMargin = 10 * time.Second

	// maxHeld bounds what waits until both have compared, in bytes: half of what
	// the connection's own queue takes, in which the compare itself may still be.
	// heldOverhead is what a message takes beside what it says.
	maxHeld      = maxQueue / 2
	heldOverhead = 64
)

// A link is how this member stands with one boot of another.
type link struct {
	id   owner.Member
	gone atomic.Bool // proven (C5)

	// spoken is the wire version of the last connection, 0 before the first. It
	// is that of all of them: a boot is one program.
	spoken atomic.Uint32

	mu       sync.Mutex // guards what follows; a leaf but for the queue of conn; never held across I/O
	conn     *peer.Conn // nil while there is none
	up       bool       // conn is up: both have compared
	held     []frame    // for conn, as soon as it is up
	heldSize int        // bytes of held
	since    int64      // uptime at which the last connection ended, or the first dial failed; 0 while there is one
	back     int64      // until this uptime it is owner.Returning, and longer while both compare; 0: it is not
	told     bool       // since then its sessions were told that it is lost,
	toldGone bool       // and that it is gone
	again    int64      // uptime at which its sessions are looked at once more, because others could reach it; 0: never
	met      int64      // tombstones from before this uptime are known there
	era      uint64     // Manager.era after the last connection that was up ended; 0 before
	crowded  int64      // until this uptime it has no room for more copies
}

// A frame waits for a connection to come up.
type frame struct {
	kind owner.MessageKind
	data []byte
}

// links is all of them by boot; the map is never written again once published.
type links struct {
	mu  sync.Mutex // serialises writers of all
	all atomic.Pointer[map[owner.Member]*link]
}

func newLinks() *links {
	ls := &links{}
	ls.all.Store(&map[owner.Member]*link{})
	return ls
}

// find returns the link with p, or nil.
func (ls *links) find(p owner.Member) *link { return (*ls.all.Load())[p] }

// get returns the link with p, made if there is none.
func (ls *links) get(p owner.Member) *link {
	if l := ls.find(p); l != nil {
		return l
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.find(p); l != nil {
		return l
	}
	l := &link{id: p}
	all := maps.Clone(*ls.all.Load())
	all[p] = l
	ls.all.Store(&all)
	return l
}

// forget removes the link with p, of which nothing more will be heard.
func (ls *links) forget(p owner.Member) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	all := maps.Clone(*ls.all.Load())
	delete(all, p)
	ls.all.Store(&all)
}

func (ls *links) snapshot() map[owner.Member]*link { return *ls.all.Load() }

// isUp reports whether the connection is up, and leased whether this member
// may rely on the other (C3).
func (l *link) isUp() (up, leased bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up, l.up && l.conn.Leased()
}

// version is the wire version in which p is spoken to.
func (l *link) version() uint8 { return uint8(l.spoken.Load()) }

// raised reports whether the connection is up.
func (l *link) raised() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// conn returns the connection with p, up or not, or nil.
func (ls *links) conn(p owner.Member) *peer.Conn {
	l := ls.find(p)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// connected reports whether there is a connection, up or not.
func (l *link) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

// isLost reports whether the sessions of p were told that it is lost, and it has
// not come back.
func (m *Manager) isLost(p owner.Member) bool {
	l := m.links.find(p)
	if l == nil {
		return m.cluster.Gone(p.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn == nil && (l.told || l.toldGone)
}

// lookAgain has the sessions of a member that is silent looked at once more, the
// later the longer it has been silent, and reports whether that was not to happen
// anyway.
func (l *link) lookAgain(now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil || l.again > now {
		return false
	}
	l.again = now + min(max(now-l.since, lostAfter.Milliseconds()), lookAgainMost.Milliseconds())
	return true
}

// comparing returns the connection if it is not up yet, else nil.
func (l *link) comparing() *peer.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up {
		return nil
	}
	return l.conn
}

// send puts a message, which it does not retain, on the connection, or drops it if there is none: then
// PeerDown follows, or came before. While both compare only headers may go.
func (l *link) send(kind owner.MessageKind, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.conn == nil:
	case kind == owner.Compare:
		_ = l.conn.Header(data)
	case !l.up:
		if l.heldSize += len(data) + heldOverhead; l.heldSize > maxHeld {
			l.conn.Break(fmt.Errorf("%w: more than %d bytes wait for the end of the compare", peer.ErrSlow, maxHeld))
			l.held, l.heldSize = nil, 0
			return
		}
		l.held = append(l.held, frame{kind, bytes.Clone(data)})
	default:
		put(l.conn, kind, data)
	}
}

// put queues a frame. An error is the end of the connection, and Down follows;
// but for a frame that is too long, which no record that fits makes.
func put(c *peer.Conn, kind owner.MessageKind, data []byte) {
	var err error
	if kind.Prompt() {
		_, err = c.Ask(data)
	} else {
		err = c.Send(data)
	}
	if err != nil {
		c.Break(err)
	}
}

// peers is the manager as package peer sees it.
type peers struct{ m *Manager }

func memberOf(id peer.ID) owner.Member { return owner.Member{Name: id.Name, Boot: id.Boot} }

func peerID(p owner.Member) peer.ID { return peer.ID{Name: p.Name, Boot: p.Boot} }

func ownerMember(m cluster.Member) owner.Member { return owner.Member{Name: m.Name, Boot: m.Boot} }

// Open implements [peer.Handler].
func (p peers) Open(c *peer.Conn) func() error {
	m := p.m
	l := m.links.get(memberOf(c.ID()))
	l.gone.Store(false)
	l.spoken.Store(uint32(c.Version()))
	l.mu.Lock()
	l.conn, l.up, l.held, l.heldSize, l.since, l.told, l.toldGone, l.again = c, false, nil, 0, 0, false, false, 0
	met, era := l.met, l.era
	l.mu.Unlock()
	if met == 0 && m.fresh(l.id) {
		era = math.MaxUint64
	}
	m.comparing.Add(1)
	m.restorer.back(l.id)
	return func() error { return m.series(c, l.id, met, era) }
}

// fresh reports whether this member or p has just begun, so that no branch of a
// session can be with it.
func (m *Manager) fresh(p owner.Member) bool {
	m.mu.Lock()
	starting := m.state == cluster.Starting
	m.mu.Unlock()
	for _, c := range m.cluster.Members() {
		if ownerMember(c) == p {
			return starting || c.State == cluster.Starting
		}
	}
	return starting
}

// series sends the headers that p must have seen before it counts as connected
// (C2): of the sessions that concern the two; of those whose pair has changed
// since they were connected last, for such a branch may be with others by now;
// and of the tombstones that p may not know.
func (m *Manager) series(c *peer.Conn, p owner.Member, met int64, era uint64) error {
	var err error
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		concerns := e.machine.Concerns(p)
		if e.role == tombstone {
			concerns = e.buried >= met
		}
		if concerns || e.role != nothing && e.era >= era {
			err = c.Header(m.compare(e, c.Version()))
		}
		e.mu.Unlock()
		if err == nil {
			err = c.Room()
		}
		return err == nil
	})
	return err
}

// compare returns the header of what is held as a message. e.mu must be held.
func (m *Manager) compare(e *entry, version uint8) []byte {
	r := e.machine.Record()
	return m.format(version).append(nil, e.id, &owner.Message{Kind: owner.Compare, Header: r.Header, Expiry: m.relative(r.Expiry)})
}

// Frame implements [peer.Handler].
func (p peers) Frame(c *peer.Conn, f peer.Frame) {
	m := p.m
	if f.Kind == peer.Answer && m.queue != nil {
		defer m.queue.heard()
	}
	if f.Kind == peer.Answer && len(f.Data) == 0 {
		return
	}
	id, msg, err := parseMessage(f.Data, c.Version())
	if errors.Is(err, errKind) {
		m.stats.skipped.Add(1)
		if f.Kind == peer.Ask {
			_ = c.Answer(f.Number, nil) // as below
		}
		return
	}
	if err == nil && (f.Kind == peer.Header) != (msg.Kind == owner.Compare) {
		err = fmt.Errorf("%w: message of kind %d in a frame of kind %d", ErrWire, msg.Kind, f.Kind)
	}
	if err != nil {
		m.stats.garbage.Add(1)
		c.Break(err)
		return
	}
	in := inbound{conn: c, kind: f.Kind, number: f.Number}
	e := m.table.hold(id)
	e.mu.Lock()
	msg.Expiry = m.absolute(msg.Expiry)
	if msg.Kind == owner.Take {
		m.expire(e)
	}
	switch {
	case msg.Kind == owner.Forward && e.role == primary && !m.fits(e, msg.Changes):
		m.refuseForward(e, memberOf(c.ID()), msg.Tag)
	case m.defers(e, c, &msg):
	case m.refuses(e, &msg):
		m.noRoom(e, memberOf(c.ID()), &msg, &in)
	default:
		m.heedRoom(memberOf(c.ID()), &msg)
		m.step(e, &owner.Event{Kind: owner.Receive, Peer: memberOf(c.ID()), Message: &msg}, &in)
	}
	e.mu.Unlock()
	m.table.drop(e)
	if in.kind == peer.Ask && !in.answered {
		_ = c.Answer(f.Number, nil) // each Ask is due one; an error is the end of c
	}
}

// refuseForward answers changes with which the session would become too large.
// The primary of the header is the one who refuses, so the request ends as an
// error. e.mu must be held.
func (m *Manager) refuseForward(e *entry, to owner.Member, tag owner.Tag) {
	r := e.machine.Record()
	m.send(e, &owner.Action{Kind: owner.Send, To: to, Message: owner.Message{
		Kind: owner.Forwarded, Tag: tag, Reason: owner.NotPrimary, Header: r.Header, Expiry: r.Expiry,
	}}, nil)
}

// Up implements [peer.Handler].
func (p peers) Up(c *peer.Conn) {
	m := p.m
	l := m.links.get(memberOf(c.ID()))
	l.mu.Lock()
	l.up, l.back = true, 0
	for _, f := range l.held {
		put(c, f.kind, f.data)
	}
	l.held, l.heldSize = nil, 0
	l.mu.Unlock()
	m.comparing.Add(-1)
	if m.queue != nil {
		m.queue.wake()
	}
	m.announce(owner.PeerUp, l.id)
	m.restorer.look()
	m.wake()
}

// ownEnd reports whether this member ended a connection because of the other,
// which had its time already (C4), or is not to have any.
func ownEnd(err error) bool {
	return errors.Is(err, peer.ErrSilent) || errors.Is(err, peer.ErrSlow) || errors.Is(err, peer.ErrGone) || errors.Is(err, peer.ErrClosed)
}

// Down implements [peer.Handler].
func (p peers) Down(c *peer.Conn, err error) {
	m := p.m
	l := m.links.get(memberOf(c.ID()))
	l.mu.Lock()
	switch {
	case ownEnd(err):
		l.back = 0
	case l.up:
		l.back = m.uptime() + m.ackTimeout.Milliseconds()
	}
	if l.up {
		l.met = max(1, m.uptime()-tombMargin.Milliseconds())
		l.era = m.era.Add(1)
	} else {
		m.comparing.Add(-1)
	}
	l.conn, l.up, l.held, l.heldSize, l.since = nil, false, nil, 0, max(1, m.uptime())
	l.mu.Unlock()
	if m.queue != nil {
		m.queue.forget(l.id)
	}
	m.announce(owner.PeerDown, l.id)
	m.restorer.forget()
	m.wake()
}

// Failed implements [peer.Handler].
func (p peers) Failed(id peer.ID, gone bool, err error) {
	m := p.m
	l := m.links.get(memberOf(id))
	l.mu.Lock()
	if l.since == 0 {
		l.since = max(1, m.uptime())
	}
	away := l.back != 0 && l.conn == nil
	if away {
		l.back = 0
	}
	l.mu.Unlock()
	if gone && !l.gone.Swap(true) {
		m.log.Warn().Stringer("member", id).Err(err).Msg("member gone")
	}
	if away {
		m.announce(owner.PeerAway, l.id)
	}
	m.wake()
}

// returning reports whether p may be back in a moment.
func (l *link) returning() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back != 0
}

// late goes on without members that are not back in time, and returns when the
// next one is due.
func (m *Manager) late() (next time.Time) {
	now := m.uptime()
	for p, l := range m.links.snapshot() {
		l.mu.Lock()
		away := l.back != 0 && l.conn == nil && now >= l.back
		if away {
			l.back = 0
		}
		if l.back != 0 && l.conn == nil {
			next = earliest(next, m.start.Add(time.Duration(l.back)*time.Millisecond))
		}
		l.mu.Unlock()
		if away {
			m.announce(owner.PeerAway, p)
		}
	}
	return next
}

// announce tells the sessions that it concerns of what happened to p. While it
// lasts nothing is read from p, so it sends little; see restorer.
func (m *Manager) announce(kind owner.EventKind, p owner.Member) {
	m.table.each(func(e *entry) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.machine.Busy() || e.machine.Concerns(p) {
			m.step(e, &owner.Event{Kind: kind, Peer: p}, nil)
		}
		return true
	})
}
