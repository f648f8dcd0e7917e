// Package admin decides who may change something through the admin listener of a
// program (D11): who knows the token of --admin-token, by POST, and from no
// other site.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

const (
	minToken = 16   // bytes of a token
	maxToken = 4096 // bytes of its file
)

// A Token is the secret of an admin listener. The zero Token lets nobody in.
type Token struct {
	sum [sha256.Size]byte
	set bool
}

// ReadToken reads the token from a file that holds one line of 16 to 4096 bytes.
// Without a path the token is zero. The error names the file, and never what is
// in it.
func ReadToken(path string) (Token, error) {
	if path == "" {
		return Token{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Token{}, fmt.Errorf("admin: %w", err)
	}
	line := strings.TrimSpace(string(text))
	if len(line) < minToken || len(text) > maxToken || strings.ContainsAny(line, "\r\n") {
		return Token{}, fmt.Errorf("admin: %s: want one line of %d to %d bytes", path, minToken, maxToken)
	}
	return Token{sha256.Sum256([]byte(line)), true}, nil
}

// Known reports whether the request bears the token (Authorization: Bearer).
func (t Token) Known(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(got))
	return ok && t.set && subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// Require returns next for those who know the token; others are told to bring
// it for what.
func (t Token) Require(what string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.Known(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, what+" need the token of --admin-token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Change returns next for requests that change something: POST, with the token,
// and not from a page of another site.
func (t Token) Change(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(t.Require("changes", next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "changes go by POST", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}
