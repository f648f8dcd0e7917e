package proxy

import (
	"io"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// begin reads what of the request is wanted before a member is chosen, into msg:
// its head as the member gets it, and its body if that is short or there already.
// The rest of a long one is left to the pump.
//
// A short body is waited for, so that a slow client costs no member a
// connection, and so that the request can be sent again, whatever happens. A
// client that wants to hear "100 Continue" first is not waited for: whether it
// does is the member's business (RFC 9110 section 10.1.1).
func (x *exchange) begin() failure {
	body := &x.req.Body
	ended := x.pump.ended.Load()
	if x.p.maxBody > 0 && body.Length() > x.p.maxBody {
		return x.failed(failTooLarge, errTooLarge)
	}
	x.writeHead(!ended && x.req.ExpectContinue)
	if x.upgrade && !x.p.tunnels.take(x.p.maxTunnels) {
		x.upgrade = false
		return x.failed(failTunnels, errTunnels)
	}
	if ended {
		return failNone
	}
	short := body.Length() >= 0 && int64(x.msg.Len())+body.Length()+chunkFrame <= int64(min(x.p.kept, mostAwaited))
	if short && !x.req.ExpectContinue {
		return x.collect(func() bool { return true })
	}
	return x.collect(func() bool { return x.in.Ready() && x.msg.Len()+minPiece <= x.p.kept })
}

// collect appends the body to msg while more says so.
func (x *exchange) collect(more func() bool) failure {
	for !x.pump.ended.Load() && more() {
		piece, err := x.pump.next(x)
		switch {
		case err == io.EOF: //nolint:errorlint // a Source returns it bare
			x.msg.EndBody(x.framing, x.in.Trailer())
			return failNone
		case err != nil:
			return x.failed(x.classifyBody(err), err)
		}
		x.msg.Piece(x.framing, piece)
	}
	return failNone
}

// mostAwaited is the longest request, head and framing included, that is waited for
// before a member is chosen, in bytes.
const mostAwaited = 64 << 10

// minPiece is how much room there must be in msg to collect a piece whose length
// is not known.
const minPiece = 32 << 10

// writeHead writes the head of the request as every member gets it.
func (x *exchange) writeHead(expect bool) {
	r, o := &x.req, &x.msg
	dropRequest(r, dropping{expect: expect, trusted: x.origin.trusted, counted: x.hops >= 0})
	o.RequestLine(r)
	if r.Form == http1.FormAbsolute || len(r.Host) == 0 {
		o.Field("Host", r.Host)
	}
	o.Lines(&r.Head)
	writeCookies(o, &r.Head)
	x.framing = o.FrameRequest(&r.Body)
	if x.hops >= 0 {
		o.FieldInt("Max-Forwards", int64(x.hops))
	}
	x.hopByHop()
	x.writeOrigin()
	o.Field(requestID, x.id)
	o.EndHead()
	x.bodyAt = o.Len()
}

// hopByHop writes the lines that are about the connection to the member alone,
// and names them in its one Connection line (RFC 9110 sections 7.8 and 10.1.4).
func (x *exchange) hopByHop() {
	r, o := &x.req, &x.msg
	if r.Upgrade {
		if list := protocols(&r.Head); len(list) > 0 {
			x.upgrade = true
			writeUpgrade(o, list)
		}
	}
	if r.TETrailers {
		o.RawString("TE: trailers\r\n")
	}
	switch {
	case x.upgrade && r.TETrailers:
		o.RawString("Connection: Upgrade, TE\r\n")
	case x.upgrade:
		o.RawString("Connection: Upgrade\r\n")
	case r.TETrailers:
		o.RawString("Connection: TE\r\n")
	}
}
