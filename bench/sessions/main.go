// Command sessions measures what it costs to keep sessions: the replicated
// counter of our session package beside Tomcat's two cluster managers and beside
// Go with Redis, all in one run on this machine.
//
// It drives one contestant at a time, round after round, so that whatever else
// the machine does hits all of them alike, and reports the medians with their
// spread. The load goes to loopback, in a network namespace of its own if it may
// make one; then it also counts the bytes of replication. It ends by itself and
// kills what it started. `make bench-sessions` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
)

// options are the flags.
type options struct {
	nodes    []int
	who      []string
	rounds   int
	stretch  time.Duration // of one measurement
	warm     time.Duration // of a contestant with Java
	users    int
	rate     int
	sessions int
	heap     string
	out      string
}

func main() {
	var o options
	nodes := flag.String("nodes", "2,4,8", "numbers of nodes")
	who := flag.String("who", strings.Join(names(), ","), "contestants")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; the medians are reported")
	flag.DurationVar(&o.stretch, "stretch", 3*time.Second, "length of one measurement")
	flag.DurationVar(&o.warm, "warm", time.Minute, "warm-up of each Tomcat")
	flag.IntVar(&o.users, "users", 48, "users, each with a session and a connection")
	flag.IntVar(&o.rate, "rate", 500, "requests a second of the unsaturated measurement")
	flag.IntVar(&o.sessions, "sessions", 20_000, "sessions of 1 KiB of the measurement of memory; 0: none")
	flag.StringVar(&o.heap, "heap", "384m", "heap of each Java machine")
	flag.StringVar(&o.out, "out", "results", "folder for the report")
	flag.Parse()
	o.who = strings.Split(*who, ",")
	for f := range strings.SplitSeq(*nodes, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			stage.Fatalf("-nodes %q: want numbers", *nodes)
		}
		o.nodes = append(o.nodes, n)
	}
	for _, name := range o.who {
		if !slices.Contains(names(), name) {
			stage.Fatalf("-who %q: want some of %s", name, strings.Join(names(), ","))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	stage.Isolate(ctx)
	if err := run(ctx, o); err != nil {
		stage.Fatalf("%v", err)
	}
}

// A load is what sessions hold beside the counter.
type load struct {
	bytes   int
	rewrite bool
}

func (l load) String() string {
	s := "counter"
	if l.bytes > 0 {
		s = fmt.Sprintf("counter, %d KiB held", l.bytes>>10)
	}
	if l.rewrite {
		s = fmt.Sprintf("counter, %d KiB rewritten", l.bytes>>10)
	}
	return s
}

func loads() []load {
	return []load{{}, {1 << 10, false}, {1 << 10, true}, {10 << 10, false}, {10 << 10, true}, {64 << 10, false}, {64 << 10, true}}
}

func run(ctx context.Context, o options) (err error) {
	st, err := stage.New()
	if err != nil {
		return err
	}
	defer func() { err = st.Close(err) }()
	s := &bill{Stage: st, heap: o.heap}
	if s.node, err = st.Build(ctx, "./sessions/node"); err != nil {
		return err
	}
	r := &report{opts: o, pinned: s.Pin, started: time.Now()}
	for _, name := range o.who {
		if what := missing(name); what != "" {
			r.absent = append(r.absent, name+" needs "+what)
		} else {
			r.who = append(r.who, name)
		}
	}
	for _, n := range o.nodes {
		if err := r.measure(ctx, s, n); err != nil {
			return err
		}
	}
	if o.sessions > 0 {
		if err := r.memory(ctx, s, min(slices.Max(o.nodes), 3)); err != nil {
			return err
		}
	}
	return r.write(ctx)
}

// measure runs all contestants with n nodes.
func (r *report) measure(ctx context.Context, s *bill, n int) (err error) {
	var all []*contestant
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.Stop())
		}
	}()
	ports := map[string][]int{}
	for _, name := range r.who {
		c, err := s.start(ctx, name, n)
		if err != nil {
			return err
		}
		all = append(all, c)
		if len(c.wire) > 0 {
			ports[counterName(name, n)] = c.wire
		}
		stage.Logf("%s: %d nodes started", name, n)
	}
	w, err := newWire(ctx, ports)
	if err != nil {
		r.absent = append(r.absent, fmt.Sprintf("bytes of replication: %v", err))
		w = nil
	}
	for _, c := range all {
		if err := warm(ctx, c, r.opts); err != nil {
			return err
		}
	}
	for round := range r.opts.rounds {
		for _, l := range loads() {
			for _, c := range all {
				m, err := measureOne(ctx, c, w, n, l, r.opts)
				if err != nil {
					return err
				}
				r.add(c.name, n, l, m)
				stage.Logf("round %d, %d nodes, %s, %s: %.0f requests per CPU-second, %d B", round+1, n, l, c.name, m.perCPU, m.wire)
			}
		}
	}
	return nil
}

