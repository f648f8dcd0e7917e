package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// handshake asks for a tunnel, with lines besides the usual ones.
func handshake(lines string) string {
	return "GET /ws HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + lines + "\r\n"
}

// switchTo answers 101 and then does what f says with the connection, whose end it
// is when f returns.
func switchTo(f func(c *memberConn)) handler {
	return func(m *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 101 Switching Protocols\r\nX-Member: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", m.name)
		f(c)
		return false
	}
}

// echoing sends back what comes, up to the end.
func echoing(c *memberConn) { _, _ = io.Copy(c, c.r) }

// upgrade opens a tunnel, or fails the test.
func (w *world) upgrade(lines string) *rawConn {
	w.t.Helper()
	c := w.raw()
	c.say(handshake(lines))
	a, err := c.head()
	if err != nil || a.status != http.StatusSwitchingProtocols {
		w.t.Fatalf("handshake = %d, %v; want 101", a.status, err)
	}
	return c
}

// head reads the head of a reply and leaves what follows unread.
func (c *rawConn) head() (answer, error) {
	var text strings.Builder
	for !strings.HasSuffix(text.String(), "\r\n\r\n") {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return answer{}, err
		}
		text.WriteString(line)
	}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text.String())), nil)
	if err != nil {
		return answer{}, err
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: text.String(), member: resp.Header.Get("X-Member")}, nil
}

// want reads as many bytes as text has and compares.
func (c *rawConn) want(text string) {
	c.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != text {
		c.t.Fatalf("got %.100q (%d bytes), %v; want %.100q", got[:n], n, err, text)
	}
}

