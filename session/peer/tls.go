package peer

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"
)

const (
	// keySize is the length of a cluster key, in bytes.
	keySize = 32

	// serverName is in every leaf, so that the ordinary verification of a
	// server's name applies. Who it is says its subject.
	serverName = "member.understudy.internal"

	// purpose separates the CA's seed from other uses of a cluster key.
	purpose = "understudy session/peer certificate authority v1"
)

// Certificates must hold on members whose clocks are wrong by years, so they
// hold from 1970 to the end of time as RFC 5280 section 4.1.2.5 has it. What
// ends them is the key: a leaf lives as long as its boot.
func validity() (from, to time.Time) {
	return time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
}

// An authority signs leaves. It is a function of a cluster key: whoever has the
// key has the same authority.
type authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newAuthority(secret []byte) (authority, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, purpose, ed25519.SeedSize)
	if err != nil {
		return authority{}, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	pub, _ := key.Public().(ed25519.PublicKey) // it always is one
	sum := sha256.Sum256(pub)
	from, to := validity()
	tmpl := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(sum[:8]),
		Subject:               pkix.Name{CommonName: "understudy cluster key " + hex.EncodeToString(sum[:8])},
		NotBefore:             from,
		NotAfter:              to,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	// Ed25519 needs no randomness: the certificate is the same everywhere.
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return authority{cert, key}, err
}

// leaf makes a certificate for a boot, with a key of its own.
func (a authority) leaf(id ID) (tls.Certificate, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	from, to := validity()
	tmpl := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), // RFC 5280 section 4.1.2.2: positive
		Subject:      pkix.Name{CommonName: id.Name, SerialNumber: strconv.FormatUint(uint64(id.Boot), 10)},
		DNSNames:     []string{serverName},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// newTLS returns the settings for both directions: a leaf signed by the first
// key is shown, and one signed by any key is believed.
func newTLS(id ID, keys [][]byte) (*tls.Config, error) {
	trusted := x509.NewCertPool()
	var leaf tls.Certificate
	for i, k := range keys {
		if len(k) != keySize {
			return nil, fmt.Errorf("peer: Config.Keys[%d] has %d bytes, want %d", i, len(k), keySize)
		}
		ca, err := newAuthority(k)
		if err != nil {
			return nil, fmt.Errorf("peer: derive authority from Config.Keys[%d]: %w", i, err)
		}
		trusted.AddCert(ca.cert)
		if i == 0 {
			if leaf, err = ca.leaf(id); err != nil {
				return nil, fmt.Errorf("peer: make certificate of %v: %w", id, err)
			}
		}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    trusted,
		ClientCAs:  trusted,
		ClientAuth: tls.RequireAndVerifyClientCert,
		// The functions rather than Certificates: the leaf is shown whatever
		// the other side claims to trust, so that it can say what it refuses.
		GetCertificate:              func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &leaf, nil },
		GetClientCertificate:        func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &leaf, nil },
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // it would cut batches into records of a packet each
	}, nil
}

// subject returns whom the verified certificate of the other side names.
func subject(state tls.ConnectionState) (ID, error) {
	if len(state.PeerCertificates) == 0 {
		return ID{}, errors.New("no certificate")
	}
	s := state.PeerCertificates[0].Subject
	boot, err := strconv.ParseUint(s.SerialNumber, 10, 32)
	if err != nil {
		return ID{}, fmt.Errorf("certificate of %q names no boot", s.CommonName)
	}
	return ID{s.CommonName, uint32(boot)}, nil
}
