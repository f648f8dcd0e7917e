package owner

// An Env answers for the world outside at the moment of one step. The machine
// calls it only during [Machine.Step] and keeps nothing of it; answers must not
// change during a step. Slices it returns are only read, and not kept.
type Env interface {
	// Self is this member.
	Self() Member

	// Peer says how this member stands with p; the zero Facts of a member
	// never heard of are right.
	Peer(p Member) Facts

	// Connected lists all members whose connection is up (C2), without this
	// one, in any order. Facts of each of them include [Connected].
	Connected() []Member

	// Candidates lists the members that may get a copy of this session, best
	// rank first, without this one. Members that drain or are full are not in
	// it. It is called rarely; ranking may be done on call.
	Candidates() []Member

	// NextReign returns a reign that this process has not used before, for
	// any session: its boot and the next number.
	NextReign() Reign
}

// Facts are what this member knows of its standing with another.
type Facts uint8

const (
	// Connected means: the connection is up: both sides have compared (C2).
	Connected Facts = 1 << iota

	// Gone means: that boot left, was replaced, or refuses connections (C5).
	Gone

	// Leased means: within 500 ms since this member sent the last heartbeat or
	// Update that the other answered (C3). It outlives the connection.
	Leased

	// Promised means: within 500 ms since this member last answered the other (C3),
	// which therefore may still rely on it. It outlives the connection.
	Promised

	// Returning means: the other has ended the connection, in the last 500 ms, and
	// nothing else is known: it is being dialled, or both compare. It is not
	// set if this member ended it because the other was silent (C4).
	Returning
)

// An Op is one thing under way at this member, in most cases a request. The
// driver allocates it (as a part of its own request), hands it in with the
// first event and leaves it alone until the machine has replied: from then on
// the machine has forgotten it. An Op serves once.
type Op struct {
	// ID differs from that of any other Op of this process, whatever the
	// session, and is not zero. It is in the tags of messages.
	ID uint64

	// Owner is for the driver; the machine does not look at it.
	Owner any

	op
}

// A Tag says which question an answer answers.
type Tag struct {
	Op   uint64 // the asking Op's ID
	Step uint32 // counts the questions of that Op
}

// EventKind is what happened.
type EventKind uint8

const (
	// Request (Op, Cookie, Primary, Secondary, Expiry.Access): a request for this session
	// arrived. It ends with Handle, or with Reply if the handler must not run.
	Request EventKind = iota + 1

	// Create (Op, Changes, Expiry): a handler that is running makes this
	// session, of which nobody knows yet. Op counts as running; Changes are
	// what it begins with (after a rotation: all of the old session) and are
	// sent when the handler returns. The machine must be empty.
	Create

	// Flush (Op, Changes, Expiry): a running handler wants what it changed so
	// far acknowledged. It ends with Reply, and Op is running again. Unless the
	// outcome was Served, the same changes are to be handed in again.
	Flush

	// Return (Op, Changes, Invalidate, Expiry): the handler has returned; its
	// reply waits. It ends with Reply.
	Return

	// Recover (Op, Peer): nobody asks for the session, but its primary is lost
	// (R14), or this member is to take it over from Peer, which drains (R16); zero
	// if it is from nobody. It does what a request would, but that it leaves the
	// session to a primary that is there and is not Peer, and ends with Reply,
	// without Handle.
	Recover

	// Expire (Invalidate) means: the session is over, as this member, its primary,
	// finds; or with Invalidate that it is to end whatever happens, as an
	// invalidation for which nobody waits.
	Expire

	// Receive (Peer, Message): a message arrived.
	Receive

	// PeerUp (Peer): the connection is up, both sides have compared.
	PeerUp

	// PeerDown (Peer): the connection broke, or an answer was late (C4); all
	// that was on it is lost. It is reported after everything that arrived on
	// the connection, and before anything that arrives on the next one.
	PeerDown

	// PeerLost (Peer): that boot is proven gone, or unreachable for 5 s. A
	// primary replaces the copy on it without waiting for a request (D7).
	PeerLost

	// Relocate (Peer): the copy on Peer, which can be reached, is to be on the best
	// candidate instead, since Peer drains, or somebody who ranks better has come
	// (D7, R16). Peer keeps what it has until the new copy is acknowledged. It
	// changes nothing if there is no such copy, or nobody to take its place.
	Relocate

	// PeerAway (Peer): the other is not [Returning] any more and not back: what
	// waits for it goes on without it. Early or late, it does no harm.
	PeerAway

	// Unanswered (Message): that Take, Ask or Forward, of which Tag counts, has no
	// answer yet although the other one lives, and nobody needs so long. What waits
	// for it ends as an error, so that no request waits for ever (G8).
	Unanswered

	// PromiseOver (Peer): the promise for which Wait asked is over. Early or
	// late, it does no harm.
	PromiseOver
)

