package proxy

import (
	"bytes"
	"errors"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// reply passes the reply in x.rep on to the client. From here on nothing is sent
// again: what fails now ends the client's connection (case H of seeds.md 4.5).
func (x *exchange) reply() failure {
	rep := &x.rep
	dropReply(&rep.Head, rep.Body.Framing() == http1.Chunked)
	x.status, x.begun = rep.Status, true
	x.headBytes = rep.Size()
	if rep.Switched() {
		return x.tunnel()
	}
	x.source.x = x
	x.pump.settle(x)
	n, rerr, werr := x.out.send(rep, &x.source)
	x.written = n
	switch {
	case werr != nil:
		return x.stop(x.failed(failGone, werr))
	case errors.Is(rerr, errGone):
		return x.stop(x.failed(failGone, rerr))
	case errors.Is(rerr, errOverdue):
		return x.stop(x.failed(failOverdue, rerr))
	case errors.Is(rerr, http1.ErrInterrupted) && x.conn.Abandoned():
		x.lost = true
		return x.stop(x.failed(failBegun, errLost))
	case rerr != nil:
		return x.stop(x.failed(failBegun, rerr))
	}
	x.pump.halt(x)
	if !x.pump.complete() {
		x.conn.Spoil()
	}
	x.conn.Done(rep)
	x.conn = nil
	return failNone
}

// noteReason reads the value of Understudy-Not-Executed: a reason, and maybe the
// member that can execute the request, which is then tried before all others:
//
//	draining
//	full
//	owner; member=b
//
// A request that may have killed a member is not sent where somebody says: the
// owner may be the only holder that is left.
func (x *exchange) noteReason(value []byte) {
	reason, param, ok := bytes.Cut(value, []byte(";"))
	switch string(bytes.TrimSpace(reason)) {
	case "full", "overloaded":
		x.crowded = true
	}
	if !ok || x.wary {
		return
	}
	name, ok := bytes.CutPrefix(bytes.TrimSpace(param), []byte("member="))
	if !ok || len(name) == 0 || len(name) > len(x.named) {
		return
	}
	// The value lies in a buffer that the next attempt uses.
	x.want.Primary = x.named[:copy(x.named[:], name)]
	x.want.Avoid = false
}
