package endpoint

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
)

// A dial connects to an address.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns how cfg wants connections made.
func dialer(cfg Config) dial {
	d := dial(cfg.Dial)
	if d == nil {
		nd := &net.Dialer{KeepAlive: -1}
		if cfg.KeepAlive {
			nd.KeepAlive = 0
		}
		if cfg.Source != nil {
			nd.LocalAddr = &net.TCPAddr{IP: cfg.Source}
		}
		d = nd.DialContext
	}
	if cfg.PreferIPv6 {
		lookup := cfg.Lookup
		if lookup == nil {
			lookup = net.DefaultResolver.LookupNetIP
		}
		d = d.preferIPv6(lookup)
	}
	if cfg.SocketBuffer > 0 {
		d = d.buffered(cfg.SocketBuffer)
	}
	return d
}

// preferIPv6 tries the IPv6 addresses of a name before the others, each in the order of
// the resolver. Without it a [net.Dialer] takes what answers first.
func (d dial) preferIPv6(lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return d(ctx, network, address)
		}
		all, err := lookup(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(all, func(a, b netip.Addr) int {
			return rank(a) - rank(b)
		})
		var failed error
		for _, a := range all {
			nc, err := d(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
			if err == nil || ctx.Err() != nil {
				return nc, err
			}
			failed = errors.Join(failed, err)
		}
		return nil, failed
	}
}

func rank(a netip.Addr) int {
	if a.Is6() && !a.Is4In6() {
		return 0
	}
	return 1
}

// buffered asks the system for send and receive buffers of n bytes (socket_buffer).
// It gives what it likes; that is no reason to have no connection.
func (d dial) buffered(n int) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := d(ctx, network, address)
		if s, ok := nc.(interface {
			SetReadBuffer(bytes int) error
			SetWriteBuffer(bytes int) error
		}); ok && err == nil {
			_ = s.SetReadBuffer(n)
			_ = s.SetWriteBuffer(n)
		}
		return nc, err
	}
}
