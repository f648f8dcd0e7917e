package owner

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var seedFlag = flag.Uint64("owner.seed", 0, "run only this seed of TestRandom, with its trace")

var runsFlag = flag.Int("owner.runs", 0, "sequences of TestRandom; zero means 5,000, or 500 with -short")

// TestRandom checks G1 to G7 of spec/ownership.md on the real machine,
// over random sequences of requests, messages and faults. A failure names its
// seed; -owner.seed repeats it with a trace.
func TestRandom(t *testing.T) {
	runs := 5000
	if testing.Short() {
		runs = 500
	}
	if *runsFlag > 0 {
		runs = *runsFlag
	}
	if *seedFlag != 0 {
		w := walk(t, *seedFlag, true)
		for _, l := range w.trace {
			t.Log(l)
		}
		if w.violation != "" {
			t.Errorf("seed %d: %s", *seedFlag, w.violation)
		}
		return
	}
	total := map[string]int{}
	failures := 0
	for seed := uint64(1); seed <= uint64(runs); seed++ {
		w := walk(t, seed, false)
		if w.violation != "" {
			failures++
			if failures <= 3 {
				w = walk(t, seed, true)
				t.Errorf("seed %d: %s", seed, w.violation)
				for _, l := range w.trace {
					t.Log(l)
				}
			} else {
				t.Errorf("seed %d: %s", seed, w.violation)
			}
			if failures > 20 {
				t.FailNow()
			}
		}
		w.count(total)
	}
	t.Logf("%d sequences: %v", runs, total)
	for _, k := range []string{"served", "flagged", "lost", "ended", "not executed", "failed", "conflicts", "late", "died", "forwards", "refused", "relocated", "outdated", "drained", "left"} {
		if total[k] == 0 {
			t.Errorf("no sequence had any %q: the walk does not reach what it is to check", k)
		}
	}
}

func (w *world) count(total map[string]int) {
	for _, c := range w.requests {
		if c.bg {
			continue
		}
		total["requests"]++
		total[map[Outcome]string{Served: "served", Ended: "ended", Lost: "lost", NotExecuted: "not executed", Failed: "failed"}[c.result.Outcome]]++
		if c.result.Flagged {
			total["flagged"]++
		}
	}
	total["conflicts"] += len(w.conflicts)
	total["died"] += w.died
	total["late"] += w.late
	total["relocated"] += w.relocated
	total["outdated"] += w.outdated
	total["drained"] += w.drained
	total["left"] += w.left
	total["forwards"] += w.sent[Forwarded]
	total["refused"] += w.sent[Refused]
	total["grants"] += w.sent[Grant]
}

// walk is one random sequence.
func walk(t *testing.T, seed uint64, trace bool) *world {
	rng := rand.New(rand.NewPCG(seed, 33))
	n, want := 2+min(int(seed%8), 2), uint8(1) // mostly four, some two and three
	if seed%4 == 3 {
		n, want = 3+rng.IntN(3), uint8(2+rng.IntN(2)) // several secondaries
	}
	w := newWorldOf(t, n, want, seed%7 == 5)
	w.tracing, w.auto = trace, false
	w.keep = func(n int) int {
		switch rng.IntN(3) {
		case 0:
			return 0
		case 1:
			return n
		}
		return rng.IntN(n + 1)
	}
	w.comesBack = func() bool { return rng.IntN(2) == 0 }
	g := &walker{
		w: w, rng: rng, reads: seed%3 == 0,
		drains: rng.IntN(3), requests: 3 + rng.IntN(5), deaths: rng.IntN(3), restarts: 2, cuts: rng.IntN(4), background: rng.IntN(3),
		invalidates: rng.IntN(4) == 0,
	}
	if rng.IntN(3) == 0 {
		g.cuts = 0 // only members go
	}
	w.pace = []int{0, 0, 30}[rng.IntN(3)] // the copies are told of accesses
	w.note("%d members, %d secondaries, %d requests, %d deaths, %d cuts", w.n, want, g.requests, g.deaths, g.cuts)
	if seed%5 == 1 {
		g.sides()
	}
	for range 60 + rng.IntN(240) {
		if w.violation != "" || !g.event() {
			break
		}
	}
	g.finish()
	return w
}

// A tab is a client with a cookie of its own.
type tab struct {
	cookie cookie
	seen   uint
	count  int
}

type walker struct {
	w     *world
	rng   *rand.Rand
	reads bool

	requests, deaths, restarts, cuts, background, drains int
	invalidates                                          bool
	apart                                                bool // connections that are cut stay so
	side                                                 int  // members on one side, a bit each
	readers                                              int  // members where meanwhile nobody writes
	tabs                                                 [2]tab
	bury                                                 [maxNodes][maxNodes]bool // cut links, which do not come back by themselves at once
}

