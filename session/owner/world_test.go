package owner

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// world is a cluster in one goroutine: members with the real machine, ordered
// connections between them, clients. Leases, promises and proofs of death are
// conditions that the script or the random walk moves; there is no clock.
//
// A write sets an attribute of its own, so what a record knows is a set of
// bits, and "lost" and "went back" are questions about sets. It also adds one to
// a counter, as two requests do that change the same attribute.
type world struct {
	t     *testing.T
	n     int
	nodes []*node
	lease [maxNodes][maxNodes]bool // lease[i][j]: i may rely on j
	ops   uint64

	jar, old      cookie // the newest and an old cookie of the client
	seen, oldSeen uint   // what the client saw with it
	acked         uint   // what any client saw
	ackedAt       cookie // the highest epoch in any reply
	counter       int    // the counter, as the client of the newest cookie saw it
	oldCount      int
	ackedCount    int  // the highest that any client saw
	lastWins      bool // two requests changed the counter at one primary at once (N6)
	counts        map[version]int
	reported      uint // handed to OnConflict
	invalidated   bool // an invalidation was acknowledged
	everBuried    bool
	fault, gone   bool // a connection between living members broke; nobody living held all that was acknowledged
	died, nextBit int
	relocated     int // copies that moved from one living member to another
	drained, left int // members that were to leave, and that did
	pace          int // of the clients' clock, for each request
	outdated      int // sessions that seemed over to who had lost them
	requests      []*client
	auto          bool // handlers return at once
	want          uint8
	loose         bool // replies do not wait for copies
	content       map[version]uint
	held          [maxNodes][maxNodes]bool // scripts: nothing from i is delivered to j
	violation     string
	tracing       bool
	trace         []string
	conflicts     []*Conflict
	late          int             // requests whose changes came too late
	alone         bool            // scripts: nobody may get a new copy
	keep          func(n int) int // how much of n messages on a breaking connection arrives
	served        func(*client)   // told of each reply that is no error
	comesBack     func() bool     // whether the end of a connection leaves the other Returning; nil: never
	sent          map[MessageKind]int
}

const maxNodes = 5

type version struct {
	epoch   Epoch
	version uint64
}

type cookie struct {
	epoch     Epoch
	primary   int    // by name
	secondary string // by name
}

// node is one boot of one member.
type node struct {
	w       *world
	i       int
	self    Member
	up      bool
	m       *Machine
	conns   [maxNodes]*conn
	drains  bool // it is to get no copies, and to give away what it has
	gone    map[Member]bool
	back    map[Member]bool // Returning
	reign   uint32
	waits   []Member
	returns []*client     // handlers that return at once
	era     int           // counts connections that ended
	ended   [maxNodes]int // era in which that to j ended
	moved   int           // era of the last Changed
	fresh   map[int]bool  // members with which this boot has to compare before it is ready
}

// conn is one end of a connection.
type conn struct {
	peer *node
	end  *conn // the other end, nil once the connection broke
	in   []frame
	up   bool
	sent bool
}

type frameKind uint8

const (
	message frameKind = iota
	sentAll
	done
	beat
	eof
)

type frame struct {
	kind  frameKind
	msg   Message
	fresh bool
}

type kind uint8

const (
	write kind = iota
	read
	invalidate
)

func (k kind) String() string { return [...]string{"write", "read", "invalidate"}[k] }

// client is one request, over all members to which it is brought.
type client struct {
	op        *Op
	kind      kind
	at        *node
	cookie    cookie
	bit       uint
	seen      uint // what the client of this cookie had seen
	acked     uint // what any client had seen when this was sent
	invBefore bool // the invalidation was acknowledged before, and the member must know
	invAtAll  bool
	running   bool
	two       bool // will flush in the middle
	inFlush   bool // a Flush is under way
	flushed   bool // the Flush was acknowledged
	failed    bool // the Flush was not
	snapshot  uint
	read      int  // the counter, as the handler saw it
	away      bool // its member was not the primary at some time since
	seenCount int  // the counter, as the client of this cookie had seen it
	runs      int
	tries     int
	retry     bool // Not-Executed, may be brought elsewhere
	over      bool
	result    Result
	replied   uint // what the reply stands for
	slow      bool
	plain     bool // writes its own attribute only
	bg        bool
}

