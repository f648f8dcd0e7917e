package session_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session"
)

// Values have types of their own; what is in a session is what was set.
type user struct {
	Name  string
	Admin bool
}

func (u *user) promote() { u.Admin = true }

var (
	visits = session.NewKey[int]("visits")
	login  = session.NewKey[user]("login")
)

// member starts a member of a cluster of one, without keys, on loopback.
func member(h http.HandlerFunc) (url string, stop func()) {
	gossip, err := cluster.New(cluster.Config{Self: cluster.Member{Name: "a", Boot: 1}, Bind: "127.0.0.1:0"})
	check(err)
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}}) // from a file, in earnest
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	sessions, err := session.New(session.Config{Cluster: gossip, Codec: codec, Listener: ln, URLRewriting: true})
	check(err)
	for sessions.Ready() != nil {
		changed, done := gossip.Subscribe()
		<-changed
		done()
	}
	srv := httptest.NewServer(sessions.Handler(h))
	return srv.URL, func() {
		sessions.Drain()
		srv.Close()
		check(sessions.Close(context.Background()))
		check(gossip.Close())
	}
}

func ExampleManager() {
	url, stop := member(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		n, _ := visits.Get(s)
		if err := visits.Set(s, n+1); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintf(w, "visit %d to %s", n+1, s.Primary())
	})
	defer stop()
	browse(url, "/", "/", "/")
	// Output:
	// visit 1 to a
	// visit 2 to a
	// visit 3 to a
}

func ExampleKey() {
	url, stop := member(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		switch r.URL.Path {
		case "/login":
			if err := login.Set(s, user{Name: "ada"}); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		case "/promote": // in place: changes nothing until it is set again
			u, _ := login.Get(s)
			u.promote()
		}
		u, ok := login.Get(s)
		_, _ = fmt.Fprintf(w, "%+v %v", u, ok)
	})
	defer stop()
	browse(url, "/", "/login", "/promote")
	// Output:
	// {Name: Admin:false} false
	// {Name:ada Admin:false} true
	// {Name:ada Admin:false} true
}

func ExampleSession() {
	url, stop := member(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		before := s.ID()
		switch r.URL.Path {
		case "/login": // a new id, which nobody can have planted
			if err := s.RenewID(0); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = fmt.Fprintf(w, "another id: %v, new: %v", s.ID() != before, s.IsNew())
			return
		case "/logout":
			s.Invalidate()
		case "/visit":
			if err := visits.Set(s, 1); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = fmt.Fprintf(w, "exists: %v, new: %v, %v", s.Exists(), s.IsNew(), s.Names())
	})
	defer stop()
	browse(url, "/", "/visit", "/", "/login", "/logout", "/")
	// Output:
	// exists: false, new: true, []
	// exists: true, new: true, [visits]
	// exists: true, new: false, [visits]
	// another id: true, new: false
	// exists: false, new: true, []
	// exists: false, new: true, []
}

// browse prints what a browser gets from each path.
func browse(url string, paths ...string) {
	jar, err := cookiejar.New(nil)
	check(err)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	c := &http.Client{Jar: jar, Transport: tr}
	for _, path := range paths {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url+path, nil)
		check(err)
		res, err := c.Do(req)
		check(err)
		body, err := io.ReadAll(res.Body)
		check(err)
		check(res.Body.Close())
		fmt.Println(string(body))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
