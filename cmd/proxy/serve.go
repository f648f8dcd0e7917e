package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// serve answers until ctx is done or a listener fails, then stops in order:
// nothing new is accepted, requests under way finish, the proxy leaves gossip.
func (s *server) serve(ctx context.Context, e env) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(s.listeners)+1)
	for _, ln := range s.listeners {
		wg.Go(func() {
			if err := s.front.Serve(ln); err != nil {
				failed <- err
			}
		})
		s.log.Info().Stringer("listen", ln.Addr()).Msg("proxy started")
	}
	admin := &http.Server{Handler: s.pages, ReadHeaderTimeout: s.cfg.HeadTimeout, IdleTimeout: adminIdle}
	if s.admin != nil {
		wg.Go(func() {
			if err := admin.Serve(s.admin); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	following, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	defer unfollow()
	if s.cluster != nil {
		wg.Go(func() { follow(following, s.cluster, s.proxy) })
	}
	wg.Go(func() { s.reopen(following, e.reopen) })
	wg.Go(func() { s.reload(following, e) })
	if s.tls != nil {
		wg.Go(func() { s.watchCertificates(following) })
	}

	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	e.signalled()
	s.stopping.Store(true)
	s.log.Info().Err(err).Msg("proxy stops")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer cancel()
	if e := s.front.Shutdown(stop); e != nil {
		s.log.Warn().Err(e).Dur("stop_timeout", s.cfg.StopTimeout).Msg("requests cut off")
	}
	if e := admin.Shutdown(stop); e != nil {
		err = errors.Join(err, admin.Close())
	}
	unfollow()
	wg.Wait()
	if s.cluster != nil {
		if e := s.cluster.Leave(stop); e != nil {
			s.log.Warn().Err(e).Msg("left without goodbye")
		}
	}
	if err = errors.Join(err, s.close()); err == nil {
		s.log.Info().Msg("proxy stopped")
	}
	return err
}
