package session

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const (
	windows        = 6               // clients; two at a time share a session now and then
	clientPatience = 3 * time.Second // as the proxy's reply_timeout
)

// serve is the application of one process: each window counts with a key of its own, so
// that all of them must be exact, and sees those of the others.
func (h *history) serve(p *process, w http.ResponseWriter, r *http.Request) {
	s := FromContext(r.Context())
	out := sight{ID: s.ID(), Seen: map[string]int{}}
	nap, err := time.ParseDuration(r.FormValue("nap"))
	if err == nil {
		p.sleep(nap)
	}
	switch r.URL.Path {
	case "/count":
		key := NewKey[int](r.FormValue("key"))
		n, _ := key.Get(s)
		p.sleep(nap)
		if r.Context().Err() != nil {
			// Its client has gone on, perhaps at this very member; of two that count at
			// one primary at once the last wins (N6).
			http.Error(w, "the client has gone", http.StatusServiceUnavailable)
			return
		}
		if err := key.Set(s, n+1); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if r.FormValue("flush") != "" {
			if err := s.Flush(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		out.ID = s.ID()
	}
	out.New, out.Lost = s.IsNew(), s.Lost()
	for _, name := range s.Names() {
		out.Seen[name], _ = NewKey[int](name).Get(s)
	}
	if r.URL.Path == "/end" {
		h.ends(out.ID)
		s.Invalidate()
	}
	body, _ := json.Marshal(out)
	_, _ = w.Write(body)
}

// A sight is what a reply shows of a session.
type sight struct {
	ID        string
	New, Lost bool
	Seen      map[string]int // the count of each window
	holders   []string       // boots that have acknowledged it
}

// A window is a client with a cookie jar that does one thing after the other.
type window struct {
	tr      *trial
	name    string // and its key
	rand    *rand.Rand
	partner *window

	// Guarded by history.mu, as the partner may copy them.
	value   string
	session string         // that it last saw
	seen    map[string]int // of it
	maybe   int            // requests that failed and may have counted, or will yet
	at      time.Time      // when the request of its last good reply began
}

// act does one thing at random.
func (w *window) act() {
	if w.value == "" && w.rand.IntN(2) == 0 {
		w.tr.history.share(w.partner, w)
	}
	nap := ""
	if w.rand.IntN(4) == 0 {
		nap = fmt.Sprintf("&nap=%dms", 1+w.rand.IntN(30))
	}
	switch n := w.rand.IntN(100); {
	case n < 30:
		w.send("/count?key="+w.name+nap, 1)
	case n < 55:
		w.send("/count?flush=1&key="+w.name+nap, 1)
	case n < 97 || w.session == "":
		w.send("/look?"+nap, 0)
	default:
		w.send("/end?"+nap, 0)
	}
}

// send sends one request as the proxy does: to the primary that the cookie names,
// else the secondary, else anybody; sometimes to a wrong one. The next is tried
// when the handler has surely not run, and when to look twice does no harm.
func (w *window) send(path string, add int) {
	tr, start := w.tr, time.Now()
	order := slices.Clone(tr.names)
	w.rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	if v, err := tr.codec.Decode(w.value); err == nil && w.rand.IntN(6) > 0 {
		order = append([]string{v.Primary, v.Secondary}, order...)
	}
	tried := map[string]bool{}
	for _, name := range order {
		p := tr.proc(name)
		if p == nil || tried[name] {
			continue // refused
		}
		tried[name] = true
		got, value, ok := w.ask(p, path)
		switch {
		case !ok && path[:5] == "/look":
		case !ok, got.header.Get(NotExecuted) == "" && got.code != http.StatusOK:
			tr.history.failed(w, add)
			return
		case got.header.Get(NotExecuted) != "":
		default:
			s := sight{holders: tr.holders(p, value)}
			if err := json.Unmarshal([]byte(got.body), &s); err != nil {
				tr.t.Errorf("%s at %s: %v in %q", path, name, err, got.body)
			}
			tr.history.judge(w, path, name, start, add, value, &s)
			return
		}
	}
	tr.history.failed(w, 0)
}

// ask sends one request to one process. Without a reply in time it is not ok; the
// request may still be done.
func (w *window) ask(p *process, path string) (got reply, value string, ok bool) {
	type result struct {
		reply
		value string
	}
	done := make(chan result, 1)
	gone := make(chan struct{})
	defer close(gone)
	b := &browser{t: w.tr.t, value: w.value, gone: gone}
	w.tr.going.Go(func() {
		if p.awake() {
			got := b.get(p.node, path)
			if p.awake() {
				done <- result{got, b.value}
			}
		}
	})
	timer := time.NewTimer(clientPatience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.reply, r.value, true
	case <-p.dead:
	case <-timer.C:
	}
	return reply{}, "", false
}
