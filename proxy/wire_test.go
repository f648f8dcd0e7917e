package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// echo says the head of the request as the member got it, as the body.
func echo(m *fake, c *memberConn, r *http.Request) bool {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
	names := make([]string, 0, len(r.Header))
	for n := range r.Header {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		fmt.Fprintf(&b, "%s: %s\n", n, strings.Join(r.Header[n], " | "))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	fmt.Fprintf(&b, "\n%s", body)
	return c.reply(m, b.String())
}

func everywhere(h handler) map[string]handler { return map[string]handler{"a": h, "b": h, "c": h} }

func TestRequestHead(t *testing.T) {
	tests := []struct {
		name string
		send string // without the line "Host: shop.test", which is put in front
		has  []string
		not  []string
	}{{
		name: "what we know of the client, and nothing that it claims (B37)",
		send: "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nX-Forwarded-Server: x\r\nTrue-Client-IP: 1.2.3.4\r\n",
		has:  []string{"Host: shop.test", "X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test"},
		not:  []string{"1.2.3.4", "https", "evil", "X-Forwarded-Server"},
	}, {
		name: "hop by hop (RFC 9110 7.6.1, B31, B34)",
		send: "Connection: close, X-Secret, Upgrade, HTTP2-Settings\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: x\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nX-Open: 1\r\n",
		has:  []string{"X-Open: 1"},
		not:  []string{"X-Secret", "Keep-Alive", "Proxy-", "Upgrade", "Http2", "Te:", "Connection"},
	}, {
		name: "TE: trailers goes on",
		send: "TE: trailers\r\nConnection: close\r\n",
		has:  []string{"Te: trailers", "Connection: TE"},
	}, {
		name: "end-to-end fields cannot be nominated away (B32)",
		send: "Connection: close, Cookie, X-Forwarded-For, Host, Authorization\r\nCookie: a=1\r\nAuthorization: x\r\n",
		has:  []string{"Cookie: a=1", "Authorization: x", "X-Forwarded-For: 10.0.2.1", "Host: shop.test"},
	}, {
		name: "what our nodes tell each other does not come from clients",
		send: "Connection: close\r\nUnderstudy-Not-Executed: x\r\nUnderstudy-Anything: y\r\n",
		not:  []string{"Understudy"},
	}, {
		name: "cookies byte for byte, in one line (A28, A29)",
		send: "Connection: close\r\nCookie: pref={\"a\":1}; c=caf\xc3\xa9; d=a\\b\r\nCookie: JSESSIONID=x.b\r\n",
		has:  []string{"Cookie: pref={\"a\":1}; c=caf\xc3\xa9; d=a\\b; JSESSIONID=x.b"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one(t, options{serve: everywhere(echo)}, func(t *testing.T, w *world) {
				c := w.raw()
				if !strings.Contains(tt.send, "Connection:") {
					tt.send += "Connection: close\r\n"
				}
				c.say("GET /p?q=%zz;y HTTP/1.1\r\nHost: shop.test\r\n" + tt.send + "\r\n")
				a, err := c.hear("GET")
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(a.body, "GET /p?q=%zz;y\n") { // B25, B26
					t.Errorf("target: %q", a.body)
				}
				for _, s := range tt.has {
					if !strings.Contains(a.body, s+"\n") {
						t.Errorf("no %q in\n%s", s, a.body)
					}
				}
				for _, s := range tt.not {
					if strings.Contains(a.body, s) {
						t.Errorf("%q in\n%s", s, a.body)
					}
				}
			})
		})
	}
}

func TestRequestHeadHTTP2(t *testing.T) {
	bubble(t, true, options{serve: everywhere(echo)}, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+proxyAddr+"/p?q=%zz;y", nil)
		r.Host = "shop.test"
		r.Header.Set("Cookie", `pref={"a":1}; JSESSIONID=x.b`)
		r.Header.Set("X-Forwarded-For", "1.2.3.4")
		r.Header.Set("Understudy-Not-Executed", "x")
		r.Header.Set("X-Open", "1")
		a, err := w.send(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{
			"GET /p?q=%zz;y", "Host: shop.test", `Cookie: pref={"a":1}; JSESSIONID=x.b`,
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Host: shop.test", "X-Forwarded-Proto: http", "X-Open: 1",
		} {
			if !strings.Contains(a.body, s+"\n") {
				t.Errorf("no %q in\n%s", s, a.body)
			}
		}
		if a.member != "b" || strings.Contains(a.body, "Understudy") || strings.Contains(a.body, "Accept-Encoding") {
			t.Errorf("from %q:\n%s", a.member, a.body)
		}
	})
}

