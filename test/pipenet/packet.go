package pipenet

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	maxPacket  = 65507 // bytes of a UDP packet over IPv4
	maxPackets = 256   // that wait in one socket; more are lost
)

type packet struct {
	data []byte
	from *net.UDPAddr
}

// A packetConn is a net.PacketConn.
type packetConn struct {
	host *Host
	addr *net.UDPAddr
	port uint16
	cond *sync.Cond // on net.mu, which guards what follows

	queue   []packet
	closed  bool
	reading deadline
}

// ReadFrom is net.PacketConn's. What does not fit into b is lost.
func (p *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	p.cond.L.Lock()
	defer p.cond.L.Unlock()
	for ; ; p.cond.Wait() {
		switch {
		case p.host.frozen:
		case p.closed:
			return 0, nil, opError("read", "udp", p.addr, nil, net.ErrClosed)
		case p.reading.passed():
			return 0, nil, opError("read", "udp", p.addr, nil, os.ErrDeadlineExceeded)
		case len(p.queue) > 0:
			first := p.queue[0]
			p.queue = p.queue[1:]
			return copy(b, first.data), first.from, nil
		}
	}
}

// WriteTo is net.PacketConn's. It succeeds also if the packet is lost.
func (p *packetConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	p.cond.L.Lock()
	defer p.cond.L.Unlock()
	for p.host.frozen {
		p.cond.Wait()
	}
	if p.closed {
		return 0, opError("write", "udp", p.addr, addr, net.ErrClosed)
	}
	if len(b) > maxPacket {
		return 0, opError("write", "udp", p.addr, addr, syscall.EMSGSIZE)
	}
	ip, port, err := p.host.parse(addr.String())
	if err != nil {
		return 0, opError("write", "udp", p.addr, addr, err)
	}
	n := p.host.net
	pkt := packet{data: append([]byte(nil), b...), from: p.addr}
	way := link{p.host.addr, ip}
	switch {
	case n.isCut(way.from, way.to):
	case n.latency == 0:
		n.deliver(pkt, way, port)
	default:
		time.AfterFunc(n.latency, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if !n.isCut(way.from, way.to) {
				n.deliver(pkt, way, port)
			}
		})
	}
	return len(b), nil
}

// deliver puts pkt into the socket it is for, if there is one with room.
// n.mu must be held.
func (n *Net) deliver(pkt packet, way link, port uint16) {
	h := n.hosts[way.to]
	if h == nil {
		return
	}
	if p := h.packets[port]; p != nil && len(p.queue) < maxPackets {
		p.queue = append(p.queue, pkt)
		p.cond.Broadcast()
	}
}

// Close is net.PacketConn's.
func (p *packetConn) Close() error {
	p.cond.L.Lock()
	defer p.cond.L.Unlock()
	if p.closed {
		return opError("close", "udp", p.addr, nil, net.ErrClosed)
	}
	p.host.unlessFrozen(p.shut)
	return nil
}

// shut ends the socket. net.mu must be held.
func (p *packetConn) shut() {
	if p.closed {
		return
	}
	p.closed = true
	p.queue = nil
	p.reading.stop()
	delete(p.host.packets, p.port)
	p.cond.Broadcast()
}

// LocalAddr is net.PacketConn's, a *net.UDPAddr.
func (p *packetConn) LocalAddr() net.Addr { return p.addr }

// SetDeadline is net.PacketConn's. A write never waits, unless the process is
// frozen.
func (p *packetConn) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetReadDeadline is net.PacketConn's.
func (p *packetConn) SetReadDeadline(t time.Time) error {
	p.cond.L.Lock()
	defer p.cond.L.Unlock()
	if p.closed {
		return opError("set", "udp", p.addr, nil, net.ErrClosed)
	}
	p.reading.set(t, p.cond)
	return nil
}

// SetWriteDeadline is net.PacketConn's, and does nothing.
func (p *packetConn) SetWriteDeadline(time.Time) error { return nil }
