package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"
)

const (
	firstPause = 5 * time.Millisecond   // after a first failed dial
	lastPause  = 500 * time.Millisecond // it doubles up to here; a member that is back is met within 2 s (design 6)
)

// keep dials a member whenever there is no connection, until ctx is done.
func (s *Set) keep(ctx context.Context, l *link) {
	var pause time.Duration // before the next dial
	var lonely time.Time    // since when there has been no connection
	for ctx.Err() == nil {
		if c := l.current(); c != nil {
			select {
			case <-c.ended:
			case <-ctx.Done():
				return
			}
			lonely = time.Time{}
			if pause = longer(pause); c.wasUp.Load() {
				pause = 0
			}
			continue
		}
		if lonely.IsZero() {
			lonely = time.Now()
		}
		if !rest(ctx, pause) {
			return
		}
		c, err := s.connect(ctx, l)
		switch {
		case c != nil:
			s.wg.Go(c.run) // this goroutine is one of wg, so wg is not at zero
			continue
		case ctx.Err() != nil:
			return
		}
		pause = longer(pause)
		if !passing(err) || time.Since(lonely) > 2*s.handshakeTimeout {
			s.failed(l, err)
		}
	}
}

// passing reports whether a failed dial is likely to be followed by a
// connection at once: the other side prefers its own dial, or it is about to
// hear of this member. It is alive, and a driver that waits for it to compare
// should go on waiting.
func passing(err error) bool {
	if errors.Is(err, errOvertaken) {
		return true
	}
	r, ok := errors.AsType[refusal](err)
	return ok && (r.verdict == staleGen || r.verdict == unlisted)
}

// longer returns the pause after p.
func longer(p time.Duration) time.Duration {
	return min(max(2*p, firstPause), lastPause)
}

// rest waits for about d, so that members that lost each other at once do not
// dial in step. It reports false if ctx is done.
func rest(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d - rand.N(d/4+1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errOvertaken: there is a connection from the other side, or almost.
var errOvertaken = errors.New("overtaken by a connection from there")

// errReplaced: another boot of the name has the address (C5, D12).
var errReplaced = errors.New("another boot of it answers")

// provesGone reports whether a failed dial proves that the boot is gone: the
// address refused the connection, or another boot of its name listens there
// now. A time-out or a reset proves nothing.
func provesGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errReplaced)
}

// failed tells the driver, if it is news and there is no connection after all.
func (s *Set) failed(l *link, err error) {
	select {
	case l.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-l.turn }()
	state := Unreachable
	if provesGone(err) {
		state = Gone
	}
	l.mu.Lock()
	news := l.conn == nil && l.listed && l.state != state
	if l.conn == nil {
		l.state, l.err = state, err
	}
	l.mu.Unlock()
	if news {
		s.log.Info().Stringer("member", l.id).Stringer("state", state).Err(err).Msg("member cannot be reached")
		s.handler.Failed(l.id, state == Gone, err)
	}
}

// current returns the connection there is, or nil.
func (l *link) current() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// connect dials once.
func (s *Set) connect(ctx context.Context, l *link) (*Conn, error) {
	l.mu.Lock()
	addr := l.addr
	l.mu.Unlock()
	if s.tls == nil && !loopback(addr) {
		return nil, fmt.Errorf("peer: dial %v at %s: open address without key", l.id, addr)
	}
	s.stats.dials.Add(1)
	dialCtx, cancel := context.WithTimeout(ctx, s.handshakeTimeout)
	defer cancel()
	raw, err := s.dial(dialCtx, addr)
	if err != nil {
		return nil, fmt.Errorf("peer: dial %v at %s: %w", l.id, addr, err)
	}
	if !s.track(raw) {
		s.discard(raw)
		return nil, ErrClosed
	}
	nc, named, err := s.secure(ctx, raw, tls.Client)
	var c *Conn
	if err == nil && s.tls != nil {
		err = checkName(l.id, named)
	}
	if err == nil {
		c, err = s.introduce(l, raw, nc)
	}
	s.untrack(raw)
	if c == nil {
		s.discard(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("peer: handshake with %v at %s: %w", l.id, addr, err)
	}
	return c, nil
}

// track lets Close end a handshake. It reports false if Close was called.
func (s *Set) track(raw net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.dialled = append(s.dialled, raw)
	return true
}

func (s *Set) untrack(raw net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.dialled, raw); i >= 0 {
		s.dialled = slices.Delete(s.dialled, i, i+1)
	}
}

// checkName compares who was wanted with who is there.
func checkName(want, there ID) error {
	switch {
	case there == want:
		return nil
	case there.Name == want.Name:
		return fmt.Errorf("%w: %v", errReplaced, there)
	}
	return fmt.Errorf("%w: %v is there", errHandshake, there)
}

// introduce is the dialler's side of the handshake.
func (s *Set) introduce(l *link, raw, nc net.Conn) (*Conn, error) {
	gen := l.propose(s.self)
	if gen == 0 {
		return nil, errOvertaken
	}
	defer l.withdraw()
	h := hello{Min: MinVersion, Max: s.maxVersion, Cluster: s.cluster, Self: s.self, Want: l.id, Gen: gen}
	if _, err := nc.Write(h.encode()); err != nil {
		return nil, err
	}
	r, err := readReply(nc)
	if err != nil {
		return nil, err
	}
	if err := checkName(l.id, r.Self); err != nil {
		return nil, err
	}
	if r.Verdict == staleGen {
		l.outbid(r.Gen)
	}
	if r.Verdict != accepted {
		return nil, refusal{r.Verdict, l.id}
	}
	if r.Version < MinVersion || r.Version > s.maxVersion || r.Gen != gen {
		return nil, fmt.Errorf("%w: version %d, generation %d", errHandshake, r.Version, r.Gen)
	}
	c := newConn(s, l, gen, r.Version, raw, nc)
	if !l.install(c) {
		return nil, errOvertaken
	}
	_, err = nc.Write(encodeConfirm(gen))
	if err = errors.Join(err, raw.SetDeadline(time.Time{})); err != nil {
		c.fail(err)
	}
	return c, nil
}

// propose chooses a generation, unless there is a connection or the other side
// is about to make one: then it is 0.
func (l *link) propose(self ID) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil || l.greeting > 0 {
		return 0
	}
	l.proposed = nextGen(max(l.floor, l.accepted), self, l.id)
	l.floor = l.proposed
	return l.proposed
}

// withdraw forgets the proposal, which was accepted or not.
func (l *link) withdraw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proposed = 0
}

// outbid notes that the other side has heard of a higher generation.
func (l *link) outbid(gen uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gen > l.floor && gen-l.floor <= maxLeap {
		l.floor = gen
	}
}
