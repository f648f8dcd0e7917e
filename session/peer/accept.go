package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

const (
	// maxPending is how many handshakes may be under way. If one more comes the
	// oldest is given up: strangers who say nothing cannot keep members out.
	maxPending = 128

	// acceptPause is the wait after an error of the listener, such as too many
	// open files.
	acceptPause = 50 * time.Millisecond
)

// accept takes connections until the listener is closed.
func (s *Set) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return
			}
			s.log.Error().Err(err).Stringer("address", s.listener.Addr()).Msg("cannot accept a connection")
			time.Sleep(acceptPause) // Close waits for it
			continue
		}
		s.stats.accepted.Add(1)
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			s.discard(raw)
			return
		}
		var oldest net.Conn
		if len(s.pending) == maxPending {
			oldest = s.pending[0]
			s.pending = slices.Delete(s.pending, 0, 1) // after oldest was read: it moves the others down
			s.stats.crowded.Add(1)
		}
		s.pending = append(s.pending, raw)
		s.wg.Go(func() { s.greet(raw) })
		s.mu.Unlock()
		if oldest != nil {
			s.discard(oldest) // which ends its greet
		}
	}
}

func (s *Set) discard(raw net.Conn) {
	if err := ignoreClosed(raw.Close()); err != nil {
		s.log.Debug().Err(err).Msg("close connection")
	}
}

// greet takes one connection through the handshake, and serves it.
func (s *Set) greet(raw net.Conn) {
	c, err := s.welcome(raw)
	s.mu.Lock()
	if i := slices.Index(s.pending, raw); i >= 0 {
		s.pending = slices.Delete(s.pending, i, i+1)
	}
	s.mu.Unlock()
	if err == nil {
		c.run()
		return
	}
	switch _, refused := errors.AsType[refusal](err); {
	case refused:
		s.stats.refused.Add(1)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		s.stats.abandoned.Add(1)
	default:
		s.stats.garbage.Add(1)
	}
	s.discard(raw)
	s.log.Debug().Stringer("address", raw.RemoteAddr()).Err(err).Msg("connection refused")
}

// A refusal is the end of a well-formed handshake.
type refusal struct {
	verdict verdict
	from    ID
}

func (r refusal) Error() string {
	return fmt.Sprintf("peer: refused: %v: %v", r.from, r.verdict)
}

// secure sets the handshake's deadline and does TLS, if there are keys. It
// returns who the certificate names, or the zero ID without keys.
func (s *Set) secure(ctx context.Context, raw net.Conn, wrap func(net.Conn, *tls.Config) *tls.Conn) (net.Conn, ID, error) {
	if err := raw.SetDeadline(time.Now().Add(s.handshakeTimeout)); err != nil {
		return nil, ID{}, err
	}
	if s.tls == nil {
		return raw, ID{}, nil
	}
	nc := wrap(raw, s.tls)
	if err := nc.HandshakeContext(ctx); err != nil {
		return nil, ID{}, err
	}
	id, err := subject(nc.ConnectionState())
	return nc, id, err
}

// welcome is the accepter's side of the handshake. It writes nothing before a
// well-formed hello has come.
func (s *Set) welcome(raw net.Conn) (*Conn, error) {
	nc, named, err := s.secure(context.Background(), raw, tls.Server)
	if err != nil {
		return nil, err
	}
	h, err := readHello(nc)
	if err != nil {
		return nil, err
	}
	if s.tls != nil && named != h.Self {
		return nil, fmt.Errorf("%w: %v has the certificate of %v", errHandshake, h.Self, named)
	}
	r := reply{Self: s.self}
	var l *link
	if r.Version, r.Verdict = s.judge(h); r.Verdict == accepted {
		if l = s.link(h.Self); l == nil {
			r.Verdict = unlisted
		} else {
			r.Verdict, r.Gen = l.judge(h.Gen)
		}
	}
	if r.Verdict != accepted {
		r.Version = 0
	}
	if r.Verdict == accepted {
		defer l.greeted()
	}
	if _, err := nc.Write(r.encode()); err != nil {
		return nil, err
	}
	if r.Verdict != accepted {
		return nil, refusal{r.Verdict, h.Self}
	}
	if err := readConfirm(nc, h.Gen); err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c := newConn(s, l, h.Gen, r.Version, raw, nc)
	if !l.install(c) {
		return nil, refusal{staleGen, h.Self}
	}
	return c, nil
}

// judge looks at what does not depend on the link.
func (s *Set) judge(h hello) (uint8, verdict) {
	version, ok := agree(MinVersion, s.maxVersion, h.Min, h.Max)
	switch {
	case h.Cluster != s.cluster:
		return 0, otherCluster
	case h.Want != s.self:
		return 0, otherMember
	case !ok:
		return 0, otherVersion
	}
	return version, accepted
}

// judge decides about a proposed generation. If two dials cross, the lower one
// is refused here already, as soon as this side has proposed the higher one.
func (l *link) judge(gen uint64) (verdict, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := max(l.accepted, l.proposed)
	switch {
	case !l.listed || l.shut:
		return unlisted, 0
	case gen <= known || gen-known > maxLeap:
		return staleGen, max(known, l.floor)
	}
	l.floor = max(l.floor, gen)
	l.greeting++
	return accepted, gen
}

// greeted ends what an accepting judge began.
func (l *link) greeted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.greeting--
}