// sides cuts the members into two sides, and lets each go on by itself for some
// time: both serve, one side only reads or makes new copies, and so on. Without
// that a walk hardly ever has two branches with something of worth in the lower one.
func (g *walker) sides() {
	w := g.w
	for range g.rng.IntN(20) {
		g.event()
	}
	side := 1 + g.rng.IntN(1<<w.n-2)
	w.note("members part: %b", side)
	for i := range w.n {
		for j := range i {
			if side>>i&1 != side>>j&1 {
				w.cut(i, j)
				w.lapse(i, j)
				w.lapse(j, i)
			}
		}
	}
	w.old, w.oldSeen, w.oldCount = w.jar, w.seen, w.counter
	g.side = side
	if g.rng.IntN(2) == 0 {
		g.readers = side
	}
	g.tabs = [2]tab{{w.jar, w.seen, w.counter}, {w.jar, w.seen, w.counter}}
	w.served = func(c *client) { g.tabs[side>>c.at.i&1] = tab{w.jar, w.seen, w.counter} }
	g.apart, g.requests, g.deaths = true, g.requests+3, min(g.deaths, g.rng.IntN(2))
	for range 40 + g.rng.IntN(80) {
		if w.violation != "" || !g.event() {
			break
		}
	}
	g.apart, g.readers, w.served = false, 0, nil
}

// event lets one thing happen, of those that can.
func (g *walker) event() bool {
	w := g.w
	var acts []func()
	add := func(weight int, f func()) {
		for range weight {
			acts = append(acts, f)
		}
	}
	busy := 0
	for _, c := range w.requests {
		switch {
		case c.over || c.bg:
		case c.retry:
			busy++
			add(2, func() { g.retry(c) })
		case c.running:
			busy++
			add(2, func() { w.finish(c) })
		default:
			busy++
		}
	}
	if g.requests > 0 && busy < 3 {
		add(3, g.request)
	}
	up := 0
	for _, n := range w.nodes {
		if !n.up {
			if g.restarts > 0 {
				add(1, func() {
					g.restarts--
					w.restart(n.i, func(j int) bool { return !g.bury[n.i][j] })
				})
			}
			continue
		}
		up++
		for j, c := range n.conns {
			if c != nil && len(c.in) > 0 {
				add(4, func() { w.deliver(n, j) })
			}
			if x := j; x < w.n && x != n.i {
				g.pair(add, n, x)
			}
		}
		if r := n.rec(); g.background > 0 && r.Primary == n.self && len(r.Copies) > 0 && n.ready() {
			add(1, func() {
				g.background--
				w.relocated++
				w.note("%v moves its copy from %v", n.self, r.Copies[0])
				n.step(Event{Kind: Relocate, Peer: r.Copies[0]})
			})
		}
		if r := n.rec(); g.background > 0 && w.outdated == 0 && r.Primary == n.self && n.ready() && !n.m.Busy() && g.outdated(&r) {
			add(8, func() { // nobody has used it here for long
				g.background--
				w.outdated++
				w.note("%v finds the session over", n.self)
				w.reported |= bitsOf(r.Attrs)
				n.step(Event{Kind: Expire})
			})
		}
		if r := n.rec(); g.background > 0 && r.Held() && !r.Dead && n.ready() {
			add(1, func() {
				g.background--
				c := &client{op: w.newOp(), bg: true, at: n}
				c.op.Owner = c
				w.note("background at %v", n.self)
				relieved := Member{}
				if g.rng.IntN(2) == 0 { // the primary drains
					relieved = n.rec().Primary
				}
				n.step(Event{Kind: Recover, Op: c.op, Peer: relieved})
			})
		}
	}
	for _, n := range w.nodes {
		if n.up && up > 1 && g.deaths > 0 {
			add(1, func() { g.deaths--; w.die(n.i) })
		}
		if n.up && up > 2 {
			g.drain(add, n)
		}
	}
	add(1, func() { w.promises() })
	if len(acts) == 0 {
		return false
	}
	acts[g.rng.IntN(len(acts))]()
	return true
}

// drain adds what happens while n drains, and its end (R16).
func (g *walker) drain(add func(int, func()), n *node) {
	w := g.w
	if !n.drains {
		if g.drains > 0 && n.ready() {
			add(1, func() {
				g.drains--
				n.drains = true
				w.drained++
				w.note("%v drains", n.self)
			})
		}
		return
	}
	busy := slices.ContainsFunc(w.requests, func(c *client) bool { return c.at == n && !c.over && !c.retry })
	if n.m == nil && !busy {
		add(3, func() { w.leave(n.i) })
	}
	for _, x := range w.nodes {
		r := x.rec()
		switch {
		case x == n || !x.ready() || x.drains || !r.Held() || r.Dead || x.m.Busy():
		case r.Primary == n.self && r.HasCopy(x.self):
			add(1, func() {
				w.note("%v relieves %v", x.self, n.self)
				c := &client{op: w.newOp(), bg: true, at: x}
				c.op.Owner = c
				x.step(Event{Kind: Recover, Op: c.op, Peer: n.self})
			})
		case r.Primary == x.self && r.HasCopy(n.self):
			add(1, func() {
				w.note("%v moves its copy from %v", x.self, n.self)
				x.step(Event{Kind: Relocate, Peer: n.self})
			})
		}
	}
}

