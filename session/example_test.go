package session_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"sync"

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

// watched is member with a listener, which is told in the background: stop returns
// when it was told all.
func watched(onEvent func(session.Event), h http.Handler) (m *session.Manager, url string, stop func()) {
	gossip, err := cluster.New(cluster.Config{Self: cluster.Member{Name: "a", Boot: 1}, Bind: "127.0.0.1:0"})
	check(err)
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}}) // from a file, in earnest
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	m, err = session.New(session.Config{Cluster: gossip, Codec: codec, Listener: ln, MaxSessions: 2, OnEvent: onEvent})
	check(err)
	for m.Ready() != nil {
		changed, done := gossip.Subscribe()
		<-changed
		done()
	}
	srv := httptest.NewServer(m.Handler(h))
	return m, srv.URL, func() {
		m.Drain()
		srv.Close()
		check(m.Close(context.Background()))
		check(gossip.Close())
	}
}

// visit counts a visit.
func visit(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	n, _ := visits.Get(s)
	if err := visits.Set(s, n+1); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprint(w, "visit ", n+1)
}

// A cookie that browsers would drop without a word is an error at the start.
func ExampleConfig() {
	gossip, err := cluster.New(cluster.Config{Self: cluster.Member{Name: "a", Boot: 1}, Bind: "127.0.0.1:0"})
	check(err)
	defer func() { check(gossip.Close()) }()
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}})
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer func() { check(ln.Close()) }()
	_, err = session.New(session.Config{
		Cluster: gossip, Codec: codec, Listener: ln,
		Cookie: "__Host-SID", Secure: true, Path: "/shop",
	})
	fmt.Println(err)
	// Output:
	// session: Config.Cookie is "__Host-SID": browsers drop a cookie of that name with a Config.Domain, here "", or a Config.Path other than /, here "/shop"
}

func ExampleEvent() {
	_, url, stop := watched(func(ev session.Event) {
		fmt.Println("heard:", ev.Kind, ev.Version)
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/logout" {
			session.FromContext(r.Context()).Invalidate()
			return
		}
		visit(w, r)
	}))
	fetchAll(url, "/", "/", "/logout")
	stop()
	// Output:
	// heard: created 1
	// heard: changed 2
	// heard: ended 2
}

// What a listener of conflicts may log: never the id, nor what is in the session.
func ExampleConflict() {
	report := func(c session.Conflict) {
		fmt.Println(session.HashID(c.ID), "has lost its", c.Keys)
	}
	report(session.Conflict{ID: "Zf5gW5", Keys: []string{"cart"}, Exact: true})
	// Output: 93c0130e2c26fcd4 has lost its [cart]
}

// Requests of one session that are Exclusive run one after the other: two clicks
// at the same time are two visits.
func ExampleExclusive() {
	_, url, stop := watched(nil, session.Exclusive(http.HandlerFunc(visit)))
	defer stop()
	jar, err := cookiejar.New(nil)
	check(err)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	c := &http.Client{Jar: jar, Transport: tr}
	ask(c, url)
	var clicks sync.WaitGroup
	for range 10 {
		clicks.Go(func() { ask(c, url) })
	}
	clicks.Wait()
	fmt.Println(ask(c, url))
	// Output: visit 12
}

// A member that has as many sessions as it may refuses new ones before their
// handler runs, and the proxy tries the next member.
func ExampleRequired() {
	m, url, stop := watched(nil, session.Required(http.HandlerFunc(visit)))
	defer stop()
	for range 3 {
		res, err := new(http.Client).Post(url, "", nil) // without cookies: a new client each
		check(err)
		check(res.Body.Close())
		fmt.Printf("%d %q\n", res.StatusCode, res.Header.Get(session.NotExecuted))
	}
	fmt.Println(m.Stats().Primary, "sessions,", m.Stats().TooMany, "refused")
	// Output:
	// 200 ""
	// 200 ""
	// 503 "full"
	// 2 sessions, 1 refused
}

// An operator sees how many there are, and may end one by its hash.
func ExampleInfo() {
	m, url, stop := watched(nil, http.HandlerFunc(visit))
	defer stop()
	fetchAll(url, "/", "/")
	for i := range m.Sessions() {
		fmt.Println(i.Role, i.Primary, i.Version, len(i.Hash))
		fmt.Println(m.End(i.Hash))
	}
	fmt.Println(m.Stats().Primary)
	// Output:
	// primary a 2 16
	// true
	// 0
}

