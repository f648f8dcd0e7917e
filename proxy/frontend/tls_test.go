package frontend_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/proxy/frontend"
)

// An authority signs certificates, and writes them to a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string // its own certificate
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.key = key
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.file = a.write("authority.pem", block("CERTIFICATE", der))
	return a
}

// sign makes a certificate, by itself if there is no authority yet.
func (a *authority) sign(c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	c.SerialNumber = big.NewInt(a.n)
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(48*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate for the names, and its key, to one file.
func (a *authority) issue(file string, names ...string) string {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(file, block("CERTIFICATE", der)+block("PRIVATE KEY", raw))
}

func (a *authority) write(file, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func files(paths ...string) []frontend.CertificateFile {
	var all []frontend.CertificateFile
	for _, p := range paths {
		all = append(all, frontend.CertificateFile{Chain: p})
	}
	return all
}

func newTLS(t *testing.T, cfg frontend.TLSConfig) *frontend.TLS {
	t.Helper()
	s, err := frontend.NewTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// secure is the front of s, which clients reach with secure.dial.
func secureFront(t *testing.T, s *frontend.TLS, cfg frontend.Config) *front {
	t.Helper()
	return newFront(t, cfg, s.Listen)
}

func (w *front) dialTLS(cfg *tls.Config) (*tls.Conn, error) {
	w.t.Helper()
	c, err := w.net.Host("10.0.2.1").Dial(context.Background(), "tcp", "10.0.0.1:80")
	if err != nil {
		w.t.Fatal(err)
	}
	secured := tls.Client(c, cfg)
	err = secured.Handshake()
	return secured, err
}

// A client gets the certificate with the name it asks for, the first one if none
// has it, and the newest version that both speak.
func TestServerName(t *testing.T) {
	a := newAuthority(t)
	s := newTLS(t, frontend.TLSConfig{Certificates: files(a.issue("one.pem", "shop.example"), a.issue("two.pem", "*.api.example", "api.example"))})
	synctest.Test(t, func(t *testing.T) {
		w := secureFront(t, s, frontend.Config{})
		defer w.close()
		for _, c := range []struct{ ask, want string }{
			{"shop.example", "shop.example"},
			{"api.example", "*.api.example"},
			{"v1.api.example", "*.api.example"},
			{"SHOP.example", "shop.example"},
			{"elsewhere.example", "shop.example"},
			{"", "shop.example"},
		} {
			conn, err := w.dialTLS(&tls.Config{ServerName: c.ask, InsecureSkipVerify: true}) //nolint:gosec // it is looked at below
			if err != nil {
				t.Errorf("%q: %v", c.ask, err)
				continue
			}
			state := conn.ConnectionState()
			if got := state.PeerCertificates[0].Subject.CommonName; got != c.want || state.Version != tls.VersionTLS13 {
				t.Errorf("%q gets %q in version %x, want %q in 1.3", c.ask, got, state.Version, c.want)
			}
			_ = conn.Close()
		}
	})
}

// Old versions, and what TLS 1.2 had of ciphers without forward secrecy or with
// CBC, are refused.
func TestModernOnly(t *testing.T) {
	a := newAuthority(t)
	cert := files(a.issue("one.pem", "shop.example"))
	const tls10, tls11, tls12, tls13 = tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13
	for _, c := range []struct {
		name     string
		server   uint16
		min, max uint16
		cipher   uint16
		good     bool
	}{
		{"1.3", 0, tls13, tls13, 0, true},
		{"1.2", 0, tls10, tls12, 0, true},
		{"1.2 where 1.3 is wanted", tls13, tls10, tls12, 0, false},
		{"1.1", 0, tls10, tls11, 0, false},
		{"1.1 where it is asked for", tls10, tls10, tls11, 0, false},
		{"GCM", 0, tls12, tls12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, true},
		{"CBC", 0, tls12, tls12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, false},
	} {
		s := newTLS(t, frontend.TLSConfig{Certificates: cert, MinVersion: c.server})
		synctest.Test(t, func(t *testing.T) {
			w := secureFront(t, s, frontend.Config{})
			defer w.close()
			client := &tls.Config{
				MinVersion: c.min, MaxVersion: c.max, RootCAs: a.pool, ServerName: "shop.example",
				Time: func() time.Time { return a.cert.NotBefore.Add(time.Hour) }, // not the bubble's
			}
			if c.cipher != 0 {
				client.CipherSuites = []uint16{c.cipher}
			}
			conn, err := w.dialTLS(client)
			if (err == nil) != c.good {
				t.Errorf("%s: %v, want success: %t", c.name, err, c.good)
			}
			_ = conn.Close()
		})
	}
}

// Both protocols go through the same pipeline, which tells members that the client
// has come by https.
func TestProtocols(t *testing.T) {
	a := newAuthority(t)
	s := newTLS(t, frontend.TLSConfig{Certificates: files(a.issue("one.pem", "shop.example"))})
	synctest.Test(t, func(t *testing.T) {
		w := secureFront(t, s, frontend.Config{})
		defer w.close()
		for _, version2 := range []bool{false, true} {
			transport := &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return w.net.Host("10.0.2.1").Dial(ctx, "tcp", "10.0.0.1:80")
				},
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // names are TestServerName's
				ForceAttemptHTTP2: version2,
			}
			for range 2 {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example/origin", nil)
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if string(body) != "https []" || err != nil || (resp.ProtoMajor == 2) != version2 {
					t.Errorf("%s: %q, %v; want https", resp.Proto, body, err)
				}
			}
			transport.CloseIdleConnections()
		}
	})
}

// A ticket of one proxy is good at another one with the same keys, for a day and
// over midnight, while keys are rotated, and nowhere else (peers.md K07).
func TestTickets(t *testing.T) {
	a := newAuthority(t)
	cert := files(a.issue("one.pem", "shop.example"))
	old, young := keyfile.Generate(), keyfile.Generate()
	later := func(d time.Duration) func() time.Time { return func() time.Time { return time.Unix(1e9, 0).Add(d) } }
	for _, c := range []struct {
		name          string
		first, second frontend.TLSConfig
		resumed       bool
	}{
		{"same key", frontend.TLSConfig{TicketKeys: []keyfile.Key{old}}, frontend.TLSConfig{TicketKeys: []keyfile.Key{old}}, true},
		{"no keys", frontend.TLSConfig{}, frontend.TLSConfig{}, false},
		{"another key", frontend.TLSConfig{TicketKeys: []keyfile.Key{old}}, frontend.TLSConfig{TicketKeys: []keyfile.Key{young}}, false},
		{"rotated", frontend.TLSConfig{TicketKeys: []keyfile.Key{old, young}}, frontend.TLSConfig{TicketKeys: []keyfile.Key{young, old}}, true},
		{"a clock that is ahead", frontend.TLSConfig{TicketKeys: []keyfile.Key{old}, Now: later(25 * time.Hour)}, frontend.TLSConfig{TicketKeys: []keyfile.Key{old}, Now: later(0)}, true},
		{"next day", frontend.TLSConfig{TicketKeys: []keyfile.Key{old}, Now: later(0)}, frontend.TLSConfig{TicketKeys: []keyfile.Key{old}, Now: later(25 * time.Hour)}, true},
		{"two days after", frontend.TLSConfig{TicketKeys: []keyfile.Key{old}, Now: later(0)}, frontend.TLSConfig{TicketKeys: []keyfile.Key{old}, Now: later(50 * time.Hour)}, false},
	} {
		c.first.Certificates, c.second.Certificates = cert, cert
		client := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "shop.example", InsecureSkipVerify: true} //nolint:gosec // see above
		resumed := false
		for _, cfg := range []frontend.TLSConfig{c.first, c.second} {
			s := newTLS(t, cfg)
			w := secureFront(t, s, frontend.Config{})
			conn, err := w.dialTLS(client)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			resumed = conn.ConnectionState().DidResume
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // the ticket comes before it
				t.Fatalf("%s: %v", c.name, err)
			}
			_ = conn.Close()
			w.close()
		}
		if resumed != c.resumed {
			t.Errorf("%s: resumed: %t, want %t", c.name, resumed, c.resumed)
		}
	}
}

