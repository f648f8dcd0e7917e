package cluster

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxLost     = 256            // failed members that are remembered, to find them again
	lostFor     = 24 * time.Hour // and for how long
	maxDeparted = 4096           // boots that are known to be gone for good
	maxChanges  = 1024           // changes that wait to be logged
)

// A reason says why a boot is gone for good. It goes over the wire.
type reason byte

const (
	left     reason = 1 // it said so
	replaced reason = 2 // another process has its place (D12)
)

// A change is one thing that happened to a member, for the log.
type change struct {
	what string
	entry
	by string // what a replaced member was replaced by
}

// A view is what this member believes of the cluster. memberlist writes it, and
// whoever finds out that a boot is gone; any number may read.
type view struct {
	self    string // id of this member
	members atomic.Pointer[[]Member]

	mu       sync.Mutex            // guards the following; held for O(members), never across I/O
	living   map[string]entry      // by id, this member included
	lost     map[string]lostMember // by id: failed, and not known to be gone for good
	departed map[string]reason     // by id
	order    []string              // ids of departed, oldest first
	forgot   bool                  // some of lost are no longer remembered
	subs     map[chan struct{}]struct{}
	changes  []change
	missed   uint64        // changes that found no room
	news     chan struct{} // holds a token while changes wait
}

type lostMember struct {
	entry
	since time.Time
}

// newView returns a view of one member, this one.
func newView(self entry) *view {
	v := &view{
		self:     self.ID(),
		living:   map[string]entry{self.ID(): self},
		lost:     make(map[string]lostMember),
		departed: make(map[string]reason),
		subs:     make(map[chan struct{}]struct{}),
		news:     make(chan struct{}, 1),
	}
	v.publish()
	return v
}

// publish makes the living members visible. v.mu must be held, unless nobody
// else knows v.
func (v *view) publish() {
	ms := make([]Member, 0, len(v.living))
	for _, e := range v.living {
		ms = append(ms, e.Member)
	}
	slices.SortFunc(ms, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Boot, b.Boot))
	})
	v.members.Store(&ms)
	v.announce()
}

// announce wakes the subscribers. v.mu must be held.
func (v *view) announce() {
	for ch := range v.subs {
		signal(ch)
	}
}

// signal puts a token into a channel of capacity one.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one is waiting, and its reader will see the new state
	}
}

// record keeps a change for the log. v.mu must be held.
func (v *view) record(what string, e entry, by string) {
	if len(v.changes) == maxChanges {
		v.missed++
		return
	}
	v.changes = append(v.changes, change{what, e, by})
	signal(v.news)
}

// takeChanges returns the changes that were not logged yet, and how many were
// lost since there were too many.
func (v *view) takeChanges() ([]change, uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	cs, missed := v.changes, v.missed
	v.changes, v.missed = nil, 0
	return cs, missed
}

// alive notes that e is a member, or that it says something new of itself. It
// reports whether e has the name or the address of somebody else, who may be
// gone for good then.
func (v *view) alive(e entry) (conflict bool) {
	id := e.ID()
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.departed[id]; ok {
		return false // an old message; a boot does not come back
	}
	old, known := v.living[id]
	if known && old == e {
		return false
	}
	v.living[id] = e
	delete(v.lost, id)
	switch {
	case id == v.self:
	case !known:
		v.record("joined", e, "")
	case old.State != e.State:
		v.record(e.State.String(), e, "")
	default:
		if old.Restored, old.Load = e.Restored, e.Load; old != e {
			v.record("changed", e, "")
		}
	}
	v.publish()
	for _, other := range v.living {
		if other.meets(e) {
			return true
		}
	}
	for _, l := range v.lost {
		if l.meets(e) {
			return true
		}
	}
	return false
}

// meets tells whether e and another boot cannot both be there, by rights.
func (e entry) meets(other entry) bool {
	return (e.Name == other.Name || e.Gossip == other.Gossip) && (e.Name != other.Name || e.Boot != other.Boot)
}

