// Package frontend accepts the connections of clients and feeds what comes over
// them to the pipeline of package proxy: HTTP/1 on our own codec, one goroutine
// per connection, and HTTP/2 through net/http's server: chosen by ALPN over TLS,
// and recognised by its preface without (RFC 9113 sections 3.2 and 3.3).
//
// A listener that [TLS.Listen] has wrapped is one for TLS.
//
// # How many
//
// There are at most Config.MaxConns connections. One more is accepted and takes
// the place of the one that has been idle for longest. If none is idle it waits,
// the next reply is the last one on its connection, and further connections wait
// in the kernel.
//
// # The end
//
// [Server.Shutdown] stops accepting, closes idle connections at once, and lets
// requests under way finish until its context ends; each reply then is the last
// one on its connection. A tunnel ends as soon as it has been quiet for a second.
// When it returns every goroutine has ended.
package frontend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// Config sets up a [Server].
type Config struct {
	// Proxy serves the requests. It must be set.
	Proxy *proxy.Proxy

	// HeadTimeout is how long a client may take until it has sent the head of
	// its first request. If zero, it is 10 seconds. That of later heads is
	// [proxy.Config.HeadTimeout].
	HeadTimeout time.Duration

	// IdleTimeout is how long a connection may be idle between two requests. If
	// zero, it is 60 seconds.
	IdleTimeout time.Duration

	// MaxConns is how many connections there may be at a time. If zero, it is
	// 20,000.
	MaxConns int

	// ProxyProtocol are the networks of balancers whose connections begin with a
	// header of the PROXY protocol, version 1 or 2, which says whose they are. One
	// from there without a header is closed; from elsewhere nobody can send one.
	ProxyProtocol []netip.Prefix

	// Log gets an event when connections cannot be accepted, or wait. Its zero value is
	// silent.
	Log zerolog.Logger
}

// What zero means in Config.
const (
	defaultHead  = 10 * time.Second
	defaultIdle  = time.Minute
	defaultConns = 20000
)

// A Server serves any number of listeners. It is safe for concurrent use.
type Server struct {
	proxy     *proxy.Proxy
	head      time.Duration
	idle      time.Duration
	wire      http1.ConnConfig
	proxyFrom []netip.Prefix
	log       zerolog.Logger
	slots     chan struct{} // one token for each connection
	stopping  atomic.Bool
	last      atomic.Bool    // no connection goes on after its reply: stopping, or somebody waits for a place
	stop      chan struct{}  // closed when stopping is set
	conns     sync.WaitGroup // connections, and the listeners' Serve
	http2     *http.Server
	handedOn  *handoff
	http2Done chan struct{} // closed when http2's accept loop has ended

	mu      sync.Mutex // guards what follows; held for O(listeners), or O(conns) when there are too many and in Shutdown
	lns     map[net.Listener]struct{}
	open    map[*conn]struct{}
	waiting int       // connections without a place, one per listener at most
	crowded time.Time // when it was last logged that there are such
	cut     bool      // Shutdown's time is over
	active  int       // requests of http2 under way
	quiet   chan struct{}
}

// New returns a server that serves nothing yet. It must be shut down.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Proxy == nil:
		return nil, errors.New("frontend: Config.Proxy is not set")
	case cfg.HeadTimeout < 0 || cfg.IdleTimeout < 0:
		return nil, errors.New("frontend: Config.HeadTimeout or IdleTimeout is negative")
	case cfg.MaxConns < 0:
		return nil, fmt.Errorf("frontend: Config.MaxConns is %d, want 1 or more", cfg.MaxConns)
	}
	s := &Server{
		proxy: cfg.Proxy,
		head:  cmp.Or(cfg.HeadTimeout, defaultHead),
		idle:  cmp.Or(cfg.IdleTimeout, defaultIdle),
		wire:  cfg.Proxy.Wire(),
		log:   cfg.Log,

		proxyFrom: slices.Clone(cfg.ProxyProtocol),

		slots: make(chan struct{}, cmp.Or(cfg.MaxConns, defaultConns)),
		stop:  make(chan struct{}),
		lns:   make(map[net.Listener]struct{}),
		open:  make(map[*conn]struct{}),
	}
	s.startHTTP2()
	return s, nil
}

