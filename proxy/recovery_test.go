package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// mod_jk.md 4.4 and 4.5: which requests are sent again after which failure, for each
// value of recovery_options. Where mod_jk differs, the row says so.
func TestRecoveryOptions(t *testing.T) {
	const unset = -1
	tests := []struct {
		options         int
		get, head, post bool // sent again if there was no reply
	}{
		{unset, true, true, false}, // mod_jk: as 0
		{0, true, true, true},      // [T], dangerous default
		{1, false, false, false},
		{2, true, true, true}, // 2 is about replies that have begun
		{3, false, false, false},
		{4, true, true, true}, // 4 is not about sending again
		{7, false, false, false},
		{9, false, true, false},
		{17, true, false, false},
		{25, true, true, false}, // [T] mod_jk: 8 shadows 16, and GET is not
		{31, true, true, false}, // likewise
	}
	failures := []struct {
		name   string
		serve  handler
		status int
	}{
		{"dropped before the reply", func(*fake, *memberConn, *http.Request) bool { return false }, 502},
		{"reply_timeout", mute, 504},
		// After headers mod_jk runs the request again without bit 2, and appends the
		// second reply to the first [T]. Here never.
		{"dropped within the reply", func(_ *fake, c *memberConn, _ *http.Request) bool {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			return false
		}, 200},
	}
	for _, tt := range tests {
		for _, f := range failures {
			o := options{serve: map[string]handler{"a": f.serve, "b": f.serve, "c": f.serve}}
			for _, m := range []string{"a", "b", "c"} {
				o.lines += fmt.Sprintf("worker.%s.reply_timeout=1000\n", m)
				if tt.options != unset {
					o.lines += fmt.Sprintf("worker.%s.recovery_options=%d\n", m, tt.options)
				}
			}
			one(t, o, func(t *testing.T, w *world) {
				for method, again := range map[string]bool{"GET": tt.get, "HEAD": tt.head, "POST": tt.post} {
					if f.status == 200 && method == "HEAD" {
						continue // its reply is whole
					}
					before := w.total()
					a, err := w.do(method, "/"+method, "", nil)
					want := 1
					if again && f.status != 200 {
						want = 2
					}
					if n := w.total() - before; n != want || err != nil || a.status != f.status {
						t.Errorf("recovery_options %d, %s %s: members got it %d times and the client %d, %v; want %d times and %d",
							tt.options, method, f.name, n, a.status, err, want, f.status)
					}
					time.Sleep(2 * time.Minute) // recover_time
				}
			})
		}
	}
}

// Whatever recovery_options says, what no member has got is sent on, with its body.
func TestRecoveryNothingSent(t *testing.T) { // mod_jk.md 4.5, first row
	for _, bits := range []int{0, 1, 3, 7, 31} {
		o := options{without: []string{"a"}}
		for _, m := range []string{"a", "b", "c"} {
			o.lines += "worker." + m + ".recovery_options=" + strconv.Itoa(bits) + "\n"
		}
		one(t, o, func(t *testing.T, w *world) {
			if a := w.post("/", "s.a", "body"); a.status != 200 || a.body != "POST / body" {
				t.Errorf("recovery_options %d: %d %q, want 200 from another member", bits, a.status, a.body)
			}
		})
	}
}

// D14: a member whose recover_time has passed stays on trial until somebody tries it,
// and recover_time counts from the last failure, not the first.
func TestRecoveryCounts(t *testing.T) {
	o := options{without: []string{"a"}, lines: "worker.lb.recover_time=60\n"}
	one(t, o, func(t *testing.T, w *world) {
		w.get("/", "s.a")
		time.Sleep(61 * time.Second)
		if s := w.member("a").State; s != "ERR/REC" {
			t.Fatalf("after recover_time it is %s, want ERR/REC", s)
		}
		time.Sleep(time.Hour)
		if s := w.member("a").State; s != "ERR/REC" {
			t.Errorf("an hour later, without a request, it is %s, want ERR/REC", s)
		}
		w.get("/", "s.a") // the trial fails
		time.Sleep(59 * time.Second)
		if s := w.member("a").State; s != "ERR" {
			t.Errorf("59 s after the last failure it is %s, want ERR", s)
		}
		w.members["a"].start()
		time.Sleep(2 * time.Second)
		if a := w.get("/", "s.a"); a.member != "a" {
			t.Errorf("after recover_time its session went to %q", a.member)
		}
	})
}

// D16: of many requests at the end of recover_time one tries the sick member; the
// others do not wait for that.
func TestOneTrial(t *testing.T) {
	o := options{lines: "worker.a.reply_timeout=5000\nworker.lb.recover_time=60\n", serve: map[string]handler{"a": mute}}
	one(t, o, func(t *testing.T, w *world) {
		w.get("/", "s.a")
		time.Sleep(61 * time.Second)
		before := len(w.members["a"].requests())
		var all []<-chan answer
		for range 100 {
			all = append(all, w.launch(t.Context(), "s.a"))
		}
		slow := 0
		for _, got := range all {
			start := time.Now()
			if a := soon(t, got, time.Minute); a.status != 200 || a.member == "a" {
				t.Fatalf("%d by %q", a.status, a.member)
			}
			if time.Since(start) > time.Second {
				slow++
			}
		}
		if n := len(w.members["a"].requests()) - before; n != 1 || slow > 1 {
			t.Errorf("of 100 requests %d tried the sick member and %d were slow, want one", n, slow)
		}
	})
}

