package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// State is what a member says of itself. The zero value is Starting.
type State uint8

// The states of a member. Whoever sees a state it does not know, from a newer
// version, sees Starting.
const (
	Starting   State = iota // not ready: it serves nobody yet
	Running                 // serves
	Draining                // takes no new sessions and will leave
	Overloaded              // takes no new sessions until it says Running
)

// String returns the name of the state in lower case.
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Draining:
		return "draining"
	case Overloaded:
		return "overloaded"
	default:
		return "starting"
	}
}

// A Member is one boot of one process of the cluster.
type Member struct {
	// Name is the member's own name, which is the route in session cookies: 1
	// to 63 visible ASCII characters, no "!", not NONE (D1).
	Name string

	// Boot tells one start of the process from the next. No boot of a name has
	// the number of another.
	Boot uint32

	// Gossip is where the cluster reaches the member, host:port with an IP
	// address. The cluster sets it.
	Gossip string

	// HTTP and Replication are where its handlers and its replication listen,
	// host:port; "" if they do not.
	HTTP, Replication string

	// Machine is what the member shares with others that die with it; "" if
	// nothing is known.
	Machine string

	// Group is its replication group, SecondaryGroup the group it would rather
	// have its secondaries in; "" if none.
	Group, SecondaryGroup string

	// State is what the member last said of itself.
	State State

	// Proxy marks a member that only watches and holds no sessions.
	Proxy bool

	// Restored are the lost boots that its sessions have recovered from. It is
	// told by [Cluster.SetRestored].
	Restored Restored

	// Load is how many sessions it has, as [Cluster.SetLoad] told last.
	Load Load
}

// A Load is how many sessions a member has.
type Load struct {
	Known    bool   // it has told
	Sessions uint32 // of which it is the primary
	Copies   uint32 // that it holds for others
	Lacking  uint32 // of which it has to find another holder
}

// ID returns name#boot, by which the inside of the cluster knows the member
// (D12).
func (m Member) ID() string { return m.Name + "#" + strconv.FormatUint(uint64(m.Boot), 10) }

// Digest returns the number by which [Restored] names this boot.
func (m Member) Digest() Digest { return digestOf(m.ID()) }

// A Digest is a boot in eight bytes: the first eight of the SHA-256 of its ID,
// and never zero.
type Digest uint64

func digestOf(id string) Digest {
	sum := sha256.Sum256([]byte(id))
	return max(1, Digest(binary.BigEndian.Uint64(sum[:])))
}

// Restored are boots that were lost, latest first, zero where there are fewer:
// each session that the member holds has as many holders again as it is to have,
// none of them one of these. A member that does not name a boot has not noticed
// that it is lost, is still at work, cannot place all copies, or has noticed
// that the boot is back (design D8).
type Restored [maxRestored]Digest

// maxRestored bounds what a member tells of the past.
const maxRestored = 8

// parseID is the inverse of Member.ID.
func parseID(id string) (name string, boot uint32, err error) {
	i := strings.LastIndexByte(id, '#')
	if i < 0 {
		return "", 0, fmt.Errorf("member id %.80q has no #", id)
	}
	if err := checkName(id[:i]); err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(id[i+1:], 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != id[i+1:] {
		return "", 0, fmt.Errorf("member id %q has no boot number", id)
	}
	return id[:i], uint32(n), nil
}

// maxName is the length of a member name in bytes (D1).
const maxName = 63

// checkName tells what is wrong with the name of a member (D1).
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a member needs a name")
	case len(name) > maxName:
		return fmt.Errorf("name %.80q has %d bytes, want at most %d", name, len(name), maxName)
	case name == "NONE":
		return errors.New(`the name "NONE" means that there is no member`)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '!' {
			return fmt.Errorf("name %q has the character %q", name, rune(c))
		}
	}
	return nil
}

// What a member tells of itself goes with every gossip message about it, as
// metadata. Name, boot and gossip address are in the message itself; the rest is
//
//	version  1 byte, metaVersion
//	state    1 byte
//	flags    1 byte, metaProxy
//	start    8 bytes, big endian: milliseconds since 1970
//	HTTP, Replication, Machine, Group, SecondaryGroup: each 1 byte of length
//	         and that many bytes
//	Restored: 1 byte, how many, and 8 bytes for each
//	Load: 1 byte of length, 0 if it is not known, and 4 bytes each for
//	         sessions, copies and those that lack one
//
// The last two fields may be missing. A later version may add fields at the end, which
// this one skips. A change of what is here raises metaVersion.
const (
	metaVersion = 1
	metaProxy   = 1 << 0

	metaFixed = 11  // bytes before the strings
	metaMax   = 512 // bytes: what memberlist carries
	metaLoad  = 12  // bytes, without their length

	// metaHead is how many bytes may be before Restored and Load, which must
	// always fit.
	metaHead = metaMax - 1 - 8*maxRestored - 1 - metaLoad
)

// An entry is a member with what only this package wants to know.
type entry struct {
	Member
	start int64 // Unix time of the boot in ms, by the member's clock
}

// older tells whether e is the older of two boots of one name (D12).
func (e entry) older(than entry) bool {
	if e.start != than.start {
		return e.start < than.start
	}
	return e.Boot < than.Boot
}

