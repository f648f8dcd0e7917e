package status

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/understudy-lb/understudy/admin"
)

// Settings returns what can be changed of a worker or, if m is not nil, of its member,
// with the values that count: directives, and values as a [Change] has them.
func Settings(w *Worker, m *Member) []Property {
	c := call{worker: w, member: m}
	if m == nil && len(w.Members) > 0 {
		m = &w.Members[0] // of a single server
	}
	var all []Property
	if m == nil && !w.balances() {
		return nil
	}
	for _, s := range c.settings() {
		all = append(all, Property{s.name, s.value(w, m)})
	}
	return all
}

// A Changed is a setting that is not as workers.properties asks for. Its fields are
// those of /api/changes: add, do not change.
type Changed struct {
	Worker  string `json:"worker"`
	Member  string `json:"member,omitempty"` // empty: the worker itself
	Setting string `json:"setting"`
	Value   string `json:"value"`
	File    string `json:"file"` // what the file asks for
}

// showChanges is GET /api/changes.
func (a *handler) showChanges(w http.ResponseWriter, _ *http.Request) {
	doc := struct {
		Changes []Changed `json:"changes"`
	}{a.changed()}
	if doc.Changes == nil {
		doc.Changes = []Changed{}
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, "application/json", append(text, '\n'))
}

// Where POST /api/workers/WORKER/… finds the member; all other parameters are
// settings.
const memberParam = "member"

// changeWorker is POST /api/workers/WORKER/set, reset and recover, for scripts.
// Parameters are in the query, or in a form.
func (a *handler) changeWorker(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, err := param(r, "worker")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ch := Change{Worker: name, Member: r.Form.Get(memberParam)}
	switch chi.URLParam(r, "do") {
	case cmdReset:
		ch.Do = DeedReset
	case cmdRecover:
		ch.Do = DeedRecover
	default:
		for name, values := range r.Form {
			if name != memberParam && name != admin.FormField {
				ch.Set = append(ch.Set, Property{name, values[0]})
			}
		}
		slices.SortFunc(ch.Set, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
		if len(ch.Set) == 0 {
			http.Error(w, "want settings, such as activation=D", http.StatusBadRequest)
			return
		}
	}
	if err := a.change(ch); err != nil {
		http.Error(w, err.Error(), changeStatus(err))
		return
	}
	send(w, "text/plain; charset=utf-8", []byte("done\n"))
}