// outdated reports whether the session of the record r is another branch now, which
// is in use.
func (g *walker) outdated(r *Record) bool {
	return !r.Dead && slices.ContainsFunc(g.w.nodes, func(n *node) bool {
		x := n.rec()
		return n.up && x.Held() && !x.Dead && x.Above(&r.Header) && !r.Descends(x.Epoch)
	})
}

// pair adds what can happen between n and j, as n sees it.
func (g *walker) pair(add func(int, func()), n *node, j int) {
	w := g.w
	x := w.nodes[j]
	c := n.conns[j]
	live := c != nil && c.end != nil
	switch {
	case live && c.up && !w.lease[n.i][j] && x.conns[n.i].up:
		add(1, func() { x.sendTo(n.self, frame{kind: beat}) })
	case !live && w.lease[n.i][j]:
		add(2, func() { w.note("the lease of %v by %v is over", n.self, x.self); w.lapse(n.i, j) })
	case live && c.up && g.rng.IntN(20) == 0:
		add(1, func() { w.lapse(n.i, j) })
	}
	if c == nil && !x.up && !n.gone[x.self] {
		add(2, func() { w.note("%v: %v is proven gone", n.self, x.self); w.prove(n, x) })
	}
	if c == nil && x.up && g.rng.IntN(10) == 0 && n.m != nil {
		add(1, func() {
			w.note("%v has not heard of %v for 5 s", n.self, x.self)
			if w.promised(n, x.self) {
				return
			}
			n.back[x.self] = false
			n.step(Event{Kind: PeerLost, Peer: x.self})
		})
	}
	if c == nil && n.back[x.self] {
		add(2, func() { w.away(n, x.self) })
	}
	if j > n.i || !x.up {
		return
	}
	if live && g.cuts > 0 {
		add(1, func() {
			g.cuts--
			w.note("%v | %v", n.self, x.self)
			w.cut(n.i, j)
			g.bury[n.i][j], g.bury[j][n.i] = true, true
			if g.rng.IntN(3) == 0 { // all of them
				for k := range w.n {
					if k != n.i && w.nodes[k].up {
						w.cut(n.i, k)
						g.bury[n.i][k], g.bury[k][n.i] = true, true
					}
				}
			}
		})
	}
	if !live && !g.apart {
		add(1, func() {
			w.note("%v and %v connect", n.self, x.self)
			g.bury[n.i][j], g.bury[j][n.i] = false, false
			w.connect(n.i, j)
		})
	}
}

func (g *walker) request() {
	w := g.w
	at := w.nodes[g.rng.IntN(w.n)]
	if !at.ready() {
		return
	}
	g.requests--
	c := &client{kind: write, cookie: w.jar, seen: w.seen, seenCount: w.counter, acked: w.acked, invAtAll: w.invalidated, two: g.rng.IntN(5) == 0, plain: g.rng.IntN(4) == 0}
	if g.rng.IntN(4) == 0 {
		c.cookie, c.seen, c.seenCount = w.old, w.oldSeen, w.oldCount
	}
	if g.apart {
		x := &g.tabs[g.side>>at.i&1]
		c.cookie, c.seen, c.seenCount = x.cookie, x.seen, x.count
	}
	switch k := g.rng.IntN(10); {
	case k < 3, g.readers>>at.i&1 == 1:
		c.kind = read
	case k == 3 && g.invalidates:
		c.kind = invalidate
	}
	if c.kind == write {
		c.bit = 1 << w.nextBit
		w.nextBit++
	}
	if g.rng.IntN(4) == 0 {
		w.old, w.oldSeen, w.oldCount = w.jar, w.seen, w.counter // from now on this is the old tab
	}
	w.requests = append(w.requests, c)
	w.arrive(c, at)
}

// retry: the proxy brings a request that was not executed to another member, or
// gives it up.
func (g *walker) retry(c *client) {
	w := g.w
	at := w.nodes[g.rng.IntN(w.n)]
	if c.tries > 3 || g.rng.IntN(6) == 0 {
		c.over, c.retry = true, false
		return
	}
	if at.ready() && at != c.at {
		w.arrive(c, at)
	}
}

