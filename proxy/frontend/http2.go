package frontend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log" //nolint:depguard // net/http takes no other logger
	"net"
	"net/http"
	"sync"
)

// maxStreams is how many requests an HTTP/2 connection may have under way.
const maxStreams = 128

// startHTTP2 starts net/http's server on connections that are handed to it.
func (s *Server) startHTTP2() {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s.http2 = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP2),
		Protocols:         &protocols,
		ReadHeaderTimeout: s.head,
		IdleTimeout:       s.idle,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: s.wire.WriteTimeout},
		ErrorLog:          log.New(s.log, "", 0),
		// To that server our connections have no TLS: what it reads is plain.
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, tlsKey{}, nc.(*handedConn).tls) //nolint:forcetypeassert // handoff has no others
		},
	}
	s.handedOn = &handoff{conns: make(chan net.Conn), closed: make(chan struct{})}
	s.http2Done = make(chan struct{})
	go func() {
		defer close(s.http2Done)
		_ = s.http2.Serve(s.handedOn) // always ErrServerClosed: our listener does not fail
	}()
}

// toHTTP2 gives the connection to net/http's server and waits until it is
// closed, so that it keeps its place. It reports whether that server took it.
func (c *conn) toHTTP2(nc net.Conn, rest []byte) bool {
	h := &handedConn{Conn: nc, rest: rest, tls: c.tls, addr: c.addr, done: make(chan struct{})}
	select {
	case c.s.handedOn.conns <- h:
	case <-c.s.handedOn.closed:
		return false
	}
	<-h.done
	return true
}

// tlsKey is the key of a connection's [tls.ConnectionState] in the context of its
// requests.
type tlsKey struct{}

// serveHTTP2 is the proxy's handler, with its requests counted, since net/http's
// server does not wait for them when it is closed.
func (s *Server) serveHTTP2(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.cut {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s.active++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.active--; s.active == 0 && s.quiet != nil {
			close(s.quiet)
			s.quiet = nil
		}
	}()
	r.TLS, _ = r.Context().Value(tlsKey{}).(*tls.ConnectionState)
	s.proxy.ServeHTTP(w, r)
}

// shutdownHTTP2 ends net/http's server and waits for its requests.
func (s *Server) shutdownHTTP2(ctx context.Context) error {
	err := s.http2.Shutdown(ctx)
	if err != nil {
		_ = s.http2.Close() // what is left is cut
	}
	s.mu.Lock()
	s.cut = true
	cut := s.active
	quiet := make(chan struct{})
	if cut > 0 {
		s.quiet = quiet
	} else {
		close(quiet)
	}
	s.mu.Unlock()
	<-quiet
	<-s.http2Done
	if err != nil && !errors.Is(err, http.ErrServerClosed) && cut > 0 {
		return fmt.Errorf("frontend: %d HTTP/2 requests cut: %w", cut, err)
	}
	return nil
}

// A handoff is a listener whose connections have been accepted elsewhere.
type handoff struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept returns the next connection that is handed on.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is that of no network.
func (h *handoff) Addr() net.Addr { return &net.TCPAddr{} }

// A handedConn is a connection from which some bytes have been read already.
type handedConn struct {
	net.Conn
	rest []byte
	tls  *tls.ConnectionState // nil without TLS
	addr net.Addr             // of the client
	once sync.Once
	done chan struct{} // closed when the connection is
}

// Read returns what had been read, then what comes.
func (h *handedConn) Read(p []byte) (int, error) {
	if len(h.rest) > 0 {
		n := copy(p, h.rest)
		h.rest = h.rest[n:]
		return n, nil
	}
	return h.Conn.Read(p)
}

// RemoteAddr is that of the client, also behind a balancer.
func (h *handedConn) RemoteAddr() net.Addr { return h.addr }

// Close closes the connection.
func (h *handedConn) Close() error {
	err := h.Conn.Close()
	h.once.Do(func() { close(h.done) })
	return err
}
