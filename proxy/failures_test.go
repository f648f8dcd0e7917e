package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// crash answers /crash by the death of the member, and everything else as usual.
func crash(m *fake, c *memberConn, r *http.Request) bool {
	if r.URL.Path == "/crash" {
		m.kill()
		return false
	}
	return counter(m, c, r)
}

// total returns how many requests all members have got.
func (w *world) total() int {
	n := 0
	for _, m := range w.members {
		n += len(m.requests())
	}
	return n
}

func allCrash(names ...string) map[string]handler {
	h := map[string]handler{}
	for _, n := range names {
		h[n] = crash
	}
	return h
}

func TestNothingSentAnyMethod(t *testing.T) { // PLUG-100
	every(t, options{without: []string{"a"}}, func(t *testing.T, w *world) {
		for i := range 6 {
			start := time.Now()
			a := w.post("/order", "s.a", "1 book")
			if a.status != 200 || !strings.Contains(a.body, "1 book") {
				t.Fatalf("POST %d with a session on a refused member = %d %q", i, a.status, a.body)
			}
			if d := time.Since(start); d > 10*time.Millisecond {
				t.Errorf("POST %d took %v, want no pause", i, d)
			}
		}
		if n := w.total(); n != 6 {
			t.Errorf("6 POSTs were executed %d times", n)
		}
	})
}

func TestReplyTimeout(t *testing.T) { // PLUG-101
	slow := func(m *fake, c *memberConn, r *http.Request) bool {
		time.Sleep(5 * time.Second)
		return counter(m, c, r)
	}
	lines := "worker.a.reply_timeout=1000\nworker.b.reply_timeout=1000\nworker.c.reply_timeout=1000\n"
	every(t, options{lines: lines, serve: map[string]handler{"a": slow}}, func(t *testing.T, w *world) {
		if a := w.get("/", "s.a"); a.status != 200 || a.member == "a" {
			t.Errorf("GET = %d from %q, want 200 from another member", a.status, a.member)
		}
		w.proxy.SetMembers(nil)
		time.Sleep(2 * time.Minute) // recover_time
		if a := w.post("/", "s.a", "x"); a.status != 504 {
			t.Errorf("POST = %d, want 504", a.status)
		}
		if n := w.total(); n != 3 {
			t.Errorf("members got %d requests, want 3: GET twice, POST once", n)
		}
	})
}

func TestReplyTimeoutOnce(t *testing.T) { // PLUG-101, D8: idempotent, once
	silent := func(*fake, *memberConn, *http.Request) bool { time.Sleep(time.Hour); return false }
	lines := ""
	serve := map[string]handler{}
	for _, m := range []string{"a", "b", "c"} {
		lines += "worker." + m + ".reply_timeout=1000\n"
		serve[m] = silent
	}
	every(t, options{lines: lines, serve: serve}, func(t *testing.T, w *world) {
		if a := w.get("/", ""); a.status != 504 {
			t.Errorf("GET = %d, want 504", a.status)
		}
		if n := w.total(); n != 2 {
			t.Errorf("members got %d requests, want 2", n)
		}
	})
}

func TestDroppedByLivingMember(t *testing.T) { // PLUG-102, C2
	drop := func(*fake, *memberConn, *http.Request) bool { return false }
	every(t, options{serve: map[string]handler{"a": drop}}, func(t *testing.T, w *world) {
		if a := w.post("/", "s.a", "x"); a.status != 502 {
			t.Errorf("POST = %d, want 502", a.status)
		}
		if n := w.total(); n != 1 {
			t.Errorf("a POST reached members %d times", n)
		}
		time.Sleep(2 * time.Minute)
		if a := w.get("/", "s.a"); a.status != 502 {
			t.Errorf("GET = %d, want 502", a.status)
		}
		if got := w.members["a"].requests(); len(got) != 3 {
			t.Errorf("member a got %q, want POST and twice GET", got)
		}
		if n := w.total(); n != 3 {
			t.Errorf("members got %d requests, want 3: the same member again, then none", n)
		}
	})
}

