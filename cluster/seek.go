package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	maxTries   = 8                // addresses of lost members that are tried in one round
	seedsEvery = 30 * time.Second // what is found is looked up again so often

	// strangeFor is for how many rounds in a row a seed hangs up when it is asked
	// who it is, until that is no accident: it knows another key.
	strangeFor = 3
)

// A seeker looks for members that are missing. It belongs to one goroutine.
type seeker struct {
	c       *Cluster
	seeds   []*seed
	joined  map[string]time.Time // addresses that answered, and when
	skipped int                  // lost addresses to begin after, in the next round
}

// A seed is one element of Config.Join.
type seed struct {
	hostport string
	addrs    []string  // of the last resolution
	resolved time.Time // when that was
	missing  bool      // some of addrs are no members
	failing  bool      // it has been logged that nothing answers
	strange  int       // rounds in a row in which it took a question and did not answer
}

// seek tries missing members again and again until ctx is done: those of
// Config.Join (K11), and the last known addresses of those that failed, for
// after a long cut gossip has forgotten them on both sides (K01).
func (c *Cluster) seek(ctx context.Context) {
	s := &seeker{c: c, joined: make(map[string]time.Time)}
	for _, j := range c.join {
		s.seeds = append(s.seeds, &seed{hostport: j, missing: true})
	}
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	s.round(ctx)
	close(c.sought)
	for ; ; s.round(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// round tries everybody who is missing once, at the same time.
func (s *seeker) round(ctx context.Context) {
	var wg sync.WaitGroup
	for _, sd := range s.seeds {
		if sd.missing || time.Since(sd.resolved) >= seedsEvery {
			wg.Go(func() { s.lookUp(ctx, sd) })
		}
	}
	wg.Wait()

	living, lost := s.c.view.addresses()
	found := func(addr string) bool {
		// A seed may announce another address than the one we have for it.
		return living[addr] || len(living) > 1 && time.Since(s.joined[addr]) < seedsEvery
	}
	var tries []string
	for _, sd := range s.seeds {
		sd.missing = len(sd.addrs) == 0
		for _, addr := range sd.addrs {
			if !found(addr) {
				sd.missing = true
				tries = append(tries, addr)
			}
		}
	}
	if n := len(lost); n > 0 {
		s.skipped %= n
		for i := range min(n, maxTries) {
			tries = append(tries, lost[(s.skipped+i)%n])
		}
		s.skipped += maxTries
	}
	slices.Sort(tries)
	s.try(ctx, slices.Compact(tries))
}

// lookUp resolves the name of a seed.
func (s *seeker) lookUp(ctx context.Context, sd *seed) {
	ctx, cancel := context.WithTimeout(ctx, s.c.timeout)
	defer cancel()
	addrs, err := s.c.resolve.resolve(ctx, sd.hostport)
	sd.resolved = time.Now()
	if err != nil {
		sd.fails(s.c, err) // and the addresses of the last time must do
		return
	}
	sd.addrs = sd.addrs[:0]
	for _, a := range addrs {
		sd.addrs = append(sd.addrs, a.String())
	}
}

// try joins the cluster at each of addrs. If this member has never met anybody it
// finds out whether that is because they know another key. Who has met others,
// and is the last, has all of the sessions: it goes on, whoever comes.
func (s *seeker) try(ctx context.Context, addrs []string) {
	errs, hangsUp := make([]error, len(addrs)), make([]bool, len(addrs))
	met := s.c.view.met()
	var wg sync.WaitGroup
	for i, addr := range addrs {
		if ctx.Err() == nil {
			wg.Go(func() {
				began := time.Now()
				_, errs[i] = s.c.ml.Join([]string{addr})
				if silent := time.Since(began) >= s.c.timeout; errs[i] != nil && !met && !silent {
					hangsUp[i] = s.c.hangsUp(ctx, addr)
				}
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	for i, addr := range addrs {
		if errs[i] == nil {
			s.joined[addr] = now
		} else {
			delete(s.joined, addr)
		}
		for _, sd := range s.seeds {
			if !slices.Contains(sd.addrs, addr) {
				continue
			}
			if errs[i] == nil {
				sd.failing = false
			} else {
				sd.fails(s.c, errs[i])
			}
		}
	}
	for _, sd := range s.seeds {
		if sd.strange++; !sd.silenced(addrs, hangsUp) {
			sd.strange = 0
		}
		if sd.strange == strangeFor {
			s.c.stranger(sd.hostport)
		}
	}
	for addr, at := range s.joined {
		if now.Sub(at) >= seedsEvery {
			delete(s.joined, addr)
		}
	}
}

// fails logs, once until it answers, that a seed does not.
func (sd *seed) fails(c *Cluster, err error) {
	if sd.failing {
		return
	}
	sd.failing = true
	c.log.Info().Str("join", sd.hostport).Err(err).Msg("seed does not answer, will be tried again")
}

// silenced reports whether addresses of the seed were tried in this round, and all of
// them hang up. Of addrs, which were tried, does says who does. One that is a
// member already, as this one may be, was not tried.
func (sd *seed) silenced(addrs []string, does []bool) (all bool) {
	for i, addr := range addrs {
		switch {
		case !slices.Contains(sd.addrs, addr):
		case !does[i]:
			return false
		default:
			all = true
		}
	}
	return all
}

// hangsUp reports whether somebody takes connections at addr, and ends them when
// asked who it is: it is no member, or knows none of our keys.
func (c *Cluster) hangsUp(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.transport.ask(ctx, addr)
	return errors.Is(err, io.EOF)
}

// stranger reports that this member and a seed do not know the same key. An app
// node stops: it would be a cluster of its own, that has half of the requests and
// none of the sessions (K07, K08). A proxy is no danger to anybody.
func (c *Cluster) stranger(seed string) {
	self := c.entry()
	err := fmt.Errorf("cluster: member %q at %s: the seed %s does not know our key: all members need the same --cluster-key, or none of them has one",
		self.Name, self.Gossip, seed)
	if !self.Proxy {
		c.conflict(err)
		return
	}
	c.log.Error().Err(err).Msg("seed knows another key")
}
