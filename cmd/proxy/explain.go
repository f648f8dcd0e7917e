package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// explain prints what becomes of a request for uri: the rule that decides, its
// worker, and who may serve it.
func (r *report) explain(file *worker.File, rules *urimap.Map, uri string) {
	if rules == nil {
		r.printf("%s: worker %s, there are no rules\n", uri, file.LBs[0].Name)
		r.candidates(file, file.LBs[0].Name, urimap.Extensions{}, uri)
		return
	}
	e := rules.Explain(uri)
	r.printf("%v", e)
	if e.Match.Outcome == urimap.Mapped {
		r.candidates(file, e.Match.Worker, e.Match.Rule.Extensions, e.Path)
	}
}

// candidates prints the members of a worker, and when each is chosen.
func (r *report) candidates(file *worker.File, name string, set urimap.Extensions, path string) {
	if i := slices.IndexFunc(file.Members, func(m *worker.Member) bool { return m.Name == name }); i >= 0 {
		r.printf("worker %s is a single server: %s\n", name, file.Members[i].Address())
		return
	}
	i := slices.IndexFunc(file.LBs, func(lb *worker.LB) bool { return lb.Name == name })
	if i < 0 {
		r.printf("500: worker %q is not in worker.list\n", name)
		return
	}
	lb := file.LBs[i]
	named := ""
	if lb.Sticky && !set.StickyIgnore {
		named = r.session(lb, set, path)
	} else {
		r.printf("worker %s looks for no session\n", name)
	}
	for i := range lb.Members {
		m := &lb.Members[i]
		when := "any request"
		switch a := activation(m, set); {
		case a == worker.Stopped:
			when = "nothing, it is stopped"
		case m.Route == named:
			when = "this request first"
		case a == worker.Disabled:
			when = "its own sessions only, it is disabled"
		}
		r.printf("  %s %s, route %s, lbfactor %d: %s\n", m.Name, m.Address(), m.Route, m.LBFactor, when)
	}
}

// session prints where a session is looked for, and returns the route that the path
// names. Signed values are not verified here.
func (r *report) session(lb *worker.LB, set urimap.Extensions, path string) string {
	name, param := lb.SessionCookie, lb.SessionParam()
	if set.SessionCookie != "" {
		name = set.SessionCookie
	}
	if set.SessionPath != "" {
		param = strings.TrimPrefix(set.SessionPath, ";")
	}
	r.printf("worker %s looks for a session in ;%s= and the cookie %s\n", lb.Name, param, name)
	finder, err := cookie.NewFinder(cookie.FinderConfig{Cookie: name, Param: param})
	if err != nil {
		return "" // proxy.New has refused it
	}
	var s cookie.Scratch
	ref := finder.Find([]byte(path), nil, func(route []byte) bool {
		return slices.ContainsFunc(lb.Members, func(m worker.Member) bool {
			return m.Route == string(route) && activation(&m, set) != worker.Stopped
		})
	}, &s)
	if ref.Present {
		r.printf("the path has a session%s\n", map[bool]string{
			true: fmt.Sprintf(" of route %s", ref.Primary), false: ", but of no route that is served here",
		}[len(ref.Primary) > 0])
	}
	return string(ref.Primary)
}

// activation returns what holds for a member in requests of a rule.
func activation(m *worker.Member, set urimap.Extensions) worker.Activation {
	switch {
	case m.Port == 0, m.PoolSize < 0:
		return worker.Stopped
	case slices.Contains(set.Active, m.Name):
		return worker.Active
	case slices.Contains(set.Disabled, m.Name):
		return worker.Disabled
	case slices.Contains(set.Stopped, m.Name):
		return worker.Stopped
	}
	return m.Activation
}