// Keys of tickets change at midnight while the process runs.
func TestTicketsAtMidnight(t *testing.T) {
	a := newAuthority(t)
	now := time.Unix(1e9, 0)
	s := newTLS(t, frontend.TLSConfig{
		Certificates: files(a.issue("one.pem", "shop.example")), TicketKeys: []keyfile.Key{keyfile.Generate()}, Now: func() time.Time { return now },
	})
	w := secureFront(t, s, frontend.Config{})
	defer w.close()
	client := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "shop.example", InsecureSkipVerify: true} //nolint:gosec // see above
	for i, want := range []bool{false, true, true, false} {
		conn, err := w.dialTLS(client)
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().DidResume; got != want {
			t.Errorf("connection %d: resumed: %t, want %t", i, got, want)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_ = conn.Close()
		now = now.Add([]time.Duration{0, 24 * time.Hour, 72 * time.Hour, 0}[i])
	}
}

// Files that change are read again; what is wrong in them leaves everything as it
// was.
func TestReload(t *testing.T) {
	a := newAuthority(t)
	path := a.issue("one.pem", "old.example")
	s := newTLS(t, frontend.TLSConfig{Certificates: files(path)})
	w := secureFront(t, s, frontend.Config{})
	defer w.close()
	serves := func(want string) {
		t.Helper()
		conn, err := w.dialTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is looked at below
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("serves %s, want %s", got, want)
		}
	}
	if s.Changed() {
		t.Error("changed before anything was")
	}
	serves("old.example")
	good, err := os.ReadFile(a.issue("two.pem", "new.example"))
	if err != nil {
		t.Fatal(err)
	}
	a.write("one.pem", string(good[:len(good)-100]))
	if !s.Changed() {
		t.Error("not changed")
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v, want an error that names %s", err, path)
	}
	serves("old.example")
	a.write("one.pem", string(good))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	serves("new.example")
	if s.Changed() {
		t.Error("changed since it was read")
	}
}

