package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// overOne is a world with one member, over AJP13.
func overOne(t *testing.T, o options, f func(t *testing.T, w *world)) {
	t.Helper()
	o.ajp, o.members = true, []string{"a"}
	one(t, o, f)
}

// last returns the last FORWARD_REQUEST that a has got.
func (w *world) last() *ajpRequest {
	w.t.Helper()
	m := w.members["a"]
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.forwarded) == 0 {
		w.t.Fatal("the member has got nothing")
	}
	return m.forwarded[len(m.forwarded)-1]
}

// describe puts a request into lines, as the tests want it.
func (r *ajpRequest) describe() string {
	var b strings.Builder
	known := 0
	fmt.Fprintf(&b, "%s %s %s\nfrom %s%s to %s %d secure=%v\n", r.method, r.uri, r.protocol, r.addr, r.host, r.server, r.port, r.secure)
	for _, h := range r.headers {
		if strings.EqualFold(h[0], "X-Request-ID") {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", h[0], h[1])
	}
	for _, name := range []string{"secret", "remote_user", "query_string", "route", "ssl_cert", "ssl_cipher", "ssl_session", "ssl_key_size", "stored_method", "AJP_SSL_PROTOCOL", "AJP_REMOTE_PORT", "AJP_LOCAL_ADDR", "JK_LB_ACTIVATION"} {
		if v, ok := r.attributes[name]; ok {
			if name == "AJP_REMOTE_PORT" && v != "0" {
				v = "port"
			}
			fmt.Fprintf(&b, "%s=%s\n", name, v)
			known++
		}
	}
	if n := len(r.attributes); n > known {
		fmt.Fprintf(&b, "and %d others\n", n-known)
	}
	return b.String()
}

// What a member over AJP13 is told of a request (mod_jk.md 7.2).
func TestForward(t *testing.T) {
	tests := []struct {
		name, request, lines string
		trusted              bool
		want                 string
	}{
		{
			name:    "as it came",
			request: "GET /a/../b%41;v=1?x=%20&y HTTP/1.1\r\nHost: shop.test\r\nX-B: 1\r\nx-b: Z\xfcrich\r\nAccept: */*\r\n\r\n",
			want: "GET /a/../b%41;v=1 HTTP/1.1\nfrom 10.0.2.1 to shop.test 80 secure=false\n" +
				"host: shop.test\nX-B: 1\nx-b: Z\xfcrich\naccept: */*\ncontent-length: 0\n" +
				"query_string=x=%20&y\nroute=a\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
		{
			name:    "a query that is empty, a port, a secret, a route, another activation",
			request: "GET /? HTTP/1.1\r\nHost: [::1]:8080\r\nCookie: JSESSIONID=s.r\r\n\r\n",
			lines:   "worker.lb.secret=s3c=ret\nworker.a.route=r\nworker.a.activation=d\n",
			want: "GET / HTTP/1.1\nfrom 10.0.2.1 to [::1] 8080 secure=false\nhost: [::1]:8080\ncookie: JSESSIONID=s.r\ncontent-length: 0\n" +
				"secret=s3c=ret\nquery_string=\nroute=r\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=DIS\n",
		},
		{
			name:    "a method without a code, and a body",
			request: "PATCH / HTTP/1.1\r\nHost: h\r\nContent-Length: 003\r\n\r\nabc",
			want: "PATCH / HTTP/1.1\nfrom 10.0.2.1 to h 80 secure=false\nhost: h\ncontent-length: 3\n" +
				"route=a\nstored_method=PATCH\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
		{
			name:    "chunks have no length",
			request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
			want: "POST / HTTP/1.1\nfrom 10.0.2.1 to h 80 secure=false\nhost: h\n" +
				"route=a\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
		{
			name: "what is about the connection, ours, or a claim, is left out; cookies are one",
			request: "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Hop, Upgrade\r\nX-Hop: 1\r\nUpgrade: websocket\r\nTE: trailers\r\nKeep-Alive: 1\r\n" +
				"Cookie: a=1\r\nUnderstudy-X: 1\r\nX-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nProxy: p\r\nCookie: b=2\r\n\r\n",
			want: "GET / HTTP/1.1\nfrom 10.0.2.1 to h 80 secure=false\nhost: h\ncookie: a=1; b=2\ncontent-length: 0\n" +
				"route=a\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
		{
			name:    "the host of the target outranks the line; HTTP/1.0",
			request: "GET http://target.test:81/x HTTP/1.0\r\nHost: line.test\r\n\r\n",
			want: "GET /x HTTP/1.0\nfrom 10.0.2.1 to target.test 81 secure=false\nhost: target.test:81\ncontent-length: 0\n" +
				"route=a\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
		{
			name:    "no host at all",
			request: "GET /x HTTP/1.0\r\n\r\n",
			want: "GET /x HTTP/1.0\nfrom 10.0.2.1 to 10.0.0.1 80 secure=false\ncontent-length: 0\n" +
				"route=a\nAJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
		{
			name:    "what a trusted proxy in front says of the client",
			request: "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: front.test\r\n\r\n",
			trusted: true,
			want: "GET / HTTP/1.1\nfrom 192.0.2.7 to front.test 443 secure=true\nhost: h\ncontent-length: 0\n" +
				"route=a\nAJP_REMOTE_PORT=0\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{lines: tt.lines, config: func(c *proxy.Config) {
				if tt.trusted {
					c.TrustedNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")}
				}
			}}
			overOne(t, o, func(t *testing.T, w *world) {
				c := w.raw()
				c.say(tt.request)
				if a, err := c.hear("GET"); err != nil || a.status != 200 {
					t.Fatalf("%+v, %v", a, err)
				}
				if got := w.last().describe(); got != tt.want {
					t.Errorf("the member has got\n%s\nwant\n%s", got, tt.want)
				}
				_ = c.Close()
			})
		})
	}
}

// What a member over AJP13 is told of the client's TLS (mod_jk.md 7.2).
func TestForwardTLS(t *testing.T) {
	tests := []struct {
		name  string
		state tls.ConnectionState
		want  string
	}{
		{"1.3", tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_256_GCM_SHA384}, "ssl_cipher=TLS_AES_256_GCM_SHA384\nssl_key_size=256\nAJP_SSL_PROTOCOL=TLSv1.3\n"},
		{
			"1.2 with a certificate",
			tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, PeerCertificates: []*x509.Certificate{{Raw: []byte("der")}}},
			"ssl_cert=-----BEGIN CERTIFICATE-----\nZGVy\n-----END CERTIFICATE-----\n\nssl_cipher=ECDHE-RSA-AES128-GCM-SHA256\nssl_key_size=128\nAJP_SSL_PROTOCOL=TLSv1.2\n",
		},
		{"a suite that OpenSSL has no name for", tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_RSA_WITH_AES_128_CBC_SHA}, "ssl_cipher=TLS_RSA_WITH_AES_128_CBC_SHA\nAJP_SSL_PROTOCOL=TLSv1.2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			overOne(t, options{}, func(t *testing.T, w *world) {
				ln, err := w.net.Host("10.0.0.1").Listen("tcp", ":443")
				if err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					nc, err := ln.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					c := http1.NewConn(nc, w.proxy.Wire())
					from := w.proxy.NewClient(nc.RemoteAddr(), nc.LocalAddr(), &tt.state, nil)
					for c.Await() == nil && w.proxy.Serve(c, from) == nil {
						continue
					}
					_ = nc.Close()
					c.Recycle()
				})
				nc, err := w.host.Dial(context.Background(), "tcp", "10.0.0.1:443")
				if err != nil {
					t.Fatal(err)
				}
				raw := &rawConn{t: t, Conn: nc, r: bufio.NewReader(nc)}
				for range 2 { // the second time it is known
					raw.say("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
					if a, err := raw.hear("GET"); err != nil || a.status != 200 {
						t.Fatalf("%+v, %v", a, err)
					}
					want := "GET / HTTP/1.1\nfrom 10.0.2.1 to h 443 secure=true\nhost: h\ncontent-length: 0\nroute=a\n" + tt.want + "AJP_REMOTE_PORT=port\nAJP_LOCAL_ADDR=10.0.0.1\nJK_LB_ACTIVATION=ACT\n"
					if got := w.last().describe(); got != want {
						t.Errorf("the member has got\n%s\nwant\n%s", got, want)
					}
				}
				_ = nc.Close()
				wg.Wait()
				_ = ln.Close()
			})
		})
	}
}

