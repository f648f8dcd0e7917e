package owner

import "slices"

// raise starts a new epoch in the own record. What this member's ops saw and
// did is in it, so whatever descends from it includes that.
func (s *step) raise(primary Member, copies []Member) { s.raisePast(0, primary, copies) }

// raisePast is raise with a counter above past.
func (s *step) raisePast(past uint32, primary Member, copies []Member) {
	m := s.m
	cut := m.rec.Loose && m.rec.Primary != s.self
	if m.reign == (Reign{}) || cut && m.reign == m.rec.Epoch.Reign { // it gave the session away, and has heard nothing since
		m.reign = s.env.NextReign()
	}
	m.rec.raise(m.reign, cut, past, primary, copies)
	if primary == s.self {
		m.rec.Loose = m.Loose
	}
	m.copied = false
	s.fresh()
	for o := m.ops; o != nil; o = o.next {
		for _, k := range o.marks() {
			if k.set() && !k.lost {
				*k = mark{epoch: m.rec.Epoch, version: m.rec.Version, sure: true}
			}
		}
	}
	s.restless = true
}

// marks are those of o that follow the own record. While o is forwarded they
// wait for what another member says of its record.
func (o *op) marks() []*mark {
	if o.phase == forwarding {
		return nil
	}
	return []*mark{&o.saw, &o.did}
}

// fresh notes that nothing of the present epoch has been sent or acknowledged.
func (s *step) fresh() {
	s.m.acks = make([]uint64, len(s.m.rec.Copies))
	s.m.sent, s.m.full = 0, false
	if len(s.m.rec.Copies) == 0 {
		s.m.acks = nil
	}
}

// replace puts rec, which came from outside, in the place of the own record.
func (s *step) replace(rec Record, attrs bool) {
	m := s.m
	for o := m.ops; o != nil; o = o.next {
		for _, k := range o.marks() {
			k.lost = k.lost || k.set() && !k.in(&rec.Header)
		}
	}
	s.interrupt()
	s.conflict(&rec.Header, rec.Attrs, attrs)
	if m.rec.Dead {
		s.unearth()
	}
	var tell []Member
	if !m.copied {
		for _, c := range slices.Backward(m.rec.Copies) { // they follow whom this member follows
			if c != s.self && !rec.Names(c) && s.connected(c) {
				tell = append(tell, c)
			}
		}
	}
	if p := m.rec.Primary; m.rec.Held() && p != s.self && p != rec.Primary && !rec.Descends(m.rec.Epoch) && s.connected(p) {
		tell = append(tell, p) // its copy is of another branch now
	}
	if m.rec.Held() && !m.rec.Dead { // it may have been used in the branch that was lost (41)
		rec.Expiry.Access = max(rec.Expiry.Access, m.rec.Expiry.Access)
	}
	m.rec, m.reign = rec, Reign{}
	m.copied = rec.Primary != s.self
	m.acks, m.sent, m.full = nil, 0, false
	m.heard, m.followed = rank{}, rank{}
	if m.live != nil {
		m.live.behind = false
	}
	s.restless = true
	for _, p := range tell {
		s.introduce(p)
	}
}

// conflict reports what is lost when a record of another branch takes the
// place of the own one.
func (s *step) conflict(theirs *Header, attrs Attrs, exact bool) {
	r := &s.m.rec
	if !r.Held() || r.Dead || theirs.Dead || theirs.Descends(r.Epoch) {
		return
	}
	if s.m.copied && r.Primary != theirs.Primary && s.connected(r.Primary) {
		return // the primary of this branch has all of it, and reports
	}
	c := &Conflict{Mine: r.Header, Theirs: *theirs, Exact: exact}
	for _, a := range r.Attrs {
		if v, ok := attrs.Get(a.Key); !exact || !ok || !slices.Equal(v, a.Value) {
			c.Lost = append(c.Lost, a)
		}
	}
	s.out = append(s.out, Action{Kind: Report, Conflict: c})
}

// push sends the copies what they were not sent yet: all of a new epoch, else
// ch if that made a new version. If fresh, something is sent in any case.
func (s *step) push(ch Changes, fresh bool) {
	m := s.m
	r := &m.rec
	if len(r.Copies) == 0 {
		m.sent, m.full, m.access = r.Version, true, r.Expiry.Access
		return
	}
	msg := Message{Kind: Update, Header: Header{Epoch: r.Epoch, Version: r.Version, Start: r.Start}, Expiry: r.Expiry}
	switch {
	case !m.full:
		msg.Header, msg.Attrs, msg.Full, msg.NewCopy = r.Header, r.Attrs, true, true
	case m.sent < r.Version:
		msg.Base, msg.Changes = m.sent, ch
	case fresh:
		msg.Base = r.Version
	default:
		return
	}
	m.serial++
	msg.Serial = m.serial
	m.sent, m.full, m.access = r.Version, true, r.Expiry.Access
	for _, c := range r.Copies {
		s.send(c, msg)
	}
}

