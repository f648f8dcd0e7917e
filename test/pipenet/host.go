package pipenet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	firstEphemeral = uint16(32768) // of the ports that the kernel gives
	maxBacklog     = 128           // connections that wait for Accept; a dial past that waits
)

// A Host is one process at one address. Methods are safe for concurrent use.
type Host struct {
	net  *Net
	addr netip.Addr

	// Guarded by net.mu.
	listeners map[uint16]*listener
	packets   map[uint16]*packetConn
	conns     map[*conn]struct{}
	next      uint16
	killed    bool
	frozen    bool
	atThaw    []func() // what the process did while it was frozen
}

// IP returns the address of the host.
func (h *Host) IP() string { return h.addr.String() }

// Kill ends the process, as SIGKILL does, also a frozen one: its connections are
// reset, its ports are closed, so dials are refused, and every method of its
// handles fails. [Net.Host] starts the next process at this address. A reset
// that meets a cut link arrives after the heal.
func (h *Host) Kill() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.killed {
		return
	}
	h.killed, h.frozen, h.atThaw = true, false, nil
	for _, l := range h.listeners {
		l.shut()
	}
	for _, p := range h.packets {
		p.shut()
	}
	for c := range h.conns {
		c.abort()
	}
	h.net.dialing.Broadcast()
}

// Freeze stops the process, as SIGSTOP does: calls on its handles do not return
// before [Host.Thaw] or [Host.Kill], deadlines included. The kernel of the host
// goes on: bytes and packets that arrive wait, connections are established up
// to 128 per port, and what was written before still leaves. Timers of the
// process cannot be stopped; what they write waits. A Close while frozen returns
// at once and happens at the thaw.
func (h *Host) Freeze() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if !h.killed {
		h.frozen = true
	}
}

// Thaw lets the process go on, as SIGCONT does.
func (h *Host) Thaw() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.frozen = false
	todo := h.atThaw
	h.atThaw = nil
	for _, f := range todo {
		f()
	}
	for _, l := range h.listeners {
		l.cond.Broadcast()
	}
	for _, p := range h.packets {
		p.cond.Broadcast()
	}
	for c := range h.conns {
		c.cond.Broadcast()
	}
	h.net.dialing.Broadcast()
}

// unlessFrozen runs f now, or at the thaw. net.mu must be held.
func (h *Host) unlessFrozen(f func()) {
	if h.frozen {
		h.atThaw = append(h.atThaw, f)
		return
	}
	f()
}

// Listen announces on a port of this host. The network is "tcp", "tcp4" or
// "tcp6". The host of the address may be empty, unspecified, loopback or the
// host's own; all mean the same. Port 0 takes a free one. A port that is taken
// is syscall.EADDRINUSE, an address of another host syscall.EADDRNOTAVAIL.
func (h *Host) Listen(network, address string) (net.Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("listen", network, nil, nil, net.UnknownNetworkError(network))
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	port, err := h.bind(address, func(p uint16) bool { return h.listeners[p] != nil })
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	l := &listener{host: h, addr: tcpAddr(h.addr, port), port: port, cond: sync.NewCond(&h.net.mu)}
	h.listeners[port] = l
	h.net.dialing.Broadcast()
	return l, nil
}

// ListenPacket opens a socket for packets, as UDP does. The address is as in
// [Host.Listen].
func (h *Host) ListenPacket(address string) (net.PacketConn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	port, err := h.bind(address, func(p uint16) bool { return h.packets[p] != nil })
	if err != nil {
		return nil, opError("listen", "udp", nil, nil, err)
	}
	p := &packetConn{host: h, addr: udpAddr(h.addr, port), port: port, cond: sync.NewCond(&h.net.mu)}
	h.packets[port] = p
	return p, nil
}

// bind returns the port to use for address. net.mu must be held.
func (h *Host) bind(address string, taken func(uint16) bool) (uint16, error) {
	if h.killed {
		return 0, fmt.Errorf("process at %s was killed: %w", h.addr, net.ErrClosed)
	}
	ip, port, err := h.parse(address)
	if err != nil {
		return 0, err
	}
	if ip != h.addr {
		return 0, syscall.EADDRNOTAVAIL
	}
	if port == 0 {
		return h.ephemeral(), nil
	}
	if taken(port) {
		return 0, syscall.EADDRINUSE
	}
	return port, nil
}

// ephemeral returns a port that nothing on this host has. net.mu must be held.
func (h *Host) ephemeral() uint16 {
	for {
		p := h.next
		if h.next++; h.next == 0 {
			h.next = firstEphemeral
		}
		if h.listeners[p] == nil && h.packets[p] == nil {
			return p
		}
	}
}

