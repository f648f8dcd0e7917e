// Package balance chooses which member of a balancer serves a request, and
// remembers how each member has fared.
//
// It knows no wire: the caller says which routes the request's session names,
// and how the exchange went. Words, weights and states follow mod_jk's lb
// worker, method Request (mod_jk.md 3.2-3.8). A request goes like this:
//
//	var round balance.Round // one per request, on the stack
//	for {
//		lease, err := b.Pick(balance.Request{Primary: p, Secondary: s, Round: &round})
//		if err != nil {
//			break // ErrNoMember; round.Again() and another try, or 503
//		}
//		outcome := exchange(lease.Value())
//		lease.Done(outcome)
//		if outcome == balance.OK || !mayBeSentAgain {
//			break
//		}
//	}
//
// # Choosing
//
// The request's primary comes first, then its secondary, then the member whose
// load value is lowest. Each request adds lcm(all lbfactors)/lbfactor to the
// value of its member, sticky or not; of equals the one behind the member chosen
// last is taken, so equals take turns. Values are halved every Config.Maintain.
//
// # States
//
//	IDLE  no request since the last maintenance
//	OK    the last exchange worked
//	ERR   out of service, until RecoverTime after its last error
//	REC   RecoverTime has passed: the next request that fits is a trial
//	PRB   the trial is running: nobody else gets the member
//	FRC   was in error, but there was nothing better
//
// If nothing can be chosen, every member in error becomes FRC at once and is
// tried by this request and all others (forced recovery, PLUG-108), at most once
// per request.
//
// # Where this is not mod_jk
//
//   - Recovery is decided when a request looks for a member, not in the next
//     maintenance run, so it is not up to a minute late.
//   - Forced recovery includes a member whose trial is running. Otherwise one slow
//     trial would make the whole service unavailable though the member is up.
//   - [Unreachable] puts a member in error at once, also under load; mod_jk lets
//     every request pay for the failure during error_escalation_time.
//   - Members come and go, and a member has a [Phase] besides its activation:
//     what gossip says about it (design.md D3). A phase other than Running never
//     takes a living member out of service: if no other member can be chosen,
//     new sessions go to it, and it decides itself.
package balance
