package main

import (
	"fmt"
	"slices"
)

// scope bounds an exploration.
type scope struct {
	Name                                  string
	Names                                 int
	Kinds                                 []uint8
	Cli, Bg, Deaths, Restarts, Cuts, Tmos int
	Conc                                  int // client requests at a time
	OldTab                                bool
	Asym                                  bool
	NoCopy                                bool // start with secondary NONE
	Sync                                  bool
	Want                                  int // secondaries; 0 means one
	Plain                                 bool
	Loose                                 int // 1: replies do not wait
	Idle, Life                            int8
	Ticks, Slow                           int // ticks that pass, and how often a clock stands still for one
	Skew                                  [4]uint8
	Drains                                int
}

func initial(sc scope) State {
	var s State
	for n := range sc.Names {
		s.Nodes[n].Up = 1
	}
	opt.Want, opt.Loose, opt.Idle, opt.Life, opt.Plain = max(1, sc.Want), sc.Loose, sc.Idle, sc.Life, sc.Plain
	s.Now, s.Off = start, sc.Skew
	r := Rec{Has: 1, N: 1, Prim: 0, Copies: 1<<(opt.Want+1) - 2, Ver: 1, Data: 1, Loose: uint8(sc.Loose), Acc: start + sc.Skew[0]}
	if sc.Life > 0 {
		r.End = start + uint8(sc.Life) + sc.Skew[0]
	}
	s.Nodes[0].R, s.Nodes[0].AckV, s.Nodes[0].Sent, s.Nodes[0].AccSent = r, 1, 1, r.Acc
	s.Lease[0] = r.Copies
	s.Jar = Cookie{1, 0, 0, 1}
	s.AckE = s.Jar
	if sc.NoCopy {
		r.Copies, s.Nodes[0].R.Copies, s.Jar.Sec = 0, 0, nobody
	} else {
		for n := 1; n <= opt.Want; n++ {
			s.Nodes[n].R = (&world{s: s}).shift(r, 0, uint8(n))
		}
	}
	if opt.Majority {
		s.Lease[0] = 1<<sc.Names - 2
	}
	s.Old, s.OldS = s.Jar, 1
	s.Seen, s.Acked = 1, 1
	s.SeenAt, s.OldAt = start, start
	s.Pair = r.Copies | 1
	s.Ticks, s.Slow, s.Drains = uint8(sc.Ticks), uint8(sc.Slow), uint8(sc.Drains)
	s.Deaths, s.Restarts, s.Cuts, s.Tmos = uint8(sc.Deaths), uint8(sc.Restarts), uint8(sc.Cuts), uint8(sc.Tmos)
	s.Bg, s.Cli = uint8(sc.Bg), uint8(sc.Cli)
	return s
}

//nolint:gochecknoglobals // as opt
var tracing bool

func label(format string, a ...any) string {
	if !tracing {
		return ""
	}
	return fmt.Sprintf(format, a...)
}

func (c Cookie) String() string {
	sec := "NONE"
	if c.Sec != nobody {
		sec = mname(c.Sec)
	}
	return fmt.Sprintf("%s!%s!%d%s", mname(c.Prim), sec, c.N, mname(c.Boot&7))
}

// A class of events is drawn with a weight of its own.
type class uint8

const (
	cRequest class = iota
	cBackground
	cMessage
	cStep  // of an operation: its time is over, its handler returns
	cLease // runs out, or comes back
	cFault // members go, connections break
	cMend  // members and connections come back
	cTime
	classes
)

// An event is something that can happen.
type event struct {
	class class
	label string // if tracing
	do    func(*world)
}

// apply is what becomes of s. It reports false if that is outside the scope.
func (e *event) apply(s *State) (w *world, ok bool) { return e.applyTo(s, nil) }

// applyTo is apply, and counts in t what happens.
func (e *event) applyTo(s *State, t *tally) (w *world, ok bool) {
	w = &world{s: *s, t: t}
	e.do(w)
	if w.full {
		return nil, false
	}
	w.tidy()
	w.t = nil
	if w.viol == "" {
		w.quiesce()
	}
	return w, true
}

