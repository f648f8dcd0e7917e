package proxy

import "github.com/understudy-lb/understudy/proxy/http1"

// The rules of this file mark lines as dropped; [http1.Out.Lines] then copies
// what is left, byte for byte. So a cookie that nobody can parse reaches the
// member as it was sent (peers.md A29). Hop-by-hop fields are
// [http1.Name.HopByHop].
//
// No Via line is added. RFC 9110 section 7.6.3 wants one of gateways, but
// mod_jk, HAProxy and nginx send none either, and members that see one stop
// compressing (nginx's gzip_proxied, IIS).

// dropping says what dropRequest must know beside the request.
type dropping struct {
	expect  bool // the client's Expect goes on to the member: nobody has read the body yet
	trusted bool // the request comes from a proxy in front whose word counts
	counted bool // Max-Forwards is written anew
}

// dropRequest marks the lines of a request that a member does not get.
func dropRequest(r *http1.Request, d dropping) {
	cookies := r.Find(http1.NameCookie, 0)
	joined := cookies >= 0 && r.Find(http1.NameCookie, cookies+1) >= 0
	for i := range r.Lines {
		l := &r.Lines[i]
		switch l.Name {
		case http1.NameHost:
			// The host of an absolute target outranks the line (RFC 9112
			// section 3.2.2); a member must not see two opinions.
			l.Drop = r.Form == http1.FormAbsolute
		case http1.NameCookie:
			l.Drop = joined
		case http1.NameExpect:
			l.Drop = !d.expect
		case http1.NameMaxForwards:
			l.Drop = d.counted || l.Nominated
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
			l.Drop = l.Alias != http1.NameOther || internal(name) || claim(name, d.trusted) || l.Nominated
		default:
			l.Drop = l.Name.HopByHop() || l.Nominated && !endToEnd(l.Name)
		}
	}
}

// writeCookies writes several Cookie lines as one (peers.md A28): RFC 6265 section
// 5.4 allows one, and members that join lines put a comma between them.
func writeCookies(o *http1.Out, h *http1.Head) {
	first := h.Find(http1.NameCookie, 0)
	if first < 0 || !h.Lines[first].Drop {
		return
	}
	o.RawString("Cookie: ")
	for i := first; i >= 0; i = h.Find(http1.NameCookie, i+1) {
		if i > first {
			o.RawString("; ")
		}
		o.Raw(h.Value(i))
	}
	o.RawString("\r\n")
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

// dropTrailer marks what may not stand in a trailer beyond what http1 marks: some
// members treat it as if it had stood at the head.
func dropTrailer(h *http1.Head) {
	for i := range h.Lines {
		l := &h.Lines[i]
		name := h.FieldName(i)
		l.Drop = l.Drop || internal(name) || claim(name, false)
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
func internal(name []byte) bool { return hasPrefix(name, "understudy-") }

// claim reports whether name is one more way to claim where a request came from,
// or a field that CGI turns into the variable HTTP_PROXY (CVE-2016-5385).
// X-Forwarded-Prefix, -Server, -Ssl and the like are what a trusted proxy may say,
// and which certificate its client has shown (RFC 9440 section 2.4).
func claim(name []byte, trusted bool) bool {
	return (hasPrefix(name, "x-forwarded-") || like(name, "client-cert") || like(name, "client-cert-chain")) && !trusted ||
		like(name, "true-client-ip") || like(name, "proxy")
}

// like is [http1.EqualFold], but an underscore counts as a dash: to members that
// make variables of fields they are the same (X_Forwarded_For).
func like(name []byte, lower string) bool {
	return len(name) == len(lower) && hasPrefix(name, lower)
}

// hasPrefix reports whether name begins with lower, in the sense of like.
func hasPrefix(name []byte, lower string) bool {
	if len(name) < len(lower) {
		return false
	}
	for i := range len(lower) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '_':
			c = '-'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
