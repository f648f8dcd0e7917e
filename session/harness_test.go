package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/test/pipenet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A directory is a membership that knows everything at once. It is the one
// thing that tests of this package make up: gossip has its own.
type directory struct {
	mu      sync.Mutex
	members []cluster.Member
	gone    map[string]bool
	subs    map[chan struct{}]struct{}
}

func newDirectory() *directory {
	return &directory{gone: map[string]bool{}, subs: map[chan struct{}]struct{}{}}
}

func (d *directory) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	for ch := range d.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (d *directory) join(m cluster.Member) {
	d.change(func() {
		d.members = append(slices.Clone(d.members), m)
		slices.SortFunc(d.members, func(a, b cluster.Member) int { return strings.Compare(a.ID(), b.ID()) })
	})
}

// remove takes a boot out; proven is whether it is gone, or only not heard of.
func (d *directory) remove(id string, proven bool) {
	d.change(func() {
		d.members = slices.DeleteFunc(slices.Clone(d.members), func(m cluster.Member) bool { return m.ID() == id })
		if proven {
			d.gone[id] = true
		}
	})
}

// A seat is one member's view of a directory.
type seat struct {
	*directory
	self cluster.Member
}

func (s *seat) Self() cluster.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.ID() == s.self.ID() {
			return m
		}
	}
	return s.self
}

func (s *seat) Members() []cluster.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members
}

func (s *seat) Subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	ch <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, ch)
	}
}

func (s *seat) Gone(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[id]
}

func (s *seat) SetState(st cluster.State) {
	s.change(func() {
		s.members = slices.Clone(s.members)
		for i := range s.members {
			if s.members[i].ID() == s.self.ID() {
				s.members[i].State = st
			}
		}
	})
}

// A farm is some members with the demo application, on a network in memory.
type farm struct {
	t     *testing.T
	net   *pipenet.Net
	dir   *directory
	codec *cookie.Codec
	mu    sync.Mutex // guards nodes and down while clients run beside the test
	nodes map[string]*node
	down  map[string]bool
	boots uint32
	cfg   Config // what all of them have
	own   func(name string, cfg *Config)
	app   http.Handler
	skew  map[string]time.Duration // of the members' clocks
}

// use has all members serve h from now on.
func (f *farm) use(h http.HandlerFunc) {
	f.app = h
	for _, n := range f.nodes {
		n.h = n.m.Handler(h)
	}
}

type node struct {
	farm *farm
	name string
	ip   string
	self cluster.Member
	host *pipenet.Host
	m    *Manager
	h    http.Handler
}

// newFarm starts members in a bubble; the first letter of each name gives its
// address. It returns when all are ready.
func newFarm(t *testing.T, cfg Config, names ...string) *farm {
	t.Helper()
	return newFarmOf(t, cfg, nil, names...)
}

// newFarmOf is newFarm with members that have settings of their own.
func newFarmOf(t *testing.T, cfg Config, own func(name string, cfg *Config), names ...string) *farm {
	t.Helper()
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{bytes.Repeat([]byte{7}, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.SweepInterval == 0 {
		cfg.SweepInterval = time.Second
	}
	f := &farm{t: t, net: pipenet.New(), dir: newDirectory(), codec: codec, nodes: map[string]*node{}, down: map[string]bool{}, cfg: cfg, own: own}
	f.app = http.HandlerFunc(demo)
	for _, name := range names {
		f.start(name)
	}
	f.ready(names...)
	return f
}

// start starts a member, perhaps again; it is not ready yet.
func (f *farm) start(name string) *node {
	f.t.Helper()
	f.boots++
	n := &node{farm: f, name: name, ip: fmt.Sprintf("10.0.0.%d", name[0])}
	n.host = f.net.Host(n.ip)
	ln, err := n.host.Listen("tcp", ":7000")
	if err != nil {
		f.t.Fatal(err)
	}
	n.self = cluster.Member{Name: name, Boot: 100 + f.boots, Replication: n.ip + ":7000", HTTP: n.ip + ":80", Gossip: n.ip + ":7946"}
	if old := f.nodes[name]; old != nil {
		f.dir.remove(old.self.ID(), true) // D12: replaced
	}
	f.dir.join(n.self)
	cfg := f.cfg
	cfg.Log = zerolog.New(f.t.Output()).With().Str("at", name).Logger()
	if f.own != nil {
		f.own(name, &cfg)
	}
	cfg.Cluster, cfg.Codec, cfg.Listener = &seat{f.dir, n.self}, f.codec, ln
	cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return n.host.Dial(ctx, "tcp", addr) }
	cfg.Now = func() time.Time { return time.Now().Add(f.skew[name]) }
	cfg.Keys = [][]byte{bytes.Repeat([]byte{9}, 32)}
	if n.m, err = New(cfg); err != nil {
		f.t.Fatal(err)
	}
	n.h = n.m.Handler(f.app)
	f.mu.Lock()
	f.nodes[name] = n
	f.mu.Unlock()
	return n
}

// ready waits until these members are ready.
func (f *farm) ready(names ...string) {
	f.t.Helper()
	for _, name := range names {
		for range 200 {
			if f.nodes[name].m.Ready() == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err := f.nodes[name].m.Ready(); err != nil {
			f.t.Fatalf("%s is not ready: %v", name, err)
		}
	}
	synctest.Wait()
}

// kill ends a member as a kill -9 does: its connections are reset, its address
// refuses. Gossip notices at once only if it is told to.
func (f *farm) kill(name string) {
	n := f.nodes[name]
	n.host.Kill()
	f.abandon(n)
	f.dir.remove(n.self.ID(), false)
	synctest.Wait()
}

// abandon stops what of a dead member runs on in this process.
func (f *farm) abandon(n *node) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.m.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		f.t.Errorf("close %s: %v", n.name, err)
	}
}

