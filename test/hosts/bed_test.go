//go:build linux

package hosts

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A lan is one of the two switches that each host is connected to.
type lan string

const (
	service     lan = "svc" // requests
	replication lan = "rep" // gossip and session copies
)

// prefix begins the name of every namespace of a test binary; the number is
// its process id.
const prefix = "understudy-"

// beds numbers the beds of this process.
var beds atomic.Int32

// A bed is a set of hosts on two switches. A cable is what connects a host
// with a switch; a way is what frames go from one host to another over one of
// the switches.
//
// What the kernel offers decides the means: this needs no netem. A silent cut
// and loss are rules of the switch (nftables, family bridge), a refusal is one
// of the host, a slow cable is a pair of tap devices (slow_test.go).
type bed struct {
	t     *testing.T
	name  string // of this bed; begins the names of its namespaces
	hosts map[string]*host

	mu    sync.Mutex // guards rules, and with them the switches' rules
	rules map[way]string
}

// A way is what goes from one host to another.
type way struct {
	lan      lan
	from, to string
}

// A host is a namespace with one device on each switch, named as the switch.
type host struct {
	bed   *bed
	name  string
	ns    string
	octet int
}

// cables is where the rules of the switches go.
const cables = `table bridge bed {
	chain cables {
		type filter hook forward priority 0;
	}
}`

// newBed makes the switches. The test is skipped if that cannot be done here.
func newBed(t *testing.T) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("makes network namespaces and starts processes; not with -short")
	}
	if why := missing(); why != "" {
		if os.Getenv("UNDERSTUDY_TEST_ALL") == "1" { //nolint:forbidigo // set by .ci/run, where no test may skip
			t.Fatal(why)
		}
		t.Skip(why)
	}
	b := &bed{
		t: t, name: fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), beds.Add(1)),
		hosts: map[string]*host{}, rules: map[way]string{},
	}
	b.namespace("switch")
	for _, l := range []lan{service, replication} {
		b.ip("-n %[1]s link add %[2]s type bridge\n-n %[1]s link set %[2]s up", b.name+"-switch", l)
	}
	b.nft("switch", cables)
	return b
}

// missing says what this machine lacks; "" if nothing.
var missing = sync.OnceValue(func() string {
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	for _, cmd := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(cmd); err != nil {
			return "network namespaces: " + err.Error()
		}
	}
	probe := fmt.Sprintf("%s%d-0-probe", prefix, os.Getpid())
	if err := run("", "ip", "netns", "add", probe); err != nil {
		return "network namespaces: " + err.Error()
	}
	defer run("", "ip", "netns", "del", probe)
	if err := run(cables, "ip", "netns", "exec", probe, "nft", "-f", "-"); err != nil {
		return "nftables of a bridge: " + err.Error()
	}
	return ""
})

// sweep removes what test binaries that are no more have left behind, and what
// this one made: namespaces, and the directory of the commands.
func sweep() {
	unname := func(ns string) error { return run("", "ip", "netns", "del", filepath.Base(ns)) }
	for pattern, remove := range map[string]func(string) error{
		filepath.Join("/run/netns", prefix+"*"):   unname,
		filepath.Join(os.TempDir(), prefix+"*-*"): os.RemoveAll,
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // the pattern is ours
		}
		for _, path := range found {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), prefix), "-")
			if _, err := strconv.Atoi(pid); err != nil {
				continue // of somebody else
			}
			if _, err := os.Stat("/proc/" + pid); err == nil && pid != strconv.Itoa(os.Getpid()) {
				continue // still at work
			}
			if err := remove(path); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}

// run runs a command with a text as its input.
func run(input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s\n%s", name, strings.Join(args, " "), err, text, input)
	}
	return nil
}

// ip runs lines of the command ip, each with its -n option in front.
func (b *bed) ip(format string, args ...any) {
	b.t.Helper()
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		if err := run("", "ip", strings.Fields(line)...); err != nil {
			b.t.Fatal(err)
		}
	}
}

