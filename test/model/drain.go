package main

// drains are the steps of members that leave (SESS-39, R16): whoever holds a copy
// takes the session over, whoever has a copy there moves it, and the member leaves
// once nothing is left there.
func drains(s *State, sc *scope, try func(class, string, func(*world))) {
	w0 := &world{s: *s}
	idle, others := s.idle(), uint8(0)
	for n := range uint8(sc.Names) {
		others += s.Nodes[n].Up * (1 - s.Nodes[n].Drain)
	}
	for n := range uint8(sc.Names) {
		m := s.now(n)
		switch {
		case s.Nodes[n].Up == 0:
			continue
		case s.Nodes[n].Drain == 0:
			if s.Drains > 0 && others > 1 {
				try(cFault, label("%s drains", mname(m)), func(w *world) {
					w.s.Drains--
					w.note(aDrain)
					w.s.Nodes[n].Drain = 1
				})
			}
			continue
		}
		for k := range uint8(sc.Names) {
			x := s.now(k)
			r := &s.Nodes[k].R
			if k == n || idle < 0 || !s.reach(m, x) || s.Nodes[k].Drain == 1 || r.Has == 0 || r.Dead != 0 || w0.busy(x) {
				continue
			}
			c := Cookie{r.N, r.Lin[r.N], n, nobody}
			switch {
			case r.Prim == m:
				try(cBackground, label("%s takes over from %s, which drains", mname(x), mname(m)), func(w *world) {
					w.s.Ops[idle] = Op{Kind: kTake, At: x, C: c}
					w.arrive(idle)
				})
			case r.Prim == x && r.Copies&(1<<n) != 0 && w0.candidate(x, nobody) != 0:
				try(cBackground, label("%s moves its copy from %s, which drains", mname(x), mname(m)), func(w *world) {
					w.s.Ops[idle] = Op{Kind: kMove, At: x, Bit: 1 << n, C: c}
					w.arrive(idle)
				})
			}
		}
		r := &s.Nodes[n].R
		primary := r.Has == 1 && r.Dead == 0 && r.Prim == m
		holds := r.Has == 1 && r.Dead == 0
		stuck := !primary && holds && int(others) <= opt.Want && s.reach(m, r.Prim) && s.quiet(m) // its primary counts on it, and goes on alone
		if stuck {
			p := w0.rec(r.Prim)
			stuck = sameEpoch(p, r) && p.Copies&(1<<n) != 0 && s.Nodes[name(r.Prim)].Drain == 0 && w0.candidate(r.Prim, nobody) == 0 && s.Nodes[name(r.Prim)].AckV >= p.Ver
		}
		if !w0.busy(m) && (!holds || stuck || !opt.Left && !primary) {
			try(cFault, label("%s leaves", mname(m)), func(w *world) { w.leave(n, int(others)) })
		}
	}
}

// quiet reports whether nothing is on its way to or from m.
func (s *State) quiet(m member) bool {
	for k := range s.NM {
		if p := &s.Msgs[k]; p.From == m || p.To == m {
			return false
		}
	}
	return true
}

// leave: member n, which has drained, is gone; others are left that do not drain.
func (w *world) leave(n uint8, others int) {
	m, before := w.s.now(n), w.holders(w.s.Acked)
	w.note(aLeave)
	if r := w.rec(m); r.Has == 1 && r.Dead == 0 {
		w.s.Stuck = 1
	}
	buried := w.s.tomb() != 0
	w.departs(n)
	kept := w.holds(w.s.Acked)
	if !kept {
		w.s.Gone = 1
	}
	if w.s.Fault == 1 || w.s.Died > 0 || w.s.Inv == 1 || buried || w.s.Over == 1 {
		return
	}
	if !kept {
		w.bad("with %s went what was acknowledged", mname(m))
	}
	if k := w.holders(w.s.Acked); k < before && k < min(1+opt.Want, others) && w.s.Jar.Sec != nobody && opt.Loose == 0 {
		w.bad("after %s left only %d of %d hold what was acknowledged", mname(m), k, others)
	}
}

// departs takes the present boot of n away.
func (w *world) departs(n uint8) {
	m := w.s.now(n)
	w.s.Nodes[n] = Node{Boot: w.s.Nodes[n].Boot}
	w.s.Knew &^= 1 << n
	w.s.Pair &^= 1 << n
	w.s.Lease[n] = 0
	for i := range w.s.Ops {
		w.s.Ops[i].InvBefore &^= 1 << n
		if w.s.Ops[i].Ph != pIdle && w.s.Ops[i].Ph != pRetry && w.s.Ops[i].At == m {
			w.fail(i)
		}
	}
}

// mourned checks what is left after a death, before which all was as in s.
func (w *world) mourned(s *State) {
	if w.holds(w.s.Acked) {
		return
	}
	w.s.Gone = 1
	if w.s.Fault == 1 || w.s.Inv == 1 || w.s.tomb() != 0 || w.s.Over == 1 || opt.Loose == 1 {
		return
	}
	if w.s.Died == 1 && s.Stuck == 0 && s.Jar.Sec != nobody {
		w.bad("one death has lost what was acknowledged by two")
	}
	if best := w.best(); s.Gone == 0 && w.s.Pair != 0 && best != nil && best.N == w.s.AckE.N && best.Lin[best.N] == w.s.AckE.Boot {
		w.bad("what was acknowledged is lost, although one of those that the cookie names has lived all the time")
	}
}

// best is the highest record of a living member, nil if there is none.
func (w *world) best() (best *Rec) {
	for n := range uint8(opt.Names) {
		if r := &w.s.Nodes[n].R; w.s.Nodes[n].Up == 1 && r.Has == 1 && (best == nil || newer(r, best)) {
			best = r
		}
	}
	return best
}

// holders is how many living members hold all of data.
func (w *world) holders(data uint8) (n int) {
	for k := range uint8(opt.Names) {
		if r := &w.s.Nodes[k].R; w.s.Nodes[k].Up == 1 && r.Has == 1 && r.Dead == 0 && data&^r.Data == 0 && includes(r, w.s.AckE.N, w.s.AckE.Boot) {
			n++
		}
	}
	return n
}
