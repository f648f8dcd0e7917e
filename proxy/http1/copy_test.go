package http1

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// relay passes one reply from in to a client that speaks HTTP/1.minor and
// returns what the client gets.
func relay(t *testing.T, in string, step int, to Method, minor uint8) (got string, rerr error) {
	t.Helper()
	member, _ := newScript(in, step)
	client, s := newScript("", 0)
	var r Reply
	if err := member.ReadReply(&r, to); err != nil {
		t.Fatal(err)
	}
	var out Out
	out.Init(client.bufs)
	for i := range r.Lines {
		l := &r.Lines[i]
		l.Drop = l.Name == NameContentLength || l.Name.HopByHop() || l.Nominated
	}
	out.StatusLine(r.Status, r.Reason)
	out.Lines(&r.Head)
	f := out.FrameReply(&r, minor)
	out.EndHead()
	_, rerr, werr := client.CopyBody(&out, f, &r.Body)
	if werr != nil || out.Len() != 0 {
		t.Fatalf("CopyBody: %v, %d bytes left", werr, out.Len())
	}
	return string(s.out), rerr
}

func TestRelayReply(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 3000)
	tests := []struct {
		name  string
		in    string
		to    Method
		minor uint8
		want  string // with step 0
		body  string // for the longer ones: only the content is compared
	}{{
		name:  "kept lines in order, others gone",
		in:    "HTTP/1.1 200 OK\nA: 1\nConnection: X-Gone, keep-alive\nB: 2\nC: 3\nX-Gone: 4\nKeep-Alive: timeout=5\nContent-Length: 002\nD: 5\n\nok",
		minor: 1,
		want:  "HTTP/1.1 200 OK\nA: 1\nB: 2\nC: 3\nD: 5\nContent-Length: 2\n\nok",
	}, {
		name:  "chunks are framed anew",
		in:    "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2;ext=1\nok\n003\nabc\n0\nX-Sum: 1\n\n",
		minor: 1,
		want:  "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n3\nabc\n0\nX-Sum: 1\n\n",
	}, {
		name:  "no chunks for HTTP/1.0",
		in:    "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n3\nabc\n0\nX-Sum: 1\n\n",
		minor: 0,
		want:  "HTTP/1.1 200 OK\n\nokabc",
	}, {
		name:  "chunks for a body that the member's close ends",
		in:    "HTTP/1.0 200 OK\n\nabc",
		minor: 1,
		want:  "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
	}, {
		name:  "HEAD keeps the length",
		in:    "HTTP/1.1 200 OK\nContent-Length: 7\n\n",
		to:    MethodHead,
		minor: 1,
		want:  "HTTP/1.1 200 OK\nContent-Length: 7\n\n",
	}, {
		name:  "C02 204 loses it",
		in:    "HTTP/1.1 204 No Content\nContent-Length: 7\n\n",
		minor: 1,
		want:  "HTTP/1.1 204 No Content\n\n",
	}, {
		name:  "long with a length",
		in:    "HTTP/1.1 200 OK\nContent-Length: 48000\n\n" + long,
		minor: 1,
		body:  long,
	}, {
		name:  "long in one chunk",
		in:    "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nbb80\n" + long + "\n0\n\n",
		minor: 1,
		body:  long,
	}, {
		name:  "long until close",
		in:    "HTTP/1.1 200 OK\n\n" + long,
		minor: 1,
		body:  long,
	}}
	for _, tt := range tests {
		if tt.to == MethodOther {
			tt.to = MethodGet
		}
		for _, step := range []int{0, 1, 1000, 5000} {
			got, err := relay(t, crlf(tt.in), step, tt.to, tt.minor)
			if err != nil {
				t.Errorf("%s, step %d: %v", tt.name, step, err)
			}
			if tt.want != "" && step == 0 && got != crlf(tt.want) {
				t.Errorf("%s: the client gets %q, want %q", tt.name, got, crlf(tt.want))
			}
			if tt.body == "" {
				continue
			}
			c, _ := newScript(got, 0)
			var r Reply
			if err := c.ReadReply(&r, tt.to); err != nil {
				t.Fatalf("%s, step %d: what we sent is refused: %v", tt.name, step, err)
			}
			if body, err := content(&r.Body); body != tt.body || err != nil {
				t.Errorf("%s, step %d: the client reads %d bytes, %v; want %d", tt.name, step, len(body), err, len(tt.body))
			}
		}
	}
}

