package main

import (
	"fmt"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// timeoutConfig is what an operator sets of how long a request may take; see
// docs/timeouts.md for all time-outs there are.
type timeoutConfig struct {
	BodyTimeout    time.Duration `default:"60s" help:"Longest silence of a client that has to send a body."`
	WriteTimeout   time.Duration `default:"60s" help:"How long a client may take to accept one piece of its reply."`
	RequestTimeout time.Duration `default:"0s"  help:"How long a request may take as a whole, from its first byte to the end of its reply; 0 for no limit. Tunnels are spared."`
	ConnectionAge  time.Duration `default:"5m"  help:"How long a connection to a member is used for further requests, so that a name that leads elsewhere is noticed; 0 for no limit."`
}

// apply puts the settings into cfg. The error names the flag to mend.
func (c *timeoutConfig) apply(cfg *proxy.Config) error {
	switch {
	case c.BodyTimeout <= 0 || c.WriteTimeout <= 0:
		return fmt.Errorf("--body-timeout %v, --write-timeout %v: want more than 0", c.BodyTimeout, c.WriteTimeout)
	case c.RequestTimeout < 0 || c.ConnectionAge < 0:
		return fmt.Errorf("--request-timeout %v, --connection-age %v: want 0 or more", c.RequestTimeout, c.ConnectionAge)
	}
	cfg.BodyTimeout, cfg.WriteTimeout = c.BodyTimeout, c.WriteTimeout
	cfg.RequestTimeout, cfg.ConnectionAge = c.RequestTimeout, orNever(c.ConnectionAge)
	return nil
}