func (c *rawConn) closeWrite() {
	c.t.Helper()
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// What members get of a handshake, and clients of its answer.
func TestUpgradeHeads(t *testing.T) {
	tests := []struct {
		name  string
		send  string // lines of the request
		got   string // lines of it at the member, joined by a bar
		reply string // lines of the 101; "Upgrade: websocket" if empty
		lines []string
	}{
		{name: "plain", send: "Connection: Upgrade\r\nUpgrade: websocket\r\n", got: "Upgrade: websocket|Connection: Upgrade"},
		{name: "B35: a list in two lines, without h2c", send: "Connection: upgrade\r\nUpgrade: foo, h2c\r\nUpgrade: websocket\r\n", got: "Upgrade: foo, websocket|Connection: Upgrade"},
		{name: "B34: with HTTP2-Settings", send: "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, websocket\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", got: "Upgrade: websocket|Connection: Upgrade"},
		{name: "B34: HTTP and TLS by other names", send: "Connection: Upgrade\r\nUpgrade: HTTP/2.0, H2C, h2c-14, TLS/1.0, h2, websocket\r\n", got: "Upgrade: websocket|Connection: Upgrade"},
		{name: "E05: two lines", send: "Connection: Upgrade\r\nUpgrade: foo\r\nUpgrade: websocket\r\n", got: "Upgrade: foo, websocket|Connection: Upgrade"},
		{name: "the same twice", send: "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: WebSocket\r\n", got: "Upgrade: websocket|Connection: Upgrade"},
		{
			name: "E07: names in any case, bytes as sent", send: "connection: keep-alive, upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x3JJHMbDL1EzLkh9GBhXDw==\r\nsEC-wEBsOCKET-vERSION: 13\r\n",
			got: "sec-websocket-key: x3JJHMbDL1EzLkh9GBhXDw==|sEC-wEBsOCKET-vERSION: 13|Upgrade: websocket|Connection: Upgrade",
		},
		{name: "with TE", send: "Connection: TE, Upgrade\r\nTE: trailers\r\nUpgrade: websocket\r\n", got: "Upgrade: websocket|TE: trailers|Connection: Upgrade, TE"},
		{
			name: "E08: Upgrade twice, and Connection: close", send: "Connection: Upgrade\r\nUpgrade: websocket\r\n", got: "Upgrade: websocket|Connection: Upgrade",
			reply: "Upgrade: websocket\r\nConnection: Upgrade, close\r\nUpgrade: WebSocket\r\nConnection: close\r\nKeep-Alive: timeout=5\r\nsec-websocket-accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\nUnderstudy-X: 1\r\n",
			lines: []string{"sec-websocket-accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk="},
		},
		{
			name: "101 without Connection, in another case", send: "Connection: Upgrade\r\nUpgrade: websocket\r\n", got: "Upgrade: websocket|Connection: Upgrade",
			reply: "UPGRADE: WebSocket\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			record := func(head string) {
				var lines []string
				for _, l := range strings.Split(head, "\r\n")[1:] {
					if name, _, _ := strings.Cut(l, ":"); l != "" && name != "Host" && !strings.HasPrefix(name, "X-Forwarded-") && name != "Forwarded" && name != "X-Request-ID" {
						lines = append(lines, l)
					}
				}
				got = strings.Join(lines, "|")
			}
			one(t, options{members: []string{"a"}, without: []string{"a"}}, func(t *testing.T, w *world) {
				ln, err := w.net.Host("10.0.1.1").Listen("tcp", ":8080")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = ln.Close() }()
				done := make(chan struct{})
				go func() {
					defer close(done)
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					defer func() { _ = nc.Close() }()
					r := bufio.NewReader(nc)
					var head strings.Builder
					for !strings.HasSuffix(head.String(), "\r\n\r\n") {
						line, err := r.ReadString('\n')
						if err != nil {
							return
						}
						head.WriteString(line)
					}
					record(head.String())
					reply := tt.reply
					if reply == "" {
						reply = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
					}
					_, _ = fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\n%s\r\nhello", reply)
					_, _ = io.Copy(nc, r)
				}()
				c := w.raw()
				c.say("GET /ws HTTP/1.1\r\nHost: shop.test\r\n" + tt.send + "\r\n")
				a, err := c.head()
				if err != nil || a.status != 101 {
					t.Fatalf("handshake = %d, %v; want 101", a.status, err)
				}
				c.want("hello")
				c.say("ping")
				c.want("ping")
				c.closeWrite()
				if rest := c.all(); rest != "" {
					t.Errorf("rest %q", rest)
				}
				<-done
				if got != tt.got {
					t.Errorf("the member got %q, want %q", got, tt.got)
				}
				for _, name := range []string{"Connection", "Upgrade"} { // E08
					if v := a.header.Values(name); len(v) != 1 || strings.Contains(v[0], ",") || strings.Contains(v[0], "close") {
						t.Errorf("%s of the 101: %q, want exactly one", name, v)
					}
				}
				for _, l := range tt.lines {
					if !strings.Contains(a.body, l+"\r\n") {
						t.Errorf("no %q in %q", l, a.body)
					}
				}
				if strings.Contains(a.body, "Keep-Alive") || strings.Contains(a.body, "Understudy") {
					t.Errorf("101 with what is not the client's: %q", a.body)
				}
			})
		})
	}
}

// E10: a wss handshake is https to the member, and ws is http.
func TestUpgradeProto(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("secure=", secure), func(t *testing.T) {
			proto := ""
			h := func(m *fake, c *memberConn, r *http.Request) bool {
				proto = r.Header.Get("X-Forwarded-Proto")
				return switchTo(func(*memberConn) {})(m, c, r)
			}
			one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
				ln, err := w.net.Host("10.0.0.1").Listen("tcp", ":443")
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() { done <- serveOne(w.proxy, ln, secure) }()
				nc, err := w.host.Dial(context.Background(), "tcp", "10.0.0.1:443")
				if err != nil {
					t.Fatal(err)
				}
				c := &rawConn{t: t, Conn: nc, r: bufio.NewReader(nc)}
				c.say(handshake(""))
				c.closeWrite()
				if got := c.all(); !strings.HasPrefix(got, "HTTP/1.1 101 ") {
					t.Errorf("got %q", got)
				}
				_ = ln.Close()
				if err := <-done; !errors.Is(err, proxy.ErrClosed) {
					t.Errorf("Serve = %v", err)
				}
				if want := map[bool]string{false: "http", true: "https"}[secure]; proto != want {
					t.Errorf("X-Forwarded-Proto: %q, want %q", proto, want)
				}
			})
		})
	}
}

