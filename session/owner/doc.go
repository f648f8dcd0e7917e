// Package owner decides who owns a session: which member runs its requests and
// which hold copies, whatever dies, freezes, or is cut off. It is a state
// machine and nothing else: a [Machine] is one session at one member, an
// [Event] goes in, a list of [Action]s comes out. There are no clocks, sockets,
// goroutines or random numbers here; what the machine has to know of the world
// it asks its [Env], and what has to be done is done by package session.
//
// # One record, one order, one operation
//
// Every member that knows of a session has one [Record]. The role is not
// stored: who is named Primary in its own record is the primary, every other
// holder is a secondary. Records are ordered ([Header.Above]): a tombstone is
// above everything (but for 38), then the epoch counts, then the version; and of two epochs
// how much had been changed when they began, before their counters (35). An
// [Epoch] is a counter and a [Reign]; the counter rises with every change of the pair, so
// that an epoch names a pair. Only the primary raises, or a holder that
// promotes (raise in flush.go).
//
// A cookie names an epoch. Whether a record is new enough for it is a question
// of descent, never of order ([Header.Descends]): of two branches that came
// from a partition the higher one knows nothing of what the lower one did. The
// lineage that answers this is kept as the last [MaxRuns] runs of reigns. A
// reign ends when the record is replaced, discarded or taken (33): a boot must
// never mark two histories alike, even if it forgot one of them.
//
// All that a primary does is one operation, flush: alter the record, send it to
// the copies, wait for all of them (await in request.go, push and ack in
// flush.go). Within an epoch an Update carries the changes since the last one;
// the first of an epoch carries everything and is marked as a new copy. A copy
// that does not have the version before asks for everything (Behind). Updates
// are not matched to requests: an Ack names epoch, version and serial, and ends
// every wait that it satisfies.
//
// # The rules
//
// They are numbered as in the protocol's specification, which also says what
// goes wrong without each; numbers in parentheses in the comments are those of
// its test vectors, which are the tests in vectors_test.go.
//
//	R1   a request meets a tombstone                   arrive, dead
//	R2   the primary, by descent and lease: run        arrive, run
//	R3   no lease: have the record acknowledged first  arrive, fence, flushed
//	R4   else one search per session and member        arrive, take; the others are joined
//	R5   Grant, No                                     granted, denied
//	R6   ask all, then decide                          inquire, answer, decide, succeed
//	R7   give the session away                         taken, yield, probed, grant
//	R8   promote                                       succeed, promote
//	R9   the handler returns at the primary            finish, apply, complete
//	R10  it returns at somebody else: forward          finish, forward, accept, carry, delivered
//	R11  all have acknowledged                         ack, flushed, reply
//	R12  nothing changed: wait for what was seen       finish, complete, await
//	R13  strike a copy                                 strike, away, peerDown, refused
//	R14  recover without a request                     the event Recover
//	R15  invalidate                                    bury, adopt, inter
//	R16  drain                                         the event Recover, at who is to take over; relocate
//	R9a  what comes late yields                        interrupt, apply, tooLate
//	R17  drop superfluous copies                       grant, drop, yieldTo
//
// Of the connections (C1 to C6) the driver sees to the order of messages and
// to who is connected (C1, C4), to heartbeats, leases and promises (C3) and to
// proofs of death (C5); they reach the machine as [Facts] and events. The
// machine's part is in compare.go: what two members that meet make of each
// other's header (C2, compare and yieldTo), and passing a tombstone on (C6,
// inter).
//
// # The life of a request
//
// [Request] brings it in. At the primary it becomes a [Handle] at once: one
// epoch was compared, one lease read per copy. Anywhere else the op searches:
// it takes the session from the primary, or asks everybody and then takes it
// from the best holder or promotes; up to six steps, then it fails (G8). A
// request that only somebody else can serve ends as [NotExecuted], which names
// that member, and never once a handler has run (15).
//
// [Return] brings the handler's changes back, by key. The primary applies them
// to the record as it is now, so that requests of one session at the same time
// merge by key; the last writer of a key wins (N6). If the session has gone
// elsewhere meanwhile, the changes go after it; what comes late like that, or is
// done again, does not replace what others have made of the same keys since its
// handler saw them: then the request fails (34, late). The [Reply] leaves when every
// member that the cookie will name has acknowledged; the cookie names the pair
// and epoch under which they did (31). An invalidation wins over all of this.
//
// What became of an op's work when the record is replaced under it is kept in
// two marks (mark in machine.go): the point in history that the handler saw,
// and the one that has its changes. A record certainly includes a mark if it
// is of the same epoch and not older, or descends from an epoch in which this
// member raised after the mark, or in which all copies had acknowledged it.
// If what was done is lost it is done again, to the record that won (16, 17).
// If what was seen is lost the reply is flagged (18).
//
// # Where this is stricter than the rules
//
//   - R1: whoever learns of a tombstone passes it on and waits for the
//     acknowledgements before it answers "gone" itself.
//   - R6: a No disowns the session only if the one who said it does not claim
//     the session in the round of questions that follows. When it said No, a
//     Grant to it may have been on its way; it answers the round after that.
//   - R6 (40): whoever asks names the primaries that are proven gone, and is
//     answered once all that those have sent was read. Without this a primary
//     that moves its copy and goes at once leaves a record on its way to the new
//     copy which outranks whatever the old copy does after it has promoted.
//   - R6: Not-Executed is not said within a promise of losing the connection
//     to the primary: until then it may turn out that it is gone, and only
//     this member knows yet.
//   - R6 (37): Lost is not said while a member that the cookie names may be there:
//     its connection has just broken, or somebody who was asked can reach it. Without
//     this a member that stood still for a moment and finds its connections ended
//     answers with a new session although all holders live.
//   - R7: who is told that the primary is lost, but is connected with it,
//     asks it before giving the session away. A claim counts only for the
//     epoch that the taker knows.
//   - R11: a reply is also flagged if what the handler saw was lost.
//   - R9, R10, R11 (34): after the session may have been elsewhere, or the lease
//     was over, a handler's changes are done only if each key is still what the
//     handler saw. Without this a request that stood still with its member
//     undoes what its client, which has long got an error, has done since.
//   - Order, C2, R6 (35): after a partition the branch in which more was changed
//     wins, whatever was done to the pair in the other: its primary begins an
//     epoch when it meets the other (weigh), with a counter above the other's.
//     Without this a branch in which somebody has read, or a copy was replaced,
//     may win over acknowledged changes.
//   - R8, R11 (36): where replies do not wait for the copies ([Event.Loose]) the
//     record says so. Who promotes then, or gives the session away without its
//     primary, begins an epoch that does not descend from the one in which
//     something may be missing: its client is told by Flagged, and if the old
//     primary is alive after all, what it had is weighed and reported like any
//     branch. What belongs to an earlier epoch is there: the first message of an
//     epoch carries everything.
//   - R13: a copy on a member that is about to come back ([Returning]) is not
//     struck: a member that was frozen meets nothing but ends of connections,
//     and would outbid the branch that lives. Nor is it promoted over (R7, R8).
//   - R13: without a request a copy is struck only if another member can take
//     its place. A member that is alone gains nothing by a new epoch.
//   - R7: a Take from whom this member takes for the primary itself is granted
//     whatever it claims: it says that it is not.
//   - R14: whoever finds that the session has a primary elsewhere does not take
//     it, but asks that one what is to become of its copy.
//   - R17: Drop is told by who gave the session away or was overtaken, as a
//     Compare of the new header. The copy asks the new primary, which first adds
//     the copies that are missing, and discards when those have acknowledged.
//   - C2: a holder discards its copy only once the primary's record is
//     acknowledged by the pair that it names. Both sides see to it that the
//     primary of a branch that lost hears of it, through others if need be.
//   - G4: a lost branch is reported by who was its primary, or by a copy that
//     cannot be sure that the primary will. It may be reported by two.
//
// # Rotation, expiry, touch
//
// The machine knows nothing of ids. To rotate one, the driver creates a new
// session that begins with the attributes of the old one ([Create] takes
// them as Changes) and ends the old one ([Return] with Invalidate, or
// [Expire]).
//
// [Expiry] is carried, not judged. The time of the last access travels with
// the next flush, and by itself, not waited for, once it is a tenth of the
// idle time-out ahead of what the copies know (SESS-12), so that a session
// that is only read does not expire on its secondary (H05). When a session is
// over the driver of its primary says [Expire], and a tombstone goes round. Who
// was cut off or stood still finds sessions over that others use: without the
// leases it asks its copies first (39), and such a tombstone is above only what it
// descends from ([Header.Expired], 38). What meets another branch is forgotten.
// Of two branches the winner takes the later access (41).
package owner
