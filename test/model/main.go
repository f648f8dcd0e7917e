package main

import (
	"bytes"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"
)

func less(a, b *Msg) bool {
	n := unsafe.Sizeof(*a)
	return bytes.Compare(unsafe.Slice((*byte)(unsafe.Pointer(a)), n), unsafe.Slice((*byte)(unsafe.Pointer(b)), n)) < 0
}

//nolint:gochecknoglobals // of the hash that tells states apart; any will do
var seed1, seed2 = maphash.MakeSeed(), maphash.MakeSeed()

func hash(s *State) [2]uint64 {
	k := s.key()
	return [2]uint64{maphash.Bytes(seed1, k), maphash.Bytes(seed2, k)}
}

type link struct {
	parent int32
	act    uint16
}

// bfs visits every state of the scope up to limit states or until the time is
// over, and returns the shortest way to a violation.
func bfs(sc scope, limit int, d time.Duration) (states int, depth int, whole bool, trace []string, viol string) {
	end := time.Now().Add(d)
	first := initial(sc)
	seen := map[[2]uint64]struct{}{hash(&first): {}}
	links := []link{{-1, 0}}
	type item struct {
		s  State
		id int32
	}
	level := []item{{first, 0}}
	for len(level) > 0 {
		var nextLevel []item
		for n := range level {
			it := &level[n]
			if n&1023 == 0 && (time.Now().After(end) || len(seen) > limit) {
				return len(seen), depth, false, nil, ""
			}
			for k, e := range events(&it.s, &sc) {
				w, ok := e.apply(&it.s)
				if !ok {
					continue
				}
				if w.viol != "" {
					links = append(links, link{it.id, uint16(k)})
					return len(seen), depth + 1, false, replay(sc, way(links)), w.viol
				}
				h := hash(&w.s)
				if _, ok := seen[h]; ok {
					continue
				}
				seen[h] = struct{}{}
				links = append(links, link{it.id, uint16(k)})
				nextLevel = append(nextLevel, item{w.s, int32(len(links) - 1)})
			}
		}
		level = nextLevel
		depth++
	}
	return len(seen), depth, true, nil, ""
}

// way is how the last of links was reached.
func way(links []link) (acts []uint16) {
	for id := int32(len(links) - 1); links[id].parent >= 0; id = links[id].parent {
		acts = append(acts, links[id].act)
	}
	slices.Reverse(acts)
	return acts
}

// replay tells of the events with these indices, one after the other.
func replay(sc scope, acts []uint16) []string {
	tracing = true
	defer func() { tracing = false }()
	s := initial(sc)
	lines := []string{"      " + show(&s)}
	for _, act := range acts {
		e := events(&s, &sc)[act]
		w, _ := e.apply(&s)
		s = w.s
		lines = append(lines, "  "+e.label, "      "+show(&s))
	}
	return lines
}

func show(s *State) string {
	var b strings.Builder
	for n := range uint8(opt.Names) {
		if s.Nodes[n].Up == 0 {
			fmt.Fprintf(&b, "%s:- ", mname(n))
			continue
		}
		fmt.Fprintf(&b, "%s:%v ", mname(s.now(n)), &s.Nodes[n].R)
	}
	fmt.Fprintf(&b, "jar %v seen %05b", s.Jar, s.Seen)
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Ph != pIdle {
			fmt.Fprintf(&b, " #%d:%s@%s %s", i, kindNames[o.Kind], mname(o.At), []string{"", "take", "ask", "waitlease", "exec", "flush", "fwd", "retry", "done", "join", "patient"}[o.Ph])
		}
	}
	return b.String()
}

// walk takes random ways through the scope.
func walk(sc scope, runs, length int, d time.Duration, seed uint64) (steps int, trace []string, viol string) {
	end := time.Now().Add(d)
	for run := range runs {
		if time.Now().After(end) {
			break
		}
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		n, acts, viol := stroll(sc, rng, weightsOf(rng), length, nil)
		if steps += n; viol != "" {
			return steps, replay(sc, acts), viol
		}
	}
	return steps, nil, ""
}

