package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestProxyReturns is TC-10: the proxy dies and comes back; sessions do not
// notice, for the proxy knows nothing about them.
func TestProxyReturns(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	p := s.proxy(s.workers("a", "b", "c"), true)
	c := s.client(p.listen)
	c.protected()
	before := c.CountN(5)
	p.Kill()
	s.launchProxy(p)
	after := c.Count()
	if after.Node != before.Node {
		t.Errorf("served by %s, want the primary %s", after.Node, before.Node)
	}
	c.CountN(4)
}

// TestTwoProxies is SESS-3: proxies with the same files take turns.
func TestTwoProxies(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	file := s.workers("a", "b", "c")
	p, q := s.proxy(file, true), s.proxy(file, false)
	c := s.client(p.listen)
	first := c.protected()
	for i := range 10 {
		c.Base = "http://" + []string{q.listen, p.listen}[i%2]
		if r := c.Count(); r.Node != first.Node {
			t.Errorf("served by %s, want the primary %s", r.Node, first.Node)
		}
	}
	p.Kill()
	c.Base = "http://" + q.listen
	c.CountN(3)
	s.nodes[first.Primary].Kill()
	c.CountN(3)
}

// TestSticky is PLUG-1 and PLUG-2: requests without a session go round, those
// with one go to its primary.
func TestSticky(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	p := s.proxy(s.workers("a", "b", "c"), true)
	got := map[string]int{}
	for range 30 {
		c := s.client(p.listen)
		r := c.Count()
		got[r.Node]++
		for range 3 {
			if next := c.Count(); next.Node != r.Node {
				t.Fatalf("served by %s, want the primary %s", next.Node, r.Node)
			}
		}
	}
	if got["a"] < 5 || got["b"] < 5 || got["c"] < 5 {
		t.Errorf("30 new sessions went to %v, want a share for each", got)
	}
}

// link finds where a form of the page posts to.
var link = regexp.MustCompile(`action="(/counter[^"]*)"`)

// TestWithoutCookies is SESS-49: a browser that takes no cookies follows the
// links of the page; the session is in them, also after its primary died.
func TestWithoutCookies(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	p := s.proxy(s.workers("a", "b", "c"), true)
	get := func(method, path string) (location, page string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.listen+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		res, err := quick.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= http.StatusBadRequest {
			t.Fatalf("%s %s: %s, %v: %.300s", method, path, res.Status, err, body)
		}
		return res.Header.Get("Location"), string(body)
	}
	_, page := get(http.MethodGet, "/")
	seen := regexp.MustCompile(`<output>(\d+)</output>`)
	node := regexp.MustCompile(`<b>([^<]+)</b>`)
	for want := 1; want <= 6; want++ {
		m := link.FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no form in the page:\n%s", page)
		}
		location, _ := get(http.MethodPost, strings.ReplaceAll(m[1], "&amp;", "&"))
		if !strings.Contains(location, ";jsessionid=") {
			t.Fatalf("redirected to %q, want the session in it", location)
		}
		_, page = get(http.MethodGet, location)
		if m := seen.FindStringSubmatch(page); m == nil || m[1] != strconv.Itoa(want) {
			t.Fatalf("the page shows %v, want %d:\n%s", m, want, page)
		}
		if want == 3 {
			served := node.FindStringSubmatch(page)
			s.nodes[served[1]].Kill()
		}
	}
}

// balancer is load-balancing hardware: each connection goes to the next node
// that accepts, whatever is in it.
type balancer struct {
	addr string
	next atomic.Int64
}

func newBalancer(t *testing.T, targets ...string) *balancer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { b.serve(in, targets) })
		}
	})
	return b
}

