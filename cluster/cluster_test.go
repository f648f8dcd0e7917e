package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/test/pipenet"
)

var (
	keyOld = bytes.Repeat([]byte{1}, 32)
	keyNew = bytes.Repeat([]byte{2}, 32)
)

const (
	ipA = "10.0.0.1"
	ipB = "10.0.0.2"
	ipC = "10.0.0.3"
	ipD = "10.0.0.4"
)

func gossipAt(ip string) string { return ip + ":7946" }

// A logBuffer is a log that tests read.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) contains(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// A node is a process with a member in it.
type node struct {
	*Cluster
	host *pipenet.Host
	log  *logBuffer
}

// A world is a network with members, for a test in a bubble.
type world struct {
	t    *testing.T
	net  *pipenet.Net
	boot uint32
}

// bubble runs f in a bubble. It ends when every goroutine of it has.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&world{t: t, net: pipenet.New()}) })
}

// try starts a member at ip, its gossip at port 7946 unless cfg says something
// else. It is closed at the end of the test.
func (w *world) try(ip string, cfg Config) (*node, error) {
	n := &node{host: w.net.Host(ip), log: new(logBuffer)}
	if cfg.Self.Boot == 0 {
		w.boot++
		cfg.Self.Boot = w.boot
	}
	cfg.Bind = cmp.Or(cfg.Bind, gossipAt(ip))
	if cfg.Keys == nil {
		cfg.Keys = [][]byte{keyOld}
	}
	cfg.Network = n.host
	cfg.Log = zerolog.New(n.log)
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	n.Cluster = c
	w.t.Cleanup(func() { _ = c.Close() })
	return n, nil
}

func (w *world) start(name, ip string, join ...string) *node {
	w.t.Helper()
	n, err := w.try(ip, Config{Self: Member{Name: name}, Join: join})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// within waits until cond holds, at most d.
func (w *world) within(d time.Duration, what string, cond func() bool) {
	w.t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		if cond() {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// names returns the living members that n sees, as name#boot.
func (n *node) names() string {
	var ids []string
	for _, m := range n.Members() {
		ids = append(ids, m.ID())
	}
	return strings.Join(ids, " ")
}

// meet waits until each of ns sees exactly all of ns.
func (w *world) meet(d time.Duration, ns ...*node) {
	w.t.Helper()
	var ids []string
	for _, n := range ns {
		ids = append(ids, n.Self().ID())
	}
	slices.Sort(ids)
	want := strings.Join(ids, " ")
	w.within(d, "everybody sees "+want, func() bool {
		for _, n := range ns {
			if n.names() != want {
				return false
			}
		}
		return true
	})
}

func TestThreeMembersSeeEachOther(t *testing.T) { // K04
	bubble(t, func(w *world) {
		self := Member{
			Name: "a", HTTP: ipA + ":8080", Replication: ipA + ":7070",
			Machine: "m1", Group: "g1", SecondaryGroup: "g2",
		}
		a, err := w.try(ipA, Config{Self: self})
		if err != nil {
			t.Fatal(err)
		}
		b := w.start("b", ipB, gossipAt(ipA))
		p, err := w.try(ipC, Config{Self: Member{Name: "proxy-1", Proxy: true}, Join: []string{gossipAt(ipB)}})
		if err != nil {
			t.Fatal(err)
		}
		w.meet(2*time.Second, a, b, p)

		want := self
		want.Boot, want.Gossip = 1, gossipAt(ipA)
		if got := a.Self(); got != want {
			t.Errorf("Self = %+v, want %+v", got, want)
		}
		if got := p.Members()[0]; got != want {
			t.Errorf("proxy sees %+v, want %+v", got, want)
		}
		if !b.Members()[2].Proxy {
			t.Error("b does not see that the proxy serves nobody")
		}
		w.within(time.Second, "the log of b has a line for each", func() bool {
			return b.log.contains("member joined", `"member":"a"`, `"boot":1`, ipA+":8080") &&
				b.log.contains("member joined", `"member":"proxy-1"`)
		})
		if st := a.Stats(); st != (Stats{}) {
			t.Errorf("Stats = %+v, want nothing dropped", st)
		}
	})
}

// TestKilledMemberFails covers FAIL-1, FAIL-7 and the bound of FAIL-5: every
// survivor knows within 15 s, in clusters of 3, 5 and 10.
func TestKilledMemberFails(t *testing.T) {
	for _, size := range []int{2, 3, 5, 10} {
		t.Run(fmt.Sprint("members=", size), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.net.SetLatency(200 * time.Microsecond)
				ns := []*node{w.start("n0", ipA)}
				for i := 1; i < size; i++ {
					ns = append(ns, w.start(fmt.Sprint("n", i), fmt.Sprint("10.0.1.", i), gossipAt(ipA)))
				}
				w.meet(5*time.Second, ns...)
				changed, stop := ns[0].Subscribe()
				defer stop()
				<-changed

				victim, rest := ns[size-1], ns[:size-1]
				id := victim.Self().ID()
				start := time.Now()
				victim.host.Kill()
				w.meet(15*time.Second, rest...)
				t.Logf("%d members: noticed by all after %v", size, time.Since(start))
				<-changed
				for _, n := range rest {
					if n.Gone(id) {
						t.Error("a failure counts as proof")
					}
					w.within(time.Second, "log line", func() bool { return n.log.contains("member failed", `"boot":`, victim.Self().Gossip) })
				}
			})
		})
	}
}

