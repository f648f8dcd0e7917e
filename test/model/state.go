// Command model explores the session ownership protocol: every order of
// requests, messages, time-outs and faults within a bounded scope.
//
// One session, up to four member names, each of which may be restarted once.
// A write adds its own bit to the data of the session, so that "lost" and
// "went back" are questions about sets.
package main

import "unsafe"

// A member is a name (two low bits) and a boot (the bit above).
type member = uint8

const nobody member = 0xff

func name(m member) uint8 { return m & 3 }

// Rec is all that a member keeps of a session. Whoever is Prim is the primary,
// every other holder is a secondary: the role is not stored.
type Rec struct {
	Has, Dead uint8    // Dead: tombstone, of an invalidation (buried) or because the session was over (ended)
	N         uint8    // epoch counter; the epoch is (N, Lin[N])
	Start     uint8    // Ver when the epoch began
	Prim      member   //
	Copies    uint8    // set of members that hold a secondary copy
	Ver, Data uint8    //
	Cnt       uint8    // a key that every write reads, and sets to one more
	Loose     uint8    // replies of this epoch may name what the copies do not have (36)
	Acc, End  uint8    // by the holder's clock: the last access, and when it ends whatever happens (0: never)
	Lin       [8]uint8 // Lin[k]: the boot that raised the counter to k
}

// Kinds of tombstone.
const (
	buried = iota + 1
	ended
)

type Node struct {
	Up, Boot uint8
	Drain    uint8 // is about to leave: gets no sessions and no copies
	R        Rec
	Sent     uint8 // the highest version of this epoch that was sent; 0: nothing, the first message is to carry all
	AccSent  uint8 // R.Acc as it was last sent
	AckV     uint8 // the version that all of R.Copies are known to hold in this epoch
	Ban      uint8 // majority: names whose boot this member has voted out
	Reign    uint8 // what marks this member's raises; 0 after the record was replaced from outside
	Seq      uint8 // reigns so far
}

// Messages.
const (
	mPut   = iota + 1 // Flag delta: what changed since version Base; else all of a record, to be stored if it is newer
	mAck              // answer to mPut; Flag refused: R is what I have; behind: I need all of it
	mAsk              // what do you hold, whom do you reach
	mAns              // answer to mAsk
	mTake             // give me the session; Flag 1: and promote yourself first, the primary is gone
	mGrant            // answer to mTake
	mNo               // answer to mTake: not from me, R is what I have
	mFwd              // a change made by a request that ran elsewhere
)

//nolint:gochecknoglobals // a table
var msgNames = []string{"", "Put", "Ack", "Ask", "Ans", "Take", "Grant", "No", "Forward"}

type Msg struct {
	T, From, To, Op, Gen, Flag, Reach, Fresh, Base uint8
	R                                              Rec
}

// Flags of mPut.
const (
	delta   = iota
	newCopy // all: the receiver need not have it
	whole   // all, once more
)

// Flags of mAck.
const (
	refused = iota
	stored
	behind
)

// noOp is the op of messages for which nobody waits.
const noOp = maxOps

// Kinds of operation. Background work runs through the same phases as a request.
const (
	kNone  = iota
	kWrite // adds its bit
	kRead
	kInv  // invalidates
	kCopy // background: the primary adds a copy
	kTake // background: a secondary takes over (drain)
	kVal  // background: the primary renews its lease
	kMove // background: the primary moves the copy on Bit to somebody else, who can be reached as well (Relocate)
	kEnd  // background: the primary finds the session over
)

//nolint:gochecknoglobals // a table
var kindNames = []string{"", "write", "read", "invalidate", "copy", "take", "revalidate", "move", "end"}

const (
	pIdle = iota
	pTake
	pAsk
	pWaitLease // wants to promote, waits until the old primary's lease has run out
	pExec      // the handler runs
	pFlush     // changed, or revalidating (Re=1), waits for acknowledgements
	pFwd
	pRetry // answered Not-Executed, the proxy may try another member
	pDone
	pJoin    // waits for the search of another request of this session here
	pPatient // waits for a member that the cookie names
)

type Cookie struct{ N, Boot, Prim, Sec uint8 }

