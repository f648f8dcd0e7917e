package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A report is the account of a run.
type report struct {
	title    string // "" for one that is not in docs/oracle.md
	versions string
	seeds    uint64
	began    time.Time
	took     time.Duration

	mu       sync.Mutex // guards all below
	played   int
	compared int            // steps
	alike    int            // of them, without any difference
	mapped   int            // of them, answered by a member of mod_jk's
	used     map[string]int // deviations, how often each excused something
	classes  map[string]int // differences by class
	unknown  map[string]int // of them, those that no deviation excuses
	first    map[string]uint64
}

// reports are those of this run that go to docs/oracle.md.
var reports []*report

func newReport(t *testing.T, title string, seeds uint64) *report {
	t.Helper()
	r := &report{
		title: title, versions: versions(t), seeds: seeds, began: time.Now(), used: map[string]int{}, classes: map[string]int{},
		unknown: map[string]int{}, first: map[string]uint64{},
	}
	if title != "" {
		reports = append(reports, r)
	}
	return r
}

// versions are what Debian says of what we compare with.
func versions(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Package} ${Version}, ", "apache2-bin", "libapache2-mod-jk").Output()
	if err != nil {
		t.Logf("versions: %v", err)
	}
	return strings.Trim(string(out), ", ")
}

func (r *report) add(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// judge counts one step with its differences. It returns what no deviation excuses, and whether the
// steps after this one cannot be compared: their members differ in state.
func (r *report) judge(x *exchange, ds []difference) (wrong []difference, parted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compared++
	if len(ds) == 0 {
		r.alike++
	}
	if x.jk.reply.by() != "" {
		r.mapped++
	}
	for _, d := range ds {
		class := d.class
		r.classes[class]++
		v := excuse(x, d)
		if v == nil {
			wrong = append(wrong, d)
			r.unknown[class]++
			if old, ok := r.first[class]; !ok || x.seed < old {
				r.first[class] = x.seed
			}
			parted = parted || class == "attempts" || class == "status" || class == "served by"
			continue
		}
		r.used[v.name]++
		parted = parted || v.parts
	}
	return wrong, parted || x.uncertain()
}

func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds in %v: %d steps compared, %d alike\n", r.played, r.took.Round(time.Second), r.compared, r.alike)
	for _, v := range deviations {
		fmt.Fprintf(&b, "%6d  %s\n", r.used[v.name], v.name)
	}
	for _, class := range sorted(r.unknown) {
		fmt.Fprintf(&b, "%6d  NOT EXCUSED: %s, first by seed %d\n", r.unknown[class], class, r.first[class])
	}
	return b.String()
}

// sorted are the keys of counts, the largest first.
func sorted(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(m[b]-m[a], strings.Compare(a, b))
	})
}

// markdown is docs/oracle.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("# Beside a real mod_jk\n\nWritten by `make oracle`; do not edit. What is compared, and how: test/oracle.\n")
	for _, r := range reports {
		r.write(&b)
	}
	return b.String()
}

// write is one section of it.
func (r *report) write(b *strings.Builder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(b, `
## %s

On %s, in %v: seeds 1 to %d, first before %s, and then before us, with the same members. %d requests were compared; %d were alike in
everything. Once a deviation has left members in different states, the rest of that seed is not compared.

| differences in | |
| --- | --- |
`, r.title, r.began.UTC().Format(time.DateOnly), r.took.Round(time.Second), r.played, r.versions, r.compared, r.alike)
	for _, class := range sorted(r.classes) {
		fmt.Fprintf(b, "| %s | %d |\n", class, r.classes[class])
	}
	b.WriteString("\n| excused by the deviation | |\n| --- | --- |\n")
	var unused []string
	for _, v := range deviations {
		if r.used[v.name] == 0 {
			unused = append(unused, v.name)
			continue
		}
		fmt.Fprintf(b, "| %s | %d |\n", v.name, r.used[v.name])
	}
	if unused != nil {
		fmt.Fprintf(b, "\nNot needed: %s.\n", strings.Join(unused, "; "))
	}
	if len(r.unknown) == 0 {
		b.WriteString("\nNothing else differed.\n")
		return
	}
	b.WriteString("\n| NOT EXCUSED | | first by seed |\n| --- | --- | --- |\n")
	for _, class := range sorted(r.unknown) {
		fmt.Fprintf(b, "| %s | %d | %d |\n", class, r.unknown[class], r.first[class])
	}
}
