package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

// wireID is an id of newID's form; its raw bytes are 00 10 83 … .
const wireID = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"

const wireIDHex = "00" + "00108310518720928b30d38f411493515597619d35db7e39" // length byte and raw bytes

var (
	memberA = owner.Member{Name: "a", Boot: 0x01020304}
	memberB = owner.Member{Name: "node-b", Boot: 7}
	epochA  = owner.Epoch{N: 2, Reign: owner.Reign{Boot: 0x01020304, Seq: 9}}
	headerA = owner.Header{
		Epoch: epochA, Primary: memberA, Copies: []owner.Member{memberB}, Version: 300, Start: 290,
		Lineage: []owner.Run{{From: 0, Reign: owner.Reign{Boot: 7, Seq: 1}}, {From: 2, Reign: epochA.Reign}},
	}
	headerAHex = "05" + epochAHex + "ac02" + "0a" + memberAHex + "01" + memberBHex + "02" + "00" + "00000007" + "01" + "02" + "01020304" + "09"
	expiryA    = owner.Expiry{Idle: 3600_000, Access: 1_760_000_000_000, End: -1}
)

const (
	epochAHex  = "03" + "01020304" + "09"
	memberAHex = "01" + "61" + "01020304"
	memberBHex = "06" + "6e6f64652d62" + "00000007"
	expiryAHex = "07" + "80bab703" + "8080e682b966" + "01"
)

