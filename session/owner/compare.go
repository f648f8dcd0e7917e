package owner

import "slices"

// update stores what the primary sends, or a tombstone from anybody.
func (s *step) update(from Member, msg *Message) {
	m := s.m
	r, h := &m.rec, &msg.Header
	reason := NoReason
	switch {
	case h.Dead:
		switch {
		case h.Above(&r.Header):
			s.adopt(h, msg.Expiry, from)
		case r.Dead:
			s.unburied(from) // it has it, too
		default:
			reason = Higher // the session goes on elsewhere (38)
		}
	case r.Dead && !h.Above(&r.Header):
		reason = Higher
	case !r.Held() && !msg.NewCopy:
		reason = Nothing // (32)
	case h.Epoch == r.Epoch && h.Version <= r.Version:
		r.Expiry.Access = max(r.Expiry.Access, msg.Expiry.Access)
	case h.Epoch == r.Epoch && !msg.Full:
		if msg.Base != r.Version {
			reason = Behind
			break
		}
		r.Attrs, r.Version, r.Primary = r.Attrs.apply(msg.Changes), h.Version, from
		access := r.Expiry.Access
		r.Expiry = msg.Expiry
		r.Expiry.Access = max(access, r.Expiry.Access)
		m.reign, m.copied = Reign{}, true
		m.acks = nil
	case h.Above(&r.Header), !msg.Full && h.Start == r.Start && h.Epoch.N == r.Epoch.N: // of changes alone the copies are not known
		switch {
		case !msg.Full:
			reason = Behind
		case s.primary() && s.weigh(h):
			reason = Higher
		default:
			s.replace(Record{Header: *h, Attrs: msg.Attrs, Expiry: msg.Expiry}, true)
		}
	default:
		reason = Higher
	}
	if reason != NoReason {
		s.send(from, Message{Kind: Refused, About: h.Epoch, Serial: msg.Serial, Reason: reason, Header: r.Header, Expiry: r.Expiry})
		return
	}
	s.send(from, Message{Kind: Ack, About: h.Epoch, Serial: msg.Serial, Header: Header{Version: h.Version, Dead: h.Dead}})
}

// Tombstones.

// bury makes the record a tombstone and passes it on to all members that are
// connected (R15, C6); expired says that it has ended by itself (38).
func (s *step) bury(expired bool) {
	m := s.m
	h := Header{Epoch: m.rec.Epoch, Version: m.rec.Version, Dead: true}
	if h.Epoch.IsZero() {
		h.Epoch = Epoch{N: 1, Reign: s.env.NextReign()}
	}
	if expired {
		h.Lineage, h.Primary = m.rec.Lineage, s.self
	}
	s.inter(h, m.rec.Expiry, Member{})
}

// expire ends a session that is over. Who lost it while it stood still does not
// know of those who use it: without the leases it asks its copies first (39).
func (s *step) expire() {
	switch {
	case !s.primary():
	case s.leased():
		s.bury(true)
	default:
		for o := s.m.ops; o != nil; o = o.next {
			if o.role == ender {
				return // it is asking
			}
		}
		o := &Op{op: op{role: ender, access: s.m.rec.Expiry.Access}}
		s.add(o)
		s.fence(o)
	}
}

// adopt takes over a tombstone of which this member has learned.
func (s *step) adopt(h *Header, exp Expiry, source Member) {
	t := Header{Epoch: h.Epoch, Version: h.Version, Dead: true}
	if h.Expired() {
		t.Lineage, t.Primary = h.Lineage, h.Primary
	}
	s.inter(t, exp, source)
}

// exhume forgets a tombstone: the session goes on in another branch (38).
func (s *step) exhume() {
	m := s.m
	m.rec, m.reign = Record{}, Reign{}
	m.acks, m.sent, m.full = nil, 0, false
	s.unearth()
	s.restless = true
}

// unearth has what waits for the acknowledgements of a tombstone that is no more
// begin anew, or, if its handler has run, here or elsewhere, see what became of the
// session.
func (s *step) unearth() {
	if s.m.live != nil {
		s.m.live.unburied = nil
	}
	for o := s.m.ops; o != nil; o = o.next {
		switch {
		case o.phase != burying:
		case o.executed, o.role == forwarded: // the second has nothing to look for, nor a handler
			o.phase = unsettled
		default:
			o.phase = joined
		}
	}
}

// inter passes a tombstone on, but for the one it came from.
func (s *step) inter(h Header, exp Expiry, source Member) {
	m := s.m
	m.rec = Record{Header: h, Expiry: exp}
	m.reign = Reign{}
	s.fresh()
	l := s.unusual()
	l.unburied = nil
	for _, x := range s.env.Connected() {
		if x != source {
			l.unburied = append(l.unburied, x)
			s.send(x, Message{Kind: Update, Header: h, Expiry: exp, Full: true})
		}
	}
}

// unburied notes that x has the tombstone, or cannot be told.
func (s *step) unburied(x Member) {
	if s.m.live == nil {
		return
	}
	if k := slices.Index(s.m.live.unburied, x); k >= 0 {
		s.m.live.unburied = slices.Delete(s.m.live.unburied, k, k+1)
	}
}

