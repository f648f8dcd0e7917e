package peer

import (
	"fmt"
	"math"
	"time"
)

// waits are things sent and not yet answered, in the order of their numbers,
// which count from 1. Only the oldest one is watched: no timer per request.
type waits struct {
	sent  []int64 // when; answered if it was out of turn
	first uint64  // number of sent[head], less 1
	head  int
}

// answeredWait stands for a wait that is over.
const answeredWait = math.MaxInt64

// add notes something sent now, and returns its number.
func (w *waits) add(now int64) uint64 {
	if w.head > 64 && w.head > len(w.sent)/2 {
		n := copy(w.sent, w.sent[w.head:])
		w.sent, w.head = w.sent[:n], 0
	}
	w.sent = append(w.sent, now)
	return w.first + uint64(len(w.sent)-w.head)
}

// answer ends the wait of that number and returns when it began. It reports
// false if there is no such wait.
func (w *waits) answer(number uint64) (at int64, ok bool) {
	if number <= w.first || number-w.first > uint64(len(w.sent)-w.head) {
		return 0, false
	}
	i := w.head + int(number-w.first) - 1
	at = w.sent[i]
	if at == answeredWait {
		return 0, false
	}
	w.sent[i] = answeredWait
	for w.head < len(w.sent) && w.sent[w.head] == answeredWait {
		w.head++
		w.first++
	}
	if w.head == len(w.sent) {
		w.sent, w.head = w.sent[:0], 0
	}
	return at, true
}

// open returns how many waits there are, and perhaps some that ended out of turn.
func (w *waits) open() int { return len(w.sent) - w.head }

// oldest returns when the oldest wait began, or math.MaxInt64.
func (w *waits) oldest() int64 {
	if w.head == len(w.sent) {
		return answeredWait
	}
	return w.sent[w.head]
}

// maxGrace is how often in a row a watch that woke late lets an answer pass.
const maxGrace = 2

// A watch decides when to send a heartbeat and when an answer is late. It has
// no clock of its own: times are nanoseconds as its caller counts them.
type watch struct {
	every    int64 // between heartbeats
	patience int64 // how late an answer may be
	limit    int64 // when the compare must have ended
	nextBeat int64 // when the next heartbeat is due; the first is due at once
	due      int64 // when look wanted to be called
	grace    int   // times in a row that look was called late
}

// A look is what there is to do now, and when to look again.
type look struct {
	beat bool
	next int64
	err  error
}

// look decides at now, with the start of the oldest wait (math.MaxInt64 if
// there is none). It must be called at the time that it returned.
//
// If it is called much later than it wanted, this process did not run: it was
// frozen, or the machine is overloaded. Then the answer may be waiting to be
// read, so look gives the reader one more heartbeat's time before it judges.
func (w *watch) look(now, oldest int64, up bool) look {
	late := w.due != 0 && now-w.due > w.every/2
	if late && w.grace < maxGrace {
		w.grace++
		w.nextBeat = now
	} else {
		w.grace = 0
		if oldest != answeredWait && now-oldest >= w.patience {
			return look{err: fmt.Errorf("%w: for %v", ErrSilent, time.Duration(now-oldest).Round(time.Millisecond))}
		}
		if !up && now >= w.limit {
			return look{err: fmt.Errorf("%w: the compare has not ended", ErrSilent)}
		}
	}
	var l look
	if now >= w.nextBeat {
		l.beat = true
		w.nextBeat = now + w.every
	}
	// A wait that begins after this look is not due before the next one, for
	// patience is at least two heartbeats.
	l.next = w.nextBeat
	if oldest != answeredWait {
		l.next = min(l.next, oldest+w.patience)
	}
	if w.grace > 0 {
		l.next = w.nextBeat
	}
	w.due = l.next
	return l
}
