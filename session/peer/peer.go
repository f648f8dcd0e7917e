package peer

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/rs/zerolog"
)

// Wire versions that this package speaks. Two members use the highest that
// both speak, so a rolling upgrade works between neighbours.
const (
	MinVersion = 1
	MaxVersion = 2
)

// Defaults of [Config].
const (
	DefaultHeartbeat        = 125 * time.Millisecond // C3
	DefaultAckTimeout       = 500 * time.Millisecond // C4
	DefaultHandshakeTimeout = time.Second
	DefaultCompareTimeout   = 30 * time.Second
	DefaultMaxFrame         = 16 << 20
	DefaultMaxQueue         = 64 << 20
)

// An ID names one boot of one member (D12). It is comparable.
type ID struct {
	Name string // 1 to 63 bytes, none of them '#'
	Boot uint32
}

// String returns name#boot.
func (id ID) String() string {
	return id.Name + "#" + strconv.FormatUint(uint64(id.Boot), 10)
}

// less orders the members of a pair; it only has to be the same on both sides.
func (id ID) less(other ID) bool {
	if id.Name != other.Name {
		return id.Name < other.Name
	}
	return id.Boot < other.Boot
}

// A Member is where a boot takes connections.
type Member struct {
	ID
	Addr string // host:port
}

// Errors that end a connection or a call. They reach the driver wrapped, by
// [Handler.Down] and by the methods of [Conn].
var (
	// ErrBroken: the connection has ended; nothing was or will be sent.
	ErrBroken = errors.New("peer: connection is broken")
	// ErrNotUp: an ordinary frame was given before [Handler.Up].
	ErrNotUp = errors.New("peer: connection is not up")
	// ErrTooLong: the frame is longer than Config.MaxFrame. The connection
	// lives.
	ErrTooLong = errors.New("peer: frame is too long")
	// ErrSilent: an answer was late (C4).
	ErrSilent = errors.New("peer: no answer in time")
	// ErrSlow: more than Config.MaxQueue waits to be written.
	ErrSlow = errors.New("peer: member takes too little")
	// ErrReplaced: a newer connection to the same boot was accepted (C1).
	ErrReplaced = errors.New("peer: replaced by a newer connection")
	// ErrGone: the driver said that the member is gone.
	ErrGone = errors.New("peer: member is gone")
	// ErrClosed: the set was closed.
	ErrClosed = errors.New("peer: closed")
	// ErrFrame: the other side broke the protocol.
	ErrFrame = errors.New("peer: malformed frame")
)

// Config sets up a [Set].
type Config struct {
	// Self is this boot.
	Self ID

	// Cluster names the cluster, at most 255 bytes. Members with another name
	// are refused. It separates clusters without keys; with keys, the keys do.
	Cluster string

	// Listener takes the connections of other members. The set owns it as soon
	// as New has succeeded.
	Listener net.Listener

	// Dial connects to another member. If nil, it is a [net.Dialer].
	// An error that is ECONNREFUSED proves that the member is gone (C5).
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// MaxVersion is the highest wire version that is offered. If zero, it is the
	// package's [MaxVersion].
	MaxVersion uint8

	// Keys are the cluster's secrets for replication, newest first, each of 32
	// bytes (D11). The first signs this boot's certificate; a certificate
	// signed by any of them is believed. So a key is rotated by appending the
	// new one everywhere, then moving it to the top everywhere, then removing
	// the old one. Without keys nothing is encrypted, and New refuses a
	// Listener outside loopback.
	Keys [][]byte

	// Handler is told what happens. It must be set.
	Handler Handler

	// Heartbeat is the interval between heartbeats. If zero, DefaultHeartbeat.
	Heartbeat time.Duration

	// AckTimeout is how late an answer breaks the connection, and how long a
	// lease and a promise last (C3, C4: they are one number, or a frozen
	// primary could outlive the promise to it). All members need the same. If
	// zero, DefaultAckTimeout. It must be at least two heartbeats.
	AckTimeout time.Duration

	// HandshakeTimeout bounds a dial, and separately TLS with hello, reply and
	// confirm. If zero, DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration

	// CompareTimeout bounds the time from Open to Up. If zero,
	// DefaultCompareTimeout.
	CompareTimeout time.Duration

	// MaxFrame is the longest payload sent or taken, in bytes. If zero,
	// DefaultMaxFrame.
	MaxFrame int

	// MaxQueue is how many bytes may wait to be written to one member before
	// its connection is broken. If zero, DefaultMaxQueue. It must be at least
	// two MaxFrame.
	MaxQueue int

	// Log gets one line per change of a connection. The zero value is silent.
	Log zerolog.Logger
}

