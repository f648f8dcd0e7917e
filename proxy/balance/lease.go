package balance

import "time"

// A Lease is one request's hold on a member. It is a value; the zero Lease holds
// nothing.
type Lease struct {
	b          *Balancer
	m          *member
	route      string
	value      any
	life       uint32
	reason     Reason
	activation Activation
	fresh      bool // counted as a new session
	told       bool // Answered was called
	charged    uint64
	carried    uint64
	at         time.Time // when the request began, for LeastTime; else zero
}

// Route returns the route that the leased member had when it was chosen.
func (l Lease) Route() string { return l.route }

// Slot returns a number below [MaxMembers] that belongs to the leased member for
// as long as it is one.
func (l Lease) Slot() int { return l.m.slot }

// Value returns the Value of the leased member.
func (l Lease) Value() any { return l.value }

// Activation returns the activation that counted for the request.
func (l Lease) Activation() Activation { return l.activation }

// Reason returns why the member was chosen.
func (l Lease) Reason() Reason { return l.reason }

// Replied notes that the head of the reply has come now, for [LeastTime].
func (l Lease) Replied() {
	if l.at.IsZero() {
		return
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	l.m.note(now.Sub(l.at), now)
}

// Carried notes how many bytes went over the connection to the member, both ways, for
// [ByTraffic]. The lease that it returns takes the place of l.
func (l Lease) Carried(n uint64) Lease {
	l.carried += n
	return l
}

// Answered records before the end of the exchange that the member has answered,
// with the effect of [OK], for one whose rest may take hours: its trial, if it is
// one, is over. The lease that it returns takes the place of l. If that ends with
// OK or [ClientFailed] nothing is said of the member any more, which may have
// fared otherwise since.
func (l Lease) Answered() Lease {
	if l.b == nil {
		return l
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.life == l.m.life {
		l.m.result(l.b, OK, time.Now())
	}
	l.told = true
	return l
}

// Others returns how many members beside the leased one could serve a session that
// names them: those that live, as far as is known (last-node guard, design.md D8).
func (l Lease) Others() int {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(time.Now())
	n := 0
	for _, m := range b.members {
		if m != l.m && m.sticky(nil) {
			n++
		}
	}
	return n
}

// Done ends the lease and records how the exchange went. If the member was
// cleared or removed meanwhile the outcome is ignored: it says nothing of the
// member that is there now. Done does not allocate.
func (l Lease) Done(o Outcome) {
	if l.b == nil {
		return
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	l.m.busy--
	l.b.busy--
	l.b.end(l.m, l.carried, now)
	if l.life != l.m.life {
		return
	}
	switch {
	case o == Unused:
		l.m.undo(l.fresh, l.charged)
		return
	case l.told && o == OK:
		return
	case l.told && o == ClientFailed:
		l.m.clientErrors++
		return
	}
	l.m.result(l.b, o, now)
}
