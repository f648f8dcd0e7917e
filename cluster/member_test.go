package cluster

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func sample() entry {
	return entry{
		Member: Member{
			Name: "a", Boot: 7, Gossip: "10.0.0.1:7946", HTTP: "10.0.0.1:8080", Replication: "[fd00::1]:7070",
			Machine: "m1", Group: "Rack Ä", SecondaryGroup: "g2", State: Draining, Proxy: true,
			Restored: Restored{digestOf("b#1"), digestOf("c#1")}, Load: Load{true, 1, 1 << 31, 3},
		},
		start: 1_800_000_000_123,
	}
}

func TestMetaRoundTrip(t *testing.T) {
	for _, want := range []entry{sample(), {Member: Member{Name: "b", Boot: 1<<32 - 1, Gossip: "[::1]:1"}}} {
		b, err := encodeMeta(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMeta(want.ID(), want.Gossip, b)
		if err != nil || got != want {
			t.Errorf("decodeMeta = %+v, %v; want %+v", got, err, want)
		}
		if got, err := decodeMeta(want.ID(), want.Gossip, append(b, "of a later version"...)); err != nil || got != want {
			t.Errorf("with more fields: %+v, %v", got, err)
		}
	}
}

// TestMetaOnTheWire pins the format: members of two versions run side by side.
func TestMetaOnTheWire(t *testing.T) {
	e := entry{Member: Member{Name: "a", Boot: 1, HTTP: "h:1", Machine: "m", State: Running, Proxy: true, Restored: Restored{0x1122334455667788}}, start: 0x0102030405060708}
	b, err := encodeMeta(e)
	if want := "0101010102030405060708" + "03683a31" + "00" + "016d" + "00" + "00" + "01" + "1122334455667788" + "00"; err != nil || hex.EncodeToString(b) != want {
		t.Errorf("encodeMeta = %x, %v; want %s", b, err, want)
	}
	e.Load = Load{true, 1, 2, 3}
	if b, err = encodeMeta(e); err != nil || !strings.HasSuffix(hex.EncodeToString(b), "1122334455667788"+"0c"+"00000001"+"00000002"+"00000003") {
		t.Errorf("with a load encodeMeta = %x, %v", b, err)
	}
}

func TestLargestMeta(t *testing.T) {
	e := sample()
	e.Name = strings.Repeat("n", maxName)
	e.HTTP, e.Replication = strings.Repeat("h", 60)+":65535", strings.Repeat("r", 60)+":65535"
	e.Machine, e.Group = strings.Repeat("m", 113), strings.Repeat("g", 100)
	e.SecondaryGroup = strings.Repeat("s", metaHead-metaFixed-5-132-213)
	for i := range e.Restored {
		e.Restored[i] = Digest(1 + i)
	}
	b, err := encodeMeta(e)
	if err != nil || len(b) != metaMax {
		t.Fatalf("encodeMeta gives %d bytes, %v; want %d", len(b), err, metaMax)
	}
	if got, err := decodeMeta(e.ID(), e.Gossip, b); err != nil || got != e {
		t.Errorf("decodeMeta = %+v, %v", got, err)
	}
	e.SecondaryGroup += "s"
	if _, err := encodeMeta(e); err == nil || !strings.Contains(err.Error(), "SecondaryGroup") {
		t.Errorf("one byte more: %v", err)
	}
}

func TestDecodeMetaRefuses(t *testing.T) {
	good, err := encodeMeta(sample())
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(e *entry)) []byte {
		e := sample()
		change(&e)
		b, err := encodeMeta(e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const ok = "10.0.0.1:7946"
	head := good[:len(good)-1-metaLoad-1-2*8] // what an older version says
	if e, err := decodeMeta("a#7", ok, head); err != nil || e.Restored != (Restored{}) {
		t.Errorf("of an older version: %+v, %v; want a member without Restored", e, err)
	}
	tests := []struct {
		name       string
		id, gossip string
		meta       []byte
	}{
		{"nothing", "a#7", ok, nil},
		{"another version", "a#7", ok, append([]byte{2}, good[1:]...)},
		{"cut in the middle", "a#7", ok, good[:len(good)-1]},
		{"only the fixed part", "a#7", ok, good[:metaFixed]},
		{"too long", "a#7", ok, append(bytes.Clone(good), make([]byte, metaMax)...)},
		{"id without boot", "a", ok, good},
		{"id with an odd boot", "a#07", ok, good},
		{"id with a boot too large", "a#4294967296", ok, good},
		{"id without name", "#7", ok, good},
		{"id of nobody", "NONE#7", ok, good},
		{"id that breaks the cookie", "a!b#7", ok, good},
		{"id with a line break", "a\nb#7", ok, good},
		{"gossip address without port", "a#7", "10.0.0.1", good},
		{"gossip address with port 0", "a#7", "10.0.0.1:0", good},
		{"gossip address that is a name", "a#7", "h:1", good},
		{"gossip address of everybody", "a#7", "0.0.0.0:1", good},
		{"gossip address of many", "a#7", "224.0.0.1:1", good},
		{"HTTP address with a control character", "a#7", ok, with(func(e *entry) { e.HTTP = "h\r\n:1" })},
		{"HTTP address without port", "a#7", ok, with(func(e *entry) { e.HTTP = "h" })},
		{"replication port too large", "a#7", ok, with(func(e *entry) { e.Replication = "h:65536" })},
		{"machine that is no text", "a#7", ok, with(func(e *entry) { e.Machine = "\xff" })},
		{"group with a control character", "a#7", ok, with(func(e *entry) { e.Group = "\x1b[2J" })},
		{"more restored boots than there can be", "a#7", ok, append(bytes.Clone(head), append([]byte{9}, bytes.Repeat([]byte{1}, 72)...)...)},
		{"fewer restored boots than it says", "a#7", ok, append(bytes.Clone(head), 2, 1, 2, 3, 4, 5, 6, 7, 8)},
		{"a load that is too short", "a#7", ok, append(bytes.Clone(head), 0, 4, 0, 0, 0, 0)},
		{"a restored boot 0", "a#7", ok, append(bytes.Clone(head), 1, 0, 0, 0, 0, 0, 0, 0, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if e, err := decodeMeta(tt.id, tt.gossip, tt.meta); err == nil {
				t.Errorf("decodeMeta = %+v", e)
			}
		})
	}
	b := bytes.Clone(good)
	b[1] = 200
	if e, err := decodeMeta("a#7", ok, b); err != nil || e.State != Starting {
		t.Errorf("unknown state: %v, %v; want Starting", e.State, err)
	}
}

func TestParseID(t *testing.T) {
	for _, m := range []Member{{Name: "a"}, {Name: "a#b", Boot: 3}, {Name: strings.Repeat("x", maxName), Boot: 1<<32 - 1}} {
		if name, boot, err := parseID(m.ID()); name != m.Name || boot != m.Boot || err != nil {
			t.Errorf("parseID(%q) = %q, %d, %v", m.ID(), name, boot, err)
		}
	}
}

func FuzzDecodeMeta(f *testing.F) {
	good, err := encodeMeta(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a#7", "10.0.0.1:7946", good)
	f.Add("a#b#1", "[::1]:1", good[:20])
	f.Fuzz(func(t *testing.T, id, gossip string, meta []byte) {
		e, err := decodeMeta(id, gossip, meta)
		if err != nil {
			return
		}
		if e.ID() != id || e.Gossip != gossip || checkName(e.Name) != nil {
			t.Fatalf("decodeMeta(%q, %q) = %+v", id, gossip, e)
		}
		b, err := encodeMeta(e)
		if err != nil {
			t.Fatalf("encodeMeta(%+v): %v", e, err)
		}
		if again, err := decodeMeta(id, gossip, b); err != nil || again != e {
			t.Fatalf("round trip of %+v: %+v, %v", e, again, err)
		}
	})
}

func TestDepartures(t *testing.T) {
	want := []departure{{"a#1", left}, {"b#2", replaced}}
	got, err := decodeDepartures(encodeDepartures(want))
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("round trip = %v, %v", got, err)
	}
	if got, err := decodeDepartures([]byte{departureVersion}); err != nil || len(got) != 0 {
		t.Errorf("none = %v, %v", got, err)
	}
	for _, s := range []string{"", "\x02", "\x01\x01", "\x01\x01\x05a#1", "\x01\x03\x03a#1", "\x01\x01\x01a"} {
		if got, err := decodeDepartures([]byte(s)); err == nil {
			t.Errorf("decodeDepartures(%q) = %v", s, got)
		}
	}
}

func FuzzDecodeDepartures(f *testing.F) {
	f.Add(encodeDepartures([]departure{{"a#1", left}, {"b#2", replaced}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ds, err := decodeDepartures(b)
		if err == nil && !bytes.Equal(encodeDepartures(ds), b) {
			t.Fatalf("decodeDepartures(%q) = %v, which is encoded otherwise", b, ds)
		}
	})
}
