package endpoint_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// A nameServer answers every question with the addresses that it has now.
type nameServer struct {
	mu        sync.Mutex // guards what follows
	addresses []string   // none: the server fails
}

func (s *nameServer) set(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = addresses
}

// startNames makes the system's resolver ask s until the test ends.
func startNames(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := s.answer(t, buf[:n]); answer != nil {
				_, _ = pc.WriteTo(answer, from) // who is gone needs no answer
			}
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = pc.Close()
		<-served
	})
	return s
}

func (s *nameServer) answer(t *testing.T, question []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if len(s.addresses) == 0 {
		m.RCode = dnsmessage.RCodeServerFailure
	}
	q := m.Questions[0]
	for _, text := range s.addresses {
		a := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// serveAt runs a member that says where it is, and who asks.
func serveAt(t *testing.T, address string) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("this machine has no %s: %v", address, err)
	}
	host, _, _ := net.SplitHostPort(address)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		w.Header().Set("At", host)
		w.Header().Set("From", from)
	}))
	_ = srv.Listener.Close()
	srv.Listener = ln
	srv.Start()
	t.Cleanup(srv.Close)
}

// where sends a request and returns which member has answered.
func where(t *testing.T, e *endpoint.Endpoint) (string, *endpoint.Failure) {
	t.Helper()
	return ask(t, e, "At")
}

// ask sends a request and returns a field of the answer.
func ask(t *testing.T, e *endpoint.Endpoint, field string) (string, *endpoint.Failure) {
	t.Helper()
	c, f := e.Send(t.Context(), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), endpoint.Wait{})
	if f != nil {
		return "", f
	}
	var rep http1.Reply
	if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
		c.Close()
		return "", f
	}
	at := ""
	for i := range rep.Lines {
		if string(rep.FieldName(i)) == field {
			at = string(rep.Value(i))
		}
	}
	c.Done(&rep)
	return at, nil
}

// Peers 4F: names are resolved at each dial, whatever has gone wrong before.
func TestNames(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("only 127.0.0.1 is this machine: %v", err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	names := startNames(t)
	serveAt(t, "127.0.0.2:"+port)
	serveAt(t, "127.0.0.3:"+port)
	newEndpoint := func(t *testing.T) *endpoint.Endpoint {
		t.Helper()
		e, err := endpoint.New(endpoint.Config{Address: "app.test:" + port, MaxAge: time.Nanosecond, ConnectTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}

	t.Run("F01: the name moves under steady traffic", func(t *testing.T) {
		e := newEndpoint(t)
		for _, at := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.2"} {
			names.set(at)
			if got, f := where(t, e); got != at {
				t.Errorf("the name is %s, the request went to %q, %v", at, got, f)
			}
		}
	})
	t.Run("F02: the name server fails once", func(t *testing.T) {
		e := newEndpoint(t)
		names.set()
		if _, f := where(t, e); f == nil || f.Kind.String() == "" {
			t.Fatalf("without an answer: %v, want a failure", f)
		}
		names.set("127.0.0.3")
		if got, f := where(t, e); got != "127.0.0.3" {
			t.Errorf("afterwards the request went to %q, %v; want 127.0.0.3 and the port as it was", got, f)
		}
		if got, want := e.Address(), "app.test:"+port; got != want {
			t.Errorf("Address = %q, want %q", got, want)
		}
	})
	t.Run("F05: A and AAAA, and nobody behind the AAAA", func(t *testing.T) {
		e := newEndpoint(t)
		names.set("::1", "127.0.0.2")
		if got, f := where(t, e); got != "127.0.0.2" {
			t.Errorf("the request went to %q, %v; want 127.0.0.2", got, f)
		}
	})
}

// The directive source: connections come from there.
func TestSource(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	serveAt(t, address)
	e, err := endpoint.New(endpoint.Config{Address: address, Source: net.IPv4(127, 0, 0, 9)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got, f := ask(t, e, "From")
	if f != nil {
		t.Skipf("only 127.0.0.1 is this machine: %v", f)
	}
	if got != "127.0.0.9" {
		t.Errorf("the request came from %s, want 127.0.0.9", got)
	}
}