// events lists what can happen in s.
func events(s *State, sc *scope) (out []event) {
	try := func(c class, l string, f func(*world)) { out = append(out, event{c, l, f}) }
	requests(s, sc, try)
	background(s, sc, try)
	drains(s, sc, try)
	messages(s, try)
	operations(s, sc, try)
	copies(s, sc, try)
	leases(s, sc, try)
	deaths(s, sc, try)
	faults(s, sc, try)
	ticks(s, sc, try)
	return out
}

// idle is a free operation, -1 if there is none.
func (s *State) idle() int {
	return slices.IndexFunc(s.Ops[:], func(o Op) bool { return o.Ph == pIdle })
}

func requests(s *State, sc *scope, try func(class, string, func(*world))) {
	idle, busy := s.idle(), 0
	for i := range s.Ops {
		if s.Ops[i].Ph != pIdle && s.Ops[i].Kind < kCopy {
			busy++
		}
	}
	if s.Cli > 0 && idle >= 0 && busy < sc.Conc {
		for _, k := range sc.Kinds {
			for n := range uint8(sc.Names) {
				if s.Nodes[n].Up == 0 {
					continue
				}
				for old := range uint8(2) {
					if old == 1 && (!sc.OldTab || s.Old == s.Jar) {
						continue
					}
					o := Op{Kind: k, At: s.now(n), C: s.Jar, Seen: s.Seen, SeenC: s.SeenC, Acked: s.Acked, InvBefore: s.Inv * s.Knew, At0: s.Now, SeenAt: s.SeenAt, Bit: 1 << (1 + uint8(sc.Cli) - s.Cli)}
					if old == 1 {
						o.C, o.Seen, o.SeenC, o.SeenAt, o.Old = s.Old, s.OldS, s.OldC, s.OldAt, 1
					}
					try(cRequest, label("%s #%d with %v arrives at %s", kindNames[k], idle, o.C, mname(o.At)), func(w *world) {
						w.s.Ops[idle] = o
						w.s.Cli--
						w.arrive(idle)
					})
				}
			}
		}
	}
}

func background(s *State, sc *scope, try func(class, string, func(*world))) {
	if idle := s.idle(); s.Bg > 0 && idle >= 0 {
		for n := range uint8(sc.Names) {
			m := s.now(n)
			r := &s.Nodes[n].R
			if s.Nodes[n].Up == 0 || r.Has == 0 || r.Dead != 0 {
				continue
			}
			bg := func(k uint8) {
				try(cBackground, label("background: %s at %s", kindNames[k], mname(m)), func(w *world) {
					w.s.Ops[idle] = Op{Kind: k, At: m, C: Cookie{r.N, r.Lin[r.N], name(m), nobody}}
					if r.Prim != nobody {
						w.s.Ops[idle].C.Prim = name(r.Prim)
					}
					w.s.Bg--
					w.arrive(idle)
				})
			}
			w := &world{s: *s}
			switch {
			case r.Prim == m && pop(r.Copies) < opt.Want:
				bg(kCopy)
			case r.Prim == m && !w.leaseOK(m):
				bg(kVal)
			case r.Prim != m:
				bg(kTake)
			}
			for x := range uint8(sc.Names) {
				if y := s.now(x); r.Prim == m && r.Copies&(1<<x) != 0 && s.reach(m, y) && w.candidate(m, nobody) != 0 {
					try(cBackground, label("background: %s moves its copy from %s", mname(m), mname(y)), func(w *world) {
						w.s.Ops[idle] = Op{Kind: kMove, At: m, Bit: 1 << x, C: Cookie{r.N, r.Lin[r.N], name(m), nobody}}
						w.s.Bg--
						w.arrive(idle)
					})
				}
			}
		}
	}
}

func messages(s *State, try func(class, string, func(*world))) {
	for k := range s.NM {
		m := &s.Msgs[k]
		try(cMessage, label("%s -> %s: %s%s", mname(m.From), mname(m.To), msgNames[m.T], msgDetail(m)), func(w *world) {
			if !w.deliver(k) {
				w.full = true
			}
		})
	}
}