// wireMessages has one message of each kind and form, with its encoding. A
// change of these bytes is a new wire version: members of the old one are in
// the cluster during an upgrade.
func wireMessages() []struct {
	name string
	id   string
	m    owner.Message
	hex  string
} {
	return []struct {
		name string
		id   string
		m    owner.Message
		hex  string
	}{{
		name: "update of one attribute",
		m: owner.Message{
			Kind: owner.Update, Serial: 5, Header: owner.Header{Epoch: epochA, Version: 300, Start: 2}, Base: 299,
			Changes: owner.Changes{{Key: "counter", Value: []byte{0x18, 0x64}}},
			Expiry:  owner.Expiry{Idle: expiryA.Idle, Access: expiryA.Access, End: expiryA.Access},
		},
		hex: "01" + wireIDHex + "05" + epochAHex + "ac02" + "aa02" + "01" + "01" + "07636f756e746572" + "03" + "1864" + "07" + "80bab703" + "8080e682b966" + "8080e682b966",
	}, {
		name: "update that changes nothing",
		m:    owner.Message{Kind: owner.Update, Serial: 6, Header: owner.Header{Epoch: epochA, Version: 300, Start: 300}, Base: 300},
		hex:  "01" + wireIDHex + "06" + epochAHex + "ac02" + "00" + "00" + "00" + "00",
	}, {
		name: "update with a removal and an empty value",
		m: owner.Message{
			Kind: owner.Update, Header: owner.Header{Epoch: epochA, Version: 2}, Base: 1,
			Changes: owner.Changes{{Key: "x", Removed: true}, {Key: "", Value: []byte{}}},
		},
		hex: "01" + wireIDHex + "00" + epochAHex + "02" + "02" + "01" + "02" + "0178" + "00" + "00" + "01" + "00",
	}, {
		name: "update of all, to a new copy",
		m: owner.Message{
			Kind: owner.Update, Full: true, NewCopy: true, Serial: 1, Header: headerA,
			Attrs: owner.Attrs{{Key: "cart", Value: []byte("xyz")}, {Key: "counter", Value: []byte{1}}}, Expiry: expiryA,
		},
		hex: "31" + wireIDHex + "01" + headerAHex + "ac02" + "02" + "0463617274" + "0378797a" + "07636f756e746572" + "0101" + expiryAHex,
	}, {
		name: "update with a tombstone, of a foreign id",
		id:   "4F2A",
		m:    owner.Message{Kind: owner.Update, Full: true, Header: owner.Header{Epoch: epochA, Version: 1, Dead: true}},
		hex:  "11" + "0434463241" + "00" + "03" + epochAHex + "01" + "01" + "00" + "00" + "01" + "00" + "00",
	}, {
		name: "ack",
		m:    owner.Message{Kind: owner.Ack, Serial: 5, About: epochA, Header: owner.Header{Version: 300}},
		hex:  "02" + wireIDHex + "05" + epochAHex + "ac02",
	}, {
		name: "ack of a tombstone",
		m:    owner.Message{Kind: owner.Ack, About: epochA, Header: owner.Header{Version: 300, Dead: true}},
		hex:  "82" + wireIDHex + "00" + epochAHex + "ac02",
	}, {
		name: "refused",
		m:    owner.Message{Kind: owner.Refused, Serial: 5, About: epochA, Reason: owner.Nothing},
		hex:  "03" + wireIDHex + "05" + epochAHex + "02" + "00" + "00",
	}, {
		name: "ask",
		m:    owner.Message{Kind: owner.Ask, Tag: owner.Tag{Op: 200, Step: 1}},
		hex:  "04" + wireIDHex + "c801" + "01",
	}, {
		name: "answer, now",
		m:    owner.Message{Kind: owner.Answer, Now: true, Tag: owner.Tag{Op: 200, Step: 1}, Header: headerA, Expiry: expiryA, Connected: []owner.Member{memberB, memberA}},
		hex:  "45" + wireIDHex + "c801" + "01" + headerAHex + expiryAHex + "02" + memberBHex + memberAHex,
	}, {
		name: "take",
		m:    owner.Message{Kind: owner.Take, Tag: owner.Tag{Op: 1, Step: 2}, Cookie: epochA, Claim: owner.Disowned, Over: memberB, About: owner.Epoch{N: 1, Reign: owner.Reign{Boot: 7, Seq: 1}}},
		hex:  "06" + wireIDHex + "01" + "02" + epochAHex + "02" + memberBHex + "02" + "00000007" + "01",
	}, {
		name: "take without a cookie",
		m:    owner.Message{Kind: owner.Take, Tag: owner.Tag{Op: 1}},
		hex:  "06" + wireIDHex + "01" + "00" + "00" + "00" + "00" + "00",
	}, {
		name: "grant",
		m:    owner.Message{Kind: owner.Grant, Tag: owner.Tag{Op: 1, Step: 2}, Header: headerA, Attrs: owner.Attrs{{Key: "counter", Value: []byte{1}}}, Expiry: expiryA},
		hex:  "07" + wireIDHex + "01" + "02" + headerAHex + "01" + "07636f756e746572" + "0101" + expiryAHex,
	}, {
		name: "no",
		m:    owner.Message{Kind: owner.No, Tag: owner.Tag{Op: 1, Step: 2}, Header: headerA, Expiry: expiryA},
		hex:  "08" + wireIDHex + "01" + "02" + headerAHex + expiryAHex,
	}, {
		name: "forward",
		m:    owner.Message{Kind: owner.Forward, Tag: owner.Tag{Op: 1, Step: 2}, Cookie: epochA, Changes: owner.Changes{{Key: "x", Value: []byte{9}}}, Expiry: expiryA},
		hex:  "09" + wireIDHex + "01" + "02" + epochAHex + "00" + "01" + "0178" + "0209" + "00" + expiryAHex,
	}, {
		name: "forward with what was seen",
		m: owner.Message{
			Kind: owner.Forward, Tag: owner.Tag{Op: 1, Step: 2}, Cookie: epochA,
			Changes: owner.Changes{{Key: "x", Value: []byte{9}}, {Key: "y", Removed: true}}, Bases: []uint64{0, 0x0102030405060708}, Expiry: expiryA,
		},
		hex: "09" + wireIDHex + "01" + "02" + epochAHex + "00" + "02" + "0178" + "0209" + "0179" + "00" + "02" + "0000000000000000" + "0102030405060708" + expiryAHex,
	}, {
		name: "forwarded",
		m:    owner.Message{Kind: owner.Forwarded, Tag: owner.Tag{Op: 1, Step: 2}, Reason: owner.NotPrimary, Header: headerA, Expiry: expiryA},
		hex:  "0a" + wireIDHex + "01" + "02" + "05" + headerAHex + expiryAHex,
	}, {
		name: "compare",
		m:    owner.Message{Kind: owner.Compare, Header: headerA, Expiry: expiryA},
		hex:  "0b" + wireIDHex + headerAHex + expiryAHex + "00",
	}, {
		name: "compare: acknowledged",
		m:    owner.Message{Kind: owner.Compare, Now: true, Header: headerA, Expiry: expiryA},
		hex:  "4b" + wireIDHex + headerAHex + expiryAHex + "00",
	}, {
		name: "compare: nothing held",
		m:    owner.Message{Kind: owner.Compare, About: epochA},
		hex:  "0b" + wireIDHex + "00" + "00" + epochAHex,
	}}
}

