package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

// appendMessage is the encoding of today's version, without packing.
func appendMessage(dst []byte, id string, m *owner.Message) []byte {
	return format{peer.MaxVersion, math.MaxInt}.append(dst, id, m)
}

// frozen reads the messages of one version: "name<TAB>hexadecimal" a line. These
// bytes are what programs that are out there write and read. They never change,
// and a line goes only when no program speaks that version any more.
func frozen(t *testing.T, file string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/wire/" + file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, digits, _ := strings.Cut(line, "\t")
		if out[name], err = hex.DecodeString(digits); err != nil || len(out[name]) == 0 {
			t.Fatalf("testdata/wire/%s:%d: %q, %v", file, n+1, line, err)
		}
	}
	return out
}

// Version 1 is written and read as it always was.
func TestVersion1IsFrozen(t *testing.T) {
	golden := frozen(t, "v1.txt")
	messages := wireMessages()
	if len(golden) != len(messages) {
		t.Errorf("testdata/wire/v1.txt has %d messages, want one for each of %d", len(golden), len(messages))
	}
	for _, tt := range messages {
		id := tt.id
		if id == "" {
			id = wireID
		}
		if got := (format{version: 1}).append(nil, id, &tt.m); !bytes.Equal(got, golden[tt.name]) {
			t.Errorf("%s is written to a member of version 1 as\n%x, want\n%x", tt.name, got, golden[tt.name])
		}
		if gotID, m, err := parseMessage(golden[tt.name], 1); err != nil || gotID != id || !reflect.DeepEqual(m, tt.m) {
			t.Errorf("%s of a member of version 1 is read as %q %+v, %v", tt.name, gotID, m, err)
		}
		if later := tt.m; later.Kind == owner.Ask {
			later.Gone = []owner.Member{memberA}
			if got := (format{version: 1}).append(nil, id, &later); !bytes.Equal(got, golden[tt.name]) {
				t.Errorf("%s with what version 1 does not have is written as\n%x, want\n%x", tt.name, got, golden[tt.name])
			}
		}
		loose := tt.m
		if loose.Header.Held() && (tt.m.Kind != owner.Update || tt.m.Full) {
			loose.Header.Loose = true
			if got := (format{version: 1}).append(nil, id, &loose); !bytes.Equal(got, golden[tt.name]) || !loose.Header.Loose {
				t.Errorf("%s with what version 1 does not have is written as\n%x, want\n%x", tt.name, got, golden[tt.name])
			}
		}
	}
}

// What version 2 adds, and that it is not taken from a member of version 1.
func TestVersion2IsFrozen(t *testing.T) {
	golden := frozen(t, "v2.txt")
	header := headerA
	header.Loose = true
	want := map[string]owner.Message{
		"ask, with who is gone": {Kind: owner.Ask, Tag: owner.Tag{Op: 200, Step: 1}, Gone: []owner.Member{memberB, memberA}},
		"loose":                 {Kind: owner.No, Tag: owner.Tag{Op: 1, Step: 2}, Header: header, Expiry: expiryA},
		"packed update":         {Kind: owner.Update, Full: true, NewCopy: true, Serial: 5, Header: headerA, Base: 299, Attrs: owner.Attrs{{Key: "x", Value: bytes.Repeat([]byte("ab"), 300)}}, Expiry: expiryA},
		"packed grant":          {Kind: owner.Grant, Tag: owner.Tag{Op: 1, Step: 2}, Header: headerA, Attrs: owner.Attrs{{Key: "x", Value: bytes.Repeat([]byte("ab"), 300)}}, Expiry: expiryA},
	}
	if len(golden) != len(want) {
		t.Errorf("testdata/wire/v2.txt has %d messages, want %d", len(golden), len(want))
	}
	for name, m := range want {
		if id, got, err := parseMessage(golden[name], 2); err != nil || id != wireID || !reflect.DeepEqual(got, m) {
			t.Errorf("%s is read as %q %+v, %v; want %+v\nwritten now: %x", name, id, got, err, m, format{2, 1}.append(nil, wireID, &m))
		}
		switch _, got, err := parseMessage(golden[name], 1); {
		case m.Gone != nil: // what follows the fields that it knows is no matter to a program
			if err != nil || got.Gone != nil || got.Tag != m.Tag {
				t.Errorf("%s from a member of version 1: %+v, %v; want it without what version 1 does not have", name, got, err)
			}
		case !errors.Is(err, ErrWire):
			t.Errorf("%s from a member of version 1: %+v, %v; want an ErrWire", name, got, err)
		}
		// The compressed bytes may differ from one Go to the next; the others not.
		if got := (format{2, 1}).append(nil, wireID, &m); m.Attrs == nil && !bytes.Equal(got, golden[name]) {
			t.Errorf("%s is written as %x, want %x", name, got, golden[name])
		}
	}
}

