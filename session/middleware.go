package session

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
)

// NotExecuted is the header of a 503 with which a member says that the handler
// of a request has not run, so that it may be tried elsewhere (D8). Its value is
// why, and behind "; member=" the name of the member to try first, if there is
// one.
const NotExecuted = "Understudy-Not-Executed"

// keepBody is the largest buffer that is kept for the next response, in bytes.
const keepBody = 64 << 10

// Handler returns next with a session in the context of each request: see
// [FromContext]. What next writes is held back as far as is needed so that the
// client knows of no change that is not safe: the head until the changes made
// before it are acknowledged, and the end of the reply until all are. A handler
// that writes more than [Config.Buffer] or flushes streams from then on.
//
// The cookie of the session is written if the client's does not say who holds
// the session now. The path parameter is taken off the request's path.
//
// next does not run if the client has gone before it could: while the session was
// looked for, or because this member stood still.
//
// If next panics, what it changed before is flushed, or taken back if
// [Config.RollbackOnPanic] is set, and the panic goes on (TC-8). OPTIONS * is answered here, for probes (PLUG-118).
func (m *Manager) Handler(next http.Handler) http.Handler {
	if m.exclusive {
		next = Exclusive(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions && r.RequestURI == "*" {
			w.Header().Set("Content-Length", "0")
			return
		}
		draining, why := m.enter()
		if why != "" {
			m.refuse(w, why)
			return
		}
		defer m.leave()
		s, refusal, err := m.begin(r, draining)
		defer func() {
			m.endTurns(s)
			if s.e != nil {
				m.table.drop(s.e)
			}
		}()
		if err == nil && refusal == "" {
			// Nobody waits for it any more. Its client may have gone on elsewhere, as
			// when this member stood still for a while and goes on now.
			err = r.Context().Err()
		}
		switch {
		case err != nil:
			m.giveUp(s)
			busy(w, err)
		case refusal != "":
			m.refuse(w, refusal)
		default:
			m.serve(next, w, r, s)
		}
	})
}

// refuse answers a request whose handler must not run here.
func (m *Manager) refuse(w http.ResponseWriter, why string) {
	m.stats.notExecuted.Add(1)
	w.Header().Set(NotExecuted, why)
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "This node cannot serve the request; try again.", http.StatusServiceUnavailable)
}

// turnAway has a reply replaced by a 503 if it is an error because its request
// was to have a session and could have none (OVER-10), or could not
// change it ([Config.RequireReplica]). Another member may be
// tried if that can do no harm: if the handler has not run, or only looked.
func (m *Manager) turnAway(h http.Header, r *http.Request, s *Session, status int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied == nil || status < http.StatusInternalServerError {
		return nil
	}
	if s.unrun || safe(r.Method) {
		m.stats.notExecuted.Add(1)
		why := "full"
		if errors.Is(s.denied, ErrNoReplica) {
			why = noReplica
		}
		h.Set(NotExecuted, why)
	}
	h.Set("Retry-After", retryAfter)
	return s.denied
}

// retryAfter is when a client may try again that found all members full, in
// seconds (OVER-8).
const retryAfter = "5"

