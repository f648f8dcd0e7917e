package endpoint

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
)

// sized is a connection that notes which buffers it was asked for.
type sized struct {
	net.Conn
	read, write int
}

func (s *sized) SetReadBuffer(n int) error  { s.read = n; return nil }
func (s *sized) SetWriteBuffer(n int) error { s.write = n; return errors.New("too large") }

// prefer_ipv6 (mod_jk.md 2.2): IPv6 first, then what else the name has.
func TestPreferIPv6(t *testing.T) {
	refused := errors.New("refused")
	lookup := func(_ context.Context, network, host string) ([]netip.Addr, error) {
		if network != "ip" || host != "n1" {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::1")}, nil
	}
	tests := []struct {
		address string
		up      string // the only one that answers
		want    []string
	}{
		{"n1:80", "[fd00::1]:80", []string{"[fd00::2]:80", "[fd00::1]:80"}},
		{"n1:80", "10.0.0.2:80", []string{"[fd00::2]:80", "[fd00::1]:80", "10.0.0.1:80", "10.0.0.2:80"}},
		{"n1:80", "", []string{"[fd00::2]:80", "[fd00::1]:80", "10.0.0.1:80", "10.0.0.2:80"}},
		{"10.0.0.1:80", "10.0.0.1:80", []string{"10.0.0.1:80"}},
		{"other:80", "", nil},
	}
	for _, tt := range tests {
		var tried []string
		d := dialer(Config{PreferIPv6: true, Lookup: lookup, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			tried = append(tried, address)
			if address != tt.up {
				return nil, refused
			}
			return new(sized), nil
		}})
		nc, err := d(t.Context(), "tcp", tt.address)
		if (err == nil) != (tt.up != "") || (nc == nil) != (tt.up == "") || !slices.Equal(tried, tt.want) {
			t.Errorf("dial %s: %v after %q, want %q and an answer of %q", tt.address, err, tried, tt.want, tt.up)
		}
		if tt.up == "" && tt.want != nil && !errors.Is(err, refused) {
			t.Errorf("dial %s = %v, want why", tt.address, err)
		}
	}
}

// socket_buffer (mod_jk.md 2.2).
func TestSocketBuffer(t *testing.T) {
	for _, n := range []int{0, 65536} {
		nc, err := dialer(Config{SocketBuffer: n, Dial: func(context.Context, string, string) (net.Conn, error) { return new(sized), nil }})(t.Context(), "tcp", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		if s := nc.(*sized); s.read != n || s.write != n {
			t.Errorf("socket_buffer=%d: asked for %d and %d", n, s.read, s.write)
		}
	}
	failing := dialer(Config{SocketBuffer: 1, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }})
	if nc, err := failing(t.Context(), "tcp", "a:1"); nc != nil || err == nil {
		t.Errorf("dial = %v, %v, want the error", nc, err)
	}
}