// A head that does not fit into a packet is the client's fault: 413, and the member
// hears nothing (mod_jk.md 4.2).
func TestForwardTooLong(t *testing.T) {
	overOne(t, options{}, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+proxyAddr+"/", nil)
		r.Header.Set("X-Long", strings.Repeat("v", 8192))
		if a, err := w.send(r); err != nil || a.status != 413 {
			t.Errorf("%d, %v; want 413", a.status, err)
		}
		if n := w.members["a"].requests(); len(n) > 0 || !w.member("a").InService {
			t.Errorf("the member has got %q, %+v", n, w.member("a"))
		}
		if a := w.get("/", ""); a.status != 200 {
			t.Errorf("the next one: %+v", a)
		}
	})
}

// A script is a member that a test plays itself, packet by packet.
type script struct {
	t *testing.T
	r io.Reader
	w io.Writer
}

// play lets f be the member: each connection of the proxy is handed to it.
func play(t *testing.T, f func(s *script), client func(w *world)) {
	t.Helper()
	overOne(t, options{without: []string{"a"}}, func(t *testing.T, w *world) {
		ln, err := w.net.Host("10.0.1.1").Listen("tcp", ":8080")
		if err != nil {
			t.Fatal(err)
		}
		go func() { // until the listener, and then the proxy, is closed
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				f(&script{t, nc, nc})
				_ = nc.Close()
			}
		}()
		client(w)
		_ = ln.Close()
	})
}