func operations(s *State, sc *scope, try func(class, string, func(*world))) {
	for i := range s.Ops {
		o := &s.Ops[i]
		switch o.Ph {
		case pTake, pAsk, pFlush, pFwd:
			for n := range uint8(sc.Names) {
				if o.Wait&(1<<n) == 0 {
					continue
				}
				x := s.now(n)
				free, fault := true, uint8(0)
				switch {
				case !s.alive(x):
				case !s.reach(o.At, x):
					fault = 1
				default:
					for k := range s.NM {
						m := &s.Msgs[k]
						if int(m.Op) == i && m.Gen == o.Gen && (m.To == x || m.From == x) {
							free = false
						}
					}
				}
				if !free && (s.Tmos == 0 || opt.Conn) {
					continue
				}
				try(cStep, label("#%d at %s: no answer from %s%s", i, mname(o.At), mname(x), why(s, o.At, x, free)), func(w *world) {
					if !free {
						w.s.Tmos--
						w.s.Ops[i].Spur++
						fault = 1
					}
					w.s.Ops[i].Tmo += fault
					w.s.Fault |= fault
					w.timeout(i, x)
				})
			}
		case pJoin:
			if w := (&world{s: *s}); !w.searching(i) {
				try(cStep, label("#%d at %s goes on", i, mname(o.At)), func(w *world) { w.arrive(i) })
			}
		case pPatient:
			try(cStep, label("#%d at %s has waited", i, mname(o.At)), func(w *world) { w.ask(i) })
		case pExec:
			try(cStep, label("#%d: the handler at %s returns", i, mname(o.At)), func(w *world) { w.finish(i) })
		case pWaitLease:
			w := &world{s: *s}
			if w.mayPromote(o.At, o.Best.Prim, o.Answered) {
				try(cStep, label("#%d at %s: the lease of %s has run out", i, mname(o.At), mname(o.Best.Prim)), func(w *world) { w.decide(i) })
			}
		case pRetry:
			for n := range uint8(sc.Names) {
				if s.Nodes[n].Up == 0 || s.now(n) == o.At || o.Retry > 3 {
					continue
				}
				try(cStep, label("the proxy brings #%d to %s", i, mname(n)), func(w *world) {
					w.s.Ops[i].At = w.s.now(n)
					w.arrive(i)
				})
			}
			try(cStep, label("the proxy gives #%d up", i), func(w *world) { w.fail(i) })
		}
	}
}

// copies that are not needed any more are discarded.
func copies(s *State, sc *scope, try func(class, string, func(*world))) {
	w0 := &world{s: *s}
	for i := range uint8(sc.Names) {
		for j := range uint8(sc.Names) {
			p, x := s.now(i), s.now(j)
			if i == j || !s.reach(p, x) || !w0.superfluous(p, x) || s.underway(p, x) {
				continue
			}
			try(cMessage, label("%s hears of the pair of %s and discards its copy", mname(x), mname(p)), func(w *world) {
				w.s.Nodes[j].R = Rec{}
				w.s.Nodes[j].AckV, w.s.Nodes[j].Reign = 0, 0
			})
		}
	}
}

func leases(s *State, sc *scope, try func(class, string, func(*world))) {
	w0 := &world{s: *s}
	for i := range uint8(sc.Names) {
		a := s.now(i)
		if s.Nodes[i].Up == 0 {
			continue
		}
		for j := range uint8(sc.Names) {
			b := s.now(j)
			if i == j {
				continue
			}
			if s.Lease[i]&(1<<j) != 0 {
				free := !s.reach(a, b)
				if !free && (s.Tmos == 0 || opt.Conn) {
					continue
				}
				try(cLease, label("the lease of %s by %s runs out", mname(a), mname(b)), func(w *world) {
					w.s.Lease[i] &^= 1 << j
					if !free {
						w.s.Tmos--
					}
					if s.alive(b) {
						w.s.Fault = 1
					}
					for k := range w.s.NM {
						if m := &w.s.Msgs[k]; m.From == a && m.To == b || m.From == b && m.To == a {
							m.Fresh = 0
						}
					}
				})
			} else if opt.Majority {
				if s.reach(a, b) && w0.rec(a).Prim == a && s.Nodes[j].Ban&(1<<i) == 0 {
					try(cLease, label("heartbeat: %s relies on %s again", mname(a), mname(b)), func(w *world) { w.s.Lease[i] |= 1 << j })
				}
			} else if s.reach(a, b) && (!opt.Regen || opt.Conn) && w0.rec(a).Prim == a && s.Nodes[i].R.Copies&(1<<j) != 0 {
				try(cLease, label("heartbeat: %s relies on %s again", mname(a), mname(b)), func(w *world) { w.s.Lease[i] |= 1 << j })
			}
		}
	}
}