// B19: one host for everybody.
func TestAbsoluteTarget(t *testing.T) {
	one(t, options{serve: everywhere(echo)}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("GET http://real.test?q=1 HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n")
		a, err := c.hear("GET")
		if err != nil || !strings.HasPrefix(a.body, "GET /?q=1\nHost: real.test\n") || strings.Contains(a.body, "evil") {
			t.Errorf("%v:\n%s", err, a.body)
		}
	})
}

// answering makes a handler that says the same to every request.
func answering(text string) handler {
	return func(_ *fake, c *memberConn, r *http.Request) bool {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return false
		}
		c.say("%s", text)
		return true
	}
}

func TestReplies(t *testing.T) {
	tests := []struct {
		name   string
		method string
		reply  string
		status int
		body   string
		has    map[string]string // "" means that it must not be there
	}{{
		name:   "hop by hop, and ours, are not the client's",
		reply:  "HTTP/1.1 200 OK\r\nConnection: X-N\r\nX-N: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nProxy-Authenticate: x\r\nUnderstudy-Boot: 1\r\nX-Y: 2\r\nContent-Length: 2\r\n\r\nhi",
		status: 200, body: "hi",
		has: map[string]string{"X-N": "", "Keep-Alive": "", "Upgrade": "", "Proxy-Authenticate": "", "Understudy-Boot": "", "X-Y": "2"},
	}, {
		name:   "nothing is added (C13)",
		reply:  "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		status: 200, body: "<html>", has: map[string]string{"Content-Type": "", "Via": ""},
	}, {
		name:   "HEAD keeps its length",
		method: "HEAD", reply: "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
		status: 200, has: map[string]string{"Content-Length": "1234"},
	}, {
		name:   "204 has no body and no length (C02)",
		reply:  "HTTP/1.1 204 No Content\r\nX-Y: 2\r\n\r\n",
		status: 204, has: map[string]string{"Content-Length": "", "Transfer-Encoding": "", "X-Y": "2"},
	}, {
		name:   "304",
		reply:  "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
		status: 304, has: map[string]string{"Etag": `"x"`},
	}, {
		name:   "chunks",
		reply:  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n",
		status: 200, body: "abcdefg",
	}, {
		name:   "a status of the member's own",
		reply:  "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nlater",
		status: 503, body: "later", has: map[string]string{"Retry-After": "7"},
	}, {
		name:   "two Set-Cookie lines stay two",
		reply:  "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
		status: 200, has: map[string]string{"Set-Cookie": "a=1"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			every(t, options{serve: everywhere(answering(tt.reply))}, func(t *testing.T, w *world) {
				method := tt.method
				if method == "" {
					method = "GET"
				}
				for range 3 {
					a, err := w.do(method, "/", "s.a", nil)
					if err != nil || a.err != nil || a.status != tt.status || a.body != tt.body {
						t.Fatalf("%s = %d %q, %v %v; want %d %q", method, a.status, a.body, err, a.err, tt.status, tt.body)
					}
					for name, want := range tt.has {
						if got := a.header.Get(name); got != want {
							t.Errorf("%s: %q, want %q", name, got, want)
						}
					}
				}
				if n := w.members["a"].dials(); n != 1 {
					t.Errorf("three requests over %d connections, want 1", n)
				}
			})
		})
	}
}

// A reply that ends with the connection, a body where none may be (C01, C02), and
// bytes behind the end (C07): the connection is not used again.
func TestConnectionNotReused(t *testing.T) {
	for name, reply := range map[string]string{
		"until close":       "HTTP/1.0 200 OK\r\n\r\nhi",
		"close said":        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
		"bytes behind":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"body of a 204":     "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
		"an unasked second": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 500 X\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := func(_ *fake, c *memberConn, _ *http.Request) bool {
				c.say("%s", reply)
				return !strings.HasPrefix(reply, "HTTP/1.0")
			}
			every(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
				for range 3 {
					if a := w.get("/", "s.a"); a.err != nil || a.body != "hi" && a.status != 204 {
						t.Errorf("GET = %d %q, %v", a.status, a.body, a.err)
					}
				}
				if n := w.members["a"].dials(); n != 3 {
					t.Errorf("three requests over %d connections, want 3", n)
				}
			})
		})
	}
}

