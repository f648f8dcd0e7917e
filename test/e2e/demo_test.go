package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestDemo is what the README promises: open the page, count, kill the node
// that serves you, count on where you stood.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	s := &cluster{t: t}
	listen, admin := stage.FreeAddr(t), stage.FreeAddr(t)
	demo := start(t, "demo", binaries.Proxy, "demo", "--listen", listen, "--admin", admin)
	stage.Wait(t, "three nodes are in service", func() bool {
		return strings.Count(get(t, "http://"+admin+"/api/members"), `"phase": "running"`) == 3
	})
	mark := stage.Hold(t, demo, "http://"+admin, nil)
	c := s.client(listen)
	stage.Wait(t, "the session has a secondary", func() bool { return c.Count().Secondary != "NONE" })
	before := c.Count()

	// Kill what the page says.
	pid := regexp.MustCompile(`kill -9 (\d+)`).FindStringSubmatch(page(t, c))
	if pid == nil {
		t.Fatal("the page does not say what to kill")
	}
	n, err := strconv.Atoi(pid[1])
	if err != nil {
		t.Fatal(err)
	}
	node, err := os.FindProcess(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	stage.Wait(t, "the demo has seen its node die", func() bool {
		return strings.Contains(demo.Output(), "node "+before.Node+" is gone")
	})
	after := c.Count()
	if after.Node != before.Secondary || after.Secondary == before.Primary {
		t.Errorf("after the death of %s: served by %s with secondary %s, want the old secondary %s and a living one",
			before.Primary, after.Node, after.Secondary, before.Secondary)
	}
	if html := page(t, c); !strings.Contains(html, "<b>"+after.Secondary+"</b>") {
		t.Errorf("the page does not name the new secondary %s:\n%s", after.Secondary, html)
	}

	// Drain another one on the status page, with the token that the demo has told.
	token := regexp.MustCompile(`with the token\s+(\S+)`).FindStringSubmatch(demo.Output())
	if token == nil {
		t.Fatalf("the demo does not tell the token: %s", demo.Output())
	}
	submit(t, admin, "drain", after.Node, token[1])
	stage.Wait(t, "the session has moved", func() bool { return c.Count().Node != after.Node })
	c.Close()
	mark.Returned(t)
	if code := demo.Stop(); code != 0 {
		t.Errorf("the demo ends with status %d, want 0", code)
	}
	for _, line := range regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(demo.Output(), -1) {
		if n, err := strconv.Atoi(line[1]); err == nil && running(n) {
			t.Errorf("process %d of the demo still runs", n)
		}
	}
}

// running reports whether there is a process n.
func running(n int) bool {
	p, err := os.FindProcess(n)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// page is what a browser shows for the client's session.
func page(t *testing.T, c *client) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Cookie", "JSESSIONID="+c.Session)
	return body(t, req)
}

// get returns a page, "" if it cannot be had.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return body(t, req)
}

func body(t *testing.T, req *http.Request) string {
	t.Helper()
	res, err := quick.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var b strings.Builder
	if err := res.Write(&b); err != nil {
		return ""
	}
	return b.String()
}
