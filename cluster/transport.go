package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// gossipLabel is what every packet and stream of gossip begins with. It
	// keeps other protocols out before anything is parsed. Its first byte is
	// none of a printable protocol, nor of TLS.
	gossipLabel = "\xf4understudy"

	maxPacket  = 4096    // bytes; memberlist sends at most 1400
	maxInbound = 1 << 20 // bytes of a stream: the state of more than a thousand members
	maxStreams = 64      // that others have open to us at a time

	headTimeout = 2 * time.Second       // for the first bytes of a stream
	acceptPause = 50 * time.Millisecond // after an error, such as no descriptors left
)

// A transport carries memberlist's packets and streams over a Network, and
// answers who asks for our identity. Foreign bytes are dropped here as far as
// they can be told by their head.
type transport struct {
	network   Network
	ln        net.Listener
	pc        net.PacketConn
	advertise netip.AddrPort
	identity  *identity

	packets chan *memberlist.Packet
	streams chan net.Conn
	slots   chan struct{} // one token for each inbound stream
	done    chan struct{} // closed by Shutdown
	wg      sync.WaitGroup

	droppedPackets, droppedStreams atomic.Uint64

	mu     sync.Mutex     // guards the following; never held across I/O
	ending map[int]func() // what Shutdown must interrupt
	serial int            // next key of ending
	closed bool
}

// newTransport serves ln and pc, which it owns from now on.
func newTransport(n Network, ln net.Listener, pc net.PacketConn, advertise netip.AddrPort, id *identity) *transport {
	t := &transport{
		network:   n,
		ln:        ln,
		pc:        pc,
		advertise: advertise,
		identity:  id,
		packets:   make(chan *memberlist.Packet),
		streams:   make(chan net.Conn),
		slots:     make(chan struct{}, maxStreams),
		done:      make(chan struct{}),
		ending:    make(map[int]func()),
	}
	if u, ok := pc.(*net.UDPConn); ok {
		_ = u.SetReadBuffer(1 << 20) // as much as the kernel gives
	}
	t.wg.Go(t.receive)
	t.wg.Go(t.accept)
	return t
}

// begin registers a use of the network that Shutdown interrupts by calling
// interrupt, and waits for until end is called. It fails after Shutdown.
func (t *transport) begin(interrupt func()) (end func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	key := t.serial
	t.serial++
	t.ending[key] = interrupt
	t.wg.Add(1)
	return func() {
		t.mu.Lock()
		delete(t.ending, key)
		t.mu.Unlock()
		t.wg.Done()
	}, true
}

// Shutdown is memberlist.Transport's. It returns when every stream, also those
// that memberlist works on, has ended.
func (t *transport) Shutdown() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		t.wg.Wait()
		return nil
	}
	t.closed = true
	interrupts := make([]func(), 0, len(t.ending))
	for _, f := range t.ending {
		interrupts = append(interrupts, f)
	}
	t.mu.Unlock()

	close(t.done)
	err := errors.Join(t.ln.Close(), t.pc.Close())
	for _, f := range interrupts {
		f()
	}
	t.wg.Wait()
	return err
}

// receive hands packets to memberlist until the socket is closed.
func (t *transport) receive() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := t.pc.ReadFrom(buf)
		now := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if !t.pause(acceptPause) {
				return
			}
		case n > maxPacket || n <= len(gossipLabel) || string(buf[:len(gossipLabel)]) != gossipLabel:
			t.droppedPackets.Add(1)
		default:
			p := &memberlist.Packet{Buf: slices.Clone(buf[len(gossipLabel):n]), From: from, Timestamp: now}
			select {
			case t.packets <- p:
			case <-t.done:
				return
			}
		}
	}
}

// pause waits for d. It reports false if the transport ends before.
func (t *transport) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.done:
		return false
	}
}

// accept serves inbound streams until the listener is closed.
func (t *transport) accept() {
	for {
		c, err := t.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if !t.pause(acceptPause) {
				return
			}
			continue
		}
		select {
		case t.slots <- struct{}{}:
		default: // too many: the next may be lucky
			t.droppedStreams.Add(1)
			_ = c.Close()
			continue
		}
		end, ok := t.begin(func() { _ = c.Close() })
		if !ok {
			_ = c.Close()
			return
		}
		t.wg.Go(func() {
			t.serve(&stream{Conn: c, room: maxInbound, end: func() { end(); <-t.slots }})
		})
	}
}

