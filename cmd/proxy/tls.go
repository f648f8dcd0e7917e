package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/proxy/frontend"
)

// tlsConfig is what an operator sets of TLS with clients.
type tlsConfig struct {
	TLSListen     []string `name:"tls-listen" placeholder:"HOST:PORT" help:"Addresses for requests over TLS, HTTP/2 or HTTP/1.1."`
	TLSCert       []string `name:"tls-cert" placeholder:"FILE[:KEYFILE]" help:"PEM file with a certificate, its chain, and the private key unless that is in a file of its own. Of several a client gets the one with the name that it asks for; the first if none has it. Files that change are read again."`
	TLSMinVersion string   `name:"tls-min-version" default:"1.2" enum:"1.2,1.3" help:"Oldest version of TLS that is spoken."`
	TLSTicketKeys string   `name:"tls-ticket-keys" placeholder:"FILE" help:"Key file that session tickets are encrypted with, so that all proxies that have it can resume a session. By default that of --cluster-key; without either each process has its own."`
	TLSClientCA   string   `name:"tls-client-ca" placeholder:"FILE" help:"PEM file with the authorities whose certificates clients must show. Members see them in Client-Cert (RFC 9440)."`
	TLSClientAuth string   `name:"tls-client-auth" default:"require" enum:"require,request" help:"What becomes of a client without a certificate: refused, or let in."`
}

// loadTLS reads the files; the result is nil without a listener for TLS.
func (c *tlsConfig) loadTLS(cluster []keyfile.Key) (*frontend.TLS, error) {
	if len(c.TLSListen) == 0 {
		if len(c.TLSCert) > 0 || c.TLSTicketKeys != "" || c.TLSClientCA != "" {
			return nil, errors.New("--tls-cert, --tls-ticket-keys, --tls-client-ca: without --tls-listen they do nothing")
		}
		return nil, nil //nolint:nilnil // no TLS is a choice, not a failure
	}
	if len(c.TLSCert) == 0 {
		return nil, errors.New("--tls-listen: wants a certificate: --tls-cert FILE")
	}
	cfg := frontend.TLSConfig{TicketKeys: cluster, ClientCA: c.TLSClientCA, ClientOptional: c.TLSClientAuth == "request", MinVersion: tls.VersionTLS12}
	if c.TLSMinVersion == "1.3" {
		cfg.MinVersion = tls.VersionTLS13
	}
	for _, s := range c.TLSCert {
		chain, key, _ := strings.Cut(s, ":")
		cfg.Certificates = append(cfg.Certificates, frontend.CertificateFile{Chain: chain, Key: key})
	}
	var err error
	if c.TLSTicketKeys != "" {
		if cfg.TicketKeys, err = keyfile.Read(c.TLSTicketKeys); err != nil {
			return nil, fmt.Errorf("--tls-ticket-keys: %w", err)
		}
	}
	t, err := frontend.NewTLS(cfg)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-client-ca: %w", err)
	}
	return t, nil
}

// How often it is looked whether a certificate has been replaced, and how long
// before its end an operator is warned.
const (
	certificateEvery = 10 * time.Second
	expiresSoon      = 14 * 24 * time.Hour
)

// watchCertificates reads certificates again whose files have changed, and warns
// of those that end soon, until ctx is done.
func (s *server) watchCertificates(ctx context.Context) {
	tick := time.NewTicker(certificateEvery)
	defer tick.Stop()
	var warned time.Time
	for {
		if now := time.Now(); now.Sub(warned) > 24*time.Hour && s.tls.Expires().Sub(now) < expiresSoon {
			warned = now
			s.log.Warn().Time("expires", s.tls.Expires()).Msg("certificate expires soon")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.tls.Changed() {
			s.reloadCertificates()
			warned = time.Time{}
		}
	}
}

// reloadCertificates reads the files of the certificates again, and reports
// whether they are right.
func (s *server) reloadCertificates() bool {
	if err := s.tls.Reload(); err != nil {
		s.log.Error().Err(err).Msg("certificates not reloaded")
		return false
	}
	s.log.Info().Time("expires", s.tls.Expires()).Msg("certificates reloaded")
	return true
}
