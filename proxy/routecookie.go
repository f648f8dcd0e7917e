package proxy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A routeCookie is the cookie of set_session_cookie (mod_jk.md 3.11): it has a
// member's route and no session, so that a client stays with the member although
// its application sets none. Its zero value is none.
type routeCookie struct {
	begin []byte // up to the route
	end   []byte // behind it
}

// newRouteCookie returns the cookie with a name and a path.
func newRouteCookie(name, path string) routeCookie {
	c := routeCookie{begin: []byte(name + "=."), end: []byte(";HttpOnly")}
	if path != "" {
		c.end = []byte(";PATH=" + path + ";HttpOnly")
	}
	return c
}

// checkRoute returns an error if the route of m cannot stand in a cookie (RFC 6265
// section 4.1.1).
func checkRoute(m *worker.Member) error {
	if !inCookie(m.Route) {
		return fmt.Errorf("set_session_cookie: the route %q of %s cannot stand in a cookie", m.Route, m.Name)
	}
	return nil
}

// inCookie reports whether a route can stand in one.
func inCookie(route string) bool {
	return !strings.ContainsFunc(route, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`",;\`, r) })
}

// ownCookie returns the route cookie for the reply in x.rep, or nil if it needs
// none: the session's own member has served it, or the member sets that cookie
// itself, or the session is signed: it says where it belongs, and must not be
// overwritten.
func (x *exchange) ownCookie() []byte {
	c := &x.mapping.setCookie
	if c.begin == nil || !x.lb.tuning.Load().sticky || x.ref.Signed || x.lease.Reason() == balance.ByPrimary {
		return nil
	}
	name := c.begin[:len(c.begin)-1] // with its '='
	for i := x.rep.Find(http1.NameSetCookie, 0); i >= 0; i = x.rep.Find(http1.NameSetCookie, i+1) {
		if bytes.HasPrefix(x.rep.Value(i), name) {
			return nil
		}
	}
	x.cookie = append(append(append(x.cookie[:0], c.begin...), x.lease.Route()...), c.end...)
	if _, proto, _ := x.effective(); http1.EqualFold(proto, "https") {
		x.cookie = append(x.cookie, ";Secure"...)
	}
	return x.cookie
}
