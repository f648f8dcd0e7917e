package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// running is what gossip says of some nodes, whose IDs are their places from 1;
// each of them has recovered from the loss of all in restored.
func running(names string, restored ...uint64) []proxy.Member {
	var ms []proxy.Member
	for _, r := range names {
		id := uint64(r-'a') + 1
		m := node(string(r), "10.0.1."+string('0'+rune(id))+":8080", 1)
		m.ID, m.Restored = id, restored
		ms = append(ms, m)
	}
	return ms
}

// ask sends a request for /crash while the test goes on.
func (w *world) ask(ctx context.Context, method, session string) <-chan answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+proxyAddr+"/crash", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Cookie", "JSESSIONID="+session)
	got := make(chan answer, 1)
	go func() {
		a, err := w.send(r)
		if err != nil {
			a.err = err
		}
		got <- a
	}()
	return got
}

// held wants the request not to be answered for a second.
func held(t *testing.T, got <-chan answer, why string) {
	t.Helper()
	time.Sleep(time.Second)
	select {
	case a := <-got:
		t.Fatalf("answered with %d by %q (%v), %s", a.status, a.member, a.err, why)
	default:
	}
}

// soon wants the request to be answered in a time.
func soon(t *testing.T, got <-chan answer, within time.Duration) answer {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case a := <-got:
		return a
	case <-late.C:
		t.Fatalf("no answer in %v", within)
		return answer{}
	}
}

var four = []string{"a", "b", "c", "d"}

// A request that was in flight when its member died waits until all others say
// that they have recovered from that very death, and goes to a member that the
// session does not name.
func TestResendWaits(t *testing.T) { // D8, TC-7
	codec := testCodec(t)
	o := options{
		members: four, serve: allCrash("a"),
		config: func(c *proxy.Config) { c.Codec = codec },
	}
	every(t, o, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abcd"))
		got := w.ask(t.Context(), "GET", signed(t, codec, "k7Qx", "a", "b"))
		held(t, got, "though nobody has recovered")

		ms := running("abcd", 1)
		ms[1].Restored = nil
		w.proxy.SetMembers(ms)
		held(t, got, "though b has not")
		w.proxy.SetMembers(running("bcd", 9, 8))
		held(t, got, "though that is from other deaths")

		w.proxy.SetMembers(running("bcd", 9, 1))
		a := soon(t, got, time.Millisecond)
		if a.status != 200 || a.member != "c" && a.member != "d" {
			t.Errorf("answered with %d by %q, want 200 by c or d", a.status, a.member)
		}
		if c := w.proxy.Counts(); c.Held != 1 || c.Unrestored != 0 || c.Resent != 1 {
			t.Errorf("counts %+v, want one held and resent", c)
		}
	})
}

// The seed's accident: with 2, 3 and 4 nodes a GET kills 1, 2 and 2, a POST 1,
// and redundancy is restored between two deaths.
func TestResendKills(t *testing.T) { // TC-7
	for _, tt := range []struct {
		members int
		method  string
		dead    int
	}{{2, "GET", 1}, {3, "GET", 2}, {4, "GET", 2}, {2, "POST", 1}, {3, "POST", 1}, {4, "POST", 1}} {
		names := four[:tt.members]
		all := "abcd"[:tt.members]
		every(t, options{members: names, serve: allCrash(names...)}, func(t *testing.T, w *world) {
			w.proxy.SetMembers(running(all))
			got := w.ask(t.Context(), tt.method, "s.a")
			if tt.dead > 1 {
				held(t, got, "though nobody has recovered")
				w.proxy.SetMembers(running(all, 1))
			}
			if a := soon(t, got, time.Second); a.status != 502 {
				t.Errorf("%s, %d members: status %d, want 502", tt.method, tt.members, a.status)
			}
			if n := w.total(); n != tt.dead {
				t.Errorf("%s, %d members: %d died, want %d", tt.method, tt.members, n, tt.dead)
			}
		})
	}
}