func (b *balancer) serve(in net.Conn, targets []string) {
	defer in.Close()
	for range targets {
		out, err := net.Dial("tcp", targets[int(b.next.Add(1))%len(targets)])
		if err != nil {
			continue
		}
		defer out.Close()
		go func() {
			io.Copy(out, in)
			out.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(in, out)
		return
	}
}

// TestPlainBalancer is SESS-33 and SESS-34: without our proxy every request
// lands somewhere else, and the session follows it.
func TestPlainBalancer(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	b := newBalancer(t, s.nodes["a"].listen, s.nodes["b"].listen, s.nodes["c"].listen)
	c := s.client(b.addr)
	c.OneShot = true
	served := map[string]bool{}
	c.protected()
	for range 12 {
		served[c.Count().Node] = true
	}
	if len(served) != 3 {
		t.Errorf("served by %v, want all three", served)
	}
	s.nodes[c.Last().Primary].Kill()
	c.CountN(6)
}

// TestForgedCookies: a cookie that was forged, cut, made elsewhere or is huge
// is no session and no error.
func TestForgedCookies(t *testing.T) {
	s := newCluster(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	honest := s.client(p.listen)
	honest.CountN(2)
	other := newCluster(t, "a", "b")
	foreign := other.client(other.proxy(other.workers("a", "b"), false).listen)
	foreign.Count()

	flipped := []byte(honest.Session)
	flipped[len(flipped)/2] ^= 1
	for name, value := range map[string]string{
		"changed byte": string(flipped),
		"cut":          honest.Session[:len(honest.Session)-7],
		"foreign":      foreign.Session,
		"huge":         strings.Repeat("A", 6000),
		"plain pair":   "abcdefgh!a!b!1.1.1",
		"empty":        `""`,
		"odd bytes":    "\x01\x7f{}<>",
	} {
		t.Run(name, func(t *testing.T) {
			c := s.client(p.listen)
			c.Session = value
			if name == "odd bytes" {
				rawCookie(t, p.listen, value)
				return
			}
			r := c.Must(http.MethodPost, "/counter")
			if r.Counter != 1 || !r.IsNew || r.SessionID == honest.Last().SessionID {
				t.Errorf("%+v: want a new session", r)
			}
		})
	}
	honest.Count()
}

// rawCookie sends bytes that net/http's client would not.
func rawCookie(t *testing.T, addr, value string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /counter HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nCookie: JSESSIONID=%s\r\nConnection: close\r\n\r\n", value)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want 200, or 400 for bytes that no field may hold", res.StatusCode)
	}
}

// TestOrderlyStop: on SIGTERM a node finishes its requests and leaves; the
// proxy too.
func TestOrderlyStop(t *testing.T) {
	s := newCluster(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := s.client(p.listen)
	r := c.protected()

	slow := make(chan error, 1)
	d := s.client(p.listen)
	d.Session = c.Session
	go func() {
		_, err := d.Do(context.WithoutCancel(t.Context()), http.MethodGet, "/sleep?ms=700")
		slow <- err
	}()
	stage.Wait(t, "the slow request is under way", func() bool {
		return metric(t, p.admin, `understudy_member_in_flight{member="`+r.Node+`",worker="lb"}`) > 0
	})
	if code := s.nodes[r.Node].Stop(); code != 0 {
		t.Errorf("the node ends with status %d, want 0", code)
	}
	if err := <-slow; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	c.CountN(2)
	if code := p.Stop(); code != 0 {
		t.Errorf("the proxy ends with status %d, want 0", code)
	}
	if _, err := c.Do(t.Context(), http.MethodGet, "/peek"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the proxy has stopped, but answers: %v", err)
	}
}

// TestTrustedNetworks: the address in the access log is the one that a proxy in
// front tells, if --trusted-networks has that proxy.
func TestTrustedNetworks(t *testing.T) {
	s := newCluster(t, "a")
	workers := s.workers("a")
	ask := func(p *proxy) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.listen+"/peek", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "127.9.9.9, 203.0.113.7")
		res, err := quick.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	trusting := s.proxy(workers, false, "--access-log", "-", "--trusted-networks", "fd00::/8,127.0.0.0/8")
	ask(trusting)
	stage.Wait(t, "the log has the client's address", func() bool {
		return strings.Contains(trusting.Output(), `"client":"203.0.113.7"`)
	})
	wary := s.proxy(workers, false, "--access-log", "-")
	ask(wary)
	stage.Wait(t, "the log has the peer's address", func() bool {
		return strings.Contains(wary.Output(), `"client":"127.0.0.1"`)
	})
}
