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
	states, walks := 150000, 3000
	if testing.Short() {
		states, walks = 15000, 300
	}
	for _, name := range []string{"crash3", "crash4", "crash4n", "break3", "cut3", "cut4n", "cut2x3", "inv3", "two"} {
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

// TestEachRuleIsNeeded: without the rule a violation is found, so the checks of
// the model can fail.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		rule, scope string
		cli         int
	}{
		{"flood", "inv3", 2},
		{"lineage", "two", 2},
		{"succession", "cut3", 2},
		{"readwaits", "two", 3},
		{"conn", "inv3", 2},
		{"again", "two", 2},
		{"tombsync", "inv3", 2},
		{"askall", "crash3", 2},
		{"lease", "cut3", 2},
		{"yield", "two", 2},
		{"start", "cut3", 3},
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
