// Command login is an example: who logs in stays logged in, whatever node dies.
//
//	go run ./examples/login -name a -listen 127.0.0.1:8081 -gossip 127.0.0.1:7941 &
//	go run ./examples/login -name b -listen 127.0.0.1:8082 -gossip 127.0.0.1:7942 -join 127.0.0.1:7941
//
// Log in at one, stop it, and go on at the other: a browser sends its cookie to
// both. With a proxy in front nobody sees a difference.
package main

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"html/template"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/understudy-lb/understudy/examples/node"
	"github.com/understudy-lb/understudy/session"
)

// A user is who has logged in. What is in a session is encoded when it is set, so
// a copy of it is on another node before the client has the reply.
type user struct {
	Name  string
	Since time.Time
}

// What this program keeps in a session.
//
//nolint:gochecknoglobals // read-only: session keys are declared as variables
var (
	userKey   = session.NewKey[user]("user")
	noticeKey = session.NewKey[string]("notice") // shown once
)

//nolint:gochecknoglobals // read-only
var page = template.Must(template.New("page").Parse(`<!doctype html><title>Login</title>
{{with .Notice}}<p><em>{{.}}</em></p>{{end}}
{{if .User.Name}}<p>Hello, {{.User.Name}}. <a href="/account">Account</a></p>
<form method=post action="/logout"><button>Log out</button></form>
{{else}}<form method=post action="/login">
<input name=name placeholder=name> <input name=password type=password placeholder=password> <button>Log in</button>
</form>{{end}}
`))

func main() { node.Main(routes()) }

func routes() http.Handler {
	r := chi.NewRouter()
	// A form on another site must not log anybody in or out.
	r.Use(http.NewCrossOriginProtection().Handler)
	r.Get("/", home)
	r.Post("/login", login)
	r.Post("/logout", logout)
	r.With(loggedIn).Get("/account", account)
	return r
}

func home(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	u, _ := userKey.Get(s)
	notice, _ := noticeKey.Pop(s)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := page.Execute(w, struct {
		User   user
		Notice string
	}{u, notice}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func login(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	name := r.PostFormValue("name")
	if !known(name, r.PostFormValue("password")) {
		back(w, r, "Wrong name or password.", nil)
		return
	}
	// Before anything is set that only this client may have: somebody may have
	// planted the id that it came with. Its other requests that are under way
	// may finish with the old one.
	err := s.RenewID(10 * time.Second)
	if err == nil {
		err = userKey.Set(s, user{Name: name, Since: time.Now()})
	}
	back(w, r, "Welcome.", err)
}

// logout ends the session on all nodes, whatever else the client does at the same
// time.
func logout(w http.ResponseWriter, r *http.Request) {
	session.FromContext(r.Context()).Invalidate()
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func account(w http.ResponseWriter, r *http.Request) {
	u, _ := userKey.Get(session.FromContext(r.Context()))
	_, _ = w.Write([]byte(u.Name + ", since " + u.Since.Format(time.RFC3339) + "\n")) // nobody to tell
}

// loggedIn lets only those through who have logged in.
func loggedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := userKey.Get(session.FromContext(r.Context())); !ok {
			back(w, r, "Please log in.", nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// back leads to the first page, which shows the notice once; or to an error.
func back(w http.ResponseWriter, r *http.Request, notice string, err error) {
	if err == nil {
		err = noticeKey.Set(session.FromContext(r.Context()), notice)
	}
	if err != nil { // a node that is full is replaced by the next one
		http.Error(w, "sorry", http.StatusInternalServerError)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// known reports whether this is a user and the password is right. Yours are in a
// database, each with a salt of its own.
func known(name, password string) bool {
	const salt, rounds = "understudy example", 10_000
	sum := func(password string) []byte {
		key, err := pbkdf2.Key(sha256.New, password, []byte(salt), rounds, sha256.Size)
		if err != nil {
			panic(err) // only for sizes that make no sense
		}
		return key
	}
	return name == "ada" && subtle.ConstantTimeCompare(sum(password), sum("lovelace")) == 1
}
