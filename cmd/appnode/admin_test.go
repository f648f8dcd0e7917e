package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/session/peer"
)

// TestOperator starts a node and does what an operator may: see how much it holds,
// and end one session by its hash, with the token. Neither pages nor metrics
// have an id.
func TestOperator(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parseConfig([]string{"--name", "a", "--admin", "127.0.0.1:0", "--admin-token", token, "--log-level", "error"}, func(string) string { return "" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(t.Context(), cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.serve(ctx, func() {}) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	for end := time.Now().Add(10 * time.Second); n.sessions.Ready() != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
	} // nothing tells when it is
	if err := n.sessions.Ready(); err != nil {
		t.Fatal(err)
	}

	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/counter", nil))
	var made view
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.SessionID == "" {
		t.Fatalf("/counter = %q, %v", w.Body, err)
	}
	get := func(path string) string {
		t.Helper()
		w := httptest.NewRecorder()
		n.adminMux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s = %d", path, w.Code)
		}
		if strings.Contains(w.Body.String(), made.SessionID) {
			t.Errorf("%s has the session's id", path)
		}
		return w.Body.String()
	}
	var list struct {
		Primary struct{ Sessions, Bytes int }
		List    []struct{ Hash, Role string }
	}
	if err := json.Unmarshal([]byte(get("/api/sessions?limit=10")), &list); err != nil || list.Primary.Sessions != 1 || list.Primary.Bytes == 0 || len(list.List) != 1 {
		t.Fatalf("/api/sessions: %+v, %v; want one session", list, err)
	}
	if text := get("/metrics"); !strings.Contains(text, `understudy_sessions{role="primary"} 1`) || !strings.Contains(text, `understudy_session_bytes{role="primary"}`) {
		t.Errorf("/metrics does not count the session:\n%s", text)
	}

	end := func(authorization string) int {
		r := httptest.NewRequest(http.MethodPost, "/api/sessions/end?hash="+list.List[0].Hash, nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		n.adminMux.ServeHTTP(w, r)
		return w.Code
	}
	for _, tt := range []struct {
		authorization string
		want          int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer 0123456789abcdef", http.StatusNoContent},
		{"Bearer 0123456789abcdef", http.StatusNotFound},
	} {
		if got := end(tt.authorization); got != tt.want {
			t.Errorf("end with %q = %d, want %d", tt.authorization, got, tt.want)
		}
	}
	if s := n.sessions.Stats(); s.Primary != 0 || s.Tombstones != 1 {
		t.Errorf("%d sessions and %d tombstones are left, want 0 and 1", s.Primary, s.Tombstones)
	}
}

// TestDegraded: what /healthz says of each state of replication (TC-9b).
func TestDegraded(t *testing.T) {
	status := func(name string, s peer.State) peer.Status {
		return peer.Status{Member: peer.Member{ID: peer.ID{Name: name, Boot: 1}}, State: s}
	}
	tests := []struct {
		name  string
		peers []peer.Status
		want  string
	}{
		{"all there", []peer.Status{status("b", peer.Up), status("c", peer.Up)}, ""},
		{"one died", []peer.Status{status("b", peer.Gone), status("c", peer.Up)}, ""},
		{"one is silent", []peer.Status{status("b", peer.Unreachable), status("c", peer.Up)}, "not connected with b"},
		{"one has not compared yet", []peer.Status{status("b", peer.Up), status("c", peer.Comparing)}, "not connected with c"},
		{"cut off", []peer.Status{status("b", peer.Unreachable), status("c", peer.Dialling)}, "not connected with b, c; sessions have no copies"},
		{"the last one", []peer.Status{status("b", peer.Gone)}, "no other node is there; sessions have no copies"},
		{"alone", nil, "no other node is there; sessions have no copies"},
	}
	for _, tt := range tests {
		if got := degraded(tt.peers); got != tt.want {
			t.Errorf("%s: degraded = %q, want %q", tt.name, got, tt.want)
		}
	}
}
