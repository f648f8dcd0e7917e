package owner

import "slices"

// search is what one op found out so far (R4 to R6).
type search struct {
	target Member // taking: from whom

	// The last No of a member that is not the primary, and the best epoch
	// that was known when it was asked. Only that makes it a disavowal (14, 20).
	disowned   Member
	disownedAt Epoch
	known      Epoch

	// One round of Ask.
	best    Header
	highest uint32 // counter of any record that is held
	expiry  Expiry
	holders []Member // who hold best
	claims  []Member // who say of themselves that they are the primary in best's epoch
	heard   []Member // who answered
	others  []Member // who holds something, best or not
	reach   []Member // with whom those are connected
	waiting []Member // who has not answered yet
	gone    []Member // of whose end those who were asked were told, in this round or before
	primary Member   // whom the own record named when the round began
	missed  bool     // somebody became unreachable during the round
	patient bool     // a member that is unreachable was given the time of its promise to be found gone, or to be back (C5)
}

// silent notes that x will not answer.
func (q *search) silent(x Member) bool {
	k := slices.Index(q.waiting, x)
	if k < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, k, k+1)
	q.missed = true
	return true
}

func (s *step) searching(o *Op) *search {
	if o.search == nil {
		o.search = new(search)
	}
	s.unusual().search = o
	return o.search
}

// take asks y for the session (R4, R6). If y is not connected any more, a new
// round of questions takes its place.
func (s *step) take(o *Op, y Member, claim Claim, over Member) {
	if !s.connected(y) {
		s.inquire(o)
		return
	}
	q := s.searching(o)
	o.phase, q.target = taking, y
	o.step++
	s.send(y, Message{
		Kind: Take, Tag: Tag{o.ID, o.step}, Cookie: o.cookie, Claim: claim, Over: over, About: q.known,
	})
}

// inquire begins a round of Ask (R6).
func (s *step) inquire(o *Op) {
	if o.tries++; o.tries > maxTries {
		s.fail(o)
		return
	}
	q := s.searching(o)
	r := &s.m.rec
	o.phase = asking
	o.step++
	q.best, q.expiry, q.primary, q.missed = r.Header, r.Expiry, r.Primary, false
	q.holders, q.claims, q.heard, q.reach, q.others = q.holders[:0], q.claims[:0], q.heard[:0], q.reach[:0], q.others[:0]
	q.highest = r.Epoch.N
	if r.Held() {
		q.holders = append(q.holders, s.self)
	}
	q.waiting = append(q.waiting[:0], s.env.Connected()...)
	for _, p := range []Member{r.Primary, o.peer} {
		if s.env.Peer(p)&Gone != 0 && !slices.Contains(q.gone, p) {
			q.gone = append(q.gone, p)
		}
	}
	for _, x := range q.waiting {
		s.send(x, Message{Kind: Ask, Tag: Tag{o.ID, o.step}, Gone: q.gone})
	}
	if len(q.waiting) == 0 {
		s.decide(o)
	}
}

// asked answers an Ask: at once, unless a Take is under way here, whose outcome
// the answer must know (10), or there is a connection with somebody who is gone.
// What that one sent last may be all that is left of its last epoch, and would
// outrank what becomes of the answer (40).
func (s *step) asked(from Member, msg *Message) {
	o := &Op{op: op{role: asker, phase: deferred, peer: from, msg: &Message{Tag: msg.Tag}}}
	if !msg.Now {
		for _, p := range msg.Gone {
			if s.connected(p) && p != from {
				// The end of the connection comes after all that was sent on it. If
				// p lives after all, its answer does.
				o.phase, o.msg.Gone = reading, append(o.msg.Gone, p)
				s.send(p, Message{Kind: Ask, Tag: msg.Tag.reading(), Now: true})
			}
		}
	}
	if msg.Now || o.phase == deferred && !s.taking() {
		s.tell(from, msg.Tag, msg.Now)
		return
	}
	s.add(o)
}

// reading is the tag of the question with which a member finds out that it has
// read all that another had sent when it was asked itself with t. No op has it.
func (t Tag) reading() Tag { return Tag{t.Op, t.Step | 1<<31} }

// read notes that all that p had sent was read; tag is that of its answer, or zero
// if its connection has ended.
func (s *step) read(p Member, tag Tag) {
	for o := s.m.ops; o != nil; o = o.next {
		if o.phase != reading || tag != (Tag{}) && o.msg.Tag.reading() != tag {
			continue
		}
		o.msg.Gone = slices.DeleteFunc(o.msg.Gone, func(x Member) bool { return x == p })
		if len(o.msg.Gone) == 0 {
			o.phase = deferred
		}
	}
}

