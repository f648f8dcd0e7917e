package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// walk is a random walk over a balancer that checks it after each step.
type walk struct {
	t    *testing.T
	rng  *rand.Rand
	b    *Balancer
	open []Lease

	method Method
	want   map[string]*Member // what the walk has configured
}

// TestWalk takes random steps: requests that begin and end, members that come,
// go, fail, are cleared or healed, are changed by operators, and time that passes, with
// every method.
func TestWalk(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &walk{t: t, rng: rand.New(rand.NewPCG(seed, 1)), want: map[string]*Member{}}
				w.method = Method(seed % uint64(Rendezvous+1))
				w.b = newWith(t, Config{
					ErrorEscalationTime: time.Duration(seed%3) * 15 * time.Second, MaxReplyTimeouts: int(seed % 2),
					Method: w.method, SlowStart: time.Duration(seed%4) * 10 * time.Second, FastFail: seed%5 == 4,
				})
				for range 3 {
					w.add()
				}
				for range 400 {
					w.step()
					w.check()
				}
				w.settle()
			})
		})
	}
}

func (w *walk) route() string { return string(rune('a' + w.rng.IntN(6))) }

func (w *walk) step() {
	switch n := w.rng.IntN(100); {
	case n < 50:
		w.request()
	case n < 80 && len(w.open) > 0:
		w.end()
	case n < 84:
		w.add()
	case n < 86:
		r := w.route()
		if w.b.Remove(r) != (w.want[r] != nil) {
			w.t.Fatalf("Remove(%q) is wrong about whether there is one", r)
		}
		delete(w.want, r)
	case n < 88:
		w.b.Fail(w.route())
	case n < 90:
		w.b.Clear(w.route())
	case n < 91:
		w.b.Heal(w.route())
		w.b.Ail(w.route())
	case n < 94:
		w.change()
	case n < 95:
		r, p := w.route(), Phase(w.rng.IntN(4))
		if w.b.SetPhase(r, p) {
			w.want[r].Phase = p
		}
	default:
		time.Sleep(time.Duration(w.rng.IntN(90)) * time.Second)
	}
}

// change does what the status worker may.
func (w *walk) change() {
	r := w.route()
	m := w.want[r]
	switch w.rng.IntN(3) {
	case 0:
		w.b.Reset(r)
	case 1:
		w.b.Recover(r)
	default:
		redirect, domain, distance := w.route(), string(rune('x'+w.rng.IntN(3))), w.rng.IntN(3)
		err := w.b.Update(r, func(m *Member) { m.Redirect, m.Domain, m.Distance = redirect, domain, distance })
		if (err == nil) != (m != nil) {
			w.t.Fatalf("Update(%q) = %v", r, err)
		}
	}
}

func (w *walk) add() {
	m := Member{Route: w.route(), LBFactor: 1 + w.rng.IntN(4)}
	if w.rng.IntN(4) == 0 {
		m.Activation = Activation(w.rng.IntN(3))
	}
	err := w.b.Add(m)
	if (err == nil) != (w.want[m.Route] == nil) {
		w.t.Fatalf("Add(%q) = %v", m.Route, err)
	}
	if err == nil {
		w.want[m.Route] = &m
	}
}

// request picks up to three times, as one request that fails over.
func (w *walk) request() {
	var round Round
	req := Request{Round: &round}
	if w.rng.IntN(2) == 0 {
		req.Primary, req.Secondary = []byte(w.route()), []byte(w.route())
		req.Avoid = w.rng.IntN(8) == 0
	}
	for range 1 + w.rng.IntN(3) {
		before := w.b.Snapshot()
		l, err := w.b.Pick(req)
		if err != nil {
			w.nobody(req, before)
			return
		}
		w.picked(req, l, before)
		if w.rng.IntN(2) == 0 {
			w.open = append(w.open, l)
			return
		}
		l.Done(w.outcome())
	}
}

func (w *walk) outcome() Outcome {
	if w.rng.IntN(2) == 0 {
		return OK
	}
	return Outcome(w.rng.IntN(int(Unused) + 1))
}

// nobody checks that ErrNoMember was the truth.
func (w *walk) nobody(req Request, before []Status) {
	w.t.Helper()
	for _, s := range before {
		avoided := req.Avoid && (s.Route == string(req.Primary) || s.Route == string(req.Secondary))
		if s.State.usable() && s.Activation == Active && !avoided && !req.Round.has(s.Slot) {
			w.t.Fatalf("ErrNoMember though %s is %v", s.Route, s.State)
		}
	}
}

