package ajp

import (
	"encoding/binary"
	"errors"
)

// The limits of a packet, its four bytes of head included.
const (
	MinPacket = 8192
	MaxPacket = 65536
)

// Overhead is how many bytes of a packet with a piece of a request's body are not
// of the body.
const Overhead = 6

// Ping is a CPING, and Pong what a server answers to it.
const (
	Ping = "\x12\x34\x00\x01\x0a"
	Pong = "\x41\x42\x00\x01\x09"
)

// ErrTooLong is what [Message.End] returns for a request whose head does not fit
// into one packet.
var ErrTooLong = errors.New("ajp: the request's head is longer than a packet")

// The attributes of a request that have a code, in the order in which mod_jk sends
// them. All but [KeySize] are strings.
const (
	Secret       byte = 0x0C
	RemoteUser   byte = 0x03
	AuthType     byte = 0x04
	QueryString  byte = 0x05
	Route        byte = 0x06
	Certificate  byte = 0x07 // PEM
	Cipher       byte = 0x08
	Session      byte = 0x09
	KeySize      byte = 0x0B // [Message.Number]
	storedMethod byte = 0x0D
	named        byte = 0x0A
	done         byte = 0xFF
)

// A Start is what a FORWARD_REQUEST begins with.
type Start struct {
	Method     []byte // as sent; those without a code go along as an attribute
	Protocol   string // HTTP/1.1
	URI        []byte // without the query
	RemoteAddr []byte
	RemoteHost []byte // nil if it is not known
	ServerName []byte
	ServerPort uint16
	Secure     bool // the client came over TLS
}

// A Message is a FORWARD_REQUEST under construction: Begin, then Header for each
// header line, then Attribute and the like, then End.
//
// Texts are passed through as they are. They must not be longer than 65534 bytes;
// one that is makes the message too long in any case.
type Message struct {
	b       []byte
	limit   int // of len(b)
	headers int
	count   int    // where their number stands
	method  []byte // that has no code
	long    bool
}

// Begin starts a message in b, whose content is lost. It takes the memory of b as
// far as that suffices. limit is the packet size.
func (m *Message) Begin(b []byte, limit int, s *Start) {
	*m = Message{b: append(b[:0], 0x12, 0x34, 0, 0, 2), limit: limit}
	code := methodCode(s.Method)
	if code == 0 {
		code, m.method = 0xFF, s.Method
	}
	m.b = append(m.b, code)
	appendString(m, s.Protocol)
	appendString(m, s.URI)
	appendString(m, s.RemoteAddr)
	if s.RemoteHost == nil {
		m.b = append(m.b, 0xFF, 0xFF)
	} else {
		appendString(m, s.RemoteHost)
	}
	appendString(m, s.ServerName)
	m.b = binary.BigEndian.AppendUint16(m.b, s.ServerPort)
	m.b = append(m.b, 0)
	if s.Secure {
		m.b[len(m.b)-1] = 1
	}
	m.count = len(m.b)
	m.b = append(m.b, 0, 0)
}

// Header adds a header line.
func (m *Message) Header(name, value []byte) {
	if m.headers++; m.headers > 0xFFFF {
		m.long = true
		return
	}
	if code := headerCode(name); code != 0 {
		m.b = append(m.b, 0xA0, code)
	} else {
		appendString(m, name)
	}
	appendString(m, value)
}

// Attribute adds an attribute that has a code.
func (m *Message) Attribute(code byte, value []byte) {
	m.seal()
	m.b = append(m.b, code)
	appendString(m, value)
}

// AttributeString is Attribute for a string.
func (m *Message) AttributeString(code byte, value string) {
	m.seal()
	m.b = append(m.b, code)
	appendString(m, value)
}

// Number adds an attribute that is a number.
func (m *Message) Number(code byte, value uint16) {
	m.seal()
	m.b = binary.BigEndian.AppendUint16(append(m.b, code), value)
}

// Named adds an attribute that has a name. Servers refuse requests with a name that
// they do not know.
func (m *Message) Named(name string, value []byte) {
	m.storeMethod()
	m.b = append(m.b, named)
	appendString(m, name)
	appendString(m, value)
}

// NamedString is Named for a string.
func (m *Message) NamedString(name, value string) {
	m.storeMethod()
	m.b = append(m.b, named)
	appendString(m, name)
	appendString(m, value)
}

// storeMethod adds the method if it has no code: before all named attributes, as
// mod_jk has it.
func (m *Message) storeMethod() {
	m.seal()
	if m.method != nil {
		m.b = append(m.b, storedMethod)
		appendString(m, m.method)
		m.method = nil
	}
}

// seal writes the number of headers: there are no further ones.
func (m *Message) seal() {
	if m.count > 0 {
		binary.BigEndian.PutUint16(m.b[m.count:], uint16(m.headers))
		m.count = 0
	}
}

// End returns the packet, which is valid until the next Begin, or [ErrTooLong].
// The memory is the caller's again.
func (m *Message) End() ([]byte, error) {
	m.storeMethod()
	m.b = append(m.b, done)
	if m.long || len(m.b) > m.limit {
		return m.b[:0], ErrTooLong
	}
	binary.BigEndian.PutUint16(m.b[2:], uint16(len(m.b)-4))
	return m.b, nil
}

// appendString adds a string: its length, its bytes, a zero.
func appendString[T string | []byte](m *Message, s T) {
	if m.long || len(m.b)+len(s)+3 > m.limit {
		m.long = true
		return
	}
	m.b = binary.BigEndian.AppendUint16(m.b, uint16(len(s)))
	m.b = append(m.b, s...)
	m.b = append(m.b, 0)
}

// AppendBody adds a packet with a piece of a request's body to b; an empty piece
// is the end of the body.
func AppendBody(b, piece []byte) []byte {
	var head [Overhead]byte
	b = append(b, head[:HeadBody(head[:], len(piece))]...)
	return append(b, piece...)
}

// HeadBody writes the head of a packet with n bytes of a request's body, which the
// caller puts behind it, into b, which has room for [Overhead] bytes. It returns
// the length of the head: no body, no Overhead.
func HeadBody(b []byte, n int) int {
	b[0], b[1] = 0x12, 0x34
	if n == 0 {
		b[2], b[3] = 0, 0
		return 4
	}
	binary.BigEndian.PutUint16(b[2:], uint16(n+2))
	binary.BigEndian.PutUint16(b[4:], uint16(n))
	return Overhead
}
