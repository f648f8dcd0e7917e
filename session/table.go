package session

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// An entry is one session as this member knows it: the primary's record, a
// copy, a tombstone, or nothing but a request that looks for it.
type entry struct {
	id   string
	refs int // guarded by the shard's mu: who may look at the entry; 0 only inside drop

	mu      sync.Mutex // guards what follows; held for one step, never across I/O; after Session.mu, before link.mu
	machine owner.Machine
	heard   int64 // when an access was last heard of, in milliseconds of Config.Now
	buried  int64 // when the tombstone came, in milliseconds of Manager.uptime; 0 without
	role    role
	orphan  bool           // its primary is gone, and this member is the first in line
	lacking bool           // counted in counters.lacking
	era     uint64         // Manager.era when the pair changed last
	epoch   owner.Epoch    // of the record, as it was after the last step
	copies  []owner.Member // likewise
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

const shards = 64

// A table holds all entries of a member.
type table struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex // guards entries and their refs; a leaf: nothing is locked while it is held
	entries map[string]*entry
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
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
		e = &entry{id: id}
		s.entries[id] = e
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
	}
}

// each calls do with every entry there is now, one after the other, until do
// returns false. e.mu is not held.
func (t *table) each(do func(*entry) bool) {
	var batch []*entry
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		batch = slices.Grow(batch[:0], len(s.entries))
		for _, e := range s.entries {
			e.refs++
			batch = append(batch, e)
		}
		s.mu.Unlock()
		going := true
		for _, e := range batch {
			going = going && do(e)
			t.drop(e)
		}
		clear(batch)
		if !going {
			return
		}
	}
}

// Expiry is kept in milliseconds of the wall clock of whoever wrote it. The
// clocks of two members differ; so a member reckons from when it heard of an
// access, if that is later. One that holds a copy gives a grace on top: it never
// finds a session over before its primary does (SESS-12). Config.Lifetime is
// reckoned by the clock of the member that made the session.
const copyGrace = 10 * time.Second

// over reports whether a session has ended by itself at now. heard is when this
// member last heard of an access; primary is whether it is the session's.
func over(x owner.Expiry, heard, now int64, primary bool) bool {
	access, idle, end := max(x.Access, heard), x.Idle, x.End
	if !primary {
		grace := copyGrace.Milliseconds()
		idle += x.Idle/10 + grace // an access is told of only after Idle/10
		end += grace
	}
	return x.Idle > 0 && now-access >= idle || x.End > 0 && now >= end
}
