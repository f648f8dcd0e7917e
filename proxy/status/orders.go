package status

import (
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
)

// ErrNoMember is what Config.Order returns, perhaps wrapped, if no member has the
// route.
var ErrNoMember = errors.New("no member")

// maxForm bounds the form of the page, in bytes.
const maxForm = 16 << 10

// The orders that the page can give; they are also words in URLs.
const (
	orderDrain  = "drain"
	orderResume = "resume"
)

// An Asked is an order that somebody at the page is about to give, and has to
// confirm by the token.
type Asked struct {
	Order string // drain or resume
	Route string // whom to
	Why   string // why it was not done; empty before the first try
}

// A Done is the last order that was given.
type Done struct {
	Text string // what it has done
	At   time.Time
}

// asked returns the order that the URL of the page asks for, or nil.
func asked(q url.Values) *Asked {
	for _, order := range []string{orderDrain, orderResume} {
		if route := q.Get(order); route != "" {
			return &Asked{Order: order, Route: route}
		}
	}
	return nil
}

// member returns the member that a is about, as s has it; nil if there is none.
func (a *Asked) member(s Snapshot) *Member {
	for _, w := range s.Workers {
		for i := range w.Members {
			if w.Members[i].Route == a.Route {
				return &w.Members[i]
			}
		}
	}
	return nil
}

// orders gives them, and remembers the last one for the page.
type orders struct {
	give func(route string, drain bool) (done string, err error)

	mu   sync.Mutex // guards last; never held while one is given
	last *Done
}

// run gives one, and returns what to say and the status of the reply.
func (o *orders) run(order, route string) (said string, status int) {
	said, err := o.give(route, order == orderDrain)
	switch {
	case errors.Is(err, ErrNoMember):
		return err.Error(), http.StatusNotFound
	case err != nil:
		return err.Error(), http.StatusBadGateway
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = &Done{said, time.Now()}
	return said, http.StatusOK
}

func (o *orders) latest() *Done {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// param returns a part of the path.
func param(r *http.Request, name string) (string, error) {
	v := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return v, nil
	}
	return url.PathUnescape(v) // the router has left it escaped
}

// post is POST /api/members/ROUTE/drain and resume, for scripts.
func (a *handler) post(w http.ResponseWriter, r *http.Request) {
	route, err := param(r, "route")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said, status := a.orders.run(chi.URLParam(r, "order"), route)
	if status != http.StatusOK {
		http.Error(w, said, status)
		return
	}
	send(w, "text/plain; charset=utf-8", []byte(said+"\n"))
}

// submit is POST /, the form of the page. What was done is on the page to which
// the browser is sent; what was not, on the form again.
func (a *handler) submit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ask := asked(r.PostForm)
	status, why := a.token.Check(r)
	switch {
	case ask == nil:
		http.Error(w, "want drain=ROUTE or resume=ROUTE", http.StatusBadRequest)
		return
	case status == http.StatusUnauthorized && a.token.Set():
		w.Header().Set("WWW-Authenticate", "Bearer")
		ask.Why = "that is not the token"
	case status != 0:
		http.Error(w, why, status)
		return
	default:
		var said string
		if said, status = a.orders.run(ask.Order, ask.Route); status == http.StatusOK {
			w.Header().Set("Location", "./")
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		ask.Why = said
	}
	a.show(w, status, Page{Asked: ask})
}
