package endpoint

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/test/pipenet"
)

const (
	getRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	okReply    = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// A member is a server whose answers a test writes. It counts what it gets.
type member struct {
	t      testing.TB
	ln     net.Listener
	answer func(m *member, nc net.Conn, c *http1.Conn, req *http1.Request) bool

	wg sync.WaitGroup

	mu       sync.Mutex // guards what follows
	conns    []net.Conn
	requests int // without probes
	probes   int
}

// serve starts a member on ln; each request, probes included, is answered by
// answer, which says whether to go on with the connection. Nil is always
// okReply.
func serve(t testing.TB, ln net.Listener, answer func(m *member, nc net.Conn, c *http1.Conn, req *http1.Request) bool) *member {
	m := &member{t: t, ln: ln, answer: answer}
	if m.answer == nil {
		m.answer = say(okReply)
	}
	m.wg.Go(m.accept)
	t.Cleanup(m.stop)
	return m
}

// say answers every request with s.
func say(s string) func(*member, net.Conn, *http1.Conn, *http1.Request) bool {
	return func(_ *member, nc net.Conn, _ *http1.Conn, _ *http1.Request) bool {
		_, err := io.WriteString(nc, s)
		return err == nil
	}
}

// sayBytes is say without an allocation.
func sayBytes(p []byte) func(*member, net.Conn, *http1.Conn, *http1.Request) bool {
	return func(_ *member, _ net.Conn, c *http1.Conn, _ *http1.Request) bool {
		_, err := c.Write(p)
		return err == nil
	}
}

func (m *member) accept() {
	for {
		nc, err := m.ln.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.conns = append(m.conns, nc)
		m.mu.Unlock()
		m.wg.Go(func() { m.converse(nc) })
	}
}

func (m *member) converse(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	c := http1.NewConn(nc, http1.ConnConfig{Buffers: http1.NewBuffers(http1.BuffersConfig{})})
	var req http1.Request
	for c.ReadRequest(&req) == nil {
		m.mu.Lock()
		if req.Form == http1.FormAsterisk {
			m.probes++
		} else {
			m.requests++
		}
		m.mu.Unlock()
		if !m.answer(m, nc, c, &req) {
			return
		}
		if req.Body.Discard(1<<30) != nil {
			return
		}
	}
}

func (m *member) stop() {
	_ = m.ln.Close()
	m.closeConns()
	m.wg.Wait()
}

// closeConns closes all connections that were accepted.
func (m *member) closeConns() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, nc := range m.conns {
		_ = nc.Close()
	}
}

// got returns how many connections, requests and probes the member has had.
func (m *member) got() (conns, requests, probes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns), m.requests, m.probes
}

func (m *member) want(conns, requests, probes int) {
	m.t.Helper()
	c, r, p := m.got()
	if c != conns || r != requests || p != probes {
		m.t.Errorf("the member has had %d connections, %d requests, %d probes; want %d, %d, %d", c, r, p, conns, requests, probes)
	}
}

// bubble is a proxy's host and a member's in an in-memory network.
type bubble struct {
	net           *pipenet.Net
	proxy, member *pipenet.Host
	ln            net.Listener
}

const memberAddr = "10.0.0.2:80"

func newBubble(t testing.TB) *bubble {
	t.Helper()
	n := pipenet.New()
	b := &bubble{net: n, proxy: n.Host("10.0.0.1"), member: n.Host("10.0.0.2")}
	ln, err := b.member.Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	b.ln = ln
	return b
}

// endpoint returns one for the member of b; cfg needs no address.
func (b *bubble) endpoint(t testing.TB, cfg Config) *Endpoint {
	t.Helper()
	cfg.Address, cfg.Dial = memberAddr, b.proxy.Dial
	return newEndpoint(t, cfg)
}

func newEndpoint(t testing.TB, cfg Config) *Endpoint {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if s := e.Stats(); s.Open != 0 || s.Kept != 0 || s.InFlight != 0 {
			t.Errorf("after Close there are %+v", s)
		}
	})
	return e
}

// listen returns a listener on loopback.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// body reads a reply's body.
func body(b *http1.Body) (string, error) {
	var s strings.Builder
	for {
		p, err := b.Next()
		if errors.Is(err, io.EOF) {
			return s.String(), nil
		}
		if err != nil {
			return s.String(), err
		}
		s.Write(p)
	}
}

// roundTrip sends request and reads the whole final reply.
func roundTrip(t testing.TB, e *Endpoint, request string) (status int, content string, f *Failure) {
	t.Helper()
	c, f := e.Send(t.Context(), []byte(request), Wait{})
	if f != nil {
		if c != nil {
			c.Close()
		}
		return 0, "", f
	}
	var rep http1.Reply
	for {
		if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
			c.Close()
			return 0, "", f
		}
		if !rep.Interim() {
			break
		}
	}
	content, err := body(&rep.Body)
	if err != nil {
		f = c.BodyFailure(err)
		c.Close()
		return rep.Status, content, f
	}
	status = rep.Status
	c.Done(&rep)
	return status, content, nil
}

// succeed wants a reply with 200 and "ok".
func succeed(t testing.TB, e *Endpoint) {
	t.Helper()
	if status, content, f := roundTrip(t, e, getRequest); f != nil || status != 200 || content != "ok" {
		t.Fatalf("the reply is %d %q, %v; want 200 ok", status, content, f)
	}
}

// fail wants a GET to fail with kind k.
func fail(t testing.TB, e *Endpoint, k Kind) *Failure {
	t.Helper()
	_, _, f := roundTrip(t, e, getRequest)
	if f == nil || f.Kind != k {
		t.Fatalf("the failure is %v, want %v", f, k)
	}
	return f
}

// until waits for cond.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
