package owner

import "slices"

// update stores what the primary sends, or a tombstone from anybody.
func (s *step) update(from Member, msg *Message) {
	m := s.m
	r, h := &m.rec, &msg.Header
	reason := NoReason
	switch {
	case h.Dead:
		if r.Dead {
			s.unburied(from) // it has it, too
		} else {
			s.adopt(h, msg.Expiry, from)
		}
	case r.Dead:
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
	case h.Above(&r.Header):
		if !msg.Full {
			reason = Behind
			break
		}
		s.replace(Record{Header: *h, Attrs: msg.Attrs, Expiry: msg.Expiry}, true)
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
// connected, but for the one it came from (R15, C6).
func (s *step) bury(source Member) {
	m := s.m
	e := m.rec.Epoch
	if e.IsZero() {
		e = Epoch{N: 1, Reign: s.env.NextReign()}
	}
	s.inter(Header{Epoch: e, Version: m.rec.Version, Dead: true}, m.rec.Expiry, source)
}

// adopt takes over a tombstone of which this member has learned.
func (s *step) adopt(h *Header, exp Expiry, source Member) {
	s.inter(Header{Epoch: h.Epoch, Version: h.Version, Dead: true}, exp, source)
}

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
	switch {
	case r.Dead:
		if h.Held() && !h.Dead {
			s.send(from, Message{Kind: Compare, Header: r.Header, Expiry: r.Expiry})
		}
	case h.Dead:
		s.adopt(h, msg.Expiry, from)
	case h.Held() && msg.About == h.Epoch:
		s.hearsay(from, h)
	case h.Held() && s.searcher() != nil && s.connected(from):
		// Not part of C2, so it can wait until the role is settled.
		s.add(&Op{op: op{role: asker, phase: postponed, peer: from, msg: &Message{Kind: Compare, Header: *h, About: msg.About}}})
	case !h.Held():
		if s.primary() && r.Epoch == msg.About && r.HasCopy(from) {
			s.strike(from) // (32)
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
	case h.Epoch.Less(r.Epoch):
		if s.primary() && r.HasCopy(from) {
			s.resend(from)
		} else {
			s.send(from, Message{Kind: Compare, Header: r.Header, Expiry: r.Expiry})
		}
	default:
		s.yieldTo(from, h)
	}
}

// passOn tells the primary of the own record of h, a higher one of another
// branch: it may not have met anybody who holds that. Each epoch is passed on
// once, so that it ends.
func (s *step) passOn(from Member, h *Header) (news bool) {
	m := s.m
	if !m.heard.Less(h.Epoch) {
		return false
	}
	m.heard = h.Epoch
	if p := m.rec.Primary; p != from && p != h.Primary && s.connected(p) && !h.Descends(m.rec.Epoch) {
		s.send(p, Message{Kind: Compare, Header: *h, About: h.Epoch})
	}
	return true
}

// hearsay: there is a record h somewhere, which the sender does not hold. If it
// concerns this primary, and its own can be reached, the two compare. If not,
// they are on two sides of a partition, and both go on.
func (s *step) hearsay(from Member, h *Header) {
	r := &s.m.rec
	switch {
	case !r.Held() || !r.Epoch.Less(h.Epoch):
	case !s.primary():
		s.passOn(from, h)
	case s.connected(h.Primary):
		s.send(h.Primary, Message{Kind: Compare, Header: r.Header, Expiry: r.Expiry})
	}
}

// yieldTo: the other holds a record of a higher epoch.
func (s *step) yieldTo(from Member, h *Header) {
	m, r := s.m, &s.m.rec
	news := s.passOn(from, h)
	switch {
	case h.Primary == from && h.HasCopy(s.self):
		if s.primary() {
			s.stepDown(from)
		}
		s.send(from, Message{Kind: Compare, Header: r.Header, Expiry: r.Expiry}) // its record follows
	case h.Primary == from && !s.used():
		s.conflict(h, nil, false)
		m.rec, m.reign, m.heard = Record{}, Reign{}, Epoch{}
		m.acks, m.sent, m.full = nil, 0, false
		s.restless = true
	case h.Primary == from:
		if r.Primary != from {
			s.stepDown(from)
		}
	case s.primary(), r.Primary == from && news:
		s.stepDown(h.Primary) // who was taken for the primary knows a better one
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
