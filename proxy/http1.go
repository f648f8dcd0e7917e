package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// A client1 is a client that speaks HTTP/1: the request and the reply of an
// exchange over a connection of ours. In the ordinary case it works without a
// goroutine of its own and without allocating.
type client1 struct {
	x    *exchange
	conn *http1.Conn
	head http1.Out
	last bool // the connection ends with this reply
	cut  bool // only its end tells the client where the reply ends

	protocols [][]byte // that a 426 names
}

// Serve reads one request from c and takes it through the pipeline. The caller
// has waited for its first byte, by [http1.Conn.Await]. Nil means that another
// request may come.
//
// The error is [ErrClosed] or [ErrLinger], also after a request that broke a rule
// and got its reply; or [http1.ErrHTTP2] for a client that speaks that, to whose connection
// nothing was done.
func (p *Proxy) Serve(c *http1.Conn, from *Client) error {
	x := p.take()
	defer p.give(x)
	x.from = from
	x.one.conn = c
	x.in, x.out = &x.one, &x.one
	x.start = time.Now()
	c.SetReadDeadline(x.start.Add(p.headTime))
	if err := c.ReadRequest(&x.req); err != nil {
		return x.one.unread(err)
	}
	c.SetReadTimeout(p.body)
	x.serve()
	return x.one.end()
}

// unread ends a connection on which there was no request, or none that can be
// read.
func (c *client1) unread(err error) error {
	if errors.Is(err, http1.ErrHTTP2) {
		return http1.ErrHTTP2
	}
	x := c.x
	x.mark(&x.phases.Read)
	x.failure, x.cause = failClient, err
	bad, isBad := errors.AsType[*http1.Error](err)
	switch {
	case isBad:
		x.status = bad.Status
	case isTimeout(err) && c.conn.Buffered() > 0:
		x.failure, x.status = failSlow, http.StatusRequestTimeout
	default:
		return ErrClosed // it said nothing, or half a word and went
	}
	x.req.Reset() // what was read of it is not to be trusted
	x.finish(giveUp)
	return ErrLinger
}

// end says whether the connection can be used for another request.
func (c *client1) end() error {
	x := c.x
	switch {
	case x.status == http.StatusSwitchingProtocols && x.begun:
		return ErrClosed // both sides of the tunnel have ended, or it was broken
	case x.begun && x.failure != failNone, x.failure == failGone:
		// An end of the connection before the end of the reply tells an
		// HTTP/1.1 client all; another one needs a reset.
		if c.cut {
			_ = c.conn.Abort() // it is closed one way or the other
		}
		return ErrClosed
	case !x.req.Body.Ended() || c.last && c.conn.Buffered() > 0:
		return ErrLinger
	case c.last:
		return ErrClosed
	}
	return nil
}

// Next is that of the request's body.
func (c *client1) Next() ([]byte, error) {
	x := c.x
	if x.within(x.p.body) < x.p.body {
		c.conn.SetReadDeadline(x.until)
	}
	return x.req.Body.Next()
}

// Ready is that of the request's body.
func (c *client1) Ready() bool { return c.x.req.Body.Ready() }

// Trailer is that of the request's body, without what a member must not see.
func (c *client1) Trailer() *http1.Head {
	t := c.x.req.Body.Trailer()
	dropTrailer(t)
	return t
}

func (c *client1) interrupt() { c.conn.Interrupt() }

func (c *client1) resume() bool {
	c.conn.Resume()
	return c.x.req.Body.Err() == nil
}

// gone takes a client that has closed its side for one that is gone, as net/http
// and nginx do: whether it still reads cannot be known.
func (c *client1) gone() bool { return c.conn.Look() == http1.Closed }

// interim passes an interim reply on, but not to HTTP/1.0, which has none, and no
// 100 to who did not ask for it (RFC 9110 section 15.2).
func (c *client1) interim(rep *http1.Reply) error {
	req := &c.x.req
	if req.Minor == 0 || rep.Status == http.StatusContinue && !req.ExpectContinue {
		return nil
	}
	c.head.StatusLine(rep.Status, rep.Reason)
	c.head.Lines(&rep.Head)
	c.head.EndHead()
	return c.conn.Send(&c.head)
}

func (c *client1) send(rep *http1.Reply, body http1.Source) (n int64, rerr, werr error) {
	o := &c.head
	o.StatusLine(rep.Status, rep.Reason)
	o.Lines(&rep.Head)
	if own := c.x.ownCookie(); own != nil {
		o.Field("Set-Cookie", own)
	}
	f := o.FrameReply(rep, c.x.req.Minor)
	c.cut = f == http1.UntilClose
	if rep.Status == http.StatusUpgradeRequired && c.x.req.Minor > 0 {
		c.protocols = protocols(&rep.Head) // RFC 9110 section 15.5.22: it must name some
	}
	c.connection(c.cut)
	o.EndHead()
	return c.conn.CopyBody(o, f, body)
}

// connection writes the Connection line, if one is needed. The connection ends
// with this reply if the client wants that, if we stop, and if its request has
// not been read to the end: nobody can know whether the rest will come.
func (c *client1) connection(last bool) {
	x := c.x
	c.last = last || x.req.Close || !x.pump.ended.Load() || x.from.stopping()
	switch {
	case len(c.protocols) > 0:
		writeUpgrade(&c.head, c.protocols)
		c.protocols = nil
		if c.last {
			c.head.RawString("Connection: Upgrade, close\r\n")
		} else {
			c.head.RawString("Connection: Upgrade\r\n")
		}
	case c.last:
		c.head.RawString("Connection: close\r\n")
	case x.req.Minor == 0:
		c.head.RawString("Connection: keep-alive\r\n")
	}
}

func (c *client1) refuse(status int) (int64, error) {
	page := c.x.content(status)
	o := &c.head
	o.StatusText(status)
	if page.ContentType != "" {
		o.FieldString("Content-Type", page.ContentType)
	}
	o.FieldInt("Content-Length", int64(len(page.Body)))
	o.FieldString("Cache-Control", notStored)
	o.Field(requestID, c.x.id)
	if c.x.lists(status) {
		o.FieldString("Allow", allowed)
	}
	for _, l := range c.x.lines {
		o.FieldString(l.name, l.value)
	}
	c.connection(c.x.failure == failClient || c.x.failure == failSlow || c.x.failure == failTooLarge)
	o.EndHead()
	if c.x.req.Method == http1.MethodHead {
		page.Body = nil
	}
	o.Raw(page.Body)
	return int64(len(page.Body)), c.conn.Send(o)
}
