package session

import (
	"crypto/rand"
	"encoding/base64"
)

// idBytes is how many random bytes an id has. 24 give 32 characters, which
// keep the cookie shorter than the 52 of SESS-46 and leave nothing to guess:
// 192 bits.
const idBytes = 24

// newID returns the id of a new session, in the alphabet of SESS-46, which has
// none of the characters that part the fields of a cookie or a route.
func newID() string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}