// compare is C2 for one session. The message is the other's header. Of two
// records the lower yields, each side seeing to its own.
func (s *step) compare(from Member, msg *Message) {
	m := s.m
	r, h := &m.rec, &msg.Header
	if h.Held() && !h.Dead && !r.Dead {
		s.heed(msg.Expiry.Access)
	}
	switch {
	case h.Dead && h.Above(&r.Header):
		s.adopt(h, msg.Expiry, from)
	case r.Dead && h.Held() && h.Above(&r.Header):
		s.exhume()
		s.compare(from, msg)
	case r.Dead && h.Held() && !h.Dead, h.Dead && !r.Dead:
		s.introduce(from)
	case r.Dead:
	case h.Held() && msg.About == h.Epoch:
		s.hearsay(from, h)
	case h.Held() && s.searcher() != nil && s.connected(from):
		// Not part of C2, so it can wait until the role is settled.
		s.postpone(from, msg)
	case !h.Held():
		if s.primary() && r.Epoch == msg.About && r.HasCopy(from) {
			s.strike(from) // (32)
		} else if r.Primary == from && r.Epoch == msg.About {
			r.Primary = Member{} // a Grant to it was lost, or it has followed another branch
		}
	case !r.Held():
		if h.Names(s.self) {
			s.send(from, Message{Kind: Compare, About: h.Epoch})
		}
	case r.Epoch == h.Epoch:
		if k := slices.Index(r.Copies, from); k >= 0 && s.primary() {
			// What it acknowledged may have been lost with the connection.
			if s.m.acks[k] = max(s.m.acks[k], h.Version); h.Version < r.Version {
				s.resend(from)
			}
		}
	default:
		switch wins := s.weigh(h); {
		case h.rank().less(r.rank()):
			s.outrank(from, msg)
		case !wins:
			s.yieldTo(from, msg)
		}
	}
}

// heed notes that the session was used, in whatever branch (41). The copies are
// told as they are of a request that changed nothing.
func (s *step) heed(access int64) {
	m := s.m
	x := &m.rec.Expiry
	if !m.rec.Held() || access <= x.Access {
		return
	}
	x.Access = access
	if s.primary() && m.full && x.Idle > 0 && access-m.access > x.Idle/10 {
		s.push(nil, true)
	}
}

// outrank: the own record is the higher one, and the other has to know.
func (s *step) outrank(from Member, msg *Message) {
	m := s.m
	if s.primary() && s.connected(from) {
		s.place() // before anybody discards a copy there are as many as there are to be
	}
	switch {
	case s.primary() && m.rec.HasCopy(from):
		if m.full { // else it is about to be sent
			s.resend(from)
		}
	case s.primary() && m.acked() < m.rec.Version && s.connected(from):
		s.postpone(from, msg)
	default:
		s.introduce(from)
	}
}

// introduce sends the own header, and says whether it may be relied on.
func (s *step) introduce(to Member) {
	m := s.m
	s.send(to, Message{Kind: Compare, Header: m.rec.Header, Expiry: m.rec.Expiry, Now: s.primary() && m.acked() >= m.rec.Version})
}

// postpone answers a Compare that is not part of C2 when the role is settled
// and what the primary has is acknowledged.
func (s *step) postpone(from Member, msg *Message) {
	s.add(&Op{op: op{role: asker, phase: postponed, peer: from, msg: &Message{Kind: Compare, Header: msg.Header, About: msg.About}}})
}

// passOn tells the primary of the own record of h, a higher one of another
// branch: it may not have met anybody who holds that. Each epoch is passed on
// once, so that it ends.
func (s *step) passOn(from Member, h *Header) {
	m := s.m
	if !m.heard.less(h.rank()) {
		return
	}
	m.heard = h.rank()
	if p := m.rec.Primary; p != from && p != h.Primary && s.connected(p) && !h.Descends(m.rec.Epoch) {
		s.send(p, Message{Kind: Compare, Header: *h, About: h.Epoch})
	}
}

// hearsay: there is a record h somewhere, which the sender does not hold. If it
// concerns this primary, and its own can be reached, the two compare. If not,
// they are on two sides of a partition, and both go on.
func (s *step) hearsay(from Member, h *Header) {
	r := &s.m.rec
	switch {
	case !r.Held() || !r.rank().less(h.rank()):
	case !s.primary():
		s.passOn(from, h)
	case s.connected(h.Primary):
		s.introduce(h.Primary)
	}
}

// yieldTo: the other holds a record of a higher epoch. A holder that the winner
// does not name discards its record only if the winner's is acknowledged: until
// then it may be all that is left of what a cookie names. Else it steps down,
// and asks again (rest).
func (s *step) yieldTo(from Member, msg *Message) {
	m, r, h := s.m, &s.m.rec, &msg.Header
	s.passOn(from, h)
	switch {
	case h.Primary == from && h.HasCopy(s.self):
		if s.primary() {
			s.stepDown(from)
		}
		s.introduce(from) // its record follows
	case h.Primary == from && msg.Now && !s.used():
		s.conflict(h, nil, false)
		for _, c := range r.Copies { // they follow whom this member follows
			if !m.copied && c != from && s.connected(c) {
				s.send(c, Message{Kind: Compare, Header: *h, Expiry: msg.Expiry})
			}
		}
		m.rec, m.reign, m.heard, m.followed = Record{}, Reign{}, rank{}, rank{}
		m.acks, m.sent, m.full = nil, 0, false
		s.restless = true
	case h.Primary == from:
		s.stepDown(from)
	case s.primary():
		s.stepDown(h.Primary)
	case !m.followed.less(h.rank()): // each epoch once, so that it ends
	case r.Primary == from:
		m.followed = h.rank()
		s.stepDown(h.Primary) // who was taken for the primary knows a better one
	case s.connected(h.Primary):
		m.followed = h.rank()
		s.introduce(h.Primary) // it may not know of the copy here, which was left behind
	}
}

// used reports whether an op needs the record.
func (s *step) used() bool {
	for o := s.m.ops; o != nil; o = o.next {
		if o.role != taker && o.role != asker {
			return true
		}
	}
	return false
}
