package main

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/understudy-lb/understudy/admin"
	"github.com/understudy-lb/understudy/cluster"
)

// control adds to the admin listener what changes something (D11):
//
//	POST /api/members/NODE/drain     no new sessions; an app node hands over those that it has (SESS-39)
//	POST /api/members/NODE/resume    undoes that
func (s *server) control(next http.Handler, token admin.Token) http.Handler {
	r := chi.NewRouter()
	r.Handle("/api/members/{node}/{order:drain|resume}", token.Change(http.HandlerFunc(s.order)))
	r.Handle("/*", next)
	return r
}

// order tells an app node by gossip what to do, and all proxies learn it from
// what the node then says of itself. Any other member is disabled, or made active,
// on this proxy alone.
func (s *server) order(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	name, drain := chi.URLParam(r, "node"), chi.URLParam(r, "order") == "drain"
	told, err := s.tell(name, drain)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case told:
		fmt.Fprintf(w, "%s was told to %s\n", name, chi.URLParam(r, "order")) //nolint:errcheck // nobody to tell
	case s.proxy.SetDraining(name, drain):
		fmt.Fprintf(w, "%s does not gossip: on this proxy alone its activation is changed\n", name) //nolint:errcheck // nobody to tell
	default:
		http.Error(w, fmt.Sprintf("there is no member %q", name), http.StatusNotFound)
	}
}

// tell sends the order to all boots of the app node of that name, and reports
// whether there is one.
func (s *server) tell(name string, drain bool) (told bool, err error) {
	if s.cluster == nil {
		return false, nil
	}
	o := cluster.OrderResume
	if drain {
		o = cluster.OrderDrain
	}
	for _, m := range s.cluster.Members() {
		if m.Name == name && !m.Proxy {
			if err := s.cluster.Order(m, o); err != nil {
				return false, err
			}
			told = true
		}
	}
	return told, nil
}