// request reads a request, and reports whether there is one.
func (s *script) request() bool {
	b, err := readAJP(s.r)
	return err == nil && len(b) > 0
}

// hear reads a packet of the proxy, whose payload is to have n bytes.
func (s *script) hear(what string, n int) []byte {
	s.t.Helper()
	b, err := readAJP(s.r)
	if err != nil || n >= 0 && len(b) != n {
		s.t.Errorf("%s: %d bytes, %v; want %d", what, len(b), err, n)
	}
	return b
}

func (s *script) say(payload ...byte) {
	if _, err := s.w.Write(ajpPacket(payload...)); err != nil {
		s.t.Logf("the proxy has gone: %v", err)
	}
}

// askFor asks for n bytes of the request's body.
func (s *script) askFor(n int) { s.say(6, byte(n>>8), byte(n)) }

// ok is a reply without a body, and the end.
func (s *script) ok() {
	s.say(4, 0, 200, 0, 0, 0, 0, 1, 0xA0, 3, 0, 1, '0', 0)
	s.say(5, 1)
}

// The flow of a request's body, packet by packet (mod_jk.md 7.3).
func TestBodyFlow(t *testing.T) {
	const most = 8192 - 4 // with the length of the data
	tests := []struct {
		name    string
		body    int
		chunked bool
		play    func(s *script)
	}{
		{"no body, and it is asked for all the same", 0, false, func(s *script) {
			s.askFor(8186)
			s.hear("the end", 0)
		}},
		{"unasked, a short one", 5, false, func(s *script) {
			s.hear("the first", 7)
		}},
		{"unasked, as long as a packet", 8186, false, func(s *script) {
			s.hear("the first", most)
			s.askFor(8186)
			s.hear("the end", 0)
		}},
		{"then as it is asked for", 20_000, false, func(s *script) {
			s.hear("the first", most)
			s.askFor(100)
			s.hear("100", 102)
			s.askFor(65_535)
			s.hear("a packet at most", most)
			s.askFor(8186)
			s.hear("the rest", 20_000-2*8186-100+2)
			s.askFor(8186)
			s.hear("the end", 0)
			s.askFor(8186)
			s.hear("the end again", 0)
		}},
		{"what nobody asks for is not sent", 200_000, false, func(s *script) {
			s.hear("the first", most)
		}},
		{"asked for beforehand", 30_000, false, func(s *script) {
			s.hear("the first", most)
			s.askFor(1)
			s.askFor(2)
			s.askFor(8186)
			s.hear("1", 3)
			s.hear("2", 4)
			s.hear("a packet", most)
		}},
		{"chunked: nothing unasked", 10, true, func(s *script) {
			s.askFor(4)
			s.hear("4", 6)
			s.askFor(8186)
			s.hear("the rest", 8)
			s.askFor(8186)
			s.hear("the end", 0)
		}},
		{"a long one that the client is still sending", 300_000, true, func(s *script) {
			for left := 300_000; left > 0; {
				s.askFor(8186)
				left -= len(s.hear("a piece", -1)) - 2
			}
			s.askFor(8186)
			s.hear("the end", 0)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			play(t, func(s *script) {
				for range 2 { // the connection can be used again
					if !s.request() {
						return
					}
					tt.play(s)
					s.ok()
				}
			}, func(w *world) {
				for range 2 {
					r := put("PUT", string(pattern(tt.body)), tt.chunked)
					r.Trailer = nil
					if a, err := w.send(r); err != nil || a.status != 200 {
						t.Errorf("%d, %v; want 200", a.status, err)
					}
				}
				if n := w.member("a").Open; n != 1 {
					t.Errorf("%d connections, want 1", n)
				}
			})
		})
	}
}

