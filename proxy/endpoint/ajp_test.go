package endpoint

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// hexes reads bytes as mod_jk.md writes them.
func hexes(text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(err)
	}
	return b
}

const (
	forward = "12 34 00 01 02" // stands for a FORWARD_REQUEST: nobody here looks into it
	cping   = "12 34 00 01 0A"
	cpong   = "41 42 00 01 09"
	ajpOK   = "41 42 00 0e 04 00 c8 00 00 00 00 01 a0 03 00 01 32 00 " // 200, Content-Length: 2
	ajpBody = "41 42 00 06 03 00 02 6f 6b 00 "
	ajpEnd  = "41 42 00 02 05 01 "
)

// A tomcat is a scripted server of AJP13: it answers the nth packet that it gets on a
// connection with the nth entry of its script, and the last one is for all others.
// An empty entry is silence, "close" ends the connection.
type tomcat struct {
	script []string

	mu   sync.Mutex // guards what follows
	seen []string   // "ping" and "request", connection after connection
}

// serveAJP starts one; it ends with the listener and its connections.
func serveAJP(t *testing.T, ln net.Listener, script ...string) *tomcat {
	m := &tomcat{script: script}
	var wg sync.WaitGroup
	var open []net.Conn
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			open = append(open, nc)
			m.seen = append(m.seen, "connection")
			m.mu.Unlock()
			wg.Go(func() { m.converse(nc) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		m.mu.Lock()
		for _, nc := range open {
			_ = nc.Close()
		}
		m.mu.Unlock()
		wg.Wait()
	})
	return m
}

func (m *tomcat) converse(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	for n := 0; ; n++ {
		var b [5]byte
		if _, err := io.ReadFull(nc, b[:]); err != nil {
			return
		}
		what := "request"
		if bytes.Equal(b[:], hexes(cping)) {
			what = "ping"
		}
		m.mu.Lock()
		m.seen = append(m.seen, what)
		m.mu.Unlock()
		answer := m.script[min(n, len(m.script)-1)]
		if answer == "close" {
			return
		}
		if _, err := nc.Write(hexes(answer)); err != nil {
			return
		}
	}
}

func (m *tomcat) got() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.seen, ", ")
}

