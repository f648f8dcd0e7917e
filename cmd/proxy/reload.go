package main

import (
	"context"
	"os"
	"time"

	"github.com/understudy-lb/understudy/proxy/properties"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A stamp tells one content of a file from another one, as far as that can be seen
// without reading it. It is zero of a file that is not there.
type stamp struct {
	modified time.Time
	size     int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// reload reads the files again until ctx is done: all when somebody asks, and the
// rules alone when their file has changed, as mod_jk does (mod_jk.md 5.7). It looks
// at the file by a timer, not because of a request.
func (s *server) reload(ctx context.Context, e env) {
	var look <-chan time.Time
	if s.cfg.URIMap != "" && s.cfg.URIMapReload > 0 {
		t := time.NewTicker(s.cfg.URIMapReload)
		defer t.Stop()
		look = t.C
	}
	seen := s.mapStamp
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.reload:
			seen = stampOf(s.cfg.URIMap)
			if s.tls != nil && !s.reloadCertificates() {
				continue
			}
			s.reloadAll(e) //nolint:contextcheck // probes live as long as the proxy
		case <-look:
			if now := stampOf(s.cfg.URIMap); now != seen {
				seen = now
				s.reloadRules(e) //nolint:contextcheck // likewise
			}
		}
	}
}

// reloadAll reads both files again.
func (s *server) reloadAll(e env) {
	file, rules, err := s.readFiles(e)
	if err != nil {
		s.refuse(file, rules, err)
		return
	}
	s.replace(file, rules)
}

// reloadRules reads the rules again.
func (s *server) reloadRules(e env) {
	rules, err := s.cfg.read(s.file, variables(e.getenv))
	if err != nil {
		s.refuse(nil, rules, err)
		return
	}
	s.warn(rules.Problems)
	s.replace(s.file, rules)
}

// replace lets requests from now on go by other files.
func (s *server) replace(file *worker.File, rules *urimap.Map) {
	change, err := s.proxy.Reload(file, rules)
	if err != nil {
		s.refuse(nil, nil, err)
		return
	}
	s.file = file
	if err := s.resume(file, rules); err != nil {
		s.log.Error().Err(err).Msg("change not kept")
	}
	done := s.log.Info().Strs("workers", file.List)
	if rules != nil {
		done = done.Int("rules", len(rules.Rules))
	}
	for what, names := range map[string][]string{"added": change.Added, "removed": change.Removed, "changed": change.Changed} {
		if len(names) > 0 {
			done = done.Strs(what, names)
		}
	}
	done.Msg("files read again")
}

// refuse logs that the proxy goes on by the files that it has, and why.
func (s *server) refuse(file *worker.File, rules *urimap.Map, err error) {
	if file != nil {
		s.wrong(file.Problems)
	}
	if rules != nil {
		s.wrong(rules.Problems)
	}
	s.log.Error().Err(err).Msg("files not taken over")
}

// wrong logs the errors of a file.
func (s *server) wrong(problems []properties.Problem) {
	for _, p := range problems {
		if p.Severity == properties.Error {
			s.log.Error().Str("file", p.File).Int("line", p.Line).Str("problem", p.Text).Msg("wrong setting")
		}
	}
}
