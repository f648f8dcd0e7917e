// Command node is one application node of the session benchmark. The handler is
// the same whatever keeps the sessions; only -store differs, so what is compared
// is the store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alexedwards/scs/redisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/go-chi/chi/v5"
	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session"
)

// options are the flags.
type options struct {
	name, listen, store, redis string
	gossip, replication, join  string
	mode                       string
	ack                        bool
}

// A store is what differs: how a request finds its session, and how it changes
// one.
type store struct {
	wrap  func(http.Handler) http.Handler
	count func(r *http.Request) (int, error)
	data  func(r *http.Request, n int, rewrite bool) error
	ready func() bool
	close func(context.Context) error
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "a", "node name")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address for requests")
	flag.StringVar(&o.store, "store", "understudy", "understudy, scs-redis, scs-memory")
	flag.StringVar(&o.redis, "redis", "", "address of Redis")
	flag.StringVar(&o.gossip, "gossip", "127.0.0.1:0", "gossip address")
	flag.StringVar(&o.replication, "replication", "127.0.0.1:0", "replication address")
	flag.StringVar(&o.join, "join", "", "gossip addresses of others, separated by commas")
	flag.StringVar(&o.mode, "mode", "synchronous", "replication mode")
	flag.BoolVar(&o.ack, "ack", true, "replies wait for the answers of copies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var (
		s   store
		err error
	)
	switch o.store {
	case "understudy":
		s, err = understudy(ctx, o)
	case "scs-redis":
		s = viaSCS(redisstore.New(&redis.Pool{
			MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", o.redis) },
		}))
	case "scs-memory":
		s = viaSCS(nil)
	default:
		err = fmt.Errorf("-store %q is unknown", o.store)
	}
	if err != nil {
		return err
	}
	router := chi.NewRouter()
	router.Get("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	router.Get("/heap", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what sync.Pools held goes with the second one
		runtime.ReadMemStats(&m)
		io.WriteString(w, strconv.FormatUint(m.HeapAlloc, 10)) //nolint:errcheck // the load generator sees it
	})
	router.Get("/debug/pprof/profile", pprof.Profile)
	router.Method(http.MethodPost, "/hit", s.wrap(http.HandlerFunc(s.hit)))

	srv := &http.Server{Addr: o.listen, Handler: router, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.ListenAndServe() }()
	select {
	case err = <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(end), s.close(end))
}

// hit adds one to the counter. With bytes it sees to it that the session also
// has that much data; with rewrite that is new data each time.
func (s store) hit(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if n, _ := strconv.Atoi(q.Get("bytes")); n > 0 {
		if err := s.data(r, n, q.Get("rewrite") == "1"); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	n, err := s.count(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	io.WriteString(w, strconv.Itoa(n)) //nolint:errcheck // the load generator sees it
}

// blob is n bytes that no two requests share.
func blob(n int) []byte {
	b := make([]byte, n)
	x := rand.Uint64()
	for i := range b {
		b[i] = byte(x>>(i%8*8)) ^ byte(i)
	}
	return b
}

func understudy(ctx context.Context, o options) (store, error) {
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}})
	if err != nil {
		return store{}, err
	}
	mode, err := session.ParseMode(o.mode)
	if err != nil {
		return store{}, err
	}
	ln, err := net.Listen("tcp", o.replication)
	if err != nil {
		return store{}, err
	}
	var join []string
	if o.join != "" {
		join = strings.Split(o.join, ",")
	}
	members, err := cluster.New(cluster.Config{ //nolint:contextcheck // it outlives the start
		Self: cluster.Member{
			Name: o.name, Boot: cluster.NewBoot(time.Now()), HTTP: o.listen,
			Replication: ln.Addr().String(), State: cluster.Starting,
		},
		Bind: o.gossip, Join: join, Log: zerolog.Nop(),
	})
	if err != nil {
		return store{}, err
	}
	select {
	case <-members.Sought():
	case <-ctx.Done():
		return store{}, ctx.Err()
	}
	m, err := session.New(session.Config{Cluster: members, Codec: codec, Listener: ln, Mode: mode, NoAck: !o.ack}) //nolint:contextcheck // likewise
	if err != nil {
		return store{}, err
	}
	counter, data := session.NewKey[int]("counter"), session.NewKey[[]byte]("data")
	return store{
		wrap: m.Handler,
		count: func(r *http.Request) (int, error) {
			s := session.FromContext(r.Context())
			n, _ := counter.Get(s)
			return n + 1, counter.Set(s, n+1)
		},
		data: func(r *http.Request, n int, rewrite bool) error {
			s := session.FromContext(r.Context())
			if !rewrite && s.Has("data") {
				return nil
			}
			return data.Set(s, blob(n))
		},
		ready: func() bool { return m.Ready() == nil },
		close: func(ctx context.Context) error { return errors.Join(m.Close(ctx), members.Leave(ctx), members.Close()) },
	}, nil
}

// viaSCS is the session library that Go programs commonly use; without a store
// of its own it keeps sessions in this process alone.
func viaSCS(st scs.Store) store {
	m := scs.New()
	m.Lifetime = 24 * time.Hour
	if st != nil {
		m.Store = st
	}
	return store{
		wrap: m.LoadAndSave,
		count: func(r *http.Request) (int, error) {
			n := m.GetInt(r.Context(), "counter") + 1
			m.Put(r.Context(), "counter", n)
			return n, nil
		},
		data: func(r *http.Request, n int, rewrite bool) error {
			if rewrite || !m.Exists(r.Context(), "data") {
				m.Put(r.Context(), "data", blob(n))
			}
			return nil
		},
		ready: func() bool { return true },
		close: func(context.Context) error { return nil },
	}
}