// A Kind says what a [Frame] is.
type Kind uint8

// The kinds of frames that reach a [Handler].
const (
	Header Kind = iota + 1 // of the compare, or sent after it by Conn.Header
	Plain                  // by Conn.Send
	Ask                    // by Conn.Ask: wants Conn.Answer with its Number, in time
	Answer                 // by Conn.Answer: Number is what Conn.Ask returned here
)

// A Frame is what arrived.
type Frame struct {
	Kind   Kind
	Number uint64 // of an Ask or Answer, else 0
	Data   []byte // the payload; valid until [Handler.Frame] returns
}

// A Handler is told what happens to connections and frames. [Set.Close] waits
// for its calls.
//
// For one [Conn] Open, Frame, Up and Down are called one after the other from
// one goroutine; Down of an older connection to the same boot returns before
// Open of the newer one is called. For different members they are called at the
// same time. While a call lasts nothing is read from that member, not even its
// heartbeats, so a call must not wait for another member. Methods of Conn and
// Set, but Close and Conn.Room, may be called from within, and with locks held:
// they do no I/O and call no Handler.
type Handler interface {
	// Open is called when there is a connection to c.ID(). It is not up: until
	// Up the two are not connected for any purpose of the protocol (C2). The
	// func that Open returns sends the headers of all sessions that concern
	// the two, with [Conn.Header], and asks [Conn.Room] between them, outside
	// of any lock. It runs in a goroutine of its own, at the same time as the
	// calls of Frame with the headers of the other side; nil has none to send.
	// An error breaks the connection. See the package comment for what changes meanwhile.
	Open(c *Conn) (compare func() error)

	// Frame is called for each frame, in the order in which they were sent.
	// Before Up all are headers.
	Frame(c *Conn, f Frame)

	// Up is called when both sides have compared: the other side has handled
	// all headers of the series, and its immediate replies have been handled
	// here. Now ordinary frames can be sent.
	Up(c *Conn)

	// Down is called once for each c that was opened, after the last Frame.
	// The member is unreachable; nothing is proven by it (C5). No answer to
	// anything asked on c will come, so every wait on c ends here.
	Down(c *Conn, err error)

	// Failed is called when a dial to a listed member without a connection has
	// failed, once for each change of gone since it was listed or its
	// connection ended. Gone means that it is proven: its address refuses a
	// connection, or another boot of its name answers there (C5); else it is
	// unreachable. Dials go on, and in the odd case (a firewall refused in the
	// member's place) Open follows after all. Calls for one member are made
	// one after the other, and not between its Open and Down.
	Failed(id ID, gone bool, err error)
}

// Stats counts since New.
type Stats struct {
	Accepted  uint64 // connections taken from the listener
	Garbage   uint64 // of these closed: not TLS, wrong certificate, malformed or late hello; also connections broken by a malformed frame
	Refused   uint64 // well-formed handshakes refused: other cluster, other or unknown member, version, generation
	Abandoned uint64 // closed by the dialler in between, as members do whose dials cross
	Crowded   uint64 // connections closed because too many handshakes were under way
	Dials     uint64 // dials begun
	Opened    uint64 // connections that reached Open
	Broken    uint64 // of these ended
	Silent    uint64 // of these ended because an answer was late
	FramesIn  uint64 // frames read, heartbeats included
	FramesOut uint64 // frames queued, heartbeats included
	BytesIn   uint64 // bytes of these frames, without TLS
	BytesOut  uint64
	Writes    uint64 // batches written; FramesOut/Writes is how well batching works
}

// A State says how a member stands.
type State uint8

// The states of a listed member.
const (
	Dialling    State = iota // no dial has ended since it was listed or its connection ended
	Comparing                // between Open and Up
	Up                       // since Up
	Unreachable              // the last dial failed and proves nothing
	Gone                     // the last dial proved that it is gone
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Dialling:
		return "dialling"
	case Comparing:
		return "comparing"
	case Up:
		return "up"
	case Unreachable:
		return "unreachable"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// A Status is one row of [Set.Status].
type Status struct {
	Member
	State      State
	Generation uint64 // of the present connection, else 0
	Err        error  // of the last dial or connection, nil while up
}