// A member that asks on and on is not fed for ever.
func TestInsatiable(t *testing.T) {
	for _, body := range []int{0, 5, 200_000} {
		t.Run(fmt.Sprint(body), func(t *testing.T) {
			play(t, func(s *script) {
				if !s.request() {
					return
				}
				for {
					if _, err := s.w.Write(ajpPacket(6, 0x1F, 0xFA)); err != nil {
						return
					}
					if _, err := readAJP(s.r); err != nil {
						return
					}
				}
			}, func(w *world) {
				a, err := w.send(put("POST", string(pattern(body)), false))
				if err != nil || a.status != 502 {
					t.Errorf("%d, %v; want 502", a.status, err)
				}
			})
		})
	}
}

// Who waits for 100 Continue hears it when it is the member's turn to read
// (mod_jk.md 7: AJP13 has no interim replies).
func TestContinueAJP(t *testing.T) {
	for _, framing := range []string{"Content-Length: 4\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		play(t, func(s *script) {
			if !s.request() {
				return
			}
			time.Sleep(time.Second)
			if framing[0] == 'T' {
				s.askFor(4)
			}
			if b := s.hear("the body", 6); string(b[2:]) != "body" {
				t.Errorf("the body is %q", b)
			}
			s.ok()
		}, func(w *world) {
			c := w.raw()
			c.say("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n" + framing)
			line, err := c.r.ReadString('\n')
			if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			_, _ = c.r.ReadString('\n')
			if framing[0] == 'T' {
				c.say("4\r\nbody\r\n0\r\n\r\n")
			} else {
				c.say("body")
			}
			if a, err := c.hear("POST"); err != nil || a.status != 200 {
				t.Errorf("%+v, %v", a, err)
			}
			_ = c.Close()
		})
	}
}

// A member may answer first and ask for the body then, of a client that waits for
// 100 Continue: once the reply has begun nothing can come before it.
func TestAnswersBeforeItAsks(t *testing.T) {
	play(t, func(s *script) {
		if !s.request() {
			return
		}
		s.say(4, 0, 200, 0, 0, 0, 0, 0)
		s.say(3, 0, 3, 'o', 'n', 'e', 0)
		s.say(3, 0, 0, 0)
		time.Sleep(time.Second)
		s.askFor(4)
		if b := s.hear("the body", 6); string(b[2:]) != "body" {
			t.Errorf("the body is %q", b)
		}
		s.say(3, 0, 3, 't', 'w', 'o', 0)
		s.say(5, 1)
	}, func(w *world) {
		c := w.raw()
		c.say("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
		head, err := c.r.ReadString('\n')
		if err != nil || head != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("%q, %v; want the reply", head, err)
		}
		time.Sleep(2 * time.Second) // that is how long it waits for more
		c.say("4\r\nbody\r\n0\r\n\r\n")
		rest, err := io.ReadAll(c.r)
		if err != nil || strings.Contains(string(rest), "100") || !strings.Contains(string(rest), "one") || !strings.Contains(string(rest), "two") {
			t.Errorf("%q, %v", rest, err)
		}
		_ = c.Close()
	})
}

