package owner

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// A Member is one boot of one node of the cluster, name#boot. The zero Member
// is nobody.
type Member struct {
	Name string
	Boot uint32
}

// IsZero reports whether m is nobody.
func (m Member) IsZero() bool { return m == Member{} }

// String returns name#boot, for logs and tests.
func (m Member) String() string {
	if m.IsZero() {
		return "nobody"
	}
	return m.Name + "#" + strconv.FormatUint(uint64(m.Boot), 10)
}

// compare orders members by name, then boot. Every member computes the same
// order, so it can settle which of several holders comes first.
func (m Member) compare(o Member) int {
	if c := strings.Compare(m.Name, o.Name); c != 0 {
		return c
	}
	switch {
	case m.Boot < o.Boot:
		return -1
	case m.Boot > o.Boot:
		return 1
	}
	return 0
}

// A Reign is a series of raises by one member that has held the record all the
// time. Boot is the member's boot number, which must differ between any two
// boots in the cluster, whatever their names; Seq counts the reigns of that
// boot, over all its sessions. The zero Reign is none.
type Reign struct {
	Boot, Seq uint32
}

func (r Reign) less(o Reign) bool {
	return r.Boot < o.Boot || r.Boot == o.Boot && r.Seq < o.Seq
}

// An Epoch names one pair of primary and secondaries: a counter, raised
// whenever the pair changes, and the reign that raised it. The zero Epoch
// claims nothing: every record descends from it.
type Epoch struct {
	N     uint32
	Reign Reign
}

// IsZero reports whether e claims nothing.
func (e Epoch) IsZero() bool { return e == Epoch{} }

// A rank is what orders epochs, and so decides which record replaces which: how
// much had been changed when the epoch began, then the counter, then how many
// copies there are (a member that is alone knows least), then the reign.
// It must not decide whether a record is new enough for a cookie: that is
// [Header.Descends]. A rank never changes, and what descends from an epoch has
// a higher one, whatever its old primary does: a promotion raises the counter,
// and the version never falls. How much was changed comes before the counter so
// that after a partition changes count for more than what was done to the pair.
type rank struct {
	start  uint64
	epoch  Epoch
	copies int
}

func (r rank) less(o rank) bool {
	switch {
	case r.start != o.start:
		return r.start < o.start
	case r.epoch.N != o.epoch.N:
		return r.epoch.N < o.epoch.N
	case r.copies != o.copies:
		return r.copies < o.copies
	}
	return r.epoch.Reign.less(o.epoch.Reign)
}

// String returns counter.boot.seq, as in the cookie.
func (e Epoch) String() string {
	return strconv.FormatUint(uint64(e.N), 10) + "." +
		strconv.FormatUint(uint64(e.Reign.Boot), 10) + "." +
		strconv.FormatUint(uint64(e.Reign.Seq), 10)
}

// A Run says who raised the counter: Reign did, from From up to the next run.
type Run struct {
	From  uint32
	Reign Reign
}

// MaxRuns is how many runs a lineage keeps. A cookie older than all of them is
// not known to be an ancestor and is answered flagged.
const MaxRuns = 16

// A Header is a record without its data: all that the rules compare. Slices in
// it are shared and never written after it was built. The zero Header says
// "nothing held".
type Header struct {
	Epoch Epoch

	// Lineage is who raised the counter, oldest first, the last MaxRuns runs;
	// its last run is Epoch's reign. Nil means that one reign raised all.
	Lineage []Run

	// Primary is whom the holder takes for the primary; it may be zero if the
	// holder gave the role up and knows of nobody else.
	Primary Member

	// Copies are the secondaries, in rank order; empty is the cookie's NONE.
	Copies []Member

	// Version counts the changes; it never falls along one branch.
	Version uint64

	// Start is the Version with which Epoch began.
	Start uint64

	// Dead marks a tombstone: no data, and above every record; but see
	// [Header.Expired].
	Dead bool

	// Loose says that the primary may have replied with changes of this epoch
	// that the copies do not have. Who promotes then does not claim to have all of
	// it: its epoch does not descend from this one.
	Loose bool
}