func TestLeaveIsGoneAtOnce(t *testing.T) { // H23
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		c := w.start("c", ipC, gossipAt(ipA))
		w.meet(2*time.Second, a, b, c)
		id := b.Self().ID()
		if err := b.Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.within(200*time.Millisecond, "b is gone", func() bool {
			return a.Gone(id) && c.Gone(id) && a.names() == "a#1 c#3" && c.names() == "a#1 c#3"
		})
		if err := b.Leave(context.Background()); err != nil {
			t.Errorf("second Leave: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		time.Sleep(time.Minute)
		if a.log.contains("member failed") || !a.log.contains("member left", `"member":"b"`) {
			t.Error("the log does not say that b left")
		}

		d := w.start("d", ipD, gossipAt(ipA)) // learns it from a
		w.within(2*time.Second, "d knows the past", func() bool { return d.Gone(id) })
		if d.Gone("b#99") {
			t.Error("a boot never heard of is gone")
		}
	})
}

// TestSought: a member that starts knows everybody who can be found, and the
// past, before it is ready.
func TestSought(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.start("a", ipA), w.start("b", ipB, gossipAt(ipA))
		<-a.Sought() // without Join, at once
		w.meet(2*time.Second, a, b)
		a.view.depart("x#9", left, "")

		c := w.start("c", ipC, "10.0.9.9:1", gossipAt(ipA))
		start := time.Now()
		<-c.Sought()
		if got := c.names(); got != "a#1 b#2 c#3" || !c.Gone("x#9") {
			t.Errorf("when it has sought c sees %s, Gone(x#9) = %v", got, c.Gone("x#9"))
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("that took %v, although silence ends after StreamTimeout", d)
		}
		d := w.start("d", ipD, "10.0.9.9:1")
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		<-d.Sought()
	})
}

func TestLeaveEndsWithItsContext(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		w.meet(2*time.Second, a, b)
		w.net.Cut(ipA, ipB)
		ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := b.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leave: %v, want that its time was up", err)
		}
		if d := time.Since(start); d > 101*time.Millisecond {
			t.Errorf("Leave took %v, want the 100ms it was given", d)
		}
	})
}

// What a member says of lost boots reaches the others (D8), who are told of it
// and do not log it.
func TestSetRestored(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		w.meet(2*time.Second, a, b)
		c := Member{Name: "c", Boot: 9}
		seen := func() Restored {
			for _, m := range b.Members() {
				if m.Name == "a" {
					return m.Restored
				}
			}
			return Restored{}
		}
		a.SetRestored([]string{c.ID(), "d#1"})
		w.within(time.Second, "b knows of c", func() bool { return seen()[0] == c.Digest() && seen()[1] != 0 && seen()[2] == 0 })
		if b.log.contains("changed") {
			t.Error("b has logged it")
		}
		many := make([]string, maxRestored+1)
		for i := range many {
			many[i] = Member{Name: "x", Boot: uint32(i)}.ID()
		}
		a.SetRestored(many)
		w.within(time.Second, "b knows of the first eight", func() bool { return seen()[maxRestored-1] == digestOf("x#7") })
		a.SetRestored(nil) // c is back
		w.within(time.Second, "b knows of none", func() bool { return seen() == Restored{} })
	})
}

// How many sessions a member has reaches the others, who do not log it (SESS-39).
func TestSetLoad(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		w.meet(2*time.Second, a, b)
		want := Load{Known: true, Sessions: 5, Copies: 7, Lacking: 1}
		a.SetLoad(want)
		w.within(time.Second, "b knows", func() bool { return b.Members()[0].Load == want })
		if b.log.contains("changed") {
			t.Error("b has logged it")
		}
	})
}

