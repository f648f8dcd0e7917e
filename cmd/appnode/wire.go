package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/admin"
	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session"
)

// node is a running app node and all that it holds open.
type node struct {
	cfg      config
	log      zerolog.Logger
	listener net.Listener // for requests
	admin    net.Listener // nil without --admin
	cluster  *cluster.Cluster
	sessions *session.Manager
	handler  http.Handler
	adminMux http.Handler
	token    admin.Token   // of changes by the admin listener
	stopping chan struct{} // closed when the stop begins
}

// newNode opens what cfg names and joins the cluster. Nothing is left open
// when it fails.
func newNode(ctx context.Context, cfg config, stderr io.Writer) (_ *node, err error) {
	n := &node{cfg: cfg, stopping: make(chan struct{})}
	if n.token, err = admin.ReadToken(cfg.AdminToken); err != nil {
		return nil, fmt.Errorf("--admin-token: %w", err)
	}
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	n.log = zerolog.New(zerolog.SyncWriter(stderr)).Level(level).With().Timestamp().Str("node", cfg.Name).Logger()
	var closers []func()
	defer func() {
		if err != nil {
			for i := range closers {
				closers[len(closers)-1-i]()
			}
		}
	}()

	k, err := readKeys(cfg)
	if err != nil {
		return nil, err
	}
	if k.gossip == nil {
		n.log.Warn().Msg("no --cluster-key")
	}
	codec, err := cookie.New(cookie.Config{Keys: k.cookie})
	if err != nil {
		return nil, err
	}
	listen := func(flag, addr string) (net.Listener, error) {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		closers = append(closers, func() { ln.Close() }) //nolint:errcheck // the start has failed already
		return ln, nil
	}
	if n.listener, err = listen("--listen", cfg.Listen); err != nil {
		return nil, err
	}
	replication, err := listen("--replication", cfg.Replication)
	if err != nil {
		return nil, err
	}
	if cfg.Admin != "" {
		if n.admin, err = listen("--admin", cfg.Admin); err != nil {
			return nil, err
		}
	}

	httpAddr, err := announced("--listen", n.listener.Addr(), cfg.Advertise)
	if err != nil {
		return nil, err
	}
	replicationAddr, err := announced("--replication", replication.Addr(), cfg.Advertise)
	if err != nil {
		return nil, err
	}
	advertise := ""
	if host, _, err := net.SplitHostPort(cfg.Gossip); err == nil && cfg.Advertise != "" && everyAddress(host) {
		advertise = net.JoinHostPort(cfg.Advertise, "0")
	}
	n.cluster, err = cluster.New(cluster.Config{ //nolint:contextcheck // it outlives the start
		Self: cluster.Member{
			Name: cfg.Name, Boot: cluster.NewBoot(time.Now()), HTTP: httpAddr, Replication: replicationAddr,
			Machine: cfg.Machine, Group: cfg.Group, SecondaryGroup: cfg.SecondaryGroup, State: cluster.Starting,
		},
		Bind: cfg.Gossip, Advertise: advertise, Join: cfg.Join, Keys: k.gossip, Log: n.log,
	})
	if err != nil {
		return nil, fmt.Errorf("--gossip: %w", err)
	}
	closers = append(closers, func() { n.cluster.Close() }) //nolint:errcheck // the start has failed already

	// Alone it would take the sessions of members that it has not met for lost.
	select {
	case <-n.cluster.Sought():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	placement := session.Hash
	if cfg.Placement == "ring" {
		placement = session.Ring
	}
	copies, err := secondaries(cfg.Secondaries)
	if err != nil {
		return nil, err
	}
	mode, err := session.ParseMode(cfg.Mode)
	if err != nil {
		return nil, fmt.Errorf("--replication-mode: %w", err)
	}
	n.sessions, err = session.New(session.Config{ //nolint:contextcheck // likewise
		Cluster: n.cluster, Codec: codec, Listener: replication, Keys: k.replication,
		Cookie: cfg.Cookie, Param: cfg.PathParam, URLRewriting: cfg.RewriteLinks, Secure: cfg.SecureCookie, RollbackOnPanic: cfg.Rollback, Exclusive: cfg.Exclusive,
		Domain: cfg.CookieDomain, Partitioned: cfg.Partitioned,
		SameSite:    map[string]http.SameSite{"lax": http.SameSiteLaxMode, "strict": http.SameSiteStrictMode, "none": http.SameSiteNoneMode}[cfg.SameSite],
		IdleTimeout: cfg.IdleTimeout, Lifetime: cfg.Lifetime, AckTimeout: cfg.AckTimeout,
		FirstIdleTimeout: cfg.FirstIdle, MaxSessions: cfg.MaxSessions, MaxMemory: cfg.MaxMemory, MaxBytes: cfg.MaxBytes, WarnBytes: cfg.WarnBytes, MaxTombstones: cfg.MaxGraves,
		Mode: mode, NoAck: !cfg.WaitForAck, Pool: cfg.Pool, QueueLimit: cfg.QueueLimit, RequireReplica: cfg.NeedReplica,
		CompressFrom: cfg.CompressFrom, WireVersion: cfg.WireVersion,
		RestoreRate: cfg.RestoreRate, RestoreBytes: cfg.RestoreBytes, Secondaries: copies, Placement: placement, Log: n.log,
	})
	if err != nil {
		return nil, err
	}

	a := &app{name: cfg.Name, members: n.cluster.Members, health: health{n.sessions.Ready, n.sessions.Peers}, stop: n.stopping, log: n.log, rollback: cfg.Rollback, visits: cfg.CountVisits}
	pages, err := a.routes()
	if err != nil {
		return nil, errors.Join(err, n.sessions.Close(context.WithoutCancel(ctx)))
	}
	// Health is answered outside the sessions: a node that is not ready yet
	// must be able to say so.
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.health.healthz)
	mux.HandleFunc("GET /readyz", a.health.readyz)
	mux.Handle("/", n.sessions.Handler(pages))
	n.handler = n.closing(mux)
	n.adminMux = n.adminRoutes(a)
	return n, nil
}

// announced is the address under which others reach what listens at addr.
func announced(flag string, addr net.Addr, advertise string) (string, error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil || !everyAddress(host) {
		return addr.String(), err
	}
	if advertise == "" {
		ip, err := cluster.PrivateAddress()
		if err != nil {
			return "", fmt.Errorf("%s %v: --advertise is needed: %w", flag, addr, err)
		}
		advertise = ip.String()
	}
	return net.JoinHostPort(advertise, port), nil
}

// everyAddress reports whether host stands for all addresses of the machine.
func everyAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func (n *node) adminRoutes(a *app) http.Handler {
	r := chi.NewRouter()
	r.Get("/healthz", a.health.healthz)
	r.Get("/readyz", a.health.readyz)
	r.Get("/api/sessions", n.listSessions)
	r.Method(http.MethodPost, "/api/sessions/end", n.token.Change(http.HandlerFunc(n.endSession)))
	r.Handle("/metrics", promhttp.HandlerFor(newMetrics(n.sessions, n.cluster), promhttp.HandlerOpts{}))
	r.HandleFunc("/debug/pprof/*", pprof.Index)
	r.HandleFunc("/debug/pprof/profile", pprof.Profile)
	r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	r.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return r
}
