package proxy

import (
	"net/http"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// failure says how an attempt at a member ended when it did not end in a reply.
// It is found once, in exchange.go, and acted on once, by decide.
type failure uint8

const (
	failNone      failure = iota
	failConnect           // nothing was sent: refused, timed out, no answer to the probe, no free connection
	failNotRun            // one of our members answered 503 with Understudy-Not-Executed
	failStatus            // the status is in the member's fail_on_status
	failDropped           // sent; the connection ended before a whole reply head
	failTimeout           // sent; no byte for reply_timeout or socket_timeout
	failMalformed         // sent; the answer is not HTTP, or ambiguous
	failBegun             // the client has had the reply's head; then the member failed
	failGone              // the client went away
	failClient            // the client's body broke a rule of the protocol
	failTooLarge          // the client's body is over the limit
	failSlow              // the client's body stopped arriving
	failMethod            // the method is none that we pass on
	failUnmapped          // no rule sends the path to a worker
	failPath              // the path cannot be compared with rules, or only in several ways
	failNoWorker          // the rule's worker does not exist
	failReplaced          // the member answered; the rule wants an error page of ours in place of its content
	failSpool             // the body cannot be read back from the spool
	failTunnel            // the member has broken a tunnel, or is gone
	failIdle              // we have ended a tunnel: it was idle, or the proxy stops
	failTunnels           // no further tunnel may be opened
	failOverdue           // the request as a whole took too long
	failures              // how many there are
)

// String is the word of the access log, explained in docs/logs.md.
func (f failure) String() string {
	return [failures]string{
		"", "connect", "not-executed", "status", "dropped", "timeout", "malformed",
		"begun", "client-gone", "client-error", "too-large", "client-slow", "method",
		"unmapped", "path", "no-worker", "replaced",
		"spool", "tunnel-broken", "tunnel-ended", "too-many-tunnels", "overdue",
	}[f]
}

// sent reports whether the member may have run the request.
func (f failure) sent() bool {
	switch f {
	case failStatus, failDropped, failTimeout, failMalformed, failBegun:
		return true
	default:
		return false
	}
}

// recovery is the directive recovery_options.
type recovery struct {
	set  bool // the file has it
	bits int
}

// The bits of recovery_options that say when not to send again. Bit 2 (value 2)
// is about replies that have begun; for us these are never sent again, set or
// not. Bit 3 (value 4) is not about sending again.
const (
	recoverNotSent = 1  // not if the member failed after getting the request
	recoverHead    = 8  // HEAD again all the same
	recoverGet     = 16 // GET again all the same; mod_jk forgets it beside 8, we do not
)

// allows reports whether a request with this method may be sent again after a
// member has got it. Where the file says nothing that is so for idempotent
// methods (RFC 9110, 9.2.2); where it does, the file is obeyed, and 0 means any
// method, as in mod_jk.
func (r recovery) allows(m http1.Method) bool {
	switch {
	case !r.set:
		return m.Idempotent()
	case r.bits&recoverNotSent == 0:
		return true
	case m == http1.MethodHead:
		return r.bits&recoverHead != 0
	case m == http1.MethodGet:
		return r.bits&recoverGet != 0
	}
	return false
}

// facts is all that decide looks at.
type facts struct {
	failure    failure
	status     int // for failStatus: what the member answered
	method     http1.Method
	replayable bool     // the body can be sent again from its first byte
	recovery   recovery // of the member that failed
	resends    int      // how often the request has been sent again after a member got it
	maxResend  int      // how often it may be; negative: as often as you like, without guards
	enough     bool     // for failDropped, failTimeout and failStatus: this member has had the request as often as it may
	compat     bool     // as in mod_jk the member is tried again after a time-out or a status too
	alive      bool     // for failDropped: the member took a connection afterwards
	others     int      // for failDropped: members alive beside this one
	gossip     bool     // for failDropped: gossip tells when redundancy is restored
	crowded    bool     // for failNotRun: because it has too much to do
	poisoned   bool     // its like was in flight when a member died, in the last minute
}

// whither is where a request goes after a failed attempt.
type whither uint8

const (
	giveUp       whither = iota // nowhere: the client gets the status
	nextMember                  // a member that has not been tried
	nextNoCopy                  // the same, but not to a holder of the session
	nextRestored                // the same, once redundancy is restored, and preferably not to a holder
	cutClient                   // nowhere, and the client's connection is ended without a (further) word
	sameMember                  // the same member, or the next one if that does not work
)

// decision is what decide says.
type decision struct {
	to     whither
	status int  // for the client if to is giveUp, or there is nobody to go to
	resend bool // a member had got the request: count it
}

// decide says what becomes of a request whose attempt failed. It is the whole of
// design D8 (seeds.md 4.5, mod_jk.md 4.4) and depends on nothing but f.
func decide(f facts) decision {
	switch f.failure {
	case failConnect, failNotRun:
		return f.unsent()
	case failStatus:
		// A 503 is how servers say that they did not try (PLUG-103); after any
		// other status the member has run it.
		switch {
		case f.compat && f.replayable:
			// recovery_options is about replies that do not come (mod_jk.md 4.2).
			return decision{to: f.sameOrNext(), status: http.StatusServiceUnavailable, resend: true}
		case f.status == http.StatusServiceUnavailable:
			return f.unsent()
		}
		return f.again(nextMember, http.StatusServiceUnavailable)
	case failDropped:
		if f.alive || f.maxResend < 0 {
			return f.again(f.sameOrNext(), http.StatusBadGateway)
		}
		// This very request may have killed the member: another death must cost
		// nobody their session, and one member must be left in any case (TC-7).
		switch {
		case f.others < minOthers:
			return decision{to: giveUp, status: http.StatusBadGateway}
		case f.gossip:
			return f.again(nextRestored, http.StatusBadGateway)
		}
		return f.again(nextNoCopy, http.StatusBadGateway)
	case failTimeout:
		to := nextMember
		if f.compat {
			to = f.sameOrNext()
		}
		return f.again(to, http.StatusGatewayTimeout)
	case failBegun, failGone, failTunnel, failIdle:
		return decision{to: cutClient, status: statusClientGone}
	case failReplaced:
		return decision{to: giveUp, status: f.status}
	default:
		return decision{to: giveUp, status: f.failure.own()}
	}
}

// own is the status of a reply of ours, for a failure after which nobody else is
// asked.
func (f failure) own() int {
	switch f {
	case failClient, failPath:
		return http.StatusBadRequest
	case failUnmapped:
		return http.StatusNotFound
	case failMethod:
		return http.StatusMethodNotAllowed
	case failSlow:
		return http.StatusRequestTimeout
	case failTooLarge:
		return http.StatusRequestEntityTooLarge
	case failNoWorker:
		return http.StatusInternalServerError
	case failTunnels:
		return http.StatusServiceUnavailable
	case failOverdue:
		return http.StatusGatewayTimeout
	default: // failSpool; failMalformed: it would answer so again
		return http.StatusBadGateway
	}
}

// pays reports whether another try after this failure counts for the budget: a
// member has worked at the request, or has more to do than it can.
func (f facts) pays() bool { return f.failure.sent() || f.crowded }

// resendable reports whether there is a failure of the attempt under way after
// which the request would be sent again: whether its body has to be kept.
func (x *exchange) resendable() bool {
	f := facts{
		method: x.req.Method, replayable: true, recovery: x.member.recovery(), resends: x.resends, maxResend: x.p.maxResend,
		alive: true, others: 2,
	}
	again := func(failure failure, status int) bool {
		f.failure, f.status = failure, status
		to := decide(f).to
		return to != giveUp && to != cutClient
	}
	for _, rule := range x.failOn() {
		if again(failStatus, rule.Status) {
			return true
		}
	}
	return x.member.isOurs() && again(failNotRun, 0) || again(failDropped, 0) || again(failTimeout, 0)
}

// sameOrNext is the same member as long as it has not had enough.
func (f facts) sameOrNext() whither {
	if f.enough {
		return nextMember
	}
	return sameMember
}

// unsent is the decision when no member has run the request: any method, as
// often as there are members.
func (f facts) unsent() decision {
	d := decision{to: nextMember, status: http.StatusServiceUnavailable}
	if !f.replayable {
		d.to = giveUp
	}
	return d
}

// again is the decision when a member has got the request.
func (f facts) again(to whither, status int) decision {
	spent := f.maxResend >= 0 && (f.resends >= f.maxResend || f.poisoned)
	if spent || !f.replayable || !f.recovery.allows(f.method) {
		return decision{to: giveUp, status: status}
	}
	return decision{to: to, status: status, resend: true}
}
