package cluster

import "time"

// bootUnit is the step of boot numbers: far shorter than a process needs to
// stop and start again under its name.
const bootUnit = 100 * time.Millisecond

// NewBoot returns the boot number of a process that starts at t: higher than
// that of any earlier start of the same name, as long as the machine's clock
// was not set back. The numbers begin again after 13 years.
//
// Starts of different names may have the same number.
func NewBoot(t time.Time) uint32 {
	epoch := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	return uint32(t.Sub(epoch) / bootUnit)
}