func TestWireBytes(t *testing.T) {
	kinds := map[owner.MessageKind]bool{}
	for _, tt := range wireMessages() {
		t.Run(tt.name, func(t *testing.T) {
			id := tt.id
			if id == "" {
				id = wireID
			}
			kinds[tt.m.Kind] = true
			got := appendMessage([]byte("before"), id, &tt.m)
			if want := hex.EncodeToString([]byte("before")) + tt.hex; hex.EncodeToString(got) != want {
				t.Errorf("appendMessage =\n%x, want\n%s", got, want)
			}
			gotID, m, err := parseMessage(got[len("before"):], peer.MaxVersion)
			if err != nil || gotID != id || !reflect.DeepEqual(m, tt.m) {
				t.Errorf("parseMessage = %q, %+v, %v; want %q, %+v", gotID, m, err, id, tt.m)
			}
		})
	}
	if len(kinds) != int(owner.Compare) {
		t.Errorf("%d of %d kinds are tested", len(kinds), owner.Compare)
	}
}

// Design 6: a counter request costs at most 350 B on the wire in both
// directions; TCP, IP and TLS take about 200 of that.
func TestWireIsSmall(t *testing.T) {
	for _, tt := range wireMessages()[:2] {
		if n := len(tt.hex) / 2; n > 70 {
			t.Errorf("%s has %d bytes, want at most 70", tt.name, n)
		}
	}
}

