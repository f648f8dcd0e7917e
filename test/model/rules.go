package main

import (
	"fmt"
	"math/bits"
)

// rules can be switched off one by one, to see what they are for.
type rules struct {
	Lineage    bool // the epoch's ancestors are kept and compared, not only the order of epochs
	Succession bool // only a holder promotes; who has nothing asks the first holder to hand over
	Lease      bool // promotion waits until the old primary no longer relies on this secondary
	Regen      bool // a lease that ran out comes back per session, by an acknowledgement; not by a heartbeat
	GrantFence bool // a late grant is dropped, and the giver does not promote over the taker before
	ReadWaits  bool // a reply waits until everything that it has seen is acknowledged
	ForwardNot bool // a refused flush answers Not-Executed although the handler has run (naive)
	GrantCheck bool // a primary whose lease ran out revalidates before it hands over
	AskAll     bool // before promoting, ask all members for newer copies and whether they reach the primary
	TombSync   bool // members exchange tombstones when they meet
	Conn       bool // one ordered connection per pair of members; when it breaks, all on it is discarded, and it counts as up again only after both have compared what they hold
	Reapply    bool // an unacknowledged change is applied again if the record was replaced meanwhile
	Flood      bool // whoever learns of a tombstone tells all it is connected with
	OneSearch  bool // a member searches for a session once at a time; other requests wait for the result
	AskPrim    bool // "it is not the primary" counts only if it was said after the epoch in question was known
	Reigns     bool // epochs raised by one boot in two separate holdings of a session differ
	NoBlank    bool // a copy that has forgotten the session refuses changes: the pair has changed, a new epoch begins
	Again      bool // whoever wants to promote starts over if the old primary can be reached again
	ReplyCheck bool // the cookie's epoch is compared once more when the reply leaves, with the record the reply comes from
	AskWaits   bool // who has a Take under way answers an Ask only afterwards
	Replaced   bool // a reply whose record was replaced meanwhile does not leave as if nothing had happened
	LostTwice  bool // "lost" needs a round of answers in which nobody fell silent
	CookieSnap bool // the cookie names the pair under which the flush was acknowledged
	Yield      bool // changes that come late do not replace what others have made of the same key since: they fail
	Start      bool // of epochs that is higher in which more had been changed when they began, whatever was done to the pair
	Weigh      bool // a primary that meets a branch in which less was changed raises, so that its changes count
	Patience   bool // "lost" is not said while a member that the cookie names may be there: it is waited for, then left to whoever can reach it
	Acked      bool // a copy that is not needed any more is discarded only once the primary's record is acknowledged
	Drained    bool // who is asked answers once it has read all that a member sent which is gone
	Line       bool // of several holders only the first in line promotes; the others take from it
	AllAck     bool // a flush waits for all copies
	Base       bool // changes are done only to the version that they were made from; who does not have it asks for all
	Stale      bool // what has ended by itself is above only what it descends from
	EndLease   bool // a primary without the leases of its copies has its record acknowledged before it ends a session that is over
	Judge      bool // who is to serve a session looks whether it is over
	Relative   bool // times travel as times from now
	Merge      bool // of two that meet both keep the later access
	Access     bool // the copies are told of accesses that change nothing
	Keep       bool // a tombstone is kept as long as a copy may live
	LooseCut   bool // where replies do not wait, who promotes begins an epoch that does not descend from the present one
	LooseReign bool // and by a new reign, if it gave the session away itself
	Left       bool // who drains leaves once it holds nothing
	Majority   bool
	Slow       bool // handlers take time: others may interleave
	Resend     bool // requests on a dead member are sent again once
	Plain      bool // every other write changes a key of its own only
	Loose      int  // 1: replies do not wait for copies
	Names      int
	Want       int  // secondaries
	Idle       int8 // ticks after which a session that nobody uses is over; 0 for never
	Life       int8 // ticks that a session lives; 0 for ever
}

// rule is the switch of the rule called name, nil if there is none.
func (o *rules) rule(name string) *bool {
	switch name {
	case "lineage":
		return &o.Lineage
	case "succession":
		return &o.Succession
	case "lease":
		return &o.Lease
	case "regen":
		return &o.Regen
	case "grantfence":
		return &o.GrantFence
	case "readwaits":
		return &o.ReadWaits
	case "grantcheck":
		return &o.GrantCheck
	case "askall":
		return &o.AskAll
	case "tombsync":
		return &o.TombSync
	case "conn":
		return &o.Conn
	case "reapply":
		return &o.Reapply
	case "flood":
		return &o.Flood
	case "onesearch":
		return &o.OneSearch
	case "replycheck":
		return &o.ReplyCheck
	case "again":
		return &o.Again
	case "askprim":
		return &o.AskPrim
	case "noblank":
		return &o.NoBlank
	case "reigns":
		return &o.Reigns
	case "askwaits":
		return &o.AskWaits
	case "replaced":
		return &o.Replaced
	case "losttwice":
		return &o.LostTwice
	case "cookiesnap":
		return &o.CookieSnap
	case "start":
		return &o.Start
	case "weigh":
		return &o.Weigh
	case "yield":
		return &o.Yield
	case "acked":
		return &o.Acked
	case "drained":
		return &o.Drained
	case "patience":
		return &o.Patience
	case "line":
		return &o.Line
	case "allack":
		return &o.AllAck
	case "base":
		return &o.Base
	case "stale":
		return &o.Stale
	case "endlease":
		return &o.EndLease
	case "judge":
		return &o.Judge
	case "relative":
		return &o.Relative
	case "merge":
		return &o.Merge
	case "access":
		return &o.Access
	case "keep":
		return &o.Keep
	case "loosecut":
		return &o.LooseCut
	case "loosereign":
		return &o.LooseReign
	case "left":
		return &o.Left
	}
	return nil
}

// opt is what is explored.
//
//nolint:gochecknoglobals // one exploration at a time, by one goroutine
var opt = allRules()

// allRules is the protocol as it is.
func allRules() rules {
	return rules{
		Lineage: true, Succession: true, Lease: true, Regen: true, GrantFence: true, ReadWaits: true, GrantCheck: true, AskAll: true,
		TombSync: true, Conn: true, Reapply: true, Flood: true, OneSearch: true, AskPrim: true, Reigns: true, NoBlank: true, Again: true,
		ReplyCheck: true, AskWaits: true, Replaced: true, LostTwice: true, CookieSnap: true, Yield: true, Start: true, Weigh: true, Patience: true, Acked: true, Drained: true,
		Line: true, AllAck: true, Base: true, Stale: true, EndLease: true, Judge: true, Relative: true, Merge: true, Access: true, Keep: true,
		LooseCut: true, LooseReign: true, Left: true, Names: 3, Want: 1,
	}
}