func TestTrailers(t *testing.T) {
	h := func(m *fake, c *memberConn, r *http.Request) bool {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		c.say("HTTP/1.1 200 OK\r\nX-Member: %s\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Sum: %s\r\nUnderstudy-X: 1\r\nContent-Length: 7\r\n\r\n",
			m.name, len(b), b, r.Trailer.Get("X-Ask"))
		return true
	}
	both(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+proxyAddr+"/", io.MultiReader(strings.NewReader("ab"), strings.NewReader("cd")))
		r.Trailer = http.Header{"X-Ask": {"42"}}
		a, err := w.send(r)
		if err != nil || a.body != "abcd" {
			t.Fatalf("POST = %d %q, %v", a.status, a.body, err)
		}
		if got := a.trailer.Get("X-Sum"); got != "42" {
			t.Errorf("trailer %v, want X-Sum: 42", a.trailer)
		}
		if a.trailer.Get("Understudy-X") != "" || a.trailer.Get("Content-Length") != "" {
			t.Errorf("trailer %v", a.trailer)
		}
	})
}

func TestBodies(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 60_000, 66_000, 1 << 20} {
		body := strings.Repeat("z", size)
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("size=%d/chunked=%v", size, chunked), func(t *testing.T) {
				every(t, options{}, func(t *testing.T, w *world) {
					for range 2 {
						var src io.Reader = strings.NewReader(body)
						if chunked {
							src = io.MultiReader(src, strings.NewReader(""))
						}
						a, err := w.do("POST", "/up", "s.a", src)
						if err != nil || a.status != 200 || a.body != "POST /up "+body {
							t.Fatalf("POST = %d with %d bytes, %v", a.status, len(a.body), err)
						}
					}
					if n := w.members["a"].dials(); n != 1 {
						t.Errorf("two requests over %d connections, want 1", n)
					}
				})
			})
		}
	}
}

// A stream is passed on piece by piece, in both directions at once.
func TestBothDirectionsAtOnce(t *testing.T) {
	h := func(_ *fake, c *memberConn, r *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		buf := make([]byte, 100)
		for {
			n, err := r.Body.Read(buf)
			if n > 0 {
				c.say("%x\r\n%s\r\n", n, buf[:n])
			}
			if err != nil {
				c.say("0\r\n\r\n")
				return err == io.EOF
			}
		}
	}
	every(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		pr, pw := io.Pipe()
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+proxyAddr+"/", pr)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewReader(resp.Body)
		for i := range 5 {
			time.Sleep(20 * time.Second)
			line := fmt.Sprintf("ping %d\n", i)
			if _, err := io.WriteString(pw, line); err != nil {
				t.Fatal(err)
			}
			if got, err := in.ReadString('\n'); err != nil || got != line {
				t.Fatalf("got %q, %v; want %q", got, err, line)
			}
		}
		_ = pw.Close()
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("rest %q, %v", rest, err)
		}
	})
}

func TestExpectContinue(t *testing.T) { // B38, B40
	t.Run("the member says so", func(t *testing.T) {
		h := func(m *fake, c *memberConn, r *http.Request) bool {
			if r.Header.Get("Expect") == "" {
				return c.reply(m, "no Expect")
			}
			time.Sleep(3 * time.Second)
			c.say("HTTP/1.1 100 Continue\r\nConnection: X-N\r\nX-N: 1\r\n\r\n")
			b, err := io.ReadAll(r.Body)
			return err == nil && c.reply(m, string(b))
		}
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\nCookie: JSESSIONID=s.a\r\n\r\n")
			line, err := c.r.ReadString('\n')
			if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if line, _ := c.r.ReadString('\n'); line != "\r\n" {
				t.Fatalf("100 with %q", line)
			}
			c.say("body")
			if a, err := c.hear("PUT"); err != nil || a.body != "body" {
				t.Errorf("PUT = %d %q, %v", a.status, a.body, err)
			}
			c.say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if a, err := c.hear("GET"); err != nil || a.body != "no Expect" {
				t.Errorf("the next request = %d %q, %v", a.status, a.body, err)
			}
		})
	})
	t.Run("the member refuses without reading", func(t *testing.T) {
		h := answeringUnread("HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n\r\nno\n")
		one(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
			a, err := c.hear("PUT")
			if err != nil || a.status != 401 || !a.close {
				t.Errorf("PUT = %d %v, %v; want 401 and close", a.status, a.header, err)
			}
		})
	})
	t.Run("a member that is not there costs the client nothing", func(t *testing.T) {
		one(t, options{without: []string{"a"}}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\nCookie: JSESSIONID=s.a\r\n\r\n")
			time.AfterFunc(2*time.Second, func() { c.say("body") }) // it waits no longer, as curl
			if a, err := c.hear("PUT"); err != nil || a.body != "PUT / body" {
				t.Errorf("PUT = %d %q, %v", a.status, a.body, err)
			}
		})
	})
	t.Run("Not-Executed in place of 100", func(t *testing.T) {
		codec := testCodec(t)
		o := options{
			config: func(c *proxy.Config) { c.Codec = codec },
			serve:  map[string]handler{"a": answeringUnread("HTTP/1.1 503 X\r\nUnderstudy-Not-Executed: draining\r\nContent-Length: 0\r\n\r\n")},
		}
		one(t, o, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\nCookie: JSESSIONID=s.a\r\n\r\n")
			time.AfterFunc(2*time.Second, func() { c.say("body") })
			a, err := c.hear("POST")
			if err != nil || a.status != 200 || a.body != "POST / body" {
				t.Errorf("POST = %d %q, %v; want 200 from another member", a.status, a.body, err)
			}
		})
	})
}