// An Event is one input of the machine. The fields beside Kind that a kind uses
// are named at the kind; the others are ignored.
type Event struct {
	Kind EventKind
	Op   *Op
	Peer Member

	// Cookie is the epoch that the request presented, zero if it presented
	// none (a plain id.route).
	Cookie Epoch

	// Primary is the living boot of the member that the cookie names as
	// primary, zero if there is none.
	Primary Member

	// Secondary is likewise that of the secondary. It matters only if nobody who
	// can be asked has the session (37), and never if this member is the primary and
	// its record descends from Cookie.
	Secondary Member

	// Message is not kept after the step; what its slices point at may be.
	Message *Message

	// Changes are kept until the reply, and sent; do not write to them.
	Changes Changes

	// Invalidate says that the handler ended the session. It wins over
	// whatever else happened to it.
	Invalidate bool

	// Loose (Flush, Return) has the reply not wait for the acknowledgements of
	// the copies, if the record says so too ([Header.Loose]). All else goes on as
	// ever: they are sent what was changed, and who is silent is struck.
	Loose bool

	// Expiry carries what is to be altered: Access if it is later than what
	// the record has; with Flush and Return also Idle, where zero means as
	// before and negative means none. Create takes all of it.
	Expiry Expiry
}

// ActionKind is what to do.
type ActionKind uint8

const (
	// Send (To, Message): put Message on the connection to To. If that has
	// broken, drop it: PeerDown follows. Messages sent in answer to a Compare
	// or during it go out although the connection is not up yet.
	Send ActionKind = iota + 1

	// Handle (Op, Result): this member is the primary; run the handler on
	// Result.Attrs.
	Handle

	// Reply (Op, Result): Op is over (after Flush: goes on).
	Reply

	// Wait (To): report PromiseOver when the promise to To is over.
	Wait

	// Report (Conflict): what this member had accepted is lost (G4), or what a
	// request did came too late; hand it to OnConflict.
	Report

	// Changed means: epoch, primary or Dead of the record have changed. If this
	// member is comparing with a peer just now (C2), send it the new header
	// in a Compare, before anything else.
	Changed
)

// An Action is one output of the machine. Actions are carried out in order.
type Action struct {
	Kind     ActionKind
	Op       *Op
	To       Member
	Message  Message
	Result   Result
	Conflict *Conflict
}

// Outcome is how an Op ended.
type Outcome uint8

const (
	// Served means: the handler runs or ran, all it saw and did is acknowledged by
	// Result.Copies.
	Served Outcome = iota + 1

	// Ended means: the session was invalidated, by this request or before, and all
	// members that are connected know it. Whatever the handler changed is
	// dropped. A new session follows, not flagged.
	Ended

	// Lost means: nobody who can be asked has what the cookie names, and none of the
	// members that it names can be asked by others (37). A new session follows,
	// flagged. The handler has not run.
	Lost

	// NotExecuted means: Result.Elsewhere is the primary, or may have the session (37),
	// and cannot be reached from here. The handler has not run.
	NotExecuted

	// Failed means: an error. Result.Executed says whether the handler has run.
	Failed
)

// A Result is what a handler runs on, and how an Op ended.
type Result struct {
	Outcome Outcome

	// Header is the record the reply comes from. With Served, Epoch, Primary
	// and Copies are what the cookie says: the pair under which the reply's
	// changes were acknowledged (R11).
	Header Header

	// Attrs and Expiry are the session's, with Handle only.
	Attrs  Attrs
	Expiry Expiry

	// Flagged means: the record does not descend from what the request presented;
	// Lost() is true, IsNew() is not. With Reply it may be set although it was
	// not with Handle (18).
	Flagged bool

	// Executed says whether the handler has run. If it has, the request must
	// not be tried elsewhere.
	Executed bool

	// Elsewhere is the member that NotExecuted names.
	Elsewhere Member
}

// A Conflict is a record of this member that another branch replaced, or the
// changes of one request that came too late.
type Conflict struct {
	// Mine is zero if Late is set.
	Mine, Theirs Header

	// Late means: Lost is what one request has changed and the session does not
	// have, for others have changed some of the same keys since its handler
	// saw them. Its client got an error, so it was not acknowledged; a version
	// in between may have had it.
	Late bool

	// Lost are the attributes of the record that was replaced, as far as the
	// winner does not have the same value. If Exact is not set the winner's
	// data was not at hand, and Lost is everything.
	Lost  Attrs
	Exact bool
}
