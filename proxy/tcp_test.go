package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/frontend"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A tcp is a proxy and one member on the loopback interface, for what a network in
// memory does not show: resets that overtake data, and what the kernel does itself.
type tcp struct {
	t     *testing.T
	proxy *proxy.Proxy
	front *frontend.Server
	addr  string
	lns   [2]net.Listener
	done  sync.WaitGroup
}

// newTCP starts it; serve has each connection to the member, which is then closed.
// If serve is nil the caller serves w.lns[1].
func newTCP(t *testing.T, cfg proxy.Config, serve func(nc net.Conn)) *tcp {
	t.Helper()
	w := &tcp{t: t, lns: [2]net.Listener{listen(t), listen(t)}}
	host, port, _ := net.SplitHostPort(w.lns[1].Addr().String())
	file, err := worker.Parse("workers.properties", strings.NewReader(fmt.Sprintf(
		"worker.a.type=http\nworker.a.host=%s\nworker.a.port=%s\nworker.lb.type=lb\nworker.lb.balance_workers=a\nworker.list=lb\n", host, port)), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Workers = file
	cfg.Log = zerolog.New(zerolog.NewTestWriter(t))
	if w.proxy, err = proxy.New(cfg); err != nil {
		t.Fatal(err)
	}
	if w.front, err = frontend.New(frontend.Config{Proxy: w.proxy}); err != nil {
		t.Fatal(err)
	}
	w.addr = w.lns[0].Addr().String()
	w.done.Go(func() { _ = w.front.Serve(w.lns[0]) })
	if serve == nil {
		return w
	}
	w.done.Go(func() {
		for {
			nc, err := w.lns[1].Accept()
			if err != nil {
				return
			}
			w.done.Go(func() {
				defer func() { _ = nc.Close() }()
				serve(nc)
			})
		}
	})
	return w
}

// close ends everything, and sees that nothing is left.
func (w *tcp) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.front.Shutdown(ctx); err != nil {
		w.t.Error(err)
	}
	w.proxy.Close()
	if n := w.proxy.Wire().Buffers.InUse(); n != 0 {
		w.t.Errorf("%d buffers were not given back", n)
	}
	_ = w.lns[1].Close()
	w.done.Wait()
}

func (w *tcp) dial() *rawConn {
	w.t.Helper()
	nc, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	return &rawConn{t: w.t, Conn: nc, r: bufio.NewReader(nc)}
}

// within waits until cond holds, at most d.
func within(d time.Duration, cond func() bool) bool {
	for end := time.Now().Add(d); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// C17 as it was measured: 400 KB are on their way when the reply comes and the other
// side closes, 40 times. The client reads the reply each time, whoever has made it, and
// then the end of the connection, which no reset overtakes.
func TestEarlyReplyTCP(t *testing.T) {
	refuse := func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			_, _ = io.WriteString(nc, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbig\n")
		}
	}
	tests := []struct {
		name, body string
		cfg        proxy.Config
		head       string
	}{
		{"the member's", "big\n", proxy.Config{}, "Content-Length: 400000\r\n\r\n"},
		{"ours, of a length", "Request Entity Too Large\n", proxy.Config{MaxBody: 1000}, "Content-Length: 400000\r\n\r\n"},
		{"ours, in chunks", "Request Entity Too Large\n", proxy.Config{MaxBody: 100_000}, "Transfer-Encoding: chunked\r\n\r\n61a80\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			serve := refuse
			if tt.cfg.MaxBody > 0 {
				serve = func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) }
			}
			w := newTCP(t, tt.cfg, serve)
			defer w.close()
			for i := range 40 {
				c := w.dial()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_, _ = io.WriteString(c.Conn, "POST / HTTP/1.1\r\nHost: x\r\n"+tt.head)
					for range 40 { // as long as somebody takes it
						if _, err := c.Write(pattern(10_000)); err != nil {
							return
						}
					}
				}()
				a, err := c.hear("POST")
				if err != nil || a.status != 413 || a.body != tt.body {
					t.Fatalf("try %d: %d %q, %v; want 413 %q", i, a.status, a.body, err, tt.body)
				}
				<-sent
				if !a.close { // all of the request was read before the reply came
					c.say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
					if a, err := c.hear("GET"); err != nil || a.status != 413 {
						t.Errorf("try %d: the next request = %d, %v", i, a.status, err)
					}
				}
				if rest := c.all(); rest != "" {
					t.Errorf("try %d: %q behind the reply, want the end", i, rest)
				}
				_ = c.Close()
			}
			if m := w.proxy.Snapshot().Workers[0].Members[0]; !m.InService {
				t.Errorf("member %+v", m)
			}
		})
	}
}
