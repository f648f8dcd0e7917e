package proxy

import (
	"os"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy/http1"
)

func TestDecide(t *testing.T) {
	explicit := func(bits int) recovery { return recovery{set: true, bits: bits} }
	const guards = 1 // max_resend as it is by default
	tests := []struct {
		name string
		in   facts
		want decision
	}{{
		name: "PLUG-100: nothing sent, a POST goes to the next member",
		in:   facts{failure: failConnect, method: http1.MethodPost, replayable: true, maxResend: guards},
		want: decision{to: nextMember, status: 503},
	}, {
		name: "PLUG-100: nothing sent after a resend is not another resend",
		in:   facts{failure: failConnect, method: http1.MethodGet, replayable: true, maxResend: guards, resends: 1},
		want: decision{to: nextMember, status: 503},
	}, {
		name: "nothing sent, but the body is no longer whole",
		in:   facts{failure: failConnect, method: http1.MethodPost, maxResend: guards},
		want: decision{to: giveUp, status: 503},
	}, {
		name: "Not-Executed: any method",
		in:   facts{failure: failNotRun, method: http1.MethodPost, replayable: true, maxResend: guards, resends: 1},
		want: decision{to: nextMember, status: 503},
	}, {
		name: "Not-Executed: a long POST cannot be sent again",
		in:   facts{failure: failNotRun, method: http1.MethodPost, maxResend: guards},
		want: decision{to: giveUp, status: 503},
	}, {
		name: "PLUG-103: 503 in fail_on_status, any method",
		in:   facts{failure: failStatus, status: 503, method: http1.MethodPost, replayable: true, maxResend: guards},
		want: decision{to: nextMember, status: 503},
	}, {
		name: "500 in fail_on_status: the member has run it, so a POST is not repeated",
		in:   facts{failure: failStatus, status: 500, method: http1.MethodPost, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 503},
	}, {
		name: "500 in fail_on_status: a GET is, once",
		in:   facts{failure: failStatus, status: 500, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: nextMember, status: 503, resend: true},
	}, {
		name: "no rule maps it",
		in:   facts{failure: failUnmapped, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 404},
	}, {
		name: "its path goes above the root",
		in:   facts{failure: failPath, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 400},
	}, {
		name: "its rule names nobody",
		in:   facts{failure: failNoWorker, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 500},
	}, {
		name: "use_server_errors: the member has answered, so it is not asked again",
		in:   facts{failure: failReplaced, status: 502, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "dropped, the member is alive: GET again there",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, alive: true},
		want: decision{to: sameMember, status: 502, resend: true},
	}, {
		name: "dropped again by a member that is alive: the next one",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: -1, resends: 1, alive: true, enough: true},
		want: decision{to: nextMember, status: 502, resend: true},
	}, {
		name: "a time-out with mod_jk's retries: the same member",
		in:   facts{failure: failTimeout, method: http1.MethodGet, replayable: true, maxResend: -1, compat: true},
		want: decision{to: sameMember, status: 504, resend: true},
	}, {
		name: "a status with mod_jk's retries, whatever recovery_options says",
		in:   facts{failure: failStatus, status: 503, method: http1.MethodPost, replayable: true, maxResend: -1, compat: true, recovery: explicit(3)},
		want: decision{to: sameMember, status: 503, resend: true},
	}, {
		name: "but not without the body",
		in:   facts{failure: failStatus, status: 500, method: http1.MethodPost, maxResend: -1, compat: true},
		want: decision{to: giveUp, status: 503},
	}, {
		name: "and then the next one",
		in:   facts{failure: failTimeout, method: http1.MethodGet, replayable: true, maxResend: -1, compat: true, enough: true},
		want: decision{to: nextMember, status: 504, resend: true},
	}, {
		name: "dropped, the member is alive: never a POST (D04, D19)",
		in:   facts{failure: failDropped, method: http1.MethodPost, replayable: true, maxResend: guards, alive: true},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, 3 nodes: GET dropped by a death goes to a member without a copy",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 2},
		want: decision{to: nextNoCopy, status: 502, resend: true},
	}, {
		name: "TC-7, with gossip it waits for redundancy first",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 2, gossip: true},
		want: decision{to: nextRestored, status: 502, resend: true},
	}, {
		name: "TC-7, with gossip and one other member: nothing to wait for",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 1, gossip: true},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, with gossip, POST: 502 at once",
		in:   facts{failure: failDropped, method: http1.MethodPost, replayable: true, maxResend: guards, others: 3, gossip: true},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "dropped by a member that lives: gossip or not, no wait",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 2, gossip: true, alive: true},
		want: decision{to: sameMember, status: 502, resend: true},
	}, {
		name: "TC-7, 3 nodes: the second death ends it",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 1, resends: 1},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, 5 nodes: the second death ends it there too",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 3, resends: 1},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, 2 nodes: the last one is not risked",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 1},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, POST: 1 node dies, 502",
		in:   facts{failure: failDropped, method: http1.MethodPost, replayable: true, maxResend: guards, others: 3},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, recovery_options 3: GET is not sent again",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 3, recovery: explicit(3)},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, recovery_options 1: the same",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 3, recovery: explicit(1)},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "TC-7, recovery_options 0 and no guards: the seed's chain, POST included",
		in:   facts{failure: failDropped, method: http1.MethodPost, replayable: true, maxResend: -1, others: 0, resends: 7, poisoned: true, recovery: explicit(0)},
		want: decision{to: sameMember, status: 502, resend: true},
	}, {
		name: "recovery_options 0 with guards: a POST once",
		in:   facts{failure: failDropped, method: http1.MethodPost, replayable: true, maxResend: guards, others: 2, recovery: explicit(0)},
		want: decision{to: nextNoCopy, status: 502, resend: true},
	}, {
		name: "recovery_options 9: HEAD again",
		in:   facts{failure: failDropped, method: http1.MethodHead, replayable: true, maxResend: guards, others: 2, recovery: explicit(9)},
		want: decision{to: nextNoCopy, status: 502, resend: true},
	}, {
		name: "recovery_options 25: GET again, though bit 8 shadows 16 in mod_jk",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 2, recovery: explicit(25)},
		want: decision{to: nextNoCopy, status: 502, resend: true},
	}, {
		name: "recovery_options 17: not HEAD",
		in:   facts{failure: failDropped, method: http1.MethodHead, replayable: true, maxResend: guards, others: 2, recovery: explicit(17)},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "its like was in flight at a death a moment ago",
		in:   facts{failure: failDropped, method: http1.MethodGet, replayable: true, maxResend: guards, others: 3, poisoned: true},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "PLUG-101: time-out, GET goes on, also to the secondary",
		in:   facts{failure: failTimeout, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: nextMember, status: 504, resend: true},
	}, {
		name: "PLUG-101: time-out, once",
		in:   facts{failure: failTimeout, method: http1.MethodGet, replayable: true, maxResend: guards, resends: 1},
		want: decision{to: giveUp, status: 504},
	}, {
		name: "PLUG-101, D19: time-out, POST is an error",
		in:   facts{failure: failTimeout, method: http1.MethodPost, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 504},
	}, {
		name: "an unreadable reply would be as unreadable again",
		in:   facts{failure: failMalformed, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: giveUp, status: 502},
	}, {
		name: "case H: a reply that has begun is never sent again, whatever the file says",
		in:   facts{failure: failBegun, method: http1.MethodGet, replayable: true, maxResend: -1, recovery: explicit(0)},
		want: decision{to: cutClient, status: 499},
	}, {
		name: "PLUG-109: the client is gone",
		in:   facts{failure: failGone, method: http1.MethodGet, replayable: true, maxResend: guards},
		want: decision{to: cutClient, status: 499},
	}, {
		name: "PLUG-105: body too large",
		in:   facts{failure: failTooLarge, method: http1.MethodPost, maxResend: guards},
		want: decision{to: giveUp, status: 413},
	}, {
		name: "a chunk that is no chunk",
		in:   facts{failure: failClient, method: http1.MethodPost, maxResend: guards},
		want: decision{to: giveUp, status: 400},
	}, {
		name: "a body that stops half way",
		in:   facts{failure: failSlow, method: http1.MethodPost, maxResend: guards},
		want: decision{to: giveUp, status: 408},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.in); got != tt.want {
				t.Errorf("decide(%+v) = %+v, want %+v", tt.in, got, tt.want)
			}
		})
	}
}

