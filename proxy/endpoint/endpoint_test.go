package endpoint

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{Address: ""},
		{Address: "host"},
		{Address: ":80"},
		{Address: "host:"},
		{Address: "host:80", Retries: -1},
		{Address: "host:80", MaxConns: -1},
		{Address: "host:80", MinIdle: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New(%+v) succeeds", cfg)
		}
	}
}

func TestKeepsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		for range 5 {
			succeed(t, e)
		}
		m.want(1, 5, 0)
		if s := e.Stats(); s.Open != 1 || s.Kept != 1 || s.InFlight != 0 || s.Dials != 1 || s.Reuses != 4 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

// The connection used last is used next, so that the others can grow old.
func TestLastInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		first, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		second, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		if n := e.InFlight(); n != 2 {
			t.Errorf("InFlight = %d, want 2", n)
		}
		for _, c := range []*Conn{first, second} {
			var rep http1.Reply
			if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
				t.Fatal(f)
			}
			if err := rep.Body.Discard(9); err != nil {
				t.Fatal(err)
			}
			c.Done(&rep)
		}
		next, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil || next != second || !next.Kept() {
			t.Errorf("the next connection is not the one that was given back last, %v", f)
		}
		next.Close()
	})
}

// What can be kept after a reply, and what cannot.
func TestReuse(t *testing.T) {
	tests := []struct {
		name  string
		reply string
		conns int // for two requests
	}{
		{"length", okReply, 1},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1},
		{"interim first", "HTTP/1.1 103 Early Hints\r\n\r\n" + okReply, 1},
		{"HTTP/1.0, kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 1},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 2},
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 2},
		{"C07 bytes behind the reply", okReply + "more", 2},
		{"C02 204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", 2},
		{"interim with a body", "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\n" + okReply, 2},
		{"Keep-Alive of no time", "HTTP/1.1 200 OK\r\nKeep-Alive: max=5, timeout=1\r\nContent-Length: 2\r\n\r\nok", 2},
		{"Keep-Alive long enough", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok", 1},
		{"Keep-Alive garbage", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=-5, x\r\nContent-Length: 2\r\n\r\nok", 1},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			m := serve(t, b.ln, say(tt.reply))
			e := b.endpoint(t, Config{ProbeAfter: time.Minute})
			for range 2 {
				if _, _, f := roundTrip(t, e, getRequest); f != nil {
					t.Fatalf("%s: %v", tt.name, f)
				}
				time.Sleep(950 * time.Millisecond)
			}
			if conns, _, _ := m.got(); conns != tt.conns {
				t.Errorf("%s: %d connections for two requests, want %d", tt.name, conns, tt.conns)
			}
		})
	}
}

// A kept connection that the member has closed costs nothing: a new one to the
// same member, any method, executed once (design D8, D04, seeds.md 4.5 C1).
func TestClosedWhileKept(t *testing.T) {
	for _, how := range []string{"closed", "reset", "bytes nobody asked for"} {
		t.Run(how, func(t *testing.T) {
			m := serve(t, listen(t), nil)
			e := newEndpoint(t, Config{Address: m.ln.Addr().String()})
			succeed(t, e)
			m.mu.Lock()
			nc := m.conns[0]
			switch how {
			case "closed":
				_ = nc.Close()
			case "reset":
				_ = nc.(*net.TCPConn).SetLinger(0)
				_ = nc.Close()
			default:
				_, _ = io.WriteString(nc, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
			}
			m.mu.Unlock()
			kept := e.kept[0]
			until(t, "the end is seen", func() bool { return kept.wire.Look() != http1.Quiet })
			if status, _, f := roundTrip(t, e, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"); f != nil || status != 200 {
				t.Errorf("POST = %d, %v", status, f)
			}
			m.want(2, 2, 0)
			if s := e.Stats(); s.Stale != 1 || s.Open != 1 {
				t.Errorf("Stats = %+v, want one stale connection", s)
			}
		})
	}
}

// A member that closes just when the request comes is Dropped without a byte,
// over a kept connection: package proxy decides (C2).
func TestDroppedOnKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, func(m *member, nc net.Conn, c *http1.Conn, req *http1.Request) bool {
			if _, requests, _ := m.got(); requests > 1 {
				return false
			}
			return say(okReply)(m, nc, c, req)
		})
		e := b.endpoint(t, Config{})
		succeed(t, e)
		f := fail(t, e, Dropped)
		if !f.Kept || f.Received != 0 || f.Sent != int64(len(getRequest)) || f.Kind.NothingSent() {
			t.Errorf("the failure is %+v", f)
		}
		m.want(1, 2, 0)
	})
}