// newWorld is a cluster of n members with so many secondaries per session.
func newWorld(t *testing.T, n int, want uint8) *world { return newWorldOf(t, n, want, false) }

func newWorldOf(t *testing.T, n int, want uint8, loose bool) *world {
	w := &world{t: t, n: n, want: want, loose: loose, auto: true, content: map[version]uint{}, counts: map[version]int{}, keep: func(int) int { return 0 }, sent: map[MessageKind]int{}}
	for i := range n {
		w.nodes = append(w.nodes, w.boot(i, uint32(i+1)))
	}
	for i := range n {
		for j := range i {
			w.connect(i, j)
		}
	}
	w.settle()
	for i := range n {
		for j := range n {
			w.lease[i][j] = i != j
		}
	}
	// The session: A!B, epoch 1A, version 1.
	c := &client{kind: write, at: w.nodes[0], op: w.newOp(), bit: 1}
	c.op.Owner = c
	w.nextBit = 1
	w.requests = append(w.requests, c)
	c.runs, c.running, c.slow = 1, true, true
	w.nodes[0].step(Event{Kind: Create, Op: c.op, Changes: Changes{{Key: key(0), Value: []byte("1")}}, Expiry: Expiry{Idle: 1000, Access: 1}})
	w.nodes[0].step(Event{Kind: Return, Op: c.op})
	w.settle()
	w.requests = nil
	w.old, w.oldSeen = w.jar, w.seen
	return w
}

func key(bit int) string { return fmt.Sprintf("x%d", bit) }

func (w *world) newOp() *Op {
	w.ops++
	return &Op{ID: w.ops}
}

func (w *world) boot(i int, boot uint32) *node {
	return &node{w: w, i: i, self: Member{Name: string(rune('A' + i)), Boot: boot}, up: true, gone: map[Member]bool{}, back: map[Member]bool{}, fresh: map[int]bool{}}
}

func (w *world) bad(format string, a ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, a...)
		w.note("VIOLATION: %s", w.violation)
	}
}

func (w *world) note(format string, a ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, a...))
	}
}

// Env.

func (n *node) Self() Member { return n.self }

func (n *node) Peer(p Member) (f Facts) {
	if p.IsZero() || p == n.self {
		return 0
	}
	i := int(p.Name[0] - 'A')
	if c := n.conns[i]; c != nil && c.up && c.peer.self == p {
		f |= Connected
	}
	if n.gone[p] {
		f |= Gone
	}
	if n.back[p] {
		f |= Returning
	}
	if n.w.lease[n.i][i] && n.boots(i) == p.Boot {
		f |= Leased
	}
	if n.w.promised(n, p) {
		f |= Promised
	}
	return f
}

// boots is the boot of i for which this member's lease counts.
func (n *node) boots(i int) uint32 { return n.w.nodes[i].self.Boot }

// promised: p may still rely on n, or an answer that would let it is on its way.
func (w *world) promised(n *node, p Member) bool {
	x := w.nodes[int(p.Name[0]-'A')]
	if x.self != p || !x.up {
		return false
	}
	if w.lease[x.i][n.i] {
		return true
	}
	if c := x.conns[n.i]; c != nil && c.peer == n {
		for k := range c.in {
			if c.in[k].fresh {
				return true
			}
		}
	}
	return false
}

func (n *node) Connected() (out []Member) {
	for _, c := range n.conns {
		if c != nil && c.up {
			out = append(out, c.peer.self)
		}
	}
	return out
}

func (n *node) Candidates() (out []Member) {
	for k := 1; k < n.w.n && !n.w.alone; k++ {
		if c := n.conns[(n.i+k)%n.w.n]; c != nil && c.up && !c.peer.drains {
			out = append(out, c.peer.self)
		}
	}
	return out
}

func (n *node) NextReign() Reign {
	n.reign++
	return Reign{Boot: n.self.Boot, Seq: n.reign}
}

func (n *node) ready() bool { return n.up && len(n.fresh) == 0 }

func (n *node) machine() *Machine {
	if n.m == nil {
		n.m = &Machine{Want: n.w.want, Loose: n.w.loose}
	}
	return n.m
}

func (n *node) rec() Record {
	if n.m == nil {
		return Record{}
	}
	return n.m.Record()
}

