package cluster

import (
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// udpBuffer is how much memberlist puts into one packet: what passes every
// network unfragmented, less our label.
const udpBuffer = 1400 - len(gossipLabel)

const (
	suspicionMax = 4 // times the time of suspicion, if nobody else confirms it
	awarenessMax = 4 // times ProbeInterval, when this member itself seems slow
)

// settings returns the configuration of memberlist. The timings are those of
// Config; the rest is that of a local network.
func settings(cfg Config, self entry, t *transport, d *delegate) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	c.Name = self.ID()
	c.Transport = t
	c.AdvertisePort = int(t.advertise.Port())
	c.BindPort = c.AdvertisePort // what memberlist takes for the port of a member that gives none
	c.UDPBufferSize = udpBuffer
	c.EnableCompression = false // messages are small, and every one would be tried

	c.ProbeInterval = cfg.ProbeInterval
	c.ProbeTimeout = cfg.ProbeTimeout
	c.SuspicionMult = cfg.SuspicionMult
	c.SuspicionMaxTimeoutMult = suspicionMax
	c.AwarenessMaxMultiplier = awarenessMax
	c.GossipInterval = cfg.GossipInterval
	c.GossipToTheDeadTime = cfg.GossipToTheDead
	c.PushPullInterval = cfg.PushPullInterval
	c.TCPTimeout = cfg.StreamTimeout

	c.Delegate = d
	c.Events = d
	c.Conflict = d
	c.LogOutput = &logWriter{log: cfg.Log, garbage: &d.garbage}
	if len(cfg.Keys) > 0 {
		ring, err := memberlist.NewKeyring(cfg.Keys, cfg.Keys[0])
		if err != nil {
			return nil, err
		}
		c.Keyring = ring
	}
	return c, nil
}

// A delegate is what memberlist calls. Most calls come with memberlist's locks
// held: none may block, and none calls memberlist.
type delegate struct {
	self     func() entry
	view     *view
	notices  memberlist.TransmitLimitedQueue // departures to be told to all
	garbage  counter                         // what came from outside and made no sense
	orders   chan Order                      // capacity one: what this member is to do
	ordering sync.Mutex                      // held while orders is written to
	rivalry  chan struct{}                   // holds a token when there may be rivals
	accused  func(reason)                    // somebody says that this boot is gone
	impostor func(other string, older bool)  // another process has our id, at that address
}

// NodeMeta is memberlist.Delegate's.
func (d *delegate) NodeMeta(int) []byte {
	b, err := encodeMeta(d.self())
	if err != nil {
		panic("cluster: " + err.Error()) // New has tried it
	}
	return b
}

// NotifyMsg is memberlist.Delegate's. Messages of ours tell of departures, or give
// an order.
func (d *delegate) NotifyMsg(b []byte) {
	if len(b) > 0 && b[0] == orderVersion {
		o, id, err := decodeOrder(b)
		switch {
		case err != nil:
			d.garbage.add()
		case id == d.self().ID(): // else it is for a boot that was here before
			d.order(o)
		}
		return
	}
	ds, err := decodeDepartures(b)
	if err != nil {
		d.garbage.add()
		return
	}
	for _, dep := range ds {
		if d.learn(dep) {
			d.tell(dep)
		}
	}
}

// GetBroadcasts is memberlist.Delegate's.
func (d *delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.notices.GetBroadcasts(overhead, limit)
}

// LocalState is memberlist.Delegate's: what a newcomer has to know of the past.
func (d *delegate) LocalState(bool) []byte { return encodeDepartures(d.view.recent(maxTold)) }

// MergeRemoteState is memberlist.Delegate's.
func (d *delegate) MergeRemoteState(b []byte, _ bool) {
	ds, err := decodeDepartures(b)
	if err != nil {
		d.garbage.add()
		return
	}
	for _, dep := range ds {
		d.learn(dep)
	}
}

// learn takes a departure over. It reports whether it was new.
func (d *delegate) learn(dep departure) bool {
	if dep.id == d.self().ID() {
		d.accused(dep.why)
		return false
	}
	return d.view.depart(dep.id, dep.why, "")
}

// tell gossips a departure.
func (d *delegate) tell(dep departure) {
	d.notices.QueueBroadcast(&notice{encodeDepartures([]departure{dep})})
}

// NotifyJoin is memberlist.EventDelegate's.
func (d *delegate) NotifyJoin(n *memberlist.Node) { d.NotifyUpdate(n) }

// NotifyUpdate is memberlist.EventDelegate's.
func (d *delegate) NotifyUpdate(n *memberlist.Node) {
	if n.Name == d.view.self {
		return // SetState has told the view already
	}
	e, err := decodeMeta(n.Name, address(n), n.Meta)
	if err != nil {
		d.garbage.add() // a later version, perhaps: not a member for us
		return
	}
	if d.view.alive(e) {
		signal(d.rivalry)
	}
}

// NotifyLeave is memberlist.EventDelegate's. It does not say whether the member
// left or failed; one that left has told so by a departure before.
func (d *delegate) NotifyLeave(n *memberlist.Node) { d.view.failed(n.Name) }

// NotifyConflict is memberlist.ConflictDelegate's: other has the id of existing
// and another address. It matters where it is our own id.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name != d.view.self {
		return
	}
	e, err := decodeMeta(other.Name, address(other), other.Meta)
	if err != nil {
		d.garbage.add()
		return
	}
	self := d.self()
	older := e.older(self)
	if e.start == self.start {
		older = e.Gossip < self.Gossip // any order that both see alike
	}
	d.impostor(e.Gossip, older)
}

func address(n *memberlist.Node) string {
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// A notice is a message to be gossiped.
type notice struct{ msg []byte }

// Invalidates is memberlist.Broadcast's.
func (n *notice) Invalidates(memberlist.Broadcast) bool { return false }

// Message is memberlist.Broadcast's.
func (n *notice) Message() []byte { return n.msg }

// Finished is memberlist.Broadcast's.
func (n *notice) Finished() {}

// UniqueBroadcast is memberlist.UniqueBroadcast's: no notice replaces another.
func (n *notice) UniqueBroadcast() {}

// sendReliable sends a message to a member over a stream.
func sendReliable(ml *memberlist.Memberlist, m Member, msg []byte) error {
	host, port, err := net.SplitHostPort(m.Gossip)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	return ml.SendReliable(&memberlist.Node{Name: m.ID(), Addr: net.ParseIP(host), Port: uint16(n)}, msg)
}

// update gossips what this member says of itself now. It does not wait until
// anybody knows.
func update(ml *memberlist.Memberlist) {
	_ = ml.UpdateNode(time.Nanosecond) // the error is that the broadcast took longer
}