type world struct {
	s     State
	viol  string
	empty bool // a branch in which nobody has changed anything has won
	full  bool // outside the scope: drop this branch
	t     *tally
}

func bit(m member) uint8 { return 1 << name(m) }

func pop(x uint8) (n int) {
	for ; x != 0; x &= x - 1 {
		n++
	}
	return n
}

func (w *world) rec(m member) *Rec { return &w.s.Nodes[name(m)].R }

func (w *world) bad(format string, a ...any) {
	if w.viol == "" {
		w.viol = fmt.Sprintf(format, a...)
	}
}

func (w *world) send(m Msg) {
	if !w.s.alive(m.To) || opt.Conn && w.s.cut(m.From, m.To) {
		w.unsent(&m)
		return
	}
	if w.s.NM == maxMsgs {
		w.full = true
		return
	}
	w.s.Msgs[w.s.NM] = m
	w.s.NM++
}

// leaseOK reports whether m may serve what it holds as primary without asking.
func (w *world) leaseOK(m member) bool {
	if opt.Majority {
		return pop(w.s.Lease[name(m)]|bit(m)) > opt.Names/2
	}
	return w.rec(m).Copies&^w.s.Lease[name(m)] == 0
}

// mayPromote reports whether y may promote over p: p is proven gone, or the
// time that y (majority: every voter) promised to p is over.
func (w *world) mayPromote(y, p member, voters uint8) bool {
	if p == nobody {
		return true
	}
	if w.s.alive(p) && opt.GrantFence {
		for i := range w.s.Ops {
			if o := &w.s.Ops[i]; o.Ph == pTake && o.At == p {
				for k := range w.s.NM {
					if x := &w.s.Msgs[k]; x.T == mGrant && x.To == p && x.From == y && int(x.Op) == i && x.Gen == o.Gen {
						return false
					}
				}
			}
		}
	}
	if !opt.Lease || !w.s.alive(p) {
		return true
	}
	if opt.Majority {
		for n := range uint8(opt.Names) {
			if (voters|bit(y))&(1<<n) != 0 && (w.s.Lease[name(p)]&(1<<n) != 0 || w.s.Nodes[n].Ban&bit(p) == 0) {
				return false
			}
		}
	}
	return w.s.Lease[name(p)]&bit(y) == 0
}

// conflict counts what is dropped when r replaces old at m.
func (w *world) conflict(m member, old, r *Rec) {
	if old.Has == 0 || old.Dead != 0 || r.Dead != 0 || r.Has == 0 {
		return
	}
	if opt.Idle > 0 && opt.Merge && int8(old.Acc-r.Acc) > 0 {
		w.s.Lag = 1 // the winner has not met this one, and does not know
	}
	if old.N > r.N || r.Lin[old.N] != old.Lin[old.N] {
		lost := old.Data &^ r.Data
		w.note(aReport)
		w.s.Rep |= lost
		if old.Prim == m && lost&w.s.Acked != 0 && r.Data&^old.Data == 0 && w.s.Died == 0 {
			w.empty = true
			w.bad("acknowledged %05b is lost to a branch in which nobody has changed anything", lost&w.s.Acked)
		}
		if w.s.Fault == 0 && lost&w.s.Acked != 0 && w.s.Gone == 0 {
			w.bad("acknowledged %05b overwritten by another branch, without any partition", lost&w.s.Acked)
		}
	}
}

func (w *world) arrive(i int) {
	o := &w.s.Ops[i]
	m := o.At
	r := w.rec(m)
	if r.closes(o.C) {
		if opt.ReadWaits && w.s.Nodes[name(m)].AckV == 0 {
			w.bury(i, r.Dead)
		} else {
			w.gone(i)
		}
		return
	}
	if o.Kind == kEnd && (r.Has == 0 || r.Prim != m || r.Dead != 0) {
		w.done(i)
		return
	}
	if w.s.Nodes[name(m)].Drain == 1 && o.Kind < kCopy && (r.Has == 0 || r.Prim != m) {
		w.refuse(i) // it takes no sessions any more
		return
	}
	if opt.OneSearch && w.searching(i) {
		o.Ph = pJoin
		return
	}
	if o.Tries++; o.Tries > 6 {
		w.fail(i)
		return
	}
	if r.Has == 1 && r.Prim == m && r.Dead == 0 {
		if !includes(r, o.C.N, o.C.Boot) {
			w.ask(i)
		} else if w.leaseOK(m) {
			w.run(i)
		} else if opt.Majority {
			w.refuse(i)
		} else {
			o.Re = 1
			w.interrupt(m)
			w.flush(i)
		}
		return
	}
	p := w.s.now(o.C.Prim)
	if r.Has == 1 && r.Dead == 0 && r.Prim != nobody && includes(r, o.C.N, o.C.Boot) {
		p = r.Prim
	}
	if p == m || !w.s.alive(p) {
		w.ended(m, name(p))
		w.ask(i)
		return
	}
	w.take(i, p, 0, nobody)
}

// searching reports whether another operation at i's member searches.
func (w *world) searching(i int) bool {
	for k := range w.s.Ops {
		if o := &w.s.Ops[k]; k != i && o.At == w.s.Ops[i].At && (o.Ph == pTake || o.Ph == pAsk || o.Ph == pWaitLease || o.Ph == pPatient) {
			return true
		}
	}
	return false
}

func (w *world) take(i int, y member, flag uint8, over member) {
	o := &w.s.Ops[i]
	o.Ph, o.From, o.Wait = pTake, y, bit(y)
	o.Gen++
	m := Msg{T: mTake, From: o.At, To: y, Op: uint8(i), Gen: o.Gen, Flag: flag, Fresh: 1}
	m.R.N, m.R.Prim, m.Reach = o.C.N, over, o.Answered
	m.R.Lin[o.C.N] = o.C.Boot
	w.send(m)
}

func (w *world) reached(m member) (set uint8) {
	for n := range uint8(opt.Names) {
		if n != name(m) && w.s.reach(m, w.s.now(n)) {
			set |= 1 << n
		}
	}
	return set
}