// finish lets everything come to rest, all connections included, and looks at
// what is left.
func (g *walker) finish() {
	w := g.w
	w.note("the end: all is connected and comes to rest")
	g.requests, g.deaths, g.cuts, g.background, g.drains = 0, 0, 0, 0, 0
	for _, n := range w.nodes {
		n.drains = false // they think better of it
	}
	for range 20 {
		if w.violation != "" {
			return
		}
		w.settle()
		for i := range w.n {
			for j := range w.n {
				if w.nodes[i].conns[j] == nil || w.nodes[i].conns[j].end == nil {
					w.lapse(i, j)
				} else if i != j && w.nodes[i].up {
					w.lease[i][j] = true
				}
			}
		}
		for _, c := range w.requests {
			if c.running {
				w.finish(c)
			}
			if c.retry {
				c.over, c.retry = true, false
			}
		}
		for i := range w.n {
			for j := range i {
				a, b := w.nodes[i], w.nodes[j]
				if a.up && b.up && (a.conns[j] == nil || a.conns[j].end == nil) {
					w.connect(i, j)
				}
			}
		}
	}
	for _, c := range w.requests {
		if !c.over {
			w.bad("%v %b at %v waits for ever", c.kind, c.bit, c.at.self)
			return
		}
	}
	for _, n := range w.nodes {
		if n.up && n.m != nil && n.m.Busy() {
			w.bad("something is under way at %v for ever", n.self)
		}
	}
	for _, n := range w.nodes { // R14, as the driver does it
		if r := n.rec(); n.up && r.Held() && !r.Dead && (n.gone[r.Primary] || r.Primary.IsZero()) {
			c := &client{op: w.newOp(), bg: true, at: n}
			c.op.Owner = c
			w.note("%v recovers", n.self)
			n.step(Event{Kind: Recover, Op: c.op})
			w.settle()
		}
	}
	g.last()
}

// last: one more request with the newest cookie. What was acknowledged is
// there, or was reported.
func (g *walker) last() {
	w := g.w
	if w.violation != "" {
		return
	}
	dead, live := false, false
	for _, n := range w.nodes {
		r := n.rec()
		dead = dead || n.up && r.Dead
		live = live || n.up && r.Held() && !r.Dead
	}
	if dead && live {
		w.bad("after the heal: a tombstone and a live copy")
		return
	}
	var at *node
	for _, n := range w.nodes {
		if n.up {
			at = n
		}
	}
	c := &client{kind: read, cookie: w.jar, seen: w.seen, seenCount: w.counter, acked: w.acked, invAtAll: w.invalidated, slow: false}
	w.requests = append(w.requests, c)
	w.auto = true
	w.arrive(c, at)
	for range 20 {
		w.settle()
	}
	if !c.over {
		w.bad("the last request waits for ever")
	}
	g.whole()
	if w.everBuried || w.violation != "" || w.died > 0 && (w.fault || w.gone) {
		return
	}
	if c.result.Outcome != Served {
		w.bad("after the heal: outcome %d", c.result.Outcome)
	}
	if lost := w.acked &^ (c.replied | w.reported); lost != 0 {
		w.bad("after the heal: acknowledged %b is lost and not reported", lost)
	}
	if v := (version{c.result.Header.Epoch, c.result.Header.Version}); w.counts[v] < w.ackedCount && !w.lastWins && len(w.conflicts)+w.outdated == 0 {
		w.bad("after the heal: counted to %d with acknowledgement, now %d, and nothing is reported", w.ackedCount, w.counts[v])
	}
}

// whole is G6: when all is connected and quiet there is one primary, with as many
// copies as there are to be, and all that is held is the same.
func (g *walker) whole() {
	w := g.w
	var p *node
	up, held := 0, 0
	for _, n := range w.nodes {
		r := n.rec()
		if n.up {
			up++
		}
		if !n.up || !r.Held() || r.Dead {
			continue
		}
		held++
		if r.Primary == n.self {
			if p != nil {
				w.bad("at rest: two primaries, %v and %v", p.self, n.self)
			}
			p = n
		}
	}
	switch {
	case held == 0 || w.violation != "":
		return
	case p == nil:
		w.bad("at rest: no primary")
		return
	}
	r := p.rec()
	if want := min(int(w.want), up-1); len(r.Copies) != want {
		w.bad("at rest: %d copies, want %d", len(r.Copies), want)
	}
	for _, n := range w.nodes {
		if x := n.rec(); n.up && x.Held() && (x.Epoch != r.Epoch || x.Version != r.Version || !r.Names(n.self)) {
			w.bad("at rest: %v holds %s, the primary %s", n.self, showHeader(&x.Header), showHeader(&r.Header))
		}
	}
}