func (n *node) step(ev Event) {
	m := n.machine()
	acts := m.Step(n, &ev, nil)
	if m.Empty() {
		n.m = nil
	}
	n.w.checkRecord(n)
	n.w.checkPassing(n, acts)
	for i := range acts {
		n.do(&acts[i])
	}
	for n.up && len(n.returns) > 0 { // after all that the step sent
		c := n.returns[0]
		n.returns = n.returns[1:]
		n.w.finish(c)
	}
}

func bitsOf(a Attrs) (set uint) {
	for _, x := range a {
		var b int
		if _, err := fmt.Sscanf(x.Key, "x%d", &b); err == nil {
			set |= 1 << b
		}
	}
	return set
}

// countOf is the counter.
func countOf(a Attrs) int {
	v, _ := a.Get("n")
	n, _ := strconv.Atoi(string(v))
	return n
}

func (w *world) checkRecord(n *node) {
	r := n.rec()
	if !r.Held() || r.Dead {
		return
	}
	for _, c := range w.requests {
		c.away = c.away || c.at == n && !c.over && r.Primary != n.self
	}
	v := version{r.Epoch, r.Version}
	w.counts[v] = countOf(r.Attrs)
	d := bitsOf(r.Attrs)
	if have, ok := w.content[v]; ok && have != d {
		w.bad("%v has %v version %d with %b, which was %b elsewhere", n.self, v.epoch, v.version, d, have)
	}
	w.content[v] = d
}

// checkPassing notes what a record had in an epoch that it was in during a step
// only: a copy was struck, the reply that waited for it left, and the session was
// given away, or changed by another request. A new epoch begins with what there
// was.
func (w *world) checkPassing(n *node, acts []Action) {
	r := n.rec()
	for i := range acts {
		h := &acts[i].Result.Header
		v := version{h.Epoch, h.Version}
		if _, ok := w.content[v]; ok || acts[i].Kind != Reply || acts[i].Result.Outcome != Served || !r.Descends(h.Epoch) {
			continue
		}
		if r.Version == h.Version {
			w.content[v] = bitsOf(r.Attrs)
			continue
		}
		for e := v; e.epoch.N > 0; e.epoch.N-- {
			if d, ok := w.content[e]; ok && r.Descends(e.epoch) {
				w.content[v] = d
				break
			}
		}
	}
}

func (n *node) do(a *Action) {
	w := n.w
	switch a.Kind {
	case Send:
		w.sent[a.Message.Kind]++
		n.sendTo(a.To, frame{msg: a.Message})
	case Changed:
		n.moved = n.era
		for _, c := range n.conns {
			if c != nil && !c.up && n.m != nil {
				n.header(c)
			}
		}
	case Wait:
		if !slices.Contains(n.waits, a.To) {
			n.waits = append(n.waits, a.To)
		}
	case Report:
		if !a.Conflict.Late {
			w.conflicts = append(w.conflicts, a.Conflict)
		}
		lost := bitsOf(a.Conflict.Lost)
		w.note("    %v reports %b", n.self, lost)
		w.reported |= lost
		if a.Conflict.Late {
			w.late++
			if lost&w.acked != 0 && len(w.conflicts) == 0 {
				w.bad("%b was acknowledged and is reported as late", lost)
			}
			break
		}
		mine, theirs := a.Conflict.Mine, a.Conflict.Theirs
		data, ok := w.content[version{theirs.Epoch, theirs.Version}]
		own := w.content[version{mine.Epoch, mine.Version}]
		if ok && own&^data&w.acked != 0 && data&^own == 0 && w.died == 0 && (mine.Primary == n.self || !w.elsewhere(n, own&^data&w.acked)) {
			w.bad("acknowledged %b is lost to a branch in which nobody has changed anything", own&^data)
		}
		if !w.fault && !w.gone && lost&w.acked != 0 && a.Conflict.Exact {
			w.bad("acknowledged %b overwritten by another branch, without any partition", lost&w.acked)
		}
	case Handle:
		c, _ := a.Op.Owner.(*client)
		c.runs++
		c.running, c.snapshot, c.read, c.away = true, bitsOf(a.Result.Attrs), countOf(a.Result.Attrs), false
		w.note("    %v handles %v %b on %b, counter %d", n.self, c.kind, c.bit, c.snapshot, c.read)
		if w.auto && !c.slow {
			n.returns = append(n.returns, c)
		}
	case Reply:
		w.reply(a.Op.Owner.(*client), &a.Result)
	}
}