// weights say how often an event of each class is drawn.
type weights [classes]int

// weightsOf draws weights, so that some walks are full of faults and others full
// of requests.
func weightsOf(rng *rand.Rand) (w weights) {
	for k := range w {
		w[k] = []int{1, 2, 4, 12}[rng.IntN(4)]
	}
	return w
}

// stroll takes one random way, and adds to t, if any, what happened.
func stroll(sc scope, rng *rand.Rand, by weights, length int, t *tally) (steps int, acts []uint16, viol string) {
	s := initial(sc)
	for range length {
		all := events(&s, &sc)
		var have [classes]int
		for k := range all {
			have[all[k].class]++
		}
		tried := make([]bool, len(all))
		moved := false
		for left := len(all); left > 0 && !moved; left-- {
			sum := 0
			for c, n := range have {
				if n > 0 {
					sum += by[c]
				}
			}
			c, x := class(0), rng.IntN(sum)
			for ; have[c] == 0 || x >= by[c]; c++ {
				if have[c] > 0 {
					x -= by[c]
				}
			}
			nth := rng.IntN(have[c])
			k := slices.IndexFunc(all, func(e event) bool { return e.class == c })
			for ; tried[k] || all[k].class != c || nth > 0; k++ {
				if !tried[k] && all[k].class == c {
					nth--
				}
			}
			tried[k] = true
			have[c]--
			var now tally
			w, ok := all[k].applyTo(&s, &now)
			if !ok {
				continue
			}
			moved = true
			if t != nil {
				for h, n := range now {
					t[h] += n
				}
			}
			acts = append(acts, uint16(k))
			steps++
			if w.viol != "" {
				return steps, acts, w.viol
			}
			s = w.s
		}
		if !moved {
			break
		}
	}
	return steps, acts, ""
}

