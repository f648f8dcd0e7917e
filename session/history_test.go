package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/session/owner"
)

const (
	// replicated is the re-replication time of N1: so long after a death all
	// sessions have as many holders again.
	replicated = 2 * time.Second

	// settled is when the members agree again after the last fault.
	settled = 12 * time.Second
)

// A history is what clients of one trial saw and what was done to them, and the
// judge of it:
//
//   - G2: no window sees less than it has seen unless the reply is flagged, and
//     no count that nobody asked for (G7).
//   - G1: while only members go, a reply is flagged only if all that held what the
//     last reply stood for went within one re-replication time (N1).
//   - G4: what is lost at the heal of a partition is flagged, and told to
//     OnConflict, unless all that held it have gone before.
//   - G5: a session that was ended is served by nobody, unless all that knew of it
//     have gone (N4).
//   - G6: when all is mended each session has one primary, and its holders agree.
type history struct {
	t *testing.T

	mu        sync.Mutex // guards what follows, and the windows
	began     time.Time
	log       []string // for failures
	wrongs    int
	broken    int // connections between living members that are broken, or may be
	mended    time.Time
	death     time.Time            // the latest
	dead      map[string]bool      // boots
	acks      map[string]*ack      // of each session
	orphans   map[string]time.Time // when the last holder of what was acknowledged went
	forgotten map[string]bool      // ended sessions of which nobody knows any more
	alive     map[string]time.Time // when a request began whose reply showed that session, unflagged
	mayEnd    map[string]bool      // somebody has asked that it ends
	ended     map[string]time.Time // when that was acknowledged
	corpses   map[string]string    // the cookies of those
	tops      map[string]int       // what a window has seen at most of its own count in a session
	last      map[string]*sight    // of each session
	conflicts map[string]bool      // that were told
	tally
}

// An ack is what the last reply of a session stood for.
type ack struct {
	holders []string // boots that had acknowledged it
	seen    map[string]int
}

// A tally counts what trials did.
type tally struct{ good, errors, lost, back, over, faults, told int }

func (a *tally) add(h *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.good, a.errors, a.lost, a.back = a.good+h.good, a.errors+h.errors, a.lost+h.lost, a.back+h.back
	a.over, a.faults, a.told = a.over+h.over, a.faults+h.faults, a.told+len(h.conflicts)
}

// String is one line.
func (a *tally) String() string {
	return fmt.Sprintf("%d faults; %d good replies, %d errors; %d flagged, of which %d showed less; %d conflicts told; %d sessions ended",
		a.faults, a.good, a.errors, a.lost, a.back, a.told, a.over)
}

func newHistory(t *testing.T) *history {
	return &history{
		t: t, dead: map[string]bool{}, acks: map[string]*ack{}, orphans: map[string]time.Time{}, forgotten: map[string]bool{},
		alive: map[string]time.Time{}, mayEnd: map[string]bool{}, ended: map[string]time.Time{},
		corpses: map[string]string{}, tops: map[string]int{}, last: map[string]*sight{}, conflicts: map[string]bool{},
	}
}

// note writes a line for failures. h.mu must be held.
func (h *history) note(format string, a ...any) {
	if h.began.IsZero() {
		h.began = time.Now()
	}
	h.log = append(h.log, fmt.Sprintf("%8.3f ", time.Since(h.began).Seconds())+fmt.Sprintf(format, a...))
}

// wrong fails the test with what has happened before. h.mu must be held.
func (h *history) wrong(format string, a ...any) {
	h.t.Helper()
	h.note("WRONG: "+format, a...)
	if h.wrongs++; h.wrongs > 3 {
		return // they follow from the first ones
	}
	h.t.Errorf("%s\n%s", fmt.Sprintf(format, a...), strings.Join(h.log[max(0, len(h.log)-60):], "\n"))
}

func (h *history) fault(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults++
	h.note("-- %s", what)
}

// breaks notes that a connection between living members breaks, or is mended.
func (h *history) breaks(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken += n
	h.mended = time.Now()
}

// whole reports whether no connection between living members was broken since
// then, nor just before. h.mu must be held.
func (h *history) whole(since time.Time) bool {
	return h.broken == 0 && (h.mended.IsZero() || since.Sub(h.mended) > settled)
}

// acknowledged notes what a reply stands for. h.mu must be held.
func (h *history) acknowledged(tr *trial, s *sight) {
	a := h.acks[s.ID]
	if a == nil || s.Lost {
		a = &ack{seen: map[string]int{}}
		h.acks[s.ID] = a
	}
	a.holders = s.holders
	for key, n := range s.Seen { // replies may be seen in another order
		a.seen[key] = max(a.seen[key], n)
	}
	if h.gone(a) && !tr.held(s.ID, a.seen) { // in this very moment
		h.orphans[s.ID] = time.Now()
	}
}

// gone reports whether all that acknowledged a have gone. h.mu must be held.
func (h *history) gone(a *ack) bool {
	return !slices.ContainsFunc(a.holders, func(boot string) bool { return !h.dead[boot] })
}

