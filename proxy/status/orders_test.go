package status

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/admin"
)

const secret = "a token that nobody guesses"

// token returns the one that is secret; empty: none.
func token(t *testing.T, secret string) admin.Token {
	t.Helper()
	if secret == "" {
		return admin.Token{}
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := admin.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A boss takes orders.
type boss struct {
	srv  *httptest.Server
	took []string
}

// newBoss serves an admin listener of which the token is as given; empty: none.
func newBoss(t *testing.T, secret string) *boss {
	t.Helper()
	b := new(boss)
	h, err := New(Config{Snapshot: sample, Token: token(t, secret), Order: b.order})
	if err != nil {
		t.Fatal(err)
	}
	b.srv = httptest.NewServer(h)
	t.Cleanup(b.srv.Close)
	return b
}

func (b *boss) order(route string, drain bool) (string, error) {
	switch route {
	case "a", "c", "a/b":
		b.took = append(b.took, fmt.Sprint(route, " ", drain))
		return route + " was told", nil
	case "east.b":
		return "", errors.New("gossip: <refused>")
	}
	return "", fmt.Errorf("there is %w %q", ErrNoMember, route)
}

// send makes a request and returns the reply, a redirect too, with its body.
func (b *boss) send(t *testing.T, method, path string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.srv.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestOrders is what POST does, by the page and by scripts (SESS-39, D11).
func TestOrders(t *testing.T) {
	form := func(order, route, token string) url.Values {
		return url.Values{order: {route}, "token": {token}}
	}
	bearer := []string{"Authorization", "Bearer " + secret}
	tests := []struct {
		name, method, path string
		form               url.Values
		header             []string
		status             int
		has                string
		took               string
	}{
		{"the page drains", "POST", "/", form("drain", "a", secret), nil, 303, "", "a true"},
		{"the page resumes", "POST", "/", form("resume", "c", secret), nil, 303, "", "c false"},
		{"another token", "POST", "/", form("drain", "a", secret+"x"), nil, 401, "Not done: that is not the token.", ""},
		{"no token", "POST", "/", form("drain", "a", ""), nil, 401, "Not done", ""},
		{"of nobody", "POST", "/", form("drain", "x", secret), nil, 404, "Not done: there is no member &#34;x&#34;.", ""},
		{"one that cannot be told", "POST", "/", form("drain", "east.b", secret), nil, 502, "Not done: gossip: &lt;refused&gt;.", ""},
		{"without an order", "POST", "/", url.Values{"token": {secret}}, nil, 400, "", ""},
		{"from another site", "POST", "/", form("drain", "a", secret), []string{"Origin", "https://evil.example"}, 403, "", ""},
		{"from a page that hides its site", "POST", "/", form("drain", "a", secret), []string{"Origin", "null"}, 403, "", ""},
		{"too long", "POST", "/", form("drain", strings.Repeat("a", 20000), secret), nil, 400, "", ""},
		{"by GET", "GET", "/?" + form("drain", "a", secret).Encode(), nil, bearer, 200, "Drain a?", ""},
		{"a script drains", "POST", "/api/members/a/drain", nil, bearer, 200, "a was told\n", "a true"},
		{"a script resumes", "POST", "/api/members/c/resume", nil, bearer, 200, "c was told\n", "c false"},
		{"an odd name", "POST", "/api/members/a%2Fb/resume", nil, bearer, 200, "a/b was told\n", "a/b false"},
		{"a script without the token", "POST", "/api/members/a/drain", nil, nil, 401, "", ""},
		{"a script of another site", "POST", "/api/members/a/drain", nil, append(bearer, "Sec-Fetch-Site", "cross-site"), 403, "", ""},
		{"a script by GET", "GET", "/api/members/a/drain", nil, bearer, 405, "", ""},
		{"of nobody, by a script", "POST", "/api/members/x/drain", nil, bearer, 404, `there is no member "x"`, ""},
		{"one that cannot be told, by a script", "POST", "/api/members/east.b/drain", nil, bearer, 502, "gossip: <refused>", ""},
		{"another order", "POST", "/api/members/a/stop", nil, bearer, 404, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBoss(t, secret)
			res, body := b.send(t, tt.method, tt.path, tt.form, tt.header...)
			if took := strings.Join(b.took, ", "); res.StatusCode != tt.status || took != tt.took {
				t.Errorf("%d, orders %q; want %d, %q", res.StatusCode, took, tt.status, tt.took)
			}
			if !strings.Contains(body, tt.has) {
				t.Errorf("no %q in %s", tt.has, body)
			}
			if strings.Contains(body, secret) {
				t.Error("the token is in the reply")
			}
			if res.StatusCode == http.StatusSeeOther {
				if where := res.Header.Get("Location"); where != "./" {
					t.Errorf("Location = %q", where)
				}
				if _, page := b.send(t, "GET", "/", nil); !strings.Contains(page, " was told <span") {
					t.Errorf("the page does not say what was done: %s", page)
				}
			}
		})
	}
}

// TestForm checks where the form is, and that a browser keeps it to ours.
func TestForm(t *testing.T) { // D11; D35: by GET nothing changes
	for _, tt := range []struct {
		token, path string
		has, hasNot string
		formAction  string
	}{
		{secret, "/", `href="?drain=a"`, "<form", "'none'"},
		{secret, "/", `href="?resume=c"`, "--admin-token", "'none'"},
		{secret, "/?drain=a", `type="password"`, "http-equiv", "'self'"},
		{secret, "/?drain=a&refresh=1", "42 now, and 0 copies", "http-equiv", "'self'"},
		{secret, "/?drain=east.b", "does not gossip", "http-equiv", "'self'"},
		{secret, "/?resume=%3Cb%3E", "&lt;b&gt;", "<b>", "'self'"},
		{"", "/", "--admin-token", "?drain", "'none'"},
		{"", "/?drain=a", "--admin-token", "<form", "'none'"},
	} {
		res, body := newBoss(t, tt.token).send(t, "GET", tt.path, nil)
		if !strings.Contains(body, tt.has) || strings.Contains(body, tt.hasNot) {
			t.Errorf("token %q, %s: want %q in it and not %q:\n%s", tt.token, tt.path, tt.has, tt.hasNot, body)
		}
		if csp := res.Header.Get("Content-Security-Policy"); !strings.HasSuffix(csp, "; form-action "+tt.formAction) || !strings.Contains(csp, "default-src 'none'") {
			t.Errorf("token %q, %s: Content-Security-Policy %q", tt.token, tt.path, csp)
		}
		// With no-referrer a browser would send Origin: null with the form, which is refused.
		if p := res.Header.Get("Referrer-Policy"); p != "same-origin" {
			t.Errorf("Referrer-Policy %q", p)
		}
	}
	b := newBoss(t, "")
	if res, _ := b.send(t, "POST", "/", url.Values{"drain": {"a"}, "token": {""}}); res.StatusCode != http.StatusUnauthorized || b.took != nil {
		t.Errorf("without a token: %d, orders %q", res.StatusCode, b.took)
	}
}

func TestLeft(t *testing.T) {
	for want, m := range map[string]Member{
		"":                             {Phase: "running", Sessions: 3},
		" ":                            {Phase: "draining", Sessions: Unknown},
		"nothing left":                 {Phase: "draining"},
		"3 sessions and 0 copies left": {Phase: "draining", Sessions: 3},
	} {
		var page bytes.Buffer
		if err := WriteHTML(&page, Snapshot{Workers: []Worker{{Members: []Member{m}}}}, Page{Now: now}); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(page.String(), "left</span>"); has != (strings.TrimSpace(want) != "") || !strings.Contains(page.String(), strings.TrimSpace(want)) {
			t.Errorf("%+v: want %q in\n%s", m, want, page.String())
		}
	}
}
