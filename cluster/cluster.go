package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"
)

// Config sets up a [Cluster].
type Config struct {
	// Self is what this member tells of itself. Name must be set, and Boot be a
	// number that no earlier boot of the name had. Gossip is ignored.
	Self Member

	// Bind is where gossip listens, for packets and streams: host:port. The
	// host may be a name; without one it is every address of the machine. Port
	// 0 is one from the kernel. If empty, Bind is 127.0.0.1:0. An address
	// outside loopback needs Keys.
	Bind string

	// Advertise is where others reach Bind, host:port, if that is something
	// else. Port 0 is that of Bind. If empty, it is the address of Bind or, if
	// that is every address of the machine, its first private one.
	Advertise string

	// Join names members that run already, each host:port. They need not all be
	// there: they are tried until they are members, and a name is resolved again
	// each time. A member's own address among them does no harm.
	Join []string

	// Keys protect gossip. Each has 16, 24 or 32 bytes; the first encrypts, all
	// are accepted. To rotate, append the new key on all members, then move it
	// to the front on all, then remove the old one; each step is a restart of
	// one member after the other. If empty, gossip is open, which is allowed on
	// loopback only.
	Keys [][]byte

	// Network is where to listen and dial. If nil, it is the operating
	// system's.
	Network Network

	// Resolve returns the addresses of a host name. If nil, it is
	// net.DefaultResolver.LookupHost.
	Resolve func(ctx context.Context, host string) ([]string, error)

	// Log gets an event for each change of a member.
	Log zerolog.Logger

	// ProbeInterval is how often a member probes another, taking turns. If
	// zero, it is 500 ms. A member that answers none for
	// SuspicionMult × ProbeInterval (longer in clusters of more than ten, and up
	// to four times that while others do not confirm it) has failed: with the
	// defaults 2 s after the first failed probe.
	ProbeInterval time.Duration

	// ProbeTimeout is how long the answer to a probe may take before others are
	// asked to probe too. If zero, it is half of ProbeInterval.
	ProbeTimeout time.Duration

	// SuspicionMult is explained at ProbeInterval. If zero, it is 4.
	SuspicionMult int

	// GossipInterval is how often news go to three others. If zero, it is
	// 100 ms.
	GossipInterval time.Duration

	// GossipToTheDead is how long news go to a failed member too, so that it may
	// contradict. If zero, it is 30 s.
	GossipToTheDead time.Duration

	// PushPullInterval is how often the complete state is compared with another
	// member, for what gossip has lost. If zero, it is 15 s.
	PushPullInterval time.Duration

	// StreamTimeout bounds a dial, and an exchange over a stream. If zero, it is
	// 2 s.
	StreamTimeout time.Duration

	// RejoinInterval is how often members that are missing are tried: those of
	// Join, those that have failed, and the older one of two boots of a name. If
	// zero, it is 1 s.
	RejoinInterval time.Duration
}

const (
	suspicionMax = 4 // times the time of suspicion, if nobody else confirms it
	awarenessMax = 4 // times ProbeInterval, when this member itself seems slow
)

// A Cluster is this member's view of the cluster, and what others see of it.
// Methods are safe for concurrent use.
type Cluster struct {
	log       zerolog.Logger
	join      []string
	resolve   resolver
	probe     time.Duration // between probes
	interval  time.Duration // of rejoining
	timeout   time.Duration // of one stream
	view      *view
	delegate  *delegate
	transport *transport
	ml        *memberlist.Memberlist

	duplicate chan error
	sought    chan struct{}
	stop      context.CancelFunc // ends the goroutines
	wg        sync.WaitGroup     // of watch, seek, and what they start

	mu     sync.Mutex // guards the following; a leaf
	self   entry
	asking map[string]bool // rivals that are being asked, by id

	updating sync.Mutex // one gossip.UpdateNode at a time; held for no I/O

	ending  sync.Mutex // guards the following; held while leaving and closing
	hasLeft bool
	closed  bool
}

