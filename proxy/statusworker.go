package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/understudy-lb/understudy/proxy/worker"
)

// serveStatus answers a request that a rule sends to a worker of type status, and
// reports whether it was one (mod_jk.md 6). It allocates: people and scripts ask it,
// not clients.
func (x *exchange) serveStatus() (bool, failure) {
	t := x.table
	if len(t.statuses) == 0 || t.uris == nil {
		return false, failNone
	}
	match, ok := t.uris.For(x.req.Host).Match(x.req.Path, &x.normal)
	if !ok || t.rules[match.Rule].status == nil {
		return false, failNone
	}
	form, f := x.statusForm()
	if f != failNone {
		return false, f
	}
	x.mark(&x.phases.Read)
	w := &ownReply{header: http.Header{}, status: http.StatusOK}
	t.rules[match.Rule].status.ServeHTTP(w, x.statusRequest(form))
	x.status, x.owned = w.status, true
	x.answer = ErrorPage{ContentType: w.header.Get("Content-Type"), Body: w.body.Bytes()}
	for _, name := range []string{"Allow", "Content-Security-Policy", "Referrer-Policy", "WWW-Authenticate", "X-Content-Type-Options"} {
		if v := w.header.Get(name); v != "" {
			x.lines = append(x.lines, keptLine{name, v})
		}
	}
	x.finish(giveUp)
	return true, failNone
}

// maxStatusForm is how much of a body a status worker is given, in bytes; it wants
// less than that.
const maxStatusForm = 32 << 10

// statusForm reads the body of a request that is for a status worker.
func (x *exchange) statusForm() ([]byte, failure) {
	var form []byte
	for !x.pump.ended.Load() && len(form) < maxStatusForm {
		piece, err := x.pump.next(x)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, x.failed(x.classifyBody(err), err)
		}
		form = append(form, piece...)
	}
	return form, failNone
}

// statusRequest is the request as a [http.Handler] gets it.
func (x *exchange) statusRequest(form []byte) *http.Request {
	host, proto, _ := x.effective()
	r := &http.Request{
		Method: string(x.req.MethodName), Host: string(host), RemoteAddr: string(x.clientAddr()),
		URL:    &url.URL{Scheme: string(proto), Path: string(x.req.Path), RawQuery: strings.TrimPrefix(string(x.req.Query), "?")},
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(form)), ContentLength: int64(len(form)),
	}
	for i := range x.req.Lines {
		r.Header.Add(string(x.req.FieldName(i)), string(x.req.Value(i)))
	}
	return r
}

// An ownReply is a reply of our own that a handler writes.
type ownReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *ownReply) Header() http.Header         { return w.header }
func (w *ownReply) WriteHeader(status int)      { w.status = status }
func (w *ownReply) Write(p []byte) (int, error) { return w.body.Write(p) }

// buildStatus makes a worker of type status.
func (b *builder) buildStatus(w *worker.Status) error {
	if b.newStatus == nil {
		return nil // rules that lead there lead nowhere
	}
	h, err := b.newStatus(w)
	if err != nil {
		return err
	}
	b.t.statuses[w.Name] = h
	return nil
}
