package owner

// arrive is R1 to R4: where a request, or whatever acts like one, begins, and
// begins anew.
func (s *step) arrive(o *Op) {
	r := &s.m.rec
	switch {
	case r.closes(o.cookie):
		s.dead(o)
		return
	case s.primary() && r.Descends(o.cookie) && s.leased():
		s.run(o)
		return
	case s.searcher() != nil && s.searcher() != o:
		o.phase = joined
		return
	}
	if o.tries++; o.tries > maxTries {
		s.fail(o)
		return
	}
	if s.primary() {
		if r.Descends(o.cookie) {
			s.fence(o)
		} else {
			s.inquire(o)
		}
		return
	}
	p := o.peer
	if !r.Primary.IsZero() && r.Descends(o.cookie) {
		p = r.Primary
	}
	if p.Name == s.self.Name || !s.connected(p) {
		s.inquire(o)
		return
	}
	if o.role == recovery && p != o.peer {
		s.owned(o, p)
		return
	}
	s.take(o, p, NoClaim, Member{})
}

// owned ends a recovery: somebody is the primary p. What this member holds may be
// a copy that was left behind; then p says so.
func (s *step) owned(o *Op, p Member) {
	s.introduce(p)
	s.end(o, Result{Outcome: NotExecuted, Elsewhere: p})
}

// leased reports whether this primary may rely on all its copies (C3).
func (s *step) leased() bool {
	for _, c := range s.m.rec.Copies {
		if s.env.Peer(c)&Leased == 0 {
			return false
		}
	}
	return true
}

// run: this member is the primary and nobody else can be (R2).
func (s *step) run(o *Op) {
	s.endSearch(o)
	r := &s.m.rec
	r.Expiry.Access = max(r.Expiry.Access, o.access)
	s.see(o)
	if o.role == recovery {
		s.finish(o)
		return
	}
	o.phase, o.executed = running, true
	s.out = append(s.out, Action{Kind: Handle, Op: o, Result: Result{
		Outcome: Served, Header: r.Header, Attrs: r.Attrs, Expiry: r.Expiry, Flagged: o.flagged, Executed: true,
	}})
}

// mark is the present record.
func (s *step) mark() mark {
	r := &s.m.rec
	return mark{epoch: r.Epoch, version: r.Version, sure: s.m.acked() >= r.Version}
}

// see notes that o works on the present record.
func (s *step) see(o *Op) {
	o.saw, o.view = s.mark(), s.m.rec.Attrs
	o.from, o.safe = s.m.rec.Header, o.saw.sure
}

func (s *step) create(o *Op, ev *Event) {
	m := s.m
	s.add(o)
	o.phase, o.executed = running, true
	m.rec = Record{Header: Header{Epoch: Epoch{N: 1, Reign: s.env.NextReign()}, Primary: s.self, Version: 1, Loose: s.m.Loose}, Expiry: ev.Expiry}
	m.reign = m.rec.Epoch.Reign
	m.rec.Attrs = m.rec.Attrs.apply(ev.Changes)
	m.rec.Copies = s.candidates(nil, Member{})
	s.fresh()
	s.see(o)
}

// finish is R9, R10, R12: the handler has returned, or wants what it did so
// far to be safe.
func (s *step) finish(o *Op) {
	r := &s.m.rec
	switch {
	case o.bury && (!r.Dead || r.Expired()):
		s.bury(false)
		s.dead(o)
		return
	case r.Dead:
		s.dead(o)
		return
	case s.primary():
		r.Expiry.Access = max(r.Expiry.Access, o.access)
		if o.idle == r.Expiry.Idle || o.idle < 0 && r.Expiry.Idle == 0 {
			o.idle = 0
		}
		switch {
		case o.alters():
			if !s.apply(o) {
				return
			}
		case o.saw.lost && o.safe:
			s.reply(o)
			return
		case o.saw.lost:
			s.fail(o) // it has seen what is no more
			return
		case r.Expiry.Idle > 0 && r.Expiry.Access-s.m.access > r.Expiry.Idle/10:
			s.push(nil, true)
		}
		s.complete(o)
	case !o.alters() && o.safe:
		s.reply(o)
	default:
		s.forward(o)
	}
}

