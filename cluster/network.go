package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// A Network is where the cluster listens and dials: the operating system's, or
// one of the tests. Addresses are host:port with an IP address, networks "tcp".
// Listen and ListenPacket take port 0 for any free one; a port that is taken is
// syscall.EADDRINUSE. A dial that is refused is syscall.ECONNREFUSED.
type Network interface {
	Listen(network, address string) (net.Listener, error)
	ListenPacket(address string) (net.PacketConn, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// osNetwork is the real one.
type osNetwork struct{}

func (osNetwork) Listen(network, address string) (net.Listener, error) {
	return net.Listen(network, address)
}

func (osNetwork) ListenPacket(address string) (net.PacketConn, error) {
	return new(net.ListenConfig).ListenPacket(context.Background(), "udp", address)
}

func (osNetwork) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// bindTries is how often a port from the kernel may turn out to be taken for
// packets.
const bindTries = 10

// bind listens for streams and packets on one port. A host of "" is every
// address of this machine, port 0 one from the kernel.
func bind(n Network, host string, port uint16) (net.Listener, net.PacketConn, netip.AddrPort, error) {
	for try := 1; ; try++ {
		ln, err := n.Listen("tcp", hostPort(host, port))
		if err != nil {
			return nil, nil, netip.AddrPort{}, err
		}
		at, err := netip.ParseAddrPort(ln.Addr().String())
		if err != nil {
			_ = ln.Close()
			return nil, nil, netip.AddrPort{}, fmt.Errorf("listener has the address %q: %w", ln.Addr(), err)
		}
		pc, err := n.ListenPacket(hostPort(host, at.Port()))
		if err == nil {
			return ln, pc, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
		}
		_ = ln.Close()
		if port != 0 || try == bindTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, nil, netip.AddrPort{}, err
		}
	}
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}

// A resolver turns a host name into its addresses, as net.Resolver.LookupHost.
type resolver func(ctx context.Context, host string) ([]string, error)

// resolve returns the addresses of a host:port whose host is an address or a
// name.
func (r resolver) resolve(ctx context.Context, hostport string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("%q is not host:port", hostport)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q has no port number", hostport)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(port))}, nil
	}
	names, err := r(ctx, host)
	if err != nil {
		return nil, err
	}
	var addrs []netip.AddrPort
	for _, s := range names {
		if ip, err := netip.ParseAddr(s); err == nil {
			addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%q has no address", host)
	}
	return addrs, nil
}

// PrivateAddress returns the first private IPv4 address of this machine, which is
// what a member announces that listens on all of them.
func PrivateAddress() (netip.Addr, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return netip.Addr{}, err
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Unmap().Is4() && p.Addr().Unmap().IsPrivate() {
				return p.Addr().Unmap(), nil
			}
		}
	}
	return netip.Addr{}, errors.New("this machine has no private IPv4 address")
}
