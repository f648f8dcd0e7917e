package main

import (
	"fmt"
	"strings"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// explain prints what becomes of a request for uri with these cookies: the rule that
// decides, its worker, the session, and who gets it.
func (r *report) explain(p *proxy.Proxy, rules *urimap.Map, uri string, cookies []string) {
	host, target := splitURI(uri)
	var by urimap.Explanation
	if rules != nil {
		by = rules.Explain(uri)
		r.printf("%v", by)
	}
	choice, err := p.Explain(host, target, cookies...)
	switch {
	case err != nil:
		r.printf("%v\n", err)
		r.failed = true
		return
	case choice.Worker == "" && by.Match.Outcome == urimap.Mapped:
		r.printf("500: worker %q is not in worker.list\n", by.Match.Worker)
		return
	case choice.Worker == "":
		if rules == nil {
			r.printf("%s: %v\n", target, choice.Err)
		}
		return
	case rules == nil:
		r.printf("%s: worker %s, there are no rules\n", target, choice.Worker)
	}
	if choice.Type != worker.TypeLB {
		for _, m := range choice.Asked {
			r.printf("worker %s is a single server: %s\n", choice.Worker, m.Address)
		}
		for _, m := range choice.Left {
			r.printf("worker %s is a single server: %s, which is stopped\n", choice.Worker, m.Address)
		}
		return
	}
	r.session(choice)
	r.asked(choice)
}

// splitURI returns the host of a URI and what a client asks it for. A URI without one
// may be for any host.
func splitURI(uri string) (host, target string) {
	uri, _, _ = strings.Cut(uri, "#")
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || strings.ContainsAny(scheme, "/?") {
		return "localhost", uri
	}
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		return rest, "/"
	}
	host, target = rest[:i], rest[i:]
	if target[0] == '?' {
		target = "/" + target
	}
	return host, target
}

// session prints where a session is looked for, and what was found.
func (r *report) session(c proxy.Choice) {
	if c.Cookie == "" {
		r.printf("worker %s looks for no session\n", c.Worker)
		return
	}
	r.printf("worker %s looks for a session in ;%s= and the cookie %s\n", c.Worker, c.Param, c.Cookie)
	if c.Forged > 0 {
		r.printf("%d values look signed, but not with these keys, so they are no session\n", c.Forged)
	}
	switch {
	case !c.Session:
		r.printf("the request names no session\n")
	case c.Signed:
		r.printf("the request has a signed session: primary %s, secondary %s\n", c.Primary, orNone(c.Secondary))
	case c.Primary == "":
		r.printf("the request names a session, but no route that is served here\n")
	default:
		r.printf("the request names a session of route %s\n", c.Primary)
	}
}

func orNone(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

// asked prints which members get the request, and why the others do not.
func (r *report) asked(c proxy.Choice) {
	if len(c.Asked) == 0 {
		r.printf("503: no member can get it\n")
	} else {
		r.printf("it goes to the first of these that can be reached:\n")
	}
	for i, m := range c.Asked {
		r.printf("  %d. %s, %s\n", i+1, describe(m), map[string]string{
			"value":     "by its share of the load",
			"primary":   "which the session names",
			"secondary": "which the session names as its secondary",
			"redirect":  "to which the session's member redirects, or which stands by",
			"domain":    "in the domain of the session's member",
		}[m.Reason])
	}
	if len(c.Left) > 0 {
		r.printf("and not to:\n")
	}
	for _, m := range c.Left {
		why := "a session that has a member stays with it"
		switch m.Activation {
		case "STP":
			why = "it is stopped"
		case "DIS":
			why = "it is disabled, and gets its own sessions only"
		}
		r.printf("  %s: %s\n", describe(m), why)
	}
}

// describe names a member.
func describe(m proxy.Asked) string {
	return fmt.Sprintf("%s %s, route %s, lbfactor %d, distance %d", m.Member, m.Address, m.Route, m.LBFactor, m.Distance)
}