// answeringUnread answers without reading the body, and goes.
func answeringUnread(text string) handler {
	return func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("%s", text)
		return false
	}
}

// C17: an early reply reaches a client that is still sending.
func TestEarlyReply(t *testing.T) {
	h := answeringUnread("HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nbig\n")
	every(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		for i := range 40 {
			body := io.MultiReader(strings.NewReader(strings.Repeat("x", 200_000)), strings.NewReader(strings.Repeat("y", 200_000)))
			a, err := w.do("POST", "/", "", body)
			if err != nil || a.status != 413 || a.body != "big\n" {
				t.Fatalf("POST %d = %d %q, %v; want 413", i, a.status, a.body, err)
			}
		}
	})
}

func TestEarlyHints(t *testing.T) { // C11
	text := "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-N\r\nX-N: 1\r\nUnderstudy-X: 1\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
	one(t, options{serve: everywhere(answering(text))}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		want := "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
		if got := c.all(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		c = w.raw()
		c.say("GET / HTTP/1.0\r\n\r\n")
		if got := c.all(); got != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi" {
			t.Errorf("HTTP/1.0 got %q", got)
		}
	})
	bubble(t, true, options{serve: everywhere(answering(text))}, func(t *testing.T, w *world) {
		if a := w.get("/", ""); a.status != 200 || a.body != "hi" || a.header.Get("Link") != "" {
			t.Errorf("GET = %d %q %v", a.status, a.body, a.header)
		}
	})
}

func TestHTTP10(t *testing.T) {
	chunks := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
	one(t, options{serve: map[string]handler{"a": answering(chunks)}}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nCookie: JSESSIONID=s.b\r\n\r\n")
		if a, err := c.hear("GET"); err != nil || a.header.Get("Connection") != "keep-alive" {
			t.Fatalf("GET = %d %v, %v", a.status, a.header, err)
		}
		c.say("GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nCookie: JSESSIONID=s.a\r\n\r\n")
		if got := c.all(); got != "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi" {
			t.Errorf("got %q", got)
		}
	})
}

// What can be read in two ways is refused, reaches nobody, and ends the
// connection (peers.md 4B).
func TestAmbiguousRequests(t *testing.T) {
	const line = "POST / HTTP/1.1\r\nHost: x\r\n"
	tests := []struct {
		id, send string
		status   int
	}{
		{"B01", line + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", 400},
		{"B02", line + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
		{"B04", line + "Content-Length : 3\r\n\r\nabc", 400},
		{"B04", line + "Content-Length: +3\r\n\r\nabc", 400},
		{"B07", "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"B08", line + "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", 400},
		{"B10", "GET / HTTP/1.1\nHost: x\n\n", 400},
		{"B11", "GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400},
		{"B14", "GET / HTTP/1.1\r\n\r\n", 400},
		{"B16", "GET / HTTP/1.1\r\nHost: u@a.test\r\n\r\n", 400},
		{"B41", "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 70_000) + "\r\n\r\n", 431},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			one(t, options{}, func(t *testing.T, w *world) {
				c := w.raw()
				c.say(tt.send + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
				a, err := c.hear("GET")
				if err != nil || a.status != tt.status {
					t.Fatalf("%d, %v; want %d", a.status, err, tt.status)
				}
				if rest := c.all(); rest != "" {
					t.Errorf("the connection goes on: %q", rest)
				}
				for _, m := range w.members {
					if got := m.requests(); len(got) > 1 || len(got) == 1 && strings.Contains(got[0], "smuggled") {
						t.Errorf("member %s got %q", m.name, got)
					}
				}
			})
		})
	}
}

// B43, B40: pipelined requests are answered in order; a bad one after them ends
// the connection after the answers to the good ones.
func TestPipelined(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\naGET /2 HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HTTP/1.1\r\n\r\n")
		for _, want := range []string{"POST /1 a", "GET /2 "} {
			if a, err := c.hear("GET"); err != nil || a.body != want {
				t.Fatalf("%q, %v; want %q", a.body, err, want)
			}
		}
		if a, err := c.hear("GET"); err != nil || a.status != 400 {
			t.Errorf("%d, %v; want 400", a.status, err)
		}
	})
}

