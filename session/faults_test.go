package session

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/understudy-lb/understudy/cluster"
)

var (
	seedFlag      = flag.Uint64("seed", 1, "the first schedule of TestSchedules")
	schedulesFlag = flag.Int("schedules", 0, "how many schedules TestSchedules plays; zero means 200, or 20 with -short")
)

// TestSchedules plays schedules of faults against whole clusters: members die,
// also several at once, come back under their names, stand still, drain and
// leave, or think better of it; links are cut, also one way; gossip forgets
// members that live; clocks are wrong by hours. Meanwhile clients count, look
// and end sessions, two windows to a session. What each reply may say is in
// history_test.go.
//
// A schedule is repeated by its seed: session ids, and with them the placement,
// come of it too. What happens at the same instant may happen in another order.
func TestSchedules(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 20
	}
	if *schedulesFlag > 0 {
		n = *schedulesFlag
	}
	var sum tally
	for seed := *seedFlag; seed < *seedFlag+uint64(n); seed++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			play(t, seed, &sum)
		})
		if !ok && testing.Verbose() {
			t.Logf("repeat it with -run TestSchedules -seed %d -schedules 1", seed)
		}
	}
	t.Logf("%d schedules: %v", n, &sum)
	if sum.good < 50*n || sum.lost == 0 && n >= 200 || sum.faults == 0 {
		t.Errorf("%v: hardly a test", &sum)
	}
}

// A process is one boot of a member as its clients meet it: from one that has
// died, or stands still, no reply comes.
type process struct {
	*node
	dead chan struct{} // closed when it dies

	mu   sync.Mutex // guards thaw
	thaw chan struct{}
}

// awake waits until the process runs, and reports whether it lives.
func (p *process) awake() bool {
	for {
		p.mu.Lock()
		thaw := p.thaw
		p.mu.Unlock()
		if thaw == nil {
			break
		}
		select {
		case <-thaw:
		case <-p.dead:
			return false
		}
	}
	select {
	case <-p.dead:
		return false
	default:
		return true
	}
}

// sleep is time.Sleep in the process: while it stands still nothing goes on.
func (p *process) sleep(d time.Duration) {
	time.Sleep(d)
	p.awake()
}

func (p *process) stands() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw != nil
}

// A trial is one schedule being played.
type trial struct {
	*farm
	rand    *rand.Rand // the nemesis's
	names   []string
	history *history
	going   sync.WaitGroup // requests, also those that nobody waits for any more

	procMu sync.Mutex // guards procs
	procs  map[string]*process
	cut    [][2]string // addresses
	absent []*process  // whom gossip has forgotten though they live
	drowsy string      // who alone stands still, "" for anybody
}

// play plays the schedule of this seed.
func play(t *testing.T, seed uint64, sum *tally) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a", "b", "c", "d", "e"}[:3+rnd.IntN(3)]
	history := newHistory(t)
	cfg := Config{OnConflict: history.conflict}
	if rnd.IntN(2) == 0 {
		cfg.Placement = Ring
	}
	if rnd.IntN(4) == 0 {
		cfg.Secondaries = 2
	}
	all := ""
	for _, name := range names {
		all += name
	}
	w, drowsy := seed%uint64(len(weatherKinds)), ""
	if w == standstill && seed/uint64(len(weatherKinds))%2 == 0 {
		drowsy = names[0]
	}
	own := func(name string, cfg *Config) {
		if name == drowsy {
			cfg.AckTimeout = longest + time.Second
		}
	}
	bubbleOf(t, cfg, own, all, func(_ *testing.T, f *farm) {
		f.net.SetLatency(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		tr := &trial{farm: f, rand: rnd, names: names, history: history, procs: map[string]*process{}, drowsy: drowsy}
		if rnd.IntN(2) == 0 {
			f.mu.Lock()
			f.skew = map[string]time.Duration{}
			for _, name := range names {
				f.skew[name] = time.Duration(rnd.IntN(7200)-3600) * time.Second
			}
			f.mu.Unlock()
		}
		for _, name := range names {
			tr.procs[name] = tr.boot(f.nodes[name])
		}
		defer tr.going.Wait()
		tr.run(seed, weatherKinds[w])
		sum.add(history)
	})
}

// boot makes a process of a member that has just been started.
func (tr *trial) boot(n *node) *process {
	p := &process{node: n, dead: make(chan struct{})}
	n.h = n.m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tr.history.serve(p, w, r) }))
	return p
}

