package main

import (
	"fmt"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// balanceConfig is what an operator sets of how members come back, beyond what
// workers.properties has.
type balanceConfig struct {
	HealthInterval time.Duration `default:"1s" help:"How often a member in error is asked whether it lives; if it does it is used again. 0 leaves it alone for recover_time, and then lets a client's request try it, as mod_jk does."`
	SlowStart      time.Duration `default:"0s" help:"How long a member that is back takes until it gets its whole share of requests without a session. 0 for no time."`
	DrainDeadline  time.Duration `default:"0s" help:"How long a disabled member serves its sessions; then it is stopped. 0 for no end. An app node of ours drains by itself."`
	DrainIdle      time.Duration `default:"30m" help:"How long after its last request a session counts as one that a disabled member still has."`
	FastFail       bool          `help:"Answer 503 at once when all members of an lb are in error and each has a request that tries it. By default every request tries them."`
	Compat         bool          `help:"Do as mod_jk does where that is not unsafe: see docs/deviations.md."`
}

// apply puts the settings into cfg. The error names the flag to mend.
func (c *balanceConfig) apply(cfg *proxy.Config) error {
	switch {
	case c.HealthInterval < 0 || c.SlowStart < 0 || c.DrainDeadline < 0:
		return fmt.Errorf("--health-interval %v, --slow-start %v, --drain-deadline %v: want 0 or more", c.HealthInterval, c.SlowStart, c.DrainDeadline)
	case c.DrainIdle <= 0:
		return fmt.Errorf("--drain-idle %v: want more than 0", c.DrainIdle)
	}
	cfg.HealthInterval, cfg.SlowStart, cfg.FastFail, cfg.Compat = c.HealthInterval, c.SlowStart, c.FastFail, c.Compat
	cfg.DrainDeadline, cfg.DrainIdle = c.DrainDeadline, c.DrainIdle
	return nil
}
