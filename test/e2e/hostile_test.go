package e2e

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestGarbage: bytes that are neither gossip nor replication are dropped,
// their connections closed, and counted; the cluster goes on.
func TestGarbage(t *testing.T) {
	s := newCluster(t, "a", "b")
	p := s.proxy(s.workers("a", "b"), true)
	c := s.client(p.listen)
	c.CountN(2)
	noise := make([]byte, 4096)
	rand.Read(noise)
	replication := replicationAddr(t, s.nodes["a"])
	for name, addr := range map[string]string{"gossip": s.nodes["a"].gossip, "replication": replication} {
		for what, bytes := range map[string][]byte{
			"noise": noise, "http": []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "zeros": make([]byte, 64),
		} {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			conn.Write(bytes)
			conn.(*net.TCPConn).CloseWrite()
			conn.SetReadDeadline(time.Now().Add(stage.Patience))
			for buf := make([]byte, 512); err == nil; {
				_, err = conn.Read(buf) // what comes back, until the end
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s on the %s port: the connection stays open", what, name)
			}
			conn.Close()
		}
	}
	udp, err := net.Dial("udp", s.nodes["a"].gossip)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for range 10 {
		udp.Write(noise[:1000])
	}
	for _, sample := range []string{"understudy_gossip_garbage_total", "understudy_replication_garbage_total"} {
		stage.Wait(t, sample+" counts", func() bool { return metric(t, s.nodes["a"].admin, sample) > 0 })
	}
	c.CountN(3)
}

// replicationAddr finds the port that the kernel chose, in the node's log.
func replicationAddr(t *testing.T, n *node) string {
	t.Helper()
	var rest string
	ok := false
	for line := range strings.Lines(n.Output()) {
		if strings.Contains(line, `"node started"`) {
			_, rest, ok = strings.Cut(line, `"replication":"`)
		}
	}
	if !ok {
		t.Fatalf("no replication address in the log:\n%s", n.Output())
	}
	addr, _, _ := strings.Cut(rest, `"`)
	return addr
}
