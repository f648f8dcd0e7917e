package session

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/test/pipenet"
)

var _ Cluster = (*cluster.Cluster)(nil)

// The same with members that find each other, and notice death, by gossip.
func TestFailoverWithGossip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := cookie.New(cookie.Config{Keys: [][]byte{bytes.Repeat([]byte{7}, 32)}})
		if err != nil {
			t.Fatal(err)
		}
		network := pipenet.New()
		nodes := map[string]*node{}
		stop := map[string]func(){}
		start := func(name, ip string, boot uint32) {
			host := network.Host(ip)
			ln, err := host.Listen("tcp", ":7000")
			if err != nil {
				t.Fatal(err)
			}
			cl, err := cluster.New(cluster.Config{
				Self: cluster.Member{Name: name, Boot: boot, HTTP: ip + ":80", Replication: ip + ":7000"},
				Bind: ip + ":7946", Join: []string{"10.0.0.1:7946", "10.0.0.2:7946"},
				Keys: [][]byte{bytes.Repeat([]byte{8}, 32)}, Network: host,
			})
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(Config{
				Cluster: cl, Codec: codec, Listener: ln, Keys: [][]byte{bytes.Repeat([]byte{9}, 32)}, Placement: Ring, JoinTimeout: 5 * time.Second,
				Dial: func(ctx context.Context, addr string) (net.Conn, error) { return host.Dial(ctx, "tcp", addr) },
			})
			if err != nil {
				t.Fatal(err)
			}
			nodes[name] = &node{name: name, ip: ip, host: host, m: m, h: m.Handler(http.HandlerFunc(demo))}
			stop[name] = func() {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = m.Close(ctx)
				_ = cl.Close()
			}
		}
		start("a", "10.0.0.1", 1)
		start("b", "10.0.0.2", 2)
		start("c", "10.0.0.3", 3)
		defer func() {
			for _, end := range stop {
				end()
			}
		}()
		settled := func(names ...string) {
			t.Helper()
			for range 100 {
				ready := true
				for _, name := range names {
					up := 0
					for _, l := range nodes[name].m.links.snapshot() {
						if ok, _ := l.isUp(); ok {
							up++
						}
					}
					ready = ready && nodes[name].m.Ready() == nil && up == len(names)-1
				}
				if ready {
					time.Sleep(time.Second) // for the news that all are running
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Fatalf("%v have not met", names)
		}
		settled("a", "b", "c")
		b := &browser{t: t}
		b.count(nodes["a"], 1, "a!b")
		nodes["a"].host.Kill()
		stop["a"]()
		b.count(nodes["b"], 2, "b!c")
		start("a", "10.0.0.1", 4)
		settled("a", "b", "c")
		nodes["b"].host.Kill()
		stop["b"]()
		b.count(nodes["c"], 3, "c!a")
	})
}