// deaths of members, and new boots.
func deaths(s *State, sc *scope, try func(class, string, func(*world))) {
	up := 0
	for n := range sc.Names {
		up += int(s.Nodes[n].Up)
	}
	for n := range uint8(sc.Names) {
		if s.Nodes[n].Up == 1 && s.Deaths > 0 && up > 1 {
			try(cFault, label("%s dies", mname(s.now(n))), func(w *world) {
				w.s.Deaths--
				w.s.Died++
				w.note(aDeath)
				w.departs(n)
				w.mourned(s)
			})
		}
		if s.Nodes[n].Up == 0 && s.Restarts > 0 && s.Nodes[n].Boot == 0 {
			try(cMend, label("%s is back with a new boot", mname(n)), func(w *world) {
				w.s.Restarts--
				w.note(aRestart)
				w.s.Nodes[n] = Node{Up: 1, Boot: 1}
				for k := range uint8(sc.Names) {
					w.ended(w.s.now(k), n)
				}
				for k := range w.s.Lease {
					w.s.Lease[k] &^= 1 << n
				}
				for k := range uint8(sc.Names) {
					if x := w.s.now(k); k != n && w.s.reach(x, w.s.now(n)) && opt.TombSync {
						w.sync(x, w.s.now(n))
					}
				}
			})
		}
	}
	if sc.Sync && !opt.Conn {
		for i := range uint8(sc.Names) {
			for j := range i {
				a, b := s.now(i), s.now(j)
				if !s.reach(a, b) {
					continue
				}
				w := &world{s: *s}
				if w.sync(a, b) {
					try(cMend, label("%s and %s compare", mname(a), mname(b)), func(w *world) { w.sync(a, b) })
				}
			}
		}
	}
}

// underway reports whether a message is on its way from a to b or back.
func (s *State) underway(a, b member) bool {
	for k := range s.NM {
		if m := &s.Msgs[k]; m.From == a && m.To == b || m.From == b && m.To == a {
			return true
		}
	}
	return false
}

// faults of the network.
func faults(s *State, sc *scope, try func(class, string, func(*world))) {
	n := uint8(sc.Names)
	for i := range n {
		if s.Cuts > 0 && n > 2 {
			try(cFault, label("%s alone: all its connections break", mname(i)), func(w *world) {
				w.s.Cuts--
				w.s.Fault = 1
				for j := range n {
					if j != i {
						if opt.Conn {
							w.cutLink(i, j)
						}
						w.s.Cut[i] |= 1 << j
						w.s.Cut[j] |= 1 << i
					}
				}
			})
		}
		for j := range n {
			if i == j {
				continue
			}
			if !opt.Conn {
				if s.Cuts == 0 || s.Cut[i]&(1<<j) != 0 {
					continue
				}
				if i < j && s.Cut[j]&(1<<i) == 0 {
					try(cFault, label("cut %s - %s", mname(i), mname(j)), func(w *world) {
						w.s.Cuts--
						w.s.Cut[i] |= 1 << j
						w.s.Cut[j] |= 1 << i
						w.s.Fault = 1
					})
				}
				if sc.Asym {
					try(cFault, label("cut %s -> %s", mname(i), mname(j)), func(w *world) {
						w.s.Cuts--
						w.s.Cut[i] |= 1 << j
						w.s.Fault = 1
					})
				}
				continue
			}
			if i > j {
				continue
			}
			if s.Cut[i]&(1<<j) != 0 {
				if w0 := (&world{s: *s}); w0.voting(i, j) || w0.voting(j, i) {
					continue
				}
				try(cMend, label("%s and %s are connected again and compare", mname(i), mname(j)), func(w *world) { w.meet(i, j) })
			} else if s.Tmos > 0 {
				try(cFault, label("the connection %s - %s breaks", mname(i), mname(j)), func(w *world) {
					w.s.Tmos--
					w.cutLink(i, j)
				})
			}
		}
	}
	if s.Cut != [4]uint8{} && !opt.Conn {
		try(cMend, "heal", func(w *world) { w.s.Cut = [4]uint8{} })
	}
}

