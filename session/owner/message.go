package owner

// MessageKind is the kind of a [Message].
type MessageKind uint8

const (
	// Update (Header, Serial, Base; Full: Attrs, Expiry; else Changes, Expiry):
	// a version of the record, from its primary; or a tombstone, from anybody.
	// If Full, Header is complete and Attrs is all. Else the receiver is to
	// have Epoch at version Base and gets Changes; of Header only Epoch and
	// Version are set. Base equal to Version changes nothing and asks for an
	// Ack. Answered by Ack or Refused, at once.
	Update MessageKind = iota + 1

	// Ack (About, Serial, Header.Version, Header.Dead): the receiver holds that
	// version of epoch About, or the tombstone that it was sent.
	Ack

	// Refused (About, Serial, Reason, Header): the Update of epoch About was
	// not taken; Header is the refuser's own, complete.
	Refused

	// Ask (Tag, Now, Gone): what do you hold, and whom are you connected with?
	// Answered, unless Now, after a Take of the receiver's own (10), and once it
	// has read all that those have sent it which are Gone (40).
	Ask

	// Answer (Tag, Now, Header, Connected): Header is complete.
	Answer

	// Take (Tag, Cookie, Claim, Over, About): make me the primary. Claim says
	// why a secondary should do so; then Over is the primary in question and
	// About the epoch in which it is.
	Take

	// Grant (Tag, Header, Attrs, Expiry): the record, complete, with the
	// receiver as primary.
	Grant

	// No (Tag, Header): not from me; Header is complete.
	No

	// Forward (Tag, Cookie, About, Changes, Bases, Expiry): changes of a request
	// that ran on a member which lost the session meanwhile. A record that
	// descends from About, if that is not zero, has them already. Bases says
	// for each of Changes what the handler had seen of that key; if it is not
	// so any more, nothing is changed.
	Forward

	// Forwarded (Tag, Reason, Header): the changes are acknowledged under
	// Header, complete; or the Reason why not.
	Forwarded

	// Compare (Now, Header, Expiry, About): one session, when two members meet (C2), or
	// whenever one sees that the other is behind (R17). Header is complete;
	// the zero Header says that nothing is held of what the other had in epoch
	// About. A Header whose epoch is About is hearsay: not the sender's own.
	// Now says that the sender is the primary and all copies have acknowledged.
	// Compare may be answered by Compare or Update.
	Compare
)

// Prompt reports whether the receiver answers k at once, so that an answer
// that is ack_timeout late breaks the connection (C4). Take, Ask and Forward may
// have to wait at the receiver, for a promise or for acknowledgements, while the
// connection is in order: heartbeats watch over those.
func (k MessageKind) Prompt() bool { return k == Update }

// Claim is what a Take says of the primary.
type Claim uint8

const (
	// NoClaim means: the receiver is taken for the primary.
	NoClaim Claim = iota

	// Unreachable means: nobody who was asked is connected with Over.
	Unreachable

	// Disowned means: Over says that it is not the primary. A zero Over means that
	// the record names nobody, or the taker itself, which does not have it.
	Disowned
)

// Reason is why an Update was refused or a Forward not carried out.
type Reason uint8

const (
	// NoReason means: carried out.
	NoReason Reason = iota

	// Higher means: the receiver has a higher record.
	Higher

	// Nothing means: the receiver holds nothing and the Update was not for a new
	// copy (32).
	Nothing

	// Behind means: the receiver does not have version Base; it needs all.
	Behind

	// NoRoom means: the receiver takes no more copies. The machine never says so; the
	// driver may, in its place.
	NoRoom

	// NotPrimary means: the receiver of a Forward is not the primary.
	NotPrimary

	// Invalidated means: the session was.
	Invalidated
)

// A Message goes from one member's machine to that of another, for one session.
// The fields beside Kind that a kind carries are named at the kind. What slices
// point at is shared and must not be written.
type Message struct {
	Kind    MessageKind
	Tag     Tag
	About   Epoch
	Cookie  Epoch
	Header  Header
	Serial  uint32
	Base    uint64
	Full    bool // Update: all of the record
	NewCopy bool // Update: whoever holds nothing may store it; implies Full
	Now     bool // Ask, Answer: not after a Take; Compare: acknowledged
	Claim   Claim
	Over    Member
	Reason  Reason
	Attrs   Attrs
	Changes Changes
	Bases   []uint64 // digests of values, zero for none; nil if the sender does not say
	Expiry  Expiry

	Connected []Member
	Gone      []Member // Ask: who is proven gone, of those who may have been the primary
}
