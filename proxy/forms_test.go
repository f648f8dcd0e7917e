package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// The request in all its forms. What else there is of it: trailers, 100, 103, both
// directions at once, bodies of all sizes in wire_test.go; Upgrade in tunnel_test.go;
// long bodies that are sent again in spool_test.go.

// Events are with the client when the member has sent them, in whatever way the
// member frames its stream, and however long it is quiet in between.
func TestServerSentEvents(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	frames := map[string]struct{ head, event, end string }{
		"chunked":        {head + "Transfer-Encoding: chunked\r\n\r\n", "f\r\ndata: event %02d\n\r\n", "0\r\n\r\n"},
		"until close":    {head + "Connection: close\r\n\r\n", "data: event %02d\n", ""},
		"HTTP/1.0":       {strings.Replace(head, "1.1", "1.0", 1) + "\r\n", "data: event %02d\n", ""},
		"Content-Length": {head + "Content-Length: 150\r\n\r\n", "data: event %02d\n", ""},
	}
	for name, f := range frames {
		t.Run(name, func(t *testing.T) {
			h := func(_ *fake, c *memberConn, _ *http.Request) bool {
				c.say("%s", f.head)
				for i := range 10 {
					time.Sleep(time.Duration(i) * 20 * time.Second)
					c.say(f.event, i)
				}
				c.say("%s", f.end)
				return name == "chunked"
			}
			every(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
				r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+proxyAddr+"/events", nil)
				start := time.Now()
				resp, err := w.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				if d := time.Since(start); d > 0 || resp.Header.Get("Content-Type") != "text/event-stream" {
					t.Errorf("the head after %v, %v", d, resp.Header)
				}
				in := bufio.NewReader(resp.Body)
				at := time.Duration(0)
				for i := range 10 {
					at += time.Duration(i) * 20 * time.Second
					line, err := in.ReadString('\n')
					if want := fmt.Sprintf("data: event %02d\n", i); err != nil || line != want || time.Since(start) != at {
						t.Fatalf("got %q, %v after %v; want %q after %v", line, err, time.Since(start), want, at)
					}
				}
				if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
					t.Errorf("rest %q, %v", rest, err)
				}
			})
		})
	}
	t.Run("to a client of HTTP/1.0", func(t *testing.T) {
		h := answering(head + "Transfer-Encoding: chunked\r\n\r\nf\r\ndata: event 00\n\r\n0\r\nX-Trailer: 1\r\n\r\n")
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
			want := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: event 00\n"
			if got := c.all(); got != want { // no chunks, no trailer
				t.Errorf("got %q, want %q", got, want)
			}
		})
	})
}

// E11: when the proxy stops a stream goes on as long as requests may, and is then cut
// so that the client sees it.
func TestStreamAndStop(t *testing.T) {
	h := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			time.Sleep(time.Second)
			if _, err := io.WriteString(c.Conn, "1\r\nx\r\n"); err != nil {
				return false
			}
		}
	}
	every(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+proxyAddr+"/", nil)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped := make(chan error)
		go func() { stopped <- w.front.Shutdown(ctx) }()
		b, err := io.ReadAll(resp.Body)
		if d := time.Since(start); err == nil || len(b) < 9 || d < 9*time.Second || d > 12*time.Second {
			t.Errorf("%d events, %v after %v; want 9 or 10, and an error after 10 s", len(b), err, d)
		}
		if err := <-stopped; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// HTTP/1.0, kept and not, with and without a body, several in one packet.
func TestHTTP10Requests(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("POST /1 HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc" +
			"GET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" +
			"GET /3 HTTP/1.0\r\n\r\n" +
			"GET /lost HTTP/1.0\r\n\r\n")
		for i, want := range []string{"POST /1 abc", "GET /2 ", "GET /3 "} {
			a, err := c.hear("GET")
			if err != nil || a.body != want || a.close != (i == 2) {
				t.Errorf("%q, close %v, %v; want %q", a.body, a.close, err, want)
			}
		}
		if rest := c.all(); rest != "" {
			t.Errorf("a connection that was to end went on: %q", rest)
		}
		for _, m := range w.members {
			if slices.Contains(m.requests(), "GET /lost") {
				t.Error("a request behind the last one was served")
			}
		}
	})
	t.Run("a body of unknown length is none", func(t *testing.T) {
		one(t, options{}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("POST /1 HTTP/1.0\r\n\r\nabc")
			if a, err := c.hear("POST"); err != nil || a.body != "POST /1 " || !a.close {
				t.Errorf("%q, close %v, %v", a.body, a.close, err)
			}
		})
	})
}

