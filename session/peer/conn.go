package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn is one connection to one boot: one generation. Frames given to a Conn
// go over it or nowhere (C1). Its methods are safe for concurrent use, and but
// for Room never wait.
type Conn struct {
	set     *Set
	link    *link
	gen     uint64
	version uint8
	raw     net.Conn // closed by pulse alone
	nc      net.Conn // raw, or TLS over it

	wake   chan struct{} // capacity one: the writer has work
	roomy  chan struct{} // capacity one: the writer has made room
	broken chan struct{} // closed by fail: reader, writer, pulse and compare end
	ended  chan struct{} // closed after Down

	up       atomic.Bool  // between the call of Up and the end
	met      atomic.Bool  // between the return of Up and the end
	wasUp    atomic.Bool  // was up once
	stopped  atomic.Bool  // nothing more is delivered
	answered atomic.Int64 // when the last thing was sent that was answered; set.clock

	mu       sync.Mutex // guards the fields below; held for the copy of one frame, never across I/O or a call of Handler
	err      error      // why nothing more is sent; nil while alive
	queue    []byte     // whole frames in order
	cuts     []int      // ends of frames in queue, about every pieceSize bytes
	urgent   []byte     // heartbeats and their answers
	pending  int        // bytes of queue, and of what the writer took from it and has not written
	pushed   uint64     // bytes that queue has had in all
	wrote    uint64     // of which so many were written
	waiters  []waiter   // for wrote, in order
	asks     waits      // frames by Ask
	beats    waits      // heartbeats
	sentEnd  bool
	gotEnd   bool
	sentDone bool
}

// newConn returns a connection that run will serve.
func newConn(s *Set, l *link, gen uint64, version uint8, raw, nc net.Conn) *Conn {
	return &Conn{
		set: s, link: l, gen: gen, version: version, raw: raw, nc: nc,
		wake:   make(chan struct{}, 1),
		roomy:  make(chan struct{}, 1),
		broken: make(chan struct{}),
		ended:  make(chan struct{}),
	}
}

// ID returns the boot on the other side.
func (c *Conn) ID() ID { return c.link.id }

// Generation returns the connection's number; it grows from one connection of
// a pair of boots to the next, and both sides agree on it.
func (c *Conn) Generation() uint64 { return c.gen }

// Version returns the wire version agreed on, for what frames contain.
func (c *Conn) Version() uint8 { return c.version }

// Leased reports whether this member may rely on the other one now (C3):
// Handler.Up has returned, the connection lives, and less than
// Config.AckTimeout has passed since the last heartbeat or Ask was sent that the
// other one answered. It costs one reading of the clock.
func (c *Conn) Leased() bool {
	return c.met.Load() && c.set.clock()-c.answered.Load() < int64(c.set.ackTimeout)
}

// Send queues an ordinary frame. It does not retain payload.
//
// The errors of Send, Ask, Answer and Header are ErrTooLong, ErrNotUp (not of
// Header), and else a broken connection: Down has been called or will be. After
// nil the frame may still be lost with the connection.
func (c *Conn) Send(payload []byte) error {
	_, err := c.enqueue(Plain, 0, payload)
	return err
}

// Ask queues a frame that the other side answers with [Conn.Answer]. The
// Answer frame will carry the number returned. If it is not there within
// Config.AckTimeout the connection is broken, for all sessions (C4); so ask
// only what is answered without waiting for others. The answer extends the
// lease to Config.AckTimeout after this call.
func (c *Conn) Ask(payload []byte) (uint64, error) {
	return c.enqueue(Ask, 0, payload)
}

// Answer queues the answer to an [Ask] frame of that number, which came on this
// very connection. To each one answer is due. It renews the promise to the
// other side (C3).
func (c *Conn) Answer(number uint64, payload []byte) error {
	c.link.promise(c.set.clock())
	_, err := c.enqueue(Answer, number, payload)
	return err
}

// Header queues a header of the compare, before or after Up.
func (c *Conn) Header(payload []byte) error {
	_, err := c.enqueue(Header, 0, payload)
	return err
}

// Room waits until little is queued, or returns why the connection broke. It is
// for the series of headers, which may be longer than the queue, and must not
// be called with locks held or from another goroutine than that of the series.
func (c *Conn) Room() error {
	for {
		c.mu.Lock()
		full, err := c.pending > c.set.maxQueue/4, c.err
		c.mu.Unlock()
		if err != nil || !full {
			return err
		}
		select {
		case <-c.roomy:
		case <-c.broken:
		}
	}
}

// A waiter is somebody in Written.
type waiter struct {
	at   uint64
	done chan struct{} // closed when Conn.wrote is at
}

// Written waits until all that was queued before has been given to the network,
// which says nothing about whether it arrives. The error is ctx's, or why the
// connection broke.
func (c *Conn) Written(ctx context.Context) error {
	c.mu.Lock()
	if c.err != nil || c.wrote == c.pushed {
		defer c.mu.Unlock()
		return c.err
	}
	w := waiter{c.pushed, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-c.broken:
		return ErrBroken
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Load returns how many bytes wait to be written, and how many asks for their
// answer: for who has a choice of what to send when.
func (c *Conn) Load() (bytes, asks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending, c.asks.open()
}

// Break ends the connection, for instance because a frame made no sense. Down
// gets err.
func (c *Conn) Break(err error) {
	c.fail(err)
}

// fail ends the connection: nothing more is sent, and nothing more delivered.
// Only the first cause counts.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.down(err)
	}
	if !c.stopped.Swap(true) {
		close(c.broken)
	}
}