// voting reports whether a promotion over i, for which j has voted, is still
// under way: a vote outlives it.
func (w *world) voting(i, j uint8) bool {
	if w.s.Nodes[j].Ban&(1<<i) == 0 {
		return false
	}
	for k := range w.s.Ops {
		if o := &w.s.Ops[k]; (o.Ph == pAsk || o.Ph == pWaitLease || o.Ph == pTake) && o.Suspect == w.s.now(i)+1 {
			return true
		}
	}
	return false
}

// lift ends j's ban of i: i learns of it and gives up what it holds as primary.
func (w *world) lift(i, j uint8) {
	if w.s.Nodes[j].Ban&(1<<i) == 0 {
		return
	}
	w.s.Nodes[j].Ban &^= 1 << i
	w.s.Lease[i] &^= 1 << j
	if r := &w.s.Nodes[i].R; r.Has == 1 && r.Prim == w.s.now(i) {
		r.Prim = nobody
	}
}

// meet connects two members again.
func (w *world) meet(i, j uint8) {
	w.note(aHeal)
	w.s.Cut[i] &^= 1 << j
	w.s.Cut[j] &^= 1 << i
	if a, b := w.s.now(i), w.s.now(j); w.s.alive(a) && w.s.alive(b) {
		w.lift(i, j)
		w.lift(j, i)
		w.sync(a, b)
	}
}

func why(s *State, a, b member, free bool) string {
	switch {
	case !s.alive(b):
		return " (refused)"
	case !s.reach(a, b):
		return " (cut)"
	case free:
		return " (lost)"
	}
	return " (slow)"
}

func msgDetail(m *Msg) string {
	d := ""
	if m.R.Has == 1 {
		d = " " + m.R.String()
	}
	switch {
	case m.T == mAck && m.Flag == refused:
		d = " refused," + d
	case m.T == mAck && m.Flag == behind:
		d = " behind"
	case m.T == mPut && m.Flag == delta:
		d = fmt.Sprintf(" changes from v%d of", m.Base) + d
	}
	if m.T == mTake && m.Flag > 0 {
		d += " (" + mname(m.R.Prim) + " is gone)"
	}
	return d
}

func (r *Rec) String() string {
	if r.Has == 0 {
		return "nothing"
	}
	switch r.Dead {
	case buried:
		return "tombstone"
	case ended:
		return fmt.Sprintf("{ended in epoch %d%s}", r.N, mname(r.Lin[r.N]&7))
	}
	c := ""
	for n := range uint8(4) {
		if r.Copies&(1<<n) != 0 {
			c += mname(n)
		}
	}
	if c == "" {
		c = "NONE"
	}
	return fmt.Sprintf("{%s!%s epoch %d%s v%d-%d data %05b count %d}", mname(r.Prim), c, r.N, mname(r.Lin[r.N]&7), r.Start, r.Ver, r.Data, r.Cnt)
}

// tidy removes what cannot matter any more and orders the rest.
func (w *world) tidy() {
	s := &w.s
	s.Knew |= s.tomb()
	for k := uint8(0); k < s.NM; {
		m := &s.Msgs[k]
		o := &s.Ops[m.Op%maxOps]
		stale := !s.alive(m.To)
		late := m.Op == noOp || o.Gen != m.Gen || o.Ph == pIdle
		switch m.T {
		case mAck, mAns, mNo, mAsk:
			stale = stale || late && (m.T != mAck || m.Op != noOp)
		case mGrant, mFwd:
			stale = stale || opt.GrantFence && late
		case mPut, mTake:
			if late {
				m.Op, m.Gen = noOp, 0
			}
		}
		if stale {
			w.remove(k)
			continue
		}
		k++
	}
	for i := 1; i < int(s.NM); i++ {
		for j := i; j > 0 && before(&s.Msgs[j], &s.Msgs[j-1]); j-- {
			s.Msgs[j], s.Msgs[j-1] = s.Msgs[j-1], s.Msgs[j]
		}
	}
}

// before orders messages; in order per connection, any order between them.
func before(a, b *Msg) bool {
	if opt.Conn {
		return a.From<<4|a.To < b.From<<4|b.To
	}
	return less(a, b)
}

