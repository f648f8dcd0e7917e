package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/understudy-lb/understudy/proxy/ajp"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// A forward is a request as a member over AJP13 gets it: its head in one packet, and
// then its body, as the member asks for it.
//
// The body comes from where it is kept: exchange's msg, the spool, the client. Who
// sends it is the goroutine of the exchange, if all of it is in msg, else the pump.
type forward struct {
	size    int // of the member's packets; zero: it speaks HTTP
	msg     ajp.Message
	buf     []byte // packets are made here
	scratch []byte // of values that are put together

	at     int    // where in msg the body goes on
	run    int    // bytes to come of the chunk there
	left   []byte // of a piece that is not in msg
	over   bool   // the member has got all of it
	surely int    // how often it has asked since

	invites  bool         // the client waits for "100 Continue", and has not got it in this attempt
	unasked  int          // bytes of the first piece that are still to be sent
	granted  int64        // packets that the pump was to send; the exchange's
	answered atomic.Int64 // packets that it has sent
}

// maxOver is how often a member may ask for more of a body that is over. Each time
// it is told so; Tomcat asks once.
const maxOver = 8

// maxAhead is how many packets a member may ask for before it gets them.
const maxAhead = 16

var (
	errHeadPacket = &http1.Error{Status: http.StatusRequestEntityTooLarge, Reason: "head longer than a packet of AJP13"}
	errUnreadBody = errors.New("proxy: the member asks for a part of the body that nobody reads any more")
	errInsatiable = &http1.Error{Status: http.StatusBadGateway, Reason: "the member asks for more of the body again and again"}
)

// forward makes the first packets for a member over AJP13: the head, and of a body
// whose length is known the first piece, which is sent unasked (mod_jk.md 7.3).
func (x *exchange) forward(size int) ([]byte, error) {
	w := &x.ajp
	w.at, w.run, w.left, w.over, w.surely, w.unasked, w.granted = x.bodyAt, 0, nil, false, 0, 0, 0
	w.answered.Store(0)
	w.invites = x.req.ExpectContinue && x.read == 0 && !x.pump.ended.Load() // the pump does not run yet
	if len(w.buf) < size {
		w.free(x.p.bufs)
		if w.buf = x.p.bufs.Get(); len(w.buf) < 2*size {
			w.free(x.p.bufs)
			w.buf = x.p.bufs.GetBig()
		}
	}
	x.startForward()
	x.forwardHeaders()
	x.forwardAttributes()
	head, err := w.msg.End()
	if err != nil {
		return nil, errHeadPacket
	}
	body := &x.req.Body
	if body.Framing() != http1.Length || body.Length() == 0 {
		w.over = x.pump.ended.Load() && body.Length() == 0
		return head, nil
	}
	n := int(min(body.Length(), int64(size-ajp.Overhead)))
	if x.msg.Len()-w.at < n || len(head)+n+ajp.Overhead > len(w.buf) {
		w.unasked = n
		return head, nil
	}
	head = ajp.AppendBody(head, x.msg.Bytes()[w.at:w.at+n])
	w.at += n
	w.over = int64(n) == body.Length()
	return head, nil
}

// free gives the buffer back.
func (w *forward) free(bufs *http1.Buffers) {
	if w.buf != nil {
		bufs.Put(w.buf)
		w.buf, w.left = nil, nil
	}
}

// startForward begins the packet.
func (x *exchange) startForward() {
	r := &x.req
	host, proto, told := x.effective()
	secure := http1.EqualFold(proto, "https")
	s := ajp.Start{
		Method: r.MethodName, Protocol: x.protocol(), URI: r.Path,
		RemoteAddr: x.clientAddr(), // and no RemoteHost: a name, if anybody wants it, is looked up by the member
		ServerName: host, ServerPort: 80, Secure: secure,
	}
	if secure {
		s.ServerPort = 443
	}
	if colon := bytes.LastIndexByte(host, ':'); colon > bytes.LastIndexByte(host, ']') {
		s.ServerName = host[:colon]
		s.ServerPort = portOf(host[colon+1:], s.ServerPort)
	}
	s.ServerPort = portOf(told, s.ServerPort)
	if len(host) == 0 {
		s.ServerName = x.from.local
	}
	x.ajp.msg.Begin(x.ajp.buf, x.ajp.size, &s)
}

// portOf reads a port, or returns def if b is none.
func portOf(b []byte, def uint16) uint16 {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > math.MaxUint16 {
			return def
		}
		n = n*10 + int(c-'0')
	}
	if n == 0 || n > math.MaxUint16 {
		return def
	}
	return uint16(n)
}

