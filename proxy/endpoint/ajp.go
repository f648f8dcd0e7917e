package endpoint

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/understudy-lb/understudy/proxy/ajp"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// A Feeder has the body of a request over AJP13, where the member asks for it piece
// by piece.
type Feeder interface {
	// Feed sends at most n bytes of the body to the member, or the end of the body if
	// nothing is left of it; or has another goroutine do that. It is called while the
	// reply is read. An error ends the exchange.
	Feed(n int) error
}

// errUnfed is what asking leads to where nothing can be sent any more.
var errUnfed = errors.New("endpoint: the member asks for more of the request's body than there is to send")

// malformed is a rule that a server of AJP13 has broken.
func malformed(reason string) error {
	return &http1.Error{Status: http.StatusBadGateway, Reason: reason}
}

// event returns the next thing that the member says over AJP13. Its Data is valid
// until the next call.
func (c *Conn) event() (ajp.Event, error) {
	for {
		e, n, err := c.packets.Next(c.wire.Unread())
		if err != nil {
			return ajp.Event{}, malformed(err.Error())
		}
		c.wire.Skip(n)
		if e.Kind != ajp.More {
			return e, nil
		}
		if err := c.wire.More(c.content >= longContent); err != nil {
			return ajp.Event{}, ended(err)
		}
	}
}

// longContent is how much of a body has to have come before it is read with a big
// buffer.
const longContent = 16 << 10

// feed answers an Ask.
func (c *Conn) feed(n int) error {
	if c.Feeder == nil {
		return errUnfed
	}
	return c.Feeder.Feed(n)
}

// readHead reads the head of a reply over AJP13 and makes HTTP of it, so that there
// is one set of checks and rules.
func (c *Conn) readHead(rep *http1.Reply, to http1.Method) error {
	for {
		e, err := c.event()
		switch {
		case err != nil:
			return err
		case e.Kind == ajp.Ask:
			if err := c.feed(e.Size); err != nil {
				return err
			}
		case e.Kind == ajp.Head:
			return c.translate(e.Data, rep, to)
		}
	}
}

// translate writes the head of a reply as HTTP and parses it.
func (c *Conn) translate(b []byte, rep *http1.Reply, to http1.Method) error {
	h, err := ajp.ParseHead(b)
	if err != nil {
		return malformed(err.Error())
	}
	o := &c.text
	o.Truncate(0)
	switch {
	case h.Status < 200 || h.Status > 999:
		return malformed("status outside 200 to 999 over AJP13") // there is no interim reply, and no other protocol
	case !http1.IsText(h.Reason):
		return malformed("control byte in a reason phrase")
	case !wordy(h.Reason, h.Status):
		o.StatusText(h.Status)
	default:
		o.StatusLine(h.Status, h.Reason)
	}
	for {
		name, value, err := h.Next()
		switch {
		case err != nil:
			return malformed(err.Error())
		case name == nil:
			o.EndHead()
			return c.parse(rep, to)
		case http1.EqualFold(name, "transfer-encoding"):
			// The proxy frames the reply. Some applications set it.
		case !o.Line(name, value):
			return malformed("malformed header line")
		}
	}
}

// wordy reports whether a reason phrase says more than the status: since 8.5 Tomcat
// sends that as text.
func wordy(reason []byte, status int) bool {
	var digits [8]byte
	return len(reason) > 0 && !bytes.Equal(reason, strconv.AppendInt(digits[:0], int64(status), 10))
}

// parse makes rep of the head in c.text.
func (c *Conn) parse(rep *http1.Reply, to http1.Method) error {
	rep.Reset()
	n, err := rep.Parse(c.text.Bytes(), to, c.e.wire.Limits)
	switch {
	case err != nil:
		return err
	case n != c.text.Len():
		return malformed("malformed head")
	}
	rep.Body.From((*content)(c))
	return nil
}

// content is the body of a reply over AJP13.
type content Conn

// Next returns the next piece. It is valid until the next call.
func (b *content) Next() ([]byte, error) {
	c := (*Conn)(b)
	for {
		e := c.pending
		c.pending = ajp.Event{}
		if e.Kind == ajp.More {
			var err error
			if e, err = c.event(); err != nil {
				return nil, err
			}
		}
		switch e.Kind {
		case ajp.Data:
			c.content += int64(len(e.Data))
			return e.Data, nil
		case ajp.Ask:
			if err := c.feed(e.Size); err != nil {
				return nil, err
			}
		case ajp.End:
			c.reuse = e.Reuse
			return nil, io.EOF
		case ajp.Flush, ajp.More, ajp.Head: // Ready has sent what was collected; a second head is an error
		}
	}
}

// Ready reports whether Next would return without waiting. It is not after a flush,
// so that what was collected is sent.
func (b *content) Ready() bool {
	c := (*Conn)(b)
	if c.pending.Kind != ajp.More {
		return c.pending.Kind != ajp.Ask
	}
	e, n, err := c.packets.Next(c.wire.Unread())
	if err != nil {
		return true // Next finds it as well
	}
	c.wire.Skip(n)
	if e.Kind == ajp.More || e.Kind == ajp.Flush {
		return false
	}
	c.pending = e
	return e.Kind != ajp.Ask
}

// Trailer returns nothing: AJP13 has none.
func (b *content) Trailer() *http1.Head { return nil }

// askAJP sends a CPING and waits for the CPONG. Anything else that comes is a reason
// not to use the connection (mod_jk.md 7.5).
func (c *Conn) askAJP() error {
	if _, err := c.wire.Write([]byte(ajp.Ping)); err != nil {
		return err
	}
	for {
		b := c.wire.Unread()
		if n := min(len(b), len(ajp.Pong)); string(b[:n]) != ajp.Pong[:n] {
			return malformed("no CPONG after a CPING")
		}
		if len(b) >= len(ajp.Pong) {
			c.wire.Skip(len(ajp.Pong))
			return nil
		}
		if err := c.wire.More(false); err != nil {
			return err
		}
	}
}
