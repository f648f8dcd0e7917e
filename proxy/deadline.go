package proxy

import (
	"errors"
	"time"
)

// errOverdue is the cause of failOverdue.
var errOverdue = errors.New("proxy: the request has taken Config.RequestTimeout")

// overdue reports whether the request has had all the time that it may take.
func (x *exchange) overdue() bool { return !x.until.IsZero() && !time.Now().Before(x.until) }

// within is d, or what is left of the time that the request may take if that is
// less; at least a nanosecond, since zero is no limit where it is used.
func (x *exchange) within(d time.Duration) time.Duration {
	if x.until.IsZero() {
		return d
	}
	return max(min(d, time.Until(x.until)), 1)
}
