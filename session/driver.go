package session

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

// A call is one request at one session: the machine's [owner.Op], and where its
// answers go.
type call struct {
	op    owner.Op
	done  chan answer // capacity one: the machine says one thing at a time
	quiet bool        // nobody waits

	turn     *Session // whose turn it may be (Exclusive)
	accessed int64    // when the session was used before, in milliseconds; 0 if that is not known
}

type answer struct {
	handle bool // the handler is to run; else the op is over, or flushed
	owner.Result
}

func (m *Manager) newCall() *call {
	c := &call{done: make(chan answer, 1)}
	c.op.ID = m.lastOp.Add(1)
	c.op.Owner = c
	return c
}

// wait returns the machine's next answer to c. Once the manager is closed it is
// a failure: nobody tells the machine any more what it waits for.
func (m *Manager) wait(c *call) answer {
	select {
	case a := <-c.done:
		return a
	case <-m.closed:
		return answer{Result: owner.Result{Outcome: owner.Failed}}
	}
}

// inbound is the frame that a step answers.
type inbound struct {
	conn     *peer.Conn
	kind     peer.Kind
	number   uint64
	answered bool
}

// work is what one step needs, kept for the next one.
type work struct {
	env     env
	actions []owner.Action
}

// step gives the machine one event and does what it says. e.mu must be held; in
// is the frame that the event comes from, or nil. All that is done under the
// lock is to queue, so that what leaves is in the order of the steps.
func (m *Manager) step(e *entry, ev *owner.Event, in *inbound) {
	w, _ := m.works.Get().(*work)
	w.env.reset(m, e.id)
	w.actions = e.machine.Step(&w.env, ev, w.actions[:0])
	m.note(e)
	var limited owner.Tag // that of a question whose wait is bounded already: it may go to many
	for i := range w.actions {
		a := &w.actions[i]
		m.perform(e, a, in)
		if msg := &a.Message; a.Kind == owner.Send && msg.Tag != limited && waitedFor(msg.Kind) {
			limited = msg.Tag
			m.limitWait(e.id, limited)
		}
	}
	clear(w.actions)
	m.works.Put(w)
}

// note keeps what the driver itself remembers of a session. e.mu must be held.
func (m *Manager) note(e *entry) {
	r := e.machine.Record()
	now := roleOf(&r, m.self)
	if now == primary && e.role == primary && r.Epoch != e.epoch && slices.ContainsFunc(e.copies, func(c owner.Member) bool { return !r.HasCopy(c) }) {
		m.stats.strikes.Add(1)
	}
	changed := r.Epoch != e.epoch || now != e.role
	if now == tombstone && e.role == primary && r.Expired() {
		m.stats.expired.Add(1)
		e.next = EventExpired
	}
	m.remark(e, now, r.Version)
	m.account(e, &r, now)
	e.epoch, e.copies = r.Epoch, r.Copies
	if now != e.role {
		if now == primary {
			m.inherit(e, &r)
		}
		if now == tombstone {
			e.buried = max(1, m.uptime())
			if m.limits.tombstones < unlimited { // else nobody takes them off
				m.graves.dig(e.id)
			}
			if m.stats.roles[tombstone].Load() > m.limits.tombstones {
				m.wake()
			}
		}
		e.role = now
		if m.saysWrong() {
			m.wake()
		}
	}
	unowned := m.stray(e, &r, changed)
	m.weigh(e)
	if unowned || changed && (m.troubled() || now == secondary && m.isLost(r.Primary)) {
		if kind, _ := m.due(e, nil); kind != 0 {
			m.restorer.notice(e.id)
		}
	}
}

// stray keeps the marks for the restorer true after a step, and reports whether
// the session has lost its primary to nobody just now: it gave the role up to this
// member, and the message was lost (30). e.mu must be held.
func (m *Manager) stray(e *entry, r *owner.Record, changed bool) (unowned bool) {
	switch {
	case changed:
		e.astray, e.moving = false, false
	case e.role == primary:
		e.astray = e.astray && slices.ContainsFunc(r.Copies, m.isLost)
		e.moving = e.moving && e.machine.Copied() < len(r.Copies)
	case e.role == secondary:
		e.astray = e.astray && (r.Primary.IsZero() || m.isLost(r.Primary) || m.leaves(r.Primary))
	default:
	}
	unowned = e.role == secondary && r.Primary.IsZero() && !e.astray
	e.astray = e.astray || unowned
	return unowned
}

// weigh counts the session among those that lack a copy, or not. e.mu must be
// held.
func (m *Manager) weigh(e *entry) {
	lacks := e.lacks()
	if e.under > 0 && (!lacks && !e.moving || e.role == primary && len(e.copies) == 0) {
		if !lacks {
			m.stats.restored.Add(1)
		}
		m.release(e)
	}
	switch {
	case lacks == e.lacking:
	case lacks:
		e.lacking = true
		m.stats.lacking.Add(1)
	default:
		e.lacking = false
		if m.stats.lacking.Add(-1) == 0 {
			m.wake() // settle
		}
	}
}