func TestDroppedOnce(t *testing.T) {
	first := true
	once := func(m *fake, c *memberConn, r *http.Request) bool {
		if first {
			first = false
			return false
		}
		return counter(m, c, r)
	}
	every(t, options{serve: map[string]handler{"a": once}}, func(t *testing.T, w *world) {
		first = true
		if a := w.get("/", "s.a"); a.status != 200 || a.member != "a" {
			t.Errorf("GET = %d from %q, want 200 from a", a.status, a.member)
		}
	})
}

// TC-7: how many members one deadly request kills.
func TestDeadlyRequest(t *testing.T) {
	all := []string{"a", "b", "c", "d"}
	tests := []struct {
		name    string
		members int
		method  string
		options string // recovery_options of each; "" for none
		resend  int    // MaxResend
		dead    int
	}{
		{"POST", 3, "POST", "", 0, 1},
		{"GET, two members", 2, "GET", "", 0, 1},
		{"GET, three members", 3, "GET", "", 0, 2},
		{"GET, four members", 4, "GET", "", 0, 2},
		{"GET, recovery_options 3", 3, "GET", "3", 0, 1},
		{"GET, recovery_options 1", 3, "GET", "1", 0, 1},
		{"POST, recovery_options 0 and no guards: the seed's chain", 3, "POST", "0", -1, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{members: all[:tt.members], serve: allCrash(all...)}
			for _, m := range o.members {
				if tt.options != "" {
					o.lines += fmt.Sprintf("worker.%s.recovery_options=%s\n", m, tt.options)
				}
			}
			o.config = func(c *proxy.Config) { c.MaxResend = tt.resend }
			every(t, o, func(t *testing.T, w *world) {
				a, err := w.do(tt.method, "/crash", "s.a", nil)
				if err != nil {
					t.Fatal(err)
				}
				if tt.dead < tt.members && a.status != 502 {
					t.Errorf("status %d, want 502", a.status)
				}
				dead := 0
				for _, m := range w.members {
					if len(m.requests()) > 0 {
						dead++
					}
				}
				if dead != tt.dead {
					t.Errorf("%d members died, want %d", dead, tt.dead)
				}
				if tt.dead == tt.members {
					return
				}
				if a := w.get("/", "s.a"); a.status != 200 {
					t.Errorf("the next request = %d, want 200", a.status)
				}
			})
		})
	}
}

// A request that killed once is not sent again when it kills again (D8).
func TestDeadlyRequestAgain(t *testing.T) {
	members := []string{"a", "b", "c", "d", "e", "f"}
	every(t, options{members: members, serve: allCrash(members...)}, func(t *testing.T, w *world) {
		w.get("/crash", "s.a")
		w.get("/crash", "s.a")
		dead := w.total()
		if dead != 3 {
			t.Errorf("two deadly requests of one session killed %d members, want 2 and 1", dead)
		}
		if a := w.get("/", "s.a"); a.status != 200 {
			t.Errorf("the next request = %d, want 200", a.status)
		}
	})
}

// The resend after a death avoids both members that the cookie names (D8).
func TestResendAvoidsCopies(t *testing.T) {
	codec := testCodec(t)
	o := options{
		members: []string{"a", "b", "c"}, serve: allCrash("a"),
		config: func(c *proxy.Config) { c.Codec = codec },
	}
	session := signed(t, codec, "k7Qx", "a", "b")
	every(t, o, func(t *testing.T, w *world) {
		a, err := w.do("GET", "/crash", session, nil)
		if err != nil || a.member != "c" {
			t.Errorf("GET = %d from %q, %v; want c, which holds no copy", a.status, a.member, err)
		}
		if a := w.get("/", session); a.member != "b" {
			t.Errorf("the next request went to %q, want the secondary b", a.member)
		}
	})
}