func TestFailures(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*member, net.Conn, *http1.Conn, *http1.Request) bool
		kind   Kind
		bytes  int64 // received
	}{
		{"closes without a byte", func(*member, net.Conn, *http1.Conn, *http1.Request) bool { return false }, Dropped, 0},
		{"closes within the head", sayAndClose("HTTP/1.1 200 OK\r\nCont"), Dropped, 21},
		{"garbage", say("garbage\r\n\r\n"), Malformed, 11},
		{"ambiguous", say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"), Malformed, 59},
		{"interim for ever", say(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20)), Malformed, 0},
		{"closes within the body", sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"), Cut, 0},
		{"breaks the chunks", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), Cut, 0},
		{"silent", silent, TimedOut, 0},
		{"silent within the head", sayAndWait("HTTP/1.1 200 OK\r\n"), TimedOut, 17},
		{"silent within the body", sayAndWait("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"), Cut, 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			m := serve(t, b.ln, tt.answer)
			e := b.endpoint(t, Config{ReplyTimeout: 3 * time.Second, Retries: 3})
			begun := time.Now()
			_, _, f := roundTrip(t, e, getRequest)
			if f == nil || f.Kind != tt.kind || f.Received != tt.bytes || f.Tries != 1 || f.Err == nil {
				t.Errorf("%s: %+v, want kind %v, %d bytes, one try", tt.name, f, tt.kind, tt.bytes)
			}
			if d := time.Since(begun); d != 0 && (d < 3*time.Second || d > 3400*time.Millisecond) {
				t.Errorf("%s: took %v, want 3 s and at most an eighth more", tt.name, d)
			}
			m.want(1, 1, 0)
			if s := e.Stats(); s.Open != 0 {
				t.Errorf("%s: %d connections are open", tt.name, s.Open)
			}
		})
	}
}

func sayAndClose(s string) func(*member, net.Conn, *http1.Conn, *http1.Request) bool {
	return func(_ *member, nc net.Conn, _ *http1.Conn, _ *http1.Request) bool {
		_, _ = io.WriteString(nc, s)
		return false
	}
}

func sayAndWait(s string) func(*member, net.Conn, *http1.Conn, *http1.Request) bool {
	return func(m *member, nc net.Conn, c *http1.Conn, req *http1.Request) bool {
		_, _ = io.WriteString(nc, s)
		return silent(m, nc, c, req)
	}
}

// silent reads until the proxy gives up.
func silent(_ *member, _ net.Conn, c *http1.Conn, _ *http1.Request) bool {
	_ = c.Await()
	return false
}

// The reply time-out is the longest silence, not the whole time.
func TestSlowReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, func(_ *member, nc net.Conn, _ *http1.Conn, _ *http1.Request) bool {
			for _, c := range []byte(okReply) {
				time.Sleep(2900 * time.Millisecond)
				if _, err := nc.Write([]byte{c}); err != nil {
					return false
				}
			}
			return true
		})
		e := b.endpoint(t, Config{ReplyTimeout: 3 * time.Second, SocketTimeout: time.Minute})
		succeed(t, e)
	})
}

func TestRefused(t *testing.T) {
	ln := listen(t)
	e := newEndpoint(t, Config{Address: ln.Addr().String()})
	_ = ln.Close()
	f := fail(t, e, Refused)
	if !f.Kind.NothingSent() || f.Tries != 1 || !errors.Is(f, syscall.ECONNREFUSED) {
		t.Errorf("the failure is %+v", f)
	}
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		_ = b.ln.Close()
		e := b.endpoint(t, Config{Retries: 3, RetryInterval: time.Second})
		begun := time.Now()
		if f := fail(t, e, Refused); f.Tries != 3 {
			t.Errorf("%d tries, want 3", f.Tries)
		}
		if d := time.Since(begun); d != 2*time.Second {
			t.Errorf("three tries took %v, want 2 s", d)
		}
		if s := e.Stats(); s.Dials != 3 || s.DialFailures != 3 {
			t.Errorf("Stats = %+v", s)
		}

		ln, err := b.member.Listen("tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		serve(t, ln, nil)
		succeed(t, e)
	})
}

