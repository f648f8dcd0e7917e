// Package node starts what every example needs around its handlers: gossip, the
// sessions, and a server. A program of your own has such a file once, with
// settings and keys of its own; cmd/appnode is a complete one.
package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/session"
)

// Config sets up a [Node]. All addresses are on loopback: the keys are known to
// everybody.
type Config struct {
	Name   string   // of this node, which is in session cookies
	Listen string   // host:port of the pages
	Gossip string   // host:port of gossip
	Join   []string // gossip addresses of others
	Log    zerolog.Logger
}

// A Node is a running example.
type Node struct {
	URL    string // of its pages
	Gossip string // its gossip address, for others to join

	cluster  *cluster.Cluster
	sessions *session.Manager
	server   *http.Server
	served   chan error
}

// Start starts a node that serves pages, and returns when it is ready.
func Start(ctx context.Context, cfg Config, pages http.Handler) (*Node, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, err
	}
	replication, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	n, err := start(ctx, cfg, listener, replication, pages)
	if err != nil {
		return nil, errors.Join(err, listener.Close(), replication.Close())
	}
	return n, nil
}

func start(ctx context.Context, cfg Config, listener, replication net.Listener, pages http.Handler) (*Node, error) {
	codec, err := cookie.New(cookie.Config{Keys: keyfile.DeriveAll([]keyfile.Key{keyfile.Loopback()}, "cookie")})
	if err != nil {
		return nil, err
	}
	n := &Node{URL: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	n.cluster, err = cluster.New(cluster.Config{ //nolint:contextcheck // it outlives the start
		Self: cluster.Member{
			Name: cfg.Name, Boot: cluster.NewBoot(time.Now()),
			HTTP: listener.Addr().String(), Replication: replication.Addr().String(),
		},
		Bind: cfg.Gossip, Join: cfg.Join, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	n.Gossip = n.cluster.Self().Gossip
	<-n.cluster.Sought()                          // alone it would take the sessions of others for lost
	n.sessions, err = session.New(session.Config{ //nolint:contextcheck // likewise
		Cluster: n.cluster, Codec: codec, Listener: replication, Log: cfg.Log,
	})
	if err != nil {
		return nil, errors.Join(err, n.cluster.Close())
	}
	for n.sessions.Ready() != nil {
		changed, done := n.cluster.Subscribe()
		select {
		case <-changed:
		case <-ctx.Done():
			done()
			return nil, errors.Join(ctx.Err(), n.sessions.Close(ctx), n.cluster.Close())
		}
		done()
	}
	n.server = &http.Server{Handler: n.sessions.Handler(pages), ReadHeaderTimeout: 10 * time.Second}
	go func() { n.served <- n.server.Serve(listener) }()
	return n, nil
}

// Stop hands the sessions over and leaves the cluster: no session is lost, nor a
// request that a proxy sends on.
func (n *Node) Stop(ctx context.Context) error {
	n.sessions.Drain()
	n.sessions.HandOver(ctx)
	err := errors.Join(n.server.Shutdown(ctx), n.sessions.Close(ctx), n.cluster.Leave(ctx), n.cluster.Close())
	if e := <-n.served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// Kill ends the node without a word, as a crash would.
func (n *Node) Kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.server.Close()
	_ = n.sessions.Close(ctx)
	_ = n.cluster.Close()
	<-n.served //nolint:errcheck // that the server is closed
}

// Main is the main function of an example: it reads flags, serves pages, and
// stops in order when it is told to.
func Main(pages http.Handler) {
	var cfg Config
	join := flag.String("join", "", "gossip addresses of other nodes, separated by commas")
	flag.StringVar(&cfg.Name, "name", "a", "name of this node")
	flag.StringVar(&cfg.Listen, "listen", "127.0.0.1:8081", "address of the pages")
	flag.StringVar(&cfg.Gossip, "gossip", "127.0.0.1:7941", "address of gossip")
	flag.Parse()
	if *join != "" {
		cfg.Join = strings.Split(*join, ",")
	}
	cfg.Log = zerolog.New(os.Stderr).With().Timestamp().Logger()
	if err := run(cfg, pages); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(cfg Config, pages http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, err := Start(ctx, cfg, pages)
	if err != nil {
		return err
	}
	fmt.Println("open", n.URL)
	<-ctx.Done()
	stop() // a second signal ends it at once
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return n.Stop(last)
}
