package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// drip writes a reply without end, a byte every 100 ms.
func drip(_ *fake, c *memberConn, _ *http.Request) bool {
	c.say("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
	for {
		if _, err := io.WriteString(c.Conn, "x"); err != nil {
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// mute takes a request and never answers.
func mute(_ *fake, c *memberConn, _ *http.Request) bool {
	_, _ = io.Copy(io.Discard, c.Conn) // until the proxy closes it
	return false
}

// No request takes longer than RequestTimeout, whatever it waits for (D17).
func TestRequestTimeout(t *testing.T) {
	const limit = 3 * time.Second
	tests := []struct {
		name   string
		lines  string
		serve  handler // of all members
		body   io.Reader
		status int // 0: the reply has begun, and is cut
	}{
		{"no answer", "", mute, nil, 504},
		{"no answer, and each time-out is tried elsewhere", "worker.%s.reply_timeout=2000\n", mute, nil, 504},
		{"a reply that drips", "", drip, nil, 0},
		{"an upload that drips", "", counter, &dripper{40}, 504},
		{"a turn that does not come", "worker.%s.connection_pool_size=1\nworker.%[1]s.connection_acquire_timeout=60000\n", mute, nil, 504},
		{"nobody there, again and again", "", nil, nil, 504},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{
				serve:  map[string]handler{"a": tt.serve, "b": tt.serve, "c": tt.serve},
				config: func(c *proxy.Config) { c.RequestTimeout = limit },
				lines:  "worker.lb.retries=100\nworker.lb.retry_interval=500\n",
			}
			for _, m := range []string{"a", "b", "c"} {
				if tt.lines != "" {
					o.lines += fmt.Sprintf(tt.lines, m)
				}
			}
			if tt.serve == nil {
				o.without = []string{"a", "b", "c"}
			}
			one(t, o, func(t *testing.T, w *world) {
				if strings.Contains(tt.name, "turn") {
					for _, m := range []string{"s.a", "s.b", "s.c"} {
						defer func(got <-chan answer) { <-got }(w.launch(t.Context(), m))
					}
				}
				method := http.MethodGet
				if tt.body != nil {
					method = http.MethodPut
				}
				start := time.Now()
				a, err := w.do(method, "/", "s.a", tt.body)
				took := time.Since(start)
				switch {
				case tt.status == 0 && (a.status != 200 || a.err == nil):
					t.Errorf("%d %q, %v; want a reply that is cut", a.status, a.body, a.err)
				case tt.status != 0 && (err != nil || a.status != tt.status):
					t.Errorf("%d, %v; want %d", a.status, err, tt.status)
				}
				time.Sleep(2 * time.Second) // until the client has given up, too
				if took < limit-10*time.Millisecond || took > limit+150*time.Millisecond {
					t.Errorf("it took %v, want %v", took, limit)
				}
			})
		})
	}
}

// dripper is a body of so many bytes, one every 100 ms.
type dripper struct{ left int }

func (d *dripper) Read(p []byte) (int, error) {
	if d.left--; d.left < 0 {
		return 0, io.EOF
	}
	time.Sleep(100 * time.Millisecond)
	return copy(p, "x"), nil
}

// How often a request is tried when nobody can be reached: each member once and,
// since there is nobody better, once more (forced recovery); as long as all are known
// to be in error, each once. Only members that answer that they have not run it are
// tried in lb.retries rounds. That is the cap: members * (lb.retries + 1), each time
// with as many connections as the member's retries. mod_jk makes 8 attempts with four
// members, both retries 2 and lb_retries 2 (D17, mod_jk.md 3.8 [T]), as we do with
// Compat; otherwise lb_retries counts if the file has it.
func TestAttempts(t *testing.T) { // D17
	members := []string{"a", "b", "c", "d"}
	full := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 503 Service Unavailable\r\nUnderstudy-Not-Executed: full\r\nContent-Length: 0\r\n\r\n")
		return true
	}
	thrice := "worker.a.retries=3\nworker.b.retries=3\nworker.c.retries=3\nworker.d.retries=3\n"
	for _, tt := range []struct {
		lines       string
		full        bool // members answer
		compat      bool
		first, next int // attempts for the first request, and for one that follows
	}{
		{"", false, false, 8, 4},
		{"worker.lb.retries=3\nworker.lb.lb_retries=2\n", false, false, 6, 6},
		{thrice, false, false, 24, 12},
		{"", false, true, 8, 8},
		{"worker.lb.lb_retries=9\nworker.lb.retries=1\n", false, true, 8, 8},
		{thrice, false, true, 12, 12},
		{"", true, false, 8, 8},
		{"worker.lb.retries=3\nworker.lb.lb_retries=3\n", true, false, 9, 9},
	} {
		var dials int
		o := options{members: members, without: members, lines: tt.lines, serve: map[string]handler{}}
		if tt.full {
			o.without = nil
			for _, m := range members {
				o.serve[m] = full
			}
		}
		codec := testCodec(t)
		o.config = func(c *proxy.Config) {
			dial := c.Dial
			c.Codec, c.Compat = codec, tt.compat
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials++
				return dial(ctx, network, address)
			}
		}
		one(t, o, func(t *testing.T, w *world) {
			for i, want := range []int{tt.first, tt.next} {
				before := w.total() + dials
				if a := w.get("/", ""); a.status != 503 {
					t.Errorf("status %d, want 503", a.status)
				}
				got := w.total() + dials - before
				if tt.full {
					got = w.total() - i*tt.first
				}
				if got != want {
					t.Errorf("%q, members that answer %v: request %d made %d attempts, want %d", tt.lines, tt.full, i, got, want)
				}
			}
		})
	}
}

