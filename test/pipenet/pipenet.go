// Package pipenet is a network in memory, for tests: hosts that listen, dial
// and send packets, links that are cut and healed, processes that are killed
// and frozen. Everything that waits does so on a sync.Cond or a timer, so it
// works in a testing/synctest bubble, where a Net and all that is had from it
// must be made and used inside one bubble.
//
// Streams behave as TCP does under Linux: they are buffered (256 KiB each way),
// half-closed by CloseWrite, and reset when a peer writes to an end that was
// closed, or closes an end with unread bytes. A cut link is a pulled cable:
// nobody is told. What was written to a stream before or during the cut is held
// and arrives after the heal, at once (TCP would retransmit it; its growing
// retransmission delay is not modelled). Packets are lost when the link is cut,
// the host is unknown or killed, nobody listens, or 256 packets wait already.
//
// The package starts no goroutine.
package pipenet

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Net is a set of hosts, each linked with every other. Its zero value is not
// usable; see [New]. Methods are safe for concurrent use.
type Net struct {
	mu      sync.Mutex // guards all state of the net, its hosts and their ends; never held while waiting
	dialing *sync.Cond // told of whatever may let a dial go on
	hosts   map[netip.Addr]*Host
	cut     map[link]bool
	latency time.Duration
	speed   int                // bytes a second and link; 0 for no limit
	busy    map[link]time.Time // until when what was sent occupies the link
	flows   map[*flow]struct{} // with something on the wire
}

// A link is one direction between two hosts.
type link struct{ from, to netip.Addr }

// New returns a network without hosts.
func New() *Net {
	n := &Net{
		hosts: make(map[netip.Addr]*Host),
		cut:   make(map[link]bool),
		busy:  make(map[link]time.Time),
		flows: make(map[*flow]struct{}),
	}
	n.dialing = sync.NewCond(&n.mu)
	return n
}

// Host returns the process that runs at ip, an IP address in its text form. The
// first call for an address starts it, and so does the first call after a
// [Host.Kill]: that is the restart. It panics if ip is not an address.
func (n *Net) Host(ip string) *Host {
	addr := mustAddr(ip)
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[addr]
	if h == nil || h.killed {
		next := firstEphemeral
		if h != nil {
			next = h.next // a kernel does not give the same port again soon
		}
		h = &Host{
			net:       n,
			addr:      addr,
			listeners: make(map[uint16]*listener),
			packets:   make(map[uint16]*packetConn),
			conns:     make(map[*conn]struct{}),
			next:      next,
		}
		n.hosts[addr] = h
		n.dialing.Broadcast()
	}
	return h
}

// SetLatency sets how long a byte or a packet travels, from now on, on every
// link. Zero, the default, is at once.
func (n *Net) SetLatency(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency = d
}

// SetBandwidth sets how many bytes a second all streams from one host to another
// carry together, from now on, on every link in each direction. Zero, the
// default, is no limit. What is written waits in its stream's buffer.
func (n *Net) SetBandwidth(bytesPerSecond int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.speed = bytesPerSecond
}

// leaves returns when size bytes that are sent now have left for the link. n.mu
// must be held.
func (n *Net) leaves(way link, size int) time.Time {
	now := time.Now()
	if n.speed == 0 {
		return now
	}
	at := n.busy[way]
	if at.Before(now) {
		at = now
	}
	at = at.Add(time.Duration(float64(size) / float64(n.speed) * float64(time.Second)))
	n.busy[way] = at
	return at
}

// Cut pulls the cable between two hosts, given by their addresses. Nobody
// notices but by waiting in vain.
func (n *Net) Cut(a, b string) {
	n.CutOneWay(a, b)
	n.CutOneWay(b, a)
}

// CutOneWay loses what travels from one host to the other, and not the reverse.
// A dial needs both directions.
func (n *Net) CutOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[link{mustAddr(from), mustAddr(to)}] = true
}

// Heal mends the link in both directions. Bytes that streams held arrive now.
func (n *Net) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, link{mustAddr(a), mustAddr(b)})
	delete(n.cut, link{mustAddr(b), mustAddr(a)})
	for f := range n.flows {
		f.advance()
	}
	n.dialing.Broadcast()
}

// isCut tells whether what travels from one address to another is lost.
// n.mu must be held.
func (n *Net) isCut(from, to netip.Addr) bool { return n.cut[link{from, to}] }

// mustAddr parses the address of a host. A wrong one is a bug of the test.
func mustAddr(ip string) netip.Addr {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		panic(fmt.Sprintf("pipenet: host address: %v", err))
	}
	return addr.Unmap()
}

// opError dresses err as package net does.
func opError(op, network string, source, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: err}
}
