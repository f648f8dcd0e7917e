package proxy

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A Change is what a reload has done to the members of the file, by name.
type Change struct {
	Added, Removed []string
	Changed        []string // other settings than where they stand in a balancer
}

// Reload makes the proxy serve by other files, in one step: the whole of both or, if
// the error says what is wrong with them, nothing.
//
//   - A request that has begun goes on as it has begun. No connection in use is
//     closed.
//   - A member whose settings stay keeps its connections, its counts, its state, and
//     what an operator has changed, unless the file asks for another value than
//     before. One with other settings keeps all but the connections. They are told
//     apart by name, and within an lb by route.
//   - Members that only gossip names stay, behind the worker that newcomers join
//     now; those that vanish from the file and that gossip names are newcomers.
//
// It may be called at any time before Close.
func (p *Proxy) Reload(file *worker.File, uris *urimap.Map) (Change, error) {
	if file == nil {
		return Change{}, errors.New("proxy: Reload: there is no workers file")
	}
	g := &p.gossip
	g.mu.Lock() // nobody joins, moves or is removed meanwhile
	defer g.mu.Unlock()
	before := p.table.Load()
	b := p.newBuilder(file, uris)
	all := before.members()
	for m := range all {
		if m.fromFile {
			b.old[m.name] = m
		}
	}
	if err := b.build(); err != nil {
		return Change{}, err
	}
	if err := b.keepNewcomers(before); err != nil {
		return Change{}, err
	}
	c := b.change()
	b.adopt(before)
	p.table.Store(b.t)
	p.watchDrains()

	now := b.t.members()
	for m := range all {
		if _, still := now[m]; !still {
			p.task(m.endpoint().Retire)
		}
	}
	p.presentAgain(all, now)
	for m := range now {
		if p.inError(m) {
			p.look(m) // nobody does yet, if it has taken another one's place
		}
	}
	return c, nil
}

// members returns the members of all workers.
func (t *table) members() map[*member]struct{} {
	all := map[*member]struct{}{}
	for _, l := range t.workers {
		for _, s := range l.balancer.Snapshot() {
			all[s.Value.(*member)] = struct{}{}
		}
	}
	return all
}

// change compares the members of the files.
func (b *builder) change() Change {
	var c Change
	for _, name := range slices.Sorted(maps.Keys(b.made)) {
		switch old := b.old[name]; {
		case old == nil:
			c.Added = append(c.Added, name)
		case old != b.made[name]:
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.old)) {
		if b.made[name] == nil {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

// keepNewcomers lists the members that are not in the file behind the worker that
// newcomers join now. p.gossip.mu must be held.
func (b *builder) keepNewcomers(before *table) error {
	from, to := before.newcomers, b.t.newcomers
	if from == nil || to == nil {
		return nil
	}
	for _, s := range from.balancer.Snapshot() {
		m := s.Value.(*member)
		if m.fromFile || slices.ContainsFunc(to.balancing.Members, func(o balance.Member) bool { return o.Route == m.route }) {
			continue
		}
		w := *to.template
		w.Name, w.Route = m.name, m.route
		if !sameServer(from.template, to.template) {
			next, err := b.newMemberAt(&w, m.endpoint().Address())
			if err != nil {
				return err
			}
			next.succeed(m)
			m = next
		}
		add := balanceMember(&w, m)
		add.Phase = s.Phase
		if from.name != to.name {
			add.Activation = s.Activation
		}
		if err := to.balancer.Add(add); err != nil {
			return err
		}
		to.balancing.Members = append(to.balancing.Members, add)
	}
	return nil
}

// adopt lets the workers of the new table go on with the balancers of those that
// they take the place of.
func (b *builder) adopt(before *table) {
	for _, l := range b.t.workers {
		old := before.worker(l.name)
		if old == nil || old.typ != l.typ {
			continue
		}
		moved := l.moved(old)
		if err := old.balancer.Reconfigure(l.balancing); err != nil {
			continue // cannot be: l's own balancer was made from the same
		}
		l.balancer, l.budget = old.balancer, old.budget
		l.tuning.Store(l.tuned.after(old))
		for _, route := range moved {
			l.balancer.Clear(route) // it is another server
		}
	}
}

// moved returns the routes of members that have another address than before.
func (l *lb) moved(old *lb) []string {
	var routes []string
	for _, add := range l.balancing.Members {
		m := add.Value.(*member)
		if o := old.find(m.route); o != nil && o != m && o.endpoint().Address() != m.endpoint().Address() {
			routes = append(routes, m.route)
		}
	}
	return routes
}

// presentAgain tells members that are new what gossip says of them, and lets those
// join that gossip names and the files do not any more. p.gossip.mu must be held.
func (p *Proxy) presentAgain(before, now map[*member]struct{}) {
	fresh := map[string]bool{}
	for m := range now {
		if _, was := before[m]; was {
			continue
		}
		fresh[m.route] = true
		if _, known := p.gossip.known[m.route]; !known && !m.fromFile {
			p.task(func() { p.decide(m) })
		}
	}
	for route, g := range p.gossip.known {
		if fresh[route] || len(p.find(route)) == 0 {
			p.present(g, Member{}, false)
		}
	}
}

// succeed makes m, of which there is no request yet, the successor of old, which may
// be nil.
func (m *member) succeed(old *member) {
	if old == nil {
		return
	}
	m.gossiped.Store(old.gossiped.Load())
	m.boot.Store(old.boot.Load())
	m.failed.Store(old.failed.Load())
	m.counts.retries.Store(old.counts.retries.Load())
	m.counts.malformed.Store(old.counts.malformed.Load())
	m.counts.read.Store(old.counts.read.Load())
	m.counts.written.Store(old.counts.written.Load())
	m.counts.last.Store(old.counts.last.Load())
}

// sameServer reports whether a and b differ in nothing but where they stand in
// files and balancers.
func sameServer(a, b *worker.Member) bool {
	settings := func(m *worker.Member) worker.Member {
		s := *m
		s.Line, s.Mount = 0, nil
		s.LBFactor, s.Activation, s.Distance, s.Domain, s.Redirect = 0, 0, 0, "", ""
		return s
	}
	return reflect.DeepEqual(settings(a), settings(b))
}