// candidates fills keep up to the wanted number of copies with the best-ranked
// members that are connected, but for not and those that were struck.
func (s *step) candidates(keep []Member, not Member) []Member {
	if len(keep) >= s.m.want() {
		return keep
	}
	keep = slices.Clip(keep)
	for _, c := range s.env.Candidates() {
		if c == not || c == s.self || slices.Contains(keep, c) || s.m.live != nil && slices.Contains(s.m.live.avoid, c) || !s.connected(c) {
			continue
		}
		if keep = append(keep, c); len(keep) == s.m.want() {
			break
		}
	}
	return keep
}

// place adds the copies that are missing, if there is anybody to hold them.
func (s *step) place() {
	r := &s.m.rec
	if len(r.Copies) >= s.m.want() {
		return
	}
	if c := s.candidates(r.Copies, Member{}); len(c) > len(r.Copies) {
		s.raise(s.self, c)
	}
}

// weigh looks at the record h of another branch and reports whether the own one
// is to win although h is higher: because more was changed in it (35). Then the
// primary begins an epoch, so that what was changed counts, and so does the
// first in line if the primary is gone. Any other holder leaves it to them.
//
// The winner's counter goes above that of the loser, so that a cookie of the
// loser's is answered flagged: a higher one that nobody knows is a lost session.
func (s *step) weigh(h *Header) bool {
	r := &s.m.rec
	if !r.Forked(h) {
		return false
	}
	p := r.Primary
	switch below := r.rank().less(h.rank()); {
	case below && r.Version <= h.Version:
		return false
	case s.primary():
		if below || r.Epoch.N <= h.Epoch.N {
			s.raisePast(h.Epoch.N, s.self, r.Copies)
		}
	case !below:
	case !p.IsZero() && s.env.Peer(p)&Gone == 0:
		s.passOn(Member{}, h)
	case s.firstInLine():
		s.raisePast(h.Epoch.N, s.self, s.candidates(s.reachable(p), p))
	}
	return true
}

// firstInLine reports whether this member is the first of the copies that it
// can reach.
func (s *step) firstInLine() bool {
	k := slices.IndexFunc(s.m.rec.Copies, func(c Member) bool { return c == s.self || s.connected(c) })
	return k >= 0 && s.m.rec.Copies[k] == s.self
}

// reachable are the copies, without this member and not, that are connected.
func (s *step) reachable(not Member) (keep []Member) {
	for _, c := range s.m.rec.Copies {
		if c != s.self && c != not && s.connected(c) {
			keep = append(keep, c)
		}
	}
	return keep
}

// strike is R13: x is a copy no more; the next candidate takes its place.
func (s *step) strike(x Member) {
	if s.connected(x) {
		s.unusual().avoid = append(s.unusual().avoid, x)
	}
	var keep []Member
	for _, c := range s.m.rec.Copies {
		if c != x {
			keep = append(keep, c)
		}
	}
	s.raise(s.self, s.candidates(keep, x))
	for o := s.m.ops; o != nil; o = o.next {
		if o.waitsFor(x) {
			o.phase = unsettled
		}
	}
}

// replaceCopy is R13 without a request: the copy on x is lost, and somebody else
// can take its place. If nobody can there is nothing to be gained, and a member
// that is cut off from all others does not outbid them.
func (s *step) replaceCopy(x Member) {
	m := s.m
	if !s.primary() || !m.rec.HasCopy(x) {
		return
	}
	if c := s.candidates(m.rec.Copies[:0:0], x); len(c) > 0 {
		s.strike(x)
	}
}

// relocate has another member hold the copy that x holds. What x has stays there
// until the new copy is acknowledged: it is told of the new pair at once, asks
// when it sees that it is not in it, and is answered then (postpone).
func (s *step) relocate(x Member) {
	m := s.m
	if !s.primary() || !m.rec.HasCopy(x) {
		return
	}
	var keep []Member
	for _, c := range m.rec.Copies {
		if c != x {
			keep = append(keep, c)
		}
	}
	if len(s.candidates(keep, x)) == len(keep) {
		return
	}
	s.strike(x)
	if s.connected(x) {
		s.introduce(x)
	}
}