func (w *world) ask(i int) {
	o := &w.s.Ops[i]
	if o.Tries++; o.Tries > 6 {
		w.fail(i)
		return
	}
	m := o.At
	o.Ph, o.Wait, o.Best, o.Holders = pAsk, 0, *w.rec(m), 0
	o.Gen++
	if o.Best.Has == 1 {
		o.Holders = bit(m)
	}
	o.Answered, o.Reach, o.Miss, o.Prims, o.Highest = bit(m), 0, 0, 0, w.rec(m).N
	o.OwnPrim = w.rec(m).Prim
	var sus member
	if o.Suspect != 0 {
		sus = o.Suspect - 1
	} else if o.Best.Has == 1 {
		sus = o.Best.Prim
	} else {
		sus = w.s.now(o.C.Prim)
	}
	if opt.Majority && sus != nobody && sus != m && !w.s.reach(m, sus) {
		w.s.Nodes[name(m)].Ban |= bit(sus)
		o.Suspect = sus + 1
	}
	if !opt.AskAll { // only the secondary that the cookie names
		if x := w.s.now(o.C.Sec & 3); o.C.Sec != nobody && x != m && w.s.reach(m, x) && o.Best.Has == 0 {
			o.Wait |= bit(x)
			w.send(Msg{T: mAsk, From: m, To: x, Op: uint8(i), Gen: o.Gen})
		}
	} else {
		silent := false
		for n := range uint8(opt.Names) {
			x := w.s.now(n)
			if n != name(m) {
				w.ended(m, n)
			}
			if n == name(m) || !w.s.alive(x) {
				continue
			}
			if !w.s.reach(m, x) {
				silent = true
				continue
			}
			o.Wait |= bit(x)
			a := Msg{T: mAsk, From: m, To: x, Op: uint8(i), Gen: o.Gen}
			a.R.Prim = sus
			w.send(a)
		}
		if silent {
			o.Tmo++
			w.s.Fault = 1
		}
	}
	if o.Wait == 0 {
		w.decide(i)
	}
}

// decide picks what to do once everybody has answered or kept silent.
func (w *world) decide(i int) {
	o := &w.s.Ops[i]
	m, b := o.At, &o.Best
	own := w.rec(m)
	if better(own, b) || own.Prim != o.OwnPrim {
		w.arrive(i)
		return
	}
	if o.Miss == 1 && opt.LostTwice && b.Dead != buried {
		w.ask(i) // somebody fell silent while this asked: what the others said may be older than that
		return
	}
	if b.closes(o.C) {
		*own, w.s.Nodes[name(m)].AckV = *b, 1
		w.gone(i)
		return
	}
	if opt.Majority && pop(o.Answered) <= opt.Names/2 {
		w.refuse(i)
		return
	}
	if b.Has == 0 || b.Dead != 0 {
		w.missing(i)
		return
	}
	if !includes(b, o.C.N, o.C.Boot) {
		if o.Highest < o.C.N || o.Kind >= kCopy {
			w.missing(i)
			return
		}
		o.Fail, o.C.N, o.C.Boot = 1, b.N, b.Lin[b.N] // goes on with it, flagged
	}
	p := b.Prim
	if p == m && own.Prim == m && own.Has == 1 {
		w.arrive(i)
		return
	}
	switch {
	case p == nobody, p == m: // p == m: I am named but do not hold it
		p = nobody
	case o.Answered&bit(p) != 0 && w.s.now(name(p)) == p:
		if o.Holders&bit(p) != 0 && o.Prims&bit(p) != 0 || opt.AskPrim && (o.Dis != p+1 || o.DisN < b.N) {
			w.take(i, p, 0, nobody) // its answer may be older than what the others say: ask itself
			return
		}
	case o.Reach&bit(p) != 0 && w.s.now(name(p)) == p:
		w.refuse(i)
		return
	}
	h := o.Holders
	if c := h & b.Copies; c != 0 {
		h = c
	}
	if opt.Majority && p != nobody && w.s.alive(p) && o.Suspect != p+1 {
		o.Suspect = p + 1
		w.ask(i)
		return
	}
	disowned := p == nobody || o.Answered&bit(p) != 0 && w.s.now(name(p)) == p
	if opt.Again && !disowned && w.s.reach(m, p) {
		w.arrive(i) // it can be reached again
		return
	}
	var first uint8
	for h&(1<<first) == 0 {
		first++
	}
	y := w.s.now(first)
	if !opt.Line && o.Holders&bit(m) != 0 {
		y = m
	}
	if y == m {
		if !w.mayPromote(m, p, o.Answered) {
			o.Ph = pWaitLease
			return
		}
		w.promote(i, p)
		return
	}
	if !w.s.alive(y) {
		w.ask(i)
		return
	}
	if opt.Succession && disowned {
		w.take(i, y, 3, p)
	} else if opt.Succession {
		w.take(i, y, 1, p)
	} else {
		w.take(i, y, 2, p)
	}
}

func (w *world) promote(i int, over member) {
	o := &w.s.Ops[i]
	m := o.At
	r := w.rec(m)
	keep := r.Copies &^ bit(m)
	if over != nobody {
		w.ended(m, name(over))
		keep &^= bit(over)
	}
	for pop(keep) < opt.Want {
		c := w.candidate(m, over) &^ keep
		for n := range uint8(opt.Names) {
			if x := w.s.now(n); c == 0 && n != name(m) && keep&(1<<n) == 0 && (over == nobody || n != name(over)) && w.s.reach(m, x) && w.s.Nodes[n].Drain == 0 {
				c = 1 << n // it may hold an older record
			}
		}
		if c == 0 {
			break
		}
		keep |= c
	}
	if !w.raise(m, m, keep) {
		w.full = true
		return
	}
	w.fresh(m)
	w.run(i)
}

// candidate is the best-ranked member for a new copy, as a set.
func (w *world) candidate(m, not member) uint8 {
	for k := range uint8(opt.Names) {
		n := (name(m) + 1 + k) % uint8(opt.Names)
		x := w.s.now(n)
		if n != name(m) && w.s.reach(m, x) && (not == nobody || n != name(not)) && w.rec(m).Copies&(1<<n) == 0 && w.s.Nodes[n].Drain == 0 {
			return 1 << n
		}
	}
	return 0
}

// fresh notes that m's new epoch is not acknowledged by any copy yet.
func (w *world) fresh(m member) {
	n := &w.s.Nodes[name(m)]
	n.AckV = 0
	if n.R.Copies == 0 {
		n.AckV = n.R.Ver
	}
	w.s.Lease[name(m)] &^= func() uint8 {
		if opt.Majority {
			return 0
		}
		return ^n.R.Copies
	}()
}

