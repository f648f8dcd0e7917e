package proxy

import (
	"net/http"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// errMaxForwards is the cause of a 400.
var errMaxForwards = &http1.Error{Status: http.StatusBadRequest, Reason: "malformed Max-Forwards"}

// serveOwn answers a request that is for the proxy itself, and reports whether it
// was one:
//   - OPTIONS * asks about the server as a whole (RFC 9110 section 9.3.7), which is
//     what no member can speak for;
//   - OPTIONS and TRACE with Max-Forwards: 0 ask who stands here; one with more is
//     sent on with one less (RFC 9110 section 7.6.2). In other requests the field
//     means nothing.
func (x *exchange) serveOwn() (bool, failure) {
	r := &x.req
	x.hops, x.answer, x.owned = -1, ErrorPage{}, false
	if r.Method != http1.MethodOptions && r.Method != http1.MethodTrace {
		return false, failNone
	}
	if i := r.Find(http1.NameMaxForwards, 0); i >= 0 {
		n, ok := maxForwards(r.Value(i))
		if !ok || r.Find(http1.NameMaxForwards, i+1) >= 0 {
			return false, x.failed(failClient, errMaxForwards)
		}
		x.hops = n - 1
		if n == 0 {
			x.answerHere()
			return true, failNone
		}
	}
	if string(r.Path) == "*" {
		x.answerHere()
		return true, failNone
	}
	return false, failNone
}

// answerHere answers OPTIONS or TRACE as the last recipient.
func (x *exchange) answerHere() {
	r := &x.req
	x.status = http.StatusOK
	if r.Method == http1.MethodTrace {
		x.writeTrace()
		x.answer = ErrorPage{ContentType: "message/http", Body: x.msg.Bytes()}
	}
	x.finish(giveUp)
}

// writeTrace writes the request as we got it, without what it may be about to
// keep from others: only lines that tell of the way here (RFC 9110 section 9.3.8).
func (x *exchange) writeTrace() {
	r, o := &x.req, &x.msg
	for i := range r.Lines {
		l := &r.Lines[i]
		switch l.Name {
		case http1.NameHost, http1.NameVia, http1.NameMaxForwards, http1.NameUserAgent, http1.NameConnection,
			http1.NameForwarded, http1.NameXForwardedFor, http1.NameXForwardedHost, http1.NameXForwardedPort,
			http1.NameXForwardedProto:
		default:
			l.Drop = true
		}
	}
	o.Raw(r.MethodName)
	o.RawString(" ")
	o.Raw(r.Target)
	if r.Minor == 0 {
		o.RawString(" HTTP/1.0\r\n")
	} else {
		o.RawString(" HTTP/1.1\r\n")
	}
	o.Lines(&r.Head)
	o.EndHead()
}

// maxForwards reads digits; what is beyond a billion counts as that.
func maxForwards(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 1e9)
	}
	return n, len(b) > 0
}

// content returns the content of our own reply with a status.
func (x *exchange) content(status int) ErrorPage {
	if status < 400 || x.owned {
		return x.answer
	}
	return x.p.page(status)
}

// lists reports whether our own reply lists the methods that we take.
func (x *exchange) lists(status int) bool {
	return status == http.StatusMethodNotAllowed && x.failure == failMethod || status == http.StatusOK && x.req.Method == http1.MethodOptions
}
