//go:build linux

package hosts

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestCrash is TC-7 and D8: one request that kills whoever runs it, with 200
// bystanders. It kills one node by POST and at most two by GET, never the last
// one; with gossip no bystander loses the session.
//
// With recovery_options=0 in the file mod_jk's rule is obeyed: any method is sent
// again after the member got it, though only once. So a bystander's POST that was
// in flight at the death may run twice.
func TestCrash(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method  string
		nodes   int
		options string // recovery_options; "" is the default
		gossip  bool
		die     int // at most
	}{
		{http.MethodGet, 2, "", true, 1},
		{http.MethodGet, 3, "", true, 2},
		{http.MethodGet, 4, "", true, 2},
		{http.MethodPost, 2, "", true, 1},
		{http.MethodPost, 3, "", true, 1},
		{http.MethodPost, 4, "", true, 1},
		{http.MethodGet, 3, "3", true, 1},
		{http.MethodGet, 3, "1", true, 1},
		{http.MethodPost, 3, "0", true, 2},
		{http.MethodGet, 2, "", false, 1},
		{http.MethodGet, 3, "", false, 2},
		{http.MethodGet, 4, "", false, 2},
		{http.MethodPost, 3, "1", false, 1},
	}
	for _, tt := range tests {
		name := fmt.Sprintf("%s %d nodes", tt.method, tt.nodes)
		if tt.options != "" {
			name += " options=" + tt.options
		}
		if !tt.gossip {
			name += " without gossip"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setting{nodes: []string{"a", "b", "c", "d"}[:tt.nodes], gossip: tt.gossip}
			if tt.options != "" {
				s.member = []string{"recovery_options=" + tt.options}
			}
			crash(t, s, tt.method, tt.die)
		})
	}
}

func crash(t *testing.T, s setting, method string, most int) {
	t.Helper()
	const bystanders, busy = 200, 20
	c := newCluster(t, s)
	p := c.proxy(s)
	idle := make([]*stage.Client, bystanders-busy)
	for i := range idle {
		idle[i] = c.client(p)
		idle[i].Must(http.MethodPost, "/set?name=ballast&bytes=65536") // so that new copies take time
		c.protected(idle[i])
	}
	crowd := c.count(p, busy, 200*time.Millisecond)
	deadly := c.client(p)
	before := c.protected(deadly)

	begin := time.Now()
	code, took := status(deadly, method, "/crash")
	died := time.Now()
	if code != http.StatusBadGateway {
		t.Errorf("%s /crash: status %d, want 502", method, code)
	}
	after := deadly.Must(http.MethodPost, "/counter")
	if s.gossip && (after.Lost || after.Counter != before.Counter+1) {
		t.Errorf("the next request: %v after %v, want the session to go on", after, before)
	}

	crowd.moving(t, stage.Patience, died)
	lost := 0
	for i, client := range idle {
		was := client.Last()
		r := client.Must(http.MethodPost, "/counter")
		switch {
		case r.Lost:
			lost++
		case r.Counter != was.Counter+1 || r.SessionID != was.SessionID:
			t.Errorf("bystander %d: %v after %v", i, r, was)
		}
	}
	dead := len(s.nodes) - len(c.survivors())
	if dead < 1 || dead > most {
		t.Errorf("%d nodes died, want 1 to %d", dead, most)
	}
	logs := crowd.halt()
	if slices.Contains(s.member, "recovery_options=0") {
		doubles(t, logs)
	}
	faults(t, logs)
	lost += len(flagged(logs))
	seen := stage.See(begin, time.Now(), logs...)
	saw(t, "%s /crash: %d after %v; %d of %d nodes died; of %d bystanders %d lost their session",
		method, code, took.Round(time.Millisecond), dead, len(s.nodes), bystanders, lost)
	saw(t, "busy bystanders: %v", seen)
	never(t, seen, 10*time.Second)
	if s.gossip && lost > 0 {
		t.Errorf("%d bystanders lost their session, want none", lost)
	}
}

// doubles takes the faults out of logs that come from a POST which ran on a node
// that died, and then on another one: the reply is one more than it may be.
func doubles(t *testing.T, logs [][]stage.Exchange) {
	t.Helper()
	for _, log := range logs {
		for i := range log {
			x := &log[i]
			if x.Fault != "" && x.Err == nil && !x.Reply.Lost && x.Reply.SessionID == x.Before.SessionID && x.Reply.Counter == x.Before.Counter+2 {
				saw(t, "a POST ran twice, as recovery_options=0 wants it: %v after %v", x.Reply, x.Before)
				x.Fault = ""
			}
		}
	}
}

// TestException is TC-8: what a handler has set before it fails is in the
// session, also on the copy; the client gets 500 and the node goes on.
func TestException(t *testing.T) {
	t.Parallel()
	s := setting{nodes: []string{"a", "b", "c"}, gossip: true}
	c := newCluster(t, s)
	p := c.proxy(s)
	client := c.client(p)
	before := c.protected(client)
	for i, method := range []string{http.MethodPost, http.MethodGet} {
		if code, _ := status(client, method, "/exception"); code != http.StatusInternalServerError {
			t.Errorf("%s /exception: status %d, want 500", method, code)
		}
		if r := client.Must(http.MethodGet, "/peek"); r.Counter != before.Counter+i+1 || r.Node != before.Primary || r.Lost {
			t.Errorf("after %s /exception: %v after %v, want what was set before it, on the same node", method, r, before)
		}
	}
	c.nodes[before.Primary].Kill()
	r := client.Must(http.MethodPost, "/counter")
	if r.Counter != before.Counter+3 || r.Lost || r.IsNew || r.Node != before.Secondary {
		t.Errorf("after the node died: %v, want %d on %s", r, before.Counter+3, before.Secondary)
	}
	saw(t, "500 twice; after the death of the node: %v after %v", r, before)
}