func TestNotExecuted(t *testing.T) { // D8, PLUG-103
	refuse := func(reason string) handler {
		return func(_ *fake, c *memberConn, _ *http.Request) bool {
			c.say("HTTP/1.1 503 Service Unavailable\r\nUnderstudy-Not-Executed: %s\r\nContent-Length: 3\r\n\r\nno\n", reason)
			return true
		}
	}
	codec := testCodec(t)
	ours := func(c *proxy.Config) { c.Codec = codec }

	t.Run("any method goes to the next member", func(t *testing.T) {
		both(t, options{config: ours, serve: map[string]handler{"a": refuse("draining")}}, func(t *testing.T, w *world) {
			a := w.post("/order", signed(t, codec, "x", "a", "b"), "1 book")
			if a.status != 200 || a.member != "b" || !strings.Contains(a.body, "1 book") {
				t.Errorf("POST = %d from %q: %q", a.status, a.member, a.body)
			}
		})
	})
	t.Run("the member it names is tried first", func(t *testing.T) {
		both(t, options{config: ours, serve: map[string]handler{"a": refuse("owner; member=c")}}, func(t *testing.T, w *world) {
			if a := w.post("/order", signed(t, codec, "x", "a", "b"), "1 book"); a.member != "c" {
				t.Errorf("POST = %d from %q, want c", a.status, a.member)
			}
		})
	})
	t.Run("nobody can: 503, and no word of ours", func(t *testing.T) {
		no := refuse("overloaded")
		both(t, options{config: ours, serve: map[string]handler{"a": no, "b": no, "c": no}}, func(t *testing.T, w *world) {
			a := w.post("/order", "", "1 book")
			if a.status != 503 || a.header.Get("Understudy-Not-Executed") != "" {
				t.Errorf("POST = %d %v", a.status, a.header)
			}
		})
	})
	t.Run("not believed from others, and stripped", func(t *testing.T) {
		both(t, options{serve: map[string]handler{"a": refuse("draining")}}, func(t *testing.T, w *world) {
			a := w.post("/order", "s.a", "1 book")
			if a.status != 503 || a.body != "no\n" || a.header.Get("Understudy-Not-Executed") != "" {
				t.Errorf("POST = %d %q %v, want the member's 503 without the header", a.status, a.body, a.header)
			}
			if n := w.total(); n != 1 {
				t.Errorf("the POST reached %d members, want 1", n)
			}
		})
	})
	t.Run("believed of whom gossip names", func(t *testing.T) {
		both(t, options{serve: map[string]handler{"a": refuse("draining")}}, func(t *testing.T, w *world) {
			w.proxy.SetMembers([]proxy.Member{{Route: "a", Address: "10.0.1.1:8080", Boot: 1, State: proxy.Running}})
			if a := w.post("/order", "s.a", "1 book"); a.status != 200 {
				t.Errorf("POST = %d, want 200 from another member", a.status)
			}
		})
	})
}

// A body that is longer than what is kept, and that nobody has taken yet, goes to
// the next member; one of which pieces are gone does not.
func TestLongBodyReplay(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	every(t, options{without: []string{"a"}}, func(t *testing.T, w *world) {
		if a := w.post("/", "s.a", long); a.status != 200 || len(a.body) < len(long) {
			t.Errorf("POST of %d bytes past a refused member = %d with %d bytes", len(long), a.status, len(a.body))
		}
	})
	half := func(_ *fake, _ *memberConn, r *http.Request) bool {
		_, err := io.CopyN(io.Discard, r.Body, 200_000)
		return err != nil
	}
	o := options{serve: map[string]handler{"a": half}, config: func(c *proxy.Config) { c.Spool.Total = -1 }}
	every(t, o, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+proxyAddr+"/", strings.NewReader(long))
		r.Header.Set("Cookie", "JSESSIONID=s.a")
		a, err := w.send(r)
		if err != nil || a.status != 502 {
			t.Errorf("PUT of %d bytes that a member dropped half way = %d, %v; want 502", len(long), a.status, err)
		}
		if n := w.total(); n != 1 {
			t.Errorf("it reached members %d times, want 1: there is no spool", n)
		}
	})
}

// A body that fits is sent again whole, with the same bytes (D07).
func TestBodyReplay(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 3000)
	read := func(_ *fake, _ *memberConn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		return false
	}
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			every(t, options{serve: allCrashOn(read, "a")}, func(t *testing.T, w *world) {
				var src io.Reader = strings.NewReader(body)
				if chunked {
					src = io.MultiReader(strings.NewReader(body[:1000]), strings.NewReader(body[1000:]))
				}
				r, _ := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+proxyAddr+"/", src)
				r.Header.Set("Cookie", "JSESSIONID=s.a")
				a, err := w.send(r)
				if err != nil || a.status != 200 || !strings.HasSuffix(a.body, body) {
					t.Errorf("PUT = %d with %d bytes, %v; want 200 and all of the body", a.status, len(a.body), err)
				}
				if n := w.total(); n != 2 {
					t.Errorf("it reached members %d times, want 2", n)
				}
			})
		})
	}
}