// A cut cable: first a kept connection that was idle, later none. With our
// defaults either costs less than a second (design section 6), and nothing of
// the request is sent twice (PLUG-118).
func TestBlackhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		// Three connections are kept; one silence must do for all of them.
		var conns []*Conn
		for range 3 {
			c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
			if f != nil {
				t.Fatal(f)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			var rep http1.Reply
			if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
				t.Fatal(f)
			}
			if err := rep.Body.Discard(2); err != nil {
				t.Fatal(err)
			}
			c.Done(&rep)
		}
		time.Sleep(5 * time.Second)
		b.net.Cut("10.0.0.1", "10.0.0.2")
		for _, limit := range []time.Duration{time.Second, 501 * time.Millisecond} {
			begun := time.Now()
			_ = fail(t, e, ConnectTimeout)
			if d := time.Since(begun); d > limit {
				t.Errorf("the failure took %v, want at most %v", d, limit)
			}
		}
		b.net.Heal("10.0.0.1", "10.0.0.2")
		synctest.Wait()
		succeed(t, e)
		_, requests, _ := m.got()
		if requests != 4 {
			t.Errorf("the member has had %d requests, want 4", requests)
		}
	})
}

// A connection that was idle is probed before it is used.
func TestProbeAfterIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		succeed(t, e)
		time.Sleep(time.Second - time.Millisecond)
		succeed(t, e)
		m.want(1, 2, 0)
		time.Sleep(time.Second + time.Millisecond)
		succeed(t, e)
		m.want(1, 3, 1)
	})
}

// Any complete answer to a probe counts (seeds.md 4.7).
func TestProbeAnswers(t *testing.T) {
	tests := []struct {
		name    string
		answer  string
		closes  bool
		conns   int
		probes  int
		failure Kind // of the request, with prepost
	}{
		{"200", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 1, 1, None},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", false, 1, 1, None},
		{"not allowed, with a body", "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 3\r\n\r\nno!", false, 1, 1, None},
		{"chunked", "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", false, 1, 1, None},
		{"interim first", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 1, 1, None},
		{"answers and closes", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", true, 2, 1, None},
		{"closes", "", true, 1, 1, ProbeFailed},
		{"garbage", "garbage\r\n", false, 1, 1, ProbeFailed},
		{"half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, 1, 1, ProbeFailed},
		{"nothing", "", false, 1, 1, ProbeFailed},
		{"endless body", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", false, 1, 1, ProbeFailed},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			m := serve(t, b.ln, func(m *member, nc net.Conn, c *http1.Conn, req *http1.Request) bool {
				if req.Form != http1.FormAsterisk {
					return say(okReply)(m, nc, c, req)
				}
				_, _ = io.WriteString(nc, tt.answer)
				return !tt.closes
			})
			e := b.endpoint(t, Config{Prepost: 700 * time.Millisecond})
			begun := time.Now()
			_, _, f := roundTrip(t, e, getRequest)
			if (f == nil) != (tt.failure == None) || f != nil && f.Kind != tt.failure {
				t.Errorf("%s: the request ends in %v, want %v", tt.name, f, tt.failure)
			}
			if d := time.Since(begun); d != 0 && d != 700*time.Millisecond {
				t.Errorf("%s: took %v, want 700 ms", tt.name, d)
			}
			synctest.Wait()
			if conns, _, probes := m.got(); conns != tt.conns || probes != tt.probes {
				t.Errorf("%s: %d connections, %d probes; want %d, %d", tt.name, conns, probes, tt.conns, tt.probes)
			}
		})
	}
}