// Pipelined requests are answered in order, each when the one before has been, and a
// client that sends without reading fills buffers of its own, not ours.
func TestPipelinedInOrder(t *testing.T) {
	slowFirst := func(m *fake, c *memberConn, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/0") {
			time.Sleep(10 * time.Second)
		}
		return counter(m, c, r)
	}
	one(t, options{serve: everywhere(slowFirst)}, func(t *testing.T, w *world) {
		c := w.raw()
		var all strings.Builder
		for i := range 50 {
			fmt.Fprintf(&all, "POST /p/%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n%02d", i, i)
		}
		c.say(all.String())
		time.Sleep(5 * time.Second)
		if n := w.total(); n != 1 {
			t.Errorf("%d requests at members before the first was answered", n)
		}
		for i := range 50 {
			if a, err := c.hear("POST"); err != nil || a.body != fmt.Sprintf("POST /p/%d %02d", i, i) {
				t.Fatalf("reply %d: %q, %v", i, a.body, err)
			}
		}
	})
	t.Run("without end", func(t *testing.T) {
		slow := func(m *fake, c *memberConn, r *http.Request) bool {
			time.Sleep(2 * time.Minute)
			return counter(m, c, r)
		}
		one(t, options{serve: everywhere(slow)}, func(t *testing.T, w *world) {
			c := w.raw()
			_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
			request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
			sent := 0
			for {
				n, err := io.WriteString(c.Conn, strings.Repeat(request, 1000))
				if sent += n; err != nil {
					break
				}
			}
			if n := w.total(); n != 1 || sent > 1<<20 {
				t.Errorf("%d bytes were taken and %d requests sent on, while one was not answered", sent, n)
			}
			if n := w.proxy.Wire().Buffers.InUse(); n > 4 {
				t.Errorf("%d buffers for one request", n)
			}
			// That it leaves is seen when its requests have been read.
			_ = c.Close()
			time.Sleep(5 * time.Minute)
		})
	})
}

// One connection for each request: those to members are kept all the same.
func TestOneConnectionPerRequest(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		for i := range 300 {
			c := w.raw()
			switch i % 3 {
			case 0:
				c.say("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			case 1:
				c.say("GET /x HTTP/1.0\r\n\r\n")
			case 2: // it closes its side, and still reads
				c.say("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				c.closeWrite()
			}
			got := c.all()
			if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "GET /x ") || !strings.Contains(got, "Connection: close") {
				t.Fatalf("request %d: %q", i, got)
			}
			_ = c.Close()
		}
		for name, m := range w.members {
			if n := m.dials(); n != 1 {
				t.Errorf("100 requests to %s over %d connections, want 1", name, n)
			}
		}
	})
}

// 103 as such, over HTTP/2 too.
func TestEarlyHintsArrive(t *testing.T) {
	h := func(m *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nUnderstudy-X: 1\r\nConnection: X-N\r\nX-N: 1\r\n\r\n")
		time.Sleep(10 * time.Second)
		return c.reply(m, "hi")
	}
	both(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		start := time.Now()
		var hints textproto.MIMEHeader
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code != 103 || time.Since(start) > 0 {
				t.Errorf("%d after %v", code, time.Since(start))
			}
			hints = header
			return nil
		}}
		r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodGet, "http://"+proxyAddr+"/", nil)
		a, err := w.send(r)
		if err != nil || a.status != 200 || a.body != "hi" || a.header.Get("Link") != "" {
			t.Errorf("GET = %d %q %v, %v", a.status, a.body, a.header, err)
		}
		if len(hints) != 1 || hints.Get("Link") != "</a.css>" {
			t.Errorf("hints %v, want Link alone", hints)
		}
	})
}

