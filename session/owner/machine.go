package owner

// A Machine is one session at one member. The zero Machine holds nothing and is
// ready; a driver keeps a Machine as long as it is not [Machine.Empty].
//
// A Machine is not safe for concurrent use.
type Machine struct {
	// Want is how many secondaries the session is to have. Zero means one;
	// more than MaxCopies means MaxCopies.
	Want uint8

	// Loose says that replies here may be [Event.Loose]. It takes effect with the
	// next epoch that this member begins.
	Loose bool

	// MaxBytes is how much the attributes and their names may take with a
	// request's changes, unless these make it less; zero is no limit. A request
	// whose changes do not fit fails, and nothing of it is done.
	MaxBytes uint32

	rec   Record
	reign Reign // of this member; zero before its first raise, and once the record was replaced from outside

	// What the copies are known to have, of the present epoch. Used by the primary only.
	acks   []uint64 // version that Copies[i] has acknowledged
	sent   uint64   // highest version sent
	full   bool     // every copy was sent a full record, or the copy gave it
	access int64    // Expiry.Access as it was last sent

	copied   bool   // the record is what its primary sent, who therefore has it, too
	heard    rank   // the highest epoch of another branch that was passed on to the primary
	followed rank   // the highest epoch in which another primary was followed
	serial   uint32 // of the last round of Updates
	ops      *Op    // what is under way, oldest first
	live     *live  // nil while nothing unusual is under way
}

// live is what a machine needs only in unusual moments.
type live struct {
	search   *Op      // the one search (R4), if any
	unburied []Member // who has not acknowledged the tombstone yet (R1, R15)
	avoid    []Member // copies that were struck although they are connected; no candidates while ops are under way
	behind   bool     // this member stepped down and has not compared with the primary since
}

// MaxCopies bounds the secondaries of a session.
const MaxCopies = 64

// maxTries is how many steps of search one op takes (G8).
const maxTries = 6

// phase is what an op waits for.
type phase uint8

const (
	idle       phase = iota
	running          // its handler
	flushing         // acknowledgements; the handler has run
	fencing          // acknowledgements of an unchanged record; the handler has not run (R3)
	settled          // transitional: all acknowledgements are there
	unsettled        // transitional: a copy is gone or refused
	taking           // Grant or No (R5); owns the search
	asking           // Answers (R6); owns the search
	promising        // the end of a promise (R8); owns the search
	joined           // the end of another op's search (R4)
	forwarding       // Forwarded (R10)
	burying          // acknowledgements of the tombstone (R1, R15)
	yielding         // a Take from outside: the end of a promise (R7)
	probing          // a Take from outside: the old primary's own word (R7)
	reading          // an Ask from outside: the rest of what members that are gone have sent (40)
	deferred         // an Ask from outside: the end of a Take (10)
	postponed        // a Compare from outside: the end of a search, and the acknowledgements
)

// role is what an op is for.
type role uint8

const (
	request   role = iota // a handler runs
	recovery              // [Recover]
	forwarded             // a Forward from outside
	taker                 // a Take from outside
	asker                 // an Ask or Compare from outside
	ender                 // [Expire], without the leases
)

// op is the machine's part of an Op.
type op struct {
	next  *Op
	phase phase
	role  role

	executed bool // the handler was started
	partial  bool // Flush: goes on after the reply
	flagged  bool
	bury     bool // Return with Invalidate
	loose    bool // Event.Loose
	late     bool // others may have changed the session elsewhere since the handler saw it
	tries    uint8
	access   int64
	idle     int64 // new Expiry.Idle, zero for none

	cookie  Epoch
	second  Member // request: the cookie's secondary
	peer    Member // request: the cookie's primary; recovery: who is to be relieved; forwarding: to whom; from outside: who asks
	changes Changes
	view    Attrs    // what the handler saw, with what it has flushed
	bases   []uint64 // forwarded: as [Message.Bases]

	saw mark // the record that the handler was given
	did mark // the record with the handler's changes, once they are applied

	// What the reply comes from, and who has not acknowledged it yet.
	from    Header // its Version is the one that counts
	pending uint64 // bit i: from.Copies[i]
	serial  uint32 // acknowledgements of earlier Updates do not count
	safe    bool   // saw has been acknowledged by from.Copies

	step   uint32   // questions asked
	search *search  // once it searched
	msg    *Message // from outside: what was asked
}