// nft loads rules into the namespace of the switch or of a host.
func (b *bed) nft(host, rules string) {
	b.t.Helper()
	if err := run(rules, "ip", "netns", "exec", b.name+"-"+host, "nft", "-f", "-"); err != nil {
		b.t.Fatal(err)
	}
}

// namespace makes one that ends with the test; its processes have to be ended
// by a cleanup that is registered later.
func (b *bed) namespace(name string) string {
	b.t.Helper()
	ns := b.name + "-" + name
	b.ip("netns add %s", ns)
	b.t.Cleanup(func() {
		if err := run("", "ip", "netns", "del", ns); err != nil {
			b.t.Error(err)
		}
	})
	return ns
}

// add makes a host with the last octet of its addresses. Its cables of the
// lans that are named are slow ones: see [slow].
func (b *bed) add(name string, octet int, slow ...lan) *host {
	b.t.Helper()
	h := &host{bed: b, name: name, octet: octet, ns: b.namespace(name)}
	b.hosts[name] = h
	b.ip("-n %s link set lo up", h.ns)
	for _, l := range []lan{service, replication} {
		if !slices.Contains(slow, l) {
			b.ip("link add %[1]s netns %[2]s type veth peer name %[1]s-%[3]s netns %[4]s-switch", l, h.ns, name, b.name)
		} else {
			b.t.Cleanup(newLine(b.t, h, l).close)
		}
		b.ip("-n %s-switch link set %s-%s master %[2]s up", b.name, l, name)
		b.ip("-n %[1]s link set %[2]s address %[3]s\n-n %[1]s addr add %[4]s/24 dev %[2]s\n-n %[1]s link set %[2]s up",
			h.ns, l, h.mac(l), h.addr(l))
	}
	for _, o := range b.hosts {
		if o != h {
			h.meet(o)
			o.meet(h)
		}
	}
	return h
}

// meet tells h the hardware addresses of o. Asked for by ARP they would be
// forgotten behind a cut, and a connection would soon be refused by h itself.
func (h *host) meet(o *host) {
	h.bed.t.Helper()
	for _, l := range []lan{service, replication} {
		h.bed.ip("-n %s neigh replace %s lladdr %s nud permanent dev %s", h.ns, o.addr(l), o.mac(l), l)
	}
}

// addr is the address of h on a lan.
func (h *host) addr(l lan) string {
	return fmt.Sprintf("10.77.%d.%d", map[lan]int{service: 1, replication: 2}[l], h.octet)
}

func (h *host) mac(l lan) string {
	return fmt.Sprintf("02:77:%02x:00:00:%02x", map[lan]int{service: 1, replication: 2}[l], h.octet)
}

// enter moves the thread it is called on to h.
func (h *host) enter() error { return enter(h.ns) }

func enter(ns string) error {
	f, err := os.Open(filepath.Join("/run/netns", ns))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", ns, err)
	}
	return nil
}

// within runs f on a thread that is in the namespace ns; what f opens belongs
// to that namespace.
func within(ns string, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with f
		if err := enter(ns); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}

// dial connects from h.
func (h *host) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = within(h.ns, func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// apply writes all rules of the switches, in one transaction.
func (b *bed) apply() {
	b.t.Helper()
	var rules strings.Builder
	rules.WriteString("flush chain bridge bed cables\n")
	for w, rule := range b.rules {
		fmt.Fprintf(&rules, "add rule bridge bed cables iifname \"%s-%s\" oifname \"%s-%s\" %s\n", w.lan, w.from, w.lan, w.to, rule)
	}
	b.nft("switch", rules.String())
}

// cut loses everything that goes these ways, silently.
func (b *bed) cut(ways ...way) { b.rule("drop", ways) }

// lose loses percent of the frames that go these ways.
func (b *bed) lose(percent int, ways ...way) {
	b.rule(fmt.Sprintf("numgen random mod 100 < %d drop", percent), ways)
}

func (b *bed) rule(rule string, ways []way) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range ways {
		b.rules[w] = rule
	}
	b.apply()
}

// heal undoes cut and lose on all ways.
func (b *bed) heal() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.rules)
	b.apply()
}