// A client that leaves is 499, its member's connection is closed or free again, and
// the member goes on (D10), wherever in the request that was.
func TestClientLeaves(t *testing.T) {
	stuck := func(_ *fake, c *memberConn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = c.r.ReadByte() // until the proxy closes
		return false
	}
	endless := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			if _, err := io.WriteString(c.Conn, "4\r\nmore\r\n"); err != nil {
				return false
			}
			time.Sleep(time.Millisecond)
		}
	}
	const post = "POST / HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\n"
	tests := []struct {
		name   string
		serve  handler
		send   string
		after  time.Duration
		status int // in the access log
	}{
		{"while the member is at work", stuck, "GET / HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\n\r\n", 5 * time.Second, 499},
		{"in a short body", stuck, post + "Content-Length: 100\r\n\r\nhalf", 5 * time.Second, 499},
		{"in a long body", stuck, post + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 100_000), 5 * time.Second, 499},
		{"in a chunk", stuck, post + "Transfer-Encoding: chunked\r\n\r\n" + "ffff\r\nhalf", 5 * time.Second, 499},
		{"after a long body", stuck, post + "Content-Length: 150000\r\n\r\n" + strings.Repeat("x", 150_000), 5 * time.Second, 499},
		{"before 100 Continue", stuck, post + "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n", 5 * time.Second, 499},
		{"in a reply", endless, "GET / HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\n\r\n", 5 * time.Second, 200},
		{"in a reply while its body still comes", endless, post + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 100_000), 5 * time.Second, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var left chan time.Time
			h := func(m *fake, c *memberConn, r *http.Request) bool {
				if r.URL.Path == "/next" {
					return counter(m, c, r)
				}
				tt.serve(m, c, r)
				left <- time.Now()
				return false
			}
			one(t, options{serve: map[string]handler{"a": h}}, func(t *testing.T, w *world) {
				left = make(chan time.Time, 10)
				c := w.raw()
				c.say(tt.send)
				time.Sleep(tt.after)
				gone := time.Now()
				_ = c.Close()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if n := len(w.members["a"].requests()); n > 0 {
					select {
					case at := <-left:
						if d := at.Sub(gone); d > 1100*time.Millisecond {
							t.Errorf("the member heard of it after %v", d)
						}
					default:
						t.Error("the member still works for a client that has left")
					}
				}
				if log := w.lastAccess(); !strings.Contains(log, fmt.Sprintf(`"status":%d`, tt.status)) || !strings.Contains(log, `"client-gone"`) {
					t.Errorf("access log: %s", log)
				}
				m := w.member("a")
				if !m.InService || m.Errors != 0 || m.InFlight != 0 {
					t.Errorf("member: in service %v, errors %d, in flight %d", m.InService, m.Errors, m.InFlight)
				}
				if n := w.total(); n > 1 {
					t.Errorf("%d members got it, want 1", n)
				}
				if a := w.get("/next", "s.a"); a.member != "a" {
					t.Errorf("the next request went to %q, want a", a.member)
				}
				if n := w.proxy.Counts().Gone; n != 1 {
					t.Errorf("%d clients gone, want 1", n)
				}
			})
		})
	}
}

// The same over HTTP/2, where a stream is reset and the connection stays.
func TestClientLeavesStream(t *testing.T) {
	for _, size := range []int{0, 150_000} {
		for _, ended := range []bool{true, false} {
			t.Run(fmt.Sprintf("size=%d/ended=%v", size, ended), func(t *testing.T) {
				var left chan time.Time
				h := func(m *fake, c *memberConn, r *http.Request) bool {
					if r.URL.Path == "/next" {
						return counter(m, c, r)
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = c.r.ReadByte()
					left <- time.Now()
					return false
				}
				bubble(t, true, options{serve: map[string]handler{"a": h}}, func(t *testing.T, w *world) {
					left = make(chan time.Time, 10)
					ctx, cancel := context.WithCancel(context.Background())
					pr, pw := io.Pipe()
					r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+proxyAddr+"/", pr)
					r.Header.Set("Cookie", "JSESSIONID=s.a")
					go func() {
						_, _ = pw.Write(pattern(size + 1))
						if ended {
							_ = pw.Close()
						}
					}()
					time.AfterFunc(5*time.Second, cancel)
					start := time.Now()
					if _, err := w.client.Do(r); err == nil {
						t.Fatal("Do succeeded")
					}
					_ = pr.Close()
					time.Sleep(3 * time.Second)
					select {
					case at := <-left:
						if d := at.Sub(start); d > 6100*time.Millisecond {
							t.Errorf("the member heard of it after %v", d-5*time.Second)
						}
					default:
						if len(w.members["a"].requests()) > 0 {
							t.Error("the member still works for a client that has left")
						}
					}
					if log := w.lastAccess(); !strings.Contains(log, `"status":499`) {
						t.Errorf("access log: %s", log)
					}
					if m := w.member("a"); !m.InService || m.Errors != 0 || m.InFlight != 0 {
						t.Errorf("member %+v", m)
					}
					if a := w.get("/next", "s.a"); a.member != "a" {
						t.Errorf("the next request went to %q, want a", a.member)
					}
				})
			})
		}
	}
}

