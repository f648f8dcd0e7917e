package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/understudy-lb/understudy/proxy/accesslog"
)

// noAccessLog is the value of --access-log that wants none.
const noAccessLog = "off"

// lastLines is how long the access log may take for its last lines.
const lastLines = 5 * time.Second

// openAccessLog opens the access log, if there is to be one.
func (s *server) openAccessLog(stdout io.Writer) error {
	if s.cfg.AccessLog == noAccessLog {
		return nil
	}
	format, err := accesslog.ParseFormat(s.cfg.AccessFormat)
	if err != nil {
		return fmt.Errorf("--access-format: %w", err)
	}
	open := func() (io.WriteCloser, error) {
		return os.OpenFile(s.cfg.AccessLog, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	}
	if s.cfg.AccessLog == "-" {
		open = func() (io.WriteCloser, error) { return unclosed{stdout}, nil }
	}
	s.access, err = accesslog.New(accesslog.Config{Open: open, Format: format, Query: s.cfg.AccessQuery, Log: s.log})
	if err != nil {
		return fmt.Errorf("--access-log: %w", err)
	}
	s.closers = append(s.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastLines)
		defer cancel()
		return s.access.Close(ctx)
	})
	return nil
}

// unclosed is a writer that others use too.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// reopen opens the access log anew whenever a signal asks for it, as logrotate
// does after it has renamed the file, until ctx is done.
func (s *server) reopen(ctx context.Context, asked <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		if s.access == nil {
			continue
		}
		if err := s.access.Reopen(); err != nil {
			s.log.Error().Str("file", s.cfg.AccessLog).Err(err).Msg("access log not reopened")
			continue
		}
		s.log.Info().Str("file", s.cfg.AccessLog).Msg("access log reopened")
	}
}
