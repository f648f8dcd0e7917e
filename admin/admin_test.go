package admin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
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

// TestForm sends the token as a browser does, in a form.
func TestForm(t *testing.T) { // D11
	token, err := admin.ReadToken(write(t, secret+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	const form = "application/x-www-form-urlencoded"
	right := url.Values{admin.FormField: {secret}}.Encode()
	tests := []struct {
		name, target, kind, body string
		header                   map[string]string
		want                     int
	}{
		{"with the token", "/x", form, right, nil, 0},
		{"with a charset", "/x", form + "; charset=utf-8", right, nil, 0},
		{"copied with a blank", "/x", form, right + "+", nil, 0},
		{"from the listener's own page", "/x", form, right, map[string]string{"Origin": "http://example.com"}, 0},
		{"another", "/x", form, right + "r", nil, 401},
		{"none", "/x", form, "", nil, 401},
		{"an empty one", "/x", form, "token=", nil, 401},
		{"in the URL", "/x?" + right, form, "order=drain", nil, 401},
		{"not as a form", "/x", "text/plain", right, nil, 401},
		{"after more than a form has", "/x", form, "a=" + strings.Repeat("x", 9000) + "&" + right, nil, 401},
		{"from another site", "/x", form, right, map[string]string{"Origin": "http://evil.example"}, 403},
		{"from a page that hides its site", "/x", form, right, map[string]string{"Origin": "null"}, 403},
		{"from another site, by what the browser says", "/x", form, right, map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodPost, tt.target, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.kind)
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		if status, why := token.Check(r); status != tt.want || (why == "") != (status == 0) {
			t.Errorf("%s: %d, %q; want %d", tt.name, status, why, tt.want)
		}
		if (admin.Token{}).Known(r) {
			t.Errorf("%s: known though no token is set", tt.name)
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
