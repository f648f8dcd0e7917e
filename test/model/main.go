package main

import (
	"bytes"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
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
			var a uint16
			stop := false
			next(&it.s, &sc, func(_ string, w *world) {
				act := a
				a++
				if stop {
					return
				}
				if w.viol != "" {
					links = append(links, link{it.id, act})
					trace, viol = replay(sc, links, int32(len(links)-1)), w.viol
					stop = true
					return
				}
				h := hash(&w.s)
				if _, ok := seen[h]; ok {
					return
				}
				seen[h] = struct{}{}
				links = append(links, link{it.id, act})
				nextLevel = append(nextLevel, item{w.s, int32(len(links) - 1)})
			})
			if stop {
				return len(seen), depth + 1, false, trace, viol
			}
		}
		level = nextLevel
		depth++
	}
	return len(seen), depth, true, nil, ""
}

func replay(sc scope, links []link, id int32) []string {
	var acts []uint16
	for ; links[id].parent >= 0; id = links[id].parent {
		acts = append([]uint16{links[id].act}, acts...)
	}
	tracing = true
	defer func() { tracing = false }()
	s := initial(sc)
	lines := []string{"      " + show(&s)}
	for _, act := range acts {
		var a uint16
		var t State
		next(&s, &sc, func(l string, w *world) {
			if a == act {
				t = w.s
				lines = append(lines, "  "+l)
			}
			a++
		})
		s = t
		lines = append(lines, "      "+show(&s))
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
		fmt.Fprintf(&b, "%s:%v ", mname(s.now(n)), s.Nodes[n].R)
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
		s := initial(sc)
		var acts []link
		acts = append(acts, link{-1, 0})
		for range length {
			var ws []world
			next(&s, &sc, func(_ string, w *world) { ws = append(ws, *w) })
			if len(ws) == 0 {
				break
			}
			k := rng.IntN(len(ws))
			for i := range ws {
				if ws[i].viol != "" {
					k = i
				}
			}
			acts = append(acts, link{int32(len(acts) - 1), uint16(k)})
			steps++
			if ws[k].viol != "" {
				return steps, replay(sc, acts, int32(len(acts)-1)), ws[k].viol
			}
			s = ws[k].s
		}
	}
	return steps, nil, ""
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
	seed := flag.Uint64("seed", 1, "of the walks")
	without := flag.String("without", "", "rules to switch off, parted by commas: those of rule in rules.go")
	with := flag.String("with", "", "slow,majority,forwardnot")
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
			n, trace, viol := walk(sc, *random, *length, time.Duration(*secs)*time.Second, *seed)
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
