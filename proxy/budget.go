package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// A budget bounds how often the requests of one lb are tried again after a member
// has worked at them, so that retries do not multiply the load of an outage: a
// share of all requests, or budgetFloor a second if that is more; and what was
// saved while all went well, up to budgetSaved, so that the death of a member that
// had many requests in flight costs none of them.
//
// What no member has worked at does not count, such as a refused connection.
type budget struct {
	share int64 // of a token that each request brings, in thousandths; 0: no limit

	tokens atomic.Int64 // thousandths of a retry

	mu     sync.Mutex // guards filled; taken only to retry
	filled time.Time  // up to when budgetFloor was paid out
}

const (
	token       = 1000 // one retry
	budgetSaved = 1000 * token
	budgetFloor = 10 * token // each second
)

// newBudget returns a full budget with a share of percent, without limit if that is
// negative.
func newBudget(percent int) *budget {
	b := &budget{share: int64(max(0, percent)) * token / 100, filled: time.Now()}
	b.tokens.Store(budgetSaved)
	return b
}

// earn is called for each request. A full budget, the ordinary case, is only read.
func (b *budget) earn() {
	if b.tokens.Load() < budgetSaved {
		b.tokens.Add(b.share)
	}
}

// take reports whether there may be one more retry.
func (b *budget) take() bool {
	if b.share == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	// More than a budget's worth of time is not paid out.
	since := min(now.Sub(b.filled), time.Second*budgetSaved/budgetFloor)
	paid := int64(since) * budgetFloor / int64(time.Second)
	b.filled = now.Add(-since % (time.Second / budgetFloor)) // what is too short for a thousandth counts next time
	have := b.tokens.Add(paid)
	if have > budgetSaved {
		b.tokens.Add(budgetSaved - have)
		have = budgetSaved
	}
	if have < token {
		return false
	}
	b.tokens.Add(-token)
	return true
}

// refund undoes a take.
func (b *budget) refund() { b.tokens.Add(token) }
