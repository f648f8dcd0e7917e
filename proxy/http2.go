package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// A client2 is a client behind net/http's server: HTTP/2, where the protocol is
// that server's and everything else ours. The head of its request is written out
// and parsed like any other, so that there is one set of checks and rules.
type client2 struct {
	x *exchange
	w http.ResponseWriter
	r *http.Request

	head    http1.Out
	buf     []byte
	err     error // what Next returns next
	reading bool  // a read is under way, in a goroutine of its own
	got     chan read
	cut     chan struct{} // a token: interrupt was called
	silence *time.Timer   // of the body
	stall   *time.Timer   // breaks off a write that takes too long
	broken  chan struct{} // a token: stall has fired, and done that
	lines   http1.Out
	trailer http1.Request
}

// ServeHTTP takes a request of net/http's server through the pipeline. A reply
// that cannot be completed ends in a panic with [http.ErrAbortHandler], as there.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := p.take()
	defer p.give(x)
	c := &x.two
	c.w, c.r = w, r
	x.in, x.out = c, c
	x.start = time.Now()
	x.from = p.clientOf(r)
	if err := c.parse(); err != nil {
		x.failure, x.cause, x.status = failClient, err, http.StatusBadRequest
		if bad, ok := errors.AsType[*http1.Error](err); ok {
			x.status = bad.Status
		}
		x.req.Reset()
		x.finish(giveUp)
		return
	}
	x.serve() //nolint:contextcheck // what a request starts, a vigil, is not its own and outlives it
	if x.failure != failNone && (x.begun || x.failure == failGone) {
		panic(http.ErrAbortHandler)
	}
}

// What net/http's server lets pass and RFC 9113 does not.
var (
	errPath2   = &http1.Error{Status: http.StatusBadRequest, Reason: "malformed :path"}
	errLength2 = &http1.Error{Status: http.StatusBadRequest, Reason: "Content-Length is not that of the stream"}
)

// parse makes x.req of the request.
func (c *client2) parse() error {
	r, o := c.r, &c.head
	if r.Method != http.MethodConnect && !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*" {
		return errPath2 // section 8.3.1: an absolute one would outrank :authority
	}
	o.RawString(r.Method)
	o.RawString(" ")
	o.RawString(r.RequestURI)
	o.RawString(" HTTP/1.1\r\n")
	o.FieldString("Host", r.Host)
	for name, values := range r.Header {
		switch name {
		case "Host", "Transfer-Encoding", "Connection", "Expect", "Trailer":
			continue // said otherwise, or the server's business
		}
		for _, v := range values {
			o.FieldString(name, v)
		}
	}
	for name := range r.Trailer {
		o.FieldString("Trailer", name)
	}
	if r.ContentLength < 0 {
		o.RawString("Transfer-Encoding: chunked\r\n")
	}
	o.EndHead()
	c.x.req.Reset()
	n, err := c.x.req.Parse(o.Bytes(), c.x.p.limits)
	if err == nil && n != o.Len() {
		err = io.ErrUnexpectedEOF // a field that ends the head early: Field cleans them
	}
	if err == nil && c.x.req.Body.Length() != r.ContentLength {
		err = errLength2 // section 8.1.1; the server takes the first of several, and 0 for what is none
	}
	return err
}

// read is what a read of the body has brought.
type read struct {
	n   int
	err error
}

// read reads into buf.
//
// A body of net/http's server that a deadline has passed cannot be read any more, and
// a deadline would go on while nobody reads. So what is interrupted, and what times
// out, is not the read, but who waits for it.
func (c *client2) read() (n int, err error) {
	wait := c.x.within(c.x.p.body)
	if c.silence == nil {
		c.silence = time.NewTimer(wait)
	} else {
		c.silence.Reset(wait)
	}
	defer c.silence.Stop()
	if !c.reading {
		c.reading = true
		body, buf, got := c.r.Body, c.buf, c.got
		go func() {
			n, err := body.Read(buf)
			got <- read{n, err}
		}()
	}
	select {
	case r := <-c.got:
		c.reading = false
		return r.n, r.err
	case <-c.cut:
		return 0, http1.ErrInterrupted
	case <-c.silence.C:
		return 0, os.ErrDeadlineExceeded
	}
}