// down notes the first cause. c.mu must be held.
func (c *Conn) down(err error) {
	c.err = fmt.Errorf("%w: %v, generation %d: %w", ErrBroken, c.ID(), c.gen, err)
	c.up.Store(false)
	c.met.Store(false)
}

// run serves the connection from Open to Down. It owns the goroutines.
func (c *Conn) run() {
	defer close(c.ended)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(c.pulse)
	select {
	case c.link.turn <- struct{}{}: // an older one has ended
	case <-c.broken:
		c.set.lost(c)
		return
	}
	defer func() { <-c.link.turn }()
	if c.stopped.Load() {
		c.set.lost(c)
		return
	}
	compare := c.set.handler.Open(c)
	c.set.stats.opened.Add(1)
	c.set.opened(c)
	wg.Go(c.write)
	wg.Go(func() { c.compare(compare) })
	c.fail(c.read())
	wg.Wait()
	c.set.lost(c)
	c.set.handler.Down(c, c.err) // no lock: nobody writes err any more
}

// compare sends the series of headers and its end.
func (c *Conn) compare(series func() error) {
	if series != nil {
		if err := series(); err != nil {
			c.fail(err)
			return
		}
	}
	c.mu.Lock()
	if c.err == nil {
		c.push(end, 0, nil)
		c.sentEnd = true
		c.finish()
	}
	c.mu.Unlock()
	c.ring()
}

// finish sends done once all of our headers are sent and all of theirs handled.
// c.mu must be held.
func (c *Conn) finish() {
	if c.sentEnd && c.gotEnd && !c.sentDone && c.err == nil {
		c.push(done, 0, nil)
		c.sentDone = true
	}
}

// read handles frames until the connection ends, and returns why.
func (c *Conn) read() error {
	r := newReader(c.nc, c.set.maxFrame)
	var asked uint64 // asks that arrived
	for {
		f, size, err := r.next()
		if err == nil && c.stopped.Load() {
			return nil
		}
		if err == nil {
			c.set.stats.framesIn.Add(1)
			c.set.stats.bytesIn.Add(uint64(size))
			if f.Kind == Ask {
				asked++
				f.Number = asked
			}
			err = c.handle(f)
		}
		if errors.Is(err, ErrFrame) {
			c.set.stats.garbage.Add(1)
		}
		if err != nil {
			return err
		}
	}
}

// handle does what one frame asks for.
func (c *Conn) handle(f Frame) error {
	switch f.Kind {
	case Header:
		c.set.handler.Frame(c, f)
	case Plain, Ask, Answer:
		if !c.wasUp.Load() {
			return fmt.Errorf("%w: kind %d before the compare has ended", ErrFrame, f.Kind)
		}
		if f.Kind == Answer && !c.settle(&c.asks, f.Number) {
			return fmt.Errorf("%w: answer %d to nothing", ErrFrame, f.Number)
		}
		c.set.handler.Frame(c, f)
	case heartbeat:
		c.link.promise(c.set.clock())
		c.mu.Lock()
		c.pushUrgent(beatback, f.Number)
		c.mu.Unlock()
		c.ring()
	case beatback:
		if !c.settle(&c.beats, f.Number) {
			return fmt.Errorf("%w: heartbeat %d was not sent", ErrFrame, f.Number)
		}
	case end, done:
		return c.mark(f.Kind)
	}
	return nil
}

// mark handles the marks that end the compare.
func (c *Conn) mark(k Kind) error {
	c.mu.Lock()
	ok := k == end && !c.gotEnd || k == done && c.sentDone && !c.wasUp.Load()
	alive := c.err == nil
	if k == end {
		c.gotEnd = true
		c.finish()
	} else if ok && alive {
		c.wasUp.Store(true)
		c.up.Store(true)
	}
	c.mu.Unlock()
	c.ring()
	if !ok {
		return fmt.Errorf("%w: mark %d out of turn", ErrFrame, k)
	}
	if k == done && alive {
		c.set.handler.Up(c)
		c.set.raised(c)
	}
	return nil
}

// settle notes the answer to an ask or heartbeat. It reports whether that
// number was waiting.
func (c *Conn) settle(w *waits, number uint64) bool {
	c.mu.Lock()
	at, ok := w.answer(number)
	c.mu.Unlock()
	if ok && at > c.answered.Load() { // only the reader writes it
		c.answered.Store(at)
	}
	return ok
}

// pulse sends heartbeats, breaks the connection when an answer is late (C4), and
// closes it when it is broken.
func (c *Conn) pulse() {
	w := watch{every: int64(c.set.heartbeat), patience: int64(c.set.ackTimeout), limit: c.set.clock() + int64(c.set.compareTimeout)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.broken:
			if err := c.raw.Close(); err != nil {
				c.set.log.Debug().Stringer("member", c.ID()).Err(err).Msg("close connection")
			}
			return
		case <-timer.C:
		}
		now := c.set.clock()
		c.mu.Lock()
		oldest := min(c.asks.oldest(), c.beats.oldest())
		verdict := w.look(now, oldest, c.wasUp.Load())
		if verdict.beat {
			c.pushUrgent(heartbeat, c.beats.add(now))
		}
		c.mu.Unlock()
		if verdict.err != nil {
			if errors.Is(verdict.err, ErrSilent) {
				c.set.stats.silent.Add(1)
			}
			c.fail(verdict.err)
			continue
		}
		c.ring()
		timer.Reset(time.Duration(verdict.next - c.set.clock()))
	}
}
