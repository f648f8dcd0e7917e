package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	maxAsked   = 32          // rivals that are asked at a time
	reportEach = time.Minute // garbage is reported in the log at most so often
)

// watch writes the log and settles rivalries until ctx is done. It never waits
// for the network.
func (c *Cluster) watch(ctx context.Context) {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	var reported Stats
	var reportedAt time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.view.news:
			c.logChanges()
		case <-c.delegate.rivalry:
			c.settle(ctx)
		case <-tick.C:
			c.settle(ctx)
			if st := c.Stats(); st != reported && time.Since(reportedAt) >= reportEach {
				c.log.Warn().Uint64("packets", st.Packets).Uint64("streams", st.Streams).Uint64("garbage", st.Garbage).
					Msg("garbage on the gossip port")
				reported, reportedAt = st, time.Now()
			}
		}
	}
}

// settle finds out about each boot whose name or address another has too,
// whether it is gone (D12). Only watch calls it.
func (c *Cluster) settle(ctx context.Context) {
	for _, r := range c.view.conflicts() {
		id := r.ID()
		if c.owned && r.Gossip == c.Self().Gossip {
			c.depart(r) // we are what listens there
			continue
		}
		if c.startAsking(id) {
			c.wg.Go(func() {
				defer c.stopAsking(id)
				c.examine(ctx, r)
			})
		}
	}
}

// startAsking reports whether the member with that id may be asked now.
func (c *Cluster) startAsking(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking[id] || len(c.asking) >= maxAsked {
		return false
	}
	c.asking[id] = true
	return true
}

func (c *Cluster) stopAsking(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, id)
}

// examine asks at the addresses of r who is there, and draws the conclusions.
func (c *Cluster) examine(ctx context.Context, r rival) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	a, err := c.transport.ask(ctx, r.Gossip)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		if r.Replication != "" && !errors.Is(c.transport.accepts(ctx, r.Replication), syscall.ECONNREFUSED) {
			return // something of it may be alive
		}
		c.depart(r)
	case err != nil:
		// Silence, and an answer from who does not know the key, prove nothing.
	case a.id != r.ID():
		c.depart(r)
	case a.left:
		if c.view.depart(r.ID(), left, "") {
			c.delegate.tell(departure{r.ID(), left})
		}
	default:
		c.stays(r)
	}
}

// stays tells this boot to stop if it is one too many, r being alive.
func (c *Cluster) stays(r rival) {
	self := c.entry()
	switch {
	case r.Gossip == self.Gossip:
		c.conflict(fmt.Errorf("cluster: member %q announces %s, where member %q answers: Config.Advertise must be this member's own address",
			self.Name, self.Gossip, r.ID()))
	case r.Name == self.Name && r.older(self):
		c.conflict(fmt.Errorf("cluster: member %q at %s: an older boot of that name is alive at %s: stop it, or give this one another name",
			self.Name, self.Gossip, r.Gossip))
	}
}

// depart notes that the place of r has been taken.
func (c *Cluster) depart(r rival) { c.view.depart(r.ID(), replaced, r.by.Gossip) }