func (s *step) tell(to Member, tag Tag, now bool) {
	s.send(to, Message{Kind: Answer, Tag: tag, Now: now, Header: s.m.rec.Header, Expiry: s.m.rec.Expiry, Connected: slices.Clone(s.env.Connected())})
}

func (s *step) answer(from Member, msg *Message) {
	if msg.Now {
		s.read(from, msg.Tag)
		s.probed(from, msg)
		return
	}
	o := s.searcher()
	if o == nil || o.phase != asking || msg.Tag != (Tag{o.ID, o.step}) {
		return
	}
	q := o.search
	k := slices.Index(q.waiting, from)
	if k < 0 {
		return
	}
	q.waiting = slices.Delete(q.waiting, k, k+1)
	h := &msg.Header
	q.heard = append(q.heard, from)
	q.reach = append(q.reach, msg.Connected...)
	if h.Held() {
		q.others, q.highest = append(q.others, from), max(q.highest, h.Epoch.N)
	}
	if h.Epoch != q.best.Epoch && h.better(&q.best) {
		q.claims = q.claims[:0]
	}
	if h.Held() && h.Primary == from && (h.Epoch == q.best.Epoch || h.better(&q.best)) {
		q.claims = append(q.claims, from)
	}
	switch {
	case h.better(&q.best):
		q.best, q.expiry = *h, msg.Expiry
		q.holders = append(q.holders[:0], from)
	case h.Held() && !q.best.better(h):
		q.holders = append(q.holders, from)
	}
	if len(q.waiting) == 0 {
		s.decide(o)
	}
}

// decide is the second half of R6: everybody has answered or is unreachable.
func (s *step) decide(o *Op) {
	q, r := o.search, &s.m.rec
	b := &q.best
	switch {
	case r.better(b) || r.Primary != q.primary:
		s.arrive(o) // the own record has changed (13)
		return
	case q.missed && (!b.Dead || b.Expired()):
		s.inquire(o) // what the others said may be older than that (12)
		return
	case b.closes(o.cookie):
		if b.Above(&r.Header) {
			s.adopt(b, q.expiry, q.holders[0])
		}
		s.dead(o)
		return
	case !b.Held() || b.Dead || q.highest < o.cookie.N:
		s.missing(o)
		return
	case !b.Descends(o.cookie):
		o.flagged, o.cookie = true, b.Epoch
	}
	p := b.Primary
	if s.env.Peer(p)&Gone != 0 && slices.Contains(q.reach, p) && !slices.Contains(q.gone, p) {
		q.gone = append(q.gone, p)
		s.inquire(o) // somebody may not have read all that p has sent (40)
		return
	}
	if o.role == recovery && r.Held() && s.env.Peer(r.Primary)&Gone != 0 && b.Epoch != r.Epoch && s.connected(p) {
		s.introduce(p) // the session has a primary, which says what is to become of the copy here
		s.end(o, Result{Outcome: NotExecuted, Elsewhere: p})
		return
	}
	if p == s.self {
		if s.primary() && r.Epoch == b.Epoch {
			s.drop(o)
			s.arrive(o)
			return
		}
		p = Member{} // named, but does not have it
	}
	disowned := p.IsZero()
	if !disowned {
		heard := slices.Contains(q.heard, p)
		switch {
		case o.role == recovery && p != o.peer && slices.Contains(q.claims, p) && s.connected(p):
			s.owned(o, p)
			return
		case heard && (q.disowned != p || q.disownedAt != b.Epoch || slices.Contains(q.claims, p)):
			// Its answer may be older than what the others say: ask itself. If
			// it said No, a Grant to it may have been under way; then it
			// answered this round after that, and claims the session.
			q.known = b.Epoch
			s.take(o, p, NoClaim, Member{})
			return
		case heard:
			disowned = true
		case s.connected(p):
			s.arrive(o) // it can be reached again (9b)
			return
		case slices.Contains(q.reach, p) && s.env.Peer(p)&Gone == 0:
			s.leave(o, p)
			return
		}
	}
	s.succeed(o, p, disowned)
}

// missing: nobody who was asked has what the cookie names (37). A member that it
// names and that is not proven gone may have it. If its connection has broken
// just now, it is given the time until it is known what has become of it; and if
// somebody else can reach it, it is for that member to say that all is lost.
func (s *step) missing(o *Op) {
	q := o.search
	var reached Member
	for _, p := range []Member{o.peer, o.second} {
		switch {
		case o.role != request, p.IsZero(), p.Name == s.self.Name, s.env.Peer(p)&Gone != 0, slices.Contains(q.heard, p):
		case s.connected(p):
			s.arrive(o) // it is back (9b)
			return
		case !s.over(p) && (o.phase == promising || !q.patient):
			q.patient = true
			s.promise(o, p)
			return
		case reached.IsZero() && slices.Contains(q.reach, p):
			reached = p
		}
	}
	switch {
	case o.phase == promising:
		s.inquire(o) // the answers are old
	case reached.IsZero():
		s.end(o, Result{Outcome: Lost})
	default:
		s.end(o, Result{Outcome: NotExecuted, Elsewhere: reached})
	}
}

