package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session"
)

// Limits of what a request may ask of the demo application.
const (
	maxValue = 8 << 20         // bytes of one attribute
	maxBig   = 1 << 30         // bytes of one reply
	maxSleep = 5 * time.Minute // of one request
)

//go:embed page.html
var pageFile embed.FS

// What the demo application keeps in a session.
//
//nolint:gochecknoglobals // read-only: session keys are declared as variables
var (
	counterKey = session.NewKey[int]("counter")
	cartKey    = session.NewKey[[]string]("cart")
	visitsKey  = session.NewKey[int]("visits") // with --count-visits
	basketKey  = session.NewKey[*basket]("basket")
)

// A basket shows that a change inside an object is not a change of the session
// (SESS-4).
type basket struct {
	Mutations int `cbor:"1,keyasint"`
}

// app is the demo application: a counter, and ways to make a node fail.
type app struct {
	name     string
	members  func() []cluster.Member
	health   health
	stop     <-chan struct{} // closed when the node stops: ends /stuck
	log      zerolog.Logger
	rollback bool // what a request has changed whose handler panics
	visits   bool // a second counter, which programs without it do not know
	page     *template.Template
}

func (a *app) routes() (http.Handler, error) {
	page, err := template.ParseFS(pageFile, "page.html")
	if err != nil {
		return nil, err
	}
	a.page = page
	r := chi.NewRouter()
	r.Use(noStore, a.recovered)
	r.Get("/", a.people)
	// What makes a session is refused before it runs if there are too many, so
	// that the proxy can have it done elsewhere.
	r.With(session.Required).Get("/counter", a.counter)
	r.With(session.Required).Post("/counter", a.counter)
	r.Get("/peek", a.peek)
	r.With(session.Required).Post("/cart", a.cart)
	both(r.With(session.Required), "/set", a.set)
	both(r, "/remove", a.remove)
	both(r, "/mutate", a.mutate)
	both(r, "/invalidate", a.invalidate)
	both(r, "/rotate", a.rotate)
	both(r, "/crash", a.crash)
	both(r, "/exception", a.exception)
	both(r, "/sleep", a.sleep)
	both(r, "/stuck", a.stuck)
	both(r, "/big", a.big)
	both(r, "/status", a.status)
	return r, nil
}

// both serves path by GET, as a person types it, and by POST, as a form and a
// careful test send it.
func both(r chi.Router, path string, h http.HandlerFunc) {
	r.Get(path, h)
	r.Post(path, h)
}