// between are the ways from each host of one side to each of the other and
// back, on one lan. A host is on no cable to itself.
func between(l lan, one, other []string) []way {
	var ways []way
	for _, a := range one {
		for _, b := range other {
			if a != b {
				ways = append(ways, way{l, a, b}, way{l, b, a})
			}
		}
	}
	return ways
}

// names are the hosts but these.
func (b *bed) others(but ...string) []string {
	var names []string
	for name := range b.hosts {
		if !slices.Contains(but, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// refuse makes h refuse what comes from another host on a lan: connections
// are reset, packets answered as unreachable.
func (h *host) refuse(l lan, from *host) {
	h.bed.t.Helper()
	h.bed.nft(h.name, fmt.Sprintf(`table ip refuse {
		chain in {
			type filter hook input priority 0;
			iifname %[1]s ip saddr %[2]s meta l4proto tcp reject with tcp reset
			iifname %[1]s ip saddr %[2]s reject
		}
	}`, l, from.addr(l)))
}

// admit undoes refuse.
func (h *host) admit() {
	h.bed.t.Helper()
	h.bed.nft(h.name, "delete table ip refuse")
}

// down switches the interface off: h itself knows at once that it reaches
// nobody, the others are told nothing.
func (h *host) down(l lan) {
	h.bed.t.Helper()
	h.bed.ip("-n %s link set %s down", h.ns, l)
}

// up undoes down.
func (h *host) up(l lan) {
	h.bed.t.Helper()
	h.bed.ip("-n %s link set %s up", h.ns, l)
	for _, o := range h.bed.hosts {
		if o != h {
			h.meet(o) // forgotten when the interface went down
		}
	}
}

// TestBed checks the test bed itself: each kind of damage does what it says,
// and only that.
func TestBed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	a, c := b.add("a", 1), b.add("c", 2)
	slow := b.add("slow", 3, replication)

	for _, l := range []lan{service, replication} {
		if err := echo(a, c, l); err != nil {
			t.Fatal(err)
		}
	}
	b.cut(way{service, "a", "c"})
	if err := echo(a, c, service); !isTimeout(err) {
		t.Errorf("cut: %v, want a time-out", err)
	}
	if err := echo(c, a, service); !isTimeout(err) {
		t.Errorf("cut, the answers go the other way: %v, want a time-out", err)
	}
	if err := echo(a, c, replication); err != nil {
		t.Errorf("the other lan: %v", err)
	}
	if err := echo(slow, c, service); err != nil {
		t.Errorf("another host: %v", err)
	}
	b.heal()
	if err := echo(a, c, service); err != nil {
		t.Errorf("healed: %v", err)
	}

	c.refuse(service, a)
	if err := echo(a, c, service); err == nil || isTimeout(err) {
		t.Errorf("refused: %v, want a refusal at once", err)
	}
	c.admit()
	a.down(replication)
	if err := echo(a, c, replication); err == nil || isTimeout(err) {
		t.Errorf("own interface down: %v, want an error at once", err)
	}
	if err := echo(c, a, replication); !isTimeout(err) {
		t.Errorf("the other's interface down: %v, want a time-out", err)
	}
	a.up(replication)
	for _, l := range []lan{service, replication} {
		if err := echo(a, c, l); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
	b.lose(30, between(replication, []string{"a"}, []string{"c"})...)
	lost := 0
	for range 100 {
		if err := datagram(a, c); err != nil {
			lost++
		}
	}
	if lost < 5 || lost > 70 {
		t.Errorf("%d of 100 datagrams were lost, want about 30", lost)
	}
}

// TestSlow checks that a slow cable takes its time and loses nothing.
func TestSlow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.add("c", 2)
	slow := b.add("slow", 3, replication)
	setDelay(slow, replication, 50*time.Millisecond)
	begin := time.Now()
	if err := echo(slow, b.hosts["c"], replication); err != nil {
		t.Fatal(err)
	}
	// The handshake and the echo: two round trips.
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("an echo took %v, want at least twice 2*50ms", took)
	}
}