func TestParseMessageCopies(t *testing.T) {
	for _, tt := range wireMessages() {
		frame, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		_, m, err := parseMessage(frame, peer.MaxVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range frame {
			frame[i] = 0xff
		}
		if !reflect.DeepEqual(m, tt.m) {
			t.Errorf("%s: the message changes with the frame: %+v", tt.name, m)
		}
	}
}

func TestParseMessageRefuses(t *testing.T) {
	const tag = "01" + "02"
	tests := []struct{ name, hex, want string }{
		{"nothing", "", "cut short"},
		{"kind 0", "00" + wireIDHex, "kind"},
		{"kind 12", "0c" + wireIDHex, "kind"},
		{"dead on an Update", "81" + wireIDHex, "flags"},
		{"full on an Ask", "14" + wireIDHex + tag, "flags"},
		{"new copy that is not full", "21" + wireIDHex + "05", "flags"},
		{"now on an Update", "41" + wireIDHex + "05", "flags"},
		{"id cut short", "04" + "00aabb", "cut short"},
		{"id with a line break", "04" + "020a41" + tag, "id"},
		{"id that is too long", "04" + "41" + strings.Repeat("41", 65) + tag, "id"},
		{"id of newID in the long form", "04" + "20" + strings.Repeat("41", 32) + tag, "id"},
		{"number in a longer form", "04" + wireIDHex + "8100" + "02", "number"},
		{"number that does not end", "04" + wireIDHex + strings.Repeat("ff", 11), "number"},
		{"step of 33 bits", "04" + wireIDHex + "01" + "8080808010", "number"},
		{"epoch counter of 33 bits", "0b" + wireIDHex + "00" + "00" + "818080801000000001" + "00", "epoch"},
		{"zero epoch in the long form", "0b" + wireIDHex + "00" + "00" + "010000000000", "epoch"},
		{"epoch that cannot be raised", "08" + wireIDHex + tag + "01" + "828080800800000001" + "01" + "01" + "00" + "00" + "00", "epoch"},
		{"version that cannot be raised", "08" + wireIDHex + tag + "01" + epochAHex + "818080808080808040" + "00" + "00" + "00", "version"},
		{"version of an answer that cannot be raised", "02" + wireIDHex + "05" + epochAHex + "818080808080808040", "version"},
		{"start below zero", "08" + wireIDHex + tag + "01" + epochAHex + "01" + "02" + "00" + "00", "number below zero"},
		{"start of changes below zero", "01" + wireIDHex + "05" + epochAHex + "02" + "03" + "01" + "00" + "00", "number below zero"},
		{"base of changes below zero", "01" + wireIDHex + "05" + epochAHex + "02" + "00" + "03" + "00" + "00", "number below zero"},
		{"base of all below zero", "11" + wireIDHex + "05" + "01" + epochAHex + "01" + "00" + "00" + "00" + "02" + "00" + "00", "number below zero"},
		{"65 copies", "08" + wireIDHex + tag + "01" + epochAHex + "01" + "00" + "00" + "41" + strings.Repeat("016100000001", 65), "count of members"},
		{"a copy twice", "08" + wireIDHex + tag + "01" + epochAHex + "01" + "00" + "00" + "02" + strings.Repeat("016100000001", 2), "a copy twice"},
		{"time beyond all clocks", "09" + wireIDHex + tag + "00" + "00" + "00" + "00" + "01" + "8280808080808010", "time"},
		{"header flags without held", "08" + wireIDHex + tag + "02", "header flags"},
		{"unknown header flag", "08" + wireIDHex + tag + "11", "header flags"},
		{"held header with epoch zero", "08" + wireIDHex + tag + "01" + "00" + "01" + "00" + "00" + "00", "header"},
		{"update of all without a header", "11" + wireIDHex + "05" + "00" + "00" + "00" + "00", "update without a header"},
		{"reason", "03" + wireIDHex + "05" + epochAHex + "63" + "00", "reason"},
		{"claim", "06" + wireIDHex + tag + "00" + "03" + "00" + "00", "claim"},
		{"name of a cookie's separator", "06" + wireIDHex + tag + "00" + "00" + "0121" + "00000001" + "00", "name"},
		{"NONE as a name", "06" + wireIDHex + tag + "00" + "00" + "044e4f4e45" + "00000001" + "00", "name"},
		{"nobody among copies", "08" + wireIDHex + tag + "01" + epochAHex + "01" + "00" + "00" + "0100", "member"},
		{"more members than bytes", "08" + wireIDHex + tag + "01" + epochAHex + "01" + "00" + "00" + "7f", "count of members"},
		{"lineage of none", "08" + wireIDHex + tag + "05" + epochAHex + "01" + "00" + "00" + "00" + "00", "lineage"},
		{"lineage of 17", "08" + wireIDHex + tag + "05" + epochAHex + "01" + "00" + "00" + "00" + "11", "lineage"},
		{"lineage that does not ascend", "08" + wireIDHex + tag + "05" + epochAHex + "01" + "00" + "00" + "00" + "02" + "010000000101" + "010000000102", "lineage"},
		{"more changes than bytes", "01" + wireIDHex + "05" + epochAHex + "02" + "00" + "01" + "ffffffff0f", "count"},
		{"key that is cut short", "01" + wireIDHex + "05" + epochAHex + "02" + "00" + "01" + "01" + "0561", "cut short"},
		{"value of 2^63 bytes", "01" + wireIDHex + "05" + epochAHex + "02" + "00" + "01" + "01" + "0161" + "80808080808080808001", "cut short"},
		{"attributes out of order", "07" + wireIDHex + tag + "00" + "02" + "0162" + "00" + "0161" + "00" + "00", "order of attributes"},
		{"an attribute twice", "07" + wireIDHex + tag + "00" + "02" + "0161" + "00" + "0161" + "00" + "00", "order of attributes"},
		{"unknown expiry", "09" + wireIDHex + tag + "00" + "00" + "00" + "00" + "08", "expiry"},
		{"zero in the long form", "09" + wireIDHex + tag + "00" + "00" + "00" + "00" + "01" + "00", "zero"},
		{"bases without changes", "09" + wireIDHex + tag + "00" + "00" + "00" + "01" + "0000000000000000" + "00", "bases"},
		{"fewer bases than changes", "09" + wireIDHex + tag + "00" + "00" + "02" + "0178" + "00" + "0179" + "00" + "01" + "0000000000000000" + "00", "bases"},
	}
	for _, tt := range tests {
		frame, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		id, m, err := parseMessage(frame, peer.MaxVersion)
		if !errors.Is(err, ErrWire) || !strings.HasSuffix(err.Error(), tt.want) || id != "" || !reflect.DeepEqual(m, owner.Message{}) {
			t.Errorf("%s: parseMessage = %q, %+v, %v; want an ErrWire about %q", tt.name, id, m, err, tt.want)
		}
	}
	for _, tt := range wireMessages() { // cut anywhere
		frame, _ := hex.DecodeString(tt.hex)
		for n := range len(frame) {
			if _, _, err := parseMessage(frame[:n], peer.MaxVersion); !errors.Is(err, ErrWire) {
				t.Errorf("%s cut to %d bytes: %v, want ErrWire", tt.name, n, err)
			}
		}
	}
}

// Members of the next version may add fields at the end.
func TestParseMessageSkipsWhatFollows(t *testing.T) {
	for _, tt := range wireMessages() {
		known := tt.hex
		if tt.m.Kind == owner.Ask {
			known += "00" // the members, of which there are none; it may be left out if nothing follows
		}
		frame, err := hex.DecodeString(known + "0badcafe")
		if err != nil {
			t.Fatal(err)
		}
		if _, m, err := parseMessage(frame, peer.MaxVersion); err != nil || !reflect.DeepEqual(m, tt.m) {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
	}
}

func TestWireRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, m := drawMessage(t)
		frame := appendMessage(nil, id, &m)
		gotID, got, err := parseMessage(frame, peer.MaxVersion)
		if err != nil || gotID != id || !reflect.DeepEqual(got, m) {
			t.Errorf("%x: %q, %+v, %v; want %q, %+v", frame, gotID, got, err, id, m)
		}
		if again := appendMessage(nil, gotID, &got); !bytes.Equal(again, frame) {
			t.Errorf("encoded again: %x, want %x", again, frame)
		}
	})
}

