package session

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/understudy-lb/understudy/session/owner"
)

// What members say to each other about one session, one message per frame of
// package peer. This is version 2, and what of it version 1 does not have is
// marked; which version is spoken on a connection is agreed in its handshake
// ([peer.Conn.Version]), so a message does not say it. This program speaks both.
//
//	message   kind and flags, id, then by kind:
//	  Update      serial header version-base changes expiry       (delta: of header epoch, version and version-start)
//	  Update      serial header version-base attrs expiry         (flag full; packed)
//	  Ack         serial about version                            (flag dead)
//	  Refused     serial about reason header expiry
//	  Ask         tag members                                     (the members in version 2, if there are any: gone)
//	  Answer      tag header expiry members
//	  Take        tag cookie claim over about
//	  Grant       tag header attrs expiry                         (packed)
//	  No          tag header expiry
//	  Forward     tag cookie about changes bases expiry
//	  Forwarded   tag reason header expiry
//	  Compare     header expiry about                             (flag now: acknowledged)
//
//	kind      1B: kind in the low half; flags full 0x10, new copy 0x20, now 0x40,
//	          0x80: dead of an Ack, packed of what has attrs (version 2)
//	id        1B length, then the bytes; length 0 stands for the 24 raw bytes of
//	          which a new id is the base64 text
//	tag       u op, u step
//	epoch     u N+1, 4B boot, u seq; or 1B 0 for the zero epoch
//	header    1B flags: held 1, dead 2, lineage 4, loose 8 (version 2); nothing more
//	          unless held; epoch,
//	          u version, u version-start, member primary, members copies,
//	          lineage as 1B count and (u from, 4B boot, u seq)
//	member    1B length, name, 4B boot; or 1B 0 for nobody
//	members   u count, member …
//	attrs     u count, (u length, key, u length, value) …; keys ascend; if packed:
//	          u length, u length of what follows, and that in the form of RFC 1951
//	changes   u count, (u length, key, u length+1, value; or 0 if removed) …
//	bases     u count, 8B …; as many as there are changes, or none
//	expiry    1B: idle 1, access 2, end 4; then those as zigzag u
//
// u is an unsigned varint in its shortest form, at most as long as its field;
// fixed numbers are big endian. Versions, the counter of a header and times are
// bounded so that to go on from them is no overflow, and a header has at most
// [owner.MaxCopies] copies, each once. Booleans and counts have one spelling each, so
// a message that is not packed has one encoding.
//
// What later programs may do: what follows the known fields is skipped, so a
// field that old members can do without is added at the end. A message of an
// unknown kind, 12 to 15, is skipped and counted, in an Ask with an empty
// answer, so a message that they can do without is a new kind. Anything else
// needs a new version, which is not written to members that do not speak it.
// Everything else that is not known is an error and ends the connection. A
// program speaks the version before its own, byte by byte as in testdata/wire.
//
// Everything is bounded by the frame, and each count by what is left of it
// before anything of that size is made.

// ErrWire is the cause of every error from a message that makes no sense.
var ErrWire = errors.New("session: malformed message")

const (
	flagFull    = 0x10
	flagNewCopy = 0x20
	flagNow     = 0x40
	flagDead    = 0x80 // of an Ack
	flagPacked  = 0x80 // of what has attrs
	kindMask    = 0x0f

	headerHeld    = 1
	headerDead    = 2
	headerLineage = 4
	headerLoose   = 8

	expiryIdle   = 1
	expiryAccess = 2
	expiryEnd    = 4

	// maxMembers bounds the members in one message; a cluster has no more.
	maxMembers = 1024

	// maxCounter and maxVersion bound what counts changes of a pair and of a session:
	// no session lives to see so many, and to count on from there is no overflow.
	maxCounter = 1 << 31
	maxVersion = 1 << 62

	// maxTime bounds times, in milliseconds, so that sums of them are in range.
	maxTime = 1 << 52

	// rawID is the length byte of an id that travels as its idBytes raw bytes.
	rawID = 0
)