// A member that is frozen takes connections and does not answer.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		if f := e.Probe(t.Context()); f != nil {
			t.Fatalf("Probe of a living member = %v", f)
		}
		succeed(t, e)
		m.want(1, 1, 1) // the connection of the probe is kept

		b.member.Freeze()
		begun := time.Now()
		if f := e.Probe(t.Context()); f == nil || f.Kind != ProbeFailed && f.Kind != ConnectTimeout {
			t.Errorf("Probe of a frozen member = %v", f)
		}
		if d := time.Since(begun); d > 800*time.Millisecond {
			t.Errorf("Probe took %v", d)
		}
		if s := e.Stats(); s.Kept != 0 {
			t.Errorf("%d connections are kept after a silence", s.Kept)
		}
		b.member.Thaw()
		if f := e.Probe(t.Context()); f != nil {
			t.Errorf("Probe of a thawed member = %v", f)
		}
		b.member.Kill()
		if f := e.Probe(t.Context()); f == nil {
			t.Error("Probe of a killed member succeeds")
		}
	})
}

func TestConnectProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{ConnectProbe: time.Second})
		succeed(t, e)
		succeed(t, e)
		m.want(1, 2, 1)
	})
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, nil)
		e := b.endpoint(t, Config{MaxConns: 1, AcquireTimeout: time.Second})
		c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		begun := time.Now()
		if f := fail(t, e, Busy); !f.Kind.NothingSent() {
			t.Errorf("%v: something was sent", f)
		}
		if d := time.Since(begun); d != time.Second {
			t.Errorf("waited %v for a connection, want 1 s", d)
		}
		time.AfterFunc(500*time.Millisecond, c.Close)
		succeed(t, e)
		if s := e.Stats(); s.Busy != 1 || s.InFlight != 0 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		b.net.Cut("10.0.0.1", "10.0.0.2")
		e := b.endpoint(t, Config{ConnectTimeout: time.Minute, Retries: 3})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, f := e.Send(ctx, []byte(getRequest), Wait{}); f == nil || f.Kind != Canceled || f.Tries != 1 {
			t.Errorf("Send = %+v, want canceled at the first try", f)
		}
		if d := time.Since(begun); d != time.Second {
			t.Errorf("Send took %v, want 1 s", d)
		}
		if _, f := e.Send(ctx, []byte(getRequest), Wait{}); f == nil || f.Kind != Canceled {
			t.Errorf("Send with a context that is done = %+v", f)
		}
	})
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, silent)
		e := b.endpoint(t, Config{ReplyTimeout: time.Hour})
		c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		time.AfterFunc(time.Second, c.Interrupt)
		var rep http1.Reply
		if f := c.ReadReply(&rep, http1.MethodGet); f == nil || f.Kind != Interrupted {
			t.Errorf("ReadReply = %v, want interrupted", f)
		}
		c.Close()
	})
}

// An interruption that comes too late must not hit the next request.
func TestInterruptedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		var rep http1.Reply
		if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
			t.Fatal(f)
		}
		if err := rep.Body.Discard(2); err != nil {
			t.Fatal(err)
		}
		c.Interrupt()
		c.Done(&rep)
		succeed(t, e)
		m.want(2, 2, 0)
	})
}

