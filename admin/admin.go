// Package admin decides who may change something through the admin listener of a
// program (D11): who knows the token of --admin-token, by POST, and from no
// other site.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
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

// FormField is the field of a form in which a browser sends the token.
const FormField = "token"

// maxForm bounds the body of a form with a token, in bytes.
const maxForm = 2 * maxToken

// Set reports whether there is a token that somebody can know.
func (t Token) Set() bool { return t.set }

// Known reports whether the request bears the token: as Authorization: Bearer,
// or in the field token of a form that it POSTs, which is parsed then. In a URL it
// would get into logs, and is not looked at.
func (t Token) Known(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); !ok && err == nil && kind == "application/x-www-form-urlencoded" {
		r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
		got = strings.TrimSpace(r.PostFormValue(FormField))
		ok = got != ""
	}
	return ok && t.Is(got)
}

// Is reports whether somebody who says so knows the token.
func (t Token) Is(said string) bool {
	sum := sha256.Sum256([]byte(said))
	return t.set && subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// Require returns next for those who know the token; others are told to bring
// it for what.
func (t Token) Require(what string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.Known(r) {
			refuse(w, http.StatusUnauthorized, what+needToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const needToken = " need the token of --admin-token"

// Check returns status 0 if the request may change something: it is a POST, with
// the token, and not from a page of another site. Else status is that of the
// refusal, and why says for people what is wrong.
func (t Token) Check(r *http.Request) (status int, why string) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "changes go by POST"
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return http.StatusForbidden, err.Error()
	}
	if !t.Known(r) {
		return http.StatusUnauthorized, "changes" + needToken
	}
	return 0, ""
}

// Change returns next for requests that [Token.Check] lets change something.
func (t Token) Change(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, why := t.Check(r); status != 0 {
			refuse(w, status, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, why string) {
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, why, status)
}
