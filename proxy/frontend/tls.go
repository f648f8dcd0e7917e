package frontend

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/keyfile"
)

// TLSConfig sets up [TLS].
type TLSConfig struct {
	// Certificates are the files of the certificates, at least one. A client gets
	// the one that has the name it asks for (SNI) and that it can use; the first
	// one if none has.
	Certificates []CertificateFile

	// TicketKeys are shared by the proxies that shall take each other's session
	// tickets, newest first. What encrypts tickets is derived from them anew each
	// day. If empty, tickets are good for this process alone.
	TicketKeys []keyfile.Key

	// ClientCA is a PEM file with the certificates that vouch for those of
	// clients. Without it no client is asked for one. ClientOptional lets clients
	// without one in.
	ClientCA       string
	ClientOptional bool

	// MinVersion is the oldest version that is spoken, [tls.VersionTLS12] if zero.
	MinVersion uint16

	// Now tells the day. If nil, it is [time.Now].
	Now func() time.Time
}

// A CertificateFile names PEM files. The chain begins with the certificate itself.
// Without Key the private key stands in the same file.
type CertificateFile struct {
	Chain string
	Key   string
}

// A TLS is what connections are secured with. It is safe for concurrent use;
// [TLS.Reload] changes what later connections get.
type TLS struct {
	cfg     TLSConfig
	current atomic.Pointer[secured]

	mu sync.Mutex // held while files are read and keys are made: one at a time
}

// secured is one state of the files.
type secured struct {
	cfg  *tls.Config
	seen []stamp
	day  atomic.Int64 // of its ticket keys
}

// A stamp tells one state of a file from another.
type stamp struct {
	path string
	time time.Time
	size int64
}

// maxPEM is the largest file that is read, in bytes. It bounds what a wrong path
// can cost.
const maxPEM = 1 << 20

// NewTLS reads the files. The error names the one to mend.
func NewTLS(cfg TLSConfig) (*TLS, error) {
	if len(cfg.Certificates) == 0 {
		return nil, errors.New("frontend: TLSConfig.Certificates is empty")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &TLS{cfg: cfg}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Listen returns ln with what comes over its connections secured.
func (t *TLS) Listen(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12, // for the linter; see GetConfigForClient
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return t.today(), nil
		},
	})
}

// Reload reads the files again. If one of them is wrong everything stays as it
// was. Connections that are open go on.
func (t *TLS) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &secured{cfg: &tls.Config{
		MinVersion: max(t.cfg.MinVersion, tls.VersionTLS12),
		// Of TLS 1.2 only what has forward secrecy and authenticates what it
		// encrypts; those of 1.3 are all so, and RFC 9113 section 9.2.2 wants it.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		NextProtos: []string{"h2", "http/1.1"},
	}}
	for _, f := range t.cfg.Certificates {
		cert, err := s.certificate(f)
		if err != nil {
			return err
		}
		s.cfg.Certificates = append(s.cfg.Certificates, cert)
	}
	if t.cfg.ClientCA != "" {
		if err := s.clients(t.cfg); err != nil {
			return err
		}
	}
	t.ticket(s)
	t.current.Store(s)
	return nil
}

// Changed reports whether a file is another one than was read last. A file that
// cannot be looked at has not changed: it may be about to be replaced.
func (t *TLS) Changed() bool {
	for _, old := range t.current.Load().seen {
		if info, err := os.Stat(old.path); err == nil && (!info.ModTime().Equal(old.time) || info.Size() != old.size) {
			return true
		}
	}
	return false
}

