package session

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// A response holds back what a handler writes, so that the client knows of
// nothing that is not acknowledged (D5): the first byte until settle has
// returned, and the last one until finish has.
//
// A reply without Content-Length ends when the handler returns (the final
// chunk, or the end of the connection), a reply with one ends with its last
// byte, which is therefore kept. A reply without body ends with its head, which
// is therefore kept until the handler returns.
type response struct {
	w    http.ResponseWriter
	head bool // the request's method is HEAD

	// settle is called before the first byte leaves, and by finish, once, as the
	// last one. It returns when all that was changed is acknowledged.
	settle func(last bool) error

	// prepare is called between the first settle and the head: it adds the
	// cookie and may rewrite the body, of which all is there if complete.
	prepare func(h http.Header, body []byte, complete bool) []byte

	// refused is asked before the head leaves whether another member is to be
	// tried in place of this reply, and then sets the header that says so.
	refused func(h http.Header, status int) error

	limit     int    // bytes held before the head must leave
	body      []byte // held: before the head leaves, and then the last bytes
	status    int    // 0 until WriteHeader
	left      int64  // of a reply with Content-Length, after the head; -1 without
	committed bool
	hijacked  bool
	err       error // why settle failed, or what refused returned
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.w }

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.w.Header() }

// WriteHeader implements [http.ResponseWriter]. Informational replies other
// than 101 are not the reply and leave at once.
func (w *response) WriteHeader(status int) {
	switch {
	case w.status != 0 || w.hijacked:
		return
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		w.w.WriteHeader(status)
		return
	}
	w.status = status
	if status == http.StatusSwitchingProtocols {
		_ = w.commit(false) // the error is kept for finish
	}
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.hijacked {
		return 0, http.ErrHijacked
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case w.err != nil:
		return 0, w.err
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.committed:
		return w.pass(p)
	case w.head:
		// Of this only the length is of interest, and only while it is short.
		if len(w.body) <= w.limit {
			w.body = append(w.body, p...)
		}
		return len(p), nil
	case len(w.body)+len(p) <= w.limit:
		w.body = append(w.body, p...)
		return len(p), nil
	}
	if err := w.commit(false); err != nil {
		return 0, err
	}
	return w.pass(p)
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController]. It sends what was written, once
// it is acknowledged; but for the end of the reply, which waits for the end of
// the handler.
func (w *response) FlushError() error {
	if w.hijacked {
		return http.ErrHijacked
	}
	w.WriteHeader(http.StatusOK)
	if w.err != nil {
		return w.err
	}
	if !w.committed {
		if w.head || !bodyAllowed(w.status) || w.Header().Get("Content-Length") == "0" {
			return nil
		}
		if err := w.commit(false); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.w).Flush()
}

// Hijack implements [http.Hijacker]. What was changed is acknowledged before;
// later changes need [Session.Flush]. If the head has not left, the cookie that
// the client needs is in Header afterwards, for a head that the handler writes
// itself.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.err != nil {
		return nil, nil, w.err // the client was told by a 503
	}
	if err := w.settle(false); err != nil {
		return nil, nil, err
	}
	conn, rw, err := http.NewResponseController(w.w).Hijack()
	if err == nil {
		w.hijacked = true
		if !w.committed {
			w.prepare(w.Header(), nil, false)
		}
	}
	return conn, rw, err
}

// commit sends the head and what is held; complete is whether that is all.
func (w *response) commit(complete bool) error {
	w.committed = true
	why := "The change of the session is not safe on another node; try again."
	if w.err = w.settle(complete); w.err == nil {
		why, w.err = "This node cannot make or change the session; try again.", w.refused(w.Header(), w.status)
	}
	if w.err != nil {
		w.body = w.body[:0]
		w.left = -1
		describeNothing(w.Header())
		http.Error(w.w, why, http.StatusServiceUnavailable)
		return w.err
	}
	h := w.Header()
	body := w.prepare(h, w.body, complete)
	w.body = w.body[:0]
	if complete && len(body) > 0 && bodyAllowed(w.status) && h.Get("Content-Length") == "" &&
		h.Get("Transfer-Encoding") == "" && !trailers(h) && (!w.head || len(body) <= w.limit) {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.left = -1
	if length := h.Get("Content-Length"); length != "" && !complete {
		if n, err := strconv.ParseInt(length, 10, 64); err == nil && n >= 0 {
			w.left = n
		}
	}
	w.w.WriteHeader(w.status)
	if len(body) == 0 {
		return nil
	}
	_, err := w.pass(body)
	return err
}

// describeNothing takes off what the handler said of a reply that does not
// leave.
func describeNothing(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
	for _, name := range []string{
		"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Range",
		"ETag", "Expires", "Last-Modified", "Location", "Trailer", "Transfer-Encoding",
	} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
}

// pass writes p after the head has left, but for what ends the reply.
func (w *response) pass(p []byte) (int, error) {
	if w.left < 0 {
		return w.w.Write(p)
	}
	n := 0
	if now := min(int64(len(p)), w.left-1); now > 0 {
		var err error
		n, err = w.w.Write(p[:now])
		w.left -= int64(n)
		if err != nil {
			return n, err
		}
	}
	if int64(len(p)-n+len(w.body)) > w.left {
		return n, http.ErrContentLength // more than was announced
	}
	w.body = append(w.body, p[n:]...)
	return len(p), nil
}

// finish ends the reply of a handler that has returned.
func (w *response) finish() error {
	if w.hijacked {
		return w.settle(true)
	}
	if !w.committed {
		if w.status == 0 {
			w.status = http.StatusOK
		}
		err := w.commit(true)
		if w.err == nil {
			return err
		}
		return nil // the client was told
	}
	told := w.err != nil // the client, by a 503
	if err := w.settle(true); err != nil && !told {
		return err
	}
	if len(w.body) == 0 {
		return nil
	}
	_, err := w.w.Write(w.body)
	w.body = w.body[:0]
	return err
}

// trailers reports whether something is to follow the body, which then has no
// length.
func trailers(h http.Header) bool {
	if h.Get("Trailer") != "" {
		return true
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// bodyAllowed reports whether a reply of this status has a body (RFC 9110
// 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

var _ io.StringWriter = (*response)(nil)
