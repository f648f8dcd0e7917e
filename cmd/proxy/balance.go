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
	FastFail       bool          `help:"Answer 503 at once when all members of an lb are in error and each has a request that tries it. By default every request tries them."`
	Compat         bool          `help:"Do as mod_jk does where that is not unsafe: see docs/deviations.md."`
}

// apply puts the settings into cfg. The error names the flag to mend.
func (c *balanceConfig) apply(cfg *proxy.Config) error {
	if c.HealthInterval < 0 || c.SlowStart < 0 {
		return fmt.Errorf("--health-interval %v, --slow-start %v: want 0 or more", c.HealthInterval, c.SlowStart)
	}
	cfg.HealthInterval, cfg.SlowStart, cfg.FastFail, cfg.Compat = c.HealthInterval, c.SlowStart, c.FastFail, c.Compat
	return nil
}
