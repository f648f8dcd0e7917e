package session

import (
	"hash/maphash"
	"sync"

	"github.com/understudy-lb/understudy/session/owner"
)

// An entry is one session as this member knows it: the primary's record, a
// copy, a tombstone, or nothing but a request that looks for it.
type entry struct {
	id   string
	refs int // guarded by the shard's mu: who may look at the entry; 0 if nobody does
	at   int // guarded by the shard's mu: where it is in the shard's list

	mu      sync.Mutex // guards what follows; held for one step, never across I/O; after Session.mu, before link.mu
	machine owner.Machine
	buried  int64 // when the tombstone came, in milliseconds of Manager.uptime; 0 without
	role    role
	turn    *turn          // nil while no request is Exclusive
	next    EventKind      // what the step that follows is, for remark; 0 if the roles say it
	astray  bool           // primary: a copy is lost and nobody could take its place; secondary: this member is to take over
	moving  bool           // the copy is on its way from one member to a better one
	lacking bool           // counted in counters.lacking
	large   bool           // it was logged, or counted among those that were not
	under   uint32         // bytes that the restorer has under way for it; 0 for nothing
	round   uint32         // of the restorer, when that began
	era     uint64         // Manager.era when the pair changed last
	epoch   owner.Epoch    // of the record, as it was after the last step
	copies  []owner.Member // likewise
	version uint64         // likewise
	size    int            // of the attributes, likewise
}

// A role is what this member is for a session, for the counts.
type role uint8

const (
	nothing role = iota
	primary
	secondary
	tombstone
	roles // how many there are
)

func roleOf(r *owner.Record, self owner.Member) role {
	switch {
	case !r.Held():
		return nothing
	case r.Dead:
		return tombstone
	case r.Primary == self:
		return primary
	}
	return secondary
}

// header returns the header of what is held.
func (e *entry) header() owner.Header {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Record().Header
}

// record returns what is held.
func (e *entry) record() owner.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Record()
}

// look returns what is held, and whether all copies have it.
func (e *entry) look() (r owner.Record, acknowledged bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Record(), e.machine.Acknowledged()
}

const (
	shards = 64

	// batch is how many entries are taken under a shard's lock at a time.
	batch = 64
)

// A table holds all entries of a member.
type table struct {
	seed   maphash.Seed
	blank  owner.Machine // what each entry begins with
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex // guards what follows, and refs and at of the entries; a leaf; held for O(batch)
	entries map[string]*entry
	list    []*entry // the same, so that a walk can stop and go on
}

// newTable returns an empty table, for sessions with so many secondaries and
// bytes, and replies that wait for them or not.
func newTable(secondaries, maxBytes int, loose bool) *table {
	t := &table{seed: maphash.MakeSeed(), blank: owner.Machine{Want: uint8(secondaries), MaxBytes: uint32(maxBytes), Loose: loose}}
	for i := range t.shards {
		t.shards[i].entries = make(map[string]*entry)
	}
	return t
}

func (t *table) shard(id string) *shard {
	return &t.shards[maphash.String(t.seed, id)%shards]
}

// hold returns the entry of that id, made if there is none. It stays in the
// table until it is dropped as often as it was held.
func (t *table) hold(id string) *entry {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[id]
	if e == nil {
		e = &entry{id: id, machine: t.blank, at: len(s.list)}
		s.entries[id] = e
		s.list = append(s.list, e)
	}
	e.refs++
	return e
}

// drop undoes hold. An entry that holds nothing and that nobody looks at leaves
// the table. e.mu must not be held.
func (t *table) drop(e *entry) {
	s := t.shard(e.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.refs--
	// Without refs nobody has e.mu, nor can get it before s.mu is free.
	if e.refs == 0 && e.machine.Empty() {
		delete(s.entries, e.id)
		last := len(s.list) - 1
		s.list[e.at] = s.list[last]
		s.list[e.at].at = e.at
		s.list[last] = nil
		s.list = s.list[:last]
	}
}

// each calls do with every entry there is now, one after the other, until do
// returns false. An entry may come twice. e.mu is not held.
func (t *table) each(do func(*entry) bool) {
	w := walk{t: t}
	for w.next(do) {
	}
}

// A walk goes through the entries of a table in steps, so that who has the time
// for one only can go on later. It meets every entry that is there from its
// beginning to its end, perhaps twice.
type walk struct {
	t     *table
	shard int
	at    int      // entries of the shard before it are still to come; 0 for none or not begun
	begun bool     // the shard
	batch []*entry // kept for the next step
}

// next calls do with a batch of entries, and reports whether there is more to
// come. A do that returns false ends it.
func (w *walk) next(do func(*entry) bool) bool {
	if w.shard >= shards {
		return false
	}
	s := &w.t.shards[w.shard]
	s.mu.Lock()
	// From the end: an entry that is taken out is replaced by the last one,
	// which was met already, or is met again.
	if w.at = min(w.at, len(s.list)); !w.begun {
		w.begun, w.at = true, len(s.list)
	}
	from := max(0, w.at-batch)
	w.batch = append(w.batch[:0], s.list[from:w.at]...)
	for _, e := range w.batch {
		e.refs++
	}
	s.mu.Unlock()
	if w.at = from; w.at == 0 {
		w.shard, w.begun = w.shard+1, false
	}
	going := true
	for _, e := range w.batch {
		going = going && do(e)
		w.t.drop(e)
	}
	clear(w.batch)
	if !going {
		w.shard = shards
	}
	return w.shard < shards
}
