// Command cart is an example: a shopping cart that loses nothing, whatever node
// dies and however fast its customer clicks.
//
//	go run ./examples/cart -name a -listen 127.0.0.1:8081 -gossip 127.0.0.1:7941 &
//	go run ./examples/cart -name b -listen 127.0.0.1:8082 -gossip 127.0.0.1:7942 -join 127.0.0.1:7941
package main

import (
	"errors"
	"html/template"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/understudy-lb/understudy/examples/node"
	"github.com/understudy-lb/understudy/session"
)

// A cart has the number of each kind of goods.
type cart map[string]int

//nolint:gochecknoglobals // read-only: session keys are declared as variables
var cartKey = session.NewKey[cart]("cart")

// goods are what there is.
//
//nolint:gochecknoglobals // read-only
var goods = []string{"tea", "bread", "honey"}

//nolint:gochecknoglobals // read-only
var page = template.Must(template.New("page").Parse(`<!doctype html><title>Cart</title>
<ul>{{range $what, $n := .Cart}}<li>{{$n}} × {{$what}}</li>{{else}}<li>nothing yet</li>{{end}}</ul>
{{range .Goods}}<form method=post action="/add"><button name=what value="{{.}}">{{.}}</button></form>{{end}}
<form method=post action="/order"><button>Order</button></form>
`))

func main() { node.Main(routes()) }

func routes() http.Handler {
	r := chi.NewRouter()
	r.Use(http.NewCrossOriginProtection().Handler)
	r.Get("/", show)
	r.Group(func(r chi.Router) {
		// To add is to read and to write: requests that do come one after the
		// other, or two clicks at the same time would be one.
		r.Use(session.Exclusive)
		// A node that has no room for one more session is not to run these, so
		// that the proxy can have another one do it.
		r.With(session.Required).Post("/add", add)
		r.Post("/order", order)
	})
	return r
}

func show(w http.ResponseWriter, r *http.Request) {
	c, _ := cartKey.Get(session.FromContext(r.Context()))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := page.Execute(w, struct {
		Cart  cart
		Goods []string
	}{c, goods}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func add(w http.ResponseWriter, r *http.Request) {
	s := session.FromContext(r.Context())
	what := r.PostFormValue("what")
	if !slices.Contains(goods, what) {
		http.Error(w, "we have no such thing", http.StatusBadRequest)
		return
	}
	c, ok := cartKey.Get(s)
	if !ok {
		c = cart{}
	}
	c[what]++
	switch err := cartKey.Set(s, c); { // what Get returned is a copy: without Set nothing has changed
	case errors.Is(err, session.ErrTooLarge):
		http.Error(w, "the cart is full", http.StatusConflict)
	case err != nil:
		http.Error(w, "sorry", http.StatusInternalServerError)
	default:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// order takes what is in the cart, once.
func order(w http.ResponseWriter, r *http.Request) {
	c, ok := cartKey.Pop(session.FromContext(r.Context()))
	if !ok || len(c) == 0 {
		http.Error(w, "there is nothing to order", http.StatusConflict)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