// Snapshots are packed above a size, if that makes them smaller; changes never.
func TestPacking(t *testing.T) {
	text, noise := bytes.Repeat([]byte("all work and no play "), 1000), make([]byte, 20_000)
	for i, x := 0, uint64(1); i < len(noise); i++ {
		x = x*6364136223846793005 + 1442695040888963407
		noise[i] = byte(x >> 56)
	}
	snapshot := func(v []byte) owner.Message {
		return owner.Message{Kind: owner.Update, Full: true, Header: headerA, Attrs: owner.Attrs{{Key: "x", Value: v}}}
	}
	change := owner.Message{
		Kind: owner.Update, Header: owner.Header{Epoch: epochA, Version: 300, Start: 2}, Base: 299,
		Changes: owner.Changes{{Key: "x", Value: text}},
	}
	for _, tt := range []struct {
		name    string
		m       owner.Message
		version uint8
		from    int
		most    int // bytes
		least   int
	}{
		{"text", snapshot(text), 2, 4096, 1000, 1},
		{"text to a member of version 1", snapshot(text), 1, 4096, 22_000, 21_000},
		{"text, switched off", snapshot(text), 2, math.MaxInt, 22_000, 21_000},
		{"text below the size", snapshot(text[:4000]), 2, 4096, 4100, 4000},
		{"noise", snapshot(noise), 2, 4096, 20_100, 20_000},
		{"what is too large", snapshot(make([]byte, maxPacked+1)), 2, 4096, 3 << 20, maxPacked},
		{"a change", change, 2, 1, 22_000, 21_000},
	} {
		frame := format{tt.version, tt.from}.append(nil, wireID, &tt.m)
		if len(frame) > tt.most || len(frame) < tt.least {
			t.Errorf("%s: %d bytes, want %d to %d", tt.name, len(frame), tt.least, tt.most)
		}
		if _, m, err := parseMessage(frame, tt.version); err != nil || !reflect.DeepEqual(m, tt.m) {
			t.Errorf("%s: read as something else, %v", tt.name, err)
		}
	}
}