// TestDecideNever goes over all facts there are and checks what must never be.
func TestDecideNever(t *testing.T) {
	for f := failConnect; f <= failMethod; f++ {
		for m := http1.MethodOther; m <= http1.MethodPatch; m++ {
			for bits := range 1 << 10 {
				in := facts{
					failure: f, method: m, maxResend: 1,
					replayable: bits&1 != 0, alive: bits&2 != 0, poisoned: bits&4 != 0,
					resends: bits >> 3 & 1, others: bits >> 4 & 3,
					recovery: recovery{set: bits>>6&1 != 0, bits: bits >> 7 & 1 * recoverNotSent},
					gossip:   bits>>8&1 != 0,
				}
				got := decide(in)
				on := got.to != giveUp && got.to != cutClient
				switch {
				case on && !in.replayable:
					t.Fatalf("decide(%+v) = %+v: the body is gone", in, got)
				case got.resend && in.resends > 0:
					t.Fatalf("decide(%+v) = %+v: a second resend", in, got)
				case got.resend && !in.recovery.set && !m.Idempotent():
					t.Fatalf("decide(%+v) = %+v: not idempotent", in, got)
				case on && f.sent() && !got.resend && f != failStatus:
					t.Fatalf("decide(%+v) = %+v: sent again without counting it", in, got)
				case on && f == failDropped && !in.alive && in.gossip != (got.to == nextRestored):
					t.Fatalf("decide(%+v) = %+v: does not wait for redundancy, or cannot hear of it", in, got)
				case on && f == failDropped && !in.alive && in.others < 2:
					t.Fatalf("decide(%+v) = %+v: risks the last member", in, got)
				case f == failBegun && got.to != cutClient:
					t.Fatalf("decide(%+v) = %+v: a second reply after the first", in, got)
				case got.to == giveUp && (got.status < 400 || got.status > 504):
					t.Fatalf("decide(%+v) = %+v: no status for the client", in, got)
				}
			}
		}
	}
}

// Operators look the words up.
func TestFailureWordsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := failConnect; f < failures; f++ {
		if word := f.String(); word == "" || !strings.Contains(string(page), "\n| `"+word+"` | ") {
			t.Errorf("docs/logs.md does not explain the failure %q", word)
		}
	}
}