// A request goes from a member over one protocol to one over the other, with its
// body (mod_jk.md 4.5).
func TestMixedProtocols(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		for _, chunked := range []bool{false, true} {
			for _, size := range []int{5, 50_000, 200_000} {
				t.Run(fmt.Sprintf("from %s, %d bytes, chunked=%v", first, size, chunked), func(t *testing.T) {
					o := options{members: []string{"a", "b"}, lines: "worker.b.type=ajp13\nworker.a.fail_on_status=503\nworker.b.fail_on_status=503\n"}
					one(t, o, func(t *testing.T, w *world) {
						w.members["b"].ajp = true
						w.members[first].handler = reading(1<<40, notExecuted)
						body := string(pattern(size))
						r := put("PUT", body, chunked)
						r.Header.Set("Cookie", "JSESSIONID=s."+first)
						a, err := w.send(r)
						if err != nil || a.status != 200 || !strings.HasSuffix(a.body, body) || a.member == first {
							t.Errorf("%d from %q, %d bytes, %v", a.status, a.member, len(a.body), err)
						}
					})
				})
			}
		}
	}
}

// Replies that break the rules of AJP13 are 502, whatever they break, and never lead
// to another try.
func TestMalformedAJP(t *testing.T) {
	for name, say := range map[string]string{
		"HTTP":                  "HTTP/1.1 200 OK\r\n\r\n",
		"a body without a head": "AB\x00\x05\x03\x00\x01x\x00",
		"an end without a head": "AB\x00\x02\x05\x01",
		"a status of 100":       "AB\x00\x08\x04\x00\x64\x00\x00\x00\x00\x00",
		"a status of 101":       "AB\x00\x08\x04\x00\x65\x00\x00\x00\x00\x00",
		"a line end in a field": "AB\x00\x13\x04\x00\xc8\x00\x00\x00\x00\x01\xa0\x01\x00\x06a\r\nb:c\x00",
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			play(t, func(s *script) {
				if !s.request() {
					return
				}
				requests++
				_, _ = io.WriteString(s.w, say)
				_, _ = io.Copy(io.Discard, s.r)
			}, func(w *world) {
				if a := w.get("/", ""); a.status != 502 || strings.Contains(a.body, "b:c") {
					t.Errorf("%+v, want 502", a)
				}
				if requests != 1 {
					t.Errorf("it was sent %d times", requests)
				}
				if text := w.lastAccess(); !strings.Contains(text, `"failure":"malformed"`) {
					t.Errorf("access log: %s", text)
				}
			})
		})
	}
}

// After the head of a reply its client is cut off, whatever the member does wrong.
func TestBrokenBodyAJP(t *testing.T) {
	head := "AB\x00\x0e\x04\x00\xc8\x00\x00\x00\x00\x01\xa0\x03\x00\x012\x00"
	for name, say := range map[string]string{
		"more body than its length": head + "AB\x00\x07\x03\x00\x03xyz\x00AB\x00\x02\x05\x01",
		"less body than its length": head + "AB\x00\x02\x05\x01",
		"a second head":             head + head,
		"the connection ends":       head,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *script) {
				if s.request() {
					_, _ = io.WriteString(s.w, say)
				}
			}, func(w *world) {
				a, err := w.do("GET", "/", "", nil)
				if err == nil && a.err == nil {
					t.Errorf("%+v, want an error", a)
				}
				if bytes.Contains([]byte(a.body), []byte("xyz")) {
					t.Errorf("the client has got %q", a.body)
				}
			})
		})
	}
}