// New joins the cluster: it listens, and looks for others in the background.
// Errors name the field of Config to mend.
func New(cfg Config) (*Cluster, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c, err := start(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return c, nil
}

// check returns cfg with defaults, or what is wrong with it.
func (cfg Config) check() (Config, error) {
	if err := checkName(cfg.Self.Name); err != nil {
		return cfg, fmt.Errorf("Config.Self.Name: %w", err)
	}
	for _, f := range []struct{ name, value string }{{"HTTP", cfg.Self.HTTP}, {"Replication", cfg.Self.Replication}} {
		if f.value == "" {
			continue
		}
		if err := checkAddress(f.value); err != nil {
			return cfg, fmt.Errorf("Config.Self.%s: %w", f.name, err)
		}
	}
	for _, f := range []struct{ name, value string }{
		{"Machine", cfg.Self.Machine}, {"Group", cfg.Self.Group}, {"SecondaryGroup", cfg.Self.SecondaryGroup},
	} {
		if err := checkText(f.value); err != nil {
			return cfg, fmt.Errorf("Config.Self.%s: %w", f.name, err)
		}
	}
	if host, _, err := net.SplitHostPort(cfg.Self.Replication); err == nil && len(cfg.Keys) == 0 {
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsLoopback() {
			return cfg, openError("Config.Self.Replication", cfg.Self.Replication)
		}
	}
	for i, k := range cfg.Keys {
		if len(k) != 16 && len(k) != 24 && len(k) != 32 {
			return cfg, fmt.Errorf("Config.Keys[%d] has %d bytes, want 16, 24 or 32", i, len(k))
		}
	}
	for i, s := range cfg.Join {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" {
			return cfg, fmt.Errorf("Config.Join[%d]: %q is not host:port", i, s)
		} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return cfg, fmt.Errorf("Config.Join[%d]: %q has no port number", i, s)
		}
	}
	cfg.Keys = slices.Clone(cfg.Keys)
	for i, k := range cfg.Keys {
		cfg.Keys[i] = slices.Clone(k)
	}
	cfg.Join = slices.Clone(cfg.Join)
	if cfg.Bind == "" {
		cfg.Bind = "127.0.0.1:0"
	}
	if cfg.Network == nil {
		cfg.Network = osNetwork{}
	}
	if cfg.Resolve == nil {
		cfg.Resolve = net.DefaultResolver.LookupHost
	}
	cfg.ProbeInterval = orElse(cfg.ProbeInterval, 500*time.Millisecond)
	cfg.ProbeTimeout = orElse(cfg.ProbeTimeout, cfg.ProbeInterval/2)
	cfg.GossipInterval = orElse(cfg.GossipInterval, 100*time.Millisecond)
	cfg.GossipToTheDead = orElse(cfg.GossipToTheDead, 30*time.Second)
	cfg.PushPullInterval = orElse(cfg.PushPullInterval, 15*time.Second)
	cfg.StreamTimeout = orElse(cfg.StreamTimeout, 2*time.Second)
	cfg.RejoinInterval = orElse(cfg.RejoinInterval, time.Second)
	if cfg.SuspicionMult == 0 {
		cfg.SuspicionMult = 4
	}
	return cfg, nil
}

