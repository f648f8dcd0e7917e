package main

import (
	"strings"
	"testing"
)

// follow lets happen, one after the other, what is named by a part of its label.
func follow(t *testing.T, sc scope, steps []string) (viol string) {
	t.Helper()
	tracing = true
	defer func() { tracing = false }()
	s := initial(sc)
	t.Log(show(&s))
	for _, step := range steps {
		var w *world
		all := events(&s, &sc)
		for k := range all {
			if !strings.Contains(all[k].label, step) {
				continue
			}
			if x, ok := all[k].apply(&s); ok {
				w = x
				t.Log(all[k].label)
				break
			}
		}
		if w == nil {
			for k := range all {
				if _, ok := all[k].apply(&s); ok {
					t.Log("possible:", all[k].label)
				}
			}
			t.Fatalf("nothing that can happen is %q", step)
		}
		if s = w.s; w.viol != "" {
			return w.viol
		}
		t.Log("    ", show(&s))
	}
	return ""
}

// TestTraces: what a rule is for, where no search gets: the vector of the
// specification as far as it goes without the rule, and nothing wrong with it.
func TestTraces(t *testing.T) {
	for _, tt := range []struct {
		rule, scope string
		steps       []string
	}{
		{"noblank", "cut2x3", []string{ // 32
			"A alone", "lease of A by B",
			"write #0 with A!B!1A arrives at C", "#0 at C: no answer from A", "C -> B: Ask", "B -> C: Ans", "C -> B: Take", "B -> C: Grant",
			"connection B - C breaks", "#0 at C: no answer from B",
			"B and C are connected again", "A and B are connected again",
			"write #0 with A!B!1A arrives at A", "A -> B: Put", "B -> A: Ack", "A -> B: Put", "B -> A: Ack", "A -> B: Put", "B -> A: Ack",
		}},
		{"merge", "over3", []string{ // the losing side knows of the last access
			"A alone", "lease of A by B",
			"write #0 with A!B!1A arrives at A", "#0 at A: no answer from B",
			"a tick passes", "read #0 with A!B!1A arrives at B", "#0 at B: no answer from A", "B -> C: Ask", "C -> B: Ans", "B -> C: Put", "C -> B: Ack",
			"A and B are connected again", "A and C are connected again", "a tick passes", "A finds the session over",
			"A -> B: Put", "B -> A: Ack", "A -> C: Put", "C -> A: Ack",
		}},
		{"askprim", "crash3", []string{ // 20
			"A dies", "A is back", "write #0 with A!B!1A arrives at A'", "A' -> B: Ask", "B -> A': Ans",
			"write #1 with A!B!1A arrives at B", "B -> A': Ask", "A' -> B: Ans", "B -> C: Ask", "C -> B: Ans", "B -> C: Put", "A' -> C: Ask", "C -> A': Ans",
			"A' -> C: Take", "C -> A': Grant", "C -> B: Ack", "A' -> C: Put", "C -> A': Ack", "read #0 with A!B!1A arrives at B",
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			sc := explore(t, tt.scope, tt.rule, 0)
			if viol := follow(t, sc, tt.steps); viol == "" {
				t.Error("nothing is wrong without it")
			}
		})
	}
}