// noStore keeps replies that depend on a session out of every cache.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recovered answers 500 for a handler that panics, inside the session: what it
// had set before is kept and copied, or taken back if that is wanted (TC-8), and the proxy has an answer from this
// node instead of a broken connection.
func (a *app) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := session.FromContext(r.Context())
		defer func() {
			switch cause := recover(); cause {
			case nil:
			case http.ErrAbortHandler:
				panic(cause)
			default:
				if a.rollback {
					s.Rollback()
				}
				a.log.Error().Str("id", requestID(r)).Interface("panic", cause).Str("path", r.URL.Path).Bytes("stack", debug.Stack()).Msg("handler panicked")
				a.fail(w, http.StatusInternalServerError, errors.New("the handler failed"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// requestID is the name that the proxy has given a request, so that a line here is
// found beside the one of its access log.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	return id[:min(len(id), maxID)]
}

// maxID is the longest name that a proxy gives, in bytes.
const maxID = 128

// view is what the application says of a session.
type view struct {
	Counter   int    `json:"counter"`
	Node      string `json:"node"`
	SessionID string `json:"sessionID"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	Epoch     string `json:"epoch"`
	Version   uint64 `json:"version"`
	IsNew     bool   `json:"isNew"`
	Lost      bool   `json:"lost"`
	Visits    int    `json:"visits,omitempty"` // with --count-visits
}

func (a *app) view(s *session.Session) view {
	n, _ := counterKey.Get(s)
	v := view{
		Counter: n, Node: a.name, SessionID: s.ID(), Primary: s.Primary(), Secondary: s.Secondary(),
		Epoch: s.Epoch().String(), Version: s.Version(), IsNew: s.IsNew(), Lost: s.Lost(),
	}
	if v.Secondary == "" {
		v.Secondary = "NONE"
	}
	if a.visits {
		v.Visits, _ = visitsKey.Get(s)
	}
	return v
}

// answer writes what the session is now: JSON, or the page if a browser asks
// for HTML. A change that a browser posted is answered by a redirect, so that
// reloading the page does not repeat it.
func (a *app) answer(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	switch {
	case !wantsHTML(r):
		// The reply names the version that this request makes.
		if err := s.Flush(r.Context()); err != nil {
			a.fail(w, http.StatusServiceUnavailable, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(a.view(s)); err != nil {
			a.log.Debug().Str("id", requestID(r)).Err(err).Msg("client left")
		}
	case r.Method == http.MethodPost:
		http.Redirect(w, r, s.EncodeURL("/"), http.StatusSeeOther)
	default:
		a.people(w, r)
	}
}

func wantsHTML(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (a *app) fail(w http.ResponseWriter, code int, err error) {
	http.Error(w, err.Error(), code)
}

// people is the page for people.
func (a *app) people(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	if err := s.Flush(r.Context()); err != nil {
		a.fail(w, http.StatusServiceUnavailable, err)
		return
	}
	cart, _ := cartKey.Get(s)
	type node struct {
		Name, Role, State string
	}
	data := struct {
		view
		PID     int
		Cart    []string
		Goods   []string
		Members []node
		URL     func(string) string
	}{view: a.view(s), PID: os.Getpid(), Cart: cart, Goods: []string{"tea", "bread", "honey"}, URL: s.EncodeURL}
	for _, m := range a.members() {
		if m.Proxy {
			continue
		}
		role := ""
		switch m.Name {
		case data.Primary:
			role = "primary"
		case data.Secondary:
			role = "secondary"
		}
		data.Members = append(data.Members, node{m.Name, role, m.State.String()})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := a.page.Execute(w, data); err != nil {
		a.log.Debug().Str("id", requestID(r)).Err(err).Msg("client left")
	}
}

func (a *app) counter(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	n, _ := counterKey.Get(s)
	if err := counterKey.Set(s, n+1); err != nil {
		a.fail(w, http.StatusInternalServerError, err)
		return
	}
	if a.visits {
		n, _ := visitsKey.Get(s)
		if err := visitsKey.Set(s, n+1); err != nil {
			a.fail(w, http.StatusInternalServerError, err)
			return
		}
	}
	a.answer(w, r)
}

func (a *app) peek(w http.ResponseWriter, r *http.Request) { a.answer(w, r) }

// cart adds ?item= to the shopping cart of the page.
func (a *app) cart(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	item := r.FormValue("item")
	if item == "" || len(item) > 100 {
		a.fail(w, http.StatusBadRequest, errors.New("item: want 1 to 100 bytes"))
		return
	}
	cart, _ := cartKey.Get(s)
	if len(cart) >= 100 {
		a.fail(w, http.StatusConflict, errors.New("the cart is full"))
		return
	}
	if err := cartKey.Set(s, append(cart, item)); err != nil {
		a.fail(w, http.StatusInternalServerError, err)
		return
	}
	a.answer(w, r)
}

// set stores ?bytes= bytes under the attribute ?name=.
func (a *app) set(w http.ResponseWriter, r *http.Request) {
	n, err := number(r, "bytes", maxValue)
	if err != nil {
		a.fail(w, http.StatusBadRequest, err)
		return
	}
	key, err := attribute(r)
	if err == nil {
		err = session.NewKey[[]byte](key).Set(session.FromContext(r.Context()), make([]byte, n))
	}
	if err != nil {
		a.fail(w, http.StatusBadRequest, err)
		return
	}
	a.answer(w, r)
}

func (a *app) remove(w http.ResponseWriter, r *http.Request) {
	key, err := attribute(r)
	if err != nil {
		a.fail(w, http.StatusBadRequest, err)
		return
	}
	session.NewKey[[]byte](key).Remove(session.FromContext(r.Context()))
	a.answer(w, r)
}

// mutate changes an object of the session in place. It is stored the first
// time only, so later changes are not part of the session (SESS-4).
func (a *app) mutate(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	b, ok := basketKey.Get(s)
	if !ok || b == nil {
		b = &basket{}
		if err := basketKey.Set(s, b); err != nil {
			a.fail(w, http.StatusInternalServerError, err)
			return
		}
	}
	b.Mutations++
	a.answer(w, r)
}

func (a *app) invalidate(w http.ResponseWriter, r *http.Request) {
	session.FromContext(r.Context()).Invalidate()
	a.answer(w, r)
}

func (a *app) rotate(w http.ResponseWriter, r *http.Request) {
	if err := session.FromContext(r.Context()).RenewID(0); err != nil {
		a.fail(w, http.StatusInternalServerError, err)
		return
	}
	a.answer(w, r)
}

// crash ends this process in the middle of the request, as a kill -9 would.
func (a *app) crash(http.ResponseWriter, *http.Request) {
	// The first process of a container cannot kill itself.
	if p, err := os.FindProcess(os.Getpid()); err == nil && os.Getpid() != 1 && p.Kill() == nil {
		select {} // until the signal arrives
	}
	os.Exit(137)
}

// exception stores a value and then fails (TC-8).
func (a *app) exception(_ http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	n, _ := counterKey.Get(s)
	if err := counterKey.Set(s, n+1); err != nil {
		panic(err)
	}
	panic("exception: as the request asked for")
}

func (a *app) sleep(w http.ResponseWriter, r *http.Request) {
	ms, err := number(r, "ms", int(maxSleep/time.Millisecond))
	if err != nil {
		a.fail(w, http.StatusBadRequest, err)
		return
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
		return
	}
	a.answer(w, r)
}

// stuck does not return before the node stops, whatever its client does.
func (a *app) stuck(w http.ResponseWriter, _ *http.Request) {
	<-a.stop
	a.fail(w, http.StatusServiceUnavailable, errors.New("the node stops"))
}

// big answers ?bytes= bytes.
func (a *app) big(w http.ResponseWriter, r *http.Request) {
	n, err := number(r, "bytes", maxBig)
	if err != nil {
		a.fail(w, http.StatusBadRequest, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	chunk := []byte(strings.Repeat("0123456789abcdef", 2048))
	for n > 0 {
		k := min(n, len(chunk))
		if _, err := w.Write(chunk[:k]); err != nil {
			return
		}
		n -= k
	}
}

func (a *app) status(w http.ResponseWriter, r *http.Request) {
	code, err := number(r, "code", 599)
	if err != nil || code < 200 {
		a.fail(w, http.StatusBadRequest, errors.New("code: want 200 to 599"))
		return
	}
	w.WriteHeader(code)
}

// number returns the query parameter name, which is from 0 to most.
func number(r *http.Request, name string, most int) (int, error) {
	n, err := strconv.Atoi(r.FormValue(name))
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s: want a number from 0 to %d", name, most)
	}
	return n, nil
}

// attribute returns the query parameter name, the name of an attribute.
func attribute(r *http.Request) (string, error) {
	name := r.FormValue("name")
	if name == "" || len(name) > 100 {
		return "", errors.New("name: want 1 to 100 bytes")
	}
	return name, nil
}
