//go:build linux

package hosts

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// A servant is a member that speaks as much AJP13 (mod_jk.md 7) as requests without
// a body need. It answers with its name, after N milliseconds at /sleep-N, and never at
// /stuck.
type servant struct {
	*host

	frozen atomic.Bool // takes connections, and says nothing
	ln     net.Listener
	closed chan struct{}
	conns  sync.WaitGroup
}

// serve starts a servant on a host of its own.
func (c *cluster) serve(name string, octet int) *servant {
	c.t.Helper()
	s := &servant{host: c.add(name, octet), closed: make(chan struct{})}
	if err := within(s.ns, func() (err error) {
		s.ln, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.addr(service)+":"+port)
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	s.conns.Go(func() {
		for {
			conn, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() {
				stop := context.AfterFunc(c.t.Context(), func() { conn.Close() })
				defer stop()
				s.answer(conn)
				conn.Close()
			})
		}
	})
	c.t.Cleanup(func() {
		close(s.closed)
		s.ln.Close()
		s.conns.Wait()
	})
	return s
}

// answer serves one connection.
func (s *servant) answer(conn net.Conn) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		p := make([]byte, binary.BigEndian.Uint16(head[2:]))
		if _, err := io.ReadFull(conn, p); err != nil || len(p) == 0 {
			return
		}
		if s.frozen.Load() {
			continue
		}
		if p[0] == 10 { // CPING
			if _, err := conn.Write([]byte{'A', 'B', 0, 1, 9}); err != nil {
				return
			}
			continue
		}
		// Pages say by their names what is to be done: /stuck, /sleep-9000.
		switch _, after, sleep := bytes.Cut(p, []byte("/sleep-")); {
		case bytes.Contains(p, []byte("/stuck")):
			continue
		case sleep:
			digits := after[:bytes.IndexByte(after, 0)]
			ms, _ := strconv.Atoi(string(digits))
			if !s.pause(time.Duration(ms) * time.Millisecond) {
				return
			}
		}
		if _, err := conn.Write(s.reply()); err != nil {
			return
		}
	}
}

// pause waits, but not beyond the end of the test.
func (s *servant) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closed:
		return false
	}
}

// reply is a whole reply, in three packets.
func (s *servant) reply() []byte {
	text := func(b []byte, s string) []byte {
		return append(append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...), 0)
	}
	var out []byte
	packet := func(p []byte) {
		out = append(binary.BigEndian.AppendUint16(append(out, 'A', 'B'), uint16(len(p))), p...)
	}
	h := text(binary.BigEndian.AppendUint16([]byte{4}, 200), "OK")
	h = text(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(h, 1), 0xA003), strconv.Itoa(len(s.name)))
	packet(h)
	packet(append(append(binary.BigEndian.AppendUint16([]byte{3}, uint16(len(s.name))), s.name...), 0))
	packet([]byte{5, 1})
	return out
}