// C17, B40: a member that answers before it has read the body, and stops
// reading, is heard.
func TestEarlyReply(t *testing.T) {
	m := serve(t, listen(t), func(_ *member, nc net.Conn, _ *http1.Conn, _ *http1.Request) bool {
		_, _ = io.WriteString(nc, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
		return false
	})
	e := newEndpoint(t, Config{Address: m.ln.Addr().String()})
	bufs := http1.NewBuffers(http1.BuffersConfig{})
	for range 40 {
		c, f := e.Send(t.Context(), []byte("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		sent := make(chan *Failure, 1)
		go func() {
			var out http1.Out
			out.Init(bufs)
			_, _, f := c.CopyBody(&out, http1.Chunked, &zeros{left: 400 << 10})
			out.Free()
			sent <- f
		}()
		var rep http1.Reply
		if f := c.ReadReply(&rep, http1.MethodPost); f != nil || rep.Status != 413 {
			t.Errorf("ReadReply = %d, %v; want 413", rep.Status, f)
		} else if s, err := body(&rep.Body); s != "big" || err != nil {
			t.Errorf("the body is %q, %v", s, err)
		}
		c.Interrupt()
		if f := <-sent; f != nil && f.Kind != WriteMidway {
			t.Errorf("CopyBody = %v", f)
		}
		c.Done(&rep)
	}
	if s := e.Stats(); s.Open != 0 {
		t.Errorf("%d connections are open", s.Open)
	}
}

// zeros is a body of left zero bytes.
type zeros struct {
	left  int
	piece [8 << 10]byte
}

func (z *zeros) Next() ([]byte, error) {
	if z.left == 0 {
		return nil, io.EOF
	}
	n := min(z.left, len(z.piece))
	z.left -= n
	return z.piece[:n], nil
}

func (z *zeros) Ready() bool          { return true }
func (z *zeros) Trailer() *http1.Head { return nil }

func TestExpectContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, func(_ *member, nc net.Conn, _ *http1.Conn, req *http1.Request) bool {
			_, _ = io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\n")
			s, err := body(&req.Body)
			if s != "abc" || err != nil {
				t.Errorf("the member reads %q, %v", s, err)
			}
			_, _ = io.WriteString(nc, okReply)
			return true
		})
		e := b.endpoint(t, Config{})
		c, f := e.Send(t.Context(), []byte("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		var rep http1.Reply
		if f := c.ReadReply(&rep, http1.MethodPut); f != nil || rep.Status != 100 {
			t.Fatalf("ReadReply = %d, %v; want 100", rep.Status, f)
		}
		if _, err := c.Wire().Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if f := c.ReadReply(&rep, http1.MethodPut); f != nil || rep.Status != 200 {
			t.Fatalf("ReadReply = %d, %v; want 200", rep.Status, f)
		}
		if err := rep.Body.Discard(2); err != nil {
			t.Fatal(err)
		}
		c.Done(&rep)
		if s := e.Stats(); s.Kept != 1 {
			t.Errorf("Stats = %+v, want the connection kept", s)
		}
	})
}

// A member that stops reading: the write ends in time, and midway.
func TestWriteMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, func(*member, net.Conn, *http1.Conn, *http1.Request) bool {
			time.Sleep(10 * time.Second)
			return false
		})
		e := b.endpoint(t, Config{WriteTimeout: 2 * time.Second})
		begun := time.Now()
		c, f := e.Send(t.Context(), append([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"), make([]byte, 1<<20)...), Wait{})
		if c == nil || f == nil || f.Kind != WriteMidway || f.Sent == 0 {
			t.Fatalf("Send = %v, %+v; want a connection and a failure midway", c, f)
		}
		c.Close()
		if d := time.Since(begun); d < 2*time.Second || d > 2250*time.Millisecond {
			t.Errorf("the write took %v, want 2 s", d)
		}
	})
}

func TestLimitsOfKeeping(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		wait time.Duration
		kept int // of three
	}{
		{"defaults", Config{}, time.Minute, 3},
		{"MaxIdle", Config{MaxIdle: 2}, 0, 2},
		{"MaxIdle of MaxConns", Config{MaxConns: 3}, 0, 3},
		{"none", Config{MaxIdle: -1}, 0, 0},
		{"IdleTimeout not over", Config{IdleTimeout: time.Minute}, time.Minute - time.Second, 3},
		{"IdleTimeout over", Config{IdleTimeout: time.Minute}, time.Minute + sweepEvery + time.Second, 0},
		{"MinIdle", Config{IdleTimeout: time.Minute, MinIdle: 1}, 2 * time.Minute, 1},
		{"MaxAge", Config{MaxAge: time.Minute}, time.Minute + sweepEvery + time.Second, 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			serve(t, b.ln, nil)
			e := b.endpoint(t, tt.cfg)
			var conns []*Conn
			for range 3 {
				c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
				if f != nil {
					t.Fatal(f)
				}
				conns = append(conns, c)
			}
			for _, c := range conns {
				var rep http1.Reply
				if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
					t.Fatal(f)
				}
				if err := rep.Body.Discard(2); err != nil {
					t.Fatal(err)
				}
				c.Done(&rep)
			}
			time.Sleep(tt.wait)
			synctest.Wait()
			if s := e.Stats(); s.Kept != tt.kept || s.Open != tt.kept {
				t.Errorf("%s: %+v, want %d kept", tt.name, s, tt.kept)
			}
		})
	}
}