// Next reads a piece of the request's body.
func (c *client2) Next() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.buf == nil {
		c.buf = c.x.p.bufs.Get()
	}
	for range maxEmptyReads {
		n, err := c.read()
		if c.reading {
			return nil, err // it goes on
		}
		c.err = err
		if n > 0 {
			return c.buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
	c.err = io.ErrNoProgress
	return nil, c.err
}

// maxEmptyReads is as in package bufio.
const maxEmptyReads = 100

// Ready reports whether Next would not read.
func (c *client2) Ready() bool { return c.err != nil }

// Trailer returns the client's trailer, once Next has returned io.EOF.
func (c *client2) Trailer() *http1.Head {
	if len(c.r.Trailer) == 0 {
		return nil
	}
	o := &c.lines
	o.Truncate(0)
	o.RawString("GET / HTTP/1.1\r\nHost: trailer\r\n")
	for name, values := range c.r.Trailer {
		for _, v := range values {
			o.FieldString(name, v)
		}
	}
	o.EndHead()
	c.trailer.Reset()
	if n, err := c.trailer.Parse(o.Bytes(), c.x.p.limits); err != nil || n == 0 {
		return nil // what is not a field cannot be passed on
	}
	t := &c.trailer.Head
	for i := range t.Lines {
		// RFC 9110 section 6.5.1: nothing that a rule knows by name.
		t.Lines[i].Drop = t.Lines[i].Name != http1.NameOther
	}
	dropTrailer(t)
	return t
}

func (c *client2) interrupt() {
	select {
	case c.cut <- struct{}{}:
	default: // it waits already
	}
}

func (c *client2) resume() bool {
	select {
	case <-c.cut:
	default: // Next has taken it
	}
	return c.err == nil || errors.Is(c.err, io.EOF)
}

// end waits for a read under way, whose body nobody wants.
func (c *client2) end() {
	if !c.reading {
		return
	}
	if err := http.NewResponseController(c.w).SetReadDeadline(time.Unix(1, 0)); err != nil {
		_ = c.r.Body.Close() // that ends it as well
	}
	<-c.got
	c.reading = false
}

func (c *client2) gone() bool { return c.r.Context().Err() != nil }

// interim passes on what is information for the client. 100 is the server's
// business: it says so with the first read of the body.
func (c *client2) interim(rep *http1.Reply) error {
	if rep.Status == http.StatusContinue {
		return nil
	}
	c.copyLines(&rep.Head)
	c.w.WriteHeader(rep.Status)
	clear(c.w.Header())
	return nil
}

// copyLines sets the lines that are not dropped.
func (c *client2) copyLines(h *http1.Head) {
	to := c.w.Header()
	for i := range h.Lines {
		if !h.Lines[i].Drop {
			to.Add(string(h.FieldName(i)), string(h.Value(i)))
		}
	}
}

func (c *client2) send(rep *http1.Reply, body http1.Source) (n int64, rerr, werr error) {
	c.copyLines(&rep.Head)
	h := c.w.Header()
	if own := c.x.ownCookie(); own != nil {
		h.Add("Set-Cookie", string(own))
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // so that net/http guesses none (peers.md C13)
	}
	if rep.ContentLength >= 0 {
		h.Set("Content-Length", strconv.FormatInt(rep.ContentLength, 10))
	}
	c.w.WriteHeader(rep.Status)
	flush := http.NewResponseController(c.w)
	for {
		if !body.Ready() {
			c.begin()
			werr = flush.Flush()
			if c.done(); werr != nil {
				return n, nil, werr
			}
		}
		p, err := body.Next()
		if err == io.EOF { //nolint:errorlint // a Source returns it bare
			c.sendTrailer(body.Trailer())
			return n, nil, nil
		}
		if err != nil {
			return n, err, nil
		}
		c.begin()
		_, werr = c.w.Write(p)
		if c.done(); werr != nil {
			return n, nil, werr
		}
		n += int64(len(p))
	}
}

func (c *client2) sendTrailer(t *http1.Head) {
	if t == nil {
		return
	}
	h := c.w.Header()
	for i := range t.Lines {
		if !t.Lines[i].Drop {
			h.Add(http.TrailerPrefix+string(t.FieldName(i)), string(t.Value(i)))
		}
	}
}

func (c *client2) refuse(status int) (int64, error) {
	page := c.x.content(status)
	h := c.w.Header()
	if h["Content-Type"] = nil; page.ContentType != "" {
		h.Set("Content-Type", page.ContentType)
	}
	h.Set("Content-Length", strconv.Itoa(len(page.Body)))
	h.Set("Cache-Control", notStored)
	h.Set(requestID, string(c.x.id))
	if c.x.lists(status) {
		h.Set("Allow", allowed)
	}
	for _, l := range c.x.lines {
		h.Add(l.name, l.value)
	}
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return 0, nil
	}
	c.begin()
	defer c.done()
	n, err := c.w.Write(page.Body)
	return int64(n), err
}

// begin is called before a write, and done after it: one that takes longer than
// Config.WriteTimeout is broken off, with its stream. The server's own time-out is
// about its connection, and not about a client that lets one stream wait.
func (c *client2) begin() {
	if c.stall != nil {
		c.stall.Reset(c.x.p.write)
		return
	}
	c.broken = make(chan struct{}, 1)
	c.stall = time.AfterFunc(c.x.p.write, func() {
		// If it cannot be had, the client's connection has to end.
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Unix(1, 0))
		c.broken <- struct{}{}
	})
}

func (c *client2) done() {
	if !c.stall.Stop() {
		<-c.broken // nobody touches w after the exchange was given back
	}
}