// elsewhere reports whether somebody else than n holds all of data.
func (w *world) elsewhere(n *node, data uint) bool {
	return slices.ContainsFunc(w.nodes, func(x *node) bool {
		r := x.rec()
		return x != n && x.up && r.Held() && !r.Dead && data&^bitsOf(r.Attrs) == 0
	})
}

func (n *node) sendTo(to Member, f frame) {
	i := int(to.Name[0] - 'A')
	c := n.conns[i]
	if c == nil || c.peer.self != to || c.end == nil {
		return
	}
	f.fresh = c.up && (f.kind == beat || f.kind == message && f.msg.Kind == Ack)
	c.end.in = append(c.end.in, f)
}

func (n *node) header(c *conn) {
	n.w.sent[Compare]++
	n.sendTo(c.peer.self, frame{msg: Message{Kind: Compare, Header: n.rec().Header, Expiry: n.rec().Expiry}})
}

// Connections.

// connect begins a connection between the present boots of i and j.
func (w *world) connect(i, j int) {
	a, b := w.nodes[i], w.nodes[j]
	w.close(a, j)
	w.close(b, i)
	ca, cb := &conn{peer: b}, &conn{peer: a}
	ca.end, cb.end = cb, ca
	a.conns[j], b.conns[i] = ca, cb
	for _, n := range []*node{a, b} {
		c := ca
		if n == b {
			c = cb
		}
		if n.m != nil && (n.m.Concerns(c.peer.self) || n.moved >= n.ended[c.peer.i]) {
			n.header(c)
		}
		n.sendTo(c.peer.self, frame{kind: sentAll})
	}
}

// close ends n's end of the connection to j, if there is one: what is on it is
// never read (C1).
func (w *world) close(n *node, j int) {
	c := n.conns[j]
	if c == nil {
		return
	}
	n.conns[j] = nil
	n.era++
	if c.up {
		n.ended[j] = n.era
	}
	if c.end != nil {
		c.end.end = nil
		c.end = nil
	}
	n.back[c.peer.self] = c.up && w.comesBack != nil && w.comesBack()
	if n.m != nil && n.up {
		n.step(Event{Kind: PeerDown, Peer: c.peer.self})
	}
	w.prove(n, c.peer)
}

// away ends the time that n gives p to come back.
func (w *world) away(n *node, p Member) {
	if n.back[p] = false; n.m != nil {
		w.note("%v: %v is not back in time", n.self, p)
		n.step(Event{Kind: PeerAway, Peer: p})
	}
}

// prove lets n learn that x is gone, if it is and n has no connection to it any more.
func (w *world) prove(n, x *node) {
	if !n.up || x.up || n.gone[x.self] || n.conns[x.i] != nil && n.conns[x.i].peer == x {
		return
	}
	n.gone[x.self], n.back[x.self] = true, false
	delete(n.fresh, x.i)
	if n.m != nil {
		n.step(Event{Kind: PeerLost, Peer: x.self})
	}
}

// cut breaks the connection of i and j. Part of what is on it may still arrive.
func (w *world) cut(i, j int) {
	a, b := w.nodes[i], w.nodes[j]
	if a.up && b.up {
		w.fault = true
	}
	for _, c := range []*conn{a.conns[j], b.conns[i]} {
		if c == nil {
			continue
		}
		if c.end != nil {
			c.in = c.in[:w.keep(len(c.in))]
			c.in = append(c.in, frame{kind: eof})
			c.end = nil
		}
	}
}

func (w *world) die(i int) {
	n := w.nodes[i]
	w.note("%v dies", n.self)
	w.died++
	n.up = false
	for j := range w.n {
		w.lease[i][j] = false
		if c := n.conns[j]; c != nil && c.end != nil {
			c.end.in = append(c.end.in[:w.keep(len(c.end.in))], frame{kind: eof})
			c.end.end = nil
		}
		n.conns[j] = nil
	}
	for _, c := range w.requests {
		if c.at == n && !c.over && !c.retry {
			c.over, c.running = true, false
		}
	}
	n.m = nil
	if !w.holds(w.acked) {
		w.gone = true
	}
}