// Required returns next for requests with a session: one without gets a new one
// before next runs. If this member takes no more (OVER-9), next does not run,
// and the reply says so, so that the proxy tries the next member whatever the
// method (OVER-10). It belongs inside of [Manager.Handler], around what surely
// makes a session and is not safe to run twice.
func Required(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		if err := s.Create(); err != nil {
			s.mu.Lock()
			s.unrun = s.denied != nil
			s.mu.Unlock()
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// begin finds the session of a request (R1 to R6), or says why the request
// cannot be served here. If this member drains, it serves only sessions that it
// still has: one that it would take over would have to go again at once.
func (m *Manager) begin(r *http.Request, draining bool) (s *Session, refusal string, err error) {
	scratch, _ := m.scratches.Get().(*cookie.Scratch)
	path := r.URL.EscapedPath()
	ref := m.finder.FindStrings(path, r.Header["Cookie"], nil, scratch)
	s = &Session{m: m, page: path, flushing: make(chan struct{}, 1)}
	if ref.Signed && (m.rewriting || !ref.FromPath) {
		s.presented, s.fromPath = ref.Value(), ref.FromPath
	}
	m.stats.forged.Add(uint64(ref.Forged))
	m.scratches.Put(scratch)
	s.links = m.rewriting && (s.fromPath || s.presented.ID == "")
	switch {
	case draining && (s.presented.ID == "" || !m.keeps(s.presented.ID)): // before it waits for its turn
		return s, cluster.Draining.String(), nil
	case !safe(r.Method) && m.alone():
		m.stats.noReplica.Add(1)
		return s, noReplica, nil
	case s.presented.ID == "":
		return s, "", nil
	}
	v := s.presented
	if m.exclusive { // first, so that of those on one member only one asks the others
		s.exclusive = true
		if _, err := m.claim(r.Context(), s, v.ID); err != nil {
			return s, "", err
		}
	}
	e, c, a := m.seek(s, v.ID, v, true)
	if !a.handle {
		m.table.drop(e)
		switch a.Outcome {
		case owner.Ended:
			m.stats.ended.Add(1)
			return s, "", nil
		case owner.Lost:
			m.stats.lost.Add(1)
			m.log.Info().Str("session", HashID(v.ID)).Str("primary", v.Primary).Str("secondary", v.Secondary).Msg("session lost")
			s.lost = true
			m.events.tell(Event{Kind: EventLost, ID: v.ID})
			if m.rejoin(s); !m.exclusive || s.e == nil {
				return s, "", nil
			}
			waited, err := m.claim(r.Context(), s, s.e.id)
			if err == nil {
				refusal, err = m.refresh(r.Context(), s, waited, true)
			}
			return s, refusal, err
		case owner.NotExecuted:
			return s, a.elsewhere(), nil
		default:
			return s, noAnswer, nil
		}
	}
	if a.Flagged {
		m.stats.flagged.Add(1)
	}
	s.start(e, c, &a)
	s.lost = a.Flagged
	return s, "", nil
}

// noAnswer is the reason in [NotExecuted] if it is not known where the session is.
const noAnswer = "no answer"

// elsewhere is the reason in [NotExecuted] of a request that is to go to another
// member.
func (a *answer) elsewhere() string {
	if a.Elsewhere.IsZero() {
		return cluster.Draining.String()
	}
	return "owner; member=" + a.Elsewhere.Name
}

// rejoin gives the request the session that another one has made in place of
// the lost one (H31), if there is one.
func (m *Manager) rejoin(s *Session) {
	id := m.reborn.find(s.presented.ID)
	if id == "" {
		return
	}
	e, c := m.arrive(id)
	a := m.wait(c)
	if !a.handle {
		m.table.drop(e)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(e, c, &a)
	s.isNew = true
}

// start gives the request a session that goes on.
func (s *Session) start(e *entry, c *call, a *answer) {
	s.e, s.call, s.seen, s.version = e, c, a.Attrs, a.Header.Version
	s.before, s.idleBefore = a.Attrs, a.Expiry.Idle
	_, s.leftover = a.Attrs.Get(leftoverKey)
	if c.accessed > 0 {
		s.accessed = time.UnixMilli(c.accessed)
	}
	if m := s.m; m.firstIdle != m.idleTimeout && !s.leftover && a.Expiry.Idle == m.firstIdle.Milliseconds() {
		s.idle = m.idleTimeout // the client has come back with it (H32)
	}
}

func epochOf(e cookie.Epoch) owner.Epoch {
	return owner.Epoch{N: e.N, Reign: owner.Reign{Boot: e.Boot, Seq: e.Seq}}
}

// serve runs the handler, and has its changes acknowledged.
func (m *Manager) serve(next http.Handler, w http.ResponseWriter, r *http.Request, s *Session) {
	// Whether the client is still there does not matter to what was changed.
	ctx := context.WithoutCancel(r.Context())
	body, _ := m.bodies.Get().(*[]byte)
	res := &response{
		w: w, head: r.Method == http.MethodHead, limit: m.buffer, body: (*body)[:0],
		settle:  func(last bool) error { return m.settle(ctx, s, last) },
		refused: func(h http.Header, status int) error { return m.turnAway(h, r, s, status) },
		prepare: func(h http.Header, held []byte, complete bool) []byte {
			m.stamp(h, r, s)
			return m.relink(h, held, complete, s)
		},
	}
	defer func() {
		if cap(res.body) <= keepBody {
			*body = res.body[:0]
			m.bodies.Put(body)
		}
	}()
	returned := false
	defer func() {
		if returned {
			return
		}
		// A panic, which goes on; or Goexit.
		if m.rollback {
			s.Rollback()
		}
		if err := m.settle(ctx, s, true); err == nil && !res.committed && !res.hijacked {
			m.stamp(w.Header(), r, s)
		}
	}()
	next.ServeHTTP(res, m.request(r, s))
	returned = true
	if err := res.finish(); err != nil {
		m.log.Debug().Err(err).Msg("reply cut off")
		panic(http.ErrAbortHandler)
	}
}

// request is r as the handler sees it: with the session, and without its
// reference in the path.
func (m *Manager) request(r *http.Request, s *Session) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, s))
	if !strings.Contains(s.page, ";") {
		return r
	}
	path := cookie.StripParam(s.page, m.param)
	plain, err := url.PathUnescape(path)
	if err != nil || path == s.page {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = plain, path
	r.URL = &u
	r.RequestURI = cookie.StripParam(r.RequestURI, m.param)
	return r
}

// stamp writes the cookie, if the client needs another than it has, and what
// goes with it.
func (m *Manager) stamp(h http.Header, r *http.Request, s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	if s.fromPath || s.links && s.e != nil && !s.ended {
		if h.Get("Referrer-Policy") == "" {
			h.Set("Referrer-Policy", "same-origin") // a link with a session is a credential, also one that is yet to come
		}
	}
	c := m.template
	c.Secure = c.Secure || r.TLS != nil || m.trustForwarded && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	switch {
	case s.stale, s.leftover: // a leftover's client has another cookie by now, or will
		return
	case s.ended:
		if !s.ender || s.presented.ID == "" || s.fromPath {
			return
		}
		c.MaxAge = -1
	case s.acked.ID == "" || s.acked == s.presented:
		return
	default:
		value, err := m.cookies.Encode(s.acked)
		if err != nil {
			m.log.Error().Err(err).Msg("cookie not written")
			return
		}
		c.Value = value
	}
	h.Add("Set-Cookie", c.String())
	// Beside what the handler says: that a page is the same for all is not to
	// make its cookie so, for any reply may be the one that changes the pair.
	h.Add("Cache-Control", `no-cache="Set-Cookie"`)
}

// relink changes links that were handed out before the session was
// acknowledged, if the pair has changed since.
func (m *Manager) relink(h http.Header, held []byte, complete bool, s *Session) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.linked) == 0 || s.ended || s.stale || !complete && h.Get("Content-Length") != "" {
		return held
	}
	for v, old := range s.linked {
		if v == s.acked {
			continue
		}
		value, err := m.cookies.Encode(s.acked)
		if err != nil {
			continue
		}
		held = bytes.ReplaceAll(held, []byte(old), []byte(value))
		if location := h.Get("Location"); strings.Contains(location, old) {
			h.Set("Location", strings.ReplaceAll(location, old, value))
		}
		if complete {
			h.Del("Content-Length")
		}
	}
	return held
}

// EncodeURL returns link with the session in it (SESS-49), for clients that do
// not keep cookies. It changes nothing if [Config.URLRewriting] is off, if there
// is no session, if the request came with a valid cookie, or if link does not
// surely lead back here: only relative references are rewritten, with or
// without a path, never absolute URLs. The reply gets Referrer-Policy:
// same-origin.
//
// Use it for links and forms of pages, and for redirects.
func (s *Session) EncodeURL(link string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.current()
	if !s.links || v.ID == "" || !ownLink(link) {
		return link
	}
	if s.rotate != "" {
		v.Epoch = cookie.Epoch{} // the old id's means nothing to the new one, whose own is yet to come
	}
	value, ok := s.linked[v]
	if !ok {
		var err error
		if value, err = s.m.cookies.Encode(v); err != nil {
			return link
		}
		if s.linked == nil {
			s.linked = make(map[cookie.Value]string)
		}
		s.linked[v] = value
	}
	return rewrite(link, s.m.param, value, s.page, func(path string) string { return cookie.StripParam(path, s.m.param) })
}