// drawMessage draws a message with the fields that its kind carries.
func drawMessage(t *rapid.T) (string, owner.Message) {
	id := rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9_-]{32}`),
		rapid.StringMatching(`[A-Za-z0-9_-]{1,31}`),
		rapid.StringMatching(`[A-Za-z0-9_-]{33,64}`),
	).Draw(t, "id")
	m := owner.Message{Kind: owner.MessageKind(rapid.IntRange(1, int(owner.Compare)).Draw(t, "kind"))}
	tag := owner.Tag{Op: rapid.Uint64().Draw(t, "op"), Step: rapid.Uint32().Draw(t, "step")}
	switch m.Kind {
	case owner.Update:
		m.Serial = rapid.Uint32().Draw(t, "serial")
		if m.Full = rapid.Bool().Draw(t, "full"); m.Full {
			m.NewCopy = rapid.Bool().Draw(t, "new copy")
			m.Header, m.Attrs = drawHeader(t, true), drawAttrs(t)
		} else {
			m.Header = owner.Header{Epoch: drawEpoch(t)}
			m.Header.Version, m.Header.Start = drawVersions(t)
			m.Changes = drawChanges(t)
		}
		m.Base = rapid.Uint64Range(0, m.Header.Version).Draw(t, "base")
		m.Expiry = drawExpiry(t)
	case owner.Ack:
		m.Serial, m.About, m.Header.Version = rapid.Uint32().Draw(t, "serial"), drawEpoch(t), rapid.Uint64Range(0, maxVersion).Draw(t, "version")
		m.Header.Dead = rapid.Bool().Draw(t, "dead")
	case owner.Refused:
		m.Serial, m.About, m.Header = rapid.Uint32().Draw(t, "serial"), drawEpoch(t), drawHeader(t, false)
		m.Expiry = drawExpiry(t)
		m.Reason = owner.Reason(rapid.IntRange(0, int(owner.Invalidated)).Draw(t, "reason"))
	case owner.Ask:
		m.Tag, m.Now, m.Gone = tag, rapid.Bool().Draw(t, "now"), drawMembers(t)
	case owner.Answer:
		m.Tag, m.Now, m.Header, m.Connected = tag, rapid.Bool().Draw(t, "now"), drawHeader(t, false), drawMembers(t)
		m.Expiry = drawExpiry(t)
	case owner.Take:
		m.Tag, m.Cookie, m.About, m.Over = tag, drawEpoch(t), drawEpoch(t), drawMember(t)
		m.Claim = owner.Claim(rapid.IntRange(0, int(owner.Disowned)).Draw(t, "claim"))
	case owner.Grant:
		m.Tag, m.Header, m.Attrs, m.Expiry = tag, drawHeader(t, false), drawAttrs(t), drawExpiry(t)
	case owner.No:
		m.Tag, m.Header, m.Expiry = tag, drawHeader(t, false), drawExpiry(t)
	case owner.Forward:
		m.Tag, m.Cookie, m.About, m.Changes, m.Expiry = tag, drawEpoch(t), drawEpoch(t), drawChanges(t), drawExpiry(t)
		if n := len(m.Changes); n > 0 && rapid.Bool().Draw(t, "bases") {
			m.Bases = rapid.SliceOfN(rapid.Uint64(), n, n).Draw(t, "digests")
		}
	case owner.Forwarded:
		m.Tag, m.Header, m.Expiry = tag, drawHeader(t, false), drawExpiry(t)
		m.Reason = owner.Reason(rapid.IntRange(0, int(owner.Invalidated)).Draw(t, "reason"))
	case owner.Compare:
		m.Header, m.Expiry, m.About = drawHeader(t, false), drawExpiry(t), drawEpoch(t)
		m.Now = rapid.Bool().Draw(t, "now")
	}
	return id, m
}

func drawReign(t *rapid.T) owner.Reign {
	return owner.Reign{Boot: rapid.Uint32().Draw(t, "boot"), Seq: rapid.Uint32().Draw(t, "seq")}
}

func drawEpoch(t *rapid.T) owner.Epoch {
	if rapid.Bool().Draw(t, "zero epoch") {
		return owner.Epoch{}
	}
	return owner.Epoch{N: rapid.Uint32().Draw(t, "N"), Reign: drawReign(t)}
}

func drawMember(t *rapid.T) owner.Member {
	if rapid.IntRange(0, 3).Draw(t, "nobody") == 0 {
		return owner.Member{}
	}
	return owner.Member{Name: rapid.StringMatching(`[a-z0-9_-]{1,63}`).Draw(t, "name"), Boot: rapid.Uint32().Draw(t, "boot")}
}

func drawMembers(t *rapid.T) []owner.Member {
	var ps []owner.Member
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		if p := drawMember(t); !p.IsZero() {
			ps = append(ps, p)
		}
	}
	return ps
}

func drawHeader(t *rapid.T, held bool) owner.Header {
	if !held && rapid.Bool().Draw(t, "nothing held") {
		return owner.Header{}
	}
	h := owner.Header{
		Epoch: owner.Epoch{N: rapid.Uint32Range(1, maxCounter).Draw(t, "N"), Reign: drawReign(t)}, Dead: rapid.Bool().Draw(t, "dead"),
		Primary: drawMember(t), Copies: drawMembers(t),
	}
	h.Version, h.Start = drawVersions(t)
	if twice(h.Copies) {
		h.Copies = h.Copies[:1]
	}
	from := uint32(0)
	for range rapid.IntRange(0, owner.MaxRuns).Draw(t, "runs") {
		h.Lineage = append(h.Lineage, owner.Run{From: from, Reign: drawReign(t)})
		from += rapid.Uint32Range(1, 1<<26).Draw(t, "run")
	}
	return h
}

func drawVersions(t *rapid.T) (version, start uint64) {
	version = rapid.Uint64Range(0, maxVersion).Draw(t, "version")
	return version, rapid.Uint64Range(0, version).Draw(t, "start")
}

func drawAttrs(t *rapid.T) owner.Attrs {
	var as owner.Attrs
	for _, k := range []string{"", "a", "aa", "b", "ü"} {
		if rapid.Bool().Draw(t, "attr") {
			as = append(as, owner.Attr{Key: k, Value: drawValue(t)})
		}
	}
	return as
}

func drawChanges(t *rapid.T) owner.Changes {
	var cs owner.Changes
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		c := owner.Change{Key: rapid.StringN(0, 8, -1).Draw(t, "key"), Removed: rapid.Bool().Draw(t, "removed")}
		if !c.Removed {
			c.Value = drawValue(t)
		}
		cs = append(cs, c)
	}
	return cs
}

func drawValue(t *rapid.T) []byte {
	v := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value")
	return append([]byte{}, v...) // never nil
}

func drawExpiry(t *rapid.T) owner.Expiry {
	draw := func(name string) int64 { return rapid.Int64Range(-maxTime, maxTime).Draw(t, name) }
	return owner.Expiry{Idle: draw("idle"), Access: draw("access"), End: draw("end")}
}

// A count is not believed before the bytes are there.
func TestParseMessageMakesNoMoreThanTheFrameHolds(t *testing.T) {
	frame, err := hex.DecodeString("09" + wireIDHex + "01" + "02" + "00" + "00" + "80808001") // 2,097,152 changes
	if err != nil {
		t.Fatal(err)
	}
	frame = append(frame, make([]byte, 64)...)
	n := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, _, _ = parseMessage(frame, peer.MaxVersion)
		}
	}).AllocedBytesPerOp()
	if n > 4096 {
		t.Errorf("%d bytes were made of a frame of %d", n, len(frame))
	}
}

func TestWireAllocations(t *testing.T) {
	for _, tt := range wireMessages() {
		buf := make([]byte, 0, 1024)
		if n := testing.AllocsPerRun(100, func() { buf = appendMessage(buf[:0], wireID, &tt.m) }); n != 0 {
			t.Errorf("%s: appendMessage into a buffer allocates %v times", tt.name, n)
		}
	}
	update := appendMessage(nil, wireID, &wireMessages()[0].m)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = parseMessage(update, peer.MaxVersion) }); n > 4 { // the id, the list, the value; the key's look-up
		t.Errorf("parseMessage of one attribute allocates %v times", n)
	}
}

// What the machine puts into a message must be what the wire carries; a field
// that is left out would be lost without a sound. The machine's source is asked
// which fields it sets, because no type says it.
func TestWireCarriesWhatTheMachineSends(t *testing.T) {
	carried := map[string]string{
		"Update":    "Full NewCopy Serial Header Base Attrs Changes Expiry",
		"Ack":       "Serial About Header",
		"Refused":   "Serial About Reason Header Expiry",
		"Ask":       "Tag Now Gone",
		"Answer":    "Tag Now Header Expiry Connected",
		"Take":      "Tag Cookie Claim Over About",
		"Grant":     "Tag Header Attrs Expiry",
		"No":        "Tag Header Expiry",
		"Forward":   "Tag Cookie About Changes Bases Expiry",
		"Forwarded": "Tag Reason Header Expiry",
		"Compare":   "Now Header Expiry About",
	}
	files, err := filepath.Glob("owner/*.go")
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, _ := n.(*ast.CompositeLit)
			if lit == nil {
				return true
			}
			if typ, _ := lit.Type.(*ast.Ident); typ == nil || typ.Name != "Message" {
				return true
			}
			var kind string
			var fields []string
			for _, e := range lit.Elts {
				kv, _ := e.(*ast.KeyValueExpr)
				if kv == nil {
					t.Fatalf("%v: a message without names of fields", fset.Position(lit.Pos()))
				}
				field := kv.Key.(*ast.Ident).Name
				if v, _ := kv.Value.(*ast.Ident); field == "Kind" && v != nil {
					kind = v.Name
				} else {
					fields = append(fields, field)
				}
			}
			if kind == "" {
				return true // not sent as it is
			}
			sent[kind] = true
			for _, field := range fields {
				if !slices.Contains(strings.Fields(carried[kind]), field) {
					t.Errorf("%v: %s with %s, which the wire does not carry", fset.Position(lit.Pos()), kind, field)
				}
			}
			return true
		})
	}
	if len(sent) != len(carried) {
		t.Errorf("%d of %d kinds were found", len(sent), len(carried))
	}
}