// leave has i go, which drains and holds nothing any more: what it has sent
// arrives.
func (w *world) leave(i int) {
	keep, held := w.keep, w.holds(w.acked)
	w.keep = func(n int) int { return n }
	w.note("%v leaves", w.nodes[i].self)
	w.die(i)
	w.keep = keep
	w.died--
	w.left++
	if held && !w.holds(w.acked) {
		w.bad("%v had the last copy", w.nodes[i].self)
	}
}

// restart brings a new boot of i, connected to all that are reachable, as far
// as reach says.
func (w *world) restart(i int, reach func(j int) bool) {
	old := w.nodes[i]
	n := w.boot(i, old.self.Boot+10)
	w.nodes[i] = n
	w.note("%v starts", n.self)
	for j := range w.n {
		w.lease[j][i] = false
	}
	for j := range w.n {
		if j == i || !w.nodes[j].up {
			continue
		}
		x := w.nodes[j]
		w.close(x, i)
		if !x.gone[old.self] {
			x.gone[old.self], x.back[old.self] = true, false
			if x.m != nil {
				x.step(Event{Kind: PeerLost, Peer: old.self})
			}
		}
		if reach(j) {
			n.fresh[j] = true
			w.connect(i, j)
		}
	}
}

// deliver lets n read one frame from j.
func (w *world) deliver(n *node, j int) {
	c := n.conns[j]
	f := c.in[0]
	c.in = c.in[1:]
	switch f.kind {
	case eof:
		w.note("%v: the connection to %v has ended", n.self, c.peer.self)
		w.close(n, j)
	case beat:
		if c.up && f.fresh {
			w.lease[n.i][j] = true
		}
	case sentAll:
		c.sent = true
		n.sendTo(c.peer.self, frame{kind: done})
	case done:
		c.up, n.back[c.peer.self] = true, false
		w.note("%v is connected with %v", n.self, c.peer.self)
		delete(n.fresh, j)
		if n.m != nil {
			n.step(Event{Kind: PeerUp, Peer: c.peer.self})
		}
	case message:
		if w.tracing {
			w.note("%v -> %v: %s", c.peer.self, n.self, show(&f.msg))
		}
		if f.msg.Kind == Ack && f.fresh && c.up {
			w.lease[n.i][j] = true
		}
		n.step(Event{Kind: Receive, Peer: c.peer.self, Message: &f.msg})
	}
	if w.tracing && f.kind == message {
		w.note("    %s", w.state())
	}
}

// lapse: i's lease by j runs out; what j has answered is too old.
func (w *world) lapse(i, j int) {
	w.lease[i][j] = false
	if c := w.nodes[i].conns[j]; c != nil {
		for k := range c.in {
			c.in[k].fresh = false
		}
	}
}

// promises reports the promises whose end somebody waits for.
func (w *world) promises() bool {
	moved := false
	for _, n := range w.nodes {
		for k := 0; n.up && k < len(n.waits); {
			p := n.waits[k]
			f := n.Peer(p)
			if f&(Promised|Connected) != 0 && f&Gone == 0 {
				k++
				continue
			}
			n.waits = slices.Delete(n.waits, k, k+1)
			moved = true
			w.note("%v: the promise to %v is over", n.self, p)
			if n.m != nil {
				n.step(Event{Kind: PromiseOver, Peer: p})
			}
		}
	}
	return moved
}

// settle delivers all that is not held, until nothing moves. Promises do not
// end by themselves.
func (w *world) settle() {
	for moved, count := true, 0; moved; {
		if count++; count > 1000 {
			w.bad("messages without end")
			return
		}
		moved = false
		for _, n := range w.nodes {
			for j := range w.n {
				for k := 0; k < 1000 && n.up && n.conns[j] != nil && len(n.conns[j].in) > 0 && !w.held[j][n.i]; k++ {
					w.deliver(n, j)
					moved = true
				}
			}
		}
		for _, n := range w.nodes {
			for _, x := range w.nodes {
				if n != x && n.up && !x.up && !n.gone[x.self] && n.conns[x.i] == nil {
					w.prove(n, x)
					moved = true
				}
			}
		}
		moved = w.promises() || moved
	}
}

