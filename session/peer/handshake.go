package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A handshake message is
//
//	4B  magic "USPR"
//	1B  what: 1 hello, 2 reply, 3 confirm
//	2B  length of the body, big endian, at most maxHandshake
//	…   body; what follows the fields known here is skipped, for later versions
//
// Strings are one byte of length and the bytes.
const (
	magic        = "USPR"
	maxHandshake = 1024 // bytes of a body
	maxName      = 63   // bytes of a member's name
	maxCluster   = 255  // bytes of a cluster's name

	// maxLeap is how far a proposed generation may be ahead. It keeps one bad
	// hello from using the numbers up.
	maxLeap = 1 << 32
)

const (
	whatHello byte = iota + 1
	whatReply
	whatConfirm
)

// A verdict is what the accepter thinks of a hello.
type verdict byte

const (
	accepted     verdict = iota
	staleGen             // the generation is not above the accepter's; reply.Gen is
	unlisted             // the dialler is not in the accepter's membership (yet)
	otherCluster         // the clusters' names differ
	otherVersion         // no wire version is spoken by both
	otherMember          // the hello wants somebody else; reply.Self says who is here
	verdicts
)

func (v verdict) String() string {
	switch v {
	case accepted:
		return "accepted"
	case staleGen:
		return "its generation is newer"
	case unlisted:
		return "this member is not in its membership"
	case otherCluster:
		return "it belongs to another cluster"
	case otherVersion:
		return "no wire version in common"
	case otherMember:
		return "it is another member"
	case verdicts:
	}
	return "unknown verdict"
}

var errHandshake = errors.New("peer: malformed handshake")

// hello is the dialler's first message: u8 min, u8 max, cluster, self, u32 boot,
// want, u32 boot, u64 generation.
type hello struct {
	Min, Max   uint8 // wire versions
	Cluster    string
	Self, Want ID
	Gen        uint64
}

// reply is the accepter's: u8 verdict, u8 version, self, u32 boot, u64 generation.
type reply struct {
	Verdict verdict
	Version uint8 // agreed; 0 unless accepted
	Self    ID
	Gen     uint64 // the accepted one, or the highest that the accepter knows of
}

func appendString(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...)
}

func appendID(b []byte, id ID) []byte {
	return binary.BigEndian.AppendUint32(appendString(b, id.Name), id.Boot)
}

// frameBody frames a body.
func frameBody(what byte, body []byte) []byte {
	b := append([]byte(magic), what)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

func (h hello) encode() []byte {
	body := appendString([]byte{h.Min, h.Max}, h.Cluster)
	body = appendID(appendID(body, h.Self), h.Want)
	return frameBody(whatHello, binary.BigEndian.AppendUint64(body, h.Gen))
}

func (r reply) encode() []byte {
	body := appendID([]byte{byte(r.Verdict), r.Version}, r.Self)
	return frameBody(whatReply, binary.BigEndian.AppendUint64(body, r.Gen))
}

func encodeConfirm(gen uint64) []byte {
	return frameBody(whatConfirm, binary.BigEndian.AppendUint64(nil, gen))
}

// readMessage reads exactly one message of the wanted sort and returns its body.
func readMessage(src io.Reader, want byte) ([]byte, error) {
	var head [len(magic) + 3]byte
	if _, err := io.ReadFull(src, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[len(magic)+1:]))
	if string(head[:len(magic)]) != magic || head[len(magic)] != want || n > maxHandshake {
		return nil, errHandshake
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(src, body); err != nil {
		return nil, err
	}
	return body, nil
}

// A cursor takes fields off a body; after the first that is missing all are
// zero and bad is set.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || len(c.b) < n {
		c.bad = true
		return make([]byte, min(n, 8))
	}
	var b []byte
	b, c.b = c.b[:n], c.b[n:]
	return b
}

func (c *cursor) u8() uint8 { return c.take(1)[0] }

func (c *cursor) u64() uint64 { return binary.BigEndian.Uint64(c.take(8)) }

func (c *cursor) text() string {
	n := int(c.u8())
	if b := c.take(n); !c.bad {
		return string(b)
	}
	return ""
}

func (c *cursor) id() ID {
	id := ID{c.text(), binary.BigEndian.Uint32(c.take(4))}
	if !id.valid() {
		c.bad = true
	}
	return id
}

func (id ID) valid() bool {
	if id.Name == "" || len(id.Name) > maxName {
		return false
	}
	for i := range len(id.Name) {
		if c := id.Name[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}

func readHello(src io.Reader) (hello, error) {
	body, err := readMessage(src, whatHello)
	if err != nil {
		return hello{}, err
	}
	c := cursor{b: body}
	h := hello{Min: c.u8(), Max: c.u8(), Cluster: c.text(), Self: c.id(), Want: c.id(), Gen: c.u64()}
	if c.bad || h.Gen == 0 || h.Min > h.Max {
		return hello{}, errHandshake
	}
	return h, nil
}

func readReply(src io.Reader) (reply, error) {
	body, err := readMessage(src, whatReply)
	if err != nil {
		return reply{}, err
	}
	c := cursor{b: body}
	r := reply{Verdict: verdict(c.u8()), Version: c.u8(), Self: c.id(), Gen: c.u64()}
	if c.bad || r.Verdict >= verdicts {
		return reply{}, errHandshake
	}
	return r, nil
}

func readConfirm(src io.Reader, gen uint64) error {
	body, err := readMessage(src, whatConfirm)
	if err != nil {
		return err
	}
	c := cursor{b: body}
	if got := c.u64(); c.bad || got != gen {
		return fmt.Errorf("%w: confirms generation %d, not %d", errHandshake, got, gen)
	}
	return nil
}

// agree returns the highest wire version that both speak.
func agree(ourMin, ourMax, theirMin, theirMax uint8) (uint8, bool) {
	v := min(ourMax, theirMax)
	return v, v >= ourMin && v >= theirMin && v > 0
}

// nextGen returns the lowest generation above floor that self may propose to
// other. The two draw from different numbers, so no two dials are alike; of
// two that cross from the same floor the lower member's is higher.
func nextGen(floor uint64, self, other ID) uint64 {
	gen := (floor/2 + 1) * 2
	if self.less(other) {
		gen++
	}
	return gen
}