func (tr *trial) run(seed uint64, w weatherKind) {
	halt := make(chan struct{})
	var clients sync.WaitGroup
	all := make([]*window, windows)
	for i := range all {
		all[i] = &window{tr: tr, name: fmt.Sprint("w", i), rand: rand.New(rand.NewPCG(seed, uint64(10+i))), seen: map[string]int{}}
	}
	for i, win := range all {
		win.partner = all[i^1]
		clients.Go(func() {
			for {
				win.act()
				pause := time.NewTimer(time.Duration(win.rand.IntN(200)) * time.Millisecond)
				select {
				case <-halt:
					return
				case <-pause.C:
				}
			}
		})
	}
	for range 8 + tr.rand.IntN(6) {
		tr.pause(w.calm, w.calm+2*time.Second)
		w.steps[tr.rand.IntN(len(w.steps))](tr)
	}
	tr.mend()
	close(halt)
	clients.Wait()
	time.Sleep(settled)
	tr.audit(all)
}

func (tr *trial) pause(from, to time.Duration) {
	time.Sleep(from + time.Duration(tr.rand.Int64N(int64(to-from))))
}

// proc returns the process that has that name now.
func (tr *trial) proc(name string) *process {
	tr.procMu.Lock()
	defer tr.procMu.Unlock()
	return tr.procs[name]
}

// living are the processes that run and are ready.
func (tr *trial) living() (all []*process) {
	for _, name := range tr.names {
		if p := tr.proc(name); p != nil && !p.stands() && p.m.Ready() == nil {
			all = append(all, p)
		}
	}
	return all
}

// A weatherKind says what may happen in a schedule, and how long it is calm
// between.
type weatherKind struct {
	calm  time.Duration
	steps []func(*trial)
}

// weatherKinds are what a schedule may be made of. In the first two no connection
// between living members breaks, so that G1 holds.
var weatherKinds = []weatherKind{
	{replicated, []func(*trial){(*trial).kill, (*trial).kill, (*trial).restart, (*trial).restart, (*trial).leave, (*trial).ponder}},
	{100 * time.Millisecond, []func(*trial){(*trial).kill, (*trial).killTwo, (*trial).restart, (*trial).restart, (*trial).leave, (*trial).ponder}},
	{100 * time.Millisecond, []func(*trial){(*trial).cutOne, (*trial).cutOneWay, (*trial).isolate, (*trial).heal, (*trial).forget}},
	{100 * time.Millisecond, []func(*trial){(*trial).freeze, (*trial).freeze, (*trial).forget}},
	{100 * time.Millisecond, []func(*trial){
		(*trial).kill, (*trial).killTwo, (*trial).restart, (*trial).restart, (*trial).leave, (*trial).ponder,
		(*trial).cutOne, (*trial).cutOneWay, (*trial).isolate, (*trial).heal, (*trial).freeze, (*trial).forget,
	}},
}

const (
	// standstill is the one of weatherKinds in which members stand still. In half of
	// its schedules it is always the same one, which is drowsy: its AckTimeout does not
	// end meanwhile. So it finds at the thaw what a stopped process does, whose timers
	// do not fire before: that the others have ended their connections (G3).
	standstill = 3

	longest = 8 * time.Second // that a member stands still
)

// kill ends a member without notice; two that are ready are left. Gossip notices
// after a while.
func (tr *trial) kill() {
	living := tr.living()
	if len(living) < 3 {
		return
	}
	tr.die(living[tr.rand.IntN(len(living))])
}

// killTwo ends two at an instant.
func (tr *trial) killTwo() {
	living := tr.living()
	if len(living) < 4 {
		return
	}
	tr.rand.Shuffle(len(living), func(i, k int) { living[i], living[k] = living[k], living[i] })
	tr.die(living[0])
	tr.die(living[1])
}

func (tr *trial) die(p *process) {
	tr.history.fault("kill " + p.self.ID())
	tr.bury(p)
	if tr.rand.IntN(2) == 0 {
		tr.pause(0, time.Second)
	}
	tr.dir.remove(p.self.ID(), false)
}

// bury makes a process that has ended one that nobody reaches.
func (tr *trial) bury(p *process) {
	tr.procMu.Lock()
	delete(tr.procs, p.name)
	tr.procMu.Unlock()
	close(p.dead)
	p.host.Kill()
	tr.history.died(tr, p.self.ID())
	tr.abandon(p.node)
}

// restart starts one that has died.
func (tr *trial) restart() {
	for _, name := range tr.names {
		if tr.proc(name) == nil {
			tr.history.fault("start " + name)
			p := tr.boot(tr.start(name))
			tr.procMu.Lock()
			tr.procs[name] = p
			tr.procMu.Unlock()
			return
		}
	}
}