// died notes that a member has gone, and what is lost with it.
func (h *history) died(tr *trial, boot string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead[boot] = true
	soon := time.Since(h.death) <= replicated || !h.whole(time.Now()) // who is cut off finds nobody to hold a copy
	h.death = time.Now()
	for id, a := range h.acks {
		if soon && h.gone(a) && !tr.held(id, a.seen) {
			h.note("-- %s is lost", hash(id))
			h.orphans[id] = time.Now()
		}
	}
	for id := range h.ended {
		h.forgotten[id] = h.forgotten[id] || !tr.knows(id, func(r *owner.Record) bool { return r.Dead })
	}
}

// knows reports whether a living process has a record of that session that
// passes.
func (tr *trial) knows(id string, pass func(*owner.Record) bool) bool {
	for _, name := range tr.names {
		p := tr.proc(name)
		if p == nil {
			continue
		}
		e := p.m.table.hold(id)
		r := e.record()
		p.m.table.drop(e)
		if r.Held() && pass(&r) {
			return true
		}
	}
	return false
}

// held reports whether a living process has all of what was seen of that session.
func (tr *trial) held(id string, seen map[string]int) bool {
	values, _ := newCodec()
	return tr.knows(id, func(r *owner.Record) bool {
		for key, want := range seen {
			n := 0
			if raw, ok := r.Attrs.Get(key); ok && values.dec.Unmarshal(raw, &n) != nil || n < want {
				return false
			}
		}
		return !r.Dead
	})
}

// holders are the boots that have acknowledged what a reply of p with that cookie
// stands for. An epoch names them.
func (tr *trial) holders(p *process, value string) (boots []string) {
	v, err := tr.codec.Decode(value)
	if err != nil {
		return nil
	}
	e := p.m.table.hold(v.ID)
	h := e.header()
	p.m.table.drop(e)
	if h.Epoch == epochOf(v.Epoch) {
		boots = append(boots, h.Primary.String())
		for _, c := range h.Copies {
			boots = append(boots, c.String())
		}
		return boots
	}
	for _, name := range []string{v.Primary, v.Secondary} { // it has moved on
		if p := tr.proc(name); p != nil {
			boots = append(boots, p.self.ID())
		}
	}
	return boots
}

// conflict is OnConflict of all members.
func (h *history) conflict(c Conflict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("conflict of %s: %v, exact %v, late %v", HashID(c.ID), c.Keys, c.Exact, c.Late)
	if !c.Late {
		h.conflicts[c.ID] = true
	}
}

// ends notes that a handler ends a session.
func (h *history) ends(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mayEnd[id] = true
}

// failed notes a request without a good reply, which may have counted.
func (h *history) failed(w *window, add int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errors++
	w.maybe += add
	h.note("%s: an error", w.name)
}

// share gives a window the session of another.
func (h *history) share(from, to *window) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.value, to.session, to.seen, to.at = from.value, from.session, maps.Clone(from.seen), from.at
}

// judge looks at a good reply to a request that began at start and was to add so
// much.
func (h *history) judge(w *window, path, at string, start time.Time, add int, value string, s *sight) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.good++
	said := fmt.Sprintf("%s: %s at %s of %s says %v of %s, new %v, lost %v", w.name, path, at, hash(w.session), s.Seen, hash(s.ID), s.New, s.Lost)
	h.note("%s", said)
	if end, ok := h.ended[s.ID]; ok && start.After(end) && h.whole(end) {
		h.wrong("%s, which was ended before", said)
	}
	own := w.seen[w.name]
	switch {
	case s.Lost:
		h.flagged(w, s, said)
	case w.session != "" && s.ID != w.session:
		if own = 0; !h.mayEnd[w.session] {
			h.wrong("%s: another session, unflagged", said)
		}
	case h.mayEnd[s.ID]: // while the handler ran, which goes on with nothing
	default:
		for _, key := range slices.Sorted(maps.Keys(w.seen)) {
			if s.Seen[key] < w.seen[key] {
				h.wrong("%s, and had seen %d of %s", said, w.seen[key], key)
			}
		}
		if s.ID != "" {
			h.alive[s.ID] = start
		}
	}
	if strings.HasPrefix(path, "/end") {
		if s.ID != "" {
			h.ended[s.ID], h.corpses[s.ID] = time.Now(), w.value
			h.over++
		}
		w.value, w.session, w.seen = "", "", map[string]int{}
		return
	}
	top := s.ID + " " + w.name
	if s.ID != "" && !strings.HasPrefix(path, "/end") {
		h.acknowledged(w.tr, s)
	}
	if !s.Lost {
		own = max(own, h.tops[top]) // a branch that was given up for lost may win in the end
		if surplus := s.Seen[w.name] - own - add; surplus > w.maybe {
			h.wrong("%s, and %d with %d errors was acknowledged", said, own+add, w.maybe)
		} else {
			w.maybe -= max(surplus, 0)
		}
	}
	h.last[s.ID] = s
	h.tops[top] = max(h.tops[top], s.Seen[w.name])
	w.value, w.session, w.seen, w.at = value, s.ID, s.Seen, start
	if s.Lost && !s.New {
		// The branch that it shows may have been given up while its handler ran,
		// and its changes be forwarded to another one (vector 18).
		w.seen = map[string]int{}
	}
}

