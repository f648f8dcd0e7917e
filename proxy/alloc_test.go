package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/frontend"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// loop is a proxy on the loopback interface with members that answer without
// allocating, and one client connection.
type loop struct {
	client  net.Conn
	request []byte
	want    int // bytes of the reply
	buf     []byte
}

// newLoop starts it with cfg, which gets workers and keys. The request has lines
// besides its own.
func newLoop(tb testing.TB, cfg proxy.Config, lines string, body int) *loop {
	tb.Helper()
	return newLoopOver(tb, worker.TypeHTTP, cfg, lines, body)
}

// newLoopOver is newLoop with members that speak HTTP or AJP13.
func newLoopOver(tb testing.TB, over worker.Type, cfg proxy.Config, lines string, body int) *loop {
	tb.Helper()
	reply := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", body, strings.Repeat("x", body))
	var text strings.Builder
	for _, name := range []string{"a", "b", "c"} {
		ln := listen(tb)
		if over == worker.TypeAJP13 {
			go serveLoop(ln, "\xff", overAJP(reply))
		} else {
			go serveLoop(ln, "\r\n\r\n", reply)
		}
		host, port, _ := net.SplitHostPort(ln.Addr().String())
		fmt.Fprintf(&text, "worker.%[1]s.type=%[4]s\nworker.%[1]s.host=%[2]s\nworker.%[1]s.port=%[3]s\n", name, host, port, over)
	}
	text.WriteString("worker.lb.type=lb\nworker.lb.balance_workers=a,b,c\nworker.list=lb\n")
	file, err := worker.Parse("workers.properties", strings.NewReader(text.String()), nil)
	if err != nil {
		tb.Fatal(err)
	}
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Workers, cfg.Codec = file, codec
	p, err := proxy.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	front, err := frontend.New(frontend.Config{Proxy: p})
	if err != nil {
		tb.Fatal(err)
	}
	ln := listen(tb)
	go front.Serve(ln) //nolint:errcheck // Shutdown ends it
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := front.Shutdown(ctx); err != nil {
			tb.Error(err)
		}
	})
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	session, err := codec.Encode(cookie.Value{ID: strings.Repeat("i", 26), Primary: "b", Secondary: "c", Epoch: cookie.Epoch{N: 1, Boot: 1, Seq: 1}})
	if err != nil {
		tb.Fatal(err)
	}
	l := &loop{
		client:  client,
		request: []byte("GET /shop//.%2e/counter;v=1?x=1 HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: test\r\nAccept: */*\r\n" + lines + "Cookie: lang=en; JSESSIONID=" + session + "\r\n\r\n"),
		buf:     make([]byte, len(reply)),
		want:    len(reply),
	}
	return l
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ln.Close() })
	return ln
}

// serveLoop is a member for requests without a body, which end with end.
func serveLoop(ln net.Listener, end string, reply []byte) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			buf := make([]byte, 64<<10)
			for n := 0; ; {
				m, err := c.Read(buf[n:])
				if err != nil {
					return
				}
				if n += m; !bytes.HasSuffix(buf[:n], []byte(end)) {
					continue
				}
				n = 0
				if _, err := c.Write(reply); err != nil {
					return
				}
			}
		}()
	}
}

// exchange sends one request and reads the reply.
func (l *loop) exchange(tb testing.TB) {
	if _, err := l.client.Write(l.request); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.ReadFull(l.client, l.buf[:l.want]); err != nil {
		tb.Fatal(err)
	}
}

// The gate of design 6: one proxied request, kept connections, 128 B reply, a
// signed cookie that is verified, costs no allocation; with the access log on or
// off; behind a trusted proxy whose lines are read and continued; with rules that
// the path, which is not normal, is compared with.
func TestAllocations(t *testing.T) {
	rules := parseRules(t, "/shop/*=nobody\n!/c*.gif=lb\n/c*=lb;reply_timeout=5000;stateless=1;disabled=a;fail_on_status=503\n")
	logged := discardAccess(t, accesslog.JSON)
	trusting := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	tests := []struct {
		name  string
		cfg   proxy.Config
		lines string
	}{
		{"silent", proxy.Config{}, ""},
		{"rules", proxy.Config{URIMap: rules}, ""},
		{"logged", proxy.Config{Access: logged}, "Referer: http://shop.test/a;jsessionid=x?y=1\r\nX-Request-ID: forged\r\n"},
		{"combined", proxy.Config{Access: discardAccess(t, accesslog.Combined)}, "Referer: http://shop.test/a\r\n"},
		{"named", proxy.Config{Access: logged, TrustedNetworks: trusting}, "X-Request-ID: from-the-edge\r\n"},
		{"forged", proxy.Config{Access: logged}, "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n"},
		{"X-Forwarded-For", proxy.Config{Access: logged, TrustedNetworks: trusting}, "X-Forwarded-For: 1.2.3.4, 2001:db8::1, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n"},
		{"Forwarded", proxy.Config{Access: logged, TrustedNetworks: trusting}, "Forwarded: for=1.2.3.4;host=\"a:1\", for=\"[2001:db8::1]:80\";proto=https\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, tt.cfg, tt.lines, 128)
			for range 100 {
				l.exchange(t)
			}
			if got := testing.AllocsPerRun(2000, func() { l.exchange(t) }); got != 0 {
				t.Errorf("%v allocations a request, want 0", got)
			}
		})
	}
}

// The same gate over AJP13.
func TestAllocationsAJP(t *testing.T) {
	trusting := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	tests := []struct {
		name  string
		cfg   proxy.Config
		lines string
		body  int
	}{
		{"short", proxy.Config{}, "", 128},
		{"long", proxy.Config{}, "", 50_000},
		{"behind a trusted proxy", proxy.Config{TrustedNetworks: trusting}, "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n", 128},
		{"several cookies", proxy.Config{Access: discardAccess(t, accesslog.JSON)}, "Cookie: a=b\r\n", 128},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoopOver(t, worker.TypeAJP13, tt.cfg, tt.lines, tt.body)
			for range 100 {
				l.exchange(t)
			}
			if got := testing.AllocsPerRun(2000, func() { l.exchange(t) }); got != 0 {
				t.Errorf("%v allocations a request, want 0", got)
			}
		})
	}
}

// discardAccess is an access log with queries that goes nowhere.
func discardAccess(tb testing.TB, f accesslog.Format) *accesslog.Log {
	tb.Helper()
	l, err := accesslog.New(accesslog.Config{
		Open: func() (io.WriteCloser, error) { return discard{io.Discard}, nil }, Format: f, Query: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return l
}

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

func BenchmarkProxy(b *testing.B) {
	for _, body := range []int{128, 10 << 10} {
		b.Run(fmt.Sprintf("body=%d", body), func(b *testing.B) {
			l := newLoop(b, proxy.Config{}, "", body)
			b.ReportAllocs()
			b.SetBytes(int64(body))
			for b.Loop() {
				l.exchange(b)
			}
		})
	}
}
