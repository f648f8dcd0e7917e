package proxy

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// FuzzNextHop: whatever a client has put into Forwarded, what a trusted proxy
// appends to it is the last hop, or the whole is refused.
func FuzzNextHop(f *testing.F) {
	for _, s := range []string{
		"for=1.2.3.4", `for="[2001:db8::1]:80";by=_x;host="a:1"`, `for=1.1.1.1;x="`, `for=a,,for=b`, `a="\"`, `a="\\`, "for=", "for=a;for=b", ";",
	} {
		f.Add([]byte(s))
	}
	const mine = `for=9.8.7.6;host="a.test:1";proto=https`
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.ContainsFunc(in, func(r rune) bool { return r < ' ' && r != '\t' }) {
			return // no header value
		}
		var h hop
		n := 0
		for rest := append(bytes.Clone(in), (", " + mine)...); len(rest) > 0; n++ {
			left := len(rest)
			var ok bool
			if h, rest, ok = nextHop(rest); !ok {
				return
			}
			if len(rest) >= left {
				t.Fatalf("%q: an element of no bytes", in)
			}
		}
		if h.addr != netip.AddrFrom4([4]byte{9, 8, 7, 6}) || string(h.host) != "a.test:1" || string(h.proto) != "https" || n < 2 {
			t.Errorf("%q: the last of %d hops is %v %q %q", in, n, h.addr, h.host, h.proto)
		}
	})
}

// FuzzParseNode: an address, as package netip reads it, or none.
func FuzzParseNode(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "1.2.3.4:80", "::1", "[::1]", "[::1]:_x", "[1.2.3.4]", "::ffff:1.2.3.4", "fe80::1%eth0", "", "[", "1.2.3.4:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := parseNode([]byte(s))
		bare := s
		if host, port, err := net.SplitHostPort(s); err == nil && port != "" && (strings.HasPrefix(s, "[") || !strings.Contains(host, ":")) {
			bare = host
		} else if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			bare = s[1 : len(s)-1]
		}
		want, err := netip.ParseAddr(bare)
		switch {
		case !got.IsValid():
			if err == nil && bare == s && want.Zone() == "" {
				t.Errorf("parseNode(%q) = none, want %v", s, want)
			}
		case err != nil || got != want.Unmap():
			t.Errorf("parseNode(%q) = %v; netip says %v, %v", s, got, want, err)
		}
	})
}
