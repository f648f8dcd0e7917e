// Package balance chooses which member of a balancer serves a request, and
// remembers how each member has fared.
//
// It knows no wire: the caller says which routes the request's session names,
// and how the exchange went. Words, weights and states follow mod_jk's lb
// worker (mod_jk.md 3). A request goes like this:
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
// The request's primary comes first, then its secondary. If neither can serve, the
// primary's Redirect is next, or else a member of its Domain. With StickyForce that
// is all; otherwise the method chooses among the nearest members (Distance): the one
// whose load value is lowest, of equals the one behind the member chosen last.
//
//	method      load value                                        maintenance
//	Request     lb_mult for each request, sticky or not           halved
//	Session     lb_mult for each request without a session        halved
//	Next        the same                                          less the lowest one
//	Traffic     lb_mult for each byte, at the end of the request  halved
//	Busyness    lb_mult for each request that runs                none
//
// where lb_mult is lcm(all lbfactors)/lbfactor. [P2C] draws two members and takes the
// one with less in flight, so that a burst does not go to one member; [LeastTime]
// compares how long a member takes to answer, times what it has in flight; [Rendezvous]
// gives each key its member, and moves no more keys than it must.
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
//   - The secondary of a session comes before redirect and domain, also with
//     StickyForce: it holds a copy.
//   - [Unreachable] puts a member in error at once, also under load; mod_jk lets
//     every request pay for the failure during error_escalation_time.
//   - Members come and go, and a member has a [Phase] besides its activation:
//     what gossip says about it (design.md D3). A phase other than Running never
//     takes a living member out of service: if no other member can be chosen,
//     new sessions go to it, and it decides itself.
package balance
