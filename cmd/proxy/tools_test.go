package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/admin"
	"github.com/understudy-lb/understudy/keyfile"
)

// command runs proxy with args and returns what it writes.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(t.Context(), env{
		signalled: func() {}, args: args, getenv: func(string) string { return "" }, stdout: &out, stderr: &errs,
	})
	return out.String(), errs.String(), err
}

func TestKeygenPrintsAKeyFile(t *testing.T) {
	out, _, err := command(t, "keygen")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := keyfile.Parse("stdout", strings.NewReader(out)); err != nil || len(keys) != 1 {
		t.Errorf("keygen printed %d keys, %v; want 1", len(keys), err)
	}
	if again, _, _ := command(t, "keygen"); again == out {
		t.Error("keygen printed the same key twice")
	}
}

func TestKeygenKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.key")
	if _, _, err := command(t, "keygen", "--out", path); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if _, _, err := command(t, "keygen", "--out", path); err != nil {
		t.Errorf("a second time: %v, want nil", err)
	}
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the key has changed, %v", err)
	}

	if err := os.WriteFile(path, []byte("not a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := command(t, "keygen", "--out", path); err == nil || !strings.Contains(err.Error(), "cluster.key:1: ") {
		t.Errorf("over a broken file: %v, want an error that names the line", err)
	}
	if _, _, err := command(t, "keygen", "--out", filepath.Join(path, "sub")); err == nil {
		t.Error("below a file: want an error")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".cluster.key-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "draining", status)
	}))
	defer srv.Close()
	if _, _, err := command(t, "health", srv.URL); err != nil {
		t.Errorf("health of a healthy page: %v", err)
	}
	status = http.StatusServiceUnavailable
	if _, stderr, err := command(t, "health", srv.URL); !errors.Is(err, errFailed) || !strings.Contains(stderr, "draining") {
		t.Errorf("health of a draining page: %v, %q; want errFailed and the reason", err, stderr)
	}
	srv.Close()
	if _, _, err := command(t, "health", srv.URL); !errors.Is(err, errFailed) {
		t.Errorf("health of nothing: %v, want errFailed", err)
	}
}

func TestProfilesNeedTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	ask := func(h http.Handler, path, auth string) int {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	token, err := admin.ReadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	with, without := guardProfiles(page, token), guardProfiles(page, admin.Token{})
	tests := []struct {
		name       string
		h          http.Handler
		path, auth string
		want       int
	}{
		{"status page", with, "/", "", http.StatusOK},
		{"profile without a token", with, "/debug/pprof/heap", "", http.StatusUnauthorized},
		{"profile with a wrong token", with, "/debug/pprof/heap", "Bearer 0123456789abcdeX", http.StatusUnauthorized},
		{"profile with the token", with, "/debug/pprof/heap", "Bearer 0123456789abcdef", http.StatusOK},
		{"profile where no token is set", without, "/debug/pprof/heap", "Bearer ", http.StatusUnauthorized},
	}
	for _, tt := range tests {
		if got := ask(tt.h, tt.path, tt.auth); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
	}
}