// What ends the wait without a resend, and when.
func TestResendWaitEnds(t *testing.T) { // D8
	tests := []struct {
		name string
		wait time.Duration // Config.ResendWait
		then func(w *world)
		at   time.Duration
	}{
		{"not restored within the default", 0, nil, 5 * time.Second},
		{"not restored within resend_wait", time.Second, nil, time.Second},
		{"resend_wait is off", -1, nil, 0},
		{"only one other member is left", 0, func(w *world) { w.proxy.SetMembers(running("ab", 1)) }, time.Second},
		{"another one that vanishes must be recovered from too", 0, func(w *world) { w.proxy.SetMembers(running("abc", 1)) }, 5 * time.Second},
		{"a boot that came later has nothing to say", 0, func(w *world) {
			ms := running("abcd", 1)
			ms[2].ID, ms[2].Boot = 7, 2 // c has died and is back
			w.proxy.SetMembers(ms)
		}, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{members: four, serve: allCrash("a"), config: func(c *proxy.Config) { c.ResendWait = tt.wait }}
			every(t, o, func(t *testing.T, w *world) {
				w.proxy.SetMembers(running("abcd"))
				start := time.Now()
				got := w.ask(t.Context(), "GET", "s.a")
				time.Sleep(min(time.Second, tt.at))
				if tt.then != nil {
					tt.then(w)
				}
				a := soon(t, got, time.Minute)
				if took := time.Since(start).Truncate(time.Millisecond); a.status != 502 || took != tt.at {
					t.Errorf("status %d after %v, want 502 after %v", a.status, took, tt.at)
				}
				if n := w.total(); n != 1 {
					t.Errorf("members got %d requests, want 1", n)
				}
				if c := w.proxy.Counts(); c.Held != 1 || c.Unrestored != 1 || c.Resent != 0 {
					t.Errorf("counts %+v, want one held in vain", c)
				}
			})
		})
	}
}

// A second death while the request waits is waited for as well.
func TestResendWaitsForTwoDeaths(t *testing.T) { // D8
	every(t, options{members: four, serve: allCrash("a")}, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abcd"))
		got := w.ask(t.Context(), "GET", "s.a")
		held(t, got, "though nobody has recovered")
		w.members["d"].kill()
		w.proxy.SetMembers(running("bc", 1))
		held(t, got, "though d has died since")
		w.proxy.SetMembers(running("bc", 4, 1))
		if a := soon(t, got, time.Second); a.status != 200 {
			t.Errorf("status %d, want 200", a.status)
		}
	})
}

// Only holders are left: neither is the only one, so the request goes to one.
func TestResendToHolder(t *testing.T) { // D8
	codec := testCodec(t)
	o := options{
		members: []string{"a", "b", "c"}, serve: allCrash("c"),
		config: func(c *proxy.Config) { c.Codec = codec },
	}
	every(t, o, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abc", 3))
		// c gets the request after a and b have said that they have not run it.
		for _, name := range []string{"a", "b"} {
			w.members[name].handler = func(m *fake, c *memberConn, r *http.Request) bool {
				if len(m.requests()) > 1 {
					return counter(m, c, r)
				}
				c.say("HTTP/1.1 503 Service Unavailable\r\nUnderstudy-Not-Executed: overloaded\r\nContent-Length: 0\r\n\r\n")
				return true
			}
		}
		a := w.get("/crash", signed(t, codec, "k7Qx", "a", "b"))
		if a.status != 200 || a.member == "c" {
			t.Errorf("status %d by %q, want 200 by a holder", a.status, a.member)
		}
	})
	o.serve = allCrash("c")
	every(t, o, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abc", 3))
		// The cookie is from before: c serves since.
		a := w.get("/crash", signed(t, codec, "k7Qx", "c", "b"))
		if a.status != 200 || a.member != "a" {
			t.Errorf("status %d by %q, want 200 by a", a.status, a.member)
		}
		a = w.get("/", signed(t, codec, "k7Qx", "a", "b"))
		if a.member != "a" {
			t.Errorf("the next request went to %q", a.member)
		}
	})
}

// A client that leaves ends the wait.
func TestResendClientLeaves(t *testing.T) { // PLUG-109, D10
	every(t, options{members: four, serve: allCrash("a")}, func(t *testing.T, w *world) {
		w.proxy.SetMembers(running("abcd"))
		ctx, leave := context.WithCancel(t.Context())
		got := w.ask(ctx, "GET", "s.a")
		held(t, got, "though nobody has recovered")
		leave()
		if a := <-got; !errors.Is(a.err, context.Canceled) {
			t.Errorf("the client got %v", a.err)
		}
		time.Sleep(time.Second) // it is looked for once a second, in the end
		synctest.Wait()
		w.proxy.SetMembers(running("bcd", 1))
		time.Sleep(time.Second)
		if n := w.total(); n != 1 {
			t.Errorf("members got %d requests, want 1", n)
		}
		if c := w.proxy.Counts(); c.Gone != 1 || c.Failed != 0 {
			t.Errorf("counts %+v, want one that is gone", c)
		}
	})
}

