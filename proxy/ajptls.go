package proxy

import (
	"crypto/tls"
	"encoding/pem"
)

// A tlsFacts is what members over AJP13 are told of a client's TLS, in the words of
// OpenSSL, which mod_jk has them from. There is no session identifier: Go's TLS does
// not tell it, and TLS 1.3 has none.
type tlsFacts struct {
	cert     []byte // of the client, PEM; nil without one
	cipher   string
	bits     uint16 // of the cipher's key; zero if that is not known
	protocol string
}

// tlsFacts returns what there is to tell, or nil without TLS. It is called by who
// serves the connection's requests.
func (c *Client) tlsFacts() *tlsFacts {
	if c.tls == nil || c.facts != nil {
		return c.facts
	}
	f := &tlsFacts{protocol: tls.VersionName(c.tls.Version)}
	switch c.tls.Version {
	case tls.VersionTLS12:
		f.protocol = "TLSv1.2"
	case tls.VersionTLS13:
		f.protocol = "TLSv1.3"
	}
	f.cipher, f.bits = cipherName(c.tls.CipherSuite)
	if certs := c.tls.PeerCertificates; len(certs) > 0 {
		f.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs[0].Raw})
	}
	c.facts = f
	return f
}

// cipherName returns OpenSSL's name of a cipher suite, and the length of its key in
// bits.
func cipherName(id uint16) (name string, bits uint16) {
	switch id {
	case tls.TLS_AES_128_GCM_SHA256:
		return "TLS_AES_128_GCM_SHA256", 128
	case tls.TLS_AES_256_GCM_SHA384:
		return "TLS_AES_256_GCM_SHA384", 256
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		return "TLS_CHACHA20_POLY1305_SHA256", 256
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:
		return "ECDHE-ECDSA-AES128-GCM-SHA256", 128
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:
		return "ECDHE-RSA-AES128-GCM-SHA256", 128
	case tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:
		return "ECDHE-ECDSA-AES256-GCM-SHA384", 256
	case tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
		return "ECDHE-RSA-AES256-GCM-SHA384", 256
	case tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return "ECDHE-ECDSA-CHACHA20-POLY1305", 256
	case tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
		return "ECDHE-RSA-CHACHA20-POLY1305", 256
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA:
		return "ECDHE-ECDSA-AES128-SHA", 128
	case tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA:
		return "ECDHE-RSA-AES128-SHA", 128
	case tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA:
		return "ECDHE-ECDSA-AES256-SHA", 256
	case tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA:
		return "ECDHE-RSA-AES256-SHA", 256
	}
	return tls.CipherSuiteName(id), 0
}
