package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A tally counts what has happened.
type tally [happenings]int

type happening uint8

const (
	aReply happening = iota
	aFlag
	aLoss
	anEnd // "gone"
	aRefusal
	aFailure
	aReport
	anEpoch
	aGrant
	aDelta
	aWhole // asked for, by who did not have what changes were made from
	aForward
	aStrike
	aDeath
	aRestart
	aBreak
	aHeal
	aDrain
	aLeave
	aTick
	aStop // of a clock, for a tick
	aTombstone
	anExpiry
	aForgetting
	aCut // of a lineage, since replies had not waited (36)
	happenings
)

//nolint:gochecknoglobals // a table
var happeningNames = [happenings]string{
	"replies", "of them flagged", "lost", "gone", "Not-Executed", "errors", "reported", "epochs", "grants", "deltas", "deltas without their base", "forwards", "strikes",
	"deaths", "restarts", "breaks", "heals", "drains", "members that left", "ticks", "clocks that stood still", "invalidations", "expiries", "records forgotten", "lineages cut",
}

func (t *tally) String() string {
	var b strings.Builder
	for k, n := range t {
		fmt.Fprintf(&b, ", %d %s", n, happeningNames[k])
	}
	return strings.TrimPrefix(b.String(), ", ")
}

// note counts h.
func (w *world) note(h happening) {
	if w.t != nil {
		w.t[h]++
	}
}

// seedScope draws what a seed explores: of everything that there is some.
func seedScope(rng *rand.Rand) scope {
	pick := func(of ...int) int { return of[rng.IntN(len(of))] }
	sc := scope{
		Name: "seed", Names: pick(2, 3, 3, 4, 4), Kinds: []uint8{kWrite, kWrite, kRead}, OldTab: true, Sync: true,
		Cli: pick(3, 4, 5, 6), Conc: pick(1, 2, 3), Bg: pick(0, 1, 2), Want: 1,
		Deaths: pick(0, 0, 1, 2), Restarts: pick(0, 1, 2), Cuts: pick(0, 1, 2), Tmos: pick(0, 1, 2),
	}
	if sc.Names > 2 && rng.IntN(3) == 0 {
		sc.Want = 2
	}
	if rng.IntN(4) == 0 {
		sc.Kinds = append(sc.Kinds, kInv)
	}
	if rng.IntN(4) == 0 {
		sc.Loose = 1
	}
	sc.Plain = rng.IntN(2) == 0
	if rng.IntN(4) == 0 {
		sc.Drains = pick(1, 2)
	}
	if rng.IntN(3) == 0 {
		sc.Ticks, sc.Slow, sc.Idle, sc.Life = pick(2, 4), pick(0, 0, 1), int8(pick(0, 2)), int8(pick(0, 2, 3))
		for n := range sc.Skew {
			sc.Skew[n] = uint8(rng.IntN(4))
		}
	}
	return sc
}

// seed walks one random way through what it draws, and adds to t what happened. If
// that led to a violation it tells how.
func seed(n uint64, t *tally) (steps int, trace []string, viol string) {
	rng := rand.New(rand.NewPCG(n, 44))
	sc := seedScope(rng)
	opt.Names, opt.Slow = sc.Names, rng.IntN(4) == 0
	steps, acts, viol := stroll(sc, rng, weightsOf(rng), 80, t)
	if viol != "" {
		trace = append([]string{fmt.Sprintf("seed %d: %+v", n, sc)}, replay(sc, acts)...)
	}
	return steps, trace, viol
}

// seeds walks seeds from first on.
func seeds(first uint64, n int, t *tally) (steps int, trace []string, viol string) {
	for k := range uint64(n) {
		more, trace, viol := seed(first+k, t)
		if steps += more; viol != "" {
			return steps, trace, viol
		}
	}
	return steps, nil, ""
}