// Another boot that answers in place of the one that got the request proves that
// this one is dead; the request does not go there as to a living member.
func TestResendReborn(t *testing.T) { // D12, D8
	first := true
	reborn := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/crash" && first {
			first = false
			back := running("abcd")
			back[0].ID, back[0].Boot = 99, 2
			m.world.proxy.SetMembers(back)
			return false
		}
		return counter(m, c, r)
	}
	every(t, options{members: four, serve: map[string]handler{"a": reborn}}, func(t *testing.T, w *world) {
		first = true
		w.members["a"].world = w
		w.proxy.SetMembers(running("abcd"))
		got := w.ask(t.Context(), "GET", "s.a")
		held(t, got, "though nobody has recovered")
		ms := running("abcd", 1)
		ms[0].ID, ms[0].Boot = 99, 2
		w.proxy.SetMembers(ms)
		if a := soon(t, got, time.Millisecond); a.status != 200 || a.member == "a" {
			t.Errorf("status %d by %q, want 200 by another", a.status, a.member)
		}
	})
}

// Without gossip there is no wait, and no way to a holder that the cookie names.
func TestResendWithoutGossip(t *testing.T) { // D8
	codec := testCodec(t)
	owner := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 503 Service Unavailable\r\nUnderstudy-Not-Executed: owner; member=b\r\nContent-Length: 0\r\n\r\n")
		return true
	}
	tests := []struct {
		name    string
		session string
		serve   map[string]handler
		status  int
		member  string
	}{
		{"to the one that it does not name", signed(t, codec, "k7Qx", "a", "b"), allCrash("a"), 200, "c"},
		{"not to a holder, though the other one says so", signed(t, codec, "k7Qx", "a", "b"), map[string]handler{"a": crash, "c": owner}, 503, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{members: []string{"a", "b", "c"}, serve: tt.serve, config: func(c *proxy.Config) { c.Codec = codec }}
			every(t, o, func(t *testing.T, w *world) {
				start := time.Now()
				a := w.get("/crash", tt.session)
				if a.status != tt.status || a.member != tt.member || time.Since(start) > 110*time.Millisecond {
					t.Errorf("status %d by %q after %v, want %d by %q after one retry_interval at most", a.status, a.member, time.Since(start), tt.status, tt.member)
				}
				if got := w.members["b"].requests(); len(got) > 0 {
					t.Errorf("the secondary got %q", got)
				}
			})
		})
	}
}

// In an outage that all members take part in, retries do not multiply what they
// have to do; and who finds nobody at a door goes to the next all the same.
func TestRetryBudget(t *testing.T) {
	full := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 503 Service Unavailable\r\nUnderstudy-Not-Executed: full\r\nContent-Length: 0\r\n\r\n")
		return true
	}
	const requests, saved = 1000, 1000
	codec := testCodec(t)
	for _, tt := range []struct {
		name        string
		percent     int
		least, most int // requests that members get
	}{
		{"20 percent", 0, requests + saved, requests*12/10 + saved},
		{"50 percent", 50, requests + saved, requests*15/10 + saved},
		{"no limit", -1, 3 * requests, 3 * requests},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options{
				serve: map[string]handler{"a": full, "b": full, "c": full},
				lines: "worker.lb.retries=1\n",
				config: func(c *proxy.Config) {
					c.Codec, c.RetryBudget = codec, tt.percent // with it the members are ours
				},
			}
			one(t, o, func(t *testing.T, w *world) {
				for range requests {
					if a := w.get("/", ""); a.status != 503 {
						t.Fatalf("status %d, want 503", a.status)
					}
				}
				if n := w.total(); n < tt.least || n > tt.most {
					t.Errorf("%d requests became %d, want %d to %d", requests, n, tt.least, tt.most)
				}
				if unpaid := w.proxy.Counts().Unpaid; (unpaid > 0) != (tt.percent >= 0) {
					t.Errorf("%d were not paid for", unpaid)
				}
				if said := strings.Count(w.log.String(), `"retry budget spent"`) == 1; said != (tt.percent >= 0) {
					t.Errorf("the log says that the budget is spent: %v", said)
				}
				for _, name := range []string{"b", "c"} {
					w.members[name].handler = counter
				}
				w.members["a"].kill()
				for range 9 {
					if a := w.post("/order", "s.a", "x"); a.status != 200 {
						t.Errorf("a refused POST = %d, want 200 from another member", a.status)
					}
				}
			})
		})
	}
}
