package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A mapping is the worker of a request, and what the rule that chose it sets in
// place of the worker's own (mod_jk.md 5.6). It belongs to a table.
type mapping struct {
	lb            *lb            // nil: there is no worker with the name
	own           bool           // it goes to a worker of type status
	status        http.Handler   // that one; nil if there is nobody to answer
	finder        *cookie.Finder // nil: sessions are not looked for
	cookie, param string         // that finder looks at
	activations   balance.Activations
	stateless     bool
	setCookie     routeCookie
	failOn        []worker.StatusRule // nil: the member's
	reply         time.Duration       // if replySet, in place of the member's reply_timeout
	replySet      bool
	serverErrors  int // from this status on a member's content is replaced by ours; zero: never
}

// route finds out which worker the request is for, and which members its session
// names. It looks at the path in its normal form; the member gets it as it came.
func (x *exchange) route() failure {
	m := x.table.everything
	if m == nil {
		match, ok := x.table.uris.For(x.req.Host).Match(x.req.Path, &x.normal)
		if !ok {
			return x.unmapped(match.Outcome)
		}
		m = x.table.rules[match.Rule]
	}
	if m.lb == nil {
		if m.own {
			return x.failed(failNoWorker, errOwn) // Explain asks for it; serveStatus has answered any other
		}
		return x.failed(failNoWorker, errNoWorker)
	}
	x.mapping, x.lb = m, m.lb
	x.lb.budget.earn()
	x.want.Activations, x.want.Stateless = m.activations, m.stateless
	if m.finder != nil && m.lb.tuning.Load().sticky {
		x.ref = x.find(&x.scratch)
		if x.ref.Forged > 0 {
			x.p.counts.forged.Add(uint64(x.ref.Forged))
		}
	}
	if x.want.Key = x.session(); len(x.want.Key) == 0 {
		x.want.Key = x.clientAddr()
	}
	return failNone
}

// refind finds the session again, before a further attempt: of several that a request
// names the first one counts that somebody can serve, and that may have changed. What
// is logged of the request stays as it was.
func (x *exchange) refind() {
	if x.want.Session && !x.ref.Signed && !x.want.Avoid {
		if x.rescratch == nil {
			x.rescratch = new(cookie.Scratch)
		}
		x.find(x.rescratch)
	}
}

// find finds the session of the request, and wants the members that it names.
func (x *exchange) find(s *cookie.Scratch) cookie.Reference {
	finder := x.mapping.finder
	n := 0
	for i := x.req.Find(http1.NameCookie, 0); i >= 0 && n < len(x.cookies); i = x.req.Find(http1.NameCookie, i+1) {
		x.cookies[n] = x.req.Value(i)
		n++
	}
	ref := finder.Find(x.req.Path, x.cookies[:n], x.serves, s)
	x.want.Primary, x.want.Secondary, x.want.Session = ref.Primary, ref.Secondary, ref.Present
	if ref.Present && len(ref.Primary) == 0 {
		// Its member may be tried all the same if there is nobody else.
		x.want.Primary = finder.Find(x.req.Path, x.cookies[:n], x.knows, s).Primary
	}
	clear(x.cookies[:n])
	return ref
}

// maxCookieLines bounds the Cookie lines of a request that are searched for a
// session; HTTP/2 clients send one line per cookie.
const maxCookieLines = 32

// unmapped refuses a request that goes to no worker.
func (x *exchange) unmapped(o urimap.Outcome) failure {
	switch o {
	case urimap.Malformed, urimap.Ambiguous:
		return x.failed(failPath, mappingError(o))
	default:
		return x.failed(failUnmapped, mappingError(o))
	}
}

// mappingError is the cause of failUnmapped and failPath.
type mappingError urimap.Outcome

func (o mappingError) Error() string { return "proxy: the path is " + urimap.Outcome(o).String() }