// looseVersion is the first wire version that has [owner.Header.Loose], packed
// attributes, and [owner.Message.Gone].
const looseVersion = 2

// A format is how messages to one member are written.
type format struct {
	version  uint8
	packFrom int // from so many bytes of attributes snapshots are packed
}

// append appends the encoding of m, which concerns the session id, to dst. It
// allocates only to grow dst.
func (f format) append(dst []byte, id string, m *owner.Message) []byte {
	h, start := &m.Header, len(dst)
	if h.Loose && f.version < looseVersion {
		plain := m.Header
		plain.Loose = false
		h = &plain
	}
	first := byte(m.Kind) & kindMask
	if m.Full {
		first |= flagFull
	}
	if m.NewCopy {
		first |= flagNewCopy
	}
	if m.Now {
		first |= flagNow
	}
	if m.Kind == owner.Ack && m.Header.Dead {
		first |= flagDead
	}
	dst = append(dst, first)
	dst = appendID(dst, id)
	switch m.Kind {
	case owner.Update:
		dst = binary.AppendUvarint(dst, uint64(m.Serial))
		if m.Full {
			dst = appendHeader(dst, h)
			dst = binary.AppendUvarint(dst, m.Header.Version-m.Base)
			dst = f.attrs(dst, start, m.Attrs)
		} else {
			dst = appendEpoch(dst, m.Header.Epoch)
			dst = binary.AppendUvarint(dst, m.Header.Version)
			dst = binary.AppendUvarint(dst, m.Header.Version-m.Header.Start)
			dst = binary.AppendUvarint(dst, m.Header.Version-m.Base)
			dst = appendChanges(dst, m.Changes)
		}
		dst = appendExpiry(dst, m.Expiry)
	case owner.Ack:
		dst = binary.AppendUvarint(dst, uint64(m.Serial))
		dst = appendEpoch(dst, m.About)
		dst = binary.AppendUvarint(dst, m.Header.Version)
	case owner.Refused:
		dst = binary.AppendUvarint(dst, uint64(m.Serial))
		dst = append(appendEpoch(dst, m.About), byte(m.Reason))
		dst = appendExpiry(appendHeader(dst, h), m.Expiry)
	case owner.Ask:
		dst = appendTag(dst, m.Tag)
		if len(m.Gone) > 0 && f.version >= looseVersion {
			dst = appendMembers(dst, m.Gone)
		}
	case owner.Answer:
		dst = appendExpiry(appendHeader(appendTag(dst, m.Tag), h), m.Expiry)
		dst = appendMembers(dst, m.Connected)
	case owner.Take:
		dst = appendEpoch(appendTag(dst, m.Tag), m.Cookie)
		dst = appendMember(append(dst, byte(m.Claim)), m.Over)
		dst = appendEpoch(dst, m.About)
	case owner.Grant:
		dst = appendHeader(appendTag(dst, m.Tag), h)
		dst = appendExpiry(f.attrs(dst, start, m.Attrs), m.Expiry)
	case owner.No:
		dst = appendExpiry(appendHeader(appendTag(dst, m.Tag), h), m.Expiry)
	case owner.Forward:
		dst = appendEpoch(appendTag(dst, m.Tag), m.Cookie)
		dst = appendEpoch(dst, m.About)
		dst = appendExpiry(appendBases(appendChanges(dst, m.Changes), m.Bases), m.Expiry)
	case owner.Forwarded:
		dst = append(appendTag(dst, m.Tag), byte(m.Reason))
		dst = appendExpiry(appendHeader(dst, h), m.Expiry)
	case owner.Compare:
		dst = appendEpoch(appendExpiry(appendHeader(dst, h), m.Expiry), m.About)
	}
	return dst
}

// attrs appends attributes, packed if that is a gain, which the message that
// begins at start then says.
func (f format) attrs(dst []byte, start int, as owner.Attrs) []byte {
	if n := sizeOf(as); f.version >= looseVersion && n >= f.packFrom && n <= maxPacked {
		if packed, ok := appendPacked(dst, as); ok {
			packed[start] |= flagPacked
			return packed
		}
	}
	return appendAttrs(dst, as)
}

