package cookie

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gorilla/securecookie"
)

const (
	// macName is mixed into every signature in place of the cookie's name, so
	// that the name is free and a value serves in a link as well (design D1).
	macName = "understudy"

	// minKey is the shortest key, in bytes: as long as the output of the hash
	// (RFC 2104 section 3).
	minKey = 32

	// MaxKeys is the longest rotation. Every key is one more MAC for a forged
	// value; a rotation needs two or three (design D11).
	MaxKeys = 8
)

// ErrInvalid reports a value that no key of the codec has signed, or whose
// content is not a session's. Cookies are client input: treat it as "no
// session", not as a failure.
var ErrInvalid = errors.New("cookie: invalid session cookie")

// Config sets up a [Codec].
type Config struct {
	// Keys authenticate the values, newest first. The first signs; all of
	// them verify. There are 1 to [MaxKeys], each of at least 32 bytes.
	Keys [][]byte
}

// A Codec signs and verifies session cookies. It is safe for concurrent use.
type Codec struct {
	signer  *securecookie.SecureCookie
	keys    []macKey
	base64  alphabet
	scratch sync.Pool // of *Scratch, for Decode
}

// New returns the codec that cfg describes. It retains no key.
func New(cfg Config) (*Codec, error) {
	switch n := len(cfg.Keys); {
	case n == 0:
		return nil, errors.New("cookie: Config.Keys is empty")
	case n > MaxKeys:
		return nil, fmt.Errorf("cookie: Config.Keys has %d keys, want at most %d", n, MaxKeys)
	}
	c := &Codec{base64: base64URL(), scratch: sync.Pool{New: func() any { return new(Scratch) }}}
	for i, key := range cfg.Keys {
		if len(key) < minKey {
			return nil, fmt.Errorf("cookie: Config.Keys[%d] has %d bytes, want at least %d", i, len(key), minKey)
		}
		k, err := newMACKey(key)
		if err != nil {
			return nil, fmt.Errorf("cookie: Config.Keys[%d]: %w", i, err)
		}
		c.keys = append(c.keys, k)
	}
	c.signer = newSigner(append([]byte(nil), cfg.Keys[0]...))
	return c, nil
}

// newSigner returns securecookie with the settings that the format stands on.
// The age is left to the member that holds the session.
func newSigner(key []byte) *securecookie.SecureCookie {
	return securecookie.New(key, nil).
		SetSerializer(securecookie.NopEncoder{}).
		MaxLength(MaxLength).
		MaxAge(0)
}

// Encode returns the signed form of v: at most [MaxLength] bytes of A-Z a-z 0-9
// '-' '_' and, at the end, '='. They need no quoting in a cookie, in a path
// parameter, or in HTML. The error tells which field of v cannot be written.
func (c *Codec) Encode(v Value) (string, error) {
	if err := v.check(); err != nil {
		return "", fmt.Errorf("cookie: encode: %w", err)
	}
	raw, err := c.signer.Encode(macName, v.append(nil))
	if err != nil {
		return "", fmt.Errorf("cookie: encode: %w", err)
	}
	return raw, nil
}

// Decode verifies raw, a value as [Codec.Encode] wrote it, and returns what it
// says. The only error is [ErrInvalid]; which of the reasons it was is not told,
// so that a forger learns nothing from it.
func (c *Codec) Decode(raw string) (Value, error) {
	if len(raw) > MaxLength {
		return Value{}, ErrInvalid
	}
	s, _ := c.scratch.Get().(*Scratch)
	defer c.scratch.Put(s)
	v, ok := c.Verify(s.buf[:copy(s.buf[:], raw)], s)
	if !ok {
		return Value{}, ErrInvalid
	}
	return v.Value(), nil
}