// run: m is the primary, and nobody else can be.
func (w *world) run(i int) {
	o := &w.s.Ops[i]
	n := &w.s.Nodes[name(o.At)]
	if (opt.Judge && o.Kind < kCopy || o.Kind == kEnd) && w.over(o.At, false) {
		w.bury(i, ended)
		return
	}
	if o.Kind < kCopy {
		w.access(o.At)
	}
	switch o.Kind {
	case kWrite:
		o.Read, o.Late = n.R.Cnt, 0
		if opt.Slow {
			o.Ph = pExec
			return
		}
		w.finish(i)
	case kRead:
		if opt.ReadWaits && n.AckV < n.R.Ver || n.AckV == 0 {
			w.flush(i)
			return
		}
		w.tellAccess(o.At)
		o.Best = n.R
		if opt.Majority && n.R.Copies == 0 {
			w.fail(i)
			return
		}
		w.reply(i)
	case kInv:
		w.bury(i, buried)
	case kCopy:
		c := w.candidate(o.At, nobody)
		if c == 0 || pop(n.R.Copies) >= opt.Want {
			w.done(i)
			return
		}
		if !w.raise(o.At, o.At, n.R.Copies|c) {
			w.full = true
			return
		}
		w.fresh(o.At)
		w.flush(i)
	case kMove:
		from := w.s.Ops[i].Bit
		c := w.candidate(o.At, nobody)
		if c == 0 || n.R.Copies&from == 0 {
			w.done(i)
			return
		}
		if !w.raise(o.At, o.At, n.R.Copies&^from|c) {
			w.full = true
			return
		}
		w.fresh(o.At)
		w.flush(i)
	default:
		w.done(i)
	}
}

// superfluous reports whether x holds a copy of an earlier epoch of p's, which
// does not name it, and may discard it (R17).
func (w *world) superfluous(p, x member) bool {
	r, c := w.rec(p), w.rec(x)
	return r.Has == 1 && r.Dead == 0 && r.Prim == p && r.Copies&bit(x) == 0 && c.Has == 1 && c.Dead == 0 && !sameEpoch(r, c) &&
		includes(r, c.N, c.Lin[c.N]) && w.acked(p) && !w.busy(x)
}

// acked reports whether copies that p's record does not name may go.
func (w *world) acked(p member) bool {
	n := &w.s.Nodes[name(p)]
	return !opt.Acked || n.AckV >= n.R.Ver
}

// bury puts a tombstone of a kind on every member that can be reached.
func (w *world) bury(i int, kind uint8) {
	o := &w.s.Ops[i]
	n := &w.s.Nodes[name(o.At)]
	if kind == ended {
		w.s.Over = 1
		if !opt.Stale {
			kind = buried
		}
	}
	if n.R.Dead == 0 && kind == buried {
		w.note(aTombstone)
	} else if n.R.Dead == 0 {
		w.note(anExpiry)
	}
	n.R.Dead, n.R.Data, n.AckV = kind, 0, 0
	o.Ph, o.Wait, o.Best, o.Re = pFlush, 0, n.R, 2
	o.Gen++
	for x := range uint8(opt.Names) {
		if y := w.s.now(x); x != name(o.At) && w.s.alive(y) {
			if !w.s.reach(o.At, y) {
				w.s.Fault = 1
				continue
			}
			o.Wait |= 1 << x
			w.send(Msg{T: mPut, From: o.At, To: y, Op: uint8(i), Gen: o.Gen, Flag: newCopy, R: n.R})
		}
	}
	if o.Wait == 0 {
		n.AckV = 1
		w.flood()
		w.gone(i)
	}
}

// finish: the handler has returned.
func (w *world) finish(i int) {
	o := &w.s.Ops[i]
	r := w.rec(o.At)
	o.Exec++
	if r.Dead != 0 {
		w.overtaken(i)
		return
	}
	if r.Has == 1 && r.Prim == o.At {
		if w.apply(i) {
			w.flush(i)
		}
		return
	}
	w.forward(i)
}

// apply does what the handler of i did to the record at its member. If it comes
// late, and others have changed the same key since, the request fails.
func (w *world) apply(i int) bool {
	o := &w.s.Ops[i]
	r := w.rec(o.At)
	plain := opt.Plain && bits.TrailingZeros8(o.Bit)%2 == 0
	if !plain && r.Cnt != o.Read && r.Cnt != o.Read+1 {
		if o.Late == 1 && opt.Yield {
			w.fail(i)
			return false
		}
		if o.Late == 0 {
			w.s.N6 = 1
		}
	}
	if r.Data&o.Bit != 0 && (plain || r.Cnt == o.Read+1) {
		return true // it is done already
	}
	r.Ver++
	r.Data |= o.Bit
	if !plain {
		r.Cnt = o.Read + 1
	}
	return true
}

// interrupt: m does not know whether others change the session meanwhile.
func (w *world) interrupt(m member) {
	for i := range w.s.Ops {
		if o := &w.s.Ops[i]; o.Kind == kWrite && o.At == m {
			o.Late = 1
		}
	}
}

func (w *world) flush(i int) {
	o := &w.s.Ops[i]
	r := w.rec(o.At)
	o.Ph, o.Wait, o.Best = pFlush, r.Copies, *r
	o.Gen++
	if opt.Loose == 1 && r.Loose == 1 && o.Kind < kCopy && o.Re == 0 {
		w.push(o.At, noOp, 0, o.Bit)
		o.Wait = 0
	} else {
		w.push(o.At, uint8(i), o.Gen, o.Bit)
	}
	if o.Wait == 0 {
		w.flushed(i)
	}
}

// push sends the copies of m's record what they were not sent yet: all of a new
// epoch, else what changed: bit.
func (w *world) push(m member, op, gen, change uint8) {
	n := &w.s.Nodes[name(m)]
	p := Msg{T: mPut, From: m, Op: op, Gen: gen, Fresh: 1, Flag: newCopy, R: n.R}
	if n.Sent > 0 {
		p.Flag, p.Base, p.R.Data = delta, n.Sent, 0
		switch n.R.Ver - n.Sent {
		case 0:
		case 1:
			p.R.Data = change
		default:
			w.bad("%s has not sent some of what was changed", mname(m))
		}
	}
	n.Sent, n.AccSent = n.R.Ver, n.R.Acc
	for x := range uint8(opt.Names) {
		if n.R.Copies&(1<<x) != 0 {
			p.To = w.s.now(x)
			w.send(p)
		}
	}
}

