package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// foreign starts a member that is none of our nodes, and returns a workers file that
// names it alone.
func (s *cluster) foreign(h http.Handler) string {
	s.t.Helper()
	member := httptest.NewServer(h)
	s.t.Cleanup(member.Close)
	host, port, _ := net.SplitHostPort(member.Listener.Addr().String())
	return s.file("foreign.properties", fmt.Sprintf(
		"worker.m.type=http\nworker.m.host=%s\nworker.m.port=%s\nworker.lb.type=lb\nworker.lb.balance_workers=m\nworker.list=lb\n", host, port))
}

// switching makes a tunnel of each request, through which everything comes back.
func switching(w http.ResponseWriter, _ *http.Request) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer func() { _ = nc.Close() }()
	_, _ = io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(nc, rw)
}

// shake asks for a tunnel.
func shake(t *testing.T, addr string) (net.Conn, *bufio.Reader, int) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(stage.Patience)); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(nc, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(nc)
	resp, rerr := http.ReadResponse(r, nil)
	if err := errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	return nc, r, resp.StatusCode
}

// A tunnel ends when it was idle, and when the proxy stops, which does not take its
// stop time-out for that; one over the limit is refused (PLUG-48).
func TestTunnels(t *testing.T) {
	s := newCluster(t)
	p := s.proxy(s.foreign(http.HandlerFunc(switching)), false, "--tunnel-timeout", "1s", "--max-tunnels", "1", "--stop-timeout", "1h")
	nc, r, status := shake(t, p.listen)
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("handshake = %d, want 101", status)
	}
	if _, err := io.WriteString(nc, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err != nil || got != "hello\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if n := metric(t, p.admin, `understudy_member_tunnels{member="m",worker="lb"}`); n != 1 {
		t.Errorf("understudy_member_tunnels is %v, want 1", n)
	}
	if _, _, status := shake(t, p.listen); status != http.StatusServiceUnavailable {
		t.Errorf("one more = %d, want 503", status)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("the idle tunnel ended with %q, %v", rest, err)
	}
	stage.Wait(t, "the tunnel is gone", func() bool {
		return metric(t, p.admin, `understudy_member_tunnels{member="m",worker="lb"}`) == 0
	})

	_, r, status = shake(t, p.listen)
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("handshake = %d, want 101", status)
	}
	if code := p.Stop(); code != 0 {
		t.Errorf("the proxy stopped with exit status %d:\n%s", code, p.Output())
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("the tunnel ended with %q, %v", rest, err)
	}
}

// A long upload survives the connection that its member drops, if the spool works;
// if not, it works as long as the member does.
func TestSpool(t *testing.T) {
	s := newCluster(t)
	var drop atomic.Bool
	workers := s.foreign(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || drop.Swap(false) {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(b)
	}))
	body := []byte(strings.Repeat("0123456789abcdef", 1<<16)) // 1 MiB
	put := func(p *proxy) (int, bool) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.listen+"/", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := quick.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		return resp.StatusCode, err == nil && bytes.Equal(got, body)
	}
	p := s.proxy(workers, false, "--spool-dir", t.TempDir(), "--replay-memory", "4096")
	drop.Store(true)
	if status, same := put(p); status != 200 || !same {
		t.Errorf("PUT that was dropped once = %d, the same bytes: %v; want 200 and all of them", status, same)
	}
	if n := metric(t, p.admin, "understudy_spool_bytes"); n != 0 {
		t.Errorf("understudy_spool_bytes is %v, want 0", n)
	}
	for name, p := range map[string]*proxy{
		"failed":  s.proxy(workers, false, "--spool-dir", filepath.Join(s.dir, "none")),
		"refused": s.proxy(workers, false, "--spool-request", "0"),
	} {
		if status, same := put(p); status != 200 || !same {
			t.Errorf("%s: PUT = %d, the same bytes: %v; want 200 and all of them", name, status, same)
		}
		drop.Store(true)
		if status, _ := put(p); status != 502 {
			t.Errorf("%s: PUT that was dropped once = %d, want 502", name, status)
		}
		if n := metric(t, p.admin, "understudy_spool_"+name+"_total"); n != 2 {
			t.Errorf("understudy_spool_%s_total is %v, want 2", name, n)
		}
		if n := len(p.Lines("spool failed")); (n == 1) != (name == "failed") {
			t.Errorf("%s: %d lines of log, want one if it failed:\n%s", name, n, p.Output())
		}
	}
}
