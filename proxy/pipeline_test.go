package proxy_test

import (
	"fmt"
	"testing"
)

// PLUG-1: simple cycling through the list in order.
func TestRoundRobin(t *testing.T) {
	every(t, options{}, func(t *testing.T, w *world) {
		for range 300 {
			if a := w.get("/", ""); a.status != 200 {
				t.Fatalf("status %d", a.status)
			}
		}
		for name, m := range w.members {
			if n := len(m.requests()); n != 100 {
				t.Errorf("member %s got %d requests, want 100", name, n)
			}
		}
	})
}

// PLUG-2: sessions stay where they are.
func TestSticky(t *testing.T) {
	every(t, options{}, func(t *testing.T, w *world) {
		for i := range 1000 {
			want := string(rune('a' + i%3))
			if a := w.get("/", fmt.Sprintf("s%d.%s", i, want)); a.member != want {
				t.Fatalf("request %d of a session on %s was served by %s", i, want, a.member)
			}
		}
	})
}
