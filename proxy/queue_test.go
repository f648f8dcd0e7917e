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

// second answers after a second.
func second(m *fake, c *memberConn, r *http.Request) bool {
	time.Sleep(time.Second)
	return counter(m, c, r)
}

// onePlace lets each of three members have one request at a time, for which others
// wait for up to ten seconds.
func onePlace() options {
	o := options{serve: map[string]handler{}}
	for _, m := range []string{"a", "b", "c"} {
		o.lines += "worker." + m + ".connection_pool_size=1\nworker." + m + ".connection_acquire_timeout=10000\n"
		o.serve[m] = second
	}
	return o
}

// launch sends a GET in the background.
func (w *world) launch(ctx context.Context, session string) <-chan answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxyAddr+"/", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if session != "" {
		r.Header.Set("Cookie", "JSESSIONID="+session)
	}
	got := make(chan answer, 1)
	go func() {
		a, err := w.send(r)
		if err != nil {
			a.err = err
		}
		got <- a
	}()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	return got
}

// A request without a session goes to whoever has room, and waits only if nobody
// has; one with a session waits for its member.
func TestQueue(t *testing.T) {
	every(t, onePlace(), func(t *testing.T, w *world) {
		first := []<-chan answer{w.launch(t.Context(), "s.a"), w.launch(t.Context(), ""), w.launch(t.Context(), "")}
		bound := w.launch(t.Context(), "s.a")
		free := w.launch(t.Context(), "")
		if m := w.member("a"); m.Waiting == 0 || m.InFlight == 0 || m.State != "OK/BUSY" {
			t.Errorf("snapshot: %+v, want one that waits at least, and OK/BUSY (mod_jk.md 3.7)", m)
		}
		by := map[string]int{}
		for _, got := range first {
			a := soon(t, got, time.Second)
			by[a.member]++
		}
		if len(by) != 3 {
			t.Errorf("three requests at a time went to %v, want one to each", by)
		}
		if a := soon(t, bound, 1100*time.Millisecond); a.status != 200 || a.member != "a" {
			t.Errorf("with a session of a: %d by %q, want 200 by a", a.status, a.member)
		}
		if a := soon(t, free, 2*time.Second); a.status != 200 {
			t.Errorf("without a session: %d, want 200", a.status)
		}
		for _, m := range []string{"a", "b", "c"} {
			if s := w.member(m); s.State != "OK" {
				t.Errorf("%s is %s, want OK", m, s.State)
			}
		}
	})
}

// Who would wait for longer than connection_acquire_timeout goes elsewhere.
func TestQueueTimeout(t *testing.T) {
	o := onePlace()
	o.lines = strings.ReplaceAll(o.lines, "10000", "300")
	every(t, o, func(t *testing.T, w *world) {
		first := w.launch(t.Context(), "s.a")
		start := time.Now()
		a := soon(t, w.launch(t.Context(), "s.a"), 10*time.Second)
		if took := time.Since(start).Round(10 * time.Millisecond); a.status != 200 || a.member == "a" || took != 1300*time.Millisecond {
			t.Errorf("%d by %q after %v, want 200 by another after 300 ms and a second", a.status, a.member, took)
		}
		if n := w.member("a").Busy; n != 1 {
			t.Errorf("%d found no room in time, want 1", n)
		}
		soon(t, first, time.Second)
	})
}

// D23: a member that is not to be used any more sends away who waits for it.
func TestQueueIsSentElsewhere(t *testing.T) {
	tests := []struct {
		name string
		do   func(w *world)
	}{
		{"it drains", func(w *world) {
			ms := running("abc")
			ms[0].State = proxy.Draining
			w.proxy.SetMembers(ms)
		}},
		{"it is gone", func(w *world) {
			w.net.Cut("10.0.0.1", "10.0.1.1")
			w.proxy.SetMembers(running("bc"))
		}},
		{"it has moved", func(w *world) {
			ms := running("abc")
			ms[0].Boot, ms[0].Address = 2, "10.0.1.9:1"
			w.proxy.SetMembers(ms)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := onePlace()
			o.lines = strings.ReplaceAll(o.lines, "worker.b.connection_pool_size=1\n", "")
			o.lines = strings.ReplaceAll(o.lines, "worker.c.connection_pool_size=1\n", "")
			o.serve = map[string]handler{"a": func(*fake, *memberConn, *http.Request) bool { time.Sleep(time.Minute); return false }}
			every(t, o, func(t *testing.T, w *world) {
				w.proxy.SetMembers(running("abc"))
				ctx, leave := context.WithCancel(t.Context())
				stuck := w.launch(ctx, "s.a")
				var waiting []<-chan answer
				for range 30 {
					waiting = append(waiting, w.launch(t.Context(), "s.a"))
				}
				tt.do(w)
				for _, got := range waiting {
					if a := soon(t, got, time.Second); a.status != 200 || a.member == "a" {
						t.Fatalf("%d by %q, want 200 by another", a.status, a.member)
					}
				}
				leave()
				<-stuck
				time.Sleep(time.Second) // the proxy looks for its client once a second, in the end
			})
		})
	}
}

// A client that leaves the queue is not served, and nobody's failure (D10).
func TestQueueClientLeavesProxy(t *testing.T) {
	every(t, onePlace(), func(t *testing.T, w *world) {
		first := w.launch(t.Context(), "s.a")
		ctx, leave := context.WithCancel(t.Context())
		second := w.launch(ctx, "s.a")
		leave()
		if a := <-second; !errors.Is(a.err, context.Canceled) {
			t.Errorf("the client got %v", a.err)
		}
		soon(t, first, time.Second)
		time.Sleep(2 * time.Second)
		if n := w.total(); n != 1 {
			t.Errorf("members got %d requests, want 1", n)
		}
		if c := w.proxy.Counts(); c.Gone != 1 || c.Failed != 0 {
			t.Errorf("counts %+v, want one that is gone", c)
		}
	})
}

// D13: a member that refuses connections while requests run on it, because its
// backlog is full for a moment, stays in service; one that does so for long does
// not.
func TestFullBacklog(t *testing.T) {
	slow := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/" {
			return counter(m, c, r)
		}
		time.Sleep(time.Minute)
		return counter(m, c, r)
	}
	for _, refuse := range []time.Duration{300 * time.Millisecond, 5 * time.Second} {
		every(t, options{serve: map[string]handler{"a": slow}}, func(t *testing.T, w *world) {
			a := w.members["a"]
			running := w.ask(t.Context(), "GET", "s.a")
			time.Sleep(100 * time.Millisecond)
			_ = a.ln.Close()
			if got := w.get("/", "s.a"); got.status != 200 || got.member == "a" {
				t.Errorf("while it refuses: %d by %q, want 200 by another", got.status, got.member)
			}
			time.Sleep(refuse)
			a.start()
			time.Sleep(doubt)
			if short := refuse < time.Second; short != (w.member("a").State == "OK/IDLE" || w.member("a").State == "OK") {
				t.Errorf("after %v the member is %s", refuse, w.member("a").State)
			} else if short {
				if got := w.get("/", "s.a"); got.member != "a" {
					t.Errorf("its session went to %q", got.member)
				}
			}
			if got := soon(t, running, 2*time.Minute); got.status != 200 {
				t.Errorf("the request that ran all the time: %d", got.status)
			}
		})
	}
}

// doubt is ample for a probe that follows.
const doubt = 200 * time.Millisecond
