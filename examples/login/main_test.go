package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/examples/node"
)

// A browser keeps its cookies for both nodes: they are on one host.
type browser struct {
	t *testing.T
	c *http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	return &browser{t, &http.Client{Jar: jar, Transport: tr}}
}

func (b *browser) get(n *node.Node, path string) string { return b.do(b.c.Get(n.URL + path)) }

func (b *browser) post(n *node.Node, path string, form url.Values) string {
	return b.do(b.c.PostForm(n.URL+path, form))
}

func (b *browser) do(res *http.Response, err error) string {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s, %v: %s", res.Request.URL, res.Status, err, body)
	}
	return string(body)
}

func wants(t *testing.T, page string, what ...string) {
	t.Helper()
	for _, w := range what {
		if negated, not := strings.CutPrefix(w, "!"); not && strings.Contains(page, negated) || !not && !strings.Contains(page, w) {
			t.Errorf("the page has not what it should, %q:\n%s", w, page)
		}
	}
}

// TestLogin logs in on a node, which then dies: the other one knows the user, has
// shown the welcome once, and knows when the user has logged out.
func TestLogin(t *testing.T) {
	a, b := pair(t)
	u := newBrowser(t)
	wants(t, u.get(a, "/account"), "Please log in.")
	wants(t, u.post(a, "/login", url.Values{"name": {"ada"}, "password": {"guess"}}), "Wrong name or password.", "!Hello")
	wants(t, u.get(a, "/"), "!Wrong")
	wants(t, u.post(a, "/login", url.Values{"name": {"ada"}, "password": {"lovelace"}}), "Welcome.", "Hello, ada")
	a.Kill()
	wants(t, u.get(b, "/"), "Hello, ada", "!Welcome")
	wants(t, u.get(b, "/account"), "ada, since")
	wants(t, u.post(b, "/logout", nil), "!Hello")
	wants(t, u.get(b, "/account"), "Please log in.")
}

// TestFixation: who has planted a cookie is not logged in by it.
func TestFixation(t *testing.T) {
	a, b := pair(t)
	defer a.Kill()
	thief, victim := newBrowser(t), newBrowser(t)
	wants(t, thief.get(a, "/account"), "Please log in.") // has a session now
	at, _ := url.Parse(a.URL)
	victim.c.Jar.SetCookies(at, thief.c.Jar.Cookies(at))
	wants(t, victim.post(a, "/login", url.Values{"name": {"ada"}, "password": {"lovelace"}}), "Hello, ada")
	for _, n := range []*node.Node{a, b} {
		wants(t, thief.get(n, "/"), "!ada")
	}
	wants(t, victim.get(b, "/"), "Hello, ada")
}

// pair starts two nodes; the caller ends the first.
func pair(t *testing.T) (a, b *node.Node) {
	t.Helper()
	a, err := node.Start(t.Context(), node.Config{Name: "a", Listen: "127.0.0.1:0", Gossip: "127.0.0.1:0"}, routes())
	if err != nil {
		t.Fatal(err)
	}
	b, err = node.Start(t.Context(), node.Config{Name: "b", Listen: "127.0.0.1:0", Gossip: "127.0.0.1:0", Join: []string{a.Gossip}}, routes())
	if err != nil {
		a.Kill()
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return a, b
}