// Held reports whether h is the header of a record or tombstone, and not the
// zero Header.
func (h *Header) Held() bool { return h.Epoch.N != 0 }

// Expired reports whether h is the tombstone of a session that has ended by
// itself. It keeps the lineage, and who found it over as the primary. It is
// above what it descends from, and below all else: who lost a session to another
// branch does not know that it is in use there (38).
func (h *Header) Expired() bool { return h.Dead && !h.Primary.IsZero() }

// closes reports whether a request that presents e is answered that the session
// has ended.
func (h *Header) closes(e Epoch) bool { return h.Dead && (!h.Expired() || h.Descends(e)) }

// Descends reports whether h's lineage has e: whether h knows everything that
// was acknowledged under e.
func (h *Header) Descends(e Epoch) bool {
	switch {
	case e.IsZero():
		return h.Held()
	case e.N > h.Epoch.N:
		return false
	case h.Lineage == nil:
		return e.Reign == h.Epoch.Reign
	}
	for _, run := range slices.Backward(h.Lineage) {
		if run.From <= e.N {
			return run.Reign == e.Reign
		}
	}
	return false // older than what is kept
}

func (h *Header) rank() rank { return rank{h.Start, h.Epoch, len(h.Copies)} }

// Forked reports whether h and o are of two branches: neither descends from the
// other. It reports false if what is kept of the lineages does not tell.
func (h *Header) Forked(o *Header) bool {
	return h.Held() && o.Held() && !h.Dead && !o.Dead && h.without(o.Epoch) && o.without(h.Epoch)
}

// without reports whether h surely does not descend from e.
func (h *Header) without(e Epoch) bool {
	return !h.Descends(e) && (e.N > h.Epoch.N || h.Lineage == nil || h.Lineage[0].From <= e.N)
}

// Above reports whether h is higher than o in the one order on records:
// something over nothing, tombstone over record (but for 38), then rank of the
// epoch, then version.
func (h *Header) Above(o *Header) bool {
	switch {
	case h.Held() != o.Held():
		return h.Held()
	case h.Dead && o.Dead:
		return o.Expired() && !h.Expired()
	case h.Dead:
		return !h.Expired() || h.Descends(o.Epoch)
	case o.Dead:
		return o.Expired() && !o.Descends(h.Epoch)
	case h.Epoch != o.Epoch:
		return o.rank().less(h.rank())
	}
	return h.Version > o.Version
}

// better reports whether h is what a search goes on with, rather than o: of two
// branches the one in which more was changed, which will win (35).
func (h *Header) better(o *Header) bool {
	if h.Version != o.Version && h.Forked(o) {
		return h.Version > o.Version
	}
	return h.Above(o)
}

// Names reports whether h has m as primary or as a copy.
func (h *Header) Names(m Member) bool { return h.Primary == m || h.HasCopy(m) }

// HasCopy reports whether m is one of the secondaries.
func (h *Header) HasCopy(m Member) bool { return slices.Contains(h.Copies, m) }

// raise starts a new epoch under the given reign, with a counter above past. It
// does not change slices in place: they are shared with messages and replies.
//
// If cut, it does not descend from the present epoch, but from all before it: the
// first message of an epoch carries everything.
func (h *Header) raise(g Reign, cut bool, past uint32, primary Member, copies []Member) {
	if g != h.Epoch.Reign {
		runs := h.Lineage
		if runs == nil {
			runs = []Run{{Reign: h.Epoch.Reign}}
		}
		from := h.Epoch.N + 1
		if cut {
			from = h.Epoch.N
			if runs[len(runs)-1].From == from {
				runs = runs[:len(runs)-1]
			}
		}
		if len(runs) >= MaxRuns {
			runs = runs[len(runs)-MaxRuns+1:]
		}
		h.Lineage = append(slices.Clone(runs), Run{From: from, Reign: g})
	}
	h.Epoch, h.Start = Epoch{N: max(h.Epoch.N, past) + 1, Reign: g}, h.Version
	h.Primary, h.Copies = primary, copies
}

