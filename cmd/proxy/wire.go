package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/admin"
	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/frontend"
	"github.com/understudy-lb/understudy/proxy/properties"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
	"github.com/understudy-lb/understudy/settings"
)

// server is a running proxy and all that it holds open.
type server struct {
	cfg       serveConfig
	log       zerolog.Logger
	proxy     *proxy.Proxy
	file      *worker.File   // that it serves by; of the goroutine that reloads
	mapStamp  stamp          // of the rules when they were read
	access    *accesslog.Log // nil without one
	front     *frontend.Server
	tls       *frontend.TLS    // nil without TLS
	cluster   *cluster.Cluster // nil without gossip
	listeners []net.Listener   // for requests
	admin     net.Listener     // nil with --admin none
	pages     http.Handler     // of admin
	closers   []func() error   // undo the start, last first
	token     admin.Token
	kept      kept
	stopping  atomic.Bool // requests are no longer accepted
}

// newServer opens what cfg names. Nothing is left open when it fails.
func newServer(ctx context.Context, cfg serveConfig, e env) (_ *server, err error) {
	s := &server{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	s.log = zerolog.New(zerolog.SyncWriter(e.stderr)).Level(level).With().Timestamp().Logger()

	s.mapStamp = stampOf(cfg.URIMap) // before: what changes meanwhile is read again
	file, rules, err := s.readFiles(e)
	if err != nil {
		return nil, err
	}
	cluster, codec, err := readKeys(cfg.keyConfig, allOnLoopback(append(cfg.plain(), cfg.TLSListen...)))
	if err != nil {
		return nil, err
	}
	if s.tls, err = cfg.loadTLS(cluster); err != nil {
		return nil, err
	}
	pages, err := readErrorPages(cfg.ErrorPage)
	if err != nil {
		return nil, err
	}
	if s.token, err = admin.ReadToken(cfg.AdminToken); err != nil {
		return nil, fmt.Errorf("--admin-token: %w", err)
	}
	if err := s.openAccessLog(e.stdout); err != nil { //nolint:contextcheck // it is closed after ctx is done
		return nil, err
	}
	pcfg := proxy.Config{
		Workers: file, URIMap: rules, Status: s.statusWorker, Newcomers: cfg.Newcomers, ErrorPages: pages, Codec: codec, HeadTimeout: cfg.HeadTimeout, MaxBody: cfg.MaxBody,
		TunnelTimeout: cmp.Or(cfg.TunnelTimeout, -1), MaxTunnels: cfg.MaxTunnels,
		Spool: proxy.SpoolConfig{
			Memory: cfg.ReplayMemory, Dir: cfg.SpoolDir, PerRequest: cmp.Or(cfg.SpoolRequest, -1), Total: cmp.Or(cfg.SpoolTotal, -1),
		},
		TrustedNetworks: cfg.TrustedNetworks, Log: s.log, Access: s.access,
	}
	if err := errors.Join(cfg.retryConfig.apply(&pcfg), cfg.timeoutConfig.apply(&pcfg), cfg.balanceConfig.apply(&pcfg)); err != nil {
		return nil, err
	}
	if s.proxy, err = proxy.New(pcfg); err != nil {
		return nil, err
	}
	s.file = file
	s.closers = append(s.closers, func() error { s.proxy.Close(); return nil })
	s.kept.path, s.kept.log = cfg.State, s.log
	if s.kept.all, err = readState(cfg.State); err != nil {
		return nil, err
	}
	if err := s.resume(file, rules); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if s.cluster, err = joinCluster(cfg, cluster, s.log); err != nil { //nolint:contextcheck // it outlives the start
		return nil, err
	}
	if s.cluster != nil {
		s.closers = append(s.closers, s.cluster.Close)
	}
	s.front, err = frontend.New(frontend.Config{
		Proxy: s.proxy, HeadTimeout: cfg.HeadTimeout, IdleTimeout: cfg.IdleTimeout, MaxConns: cfg.MaxConns,
		ProxyProtocol: cfg.ProxyProtocol, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.pages, err = status.New(status.Config{Snapshot: s.snapshot, Ready: s.ready, Order: s.order, Change: s.change, Changed: s.changed, Token: s.token})
	if err != nil {
		return nil, err
	}
	if cfg.Admin != none && !settings.OnLoopback(cfg.Admin) {
		s.pages = guardProfiles(s.pages, s.token)
	}
	return s, nil
}

// readFiles reads what says who serves what, and logs every warning. With an error
// it returns those that could be read, which have the problems.
func (s *server) readFiles(e env) (*worker.File, *urimap.Map, error) {
	file, err := readWorkers(s.cfg.Workers, variables(e.getenv))
	if err != nil {
		return file, nil, err
	}
	s.warn(file.Problems)
	if name := s.cfg.Newcomers; name != "" && !slices.ContainsFunc(file.LBs, func(lb *worker.LB) bool { return lb.Name == name }) {
		return nil, nil, fmt.Errorf("--newcomers: %s: worker.list has no worker %q of type lb", file.Name, name)
	}
	rules, err := s.cfg.read(file, variables(e.getenv))
	if err != nil || rules == nil {
		return file, rules, err
	}
	s.warn(rules.Problems)
	return file, rules, nil
}

// warn logs the warnings of a file that has no errors.
func (s *server) warn(problems []properties.Problem) {
	for _, p := range problems {
		s.log.Warn().Str("file", p.File).Int("line", p.Line).Str("problem", p.Text).Msg("doubtful setting")
	}
}

// close undoes the start.
func (s *server) close() error {
	var err error
	for i := range s.closers {
		err = errors.Join(err, s.closers[len(s.closers)-1-i]())
	}
	s.closers = nil
	return err
}

// readKeys reads the key files: the cluster's keys, and who verifies cookies.
// The codec is nil without any key, unless the proxy is on loopback: then only the
// plain id.route is read.
func readKeys(cfg keyConfig, loopback bool) (cluster []keyfile.Key, codec *cookie.Codec, err error) {
	if cfg.ClusterKey != "" {
		if cluster, err = keyfile.Read(cfg.ClusterKey); err != nil {
			return nil, nil, fmt.Errorf("--cluster-key: %w", err)
		}
	}
	signing := cluster
	switch {
	case cfg.CookieKeys != "":
		if signing, err = keyfile.Read(cfg.CookieKeys); err != nil {
			return nil, nil, fmt.Errorf("--cookie-keys: %w", err)
		}
	case signing == nil && loopback:
		// Nodes on this machine without a key sign with this one too.
		signing = []keyfile.Key{keyfile.Loopback()}
	case signing == nil:
		return nil, nil, nil
	}
	codec, err = cookie.New(cookie.Config{Keys: keyfile.DeriveAll(signing, "cookie")})
	return cluster, codec, err
}

func allOnLoopback(addrs []string) bool {
	for _, addr := range addrs {
		if !strings.HasPrefix(addr, unixPrefix) && !settings.OnLoopback(addr) {
			return false
		}
	}
	return true
}

// none is the value of --listen and --admin that wants no such listener.
const none = "none"

// plain returns the addresses for requests without TLS.
func (cfg *serveConfig) plain() []string {
	if len(cfg.Listen) == 1 && cfg.Listen[0] == none {
		return nil
	}
	return slices.Clone(cfg.Listen)
}

// listen opens the listeners. They are closed by whoever serves them.
func (s *server) listen(ctx context.Context) error {
	open := func(flag, addr string) (net.Listener, error) {
		var lc net.ListenConfig
		network := "tcp"
		if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
			network, addr = "unix", path
			if err := removeStale(ctx, path); err != nil {
				return nil, fmt.Errorf("%s: %w", flag, err)
			}
		}
		ln, err := lc.Listen(ctx, network, addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		s.closers = append(s.closers, func() error {
			if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil // its server has closed it
		})
		return ln, nil
	}
	for _, addr := range s.cfg.plain() {
		ln, err := open("--listen", addr)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, ln)
	}
	for _, addr := range s.cfg.TLSListen {
		ln, err := open("--tls-listen", addr)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, s.tls.Listen(ln))
	}
	if len(s.listeners) == 0 {
		return errors.New("--listen none: wants --tls-listen, or nobody can reach the proxy")
	}
	if s.cfg.Admin == none {
		return nil
	}
	var err error
	s.admin, err = open("--admin", s.cfg.Admin)
	return err
}

// unixPrefix stands before the path of a Unix socket.
const unixPrefix = "unix:"

// removeStale removes the socket at path if nobody listens there any more: a
// process that was killed has left it.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil //nolint:nilerr // listening says what is wrong, if anything is
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: another process listens there", path), nc.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default:
		return nil
	}
}