// A wrong file is named.
func TestWrongCertificates(t *testing.T) {
	a := newAuthority(t)
	good, other := a.issue("good.pem", "shop.example"), a.issue("other.pem", "shop.example")
	encrypted := a.write("encrypted.pem", block("CERTIFICATE", a.cert.Raw)+block("ENCRYPTED PRIVATE KEY", []byte("x")))
	for _, c := range []struct {
		cfg  frontend.TLSConfig
		want string
	}{
		{frontend.TLSConfig{}, "empty"},
		{frontend.TLSConfig{Certificates: files(filepath.Join(a.dir, "none.pem"))}, "none.pem"},
		{frontend.TLSConfig{Certificates: files(a.file)}, "authority.pem: has no block PRIVATE KEY"},
		{frontend.TLSConfig{Certificates: files(encrypted)}, "encrypted.pem: has no block PRIVATE KEY"},
		{frontend.TLSConfig{Certificates: files(a.write("empty.pem", ""))}, "empty.pem: has no block CERTIFICATE"},
		{frontend.TLSConfig{Certificates: files(a.write("long.pem", strings.Repeat("x", 2<<20)))}, "long.pem: longer than"},
		{frontend.TLSConfig{Certificates: []frontend.CertificateFile{{Chain: good, Key: other}}}, "other.pem: tls: private key does not match"},
		{frontend.TLSConfig{Certificates: files(good), ClientCA: a.write("empty.pem", "")}, "empty.pem: has no certificate"},
	} {
		if _, err := frontend.NewTLS(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

// A client's certificate is asked for, verified, and shown to the member in
// Client-Cert (RFC 9440), which nobody else can claim.
func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	cert := files(a.issue("one.pem", "shop.example"))
	load := func(path string) tls.Certificate {
		c, err := tls.LoadX509KeyPair(path, path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	known, unknown := load(a.issue("client.pem", "alice")), load(stranger.issue("client.pem", "mallory"))
	shown := "https [:" + base64.StdEncoding.EncodeToString(known.Certificate[0]) + ":]"
	for _, c := range []struct {
		name     string
		ca       string
		optional bool
		shows    *tls.Certificate
		want     string // empty: no reply
	}{
		{"required and shown", a.file, false, &known, shown},
		{"required and not shown", a.file, false, nil, ""},
		{"required, of somebody else", a.file, false, &unknown, ""},
		{"optional and shown", a.file, true, &known, shown},
		{"optional and not shown", a.file, true, nil, "https []"},
		{"optional, of somebody else", a.file, true, &unknown, ""},
		{"not asked for", "", false, &known, "https []"},
	} {
		s := newTLS(t, frontend.TLSConfig{Certificates: cert, ClientCA: c.ca, ClientOptional: c.optional})
		w := secureFront(t, s, frontend.Config{})
		client := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { //nolint:gosec // see above
			if c.shows == nil {
				return &tls.Certificate{}, nil
			}
			return c.shows, nil
		}}
		got := ""
		if conn, err := w.dialTLS(client); err == nil { // in 1.3 the client learns of a refusal later
			_, _ = io.WriteString(conn, "GET /origin HTTP/1.1\r\nHost: x\r\nClient-Cert: :Zm9yZ2Vk:\r\nClient_Cert: :Zm9yZ2Vk:\r\n\r\n")
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				b, _ := io.ReadAll(resp.Body)
				got = string(b)
			}
			_ = conn.Close()
		}
		if got != c.want {
			t.Errorf("%s: the member sees %q, want %q", c.name, got, c.want)
		}
		w.close()
	}
}

// Who forgets the s of https is told so, once.
func TestPlainOnTLS(t *testing.T) {
	a := newAuthority(t)
	s := newTLS(t, frontend.TLSConfig{Certificates: files(a.issue("one.pem", "shop.example"))})
	synctest.Test(t, func(t *testing.T) {
		w := secureFront(t, s, frontend.Config{})
		defer w.close()
		c := w.dial()
		c.ask("/")
		if status, body, last, err := c.answer(); status != 400 || !last || !strings.Contains(body, "https://") || err != nil {
			t.Errorf("answer %d %q, last: %t, %v; want 400 that names https", status, body, last, err)
		}
		c = w.dial()
		_, _ = io.WriteString(c, "\x80\x2e\x01\x00\x02 what is this?")
		if b, err := io.ReadAll(c); strings.Contains(string(b), "HTTP") {
			t.Errorf("garbage is answered %q, %v", b, err)
		}
	})
}

// A handshake that does not go on takes no longer than a head may, and a server
// that stops does not wait for it, nor for what is idle.
func TestStalledHandshake(t *testing.T) {
	a := newAuthority(t)
	s := newTLS(t, frontend.TLSConfig{Certificates: files(a.issue("one.pem", "shop.example"))})
	synctest.Test(t, func(t *testing.T) {
		w := secureFront(t, s, frontend.Config{HeadTimeout: 3 * time.Second})
		defer w.close()
		start := time.Now()
		c := w.dial()
		_, _ = c.Write([]byte{22, 3, 1, 1, 0, 1}) // a record has begun
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a stalled handshake is answered")
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("ends after %v, want 3s", took)
		}
		start = time.Now()
		stalled := w.dial()
		idle, err := w.dialTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if err != nil {
			t.Fatal(err)
		}
		two, err := w.dialTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // see above
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(two, http2Preface)
		synctest.Wait()
		if err := w.server.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(start); took > 2*time.Second { // net/http gives HTTP/2 clients one to read GOAWAY
			t.Errorf("Shutdown took %v", took)
		}
		for _, c := range []net.Conn{stalled, idle, two} {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	})
}

// http2Preface is how an HTTP/2 client begins, with empty SETTINGS.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// With as many connections as there may be, one over TLS that is idle gives way.
func TestEvictedTLS(t *testing.T) {
	a := newAuthority(t)
	s := newTLS(t, frontend.TLSConfig{Certificates: files(a.issue("one.pem", "shop.example"))})
	synctest.Test(t, func(t *testing.T) {
		w := secureFront(t, s, frontend.Config{MaxConns: 1})
		defer w.close()
		for i := range 3 {
			conn, err := w.dialTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
			if err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			_, _ = fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("connection %d: %v", i, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			synctest.Wait()
		}
	})
}
