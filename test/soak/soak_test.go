// Package soak counts with many clients through a proxy, for as long as one likes,
// while a nemesis kills, freezes, drains and restarts the app nodes behind it, one
// after the other, each when the cluster says that it has recovered from the last.
// Then nothing may be lost, so each session must have been one counter: its history
// is checked for linearizability.
//
//	soak_test.go     the test and its report
//	client_test.go   two windows to a session, and what they have seen
//	nemesis_test.go  the cluster and what is done to it
//
// It runs for 30 s, or as long as UNDERSTUDY_SOAK says, a duration as "1h". With
// UNDERSTUDY_SOAK_REPORT it writes a report to that file.
package soak

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

var seedFlag = flag.Uint64("seed", 0, "of the faults, which come in the same order again; 0 for another one each time")

// binaries are the built commands; zero with -short.
var binaries stage.Binaries

func TestMain(m *testing.M) {
	os.Exit(stage.Main(m, "understudy-soak-", &binaries)) //nolint:forbidigo // a TestMain ends the process
}

const pairs = 12 // of windows, each pair with a session of its own

// TestSoak is the long one.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	length, err := time.ParseDuration(cmp.Or(os.Getenv("UNDERSTUDY_SOAK"), "30s")) //nolint:forbidigo // set by .ci/run and make soak
	if err != nil {
		t.Fatalf("UNDERSTUDY_SOAK: %v", err)
	}
	seed := cmp.Or(*seedFlag, uint64(time.Now().UnixNano()))
	r := &report{seed: seed, began: time.Now(), faults: map[string]int{}, errors: map[string]int{}}
	s := newCluster(t, r, "a", "b", "c", "d", "e")
	halted, halt := context.WithTimeout(t.Context(), length)
	defer halt()
	var clients sync.WaitGroup
	for i := range pairs {
		p := newPair(s, r, seed, i)
		clients.Go(func() { p.run(halted) })
	}
	s.plague(halted, seed)
	clients.Wait()
	r.took = time.Since(r.began)
	t.Log(r)
	for _, v := range r.violations[:min(len(r.violations), 5)] {
		t.Error(v)
	}
	switch {
	case r.good < 100 || r.sessions < pairs || len(r.faults) == 0:
		t.Errorf("%v: hardly a test", r)
	case t.Failed():
		r.violations = append(r.violations, "the test failed; see its output")
	}
	if path := os.Getenv("UNDERSTUDY_SOAK_REPORT"); path != "" { //nolint:forbidigo // set by make soak
		if err := os.WriteFile(path, []byte(r.markdown()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// A report is what there was.
type report struct {
	seed  uint64
	began time.Time
	took  time.Duration

	mu         sync.Mutex // guards what follows
	faults     map[string]int
	good       int
	errors     map[string]int // by status
	sessions   int            // checked
	longest    int            // operations of one
	worst      time.Duration  // of a good reply
	recovered  time.Duration  // the longest wait until the cluster was whole again
	violations []string
}

func (r *report) violation(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, a...))
}

func (r *report) fault(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[kind]++
}

// count returns a map of counts as text.
func count(m map[string]int) string {
	sum, parts := 0, []string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		sum += m[k]
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(parts, ", "))
}

func (r *report) verdict() string {
	if len(r.violations) == 0 {
		return "no violation"
	}
	return fmt.Sprintf("%d violations", len(r.violations))
}

// String is one line.
func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("seed %d, %v: faults %s; good replies %d, errors %s; sessions checked %d; %s",
		r.seed, r.took.Round(time.Second), count(r.faults), r.good, count(r.errors), r.sessions, r.verdict())
}

// markdown is the report as a page.
func (r *report) markdown() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, `# Soak

What the last long run of `+"`make soak`"+` has shown. Five app nodes and a proxy, real processes on one machine; %d sessions at a time with two clients each,
which count, look, and at last end the session. Meanwhile nodes are killed, frozen, drained and restarted at random, each fault when the cluster says that it has
recovered from the one before. No reply may be flagged lost, no ended session may return, and the history of each session must be that of one counter
(linearizable, checked with porcupine; a request without a reply may have counted, or will yet, or not).

| | |
| --- | --- |
| began | %s |
| duration | %v |
| seed | %d |
| machine | %d CPUs, %s %s/%s |
| faults | %s |
| good replies | %d |
| errors, by status; 0 is none in time | %s |
| sessions checked | %d, the longest of %d operations |
| slowest good reply | %v |
| longest recovery from a fault | %v |
| verdict | **%s** |
`, pairs, r.began.UTC().Format("2006-01-02 15:04 MST"), r.took.Round(time.Second), r.seed, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		count(r.faults), r.good, count(r.errors), r.sessions, r.longest, r.worst.Round(time.Millisecond), r.recovered.Round(time.Millisecond), r.verdict())
	for _, v := range r.violations[:min(len(r.violations), 20)] {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", v)
	}
	return b.String()
}
