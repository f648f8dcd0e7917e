package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/understudy-lb/understudy/examples/node"
)

// TestCart adds to a cart on two nodes at once, and loses one of them: the cart
// has everything, and can be ordered once.
func TestCart(t *testing.T) {
	start := func(name string, join ...string) *node.Node {
		n, err := node.Start(t.Context(), node.Config{Name: name, Listen: "127.0.0.1:0", Gossip: "127.0.0.1:0", Join: join}, routes())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a := start("a")
	killed := sync.OnceFunc(a.Kill)
	defer killed()
	b := start("b", a.Gossip)
	defer b.Kill()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	post := func(n *node.Node, path, what string) (int, string) {
		res, err := c.PostForm(n.URL+path, url.Values{"what": {what}})
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer func() { _ = res.Body.Close() }()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	post(a, "/add", "honey")
	var clicks sync.WaitGroup
	for i := range 20 {
		clicks.Go(func() {
			if code, _ := post([]*node.Node{a, b}[i%2], "/add", "tea"); code != http.StatusOK {
				t.Errorf("click %d: %d", i, code)
			}
		})
	}
	clicks.Wait()
	killed()
	if _, page := post(b, "/add", "bread"); !strings.Contains(page, "20 × tea") || !strings.Contains(page, "1 × honey") || !strings.Contains(page, "1 × bread") {
		t.Errorf("the cart is not complete:\n%s", page)
	}
	if code, _ := post(b, "/add", "gold"); code != http.StatusBadRequest {
		t.Errorf("what is not sold: %d", code)
	}
	if code, page := post(b, "/order", ""); code != http.StatusOK || !strings.Contains(page, "nothing yet") {
		t.Errorf("order: %d\n%s", code, page)
	}
	if code, _ := post(b, "/order", ""); code != http.StatusConflict {
		t.Errorf("order again: %d", code)
	}
}
