package proxy

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// An ErrorPage is the content of a reply of our own (WebLogic's ErrorPage,
// PLUG-34). It is sent as it is, whatever has failed, so it tells a client nothing
// of members.
type ErrorPage struct {
	ContentType string // must be set
	Body        []byte // at most [MaxErrorPage] bytes
}

// MaxErrorPage is the longest body of an [ErrorPage], in bytes.
const MaxErrorPage = 64 << 10

// anyStatus is the key in Config.ErrorPages of the page for all other statuses.
const anyStatus = 0

// checkPages returns a copy of Config.ErrorPages.
func checkPages(pages map[int]ErrorPage) (map[int]ErrorPage, error) {
	for status, p := range pages {
		switch {
		case status != anyStatus && (status < 400 || status > 599):
			return nil, fmt.Errorf("proxy: Config.ErrorPages has status %d, want 400 to 599, or 0 for all others", status)
		case p.ContentType == "" || len(p.Body) > MaxErrorPage:
			return nil, fmt.Errorf("proxy: Config.ErrorPages[%d] has no ContentType, or more than %d bytes", status, MaxErrorPage)
		}
	}
	return maps.Clone(pages), nil
}

// page returns the content of our own reply with a status.
func (p *Proxy) page(status int) ErrorPage {
	if page, ok := p.pages[status]; ok {
		return page
	}
	if page, ok := p.pages[anyStatus]; ok {
		return page
	}
	return ErrorPage{ContentType: "text/plain; charset=utf-8", Body: []byte(http.StatusText(status) + "\n")}
}

// allowed is what a 405 lists.
const allowed = "GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH"

// notStored keeps a reply of ours out of caches, which may keep a 404 otherwise
// (RFC 9111 section 4.2.2).
const notStored = "no-store"

// refusal says why a request is not taken at all. The status is in x.status.
func (x *exchange) refusal() failure {
	if x.req.Method == http1.MethodConnect {
		x.status = http.StatusMethodNotAllowed // peers.md B28
		return x.failed(failMethod, errMethod)
	}
	return failNone
}

var errMethod = errors.New("proxy: CONNECT is for forward proxies")

// A keptLine is a line of a member's reply that goes with our content.
type keptLine struct{ name, value string }

// keepLines keeps what a 401, 405 or 503 needs of a reply whose content is replaced
// (mod_jk.md 5.6, use_server_errors): the challenges, the methods of the resource
// (RFC 9110 sections 15.5.2 and 15.5.6), or when to come again (OVER-8). Of several
// attempts the last one counts.
func (x *exchange) keepLines() {
	name, lower := "", ""
	x.lines = x.lines[:0]
	switch x.rep.Status {
	case http.StatusUnauthorized:
		name, lower = "WWW-Authenticate", "www-authenticate"
	case http.StatusMethodNotAllowed:
		name, lower = "Allow", "allow"
	case http.StatusServiceUnavailable:
		name, lower = "Retry-After", "retry-after"
	default:
		return
	}
	for i := x.rep.FindField(lower, 0); i >= 0; i = x.rep.FindField(lower, i+1) {
		x.lines = append(x.lines, keptLine{name, string(x.rep.Value(i))})
	}
}
