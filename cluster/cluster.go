package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"
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
	owned     bool          // the address we announce is the one we listen at
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

	updating sync.Mutex // one change of self at a time; held for no I/O

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

// start listens and starts everything. cfg has been checked.
func start(cfg Config) (*Cluster, error) {
	ln, pc, advertise, err := open(cfg)
	if err != nil {
		return nil, err
	}
	self := entry{Member: cfg.Self, start: time.Now().UnixMilli()}
	self.Gossip, self.Restored, self.Load = advertise.String(), Restored{}, Load{}
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
		owned:     cfg.Advertise == "",
		view:      newView(self),
		duplicate: make(chan error, 1),
		sought:    make(chan struct{}),
		self:      self,
		asking:    make(map[string]bool),
	}
	c.delegate = &delegate{
		self:     c.entry,
		view:     c.view,
		orders:   make(chan Order, 1),
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
func (c *Cluster) SetState(s State) { c.tell(func(self *entry) { self.State = s }) }

// SetRestored tells the others from which lost boots (name#boot, latest first)
// the sessions of this member have recovered: see [Restored]. Only the first
// eight are told. It does not wait for anybody.
func (c *Cluster) SetRestored(boots []string) {
	var r Restored
	for i := range min(len(boots), len(r)) {
		r[i] = digestOf(boots[i])
	}
	c.tell(func(self *entry) { self.Restored = r })
}

// SetLoad tells the others how many sessions this member has. Each call is
// gossiped, so call it once a second at most. It does not wait for anybody.
func (c *Cluster) SetLoad(l Load) { c.tell(func(self *entry) { self.Load = l }) }

// tell changes what this member says of itself, and gossips it.
func (c *Cluster) tell(change func(self *entry)) {
	c.updating.Lock()
	defer c.updating.Unlock()
	c.mu.Lock()
	before := c.self
	change(&c.self)
	self := c.self
	c.mu.Unlock()
	if self == before {
		return
	}
	c.view.alive(self)
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
	told := make(chan struct{})
	c.wg.Go(func() {
		defer close(told)
		c.tellEverybody(ctx, encodeDepartures([]departure{dep}))
	})
	select {
	case <-told:
	case <-ctx.Done(): // Close ends what is still under way
	}
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
				c.log.Debug().Str("member", m.Name).Uint32("boot", m.Boot).Err(err).Msg("member was not told that we leave")
			}
		})
	}
}

// Close stops taking part without a word; to others this member has failed,
// unless it has left before. It returns when everything that was started here
// has ended, and takes a little more than a ProbeInterval for that, up to four
// on a member that has trouble: a probe of memberlist that is under way cannot be called off.
func (c *Cluster) Close() error {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.stop()
	err := c.ml.Shutdown()
	// memberlist does not wait for the probe that is under way, and one may begin
	// while it shuts down. A probe that begins now is over before this is.
	probe := time.NewTimer(c.probe*time.Duration(1+c.ml.GetHealthScore()) + c.probe/16)
	defer probe.Stop()
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
		ev := c.log.WithLevel(level).Str("member", ch.Name).Uint32("boot", ch.Boot).Str("gossip", ch.Gossip)
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
