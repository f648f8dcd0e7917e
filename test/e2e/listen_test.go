package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// selfSigned is a certificate with its key, in PEM.
func selfSigned(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// A session goes on over TLS, with either version of HTTP, when its primary dies;
// the certificate is replaced by SIGHUP, and a wrong one is not taken over.
func TestTLS(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	cert := s.file("shop.pem", selfSigned(t, "old.example"))
	addr := stage.FreeAddr(t)
	p := s.proxy(s.workers("a", "b", "c"), true, "--tls-listen", addr, "--tls-cert", cert)
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2} //nolint:gosec // it is self-signed
		c := s.client(addr)
		c.Base = "https://" + addr
		c.Via(transport)
		c.protected()
		primary := c.CountN(2).Primary
		s.nodes[primary].Kill()
		c.CountN(3)
		s.launch(s.nodes[primary])
		s.ready(primary)
		transport.CloseIdleConnections()
	}
	name := func() string {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is self-signed
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	s.file("shop.pem", "nothing")
	p.Signal(syscall.SIGHUP)
	stage.Wait(t, "the wrong certificate is refused", func() bool { return p.Logged("certificates not reloaded") })
	if got := name(); got != "old.example" {
		t.Errorf("serves %s after a wrong file", got)
	}
	s.file("shop.pem", selfSigned(t, "new.example"))
	p.Signal(syscall.SIGHUP)
	stage.Wait(t, "the new certificate is served", func() bool { return name() == "new.example" })
}

// A Unix socket is a listener as any, also where a process that was killed has left
// its file; and a balancer in front says by the PROXY protocol whose connection it
// is.
func TestUnixSocketAndProxyProtocol(t *testing.T) {
	s := newCluster(t, "a", "b")
	path := filepath.Join(s.dir, "front.sock")
	log := filepath.Join(s.dir, "access.log")
	p := s.proxy(s.workers("a", "b"), false, "--listen", "unix:"+path, "--proxy-protocol", "127.0.0.0/8", "--access-log", log)
	p.Kill()
	s.launchProxy(p)
	ask := func(network, addr, header string) string {
		t.Helper()
		conn, err := net.Dial(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%sGET /peek HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n", header)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil && err != io.EOF { //nolint:errorlint // a reset is one too
			return ""
		}
		return strings.TrimSpace(line)
	}
	if got := ask("unix", path, ""); got != "HTTP/1.1 200 OK" {
		t.Errorf("over the socket: %q", got)
	}
	if got := ask("tcp", p.listen, "PROXY TCP4 198.51.100.7 127.0.0.1 40000 80\r\n"); got != "HTTP/1.1 200 OK" {
		t.Errorf("behind a balancer: %q", got)
	}
	if got := ask("tcp", p.listen, ""); got != "" {
		t.Errorf("a balancer that says nothing is answered %q", got)
	}
	stage.Wait(t, "the client's address is in the log", func() bool {
		b, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(b), `"client":"198.51.100.7"`)
	})
}