// failed notes that gossip has lost the member. This proves nothing: it may be
// back.
func (v *view) failed(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.living[id]
	if !ok || id == v.self {
		return
	}
	delete(v.living, id)
	if len(v.lost) >= maxLost {
		v.forget(1)
	}
	v.lost[id] = lostMember{e, time.Now()}
	v.record("failed", e, "")
	v.publish()
}

// forget drops the n members that were lost first, and those lost for too
// long. v.mu must be held.
func (v *view) forget(n int) {
	ids := slices.SortedFunc(maps.Keys(v.lost), func(a, b string) int {
		return v.lost[a].since.Compare(v.lost[b].since)
	})
	for i, id := range ids {
		if i < n || time.Since(v.lost[id].since) > lostFor {
			delete(v.lost, id)
			v.forgot = true
		}
	}
}

// depart notes that the boot is gone for good. It reports whether that is new.
func (v *view) depart(id string, why reason, by string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.departed[id]; ok || id == v.self {
		return false
	}
	if len(v.order) == maxDeparted {
		delete(v.departed, v.order[0])
		v.order = v.order[1:]
	}
	v.departed[id] = why
	v.order = append(v.order, id)

	e, ok := v.living[id]
	if !ok {
		e = v.lost[id].entry
	}
	delete(v.lost, id)
	delete(v.living, id)
	if e.Name != "" {
		what := "left"
		if why == replaced {
			what = "replaced"
		}
		v.record(what, e, by)
	}
	if ok {
		v.publish()
	} else {
		v.announce() // Gone has changed
	}
	return true
}

// gone tells whether the boot is known to be gone for good.
func (v *view) gone(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.departed[id]
	return ok
}

// recent returns the last n boots that are gone for good.
func (v *view) recent(n int) []departure {
	v.mu.Lock()
	defer v.mu.Unlock()
	ids := v.order[max(0, len(v.order)-n):]
	ds := make([]departure, len(ids))
	for i, id := range ids {
		ds[i] = departure{id, v.departed[id]}
	}
	return ds
}

// A rival is a boot, living or lost, whose name or gossip address a living
// member has too: one of the two is gone, or both run and one must stop (D12).
type rival struct {
	entry
	by entry
}

// rivals returns all rivals but this member. v.mu must be held.
func (v *view) rivals() []rival {
	byName := make(map[string][]entry, len(v.living))
	byAddress := make(map[string][]entry, len(v.living))
	for _, e := range v.living {
		byName[e.Name] = append(byName[e.Name], e)
		byAddress[e.Gossip] = append(byAddress[e.Gossip], e)
	}
	var rs []rival
	add := func(e entry) {
		for _, others := range [...][]entry{byName[e.Name], byAddress[e.Gossip]} {
			if i := slices.IndexFunc(others, e.meets); i >= 0 {
				rs = append(rs, rival{e, others[i]})
				return
			}
		}
	}
	for id, e := range v.living {
		if id != v.self {
			add(e)
		}
	}
	for _, l := range v.lost {
		add(l.entry)
	}
	return rs
}

// conflicts returns the rivals of the moment.
func (v *view) conflicts() []rival {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rivals()
}

// addresses returns the gossip addresses of the living, and those of the lost.
func (v *view) addresses() (living map[string]bool, lost []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(0)
	living = make(map[string]bool, len(v.living))
	for _, e := range v.living {
		living[e.Gossip] = true
	}
	for _, l := range v.lost {
		if !living[l.Gossip] {
			lost = append(lost, l.Gossip)
		}
	}
	slices.Sort(lost)
	return living, slices.Compact(lost)
}

// met reports whether there was ever another member, if only for a while.
func (v *view) met() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.living) > 1 || len(v.lost) > 0 || len(v.departed) > 0 || v.forgot
}

// subscribe returns a channel that gets a token whenever something changed; it
// has one already.
func (v *view) subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	ch <- struct{}{}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.subs[ch] = struct{}{}
	return ch, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.subs, ch)
	}
}
