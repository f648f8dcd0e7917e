package session

import (
	"slices"
	"sync"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session/owner"
)

// Redundancy is how far a member is with giving copies to the sessions that
// lost one (D7).
type Redundancy struct {
	// Lacking is how many sessions this member has to find a holder for:
	// those of which it is the primary and no other member is known to hold
	// the record as it is now, and those that it is to take over from a primary
	// that is gone. It is zero if there is nobody who could hold a copy.
	Lacking int

	// Restoring reports whether this member has something to do: Lacking is
	// not zero, or a member was lost and not all sessions have been looked at
	// since.
	Restoring bool

	// Restored are the members, name#boot, that are lost and from whose loss all
	// sessions have recovered: what they held has another holder, as far as it is
	// for this member to see to it, and another loss would lose nobody's session
	// (D8). So none are added while nobody can hold a copy. The last 64, in the
	// order in which they were done. A member that comes back is taken out.
	Restored []string
}

// keepRestored bounds Redundancy.Restored.
const keepRestored = 64

// losses is which lost members have been seen to.
type losses struct {
	mu       sync.Mutex     // guards what follows; a leaf
	looking  []owner.Member // lost; not all sessions have been looked at since
	looked   []owner.Member // they have, and some lack a copy yet
	restored []owner.Member
	changed  chan struct{} // capacity one
}

func newLosses() *losses { return &losses{changed: make(chan struct{}, 1)} }

// begin notes that p is lost. It is called before the sessions are looked at.
func (l *losses) begin(p owner.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(p)
	l.looking = append(l.looking, p)
	l.tell()
}

// end notes that all sessions have been looked at since begin; or that p is back
// meanwhile, if seen is false.
func (l *losses) end(p owner.Member, seen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.looking, p) {
		return // it is back
	}
	l.remove(p)
	if seen {
		l.looked = append(l.looked, p)
	}
	l.tell()
}

// back notes that p has returned, so that its next loss is another one.
func (l *losses) back(p owner.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(p)
	l.tell()
}

// remove forgets p. l.mu must be held.
func (l *losses) remove(p owner.Member) {
	is := func(q owner.Member) bool { return p == q }
	l.looking = slices.DeleteFunc(l.looking, is)
	l.looked = slices.DeleteFunc(l.looked, is)
	l.restored = slices.DeleteFunc(l.restored, is)
}

// tell wakes who follows what is restored.
func (l *losses) tell() {
	select {
	case l.changed <- struct{}{}:
	default: // a token is already waiting
	}
}

// Redundancy returns how things stand now. It is cheap.
func (m *Manager) Redundancy() Redundancy {
	var r Redundancy
	lacking := m.stats.lacking.Load()
	if lacking > 0 && m.helpful() {
		r.Lacking = int(lacking)
	}
	l := m.losses
	l.mu.Lock()
	defer l.mu.Unlock()
	if lacking == 0 && len(l.looking) == 0 && len(l.looked) > 0 {
		l.restored = append(l.restored, l.looked...)
		l.looked = nil
		l.restored = slices.Delete(l.restored, 0, max(0, len(l.restored)-keepRestored))
		l.tell()
	}
	r.Restoring = r.Lacking > 0 || len(l.looking) > 0
	for _, p := range l.restored {
		r.Restored = append(r.Restored, p.String())
	}
	return r
}

// RedundancyChanged returns a channel that gets a token whenever what
// [Manager.Redundancy] says may have changed otherwise than by the number of
// sessions. It has one reader.
func (m *Manager) RedundancyChanged() <-chan struct{} { return m.losses.changed }

// helpful reports whether there is another member that can hold copies.
func (m *Manager) helpful() bool {
	for _, c := range m.cluster.Members() {
		if c.Proxy || c.Name == m.self.Name || c.State != cluster.Running && c.State != cluster.Starting {
			continue
		}
		if l := m.links.find(ownerMember(c)); l != nil {
			if up, _ := l.isUp(); up {
				return true
			}
		}
	}
	return false
}

// lacks reports whether this member is to find a holder for the session. e.mu
// must be held.
func (e *entry) lacks() bool {
	switch e.role {
	case primary:
		r := e.machine.Record()
		// What was never acknowledged, nobody but a request that waits knows of.
		return e.machine.Copied() == 0 && (r.Epoch.N > 1 || len(r.Copies) == 0)
	case secondary:
		return e.orphan
	default:
		return false
	}
}
