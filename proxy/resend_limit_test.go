package proxy_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/understudy-lb/understudy/proxy"
)

// Without a limit of resends a request still ends: each member gets it as often as
// mod_jk would send it, member after member, in lb.retries rounds.
func TestNoLimitOfResendsEnds(t *testing.T) {
	drop := func(*fake, *memberConn, *http.Request) bool { return false }
	tests := []struct {
		lines   string
		handler handler
		compat  bool
		status  int
		a, b    int // requests that each member gets
	}{
		{"", drop, false, 502, 4, 4}, // twice, and twice more because nobody else is left
		{"", drop, true, 502, 4, 4},  // mod_jk.md 3.8 [T]: 2 tries * 2 members * 2 rounds
		{"worker.a.retries=1\nworker.b.retries=1\nworker.lb.retries=1\n", drop, true, 502, 1, 1},
		{"worker.a.reply_timeout=700\nworker.b.reply_timeout=700\n", mute, true, 504, 4, 4}, // 4.3 [T]
	}
	for _, tt := range tests {
		o := options{
			members: []string{"a", "b"}, lines: tt.lines, serve: map[string]handler{"a": tt.handler, "b": tt.handler},
			config: func(c *proxy.Config) { c.MaxResend, c.Compat = -1, tt.compat },
		}
		one(t, o, func(t *testing.T, w *world) {
			if a := w.get("/", ""); a.status != tt.status {
				t.Errorf("%q: status %d, want %d", tt.lines, a.status, tt.status)
			}
			if a, b := len(w.members["a"].requests()), len(w.members["b"].requests()); a != tt.a || b != tt.b {
				t.Errorf("%q, compat %v: a got %d and b %d, want %d and %d", tt.lines, tt.compat, a, b, tt.a, tt.b)
			}
		})
	}
	// A single server has nobody beside it.
	for compat, want := range map[bool]int{true: 1, false: 2} {
		o := options{
			members: []string{"a"}, lines: "worker.list=a\nworker.a.retries=1\n", rules: "/*=a\n", serve: map[string]handler{"a": drop},
			config: func(c *proxy.Config) { c.MaxResend, c.Compat = -1, compat },
		}
		one(t, o, func(t *testing.T, w *world) {
			if a := w.get("/", ""); a.status != 502 {
				t.Errorf("single, compat %v: status %d, want 502", compat, a.status)
			}
			if got := w.members["a"].requests(); len(got) != want {
				t.Errorf("single, compat %v: it got %q, want %d", compat, got, want)
			}
		})
	}
	one(t, options{serve: map[string]handler{"a": drop}, config: func(c *proxy.Config) { c.MaxResend = 8 }}, func(t *testing.T, w *world) {
		if a := w.get("/", "s.a"); a.status != 200 || a.member == "a" {
			t.Errorf("status %d by %q, want another member's answer", a.status, a.member)
		}
		if got := w.members["a"].requests(); !slices.Equal(got, []string{"GET /", "GET /"}) {
			t.Errorf("the member that drops requests got %q, want two", got)
		}
	})
}
