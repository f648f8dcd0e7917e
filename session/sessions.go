package session

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

// HashID stands for the session of that id in logs and for operators: enough to
// follow and to end it, and nothing to steal it with. It has 16 hexadecimal
// digits.
func HashID(id string) string {
	sum := sha256.Sum256([]byte("understudy session " + id))
	return hex.EncodeToString(sum[:8])
}

// An Info is what an operator may know of a session that a member holds.
type Info struct {
	Hash      string        // see [HashID]
	Role      string        // of this member: primary or secondary
	Primary   string        // the member that owns it
	Secondary string        // the member that has the copy, "" for none
	Bytes     int           // what its attributes take
	Version   uint64        // how often it was changed
	Idle      time.Duration // since it was used last, as far as this member knows
	Left      time.Duration // until it ends if nobody uses it
}

// Sessions yields all sessions of which this member is the primary or holds the
// copy, in no order. No lock is held meanwhile: what comes and goes may be met or
// not, and met twice.
func (m *Manager) Sessions() iter.Seq[Info] {
	return func(yield func(Info) bool) {
		m.table.each(func(e *entry) bool {
			e.mu.Lock()
			info, ok := m.info(e)
			e.mu.Unlock()
			return !ok || yield(info)
		})
	}
}

// info says what is held, if it is a session. e.mu must be held.
func (m *Manager) info(e *entry) (Info, bool) {
	if e.role != primary && e.role != secondary {
		return Info{}, false
	}
	r := e.machine.Record()
	now := m.clock()
	left := r.Expiry.End - now
	if r.Expiry.Idle > 0 {
		left = min(left, r.Expiry.Access+r.Expiry.Idle-now)
	}
	info := Info{
		Hash: HashID(e.id), Role: "primary", Primary: r.Primary.Name, Bytes: e.size, Version: r.Version,
		Idle: time.Duration(now-r.Expiry.Access) * time.Millisecond, Left: time.Duration(left) * time.Millisecond,
	}
	if e.role == secondary {
		info.Role = "secondary"
	}
	if len(r.Copies) > 0 {
		info.Secondary = r.Copies[0].Name
	}
	return info, true
}

// End ends the session with that hash, if this member is its primary or holds a
// copy, and reports whether it does: as [Session.Invalidate] would, for all
// members that are connected, but without waiting for them.
func (m *Manager) End(hash string) bool {
	found := false
	m.table.each(func(e *entry) bool {
		if HashID(e.id) != hash {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.role == primary || e.role == secondary {
			found = true
			m.step(e, &owner.Event{Kind: owner.Expire, Invalidate: true}, nil)
			m.log.Info().Str("session", hash).Msg("session ended by the operator")
		}
		return false
	})
	return found
}
