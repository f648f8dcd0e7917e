package endpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// Send gets a connection to the member and writes first to it: the head of a
// request and as much of its body as the caller has collected. As long as
// nothing was written it tries again as Config.Retries says. The caller owns
// the connection until its Done or Close; if there is a failure there is no
// connection, except after [WriteMidway], where a reply may be waiting: then
// there are both.
//
// ctx bounds the wait for a connection and the dial, not what follows; w says how
// to wait if MaxConns are in use.
func (e *Endpoint) Send(ctx context.Context, first []byte, w Wait) (*Conn, *Failure) {
	return e.send(ctx, first, w, false)
}

// SendFresh is Send over a new connection, for a request that was lost with a kept
// one: the member may be about to close the others as well (peers.md D04, D05).
func (e *Endpoint) SendFresh(ctx context.Context, first []byte, w Wait) (*Conn, *Failure) {
	return e.send(ctx, first, w, true)
}

func (e *Endpoint) send(ctx context.Context, first []byte, w Wait, fresh bool) (*Conn, *Failure) {
	queued, f := e.getSlot(ctx, w)
	if f != nil {
		return nil, f
	}
	for try := 1; ; try++ {
		c, f := e.attempt(ctx, first, fresh)
		if c != nil {
			c.tries, c.queued = try, queued
		}
		if f == nil {
			return c, nil
		}
		f.Tries = try
		if c != nil {
			return c, f
		}
		if try >= e.retries || f.Kind == Canceled || f.Kind == Closed || !e.pause(ctx) {
			e.freeSlot()
			return nil, f
		}
	}
}

// attempt is one try: kept connections, unless it is to be a fresh one, then at most
// one new one.
func (e *Endpoint) attempt(ctx context.Context, first []byte, fresh bool) (*Conn, *Failure) {
	probe, silent := true, false // until the member has shown that it lives; it was asked in vain
	begun := time.Now()
	for now := begun; !fresh; now = time.Now() {
		c := e.take(now)
		if c == nil {
			break
		}
		c.readied = now.Sub(begun)
		if probe {
			answered, usable, err := e.check(c)
			probe = !answered
			silent = errors.Is(err, errSilent)
			if !usable {
				c.drop()
				continue
			}
			if answered {
				c.readied = time.Since(begun)
			}
		}
		e.counts.reuses.Add(1)
		f := e.write(c, first)
		if f == nil || f.Kind != Unsent {
			return c, f
		}
		e.counts.stale.Add(1)
		c.drop()
	}
	c, f := e.connectTo(ctx)
	if f != nil {
		return nil, f
	}
	if probe {
		if c, f = e.checkNew(ctx, c, silent); f != nil {
			return nil, f
		}
	}
	c.readied = time.Since(begun)
	if f := e.write(c, first); f != nil {
		if f.Kind == Unsent {
			c.drop()
			return nil, f
		}
		return c, f
	}
	return c, nil
}

// write writes first, to a connection that was looked at.
func (e *Endpoint) write(c *Conn, first []byte) *Failure {
	c.interims, c.head = 0, false
	c.packets.Reset(e.packet)
	c.content, c.reuse = 0, false
	c.spoilt.Store(false)
	n, err := c.wire.Write(first)
	c.sent.Store(int64(n))
	switch {
	case err == nil:
		return nil
	case n == 0:
		return c.failure(Unsent, err)
	}
	return c.failure(WriteMidway, err)
}

// connectTo dials.
func (e *Endpoint) connectTo(ctx context.Context) (*Conn, *Failure) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, e.fail(Closed, errClosed)
	}
	dctx := ctx
	if e.connect > 0 {
		var cancel context.CancelFunc
		dctx, cancel = context.WithTimeout(ctx, e.connect)
		defer cancel()
	}
	e.counts.dials.Add(1)
	nc, err := e.dial(dctx, "tcp", e.address)
	if err != nil {
		e.counts.dialFailures.Add(1)
		return nil, e.fail(dialKind(ctx, err), err)
	}
	c := &Conn{e: e, wire: http1.NewConn(nc, e.wire), born: time.Now()}
	c.text.Init(e.wire.Buffers)
	if e.age > 0 {
		// Not all at once: connections that were made together, when the proxy or
		// the member began, end one after the other.
		c.born = c.born.Add(-rand.N(e.age/10 + 1))
	}
	e.mu.Lock()
	e.open++
	e.most = max(e.most, e.open)
	e.use(c)
	e.mu.Unlock()
	return c, nil
}

func (e *Endpoint) fail(k Kind, err error) *Failure {
	return &Failure{Kind: k, Address: e.address, Err: err}
}

// pause waits before another try and reports whether there is to be one.
func (e *Endpoint) pause(ctx context.Context) bool {
	if e.interval < 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(e.interval)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
