package ajp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// unhex reads bytes as mod_jk.md writes them.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The trace of a real mod_jk (mod_jk.md 7.2 [T]).
const trace = `
	12 34 00 B1
	02 04 00 08 48 54 54 50 2f 31 2e 31 00
	00 04 2f 61 2f 62 00
	00 09 31 32 37 2e 30 2e 30 2e 31 00
	00 01 68 00  00 03 73 72 76 00  00 50  00
	00 02
	a0 09 00 0c 4a 53 45 53 53 49 4f 4e 49 44 3d 31 00
	a0 08 00 01 35 00
	0c 00 06 73 33 63 72 65 74 00
	03 00 03 6a 6f 65 00
	05 00 03 71 3d 31 00
	0a 00 0f 41 4a 50 5f 52 45 4d 4f 54 45 5f 50 4f 52 54 00 00 04 31 32 33 34 00
	0a 00 0e 41 4a 50 5f 4c 4f 43 41 4c 5f 41 44 44 52 00 00 09 31 32 37 2e 30 2e 30 2e 31 00
	0a 00 10 4a 4b 5f 4c 42 5f 41 43 54 49 56 41 54 49 4f 4e 00 00 03 41 43 54 00
	ff`

var traceStart = Start{
	Method: []byte("POST"), Protocol: "HTTP/1.1", URI: []byte("/a/b"),
	RemoteAddr: []byte("127.0.0.1"), RemoteHost: []byte("h"), ServerName: []byte("srv"), ServerPort: 80,
}

// traced builds what the trace has.
func traced(m *Message, buf []byte) ([]byte, error) {
	m.Begin(buf, MinPacket, &traceStart)
	m.Header([]byte("Cookie"), []byte("JSESSIONID=1"))
	m.Header([]byte("content-length"), []byte("5"))
	m.AttributeString(Secret, "s3cret")
	m.AttributeString(RemoteUser, "joe")
	m.Attribute(QueryString, []byte("q=1"))
	m.Named("AJP_REMOTE_PORT", []byte("1234"))
	m.Named("AJP_LOCAL_ADDR", []byte("127.0.0.1"))
	m.NamedString("JK_LB_ACTIVATION", "ACT")
	return m.End()
}

func TestTrace(t *testing.T) { // mod_jk.md 7.2 [T]
	var m Message
	got, err := traced(&m, nil)
	if want := unhex(t, trace); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the message is\n% x, %v\nwant\n% x", got, err, want)
	}
	if len(got) != 181 {
		t.Errorf("it has %d bytes, want 181", len(got))
	}
	if got, want := AppendBody(nil, []byte("xxxxx")), unhex(t, "12 34 00 07  00 05 78 78 78 78 78"); !bytes.Equal(got, want) {
		t.Errorf("the first body packet is % x, want % x", got, want)
	}
}

func TestShortVectors(t *testing.T) { // mod_jk.md 7.2
	if want := unhex(t, "12 34 00 01 0A"); Ping != string(want) {
		t.Errorf("CPING is % x, want % x", Ping, want)
	}
	if want := unhex(t, "41 42 00 01 09"); Pong != string(want) {
		t.Errorf("CPONG is % x, want % x", Pong, want)
	}
	if got, want := AppendBody(nil, nil), unhex(t, "12 34 00 00"); !bytes.Equal(got, want) {
		t.Errorf("the end of a body is % x, want % x", got, want)
	}
}

// begin begins a message of little.
func begin(m *Message, method string) {
	m.Begin(nil, MinPacket, &Start{Method: []byte(method), Protocol: "HTTP/1.1", URI: []byte("/")})
}

func TestMethods(t *testing.T) { // mod_jk.md 7.2
	coded := strings.Fields("OPTIONS GET HEAD POST PUT DELETE TRACE PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK ACL REPORT VERSION-CONTROL CHECKIN CHECKOUT UNCHECKOUT SEARCH MKWORKSPACE UPDATE LABEL MERGE BASELINE-CONTROL MKACTIVITY")
	for i, method := range coded {
		var m Message
		begin(&m, method)
		got, err := m.End()
		if err != nil || got[5] != byte(i+1) || bytes.Contains(got, []byte(method)) {
			t.Errorf("%s is % x, %v; want the code %d and no name", method, got, err, i+1)
		}
	}
	for _, method := range []string{"PATCH", "get", "BREW", "MKCALENDAR"} {
		var m Message
		begin(&m, method)
		m.AttributeString(Route, "r")
		m.NamedString("n", "v")
		got, err := m.End()
		want := append([]byte{0x06, 0, 1, 'r', 0, 0x0D, 0, byte(len(method))}, method...)
		want = append(want, 0, 0x0A, 0, 1, 'n', 0, 0, 1, 'v', 0, 0xFF)
		if err != nil || got[5] != 0xFF || !bytes.HasSuffix(got, want) {
			t.Errorf("%s is % x, %v; want FF, and at the end % x", method, got, err, want)
		}
	}
}

