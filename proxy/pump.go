package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// maxKept is the longest request, head and framing included, that is kept until
// a member has answered, so that it can be sent again. It is the big size of the
// buffers.
const maxKept = 64 << 10

// chunkFrame is the most that a piece of a body needs besides its bytes.
const chunkFrame = 20

// errTooLarge is a body over [Config.MaxBody].
var errTooLarge = &http1.Error{Status: http.StatusRequestEntityTooLarge, Reason: "body longer than the limit"}

// A pump passes on the body of a request while its client still sends it. It is
// the second goroutine of an exchange; bodies that are short, or have come with
// the head, do without.
//
// What it passes on is appended to the exchange's msg as long as it fits, so that
// another member can be sent the same.
type pump struct {
	running bool // start was called, and wait has not returned since
	done    chan struct{}

	ended atomic.Bool  // the body was read to its end
	last  atomic.Int64 // when the member was last sent a piece; nanoseconds of Unix time

	// Valid when it has ended.
	failure failure
	err     error // of failure
	broken  bool  // no more of the body can be read
	spilled bool  // msg does not have everything that was read
	unsent  bool  // the connection failed before the body's end was written
	spill   http1.Out
}

// reset makes p ready for a request whose body has ended or not.
func (p *pump) reset(ended bool) {
	p.running, p.spilled, p.unsent, p.broken = false, false, false, false
	p.failure, p.err = failNone, nil
	p.ended.Store(ended)
}

// start lets the pump send the rest of the body to the member of x.
func (p *pump) start(x *exchange) {
	if p.done == nil {
		p.done = make(chan struct{}, 1)
	}
	p.running, p.unsent = true, true
	p.failure, p.err = failNone, nil
	p.last.Store(time.Now().UnixNano())
	go p.run(x)
}

// run is the goroutine.
func (p *pump) run(x *exchange) {
	defer func() { p.done <- struct{}{} }()
	err := p.keep(x)
	if err == nil && !p.ended.Load() {
		err = p.pass(x)
	}
	if err == nil || errors.Is(err, http1.ErrInterrupted) {
		return
	}
	p.failure, p.err = classifyBody(err), err
	x.conn.Interrupt() // nobody need wait for an answer to half a request
}

// keep sends the body as long as it can be kept in msg as well. The error is one
// of the client's side; one of the member's is for who reads its reply.
func (p *pump) keep(x *exchange) error {
	for {
		sent := x.msg.Len()
		piece, err := x.in.Next()
		switch {
		case err == io.EOF: //nolint:errorlint // a Source returns it bare
			p.ended.Store(true)
			x.msg.EndBody(x.framing, x.in.Trailer())
			p.unsent = !p.write(x, sent)
			return nil
		case err != nil:
			return err
		}
		if x.read += int64(len(piece)); x.p.maxBody > 0 && x.read > x.p.maxBody {
			return errTooLarge
		}
		if sent+len(piece)+chunkFrame > maxKept {
			p.spilled = true
			p.spill.Piece(x.framing, piece)
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
	p.last.Store(time.Now().UnixNano())
	if err != nil && isTimeout(err) {
		p.failure, p.err = failTimeout, err
		x.conn.Interrupt()
	}
	return err == nil
}

// pass sends the rest without keeping it.
func (p *pump) pass(x *exchange) error {
	if !p.spilled {
		return nil // the connection is broken
	}
	n, rerr, fail := x.conn.CopyBody(&p.spill, x.framing, (*counted)(x))
	p.spill.Free()
	x.beyond += n
	p.unsent = rerr != nil || fail != nil
	if fail != nil && isTimeout(fail.Err) {
		p.failure, p.err = failTimeout, fail
		x.conn.Interrupt()
	}
	return rerr
}

// counted is the body of an exchange's request, with the pump's marks.
type counted exchange

// Next returns the next piece.
func (c *counted) Next() ([]byte, error) {
	c.pump.last.Store(time.Now().UnixNano())
	piece, err := c.in.Next()
	if err == io.EOF { //nolint:errorlint // a Source returns it bare
		c.pump.ended.Store(true)
	}
	if c.read += int64(len(piece)); c.p.maxBody > 0 && c.read > c.p.maxBody {
		return nil, errTooLarge
	}
	return piece, err
}

// Ready reports whether Next would not wait.
func (c *counted) Ready() bool { return c.in.Ready() }

// Trailer returns the client's trailer.
func (c *counted) Trailer() *http1.Head { return c.in.Trailer() }

// progress returns when the member was last sent something.
func (p *pump) progress() time.Time { return time.Unix(0, p.last.Load()) }

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

// halt ends the pump. Pieces that were read and could not be sent are kept if
// they fit; only what the client has not sent yet is left to read.
func (p *pump) halt(x *exchange) {
	if !p.running {
		return
	}
	if p.ended.Load() {
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

// complete reports whether the member has got all of the request. The pump does
// not run.
func (p *pump) complete() bool { return p.ended.Load() && !p.unsent }