// CPING at connect, before requests and when idle (mod_jk.md 2.4, 4.1, 7.5), and what
// comes of answers that are none.
func TestAJPPings(t *testing.T) {
	const ok = ajpOK + ajpBody + ajpEnd
	tests := []struct {
		name   string
		cfg    Config
		script []string
		pause  time.Duration // before the second request
		kinds  [2]Kind       // of the failures of two requests
		want   string
	}{
		{name: "no pings", cfg: Config{ProbeAfter: -1}, script: []string{ok}, pause: time.Minute, want: "connection, request, request"},
		{name: "at connect (C)", cfg: Config{ConnectProbe: time.Second, ProbeAfter: -1}, script: []string{cpong, ok}, pause: time.Minute, want: "connection, ping, request, request"},
		{name: "before each request (P)", cfg: Config{Prepost: time.Second}, script: []string{cpong, ok, cpong, ok}, want: "connection, ping, request, ping, request"},
		{name: "both: once at connect", cfg: Config{Prepost: time.Second, ConnectProbe: time.Second}, script: []string{cpong, ok, cpong, ok}, want: "connection, ping, request, ping, request"},
		{name: "after a second by default (D10)", script: []string{ok, cpong, ok}, pause: 2 * time.Second, want: "connection, request, ping, request"},
		{name: "while it is idle (I)", cfg: Config{ProbeAfter: -1, PingAfter: 20 * time.Second}, script: []string{ok, cpong, cpong, ok}, pause: 50 * time.Second, want: "connection, request, ping, " + "ping, request"},
		{name: "silent while it is idle (I)", cfg: Config{ProbeAfter: -1, PingAfter: 20 * time.Second}, script: []string{ok, ""}, pause: 30 * time.Second, want: "connection, request, ping, connection, request"},
		{name: "refused at connect", cfg: Config{ConnectProbe: time.Second}, script: []string{"close"}, kinds: [2]Kind{ProbeFailed, ProbeFailed}, want: "connection, ping, connection, ping"},
		{name: "silent at connect", cfg: Config{ConnectProbe: time.Second}, script: []string{""}, kinds: [2]Kind{ProbeFailed, ProbeFailed}, want: "connection, ping, connection, ping"},
		{name: "three tries", cfg: Config{ConnectProbe: time.Second, Retries: 3}, script: []string{"close"}, kinds: [2]Kind{ProbeFailed, ProbeFailed}, want: "connection, ping, connection, ping, connection, ping, connection, ping, connection, ping, connection, ping"},
		{name: "another packet than CPONG", cfg: Config{ConnectProbe: time.Second}, script: []string{"41 42 00 04 03 00 00 00" + cpong}, kinds: [2]Kind{ProbeFailed, ProbeFailed}, want: "connection, ping, connection, ping"},
		{name: "closed before each request: another connection", cfg: Config{Prepost: time.Second}, script: []string{cpong, ok, "close"}, want: "connection, ping, request, ping, connection, ping, request"},
		{name: "silent on a kept one: the new one is asked too", script: []string{ok, ""}, pause: 2 * time.Second, want: "connection, request, ping, connection, ping", kinds: [2]Kind{None, ProbeFailed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				m := serveAJP(t, b.ln, tt.script...)
				tt.cfg.PacketSize = 8192
				e := b.endpoint(t, tt.cfg)
				for i, kind := range tt.kinds {
					if i > 0 {
						time.Sleep(tt.pause)
					}
					got, err := None, error(nil)
					if f := ask(t, e); f != nil {
						got, err = f.Kind, f
					}
					if got != kind {
						t.Errorf("request %d: %v, want %v", i, err, kind)
					}
				}
				synctest.Wait()
				if got := m.got(); got != tt.want {
					t.Errorf("the member got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// ask sends a request and reads the reply, or says why that does not work.
func ask(t *testing.T, e *Endpoint) *Failure {
	t.Helper()
	c, f := e.Send(t.Context(), hexes(forward), Wait{})
	if f != nil {
		if c != nil {
			c.Close()
		}
		return f
	}
	var rep http1.Reply
	if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
		c.Close()
		return f
	}
	if err := rep.Body.Discard(100); err != nil {
		c.Close()
		return c.BodyFailure(err)
	}
	c.Done(&rep)
	return nil
}

// A Close does not wait for the answer to a ping.
func TestAJPCloseDuringPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serveAJP(t, b.ln, ajpOK+ajpBody+ajpEnd, "")
		e := b.endpoint(t, Config{PacketSize: 8192, PingAfter: 10 * time.Second, PingTimeout: time.Minute})
		if f := ask(t, e); f != nil {
			t.Fatal(f)
		}
		time.Sleep(15 * time.Second)
		begun := time.Now()
		e.Close()
		if d := time.Since(begun); d > time.Second {
			t.Errorf("Close took %v", d)
		}
	})
}

// Replies as mod_jk.md 4.2 and 7.4 have them, and what is not one.
func TestAJPReplies(t *testing.T) {
	const ok = ajpOK + ajpBody + ajpEnd
	tests := []struct {
		name   string
		answer string
		method http1.Method
		kind   Kind
		head   string // what the reply has become
		body   string
		keeps  bool
	}{
		{name: "reply", answer: ok, head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", body: "ok", keeps: true},
		{name: "the connection ends", answer: ajpOK + ajpBody + "41 42 00 02 05 00", head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", body: "ok"},
		{name: "without a length", answer: "41 42 00 08 04 00 c9 00 00 00 00 00" + ajpBody + ajpBody + ajpEnd, head: "HTTP/1.1 201 Created\r\n\r\n", body: "okok", keeps: true},
		{name: "Tomcat's reason", answer: "41 42 00 0b 04 01 94 00 03 34 30 34 00 00 00" + ajpEnd, head: "HTTP/1.1 404 Not Found\r\n\r\n", keeps: true},
		{name: "a reason", answer: "41 42 00 0b 04 01 94 00 03 4e 6f 21 00 00 00" + ajpEnd, head: "HTTP/1.1 404 No!\r\n\r\n", keeps: true},
		{name: "an unknown status", answer: "41 42 00 08 04 03 e7 00 00 00 00 00" + ajpEnd, head: "HTTP/1.1 999 \r\n\r\n", keeps: true},
		{name: "flushes", answer: "41 42 00 04 03 00 00 00" + ajpOK + "41 42 00 04 03 00 00 00" + ajpBody + "41 42 00 03 03 00 00" + ajpEnd, head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", body: "ok", keeps: true},
		{name: "HEAD", answer: ajpOK + ajpEnd, method: http1.MethodHead, head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", keeps: true},
		{name: "HEAD with a body (7.4)", answer: ok, method: http1.MethodHead, head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", keeps: true},
		{name: "Transfer-Encoding", answer: "41 42 00 26 04 00 c8 00 00 00 00 01 00 11 54 72 61 6e 73 66 65 72 2d 45 6e 63 6f 64 69 6e 67 00 00 07 63 68 75 6e 6b 65 64 00" + ajpBody + ajpEnd, head: "HTTP/1.1 200 OK\r\n\r\n", body: "ok", keeps: true},
		{name: "something behind the end", answer: ok + "41", head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", body: "ok"},

		{name: "closed", answer: "close", kind: Dropped},
		{name: "status 100", answer: "41 42 00 08 04 00 64 00 00 00 00 00" + ok, kind: Malformed},
		{name: "status 101", answer: "41 42 00 08 04 00 65 00 00 00 00 00", kind: Malformed},
		{name: "status 1000", answer: "41 42 00 08 04 03 e8 00 00 00 00 00", kind: Malformed},
		{name: "a line end in the reason", answer: "41 42 00 0a 04 00 c8 00 02 0d 0a 00 00 00", kind: Malformed},
		{name: "a line end in a value", answer: "41 42 00 0f 04 00 c8 00 00 00 00 01 a0 01 00 02 0d 0a 00", kind: Malformed},
		{name: "a line end in a name", answer: "41 42 00 10 04 00 c8 00 00 00 00 01 00 02 0d 0a 00 00 00 00", kind: Malformed},
		{name: "a colon in a name", answer: "41 42 00 10 04 00 c8 00 00 00 00 01 00 02 58 3a 00 00 00 00", kind: Malformed},
		{name: "two lengths", answer: "41 42 00 14 04 00 c8 00 00 00 00 02 a0 03 00 01 32 00 a0 03 00 01 32 00", kind: Malformed},
		{name: "a length that is none", answer: "41 42 00 0e 04 00 c8 00 00 00 00 01 a0 03 00 01 2d 00", kind: Malformed},
		{name: "wrong magic", answer: "12 34 00 02 05 01", kind: Malformed},
		{name: "HTTP", answer: "48 54 54 50", kind: Malformed},
		{name: "a packet that is too long", answer: "41 42 1f fd 04", kind: Malformed},
		{name: "an end without a head", answer: ajpEnd, kind: Malformed},
		{name: "more of the request's body is asked for than there is", answer: "41 42 00 03 06 1f fa", kind: Dropped},
		{name: "more body than its length", answer: ajpOK + ajpBody + ajpBody + ajpEnd, kind: Cut},
		{name: "less body than its length", answer: ajpOK + ajpEnd, kind: Cut},
		{name: "a second head", answer: ajpOK + ajpOK, kind: Cut},
		{name: "a chunk that is too long", answer: ajpOK + "41 42 00 04 03 00 02 6f", kind: Cut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				serveAJP(t, b.ln, tt.answer)
				e := b.endpoint(t, Config{PacketSize: 8192, ReplyTimeout: time.Second})
				c, f := e.Send(t.Context(), hexes(forward), Wait{})
				if f != nil {
					t.Fatal(f)
				}
				var rep http1.Reply
				f = c.ReadReply(&rep, max(tt.method, http1.MethodGet))
				if f != nil {
					if c.Close(); f.Kind != tt.kind {
						t.Errorf("%v, want %v", f, tt.kind)
					}
					return
				}
				var o http1.Out
				o.Init(http1.NewBuffers(http1.BuffersConfig{}))
				o.StatusLine(rep.Status, rep.Reason)
				o.Lines(&rep.Head)
				o.EndHead()
				if got := string(o.Bytes()); got != tt.head && tt.kind == None {
					t.Errorf("the head is %q, want %q", got, tt.head)
				}
				var body []byte
				var err error
				for err == nil {
					var p []byte
					p, err = rep.Body.Next()
					body = append(body, p...)
				}
				if broken := !errors.Is(err, io.EOF); broken != (tt.kind == Cut) || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the body is %q, %v", body, err)
				}
				if tt.kind == None && string(body) != tt.body {
					t.Errorf("the body is %q, want %q", body, tt.body)
				}
				time.Sleep(time.Millisecond) // until what is behind the end has come
				c.Done(&rep)
				if kept := e.Stats().Kept == 1; kept != tt.keeps {
					t.Errorf("the connection is kept: %v, want %v", kept, tt.keeps)
				}
			})
		})
	}
}