// E02: each end of a side is passed on as such, and the other side goes on.
func TestTunnelHalfClose(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	t.Run("the client ends first", func(t *testing.T) {
		h := switchTo(func(c *memberConn) {
			b, err := io.ReadAll(c.r) // the end of the client's side arrives
			if err == nil {
				time.Sleep(30 * time.Second)
				c.say("got %q: %s", b, long)
			}
		})
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.upgrade("")
			c.say("last words")
			c.closeWrite()
			if got := c.all(); got != `got "last words": `+long {
				t.Errorf("got %.50q… (%d bytes)", got, len(got))
			}
		})
	})
	t.Run("the member ends first", func(t *testing.T) {
		got := make(chan int, 1)
		h := switchTo(func(c *memberConn) {
			c.say("no more")
			_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			b, _ := io.ReadAll(c.r)
			got <- len(b)
		})
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			got = make(chan int, 1)
			c := w.upgrade("")
			if s := c.all(); s != "no more" {
				t.Errorf("got %q", s)
			}
			time.Sleep(30 * time.Second)
			c.say(long)
			c.closeWrite()
			if n := <-got; n != len(long) {
				t.Errorf("the member got %d bytes, want %d", n, len(long))
			}
			synctest.Wait()
			if m := w.member("a"); !m.InService || m.InFlight != 0 {
				t.Errorf("member %+v", m)
			}
		})
	})
}

// E04: what comes in one packet with a head is neither lost nor out of order, and
// leaks nothing; B35 of the tunnel's bytes looking like HTTP.
func TestTunnelFirstBytes(t *testing.T) {
	h := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
		echoing(c)
		return false
	}
	one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		first := "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("f", 40_000)
		c := w.raw()
		c.say(handshake("") + first)
		if a, err := c.head(); err != nil || a.status != 101 {
			t.Fatalf("%d, %v", a.status, err)
		}
		c.want("HTTP/1.1 200 OK\r\n\r\n")
		c.want(first)
		c.say("second")
		c.want("second")
		_ = c.Close()
		synctest.Wait()
		if n := w.total(); n != 1 {
			t.Errorf("members saw %d requests, want 1", n)
		}
	})
}

// E04, C10: a 101 to what was not asked for is 502, and its connection is closed.
func TestBad101(t *testing.T) {
	const asked = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	tests := []struct{ name, lines, reply string }{
		{"another protocol", asked, "Connection: Upgrade\r\nUpgrade: foo\r\n"},
		{"one more protocol", asked, "Connection: Upgrade\r\nUpgrade: websocket, foo\r\n"},
		{"none named", asked, ""},
		{"h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", "Connection: Upgrade\r\nUpgrade: h2c\r\n"},
		{"Connection did not name it", "Upgrade: websocket\r\n", asked},
		{"nothing asked", "", asked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan struct{})
			h := func(_ *fake, c *memberConn, _ *http.Request) bool {
				c.say("HTTP/1.1 101 Switching Protocols\r\n%s\r\n", tt.reply)
				_, _ = io.Copy(io.Discard, c.r)
				close(ended)
				return false
			}
			one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
				ended = make(chan struct{})
				c := w.raw()
				c.say("GET / HTTP/1.1\r\nHost: x\r\n" + tt.lines + "\r\n")
				if a, err := c.hear("GET"); err != nil || a.status != 502 {
					t.Errorf("%d, %v; want 502", a.status, err)
				}
				<-ended
				if n := w.total(); n != 1 {
					t.Errorf("%d members got it, want 1", n)
				}
			})
		})
	}
	t.Run("before the body has ended", func(t *testing.T) {
		h := switchTo(echoing)
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 200000\r\n\r\nhalf")
			if a, err := c.hear("POST"); err != nil || a.status != 502 || !a.close {
				t.Errorf("%d, %v; want 502 and close", a.status, err)
			}
		})
	})
	t.Run("HTTP/1.0 has no Upgrade", func(t *testing.T) {
		one(t, options{serve: everywhere(echo)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("GET / HTTP/1.0\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if got := c.all(); !strings.HasPrefix(got, "HTTP/1.1 200 ") || strings.Contains(got, "Upgrade: ") {
				t.Errorf("got %q", got)
			}
		})
	})
}