// encodeMeta returns the metadata of e. The error names the fields to shorten.
func encodeMeta(e entry) ([]byte, error) {
	fields := [...]struct{ name, value string }{
		{"HTTP", e.HTTP},
		{"Replication", e.Replication},
		{"Machine", e.Machine},
		{"Group", e.Group},
		{"SecondaryGroup", e.SecondaryGroup},
	}
	b := make([]byte, metaFixed, metaMax)
	b[0] = metaVersion
	b[1] = byte(e.State)
	if e.Proxy {
		b[2] = metaProxy
	}
	binary.BigEndian.PutUint64(b[3:], uint64(e.start))
	var sizes strings.Builder
	for _, f := range fields {
		if len(f.value) > 255 {
			return nil, fmt.Errorf("%s has %d bytes, want at most 255", f.name, len(f.value))
		}
		b = append(append(b, byte(len(f.value))), f.value...)
		fmt.Fprintf(&sizes, ", %s %d", f.name, len(f.value))
	}
	if len(b) > metaHead {
		return nil, fmt.Errorf("what the member announces has %d bytes, want at most %d%s", len(b), metaHead, &sizes)
	}
	n := 0
	for n < maxRestored && e.Restored[n] != 0 {
		n++
	}
	b = append(b, byte(n))
	for _, d := range e.Restored[:n] {
		b = binary.BigEndian.AppendUint64(b, uint64(d))
	}
	if !e.Load.Known {
		b = append(b, 0)
	} else {
		b = append(b, metaLoad)
		b = binary.BigEndian.AppendUint32(b, e.Load.Sessions)
		b = binary.BigEndian.AppendUint32(b, e.Load.Copies)
		b = binary.BigEndian.AppendUint32(b, e.Load.Lacking)
	}
	return b, nil
}

// decodeMeta returns the member with that id and gossip address which meta
// describes. Nothing of it is trusted; nothing of meta is retained.
func decodeMeta(id, gossip string, meta []byte) (entry, error) {
	name, boot, err := parseID(id)
	if err != nil {
		return entry{}, err
	}
	e := entry{Member: Member{Name: name, Boot: boot, Gossip: gossip}}
	if ap, err := netip.ParseAddrPort(gossip); err != nil || ap.Port() == 0 || ap.Addr().IsUnspecified() || ap.Addr().IsMulticast() {
		return entry{}, fmt.Errorf("nobody can be at the gossip address %.80q", gossip)
	}
	switch {
	case len(meta) < metaFixed:
		return entry{}, fmt.Errorf("metadata has %d bytes", len(meta))
	case len(meta) > metaMax:
		return entry{}, fmt.Errorf("metadata has %d bytes, want at most %d", len(meta), metaMax)
	case meta[0] != metaVersion:
		return entry{}, fmt.Errorf("metadata has version %d, want %d", meta[0], metaVersion)
	}
	if e.State = State(meta[1]); e.State > Overloaded {
		e.State = Starting
	}
	e.Proxy = meta[2]&metaProxy != 0
	e.start = int64(binary.BigEndian.Uint64(meta[3:]))
	rest := meta[metaFixed:]
	for _, f := range []struct {
		name    string
		to      *string
		address bool
	}{
		{"HTTP", &e.HTTP, true},
		{"Replication", &e.Replication, true},
		{"Machine", &e.Machine, false},
		{"Group", &e.Group, false},
		{"SecondaryGroup", &e.SecondaryGroup, false},
	} {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return entry{}, fmt.Errorf("metadata ends within %s", f.name)
		}
		end := 1 + int(rest[0])
		*f.to, rest = string(rest[1:end]), rest[end:]
		check := checkText
		if f.address {
			check = checkAddress
		}
		if *f.to == "" {
			continue
		}
		if err := check(*f.to); err != nil {
			return entry{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if len(meta)-len(rest) > metaHead {
		return entry{}, fmt.Errorf("metadata has %d bytes of text, want at most %d", len(meta)-len(rest), metaHead)
	}
	if e.Restored, rest, err = decodeRestored(rest); err == nil {
		e.Load, err = decodeLoad(rest)
	}
	return e, err
}

// decodeLoad reads the field that b begins with.
func decodeLoad(b []byte) (Load, error) {
	if len(b) == 0 || b[0] == 0 {
		return Load{}, nil // an older version, or a proxy
	}
	if b[0] < metaLoad || len(b) < 1+int(b[0]) {
		return Load{}, fmt.Errorf("metadata ends within Load, in %d bytes", len(b)-1)
	}
	b = b[1:]
	return Load{true, binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}, nil
}

// decodeRestored reads the field that b begins with, and returns what follows.
func decodeRestored(b []byte) (r Restored, rest []byte, err error) {
	if len(b) == 0 {
		return Restored{}, nil, nil // an older version: it says of no boot that it has recovered
	}
	n := int(b[0])
	if n > maxRestored || len(b) < 1+8*n {
		return Restored{}, nil, fmt.Errorf("metadata names %d restored boots in %d bytes, want at most %d", n, len(b)-1, maxRestored)
	}
	for i := range n {
		if r[i] = Digest(binary.BigEndian.Uint64(b[1+8*i:])); r[i] == 0 {
			return Restored{}, nil, errors.New("metadata names a restored boot 0")
		}
	}
	return r, b[1+8*n:], nil
}

// checkAddress tells what is wrong with a host:port that somebody announces.
func checkAddress(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("address %.80q is not host:port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %.80q has no port number", s)
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("address %.80q has no host", s)
	}
	return nil
}

// checkText tells what is wrong with a word that is shown to people.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%.80q is not text", s)
	}
	return nil
}