// A mark is a point in the history of the record, of which the present record
// knows as long as it is not lost.
type mark struct {
	epoch   Epoch // zero: not set
	version uint64
	sure    bool // whatever descends from epoch includes it, at any version
	lost    bool // the record was replaced by one that does not include it
}

func (k *mark) set() bool { return !k.epoch.IsZero() }

// in reports whether h certainly includes k.
func (k *mark) in(h *Header) bool {
	return h.Epoch == k.epoch && h.Version >= k.version || k.sure && h.Descends(k.epoch)
}

// end is the last mark of o: what it did, else what it saw.
func (o *op) end() *mark {
	if o.did.set() {
		return &o.did
	}
	return &o.saw
}

// alters reports whether o has something to apply.
func (o *op) alters() bool { return len(o.changes) > 0 || o.idle != 0 }

// Step tells the machine of one event and appends to out what is to be done,
// in order. It keeps neither ev nor out.
func (m *Machine) Step(env Env, ev *Event, out []Action) []Action {
	s := step{m: m, env: env, self: env.Self(), out: out, first: len(out)}
	epoch, primary, dead := m.rec.Epoch, m.rec.Primary, m.rec.Dead
	s.handle(ev)
	s.settle()
	if m.rec.Epoch != epoch || m.rec.Primary != primary || m.rec.Dead != dead {
		s.out = append(s.out, Action{})
		copy(s.out[s.first+1:], s.out[s.first:])
		s.out[s.first] = Action{Kind: Changed}
	}
	return s.out
}

// Record is what the member holds; the zero Record if nothing. It shares slices
// with the machine, which does not write to them.
func (m *Machine) Record() Record { return m.rec }

// Empty reports whether the machine holds nothing and nothing is under way, so
// that it may be dropped and be made anew when an event comes.
func (m *Machine) Empty() bool { return !m.rec.Held() && m.ops == nil }

// Concerns reports whether the record belongs into a comparison with peer (C2):
// it names peer, or is a tombstone.
func (m *Machine) Concerns(peer Member) bool {
	return m.rec.Held() && (m.rec.Dead || m.rec.Names(peer))
}

// Primary reports whether self is the primary of the session.
func (m *Machine) Primary(self Member) bool {
	return m.rec.Held() && !m.rec.Dead && m.rec.Primary == self
}

// Busy reports whether anything is under way for this session, of this member
// or for another.
func (m *Machine) Busy() bool { return m.ops != nil }

// Acknowledged reports whether all secondaries are known to hold the present
// version; true without secondaries. It says nothing on a member that is not
// the primary.
func (m *Machine) Acknowledged() bool { return m.acked() >= m.rec.Version }

// Copied returns how many secondaries are known to hold a record of the present
// epoch. It says nothing on a member that is not the primary.
func (m *Machine) Copied() int {
	n := 0
	for _, v := range m.acks {
		if v > 0 {
			n++
		}
	}
	return n
}

// acked is the version that all copies hold in this epoch.
func (m *Machine) acked() uint64 {
	low := ^uint64(0)
	for _, v := range m.acks {
		low = min(low, v)
	}
	return low
}

// want is how many copies there should be.
func (m *Machine) want() int {
	switch {
	case m.Want == 0:
		return 1
	case m.Want > MaxCopies:
		return MaxCopies
	}
	return int(m.Want)
}

// step is one call of Step.
type step struct {
	m     *Machine
	env   Env
	self  Member
	out   []Action
	first int // index in out of the first action of this step

	lazy     bool // the handler that runs next will flush
	restless bool // something that a Take from outside waits for may have changed
}

func (s *step) primary() bool { return s.m.Primary(s.self) }

