package frontend_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy/frontend"
)

var behindBalancer = frontend.Config{ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")}, HeadTimeout: 3 * time.Second}

// A balancer in front says whose connection it is; whoever does not is cut off.
func TestProxyProtocol(t *testing.T) {
	four := "\xc6\x33\x64\x07\x0a\x00\x00\x01\x30\x39\x00\x50"                                                        // 198.51.100.7:12345
	six := "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x07" + strings.Repeat("\x00", 16) + "\x30\x39\x00\x50" // 2001:db8::7
	for _, c := range []struct{ name, header, client string }{                                                        // client is empty: no answer
		{"version 1", "PROXY TCP4 198.51.100.7 10.0.0.1 12345 80\r\n", "198.51.100.7"},
		{"version 1, IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 12345 80\r\n", "2001:db8::7"},
		{"version 1, longest", "PROXY UNKNOWN " + strings.Repeat("f", 107-16) + "\r\n", "10.0.2.1"},
		{"version 1, unknown", "PROXY UNKNOWN\r\n", "10.0.2.1"},
		{"version 1, too long", "PROXY UNKNOWN " + strings.Repeat("f", 107-15) + "\r\n", ""},
		{"version 1, another family", "PROXY TCP4 2001:db8::7 2001:db8::1 12345 80\r\n", ""},
		{"version 1, port too large", "PROXY TCP4 198.51.100.7 10.0.0.1 65536 80\r\n", ""},
		{"version 1, no port", "PROXY TCP4 198.51.100.7 10.0.0.1\r\n", ""},
		{"version 1, two blanks", "PROXY TCP4  198.51.100.7 10.0.0.1 12345 80\r\n", ""},
		{"version 1, LF alone", "PROXY TCP4 198.51.100.7 10.0.0.1 12345 80\n", ""},
		{"version 1, zone", "PROXY TCP6 fe80::1%eth0 2001:db8::1 12345 80\r\n", ""},
		{"version 2, no addresses", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x00", ""},
		{"version 2, IPv4", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + four, "198.51.100.7"},
		{"version 2, with more", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x10" + four + "\x04\x00\x01\x00", "198.51.100.7"},
		{"version 2, IPv6", "\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" + six, "2001:db8::7"},
		{"version 2, local", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", "10.0.2.1"},
		{"version 2, Unix socket", "\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8" + strings.Repeat("\x00", 216), "10.0.2.1"},
		{"version 2, short", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0b" + four[:11], ""},
		{"version 2, too long", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + strings.Repeat("\x00", 0xffff), ""},
		{"version 3", "\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c" + four, ""},
		{"version 2, unknown command", "\r\n\r\n\x00\r\nQUIT\n\x22\x11\x00\x0c" + four, ""},
		{"none", "", ""},
		{"two", "PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n", "bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, behindBalancer, func(t *testing.T, w *front) {
				conn := w.dial()
				go func() { _, _ = io.WriteString(conn, c.header+"GET /client HTTP/1.1\r\nHost: x\r\n\r\n") }()
				status, body, _, err := conn.answer()
				switch {
				case c.client == "" && err == nil:
					t.Errorf("answered %d %q", status, body)
				case c.client == "bad" && status != http.StatusBadRequest:
					t.Errorf("answered %d, want 400", status)
				case c.client != "" && c.client != "bad" && (body != c.client || err != nil):
					t.Errorf("the client is %q, %v; want %s", body, err, c.client)
				}
				_ = conn.Close()
			})
		})
	}
}

// From elsewhere nobody can claim anything; and a balancer that is silent is cut off
// as if its head were late.
func TestProxyProtocolFromElsewhere(t *testing.T) {
	elsewhere := frontend.Config{ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}
	inBubble(t, elsewhere, func(t *testing.T, w *front) {
		c := w.dial()
		c.get()
		_, _ = io.WriteString(c, "PROXY TCP4 198.51.100.7 10.0.0.1 12345 80\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if status, _, _, err := c.answer(); status != http.StatusBadRequest {
			t.Errorf("a forged header: %d, %v; want 400", status, err)
		}
	})
	inBubble(t, behindBalancer, func(t *testing.T, w *front) {
		start := time.Now()
		c := w.dial()
		_, _ = io.WriteString(c, "PROXY TCP4 198.51")
		if _, err := io.ReadAll(c); time.Since(start) != behindBalancer.HeadTimeout {
			t.Errorf("ends after %v, %v; want %v", time.Since(start), err, behindBalancer.HeadTimeout)
		}
	})
}

// The header comes before TLS, and counts for HTTP/2 as well.
func TestProxyProtocolTLS(t *testing.T) {
	a := newAuthority(t)
	s := newTLS(t, frontend.TLSConfig{Certificates: files(a.issue("one.pem", "shop.example"))})
	synctest.Test(t, func(t *testing.T) {
		w := secureFront(t, s, behindBalancer)
		defer w.close()
		conn := w.dial()
		_, _ = io.WriteString(conn, "PROXY TCP4 198.51.100.7 10.0.0.1 12345 443\r\n")
		secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		_, _ = io.WriteString(secured, "GET /client HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(secured), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "198.51.100.7" {
			t.Errorf("the client is %q, %v", b, err)
		}
		_ = secured.Close()

		conn = w.dial()
		_, _ = io.WriteString(conn, "PROXY TCP4 198.51.100.8 10.0.0.1 12345 443\r\n")
		var protocols http.Protocols
		protocols.SetHTTP2(true)
		transport := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
		transport.DialContext = once(conn)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example/client", nil)
		resp, err = transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "198.51.100.8" || resp.ProtoMajor != 2 {
			t.Errorf("over %s the client is %q, %v", resp.Proto, b, err)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	})
}

// once returns a dialer that has one connection.
func once(c net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return c, nil }
}
