package main

// Time is a number of ticks, each longer than any answer takes (C4). A member
// reads its own clock, which may be ahead of the others', and may stand still
// while a tick passes.

const (
	start = 8 // the tick with which everything begins
	grace = 1 // how much longer a copy takes a session for alive than its primary
)

func (w *world) clock(m member) uint8 { return w.s.Now + w.s.Off[name(m)] }

// shift is r, which from holds, as it gets to to: every member keeps the times of
// a session by its own clock.
func (w *world) shift(r Rec, from, to member) Rec {
	if r.Has == 0 || !opt.Relative {
		return r
	}
	d := w.s.Off[name(to)] - w.s.Off[name(from)]
	if opt.Idle > 0 {
		r.Acc += d
	}
	if r.End != 0 {
		r.End += d
	}
	return r
}

// over reports whether m finds the session over: as its primary or as who is to
// serve it, or as one that holds a copy.
func (w *world) over(m member, isCopy bool) bool {
	r := w.rec(m)
	if r.Has == 0 || r.Dead != 0 {
		return false
	}
	more := int8(0)
	if isCopy {
		more = grace
	}
	return opt.Idle > 0 && int8(w.clock(m)-r.Acc) >= opt.Idle+more || r.End != 0 && int8(w.clock(m)-r.End) >= more
}

// access notes that a request has come to m, the primary.
func (w *world) access(m member) {
	if r := w.rec(m); opt.Idle > 0 && int8(w.clock(m)-r.Acc) > 0 {
		r.Acc = w.clock(m)
	}
}

// later notes in r an access of which o knows; both by one clock.
func later(r, o *Rec) {
	if opt.Idle > 0 && r.Has == 1 && o.Has == 1 && r.Dead == 0 && o.Dead == 0 && int8(o.Acc-r.Acc) > 0 {
		r.Acc = o.Acc
	}
}

// tellAccess tells the copies of an access that has changed nothing. Nobody waits
// for it.
func (w *world) tellAccess(m member) {
	if n := &w.s.Nodes[name(m)]; opt.Access && opt.Idle > 0 && n.R.Acc != n.AccSent && n.R.Copies != 0 {
		w.push(m, noOp, 0, 0)
	}
}

// unsent: m does not arrive. What nobody waits for is lost with it.
func (w *world) unsent(m *Msg) {
	if opt.Idle > 0 && m.T == mPut && m.Op == noOp {
		w.s.Lag = 1
	}
}

// unused is how many ticks ago at was.
func (w *world) unused(at uint8) int8 { return int8(w.s.Now - at) }

// idles reports whether only that nobody uses it could end the session by itself,
// and all who hold it had to know of each access that was acknowledged: a member
// whose clock stands still tells of none.
func (w *world) idles() bool {
	return opt.Idle > 0 && w.s.Lag == 0 && w.s.Stood == 0 && (opt.Life == 0 || w.unused(start) < opt.Life)
}

// early checks an answer to op i that says that the session is over by itself, or
// not there.
func (w *world) early(i int) {
	if o := &w.s.Ops[i]; w.idles() && w.unused(o.SeenAt) < opt.Idle {
		w.bad("a session ended by itself that was in use %d ticks ago", w.unused(o.SeenAt))
	}
}

// mourn checks that a session of which only the tombstone is left, after the heal,
// was in use no more.
func (w *world) mourn() {
	if at := max(w.s.SeenAt, w.s.OldAt); w.idles() && (w.s.Died == 0 || w.s.Fault == 0 && w.s.Gone == 0) && w.s.Inv == 0 && w.unused(at) < opt.Idle {
		w.bad("after heal: a session ended by itself that was in use %d ticks ago", w.unused(at))
	}
}