// apply does o's changes to the record. They go to the copies with the next
// push, which is due in the same step. Changes that come late do not replace
// what others have made of the same keys since (34): then all of o fails, for
// half of a request's changes may be worse than none.
func (s *step) apply(o *Op) bool {
	r := &s.m.rec
	if o.late {
		if o.role != forwarded {
			o.bases = o.view.bases(o.changes)
		}
		switch {
		case r.Attrs.late(o.changes, o.bases):
			s.tooLate(o)
			return false
		case o.idle == 0 && r.Attrs.hasAll(o.changes):
			o.did = s.mark() // it is done already: no new version, which would count as a change
			return true
		}
	}
	attrs := r.Attrs.apply(o.changes)
	if n := attrs.size(); s.m.MaxBytes > 0 && n > int(s.m.MaxBytes) && n > r.Attrs.size() {
		s.fail(o)
		return false
	}
	r.Attrs = attrs
	if o.idle != 0 {
		r.Expiry.Idle = max(o.idle, 0)
	}
	r.Version++
	o.did = s.mark()
	o.did.sure = false
	return true
}

// tooLate ends o, of whose changes nothing is done.
func (s *step) tooLate(o *Op) {
	c := &Conflict{Theirs: s.m.rec.Header, Late: true, Exact: true}
	for _, x := range o.changes {
		if !s.m.rec.Attrs.has(x) {
			c.Lost = append(c.Lost, Attr{x.Key, x.Value})
		}
	}
	s.out = append(s.out, Action{Kind: Report, Conflict: c})
	s.fail(o)
}

// interrupt notes that what runs here may be late from now on.
func (s *step) interrupt() {
	for o := s.m.ops; o != nil; o = o.next {
		o.late = o.late || o.executed
	}
}

// complete has what o saw and did acknowledged, then replies (R11, R12). If
// copies are missing they are found first.
func (s *step) complete(o *Op) {
	s.place()
	o.phase = flushing
	s.await(o, false)
}

// fence has the unchanged record acknowledged, because a lease is over (R3).
// What ran meanwhile may have stood still, and its client have gone on.
func (s *step) fence(o *Op) {
	s.interrupt()
	o.phase = fencing
	s.await(o, true)
}

// await sends what was not sent yet and lets o wait for it. If fresh, what was
// acknowledged before does not count.
func (s *step) await(o *Op, fresh bool) {
	m := s.m
	r := &m.rec
	o.pending, o.serial, o.safe = 0, 0, false
	if v := s.target(o); !fresh && m.acked() >= v {
		s.push(nil, false)
		o.from, o.phase = r.Header, settled
		o.from.Version = v
		return
	}
	for k := 0; k < len(r.Copies); {
		if c := r.Copies[k]; s.connected(c) || s.returning(c) {
			k++
		} else {
			s.strike(c)
			k = 0
		}
	}
	s.push(o.changes, fresh)
	o.from = r.Header
	o.from.Version = s.target(o)
	if fresh {
		o.serial = m.serial
	}
	waits := !o.loose || !r.Loose || o.phase != flushing
	for k := range r.Copies {
		if waits && (fresh || m.acks[k] < o.from.Version) {
			o.pending |= 1 << k
		}
	}
	if o.pending == 0 {
		o.phase = settled
	}
}

// target is the version that o waits for: the one it has seen or made, if that
// is of the present epoch.
func (s *step) target(o *Op) uint64 {
	if k := o.end(); o.phase == flushing && k.epoch == s.m.rec.Epoch {
		return k.version
	}
	return s.m.rec.Version
}

// flushed: all copies have acknowledged what o waited for (R11).
func (s *step) flushed(o *Op) {
	r := &s.m.rec
	fenced := s.primary() && o.from.Epoch == r.Epoch
	switch {
	case o.role == taker:
		s.yield(o, fenced)
	case o.role == ender:
		s.remove(o)
		if fenced && r.Expiry.Access == o.access {
			s.bury(true)
		}
	case !o.executed && o.role == request:
		if fenced && r.Descends(o.cookie) {
			s.run(o)
		} else {
			s.arrive(o)
		}
	case o.role == forwarded && !o.executed:
		s.carry(o, fenced)
	case !o.end().lost:
		s.reply(o)
	case s.primary() && o.alters() && o.tries < maxTries:
		o.tries++
		if s.apply(o) {
			s.complete(o)
		}
	default:
		s.overtaken(o)
	}
}