func orElse(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// start listens and starts everything. cfg has been checked.
func start(cfg Config) (*Cluster, error) {
	ln, pc, advertise, err := open(cfg)
	if err != nil {
		return nil, err
	}
	self := entry{Member: cfg.Self, start: time.Now().UnixMilli()}
	self.Gossip = advertise.String()
	if _, err := encodeMeta(self); err != nil {
		_, _ = ln.Close(), pc.Close()
		return nil, fmt.Errorf("Config.Self: %w", err)
	}

	c := &Cluster{
		log:       cfg.Log,
		join:      cfg.Join,
		resolve:   cfg.Resolve,
		probe:     cfg.ProbeInterval,
		interval:  cfg.RejoinInterval,
		timeout:   cfg.StreamTimeout,
		view:      newView(self),
		duplicate: make(chan error, 1),
		sought:    make(chan struct{}),
		self:      self,
		asking:    make(map[string]bool),
	}
	c.delegate = &delegate{
		self:     c.entry,
		view:     c.view,
		rivalry:  make(chan struct{}, 1),
		accused:  c.accused,
		impostor: c.impostor,
	}
	c.delegate.notices.NumNodes = func() int { return len(c.Members()) }
	c.delegate.notices.RetransmitMult = memberlist.DefaultLANConfig().RetransmitMult
	c.transport = newTransport(cfg.Network, ln, pc, advertise, newIdentity(self.ID(), cfg.Keys))

	mc, err := settings(cfg, self, c.transport, c.delegate)
	if err == nil {
		c.ml, err = memberlist.Create(mc)
	}
	if err != nil {
		_ = c.transport.Shutdown()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.wg.Go(func() { c.watch(ctx) })
	c.wg.Go(func() { c.seek(ctx) })
	return c, nil
}

// open listens at cfg.Bind and finds the address to announce.
func open(cfg Config) (net.Listener, net.PacketConn, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.StreamTimeout)
	defer cancel()
	fail := func(err error) (net.Listener, net.PacketConn, netip.AddrPort, error) {
		return nil, nil, netip.AddrPort{}, err
	}
	host, service, err := net.SplitHostPort(cfg.Bind)
	if err != nil {
		return fail(fmt.Errorf("Config.Bind: %q is not host:port", cfg.Bind))
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return fail(fmt.Errorf("Config.Bind: %q has no port number", cfg.Bind))
	}
	if host != "" {
		addrs, err := resolver(cfg.Resolve).resolve(ctx, cfg.Bind)
		if err != nil {
			return fail(fmt.Errorf("Config.Bind: %w", err))
		}
		host = addrs[0].Addr().String()
	}
	if ip, err := netip.ParseAddr(host); len(cfg.Keys) == 0 && (err != nil || !ip.IsLoopback()) {
		return fail(openError("Config.Bind", cfg.Bind))
	}
	ln, pc, bound, err := bind(cfg.Network, host, uint16(port))
	if err != nil {
		return fail(fmt.Errorf("Config.Bind: gossip at %s: %w", cfg.Bind, err))
	}
	advertise, err := announced(ctx, cfg, bound)
	if err != nil {
		_, _ = ln.Close(), pc.Close()
		return fail(err)
	}
	return ln, pc, advertise, nil
}

// openError says that the address in field needs a key (D11).
func openError(field, addr string) error {
	return fmt.Errorf("%s: open address without key: %s is outside loopback, so Config.Keys (--cluster-key) is needed", field, addr)
}

// announced returns the address to announce for what listens at bound.
func announced(ctx context.Context, cfg Config, bound netip.AddrPort) (netip.AddrPort, error) {
	switch {
	case cfg.Advertise != "":
		addrs, err := resolver(cfg.Resolve).resolve(ctx, cfg.Advertise)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("Config.Advertise: %w", err)
		}
		if len(cfg.Keys) == 0 && !addrs[0].Addr().IsLoopback() {
			return netip.AddrPort{}, openError("Config.Advertise", cfg.Advertise)
		}
		if addrs[0].Addr().IsUnspecified() {
			return netip.AddrPort{}, fmt.Errorf("Config.Advertise: nobody can reach %q", cfg.Advertise)
		}
		if addrs[0].Port() == 0 {
			return netip.AddrPortFrom(addrs[0].Addr(), bound.Port()), nil
		}
		return addrs[0], nil
	case bound.Addr().IsUnspecified():
		ip, err := PrivateAddress()
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("Config.Advertise is needed with Bind %q: %w", cfg.Bind, err)
		}
		return netip.AddrPortFrom(ip, bound.Port()), nil
	default:
		return bound, nil
	}
}

// entry returns what this member says of itself.
func (c *Cluster) entry() entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self
}

// Self returns this member as others see it.
func (c *Cluster) Self() Member { return c.entry().Member }

// SetState tells the others that this member is in another state. It does not
// wait for them.
func (c *Cluster) SetState(s State) {
	c.mu.Lock()
	c.self.State = s
	self := c.self
	c.mu.Unlock()
	c.view.alive(self)

	c.updating.Lock()
	defer c.updating.Unlock()
	update(c.ml)
}

// Members returns the living members, this one included, sorted by name, then
// boot. The slice is shared and must not be written to; it never changes.
func (c *Cluster) Members() []Member { return *c.view.members.Load() }

// Subscribe returns a channel of capacity one that gets a token whenever
// Members or Gone have something new; it holds one from the beginning. It is
// never closed. The caller calls stop when it does not listen any more.
func (c *Cluster) Subscribe() (changed <-chan struct{}, stop func()) { return c.view.subscribe() }

// Gone reports whether it is proven that the boot with this id (name#boot) is
// gone for good: it left, or was replaced (D12). A member that merely failed may
// be back, and for it Gone is false; so it is for a boot never heard of. The
// last 4096 are remembered.
func (c *Cluster) Gone(id string) bool { return c.view.gone(id) }

// Duplicate returns a channel that gets one error if this boot must stop, since
// an older one of its name is alive (D12), or since others hold it for gone. The
// error names both addresses.
func (c *Cluster) Duplicate() <-chan error { return c.duplicate }

// Sought returns a channel that is closed as soon as every element of
// Config.Join was tried once, and has answered, refused, or said nothing for
// StreamTimeout: whoever could be found at the start is in Members then, and who
// is gone for good is known. Leave and Close close it as well.
func (c *Cluster) Sought() <-chan struct{} { return c.sought }

