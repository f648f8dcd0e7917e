package proxy

import (
	"errors"
	"io"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/proxy/urimap"
)

// A request is the body of what a client asks, and the way to stop reading it.
// Its head is parsed by package http1 whichever server it came over.
type request interface {
	// Source hands out the body.
	http1.Source

	// interrupt makes a Next that waits, in another goroutine, return. resume is
	// called after it has returned, and says whether Next can be called again.
	interrupt()
	resume() bool
}

// A reply is the way back to the client.
type reply interface {
	// interim passes on a reply with a status below 200. It may keep it back.
	interim(rep *http1.Reply) error

	// send passes on a reply: its head, without the lines that are marked as
	// dropped, and its body. n is the number of bytes of the body; rerr says why
	// the body ended early, and werr why the client cannot be written to.
	send(rep *http1.Reply, body http1.Source) (n int64, rerr, werr error)

	// refuse answers with a reply of our own.
	refuse(status int) (n int64, err error)

	// gone reports whether the client has gone away. It is not called while the
	// request's body is being read.
	gone() bool
}

// An exchange is one request on its way through the pipeline, with everything
// that it needs, so that it can be used again for another one. One goroutine
// works on it; a second one is the pump.
type exchange struct {
	p    *Proxy
	from *Client
	req  http1.Request
	in   request
	out  reply
	one  client1
	two  client2

	origin origin

	// What the request is sent as: head, and body as far as it was read and is
	// kept. It can be written to one member after another.
	msg     http1.Out
	bodyAt  int // where the body begins in it
	framing http1.Framing
	upgrade bool // it asks for another protocol, and has a place for a tunnel
	pump    pump
	spooled spooled

	// Who shall serve it.
	table   *table
	mapping *mapping
	normal  urimap.Scratch
	lb      *lb // of mapping
	ref     cookie.Reference
	scratch cookie.Scratch
	// Of refind; nil before the first.
	rescratch *cookie.Scratch
	cookies   [maxCookieLines][]byte
	serves    func(route []byte) bool // whether a session that names route has a member because of that
	knows     func(route []byte) bool // whether a member has the route
	want      balance.Request
	round     balance.Round
	rounds    int
	inRound   int // members tried in this round
	here      int // attempts at the leased member
	lease     balance.Lease
	settled   bool          // the lease knows already that the member has answered
	member    *member       // of lease; nil without one
	silence   time.Duration // of the member, the longest while a reply is awaited or comes; zero: no limit
	named     [cookie.MaxName]byte

	// The attempt.
	ajp      forward
	conn     *endpoint.Conn // nil if there is none
	rep      http1.Reply
	source   replyBody
	failure  failure
	cause    error  // of failure, for the log
	lost     bool   // failTimeout or failBegun because the member does not answer others either
	busy     bool   // failConnect for want of a free connection: the member lives
	crowded  bool   // failNotRun because the member has too much to do
	spare    bool   // failConnect because the endpoint was replaced meanwhile, or had no room for who does not wait
	full     bool   // some member had no room for who does not wait
	patient  bool   // none of them had: so it waits for its turn
	boot     uint64 // ID of the member's boot that gossip named last when it was sent the request
	wary     bool   // the request may have killed a member, and nobody can say whether another death costs sessions
	again    bool   // it goes to the member that has just dropped it
	paid     bool   // the budget was charged for the next attempt
	attempts int
	resends  int

	hops   int       // what Max-Forwards is sent on with; negative: as it is, if at all
	answer ErrorPage // the content of a reply of our own that is no error, or of any if owned
	owned  bool

	// What came of it.
	until   time.Time // when it has to be over; zero: no limit
	start   time.Time // when its first byte was there
	phases  accesslog.Phases
	status  int
	begun   bool  // the client has the head of a final reply
	read    int64 // bytes of the request's body, or of the client in a tunnel
	written int64 // bytes of the reply's body, or of the member in a tunnel
	beyond  int64 // bytes that the member was sent beyond what is in msg

	cookie    []byte     // scratch of ownCookie
	lines     []keptLine // of a reply whose content is replaced
	headBytes int        // of the reply's head
	served    *member    // by whom it was last tried

	// Its name in logs, here and at the member.
	id     []byte // made is where it is, or the client's own
	made   [idLength]byte
	logged []byte // scratch of the access log
}