//nolint:gochecknoglobals // a table
var scopes = []scope{
	{Name: "crash3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Bg: 1, Deaths: 2, Restarts: 1, OldTab: true},
	{Name: "crash4", Names: 4, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Bg: 1, Deaths: 2, Restarts: 1, OldTab: true},
	{Name: "break3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Deaths: 1, Tmos: 2, OldTab: true, Asym: true, Sync: true},
	{Name: "cut3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Deaths: 1, Cuts: 1, OldTab: true, Asym: true, Sync: true},
	{Name: "cut2x3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 1, Cuts: 2, Tmos: 1, OldTab: true, Asym: true, Sync: true},
	{Name: "inv3", Names: 3, Kinds: []uint8{kWrite, kInv}, Cli: 3, Conc: 2, Deaths: 1, Restarts: 1, Cuts: 1, Tmos: 1, OldTab: true, Sync: true},
	{Name: "two", Names: 2, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Bg: 1, Deaths: 2, Restarts: 2, Tmos: 2, OldTab: true, Sync: true},
	{Name: "crash4n", Names: 4, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Bg: 1, Deaths: 2, Restarts: 1, OldTab: true, Want: 2},
	{Name: "cut4n", Names: 4, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 2, Deaths: 1, Cuts: 1, Tmos: 1, OldTab: true, Sync: true, Want: 2},
	{Name: "big4n", Names: 4, Kinds: []uint8{kWrite, kRead, kInv}, Cli: 6, Conc: 3, Bg: 3, Deaths: 2, Restarts: 2, Cuts: 2, Tmos: 3, OldTab: true, Sync: true, Want: 2},
	{Name: "over3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 1, Deaths: 1, Tmos: 1, Cuts: 1, OldTab: true, Sync: true, Idle: 2, Ticks: 3},
	{Name: "skew3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 2, Conc: 1, Bg: 1, Deaths: 1, Idle: 2, Ticks: 2, Skew: [4]uint8{0, 3, 1, 0}},
	{Name: "grave3", Names: 3, Kinds: []uint8{kWrite, kInv}, Cli: 2, Conc: 1, Cuts: 1, OldTab: true, Sync: true, Life: 2, Ticks: 4, Slow: 1},
	{Name: "drain3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 2, Conc: 2, Deaths: 1, Drains: 1, OldTab: true},
	{Name: "drain4n", Names: 4, Kinds: []uint8{kWrite, kRead}, Cli: 2, Conc: 1, Drains: 1, OldTab: true, Want: 2},
	{Name: "loose3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 1, Deaths: 1, Cuts: 1, OldTab: true, Sync: true, Loose: 1},
	{Name: "loose2", Names: 2, Kinds: []uint8{kWrite, kRead}, Cli: 3, Conc: 1, Bg: 1, Deaths: 1, Tmos: 1, OldTab: true, Sync: true, Loose: 1},
	{Name: "maj3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 4, Conc: 2, Bg: 2, Cuts: 2, Tmos: 2, OldTab: true},
	{Name: "big4", Names: 4, Kinds: []uint8{kWrite, kRead, kInv}, Cli: 6, Conc: 3, Bg: 3, Deaths: 2, Restarts: 2, Cuts: 2, Tmos: 3, OldTab: true, Sync: true},
	{Name: "big3", Names: 3, Kinds: []uint8{kWrite, kRead}, Cli: 6, Conc: 3, Bg: 3, Deaths: 2, Restarts: 2, Cuts: 2, Tmos: 3, OldTab: true, Sync: true},
}

func main() {
	name := flag.String("scope", "crash3", "scope")
	limit := flag.Int("limit", 1500000, "states")
	secs := flag.Int("s", 60, "seconds")
	random := flag.Int("walks", 0, "random walks instead of breadth first")
	length := flag.Int("length", 80, "steps of a walk")
	first := flag.Uint64("seed", 1, "of the walks, or the first")
	without := flag.String("without", "", "rules to switch off, parted by commas: those of rule in rules.go")
	with := flag.String("with", "", "slow,majority,forwardnot")
	runs := flag.Int("seeds", 0, "seeds instead of a scope: each draws what it explores")
	cli := flag.Int("cli", -1, "client requests")
	flag.BoolVar(&strict, "strict", false, "report what no protocol can prevent, too")
	flag.Parse()
	for r := range strings.SplitSeq(*without, ",") {
		if r == "" {
			continue
		}
		on := opt.rule(r)
		if on == nil {
			usage("no rule %q; see rule in rules.go", r)
		}
		*on = false
	}
	for r := range strings.SplitSeq(*with, ",") {
		switch r {
		case "slow":
			opt.Slow = true
		case "majority":
			opt.Majority = true
		case "forwardnot":
			opt.ForwardNot = true
		case "":
		default:
			usage("no variant %q", r)
		}
	}
	if *runs > 0 {
		var t tally
		n, trace, viol := seeds(*first, *runs, &t)
		fmt.Printf("%d seeds without=%q: %d steps: %v\n", *runs, *without, n, &t)
		report(trace, viol)
		return
	}
	for _, sc := range scopes {
		if sc.Name != *name {
			continue
		}
		if *cli >= 0 {
			sc.Cli = *cli
		}
		opt.Names = sc.Names
		t := time.Now()
		if *random > 0 {
			n, trace, viol := walk(sc, *random, *length, time.Duration(*secs)*time.Second, *first)
			fmt.Printf("%s: %d random steps, %.0f s\n", sc.Name, n, time.Since(t).Seconds())
			report(trace, viol)
			return
		}
		n, depth, whole, trace, viol := bfs(sc, *limit, time.Duration(*secs)*time.Second)
		fmt.Printf("%s without=%q with=%q: %d states, depth %d, complete %v, %.0f s\n", sc.Name, *without, *with, n, depth, whole, time.Since(t).Seconds())
		report(trace, viol)
		return
	}
	usage("no scope %q", *name)
}

// usage ends the program with status 2.
func usage(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "model: "+format+"\n", args...)
	os.Exit(2) //nolint:forbidigo // for main alone
}

// report prints what was found; a violation ends the program with status 1.
func report(trace []string, viol string) {
	if viol == "" {
		fmt.Println("no violation")
		return
	}
	fmt.Println("VIOLATION:", viol)
	for _, l := range trace {
		fmt.Println(l)
	}
	os.Exit(1) //nolint:forbidigo // for main alone
}
