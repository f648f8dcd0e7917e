package proxy

import "github.com/understudy-lb/understudy/proxy/http1"

// The rules of this file mark lines as dropped; [http1.Out.Lines] then copies
// what is left, byte for byte. So a cookie that nobody can parse reaches the
// member as it was sent (peers.md A29), and several Cookie lines stay several
// (A28).
//
// No Via line is added. RFC 9110 section 7.6.3 wants one of gateways, but
// mod_jk, HAProxy and nginx send none either, and members that see one stop
// compressing (nginx's gzip_proxied, IIS).

// dropRequest marks the lines of a request that a member does not get.
// keepExpect says that the client's Expect goes on to the member, which is the
// case if nobody has read the body yet. trusted says that the request comes from
// a proxy in front whose word counts.
func dropRequest(r *http1.Request, keepExpect, trusted bool) {
	for i := range r.Lines {
		l := &r.Lines[i]
		switch l.Name {
		case http1.NameHost:
			// The host of an absolute target outranks the line (RFC 9112
			// section 3.2.2); a member must not see two opinions.
			l.Drop = r.Form == http1.FormAbsolute
		case http1.NameExpect:
			l.Drop = !keepExpect
		case http1.NameTrailer:
			l.Drop = r.Body.Framing() != http1.Chunked
		case http1.NameContentLength: // rewritten in its plain form
			l.Drop = true
		case http1.NameForwarded, http1.NameXForwardedFor, http1.NameXForwardedHost,
			http1.NameXForwardedPort, http1.NameXForwardedProto, http1.NameXRealIP, http1.NameXRequestID:
			// Written anew, by forwarded.go and read.go: what anybody can claim is
			// not passed on beside what we know (peers.md B37).
			l.Drop = true
		case http1.NameNotExecuted:
			l.Drop = true
		case http1.NameOther:
			name := r.FieldName(i)
			l.Drop = internal(name) || claim(name, trusted) || l.Nominated
		default:
			l.Drop = l.Name.HopByHop() || l.Nominated && !endToEnd(l.Name)
		}
	}
}

// dropReply marks the lines of a reply, or of an interim one, that the client
// does not get.
func dropReply(h *http1.Head, keepTrailer bool) {
	for i := range h.Lines {
		l := &h.Lines[i]
		switch l.Name {
		case http1.NameTrailer:
			l.Drop = !keepTrailer
		case http1.NameContentLength, http1.NameNotExecuted:
			l.Drop = true
		case http1.NameOther:
			l.Drop = internal(h.FieldName(i)) || l.Nominated
		default:
			l.Drop = l.Name.HopByHop() || l.Nominated && !endToEnd(l.Name)
		}
	}
}

// dropTrailer marks what may not stand in a trailer beyond what http1 marks.
func dropTrailer(h *http1.Head) {
	for i := range h.Lines {
		l := &h.Lines[i]
		l.Drop = l.Drop || internal(h.FieldName(i))
	}
}

// endToEnd reports whether a Connection line cannot nominate this field away.
// RFC 9110 section 7.6.1 forbids to list it there; who does is out to take a
// cookie or an address from a request (peers.md B32).
func endToEnd(n http1.Name) bool {
	switch n {
	case http1.NameAuthorization, http1.NameCacheControl, http1.NameContentEncoding,
		http1.NameContentRange, http1.NameContentType, http1.NameCookie, http1.NameDate,
		http1.NameHost, http1.NameLocation, http1.NameOrigin, http1.NameRange,
		http1.NameReferer, http1.NameSetCookie, http1.NameVary, http1.NameWWWAuthenticate:
		return true
	default:
		return false
	}
}

// internal reports whether a field is what our proxies and nodes tell each
// other. It neither comes from a client nor goes to one.
func internal(name []byte) bool {
	const prefix = "understudy-"
	return len(name) >= len(prefix) && http1.EqualFold(name[:len(prefix)], prefix)
}

// claim reports whether name is one more way to claim where a request came from.
// X-Forwarded-Prefix, -Server, -Ssl and the like are what a trusted proxy may say.
func claim(name []byte, trusted bool) bool {
	const prefix = "x-forwarded-"
	if len(name) >= len(prefix) && http1.EqualFold(name[:len(prefix)], prefix) {
		return !trusted
	}
	return http1.EqualFold(name, "true-client-ip")
}
