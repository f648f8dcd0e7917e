package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// order tells an app node by gossip to drain or to resume (SESS-39), and all
// proxies learn it from what the node then says of itself. Any other member is
// disabled, or made active, on this proxy alone. It returns what was done.
func (s *server) order(route string, drain bool) (done string, err error) {
	told, err := s.tell(route, drain)
	switch {
	case err != nil:
		return "", err
	case told && drain:
		return route + " was told to drain", nil
	case told:
		if s.disabled(route) { // before it gossiped
			_, err = s.activate(route, false)
		}
		return route + " was told to resume", err
	}
	known, err := s.activate(route, drain)
	if err != nil {
		return "", err
	}
	if known {
		return route + " does not gossip: on this proxy alone its activation is changed", nil
	}
	return "", fmt.Errorf("there is %w %q", status.ErrNoMember, route)
}

// activate disables the members of a route on this proxy, or makes them active again,
// in all workers, and reports whether there are any.
func (s *server) activate(route string, drain bool) (known bool, err error) {
	to := "A"
	if drain {
		to = "D"
	}
	for _, w := range s.proxy.Snapshot().Workers {
		for _, m := range w.Members {
			if m.Route != route {
				continue
			}
			known = true
			err = errors.Join(err, s.change(status.Change{
				Worker: w.Name, Member: m.Name, Set: []status.Property{{Name: "activation", Value: to}},
			}))
		}
	}
	return known, err
}

// disabled reports whether a member of the route is not active on this proxy.
func (s *server) disabled(route string) bool {
	return slices.ContainsFunc(s.proxy.Snapshot().Workers, func(w status.Worker) bool {
		return slices.ContainsFunc(w.Members, func(m status.Member) bool { return m.Route == route && m.Activation != "ACT" })
	})
}

// tell sends the order to all boots of the app node of that name, and reports
// whether there is one.
func (s *server) tell(name string, drain bool) (told bool, err error) {
	if s.cluster == nil {
		return false, nil
	}
	o, word := cluster.OrderResume, "resume"
	if drain {
		o, word = cluster.OrderDrain, "drain"
	}
	for _, m := range s.cluster.Members() {
		if m.Name == name && !m.Proxy {
			if err := s.cluster.Order(m, o); err != nil {
				return false, err
			}
			s.log.Info().Str("member", m.ID()).Str("order", word).Msg("order passed on")
			told = true
		}
	}
	return told, nil
}

// statusWorker makes a worker of type status.
func (s *server) statusWorker(w *worker.Status) (http.Handler, error) {
	if len(w.User) > 0 && !s.token.Set() {
		s.log.Warn().Str("worker", w.Name).Msg("status worker lets nobody in")
	}
	return status.NewJK(status.JKConfig{
		Snapshot: s.snapshot, Change: s.change, Token: s.token, Compat: s.cfg.Compat,
		Name: w.Name, CSS: w.CSS, ReadOnly: w.ReadOnly, User: w.User, UserCaseInsensitive: w.UserCaseInsensitive, Good: w.Good, Bad: w.Bad,
		Prefix: w.Prefix, NS: w.NS, XMLNS: w.XMLNS, Doctype: w.Doctype,
	})
}