// resend sends x all of m's record once more.
func (w *world) resend(m, x member, op, gen uint8) {
	w.note(aWhole)
	w.send(Msg{T: mPut, From: m, To: x, Op: op, Gen: gen, Fresh: 1, Flag: whole, R: *w.rec(m)})
}

func (w *world) flushed(i int) {
	o := &w.s.Ops[i]
	n := &w.s.Nodes[name(o.At)]
	loose := opt.Loose == 1 && o.Best.Loose == 1 && o.Kind < kCopy && o.Re == 0 && o.Best.Copies != 0
	if sameEpoch(&n.R, &o.Best) && n.R.Dead == 0 && n.R.Prim == o.At && n.AckV < o.Best.Ver && !loose {
		n.AckV = o.Best.Ver
	}
	if o.Re == 2 && n.R.Dead == 0 {
		o.Re = 0 // it has gone on elsewhere
		w.arrive(i)
		return
	}
	if o.Re == 2 {
		n.AckV = 1
		w.flood()
		w.gone(i)
		return
	}
	if o.Re == 1 {
		o.Re = 0
		if n.R.Has == 1 && n.R.Dead == 0 && n.R.Prim == o.At && includes(&n.R, o.C.N, o.C.Boot) {
			w.run(i)
		} else {
			w.arrive(i)
		}
		return
	}
	if r := &n.R; opt.Replaced && o.Kind < kCopy && r.Dead != 0 {
		w.overtaken(i)
		return
	}
	if r := &n.R; opt.Replaced && o.Kind == kWrite && (r.Has == 0 || r.Data&o.Bit == 0) {
		if r.Has == 1 && r.Prim == o.At && o.Tries < 6 {
			o.Tries++
			w.again(i)
		} else {
			w.overtaken(i)
		}
		return
	}
	if opt.Majority && o.Kind < kCopy && (!w.leaseOK(o.At) || o.Best.Copies == 0) {
		w.fail(i) // executed, but this side may be the smaller one: an error
		return
	}
	w.reply(i)
}

// strike: a copy did not answer.
func (w *world) strike(i int, x member) {
	o := &w.s.Ops[i]
	if o.Re == 2 {
		if o.Wait &^= bit(x); o.Wait == 0 {
			w.flushed(i)
		}
		return
	}
	r := w.rec(o.At)
	w.note(aStrike)
	if r.Has == 1 && r.Dead == 0 && r.Prim == o.At {
		if opt.Majority && !w.leaseOK(o.At) {
			w.fail(i)
			return
		}
		if sameEpoch(r, &o.Best) {
			if !w.raise(o.At, o.At, r.Copies&^bit(x)) {
				w.full = true
				return
			}
			w.fresh(o.At)
		}
		w.again(i)
		return
	}
	w.overtaken(i)
}

// again flushes i once more. If the record was replaced from outside since the
// handler ran, its changes are applied again first.
func (w *world) again(i int) {
	o := &w.s.Ops[i]
	if r := w.rec(o.At); opt.Reapply && o.Kind == kWrite && o.Exec > 0 && r.Data&o.Bit == 0 && !w.apply(i) {
		return
	}
	w.flush(i)
}

// overtaken: the flush of i found that its member is no longer the primary.
func (w *world) overtaken(i int) {
	o := &w.s.Ops[i]
	r := w.rec(o.At)
	switch {
	case r.closes(o.C) && opt.ReadWaits && w.s.Nodes[name(o.At)].AckV == 0:
		w.bury(i, r.Dead)
	case r.closes(o.C):
		w.gone(i)
	case o.Exec == 0:
		o.Re = 0
		w.arrive(i)
	case opt.ForwardNot:
		w.refuse(i)
	default:
		w.forward(i)
	}
}

func (w *world) forward(i int) {
	o := &w.s.Ops[i]
	r := w.rec(o.At)
	if r.Has == 0 || r.Dead != 0 || r.Prim == nobody || r.Prim == o.At || !w.s.alive(r.Prim) || o.Tries > 5 {
		w.fail(i)
		return
	}
	o.Tries++
	w.note(aForward)
	o.Ph, o.Wait = pFwd, bit(r.Prim)
	o.Gen++
	w.send(Msg{T: mFwd, From: o.At, To: r.Prim, Op: uint8(i), Gen: o.Gen})
}

// Ends of an operation.

func (w *world) done(i int) { w.s.Ops[i] = Op{} }

func (w *world) fail(i int) { // the client gets an error
	w.note(aFailure)
	w.done(i)
}

// refuse answers Not-Executed: the proxy may try elsewhere.
func (w *world) refuse(i int) {
	o := &w.s.Ops[i]
	if o.Kind >= kCopy {
		w.done(i)
		return
	}
	w.note(aRefusal)
	at, rt := o.At, o.Retry
	*o = Op{
		Kind: o.Kind, Ph: pRetry, At: at, C: o.C, Fail: o.Fail, Old: o.Old, Seen: o.Seen, SeenC: o.SeenC, Acked: o.Acked, InvBefore: o.InvBefore, At0: o.At0, SeenAt: o.SeenAt,
		Exec: o.Exec, Bit: o.Bit, Retry: rt + 1, Spur: o.Spur, Tmo: o.Tmo,
	}
}

func (w *world) gone(i int) {
	o := &w.s.Ops[i]
	if o.Kind < kCopy {
		w.note(anEnd)
	}
	switch r := w.rec(o.At); {
	case o.Kind >= kCopy, r.Dead == ended && o.Fail == 1: // it is told that it has lost what it had
	case r.Dead == ended, !opt.Stale && w.s.Over == 1 && w.s.Inv == 0:
		w.early(i)
		w.outdated(i)
	case o.Kind == kInv && o.Exec == 0:
		w.s.Inv = 1
	}
	w.done(i)
}

// missing: none of those who answered holds what the cookie names. A member that
// it names and that is not proven gone may hold it.
func (w *world) missing(i int) {
	o := &w.s.Ops[i]
	set := w.unheard(i)
	switch {
	case set == 0 || !opt.Patience || o.Kind >= kCopy:
		w.lost(i)
	case set&w.reached(o.At) != 0:
		w.arrive(i) // it is back
	case o.Patient == 0:
		o.Patient, o.Ph = 1, pPatient
	case set&o.Reach != 0:
		w.refuse(i)
	default:
		w.lost(i)
	}
}