// A reply that breaks off must not look complete.
func TestRelayCut(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
	} {
		got, err := relay(t, in, 0, MethodGet, 1)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: CopyBody = %v, want unexpected EOF", in, err)
		}
		if !strings.Contains(got, "ab") || strings.Contains(got, "0\r\n\r\n") {
			t.Errorf("%q: the client gets %q, want what came and no end", in, got)
		}
	}
}

func TestOutRequest(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{
			"origin form",
			"POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 003\r\n\r\nabc",
			"POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n",
		},
		{
			"absolute form",
			"GET http://y?b HTTP/1.0\r\nHost: x\r\n\r\n",
			"GET /?b HTTP/1.1\r\nHost: x\r\n\r\n",
		},
		{
			"asterisk",
			"OPTIONS http://y HTTP/1.1\r\nHost: x\r\n\r\n",
			"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		},
		{
			"chunked",
			"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:CHUNKED\r\n\r\n0\r\n\r\n",
			"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		},
		{
			"authority",
			"CONNECT y:1 HTTP/1.1\r\nHost: y:1\r\n\r\n",
			"CONNECT y:1 HTTP/1.1\r\nHost: y:1\r\n\r\n",
		},
	}
	for _, tt := range tests {
		c, _ := newScript(tt.in, 0)
		var r Request
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		var out Out
		out.Init(c.bufs)
		for i := range r.Lines {
			n := r.Lines[i].Name
			r.Lines[i].Drop = n == NameContentLength || n == NameTransferEncoding
		}
		out.RequestLine(&r)
		out.Lines(&r.Head)
		out.FrameRequest(&r.Body)
		out.EndHead()
		if string(out.Bytes()) != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, out.Bytes(), tt.want)
		}
	}
}

func TestOutField(t *testing.T) {
	var out Out
	out.Init(NewBuffers(BuffersConfig{}))
	out.StatusText(502)
	out.Field("A", []byte("x\r\nEvil: 1"))
	out.FieldString("B", "y\x00\n")
	out.FieldInt("C", -7)
	out.EndHead()
	want := "HTTP/1.1 502 Bad Gateway\r\nA: x  Evil: 1\r\nB: y  \r\nC: -7\r\n\r\n"
	if string(out.Bytes()) != want {
		t.Errorf("Out has %q, want %q", out.Bytes(), want)
	}
	big := strings.Repeat("v", 100<<10)
	out.FieldString("D", big)
	if want += "D: " + big + "\r\n"; string(out.Bytes()) != want {
		t.Errorf("after a long value Out has %d bytes, want %d", out.Len(), len(want))
	}
	out.Free()
	if out.Len() != 0 {
		t.Errorf("Len after Free = %d", out.Len())
	}
}

// A tally counts what is written to it.
type tally struct {
	net.Conn
	writes int
	bytes  int64
}

func (t *tally) Write(p []byte) (int, error) {
	t.writes++
	t.bytes += int64(len(p))
	return len(p), nil
}

// A parcel is a body of so many pieces, which are all there.
type parcel struct {
	piece []byte
	left  int
}

func (p *parcel) Next() ([]byte, error) {
	if p.left == 0 {
		return nil, io.EOF
	}
	p.left--
	return p.piece, nil
}

func (p *parcel) Ready() bool    { return true }
func (p *parcel) Trailer() *Head { return nil }

// Small pieces of a long body, as those of AJP13 are, cost few writes; and a body
// that is waited for holds no big buffer.
func TestCopyBodyCombines(t *testing.T) {
	bufs := NewBuffers(BuffersConfig{})
	to := &tally{}
	c := NewConn(to, ConnConfig{Buffers: bufs})
	var out Out
	out.Init(bufs)
	const n = 8184 * 128
	if _, rerr, werr := c.CopyBody(&out, Length, &parcel{make([]byte, 8184), 128}); rerr != nil || werr != nil {
		t.Fatal(rerr, werr)
	}
	if to.bytes != n || to.writes > 40 { // pairs of which are one writev over TCP
		t.Errorf("%d bytes by %d writes, want %d by 40 at most", to.bytes, to.writes, n)
	}
	out.Free()
	if in := bufs.InUse(); in != 0 {
		t.Errorf("%d buffers in use", in)
	}
}