// visit asks a proxy with a session of one member.
func (c *cluster) visit(p *proxy, method, path, session string) (status int, member string, took time.Duration) {
	c.t.Helper()
	transport := &http.Transport{DialContext: c.clients.dial, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+p.addr(service)+":"+port+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Cookie", "JSESSIONID=0123456789abcdef."+session)
	begin := time.Now()
	resp, err := (&http.Client{Transport: transport, Timeout: giveUp}).Do(req)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
		return 0, "", time.Since(begin)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	return resp.StatusCode, string(body), time.Since(begin)
}

// newServants starts a, b and c, which speak AJP13, and a proxy with a session of
// each: it has connections to all.
func newServants(t *testing.T, lb ...string) (*cluster, map[string]*servant, *proxy, setting) {
	t.Helper()
	c := newCluster(t, setting{})
	servants := map[string]*servant{}
	s := setting{nodes: []string{"a", "b", "c"}, kind: "ajp13", member: evaluation, lb: lb}
	for i, name := range s.nodes {
		servants[name] = c.serve(name, 11+i)
		c.nodes[name] = &node{host: servants[name].host}
	}
	p := c.proxy(s)
	for _, name := range s.nodes {
		if status, member, _ := c.visit(p, http.MethodGet, "/", name); status != http.StatusOK || member != name {
			t.Fatalf("a session of %s: %d from %s", name, status, member)
		}
	}
	return c, servants, p, s
}

// TestCableAJP is TC-4 over AJP13, with the settings of the seed's evaluation: the
// cable to the session's member is cut silently, others serve, and after the repair
// it is used again.
func TestCableAJP(t *testing.T) {
	t.Parallel()
	c, _, p, _ := newServants(t, soon...)
	c.cut(between(service, []string{"a"}, []string{"p1"})...)
	status, member, first := c.visit(p, http.MethodPost, "/", "a")
	if status != http.StatusOK || member == "a" || first > 14*time.Second {
		t.Errorf("the first request: %d from %s after %v, want another member within 14s", status, member, first)
	}
	status, member, later := c.visit(p, http.MethodPost, "/", "a")
	if status != http.StatusOK || member == "a" || later > time.Second {
		t.Errorf("the next request: %d from %s after %v: the member is known to be in error", status, member, later)
	}
	c.heal()
	begin := time.Now()
	stage.Wait(t, "the member behind the cable serves its sessions again", func() bool {
		_, member, _ := c.visit(p, http.MethodGet, "/", "a")
		return member == "a"
	})
	saw(t, "the first request: %v, the next: %v, used again %v after the repair", first, later, time.Since(begin))
}

// TestTimeoutsAJP is TC-4b over AJP13: what the three time-outs of the evaluation
// mean.
func TestTimeoutsAJP(t *testing.T) {
	t.Parallel()
	// (a) Nobody answers the connect: 3 s each, three tries.
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		c, _, _, s := newServants(t)
		fresh := c.proxy(s) // has no connection to any member
		c.cut(between(service, []string{"a"}, []string{"p2"})...)
		status, member, first := c.visit(fresh, http.MethodPost, "/", "a")
		if status != http.StatusOK || member == "a" || first < 3*3*time.Second || first > 14*time.Second {
			t.Errorf("the first request: %d from %s after %v, want three times 3s and not much more", status, member, first)
		}
		status, member, later := c.visit(fresh, http.MethodPost, "/", "a")
		if status != http.StatusOK || member == "a" || later > 3*time.Second {
			t.Errorf("the next request: %d from %s after %v: the member is known to be in error", status, member, later)
		}
		saw(t, "the first request: %v, the next: %v", first, later)
	})
	// (b) The connection stands, the CPING before the request is not answered: 0.5 s
	// each.
	t.Run("probe", func(t *testing.T) {
		t.Parallel()
		c, servants, p, _ := newServants(t)
		servants["a"].frozen.Store(true)
		status, member, took := c.visit(p, http.MethodPost, "/", "a")
		if status != http.StatusOK || member == "a" || took < 500*time.Millisecond || took > 6*time.Second {
			t.Errorf("%d from %s after %v, want another member after some probes of 0.5s", status, member, took)
		}
		saw(t, "the first request: %v", took)
	})
	// (c) The request is taken and not answered: 10 s, then 504, or once more by
	// method. What takes 9 s is not cut.
	t.Run("reply", func(t *testing.T) {
		t.Parallel()
		c, _, p, _ := newServants(t)
		var wg sync.WaitGroup
		for _, tt := range []struct {
			method, path string
			want         int
			min, max     time.Duration
		}{
			{http.MethodPost, "/sleep-9000", http.StatusOK, 9 * time.Second, 10 * time.Second},
			{http.MethodGet, "/sleep-9000", http.StatusOK, 9 * time.Second, 10 * time.Second},
			{http.MethodPost, "/stuck", http.StatusGatewayTimeout, 10 * time.Second, 16 * time.Second},
			{http.MethodGet, "/stuck", http.StatusGatewayTimeout, 20 * time.Second, 26 * time.Second},
		} {
			wg.Go(func() {
				status, _, took := c.visit(p, tt.method, tt.path, "b")
				saw(t, "%s %s: %d after %v", tt.method, tt.path, status, took.Round(time.Millisecond))
				if status != tt.want || took < tt.min || took > tt.max {
					t.Errorf("%s %s: %d after %v, want %d after %v to %v", tt.method, tt.path, status, took, tt.want, tt.min, tt.max)
				}
			})
		}
		wg.Wait()
	})
}
