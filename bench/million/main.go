// Command million fills two nodes with a million sessions, and measures what
// they take and what a request notices of the sweep for those that are over. It
// writes results/million.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session"
)

// options are the flags.
type options struct {
	sessions int           // of the large runs
	clients  int           // that count while a phase is measured
	think    time.Duration // between two requests of one
	measure  time.Duration // how long a phase is
	out      string        // folder
}

func main() {
	var o options
	flag.IntVar(&o.sessions, "sessions", 1_000_000, "sessions of the large runs")
	flag.IntVar(&o.clients, "clients", 4, "clients that count at a time")
	flag.DurationVar(&o.think, "think", time.Millisecond, "pause of a client between two requests")
	flag.DurationVar(&o.measure, "measure", 20*time.Second, "how long requests are measured in each phase")
	flag.StringVar(&o.out, "out", "results", "folder of the report")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A row is one size of session.
type row struct {
	Sessions, Bytes    int
	Primary, Secondary int
	Heap               int // live bytes per session and node
	Creating           time.Duration
}

// A phase is the time of a request under one condition.
type phase struct {
	Name                    string
	Requests                int
	P50, P99, P999, Longest time.Duration
	Ended                   int // sessions, meanwhile
}

func run(ctx context.Context, o options) error {
	var rows []row
	var phases []phase
	one := func(sessions, size int, then func(p *pair) error) error {
		before := heap()
		p, err := newPair(sessions) //nolint:contextcheck // it outlives the start
		if err != nil {
			return err
		}
		defer p.close() //nolint:contextcheck // also when ctx is done
		began := time.Now()
		if err := p.fill(ctx, sessions, size); err != nil {
			return err
		}
		took := time.Since(began)
		// On a busy machine a copy was struck now and then; it is made up for.
		for end := time.Now().Add(time.Minute); p.nodes[1].Stats().Secondary < sessions && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(100 * time.Millisecond)
		}
		st, copies := p.nodes[0].Stats(), p.nodes[1].Stats()
		rows = append(rows, row{sessions, size, st.Primary, copies.Secondary, int(heap()-before) / sessions / 2, took})
		fmt.Printf("%+v\n", rows[len(rows)-1])
		return then(p)
	}
	nothing := func(*pair) error { return nil }
	for _, r := range []struct {
		sessions, size int
		then           func(*pair) error
	}{
		{min(o.sessions, 100_000), 1024, nothing},
		{o.sessions, 128, func(p *pair) error {
			for _, f := range []func(context.Context, options) (phase, error){p.quiet, p.sweeping, p.ending} {
				ph, err := f(ctx, o)
				if err != nil {
					return err
				}
				phases = append(phases, ph)
				fmt.Printf("%+v\n", ph)
			}
			return nil
		}},
	} {
		if err := one(r.sessions, r.size, r.then); err != nil {
			return err
		}
		runtime.GC()
	}
	return os.WriteFile(filepath.Join(o.out, "million.md"), []byte(report(ctx, rows, phases, o)), 0o644)
}

// heap is what is alive.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// sweepEvery is the pause between two sweeps: long enough for a phase between
// two of them.
const sweepEvery = time.Minute

// A pair is two nodes in this process, with replication under TLS on loopback.
type pair struct {
	nodes [2]*session.Manager
	ahead atomic.Int64 // of their clocks, in nanoseconds
}

func newPair(sessions int) (*pair, error) {
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{bytes.Repeat([]byte{1}, 32)}})
	if err != nil {
		return nil, err
	}
	p, dir := &pair{}, &directory{}
	for i := range p.nodes {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		self := cluster.Member{Name: string(rune('a' + i)), Boot: uint32(i + 1), Replication: ln.Addr().String()}
		dir.members = append(dir.members, self)
		p.nodes[i], err = session.New(session.Config{
			Cluster: &seat{dir, self.ID()}, Codec: codec, Listener: ln, Keys: [][]byte{bytes.Repeat([]byte{2}, 32)},
			MaxSessions: 2 * sessions, SweepInterval: sweepEvery, IdleTimeout: 24 * time.Hour, Lifetime: 48 * time.Hour,
			Now: func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) },
		})
		if err != nil {
			return nil, err
		}
		dir.tell()
	}
	for began := time.Now(); p.nodes[0].Ready() != nil || p.nodes[1].Ready() != nil || p.nodes[0].Stats().Peer.Opened == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			return nil, fmt.Errorf("not ready: %w", errors.Join(p.nodes[0].Ready(), p.nodes[1].Ready()))
		}
	}
	return p, nil
}

func (p *pair) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, m := range p.nodes {
		_ = m.Close(ctx) // it does not wait, and says so
	}
}

// fill makes so many sessions at the first node. Every second one ends after an
// hour.
func (p *pair) fill(ctx context.Context, sessions, size int) error {
	ballast := session.NewKey[[]byte]("ballast")
	var failed atomic.Int64
	var n atomic.Int64
	h := p.nodes[0].Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		if err := ballast.Set(s, make([]byte, size)); err != nil {
			failed.Add(1)
		}
		if n.Load()%2 == 0 {
			s.SetIdleTimeout(time.Hour)
		}
	}))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for n.Add(1) <= int64(sessions) && ctx.Err() == nil {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			}
		})
	}
	wg.Wait()
	if f := failed.Load(); f > 0 {
		return fmt.Errorf("%d of %d sessions were not made", f, sessions)
	}
	return ctx.Err()
}