// silence returns how long a member may be silent. As in mod_jk, reply_timeout
// decides while a reply is awaited, and socket_timeout only without it (TC-4b: nine
// seconds of work are not cut by a socket_timeout of three).
func (m *mapping) silence(to *member) time.Duration {
	if m.replySet {
		return cmp.Or(m.reply, to.settings().SocketTimeout)
	}
	return cmp.Or(to.settings().ReplyTimeout, to.settings().SocketTimeout)
}

// failOn returns the fail_on_status that holds for the request.
func (x *exchange) failOn() []worker.StatusRule {
	if x.mapping.failOn != nil {
		return x.mapping.failOn
	}
	return x.member.settings().FailOnStatus
}

// failsOn reports whether a status is in failOn. The first hit decides.
func (x *exchange) failsOn(status int) (soft, hit bool) {
	for _, r := range x.failOn() {
		if r.Status == status {
			return r.Soft, true
		}
	}
	return false, false
}

// mapAll sends all requests to one lb.
func (b *builder) mapAll(l *lb) error {
	var err error
	b.t.everything, err = b.mapTo(l, urimap.Extensions{})
	return err
}

// mapByRules makes the mappings of all rules.
func (b *builder) mapByRules() error {
	b.t.rules = map[*urimap.Rule]*mapping{}
	plain := map[string]*mapping{} // by worker: those that set nothing
	for _, r := range b.t.uris.Rules {
		if r.Exclude || r.Disabled {
			continue
		}
		if slices.ContainsFunc(b.t.file.Statuses, func(s *worker.Status) bool { return s.Name == r.Worker }) {
			b.t.rules[r] = &mapping{own: true, status: b.t.statuses[r.Worker]}
			continue
		}
		key, setsNothing := r.Worker, r.Extensions.String() == ""
		if m := plain[key]; m != nil && setsNothing {
			b.t.rules[r] = m
			continue
		}
		m, err := b.mapTo(b.t.worker(r.Worker), r.Extensions)
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", r.File, r.Line, r.Text, err)
		}
		b.t.rules[r] = m
		if setsNothing {
			plain[key] = m
		}
	}
	return nil
}

// mapTo makes a mapping to l, which may be nil.
func (b *builder) mapTo(l *lb, e urimap.Extensions) (*mapping, error) {
	m := &mapping{lb: l, stateless: e.Stateless, reply: e.ReplyTimeout, replySet: e.ReplyTimeoutSet, serverErrors: e.UseServerErrors}
	if l == nil {
		return m, nil
	}
	for _, r := range e.FailOnStatus {
		m.failOn = append(m.failOn, worker.StatusRule(r))
	}
	m.activations = l.activations(e)
	if !e.StickyIgnore && l.from != nil {
		var err error
		m.cookie, m.param = cmp.Or(e.SessionCookie, l.cookie), strings.TrimPrefix(cmp.Or(e.SessionPath, l.param), ";")
		m.finder, err = cookie.NewFinder(cookie.FinderConfig{Cookie: m.cookie, Param: m.param, Codec: b.codec})
		if err != nil {
			return nil, err
		}
		if l.setCookie || e.SetSessionCookie {
			m.setCookie = newRouteCookie(m.cookie, cmp.Or(e.SessionCookiePath, l.cookiePath))
			for _, w := range l.members {
				if err := checkRoute(w); err != nil {
					return nil, err
				}
			}
		}
	}
	return m, nil
}

// activations returns what a rule sets, by name. A member that can never be used
// stays stopped whatever a rule says.
func (l *lb) activations(e urimap.Extensions) balance.Activations {
	set := balance.Activations{}
	add := func(names []string, a balance.Activation) {
		for _, name := range names {
			if w := l.members[name]; w != nil && !unusable(w) {
				set[w.Name] = a
			}
		}
	}
	add(e.Active, balance.Active)
	add(e.Disabled, balance.Disabled)
	add(e.Stopped, balance.Stopped)
	if len(set) == 0 {
		return nil // the ordinary case, which looks nothing up
	}
	return set
}
