package admin_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/admin"
)

const secret = "correct horse battery staple"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChange(t *testing.T) { // D11
	token, err := admin.ReadToken(write(t, secret+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		token  admin.Token
		method string
		header map[string]string
		want   int
	}{
		{"with the token", token, http.MethodPost, map[string]string{"Authorization": "Bearer " + secret}, 200},
		{"from the listener's own page", token, http.MethodPost, map[string]string{"Authorization": "Bearer " + secret, "Origin": "http://example.com"}, 200},
		{"without", token, http.MethodPost, nil, 401},
		{"another", token, http.MethodPost, map[string]string{"Authorization": "Bearer " + secret + "r"}, 401},
		{"not by Bearer", token, http.MethodPost, map[string]string{"Authorization": secret}, 401},
		{"GET", token, http.MethodGet, map[string]string{"Authorization": "Bearer " + secret}, 405},
		{"from another site", token, http.MethodPost, map[string]string{"Authorization": "Bearer " + secret, "Origin": "http://evil.example"}, 403},
		{"from another site, by what the browser says", token, http.MethodPost, map[string]string{"Authorization": "Bearer " + secret, "Sec-Fetch-Site": "cross-site"}, 403},
		{"no token is set", admin.Token{}, http.MethodPost, map[string]string{"Authorization": "Bearer "}, 401},
	}
	for _, tt := range tests {
		ran := false
		h := tt.token.Change(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
		r := httptest.NewRequest(tt.method, "/x", nil)
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want || ran != (tt.want == 200) {
			t.Errorf("%s: %d, ran %v; want %d", tt.name, w.Code, ran, tt.want)
		}
	}
}

func TestReadToken(t *testing.T) {
	for _, text := range []string{"short", "", strings.Repeat("x", 5000), secret + "\n" + secret} {
		path := write(t, text)
		if _, err := admin.ReadToken(path); err == nil || !strings.Contains(err.Error(), path) || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("a file of %d bytes: %v, want an error that names it and not what is in it", len(text), err)
		}
	}
	if _, err := admin.ReadToken("/no/such/file"); err == nil {
		t.Error("a file that is not there: no error")
	}
	if token, err := admin.ReadToken(""); err != nil || token != (admin.Token{}) {
		t.Errorf("no file: %v, %v", token, err)
	}
}