// Connections that the member closes while nobody uses them do not stay.
func TestSweepClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		succeed(t, e)
		m.closeConns()
		time.Sleep(sweepEvery + time.Second)
		synctest.Wait()
		if s := e.Stats(); s.Open != 0 || s.Kept != 0 {
			t.Errorf("Stats = %+v", s)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		succeed(t, e)
		c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		e.Close()
		var rep http1.Reply
		if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
			t.Errorf("a request in flight at Close: %v", f)
		}
		if err := rep.Body.Discard(2); err != nil {
			t.Error(err)
		}
		c.Done(&rep)
		if s := e.Stats(); s.Open != 0 {
			t.Errorf("after Close %d connections are open", s.Open)
		}
		_ = fail(t, e, Closed)
		if f := e.Probe(t.Context()); f == nil || f.Kind != Closed {
			t.Errorf("Probe after Close = %v", f)
		}
		e.Close()
	})
}

// TestRetire: whoever has a retired endpoint is served, and nothing is left of it.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		succeed(t, e)
		c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		e.Retire()
		var rep http1.Reply
		if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
			t.Errorf("a request in flight at Retire: %v", f)
		}
		if err := rep.Body.Discard(2); err != nil {
			t.Error(err)
		}
		c.Done(&rep)
		for range 2 {
			succeed(t, e) // it had e before, and was slow
			if s := e.Stats(); s.Open != 0 || s.Kept != 0 {
				t.Errorf("after Retire: %+v, want no connection", s)
			}
		}
	})
}

func TestUnknownHost(t *testing.T) {
	e := newEndpoint(t, Config{Address: "member:80", Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "member", IsNotFound: true}
	}})
	f := fail(t, e, Unreachable)
	if want := `endpoint: member:80: unreachable: lookup member: no such host`; f.Error() != want {
		t.Errorf("Error() = %q, want %q", f.Error(), want)
	}
}

func TestKindWords(t *testing.T) {
	seen := map[string]bool{}
	for k := None; k <= Interrupted; k++ {
		s := k.String()
		if s == "unknown" || seen[s] {
			t.Errorf("Kind(%d).String() = %q", k, s)
		}
		seen[s] = true
		if k.NothingSent() != (k < WriteMidway) {
			t.Errorf("%v.NothingSent() = %v", k, k.NothingSent())
		}
	}
}

// A frozen member keeps its requests for ever; when gossip and a probe have found
// it silent they end, and no other request does.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		succeed(t, e)
		b.member.Freeze()
		var failures [3]*Failure
		var conns [3]*Conn
		var reading sync.WaitGroup
		for i := range conns {
			nc, f := e.Send(t.Context(), []byte(getRequest), Wait{})
			if f != nil {
				// Only the kept connection takes a request: nobody accepts.
				failures[i] = f
				continue
			}
			conns[i] = nc
			reading.Go(func() {
				var rep http1.Reply
				failures[i] = nc.ReadReply(&rep, http1.MethodGet)
			})
		}
		if conns[0] == nil {
			t.Fatal("no request is in flight")
		}
		e.Abandon()
		reading.Wait()
		for i, c := range conns {
			if c == nil {
				continue
			}
			if f := failures[i]; f == nil || f.Kind != TimedOut || !c.Abandoned() {
				t.Errorf("request %d: %v, want timed out", i, f)
			}
			c.Close()
		}
		b.member.Thaw()
		succeed(t, e)
		if n := len(e.used); n != 0 {
			t.Errorf("%d connections count as used", n)
		}
	})
}

// An abandoned request whose reply has come all the same spoils no other.
func TestAbandonTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		m := serve(t, b.ln, nil)
		e := b.endpoint(t, Config{})
		var rep http1.Reply
		c, f := e.Send(t.Context(), []byte(getRequest), Wait{})
		if f != nil {
			t.Fatal(f)
		}
		if f := c.ReadReply(&rep, http1.MethodGet); f != nil {
			t.Fatal(f)
		}
		if err := rep.Body.Discard(2); err != nil {
			t.Fatal(err)
		}
		e.Abandon()
		c.Done(&rep)
		succeed(t, e)
		m.want(2, 2, 0)
	})
}
