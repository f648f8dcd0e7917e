package endpoint

import (
	"errors"
	"slices"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// sweepEvery is how often kept connections are looked at; a shorter IdleTimeout
// makes it shorter.
const sweepEvery = 10 * time.Second

// keep keeps c for a later request. It says no if c has to be closed.
func (e *Endpoint) keep(c *Conn) bool {
	now := time.Now()
	if e.age > 0 && now.Sub(c.born) >= e.age {
		return false
	}
	c.idle, c.pinged, c.kept = now, now, true
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unuse(c)
	// From here on nobody interrupts c. That it was too late is no excuse.
	if e.closed || e.retired || len(e.kept) >= e.maxIdle || c.wire.Interrupted() {
		return false
	}
	e.kept = append(e.kept, c)
	e.arm()
	return true
}

// take returns the kept connection that was used last and can be used again, or
// nil. Those that cannot are closed on the way.
func (e *Endpoint) take(now time.Time) *Conn {
	for {
		e.mu.Lock()
		n := len(e.kept)
		if n == 0 {
			e.mu.Unlock()
			return nil
		}
		c := e.kept[n-1]
		e.kept[n-1] = nil
		e.kept = e.kept[:n-1]
		e.use(c)
		e.mu.Unlock()
		if !e.expired(c, now) && c.wire.Look() == http1.Quiet {
			return c
		}
		e.counts.stale.Add(1)
		c.drop()
	}
}

// drop closes a connection that is not in use.
func (c *Conn) drop() {
	c.shut()
	c.wire.Recycle()
}

// expired reports whether c is too old, or idle for too long.
func (e *Endpoint) expired(c *Conn, now time.Time) bool {
	idle := now.Sub(c.idle)
	switch {
	case e.age > 0 && now.Sub(c.born) >= e.age:
		return true
	case e.idleTime > 0 && idle > e.idleTime:
		return true
	}
	// A tenth of what the member promised is left to the way there.
	return c.lifetime > 0 && idle >= c.lifetime-c.lifetime/10
}

// forget counts a connection out.
func (e *Endpoint) forget(c *Conn) {
	e.mu.Lock()
	e.unuse(c)
	e.open--
	e.mu.Unlock()
}

// use notes that a request has c. e.mu must be held.
func (e *Endpoint) use(c *Conn) {
	e.used = append(e.used, c)
	c.at = len(e.used)
}

// unuse undoes use, if that is still to be done. e.mu must be held.
func (e *Endpoint) unuse(c *Conn) {
	if c.at == 0 {
		return
	}
	last := len(e.used) - 1
	e.used[c.at-1] = e.used[last]
	e.used[c.at-1].at = c.at
	e.used[last] = nil
	e.used = e.used[:last]
	c.at = 0
}

// Abandon interrupts all requests in flight, whose replies will not come: the
// member was silent to gossip and to a probe. Their reads fail with
// [http1.ErrInterrupted], ReadReply with [TimedOut], and [Conn.Abandoned] says
// why. Kept connections are closed. Later requests are not concerned.
func (e *Endpoint) Abandon() {
	e.CloseKept()
	e.mu.Lock()
	defer e.mu.Unlock()
	// Setting a deadline does not wait, and a connection must not be given
	// back and used for another request meanwhile.
	for _, c := range e.used {
		c.left.Store(true)
		c.wire.Interrupt()
	}
}

// CloseKept closes the kept connections: the member is known to be gone, or is
// silent. Connections in use go on.
func (e *Endpoint) CloseKept() {
	e.mu.Lock()
	kept := e.kept
	e.kept = nil
	e.mu.Unlock()
	for _, c := range kept {
		c.drop()
	}
}

// arm starts the timer unless it runs. e.mu must be held.
func (e *Endpoint) arm() {
	if e.armed {
		return
	}
	e.armed = true
	every := sweepEvery
	if e.idleTime > 0 {
		every = min(every, e.idleTime)
	}
	if e.pingAfter > 0 {
		every = min(every, e.pingAfter)
	}
	e.sweeps.Add(1)
	if e.timer == nil {
		e.timer = time.AfterFunc(every, e.sweep)
	} else {
		e.timer.Reset(every)
	}
}

// disarm stops the timer, or leaves it to the sweep that has begun. e.mu must be
// held.
func (e *Endpoint) disarm() {
	if e.armed && e.timer.Stop() {
		e.armed = false
		e.sweeps.Done()
	}
}

// restless is how recently a connection was used if sweep leaves it alone: at
// its next use it is looked at in any case.
const restless = time.Second

// ping probes a kept connection if that is due, and reports whether it can be kept,
// and whether the member was silent.
func (e *Endpoint) ping(c *Conn, now time.Time) (usable, silent bool) {
	if e.pingAfter <= 0 || now.Sub(c.pinged) < e.pingAfter {
		return true, false
	}
	e.mu.Lock()
	closed := e.closed
	e.pinged = c
	e.mu.Unlock()
	if closed {
		return false, false
	}
	c.pinged = now
	_, usable, err := e.ask(c, e.pingTimeout)
	return usable, errors.Is(err, errSilent)
}

// sweep closes kept connections that the member has closed or that were idle for
// too long, but leaves minIdle of the latter, and probes those for which it is time.
// Those it looks at are not in the
// list meanwhile, so that no lock is held.
func (e *Endpoint) sweep() {
	defer e.sweeps.Done()
	now := time.Now()
	e.mu.Lock()
	n := 0
	for n < len(e.kept) && now.Sub(e.kept[n].idle) >= restless {
		n++
	}
	old := append([]*Conn(nil), e.kept[:n]...)
	e.kept = slices.Delete(e.kept, 0, n)
	left := len(old) + len(e.kept)
	e.mu.Unlock()

	good, silent := old[:0], false
	for _, c := range old {
		usable := !silent && (!e.expired(c, now) || left <= e.minIdle) && c.wire.Look() == http1.Quiet
		if usable {
			usable, silent = e.ping(c, now)
		}
		if !usable {
			e.counts.stale.Add(1)
			c.drop()
			left--
			continue
		}
		good = append(good, c)
	}

	if silent {
		e.CloseKept() // each of them would cost a request the wait for an answer
	}

	e.mu.Lock()
	e.armed, e.pinged = false, nil
	closed := e.closed || e.retired
	if !closed {
		e.kept = slices.Insert(e.kept, 0, good...)
		if len(e.kept) > 0 {
			e.arm()
		}
	}
	e.mu.Unlock()
	if closed {
		for _, c := range good {
			c.drop()
		}
	}
}
