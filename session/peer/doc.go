// Package peer keeps one connection to every other member of the cluster and
// carries frames over it. It knows no sessions: what a frame says is between
// the two [Handler]s. It is section 3 of the ownership protocol (C1 to C5):
// which connection counts, when it counts as up, for how long one member may
// rely on another, and who is proven gone.
//
// # The life of a connection
//
// Both members dial, at once and whenever they have no connection. A dial
// becomes a connection in this order:
//
//	TCP, then TLS 1.3 with certificates of the cluster key (D11)
//	dialler → accepter   hello    who I am, whom I want, wire versions, generation
//	dialler ← accepter   reply    accepted, or why not
//	dialler → accepter   confirm  from here on it is the connection, for both
//
// Generations of one pair of boots only grow, and those proposed by the one
// never equal those proposed by the other, so of two dials that cross exactly
// one wins on both sides. From the moment a generation is accepted nothing is
// read from an older one.
//
//	Handler.Open            the connection exists; it is not up
//	  its func              sends the headers to compare, then
//	  → end                 all my headers are sent
//	  ← end                 all of theirs are handled; then
//	  → done                so are theirs by me, and what I replied to them precedes this
//	  ← done
//	Handler.Up              both have compared (C2)
//	Handler.Frame …         ordinary frames, asks and answers, in order
//	Handler.Down            whatever arrived was handled before
//
// # Frames
//
//	uvarint   length of what follows
//	byte      kind
//	uvarint   number, only in an answer, a heartbeat and its answer
//	…         payload, only in a header, a plain frame, an ask and an answer
//
// An ask has the number of its place among the asks of its sender on this
// connection, from 1; it is not written out.
//
// # What the driver owes
//
// The compare is a series, and sessions go on changing while it runs. Three
// rules make it as good as one step:
//
//   - Open marks the member as comparing before it returns. From then on until
//     Up returns, whoever changes a session whose old or new record names that
//     member sends its new header with [Conn.Header], in the critical section
//     that makes the change. The series reads each session, and sends its
//     header, in the same critical section. So the last header that the member
//     gets is that of the present record, and it precedes every ordinary frame
//     about it.
//   - Headers may arrive at any time, also after Up. Each is compared on its
//     own; a reply to it is again a header, or waits for Up.
//   - Whoever promotes looks at [Set.Promise] in the critical section that
//     raises the epoch. There is no promise over a member that is connected
//     or comparing that could be over; the series therefore either shows the
//     promotion or prevents it.
package peer
