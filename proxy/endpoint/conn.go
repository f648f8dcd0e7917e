package endpoint

import (
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/proxy/ajp"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// A Conn is a connection to the member that has taken the first bytes of a
// request. Its user reads the reply and ends with Done or Close, once. One
// goroutine may write the rest of the body while another one reads the reply.
type Conn struct {
	// Feeder is asked for the request's body over AJP13. It is set before the reply
	// is read; without one there is no body beyond what Send has sent.
	Feeder Feeder

	e    *Endpoint
	wire *http1.Conn

	// Over AJP13 alone.
	packets ajp.Reader
	pending ajp.Event // found, but not handed out; Kind is More if there is none
	text    http1.Out // the reply's head as HTTP
	content int64     // of the reply's body so far
	reuse   bool      // the member keeps the connection

	born     time.Time
	idle     time.Time // when it was kept
	pinged   time.Time // when it was kept, or was last probed since
	lifetime time.Duration
	kept     bool          // it has served a request before this one
	queued   time.Duration // of Took
	readied  time.Duration
	tries    int
	sent     atomic.Int64
	interims int
	head     bool        // the final reply's head has come
	spoilt   atomic.Bool // it cannot be used again
	left     atomic.Bool // Endpoint.Abandon has interrupted it
	at       int         // in Endpoint.used, plus one; 0 if not there; guarded by Endpoint.mu
}

// Wire returns the connection as package http1 knows it, for copying bodies.
func (c *Conn) Wire() *http1.Conn { return c.wire }

// Kept reports whether the connection had been kept from an earlier request.
func (c *Conn) Kept() bool { return c.kept }

// Took returns how long Send waited for the right to use a connection, and how
// long its last try took to have one: to connect and to probe, and to find out
// that kept connections were of no use. Over a kept connection that was not
// probed both are zero.
func (c *Conn) Took() (queued, connected time.Duration) { return c.queued, c.readied }

// maxInterims bounds the replies with status 1xx before the final one.
const maxInterims = 16

// ReadReply reads the next reply head into rep; to is the method of the request.
// If rep is an interim one ([http1.Reply.Interim]) it is called again for the
// next. It waits at most ReplyTimeout or SocketTimeout for each byte; after a
// failure of [TimedOut] nothing is lost, and it may be called again. It may be called
// after a failed write, since a member that answers early stops reading.
func (c *Conn) ReadReply(rep *http1.Reply, to http1.Method) *Failure {
	if err := c.read(rep, to); err != nil {
		kind := replyKind(err)
		if kind == Interrupted && c.left.Load() {
			kind = TimedOut
		}
		f := c.fault(kind, ended(err))
		f.Received = int64(c.wire.Buffered())
		if kind != TimedOut {
			c.spoilt.Store(true)
		}
		return f
	}
	if !rep.Interim() {
		c.head = true
		return nil
	}
	if rep.Close {
		c.spoilt.Store(true)
	}
	if c.interims++; c.interims > maxInterims {
		return c.failure(Malformed, errManyInterims)
	}
	return nil
}

// read is ReadReply in the member's protocol.
func (c *Conn) read(rep *http1.Reply, to http1.Method) error {
	if c.e.packet > 0 {
		return c.readHead(rep, to)
	}
	return c.wire.ReadReply(rep, to)
}

// CopyBody sends out and the rest of a request's body, as [http1.Conn.CopyBody]
// does. rerr is the fault of the source.
func (c *Conn) CopyBody(out *http1.Out, f http1.Framing, src http1.Source) (n int64, rerr error, fail *Failure) { //nolint:staticcheck // rerr is the source's fault, fail the member's
	n, rerr, werr := c.wire.CopyBody(out, f, src)
	c.sent.Add(n)
	if werr != nil {
		fail = c.failure(WriteMidway, werr)
	}
	if rerr != nil {
		c.spoilt.Store(true) // half a request is on it
	}
	return n, rerr, fail
}

// BodyFailure classifies an error of reading the reply's body, as
// [http1.Body.Next] returned it.
func (c *Conn) BodyFailure(err error) *Failure { return c.failure(Cut, ended(err)) }

// failure makes a failure of this connection, which is not used again.
func (c *Conn) failure(k Kind, err error) *Failure {
	c.spoilt.Store(true)
	return c.fault(k, err)
}

// fault is failure for a connection that may be used again.
func (c *Conn) fault(k Kind, err error) *Failure {
	return &Failure{Kind: k, Address: c.e.address, Tries: c.tries, Sent: c.sent.Load(), Kept: c.kept, Err: err}
}

// Interrupt makes ReadReply, and reading of the body, return at once. Another
// goroutine may call it, before Done or Close.
func (c *Conn) Interrupt() { c.wire.Interrupt() }

// Abandoned reports whether [Endpoint.Abandon] has interrupted the request, as
// opposed to Interrupt.
func (c *Conn) Abandoned() bool { return c.left.Load() }

// Spoil keeps Done from keeping the connection, for a caller that knows why: the
// request's body was not sent completely.
func (c *Conn) Spoil() { c.spoilt.Store(true) }

// Done gives the connection back after rep, the final reply, whose head and body
// must not be used afterwards. It is kept if the reply was read to its end,
// both sides allow it, and nothing has come behind it (peers.md C07); otherwise
// it is closed.
func (c *Conn) Done(rep *http1.Reply) {
	reusable := !c.spoilt.Load() && c.head && rep.Body.Ended() && c.wire.Buffered() == 0
	switch {
	case c.e.packet > 0:
		reusable = reusable && c.reuse
	case reusable:
		reusable = !rep.Close && !rep.Switched()
		c.lifetime = promised(rep)
	}
	c.release()
	if !reusable || !c.e.keep(c) {
		c.shut()
		c.wire.Recycle()
	}
	c.e.freeSlot()
}

// release gives back what a reply needed.
func (c *Conn) release() {
	c.wire.Release()
	c.text.Free()
	c.Feeder, c.pending = nil, ajp.Event{}
}

// Close closes the connection, also in the middle of a reply.
func (c *Conn) Close() {
	c.release()
	c.shut()
	c.wire.Recycle()
	c.e.freeSlot()
}

// shut closes the connection and forgets it.
func (c *Conn) shut() {
	_ = c.wire.Close() // a broken connection is as good as closed
	c.e.forget(c)
}

// promised returns how long the member says that it keeps an idle connection
// (Keep-Alive: timeout=5), or 0 if it does not say (peers.md D05).
func promised(rep *http1.Reply) time.Duration {
	i := rep.Find(http1.NameKeepAlive, 0)
	if i < 0 {
		return 0
	}
	const param = "timeout="
	for list := rep.Value(i); ; {
		item, rest := http1.NextItem(list)
		if item == nil {
			return 0
		}
		list = rest
		if len(item) <= len(param) || !http1.EqualFold(item[:len(param)], param) {
			continue
		}
		seconds := 0
		for _, d := range item[len(param):] {
			if d < '0' || d > '9' || seconds > 1e6 {
				return 0
			}
			seconds = seconds*10 + int(d-'0')
		}
		return time.Duration(seconds) * time.Second
	}
}