// appendID writes an id of newID's form as the bytes it stands for.
func appendID(dst []byte, id string) []byte {
	if len(id) == base64.RawURLEncoding.EncodedLen(idBytes) && plainID(id) {
		dst = append(dst, rawID)
		n := len(dst)
		dst = append(dst, make([]byte, idBytes)...)
		_, _ = base64.RawURLEncoding.Decode(dst[n:], []byte(id)) // cannot fail: the alphabet was looked at, and no bit is left over
		return dst
	}
	return append(append(dst, byte(len(id))), id...)
}

// plainID reports whether id has only the characters of SESS-46.
func plainID[T string | []byte](id T) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

func appendTag(dst []byte, t owner.Tag) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, t.Op), uint64(t.Step))
}

func appendReign(dst []byte, g owner.Reign) []byte {
	return binary.AppendUvarint(binary.BigEndian.AppendUint32(dst, g.Boot), uint64(g.Seq))
}

func appendEpoch(dst []byte, e owner.Epoch) []byte {
	if e.IsZero() {
		return append(dst, 0)
	}
	return appendReign(binary.AppendUvarint(dst, uint64(e.N)+1), e.Reign)
}

func appendHeader(dst []byte, h *owner.Header) []byte {
	if !h.Held() {
		return append(dst, 0)
	}
	flags := byte(headerHeld)
	if h.Dead {
		flags |= headerDead
	}
	if len(h.Lineage) > 0 {
		flags |= headerLineage
	}
	if h.Loose {
		flags |= headerLoose
	}
	dst = binary.AppendUvarint(appendEpoch(append(dst, flags), h.Epoch), h.Version)
	dst = binary.AppendUvarint(dst, h.Version-h.Start)
	dst = appendMembers(appendMember(dst, h.Primary), h.Copies)
	if len(h.Lineage) > 0 {
		dst = append(dst, byte(len(h.Lineage)))
		for _, r := range h.Lineage {
			dst = appendReign(binary.AppendUvarint(dst, uint64(r.From)), r.Reign)
		}
	}
	return dst
}

func appendMember(dst []byte, p owner.Member) []byte {
	if p.IsZero() {
		return append(dst, 0)
	}
	dst = append(append(dst, byte(len(p.Name))), p.Name...)
	return binary.BigEndian.AppendUint32(dst, p.Boot)
}

func appendMembers(dst []byte, ps []owner.Member) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ps)))
	for _, p := range ps {
		dst = appendMember(dst, p)
	}
	return dst
}

func appendAttrs(dst []byte, as owner.Attrs) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(as)))
	for i := range as {
		dst = append(binary.AppendUvarint(dst, uint64(len(as[i].Key))), as[i].Key...)
		dst = append(binary.AppendUvarint(dst, uint64(len(as[i].Value))), as[i].Value...)
	}
	return dst
}

func appendChanges(dst []byte, cs owner.Changes) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(cs)))
	for i := range cs {
		dst = append(binary.AppendUvarint(dst, uint64(len(cs[i].Key))), cs[i].Key...)
		if cs[i].Removed {
			dst = append(dst, 0)
			continue
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(cs[i].Value))+1), cs[i].Value...)
	}
	return dst
}

func appendBases(dst []byte, bs []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(bs)))
	for _, b := range bs {
		dst = binary.BigEndian.AppendUint64(dst, b)
	}
	return dst
}

func appendExpiry(dst []byte, x owner.Expiry) []byte {
	var flags byte
	if x.Idle != 0 {
		flags |= expiryIdle
	}
	if x.Access != 0 {
		flags |= expiryAccess
	}
	if x.End != 0 {
		flags |= expiryEnd
	}
	dst = append(dst, flags)
	for _, v := range [...]int64{x.Idle, x.Access, x.End} {
		if v != 0 {
			dst = binary.AppendVarint(dst, v)
		}
	}
	return dst
}
