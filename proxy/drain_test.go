package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// A disabled member keeps its sessions until the deadline; how many it has is known, and
// when there are none any more that is an event.
func TestDrainDeadline(t *testing.T) {
	o := options{config: func(c *proxy.Config) { c.DrainDeadline, c.DrainIdle = time.Hour, 10*time.Minute }}
	both(t, o, func(t *testing.T, w *world) {
		change(t, w, set("lb", "a", "activation", "D"))
		change(t, w, set("lb", "b", "activation", "D"))
		for range 3 {
			for _, id := range []string{"x", "y"} {
				if got := w.servedBy("/", "JSESSIONID="+id+".a"); got != "a" {
					t.Fatalf("a session of a went to %q", got)
				}
			}
		}
		if d := w.member("a").Draining; d == nil || d.Left != 2 || d.EndsIn.Round(time.Second) != time.Hour {
			t.Errorf("draining is %+v, want two sessions left and an hour to go", d)
		}
		if d := w.member("c").Draining; d != nil {
			t.Errorf("an active member drains: %+v", d)
		}
		for range 7 {
			time.Sleep(9 * time.Minute)
			w.servedBy("/", "JSESSIONID=x.a")
		}
		time.Sleep(2 * time.Second)
		if got := w.servedBy("/", "JSESSIONID=x.a"); got != "c" {
			t.Errorf("after the deadline a session of a went to %q", got)
		}
		for event, member := range map[string]string{"drain ended by its deadline": "a", "member drained": "b"} {
			n := 0
			for line := range strings.Lines(w.log.String()) {
				if strings.Contains(line, event) && strings.Contains(line, `"member":"`+member+`"`) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d events %q of %s, want 1", n, event, member)
			}
		}
		change(t, w, set("lb", "a", "activation", "A"))
		if got := w.servedBy("/", "JSESSIONID=x.a"); got != "a" || w.member("a").Draining != nil {
			t.Errorf("active again: went to %q, %+v", got, w.member("a").Draining)
		}
	})
}