// sync is what two members do when they meet: they compare what they hold.
func (w *world) sync(i, j member) bool {
	a, b := w.rec(i), w.rec(j)
	if a.Dead != b.Dead && opt.TombSync {
		return w.syncTomb(i, j)
	}
	if opt.NoBlank && a.Dead == 0 && b.Dead == 0 && a.Has != b.Has {
		r, m, x := a, i, j
		if a.Has == 0 {
			r, m, x = b, j, i
		}
		if r.Prim == m && r.Copies&bit(x) != 0 { // it has forgotten the session
			if !w.raise(m, m, r.Copies&^bit(x)) {
				w.full = true
				return false
			}
			w.fresh(m)
			return true
		}
	}
	if a.Has == 0 || b.Has == 0 || a.Dead != 0 || b.Dead != 0 {
		return false
	}
	if opt.Merge {
		ra, rb := w.shift(*a, i, j), w.shift(*b, j, i)
		later(a, &rb)
		later(b, &ra)
	}
	if opt.Weigh && forked(a, b) {
		w.weigh(i, b)
		w.weigh(j, a)
	}
	hi, lo, hm, lm := a, b, i, j
	if newer(b, a) {
		hi, lo, hm, lm = b, a, j, i
	}
	if sameEpoch(hi, lo) {
		return false // what is next sent finds out
	}
	switch {
	case opt.Weigh && lo.Prim != lm && lo.Prim != nobody && w.s.alive(lo.Prim) && lo.Ver > hi.Ver && forked(lo, hi):
		return false // its primary, told or met, will raise
	case hi.Prim == hm && hi.Copies&bit(lm) != 0:
		w.conflict(lm, lo, hi)
		w.interrupt(lm)
		*lo = w.shift(*hi, hm, lm)
		w.s.Nodes[name(lm)].AckV, w.s.Nodes[name(lm)].Reign = 0, 0
	case hi.Prim == hm && w.acked(hm) && !w.busy(lm):
		w.conflict(lm, lo, hi)
		*lo = Rec{}
		w.s.Nodes[name(lm)].AckV, w.s.Nodes[name(lm)].Reign = 0, 0
	case lo.Prim != hi.Prim && hi.Prim == hm:
		lo.Prim = hm
	case lo.Prim == lm:
		lo.Prim = hi.Prim
		if lo.Prim == lm {
			lo.Prim = nobody
		}
	default:
		return false
	}
	return true
}

// weigh: m meets the branch of h. If its own is the lower one, although more was
// changed in it, the present epoch ends, and the next one begins with that. The
// winner's counter goes above the loser's.
func (w *world) weigh(m member, h *Rec) {
	r := w.rec(m)
	below := newer(h, r)
	if r.Prim != m && r.Prim != nobody && w.s.alive(r.Prim) || below && r.Ver <= h.Ver || !below && (r.Prim != m || r.N > h.N) {
		return
	}
	if !w.raisePast(h.N, m, m, r.Copies&^bit(m)) {
		w.full = true
		return
	}
	w.fresh(m)
}

// outweighs: m, a primary, learns of the higher record h, and begins an epoch above
// it, for in its own branch more was changed.
func (w *world) outweighs(m member, h *Rec) bool {
	r := w.rec(m)
	if !opt.Weigh || r.Prim != m || !forked(r, h) {
		return false
	}
	w.weigh(m, h)
	return newer(r, h)
}

// flood: whoever learns of a tombstone tells all it is connected with. One
// message per connection; the model does it at once.
func (w *world) flood() {
	for again := opt.Flood; again; {
		again = false
		for k := range uint8(opt.Names) {
			for l := range uint8(opt.Names) {
				x, y := w.s.now(k), w.s.now(l)
				a, b := w.rec(x), w.rec(y)
				if k == l || !w.s.reach(x, y) || a.Dead == 0 || w.s.Nodes[k].AckV == 0 || b.Dead == buried || b.Dead == a.Dead || a.Dead == ended && b.Has == 0 {
					continue
				}
				w.syncTomb(x, y)
				again = true
			}
		}
	}
}

func (w *world) busy(m member) bool {
	for i := range w.s.Ops {
		if w.s.Ops[i].Ph != pIdle && w.s.Ops[i].At == m {
			return true
		}
	}
	return false
}