// leave: somebody else is connected with the primary p, so that it is not for
// this member to replace it. A connection that has broken just now is given the
// time until it is known what has become of p.
func (s *step) leave(o *Op, p Member) {
	q := o.search
	switch {
	case !s.over(p) && (o.phase == promising || !q.patient):
		q.patient = true
		s.promise(o, p)
	case o.phase == promising:
		s.inquire(o) // the answers are old
	default:
		s.end(o, Result{Outcome: NotExecuted, Elsewhere: p})
	}
}

func (s *step) promise(o *Op, p Member) {
	o.phase = promising
	s.outlast(p)
}

// succeed: the primary p of the best record is lost, or is none. The first in
// line that holds the record promotes, and only a holder does (4, R8).
func (s *step) succeed(o *Op, p Member, disowned bool) {
	q := o.search
	y := q.heir(p)
	switch {
	case y != s.self && o.role == recovery && q.best.Primary != s.self && q.best.HasCopy(y):
		s.end(o, Result{Outcome: NotExecuted, Elsewhere: y}) // its own recovery does it
	case y != s.self:
		claim := Unreachable
		if disowned {
			claim = Disowned
		}
		q.known = q.best.Epoch
		s.take(o, y, claim, p)
	case disowned:
		s.promote(o, p)
	case !s.over(p):
		s.promise(o, p)
	default:
		s.promote(o, p)
	}
}

// heir is the first in the line of succession: the first copy that holds the
// best record, else the first holder, in an order that is the same for all. The
// one that gave the role up comes last.
func (q *search) heir(last Member) Member {
	for _, c := range q.best.Copies {
		if slices.Contains(q.holders, c) {
			return c
		}
	}
	y := last
	for _, c := range q.holders {
		if y == last || c != last && c.compare(y) < 0 {
			y = c
		}
	}
	return y
}

// promote is R8.
func (s *step) promote(o *Op, over Member) {
	s.raisePast(o.search.highest, s.self, s.candidates(s.reachable(over), over))
	s.drop(o)
	s.endSearch(o)
	s.lazy = true
	s.arrive(o)
}

// drop tells those who were found to hold something lower that this member is
// the primary now (R17): they discard it, or report it if it is of another
// branch. Whether it arrives does not matter.
func (s *step) drop(o *Op) {
	r := &s.m.rec
	for _, x := range o.search.others {
		if !slices.Contains(o.search.holders, x) && !r.HasCopy(x) && s.connected(x) {
			s.introduce(x)
		}
	}
}

func (s *step) granted(from Member, msg *Message) {
	o := s.searcher()
	if o == nil || o.phase != taking || msg.Tag != (Tag{o.ID, o.step}) || o.search.target != from || msg.Header.Primary != s.self {
		if msg.Header.Primary == s.self {
			s.decline(from, &msg.Header) // nobody waits for it
		}
		return
	}
	m := s.m
	if !msg.Header.Above(&m.rec.Header) {
		s.decline(from, &msg.Header)
	} else {
		s.replace(Record{Header: msg.Header, Attrs: msg.Attrs, Expiry: msg.Expiry}, true)
		m.acks = make([]uint64, len(m.rec.Copies))
		for k := range m.acks {
			m.acks[k] = m.rec.Version
		}
		m.sent, m.full, m.access = m.rec.Version, true, msg.Expiry.Access
		s.drop(o)
	}
	s.endSearch(o)
	s.arrive(o)
}

// decline tells the giver of a record h that this member does not keep it: it is
// not the primary of that epoch, and somebody has to be.
func (s *step) decline(from Member, h *Header) {
	switch r := &s.m.rec; {
	case !r.Held():
		s.send(from, Message{Kind: Compare, About: h.Epoch})
	case r.Epoch != h.Epoch:
		s.introduce(from)
	}
}

func (s *step) denied(from Member, msg *Message) {
	o := s.searcher()
	if o == nil || o.phase != taking || msg.Tag != (Tag{o.ID, o.step}) || o.search.target != from {
		return
	}
	h := &msg.Header
	if h.Dead && h.Above(&s.m.rec.Header) {
		s.adopt(h, msg.Expiry, from)
		if h.closes(o.cookie) {
			s.dead(o)
			return
		}
	}
	if !h.Held() || h.Primary != from {
		o.search.disowned, o.search.disownedAt = from, o.search.known
	}
	s.inquire(o)
}

// reconsider looks again at a promotion that waits.
func (s *step) reconsider() {
	if o := s.searcher(); o != nil && o.phase == promising {
		s.decide(o)
	}
}