// A request with a body may ask for a tunnel: it begins behind the body.
func TestUpgradeAfterBody(t *testing.T) {
	h := func(m *fake, c *memberConn, r *http.Request) bool {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		return switchTo(func(c *memberConn) {
			c.say("%d;", len(b))
			echoing(c)
		})(m, c, r)
	}
	for _, size := range []int{5, 300_000} {
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say(fmt.Sprintf("POST /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("b", size)) + "first")
			if a, err := c.head(); err != nil || a.status != 101 {
				t.Fatalf("%d, %v", a.status, err)
			}
			c.want(fmt.Sprintf("%d;first", size))
			_ = c.Close()
		})
	}
}

// A member that does not want to switch answers like any other time, and what the
// client has sent behind its request is the next request.
func TestUpgradeRefused(t *testing.T) {
	h := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/ws" {
			c.say("HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: foo/2\r\nContent-Length: 2\r\n\r\nno")
			return true
		}
		return counter(m, c, r)
	}
	one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say(handshake("Cookie: JSESSIONID=s.a\r\n") + "GET /next HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\n\r\n")
		a, err := c.hear("GET")
		if err != nil || a.status != 426 || a.body != "no" || a.header.Get("Upgrade") != "foo/2" || a.header.Get("Connection") != "Upgrade" {
			t.Errorf("handshake = %d %v %q, %v; want 426 and what it wants (RFC 9110 15.5.22)", a.status, a.header, a.body, err)
		}
		if a, err := c.hear("GET"); err != nil || a.body != "GET /next " {
			t.Errorf("next = %d %q, %v", a.status, a.body, err)
		}
		if n := w.members["a"].dials(); n != 1 {
			t.Errorf("%d connections, want 1 that is kept", n)
		}
	})
}

// The tunnel goes to the session's primary, and past one that is not there; it is
// in flight, and a tunnel, as long as it is open.
func TestTunnelSticky(t *testing.T) {
	codec := testCodec(t)
	o := options{serve: everywhere(switchTo(echoing)), without: []string{"a"}, config: func(c *proxy.Config) { c.Codec = codec }}
	one(t, o, func(t *testing.T, w *world) {
		for session, want := range map[string]string{
			signed(t, codec, "x", "b", "c"): "b",
			signed(t, codec, "y", "a", "c"): "c", // a is not there
		} {
			var open []*rawConn
			for range 5 {
				c := w.raw()
				c.say(handshake("Cookie: JSESSIONID=" + session + "\r\n"))
				if a, err := c.head(); err != nil || a.status != 101 || a.member != want {
					t.Fatalf("%d from %q, %v; want 101 from %q", a.status, a.member, err, want)
				}
				open = append(open, c)
			}
			synctest.Wait() // the client has its reply before the tunnel is counted
			if m := w.member(want); m.InFlight != 5 || m.Tunnels != 5 {
				t.Errorf("5 tunnels: in flight %d, tunnels %d", m.InFlight, m.Tunnels)
			}
			for _, c := range open {
				_ = c.Close()
			}
			synctest.Wait()
			if m := w.member(want); m.InFlight != 0 || m.Tunnels != 0 || m.Errors != 0 {
				t.Errorf("tunnels closed: in flight %d, tunnels %d, errors %d", m.InFlight, m.Tunnels, m.Errors)
			}
		}
	})
}

