package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// retryConfig is what an operator sets about sending requests again (design D8).
type retryConfig struct {
	MaxResend   int           `default:"1"  help:"How often a request may be sent again after a member has got it. -1 for no limit: then one request can kill every member, as with mod_jk."`
	RetryBudget int           `default:"20" help:"How many requests may be tried again after a member has worked at them, in percent of all. 0 for no limit."`
	ResendWait  time.Duration `default:"5s" help:"How long a request that was in flight when a member died is held until all sessions have copies again; 502 if that takes longer. 0 never sends such a request again."`
}

// apply puts the settings into cfg. The error names the flag to mend.
func (c *retryConfig) apply(cfg *proxy.Config) error {
	switch {
	case c.MaxResend == 0 || c.MaxResend < -1:
		return fmt.Errorf("--max-resend %d: want 1 or more, or -1; recovery_options=1 of a member sends nothing again", c.MaxResend)
	case c.RetryBudget < 0 || c.RetryBudget > 100:
		return fmt.Errorf("--retry-budget %d: want 0 to 100", c.RetryBudget)
	case c.ResendWait < 0:
		return fmt.Errorf("--resend-wait %v: want 0 or more", c.ResendWait)
	}
	cfg.MaxResend = c.MaxResend
	cfg.RetryBudget = cmp.Or(c.RetryBudget, -1)
	cfg.ResendWait = orNever(c.ResendWait)
	return nil
}

// orNever is d as package proxy has it, where zero is a default and negative
// means none.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