// A client that is too slow costs its own request, and no member its good name.
func TestSlowClients(t *testing.T) {
	t.Run("a body that stops", func(t *testing.T) {
		for name, body := range map[string]string{
			"short": "Content-Length: 100\r\n\r\nhalf", "long": "Content-Length: 1000000\r\n\r\nhalf", "chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		} {
			t.Run(name, func(t *testing.T) {
				one(t, options{config: func(c *proxy.Config) { c.BodyTimeout = 10 * time.Second }}, func(t *testing.T, w *world) {
					c := w.raw()
					c.say("POST / HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\n" + body)
					start := time.Now()
					a, err := c.hear("POST")
					if d := time.Since(start); err != nil || a.status != 408 || !a.close || d < 10*time.Second || d > 12*time.Second {
						t.Errorf("%d, close %v, %v after %v; want 408 and close after 10 s", a.status, a.close, err, d)
					}
					if m := w.member("a"); !m.InService || m.Errors != 0 || m.InFlight != 0 {
						t.Errorf("member %+v", m)
					}
				})
			})
		}
	})
	t.Run("a body that drips", func(t *testing.T) {
		one(t, options{config: func(c *proxy.Config) { c.BodyTimeout = 10 * time.Second }}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20\r\n\r\n")
			for range 20 {
				time.Sleep(9 * time.Second)
				c.say("x")
			}
			if a, err := c.hear("POST"); err != nil || a.status != 200 || !strings.HasSuffix(a.body, strings.Repeat("x", 20)) {
				t.Errorf("%d %q, %v; want 200", a.status, a.body, err)
			}
		})
	})
	t.Run("a reply that is not read", func(t *testing.T) {
		var ended chan struct{}
		h := func(_ *fake, c *memberConn, _ *http.Request) bool {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
			_, _ = io.CopyN(c.Conn, neverEnding{}, 100_000_000)
			close(ended)
			return false
		}
		o := options{serve: map[string]handler{"a": h}, config: func(c *proxy.Config) { c.WriteTimeout = 10 * time.Second }}
		one(t, o, func(t *testing.T, w *world) {
			ended = make(chan struct{})
			c := w.raw()
			c.say("GET / HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\n\r\n")
			start := time.Now()
			<-ended
			if d := time.Since(start); d > 12*time.Second {
				t.Errorf("the member was held for %v", d)
			}
			synctest.Wait()
			if m := w.member("a"); !m.InService || m.Errors != 0 || m.InFlight != 0 {
				t.Errorf("member %+v", m)
			}
		})
	})
}

// Our own 413 and the member's arrive although the client is still sending, also
// with 100-continue, for which nobody then says 100 (C17, B40).
func TestAnsweredEarly(t *testing.T) {
	t.Run("with Expect", func(t *testing.T) {
		one(t, options{config: func(c *proxy.Config) { c.MaxBody = 1000 }}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
			if a, err := c.hear("PUT"); err != nil || a.status != 413 || !a.close {
				t.Errorf("%d, close %v, %v; want 413 at once", a.status, a.close, err)
			}
			if n := w.total(); n != 0 {
				t.Errorf("%d requests at members", n)
			}
		})
	})
	t.Run("what follows is not taken for a request", func(t *testing.T) {
		h := answeringUnread("HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n\r\nno\n")
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 100_000))
			if a, err := c.hear("PUT"); err != nil || a.status != 401 || !a.close {
				t.Fatalf("%d, close %v, %v; want 401 and close", a.status, a.close, err)
			}
			c.say(strings.Repeat("x", 100_000) + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
			c.closeWrite()
			if rest := c.all(); rest != "" {
				t.Errorf("rest %q", rest)
			}
			if n := w.total(); n != 1 {
				t.Errorf("%d requests at members, want 1", n)
			}
		})
	})
}
