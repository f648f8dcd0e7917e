package balance

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Method is how a balancer measures load, and what it does with that.
type Method uint8

// The methods. The first five are mod_jk's (mod_jk.md 3.3), the others are ours.
const (
	ByRequest  Method = iota // R: requests, sticky ones too
	BySession                // S: requests that may begin a session
	ByNext                   // N: as S, but how far members are apart is never forgotten
	ByTraffic                // T: bytes in both directions
	ByBusyness               // B: requests in flight
	P2C                      // two members by chance, and of these the one with fewer requests in flight for its share
	LeastTime                // how long a member takes to answer, times the requests in flight
	Rendezvous               // a hash of the request's key and the member: each key has its member
)

// String returns the method's name as mod_jk's status worker shows it.
func (m Method) String() string {
	return [...]string{"Request", "Sessions", "Next", "Traffic", "Busyness", "P2C", "LeastTime", "Rendezvous"}[m]
}

// inFlight reports whether the load value is what runs now, and so needs neither
// decay nor a start at the most that others have.
func (m Method) inFlight() bool { return m == ByBusyness || m == P2C || m == LeastTime }

// begin adds a request that begins to the load of m, and returns what it added.
// b.mu must be held.
func (b *Balancer) begin(m *member, fresh bool, now time.Time) (charged uint64) {
	switch b.tuning.Method {
	case ByTraffic:
		return 0
	case ByBusyness, P2C, LeastTime:
		m.lbValue = uint64(m.busy) * m.mult
		return 0
	case BySession, ByNext:
		if !fresh {
			return 0
		}
	case ByRequest, Rendezvous:
	}
	charged = m.step(b, now)
	b.add(m, charged)
	return charged
}

// end takes a request that ended from the load of m, or adds its bytes to it.
// b.mu must be held.
func (b *Balancer) end(m *member, carried uint64, now time.Time) {
	switch {
	case b.tuning.Method.inFlight():
		m.lbValue = uint64(m.busy) * m.mult
	case b.tuning.Method == ByTraffic:
		hi, lo := bits.Mul64(carried, m.step(b, now))
		if hi > 0 {
			lo = math.MaxUint64
		}
		b.add(m, min(lo, 1<<61))
	}
}

// add adds to the load value of m. b.mu must be held.
func (b *Balancer) add(m *member, n uint64) {
	m.lbValue += n
	if m.lbValue < 1<<62 {
		return
	}
	for _, m := range b.members { // only after years without maintenance
		m.lbValue >>= 1
	}
}

// step is what one unit of load adds to the value of m now. While m starts slowly
// it is more.
func (m *member) step(b *Balancer, now time.Time) uint64 {
	return min(uint64(float64(m.mult)/m.warmth(b, now)), 1<<60)
}

// leastWarmth is the share of its share that a member gets at the begin of its slow
// start.
const leastWarmth = 0.1

// warmth returns which part of its share m is to get now: 1, or less during its
// slow start.
func (m *member) warmth(b *Balancer, now time.Time) float64 {
	if m.warmFrom.IsZero() {
		return 1
	}
	w := float64(now.Sub(m.warmFrom)) / float64(b.slowStart)
	if w >= 1 {
		m.warmFrom = time.Time{}
		return 1
	}
	return max(w, leastWarmth)
}

// cost returns by what m is compared with others; the lowest is chosen. known is
// the shortest time to answer of all members. b.mu must be held.
func (b *Balancer) cost(m *member, known time.Duration, now time.Time) uint64 {
	if b.tuning.Method == LeastTime {
		took := m.took(now)
		if took == 0 {
			took = known // nobody knows, so it is worth a try
		}
		return uint64(min(float64(took)*float64(m.busy+1)*float64(m.mult)/m.warmth(b, now), 1<<62))
	}
	if w := m.warmth(b, now); b.tuning.Method == ByBusyness && w < 1 {
		return uint64(min(float64(m.busy+1)*float64(m.mult)/w, 1<<62)) - m.mult
	}
	return m.lbValue
}

// answerHalf is how long it takes until an answer counts half of what it did, if
// there is no other: a member that was slow once gets another chance.
const answerHalf = 10 * time.Second

// took returns how long m takes to answer, as far as is known; zero if that is not.
func (m *member) took(now time.Time) time.Duration {
	if m.answer == 0 {
		return 0
	}
	return max(1, m.answer>>min(63, uint(max(0, now.Sub(m.answerAt))/answerHalf)))
}

// note takes in how long an answer took: a quarter of it, as TCP does with its round
// trips, but a longer one at once.
func (m *member) note(took time.Duration, now time.Time) {
	took = max(1, took)
	if before := m.took(now); before > took {
		took = before - (before-took)/4
	}
	m.answer, m.answerAt = took, now
}

// shortest returns the shortest time to answer that is known of any member.
// b.mu must be held.
func (b *Balancer) shortest(now time.Time) time.Duration {
	var least time.Duration
	for _, m := range b.members {
		if t := m.took(now); t > 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return max(1, least)
}

// nearer reports whether m is better than another one whatever their load.
func (m *member) nearer(than *member) bool {
	a, b := m.Phase.rank(), than.Phase.rank()
	return a < b || a == b && m.Distance < than.Distance
}

// twoChoices returns one of the two members that it draws among the best ones:
// that with fewer requests in flight for its share. b.mu must be held.
func (b *Balancer) twoChoices(r *Request, not1, not2 *member, now time.Time) *member {
	first := b.draw(r, not1, not2, nil, now)
	if first == nil {
		return nil
	}
	second := b.draw(r, not1, not2, first, now)
	if second == nil || first.nearer(second) {
		return first
	}
	if float64(second.busy)*float64(second.mult) < float64(first.busy)*float64(first.mult) {
		return second
	}
	return first
}

// draw returns a member by chance, each as likely as its share is, of those that are
// nearest and may be chosen, but not except. b.mu must be held.
func (b *Balancer) draw(r *Request, not1, not2, except *member, now time.Time) *member {
	var drawn *member
	var sum float64
	for _, m := range b.members {
		if !b.free(m, r) || m == not1 || m == not2 || m == except {
			continue
		}
		switch {
		case drawn == nil || m.nearer(drawn):
			drawn, sum = m, float64(m.LBFactor)*m.warmth(b, now)
		case drawn.nearer(m):
		default:
			share := float64(m.LBFactor) * m.warmth(b, now)
			sum += share
			if rand.Float64()*sum < share {
				drawn = m
			}
		}
	}
	return drawn
}

// owner returns the member to which the key of r belongs, of those that are nearest
// and may be chosen (rendezvous hashing with weights). b.mu must be held.
func (b *Balancer) owner(r *Request, not1, not2 *member) *member {
	var best *member
	var most float64
	key := hash(fnvOffset, r.Key)
	for _, m := range b.members {
		if !b.free(m, r) || m == not1 || m == not2 {
			continue
		}
		// Between 0 and 1, not included.
		u := (float64(mix(key^m.seed)>>11) + 0.5) / (1 << 53)
		score := float64(m.LBFactor) / -math.Log(u)
		if best == nil || m.nearer(best) || !best.nearer(m) && score > most {
			best, most = m, score
		}
	}
	return best
}

// FNV-1a.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func hash(h uint64, key []byte) uint64 {
	for _, c := range key {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// mix spreads the bits of h (the end of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