// Clients.

func (w *world) arrive(c *client, at *node) {
	c.at, c.op, c.retry = at, w.newOp(), false
	c.op.Owner = c
	c.tries++
	c.invBefore = false
	if w.invalidated && c.invAtAll {
		for j, cn := range at.conns[:w.n] {
			x := w.nodes[j]
			if cn == nil || !cn.up || cn.end == nil || cn.peer != x || x.conns[at.i] == nil || !x.conns[at.i].up || !x.rec().Dead {
				continue
			}
			c.invBefore = !slices.ContainsFunc(cn.in, func(f frame) bool { return f.kind == message && f.msg.Header.Dead })
			break
		}
	}
	w.note("%v %b with %v!%v arrives at %v", c.kind, c.bit, string(rune('A'+c.cookie.primary)), c.cookie.epoch, at.self)
	ev := Event{Kind: Request, Op: c.op, Cookie: c.cookie.epoch, Expiry: Expiry{Access: int64(w.ops) * int64(1+w.pace)}}
	if p := w.nodes[c.cookie.primary]; p.up || !at.gone[p.self] {
		ev.Primary = p.self
	}
	if c.cookie.secondary != "NONE" {
		if p := w.nodes[int(c.cookie.secondary[0]-'A')]; p.up || !at.gone[p.self] {
			ev.Secondary = p.self
		}
	}
	at.step(ev)
	if w.tracing {
		w.note("    %s", w.state())
	}
}

// finish: the handler returns.
func (w *world) finish(c *client) {
	ev := Event{Kind: Return, Op: c.op}
	if c.kind == write && c.bit != 0 {
		ev.Changes = Changes{{Key: key(bits.TrailingZeros(c.bit)), Value: []byte("1")}, {Key: "n", Value: []byte(strconv.Itoa(c.read + 1))}}
		if c.plain {
			ev.Changes = ev.Changes[:1]
		}
		if r := c.at.rec(); !c.away && !c.flushed && countOf(r.Attrs) != c.read && countOf(r.Attrs) != c.read+1 {
			w.lastWins = true
		}
		if c.two {
			c.two, c.inFlush = false, true
			ev.Kind = Flush
			c.running = false
			w.note("%v: the handler of %b flushes", c.at.self, c.bit)
			c.at.step(ev)
			return
		}
		if c.flushed {
			ev.Changes = nil
		}
	}
	ev.Invalidate, ev.Loose = c.kind == invalidate, w.loose
	w.everBuried = w.everBuried || ev.Invalidate
	c.running = false
	w.note("%v: the handler of %b returns", c.at.self, c.bit)
	c.at.step(ev)
	if w.tracing {
		w.note("    %s", w.state())
	}
}