// leave has one hand over its sessions and go (SESS-39).
func (tr *trial) leave() {
	living := tr.living()
	if len(living) < 3 {
		return
	}
	p := living[tr.rand.IntN(len(living))]
	tr.history.fault("drain " + p.self.ID())
	p.m.Drain()
	ctx, cancel := context.WithTimeout(tr.t.Context(), 5*time.Second)
	defer cancel()
	if left := p.m.HandOver(ctx); left > 0 {
		tr.history.fault(fmt.Sprintf("%s leaves %d behind", p.self.ID(), left))
	}
	// Requests under way are answered before it ends.
	if err := p.m.Close(ctx); err != nil {
		tr.history.fault(fmt.Sprintf("%s: %v", p.self.ID(), err))
	}
	tr.bury(p)
	tr.dir.remove(p.self.ID(), true)
}

// ponder has one drain and think better of it.
func (tr *trial) ponder() {
	living := tr.living()
	if len(living) < 3 {
		return
	}
	p := living[tr.rand.IntN(len(living))]
	tr.history.fault("drain and resume " + p.self.ID())
	p.m.Drain()
	tr.pause(0, 2*time.Second)
	p.m.Resume()
}

// two returns two members.
func (tr *trial) two() (a, b string) {
	i := tr.rand.IntN(len(tr.names))
	k := (i + 1 + tr.rand.IntN(len(tr.names)-1)) % len(tr.names)
	return tr.nodes[tr.names[i]].ip, tr.nodes[tr.names[k]].ip
}

func (tr *trial) cutOne() {
	a, b := tr.two()
	tr.history.fault("cut " + a + " | " + b)
	tr.history.breaks(1)
	tr.net.Cut(a, b)
	tr.cut = append(tr.cut, [2]string{a, b})
}

func (tr *trial) cutOneWay() {
	a, b := tr.two()
	tr.history.fault("cut " + a + " → " + b)
	tr.history.breaks(1)
	tr.net.CutOneWay(a, b)
	tr.cut = append(tr.cut, [2]string{a, b})
}

// isolate cuts one off from all others.
func (tr *trial) isolate() {
	a, _ := tr.two()
	tr.history.fault("isolate " + a)
	for _, name := range tr.names {
		if b := tr.nodes[name].ip; a != b {
			tr.history.breaks(1)
			tr.net.Cut(a, b)
			tr.cut = append(tr.cut, [2]string{a, b})
		}
	}
}

// heal mends all links.
func (tr *trial) heal() {
	if len(tr.cut) == 0 {
		return
	}
	tr.history.fault("heal")
	for _, c := range tr.cut {
		tr.net.Heal(c[0], c[1])
		tr.history.breaks(-1)
	}
	tr.cut = nil
	tr.remember()
}

// forget has gossip take one for dead that lives, until the next heal.
func (tr *trial) forget() {
	living := tr.living()
	if len(tr.absent) > 0 || len(living) < 3 {
		tr.remember()
		return
	}
	p := living[tr.rand.IntN(len(living))]
	tr.history.fault("gossip forgets " + p.self.ID())
	tr.history.breaks(1)
	tr.dir.remove(p.self.ID(), false)
	tr.absent = append(tr.absent, p)
}

// remember has gossip find them again.
func (tr *trial) remember() {
	for _, p := range tr.absent {
		tr.history.breaks(-1)
		if tr.proc(p.name) != p {
			continue // it has died meanwhile
		}
		tr.history.fault("gossip finds " + p.self.ID())
		self := p.self
		self.State = cluster.Running
		tr.dir.join(self)
	}
	tr.absent = nil
}

// freeze stops a member for a while, for longer than a lease, than a client
// waits, or than gossip does. Its handlers stop, and its connections: nothing is
// read or written, and no end of one is noticed. The timers of the process go on:
// it takes the others for silent meanwhile, unless it is the drowsy one.
func (tr *trial) freeze() {
	living := tr.living()
	if len(living) < 2 {
		return
	}
	p := living[tr.rand.IntN(len(living))]
	if one := tr.proc(tr.drowsy); one != nil && slices.Contains(living, one) {
		p = one
	}
	d := []time.Duration{200 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 4 * time.Second, longest}[tr.rand.IntN(5)]
	tr.history.fault(fmt.Sprintf("%s stands still for %v", p.self.ID(), d))
	tr.history.breaks(1)
	p.mu.Lock()
	p.thaw = make(chan struct{})
	p.mu.Unlock()
	p.host.Freeze()
	time.Sleep(d)
	p.host.Thaw()
	p.mu.Lock()
	close(p.thaw)
	p.thaw = nil
	p.mu.Unlock()
	tr.history.breaks(-1)
	tr.history.fault(p.self.ID() + " goes on")
}

// mend makes everything whole again.
func (tr *trial) mend() {
	tr.heal()
	tr.remember()
	for range tr.names {
		tr.restart()
	}
	tr.ready(tr.names...)
}
