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

	// Registry has the caller's own metrics; New adds those of members, of the
	// process and of Go. If nil, there are only these.
	Registry *prometheus.Registry
}

// New returns the handler of the admin listener:
//
//	/              the page for people; ?refresh=SECONDS, 0 for never
//	/api/members   the same as JSON
//	/metrics       Prometheus
//	/healthz       200 as long as the process serves
//	/readyz        200, or 503 with the reason
//	/debug/pprof/  profiles
//
// All of it is read by GET and HEAD and changes nothing. A profile lasts as long
// as its seconds parameter says, which a server's write time-out must allow.
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
	a := admin{snapshot: cfg.Snapshot, ready: cfg.Ready}

	r := chi.NewRouter()
	r.Use(middleware.GetHead, harden)
	r.Get("/", a.page)
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

// harden sets the headers that keep a browser from doing anything with what it
// gets but show it.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// admin is what the handlers have in common.
type admin struct {
	snapshot func() Snapshot
	ready    func() error
}

func (a admin) page(w http.ResponseWriter, r *http.Request) {
	refresh := defaultRefresh
	if n, err := strconv.Atoi(r.URL.Query().Get("refresh")); err == nil {
		refresh = min(max(n, 0), maxRefresh)
	}
	var page bytes.Buffer
	if err := WriteHTML(&page, a.snapshot(), Page{Now: time.Now(), Refresh: refresh}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, "text/html; charset=utf-8", page.Bytes())
}

func (a admin) members(w http.ResponseWriter, _ *http.Request) {
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

func (a admin) readyz(w http.ResponseWriter, r *http.Request) {
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