// again: a copy of o's flush is gone, or does not take it. Flush what there is
// now.
func (s *step) again(o *Op) {
	switch {
	case !s.primary():
		s.overtaken(o)
	case !o.executed && o.role != recovery:
		s.fence(o)
	case o.alters() && (o.did.lost || !o.did.set()):
		if s.apply(o) {
			s.complete(o)
		}
	case o.end().lost:
		s.fail(o)
	default:
		s.complete(o)
	}
}

// overtaken: o was flushing, and this member is not the primary any more.
func (s *step) overtaken(o *Op) {
	switch {
	case s.m.rec.Dead:
		s.dead(o)
	case o.role == taker:
		s.yield(o, false)
	case o.role == ender:
		s.remove(o)
	case o.role == forwarded:
		s.send(o.peer, Message{Kind: Forwarded, Tag: o.msg.Tag, Reason: NotPrimary, Header: s.m.rec.Header})
		s.remove(o)
	case !o.executed:
		s.arrive(o)
	default:
		s.forward(o)
	}
}

// Ends of an op.

// reply: what o saw and did is acknowledged under o.from.
func (s *step) reply(o *Op) {
	o.flagged = o.flagged || o.did.set() && o.saw.lost || !o.from.Descends(o.cookie)
	if o.role == forwarded {
		s.send(o.peer, Message{Kind: Forwarded, Tag: o.msg.Tag, Header: o.from})
		s.remove(o)
		return
	}
	s.end(o, Result{Outcome: Served, Header: o.from, Flagged: o.flagged})
}

// dead: the session was invalidated. The answer waits until all that are
// connected know it (R1).
func (s *step) dead(o *Op) {
	if s.m.live != nil && len(s.m.live.unburied) > 0 && o.role != taker && o.role != asker && o.role != ender {
		s.endSearch(o)
		o.phase = burying
		return
	}
	switch o.role {
	case taker:
		s.send(o.peer, Message{Kind: No, Tag: o.msg.Tag, Header: s.m.rec.Header})
		s.remove(o)
	case asker:
		s.tell(o.peer, o.msg.Tag, false)
		s.remove(o)
	case forwarded:
		s.send(o.peer, Message{Kind: Forwarded, Tag: o.msg.Tag, Reason: Invalidated, Header: s.m.rec.Header})
		s.remove(o)
	case ender:
		s.remove(o)
	case request, recovery:
		res := Result{Outcome: Ended, Header: s.m.rec.Header}
		if o.flagged && !o.executed && res.Header.Expired() {
			res = Result{Outcome: Lost} // what has ended is another branch than the client's
		}
		s.end(o, res)
	}
}

// fail: an error; whether the handler has run is said.
func (s *step) fail(o *Op) {
	switch o.role {
	case taker:
		s.send(o.peer, Message{Kind: No, Tag: o.msg.Tag, Header: s.m.rec.Header})
		s.remove(o)
	case forwarded:
		s.send(o.peer, Message{Kind: Forwarded, Tag: o.msg.Tag, Reason: NotPrimary, Header: s.m.rec.Header})
		s.remove(o)
	case ender:
		s.remove(o)
	case request, recovery, asker:
		s.end(o, Result{Outcome: Failed, Header: s.m.rec.Header})
	}
}

func (s *step) end(o *Op, res Result) {
	res.Executed = o.executed
	partial := o.partial && o.executed && res.Outcome != Lost
	s.refresh(o)
	s.remove(o)
	if partial {
		o.phase, o.partial = running, false
		o.flagged = o.flagged || res.Flagged // what the handler saw is still no more
		if res.Outcome == Served {
			o.saw, o.safe, o.view = *o.end(), true, o.view.apply(o.changes)
		}
		o.did, o.changes, o.idle = mark{}, nil, 0
		s.add(o)
	}
	s.out = append(s.out, Action{Kind: Reply, Op: o, Result: res})
}
