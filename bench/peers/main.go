// Command peers measures what a proxied request costs: ours beside HAProxy,
// nginx, Caddy and Apache with two balancers, each as a sticky balancer over the
// same three members, with its log off and one thread on one core. With -ajp it is
// ours beside Apache with mod_jk and with mod_proxy_ajp, over AJP13.
//
// The figure is requests per CPU-second of the proxy's processes, user and system
// time, at saturation. Contestants take turns, in another order each round, and
// ratios are between neighbours of one round. The load goes to loopback, in a
// network namespace of its own if it may make one; it ends by itself and kills
// what it started. `make bench-peers` and `make bench-ajp` run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
)

type options struct {
	who     []string
	ajp     bool
	tomcat  bool
	rounds  int
	stretch time.Duration
	idle    int
	out     string
}

func main() {
	var o options
	who := flag.String("who", "", "contestants; all if empty")
	flag.BoolVar(&o.ajp, "ajp", false, "members speak AJP13")
	flag.BoolVar(&o.tomcat, "tomcat", false, "members are Tomcats, of Debian's package tomcat10")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; the medians are reported")
	flag.DurationVar(&o.stretch, "stretch", 2*time.Second, "length of one measurement")
	flag.IntVar(&o.idle, "idle", 10_000, "idle connections of the measurement of memory; 0: none")
	flag.StringVar(&o.out, "out", "results", "folder for the report")
	flag.Parse()
	all := names(o.ajp)
	o.who = all
	if *who != "" {
		o.who = strings.Split(*who, ",")
	}
	for _, name := range o.who {
		if !slices.Contains(all, name) {
			stage.Fatalf("-who %q: want some of %s", name, strings.Join(all, ","))
		}
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		stage.Fatalf("Debian's package wrk is needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	stage.Isolate(ctx)
	if err := run(ctx, o); err != nil {
		stage.Fatalf("%v", err)
	}
}

// files raises the limit of descriptors as far as it goes, for this process and
// its children, and returns it.
func files() uint64 {
	l := syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) != nil && syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil {
		l.Cur = l.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // what fails for want of it will say so
	}
	return l.Cur
}

func run(ctx context.Context, o options) (err error) {
	st, err := stage.New()
	if err != nil {
		return err
	}
	defer func() { err = st.Close(err) }()
	if err := os.Chmod(st.Dir, 0o755); err != nil { // Apache's children are another user
		return err
	}
	b := &bill{Stage: st, overAJP: o.ajp, sessions: 60, conns: files()/2 - 200}
	o.idle = min(o.idle, int(b.conns)-200)
	if b.proxy, err = st.Build(ctx, "../cmd/proxy"); err != nil {
		return err
	}
	start := b.startMembers
	if o.tomcat {
		start = b.startTomcats
	}
	members, err := start(ctx, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, members.Stop()) }()
	r := &report{opts: o, pinned: st.Pin, started: time.Now(), idle: map[string]int{}}
	var all []*contestant
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.Stop())
		}
	}()
	for _, name := range o.who {
		if what := missing(name); what != "" {
			r.absent = append(r.absent, name+" needs "+what)
			continue
		}
		c, err := b.start(ctx, name)
		if err != nil {
			return err
		}
		all, r.who = append(all, c), append(r.who, name)
		stage.Logf("%s is there", name)
	}
	for _, l := range loads() {
		if err := r.measure(ctx, all, l); err != nil {
			return err
		}
	}
	for _, c := range all {
		if o.idle == 0 {
			break
		}
		n, err := idle(ctx, c, o.idle)
		if err != nil {
			return fmt.Errorf("%s, idle connections: %w", c.name, err)
		}
		r.idle[c.name] = n
		stage.Logf("%s: %d B per idle connection", c.name, n)
	}
	return r.write(ctx)
}

// measure puts every contestant under the load, round after round, and then at
// half of the load that the slower of ours and [report.other] can take.
func (r *report) measure(ctx context.Context, all []*contestant, l load) error {
	best := map[string][]float64{}
	for round := range r.opts.rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			if round == 0 { // connections to the members, buffers
				if _, err := saturate(ctx, c, l, time.Second); err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, l.name, err)
				}
			}
			s, err := saturate(ctx, c, l, r.opts.stretch)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, l.name, err)
			}
			r.add(c.name, l, s)
			best[c.name] = append(best[c.name], s.perSecond)
			stage.Logf("round %d, %s, %s: %.0f requests per CPU-second", round+1, l.name, c.name, s.perCPU)
		}
	}
	rate := min(stage.Median(best[ours]), stage.Median(best[r.other()]))
	if l.close || rate == 0 {
		return nil
	}
	for round := range r.opts.rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			if stage.Median(slices.Clone(best[c.name])) < rate/2 {
				continue // it would only queue
			}
			p99, err := paced(ctx, c, l, r.opts.stretch, rate/2)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, l.name, err)
			}
			cell := r.find(c.name, l)
			cell.Paced99 = append(cell.Paced99, float64(p99.Microseconds())/1000)
		}
	}
	return nil
}