// allCrashOn kills a member after h.
func allCrashOn(h handler, names ...string) map[string]handler {
	m := map[string]handler{}
	for _, n := range names {
		m[n] = func(f *fake, c *memberConn, r *http.Request) bool {
			h(f, c, r)
			f.kill()
			return false
		}
	}
	return m
}

func TestStatuses(t *testing.T) { // PLUG-105
	t.Run("503 if nobody can be reached", func(t *testing.T) {
		every(t, options{without: []string{"a", "b", "c"}}, func(t *testing.T, w *world) {
			for _, session := range []string{"", "s.a"} {
				if a := w.post("/", session, "x"); a.status != 503 {
					t.Errorf("POST = %d, want 503", a.status)
				}
			}
		})
	})
	t.Run("413", func(t *testing.T) {
		o := options{config: func(c *proxy.Config) { c.MaxBody = 10 }}
		every(t, o, func(t *testing.T, w *world) {
			if a := w.post("/", "", "0123456789"); a.status != 200 {
				t.Errorf("10 bytes = %d, want 200", a.status)
			}
			if a := w.post("/", "", "0123456789a"); a.status != 413 {
				t.Errorf("11 bytes = %d, want 413", a.status)
			}
			a, err := w.do("POST", "/", "", io.MultiReader(strings.NewReader("01234567"), strings.NewReader("89abcdef")))
			if err != nil || a.status != 413 {
				t.Errorf("16 bytes in chunks = %d, %v; want 413", a.status, err)
			}
		})
	})
	t.Run("405 to CONNECT", func(t *testing.T) { // peers.md B28
		one(t, options{}, func(t *testing.T, w *world) {
			c := w.raw()
			c.say("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
			if a, err := c.hear("GET"); err != nil || a.status != 405 {
				t.Errorf("CONNECT = %d, %v; want 405", a.status, err)
			}
		})
	})
}

// TC-3b: a member that is back is used at once if it is the only one, whatever
// recover_time says.
func TestRecoverTimeTrap(t *testing.T) {
	every(t, options{members: []string{"a", "b"}}, func(t *testing.T, w *world) {
		w.get("/", "s.a")
		w.members["a"].kill()
		if a := w.get("/", "s.a"); a.member != "b" {
			t.Fatalf("served by %q, want b", a.member)
		}
		time.Sleep(5 * time.Second)
		w.members["a"].start()
		time.Sleep(5 * time.Second)
		w.members["b"].kill()
		start := time.Now()
		a := w.get("/", "s.b")
		if a.status != 200 || a.member != "a" || time.Since(start) > time.Second {
			t.Errorf("request = %d from %q after %v; want 200 from a within a second", a.status, a.member, time.Since(start))
		}
	})
}

// PLUG-107: only the first request pays for a member that is not there.
func TestDeadMemberIsKnown(t *testing.T) {
	every(t, options{}, func(t *testing.T, w *world) {
		w.get("/", "s.a")
		time.Sleep(2 * time.Second)
		w.net.Cut("10.0.0.1", "10.0.1.1")
		if a := w.get("/", "s.a"); a.status != 200 {
			t.Fatalf("status %d", a.status)
		}
		for range 100 {
			start := time.Now()
			if a := w.get("/", "s.a"); a.status != 200 || time.Since(start) > 20*time.Millisecond {
				t.Fatalf("status %d after %v, want 200 at once", a.status, time.Since(start))
			}
		}
	})
}

// The target of design 6: a cut cable costs the first new request at most a
// second, with our defaults.
func TestCutCable(t *testing.T) {
	every(t, options{}, func(t *testing.T, w *world) {
		w.get("/", "s.a")
		time.Sleep(10 * time.Second)
		w.net.Cut("10.0.0.1", "10.0.1.1")
		start := time.Now()
		a := w.post("/", "s.a", "x")
		if d := time.Since(start); a.status != 200 || d > time.Second {
			t.Errorf("POST = %d after %v, want 200 within a second", a.status, d)
		}
	})
}

// D04, D05: a member closes kept connections as it likes; a POST does not notice.
func TestKeptConnectionClosed(t *testing.T) {
	closing := func(m *fake, c *memberConn, r *http.Request) bool {
		counter(m, c, r)
		return false
	}
	every(t, options{members: []string{"a"}, serve: map[string]handler{"a": closing}}, func(t *testing.T, w *world) {
		for i := range 10 {
			if a := w.post("/", "", "x"); a.status != 200 {
				t.Fatalf("POST %d = %d, want 200", i, a.status)
			}
			synctest.Wait()
		}
		if n := len(w.members["a"].requests()); n != 10 {
			t.Errorf("10 POSTs reached the member %d times", n)
		}
	})
}

// PLUG-109, D10: a client that gives up is no failure of the member.
func TestClientAbort(t *testing.T) {
	var left chan time.Time // of the bubble
	stuck := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path != "/stuck" {
			return counter(m, c, r)
		}
		_, _ = c.r.ReadByte() // until the proxy closes
		left <- time.Now()
		return false
	}
	every(t, options{members: []string{"a", "b"}, serve: map[string]handler{"a": stuck}}, func(t *testing.T, w *world) {
		left = make(chan time.Time, 1)
		ctx, cancel := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxyAddr+"/stuck", nil)
		r.Header.Set("Cookie", "JSESSIONID=s.a")
		time.AfterFunc(5*time.Second, cancel)
		start := time.Now()
		if _, err := w.client.Do(r); !errors.Is(err, context.Canceled) {
			t.Fatalf("Do: %v", err)
		}
		if d := (<-left).Sub(start); d > 6*time.Second {
			t.Errorf("the member heard of it after %v", d-5*time.Second)
		}
		synctest.Wait()
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("the next request went to %q, want a", a.member)
		}
		if n := len(w.members["b"].requests()); n != 0 {
			t.Errorf("b got %d requests, want none", n)
		}
		if text := w.lastAccess(); !strings.Contains(text, `"status":499`) {
			t.Errorf("access log: %s", text)
		}
	})
}