// D20: how a member stands is one fact for all clients and connections.
func TestOneState(t *testing.T) {
	every(t, options{without: []string{"a"}}, func(t *testing.T, w *world) {
		w.get("/", "s.a")
		dials := w.member("a").Served
		for range 20 {
			c := w.raw()
			c.say("GET / HTTP/1.1\r\nHost: x\r\nCookie: JSESSIONID=s.a\r\nConnection: close\r\n\r\n")
			if a, err := c.hear("GET"); err != nil || a.status != 200 {
				t.Errorf("%d, %v", a.status, err)
			}
			_ = c.Close()
		}
		if n := w.member("a").Served; n != dials {
			t.Errorf("other clients tried the member %d times", n-dials)
		}
	})
}

// D28: a client whose member has left moves once, and is then bound to the new one.
func TestMovesOnce(t *testing.T) {
	rebind := func(m *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nX-Member: %s\r\nSet-Cookie: JSESSIONID=s.%[1]s\r\nContent-Length: 0\r\n\r\n", m.name)
		return true
	}
	o := options{serve: map[string]handler{"a": rebind, "b": rebind, "c": rebind}}
	every(t, o, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abc"))
		w.members["a"].kill()
		w.proxy.SetMembers(running("bc"))
		session, moves := "s.a", 0
		for range 20 {
			a := w.get("/", session)
			if next := "s." + a.member; next != session {
				session, moves = next, moves+1
			}
			w.get("/", "") // others come and go meanwhile
		}
		if moves != 1 {
			t.Errorf("the client moved %d times, want once", moves)
		}
	})
}

// D31: a server that stands alone is not put out of service by a 503 of its own.
func TestLoneServer(t *testing.T) {
	first := true
	once := func(m *fake, c *memberConn, r *http.Request) bool {
		if first {
			first = false
			c.say("HTTP/1.1 503 Service Unavailable\r\nX-Member: a\r\nContent-Length: 4\r\n\r\nlate")
			return true
		}
		return counter(m, c, r)
	}
	for _, lines := range []string{"", "worker.a.fail_on_status=503\n"} {
		every(t, options{members: []string{"a"}, lines: lines, serve: map[string]handler{"a": once}}, func(t *testing.T, w *world) {
			first = true
			a := w.get("/", "")
			if lines == "" && (a.status != 503 || a.body != "late") {
				t.Errorf("%d %q, want its own 503", a.status, a.body)
			}
			if a := w.get("/", ""); a.status != 200 {
				t.Errorf("%q: the next request = %d, want 200", lines, a.status)
			}
		})
	}
}

// Not TC-7 but the directive: max_reply_timeouts tolerates so many before the member
// is in error.
func TestMaxReplyTimeouts(t *testing.T) { // mod_jk.md 2.6, 3.7
	for _, most := range []int{0, 2} {
		o := options{
			lines: fmt.Sprintf("worker.a.reply_timeout=1000\nworker.lb.max_reply_timeouts=%d\n", most),
			serve: map[string]handler{"a": mute},
		}
		one(t, o, func(t *testing.T, w *world) {
			for i := range 4 {
				w.post("/", "s.a", "x")
				if got, want := w.member("a").State == "ERR", i >= most; got != want {
					t.Errorf("max_reply_timeouts %d: after %d time-outs it is %s", most, i+1, w.member("a").State)
				}
			}
		})
	}
}

// D11: what is the client's fault does not count against the member.
func TestClientsFault(t *testing.T) {
	o := options{members: []string{"a"}, config: func(c *proxy.Config) { c.MaxBody, c.BodyTimeout = 100, time.Second }}
	one(t, o, func(t *testing.T, w *world) {
		w.get("/", "")
		for request, status := range map[string]int{
			"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n":                                             413,
			"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n":                          400,
			"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf":                                           408,
			"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n":                                                         400,
			"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n80\r\n" + fmt.Sprintf("%0128d\r\n", 0): 413,
		} {
			c := w.raw()
			c.say(request)
			if a, err := c.hear("PUT"); err != nil || a.status != status {
				t.Errorf("%.60q: %d, %v; want %d", request, a.status, err, status)
			}
			_ = c.Close()
			if m := w.member("a"); m.State != "OK" || m.Errors != 0 {
				t.Errorf("%.60q: the member is %s with %d errors", request, m.State, m.Errors)
			}
		}
		if a := w.get("/", ""); a.status != 200 {
			t.Errorf("the next request = %d", a.status)
		}
	})
}