func counterName(name string, n int) string {
	return strings.ReplaceAll(name, "-", "_") + "_" + strconv.Itoa(n)
}

// warm drives a contestant until it is as fast as it gets.
func warm(ctx context.Context, c *contestant, o options) error {
	d := time.Second
	if strings.HasPrefix(c.name, "tomcat") {
		d = o.warm
	}
	for _, l := range loads()[:3] {
		users := newUsers(o.users, c.addrs)
		_, err := drive(ctx, users, d/3, 0, l.bytes, l.rewrite)
		leave(users)
		if err != nil {
			return fmt.Errorf("%s, warming up: %w", c.name, err)
		}
	}
	stage.Logf("%s: warm", c.name)
	return nil
}

func leave(users []*user) {
	for _, u := range users {
		u.close()
	}
}

// A measurement is what one stretch gave.
type measurement struct {
	perCPU    float64 // requests per CPU-second of all processes of the contestant
	saturated sample
	paced     sample
	wire      int // bytes of replication per request, TCP/IP headers included
}

func measureOne(ctx context.Context, c *contestant, w *wire, n int, l load, o options) (m measurement, err error) {
	users := newUsers(o.users, c.addrs)
	defer leave(users)
	fail := func(err error) (measurement, error) {
		return m, fmt.Errorf("%s, %d nodes, %s: %w", c.name, n, l, err)
	}
	// Sessions are made and connections are warm before the clock starts.
	if _, err := drive(ctx, users, o.stretch/6, 0, l.bytes, l.rewrite); err != nil {
		return fail(err)
	}
	name := counterName(c.name, n)
	var bytesBefore, bytesAfter int
	if len(c.wire) > 0 {
		if bytesBefore, err = w.bytes(ctx, name); err != nil {
			return fail(err)
		}
	}
	before, err := stage.CPU(c.PIDs())
	if err != nil {
		return fail(err)
	}
	if m.saturated, err = drive(ctx, users, o.stretch, 0, l.bytes, l.rewrite); err != nil {
		return fail(err)
	}
	after, err := stage.CPU(c.PIDs())
	if err != nil {
		return fail(err)
	}
	if len(c.wire) > 0 {
		if bytesAfter, err = w.bytes(ctx, name); err != nil {
			return fail(err)
		}
	}
	if m.saturated.requests == 0 || after == before {
		return fail(errors.New("nothing was answered"))
	}
	m.perCPU = float64(m.saturated.requests) / (after - before).Seconds()
	m.wire = (bytesAfter - bytesBefore) / m.saturated.requests
	if m.paced, err = drive(ctx, users, o.stretch/2, o.rate, l.bytes, l.rewrite); err != nil {
		return fail(err)
	}
	return m, nil
}

// memory fills each contestant with sessions and asks what one of them takes, in
// all nodes together.
func (r *report) memory(ctx context.Context, s *bill, n int) error {
	r.memoryNodes = n
	for _, name := range r.who {
		c, err := s.start(ctx, name, n)
		if err != nil {
			return err
		}
		per, err := fill(ctx, c, r.opts.sessions)
		if err = errors.Join(err, c.Stop()); err != nil {
			return fmt.Errorf("%s, memory: %w", name, err)
		}
		stage.Logf("%s: %d B per session", name, per)
		r.heap = append(r.heap, per)
	}
	return nil
}

// fill makes sessions with an attribute of 1 KiB and returns the growth of the
// heaps per session.
func fill(ctx context.Context, c *contestant, sessions int) (int, error) {
	const fillers = 16
	visit := func(each int) error {
		errs := make(chan error, fillers)
		for i := range fillers {
			go func() {
				u := &user{addr: c.addrs[i%len(c.addrs)]}
				defer u.close()
				for range each {
					u.cookie, u.count = "", 0 // another browser on the same connection
					if err := u.hit(ctx, 1<<10, false); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		var err error
		for range fillers {
			err = errors.Join(err, <-errs)
		}
		return err
	}
	if err := visit(50); err != nil { // classes are loaded, pools are filled
		return 0, err
	}
	before, err := heap(ctx, c)
	if err != nil {
		return 0, err
	}
	each := sessions / fillers
	if err := visit(each); err != nil {
		return 0, err
	}
	after, err := heap(ctx, c)
	return (after - before) / (each * fillers), err
}
