package frontend

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// What a connection does.
const (
	idle    int32 = iota // it waits for the first byte of a request
	busy                 // a request is under way
	closing              // somebody else has closed it while it was idle
)

// How much, and for how long, is read of what a client goes on sending after a
// reply that did not wait for it (peers.md C17).
const (
	lingerBytes = 1 << 20
	lingerTime  = 2 * time.Second
)

// A conn is one connection of a client, served by one goroutine.
type conn struct {
	s     *Server
	nc    net.Conn
	tls   *tls.ConnectionState // nil without TLS
	addr  net.Addr             // of the client
	state atomic.Int32
	since atomic.Int64 // when it became idle; nanoseconds of Unix time
}

// closeIdle closes c if it is idle. The server's mu is held.
func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(idle, closing) {
		c.cut()
	}
}

// cut closes c at once; its goroutine notices and ends. Over TLS that is without a
// goodbye, which may have to wait for a client that does not read.
func (c *conn) cut() { _ = c.bare().Close() } // its end is all that is wanted

// bare is the connection without TLS.
func (c *conn) bare() net.Conn {
	if t, ok := c.nc.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c.nc
}

// serve takes requests from c until the connection ends.
func (c *conn) serve() {
	s := c.s
	switch t, _ := c.nc.(*tls.Conn); {
	case !c.introduce(), t != nil && !c.secure(t):
		c.cut()
	case t != nil && c.tls.NegotiatedProtocol == "h2":
		if !c.state.CompareAndSwap(idle, busy) || !c.toHTTP2(c.nc, nil) {
			c.cut()
		}
	default:
		wire := http1.NewConn(c.nc, s.wire)
		if !c.requests(wire) {
			_ = wire.Close() // it may be closed already
			wire.Recycle()
		}
	}
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	<-s.slots
}

// introduce finds out whose connection this is. It reports false for a balancer
// in front that does not say so.
func (c *conn) introduce() bool {
	c.addr = c.nc.RemoteAddr()
	if !c.s.proxied(c.nc) {
		return true
	}
	nc := c.bare()
	err := nc.SetReadDeadline(time.Now().Add(c.s.head))
	if err == nil {
		var told netip.AddrPort
		if told, err = readProxyHeader(nc); told.IsValid() {
			c.addr = net.TCPAddrFromAddrPort(told)
		}
	}
	if err == nil {
		err = nc.SetReadDeadline(time.Time{})
	}
	if err != nil {
		c.s.log.Debug().Stringer("balancer", nc.RemoteAddr()).Err(err).Msg("connection without a PROXY header")
	}
	return err == nil
}

// secure does the handshake, and reports whether it succeeded.
func (c *conn) secure(t *tls.Conn) bool {
	if err := shake(t, c.s.head); err != nil {
		c.s.log.Debug().Stringer("client", c.addr).Err(err).Msg("TLS handshake failed")
		return false
	}
	state := t.ConnectionState()
	c.tls = &state
	return true
}

// requests serves one request after the other. It reports whether the connection
// has been handed on.
func (c *conn) requests(wire *http1.Conn) (kept bool) {
	s := c.s
	client := s.proxy.NewClient(c.addr, c.nc.LocalAddr(), c.tls, &s.last)
	for wait := s.head; ; wait = s.idle {
		wire.SetReadTimeout(wait)
		if err := wire.Await(); err != nil || !c.state.CompareAndSwap(idle, busy) {
			return false
		}
		switch err := s.proxy.Serve(wire, client); {
		case errors.Is(err, http1.ErrHTTP2):
			return c.toHTTP2(wire.Detach())
		case errors.Is(err, proxy.ErrLinger):
			// There is no request any more: who stops the server need not wait.
			c.state.Store(idle)
			if !s.stopping.Load() {
				_ = wire.Linger(lingerBytes, lingerTime) // it is closed one way or the other
			}
			return false
		case err != nil:
			return false
		}
		c.since.Store(time.Now().UnixNano())
		c.state.Store(idle)
		if s.last.Load() {
			return false
		}
	}
}
