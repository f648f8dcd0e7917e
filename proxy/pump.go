package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// chunkFrame is the most that a piece of a body needs besides its bytes.
const chunkFrame = 20

// errTooLarge is a body over [Config.MaxBody].
var errTooLarge = &http1.Error{Status: http.StatusRequestEntityTooLarge, Reason: "body longer than the limit"}

// A pump passes on the body of a request while its client still sends it. It is
// the second goroutine of an exchange; bodies that are short, or have come with
// the head, do without.
//
// What it passes on is appended to the exchange's msg as long as it fits, then to
// the spool, so that another member can be sent the same.
type pump struct {
	running bool // start was called, and nobody has noticed since that it is over
	done    chan struct{}

	ended   atomic.Bool  // the body was read to its end
	drained atomic.Bool  // and the last of it is being handed to the connection
	settled atomic.Bool  // the request will not be sent again
	last    atomic.Int64 // when the member was last sent a piece, in nanoseconds of Unix time, or clientsTurn

	// Valid when it is over.
	failure failure
	err     error // of failure
	broken  bool  // no more of the body can be read
	full    bool  // msg has no room for more: what follows is in the spool
	spilled bool  // something of the body was kept nowhere
	unsent  bool  // the connection failed before the body's end was written

	out  http1.Out // what is framed
	rest rest

	// Over AJP13.
	forward *forward      // of the exchange; nil if its member speaks HTTP
	asked   chan int      // how many bytes a piece may have that the member asks for
	quit    chan struct{} // a token: it is over
}

// reset makes p ready for a request whose body has ended or not.
func (p *pump) reset(ended bool) {
	p.running, p.full, p.spilled, p.unsent, p.broken = false, false, false, false, false
	p.failure, p.err = failNone, nil
	p.ended.Store(ended)
}

// wanted reports whether there is a body that a new connection has not got with
// msg.
func (p *pump) wanted() bool { return p.full || !p.ended.Load() }

// start lets the pump send the rest of the body to the member of x.
func (p *pump) start(x *exchange) {
	if p.forward != nil {
		p.prepare()
	}
	if p.done == nil {
		p.done = make(chan struct{}, 1)
	}
	p.running, p.unsent = true, true
	p.failure, p.err = failNone, nil
	p.rest = rest{x: x}
	p.drained.Store(false)
	p.settled.Store(!x.resendable())
	p.touch()
	go p.run(x)
}

// run is the goroutine.
func (p *pump) run(x *exchange) {
	defer func() { p.done <- struct{}{} }()
	var err error
	switch {
	case p.forward != nil:
		err = p.feed(x)
	case !p.full:
		if err = p.keep(x); err == nil && p.full {
			err = p.pass(x)
		}
	default:
		err = p.pass(x)
	}
	if err == nil || errors.Is(err, http1.ErrInterrupted) {
		return
	}
	p.failure, p.err = x.classifyBody(err), err
	x.conn.Interrupt() // nobody need wait for an answer to half a request
}

// next reads a piece of the body from the client.
func (p *pump) next(x *exchange) ([]byte, error) {
	if p.ended.Load() {
		p.drained.Store(true)
		return nil, io.EOF
	}
	p.last.Store(clientsTurn)
	piece, err := x.in.Next()
	p.touch()
	if err == io.EOF { //nolint:errorlint // a Source returns it bare
		p.ended.Store(true)
		p.drained.Store(true)
	}
	if x.read += int64(len(piece)); x.p.maxBody > 0 && x.read > x.p.maxBody {
		return nil, errTooLarge
	}
	if x.read == x.req.Body.Length() {
		// The member may answer before anybody is told io.EOF.
		p.ended.Store(true)
		p.drained.Store(true)
	}
	return piece, err
}