// count has clients count for a while: each changes its session, and its reply
// waits for the copy.
func (p *pair) count(ctx context.Context, o options, name string, until func() bool) (phase, error) {
	counter := session.NewKey[int]("counter")
	ended := p.nodes[0].Stats().Expired
	h := p.nodes[0].Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		n, _ := counter.Get(s)
		if err := counter.Set(s, n+1); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	all := make([][]time.Duration, o.clients)
	errs := make([]error, o.clients)
	var wg sync.WaitGroup
	for i := range o.clients {
		wg.Go(func() {
			cookie := ""
			for ctx.Err() == nil && !until() {
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
				if cookie != "" {
					r.Header.Set("Cookie", cookie)
				}
				w := httptest.NewRecorder()
				began := time.Now()
				h.ServeHTTP(w, r)
				all[i] = append(all[i], time.Since(began))
				if w.Code != http.StatusOK {
					errs[i] = fmt.Errorf("%s: a request got %d: %s", name, w.Code, w.Body)
					return
				}
				for _, c := range w.Result().Cookies() {
					cookie = c.Name + "=" + c.Value
				}
				time.Sleep(o.think)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return phase{}, err
		}
	}
	took := slices.Concat(all...)
	slices.Sort(took)
	if len(took) == 0 {
		return phase{}, ctx.Err()
	}
	at := func(part float64) time.Duration { return took[int(part*float64(len(took)-1))].Round(time.Microsecond) }
	return phase{name, len(took), at(.5), at(.99), at(.999), at(1), int(p.nodes[0].Stats().Expired - ended)}, ctx.Err()
}

// during is an end for count.
func during(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

// swept waits for the end of the sweep that is under way, or for the next one to
// begin.
func (p *pair) swept(ctx context.Context, begun bool) error {
	for p.nodes[0].Stats().Sweeping != begun {
		if !stage.Pause(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// quiet measures between two sweeps.
func (p *pair) quiet(ctx context.Context, o options) (phase, error) {
	if err := p.swept(ctx, true); err != nil {
		return phase{}, err
	}
	if err := p.swept(ctx, false); err != nil {
		return phase{}, err
	}
	return p.count(ctx, o, "no sweep", during(min(o.measure, sweepEvery/2)))
}

// sweeping measures a sweep that finds nothing that is over.
func (p *pair) sweeping(ctx context.Context, o options) (phase, error) {
	if err := p.swept(ctx, true); err != nil {
		return phase{}, err
	}
	began := time.Now()
	ph, err := p.count(ctx, o, "a sweep that finds nothing", func() bool { return !p.nodes[0].Stats().Sweeping })
	ph.Name += fmt.Sprintf(", %v", time.Since(began).Round(time.Millisecond))
	return ph, err
}

// ending measures a sweep that ends half of all sessions.
func (p *pair) ending(ctx context.Context, o options) (phase, error) {
	p.ahead.Store(int64(2 * time.Hour))
	if err := p.swept(ctx, true); err != nil {
		return phase{}, err
	}
	began := time.Now()
	ph, err := p.count(ctx, o, "a sweep that ends half of them", func() bool { return !p.nodes[0].Stats().Sweeping })
	ph.Name += fmt.Sprintf(", %v", time.Since(began).Round(time.Millisecond))
	return ph, err
}

func report(ctx context.Context, rows []row, phases []phase, o options) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# A million sessions\n\n`make million`, %s. Two nodes in one process, so two sets of everything on %d processors; replication under TLS on loopback.\n\n%s\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), stage.Versions(ctx))
	b.WriteString("## Memory\n\nLive heap per session and node: primary and copy together, halved. 1 KiB: at most 2253 bytes required, 1536 aimed at (design 6).\n\n" +
		"| sessions | attribute, bytes | primaries | copies | live heap per session and node, bytes | of it beside the attribute | sessions made per second |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %d | %.0f |\n", r.Sessions, r.Bytes, r.Primary, r.Secondary, r.Heap, r.Heap-r.Bytes, float64(r.Sessions)/r.Creating.Seconds())
	}
	fmt.Fprintf(&b, "\n## A request while sessions are swept\n\n%d clients, %v between two requests of one; each request changes its session and waits for the copy. The last row of the table above.\n\n"+
		"| | requests | p50 | p99 | p99.9 | longest | sessions ended |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n", o.clients, o.think)
	for _, p := range phases {
		fmt.Fprintf(&b, "| %s | %d | %v | %v | %v | %v | %d |\n", p.Name, p.Requests, p.P50, p.P99, p.P999, p.Longest, p.Ended)
	}
	return b.String()
}

// A directory is a membership of nodes in one process.
type directory struct {
	mu      sync.Mutex
	members []cluster.Member
	subs    []chan struct{}
}

// tell tells all that something has changed.
func (d *directory) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ch := range d.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// A seat is one member's view of it.
type seat struct {
	*directory
	id string
}

func (s *seat) Self() cluster.Member {
	for _, m := range s.Members() {
		if m.ID() == s.id {
			return m
		}
	}
	panic("not a member")
}

func (s *seat) Members() []cluster.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.members)
}

func (s *seat) Subscribe() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	ch <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, ch)
	return ch, func() {}
}

func (s *seat) Gone(string) bool { return false }

func (s *seat) SetState(st cluster.State) {
	s.mu.Lock()
	for i := range s.members {
		if s.members[i].ID() == s.id {
			s.members[i].State = st
		}
	}
	s.mu.Unlock()
	s.tell()
}