// D08: no pause when another member is tried.
func TestNoPauseForAnotherMember(t *testing.T) {
	every(t, options{without: []string{"a", "b"}, lines: "worker.lb.retry_interval=5000\nworker.a.retry_interval=5000\n"}, func(t *testing.T, w *world) {
		start := time.Now()
		for _, s := range []string{"s.a", "s.b", ""} {
			if a := w.get("/", s); a.status != 200 || a.member != "c" {
				t.Errorf("%d by %q, want 200 by c", a.status, a.member)
			}
		}
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("it took %v, want no pause", took)
		}
	})
}

// F01: the name of a member leads elsewhere: under steady traffic the connections to
// the old address are given up within ConnectionAge, and no request notices.
func TestNameMoves(t *testing.T) {
	var at string
	o := options{
		members: []string{"a"},
		config: func(c *proxy.Config) {
			dial := c.Dial
			c.ConnectionAge = time.Minute
			c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dial(ctx, network, at+":8080") // what a resolver does
			}
		},
	}
	one(t, o, func(t *testing.T, w *world) {
		at = "10.0.1.1"
		b := newFake(t, w.net, "10.0.1.2", "b", counter)
		b.start()
		defer b.stop()
		if a := w.get("/", ""); a.member != "a" {
			t.Fatalf("served by %q", a.member)
		}
		at = "10.0.1.2"
		start := time.Now()
		for w.get("/", "").member == "a" {
			if time.Sleep(500 * time.Millisecond); time.Since(start) > time.Minute+time.Second {
				t.Fatal("after a minute requests go to the old address")
			}
		}
		if time.Since(start) < 50*time.Second {
			t.Errorf("the connection was given up after %v, want a minute less a tenth at most", time.Since(start))
		}
	})
}

// F02: the pool is flushed when gossip has another address, and the port is that of
// the new one.
func TestAddressChangeFlushes(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abc"))
		w.get("/", "s.a")
		moved := running("abc")
		moved[0].Boot, moved[0].ID, moved[0].Address = 2, 9, "10.0.1.9:9999"
		there := newFake(t, w.net, "10.0.1.9", "a2", counter)
		there.start(":9999")
		defer there.stop()
		w.proxy.SetMembers(moved)
		if a := w.get("/", "s.a"); a.member != "a2" {
			t.Errorf("served by %q, want the new address", a.member)
		}
		time.Sleep(time.Millisecond)
		w.members["a"].mu.Lock()
		open := len(w.members["a"].open)
		w.members["a"].mu.Unlock()
		if open != 0 {
			t.Errorf("%d connections to the old address are open", open)
		}
		if got := w.member("a").Address; got != "10.0.1.9:9999" {
			t.Errorf("address %q", got)
		}
	})
}

