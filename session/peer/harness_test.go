package peer

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/understudy-lb/understudy/test/pipenet"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		m.Run() // go's fuzzing leaves goroutines of its own
		return
	}
	goleak.VerifyTestMain(m)
}

var testKey = []byte("0123456789abcdef0123456789abcdef")

// A driver is a Handler that remembers what it was told. Asks are answered with
// what they said, unless mute.
type driver struct {
	t      *testing.T
	series func(c *Conn) error    // sends the compare; nil sends nothing
	frame  func(c *Conn, f Frame) // in place of the answer to asks
	mute   bool
	quiet  bool // frames are not noted

	mu     sync.Mutex // guards the fields below
	events []string   // "open b#2", "up b#2", "header b#2 …", "down b#2", "gone b#2", …
	at     []time.Time
	conns  map[ID]*Conn // opened, not down
	errs   map[ID]error // of the last Down or Failed
}

func (d *driver) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, fmt.Sprintf(format, args...))
	d.at = append(d.at, time.Now())
}

func (d *driver) Open(c *Conn) func() error {
	d.mu.Lock()
	if d.conns[c.ID()] != nil {
		d.t.Errorf("Open(%v) before Down of the connection there was", c.ID())
	}
	if d.conns == nil {
		d.conns, d.errs = map[ID]*Conn{}, map[ID]error{}
	}
	d.conns[c.ID()] = c
	d.mu.Unlock()
	d.note("open %v", c.ID())
	return func() error {
		if d.series == nil {
			return nil
		}
		return d.series(c)
	}
}

func (d *driver) Frame(c *Conn, f Frame) {
	if !d.quiet {
		d.note("%s %v %s", [...]string{"", "header", "plain", "ask", "answer"}[f.Kind], c.ID(), f.Data)
	}
	switch {
	case d.frame != nil:
		d.frame(c, f)
	case f.Kind == Ask && !d.mute:
		if err := c.Answer(f.Number, f.Data); err != nil {
			d.t.Logf("Answer(%d) to %v: %v", f.Number, c.ID(), err)
		}
	}
}

func (d *driver) Up(c *Conn) { d.note("up %v", c.ID()) }

func (d *driver) Down(c *Conn, err error) {
	d.mu.Lock()
	if d.conns[c.ID()] != c {
		d.t.Errorf("Down(%v) of a connection that is not open", c.ID())
	}
	delete(d.conns, c.ID())
	d.errs[c.ID()] = err
	d.mu.Unlock()
	d.note("down %v", c.ID())
}

func (d *driver) Failed(id ID, gone bool, err error) {
	d.mu.Lock()
	if d.errs == nil {
		d.conns, d.errs = map[ID]*Conn{}, map[ID]error{}
	}
	if d.conns[id] != nil {
		d.t.Errorf("Failed(%v) between Open and Down", id)
	}
	d.errs[id] = err
	d.mu.Unlock()
	if gone {
		d.note("gone %v", id)
	} else {
		d.note("unreachable %v", id)
	}
}

// open returns the connection that was opened and is not down.
func (d *driver) open(id ID) *Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[id]
}

func (d *driver) err(id ID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.errs[id]
}

func (d *driver) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// when returns the time of the last event with that text.
func (d *driver) when(event string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, e := range slices.Backward(d.events) {
		if e == event {
			return d.at[i]
		}
	}
	d.t.Fatalf("no event %q in %q", event, d.events)
	return time.Time{}
}

func (d *driver) count(event string) int {
	n := 0
	for _, e := range d.all() {
		if e == event {
			n++
		}
	}
	return n
}

// A node is one member in a test.
type node struct {
	*Set
	*driver
	host *pipenet.Host
	me   Member
}

// A world is some members on a network in memory, in a bubble.
type world struct {
	t   *testing.T
	net *pipenet.Net
}

func newWorld(t *testing.T) *world { return &world{t, pipenet.New()} }

// start starts a member. Its Config can be changed first. To the members all
// addresses are on loopback, so that keys are optional.
func (w *world) start(name string, boot uint32, change ...func(*Config, *driver)) *node {
	w.t.Helper()
	port := 7001 + int(name[0]-'a')
	n := &node{
		driver: &driver{t: w.t},
		host:   w.net.Host(ip(name)),
		me:     Member{ID{name, boot}, fmt.Sprintf("127.0.0.1:%d", port)},
	}
	ln, err := n.host.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Config{Self: n.me.ID, Listener: local{ln, port}, Handler: n.driver, Keys: [][]byte{testKey}, Dial: n.call}
	for _, f := range change {
		f(&cfg, n.driver)
	}
	if n.Set, err = New(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(n.stop)
	return n
}

// ip returns the address of the host of a member.
func ip(name string) string { return fmt.Sprintf("10.0.0.%d", 1+name[0]-'a') }

// A local is a listener that says it is on loopback.
type local struct {
	net.Listener
	port int
}

func (l local) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.port} }

// call dials a member by the address that start gave it.
func (n *node) call(ctx context.Context, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return n.host.Dial(ctx, "tcp", "10.0.0."+strings.TrimLeft(port[1:], "0")+":"+port)
}

func plain(cfg *Config, _ *driver) { cfg.Keys = nil }

// know tells every node of all nodes.
func know(nodes ...*node) {
	var ms []Member
	for _, n := range nodes {
		ms = append(ms, n.me)
	}
	for _, n := range nodes {
		n.Members(ms)
	}
}

// stop ends a member. The end of the test does it too.
func (n *node) stop() {
	n.host.Thaw()
	if err := n.Close(); err != nil {
		n.t.Errorf("Close: %v", err)
	}
}

// bubble runs a test in a bubble.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newWorld(t)) })
}

// pair starts a#1 and b#2 and waits until they are up.
func (w *world) pair(change ...func(*Config, *driver)) (a, b *node) {
	w.t.Helper()
	a, b = w.start("a", 1, change...), w.start("b", 2, change...)
	know(a, b)
	time.Sleep(20 * time.Millisecond)
	wantUp(w.t, a, b)
	return a, b
}

func wantUp(t *testing.T, a, b *node) {
	t.Helper()
	ca, cb := a.Conn(b.me.ID), b.Conn(a.me.ID)
	if ca == nil || cb == nil {
		t.Fatalf("not up:\n%v %+v\n%v %+v\n%q\n%q", a.me, a.Status(), b.me, b.Status(), a.all(), b.all())
	}
	if ca.Generation() != cb.Generation() {
		t.Errorf("generations %d and %d, want the same", ca.Generation(), cb.Generation())
	}
}

func wantEvents(t *testing.T, n *node, want ...string) {
	t.Helper()
	if got := n.all(); !slices.Equal(got, want) {
		t.Errorf("%v was told:\n  %s\nwant:\n  %s", n.me, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
