package cookie

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding"
	"errors"
	"hash"
	"math"
)

// minSigned is the length of the shortest value that can verify, in bytes:
// base64(1 digit "|" base64("i!p!s!0.0.0") "|" mac).
const minSigned = (1 + 1 + 16 + 1 + sha256.Size + 2) / 3 * 4

// A Scratch is the memory that [Codec.Verify] and [Finder.Find] work in, about
// 1 KiB, so that they allocate none. The zero value is ready. It must not be used
// by two calls at the same time; it may be used with any codec and finder.
type Scratch struct {
	buf  [MaxLength]byte   // a value without its dress, then decoded in place
	sum  [sha256.Size]byte // a MAC being made
	hash digest            // SHA-256; made by the first call

	// what FindStrings copies its arguments to
	text  []byte
	lines [][]byte
}

// A digest is a hash whose state can be put back to where it was saved.
type digest interface {
	hash.Hash
	encoding.BinaryUnmarshaler
}

// A macKey is a key of HMAC-SHA256 with the work that does not depend on the
// message done: the states of the two hashes after the padded key and, in
// inner, "understudy|" (RFC 2104 section 4 suggests it). They are as secret as
// the key.
type macKey struct {
	inner, outer []byte
}

func newMACKey(key []byte) (macKey, error) {
	if len(key) > sha256.BlockSize {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	inner, err := hashState(key, 0x36, macName+"|")
	if err != nil {
		return macKey{}, err
	}
	outer, err := hashState(key, 0x5c, "")
	return macKey{inner: inner, outer: outer}, err
}

// hashState returns the state of SHA-256 after key, filled up with zeros to a
// block and each byte of it xor pad, and text.
func hashState(key []byte, pad byte, text string) ([]byte, error) {
	block := bytes.Repeat([]byte{pad}, sha256.BlockSize)
	subtle.XORBytes(block, block, key)
	h := sha256.New()
	h.Write(block)
	h.Write([]byte(text))
	m, ok := h.(encoding.BinaryMarshaler)
	if _, resumes := h.(digest); !ok || !resumes {
		return nil, errors.New("this build's SHA-256 cannot save its state")
	}
	return m.MarshalBinary()
}

// Verify checks raw, a value as [Codec.Encode] wrote it, with every key in turn,
// and returns what it says. Quotes and percent-encoding around it are for
// [Finder]. It allocates nothing. The view points into s.
//
// The time depends on the length of raw and the number of keys tried, not on how
// much of a MAC was guessed.
func (c *Codec) Verify(raw []byte, s *Scratch) (View, bool) {
	v, _, ok := c.verify(raw, s)
	return v, ok
}

// verify is Verify, and tells whether it came to the costly part. raw may be the
// beginning of s.buf.
func (c *Codec) verify(raw []byte, s *Scratch) (v View, hashed, ok bool) {
	if len(raw) < minSigned || len(raw) > MaxLength {
		return View{}, false, false
	}
	n, ok := c.base64.decode(s.buf[:], raw)
	if !ok {
		return View{}, false, false
	}
	b := s.buf[:n]
	i := bytes.IndexByte(b, '|')
	if i < 0 || !validTime(b[:i]) {
		return View{}, false, false
	}
	j := bytes.IndexByte(b[i+1:], '|')
	if j < 0 {
		return View{}, false, false
	}
	j += i + 1
	signed, content, mac := b[:j], b[i+1:j], b[j+1:]
	if len(mac) != sha256.Size {
		return View{}, false, false
	}
	if !c.authentic(signed, mac, s) {
		return View{}, true, false
	}
	if n, ok = c.base64.decode(content, content); !ok {
		return View{}, true, false
	}
	v, ok = parseContent(content[:n])
	return v, true, ok
}

// authentic reports whether mac is that of "understudy|" and signed by one of
// the keys.
func (c *Codec) authentic(signed, mac []byte, s *Scratch) bool {
	if s.hash == nil {
		s.hash, _ = sha256.New().(digest) // New of Codec has checked that it is one
	}
	for i := range c.keys {
		if s.hash.UnmarshalBinary(c.keys[i].inner) != nil {
			return false
		}
		s.hash.Write(signed)
		sum := s.hash.Sum(s.sum[:0])
		if s.hash.UnmarshalBinary(c.keys[i].outer) != nil {
			return false
		}
		s.hash.Write(sum)
		if subtle.ConstantTimeCompare(s.hash.Sum(s.sum[:0]), mac) == 1 {
			return true
		}
	}
	return false
}

// validTime reports whether b is a number that securecookie reads as a time:
// what strconv.ParseInt takes in base 10 and 64 bits. It is written out because
// ParseInt wants a string, and allocates its errors.
func validTime(b []byte) bool {
	limit := uint64(math.MaxInt64)
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		if b[0] == '-' {
			limit++
		}
		b = b[1:]
	}
	if len(b) == 0 {
		return false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (limit-d)/10 {
			return false
		}
		n = n*10 + d
	}
	return true
}

// An alphabet has the value of each digit of a base64 alphabet, and notDigit for
// all other bytes.
type alphabet struct{ digit [256]byte }

const notDigit = 0xff

// base64URL returns the alphabet of RFC 4648 section 5.
func base64URL() alphabet {
	var a alphabet
	for i := range a.digit {
		a.digit[i] = notDigit
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		a.digit[c] = byte(i)
	}
	return a
}

// decode undoes base64 with padding, and refuses everything that encoding does
// not produce. dst has at least 3 bytes for each 4 of src and may begin where src
// begins. It returns the number of bytes written.
//
// encoding/base64 would allocate its error, and overlooks line breaks even where
// it is strict.
func (a *alphabet) decode(dst, src []byte) (int, bool) {
	if len(src)%4 != 0 {
		return 0, false
	}
	n := 0
	for len(src) > 0 {
		d0, d1, d2, d3 := a.digit[src[0]], a.digit[src[1]], a.digit[src[2]], a.digit[src[3]]
		if d0|d1|d2|d3 < 64 {
			dst[n], dst[n+1], dst[n+2] = d0<<2|d1>>4, d1<<4|d2>>2, d2<<6|d3
			n, src = n+3, src[4:]
			continue
		}
		if len(src) > 4 || d0|d1 >= 64 || src[3] != '=' {
			return 0, false
		}
		switch {
		case src[2] == '=' && d1&0xf == 0:
			dst[n] = d0<<2 | d1>>4
			return n + 1, true
		case d2 < 64 && d2&0x3 == 0:
			dst[n], dst[n+1] = d0<<2|d1>>4, d1<<4|d2>>2
			return n + 2, true
		}
		return 0, false
	}
	return n, true
}
