package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
)

// Deadlines of the servers. A reply has none: it may be a stream.
const (
	headTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute // longer than a proxy keeps a connection
)

// serve answers until ctx is done, then stops in order: no new sessions, the
// others take over those that are here, requests under way finish, the node
// leaves.
func (n *node) serve(ctx context.Context, signalled func()) error {
	failed := make(chan error, 2)
	servers := []*http.Server{{Handler: n.handler, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout}}
	listeners := []net.Listener{n.listener}
	if n.admin != nil {
		servers = append(servers, &http.Server{Handler: n.adminMux, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout})
		listeners = append(listeners, n.admin)
	}
	for i, srv := range servers {
		go func() { failed <- srv.Serve(listeners[i]) }()
	}
	n.log.Info().Stringer("listen", n.listener.Addr()).Str("gossip", n.cluster.Self().Gossip).
		Str("replication", n.cluster.Self().Replication).Msg("node started")

	var reporting sync.WaitGroup
	ended := make(chan struct{})
	reporting.Go(func() { n.converse(ended) })

	var err error
	select {
	case err = <-failed:
	case err = <-n.cluster.Duplicate():
	case <-ctx.Done():
	}
	signalled()
	n.log.Info().Err(err).Msg("node stops")
	n.sessions.Drain()
	n.handOver(ctx)
	close(n.stopping)
	n.linger(ctx)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.StopTimeout)
	defer cancel()
	for _, srv := range servers {
		if e := srv.Shutdown(stop); e != nil {
			n.log.Warn().Err(e).Dur("stop_timeout", n.cfg.StopTimeout).Msg("requests cut off")
			err = errors.Join(err, srv.Close())
		}
	}
	err = errors.Join(err, n.sessions.Close(stop))
	close(ended)
	reporting.Wait()
	if e := n.cluster.Leave(stop); e != nil {
		n.log.Warn().Err(e).Msg("left without goodbye")
	}
	err = errors.Join(err, n.cluster.Close())
	if err == nil {
		n.log.Info().Msg("node stopped")
	}
	return err
}

// loadEvery is how often the number of sessions is told, if it has changed: it is
// for people. While the node drains or restores they wait for it.
const (
	loadEvery = 5 * time.Second
	loadSoon  = time.Second
)

// converse tells the cluster from whose loss the sessions have recovered, for which
// a proxy may wait (design D8), and how many there are; and does what operators
// want of this node. It ends when ended is closed.
func (n *node) converse(ended <-chan struct{}) {
	tick := time.NewTicker(loadSoon)
	defer tick.Stop()
	var told cluster.Load
	var at time.Time
	for {
		select {
		case <-n.sessions.RedundancyChanged():
			restored := n.sessions.Redundancy().Restored
			slices.Reverse(restored)
			n.cluster.SetRestored(restored)
		case o := <-n.cluster.Orders():
			if o == cluster.OrderDrain {
				n.sessions.Drain()
			} else {
				n.sessions.Resume()
			}
		case <-tick.C:
			s := n.sessions.Stats()
			load := cluster.Load{
				Known: true, Sessions: uint32(s.Primary), Copies: uint32(s.Secondary), Lacking: uint32(n.sessions.Redundancy().Lacking),
			}
			hurry := load.Lacking != told.Lacking || n.cluster.Self().State == cluster.Draining
			if load != told && (hurry || time.Since(at) >= loadEvery) {
				n.cluster.SetLoad(load)
				told, at = load, time.Now()
			}
		case <-ended:
			return
		}
	}
}

// handOver has the other nodes take over the sessions, for as long as the
// settings say, or until a second signal ends the process.
func (n *node) handOver(ctx context.Context) {
	if ctx.Err() == nil {
		return // it stops because something failed
	}
	began := time.Now()
	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.DrainTimeout)
	defer cancel()
	left := n.sessions.HandOver(timeout)
	level := zerolog.InfoLevel
	if left > 0 {
		level = zerolog.WarnLevel
	}
	n.log.WithLevel(level).Int("left", left).Dur("took", time.Since(began)).Msg("sessions handed over")
}

// lastCalls is how long a node that drains goes on answering before it closes
// its connections: longer than a proxy trusts an idle one without a probe. A
// request that was on its way is told Not-Executed, and its connection ends with
// the reply, so no proxy has to guess whether it ran.
const lastCalls = 1250 * time.Millisecond

// linger waits for lastCalls, or until a second signal ends the process.
func (n *node) linger(ctx context.Context) {
	if ctx.Err() == nil {
		return // it stops because something failed: there is nothing to be polite about
	}
	t := time.NewTimer(min(lastCalls, n.cfg.StopTimeout/2))
	defer t.Stop()
	<-t.C
}

// closing ends connections with the reply once the node stops.
func (n *node) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-n.stopping:
			w.Header().Set("Connection", "close")
		default:
		}
		next.ServeHTTP(w, r)
	})
}
