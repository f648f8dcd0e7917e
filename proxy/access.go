package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// requestID is the field in which a request's name goes to the member, and in
// replies of our own to the client, who can then tell it to an operator.
const requestID = "X-Request-ID"

// idLength is the length of a name that we make: 128 random bits.
const idLength = 32

// maxID is the longest name that is taken over, in bytes.
const maxID = 128

// identify names the request: as a trusted proxy in front has done, or anew.
func (x *exchange) identify() {
	if x.from.trusted {
		if id := givenID(&x.req.Head); id != nil {
			x.id = id
			return
		}
	}
	var b [idLength / 2]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	hex.Encode(x.made[:], b[:])
	x.id = x.made[:]
}

// givenID returns the name that a request brings along, or nil if it brings none
// or one that would not be the same in every log.
func givenID(h *http1.Head) []byte {
	i := h.Find(http1.NameXRequestID, 0)
	if i < 0 || h.Find(http1.NameXRequestID, i+1) >= 0 {
		return nil
	}
	id := h.Value(i)
	if len(id) == 0 || len(id) > maxID {
		return nil
	}
	for _, c := range id {
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("-._~+/=:@", c) < 0 {
			return nil
		}
	}
	return id
}

// sessionNames returns under which names f has sessions stand in URLs, and those
// of their cookies, which some applications use there too.
func sessionNames(f *worker.File) []string {
	names := []string{"jsessionid"}
	for _, l := range f.LBs {
		names = append(names, strings.ToLower(l.SessionParam()), strings.ToLower(l.SessionCookie))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(s string) bool { return s == "" })
}

// elapsed returns the time since the request's first byte, or zero if nobody
// wants to know.
func (x *exchange) elapsed() time.Duration {
	if !x.p.timed {
		return 0
	}
	return time.Since(x.start)
}

// mark sets phase, which is of x.phases, to the time since the phases before it.
func (x *exchange) mark(phase *time.Duration) {
	if !x.p.timed {
		return
	}
	*phase = 0
	q := &x.phases
	*phase = time.Since(x.start) - q.Read - q.Wait - q.Connect - q.Send - q.First
}

// sent notes how an attempt's first half went that began at begun.
func (x *exchange) sent(conn *endpoint.Conn, begun time.Duration) {
	if !x.p.timed {
		return
	}
	q := &x.phases
	queued, connected := time.Duration(0), time.Since(x.start)-begun // all of it, if there is no connection
	if conn != nil {
		queued, connected = conn.Took()
	}
	q.Wait, q.Connect, q.Send, q.First = begun-q.Read+queued, connected, 0, 0
	if conn != nil {
		x.mark(&q.Send)
	}
}

// logRequest writes the line of the access log.
func (x *exchange) logRequest() {
	l := x.p.access
	if l == nil {
		return
	}
	r := &x.req
	e := accesslog.Entry{
		Time: x.start, ID: x.id, Client: x.clientAddr(),
		Method: r.MethodName, Host: r.Host, Path: r.Path, Query: r.Query, Protocol: x.protocol(),
		Status: x.status, Bytes: x.written, Body: x.read,
		Route: x.ref.Primary, Attempts: x.attempts, Resends: x.resends,
		Failure: x.failure.String(), Sessions: x.table.sessions, Phases: x.phases,
	}
	e.Total = x.elapsed()
	if r.Form == http1.FormAuthority {
		e.Path = r.Target
	}
	if i := r.Find(http1.NameReferer, 0); i >= 0 {
		e.Referer = r.Value(i)
	}
	if i := r.Find(http1.NameUserAgent, 0); i >= 0 {
		e.UserAgent = r.Value(i)
	}
	if x.lb != nil {
		e.LB = x.lb.name
	}
	if x.served != nil {
		e.Member = x.served.name
	}
	if x.failure != failNone {
		e.Err = x.cause
	}
	x.logged = l.Append(x.logged[:0], &e)
	l.Put(x.logged)
	if cap(x.logged) > maxLogged {
		x.logged = nil
	}
}

// maxLogged is the longest line whose buffer an exchange keeps, in bytes.
const maxLogged = 4 << 10

// protocol is what the client speaks.
func (x *exchange) protocol() string {
	switch {
	case x.two.w != nil:
		return x.two.r.Proto
	case x.req.Minor == 0:
		return "HTTP/1.0"
	default:
		return "HTTP/1.1"
	}
}