// orphaned reports whether all that held what was acknowledged of a session have
// gone since a reply showed it. h.mu must be held.
func (h *history) orphaned(id string) bool {
	at := h.orphans[id]
	return !at.IsZero() && !at.Before(h.alive[id])
}

// flagged looks whether a reply may say that something is lost. h.mu must be
// held.
func (h *history) flagged(w *window, s *sight, said string) {
	h.t.Helper()
	h.lost++
	less := false
	for key, n := range w.seen {
		less = less || s.Seen[key] < n
	}
	if less {
		h.back++
	}
	if w.session != "" && h.whole(w.at) && !h.orphaned(w.session) && !h.mayEnd[w.session] {
		h.wrong("%s, and nothing has happened that may lose it", said)
	}
}

func hash(id string) string {
	if id == "" {
		return "nothing"
	}
	return HashID(id)
}

// audit looks at everything once more, when all faults are mended.
func (tr *trial) audit(all []*window) {
	tr.rest()
	tr.agree()
	for _, w := range all {
		for _, name := range tr.names {
			got, value, ok := w.ask(tr.proc(name), "/look?")
			if got.header.Get(NotExecuted) != "" {
				continue
			}
			tr.look(w, name, got, value, ok)
		}
	}
	tr.history.mu.Lock()
	corpses, forgotten := maps.Clone(tr.history.corpses), maps.Clone(tr.history.forgotten)
	for _, w := range all {
		id, s := w.session, tr.history.last[w.session]
		for _, w := range all {
			if top := tr.history.tops[id+" "+w.name]; s.Seen[w.name] < top && !tr.history.mayEnd[id] && tr.history.orphans[id].IsZero() && !tr.history.conflicts[id] {
				tr.history.wrong("%s has lost %s from %d to %d, which was told to nobody", hash(id), w.name, top, s.Seen[w.name])
			}
		}
	}
	tr.history.mu.Unlock()
	for id, value := range corpses {
		for _, name := range tr.names {
			b := &browser{t: tr.t, value: value}
			if got := b.get(tr.nodes[name], "/look"); strings.Contains(got.body, id) && !forgotten[id] {
				tr.history.mu.Lock()
				tr.history.wrong("%s is served at %s though it was ended: %s", hash(id), name, got.body)
				tr.history.mu.Unlock()
			}
		}
	}
}

// rest waits until nothing is under way in the background: a copy may be about to
// move to a member that has come back half a minute ago.
func (tr *trial) rest() {
	for range 100 {
		busy := false
		for _, name := range tr.names {
			r := tr.nodes[name].m.restorer
			r.mu.Lock()
			busy = busy || r.sessions > 0
			r.mu.Unlock()
		}
		if !busy {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	tr.t.Error("something is under way in the background for ever")
}

// agree looks whether each session has one primary, and all members that it names
// have the same (G6). Copies that are not needed any more may be left: a message
// that drops one is not waited for, and the next request finds it (R17).
func (tr *trial) agree() {
	type holding struct {
		at string
		is role
		owner.Record
	}
	holders := map[string][]holding{}
	for _, name := range tr.names {
		tr.nodes[name].m.table.each(func(e *entry) bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			if r := e.machine.Record(); e.role == primary || e.role == secondary {
				holders[e.id] = append(holders[e.id], holding{name, e.role, r})
			}
			return true
		})
	}
	for id, all := range holders {
		var owners []holding
		text := ""
		for _, r := range all {
			if r.is == primary {
				owners = append(owners, r)
			}
			text += fmt.Sprintf(" %s: %v %v version %d of %v and %v;", r.at, r.is, r.Epoch, r.Version, r.Primary, r.Copies)
		}
		copies := 0 // of the present record; older ones may be left behind (R17)
		for _, r := range all {
			if r.is == secondary && len(owners) > 0 && r.Epoch == owners[0].Epoch && r.Version == owners[0].Version {
				copies++
			}
		}
		if want := min(tr.cfg.Secondaries, len(tr.names)-1); len(owners) != 1 || copies != len(owners[0].Copies) || copies < max(1, want) {
			tr.history.mu.Lock()
			tr.history.wrong("at rest %s is held by%s want one primary and equal copies", hash(id), text)
			tr.history.mu.Unlock()
		}
	}
}

// look judges a reply of the audit: all is mended, so there is one.
func (tr *trial) look(w *window, name string, got reply, value string, ok bool) {
	s := sight{holders: tr.holders(tr.proc(name), value)}
	if err := json.Unmarshal([]byte(got.body), &s); !ok || err != nil {
		tr.t.Errorf("%s at %s when all is mended: %d %q", w.name, name, got.code, got.body)
		return
	}
	tr.history.judge(w, "/look", name, time.Now(), 0, value, &s)
}
