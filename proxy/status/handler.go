package status

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/understudy-lb/understudy/admin"
)

const (
	defaultRefresh = 5    // seconds
	maxRefresh     = 3600 // seconds
)

// Config sets up the handler of an admin listener.
type Config struct {
	// Snapshot returns how things stand now. It is called by each request that
	// shows it, perhaps by several at a time. Required.
	Snapshot func() Snapshot

	// Ready returns nil if the proxy can serve, else why not. If nil, it always
	// can.
	Ready func() error

	// Order drains the members of a route, or resumes them, and says for people what
	// that has done. The error is [ErrNoMember] if there is none. It is called for
	// those who know Token. If nil, the handler changes nothing.
	Order func(route string, drain bool) (done string, err error)

	// Change does what an operator wants of a worker; its error wraps one of those that
	// stand beside [Change]. It is called for those who know Token. If nil, there is no
	// such thing.
	Change func(Change) error

	// Changed returns what was changed so, and is not as the files ask for. If nil,
	// nobody can see that.
	Changed func() []Changed

	// Token is what somebody must know who changes something (D11). If zero, nobody
	// can, and the page has no buttons.
	Token admin.Token

	// Registry has the caller's own metrics; New adds those of members, of the
	// process and of Go. If nil, there are only these.
	Registry *prometheus.Registry
}

// New returns the handler of the admin listener:
//
//	/              the page for people; ?refresh=SECONDS, 0 for never;
//	               ?drain=ROUTE, ?resume=ROUTE: with a form for that
//	/api/members   the same as JSON
//	/api/changes   settings that are not as workers.properties asks for
//	/metrics       Prometheus
//	/healthz       200 as long as the process serves
//	/readyz        200, or 503 with the reason
//	/debug/pprof/  profiles
//
// All of it is read by GET and HEAD and changes nothing. What changes something is
// POSTed, with the token:
//
//	/                              the page's form
//	/api/members/ROUTE/drain       no new sessions; an app node hands over those that it has (SESS-39)
//	/api/members/ROUTE/resume      undoes that
//	/api/workers/WORKER/set        ?lbfactor=2&…, with &member=NAME of a member: settings by their directives
//	/api/workers/WORKER/reset      sets counts to zero; likewise
//	/api/workers/WORKER/recover    ?member=NAME: lets it be tried at once
//
// A profile lasts as long as its seconds parameter says, which a server's write
// time-out must allow.
func New(cfg Config) (http.Handler, error) {
	if cfg.Snapshot == nil {
		return nil, errors.New("status: Config.Snapshot is nil")
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	for _, c := range []prometheus.Collector{
		NewCollector(cfg.Snapshot),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := cfg.Registry.Register(c); err != nil {
			return nil, fmt.Errorf("status: Config.Registry: %w", err)
		}
	}
	a := &handler{change: cfg.Change, changed: cfg.Changed, snapshot: cfg.Snapshot, ready: cfg.Ready, token: cfg.Token}

	r := chi.NewRouter()
	r.Use(middleware.GetHead, harden)
	r.Get("/", a.page)
	if cfg.Order != nil {
		a.orders = &orders{give: cfg.Order}
		r.Post("/", a.submit)
		r.Handle("/api/members/{route}/{order:drain|resume}", cfg.Token.Change(http.HandlerFunc(a.post)))
	}
	if cfg.Change != nil {
		r.Handle("/api/workers/{worker}/{do:set|reset|recover}", cfg.Token.Change(http.HandlerFunc(a.changeWorker)))
	}
	if cfg.Changed != nil {
		r.Get("/api/changes", a.showChanges)
	}
	r.Get("/api/members", a.members)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{}))
	r.Get("/healthz", healthy)
	r.Get("/readyz", a.readyz)
	r.Get("/debug/pprof/", pprof.Index)
	r.Get("/debug/pprof/cmdline", pprof.Cmdline)
	r.Get("/debug/pprof/profile", pprof.Profile)
	r.Get("/debug/pprof/symbol", pprof.Symbol)
	r.Get("/debug/pprof/trace", pprof.Trace)
	r.Get("/debug/pprof/{profile}", func(w http.ResponseWriter, r *http.Request) {
		pprof.Handler(chi.URLParam(r, "profile")).ServeHTTP(w, r)
	})
	return r, nil
}

// policy is the Content-Security-Policy, up to where a form may go.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action "

// harden sets the headers that keep a browser from doing anything with what it
// gets but show it.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy+"'none'")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer the form's Origin would be null
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// handler is what the handlers have in common.
type handler struct {
	change   func(Change) error // nil: there are none
	changed  func() []Changed   // likewise
	snapshot func() Snapshot
	ready    func() error
	token    admin.Token
	orders   *orders // nil: nothing can be changed
}

func (a *handler) page(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := Page{Refresh: defaultRefresh}
	if n, err := strconv.Atoi(q.Get("refresh")); err == nil {
		p.Refresh = min(max(n, 0), maxRefresh)
	}
	if a.orders != nil && a.token.Set() {
		p.Asked = asked(q)
	}
	a.show(w, http.StatusOK, p)
}

// show replies with the page, which has a form if p.Asked is set, and then stands
// still so that nobody is interrupted.
func (a *handler) show(w http.ResponseWriter, status int, p Page) {
	p.Now = time.Now()
	if a.orders != nil {
		p.Orders, p.Last = a.token.Set(), a.orders.latest()
		p.Locked = !p.Orders
	}
	if p.Asked != nil {
		p.Refresh = 0
		w.Header().Set("Content-Security-Policy", policy+"'self'")
	}
	var page bytes.Buffer
	if err := WriteHTML(&page, a.snapshot(), p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // as in send
}

func (a *handler) members(w http.ResponseWriter, _ *http.Request) {
	var doc bytes.Buffer
	if err := WriteJSON(&doc, a.snapshot()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, "application/json", doc.Bytes())
}

func healthy(w http.ResponseWriter, _ *http.Request) {
	send(w, "text/plain; charset=utf-8", []byte("ok\n"))
}

func (a *handler) readyz(w http.ResponseWriter, r *http.Request) {
	if err := a.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	healthy(w, r)
}

func send(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may be gone, and nobody is left to tell
}