type Op struct {
	Kind, Ph  uint8
	At        member
	C         Cookie
	Old       uint8 // came with the old cookie
	Seen      uint8 // what this cookie's client had seen when it sent
	Acked     uint8 // all acknowledged writes when it was sent
	InvBefore uint8 // the invalidation had been acknowledged when it was sent: who had the tombstone then, and lived since
	At0       uint8 // when it was sent
	SeenAt    uint8 // when this cookie's client was last answered
	Wait      uint8 // members still to answer
	Gen       uint8
	Exec      uint8 // times the handler ran
	Told      uint8 // the client was told of an error
	Tries     uint8
	Tmo       uint8 // silent waits
	Spur      uint8 // of them, with no fault in the network (slow, frozen)
	Re        uint8 // revalidating only
	Bit       uint8 // the write
	Read      uint8 // Cnt as the handler saw it
	Late      uint8 // since then others may have changed the session elsewhere
	SeenC     uint8 // Cnt as this cookie's client had seen it when it sent
	Retry     uint8
	Prims     uint8  // answered that they are the primary
	Dis, DisN uint8  // this member (plus one) has said, asked for epoch DisN, that it is not the primary
	OwnPrim   member // whom this member took for the primary when it asked
	Suspect   member // majority: whom this wants to promote over (plus one, 0: nobody)
	Miss      uint8  // somebody fell silent while this asked
	Patient   uint8  // it has waited for members that the cookie names
	Fail      uint8  // flagged: what goes on does not descend from the cookie
	Highest   uint8  // counter of any record that is held
	From      member
	Reach     uint8 // union of what the answers reach
	Answered  uint8
	Holders   uint8 // answered with the best record
	Best      Rec   // pAsk: best answer; pFlush: the record as it was sent
}

const maxOps, maxMsgs = 4, 7

type State struct {
	Nodes [4]Node
	Msgs  [maxMsgs]Msg
	NM    uint8
	Ops   [maxOps]Op
	Cut   [4]uint8 // Cut[i] has bit j: nothing gets from i to j
	Lease [4]uint8 // Lease[i] has bit j: i may rely on j not promoting over it
	Jar   Cookie
	Old   Cookie
	Seen  uint8 // by the jar
	OldS  uint8
	SeenC uint8 // Cnt as the jar saw it
	OldC  uint8
	AckC  uint8 // the highest Cnt in any reply
	N6    uint8 // two requests changed Cnt at one primary at once: the last one has won
	Acked uint8 // acknowledged to somebody
	Inv   uint8 // invalidation acknowledged
	Knew  uint8 // who has had the tombstone, and lived since
	Stuck uint8 // somebody left with a copy that could not be elsewhere
	Pair  uint8 // the members that the reply in the highest epoch names, and that lived since
	Rep   uint8 // reported as lost to OnConflict
	Fault uint8 // a cut or a silent wait has happened
	Died  uint8
	AckE  Cookie // the highest epoch in any reply
	Gone  uint8  // at some time no living member held all that was acknowledged, in the highest epoch that was told
	// time: ticks, each longer than any answer takes
	Now    uint8
	Off    [4]uint8 // how much the clock of each member is ahead
	Stood  uint8    // how often a clock stood still for a tick
	SeenAt uint8    // when the jar's last request was sent that was answered
	OldAt  uint8
	Over   uint8 // somebody found the session over by itself, or has forgotten its tombstone
	Lag    uint8 // word of an access was lost
	// what is left of the scope
	Deaths, Restarts, Cuts, Tmos, Bg, Cli, Ticks, Slow, Drains uint8
}

func (s *State) key() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), int(unsafe.Sizeof(*s)))
}

func (s *State) alive(m member) bool {
	return m != nobody && s.Nodes[name(m)].Up == 1 && s.Nodes[name(m)].Boot == m>>2
}
func (s *State) now(nm uint8) member { return nm | s.Nodes[nm].Boot<<2 }
func (s *State) cut(a, b member) bool {
	return s.Cut[name(a)]&(1<<name(b)) != 0
}

func (s *State) reach(a, b member) bool {
	return s.alive(a) && s.alive(b) && !s.cut(a, b) && !s.cut(b, a)
}