// snapshot is what the status page shows.
func (s *server) snapshot() status.Snapshot {
	snap := s.proxy.Snapshot()
	snap.Proxy = s.listeners[0].Addr().String()
	if s.access != nil {
		st := s.access.Stats()
		snap.AccessLog = &status.AccessLog{Lines: st.Lines, Dropped: st.Dropped}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		snap.Version = info.Main.Version
	}
	if s.cluster == nil {
		return snap
	}
	snap.Gossip = []status.Node{}
	for _, m := range s.cluster.Members() {
		addLoad(snap.Workers, m)
		snap.Gossip = append(snap.Gossip, status.Node{Name: m.Name, Boot: m.Boot, Address: m.Gossip, State: m.State.String(), Proxy: m.Proxy})
	}
	return snap
}

// addLoad shows how many sessions m has, at the workers' members that are m.
func addLoad(workers []status.Worker, m cluster.Member) {
	for _, w := range workers {
		for i := range w.Members {
			if is := &w.Members[i]; m.Load.Known && is.Route == m.Name && is.Boot == m.Boot {
				is.Sessions, is.Copies, is.Lacking = int64(m.Load.Sessions), int64(m.Load.Copies), int64(m.Load.Lacking)
			}
		}
	}
}

// ready returns why no request should come here: the proxy stops, or no worker has
// a member that can serve. That one of several workers has none is no reason: the
// others' requests would find no proxy either.
func (s *server) ready() error {
	if s.stopping.Load() {
		return errors.New("the proxy stops")
	}
	var without []string
	for _, w := range s.proxy.Snapshot().Workers {
		if w.InService() > 0 {
			return nil
		}
		without = append(without, w.Name)
	}
	return fmt.Errorf("no member of worker %s is in service", strings.Join(without, ", "))
}

// guardProfiles lets only who knows the token see profiles, which tell more of
// the process than a network should know. Without a token nobody does.
func guardProfiles(next http.Handler, token admin.Token) http.Handler {
	guarded := token.Require("profiles", next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/debug/") {
			guarded.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// run is the command serve.
func (cfg *serveConfig) run(ctx context.Context, e env) error {
	asked := make(chan os.Signal, 1)
	notifyReload(asked)
	defer signal.Stop(asked)
	e.reload = asked
	s, err := newServer(ctx, *cfg, e)
	if err != nil {
		return err
	}
	return s.serve(ctx, e)
}

// adminIdle is how long a connection to the admin listener may be idle.
const adminIdle = time.Minute