// ErrStopped is returned by [Server.Serve] on a server that has been shut down.
var ErrStopped = errors.New("frontend: the server was shut down")

// Serve accepts connections from ln, closes it in the end, and returns when
// [Server.Shutdown] was called, with nil, or when ln fails for good.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.stopping.Load() {
		s.mu.Unlock()
		_ = ln.Close() // nobody will accept from it
		return ErrStopped
	}
	s.lns[ln] = struct{}{}
	s.conns.Add(1)
	s.mu.Unlock()
	defer s.conns.Done()
	defer func() { _ = ln.Close() }() // by Shutdown already, mostly

	for wait := time.Duration(0); ; {
		nc, err := ln.Accept()
		if s.stopping.Load() {
			if err == nil {
				_ = nc.Close() // it came too late
			}
			return nil
		}
		if err == nil {
			wait = 0
			if !s.accept(nc) {
				return nil
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("frontend: accept on %v: %w", ln.Addr(), err)
		}
		// Too many open files, most likely: idle connections can be spared.
		wait = min(max(2*wait, minBackOff), maxBackOff)
		s.log.Warn().Stringer("listener", ln.Addr()).Err(err).Dur("wait", wait).Msg("cannot accept a connection")
		s.evict()
		if !s.pause(wait) {
			return nil
		}
	}
}

// How long Serve waits after a failure to accept.
const (
	minBackOff = 5 * time.Millisecond
	maxBackOff = time.Second
)

// pause waits for d and reports whether the server still runs.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// accept serves nc as soon as there is a place for it, and reports whether the
// server still runs.
func (s *Server) accept(nc net.Conn) bool {
	select {
	case s.slots <- struct{}{}:
	default:
		if s.crowd(1) {
			s.log.Warn().Int("max_conns", cap(s.slots)).Msg("connection limit reached")
		}
		s.evict()
		select {
		case s.slots <- struct{}{}:
			s.crowd(-1)
		case <-s.stop:
			_ = nc.Close() // it came too late
			return false
		}
	}
	c := &conn{s: s, nc: nc}
	c.since.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		_ = nc.Close() // it came too late
		<-s.slots
		return false
	}
	s.open[c] = struct{}{}
	s.conns.Go(c.serve)
	return true
}

// crowd counts connections that wait for a place, and reports whether that is news
// for the log. With as many clients as there are places it happens all the time.
func (s *Server) crowd(n int) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += n
	s.last.Store(s.waiting > 0 || s.stopping.Load())
	if n > 0 && time.Since(s.crowded) >= crowdedEvery {
		s.crowded = time.Now()
		return true
	}
	return false
}

// crowdedEvery is how often it is logged at most that there is no place.
const crowdedEvery = 10 * time.Second

// evict closes the connection that has been idle for longest, if there is one.
func (s *Server) evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *conn
	for c := range s.open {
		if c.state.Load() == idle && (oldest == nil || c.since.Load() < oldest.since.Load()) {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.closeIdle()
	}
}

// Shutdown ends the server. Connections that are idle are closed at once,
// requests under way may finish until ctx is done; then they are cut. It returns
// when everything has ended: nil, or an error that says how many connections were
// cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopping.Swap(true) {
		close(s.stop)
	}
	s.last.Store(true)
	for ln := range s.lns {
		_ = ln.Close() // it may be closed already
	}
	for c := range s.open {
		c.closeIdle()
	}
	s.mu.Unlock()
	s.proxy.DrainTunnels()

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.conns.Wait()
	}()
	h2err := s.shutdownHTTP2(ctx)
	select {
	case <-ended:
		return h2err
	case <-ctx.Done():
	}
	s.proxy.CutTunnels()
	s.mu.Lock()
	n := len(s.open)
	for c := range s.open {
		c.cut()
	}
	s.mu.Unlock()
	<-ended
	if n == 0 {
		return h2err
	}
	return fmt.Errorf("frontend: %d connections cut with requests under way: %w", n, ctx.Err())
}