func TestHeaderCodes(t *testing.T) { // mod_jk.md 7.2
	coded := strings.Fields("accept accept-charset accept-encoding accept-language authorization connection content-type content-length cookie cookie2 host pragma referer user-agent")
	for i, name := range coded {
		for _, spelt := range []string{name, strings.ToUpper(name)} {
			if got := headerCode([]byte(spelt)); got != byte(i+1) {
				t.Errorf("code of %s = %#x, want %#x", spelt, got, i+1)
			}
		}
	}
	for _, name := range []string{"", "x", "hosts", "acceptx", "cookie3", "referrer", "user_agent", "accept-encodinx", "content-lengtx", "range", "X-Request-ID"} {
		if got := headerCode([]byte(name)); got != 0 {
			t.Errorf("code of %q = %#x, want none", name, got)
		}
	}
}

func TestFields(t *testing.T) { // mod_jk.md 7.1, 7.2
	var m Message
	m.Begin(nil, MinPacket, &Start{Method: []byte("GET"), Protocol: "HTTP/1.0", URI: []byte("*"), Secure: true, ServerPort: 443})
	m.Header([]byte("Z"), []byte("z\xfcrich"))
	m.Header([]byte("Z"), nil)
	m.Number(KeySize, 256)
	m.Attribute(QueryString, nil)
	got, err := m.End()
	want := unhex(t, `12 34 00 3b 02 02 00 08 48 54 54 50 2f 31 2e 30 00 00 01 2a 00 00 00 00 ffff 00 00 00 01 bb 01
		00 02  00 01 5a 00 00 06 7a fc 72 69 63 68 00  00 01 5a 00 00 00 00  0b 01 00  05 00 00 00  ff`)
	want[3] = byte(len(want) - 4)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the message is\n% x, %v\nwant\n% x", got, err, want)
	}
}

func TestTooLong(t *testing.T) { // mod_jk.md 4.2: 413
	for _, size := range []int{MinPacket, 16384, MaxPacket} {
		for _, over := range []int{-1, 0, 1} {
			var m Message
			begin(&m, "GET")
			bare, err := m.End()
			if err != nil {
				t.Fatal(err)
			}
			rest := size - len(bare) - len("\x00\x01Z\x00\x00\x00\x00") + over
			m.Begin(make([]byte, size), size, &Start{Method: []byte("GET"), Protocol: "HTTP/1.1", URI: []byte("/")})
			m.Header([]byte("Z"), bytes.Repeat([]byte("v"), min(rest, 0xFFFE)))
			if rest > 0xFFFE {
				t.Fatal("a value cannot be that long")
			}
			got, err := m.End()
			if fits := over <= 0; errors.Is(err, ErrTooLong) == fits || fits && len(got) != size+over {
				t.Errorf("packet size %d, %d bytes more: %d bytes, %v", size, over, len(got), err)
			}
		}
	}
	var m Message
	begin(&m, "GET")
	m.Header([]byte("Z"), make([]byte, 70000))
	m.Header([]byte("Z"), []byte("v")) // does not make it good again
	if _, err := m.End(); !errors.Is(err, ErrTooLong) {
		t.Errorf("a header of 70000 bytes: End = %v, want %v", err, ErrTooLong)
	}
	begin(&m, "GET")
	for range 70000 {
		m.Header(nil, nil)
	}
	if _, err := m.End(); !errors.Is(err, ErrTooLong) {
		t.Errorf("70000 headers: End = %v, want %v", err, ErrTooLong)
	}
}

func TestAllocs(t *testing.T) {
	buf := make([]byte, MinPacket)
	reply := unhex(t, "41 42 00 13 04 00 c8 00 02 4f 4b 00 00 01 a0 01 00 04 74 65 78 74 00  41 42 00 06 03 00 02 6f 6b 00  41 42 00 02 05 01")
	var m Message
	var r Reader
	n := testing.AllocsPerRun(100, func() {
		if _, err := traced(&m, buf); err != nil {
			t.Fatal(err)
		}
		r.Reset(MinPacket)
		for b := reply; len(b) > 0; {
			e, n, err := r.Next(b)
			if err != nil {
				t.Fatal(err)
			}
			b = b[n:]
			if e.Kind != Head {
				continue
			}
			h, err := ParseHead(e.Data)
			for name := []byte("x"); name != nil && err == nil; {
				name, _, err = h.Next()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations an exchange, want 0", n)
	}
}