func TestUnknownRoute(t *testing.T) { // PLUG-110, D02
	every(t, options{}, func(t *testing.T, w *world) {
		served := map[string]int{}
		for range 30 {
			served[w.get("/", "s.gone").member]++
		}
		if len(served) != 3 {
			t.Errorf("served by %v, want all three", served)
		}
	})
}

// Case H: what has begun is never sent again; the client sees that it is cut.
func TestReplyBegun(t *testing.T) {
	cut := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun")
		return false
	}
	chunks := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
		return false
	}
	for name, h := range map[string]handler{"length": cut, "chunked": chunks} {
		t.Run(name, func(t *testing.T) {
			every(t, options{serve: map[string]handler{"a": h}, lines: "worker.a.recovery_options=0\n"}, func(t *testing.T, w *world) {
				a, err := w.do("GET", "/", "s.a", nil)
				if err == nil {
					err = a.err
				}
				if err == nil {
					t.Errorf("a reply that was cut arrived as %q without an error", a.body)
				}
				if n := w.total(); n != 1 {
					t.Errorf("%d members got it, want 1", n)
				}
			})
		})
	}
}

// C04, C05, C10: a reply that can be read in two ways is 502 and not the member's
// end.
func TestMalformedReply(t *testing.T) {
	tests := []struct{ name, reply string }{
		{"no HTTP", "SSH-2.0-OpenSSH\r\n"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
		{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"status 099", "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"},
		{"unasked 101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n"},
		{"too many interim replies", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := func(m *fake, c *memberConn, r *http.Request) bool {
				if r.URL.Path != "/bad" {
					return counter(m, c, r)
				}
				c.say("%s", tt.reply)
				return false
			}
			both(t, options{serve: map[string]handler{"a": h}}, func(t *testing.T, w *world) {
				if a := w.get("/bad", "s.a"); a.status != 502 {
					t.Errorf("GET = %d, want 502", a.status)
				}
				if n := w.total(); n != 1 {
					t.Errorf("%d requests reached members, want 1", n)
				}
				if a := w.get("/", "s.a"); a.member != "a" {
					t.Errorf("the next request went to %q, want a", a.member)
				}
			})
		})
	}
}