// unheard are the members that i's cookie names, live, and have not answered.
func (w *world) unheard(i int) (set uint8) {
	o := &w.s.Ops[i]
	for _, n := range []uint8{o.C.Prim, o.C.Sec} {
		if n != nobody && w.s.Nodes[name(n)].Up == 1 && o.Answered&(1<<name(n)) == 0 {
			set |= 1 << name(n)
		}
	}
	return set
}

// lost: nobody who can be asked holds what the cookie names.
func (w *world) lost(i int) {
	o := &w.s.Ops[i]
	if o.Kind >= kCopy {
		w.done(i)
		return
	}
	w.note(aLoss)
	if w.s.Fault == 0 && w.s.Gone == 0 && w.s.Inv == 0 && w.s.tomb() == 0 {
		if w.s.Over == 0 {
			w.bad("lost, although a holder lives")
		}
		w.early(i)
	}
	for n := range uint8(opt.Names) {
		if r := &w.s.Nodes[n].R; w.unheard(i)&o.Reach&(1<<n) != 0 && r.Has == 1 && r.Dead == 0 && includes(r, o.C.N, o.C.Boot) {
			w.bad("lost, although %s, which the cookie names, has it and can be reached by others", mname(n))
		}
	}
	w.done(i) // a new session; this cookie is not used any more by this client
}

func (w *world) reply(i int) {
	o := &w.s.Ops[i]
	if o.Kind >= kCopy {
		w.done(i)
		return
	}
	w.note(aReply)
	data := o.Best.Data
	if o.Kind == kWrite && data&o.Bit == 0 {
		w.bad("the reply does not include its own write")
	}
	if o.Kind == kWrite && w.s.Rep&o.Bit != 0 && !w.anybody(o.Bit) {
		w.bad("acknowledged %05b after it was reported as lost", o.Bit)
	}
	flagged := o.Fail == 1 || opt.ReplyCheck && !includes(&o.Best, o.C.N, o.C.Boot)
	if flagged {
		w.note(aFlag)
	}
	if flagged && w.s.Fault == 0 && w.s.Gone == 0 && (opt.Loose == 0 || w.s.Died == 0) {
		w.bad("a conflict without any partition")
	}
	if o.Seen&^data != 0 && !flagged {
		w.bad("went back for one client: saw %05b, now %05b, not flagged", o.Seen, data)
	}
	if o.SeenC > o.Best.Cnt && !flagged && w.s.N6 == 0 {
		w.bad("went back for one client: had counted to %d, now %d, not flagged", o.SeenC, o.Best.Cnt)
	}
	if (w.s.Fault == 0 || opt.Majority && w.s.Died == 0) && o.Acked&^data != 0 && (strict || w.s.Died == 0 || w.s.Gone == 0) {
		w.bad("stale answer: acknowledged %05b, served %05b, not flagged", o.Acked, data)
	}
	for n := range uint8(opt.Names) {
		x := &w.s.Nodes[n]
		if o.Best.Copies&(1<<n) != 0 && x.Up == 1 && x.R.Has == 1 && x.R.Dead == 0 && x.R.N > o.Best.N && x.R.Lin[o.Best.N] == o.Best.Lin[o.Best.N] &&
			o.Acked&^data != 0 && o.Acked&^x.R.Data == 0 && !flagged {
			w.bad("stale answer from a primary over which its secondary %s had promoted", mname(n))
		}
	}
	if o.InvBefore != 0 && (w.s.Fault == 0 && w.s.Died < 2 || strict || w.tombReached(o.At, o.InvBefore)) {
		w.bad("an invalidated session was served")
	}
	if opt.Life > 0 && int8(o.At0-start) >= opt.Life+int8(w.s.Stood) {
		w.bad("served %d ticks after it began, although it lives %d", o.At0-start, opt.Life)
	}
	if o.Exec > 1 && !opt.Resend {
		w.bad("executed %d times, client told of no error", o.Exec)
	}
	b := &o.Best
	if !opt.CookieSnap {
		b = w.rec(o.At)
	}
	sec := nobody
	for n := range uint8(4) {
		if b.Copies&(1<<n) != 0 {
			sec = n
			break
		}
	}
	w.s.Acked |= data // what a client has seen counts as acknowledged
	c := Cookie{b.N, b.Lin[b.N], name(b.Prim), sec}
	if b.Prim == nobody {
		c.Prim = name(o.At)
	}
	// A reply may set the cookie back if it was overtaken by another one: then
	// the jar knows less, and so do we.
	w.s.Jar, w.s.Seen, w.s.SeenC, w.s.SeenAt = c, data, o.Best.Cnt, o.At0
	w.s.AckC = max(w.s.AckC, o.Best.Cnt)
	if c.N > w.s.AckE.N {
		w.s.AckE = c
		w.s.Pair = 0
		for n := range uint8(opt.Names) {
			if (b.Copies|1<<c.Prim)&(1<<n) != 0 && w.s.Nodes[n].Up == 1 {
				w.s.Pair |= 1 << n
			}
		}
	}
	w.done(i)
}

func (w *world) remove(k uint8) {
	copy(w.s.Msgs[k:], w.s.Msgs[k+1:w.s.NM])
	w.s.NM--
	w.s.Msgs[w.s.NM] = Msg{}
}

// cutLink breaks the connection of a and b; what is on it is gone.
func (w *world) cutLink(i, j uint8) {
	w.s.Cut[i] |= 1 << j
	w.s.Cut[j] |= 1 << i
	w.s.Fault = 1
	w.note(aBreak)
	for k := uint8(0); k < w.s.NM; {
		if m := &w.s.Msgs[k]; name(m.From) == i && name(m.To) == j || name(m.From) == j && name(m.To) == i {
			w.unsent(m)
			w.remove(k)
			continue
		}
		k++
	}
}

// ended: m regards the boots of x that are gone as gone. What they sent was
// handled before, or never will be.
func (w *world) ended(m member, x uint8) {
	if !opt.Conn {
		return
	}
	for k := uint8(0); k < w.s.NM; {
		if p := &w.s.Msgs[k]; name(p.From) == x && !w.s.alive(p.From) && p.To == m {
			w.unsent(p)
			w.remove(k)
			continue
		}
		k++
	}
}

// strict also reports what no protocol can prevent: every holder of a change
// died, and an old holder meets an old cookie.
//
//nolint:gochecknoglobals // as opt
var strict bool