// Stats counts what came to the gossip port and was dropped, since New.
type Stats struct {
	Packets uint64 // that do not begin as ours do, or are too long
	Streams uint64 // the same, or with a wrong question, or one too many
	Garbage uint64 // that did begin so and made no sense: another key, another version, damage
}

// Stats returns the counts of the moment.
func (c *Cluster) Stats() Stats {
	return Stats{
		Packets: c.transport.droppedPackets.Load(),
		Streams: c.transport.droppedStreams.Load(),
		Garbage: c.delegate.garbage.n.Load(),
	}
}

// Leave tells the others that this boot is gone for good, and returns when
// every living member was told or could not be reached, or ctx is done, whose
// error it returns then. To others it is gone at once; it goes on to take part
// in gossip until Close. It is no error if somebody could not be told: the
// others will tell him.
func (c *Cluster) Leave(ctx context.Context) error {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.closed || c.hasLeft {
		return nil
	}
	c.hasLeft = true
	c.stop() // no joining any more
	c.transport.identity.leaving.Store(true)

	self := c.entry()
	dep := departure{self.ID(), left}
	c.delegate.tell(dep)
	c.tellEverybody(ctx, encodeDepartures([]departure{dep}))
	wait := c.timeout
	if d, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Until(d), time.Nanosecond)) // zero would be for ever
	}
	if err := c.ml.Leave(wait); err != nil && ctx.Err() == nil {
		c.log.Debug().Err(err).Msg("gossip about leaving is not finished")
	}
	c.logChanges()
	return context.Cause(ctx)
}

// tellers is how many members are told at a time.
const tellers = 16

// tellEverybody sends msg to all living members, until ctx is done.
func (c *Cluster) tellEverybody(ctx context.Context, msg []byte) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, tellers)
	for _, m := range c.Members() {
		if m.ID() == c.view.self {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := sendReliable(c.ml, m, msg); err != nil {
				c.log.Debug().Str("name", m.Name).Uint32("boot", m.Boot).Err(err).Msg("member was not told that we leave")
			}
		})
	}
}

// Close stops taking part without a word; to others this member has failed,
// unless it has left before. It returns when everything that was started here
// has ended, and takes a ProbeInterval for that, up to four on a member that
// has trouble: a probe of memberlist that is under way cannot be called off.
func (c *Cluster) Close() error {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.stop()
	probe := time.NewTimer(c.probe * time.Duration(1+c.ml.GetHealthScore()))
	defer probe.Stop()
	err := c.ml.Shutdown()
	c.wg.Wait()
	<-probe.C
	c.logChanges()
	if err != nil {
		return fmt.Errorf("cluster: close: %w", err)
	}
	return nil
}

// conflict reports, once, that this boot must stop.
func (c *Cluster) conflict(err error) {
	select {
	case c.duplicate <- err:
		c.log.Error().Err(err).Msg("this member must stop")
	default: // it has been said
	}
}

// accused is told that somebody holds this boot for gone.
func (c *Cluster) accused(why reason) {
	if c.transport.identity.leaving.Load() {
		return
	}
	self := c.entry()
	c.conflict(fmt.Errorf("cluster: member %q at %s: other members hold boot %d for gone (%s), and will not listen to it: start it again",
		self.Name, self.Gossip, self.Boot, map[reason]string{left: "it left", replaced: "another process has its name or its address"}[why]))
}

// impostor is told that another process has our id; older, that it is the one
// that stays.
func (c *Cluster) impostor(other string, older bool) {
	self := c.entry()
	if older {
		c.conflict(fmt.Errorf("cluster: member %q at %s: the same boot %d runs at %s already", self.Name, self.Gossip, self.Boot, other))
	}
}

// logChanges writes what happened since the last call.
func (c *Cluster) logChanges() {
	changes, missed := c.view.takeChanges()
	for _, ch := range changes {
		level := zerolog.InfoLevel
		if ch.what == "failed" {
			level = zerolog.WarnLevel
		}
		ev := c.log.WithLevel(level).Str("name", ch.Name).Uint32("boot", ch.Boot).Str("gossip", ch.Gossip)
		if ch.HTTP != "" {
			ev = ev.Str("http", ch.HTTP)
		}
		if ch.Replication != "" {
			ev = ev.Str("replication", ch.Replication)
		}
		if ch.by != "" {
			ev = ev.Str("by", ch.by)
		}
		ev.Msg("member " + ch.what)
	}
	if missed > 0 {
		c.log.Warn().Uint64("changes", missed).Msg("changes of members were not logged")
	}
}