// D05: a connection is not used for longer than the member has promised to keep it,
// so that no request meets its end.
func TestKeepAliveTimeoutIsLearned(t *testing.T) {
	promise := func(m *fake, c *memberConn, _ *http.Request) bool {
		body := "ok"
		c.say("HTTP/1.1 200 OK\r\nX-Member: %s\r\nKeep-Alive: max=99, timeout=5\r\nContent-Length: %d\r\n\r\n%s", m.name, len(body), body)
		return true
	}
	o := options{members: []string{"a"}, serve: map[string]handler{"a": promise}}
	one(t, o, func(t *testing.T, w *world) {
		a := w.members["a"]
		for _, tt := range []struct {
			idle  time.Duration
			dials int // so far
		}{{0, 1}, {900 * time.Millisecond, 1}, {4 * time.Second, 1}, {4600 * time.Millisecond, 2}, {6 * time.Second, 3}} {
			time.Sleep(tt.idle)
			if got := w.post("/", "", "x"); got.status != 200 {
				t.Errorf("after %v idle: %d", tt.idle, got.status)
			}
			if n := a.dials(); n != tt.dials {
				t.Errorf("after %v idle: %d connections so far, want %d", tt.idle, n, tt.dials)
			}
		}
	})
}

// A tunnel is bounded by its own time-out, not by that of requests.
func TestRequestTimeoutSparesTunnels(t *testing.T) {
	upgrade := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(c.Conn, c.r)
		return false
	}
	o := options{
		members: []string{"a"}, serve: map[string]handler{"a": upgrade},
		config: func(c *proxy.Config) { c.RequestTimeout = time.Second },
	}
	one(t, o, func(t *testing.T, w *world) {
		c := w.raw()
		defer func() { _ = c.Close() }()
		c.say("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if a, err := c.hear("GET"); err != nil && !errors.Is(err, io.EOF) || a.status != 101 {
			t.Fatalf("%d, %v; want 101", a.status, err)
		}
		time.Sleep(10 * time.Second)
		c.say("hello")
		b := make([]byte, 5)
		if _, err := io.ReadFull(c.r, b); err != nil || string(b) != "hello" {
			t.Errorf("after ten seconds: %q, %v", b, err)
		}
	})
}

// RequestTimeout bounds the reading of a short body as well.
func TestRequestTimeoutReadsBody(t *testing.T) {
	every(t, options{config: func(c *proxy.Config) { c.RequestTimeout = 3 * time.Second }}, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+proxyAddr+"/", &dripper{100})
		r.ContentLength = 100
		start := time.Now()
		a, err := w.send(r)
		if took := time.Since(start); err != nil || a.status != 504 || took > 3200*time.Millisecond {
			t.Errorf("%d, %v after %v; want 504 after 3 s", a.status, err, took)
		}
		time.Sleep(10 * time.Second) // until the client has given up, too
	})
}

// A request that is held for redundancy is over with RequestTimeout as any other.
func TestRequestTimeoutWhileHeld(t *testing.T) { // D8
	o := options{members: four, serve: allCrash("a"), config: func(c *proxy.Config) { c.RequestTimeout = 2 * time.Second }}
	every(t, o, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abcd"))
		start := time.Now()
		a := soon(t, w.ask(t.Context(), "GET", "s.a"), time.Minute)
		if took := time.Since(start).Truncate(time.Millisecond); a.status != 504 || took != 2*time.Second {
			t.Errorf("status %d after %v, want 504 after 2 s", a.status, took)
		}
	})
}
