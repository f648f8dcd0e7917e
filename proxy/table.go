package proxy

import (
	"net/http"

	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A table is what the two files amount to: the workers, and which request goes to
// which. Nobody writes to it once it is Proxy.table; a reload puts another one in its
// place. A request loads it once and keeps to it.
type table struct {
	file       *worker.File
	workers    []*lb                     // that requests can go to, in the order of worker.list
	newcomers  *lb                       // joined by members that only gossip names; may be nil
	uris       *urimap.Map               // nil: everything is set
	rules      map[*urimap.Rule]*mapping // of uris
	everything *mapping                  // of all requests; nil: uris decides
	statuses   map[string]http.Handler   // workers of type status, by name
	sessions   []string                  // names under which a session may stand in a query, in lower case
}

// A builder makes a table. What has not changed it takes over from the one before.
type builder struct {
	*Proxy
	t    *table
	made map[string]*member // of t, by name
	old  map[string]*member // of the table before, by name
}

// newBuilder returns a builder of the table for two files.
func (p *Proxy) newBuilder(file *worker.File, uris *urimap.Map) *builder {
	return &builder{
		Proxy: p, t: &table{file: file, uris: uris, statuses: map[string]http.Handler{}, sessions: sessionNames(file)},
		made: map[string]*member{}, old: map[string]*member{},
	}
}

// worker returns the worker of a name that requests can be sent to, or nil.
func (t *table) worker(name string) *lb {
	for _, l := range t.workers {
		if l.name == name {
			return l
		}
	}
	return nil
}

// member returns the member for w: one that is made already for another worker, or
// that of the table before if it is the same, or a new one.
func (b *builder) member(w *worker.Member) (*member, error) {
	if m := b.made[w.Name]; m != nil {
		return m, nil
	}
	old := b.old[w.Name]
	if old != nil && sameServer(old.file, w) {
		b.made[w.Name] = old
		return old, nil
	}
	m, err := b.newMember(w)
	if err != nil {
		return nil, err
	}
	m.fromFile = true
	m.succeed(old)
	b.made[w.Name] = m
	return m, nil
}
