package http1

import (
	"testing"
)

const (
	benchRequest = "GET /shop/cart?item=17 HTTP/1.1\r\nHost: shop.example.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
		"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\nAccept-Encoding: gzip, deflate\r\n" +
		"Connection: keep-alive\r\nCookie: JSESSIONID=AAAABBBBCCCCDDDDEEEEFFFF.n1; theme=dark\r\nX-Request-ID: 1\r\n\r\n"
	benchPost  = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;a=b\r\ndefg\r\n0\r\nX-Sum: 1\r\n\r\n"
	benchReply = "HTTP/1.1 200 OK\r\nServer: x\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Type: text/html\r\n" +
		"Content-Length: 16\r\nKeep-Alive: timeout=60\r\nConnection: keep-alive\r\nSet-Cookie: a=b\r\n\r\n0123456789abcdef"
	benchChunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n8\r\n89abcdef\r\n0\r\n\r\n"
)

// exchange is the steady state of a proxy over scripts: a request to the member,
// its reply to the client.
type exchange struct {
	client, member           *Conn
	fromClient, fromMember   *script
	req                      Request
	rep                      Reply
	out                      Out
	requestBytes, replyBytes []byte
}

func newExchange(request, reply string) *exchange {
	bufs := NewBuffers(BuffersConfig{})
	x := &exchange{fromClient: &script{}, fromMember: &script{}, requestBytes: []byte(request), replyBytes: []byte(reply)}
	x.client = NewConn(x.fromClient, ConnConfig{Buffers: bufs})
	x.member = NewConn(x.fromMember, ConnConfig{Buffers: bufs})
	x.out.Init(bufs)
	return x
}

func dropHopByHop(h *Head) {
	for i := range h.Lines {
		l := &h.Lines[i]
		l.Drop = l.Name.HopByHop() || l.Nominated || l.Name == NameContentLength
	}
}

func (x *exchange) run(t testing.TB) {
	x.fromClient.in, x.fromMember.in = x.requestBytes, x.replyBytes
	x.fromClient.out, x.fromMember.out = x.fromClient.out[:0], x.fromMember.out[:0]
	if err := x.client.Await(); err != nil {
		t.Fatal(err)
	}
	if err := x.client.ReadRequest(&x.req); err != nil {
		t.Fatal(err)
	}
	dropHopByHop(&x.req.Head)
	x.out.RequestLine(&x.req)
	x.out.Lines(&x.req.Head)
	x.out.FieldString("X-Forwarded-For", "192.0.2.1")
	f := x.out.FrameRequest(&x.req.Body)
	x.out.EndHead()
	if _, rerr, werr := x.member.CopyBody(&x.out, f, &x.req.Body); rerr != nil || werr != nil {
		t.Fatal(rerr, werr)
	}
	if err := x.member.ReadReply(&x.rep, x.req.Method); err != nil {
		t.Fatal(err)
	}
	dropHopByHop(&x.rep.Head)
	x.out.StatusLine(x.rep.Status, x.rep.Reason)
	x.out.Lines(&x.rep.Head)
	f = x.out.FrameReply(&x.rep, x.req.Minor)
	x.out.EndHead()
	if _, rerr, werr := x.client.CopyBody(&x.out, f, &x.rep.Body); rerr != nil || werr != nil {
		t.Fatal(rerr, werr)
	}
	x.out.Free()
	x.member.Release()
	x.client.Release()
}

// The gate of design section 6: no allocation per exchange in the steady state.
func TestExchangeAllocs(t *testing.T) {
	tests := []struct{ name, request, reply string }{
		{"GET", benchRequest, benchReply},
		{"POST, chunks, trailer", benchPost, benchChunks},
	}
	for _, tt := range tests {
		x := newExchange(tt.request, tt.reply)
		if n := testing.AllocsPerRun(1000, func() { x.run(t) }); n != 0 {
			t.Errorf("%s: %v allocations per exchange, want 0", tt.name, n)
		}
	}
}

// The same over TCP, with the system calls and deadlines that a proxy makes.
func TestTCPAllocs(t *testing.T) {
	near, far := loopback(t)
	bufs := NewBuffers(BuffersConfig{})
	cfg := ConnConfig{Buffers: bufs, ReadTimeout: 1 << 40, WriteTimeout: 1 << 40}
	a, b := NewConn(near, cfg), NewConn(far, cfg)
	var req Request
	var rep Reply
	request, reply := []byte(benchRequest), []byte(benchReply)
	n := testing.AllocsPerRun(500, func() {
		if a.Look() != Quiet {
			t.Fatal("not quiet")
		}
		if _, err := a.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := b.Await(); err != nil {
			t.Fatal(err)
		}
		if err := b.ReadRequest(&req); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write(reply); err != nil {
			t.Fatal(err)
		}
		b.Release()
		if err := a.ReadReply(&rep, req.Method); err != nil {
			t.Fatal(err)
		}
		if err := rep.Body.Discard(100); err != nil {
			t.Fatal(err)
		}
		a.Release()
	})
	if n != 0 {
		t.Errorf("%v allocations per exchange, want 0", n)
	}
}

func TestRefusalAllocs(t *testing.T) {
	bad := []byte("GET / HTTP/1.1\nHost: x\n\n")
	var r Request
	var lim Limits
	if n := testing.AllocsPerRun(100, func() {
		r.Reset()
		if _, err := r.Parse(bad, lim); err == nil {
			t.Fatal("accepted")
		}
	}); n != 0 {
		t.Errorf("%v allocations per refused head, want 0", n)
	}
}
