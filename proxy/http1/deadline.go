package http1

import "time"

// A deadline remembers what was last set on the connection, so that it is set
// rarely: each setting costs a change of a timer.
type deadline struct {
	at time.Time // as set; zero for none
}

// slack is how much later than d a time-out of d may fire: an eighth, at most
// a second.
func slack(d time.Duration) time.Duration { return min(d/8, time.Second) }

// renew makes sure that the deadline is at least d and at most d plus slack
// away, or that there is none if d is zero.
func (l *deadline) renew(d time.Duration, set func(time.Time) error) error {
	if d == 0 {
		if l.at.IsZero() {
			return nil
		}
		return l.exact(time.Time{}, set)
	}
	now := time.Now()
	if left := l.at.Sub(now); !l.at.IsZero() && left >= d && left <= d+slack(d) {
		return nil
	}
	return l.exact(now.Add(d+slack(d)), set)
}

func (l *deadline) exact(t time.Time, set func(time.Time) error) error {
	l.at = t
	return set(t)
}

// SetReadTimeout sets the longest silence of every later read: a read that
// gets nothing fails after d, at most an eighth of d and a second later, with
// an error that is [os.ErrDeadlineExceeded]. Zero means no limit. It costs
// nothing by itself.
func (c *Conn) SetReadTimeout(d time.Duration) {
	c.readTimeout = d
	c.absolute = time.Time{}
}

// SetReadDeadline sets the time by which all later reads must have ended, such
// as the last moment for a complete head, until [Conn.SetReadTimeout].
func (c *Conn) SetReadDeadline(t time.Time) { c.absolute = t }

// SetWriteTimeout sets the longest time of every later write. Zero means no
// limit.
func (c *Conn) SetWriteTimeout(d time.Duration) { c.writeTimeout = d }

// armRead sets the deadline for one read.
func (c *Conn) armRead() error {
	var err error
	if c.absolute.IsZero() {
		err = c.readBy.renew(c.readTimeout, c.nc.SetReadDeadline)
	} else if !c.readBy.at.Equal(c.absolute) {
		err = c.readBy.exact(c.absolute, c.nc.SetReadDeadline)
	}
	if c.interrupted.Load() {
		return ErrInterrupted
	}
	return err
}

func (c *Conn) armWrite() error {
	return c.writeBy.renew(c.writeTimeout, c.nc.SetWriteDeadline)
}

// Interrupt makes the read in progress, and every later one, return
// [ErrInterrupted] at once, until [Conn.Resume]. What was read is not lost. It
// may be called by another goroutine than the reader.
func (c *Conn) Interrupt() {
	c.interrupted.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs no interruption
}

// Resume undoes Interrupt. The reader calls it, after its read has returned and
// when no Interrupt can be under way.
func (c *Conn) Resume() {
	c.interrupted.Store(false)
	c.readBy.at = time.Unix(1, 0) // so that the next read sets it anew
}

// Interrupted reports whether Interrupt was called, and Resume not since.
func (c *Conn) Interrupted() bool { return c.interrupted.Load() }
