package peer

import (
	"fmt"
	"time"
)

const (
	// pieceSize is about how much is written before heartbeats get their turn.
	pieceSize = 64 << 10

	// drainTime is how long a connection that cannot be written any more is
	// still read, so that what the other side sent before it went is handled
	// (C1). After a reset the socket says so at once; the time only bounds it.
	drainTime = 100 * time.Millisecond
)

// enqueue appends a frame to the queue, or breaks the connection if it is full.
func (c *Conn) enqueue(k Kind, number uint64, payload []byte) (uint64, error) {
	if len(payload) > c.set.maxFrame {
		return 0, fmt.Errorf("%w: %d bytes to %v, more than the %d allowed", ErrTooLong, len(payload), c.ID(), c.set.maxFrame)
	}
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return 0, err
	}
	if k != Header && k != end && k != done && !c.up.Load() {
		c.mu.Unlock()
		return 0, ErrNotUp
	}
	if c.pending+len(payload) > c.set.maxQueue {
		c.mu.Unlock()
		c.fail(ErrSlow)
		return 0, ErrSlow
	}
	if k == Ask {
		number = c.asks.add(c.set.clock())
	}
	c.push(k, number, payload)
	c.mu.Unlock()
	c.ring()
	return number, nil
}

// push appends a frame to the queue. c.mu must be held.
func (c *Conn) push(k Kind, number uint64, payload []byte) {
	before := len(c.queue)
	c.queue = appendFrame(c.queue, k, number, payload)
	if last := c.cuts; len(last) == 0 && len(c.queue) >= pieceSize || len(last) > 0 && len(c.queue)-last[len(last)-1] >= pieceSize {
		c.cuts = append(c.cuts, len(c.queue))
	}
	c.pending += len(c.queue) - before
	c.pushed += uint64(len(c.queue) - before)
	c.set.stats.framesOut.Add(1)
	c.set.stats.bytesOut.Add(uint64(len(c.queue) - before))
}

// pushUrgent appends a heartbeat or its answer. c.mu must be held. It goes
// before what is queued: an answer says that its sender promises not to promote
// over us, and no frame that waits in its queue can contradict that, for while
// there is a connection it does not promote. See [Set.Promise].
func (c *Conn) pushUrgent(k Kind, number uint64) {
	before := len(c.urgent)
	c.urgent = appendFrame(c.urgent, k, number, nil)
	c.set.stats.framesOut.Add(1)
	c.set.stats.bytesOut.Add(uint64(len(c.urgent) - before))
}

func (c *Conn) ring() {
	select {
	case c.wake <- struct{}{}:
	default: // a token is already waiting
	}
}

// write writes what is queued, in as few writes as possible.
func (c *Conn) write() {
	var batch, urgent []byte
	var cuts []int
	for {
		select {
		case <-c.wake:
		case <-c.broken:
			return
		}
		for {
			c.mu.Lock()
			batch, c.queue = c.queue, batch[:0]
			cuts, c.cuts = c.cuts, cuts[:0]
			urgent, c.urgent = c.urgent, urgent[:0]
			c.mu.Unlock()
			if len(batch)+len(urgent) == 0 {
				break
			}
			var err error
			if urgent, err = c.writeBatch(batch, cuts, urgent); err != nil {
				c.unwritable(err)
				return
			}
			if cap(batch) > keepBuffer {
				batch = nil
			}
		}
	}
}

// writeBatch writes batch, and urgent frames before each of its pieces. It
// returns the buffer of urgent.
func (c *Conn) writeBatch(batch []byte, cuts []int, urgent []byte) ([]byte, error) {
	for start := 0; ; {
		stop := len(batch)
		if len(cuts) > 0 {
			stop, cuts = cuts[0], cuts[1:]
		}
		out := batch[start:stop]
		if len(urgent) > 0 && len(out) < pieceSize {
			urgent = append(urgent, out...) // one packet
			out = urgent
		} else if len(urgent) > 0 {
			if err := c.put(urgent); err != nil {
				return urgent, err
			}
		}
		if err := c.put(out); err != nil {
			return urgent, err
		}
		c.mu.Lock()
		c.pending -= stop - start
		c.wrote += uint64(stop - start)
		for len(c.waiters) > 0 && c.waiters[0].at <= c.wrote {
			close(c.waiters[0].done)
			c.waiters = c.waiters[1:]
		}
		if stop < len(batch) {
			urgent, c.urgent = c.urgent, urgent[:0]
		}
		c.mu.Unlock()
		select {
		case c.roomy <- struct{}{}:
		default: // a token is already waiting
		}
		if start = stop; start == len(batch) {
			return urgent, nil
		}
	}
}

func (c *Conn) put(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	c.set.stats.writes.Add(1)
	_, err := c.nc.Write(b)
	return err
}

// unwritable ends the sending side, and leaves the reader a moment for what had
// arrived already.
func (c *Conn) unwritable(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.down(err)
	}
	c.mu.Unlock()
	if err := c.raw.SetReadDeadline(time.Now().Add(drainTime)); err != nil {
		c.fail(err)
	}
}