func TestFailOnStatus(t *testing.T) { // PLUG-80
	status := func(code int) handler {
		return func(_ *fake, c *memberConn, _ *http.Request) bool {
			c.say("HTTP/1.1 %d X\r\nContent-Length: 3\r\n\r\nno\n", code)
			return true
		}
	}
	o := options{lines: "worker.a.fail_on_status=-404,503\n"}
	o.serve = map[string]handler{"a": status(503)}
	every(t, o, func(t *testing.T, w *world) {
		if a := w.post("/", "s.a", "x"); a.status != 200 {
			t.Errorf("POST past a 503 = %d, want 200", a.status)
		}
		w.get("/", "s.a")
		if n := len(w.members["a"].requests()); n != 1 {
			t.Errorf("a got %d requests, want 1: it is in error", n)
		}
	})
	o.serve = map[string]handler{"a": status(404)}
	every(t, o, func(t *testing.T, w *world) {
		if a := w.get("/", "s.a"); a.status != 200 {
			t.Errorf("GET past a 404 = %d, want 200", a.status)
		}
		w.get("/", "s.a")
		if n := len(w.members["a"].requests()); n != 2 {
			t.Errorf("a got %d requests, want 2: a soft failure leaves it in service", n)
		}
	})
}

// A member that stops reading is not waited for without end, and one that goes on
// reading slowly is.
func TestSlowUpload(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	slow := func(m *fake, c *memberConn, r *http.Request) bool {
		buf := make([]byte, 64<<10)
		for {
			time.Sleep(500 * time.Millisecond)
			if _, err := io.ReadFull(r.Body, buf); err != nil {
				break
			}
		}
		return c.reply(m, "done")
	}
	o := options{serve: map[string]handler{"a": slow}, lines: "worker.a.reply_timeout=3000\n"}
	every(t, o, func(t *testing.T, w *world) {
		a, err := w.do("POST", "/", "s.a", bytes.NewReader(body))
		if err != nil || a.status != 200 {
			t.Errorf("POST to a slow reader = %d, %v; want 200", a.status, err)
		}
	})
}

// No member is tried twice while others have not been tried.
func TestEachMemberOnce(t *testing.T) { // D01
	members := []string{"a", "b", "c", "d", "e", "f", "g"}
	every(t, options{members: members, without: members[:6]}, func(t *testing.T, w *world) {
		if a := w.post("/", "s.a", "x"); a.status != 200 || a.member != "g" {
			t.Errorf("POST = %d from %q, want 200 from the only member there is", a.status, a.member)
		}
		if !slices.Equal(w.members["g"].requests(), []string{"POST /"}) {
			t.Errorf("g got %q", w.members["g"].requests())
		}
	})
}

// A member behind a cut cable, or frozen, does not keep the requests that were
// sent to it (design 6): idempotent ones go once to another member, others are
// 504. Neither has a reply_timeout.
func TestVigil(t *testing.T) {
	codec := testCodec(t)
	ours := func(c *proxy.Config) { c.Codec = codec }
	faults := []struct {
		name string
		o    options
		do   func(w *world)
	}{
		{"cut cable", options{}, func(w *world) { w.net.Cut("10.0.0.1", "10.0.1.1") }},
		{"frozen node of ours", options{config: ours, http: true}, func(w *world) { w.net.Host("10.0.1.1").Freeze() }},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			every(t, f.o, func(t *testing.T, w *world) {
				w.get("/", "s.a")
				f.do(w)
				defer w.net.Host("10.0.1.1").Thaw()
				done := make(chan string)
				for _, method := range []string{"GET", "POST", "GET", "POST"} {
					go func() {
						start := time.Now()
						a, err := w.do(method, "/", "s.a", nil)
						done <- fmt.Sprint(method, " ", a.status, " ", err, " in time ", time.Since(start) <= time.Second)
					}()
				}
				var got []string
				for range 4 {
					got = append(got, <-done)
				}
				slices.Sort(got)
				// The kept connection takes one request; the others dial, and fail
				// with nothing sent, or are sent and wait.
				for _, g := range got {
					if !strings.HasSuffix(g, "<nil> in time true") || strings.HasPrefix(g, "GET") && !strings.HasPrefix(g, "GET 200") ||
						!strings.HasPrefix(g, "GET 200") && !strings.HasPrefix(g, "POST 200") && !strings.HasPrefix(g, "POST 504") {
						t.Errorf("%q", g)
					}
				}
				if w.member("a").InService {
					t.Error("the member is still in service")
				}
			})
		})
	}
}