// tombReached reports whether m can reach one of those that have had the
// tombstone, and lived since.
func (w *world) tombReached(m member, among uint8) bool {
	for n := range uint8(opt.Names) {
		if among&(1<<n) == 0 {
			continue
		}
		if x := w.s.now(n); x == m || w.s.reach(m, x) {
			return true
		}
	}
	return false
}

// anybody reports whether a living member has what the write bit did.
func (w *world) anybody(bit uint8) bool {
	for n := range uint8(opt.Names) {
		if r := &w.s.Nodes[n].R; w.s.Nodes[n].Up == 1 && r.Has == 1 && r.Dead == 0 && r.Data&bit != 0 {
			return true
		}
	}
	return false
}

// holds reports whether a living member holds all of data.
func (w *world) holds(data uint8) bool {
	for n := range uint8(opt.Names) {
		if r := &w.s.Nodes[n].R; w.s.Nodes[n].Up == 1 && r.Has == 1 && r.Dead == 0 && data&^r.Data == 0 && w.s.AckE.N <= r.N && r.Lin[w.s.AckE.N] == w.s.AckE.Boot {
			return true
		}
	}
	return false
}

// deliver handles message k; it reports false if it cannot be handled now.
func (w *world) deliver(k uint8) bool {
	m := w.s.Msgs[k]
	if !w.s.alive(m.To) || w.s.cut(m.From, m.To) {
		return false
	}
	if opt.Conn {
		for j := range k {
			if p := &w.s.Msgs[j]; p.From == m.From && p.To == m.To {
				return false // in order
			}
		}
	}
	m.R = w.shift(m.R, m.From, m.To)
	z := w.rec(m.To)
	o := new(Op)
	header := Rec{} // what an Ack for which nobody waits says
	if m.Op == noOp {
		header = m.R
	}
	if m.Op != noOp {
		o = &w.s.Ops[m.Op]
	}
	mine := o.Gen == m.Gen && o.At == m.To && o.Ph != pIdle
	drop := func() { w.remove(k) }
	answer := func(t, flag uint8, r Rec) {
		w.send(Msg{T: t, From: m.To, To: m.From, Op: m.Op, Gen: m.Gen, Flag: flag, Fresh: m.Fresh, R: r})
	}
	switch m.T {
	case mPut:
		drop()
		switch {
		case opt.NoBlank && z.Has == 0 && m.Flag != newCopy:
			answer(mAck, refused, *z) // I do not hold it (any more): strike me, start a new epoch
		case m.Flag == delta && z.Has == 1 && z.Dead == 0 && sameEpoch(&m.R, z):
			switch {
			case m.R.Ver <= z.Ver:
			case opt.Base && m.Base != z.Ver:
				answer(mAck, behind, Rec{})
				return true
			default:
				w.interrupt(m.To)
				w.note(aDelta)
				z.Data, z.Cnt, z.Ver, z.Prim = z.Data|m.R.Data, m.R.Cnt, m.R.Ver, m.R.Prim
				w.s.Nodes[name(m.To)].AckV, w.s.Nodes[name(m.To)].Reign = 0, 0
			}
			if opt.Idle > 0 && int8(m.R.Acc-z.Acc) > 0 {
				z.Acc = m.R.Acc
			}
			answer(mAck, stored, header)
		case m.Flag == delta && z.Dead != buried && (newer(&m.R, z) || z.Has == 1 && m.R.Start == z.Start && m.R.N == z.N):
			answer(mAck, behind, Rec{})
		case newer(&m.R, z) && w.outweighs(m.To, &m.R):
			answer(mAck, refused, *z)
		case newer(&m.R, z):
			w.conflict(m.To, z, &m.R)
			w.interrupt(m.To)
			if opt.Merge {
				later(&m.R, z)
			}
			*z = m.R
			w.s.Nodes[name(m.To)].AckV, w.s.Nodes[name(m.To)].Reign = 0, 0
			answer(mAck, stored, header)
		case z.Dead == 0 && m.R.Dead == 0 && sameEpoch(&m.R, z), z.Dead != 0 && m.R.Dead != 0:
			answer(mAck, stored, header)
		default:
			answer(mAck, refused, *z)
		}
		if z.Dead != 0 {
			w.s.Nodes[name(m.To)].AckV = 1
			w.flood()
		}
	case mAck:
		drop()
		own := z.Has == 1 && z.Dead == 0 && z.Prim == m.To
		if m.Op == noOp {
			n := &w.s.Nodes[name(m.To)]
			switch {
			case !own:
			case m.Flag == behind && z.Copies&bit(m.From) != 0:
				w.resend(m.To, m.From, noOp, 0)
			case m.Flag == stored && sameEpoch(z, &m.R) && z.Copies == bit(m.From):
				n.AckV = max(n.AckV, m.R.Ver)
			case m.Flag == refused && newer(&m.R, z):
				w.overruled(m.To, &m.R)
			}
			return true
		}
		if !mine || o.Ph != pFlush {
			return true
		}
		if m.Flag == behind {
			switch {
			case !own:
				w.overtaken(i8(m.Op))
			case sameEpoch(z, &o.Best):
				w.resend(m.To, m.From, m.Op, m.Gen)
			default:
				w.again(i8(m.Op))
			}
			return true
		}
		if m.Flag == refused {
			if m.R.Has == 0 {
				w.strike(i8(m.Op), m.From)
				return true
			}
			if z.Dead == ended && m.R.Dead == 0 && newer(&m.R, z) {
				*z = Rec{}
			}
			if o.Re == 2 && z.Dead == 0 {
				o.Re = 0 // what ended here has gone on elsewhere
				w.arrive(i8(m.Op))
				return true
			}
			if newer(&m.R, z) {
				w.overruled(m.To, &m.R)
			}
			if o.Re == 2 { // a newer copy: the tombstone still wins there
				if o.Best.Dead == buried {
					w.bad("tombstone refused")
				}
				if o.Wait &^= bit(m.From); o.Wait == 0 { // by now it is one of an invalidation
					w.flushed(i8(m.Op))
				}
				return true
			}
			if z.Prim == m.To && z.Dead == 0 {
				w.again(i8(m.Op)) // this member has moved on since: send what it has now
				return true
			}
			w.overtaken(i8(m.Op))
			return true
		}
		if m.Fresh == 1 && z.Prim == m.To && !opt.Majority || opt.Majority && m.Fresh == 1 && w.s.Nodes[name(m.From)].Ban&bit(m.To) == 0 {
			w.s.Lease[name(m.To)] |= bit(m.From)
		}
		if o.Wait &^= bit(m.From); o.Wait == 0 || !opt.AllAck && o.Re == 0 {
			w.flushed(i8(m.Op))
		}
	case mAsk:
		// who is just taking answers afterwards
		for i := range w.s.Ops {
			if opt.AskWaits && w.s.Ops[i].Ph == pTake && w.s.Ops[i].At == m.To {
				return false
			}
		}
		for k := range w.s.NM {
			if p := &w.s.Msgs[k]; opt.Drained && p.To == m.To && !w.s.alive(p.From) {
				return false
			}
		}
		drop()
		a := Msg{T: mAns, From: m.To, To: m.From, Op: m.Op, Gen: m.Gen, R: *z}
		a.Reach = w.reached(m.To)
		if p := m.R.Prim; opt.Majority && p != nobody && p != m.To && w.s.alive(p) && !w.s.reach(m.To, p) {
			w.s.Nodes[name(m.To)].Ban |= bit(p) // the vote
		}
		w.send(a)
	case mAns:
		drop()
		if !mine || o.Ph != pAsk {
			return true
		}
		o.Answered |= bit(m.From)
		if m.R.Prim == m.From {
			o.Prims |= bit(m.From)
		}
		o.Reach |= m.Reach
		o.Highest = max(o.Highest, m.R.N)
		if better(&m.R, &o.Best) {
			o.Best, o.Holders = m.R, bit(m.From)
		} else if m.R.Has == 1 && !better(&o.Best, &m.R) {
			o.Holders |= bit(m.From)
		}
		if o.Wait &^= bit(m.From); o.Wait == 0 {
			w.decide(i8(m.Op))
		}
	case mTake:
		over, cn := m.R.Prim, m.R.N
		give := false
		switch {
		case z.Has == 0 || z.Dead != 0 || !includes(z, cn, m.R.Lin[cn]):
		case z.Prim == m.To:
			if opt.GrantCheck && !w.leaseOK(m.To) {
				return false // revalidates first
			}
			give = true
		case opt.Again && m.Flag == 1 && z.Prim != nobody && w.s.reach(m.To, z.Prim):
		case m.Flag&1 == 1 && (z.Prim == over || z.Prim == nobody || !w.s.reach(m.To, z.Prim) || over == nobody && z.Prim == m.From):
			if !w.mayPromote(m.To, z.Prim, m.Reach) {
				return false
			}
			give = true
		case m.Flag == 2:
			drop()
			answer(mGrant, 2, *z)
			return true
		}
		drop()
		if !give {
			answer(mNo, 0, *z)
			return true
		}
		if z.Prim != m.To && z.Prim != nobody {
			w.ended(m.To, name(z.Prim))
		}
		if !w.raise(m.To, m.From, bit(m.To)) {
			w.full = true
			return true
		}
		w.interrupt(m.To)
		w.note(aGrant)
		w.s.Nodes[name(m.To)].AckV = z.Ver
		answer(mGrant, 1, *z)
	case mGrant:
		drop()
		n := &w.s.Nodes[name(m.To)]
		if !mine || o.Ph != pTake {
			if !opt.GrantFence && newer(&m.R, z) { // naive: installed whenever it comes
				*z, n.AckV, n.Reign, n.Sent = m.R, m.R.Ver, 0, m.R.Ver
				w.s.Lease[name(m.To)] |= bit(m.From)
			}
			return true
		}
		if !newer(&m.R, z) {
			w.arrive(i8(m.Op))
			return true
		}
		w.conflict(m.To, z, &m.R)
		w.interrupt(m.To)
		*z, n.AckV, n.Reign, n.Sent, n.AccSent = m.R, m.R.Ver, 0, m.R.Ver, m.R.Acc
		if m.Flag == 2 {
			if !w.raise(m.To, m.To, bit(m.From)) {
				w.full = true
				return true
			}
			w.fresh(m.To)
			w.run(i8(m.Op))
			return true
		}
		if m.Fresh == 1 {
			w.s.Lease[name(m.To)] = w.s.Lease[name(m.To)]&keepIf(opt.Majority) | bit(m.From)
		} else {
			w.s.Lease[name(m.To)] &= keepIf(opt.Majority)
		}
		w.run(i8(m.Op))
	case mNo:
		drop()
		if !mine || o.Ph != pTake {
			return true
		}
		if m.R.closes(o.C) && newer(&m.R, z) {
			*z, w.s.Nodes[name(m.To)].AckV = m.R, 1
			w.gone(i8(m.Op))
			return true
		}
		if m.R.Has == 0 || m.R.Prim != m.From {
			o.Dis, o.DisN = m.From+1, o.Best.N
		}
		w.ask(i8(m.Op))
	case mFwd:
		if z.Prim == m.To && z.Has == 1 && z.Dead == 0 && !w.leaseOK(m.To) {
			return false
		}
		drop()
		if o.Gen != m.Gen || o.Ph != pFwd {
			// the other side gave up: the change is applied all the same, the
			// client has been told of an error
			return true
		}
		switch {
		case z.Dead != 0:
			o.At = m.To
			w.gone(i8(m.Op))
		case z.Has == 1 && z.Prim == m.To:
			o.At, o.Late = m.To, 1
			if w.apply(i8(m.Op)) {
				w.flush(i8(m.Op))
			}
		default:
			w.fail(i8(m.Op))
		}
	}
	return true
}

// overruled: m has learned of h, which is higher than its own record.
func (w *world) overruled(m member, h *Rec) {
	z := w.rec(m)
	switch {
	case h.Dead != 0:
		*z, w.s.Nodes[name(m)].AckV = *h, 1
	case z.Prim == m && !w.outweighs(m, h):
		if z.Prim = h.Prim; z.Prim == m {
			z.Prim = nobody
		}
	}
}

func i8(x uint8) int { return int(x) }

func keepIf(b bool) uint8 {
	if b {
		return 0xff
	}
	return 0
}

// timeout: member x has not answered op i.
func (w *world) timeout(i int, x member) {
	o := &w.s.Ops[i]
	w.ended(o.At, name(x))
	switch o.Ph {
	case pTake:
		w.ask(i)
	case pAsk:
		o.Miss = 1
		if o.Wait &^= bit(x); o.Wait == 0 {
			w.decide(i)
		}
	case pFlush:
		w.strike(i, x)
	case pFwd:
		w.fail(i)
	}
}

func mname(m member) string {
	if m == nobody {
		return "nobody"
	}
	s := string(rune('A' + name(m)))
	if m>>2 > 0 {
		s += "'"
	}
	return s
}