func epochLess(an, ab, bn, bb uint8) bool { return an < bn || an == bn && ab < bb }

// newer reports whether a is to replace b.
func newer(a, b *Rec) bool {
	if a.Has == 0 || b.Has == 0 {
		return a.Has > b.Has
	}
	if a.Dead != b.Dead {
		switch {
		case a.Dead == buried || b.Dead == buried:
			return a.Dead == buried
		case a.Dead == ended:
			return includes(a, b.N, b.Lin[b.N])
		default:
			return !includes(b, a.N, a.Lin[a.N])
		}
	}
	if opt.Start && a.Start != b.Start {
		return a.Start > b.Start
	}
	if ca, cb := pop(a.Copies), pop(b.Copies); opt.Start && a.N == b.N && a.Lin[a.N] != b.Lin[b.N] && ca != cb {
		return ca > cb
	}
	if a.N != b.N || a.Lin[a.N] != b.Lin[b.N] {
		return epochLess(b.N, b.Lin[b.N], a.N, a.Lin[a.N])
	}
	return a.Ver > b.Ver
}

func sameEpoch(a, b *Rec) bool { return a.N == b.N && a.Lin[a.N] == b.Lin[b.N] }

// includes reports whether r descends from the epoch (n, boot).
func includes(r *Rec, n, boot uint8) bool {
	if r.Has == 0 {
		return false
	}
	if !opt.Lineage {
		return !epochLess(r.N, r.Lin[r.N], n, boot)
	}
	return n <= r.N && r.Lin[n] == boot
}

// forked reports whether neither of two records descends from the other.
func forked(a, b *Rec) bool {
	return a.Has == 1 && b.Has == 1 && a.Dead == 0 && b.Dead == 0 &&
		!includes(a, b.N, b.Lin[b.N]) && !includes(b, a.N, a.Lin[a.N])
}

// better reports whether a search goes on with a rather than b: of two branches
// the one in which more was changed, which will win.
func better(a, b *Rec) bool {
	if opt.Weigh && a.Ver != b.Ver && forked(a, b) {
		return a.Ver > b.Ver
	}
	return newer(a, b)
}

// raise starts a new epoch in by's own record. Lin holds reigns: a reign is a
// series of raises by one member that has held the record all the time.
func (w *world) raise(by, prim member, copies uint8) bool {
	return w.raisePast(0, by, prim, copies)
}

// raisePast is raise with a counter above past.
//
// Where replies do not wait, who was not the primary does not know whether it has
// all of the present epoch: the next one does not descend from it (36).
func (w *world) raisePast(past uint8, by, prim member, copies uint8) bool {
	n := &w.s.Nodes[name(by)]
	r := &n.R
	if max(r.N, past) >= 7 || n.Seq >= 31 {
		return false
	}
	cut := opt.LooseCut && r.Loose == 1 && r.Prim != by
	if !opt.Reigns {
		n.Reign = by
	} else if n.Reign == 0 || cut && opt.LooseReign && n.Reign == r.Lin[r.N] { // it gave the session away, and has heard nothing since
		n.Seq++
		n.Reign = by | n.Seq<<3
	}
	w.note(anEpoch)
	if cut {
		w.note(aCut)
		r.Lin[r.N] = n.Reign
	}
	for ; r.N < past; r.N++ {
		r.Lin[r.N+1] = 0xff // nobody's
	}
	r.N++
	r.Lin[r.N], r.Start = n.Reign, r.Ver
	r.Prim, r.Copies = prim, copies
	if prim == by {
		r.Loose = uint8(opt.Loose)
	}
	n.Sent, n.AccSent = 0, r.Acc
	return true
}

// tomb is the set of living members that have the tombstone of an invalidation.
func (s *State) tomb() (set uint8) {
	for n := range s.Nodes {
		if s.Nodes[n].Up == 1 && s.Nodes[n].R.Dead == buried {
			set |= 1 << n
		}
	}
	return set
}

// closes reports whether r says to a request with cookie c that the session is
// gone.
func (r *Rec) closes(c Cookie) bool {
	return r.Dead == buried || r.Dead == ended && includes(r, c.N, c.Boot)
}