// forwardHeaders adds the lines that dropRequest has left, and ours. What HTTP
// members are told of the client's connection by X-Forwarded-For and the like is in
// the packet and its attributes.
func (x *exchange) forwardHeaders() {
	r, m := &x.req, &x.ajp.msg
	if (r.Form == http1.FormAbsolute || r.Find(http1.NameHost, 0) < 0) && len(r.Host) > 0 {
		m.Header([]byte("Host"), r.Host)
	}
	cookies := false
	for i := range r.Lines {
		l := &r.Lines[i]
		switch {
		case l.Name == http1.NameCookie && l.Drop && !cookies:
			cookies = true
			m.Header(r.FieldName(i), x.joinedCookies(i))
		case l.Drop, l.Name == http1.NameExpect, l.Name == http1.NameTrailer:
			// There is neither an interim reply nor a trailer.
		default:
			m.Header(r.FieldName(i), r.Value(i))
		}
	}
	if n := r.Body.Length(); n >= 0 {
		m.Header([]byte("Content-Length"), x.number(n)) // without it Tomcat would ask for a body
	}
	if x.hops >= 0 {
		m.Header([]byte("Max-Forwards"), x.number(int64(x.hops)))
	}
	m.Header([]byte(requestID), x.id)
}

// joinedCookies is what writeCookies writes, from line i on.
func (x *exchange) joinedCookies(i int) []byte {
	w, r := &x.ajp, &x.req
	w.scratch = append(w.scratch[:0], r.Value(i)...)
	for i = r.Find(http1.NameCookie, i+1); i >= 0; i = r.Find(http1.NameCookie, i+1) {
		w.scratch = append(append(w.scratch, "; "...), r.Value(i)...)
	}
	return w.scratch
}

func (x *exchange) number(n int64) []byte {
	x.ajp.scratch = strconv.AppendInt(x.ajp.scratch[:0], n, 10)
	return x.ajp.scratch
}

// forwardAttributes adds what mod_jk adds, in its order.
func (x *exchange) forwardAttributes() {
	m, w := &x.ajp.msg, x.member.settings()
	if w.Secret != "" {
		m.AttributeString(ajp.Secret, w.Secret)
	}
	if q := x.req.Query; len(q) > 0 {
		m.Attribute(ajp.QueryString, q[1:])
	}
	m.AttributeString(ajp.Route, x.lease.Route())
	if facts := x.clientTLS(); facts != nil {
		if facts.cert != nil {
			m.Attribute(ajp.Certificate, facts.cert)
		}
		m.AttributeString(ajp.Cipher, facts.cipher)
		if facts.bits > 0 {
			m.Number(ajp.KeySize, facts.bits)
		}
		m.NamedString("AJP_SSL_PROTOCOL", facts.protocol)
	}
	if x.origin.used > 0 {
		m.NamedString("AJP_REMOTE_PORT", unknownPort) // that of the client before the proxy before us
	} else {
		m.Named("AJP_REMOTE_PORT", x.from.port)
	}
	m.Named("AJP_LOCAL_ADDR", x.from.local)
	m.NamedString("JK_LB_ACTIVATION", x.lease.Activation().String()) // also for a worker that is in no lb
}

const unknownPort = "0"

// clientTLS is what is known of the client's TLS: nothing, if it came to a trusted
// proxy before us, whose own certificate is not its client's, also if it does not say
// who that is.
func (x *exchange) clientTLS() *tlsFacts {
	if x.origin.trusted {
		return nil
	}
	return x.from.tlsFacts()
}

// continues lets a client that waits for that send its body: over AJP13 a member
// cannot say so itself. Once the client has a reply it is too late for that, and x.rep
// is in use: a member may answer first and ask for the body then.
func (x *exchange) continues() error {
	if !x.ajp.invites || x.begun {
		return nil
	}
	x.ajp.invites = false
	x.rep.Reset()
	x.rep.Status, x.rep.Reason = http.StatusContinue, []byte("Continue")
	return x.out.interim(&x.rep)
}

// beginForward sends what a member over AJP13 gets unasked and has not got with its head,
// and starts the pump if the body is not all in msg.
func (x *exchange) beginForward() failure {
	w := &x.ajp
	if w.unasked > 0 {
		if err := x.continues(); err != nil {
			return x.failed(failGone, err)
		}
	}
	switch {
	case x.pump.wanted():
		if w.unasked > 0 {
			w.granted = 1
		}
		x.pump.start(x)
	case w.unasked > 0:
		if err := x.sendPiece(w.unasked); err != nil {
			return x.failed(failDropped, err)
		}
	}
	return failNone
}

// Feed implements [endpoint.Feeder].
func (x *exchange) Feed(n int) error {
	w, p := &x.ajp, &x.pump
	n = min(n, w.size-ajp.Overhead)
	switch {
	case p.running:
		if w.granted-w.answered.Load() >= maxAhead {
			return errInsatiable
		}
		if err := x.continues(); err != nil {
			return errGone
		}
		w.granted++
		p.asked <- n // it has room for maxAhead
		return nil
	case !w.over && p.wanted():
		return errUnreadBody // the pump was halted
	}
	return x.sendPiece(n)
}

// sendPiece sends at most n bytes of the body, which is all in msg, or its end.
func (x *exchange) sendPiece(n int) error {
	packet, err := x.piece(n)
	if err != nil {
		return err
	}
	if _, err := x.conn.Wire().Write(packet); err != nil {
		x.conn.Spoil()
		return fmt.Errorf("proxy: a piece of the body: %v", err) //nolint:errorlint // a time-out would mean that one can go on
	}
	return nil
}

