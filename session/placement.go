package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/understudy-lb/understudy/cluster"
)

// A Placement says who among candidates of equal rank holds the secondary.
type Placement uint8

const (
	// Hash lets the session's id choose (rendezvous hash), so that
	// the sessions of a member that is gone spread over all others.
	Hash Placement = iota

	// Ring takes the next name in cyclic order after the primary's
	// (SESS-27): every member then replicates to one other, and needs two
	// connections only (COMM-37).
	Ring
)

// ParsePlacement reads "hash" or "ring".
func ParsePlacement(s string) (Placement, error) {
	switch s {
	case "hash":
		return Hash, nil
	case "ring":
		return Ring, nil
	}
	return 0, fmt.Errorf("session: no placement %q, want \"hash\" or \"ring\"", s)
}

// String returns what [ParsePlacement] reads.
func (p Placement) String() string {
	if p == Ring {
		return "ring"
	}
	return "hash"
}

// Rank returns the members that may hold a copy of a session whose primary is
// given, best first (SESS-22, SESS-23, SESS-27): those in the primary's
// preferred secondary group before all others, and within each of the two those
// on another machine before those on the primary's own. id is the session's,
// and decides among equals when p is [Hash].
//
// A candidate serves, or will when it is ready, and has not the primary's name.
// One that takes no new sessions may have room for copies: it says so itself.
// Whether it has compared its sessions (C2), and so can hold one, is for the
// caller to know.
// Members are not changed; the result is the caller's.
func Rank(primary cluster.Member, members []cluster.Member, id string, p Placement) []cluster.Member {
	ranked := make([]cluster.Member, 0, len(members))
	for _, m := range members {
		if !m.Proxy && m.State != cluster.Draining && m.Name != primary.Name {
			ranked = append(ranked, m)
		}
	}
	slices.SortFunc(ranked, func(a, b cluster.Member) int {
		if c := cmp.Compare(rank(primary, a), rank(primary, b)); c != 0 {
			return c
		}
		if p == Hash {
			if c := cmp.Compare(weight(id, b.Name), weight(id, a.Name)); c != 0 {
				return c
			}
		}
		if c := cmp.Compare(before(primary, a), before(primary, b)); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Boot, a.Boot))
	})
	return ranked
}

// rank is the table of SESS-23, from 1, the best, to 4.
func rank(primary, m cluster.Member) int {
	r := 4
	if primary.Machine == "" || primary.Machine != m.Machine { // SESS-20: no name, own machine
		r--
	}
	if primary.SecondaryGroup != "" && primary.SecondaryGroup == m.Group {
		r -= 2
	}
	return r
}

// before is 0 for those that come after the primary in the ring, 1 for those
// that come round only when the ring starts again.
func before(primary, m cluster.Member) int {
	if m.Name > primary.Name {
		return 0
	}
	return 1
}

// weight is what the rendezvous hash gives a member for a session; the highest
// wins. It is FNV-1a over id, a byte that occurs in neither, and name, and
// then mixed, since FNV-1a moves a difference in the last byte too little. All
// members must agree on it, so it never changes.
func weight(id, name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h = (h ^ '!') * 1099511628211
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