// reply is where the guarantees are checked.
func (w *world) reply(c *client, res *Result) {
	c.result = *res
	w.note("    reply to %v %b: outcome %d %s flagged %v", c.kind, c.bit, res.Outcome, showHeader(&res.Header), res.Flagged)
	if c.bg {
		c.over = true
		return
	}
	if c.inFlush { // the handler goes on
		c.inFlush, c.running = false, true
		if res.Outcome == Served && w.content[version{res.Header.Epoch, res.Header.Version}]&c.bit == 0 {
			w.bad("the flush does not include its own write")
		}
		c.flushed = res.Outcome == Served
		if !c.flushed {
			c.kind = read // what it returns afterwards is of no interest
			c.failed = true
		}
		return
	}
	if res.Executed != (c.runs > 0) {
		w.bad("executed is %v after %d runs", res.Executed, c.runs)
	}
	switch res.Outcome {
	case NotExecuted:
		if c.runs > 0 {
			w.bad("Not-Executed after the handler has run")
		}
		c.retry = true
		return
	case Ended:
		c.over = true
		if !w.everBuried && c.kind != invalidate && (!res.Header.Expired() || !res.Header.Descends(c.cookie.epoch)) {
			w.bad("gone, although nobody invalidated it")
		}
		if c.kind == invalidate && c.runs > 0 {
			w.invalidated = true
		}
		return
	case Lost:
		c.over = true
		if !w.fault && !w.gone && !w.everBuried {
			w.bad("lost, although a holder lives")
		}
		return
	case Failed:
		c.over = true
		return
	case Served:
	}
	c.over = true
	h := &res.Header
	data, ok := w.content[version{h.Epoch, h.Version}]
	if !ok {
		w.bad("a reply names %v version %d, which nobody has had", h.Epoch, h.Version)
	}
	if c.kind == write && data&c.bit == 0 {
		w.bad("the reply does not include its own write")
	}
	if c.snapshot&^data != 0 && !res.Flagged {
		w.bad("the handler saw %b, the reply stands for %b", c.snapshot, data)
	}
	if res.Flagged && !w.fault && !w.gone && (!w.loose || w.died == 0) { // (36) flags whoever may have lost something
		w.bad("a conflict without any partition")
	}
	if c.seen&^data != 0 && !res.Flagged {
		w.bad("went back for one client: saw %b, now %b, not flagged", c.seen, data)
	}
	count := w.counts[version{h.Epoch, h.Version}]
	if c.seenCount > count && !res.Flagged && !w.lastWins {
		w.bad("went back for one client: had counted to %d, now %d, not flagged", c.seenCount, count)
	}
	if !w.fault && c.acked&^data != 0 && (w.died == 0 || !w.gone) {
		w.bad("stale answer: acknowledged %b, served %b, not flagged", c.acked, data)
	}
	for _, n := range w.nodes {
		r := n.rec()
		if n.up && h.HasCopy(n.self) && r.Held() && !r.Dead && r.Epoch.N > h.Epoch.N && r.Descends(h.Epoch) &&
			c.acked&^data != 0 && c.acked&^bitsOf(r.Attrs) == 0 && !res.Flagged {
			w.bad("stale answer from a primary over which its secondary %v had promoted", n.self)
		}
	}
	if c.invBefore || c.invAtAll && !w.fault && w.died < 2 {
		w.bad("an invalidated session was served")
	}
	if c.runs > 1 {
		w.bad("executed %d times, client told of no error", c.runs)
	}
	c.replied = data
	w.acked |= data
	k := cookie{epoch: h.Epoch, primary: int(h.Primary.Name[0] - 'A'), secondary: "NONE"}
	if len(h.Copies) > 0 {
		k.secondary = h.Copies[0].Name
	}
	w.jar, w.seen, w.counter = k, data, count
	w.ackedCount = max(w.ackedCount, count)
	if w.served != nil {
		w.served(c)
	}
	if k.epoch.N > w.ackedAt.epoch.N {
		w.ackedAt = k
	}
}

// holds reports whether a living member holds all of data.
func (w *world) holds(data uint) bool {
	for _, n := range w.nodes {
		if r := n.rec(); n.up && r.Held() && !r.Dead && data&^bitsOf(r.Attrs) == 0 && r.Descends(w.ackedAt.epoch) {
			return true
		}
	}
	return false
}

// Text.

func show(m *Message) string {
	names := [...]string{"", "Update", "Ack", "Refused", "Ask", "Answer", "Take", "Grant", "No", "Forward", "Forwarded", "Compare"}
	s := names[m.Kind]
	if m.NewCopy {
		s += " new copy"
	}
	if m.Claim != NoClaim {
		s += fmt.Sprintf(" claim %d over %v in %v", m.Claim, m.Over, m.About)
	}
	if m.Reason != NoReason {
		s += fmt.Sprintf(" reason %d", m.Reason)
	}
	return s + " " + showHeader(&m.Header)
}

func showHeader(h *Header) string {
	switch {
	case !h.Held():
		return fmt.Sprintf("nothing v%d", h.Version)
	case h.Dead:
		return "tombstone"
	}
	return fmt.Sprintf("{%v!%v %v v%d}", h.Primary, h.Copies, h.Epoch, h.Version)
}

func (w *world) state() string {
	var b strings.Builder
	for _, n := range w.nodes {
		r := n.rec()
		if !n.up {
			fmt.Fprintf(&b, "%v:- ", n.self)
			continue
		}
		fmt.Fprintf(&b, "%v:%s", n.self, showHeader(&r.Header))
		if r.Held() && !r.Dead {
			fmt.Fprintf(&b, "=%b", bitsOf(r.Attrs))
		}
		b.WriteByte(' ')
	}
	return b.String()
}
