package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestLimits fills a cluster: a node that has as many sessions, or bytes, as it
// may refuses new ones with Not-Executed, and the proxy gives them to another one,
// until all are full and the client gets 503 with Retry-After (OVER-9, OVER-10).
// Whoever has a session goes on all the while, and where one has ended there is
// room for another.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		flag   string
		make   string // the request that makes a session
		gossip bool   // the proxy is told who is full
		least  int    // sessions that fit, each with its copy
		most   int    // the last ones may find room for themselves only
	}{
		{"sessions", "--max-sessions=2", "/counter", false, 6, 6},
		{"sessions, and the proxy knows who is full", "--max-sessions=2", "/counter", true, 6, 6},
		{"bytes", "--max-session-memory=200000", "/set?name=ballast&bytes=5000", false, 40, 54}, // 600,000 bytes, less a tenth, and twice 5,600 each
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newCluster(t)
			names := []string{"a", "b", "c"}
			for _, name := range names {
				s.add(name, tt.flag)
			}
			for _, name := range names {
				s.ready(name)
			}
			p := s.proxy(s.workers(names...), tt.gossip)
			var inside []*client
			var refused *client
			for refused == nil && len(inside) <= tt.most {
				c := s.client(p.listen)
				if _, err := c.Do(t.Context(), http.MethodPost, tt.make); err == nil {
					inside = append(inside, c)
				} else if refused = c; !strings.Contains(err.Error(), "503") || c.Session != "" {
					t.Errorf("a new client: %v, cookie %q; want 503 and none", err, c.Session)
				}
				for _, c := range inside { // nobody is harmed
					if r := c.Must(http.MethodPost, "/counter"); r.IsNew || r.Lost || r.Secondary == "NONE" && len(inside) <= tt.least {
						t.Fatalf("with %d sessions: %v", len(inside), r)
					}
				}
			}
			if n := len(inside); n < tt.least || n > tt.most {
				t.Fatalf("%d clients got a session, want %d to %d", n, tt.least, tt.most)
			}
			var elsewhere float64
			for _, name := range names {
				elsewhere += metric(t, s.nodes[name].admin, "understudy_sessions_refused_total")
			}
			if elsewhere == 0 {
				t.Error("no node has refused a session")
			}

			res, err := quick.Post("http://"+p.listen+tt.make, "", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || res.Header.Get("Understudy-Not-Executed") != "" {
				t.Errorf("all are full: %s, %v; want 503 with Retry-After, and nothing that is between proxy and node", res.Status, res.Header)
			}
			if r := refused.Must(http.MethodGet, "/peek"); !r.IsNew {
				t.Errorf("a request that needs no session: %v", r)
			}

			leaving := max(1, len(inside)/4) // a node may hold more copies than bytes for new sessions
			for _, c := range inside[:leaving] {
				if _, err := c.Ask(t.Context(), http.MethodPost, "/invalidate"); err != nil {
					t.Fatal(err)
				}
			}
			stage.Wait(t, "there is room for one more", func() bool {
				_, err := refused.Do(t.Context(), http.MethodPost, tt.make)
				return err == nil
			})
			for _, c := range append(inside[leaving:], refused) {
				before := c.Last().Counter
				if r := c.Must(http.MethodPost, "/counter"); r.Counter != before+1 || r.Lost || r.IsNew {
					t.Errorf("at the end: %v after %d", r, before)
				}
			}
		})
	}
}
