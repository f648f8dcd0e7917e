package e2e

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestRollingDeploy replaces the program on every node under clients that count,
// forwards, back on one node, and forwards again. The later program speaks a newer
// wire version, and keeps an attribute in sessions that the old one does not know:
// no request fails, no session is lost, and that attribute survives every stay on
// an old node.
func TestRollingDeploy(t *testing.T) {
	const visitors = 60
	names := []string{"a", "b", "c"}
	older, later := []string{"--wire-version", "1"}, []string{"--count-visits"}
	s := newCluster(t)
	for _, name := range names {
		s.add(name, older...)
	}
	for _, name := range names {
		s.ready(name)
	}
	p := s.proxy(s.workers(names...), true)
	halted, halt := context.WithCancel(t.Context())
	defer halt()
	var wg sync.WaitGroup
	all := make([]*visitor, visitors)
	for i := range all {
		v := &visitor{client: s.client(p.listen)}
		v.Count()
		all[i] = v
		wg.Go(func() { v.visit(halted, time.Duration(20+i)*time.Millisecond) })
	}
	for _, step := range []struct {
		node string
		args []string
	}{{"a", later}, {"b", later}, {"b", older}, {"c", later}, {"a", older}, {"a", later}, {"b", later}} {
		n := s.nodes[step.node]
		if code := n.Stop(); code != 0 {
			t.Errorf("node %s ended with %d", n.name, code)
		}
		n.args = step.args
		s.launch(n)
		s.ready(n.name)
	}
	halt()
	wg.Wait()
	posts, visits := 0, 0
	for i, v := range all {
		posts, visits = posts+v.posts, visits+v.visits
		if want := v.posts + 1; v.Last().Counter != want || v.visits == 0 {
			t.Errorf("visitor %d: counter %d after %d requests that count, %d of them at later programs", i, v.Last().Counter, want, v.visits)
		}
		for _, f := range v.faults[:min(len(v.faults), 3)] {
			t.Errorf("visitor %d: %s", i, f)
		}
		if r := v.Count(); r.Visits != v.visits+1 {
			t.Errorf("visitor %d: visits %d at the end, want %d", i, r.Visits, v.visits+1)
		}
		v.Close()
	}
	for _, name := range names {
		if lines := s.nodes[name].Lines("malformed"); len(lines) > 0 {
			t.Errorf("node %s does not understand another: %q", name, lines)
		}
	}
	t.Logf("%d requests that count, %d of them at later programs", posts, visits)
	if visits == 0 || visits >= posts {
		t.Errorf("%d of %d at later programs: nothing was side by side", visits, posts)
	}
}