// returning reports whether p may be back in a moment, and the compare then say
// who is the primary. A member that was frozen meets only ends of connections
// when it goes on: if it struck everybody at once, its stale branch would
// outbid the one that lives.
func (s *step) returning(p Member) bool {
	return s.env.Peer(p)&(Connected|Returning|Gone) == Returning
}

func (s *step) connected(p Member) bool { return !p.IsZero() && s.env.Peer(p)&Connected != 0 }

// over reports whether p cannot rely on this member any more (C3, C5), and will
// not be back in a moment: who was frozen has promised nothing lately, but does
// not know what the others have done meanwhile.
func (s *step) over(p Member) bool {
	return s.env.Peer(p)&Gone != 0 || s.env.Peer(p)&(Connected|Promised) == 0 && !s.returning(p)
}

// outlast has the driver say when the promise to p is over. Of one that returns
// it says so in any case.
func (s *step) outlast(p Member) {
	if s.env.Peer(p)&(Connected|Promised) != 0 {
		s.out = append(s.out, Action{Kind: Wait, To: p})
	}
}

func (s *step) send(to Member, msg Message) {
	s.out = append(s.out, Action{Kind: Send, To: to, Message: msg})
}

func (s *step) handle(ev *Event) {
	o := ev.Op
	switch ev.Kind {
	case Request, Recover:
		s.add(o)
		o.cookie, o.peer, o.second, o.access = ev.Cookie, ev.Primary, ev.Secondary, ev.Expiry.Access
		if ev.Kind == Recover {
			o.role, o.cookie, o.peer = recovery, s.m.rec.Epoch, ev.Peer
		}
		s.arrive(o)
	case Create:
		s.create(o, ev)
	case Flush, Return:
		o.partial, o.bury, o.loose = ev.Kind == Flush, ev.Invalidate, ev.Loose
		o.changes = ev.Changes
		o.access, o.idle = max(o.access, ev.Expiry.Access), ev.Expiry.Idle
		s.finish(o)
	case Expire:
		switch {
		case s.m.rec.Dead && (!ev.Invalidate || !s.m.rec.Expired()): // that it has ended by itself is less (38)
		case ev.Invalidate:
			s.bury(false)
		default:
			s.expire()
		}
	case Receive:
		s.receive(ev.Peer, ev.Message)
	case PeerUp:
		s.restless = true
		for o := s.m.ops; o != nil; o = o.next {
			if o.waitsFor(ev.Peer) {
				o.phase = unsettled // what was on the old connection never arrives
			}
		}
		if s.primary() {
			s.remind(ev.Peer)
			for _, c := range s.m.rec.Copies {
				if s.env.Peer(c)&(Gone|Connected) == Gone {
					s.replaceCopy(c)
				}
			}
			s.place()
		}
	case PeerDown:
		s.peerDown(ev.Peer)
	case PeerLost:
		s.peerDown(ev.Peer)
		s.replaceCopy(ev.Peer)
	case Relocate:
		s.relocate(ev.Peer)
	case PeerAway:
		s.restless = true
		s.away(ev.Peer)
	case PromiseOver:
		s.restless = true
	case Unanswered:
		s.unanswered(ev.Message.Tag)
	}
}

// unanswered ends what waits for the answer to the question of that tag. An
// answer that comes after all finds nobody, like one to a search that is over.
func (s *step) unanswered(tag Tag) {
	for o := s.m.ops; o != nil; o = o.next {
		switch {
		case o.phase == probing && o.msg.Tag == tag:
			s.deny(o)
			return
		case o.phase == reading && o.msg.Tag.reading() == tag:
			o.phase = deferred
			return
		case (o.phase == taking || o.phase == asking || o.phase == forwarding) && tag == (Tag{o.ID, o.step}):
			s.fail(o)
			return
		}
	}
}