// piece makes a packet of the next n bytes of the body, as mod_jk does (mod_jk.md 7.3).
// Of a body that has no length it makes one of fewer bytes rather than wait for
// further ones: it may be a conversation.
func (x *exchange) piece(n int) ([]byte, error) {
	w := &x.ajp
	if w.over {
		if w.surely++; w.surely > maxOver {
			return nil, errInsatiable
		}
		return w.buf[:ajp.HeadBody(w.buf, 0)], nil
	}
	got := 0
	for got < n && (got == 0 || x.framing == http1.Length || x.bodyReady()) {
		part, err := x.bodyPart(n - got)
		if err == io.EOF { //nolint:errorlint // bodyPart returns it bare
			w.over = true
			break
		}
		if err != nil {
			return nil, err
		}
		got += copy(w.buf[ajp.Overhead+got:], part)
	}
	head := ajp.HeadBody(w.buf, got)
	if got == 0 {
		return w.buf[:head], nil
	}
	return w.buf[:head+got], nil
}

// bodyReady reports whether bodyPart would not wait.
func (x *exchange) bodyReady() bool {
	w, p := &x.ajp, &x.pump
	switch {
	case len(w.left) > 0 || w.at < x.msg.Len():
		return true
	case p.full:
		return p.rest.Ready()
	default:
		return p.ended.Load() || x.in.Ready()
	}
}

// bodyPart returns the next part of the body, of at most n bytes, or io.EOF. It
// keeps what it reads from the client, as [pump.keep] does.
func (x *exchange) bodyPart(n int) ([]byte, error) {
	w, p := &x.ajp, &x.pump
	for {
		if part := w.keptPart(x, n); part != nil {
			return part, nil
		}
		if len(w.left) > 0 {
			part := w.left[:min(n, len(w.left))]
			w.left = w.left[len(part):]
			x.beyond += int64(len(part))
			return part, nil
		}
		var piece []byte
		var err error
		ended := p.ended.Load()
		if p.full {
			piece, err = p.rest.Next()
		} else {
			piece, err = p.next(x)
		}
		switch {
		case err == io.EOF && !p.full && !ended: //nolint:errorlint // a Source returns it bare
			x.msg.EndBody(x.framing, x.in.Trailer()) // for another member
			return nil, io.EOF
		case err != nil:
			return nil, err
		case p.full:
			w.left = piece
		case x.msg.Len()+len(piece)+chunkFrame > x.p.kept:
			p.full = true
			p.rest.last, p.rest.held = piece, true
		default:
			x.msg.Piece(x.framing, piece)
		}
	}
}

// keptPart returns the next part of the body that is in msg, of at most n bytes, or
// nil. Chunks there are framed as we have framed them.
func (w *forward) keptPart(x *exchange, n int) []byte {
	b := x.msg.Bytes()
	if x.framing != http1.Chunked {
		part := b[w.at:min(w.at+n, len(b))]
		w.at += len(part)
		if len(part) == 0 {
			return nil
		}
		return part
	}
	if w.run == 0 {
		if w.at == len(b) {
			return nil
		}
		for ; b[w.at] != '\r'; w.at++ {
			w.run = w.run<<4 | hexDigit(b[w.at])
		}
		if w.run == 0 {
			w.at = len(b) // the last chunk, and the trailer
			return nil
		}
		w.at += len("\r\n")
	}
	part := b[w.at : w.at+min(n, w.run)]
	w.at += len(part)
	if w.run -= len(part); w.run == 0 {
		w.at += len("\r\n")
	}
	return part
}

// hexDigit is the value of a digit that strconv has written.
func hexDigit(c byte) int {
	if c >= 'a' {
		return int(c-'a') + 10
	}
	return int(c - '0')
}

// feed is what the pump does for a member over AJP13. It goes on until it is halted,
// or something fails. The error is one of the client's side, as that of keep.
func (p *pump) feed(x *exchange) error {
	w := &x.ajp
	n := w.unasked
	defer func() {
		p.rest.store()
		p.rest.release()
	}()
	for {
		if n == 0 {
			select {
			case n = <-p.asked:
			case <-p.quit:
				return nil
			}
		}
		packet, err := x.piece(n)
		if err == errInsatiable { //nolint:errorlint // piece returns it bare
			p.failure, p.err = failMalformed, err
			x.conn.Interrupt()
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := x.conn.Wire().Write(packet); err != nil {
			if isTimeout(err) {
				p.failure, p.err = failTimeout, err
				x.conn.Interrupt()
			}
			return nil
		}
		p.touch()
		w.answered.Add(1)
		n = 0
	}
}

// prepare makes the channels for a member over AJP13, without a word of an earlier
// attempt in them.
func (p *pump) prepare() {
	if p.asked == nil {
		p.asked, p.quit = make(chan int, maxAhead), make(chan struct{}, 1)
	}
	for len(p.asked) > 0 {
		<-p.asked
	}
	if len(p.quit) > 0 {
		<-p.quit
	}
}
