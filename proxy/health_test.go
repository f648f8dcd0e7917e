package proxy_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// probed is the setting of the command.
func probed(c *proxy.Config) { c.HealthInterval = time.Second }

// A member that could not be reached is used again as soon as it answers a probe, and
// no request of a client is a trial (mod_jk.md 12), although gossip knows nothing.
func TestHealthProbes(t *testing.T) {
	o := options{without: []string{"a"}, config: probed, lines: "worker.lb.recover_time=60\n"}
	both(t, o, func(t *testing.T, w *world) {
		if got := w.servedBy("/", "JSESSIONID=x.a"); got == "a" || got == "503" {
			t.Fatalf("served by %q, want another member", got)
		}
		for range 300 { // far longer than recover_time
			if got := w.servedBy("/", "JSESSIONID=x.a"); got == "a" || got == "503" {
				t.Fatalf("served by %q, want another member", got)
			}
			time.Sleep(time.Second)
		}
		if n := w.member("a").Served; n != 1 {
			t.Errorf("%d requests have tried the dead member, want the one that found out", n)
		}
		w.members["a"].start()
		time.Sleep(1100 * time.Millisecond)
		if got := w.servedBy("/", "JSESSIONID=x.a"); got != "a" {
			t.Errorf("a second after it was started its session went to %q", got)
		}
	})
}

// A member that answers probes and drops requests costs few of them, not one a second.
func TestFlapping(t *testing.T) {
	drop := func(*fake, *memberConn, *http.Request) bool { return false }
	one(t, options{config: probed, serve: map[string]handler{"a": drop}}, func(t *testing.T, w *world) {
		for range 600 {
			w.servedBy("/", "JSESSIONID=x.a")
			time.Sleep(time.Second)
		}
		n := len(w.members["a"].requests())
		// 1, 2, 4 … seconds apart, then a minute; each is sent twice, since the member
		// lives.
		if n > 2*16 {
			t.Errorf("a member that drops requests got %d of 600, want one a minute in the end", n)
		}
	})
}

// One that is in error because of what it answered is left alone for recover_time,
// however well it answers probes, and then tried by one request.
func TestHealthAfterStatus(t *testing.T) {
	status := "500 Oh"
	serve := func(m *fake, c *memberConn, r *http.Request) bool {
		if status == "" {
			return counter(m, c, r)
		}
		c.say("HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
		return true
	}
	o := options{config: probed, serve: map[string]handler{"a": serve}, lines: "worker.a.fail_on_status=500\nworker.lb.recover_time=30\n"}
	one(t, o, func(t *testing.T, w *world) {
		w.servedBy("/", "JSESSIONID=x.a")
		for range 29 {
			time.Sleep(time.Second)
			w.servedBy("/", "JSESSIONID=x.a")
		}
		if n := len(w.members["a"].requests()); n != 1 {
			t.Errorf("within recover_time it got %d requests, want the one that failed", n)
		}
		status = ""
		time.Sleep(2 * time.Second)
		if got := w.servedBy("/", "JSESSIONID=x.a"); got != "a" {
			t.Errorf("after recover_time its session went to %q", got)
		}
	})
}

// With Compat trials are requests of clients, made after a maintenance (mod_jk.md 3.7
// [T]: maintain=1, recover_time=2, trials about every three seconds).
func TestCompatTrials(t *testing.T) {
	o := options{
		without: []string{"a"}, lines: "worker.maintain=1\nworker.lb.recover_time=2\nworker.a.retries=1\n",
		config: func(c *proxy.Config) { c.HealthInterval, c.Compat = time.Second, true },
	}
	one(t, o, func(t *testing.T, w *world) {
		begun := time.Now()
		var tries []time.Duration
		for range 100 {
			before := w.member("a").Served
			if got := w.servedBy("/", "JSESSIONID=x.a"); got == "a" || got == "503" {
				t.Fatalf("served by %q", got)
			}
			if w.member("a").Served != before {
				tries = append(tries, time.Since(begun).Round(time.Millisecond))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if want := []time.Duration{0, 3 * time.Second, 6 * time.Second, 9 * time.Second}; !slices.Equal(tries, want) {
			t.Errorf("it was tried after %v, want %v", tries, want)
		}
	})
}

// With FastFail nobody waits for members that are all silent, but one request each.
func TestFastFail(t *testing.T) {
	o := options{
		members: []string{"a", "b"}, lines: "worker.a.reply_timeout=5000\nworker.b.reply_timeout=5000\nworker.lb.retries=1\n",
		serve:  map[string]handler{"a": mute, "b": mute},
		config: func(c *proxy.Config) { c.FastFail = true },
	}
	one(t, o, func(t *testing.T, w *world) {
		w.post("/", "s.a", "x")
		w.post("/", "s.b", "x")
		var all []<-chan answer
		for range 20 {
			all = append(all, w.launch(t.Context(), ""))
		}
		time.Sleep(time.Second)
		fast := 0
		for _, got := range all {
			fast += len(got)
		}
		for _, got := range all {
			if a := soon(t, got, time.Minute); a.status != 503 && a.status != 504 {
				t.Errorf("status %d, want 503 or 504", a.status)
			}
		}
		if fast != 18 {
			t.Errorf("%d of 20 requests were answered at once, want all but a trial for each member", fast)
		}
	})
}