// A member that dies takes its tunnels with it, the client hears of it at once, and
// the next one goes elsewhere.
func TestTunnelMemberDies(t *testing.T) {
	one(t, options{serve: everywhere(switchTo(echoing))}, func(t *testing.T, w *world) {
		c := w.upgrade("Cookie: JSESSIONID=s.a\r\n")
		c.say("ping")
		c.want("ping")
		w.members["a"].kill()
		if _, err := c.r.ReadByte(); err == nil {
			t.Error("a byte after the member's death")
		}
		synctest.Wait()
		if m := w.member("a"); m.InService || m.Tunnels != 0 || m.InFlight != 0 {
			t.Errorf("member %+v", m)
		}
		if !strings.Contains(w.lastAccess(), `"failure":"tunnel-broken"`) || !strings.Contains(w.access.String(), `"status":101`) {
			t.Errorf("access log: %s", w.access)
		}
		c = w.upgrade("Cookie: JSESSIONID=s.a\r\n")
		_ = c.Close()
	})
	t.Run("one that lives and resets a tunnel is not punished", func(t *testing.T) {
		h := switchTo(func(c *memberConn) {
			for c.r.Buffered() == 0 {
				_, _ = c.r.Peek(1) // closing with something unread is a reset
			}
			c.r = nil
		})
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.upgrade("Cookie: JSESSIONID=s.a\r\n")
			c.say(strings.Repeat("x", 100_000))
			_, _ = io.Copy(io.Discard, c.r)
			synctest.Wait()
			if m := w.member("a"); !m.InService || m.Errors != 0 {
				t.Errorf("member %+v", m)
			}
		})
	})
	t.Run("behind a cut cable, found out by a request", func(t *testing.T) {
		h := func(m *fake, c *memberConn, r *http.Request) bool {
			if r.URL.Path == "/ws" {
				return switchTo(echoing)(m, c, r)
			}
			return counter(m, c, r)
		}
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			w.get("/", "s.a") // a kept connection, over which the next request is sent
			c := w.upgrade("Cookie: JSESSIONID=s.a\r\n")
			w.get("/", "s.a")
			w.net.Cut("10.0.0.1", "10.0.1.1")
			if a := w.get("/", "s.a"); a.status != 200 || a.member == "a" {
				t.Errorf("GET = %d from %q", a.status, a.member)
			}
			if _, err := c.r.ReadByte(); err == nil {
				t.Error("a byte from nowhere")
			}
		})
	})
}

// Other members come and go, as far as the proxy's members change while it runs:
// a tunnel stays (E01).
func TestTunnelStaysWhenOthersChange(t *testing.T) {
	one(t, options{members: []string{"a", "b"}, serve: everywhere(switchTo(echoing))}, func(_ *testing.T, w *world) {
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB})
		c := w.upgrade("Cookie: JSESSIONID=s.a\r\n")
		draining := nodeB
		draining.State = proxy.Draining
		for _, members := range [][]proxy.Member{{nodeA, nodeB, nodeC}, {nodeA, draining, nodeC}, {nodeA}} {
			w.proxy.SetMembers(members)
			synctest.Wait()
			c.say("ping")
			c.want("ping")
		}
		_ = c.Close()
	})
}

// D10 for tunnels: a client that is gone ends the member's side, and nobody is
// punished.
func TestTunnelClientGone(t *testing.T) {
	var ended chan error
	h := switchTo(func(c *memberConn) {
		_, err := io.Copy(c, c.r)
		ended <- err
	})
	one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		ended = make(chan error, 1)
		c := w.upgrade("Cookie: JSESSIONID=s.a\r\n")
		w.host.Kill()
		if err := <-ended; err == nil {
			t.Log("ended in order")
		}
		if _, err := c.r.ReadByte(); err == nil {
			t.Error("a client that was killed reads")
		}
		synctest.Wait()
		if m := w.member("a"); !m.InService || m.Errors != 0 || m.Tunnels != 0 {
			t.Errorf("member %+v", m)
		}
		w.host = w.net.Host("10.0.2.1")
		if !strings.Contains(w.lastAccess(), `"status":101`) {
			t.Errorf("access log: %s", w.access)
		}
	})
}