// keep sends the body as long as it can be kept in msg as well. The error is one
// of the client's side; one of the member's is for who reads its reply.
func (p *pump) keep(x *exchange) error {
	for {
		sent := x.msg.Len()
		piece, err := p.next(x)
		switch {
		case err == io.EOF: //nolint:errorlint // a Source returns it bare
			x.msg.EndBody(x.framing, x.in.Trailer())
			p.unsent = !p.write(x, sent)
			return nil
		case err != nil:
			return err
		case sent+len(piece)+chunkFrame > x.p.kept:
			p.full = true
			p.rest.last, p.rest.held = piece, true
			return nil
		}
		x.msg.Piece(x.framing, piece)
		if !p.write(x, sent) {
			return nil
		}
	}
}

// write sends what is in msg from at on.
func (p *pump) write(x *exchange, at int) bool {
	if len(x.msg.Bytes()) == at {
		return true
	}
	_, err := x.conn.Wire().Write(x.msg.Bytes()[at:])
	p.touch()
	if err != nil && isTimeout(err) {
		p.failure, p.err = failTimeout, err
		x.conn.Interrupt()
	}
	return err == nil
}

// pass sends what msg has no room for. The error is as in keep.
func (p *pump) pass(x *exchange) error {
	n, rerr, fail := x.conn.CopyBody(&p.out, x.framing, &p.rest)
	p.rest.store()
	p.rest.release()
	p.out.Free()
	x.beyond += n
	p.unsent = rerr != nil || fail != nil
	if fail != nil && isTimeout(fail.Err) {
		p.failure, p.err = failTimeout, fail
		x.conn.Interrupt()
	}
	return rerr
}

// settle notes that the request will not be sent again: its reply has begun.
func (p *pump) settle(x *exchange) {
	p.settled.Store(true)
	if !p.busy() {
		p.spilled = p.spilled || p.full
		x.spooled.free()
	}
}

// clientsTurn stands for now: the client is waited for, so the member has nothing to
// say, however long that takes.
const clientsTurn = -1

// touch notes that the member is sent something.
func (p *pump) touch() { p.last.Store(time.Now().UnixNano()) }

// busy reports whether the pump is at work.
func (p *pump) busy() bool {
	if p.running {
		select {
		case <-p.done:
			p.running = false
		default:
		}
	}
	return p.running
}

// quiet reports whether the pump touches neither the client nor the member now, nor
// will before the member has asked it to.
func (p *pump) quiet() bool {
	return !p.busy() || p.forward != nil && p.forward.granted == p.forward.answered.Load()
}

// progress returns since when the member has had nothing to wait for.
func (p *pump) progress() time.Time {
	if at := p.last.Load(); at != clientsTurn {
		return time.Unix(0, at)
	}
	return time.Now()
}

// wait waits for the pump's own end.
func (p *pump) wait() {
	if p.running {
		<-p.done
		p.running = false
	}
}

// lastWords is how long the pump may take for the last piece of the body when
// the member has answered already.
const lastWords = time.Second

// halt ends the pump. Pieces that were read and could not be sent are kept; only
// what the client has not sent yet is left to read.
func (p *pump) halt(x *exchange) {
	if !p.running {
		return
	}
	if p.forward != nil {
		p.quit <- struct{}{}
	}
	if p.quiet() {
		p.wait()
		return
	}
	if p.drained.Load() {
		t := time.NewTimer(lastWords)
		defer t.Stop()
		select {
		case <-p.done:
			p.running = false
			return
		case <-t.C:
		}
	}
	_ = x.conn.Wire().Close() // ends a write that waits for the member
	x.in.interrupt()
	p.wait()
	p.broken = !x.in.resume()
}

// replayable reports whether the request can be sent to another member. The pump
// does not run.
func (p *pump) replayable() bool { return !p.spilled && (!p.broken || p.ended.Load()) }

// complete reports whether the member has got all of the request, or over AJP13 all
// that it has asked for. The pump does not run.
func (p *pump) complete() bool {
	if p.forward != nil {
		return p.forward.granted == p.forward.answered.Load()
	}
	return p.ended.Load() && !p.unsent
}