// picked checks that a member might be given to a request.
func (w *walk) picked(req Request, l Lease, before []Status) {
	w.t.Helper()
	route := l.Route()
	m := w.want[route]
	if m == nil {
		w.t.Fatalf("picked %q, which is no member", route)
	}
	named := route
	switch l.Reason() {
	case ByPrimary:
		named = string(req.Primary)
	case BySecondary:
		named = string(req.Secondary)
	default:
	}
	switch {
	case m.Activation == Stopped:
		w.t.Fatalf("picked %s, which is stopped", route)
	case m.Activation == Disabled && (l.Reason() == ByValue || l.Reason() == ByDomain):
		w.t.Fatalf("picked %s by value, which is disabled", route)
	case named != route:
		w.t.Fatalf("picked %s because of %v, but that is %s", route, l.Reason(), named)
	case req.Avoid && (route == string(req.Primary) || route == string(req.Secondary)):
		w.t.Fatalf("picked %s, which was to be avoided", route)
	}
	usable := func(s Status) bool {
		return s.State.usable() && s.Activation == Active && s.Phase == Running && !req.Round.has(s.Slot)
	}
	at := slices.IndexFunc(before, func(s Status) bool { return s.Route == route })
	if !before[at].State.usable() && slices.ContainsFunc(before, usable) && !req.Avoid {
		w.t.Fatalf("picked %s, which is %v, though others are usable", route, before[at].State)
	}
	if m.Phase != Running && l.Reason() == ByValue && slices.ContainsFunc(before, usable) && !req.Avoid {
		w.t.Fatalf("picked %s by value, which is %v, though others are running", route, m.Phase)
	}
}

func (w *walk) end() {
	i := w.rng.IntN(len(w.open))
	l := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	l.Done(w.outcome())
}

// check compares the balancer with what the walk knows.
func (w *walk) check() {
	w.t.Helper()
	all := w.b.Snapshot()
	if len(all) != len(w.want) {
		w.t.Fatalf("%d members, want %d", len(all), len(w.want))
	}
	slots := map[int]bool{}
	for _, s := range all {
		m := w.want[s.Route]
		if m == nil || s.Activation != m.Activation || s.Phase != m.Phase || s.LBFactor != m.LBFactor {
			w.t.Fatalf("%+v, want %+v", s, m)
		}
		if slots[s.Slot] {
			w.t.Fatalf("two members in slot %d", s.Slot)
		}
		slots[s.Slot] = true
		if s.Busy < 0 || s.Busy > len(w.open) || s.RecoverIn < 0 || s.RecoverIn > time.Minute {
			w.t.Fatalf("impossible: %+v", s)
		}
		if s.LBValue > 1<<40 {
			w.t.Fatalf("load value of %s ran away: %d", s.Route, s.LBValue)
		}
	}
}

// settle ends everything and checks that nobody is stuck: after RecoverTime each
// member that may serve does, and all get their shares.
func (w *walk) settle() {
	w.t.Helper()
	for _, l := range w.open {
		l.Done(OK)
	}
	time.Sleep(time.Minute)
	for r, m := range w.want {
		w.b.SetPhase(r, Running)
		if err := w.b.Update(r, func(m *Member) { m.Distance = 0 }); err != nil {
			w.t.Fatal(err)
		}
		if m.Activation == Stopped {
			continue
		}
		if got := pick(w.t, w.b, sticky(r, ""), OK); got != r {
			w.t.Fatalf("at the end %s is stuck: its session went to %q", r, got)
		}
	}
	time.Sleep(time.Minute) // for slow starts to be over
	served := map[string]int{}
	for range 300 {
		served[pick(w.t, w.b, Request{}, OK)]++
	}
	// What was before may put a member ahead; nobody is more than that.
	for i := range 2000 {
		r := pick(w.t, w.b, Request{}, OK)
		if i >= 1000 {
			served[r]++
		} else if i == 0 {
			clear(served)
		}
	}
	switch w.method {
	case ByRequest, BySession, ByNext:
		w.shares(served)
	default: // nothing is in flight, or carried
	}
}

// shares checks that every active member has got its share within one request:
// served/lbfactor of no two members differ by more than one request of either.
func (w *walk) shares(served map[string]int) {
	w.t.Helper()
	for a, ma := range w.want {
		for b, mb := range w.want {
			if ma.Activation != Active || mb.Activation != Active {
				continue
			}
			// served[a]/fa - served[b]/fb <= 1/fa + 1/fb, without fractions.
			if d := served[a]*mb.LBFactor - served[b]*ma.LBFactor; d > ma.LBFactor+mb.LBFactor {
				w.t.Errorf("%s (lbfactor %d) served %d, %s (lbfactor %d) %d", a, ma.LBFactor, served[a], b, mb.LBFactor, served[b])
			}
		}
	}
}

// TestShares checks for many weightings that every member is within one request
// of its share after every single request.
func TestShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		var members []Member
		for i := range 1 + rng.IntN(8) {
			members = append(members, Member{Route: string(rune('a' + i)), LBFactor: 1 + rng.IntN(20)})
		}
		b := newBalancer(t, members...)
		served := map[string]int{}
		for range 300 {
			served[pick(t, b, Request{}, OK)]++
			for _, m := range members {
				for _, o := range members {
					// served[m] <= served[o]/f(o)*f(m) + 1
					if (served[m.Route]-1)*o.LBFactor > served[o.Route]*m.LBFactor {
						t.Fatalf("lbfactors %+v: served %v: %s is more than one request ahead of %s", members, served, m.Route, o.Route)
					}
				}
			}
		}
	}
}