func (s *step) receive(from Member, msg *Message) {
	switch msg.Kind {
	case Update:
		s.update(from, msg)
	case Ack:
		s.ack(from, msg)
	case Refused:
		s.refused(from, msg)
	case Ask:
		s.asked(from, msg)
	case Answer:
		s.answer(from, msg)
	case Take:
		s.taken(from, msg)
	case Grant:
		s.granted(from, msg)
	case No:
		s.denied(from, msg)
	case Forward:
		s.accept(from, msg)
	case Forwarded:
		s.delivered(from, msg)
	case Compare:
		s.compare(from, msg)
	}
}

// settle does what the event made possible for others, until nothing is left.
func (s *step) settle() {
	m := s.m
	for {
		var o *Op
		switch {
		case m.rec.Dead && s.find(&o, s.mortal):
			s.dead(o)
		case m.rec.Dead && (m.live == nil || len(m.live.unburied) == 0) && s.findIn(&o, burying):
			s.dead(o)
		case s.findIn(&o, settled):
			s.flushed(o)
		case s.findIn(&o, unsettled):
			s.again(o)
		case s.restless:
			s.restless = false
			s.reyield()
			s.reconsider()
		case !s.taking() && s.findIn(&o, deferred):
			s.tell(o.peer, o.msg.Tag, false)
			s.remove(o)
		case s.searcher() == nil && (!s.primary() || m.acked() >= m.rec.Version) && s.findIn(&o, postponed):
			s.remove(o)
			s.compare(o.peer, o.msg)
		case s.searcher() == nil && s.findIn(&o, joined):
			s.arrive(o)
		default:
			if s.primary() && !m.full && len(m.rec.Copies) > 0 && !s.lazy {
				s.push(nil, false)
			}
			s.rest()
			return
		}
	}
}

// rest tidies up once nothing more follows from an event.
func (s *step) rest() {
	m := s.m
	if m.live == nil {
		return
	}
	r := &m.rec
	switch {
	case !m.live.behind:
	case !r.Held() || r.Dead || s.primary() || r.Primary.IsZero():
		m.live.behind = false
	case !s.used() && s.connected(r.Primary):
		// This member gave the role up while ops used the record. Now the
		// primary may say what is to become of it.
		m.live.behind = false
		s.introduce(r.Primary)
	}
	if m.ops == nil {
		m.live.avoid = nil
		if len(m.live.unburied) == 0 && !m.live.behind {
			m.live = nil
		}
	}
}

// mortal reports whether o ends at once when a tombstone comes. A handler that
// runs is told when it returns; what was forwarded is told by the other side. Who
// searches for another branch than the one that has ended by itself goes on (38).
func (s *step) mortal(o *Op) bool {
	switch o.phase {
	case flushing, fencing, settled, unsettled, yielding, probing:
		return true
	case taking, asking, promising, joined:
		return s.m.rec.closes(o.cookie)
	default:
		return false
	}
}

// find sets o to the oldest op that passes.
func (s *step) find(o **Op, pass func(*Op) bool) bool {
	for x := s.m.ops; x != nil; x = x.next {
		if pass(x) {
			*o = x
			return true
		}
	}
	return false
}

func (s *step) findIn(o **Op, p phase) bool {
	return s.find(o, func(x *Op) bool { return x.phase == p })
}

func (s *step) add(o *Op) {
	p := &s.m.ops
	for *p != nil {
		p = &(*p).next
	}
	*p, o.next = o, nil
}

func (s *step) remove(o *Op) {
	s.endSearch(o)
	for p := &s.m.ops; *p != nil; p = &(*p).next {
		if *p == o {
			*p = o.next
			break
		}
	}
	o.next, o.phase = nil, idle
}

func (s *step) unusual() *live {
	if s.m.live == nil {
		s.m.live = new(live)
	}
	return s.m.live
}

// searcher is the op that searches, if any.
func (s *step) searcher() *Op {
	if s.m.live == nil {
		return nil
	}
	return s.m.live.search
}

func (s *step) taking() bool {
	o := s.searcher()
	return o != nil && o.phase == taking
}

func (s *step) endSearch(o *Op) {
	if s.searcher() == o {
		s.m.live.search = nil
	}
}