// parse takes host:port apart; a host that means "here" becomes h.addr.
func (h *Host) parse(address string) (netip.Addr, uint16, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.Addr{}, 0, &net.AddrError{Err: "invalid port", Addr: address}
	}
	if host == "" || host == "localhost" {
		return h.addr, uint16(port), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, 0, &net.DNSError{Err: "pipenet knows addresses only", Name: host, IsNotFound: true}
	}
	if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsLoopback() {
		ip = h.addr
	}
	return ip, uint16(port), nil
}

// Dial connects to host:port. If nobody listens there, or the process was
// killed, the error is syscall.ECONNREFUSED. If the link is cut, or there is no
// such host, Dial waits until ctx is done or the way is open. The network is
// "tcp", "tcp4" or "tcp6".
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, opError("dial", network, nil, nil, net.UnknownNetworkError(network))
	}
	n := h.net
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dialing.Broadcast()
	})
	defer stop()

	n.mu.Lock()
	defer n.mu.Unlock()
	ip, port, err := h.parse(address)
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	c, err := h.connect(ctx, ip, port)
	if err != nil {
		return nil, opError("dial", network, nil, tcpAddr(ip, port), err)
	}
	return c, nil
}

// connect waits until the connection stands. net.mu must be held.
func (h *Host) connect(ctx context.Context, ip netip.Addr, port uint16) (*conn, error) {
	n := h.net
	var answer time.Time // when that of the other side is here; zero: nothing was sent yet
	for ; ; n.dialing.Wait() {
		if h.killed {
			return nil, fmt.Errorf("process at %s was killed: %w", h.addr, net.ErrClosed)
		}
		if h.frozen {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		remote := n.hosts[ip]
		if remote == nil || n.isCut(h.addr, ip) || n.isCut(ip, h.addr) {
			answer = time.Time{}
			continue
		}
		if n.latency > 0 {
			if answer.IsZero() {
				answer = time.Now().Add(2 * n.latency)
				time.AfterFunc(2*n.latency, func() {
					n.mu.Lock()
					defer n.mu.Unlock()
					n.dialing.Broadcast()
				})
			}
			if time.Now().Before(answer) {
				continue
			}
		}
		l := remote.listeners[port]
		if l == nil {
			return nil, syscall.ECONNREFUSED
		}
		if len(l.backlog) >= maxBacklog {
			continue
		}
		return h.pair(remote, l), nil
	}
}

// pair makes the two ends of a connection and gives the far one to l.
// net.mu must be held.
func (h *Host) pair(remote *Host, l *listener) *conn {
	n := h.net
	here, there := tcpAddr(h.addr, h.ephemeral()), l.addr
	near := &conn{host: h, local: here, remote: there, cond: sync.NewCond(&n.mu)}
	far := &conn{host: remote, local: there, remote: here, cond: sync.NewCond(&n.mu)}
	near.out = &flow{net: n, way: link{h.addr, remote.addr}, src: near, dst: far}
	far.out = &flow{net: n, way: link{remote.addr, h.addr}, src: far, dst: near}
	near.in, far.in = far.out, near.out
	h.conns[near] = struct{}{}
	remote.conns[far] = struct{}{}
	l.backlog = append(l.backlog, far)
	l.cond.Broadcast()
	return near
}

// A listener is a net.Listener.
type listener struct {
	host *Host
	addr *net.TCPAddr
	port uint16
	cond *sync.Cond // on net.mu, which guards what follows

	backlog []*conn
	closed  bool
}

// Accept is net.Listener's.
func (l *listener) Accept() (net.Conn, error) {
	l.cond.L.Lock()
	defer l.cond.L.Unlock()
	for ; ; l.cond.Wait() {
		switch {
		case l.host.frozen:
		case l.closed:
			return nil, opError("accept", "tcp", nil, l.addr, net.ErrClosed)
		case len(l.backlog) > 0:
			c := l.backlog[0]
			l.backlog = l.backlog[1:]
			l.host.net.dialing.Broadcast()
			return c, nil
		}
	}
}

// Close is net.Listener's. Connections that were not accepted are reset.
func (l *listener) Close() error {
	l.cond.L.Lock()
	defer l.cond.L.Unlock()
	if l.closed {
		return opError("close", "tcp", nil, l.addr, net.ErrClosed)
	}
	l.host.unlessFrozen(l.shut)
	return nil
}

// shut ends the listener. net.mu must be held.
func (l *listener) shut() {
	if l.closed {
		return
	}
	l.closed = true
	delete(l.host.listeners, l.port)
	for _, c := range l.backlog {
		c.abort()
	}
	l.backlog = nil
	l.cond.Broadcast()
	l.host.net.dialing.Broadcast()
}

// Addr is net.Listener's.
func (l *listener) Addr() net.Addr { return l.addr }

func tcpAddr(ip netip.Addr, port uint16) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, port))
}

func udpAddr(ip netip.Addr, port uint16) *net.UDPAddr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, port))
}