// perform carries out one action. e.mu must be held.
func (m *Manager) perform(e *entry, a *owner.Action, in *inbound) {
	switch a.Kind {
	case owner.Send:
		m.send(e, a, in)
	case owner.Handle, owner.Reply:
		if c, ok := a.Op.Owner.(*call); ok {
			if a.Kind == owner.Handle && c.turn != nil && e.turn != nil && e.turn.by == c.turn {
				e.turn.running = true
			}
			if c.quiet {
				m.recovered(e, &a.Result)
				break
			}
			select {
			case c.done <- answer{a.Kind == owner.Handle, a.Result}:
			default: // nobody has taken the last one: the manager is closed
			}
		}
	case owner.Wait:
		m.outlast(e, a.To)
	case owner.Report:
		if a.Conflict.Exact && len(a.Conflict.Lost) == 0 {
			return // the other side has come to the same
		}
		c := m.conflictOf(e.id, a.Conflict)
		if c.Late {
			m.stats.late.Add(1)
			m.log.Warn().Str("session", HashID(e.id)).Strs("keys", c.Keys).Msg("changes came too late")
			m.events.conflict(c)
			return
		}
		m.stats.conflicts.Add(1)
		m.log.Warn().Str("session", HashID(e.id)).Stringer("mine", a.Conflict.Mine.Epoch).Stringer("theirs", a.Conflict.Theirs.Epoch).
			Strs("keys", c.Keys).Msg("session conflict")
		m.events.conflict(c)
	case owner.Changed:
		m.changed(e)
	}
}

// recovered notes how a recovery in the background has ended. If others reach a
// primary that is silent here, it is for them to say what becomes of the session,
// and this member looks again after a while; of a primary that drains, and is there,
// in the next round. e.mu must be held.
func (m *Manager) recovered(e *entry, res *owner.Result) {
	m.release(e)
	p := e.machine.Record().Primary
	if e.role != secondary || res.Outcome != owner.NotExecuted || p.IsZero() || m.isGone(p) || m.leaves(p) && !m.isLost(p) {
		return
	}
	if l := m.links.find(p); l != nil && l.lookAgain(m.uptime()) {
		m.wake() // lost
	}
	e.astray = false
	m.weigh(e)
}

// send sends one message, or has it wait in the queue of an asynchronous mode.
// e.mu must be held.
func (m *Manager) send(e *entry, a *owner.Action, in *inbound) {
	if m.queue == nil || !m.enqueue(e, a.To, &a.Message, in) {
		m.transmit(e.id, a.To, &a.Message, in)
	}
}

// transmit puts one message on the connection to a member. The entry's mu must be
// held.
func (m *Manager) transmit(id string, to owner.Member, msg *owner.Message, in *inbound) {
	msg.Expiry = m.relative(msg.Expiry)
	if in != nil && in.kind == peer.Ask && !in.answered && memberOf(in.conn.ID()) == to &&
		(msg.Kind == owner.Ack || msg.Kind == owner.Refused) {
		in.answered = true
		m.write(in.conn.Version(), id, msg, func(data []byte) {
			_ = in.conn.Answer(in.number, data) // an error is the end of that connection
		})
		return
	}
	m.stats.count(msg.Kind)
	l := m.links.find(to)
	if l == nil {
		return
	}
	m.write(l.version(), id, msg, func(data []byte) {
		m.stats.sent.Add(uint64(len(data)))
		l.send(msg.Kind, data)
	})
}

// keepMessage is the largest buffer that is kept for the next message, in bytes.
const keepMessage = 1 << 20

// write writes a message and gives it to send, which does not retain it.
func (m *Manager) write(version uint8, id string, msg *owner.Message, send func(data []byte)) {
	buf, _ := m.messages.Get().(*[]byte)
	data := m.format(version).append((*buf)[:0], id, msg)
	send(data)
	if cap(data) <= keepMessage {
		*buf = data
	}
	m.messages.Put(buf)
}

// answerSteps is for how many time-outs of its own a member may let others wait
// for an answer, beside the turn of an exclusive request: it fences, it flushes,
// and for each copy that falls silent meanwhile it does so again.
const answerSteps = 10

// waitedFor reports whether a message is a question that need not be answered at
// once.
func waitedFor(k owner.MessageKind) bool {
	return k == owner.Take || k == owner.Ask || k == owner.Forward
}

// limitWait bounds the time for which a question is waited for (G8): somebody who
// answers heartbeats and nothing else would keep a request for ever.
func (m *Manager) limitWait(id string, tag owner.Tag) {
	m.timers.after(id, m.exclusiveWait+answerSteps*m.ackTimeout, func(e *entry) {
		m.step(e, &owner.Event{Kind: owner.Unanswered, Message: &owner.Message{Tag: tag}}, nil)
	})
}