// close ends all members.
func (f *farm) close() {
	for _, n := range f.nodes {
		f.abandon(n)
		for i := range n.m.table.shards {
			for _, e := range n.m.table.shards[i].entries {
				if e.refs != 0 {
					f.t.Errorf("%s: an entry is held %d times after all requests", n.name, e.refs)
				}
			}
		}
	}
}

// A browser keeps the cookie of one client.
type browser struct {
	t      *testing.T
	value  string
	before string          // the cookie before the last reply that set one
	gone   <-chan struct{} // closed when the client gives its request up; nil for never
}

// A reply is what the demo application said.
type reply struct {
	Counter   int
	ID        string
	Primary   string
	Secondary string
	Version   uint64
	IsNew     bool
	Lost      bool
	Names     []string
	code      int
	header    http.Header
	body      string
}

func (r reply) pair() string { return r.Primary + "!" + r.Secondary }

// get asks a member, with the cookie that the browser has.
func (b *browser) get(n *node, path string) reply {
	b.t.Helper()
	return b.through(n.h, n, path)
}

// through is get by another handler of that member.
func (b *browser) through(h http.Handler, n *node, path string) reply {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	if b.gone != nil {
		go func() {
			select {
			case <-b.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if b.value != "" {
		r.Header.Set("Cookie", "JSESSIONID="+b.value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	out := reply{code: res.StatusCode, header: res.Header, body: w.Body.String()}
	if strings.HasPrefix(out.body, "{") {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			b.t.Errorf("%s %s: %v in %q", n.name, path, err, out.body)
		}
	}
	if set := res.Cookies(); len(set) > 1 {
		b.t.Errorf("%s %s: %d cookies, want at most one (I04)", n.name, path, len(set))
	} else if len(set) == 1 {
		b.before = b.value
		if b.value = set[0].Value; set[0].MaxAge < 0 {
			b.value = ""
		}
	}
	return out
}

// count adds one and wants the counter, and the pair if it is not empty.
func (b *browser) count(n *node, want int, pair string) reply {
	b.t.Helper()
	got := b.get(n, "/counter")
	if got.code != http.StatusOK || got.Counter != want || pair != "" && got.pair() != pair {
		b.t.Fatalf("/counter at %s = %d: %d under %s (lost %v, new %v, %q); want %d under %s", n.name, got.code, got.Counter, got.pair(), got.Lost, got.IsNew, got.body, want, pair)
	}
	return got
}

var counterKey = NewKey[int]("counter")

// demo is what tests need of the demo application of design 5.
func demo(w http.ResponseWriter, r *http.Request) {
	s := FromContext(r.Context())
	switch r.URL.Path {
	case "/counter":
		n, _ := counterKey.Get(s)
		if err := counterKey.Set(s, n+1); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	case "/set":
		if err := NewKey[[]byte](r.FormValue("name")).Set(s, []byte(r.FormValue("value"))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	case "/remove":
		s.Remove(r.FormValue("name"))
	case "/invalidate":
		s.Invalidate()
	case "/rotate":
		if err := s.RenewID(0); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	case "/exception":
		n, _ := counterKey.Get(s)
		_ = counterKey.Set(s, n+1)
		panic("exception")
	case "/link":
		_, _ = fmt.Fprintf(w, "<a href=%q>", s.EncodeURL(r.FormValue("to")))
		return
	}
	if err := s.Flush(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	tell(w, s)
}

func tell(w http.ResponseWriter, s *Session) {
	n, _ := counterKey.Get(s)
	out, _ := json.Marshal(reply{
		Counter: n, ID: s.ID(), Primary: s.Primary(), Secondary: s.Secondary(), Version: s.Version(),
		IsNew: s.IsNew(), Lost: s.Lost(), Names: s.Names(),
	})
	_, _ = w.Write(out)
}

// header is what a session of which this member were the primary would have.
func (n *node) header() owner.Header {
	return owner.Header{Epoch: owner.Epoch{N: 1, Reign: owner.Reign{Boot: 1, Seq: 1}}, Primary: ownerMember(n.self)}
}
