package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/understudy-lb/understudy/proxy"
)

// B37: what members are told of where a request came from, and what the access
// log says. The client's address is 10.0.2.1.
func TestForwarded(t *testing.T) {
	trusting := []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24"), netip.MustParsePrefix("fd00::/8")}
	tests := []struct {
		name    string
		trusted []netip.Prefix
		host    string // shop.test if empty
		send    []string
		want    []string // all lines about the origin
		client  string
	}{{
		name: "nobody is trusted by default: all is replaced",
		send: []string{
			"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.test", "X-Forwarded-Port: 1",
			"X-Forwarded-Prefix: /evil", "Forwarded: for=1.2.3.4;proto=https", "X-Real-Ip: 1.2.3.4", "True-Client-Ip: 1.2.3.4",
		},
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "10.0.2.1",
	}, {
		name:    "a peer outside the trusted networks is nobody",
		trusted: []netip.Prefix{netip.MustParsePrefix("10.0.3.0/24")},
		send:    []string{"X-Forwarded-For: 1.2.3.4"},
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "10.0.2.1",
	}, {
		name: "a host with a port",
		host: "shop.test:8443",
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test:8443", "X-Forwarded-Port: 8443",
			`Forwarded: for=10.0.2.1;host="shop.test:8443";proto=http`,
		},
		client: "10.0.2.1",
	}, {
		name: "a host of IPv6",
		host: "[::1]",
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: [::1]", "X-Forwarded-Port: 80",
			`Forwarded: for=10.0.2.1;host="[::1]";proto=http`,
		},
		client: "10.0.2.1",
	}, {
		name:    "X-Forwarded-* of a trusted peer is continued and makes a Forwarded",
		trusted: trusting,
		send: []string{
			"X-Forwarded-For: 9.9.9.9, 2001:db8::7", "X-Forwarded-Proto: https", "X-Forwarded-Host: www.test", "X-Forwarded-Prefix: /shop",
		},
		want: []string{
			"X-Forwarded-For: 9.9.9.9, 2001:db8::7, 10.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: www.test", "X-Forwarded-Port: 443",
			"X-Forwarded-Prefix: /shop",
			`Forwarded: for=9.9.9.9, for="[2001:db8::7]";host=www.test;proto=https, for=10.0.2.1;host=shop.test;proto=http`,
		},
		client: "2001:db8::7",
	}, {
		name:    "Forwarded of a trusted peer is continued and makes X-Forwarded-*; its claims beside that are not its own",
		trusted: trusting,
		send: []string{
			`Forwarded: for=_hidden;proto=wss, For="[2001:db8::7]:4711" ; Host="www.test:8443";proto=HTTPS;by=_x;ext="a,b;\"c"`,
			"X-Forwarded-Proto: ftp", "X-Forwarded-Host: evil.test", "X-Forwarded-Port: 1",
		},
		want: []string{
			"X-Forwarded-For: unknown, 2001:db8::7, 10.0.2.1", "X-Forwarded-Proto: HTTPS", "X-Forwarded-Host: www.test:8443", "X-Forwarded-Port: 8443",
			`Forwarded: for=_hidden;proto=wss, For="[2001:db8::7]:4711" ; Host="www.test:8443";proto=HTTPS;by=_x;ext="a,b;\"c", for=10.0.2.1;host=shop.test;proto=http`,
		},
		client: "2001:db8::7",
	}, {
		name:    "both, and they agree",
		trusted: trusting,
		send:    []string{"X-Forwarded-For: 1.2.3.4", "Forwarded: for=1.2.3.4;proto=https;by=10.0.2.9", "X-Forwarded-Port: 8443"},
		want: []string{
			"X-Forwarded-For: 1.2.3.4, 10.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 8443",
			"Forwarded: for=1.2.3.4;proto=https;by=10.0.2.9, for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "1.2.3.4",
	}, {
		name:    "both, and they differ: Forwarded came through a peer that does not know it",
		trusted: trusting,
		send:    []string{"X-Forwarded-For: 1.2.3.4", "Forwarded: for=127.0.0.1;proto=https"},
		want: []string{
			"X-Forwarded-For: 1.2.3.4, 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=1.2.3.4;host=shop.test;proto=http, for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "1.2.3.4",
	}, {
		name:    "a Forwarded whose quote would swallow what the peer has put behind it",
		trusted: trusting,
		send:    []string{`Forwarded: for=127.0.0.1;x=", for=1.2.3.4`},
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "10.0.2.1",
	}, {
		name:    "what stands before trusted hops is the client's own tale",
		trusted: trusting,
		send:    []string{"X-Forwarded-For: 127.0.0.1, 1.2.3.4", "X-Forwarded-For: fd00::1, 10.0.2.77"},
		want: []string{
			"X-Forwarded-For: 127.0.0.1, 1.2.3.4, fd00::1, 10.0.2.77, 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			`Forwarded: for=127.0.0.1, for=1.2.3.4;host=shop.test;proto=http, for="[fd00::1]", for=10.0.2.77, for=10.0.2.1;host=shop.test;proto=http`,
		},
		client: "1.2.3.4",
	}, {
		name:    "a request that began inside",
		trusted: trusting,
		send:    []string{"X-Forwarded-For: 10.0.2.50, 10.0.2.60:1234"},
		want: []string{
			"X-Forwarded-For: 10.0.2.50, 10.0.2.60:1234, 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=10.0.2.50;host=shop.test;proto=http, for=10.0.2.60, for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "10.0.2.50",
	}, {
		name:    "who is unknown is the peer, or who has said so",
		trusted: trusting,
		send:    []string{"X-Forwarded-For: 1.2.3.4, unknown", "X-Forwarded-For: 10.0.2.60"},
		want: []string{
			"X-Forwarded-For: 1.2.3.4, unknown, 10.0.2.60, 10.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=1.2.3.4, for=unknown, for=10.0.2.60;host=shop.test;proto=http, for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "10.0.2.60",
	}, {
		name:    "garbage in the list",
		trusted: trusting,
		send:    []string{`X-Forwarded-For: 1.2.3.4, "><script>;for=5.6.7.8`},
		want: []string{
			`X-Forwarded-For: 1.2.3.4, "><script>;for=5.6.7.8, 10.0.2.1`, "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 80",
			"Forwarded: for=1.2.3.4, for=unknown, for=10.0.2.1;host=shop.test;proto=http",
		},
		client: "10.0.2.1",
	}, {
		name:    "a trusted peer that only says the protocol",
		trusted: trusting,
		send:    []string{"X-Forwarded-Proto: https"},
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 443",
			"Forwarded: for=10.0.2.1;host=shop.test;proto=https",
		},
		client: "10.0.2.1",
	}, {
		name:    "a host that is no token is quoted",
		trusted: trusting,
		send:    []string{`X-Forwarded-Host: a"b\c`, "X-Forwarded-Proto: a b"},
		want: []string{
			"X-Forwarded-For: 10.0.2.1", "X-Forwarded-Proto: a b", `X-Forwarded-Host: a"b\c`,
			`Forwarded: for=10.0.2.1;host="a\"b\\c";proto="a b"`,
		},
		client: "10.0.2.1",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{serve: everywhere(echo), config: func(c *proxy.Config) { c.TrustedNetworks = tt.trusted }}
			both(t, o, func(t *testing.T, w *world) {
				r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+proxyAddr+"/", nil)
				if r.Host = tt.host; r.Host == "" {
					r.Host = "shop.test"
				}
				for _, line := range tt.send {
					name, value, _ := strings.Cut(line, ": ")
					r.Header.Add(name, value)
				}
				a, err := w.send(r)
				if err != nil || a.status != 200 {
					t.Fatalf("GET = %d, %v", a.status, err)
				}
				var got []string
				for line := range strings.Lines(a.body) {
					if strings.HasPrefix(line, "X-Forwarded-") || strings.HasPrefix(line, "X-Real-") || strings.HasPrefix(line, "Forwarded") || strings.HasPrefix(line, "True-") {
						got = append(got, strings.TrimSuffix(line, "\n"))
					}
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(tt.want))
				if !slices.Equal(got, want) {
					t.Errorf("the member got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				synctest.Wait() // the log's line is written after the reply
				var line struct{ Client string }
				if err := json.Unmarshal([]byte(w.lastAccess()), &line); err != nil || line.Client != tt.client {
					t.Errorf("the log says client %q, %v; want %q", line.Client, err, tt.client)
				}
			})
		})
	}
}

// HTTP/1.0 may have no Host: then nobody knows what was asked for.
func TestForwardedWithoutHost(t *testing.T) {
	one(t, options{serve: everywhere(echo)}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("GET / HTTP/1.0\r\n\r\n")
		a, err := c.hear("GET")
		if err != nil || !strings.Contains(a.body, "Forwarded: for=10.0.2.1;proto=http\n") || strings.Contains(a.body, "X-Forwarded-Host") || strings.Contains(a.body, "X-Forwarded-Port") {
			t.Errorf("%v:\n%s", err, a.body)
		}
	})
}