// outdated checks that "it is over" was not said by a primary over which a copy had
// promoted, where the session goes on.
func (w *world) outdated(i int) {
	m := w.s.Ops[i].At
	r := w.rec(m)
	for n := range uint8(opt.Names) {
		x := &w.s.Nodes[n].R
		if r.Dead == ended && r.Copies&(1<<n) != 0 && w.s.Stood == 0 && w.s.Nodes[n].Up == 1 && x.Has == 1 && x.Dead == 0 &&
			x.N > r.N && includes(x, r.N, r.Lin[r.N]) && !w.over(w.s.now(n), false) {
			w.bad("%s says that the session is over, and its secondary %s had promoted over it", mname(m), mname(n))
		}
	}
}

// syncTomb: i and j, of which one has a tombstone, tell each other.
func (w *world) syncTomb(i, j member) bool {
	if newer(w.rec(j), w.rec(i)) {
		i, j = j, i
	}
	a, b, n := w.rec(i), w.rec(j), &w.s.Nodes[name(j)]
	switch {
	case a.Dead == 0: // it has gone on elsewhere
		*b, n.AckV, n.Reign = Rec{}, 0, 0
	case a.Dead == ended && b.Has == 0:
		return false
	default:
		*b, n.AckV, n.Reign = w.shift(*a, i, j), 1, 0
		w.flood()
	}
	return true
}

// ticks are what happens by itself, as time passes.
func ticks(s *State, sc *scope, try func(class, string, func(*world))) {
	w0 := &world{s: *s}
	for n := range uint8(sc.Names) {
		m := s.now(n)
		r := &s.Nodes[n].R
		if s.Nodes[n].Up == 0 || r.Has == 0 || w0.busy(m) {
			continue
		}
		switch {
		case r.Dead != 0:
			if k := w0.keeps(m); !k {
				try(cTime, label("%s forgets the tombstone", mname(m)), func(w *world) {
					w.s.Over = 1
					w.note(aForgetting)
					w.s.Nodes[n] = w.s.Nodes[n].without()
				})
			}
		case r.Prim == m && w0.over(m, false):
			if i := s.idle(); i >= 0 {
				try(cTime, label("%s finds the session over", mname(m)), func(w *world) {
					w.s.Ops[i] = Op{Kind: kEnd, At: m, C: Cookie{r.N, r.Lin[r.N], n, nobody}}
					if opt.EndLease {
						w.arrive(i)
					} else {
						w.bury(i, ended)
					}
				})
			}
		case r.Prim != m && w0.over(m, true):
			try(cTime, label("%s finds its copy over", mname(m)), func(w *world) {
				w.s.Over = 1
				w.note(aForgetting)
				w.s.Nodes[n] = w.s.Nodes[n].without()
			})
		}
	}
	for i := range s.Ops {
		if s.Ops[i].Ph != pIdle && s.Ops[i].Ph != pExec {
			return
		}
	}
	if s.Ticks == 0 || s.NM > 0 {
		return
	}
	try(cTime, "a tick passes", func(w *world) {
		w.s.Now, w.s.Ticks = s.Now+1, s.Ticks-1
		w.note(aTick)
	})
	for n := range uint8(sc.Names) {
		if s.Slow > 0 {
			try(cTime, label("a tick passes, but for the clock of %s", mname(n)), func(w *world) {
				w.s.Now, w.s.Ticks, w.s.Slow = s.Now+1, s.Ticks-1, s.Slow-1
				w.s.Off[n]--
				w.s.Stood++
				w.note(aTick)
				w.note(aStop)
			})
		}
	}
}

// keeps reports whether m keeps its tombstone: there may still be a copy, which
// is good until the session's end by a clock that is a bit late.
func (w *world) keeps(m member) bool {
	r := w.rec(m)
	if r.End == 0 {
		return true
	}
	left := int8(r.End - w.clock(m))
	if opt.Keep {
		return left > -grace
	}
	return left > 1
}

// without is n as it is when it has forgotten the session.
func (n Node) without() Node {
	return Node{Up: n.Up, Boot: n.Boot, Drain: n.Drain, Seq: n.Seq, Ban: n.Ban}
}