func ExampleStats() {
	m, url, stop := watched(nil, http.HandlerFunc(visit))
	defer stop()
	fetchAll(url, "/", "/")
	s := m.Stats()
	fmt.Println(s.Primary, s.Secondary, s.Created, s.Unprotected)
	// Output: 1 0 1 2
}

// A member that is alone can give its sessions no copy, and has nothing to do.
func ExampleRedundancy() {
	m, url, stop := watched(nil, http.HandlerFunc(visit))
	defer stop()
	fetchAll(url, "/")
	r := m.Redundancy()
	fmt.Println(r.Lacking, r.Restoring, r.Restored)
	// Output: 0 false []
}

// A value that is shown once is set by one request and taken by the next.
func ExampleKey_Pop() {
	notice := session.NewKey[string]("notice")
	url, stop := member(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		if r.URL.Path == "/save" {
			check(notice.Set(s, "saved"))
			return
		}
		text, ok := notice.Pop(s)
		_, _ = fmt.Fprint(w, text, " ", ok)
	})
	defer stop()
	browse(url, "/save", "/", "/")
	// Output:
	//
	// saved true
	//  false
}

// A handler that fails halfway takes back what it has changed.
func ExampleSession_Rollback() {
	url, stop := member(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		n, _ := visits.Get(s)
		check(visits.Set(s, n+1))
		if r.URL.Path == "/fail" {
			s.Rollback()
		}
		n, _ = visits.Get(s)
		_, _ = fmt.Fprint(w, n)
	})
	defer stop()
	browse(url, "/", "/fail", "/")
	// Output:
	// 1
	// 1
	// 2
}

// The primary's preferred group comes before another machine (SESS-23).
func ExampleRank() {
	a := cluster.Member{Name: "a", Machine: "m1", SecondaryGroup: "east"}
	for _, m := range session.Rank(a, []cluster.Member{
		a, {Name: "b", Machine: "m1"}, {Name: "c", Machine: "m2"}, {Name: "d", Machine: "m1", Group: "east"},
	}, "", session.Ring) {
		fmt.Print(m.Name, " ")
	}
	// Output: d c b
}

func ExamplePlacement() {
	p, err := session.ParsePlacement("ring")
	fmt.Println(p, err)
	_, err = session.ParsePlacement("random")
	fmt.Println(err)
	// Output:
	// ring <nil>
	// session: no placement "random", want "hash" or "ring"
}

// The names of the modes are Tomcat's.
func ExampleMode() {
	m, err := session.ParseMode("fastasyncqueue")
	fmt.Println(m, err, m == session.FastAsyncQueue)
	_, err = session.ParseMode("fast")
	fmt.Println(err)
	// Output:
	// fastasyncqueue <nil> true
	// replication mode "fast": want one of ["synchronous" "asynchronous" "pooled" "fastasyncqueue"]
}

// Kinds have the names that logs and metrics use.
func ExampleEventKind() {
	fmt.Println(session.EventCreated, session.EventPromoted, session.EventExpired, session.EventLost)
	// Output: created promoted expired lost
}

// A program without gossip can be its own Cluster, here one of a single member.
func ExampleCluster() {
	var c session.Cluster = alone{}
	fmt.Println(c.Self().Name, len(c.Members()), c.Gone("b#1"))
	// Output: a 1 false
}

// alone is a membership of one.
type alone struct{}

func (alone) Self() cluster.Member        { return cluster.Member{Name: "a", Boot: 1} }
func (a alone) Members() []cluster.Member { return []cluster.Member{a.Self()} }
func (alone) Gone(string) bool            { return false }
func (alone) SetState(cluster.State)      {}

func (alone) Subscribe() (changed <-chan struct{}, stop func()) {
	return make(chan struct{}, 1), func() {}
}

// fetchAll is browse without a word.
func fetchAll(url string, paths ...string) {
	jar, err := cookiejar.New(nil)
	check(err)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	c := &http.Client{Jar: jar, Transport: tr}
	for _, path := range paths {
		ask(c, url+path)
	}
}

func ask(c *http.Client, url string) string {
	res, err := c.Get(url)
	check(err)
	body, err := io.ReadAll(res.Body)
	check(err)
	check(res.Body.Close())
	return string(body)
}
