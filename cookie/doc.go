// Package cookie reads and writes what the proxy and the application nodes
// tell each other about a session: its id, the names of the members that hold
// it, and the epoch under which they do (design D1).
//
// # The signed form
//
// An application node writes it as the value of its session cookie, or into
// links for a client without cookies:
//
//	epoch   = counter "." boot "." number
//	content = id "!" primary "!" secondary "!" epoch
//	value   = base64url( seconds "|" base64url( content ) "|" mac )
//
// This is the format of gorilla/securecookie with a hash key and no encryption;
// seconds is the wall time of the writing, which nobody here judges, and
// mac is the HMAC-SHA256 of "understudy|" seconds "|" base64url(content),
// whatever the cookie is called. secondary is the word NONE if no member holds a
// copy. The three numbers of an epoch are decimal, without sign or leading
// zeros, below 2^32. The longest value has [MaxLength] bytes.
//
// A value has one spelling. base64 with bits set behind its end, or with line
// breaks, which securecookie overlooks, is refused, so that there is no byte of a
// cookie that can change unnoticed. [Codec.Verify] accepts every other
// value that securecookie accepts and whose content has the form above, and
// nothing else.
//
// The value is authenticated and not encrypted: a client may read the names in
// it but cannot choose them. One that does not verify means "no session" and is
// never an error.
//
// # The plain form
//
// Tomcat, mod_jk and others write id "." route. [Finder] reads it as a hint for
// routing. A list of routes joined by ':' ranks them.
//
// # Bounds
//
// Everything here is linear in the length of the request. For one request
// [Finder.Find] checks at most 8 signatures, each with at most [MaxKeys] keys,
// and asks for at most 64 routes. It reads the first 64 KiB of the path and the
// first 64 KiB of the cookie lines.
package cookie
