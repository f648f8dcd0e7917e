// Package owner decides who owns a session.
package owner

// A Machine is one session at one member. The zero Machine holds nothing and is
// ready; a driver keeps a Machine as long as it is not [Machine.Empty].
//
// A Machine is not safe for concurrent use.
type Machine struct {
	// Want is how many secondaries the session is to have. Zero means one.
	Want uint8

	rec Record
	ops *Op
}

// op is the machine's part of an Op.
type op struct{ next *Op }

// Step tells the machine of one event and appends to out what is to be done,
// in order. It keeps neither ev nor out.
func (m *Machine) Step(env Env, ev *Event, out []Action) []Action {
	return out
}

// Record is what the member holds; the zero Record if nothing. It shares slices
// with the machine, which does not write to them.
func (m *Machine) Record() Record { return m.rec }

// Empty reports whether the machine holds nothing and nothing is under way, so
// that it may be dropped and be made anew when an event comes.
func (m *Machine) Empty() bool { return !m.rec.Held() && m.ops == nil }

// Concerns reports whether the record belongs into a comparison with peer (C2):
// it names peer, or is a tombstone.
func (m *Machine) Concerns(peer Member) bool {
	return m.rec.Held() && (m.rec.Dead || m.rec.Names(peer))
}

// Primary reports whether self is the primary of the session.
func (m *Machine) Primary(self Member) bool {
	return m.rec.Held() && !m.rec.Dead && m.rec.Header.Primary == self
}