// exchange makes one attempt at the leased member: the request goes out, and the
// head of a final reply comes back, in x.rep. It classifies what goes wrong, once
// and for all.
func (x *exchange) exchange() failure {
	if x.attempts++; x.attempts > 1 {
		x.member.counts.retries.Add(1)
	}
	x.here++
	x.served = x.member
	x.boot = x.member.boot.Load()
	x.busy, x.spare, x.lost, x.crowded, x.paid = false, false, false, false, false
	begun := x.elapsed()
	e, send := x.member.endpoint(), (*endpoint.Endpoint).Send
	if x.again {
		send = (*endpoint.Endpoint).SendFresh
	}
	first := x.msg.Bytes()
	x.pump.forward = nil
	if x.ajp.size = e.PacketSize(); x.ajp.size > 0 {
		x.pump.forward = &x.ajp
		var err error
		if first, err = x.forward(x.ajp.size); err != nil {
			return x.failed(failTooLarge, err)
		}
	}
	conn, f := send(e, x.p.ctx, first, endpoint.Wait{Client: x, Not: x.hurried(), Until: x.until})
	x.sent(conn, begun)
	if f != nil && (conn == nil || isTimeout(f.Err)) {
		x.conn = conn
		return x.stop(x.unsent(f))
	}
	// After a write that failed midway a reply may be waiting all the same: a
	// member that answers early stops reading (peers.md C17).
	x.conn = conn
	switch {
	case f != nil:
	case x.ajp.size > 0:
		conn.Feeder = x
		if f := x.beginForward(); f != failNone {
			return x.stop(f)
		}
	case x.pump.wanted():
		x.pump.start(x)
	}
	for {
		if f := x.readReply(); f != failNone {
			return x.stop(f)
		}
		if !x.rep.Interim() {
			x.mark(&x.phases.First)
			x.lease.Replied()
			return x.judge()
		}
		dropReply(&x.rep.Head, false)
		if err := x.out.interim(&x.rep); err != nil {
			return x.stop(x.failed(failGone, err))
		}
	}
}

// failed notes why.
func (x *exchange) failed(f failure, err error) failure {
	x.cause = err
	return f
}

// Gone implements [endpoint.Client].
func (x *exchange) Gone() bool { return x.out.gone() }

// hurried reports whether the request is not to wait for its turn at the member:
// that was chosen by its load alone, and others may have room.
func (x *exchange) hurried() bool { return !x.patient && x.lease.Reason() == balance.ByValue }

// unsent classifies the failure of sending.
func (x *exchange) unsent(f *endpoint.Failure) failure {
	switch f.Kind {
	case endpoint.Left:
		return x.failed(failGone, errGone)
	case endpoint.Busy:
		x.busy = true
		if x.hurried() {
			// It was only asked whether it has room.
			x.full, x.spare = true, true
			x.attempts--
		}
	case endpoint.Refused:
		// Others run there. If it were dead, their connections would be reset:
		// its backlog is full, perhaps.
		x.busy = !x.p.compat && x.member.endpoint().InFlight() > 0
	case endpoint.Closed, endpoint.Canceled:
		x.spare = true
	case endpoint.WriteMidway: // for want of time: it does not read what it is sent
		return x.failed(failTimeout, f)
	default:
	}
	return x.failed(failConnect, f)
}

// readReply waits for the next head from the member and reads it.
func (x *exchange) readReply() failure {
	if err := x.await(); err != nil {
		return x.classify(err)
	}
	var f *endpoint.Failure
	err := x.watch(func(step time.Duration) error {
		// Not a time-out, which each byte would renew.
		x.conn.Wire().SetReadDeadline(time.Now().Add(step))
		if f = x.conn.ReadReply(&x.rep, x.req.Method); f != nil {
			return f
		}
		return nil
	})
	switch {
	case err == nil:
		return failNone
	case f.Kind == endpoint.Malformed:
		return x.failed(failMalformed, f)
	}
	return x.classify(err)
}

// classify says what the end of the connection with err means, before there was
// a reply.
func (x *exchange) classify(err error) failure {
	switch {
	case errors.Is(err, http1.ErrInterrupted) && x.conn.Abandoned():
		x.lost = true
		return x.failed(failTimeout, errLost)
	case errors.Is(err, http1.ErrInterrupted):
		// The pump did that: it knows why.
		x.pump.wait()
		return x.failed(x.pump.failure, x.pump.err)
	case errors.Is(err, errGone):
		return x.failed(failGone, err)
	case errors.Is(err, errOverdue):
		return x.failed(failOverdue, err)
	case isTimeout(err):
		return x.failed(failTimeout, err)
	}
	return x.failed(failDropped, err)
}

// errGone is what await returns when the client has gone.
var errGone = errors.New("proxy: the client has gone away")

// errLost is the cause of a failure that a vigil has found out.
var errLost = errors.New("proxy: the member is silent, on other connections as well")

// The first look for a client that has gone is made after watchFirst, then less
// and less often.
const (
	watchFirst = 50 * time.Millisecond
	watchLast  = time.Second
)

