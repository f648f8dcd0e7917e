package stage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Mark is what a process held at one moment: goroutines, and descriptors but
// for those of connections that a proxy keeps to members on purpose.
type Mark struct {
	p     *Process
	admin string // URL
	dial  Dial
	start holding
}

// holding is what a process holds.
type holding struct {
	goroutines  int
	descriptors int            // -1 where the system does not tell
	stacks      map[string]int // goroutines by stack
	files       map[string]int // descriptors by kind
}

// restless is how many times a process is looked at for a mark, with a pause in
// between: gossip and heartbeats come and go, and the mark is what is left
// without them.
const (
	restless = 5
	between  = 20 * time.Millisecond
)

// Hold takes the mark of p, whose admin listener is at the URL admin. If dial is
// nil, that is reached from where the test is. It is called when p is settled and
// before the traffic of the test.
func Hold(t testing.TB, p *Process, admin string, dial Dial) *Mark {
	t.Helper()
	m := &Mark{p: p, admin: admin, dial: dial}
	for i := range restless {
		h, err := m.look(t.Context())
		if err == nil {
			err = m.detail(t.Context(), &h)
		}
		if err != nil {
			t.Fatalf("what %s holds: %v", p.Name, err)
		}
		if i == 0 || h.goroutines+h.descriptors < m.start.goroutines+m.start.descriptors {
			m.start = h
		}
		Sleep(t.Context(), between)
	}
	return m
}

// forgotten is how long a process may take to give back what it holds: a node
// remembers a member that fell silent for a minute, and dials it meanwhile.
const forgotten = 2 * Patience

// Process is the process that the mark is of.
func (m *Mark) Process() *Process { return m.p }

// Returned waits until the process holds no more than it did at the mark, and
// fails the test with what is too much if that does not come. The clients of the
// test have closed their connections. A process that has ended holds nothing.
func (m *Mark) Returned(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it is called by cleanups too
	var h holding
	var err error
	for end := time.Now().Add(forgotten); time.Now().Before(end); Sleep(ctx, between) {
		if !m.p.Running() {
			return
		}
		if h, err = m.look(ctx); err == nil && h.goroutines <= m.start.goroutines && h.descriptors <= m.start.descriptors {
			return
		}
	}
	if err == nil {
		err = m.detail(ctx, &h)
	}
	if err != nil {
		t.Errorf("what %s holds: %v", m.p.Name, err)
		return
	}
	t.Errorf("%s holds %d goroutines and %d descriptors %v after the test, and held %d and %d before it; more of:\n%s%s",
		m.p.Name, h.goroutines, h.descriptors, forgotten, m.start.goroutines, m.start.descriptors,
		more(m.start.stacks, h.stacks), more(m.start.files, h.files))
}

// look asks how much the process holds.
func (m *Mark) look(ctx context.Context) (holding, error) {
	h := holding{descriptors: -1}
	page, err := Page(ctx, m.admin+"/metrics", m.dial)
	if err != nil {
		return h, err
	}
	kept := map[string]int{} // connections by member, who may be one of several workers
	for line := range strings.Lines(page) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return h, err
		}
		switch {
		case name == "go_goroutines":
			h.goroutines = int(n)
		case name == "process_open_fds":
			h.descriptors = int(n)
		case strings.HasPrefix(name, "understudy_member_connections{"):
			_, member, _ := strings.Cut(name, `member="`)
			member, _, _ = strings.Cut(member, `"`)
			kept[member] = int(n)
		}
	}
	if h.goroutines == 0 {
		return h, fmt.Errorf("stage: %s/metrics: no series go_goroutines", m.admin)
	}
	for _, n := range kept {
		h.descriptors = max(h.descriptors-n, -1)
	}
	return h, nil
}

// detail asks what it is, for who has to find out.
func (m *Mark) detail(ctx context.Context, h *holding) error {
	page, err := Page(ctx, m.admin+"/debug/pprof/goroutine?debug=1", m.dial)
	if err != nil {
		return err
	}
	h.stacks, h.files = stacks(page), files(m.p.PID())
	return nil
}

// goroutines is one stack of a goroutine profile, and how many have it.
var goroutines = regexp.MustCompile(`(?m)^(\d+) @[^\n]*\n((?:#[^\n]*\n)*)`)

// stacks reads a goroutine profile (debug=1).
func stacks(page string) map[string]int {
	found := map[string]int{}
	for _, m := range goroutines.FindAllStringSubmatch(page, -1) {
		n, _ := strconv.Atoi(m[1]) // of digits
		var stack strings.Builder
		for line := range strings.Lines(m[2]) {
			if f := strings.Fields(line); len(f) > 3 { // # 0x4 function+0x2 file:line
				function, _, _ := strings.Cut(f[2], "+0x")
				fmt.Fprintf(&stack, "\t%s %s\n", function, filepath.Base(f[3]))
			}
		}
		found[stack.String()] += n
	}
	return found
}

// files counts the descriptors of a process by what they are: sockets, pipes,
// paths. It is empty where the system does not tell.
func files(pid int) map[string]int {
	found := map[string]int{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return found
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			kind, _, _ := strings.Cut(to, ":[")
			found["\t"+kind+"\n"]++
		}
	}
	return found
}

// more lists what there is more of than before.
func more(before, after map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if n, was := after[what], before[what]; n > was {
			fmt.Fprintf(&b, "%d, was %d:\n%s", n, was, what)
		}
	}
	return b.String()
}