// What is packed wrongly is refused, and cannot make anything large.
func TestPackedGarbage(t *testing.T) {
	m := owner.Message{Kind: owner.Update, Full: true, Header: headerA, Attrs: owner.Attrs{{Key: "x", Value: make([]byte, 100_000)}}}
	frame := format{2, 1}.append(nil, wireID, &m)
	size := []byte{0xa6, 0x8d, 0x06} // 100006: count, length and key, length and value
	at := bytes.Index(frame, size)
	if at < 0 {
		t.Fatalf("%x: want the size %x in it", frame, size)
	}
	for name, claim := range map[string][]byte{
		"less than there is": {0xa5, 0x8d, 0x06}, "more than there is": {0xa7, 0x8d, 0x06}, "more than a frame": {0xff, 0xff, 0xff, 0x7f}, "nothing": {0x00},
	} {
		bad := append(append(bytes.Clone(frame[:at]), claim...), frame[at+3:]...)
		if _, _, err := parseMessage(bad, 2); !errors.Is(err, ErrWire) {
			t.Errorf("that claims %s: %v, want an ErrWire", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(frame)
		bad[rapid.IntRange(at, len(bad)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, _, err := parseMessage(bad, 2); err != nil && !errors.Is(err, ErrWire) {
			t.Errorf("%v, want an ErrWire or none", err)
		}
	})
}

// A cluster in which some members speak version 1 works as one, and names of
// attributes and bytes that a program does not know are carried.
func TestVersionsSideBySide(t *testing.T) {
	const old, later = 1, 0
	for _, tt := range []struct {
		name string
		cfg  map[string]uint8 // Config.WireVersion
		want map[string]uint8 // version spoken with a
	}{
		{"all old", map[string]uint8{"a": old, "b": old, "c": old}, map[string]uint8{"b": 1, "c": 1}},
		{"one is new", map[string]uint8{"a": later, "b": old, "c": old}, map[string]uint8{"b": 1, "c": 1}},
		{"one is old", map[string]uint8{"a": later, "b": old, "c": later}, map[string]uint8{"b": 1, "c": 2}},
		{"all new", map[string]uint8{"a": later, "b": later, "c": later}, map[string]uint8{"b": 2, "c": 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubbleOf(t, Config{}, func(name string, cfg *Config) { cfg.WireVersion = tt.cfg[name] }, "abc", func(t *testing.T, f *farm) {
				a := f.nodes["a"]
				for name, version := range tt.want {
					if got := a.m.links.find(ownerMember(f.nodes[name].self)).version(); got != version {
						t.Errorf("a speaks version %d with %s, want %d", got, name, version)
					}
				}
				big := strings.Repeat("big", 10_000) // worth packing
				f.use(func(w http.ResponseWriter, r *http.Request) {
					s := FromContext(r.Context())
					if r.URL.Path == "/field" { // what an old program does not have
						if err := NewKey[map[string]string]("field").Set(s, map[string]string{"v": big}); err != nil {
							t.Error(err)
						}
					}
					if r.URL.Path == "/see" {
						v, _ := NewKey[map[string]string]("field").Get(s)
						if v["v"] != big {
							t.Errorf("the field is %.10q, want what was set", v["v"])
						}
						return
					}
					demo(w, r)
				})
				b := &browser{t: t}
				b.count(a, 1, "")
				b.get(a, "/field")
				for n, name := range strings.Split("bcabcacb", "") { // every pair of programs hands it over
					b.count(f.nodes[name], n+2, "")
				}
				for _, name := range []string{"b", "c"} {
					f.kill(name)
					time.Sleep(time.Second)
					b.get(a, "/see")
				}
				b.count(a, 10, "")
				for name, n := range f.nodes {
					if s := n.m.Stats(); s.Garbage != 0 || s.Conflicts != 0 || s.Lost != 0 {
						t.Errorf("%s: %+v; want nothing wrong", name, s)
					}
				}
			})
		})
	}
}

// A message of a kind that is yet to come is skipped, and an ask answered.
func TestUnknownKindIsSkipped(t *testing.T) {
	bubble(t, Config{}, "ab", func(t *testing.T, f *farm) {
		a, b := f.nodes["a"], f.nodes["b"]
		conn := a.m.links.conn(ownerMember(b.self))
		for kind := byte(owner.Compare) + 1; kind <= kindMask; kind++ {
			if err := conn.Send([]byte{kind, 1, 'x', 0xff}); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Ask([]byte{kind | 0xf0}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * DefaultAckTimeout)
		if got := b.m.Stats(); got.Skipped != 8 || got.Garbage != 0 || a.m.links.conn(ownerMember(b.self)) != conn {
			t.Errorf("%d skipped, %d garbage; want 8, and the connection as it was", got.Skipped, got.Garbage)
		}
	})
}

func TestWireVersionThatNobodySpeaks(t *testing.T) {
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		m := f.nodes["a"].m
		_, err := New(Config{Cluster: m.cluster, Codec: m.cookies, Listener: refusing{}, WireVersion: peer.MaxVersion + 1})
		if err == nil || !strings.Contains(err.Error(), "WireVersion") {
			t.Errorf("New with a version that is yet to come: %v, want an error that names it", err)
		}
	})
}