// await waits for bytes of the member, and holds no buffer meanwhile.
func (x *exchange) await() error {
	return x.watch(func(step time.Duration) error {
		x.conn.Wire().SetReadTimeout(step)
		return x.conn.Wire().Await()
	})
}

// watch repeats read, which waits for the member for a step at a time. Now and then
// it looks whether the client is still there; while the pump runs the pump would
// notice.
//
// The error is [os.ErrDeadlineExceeded] when the member has been silent for too
// long. Its silence counts from the last piece of the body that it was sent, and not
// while the client has to send one.
func (x *exchange) watch(read func(step time.Duration) error) error {
	wire, silence := x.conn.Wire(), x.silence
	since := time.Now()
	begun, vigil := since, false
	defer func() {
		if vigil {
			x.member.leaveVigil()
		}
	}()
	for step := watchFirst; ; step = min(2*step, watchLast) {
		if silence > 0 {
			step = min(step, max(silence-time.Since(since), time.Millisecond))
		}
		before := wire.Buffered()
		err := read(x.within(step))
		if err == nil || !isTimeout(err) {
			return err
		}
		if x.overdue() {
			return errOverdue
		}
		if wire.Buffered() != before {
			since = time.Now() // a part of what is awaited
		}
		if last := x.pump.progress(); last.After(since) {
			since = last
		}
		if x.pump.quiet() && x.out.gone() {
			return errGone
		}
		if silence > 0 && time.Since(since) >= silence {
			return err
		}
		if !vigil && time.Since(begun) >= vigilAfter {
			x.p.keepVigil(x.member)
			vigil = true
		}
	}
}

// judge looks at a final reply before the client gets any of it.
func (x *exchange) judge() failure {
	if x.rep.Switched() {
		return x.switched()
	}
	if x.rep.Status == 503 && x.member.isOurs() {
		if i := x.rep.Find(http1.NameNotExecuted, 0); i >= 0 {
			x.noteReason(x.rep.Value(i))
			x.keepLines() // if nobody executes it
			return x.stop(failNotRun)
		}
	}
	if _, hit := x.failsOn(x.rep.Status); hit {
		return x.stop(failStatus)
	}
	if from := x.mapping.serverErrors; from > 0 && x.rep.Status >= from {
		x.keepLines()
		return x.stop(failReplaced)
	}
	return failNone
}

// stop ends an attempt that brought no reply for the client. f is returned, or a
// fault that the pump has found meanwhile and that explains it better.
func (x *exchange) stop(f failure) failure {
	if x.pump.halt(x); x.pump.failure != failNone && f != failNotRun {
		f = x.failed(x.pump.failure, x.pump.err)
	}
	if x.conn == nil {
		return f
	}
	if (f == failNotRun || f == failStatus || f == failReplaced) && x.pump.complete() {
		x.conn.Wire().SetReadTimeout(discardTime)
		_ = x.rep.Body.Discard(discardBytes) // if that fails, the connection is closed
		x.conn.Done(&x.rep)
	} else {
		x.conn.Close()
	}
	x.conn = nil
	return f
}

// How much of a reply that nobody gets is read, and how long it may take, so that
// the connection can be kept.
const (
	discardBytes = 4 << 10
	discardTime  = 100 * time.Millisecond
)

// A replyBody is the body of a member's reply as the client gets it.
type replyBody struct {
	x *exchange
}

// Next returns the next piece. When the member is silent for long the client is
// watched, so that a stream nobody listens to ends, and no buffer is held.
func (b *replyBody) Next() ([]byte, error) {
	body, wire, silence := &b.x.rep.Body, b.x.conn.Wire(), b.x.silence
	if b.x.overdue() {
		return nil, errOverdue
	}
	if body.Ready() {
		return body.Next()
	}
	wire.SetReadTimeout(watchFirst)
	if silence > 0 {
		wire.SetReadTimeout(min(silence, watchFirst))
	}
	if p, err := body.Next(); err == nil || !isTimeout(err) {
		return p, err
	}
	b.x.answered() // a stream may be the trial of a member, and never end
	if wire.Buffered() == 0 {
		if err := b.x.await(); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	var p []byte
	err := b.x.watch(func(step time.Duration) (err error) {
		wire.SetReadDeadline(time.Now().Add(step))
		p, err = body.Next()
		return err
	})
	return p, err
}

// Ready is [http1.Body.Ready].
func (b *replyBody) Ready() bool { return b.x.rep.Body.Ready() }

// Trailer is [http1.Body.Trailer] without what is not the client's.
func (b *replyBody) Trailer() *http1.Head {
	t := b.x.rep.Body.Trailer()
	dropTrailer(t)
	return t
}