// An order reaches the boot that it is for, and only that (SESS-39).
func TestOrder(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		w.meet(2*time.Second, a, b)
		to := a.Self()
		for _, o := range []Order{OrderDrain, OrderResume} {
			if err := b.Order(to, o); err != nil {
				t.Fatal(err)
			}
			w.within(time.Second, "a gets it", func() bool {
				select {
				case got := <-a.Orders():
					return got == o
				default:
					return false
				}
			})
		}
		if err := b.Order(b.Self(), OrderDrain); err != nil || <-b.Orders() != OrderDrain {
			t.Errorf("to itself: %v", err)
		}
		to.Boot++ // another boot of a, which was here before
		if err := b.Order(to, OrderDrain); err == nil {
			time.Sleep(time.Second)
		}
		select {
		case o := <-a.Orders():
			t.Errorf("a got the order %d for another boot", o)
		default:
		}
	})
	for _, bad := range []string{"", "\x02", "\x02\x03a#1", "\x02\x01a", "\x02\x01a#1x", "\x02\x01" + strings.Repeat("a", 80) + "#1"} {
		if _, _, err := decodeOrder([]byte(bad)); err == nil {
			t.Errorf("decodeOrder(%q) gives no error", bad)
		}
	}
}

func TestSetState(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		b := w.start("b", ipB, gossipAt(ipA))
		w.meet(2*time.Second, a, b)
		for _, s := range []State{Running, Overloaded, Running, Draining} {
			changed, stop := b.Subscribe()
			<-changed
			a.SetState(s)
			if a.Self().State != s || a.Members()[0].State != s {
				t.Errorf("a does not see its own state %v", s)
			}
			<-changed
			w.within(time.Second, "b sees a "+s.String(), func() bool { return b.Members()[0].State == s })
			stop()
		}
		w.within(time.Second, "log", func() bool { return b.log.contains("member draining", `"member":"a"`) })
	})
}

func TestNewBoot(t *testing.T) {
	at := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	first := NewBoot(at)
	if next := NewBoot(at.Add(bootUnit)); next != first+1 {
		t.Errorf("boots %d and %d", first, next)
	}
	if same := NewBoot(at.UTC()); same != first {
		t.Errorf("boots %d and %d at the same time", first, same)
	}
}

// TestSubscribeCoalesces checks that a slow reader is woken once for many
// changes.
func TestSubscribeCoalesces(t *testing.T) {
	v := newView(entry{Member: Member{Name: "a", Boot: 1}})
	changed, stop := v.subscribe()
	<-changed // the one to begin with
	other, stopOther := v.subscribe()
	defer stopOther()
	for i := range uint32(10) {
		v.alive(entry{Member: Member{Name: "b", Boot: i}})
	}
	<-changed
	select {
	case <-changed:
		t.Error("woken twice for what was not seen")
	default:
	}
	<-other
	stop()
	v.failed("b#1")
	select {
	case <-changed:
		t.Error("woken after stop")
	default:
	}
	<-other
}

func TestMembersIsNotWrittenAgain(t *testing.T) {
	v := newView(entry{Member: Member{Name: "a", Boot: 1}})
	before := *v.members.Load()
	v.alive(entry{Member: Member{Name: "A", Boot: 1}})
	if len(before) != 1 || before[0].Name != "a" {
		t.Errorf("the slice became %v", before)
	}
	if got := *v.members.Load(); got[0].Name != "A" || got[1].Name != "a" {
		t.Errorf("members = %v, want them sorted by name", got)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	v := newView(entry{Member: Member{Name: "a", Boot: 1}})
	for i := range uint32(maxDeparted + 100) {
		v.depart(Member{Name: "x", Boot: i}.ID(), left, "")
	}
	if len(v.departed) != maxDeparted || len(v.order) != maxDeparted || v.gone("x#0") || !v.gone("x#4195") {
		t.Errorf("remembers %d departures, oldest %s", len(v.departed), v.order[0])
	}
	for i := range uint32(maxLost + 100) {
		m := Member{Name: "y", Boot: i}
		v.alive(entry{Member: m})
		v.failed(m.ID())
	}
	if len(v.lost) != maxLost {
		t.Errorf("remembers %d lost members, want %d", len(v.lost), maxLost)
	}
	if _, missed := v.takeChanges(); missed != 0 {
		t.Errorf("missed %d changes", missed)
	}
	for i := range uint32(maxChanges + 1) {
		v.alive(entry{Member: Member{Name: "z", Boot: i}})
	}
	if cs, missed := v.takeChanges(); len(cs) != maxChanges || missed != 1 {
		t.Errorf("%d changes, %d missed", len(cs), missed)
	}
}