func TestTunnelTimeout(t *testing.T) {
	o := options{serve: everywhere(switchTo(echoing)), config: func(c *proxy.Config) { c.TunnelTimeout = time.Minute }}
	one(t, o, func(t *testing.T, w *world) {
		c := w.upgrade("")
		start := time.Now()
		for range 10 { // anything either way keeps it
			time.Sleep(59 * time.Second)
			c.say("ping")
			c.want("ping")
		}
		quiet := time.Now()
		if rest := c.all(); rest != "" {
			t.Errorf("rest %q", rest)
		}
		if d := time.Since(quiet); d < time.Minute || d > 62*time.Second {
			t.Errorf("ended %v after the last byte, %v after the start; want a minute after the last byte", d, quiet.Sub(start))
		}
		synctest.Wait()
		if !strings.Contains(w.lastAccess(), `"failure":"tunnel-ended"`) {
			t.Errorf("access log: %s", w.access)
		}
		if n := w.proxy.Counts().Failed; n != 0 {
			t.Errorf("%d requests failed, want none", n)
		}
	})
	t.Run("none", func(t *testing.T) {
		o.config = func(c *proxy.Config) { c.TunnelTimeout = -1 }
		one(t, o, func(_ *testing.T, w *world) {
			c := w.upgrade("")
			time.Sleep(100 * 24 * time.Hour)
			c.say("ping")
			c.want("ping")
			_ = c.Close()
		})
	})
	t.Run("a side that does not read", func(t *testing.T) {
		o.config = func(c *proxy.Config) { c.TunnelTimeout = time.Minute }
		o.serve = everywhere(switchTo(func(*memberConn) { time.Sleep(10 * time.Minute) }))
		one(t, o, func(t *testing.T, w *world) {
			c := w.upgrade("")
			start := time.Now()
			if _, err := io.Copy(c.Conn, neverEnding{}); err == nil {
				t.Error("a member that does not read took all")
			}
			if d := time.Since(start); d > 3*time.Minute {
				t.Errorf("ended after %v", d)
			}
		})
	})
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

// A proxy that stops ends a tunnel when it is quiet, between two messages as far as
// it can know, and a busy one when its time is over.
func TestTunnelStop(t *testing.T) {
	stop := func(w *world, d time.Duration) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		start := time.Now()
		err := w.front.Shutdown(ctx)
		return time.Since(start), err
	}
	one(t, options{serve: everywhere(switchTo(echoing))}, func(t *testing.T, w *world) {
		var open []*rawConn
		for range 3 {
			open = append(open, w.upgrade(""))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d, err := stop(w, time.Minute); err != nil || d > 10*time.Millisecond {
			t.Errorf("Shutdown with quiet tunnels: %v after %v, want nil at once", err, d)
		}
		for _, c := range open {
			if rest := c.all(); rest != "" { // an end, no reset
				t.Errorf("rest %q", rest)
			}
		}
	})
	t.Run("busy", func(t *testing.T) {
		one(t, options{serve: everywhere(switchTo(echoing))}, func(t *testing.T, w *world) {
			c := w.upgrade("")
			n := 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					time.Sleep(500 * time.Millisecond)
					if _, err := io.WriteString(c.Conn, "ping"); err != nil {
						return
					}
					if _, err := io.ReadFull(c.r, make([]byte, 4)); err != nil {
						return
					}
					n++
				}
			}()
			if d, err := stop(w, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) || d > 11*time.Second {
				t.Errorf("Shutdown with a busy tunnel: %v after %v, want the context's end", err, d)
			}
			<-done
			if n < 19 {
				t.Errorf("%d messages went through, want 19", n)
			}
		})
	})
	t.Run("stuck", func(t *testing.T) {
		var release chan struct{}
		h := switchTo(func(*memberConn) { <-release })
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			release = make(chan struct{})
			defer close(release)
			c := w.upgrade("")
			go func() { _, _ = io.Copy(c.Conn, neverEnding{}) }()
			time.Sleep(time.Second)
			if d, err := stop(w, 10*time.Second); d > 11*time.Second {
				t.Errorf("Shutdown with a tunnel that is stuck: %v after %v", err, d)
			}
		})
	})
}

func TestMaxTunnels(t *testing.T) { // PLUG-48
	h := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/ws" {
			return switchTo(echoing)(m, c, r)
		}
		return counter(m, c, r)
	}
	one(t, options{serve: everywhere(h), config: func(c *proxy.Config) { c.MaxTunnels = 2 }}, func(t *testing.T, w *world) {
		first, second := w.upgrade(""), w.upgrade("")
		c := w.raw()
		c.say(handshake(""))
		if a, err := c.hear("GET"); err != nil || a.status != 503 {
			t.Errorf("a third tunnel = %d, %v; want 503", a.status, err)
		}
		if a := w.get("/", ""); a.status != 200 {
			t.Errorf("a request = %d, want 200", a.status)
		}
		_ = first.Close()
		synctest.Wait()
		third := w.upgrade("")
		_ = second.Close()
		_ = third.Close()
	})
}

