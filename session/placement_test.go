package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/cluster"
)

// crosstown is the set-up of seeds.md 3.3: A, B, C in Headquarters, X, Y, Z in
// Crosstown, each preferring the other, with A, B, X on one machine.
func crosstown() []cluster.Member {
	var all []cluster.Member
	for _, name := range []string{"A", "B", "C", "X", "Y", "Z"} {
		m := cluster.Member{Name: name, Boot: 1, State: cluster.Running, Group: "Headquarters", SecondaryGroup: "Crosstown", Machine: "m" + name}
		if name >= "X" {
			m.Group, m.SecondaryGroup = m.SecondaryGroup, m.Group
		}
		if strings.Contains("ABX", name) {
			m.Machine = "sardina"
		}
		all = append(all, m)
	}
	return all
}

// plain is A to D with nothing configured but, if not empty, the machine.
func plain(machine string) []cluster.Member {
	var all []cluster.Member
	for _, name := range []string{"A", "B", "C", "D"} {
		all = append(all, cluster.Member{Name: name, Boot: 1, State: cluster.Running, Machine: machine})
	}
	return all
}

func TestRank(t *testing.T) {
	tests := []struct {
		name    string
		members []cluster.Member
		primary string
		without string
		ranks   string // in the order of the ring, ranks between brackets
	}{
		{name: "SESS-V1", members: crosstown(), primary: "A", ranks: "Y1 Z1 X2 C3 B4"},
		{name: "SESS-V2", members: crosstown(), primary: "B", ranks: "Y1 Z1 X2 C3 A4"},
		{name: "SESS-V3", members: crosstown(), primary: "C", ranks: "X1 Y1 Z1 A3 B3"},
		{name: "SESS-V4", members: crosstown(), primary: "X", ranks: "C1 A2 B2 Y3 Z3"},
		{name: "SESS-V5", members: crosstown(), primary: "Y", ranks: "A1 B1 C1 Z3 X3"},
		{name: "SESS-V6", members: crosstown(), primary: "Z", ranks: "A1 B1 C1 X3 Y3"},
		{name: "SESS-V7", members: crosstown(), primary: "A", without: "YZ", ranks: "X2 C3 B4"},
		{name: "SESS-V8", members: crosstown(), primary: "A", without: "XYZ", ranks: "C3 B4"},
		{name: "SESS-V9", members: plain(""), primary: "A", ranks: "B3 C3 D3"},
		{name: "SESS-V10", members: plain("one"), primary: "A", ranks: "B4 C4 D4"},
		{name: "SESS-V11", members: plain(""), primary: "A", without: "BCD", ranks: ""},
		{name: "SESS-27: the ring closes", members: plain(""), primary: "D", ranks: "A3 B3 C3"},
		{name: "SESS-27: two sockets", members: plain(""), primary: "B", ranks: "C3 D3 A3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var primary cluster.Member
			var living []cluster.Member
			for _, m := range tt.members {
				if m.Name == tt.primary {
					primary = m
				}
				if !strings.Contains(tt.without, m.Name) {
					living = append(living, m)
				}
			}
			if got := ranks(primary, Rank(primary, living, "id", Ring)); got != tt.ranks {
				t.Errorf("Rank(%s, ring) = %q, want %q", tt.primary, got, tt.ranks)
			}
			// By hash only the order among equals may differ.
			for n := range 50 {
				hashed := Rank(primary, living, fmt.Sprintf("session-%d", n), Hash)
				if got, want := digits(ranks(primary, hashed)), digits(tt.ranks); got != want {
					t.Fatalf("Rank(%s, hash) has ranks %q, want %q", tt.primary, got, want)
				}
			}
		})
	}
}

func ranks(primary cluster.Member, ms []cluster.Member) string {
	var out []string
	for _, m := range ms {
		out = append(out, fmt.Sprint(m.Name, rank(primary, m)))
	}
	return strings.Join(out, " ")
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
}

// D7: a dead member's sessions spread over all others, and whoever stays keeps
// what it has when another comes or goes.
func TestRankHashSpreads(t *testing.T) {
	members := plain("")
	primary := members[0]
	const sessions = 3000
	holds := map[string]int{}
	for n := range sessions {
		id := fmt.Sprintf("session-%d", n)
		best := Rank(primary, members, id, Hash)[0]
		holds[best.Name]++
		var rest []cluster.Member
		for _, m := range members {
			if m.Name != "D" {
				rest = append(rest, m)
			}
		}
		if best.Name != "D" {
			if got := Rank(primary, rest, id, Hash)[0]; got.Name != best.Name {
				t.Fatalf("%s: without D the secondary moves from %s to %s", id, best.Name, got.Name)
			}
		}
	}
	for _, name := range []string{"B", "C", "D"} {
		if n := holds[name]; n < sessions/3-sessions/20 || n > sessions/3+sessions/20 {
			t.Errorf("%s holds %d of %d, want about a third", name, n, sessions)
		}
	}
}

func TestRankCandidates(t *testing.T) {
	tests := []struct {
		name string
		m    cluster.Member
		want bool
	}{
		{"running", cluster.Member{Name: "B", State: cluster.Running}, true},
		{"starting", cluster.Member{Name: "B", State: cluster.Starting}, true},
		{"draining", cluster.Member{Name: "B", State: cluster.Draining}, false},
		{"overloaded", cluster.Member{Name: "B", State: cluster.Overloaded}, true}, // says itself whether it has room
		{"proxy", cluster.Member{Name: "B", State: cluster.Running, Proxy: true}, false},
		{"another boot of the primary", cluster.Member{Name: "A", Boot: 2, State: cluster.Running}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Rank(cluster.Member{Name: "A", Boot: 1}, []cluster.Member{tt.m}, "id", Hash)
			if (len(got) == 1) != tt.want {
				t.Errorf("Rank = %v, want it to be a candidate: %v", got, tt.want)
			}
		})
	}
}

func TestParsePlacement(t *testing.T) {
	for _, p := range []Placement{Hash, Ring} {
		if got, err := ParsePlacement(p.String()); got != p || err != nil {
			t.Errorf("ParsePlacement(%q) = %v, %v; want %v", p.String(), got, err, p)
		}
	}
	if _, err := ParsePlacement("star"); err == nil {
		t.Error(`ParsePlacement("star") = nil error`)
	}
}
