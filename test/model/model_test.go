package main

import (
	"testing"
	"time"
)

// explore sets up the exploration of a scope with the rule without switched
// off, "" for none.
func explore(t *testing.T, name, without string, cli int) scope {
	t.Helper()
	opt = allRules()
	if without != "" {
		on := opt.rule(without)
		if on == nil {
			t.Fatalf("no rule %q", without)
		}
		*on = false
	}
	for _, sc := range scopes {
		if sc.Name == name {
			opt.Names = sc.Names
			if cli > 0 {
				sc.Cli = cli
			}
			return sc
		}
	}
	t.Fatalf("no scope %q", name)
	return scope{}
}

// long is more time than any exploration here needs; the bounds are in states
// and steps, so that a slow machine explores the same.
const long = 10 * time.Minute

func TestRulesHold(t *testing.T) {
	states, walks := 60000, 1000
	if testing.Short() {
		states, walks = 8000, 200
	}
	for _, name := range []string{
		"crash3", "crash4", "crash4n", "break3", "cut3", "cut4n", "cut2x3", "inv3", "two", "over3", "skew3", "grave3", "drain3", "drain4n", "loose2", "loose3",
	} {
		sc := explore(t, name, "", 2)
		if _, _, _, trace, viol := bfs(sc, states, long); viol != "" {
			t.Errorf("%s: %s", name, viol)
			for _, l := range trace {
				t.Log(l)
			}
		}
	}
	for _, name := range []string{"big3", "big4", "big4n"} {
		sc := explore(t, name, "", 0)
		if _, trace, viol := walk(sc, walks, 70, long, 1); viol != "" {
			t.Errorf("%s: %s", name, viol)
			for _, l := range trace {
				t.Log(l)
			}
		}
	}
}

// TestSeeds walks through all that there is at once. A failure names its seed.
func TestSeeds(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 1000
	}
	opt = allRules()
	var all tally
	steps, trace, viol := seeds(1, n, &all)
	t.Logf("%d seeds, %d steps: %v", n, steps, &all)
	if viol != "" {
		t.Error(viol)
		for _, l := range trace {
			t.Log(l)
		}
		return
	}
	for h, n := range all {
		if n == 0 && !testing.Short() {
			t.Errorf("no walk had any %s: they do not reach what they are to check", happeningNames[h])
		}
	}
}

// TestSeedsFind: the seeds find these, too.
func TestSeedsFind(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	for _, rule := range []string{"weigh", "lineage", "reigns", "replycheck", "yield", "loosereign", "acked", "patience", "conn"} {
		t.Run(rule, func(t *testing.T) {
			opt = allRules()
			*opt.rule(rule) = false
			if steps, _, viol := seeds(1, 5000, nil); viol == "" {
				t.Errorf("without it nothing was found in %d steps", steps)
			}
		})
	}
}

// TestEachRuleIsNeeded: without the rule a violation is found, so the checks of
// the model can fail.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		rule, scope string
		cli         int
	}{
		{"allack", "crash4n", 2},
		{"judge", "grave3", 2},
		{"keep", "grave3", 2},
		{"relative", "skew3", 2},
		{"access", "over3", 2},
		{"loosecut", "loose3", 2},
		{"loosereign", "loose2", 2},
		{"left", "drain3", 2},
		{"flood", "inv3", 2},
		{"lineage", "two", 2},
		{"succession", "cut3", 2},
		{"readwaits", "two", 3},
		{"conn", "inv3", 2},
		{"again", "two", 2},
		{"tombsync", "inv3", 2},
		{"askall", "crash3", 2},
		{"lease", "cut3", 2},
		{"weigh", "two", 3},
		{"patience", "break3", 2},
		{"acked", "crash3", 2},
		{"drained", "crash3", 2},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			sc := explore(t, tt.scope, tt.rule, tt.cli)
			if states, depth, _, _, viol := bfs(sc, 600000, long); viol == "" {
				t.Errorf("without it nothing was found in %s: %d states, depth %d", tt.scope, states, depth)
			}
		})
	}
}

// TestWalksFind is TestEachRuleIsNeeded for what lies deeper than a search of all
// states gets: random walks find it, the same on every machine.
func TestWalksFind(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	for _, tt := range []struct{ rule, scope string }{
		{"start", "cut2x3"},
		{"stale", "over3"},
		{"weigh", "two"},
		{"line", "crash4n"},
		{"endlease", "over3"},
		{"base", "break3"},
		{"losttwice", "crash3"},
		{"cookiesnap", "crash3"},
	} {
		t.Run(tt.rule+" in "+tt.scope, func(t *testing.T) {
			sc := explore(t, tt.scope, tt.rule, 0)
			if steps, _, viol := walk(sc, 200000, 80, long, 1); viol == "" {
				t.Errorf("without it nothing was found in %d steps", steps)
			}
		})
	}
}
