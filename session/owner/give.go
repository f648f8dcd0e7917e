package owner

// taken is R7: a Take arrives.
func (s *step) taken(from Member, msg *Message) {
	o := &Op{op: op{role: taker, peer: from, cookie: msg.Cookie, msg: &Message{
		Tag: msg.Tag, Claim: msg.Claim, Over: msg.Over, About: msg.About,
	}}}
	s.add(o)
	s.yield(o, false)
}

// yield gives the session to o's peer, or not, or waits. Fenced says that all
// copies have just acknowledged.
func (s *step) yield(o *Op, fenced bool) {
	r, ask := &s.m.rec, o.msg
	if !r.Held() || r.Dead || !r.Descends(o.cookie) {
		s.deny(o)
		return
	}
	if s.primary() {
		if !fenced && !s.leased() {
			s.fence(o)
			return
		}
		s.grant(o)
		return
	}
	p := r.Primary
	switch {
	case ask.Claim == NoClaim || r.Epoch != ask.About:
		s.deny(o) // or there is something newer than the taker knows
	case p.IsZero(), p == o.peer: // who is taken for the primary says that it is not
		s.grant(o)
	case ask.Claim == Disowned && p != ask.Over && s.connected(p):
		s.deny(o)
	case s.connected(p):
		// The taker cannot reach p, or p has disowned the session towards the
		// taker. Perhaps p is gone and this member has not noticed yet, and
		// perhaps a Grant to p was still to be read when it spoke. What p says
		// now comes after that, on the same connection.
		if o.phase != probing || o.search.target != p {
			o.phase, o.search = probing, &search{target: p}
			s.send(p, Message{Kind: Ask, Tag: ask.Tag, Now: true})
		}
	case !s.over(p):
		o.phase = yielding
		s.outlast(p)
	default:
		s.grant(o)
	}
}

// reyield looks again at the Takes that wait.
func (s *step) reyield() {
	for o := s.m.ops; o != nil; {
		next := o.next
		if o.role == taker && (o.phase == yielding || o.phase == probing) {
			s.yield(o, false)
		}
		o = next
	}
}

// probed: the old primary has spoken for itself.
func (s *step) probed(from Member, msg *Message) {
	r := &s.m.rec
	for o := s.m.ops; o != nil; {
		next := o.next
		if o.phase == probing && o.msg.Tag == msg.Tag && o.search.target == from {
			h := &msg.Header
			if o.msg.Claim == Disowned && r.Primary == from && r.Epoch == o.msg.About && !r.rank().less(h.rank()) && (!h.Held() || h.Primary != from) {
				s.grant(o)
			} else {
				s.deny(o)
			}
		}
		o = next
	}
}

// grant raises the record with o's peer as primary and this member as its
// copy. Only a holder raises, never the one that fetches (4).
func (s *step) grant(o *Op) {
	old := s.m.rec.Copies
	s.raise(o.peer, []Member{s.self})
	s.interrupt()
	r := &s.m.rec
	s.send(o.peer, Message{Kind: Grant, Tag: o.msg.Tag, Header: r.Header, Attrs: r.Attrs, Expiry: r.Expiry})
	for _, x := range old { // R17: they ask the new primary, and discard what they have
		if !r.Names(x) && s.connected(x) {
			s.introduce(x)
		}
	}
	s.remove(o)
}

func (s *step) deny(o *Op) {
	s.send(o.peer, Message{Kind: No, Tag: o.msg.Tag, Header: s.m.rec.Header, Expiry: s.m.rec.Expiry})
	s.remove(o)
}

// Forwarding.

// forward is R10: the handler has run, and this member is not the primary any
// more. It is never Not-Executed (15).
func (s *step) forward(o *Op) {
	r := &s.m.rec
	p := r.Primary
	o.tries++
	if !s.connected(p) || o.tries > maxTries {
		s.fail(o)
		return
	}
	o.late = true
	msg := Message{Kind: Forward, Cookie: o.cookie, Changes: o.changes, Bases: o.view.bases(o.changes), Expiry: Expiry{Access: o.access, Idle: o.idle}}
	if k := o.end(); k.sure && !k.lost && (o.did.set() || !o.alters()) {
		msg.About = k.epoch
	}
	if !o.alters() && msg.About.IsZero() {
		s.fail(o) // what it has seen may be lost
		return
	}
	o.phase, o.peer = forwarding, p
	o.step++
	msg.Tag = Tag{o.ID, o.step}
	s.send(p, msg)
}

// accept takes the changes of a request that ran elsewhere.
func (s *step) accept(from Member, msg *Message) {
	o := &Op{op: op{
		role: forwarded, late: true, peer: from, cookie: msg.Cookie, changes: msg.Changes, bases: msg.Bases, access: msg.Expiry.Access, idle: msg.Expiry.Idle,
		msg: &Message{Tag: msg.Tag, About: msg.About},
	}}
	s.add(o)
	s.carry(o, false)
}

// carry does the changes of o and has them acknowledged.
func (s *step) carry(o *Op, fenced bool) {
	r := &s.m.rec
	switch {
	case r.Dead:
		s.dead(o)
	case !s.primary():
		s.overtaken(o)
	case !fenced && !s.leased():
		s.fence(o)
	case !o.msg.About.IsZero() && r.Descends(o.msg.About):
		o.executed = true
		s.see(o)
		s.complete(o)
	case !o.alters():
		s.fail(o)
	default:
		o.executed = true
		if s.apply(o) {
			s.complete(o)
		}
	}
}

// delivered: the primary has answered a Forward.
func (s *step) delivered(from Member, msg *Message) {
	var o *Op
	for x := s.m.ops; x != nil; x = x.next {
		if x.phase == forwarding && x.peer == from && msg.Tag == (Tag{x.ID, x.step}) {
			o = x
		}
	}
	if o == nil {
		return
	}
	h := &msg.Header
	switch msg.Reason {
	case NoReason:
		o.from = *h
		o.flagged = o.flagged || !o.saw.in(h)
		s.reply(o)
	case Invalidated:
		if h.Above(&s.m.rec.Header) {
			s.adopt(h, msg.Expiry, from)
		}
		if !s.m.rec.Dead {
			s.fail(o) // that branch has ended by itself, and this member knows of another
			return
		}
		s.dead(o)
	default:
		if h.Primary == from {
			s.fail(o) // it is the primary, and what o has seen is not in its record
			return
		}
		if h.Above(&s.m.rec.Header) && s.m.rec.Primary == from {
			s.stepDown(h.Primary)
		}
		s.refresh(o)
		s.again(o)
	}
}

// refresh looks after o's marks once it is not forwarded any more.
func (s *step) refresh(o *Op) {
	for _, k := range []*mark{&o.saw, &o.did} {
		k.lost = k.lost || k.set() && !k.in(&s.m.rec.Header)
	}
	o.phase = unsettled
}