// An Attr is one attribute as it is stored and sent. Value is never written
// after it was given to the machine.
type Attr struct {
	Key   string
	Value []byte
}

// Attrs are a session's attributes, sorted by key, each key once. A list is
// never written after it was built, so it may be read without the lock under
// which it was obtained.
type Attrs []Attr

// Get returns the value of key.
func (a Attrs) Get(key string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(a, key, func(x Attr, k string) int { return strings.Compare(x.Key, k) })
	if !ok {
		return nil, false
	}
	return a[i].Value, true
}

// Valid reports whether a is sorted with each key once, which what came over
// the wire must be before it is given to the machine.
func (a Attrs) Valid() bool {
	for i := 1; i < len(a); i++ {
		if a[i-1].Key >= a[i].Key {
			return false
		}
	}
	return true
}

// A Change sets or removes one attribute. Value is retained and must not be
// written afterwards; it is ignored if Removed.
type Change struct {
	Key     string
	Value   []byte
	Removed bool
}

// Changes are what a request did to the attributes. Order matters only if a
// key occurs twice: the last one wins.
type Changes []Change

// apply returns a with ch done to it, as a new list.
func (a Attrs) apply(ch Changes) Attrs {
	if len(ch) == 0 {
		return a
	}
	out := make(Attrs, len(a), len(a)+len(ch))
	copy(out, a)
	for i := range ch {
		k, ok := slices.BinarySearchFunc(out, ch[i].Key, func(x Attr, k string) int { return strings.Compare(x.Key, k) })
		switch {
		case ok && ch[i].Removed:
			out = slices.Delete(out, k, k+1)
		case ok:
			out[k].Value = ch[i].Value
		case !ch[i].Removed:
			out = slices.Insert(out, k, Attr{ch[i].Key, ch[i].Value})
		}
	}
	return out
}

// size is what a and its names take, in bytes.
func (a Attrs) size() int {
	n := 0
	for i := range a {
		n += len(a[i].Key) + len(a[i].Value)
	}
	return n
}

// late reports whether something in ch is no more what the one who made it saw:
// whether somebody else has given one of its keys another value since. base is
// what was seen, as from [bases]. A key that has what ch gives it does not count:
// it is done already, or by two in the same way.
func (a Attrs) late(ch Changes, base []uint64) bool {
	for i := range ch {
		if i >= len(base) {
			return false // from a member that does not say
		}
		if !a.has(ch[i]) && a.digest(ch[i].Key) != base[i] {
			return true
		}
	}
	return false
}

// has reports whether a is so that c would change nothing.
func (a Attrs) has(c Change) bool {
	v, ok := a.Get(c.Key)
	return ok != c.Removed && (!ok || bytes.Equal(v, c.Value))
}

func (a Attrs) hasAll(ch Changes) bool {
	return !slices.ContainsFunc(ch, func(c Change) bool { return !a.has(c) })
}

// bases is what a has for each key of ch, as digests.
func (a Attrs) bases(ch Changes) []uint64 {
	if len(ch) == 0 {
		return nil
	}
	out := make([]uint64, len(ch))
	for i := range ch {
		out[i] = a.digest(ch[i].Key)
	}
	return out
}

// digest tells values of one key apart. It goes over the wire, so all versions
// of this program agree on it. It is zero without a value.
func (a Attrs) digest(key string) uint64 {
	v, ok := a.Get(key)
	if !ok {
		return 0
	}
	sum := sha256.Sum256(v)
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// Expiry travels with the record. The machine compares the numbers and does
// not know their unit; the driver keeps one for all members, and decides when a
// session is over.
type Expiry struct {
	// Idle is the time-out after the last access, zero for none.
	Idle int64

	// Access is when the last request came, as far as the holder knows. It
	// travels with the next flush, and by itself once it is Idle/10 ahead of
	// what the copies know (SESS-12).
	Access int64

	// End is when the session ends whatever happens, zero for never; its
	// tombstone is kept until then.
	End int64
}

// A Record is one member's copy of a session.
type Record struct {
	Header
	Attrs  Attrs
	Expiry Expiry
}