// A stream to which nobody listens any more ends at the member (E11 in spirit).
func TestStreamAbandoned(t *testing.T) {
	var ended chan struct{}
	h := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
		_, _ = c.r.ReadByte()
		close(ended)
		return false
	}
	every(t, options{serve: map[string]handler{"a": h}}, func(t *testing.T, w *world) {
		ended = make(chan struct{})
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+proxyAddr+"/", nil)
		r.Header.Set("Cookie", "JSESSIONID=s.a")
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(io.LimitReader(resp.Body, 5)); err != nil || string(b) != "first" {
			t.Fatalf("%q, %v", b, err)
		}
		time.Sleep(10 * time.Minute) // a quiet stream is no failure
		select {
		case <-ended:
			t.Fatal("the stream was cut although its client listens")
		default:
		}
		_ = resp.Body.Close()
		<-ended
		synctest.Wait()
		if m := w.member("a"); !m.InService {
			t.Errorf("the member is out of service: %+v", m)
		}
	})
}

func TestSignedSession(t *testing.T) { // D1, A32
	codec := testCodec(t)
	o := options{config: func(c *proxy.Config) { c.Codec = codec }}
	every(t, o, func(t *testing.T, w *world) {
		session := signed(t, codec, "k7Qx", "b", "c")
		for range 10 {
			if a := w.get("/", session); a.member != "b" {
				t.Fatalf("served by %q, want the primary b", a.member)
			}
			if a := w.get("/p;jsessionid="+session+"/q", ""); a.member != "b" {
				t.Fatalf("by path: served by %q, want b", a.member)
			}
		}
		w.members["b"].kill()
		for range 10 {
			if a := w.get("/", session); a.member != "c" {
				t.Fatalf("served by %q, want the secondary c", a.member)
			}
		}
		forged := session[:20] + "x" + session[21:]
		if a := w.get("/", forged); a.status != 200 {
			t.Errorf("a forged session = %d, want 200", a.status)
		}
		if n := w.proxy.Counts().Forged; n != 1 {
			t.Errorf("%d forged sessions counted, want 1", n)
		}
		if strings.Contains(w.lastAccess()+w.log.String(), session[:30]) {
			t.Error("a session stands in a log")
		}
	})
}

// D37: a length in lower case is sent once, to the member and to the client.
func TestContentLengthInLowerCase(t *testing.T) {
	one(t, options{members: []string{"a"}, without: []string{"a"}}, func(t *testing.T, w *world) {
		ln, err := w.net.Host("10.0.1.1").Listen("tcp", ":8080")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close() //nolint:errcheck // the test is over
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close() //nolint:errcheck // the test is over
			var head strings.Builder
			for r := bufio.NewReader(c); ; {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				head.WriteString(line)
				if line == "\r\n" {
					break
				}
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ncontent-length: %d\r\nConnection: close\r\n\r\n%s", head.Len(), head.String()) //nolint:errcheck // likewise
		}()
		c := w.raw()
		c.say("POST / HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\nConnection: close\r\n\r\nabc")
		head, body, _ := strings.Cut(c.all(), "\r\n\r\n")
		for side, text := range map[string]string{"member": body, "client": head} {
			if n := strings.Count(strings.ToLower(text), "content-length:"); n != 1 {
				t.Errorf("the %s got %d lengths:\n%s", side, n, text)
			}
		}
	})
}