// quiesce checks what the background rules make of a state without requests,
// once all links work again.
func (w *world) quiesce() {
	for i := range w.s.Ops {
		if w.s.Ops[i].Ph != pIdle {
			return
		}
	}
	q := &world{s: w.s}
	q.s.Cut = [4]uint8{}
	for n := range q.s.Nodes {
		q.s.Nodes[n].Drain = 0
	}
	n := uint8(opt.Names)
	for range 12 {
		changed := false
		for i := range n {
			for j := range i {
				if q.s.Nodes[i].Up == 1 && q.s.Nodes[j].Up == 1 {
					changed = q.sync(q.s.now(i), q.s.now(j)) || changed
				}
			}
		}
		var best *Rec
		var who member
		for i := range n {
			if r := &q.s.Nodes[i].R; q.s.Nodes[i].Up == 1 && r.Has == 1 && (best == nil || newer(r, best)) {
				best, who = r, q.s.now(i)
			}
		}
		if best == nil {
			return
		}
		if best.Dead != 0 {
			if !changed {
				break
			}
			continue
		}
		if p := best.Prim; p == nobody || !q.s.alive(p) || !sameEpoch(q.rec(p), best) || q.rec(p).Has == 0 || q.rec(p).Prim != p {
			q.raiseFree(who)
			continue
		}
		who, best = best.Prim, q.rec(best.Prim)
		for i := range n {
			if best.Copies&(1<<i) == 0 {
				continue
			}
			if q.s.Nodes[i].Up == 0 {
				best.Copies &^= 1 << i
				changed = true
			} else if c := &q.s.Nodes[i].R; !sameEpoch(c, best) || c.Ver != best.Ver || c.Has == 0 {
				q.conflict(q.s.now(i), c, best)
				*c = q.shift(*best, who, q.s.now(i))
				changed = true
			}
		}
		if n := &q.s.Nodes[name(who)]; n.AckV < best.Ver {
			n.AckV = best.Ver // what is left to do in the background includes the acknowledgement
			changed = true
		}
		if pop(best.Copies) < opt.Want {
			if c := q.candidate(who, nobody); c != 0 {
				best.Copies |= c
				q.raiseFree(who)
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	if q.full {
		return
	}
	if q.empty {
		w.bad("after heal: %s", q.viol)
	}
	prim, holders, up := 0, 0, 0
	var data, cnt uint8
	dead := false
	for i := range n {
		r := &q.s.Nodes[i].R
		if q.s.Nodes[i].Up == 0 {
			continue
		}
		up++
		if r.Has == 1 && r.Dead != 0 {
			dead = true
		} else if r.Has == 1 {
			holders++
			if r.Prim == q.s.now(i) {
				prim++
				data, cnt = r.Data, r.Cnt
			}
		}
	}
	if dead {
		if holders > 0 {
			w.bad("after heal: a tombstone and a live copy")
		}
		if q.s.tomb() == 0 || !opt.Stale && w.s.Over == 1 {
			w.mourn()
		}
		return
	}
	if prim != 1 || holders != min(1+opt.Want, up) {
		w.bad("after heal: %d primaries, %d holders, %d members", prim, holders, up)
	}
	if lost := w.s.Acked &^ (data | q.s.Rep); lost != 0 && (w.s.Died == 0 || w.s.Fault == 0 && w.s.Gone == 0) && w.s.Inv == 0 && w.s.Over == 0 {
		w.bad("after heal: acknowledged %05b is lost and not reported", lost)
	}
	if cnt < w.s.AckC && q.s.Rep == 0 && w.s.N6 == 0 && (w.s.Died == 0 || w.s.Fault == 0 && w.s.Gone == 0) && w.s.Inv == 0 && w.s.Over == 0 {
		w.bad("after heal: counted to %d with acknowledgement, now %d, and nothing is reported", w.s.AckC, cnt)
	}
}

// raiseFree starts an epoch outside the bounds of the scope.
func (w *world) raiseFree(by member) {
	r := w.rec(by)
	if !w.raise(by, by, r.Copies&^bit(by)) {
		r.Prim, r.Lin[r.N] = by, by
		r.Copies &^= bit(by)
	}
}
