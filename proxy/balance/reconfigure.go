package balance

import (
	"reflect"
	"slices"
)

// Reconfigure makes b as New would make it for cfg, in one step, but forgets nothing
// of members that stay: their states, load values and counts, the leases on them, and
// what was changed with [Balancer.Update] and [Balancer.Tune], unless cfg asks for
// another value than the Config before. What members say of themselves stays too.
// Members are told apart by Name, or else by Route. Those that are not in cfg are
// removed as by [Balancer.Remove].
//
// The error says what is wrong with cfg, and then nothing has changed.
func (b *Balancer) Reconfigure(cfg Config) error {
	want, err := New(cfg)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.maintain, b.slowStart, b.fastFail, b.compat = want.maintain, want.slowStart, want.fastFail, want.compat
	b.drainDeadline, b.drainIdle = want.drainDeadline, want.drainIdle
	method := b.tuning.Method
	adopt(&b.tuning, &b.asked, want.asked)

	before := b.members
	b.members, b.byRoute = nil, make(map[string]*member, len(want.members))
	stays := make([]*member, len(want.members)) // nil: it is new
	for i, w := range want.members {
		if at := slices.IndexFunc(before, w.is); at >= 0 {
			stays[i] = before[at]
			before = slices.Delete(before, at, at+1)
		}
	}
	for _, m := range before {
		b.slots[m.slot] = false
		m.life++
	}
	var added []*member
	for i, w := range want.members {
		m := stays[i]
		if m == nil {
			added = append(added, b.insert(w.Member))
			continue
		}
		m.ask(w.Member)
		b.members = append(b.members, m)
	}
	b.untangle()
	b.weigh()
	for _, m := range added {
		b.catchUp(m)
	}
	if b.tuning.Method != method {
		for _, m := range b.members {
			b.empty(m)
		}
	}
	if b.next >= len(b.members) {
		b.next = 0
	}
	return nil
}

// is reports whether m, as configured now, is the running member other.
func (m *Member) is(other *member) bool {
	return m.Name == other.Name || m.Route == other.Route && other.Name == other.Route
}

// ask makes m what the operator asks for now.
func (m *member) ask(now Member) {
	m.Value = now.Value
	m.asked.Value, now.Value = nil, nil
	now.Phase = m.asked.Phase // it says itself what holds
	adopt(&m.Member, &m.asked, now)
	m.derive()
}

// untangle gives each member a route of its own: what an operator has changed one to
// may be what the Config now wants for another. b.mu must be held.
func (b *Balancer) untangle() {
	clear(b.byRoute)
	for _, m := range b.members {
		if m.Route == m.asked.Route {
			b.byRoute[m.Route] = m
		}
	}
	for _, m := range b.members {
		if b.byRoute[m.Route] != nil && b.byRoute[m.Route] != m {
			m.Route = m.asked.Route
		}
		b.byRoute[m.Route] = m
	}
}

// adopt sets the fields of live that now has other values in than asked, which is
// what was asked for before, and lets asked be now. Other fields of live may have
// been changed since, and are left alone.
func adopt[T any](live, asked *T, now T) {
	to, before, from := reflect.ValueOf(live).Elem(), reflect.ValueOf(asked).Elem(), reflect.ValueOf(now)
	for i := range to.NumField() {
		if !before.Field(i).Equal(from.Field(i)) {
			to.Field(i).Set(from.Field(i))
		}
	}
	*asked = now
}
