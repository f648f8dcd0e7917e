package node_test

import (
	"net/http"
	"net/http/cookiejar"
	"testing"

	"github.com/understudy-lb/understudy/examples/node"
	"github.com/understudy-lb/understudy/session"
)

var visitsKey = session.NewKey[int]("visits")

// A node that stops hands its sessions over first.
func TestStop(t *testing.T) {
	visits := 0
	pages := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		n, _ := visitsKey.Get(s)
		visits = n + 1
		if err := visitsKey.Set(s, visits); err != nil {
			t.Error(err)
		}
	})
	a, err := node.Start(t.Context(), node.Config{Name: "a", Listen: "127.0.0.1:0", Gossip: "127.0.0.1:0"}, pages)
	if err != nil {
		t.Fatal(err)
	}
	b, err := node.Start(t.Context(), node.Config{Name: "b", Listen: "127.0.0.1:0", Gossip: "127.0.0.1:0", Join: []string{a.Gossip}}, pages)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	jar, _ := cookiejar.New(nil)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	c := &http.Client{Jar: jar, Transport: tr}
	for _, n := range []*node.Node{a, a, b} {
		if n == b {
			tr.CloseIdleConnections()
			if err := a.Stop(t.Context()); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		res, err := c.Get(n.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if visits != 3 {
		t.Errorf("the third visit is number %d", visits)
	}
}