// format is how messages are written to a member that speaks that version.
func (m *Manager) format(version uint8) format { return format{version, m.packFrom} }

// changed sends the new header to members that this one is comparing with: the
// series may have passed this session already. e.mu must be held.
func (m *Manager) changed(e *entry) {
	e.era = m.era.Load()
	if m.comparing.Load() == 0 {
		return
	}
	for _, l := range m.links.snapshot() {
		if c := l.comparing(); c != nil {
			_ = c.Header(m.compare(e, c.Version())) // an error is the end of that connection
		}
	}
}

// conflictOf is what the application hears of a conflict.
func (m *Manager) conflictOf(id string, c *owner.Conflict) Conflict {
	out := Conflict{ID: id, Exact: c.Exact, Late: c.Late, codec: m.codec}
	for _, a := range c.Lost {
		out.Keys = append(out.Keys, a.Key)
	}
	slices.Sort(out.Keys)
	out.lost = slices.Clone(c.Lost)
	slices.SortStableFunc(out.lost, func(x, y owner.Attr) int { return strings.Compare(x.Key, y.Key) })
	return out
}

// env answers the machine for one session, during one step.
type env struct {
	m     *Manager
	id    string
	known []fact // answers given, which must not change during a step
}

type fact struct {
	p owner.Member
	f owner.Facts
}

func (v *env) reset(m *Manager, id string) {
	v.m, v.id, v.known = m, id, v.known[:0]
}

// Self implements [owner.Env].
func (v *env) Self() owner.Member { return v.m.self }

// Peer implements [owner.Env].
func (v *env) Peer(p owner.Member) owner.Facts {
	for i := range v.known {
		if v.known[i].p == p {
			return v.known[i].f
		}
	}
	f := v.m.facts(p)
	v.known = append(v.known, fact{p, f})
	return f
}

// Connected implements [owner.Env].
func (v *env) Connected() []owner.Member {
	var up []owner.Member
	for p := range v.m.links.snapshot() {
		if v.Peer(p)&owner.Connected != 0 {
			up = append(up, p)
		}
	}
	return up
}

// Candidates implements [owner.Env].
func (v *env) Candidates() []owner.Member {
	var able []owner.Member
	for _, c := range Rank(v.m.cluster.Self(), v.m.cluster.Members(), v.id, v.m.placement) {
		if p := ownerMember(c); v.Peer(p)&owner.Connected != 0 && !v.m.isCrowded(p) {
			able = append(able, p)
		}
	}
	return able
}

// NextReign implements [owner.Env].
func (v *env) NextReign() owner.Reign {
	return owner.Reign{Boot: v.m.reignBoot, Seq: v.m.lastReign.Add(1)}
}

// facts returns how this member stands with p now.
func (m *Manager) facts(p owner.Member) owner.Facts {
	var f owner.Facts
	l := m.links.find(p)
	if l != nil {
		up, leased := l.isUp()
		if up {
			f |= owner.Connected
		}
		if leased {
			f |= owner.Leased
		}
		if l.returning() {
			f |= owner.Returning
		}
	}
	if left, connected := m.set.Promise(peerID(p)); left > 0 || connected {
		f |= owner.Promised
	}
	if f&owner.Connected == 0 && (l != nil && l.gone.Load() || m.cluster.Gone(p.String())) {
		f |= owner.Gone
	}
	return f
}

// living returns the boot of that name to ask first, or nobody.
func (m *Manager) living(name string) owner.Member {
	if name == m.self.Name {
		return m.self
	}
	var best owner.Member
	for _, c := range m.cluster.Members() {
		if c.Name != name || c.Proxy {
			continue
		}
		p := ownerMember(c)
		f := m.facts(p)
		if f&owner.Connected != 0 {
			return p
		}
		if f&owner.Gone == 0 {
			best = p
		}
	}
	return best
}

// counters are what [Manager.Stats] reads.
type counters struct {
	roles, bytes                                        [roles]atomic.Int64
	lacking                                             atomic.Int64
	restored                                            atomic.Uint64
	created, ended, expired, lost, flagged, conflicts   atomic.Uint64
	late, unprotected, flushes, updates, takes, grants  atomic.Uint64
	strikes, notExecuted, failed, forged, garbage, sent atomic.Uint64
	tooMany, noRoom, noReplica                          atomic.Uint64
	queueFull, poolWaits, coalesced, batches, skipped   atomic.Uint64
}

func (c *counters) count(k owner.MessageKind) {
	switch k {
	case owner.Update:
		c.updates.Add(1)
	case owner.Take:
		c.takes.Add(1)
	case owner.Grant:
		c.grants.Add(1)
	default:
	}
}