// Expires returns when the first of the certificates is over.
func (t *TLS) Expires() time.Time {
	var first time.Time
	for _, c := range t.current.Load().cfg.Certificates {
		if end := c.Leaf.NotAfter; first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// read returns what stands in the file, and remembers its state from before.
func (s *secured) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read: nothing is lost
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxPEM {
		return nil, fmt.Errorf("%s: longer than %d bytes: this is no certificate", path, maxPEM)
	}
	s.seen = append(s.seen, stamp{path: path, time: info.ModTime(), size: info.Size()})
	return b, nil
}

// certificate reads one certificate with its chain and key.
func (s *secured) certificate(f CertificateFile) (tls.Certificate, error) {
	chain, err := s.read(f.Chain)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, place := chain, f.Chain
	if f.Key != "" {
		place = f.Key
		if key, err = s.read(f.Key); err != nil {
			return tls.Certificate{}, err
		}
	}
	switch {
	case !hasBlock(chain, "CERTIFICATE"):
		return tls.Certificate{}, fmt.Errorf("%s: has no block CERTIFICATE", f.Chain)
	case !hasBlock(key, "PRIVATE KEY"):
		return tls.Certificate{}, fmt.Errorf("%s: has no block PRIVATE KEY; one that needs a passphrase cannot be used", place)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", place, err)
	}
	return cert, nil
}

// hasBlock reports whether b has a PEM block of a type that ends so. RFC 5958 has
// "PRIVATE KEY", older files "RSA PRIVATE KEY" and the like.
func hasBlock(b []byte, suffix string) bool {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return false
		}
		if bytes.HasSuffix([]byte(block.Type), []byte(suffix)) && block.Type != "ENCRYPTED PRIVATE KEY" && block.Headers["DEK-Info"] == "" {
			return true
		}
	}
}

// clients makes clients show a certificate.
func (s *secured) clients(cfg TLSConfig) error {
	b, err := s.read(cfg.ClientCA)
	if err != nil {
		return err
	}
	s.cfg.ClientCAs = x509.NewCertPool()
	if !s.cfg.ClientCAs.AppendCertsFromPEM(b) {
		return fmt.Errorf("%s: has no certificate", cfg.ClientCA)
	}
	s.cfg.ClientAuth = tls.RequireAndVerifyClientCert
	if cfg.ClientOptional {
		s.cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return nil
}

// today returns the settings with keys of today.
func (t *TLS) today() *tls.Config {
	s := t.current.Load()
	if len(t.cfg.TicketKeys) > 0 && t.number() != s.day.Load() {
		t.mu.Lock()
		if s = t.current.Load(); t.number() != s.day.Load() {
			t.ticket(s)
		}
		t.mu.Unlock()
	}
	return s.cfg
}

// number is that of the day.
func (t *TLS) number() int64 { return t.cfg.Now().Unix() / int64(24*time.Hour/time.Second) }

// ticket sets the keys that tickets are encrypted with: the first one encrypts,
// all decrypt. Those of the day before are good still, and those of the next day
// already, since clocks differ. t.mu is held.
func (t *TLS) ticket(s *secured) {
	day := t.number()
	var keys [][32]byte
	for _, of := range []int64{0, -1, 1} {
		for _, k := range t.cfg.TicketKeys {
			keys = append(keys, [32]byte(k.Derive(fmt.Sprintf("tls ticket of day %d", day+of))))
		}
	}
	if len(keys) > 0 {
		s.cfg.SetSessionTicketKeys(keys)
	}
	s.day.Store(day)
}

// errPlain is a handshake that is no TLS, but HTTP: it is answered in kind.
var errPlain = errors.New("plain HTTP on a port for TLS")

// plainReply tells a client that speaks HTTP without TLS what is wrong.
const plainReply = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: 38\r\n\r\n" +
	"This port speaks HTTPS: use https://.\n"

// shake does the handshake within the time.
func shake(c *tls.Conn, limit time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	err := c.Handshake() //nolint:noctx // its deadline bounds it, and closing the connection ends it
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && looksLikeHTTP(plain.RecordHeader[:]) {
		_, _ = io.WriteString(plain.Conn, plainReply) // it is closed one way or the other
		return errPlain
	}
	if err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// looksLikeHTTP reports whether a request line may begin so.
func looksLikeHTTP(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '/' && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
