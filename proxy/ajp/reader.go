package ajp

import "encoding/binary"

// An Error says how a server has broken the protocol. Nothing more can be read from
// its connection.
type Error struct {
	Reason string // our own text, never bytes of the server
}

// Error returns the reason.
func (e *Error) Error() string { return "ajp: " + e.Reason }

var (
	errMagic    = &Error{"a packet does not begin with 41 42"}
	errLong     = &Error{"a packet is longer than the packet size"}
	errEmpty    = &Error{"a packet is empty"}
	errType     = &Error{"a packet has an unknown type"}
	errLength   = &Error{"the length of a packet does not fit its type"}
	errChunk    = &Error{"a body chunk is longer than its packet"}
	errTwice    = &Error{"a second head"}
	errHeadless = &Error{"a body or the end without a head"}
	errPong     = &Error{"an answer to a ping that was not sent"}
	errAsked    = &Error{"it asks for no bytes of the request's body"}
	errAfter    = &Error{"something after the end of the response"}
	errFlushes  = &Error{"too many flushes before the head"}
	errString   = &Error{"a string is longer than its packet, or does not end with a zero"}
	errHeader   = &Error{"an unknown code of a header"}
	errTail     = &Error{"bytes behind the last header"}
)

// A Kind says what a server has sent.
type Kind uint8

// The kinds.
const (
	More  Kind = iota // nothing yet, more bytes are needed
	Head              // SEND_HEADERS
	Data              // a piece of the reply's body
	Flush             // what came so far is for the client now
	Ask               // GET_BODY_CHUNK
	End               // END_RESPONSE
)

// An Event is the next thing a server says.
type Event struct {
	Kind Kind

	// Data is the packet of a Head, for [ParseHead], or the bytes of Data, at least
	// one. It aliases the argument of [Reader.Next].
	Data []byte

	// Size is how many bytes an Ask wants, at least one.
	Size int

	// Reuse says of an End that the connection can be used again.
	Reuse bool
}

// maxFlushes bounds the flushes before the head of a reply. Some servers have one
// that belongs to the request before.
const maxFlushes = 16

// A Reader takes the answer to one request apart. It holds no bytes.
type Reader struct {
	limit   int // packet size
	left    int // bytes of the current chunk to come
	skip    int // bytes behind it, 0 or 1
	head    bool
	end     bool
	flushes int
}

// Reset makes r ready for the answer to a request. limit is the packet size.
func (r *Reader) Reset(limit int) { *r = Reader{limit: limit} }

// Next returns what b begins with, which is all that has arrived and was not
// consumed, and how many bytes that is. After [More] it is called again with more,
// and n bytes are consumed all the same. The error is an [*Error].
func (r *Reader) Next(b []byte) (e Event, n int, err error) {
	if r.left == 0 && r.skip > 0 && len(b) > 0 {
		n, r.skip = r.skip, 0
		b = b[n:]
	}
	switch {
	case r.left > 0 && len(b) > 0:
		m := min(r.left, len(b))
		r.left -= m
		return Event{Kind: Data, Data: b[:m]}, m, nil
	case r.left > 0 || r.skip > 0:
		return Event{}, n, nil
	}
	e, m, err := r.packet(b)
	return e, n + m, err
}

// packet reads a packet, or the head of one with a piece of the body.
func (r *Reader) packet(b []byte) (Event, int, error) {
	const magic = "\x41\x42"
	if m := min(len(b), 2); string(b[:m]) != magic[:m] {
		return Event{}, 0, errMagic
	}
	if len(b) < 5 {
		return Event{}, 0, nil
	}
	size := int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case size > r.limit-4:
		return Event{}, 0, errLong
	case size == 0:
		return Event{}, 0, errEmpty
	case r.end:
		return Event{}, 0, errAfter
	}
	kind, most := b[4], size+4
	switch kind {
	case 3:
		most = 7
		if size < 3 {
			return Event{}, 0, errLength
		}
	case 4:
		if r.head {
			return Event{}, 0, errTwice
		}
	case 5, 6:
		if size != 2+int(kind-5) {
			return Event{}, 0, errLength
		}
	case 9:
		return Event{}, 0, errPong
	default:
		return Event{}, 0, errType
	}
	if len(b) < most {
		return Event{}, 0, nil
	}
	switch kind {
	case 3:
		return r.chunk(b, size)
	case 4:
		r.head = true
		return Event{Kind: Head, Data: b[5:most]}, most, nil
	case 5:
		if !r.head {
			return Event{}, 0, errHeadless
		}
		r.end = true
		return Event{Kind: End, Reuse: b[5] != 0}, most, nil
	}
	want := int(binary.BigEndian.Uint16(b[5:]))
	if want == 0 {
		return Event{}, 0, errAsked
	}
	return Event{Kind: Ask, Size: want}, most, nil
}

// chunk reads the head of a SEND_BODY_CHUNK. The zero behind the bytes is missing
// in some servers.
func (r *Reader) chunk(b []byte, size int) (Event, int, error) {
	n := int(binary.BigEndian.Uint16(b[5:]))
	rest := size - 3 - n
	switch {
	case rest < 0:
		return Event{}, 0, errChunk
	case rest > 1:
		return Event{}, 0, errLength
	case n > 0 && !r.head:
		return Event{}, 0, errHeadless
	}
	r.left, r.skip = n, rest
	if n > 0 {
		e, m, err := r.Next(b[7:])
		return e, 7 + m, err
	}
	if !r.head {
		if r.flushes++; r.flushes > maxFlushes {
			return Event{}, 0, errFlushes
		}
	}
	return Event{Kind: Flush}, 7, nil
}

// A ReplyHead is a SEND_HEADERS that is read header by header. Its slices alias the
// packet.
type ReplyHead struct {
	Status int
	Reason []byte
	rest   []byte
	left   int      // headers to come
	coded  [16]byte // the name of the last one, if it had a code
}

// ParseHead reads the beginning of the Data of an [Event] that is a [Head]. What its
// texts say is not checked: control bytes may be in them. The error is an [*Error].
func ParseHead(b []byte) (h ReplyHead, err error) {
	if len(b) < 2 {
		return h, errLength
	}
	h.Status = int(binary.BigEndian.Uint16(b))
	if h.Reason, b, err = cutString(b[2:]); err != nil {
		return h, err
	}
	if len(b) < 2 {
		return h, errLength
	}
	h.left, h.rest = int(binary.BigEndian.Uint16(b)), b[2:]
	return h, nil
}

// Next returns the next header, valid until the next call; its name is nil if there
// is none left.
func (h *ReplyHead) Next() (name, value []byte, err error) {
	b := h.rest
	if h.left == 0 {
		if len(b) > 0 {
			return nil, nil, errTail
		}
		return nil, nil, nil
	}
	h.left--
	switch {
	case len(b) < 2:
		return nil, nil, errString
	case b[0] == 0xA0:
		known := replyName(b[1])
		if known == "" {
			return nil, nil, errHeader
		}
		name, b = h.coded[:copy(h.coded[:], known)], b[2:]
	default:
		if name, b, err = cutString(b); err != nil {
			return nil, nil, err
		}
		if len(name) == 0 {
			return nil, nil, errHeader
		}
	}
	if value, h.rest, err = cutString(b); err != nil {
		return nil, nil, err
	}
	return name, value, nil
}

// cutString cuts a string off b. A null string is nil.
func cutString(b []byte) (s, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errString
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n == 0xFFFF {
		return nil, b, nil
	}
	if n >= len(b) || b[n] != 0 {
		return nil, nil, errString
	}
	return b[:n], b[n+1:], nil
}
