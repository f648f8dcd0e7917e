// Package oracle compares our proxy with a real mod_jk. Both get the same files,
// made from a seed, the same requests and the same members, which speak AJP13 by a
// script: they answer, delay, die at each step of an exchange and send nonsense.
// What may differ is in the table of deviations, and nothing else.
//
//	oracle_test.go      the test of many seeds
//	generate_test.go    the files, requests and acts of a seed
//	member_test.go      a member that follows a script
//	front_test.go       Apache, our proxy, and their client
//	compare_test.go     what is compared
//	deviations_test.go  what may differ, by rows of docs/deviations.md
//	mapping_test.go     which worker a path is mapped to, in bulk
//	status_test.go      what the status worker says in the same state
//	report_test.go      docs/oracle.md
//
// It plays the seeds from 1 to 50, or as many as UNDERSTUDY_ORACLE says; -seed
// plays one. With UNDERSTUDY_ORACLE_REPORT it writes a report to that file.
package oracle

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

var seedFlag = flag.Uint64("seed", 0, "the only one to play, with all that happens; 0 for many")

// binaries are the built commands; zero with -short.
var binaries stage.Binaries

func TestMain(m *testing.M) {
	code := stage.Main(m, "understudy-oracle-", &binaries)
	if path := os.Getenv("UNDERSTUDY_ORACLE_REPORT"); path != "" { //nolint:forbidigo // set by make oracle
		if err := os.WriteFile(path, []byte(markdown()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code) //nolint:forbidigo // a TestMain ends the process
}

// atATime is how many seeds are played at once: most of the time is waiting.
const atATime = 4

// seeds is how many there are in a run.
func seeds(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("UNDERSTUDY_ORACLE"), "50"), 10, 64) //nolint:forbidigo // set by make oracle
	if err != nil {
		t.Fatalf("UNDERSTUDY_ORACLE: %v", err)
	}
	return n
}

// TestOracle plays many seeds.
func TestOracle(t *testing.T) {
	needApache(t)
	r := newReport(t, "Files, requests and members that fail", seeds(t))
	if *seedFlag != 0 {
		playSeed(t, r, *seedFlag, understudy)
		return
	}
	next := make(chan uint64)
	var players sync.WaitGroup
	for range atATime {
		players.Go(func() {
			for seed := range next {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { playSeed(t, r, seed, understudy) })
			}
		})
	}
	for seed := range r.seeds {
		next <- seed + 1
	}
	close(next)
	players.Wait()
	r.took = time.Since(r.began)
	t.Log(r)
	if r.compared < int(r.seeds)*4 {
		t.Errorf("only %d steps compared: hardly a test", r.compared)
	}
}

// TestItself plays a few seeds before mod_jk twice: what differs then is chance,
// and no finding.
func TestItself(t *testing.T) {
	needApache(t)
	r := newReport(t, "", 5)
	for seed := range r.seeds {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			playSeed(t, r, seed+1, func(t *testing.T, dir string) *front { return apache(t, dir, "") })
		})
	}
	if r.alike == 0 || r.alike < r.compared {
		t.Errorf("%d of %d steps are alike", r.alike, r.compared)
	}
}

// playSeed plays one scenario before mod_jk and then before another front, and
// compares.
func playSeed(t *testing.T, r *report, seed uint64, other func(*testing.T, string) *front) {
	s := generate(seed)
	c := newCast(t, s.members, s.packets)
	dir := directory(t)
	file(t, filepath.Join(dir, "workers.properties"), s.workersFile(c))
	file(t, filepath.Join(dir, "uriworkermap.properties"), s.rulesFile())

	f := apache(t, dir, "")
	jk := play(t, s, c, f)
	f.stop()
	c.reset()
	f = other(t, dir)
	ours := play(t, s, c, f)
	f.stop()

	r.add(func() { r.played++ })
	tooLong := false
	for i := range min(len(jk), len(ours)) {
		x := &exchange{scenario: s, step: s.steps[i], index: i, tooLong: tooLong, jk: jk[i], ours: ours[i]}
		tooLong = tooLong || jk[i].reply.status == 413
		wrong, parted := r.judge(x, x.compare())
		if *seedFlag != 0 && testing.Verbose() {
			t.Logf("step %d: %v\n    mod_jk: %v\n    we: %v%s", i, x.step, x.jk, x.ours, x.account())
		}
		if len(wrong) > 0 {
			var b strings.Builder
			for _, d := range wrong {
				fmt.Fprintf(&b, "    %v\n", d)
			}
			t.Errorf("seed %d, step %d: %v\n%s    mod_jk: %v\n    we: %v", seed, i, x.step, &b, x.jk, x.ours)
		}
		if parted {
			break // the members are not in the same states any more
		}
	}
	if t.Failed() {
		t.Logf("workers.properties:\n%s\nuriworkermap.properties:\n%s", s.workersFile(nil), s.rulesFile())
		if *seedFlag != 0 {
			log, err := os.ReadFile(filepath.Join(dir, "jk.log"))
			t.Logf("%s %v", log, err)
		}
	}
}