// What takes long is no fault: not at a node of ours, which answers probes, not at
// a server that can do one thing at a time, and not at one that stops in good order
// and accepts nothing more.
func TestVigilPatience(t *testing.T) {
	codec := testCodec(t)
	ours := func(c *proxy.Config) { c.Codec = codec }
	slow := func(m *fake, c *memberConn, r *http.Request) bool {
		time.Sleep(time.Minute)
		return counter(m, c, r)
	}
	closing := func(m *fake, c *memberConn, r *http.Request) bool {
		m.mu.Lock()
		_ = m.ln.Close()
		m.mu.Unlock()
		return slow(m, c, r)
	}
	var busy chan struct{} // of the bubble
	single := func(m *fake, c *memberConn, r *http.Request) bool {
		busy <- struct{}{}
		defer func() { <-busy }()
		return slow(m, c, r)
	}
	for name, o := range map[string]options{
		"ours":          {config: ours, serve: map[string]handler{"a": slow}},
		"single-minded": {serve: map[string]handler{"a": single}},
		"stopping":      {config: ours, serve: map[string]handler{"a": closing}},
	} {
		t.Run(name, func(t *testing.T) {
			every(t, o, func(t *testing.T, w *world) {
				busy = make(chan struct{}, 1)
				if a := w.post("/", "s.a", "x"); a.status != 200 || a.member != "a" {
					t.Errorf("POST = %d from %q, want 200 from a", a.status, a.member)
				}
			})
		})
	}
}

// A server that takes connections and closes them when it is asked something that
// it does not know is not silent.
func TestVigilClosing(t *testing.T) {
	codec := testCodec(t)
	for name, config := range map[string]func(c *proxy.Config){"ours": func(c *proxy.Config) { c.Codec = codec }, "another": nil} {
		t.Run(name, func(t *testing.T) {
			o := options{members: []string{"a"}, without: []string{"a"}, config: config}
			both(t, o, func(t *testing.T, w *world) {
				ln, err := w.net.Host("10.0.1.1").Listen("tcp", ":8080")
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					for {
						nc, err := ln.Accept()
						if err != nil {
							return
						}
						go func() {
							defer func() { _ = nc.Close() }()
							head := make([]byte, 7)
							if _, err := io.ReadFull(nc, head); err != nil || string(head) == "OPTIONS" {
								return
							}
							time.Sleep(5 * time.Second)
							_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
						}()
					}
				}()
				defer func() { _ = ln.Close() }()
				if a := w.post("/", "", "x"); a.status != 200 {
					t.Errorf("%d, want 200", a.status)
				}
				synctest.Wait()
				if m := w.member("a"); !m.InService || m.Errors != 0 {
					t.Errorf("member %+v", m)
				}
			})
		})
	}
}

// A request that was lost with a kept connection is sent again over a new one: the
// member may be closing all that it keeps.
func TestSecondTryIsFresh(t *testing.T) { // D04, D05
	both(t, options{members: []string{"a"}, without: []string{"a"}}, func(t *testing.T, w *world) {
		ln, err := w.net.Host("10.0.1.1").Listen("tcp", ":8080")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		m := w.members["a"]
		serve := func(nc net.Conn) {
			defer func() { _ = nc.Close() }()
			c := &memberConn{Conn: nc, r: bufio.NewReader(nc)}
			for first := true; ; first = false {
				r, err := http.ReadRequest(c.r)
				switch {
				case err != nil, !first:
					return // the second request is what it closes at
				case r.Method == http.MethodOptions:
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					return
				}
				time.Sleep(100 * time.Millisecond)
				c.reply(m, "")
			}
		}
		go func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				go serve(nc)
			}
		}()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if a := w.get("/", ""); a.status != 200 {
					t.Errorf("%d, want 200", a.status)
				}
			})
		}
		all.Wait()
		if a := w.get("/", ""); a.status != 200 {
			t.Errorf("%d over kept connections that end, want 200", a.status)
		}
	})
}