// A tunnel that is the trial of a member that failed is over with the 101, and what
// becomes of it later does not count.
func TestTunnelIsTrial(t *testing.T) {
	h := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/ws" {
			return switchTo(echoing)(m, c, r)
		}
		return counter(m, c, r)
	}
	one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		w.members["a"].kill()
		w.get("/", "s.a")
		if w.member("a").InService {
			t.Fatal("a is in service although nobody is there")
		}
		w.members["a"].start()
		time.Sleep(2 * time.Minute)
		c := w.upgrade("Cookie: JSESSIONID=s.a\r\n")
		if m := w.member("a"); m.State != "OK" || m.Tunnels != 1 {
			t.Errorf("during the tunnel: %+v", m)
		}
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("a request went to %q, want a", a.member)
		}
		_ = c.Close()
	})
}

// serveOne takes one connection through the pipeline.
func serveOne(p *proxy.Proxy, ln net.Listener, secure bool) error {
	nc, err := ln.Accept()
	if err != nil {
		return err
	}
	c := http1.NewConn(nc, p.Wire())
	defer func() { _ = c.Close() }()
	if err := c.Await(); err != nil {
		return err
	}
	var secured *tls.ConnectionState
	if secure {
		secured = &tls.ConnectionState{}
	}
	return p.Serve(c, p.NewClient(nc.RemoteAddr(), nc.LocalAddr(), secured, nil))
}

// Over TCP the kernel moves the bytes; all of them arrive, both ways at once, with
// half-close, and a quiet tunnel holds no buffer.
func TestTunnelTCP(t *testing.T) {
	defer goleak.VerifyNone(t)
	size := 64 << 20
	if testing.Short() {
		size = 8 << 20
	}
	quiet := make(chan struct{})
	w := newTCP(t, proxy.Config{}, func(nc net.Conn) {
		r := bufio.NewReader(nc)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
		<-quiet
		_, _ = io.Copy(nc, r) // all of it, then the end
	})
	defer w.close()
	c := w.dial()
	defer func() { _ = c.Close() }()
	c.say(handshake(""))
	if a, err := c.head(); err != nil || a.status != 101 {
		t.Fatalf("%d, %v", a.status, err)
	}
	c.want("hello")
	if !within(5*time.Second, func() bool { return w.proxy.Wire().Buffers.InUse() == 0 }) {
		t.Fatalf("a quiet tunnel holds %d buffers", w.proxy.Wire().Buffers.InUse())
	}
	close(quiet)
	want := pattern(size)
	go func() {
		_, _ = c.Write(want)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c.r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v; want the %d that were sent", len(got), err, len(want))
	}
	if !within(5*time.Second, func() bool {
		m := w.proxy.Snapshot().Workers[0].Members[0]
		return m.BytesRead >= uint64(size) && m.BytesWritten >= uint64(size)
	}) {
		t.Errorf("%+v; want %d bytes and more counted either way", w.proxy.Snapshot().Workers[0].Members[0], size)
	}
}

// pattern returns n bytes in which nothing can be lost or moved unnoticed.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16*31)
	}
	return b
}

// What a trusted proxy calls a request is in the log at the end of its tunnel, too.
func TestTunnelKeepsID(t *testing.T) {
	o := options{
		serve:  map[string]handler{"a": switchTo(echoing), "b": switchTo(echoing), "c": switchTo(echoing)},
		config: func(c *proxy.Config) { c.TrustedNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")} },
	}
	one(t, o, func(t *testing.T, w *world) {
		c := w.upgrade("X-Request-ID: from-the-edge\r\n")
		c.say(strings.Repeat("secret", 100))
		c.want(strings.Repeat("secret", 100))
		_ = c.Close()
		if text := w.lastAccess(); !strings.Contains(text, `"from-the-edge"`) {
			t.Errorf("log %s, want the id", text)
		}
	})
}