// away is R13 for a copy that cannot be reached.
func (s *step) away(x Member) {
	if s.connected(x) || s.returning(x) {
		return
	}
	struck := false
	for o := s.m.ops; o != nil; o = o.next {
		if o.waitsFor(x) {
			struck, o.phase = true, unsettled
		}
	}
	if struck && s.primary() && s.m.rec.HasCopy(x) {
		s.strike(x)
	}
}

// waitsFor reports whether x has to acknowledge what o flushes.
func (o *op) waitsFor(x Member) bool {
	if o.phase != flushing && o.phase != fencing {
		return false
	}
	for k, c := range o.from.Copies {
		if c == x && o.pending&(1<<k) != 0 {
			return true
		}
	}
	return false
}

func (s *step) ack(from Member, msg *Message) {
	m := s.m
	if m.rec.Dead {
		if msg.Header.Dead {
			s.unburied(from)
		}
		return
	}
	if m.rec.Epoch == msg.About && s.primary() {
		if k := slices.Index(m.rec.Copies, from); k >= 0 && m.acks[k] < msg.Header.Version {
			m.acks[k] = msg.Header.Version
		}
	}
	for o := m.ops; o != nil; o = o.next {
		if m.rec.Epoch == msg.About && s.primary() {
			for _, k := range o.marks() {
				k.sure = k.sure || k.epoch == msg.About && k.version <= m.acked()
			}
			o.safe = o.safe || o.phase == running && o.from.Epoch == msg.About && o.saw.epoch == msg.About && o.saw.sure
		}
		switch {
		case o.phase != flushing && o.phase != fencing, o.from.Epoch != msg.About,
			msg.Header.Version < o.from.Version, int32(msg.Serial-o.serial) < 0:
		default:
			if k := slices.Index(o.from.Copies, from); k >= 0 {
				o.pending &^= 1 << k
			}
			if o.pending == 0 {
				o.phase = settled
			}
		}
	}
}

func (s *step) refused(from Member, msg *Message) {
	m := s.m
	h := &msg.Header
	switch {
	case h.Dead && h.Above(&m.rec.Header):
		s.adopt(h, msg.Expiry, from)
		return
	case m.rec.Dead:
		if h.Held() && h.Above(&m.rec.Header) {
			s.exhume()
		}
		return
	case msg.Reason == Behind && s.primary() && m.rec.Epoch == msg.About:
		s.resend(from)
		return
	case msg.Reason == Higher && s.primary() && h.Above(&m.rec.Header):
		if !s.weigh(h) {
			s.stepDown(h.Primary)
		}
	case (msg.Reason == Nothing || msg.Reason == NoRoom) && s.primary() && m.rec.Epoch == msg.About && m.rec.HasCopy(from):
		s.strike(from)
	}
	for o := m.ops; o != nil; o = o.next {
		if o.from.Epoch == msg.About && o.waitsFor(from) {
			o.phase = unsettled
		}
	}
}

// resend sends one copy all of the present epoch.
func (s *step) resend(to Member) {
	r := &s.m.rec
	s.m.serial++
	s.send(to, Message{Kind: Update, Header: r.Header, Attrs: r.Attrs, Expiry: r.Expiry, Full: true, Serial: s.m.serial})
}

// remind sends x what it has not acknowledged: it may have been on a connection
// that broke, and x holds another branch and leaves it to that one's primary to
// say so (weigh).
func (s *step) remind(x Member) {
	m := s.m
	if k := slices.Index(m.rec.Copies, x); k >= 0 && m.full && m.acks[k] < m.rec.Version {
		s.resend(x)
	}
}

// stepDown gives the role up in favour of p, or of nobody known.
func (s *step) stepDown(p Member) {
	if p == s.self {
		p = Member{}
	}
	s.m.rec.Primary = p
	s.unusual().behind = true
	s.restless = true
}

func (s *step) peerDown(x Member) {
	m := s.m
	s.restless = true
	s.unburied(x)
	s.read(x, Tag{})
	var search *Op
	for o := m.ops; o != nil; {
		next := o.next
		switch {
		case (o.role == taker || o.role == asker || o.role == forwarded) && o.peer == x:
			s.remove(o) // nobody hears the answer
		case o.phase == forwarding && o.peer == x:
			s.fail(o)
		case o.phase == probing && o.search.target == x:
			o.phase = yielding // the question is lost
		case o.phase == taking && o.search.target == x, o.phase == asking && o.search.silent(x):
			search = o
		}
		o = next
	}
	s.away(x)
	switch {
	case search == nil:
	case search.phase == taking:
		s.inquire(search)
	case len(search.search.waiting) == 0:
		s.decide(search)
	}
}