// serve looks at the head of an inbound stream and gives it to whom it is for.
func (t *transport) serve(s *stream) {
	if err := s.SetDeadline(time.Now().Add(headTimeout)); err != nil {
		_ = s.Close()
		return
	}
	head := make([]byte, len(gossipLabel))
	if _, err := io.ReadFull(s.Conn, head[:1]); err != nil {
		if !errors.Is(err, io.EOF) { // that is a health check, which only connects
			t.droppedStreams.Add(1)
		}
		_ = s.Close()
		return
	}
	if head[0] == askByte {
		if !t.identity.answer(s.Conn) {
			t.droppedStreams.Add(1)
		}
		_ = s.Close()
		return
	}
	if _, err := io.ReadFull(s.Conn, head[1:]); err != nil || string(head) != gossipLabel {
		t.droppedStreams.Add(1)
		_ = s.Close()
		return
	}
	select {
	case t.streams <- s:
	case <-t.done:
		_ = s.Close()
	}
}

// A stream is a connection that the transport knows the end of.
type stream struct {
	net.Conn
	head string // to be sent before anything else
	room int    // bytes that may still be read
	once sync.Once
	end  func()
}

// Read is net.Conn's. It fails once more was read than there is room for.
func (s *stream) Read(b []byte) (int, error) {
	if s.room <= 0 {
		return 0, errStreamTooLong
	}
	n, err := s.Conn.Read(b[:min(len(b), s.room)])
	s.room -= n
	return n, err
}

// Write is net.Conn's.
func (s *stream) Write(b []byte) (int, error) {
	if s.head == "" {
		return s.Conn.Write(b)
	}
	n, err := s.Conn.Write(append([]byte(s.head), b...))
	n = max(0, n-len(s.head))
	s.head = ""
	return n, err
}

var errStreamTooLong = errors.New("cluster: stream is longer than any state of a cluster")

// Close is net.Conn's.
func (s *stream) Close() error {
	err := s.Conn.Close()
	s.once.Do(s.end)
	return err
}

// FinalAdvertiseAddr is memberlist.Transport's.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertise.Addr().AsSlice(), int(t.advertise.Port()), nil
}

// WriteTo is memberlist.Transport's. After Shutdown the error is none of
// package net: memberlist takes that for a failure of the other side, and goes
// on to probe it.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.pc.WriteTo(append([]byte(gossipLabel), b...), net.UDPAddrFromAddrPort(to))
	select {
	case <-t.done:
		err = net.ErrClosed
	default:
	}
	return time.Now(), err
}

// WriteToAddress is memberlist.NodeAwareTransport's.
func (t *transport) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, addr.Addr)
}

// PacketCh is memberlist.Transport's.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh is memberlist.Transport's.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialAddressTimeout is memberlist.NodeAwareTransport's.
func (t *transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(addr.Addr, timeout)
}

// DialTimeout is memberlist.Transport's. The stream has a deadline, since
// memberlist does not always set one.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s, err := t.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := s.SetDeadline(time.Now().Add(timeout)); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.head = gossipLabel
	return s, nil
}

// dial connects to addr. Shutdown interrupts the dial, and the stream.
func (t *transport) dial(ctx context.Context, addr string) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end, ok := t.begin(cancel)
	if !ok {
		return nil, net.ErrClosed
	}
	c, err := t.network.Dial(ctx, "tcp", addr)
	if err != nil {
		end()
		return nil, err
	}
	closing, ok := t.begin(func() { _ = c.Close() })
	end()
	if !ok {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return &stream{Conn: c, room: maxInbound, end: closing}, nil
}

// ask finds out who listens at addr. The error is syscall.ECONNREFUSED if
// nobody does; any other error proves nothing.
func (t *transport) ask(ctx context.Context, addr string) (answer, error) {
	c, err := t.dial(ctx, addr)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = c.Close() }()
	if d, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(d); err != nil {
			return answer{}, err
		}
	}
	return t.identity.ask(c)
}

// accepts tells whether something accepts connections at addr. The error is as
// in ask.
func (t *transport) accepts(ctx context.Context, addr string) error {
	c, err := t.dial(ctx, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// readFrame reads 2 bytes of length and that many bytes, at most limit.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > limit {
		return nil, errStreamTooLong
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}
