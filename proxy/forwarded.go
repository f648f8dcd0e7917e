package proxy

import (
	"bytes"
	"net/netip"
	"unsafe"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// This file has what is believed of where a request came from, and what members
// are told about it: X-Forwarded-For, -Proto, -Host and -Port, and Forwarded (RFC
// 7239), which always agree (peers.md B37).
//
// A client's own lines are dropped. A peer in one of [Config.TrustedNetworks] is
// another proxy, and its lines are continued: lists get the peer's address at
// their end, and single values stay. If it has only one of the two forms the
// other one is made of it, as RFC 7239 section 7.4 suggests. If it has both and
// they name different clients, one of them was forged by somebody whom the peer
// let pass: X-Forwarded-For is believed, which more proxies maintain. A Forwarded
// that is malformed counts as none.

// networks is a set of networks.
type networks []netip.Prefix

func (n networks) contain(a netip.Addr) bool {
	for _, p := range n {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// An origin is where a request came from, as far as that is known.
type origin struct {
	trusted   bool // the peer is: its lines count
	forwarded bool // it has said so in Forwarded alone; else in X-Forwarded-For, if at all
	both      bool // its Forwarded is continued

	hop  hop // of the client
	at   int // its place in the list; -1 without a list
	text [maxAddress]byte
	used int // of text, which is the client's address; 0 for the peer's
}

// maxAddress is the longest text of an address, with room for a zone that an
// interface's name may give a peer.
const maxAddress = 64

// A hop is one element of a list: what one proxy says of who came to it.
type hop struct {
	addr        netip.Addr // zero if it is hidden or unknown
	host, proto []byte     // as that one asked for; empty if it is not told
}

// clientAddr returns the address that the request came from, as text without a
// port: the peer's, or that of the last one before trusted proxies. It is valid
// until the exchange is given back.
func (x *exchange) clientAddr() []byte {
	if x.origin.used > 0 {
		return x.origin.text[:x.origin.used]
	}
	return x.from.address
}

// locate finds out where the request came from.
func (x *exchange) locate() {
	o := &x.origin
	o.trusted, o.forwarded, o.both, o.used, o.at = x.from.trusted, false, false, 0, -1
	o.hop = hop{}
	if !o.trusted {
		return
	}
	list := x.listed()
	told, ok := x.told()
	chosen := list
	switch {
	case list.n > 0:
		o.both = ok && told.n > 0 && told.client.addr == list.client.addr
	case ok && told.n > 0:
		o.forwarded, o.both = true, true
		chosen = told
	}
	o.at, o.hop = chosen.at, chosen.client
	if o.both {
		o.hop = told.client // the same, with what it asked for
	}
	if o.hop.addr.IsValid() {
		o.used = len(o.hop.addr.AppendTo(o.text[:0]))
	}
}

// A walk goes along a list to the client: the last address outside the trusted
// networks, or the first one if there is none outside. Whoever is hidden, or is
// no address, ends what is known: then it is the next one, which has said so.
type walk struct {
	trusted networks
	n       int
	at      int // of client
	client  hop // its addr is zero if it can only be the peer
	hidden  bool
}

func (w *walk) step(h hop) {
	switch {
	case !h.addr.IsValid():
		w.hidden = true
		w.client, w.at = hop{}, -1
	case w.n == 0 || w.hidden || !w.trusted.contain(h.addr):
		w.hidden = false
		w.client, w.at = h, w.n
	}
	w.n++
}

// listed walks along X-Forwarded-For.
func (x *exchange) listed() walk {
	w := walk{trusted: x.p.trusted, at: -1}
	r := &x.req
	for i := r.Find(http1.NameXForwardedFor, 0); i >= 0; i = r.Find(http1.NameXForwardedFor, i+1) {
		for item, rest := http1.NextItem(r.Value(i)); item != nil; item, rest = http1.NextItem(rest) {
			w.step(hop{addr: parseNode(item)})
		}
	}
	return w
}

// told walks along Forwarded. ok is false if it is malformed.
func (x *exchange) told() (w walk, ok bool) {
	w = walk{trusted: x.p.trusted, at: -1}
	r := &x.req
	for i := r.Find(http1.NameForwarded, 0); i >= 0; i = r.Find(http1.NameForwarded, i+1) {
		for rest := r.Value(i); len(rest) > 0; {
			var h hop
			if h, rest, ok = nextHop(rest); !ok {
				return w, false
			}
			w.step(h)
		}
	}
	return w, true
}

// nextHop reads one element of Forwarded (RFC 7239 section 4) and what is between
// it and the next one. Quoted pairs are refused where a value is used: nobody
// needs them there.
func nextHop(b []byte) (h hop, rest []byte, ok bool) {
	var seen [3]bool
	for {
		name, value, tail, ok := nextPair(b)
		if !ok {
			return hop{}, nil, false
		}
		which := -1
		switch {
		case http1.EqualFold(name, "for"):
			which, h.addr = 0, parseNode(value)
		case http1.EqualFold(name, "host"):
			which, h.host = 1, value
		case http1.EqualFold(name, "proto"):
			which, h.proto = 2, value
		}
		if which >= 0 {
			if seen[which] || bytes.IndexByte(value, '\\') >= 0 {
				return hop{}, nil, false // each parameter once an element
			}
			seen[which] = true
		}
		switch {
		case len(tail) == 0:
			return h, nil, true
		case tail[0] == ';':
			b = tail[1:]
		default:
			return h, skipCommas(tail), true
		}
	}
}

// nextPair reads token "=" ( token / quoted-string ), with the quotes taken off
// the value. tail is empty or begins with the ';' or ',' behind it.
func nextPair(b []byte) (name, value, tail []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t")
	eq := bytes.IndexByte(b, '=')
	if eq < 0 || !http1.IsToken(b[:eq]) {
		return nil, nil, nil, false
	}
	name, b = b[:eq], b[eq+1:]
	if len(b) > 0 && b[0] == '"' {
		end := 1
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(b) {
			return nil, nil, nil, false
		}
		value, b = b[1:end], b[end+1:]
	} else {
		end := 0
		for end < len(b) && b[end] != ';' && b[end] != ',' && b[end] != ' ' && b[end] != '\t' {
			end++
		}
		if value, b = b[:end], b[end:]; !http1.IsToken(value) {
			return nil, nil, nil, false
		}
	}
	b = bytes.TrimLeft(b, " \t")
	return name, value, b, len(b) == 0 || b[0] == ';' || b[0] == ','
}

// skipCommas skips what separates elements of a list; empty ones are none (RFC
// 9110 section 5.6.1.2).
func skipCommas(b []byte) []byte { return bytes.TrimLeft(b, ", \t") }

// parseNode reads an address with or without brackets and port. It returns the
// zero Addr if that is none: "unknown", a hidden name, or garbage.
func parseNode(b []byte) netip.Addr {
	switch colon := bytes.IndexByte(b, ':'); {
	case len(b) > 0 && b[0] == '[':
		end := bytes.IndexByte(b, ']')
		if end < 0 || end+1 < len(b) && !isPort(b[end+1:]) {
			return netip.Addr{}
		}
		b = b[1:end]
		if bytes.IndexByte(b, ':') < 0 {
			return netip.Addr{}
		}
	case colon >= 0 && bytes.IndexByte(b[colon+1:], ':') < 0:
		if !isPort(b[colon:]) {
			return netip.Addr{}
		}
		b = b[:colon]
	}
	if len(b) == 0 || len(b) > maxAddress {
		return netip.Addr{}
	}
	// ParseAddr keeps nothing of its argument but in its error, which ends here:
	// so the bytes may be looked at as a string, and nothing is allocated.
	a, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	if err != nil || a.Zone() != "" {
		return netip.Addr{}
	}
	return a.Unmap()
}

// isPort reports whether b is a colon and a port, or a hidden one (RFC 7239
// section 6: node-port).
func isPort(b []byte) bool { return len(b) > 1 && len(b) <= 33 && b[0] == ':' && http1.IsToken(b[1:]) }

// effective returns the host and the protocol that the client asked for, and the
// port if somebody has told it: what the trusted peer says, else what we see.
func (x *exchange) effective() (host, proto, port []byte) {
	r := &x.req
	host, proto = r.Host, x.from.proto
	switch h := &x.origin.hop; {
	case !x.origin.trusted:
	case x.origin.forwarded:
		host, proto = either(h.host, host), either(h.proto, proto)
	default:
		host = either(last(r, http1.NameXForwardedHost), either(h.host, host))
		proto = either(last(r, http1.NameXForwardedProto), either(h.proto, proto))
		port = last(r, http1.NameXForwardedPort)
	}
	return host, proto, port
}

func either(a, b []byte) []byte {
	if len(a) > 0 {
		return a
	}
	return b
}

// last returns the value of the last line called n: of several the peer's own.
func last(r *http1.Request, n http1.Name) (v []byte) {
	for i := r.Find(n, 0); i >= 0; i = r.Find(n, i+1) {
		v = r.Value(i)
	}
	return v
}

// writeOrigin writes the lines about where the request came from.
func (x *exchange) writeOrigin() {
	o := &x.msg
	host, proto, port := x.effective()
	if x.origin.trusted {
		x.writeChain()
		o.Field("X-Forwarded-Proto", proto)
	} else {
		o.Raw(x.from.lines)
		o.Raw(x.from.cert) // a trusted proxy's own certificate is not its client's
	}
	if len(host) > 0 {
		o.Field("X-Forwarded-Host", host)
	}
	writePort(o, port, host, proto)
	x.writeForwarded(host, proto)
}

// writePort writes X-Forwarded-Port: what was told, else the port in host, else
// that of proto. There is none without a host, or with a protocol unknown to us.
func writePort(o *http1.Out, told, host, proto []byte) {
	colon := bytes.LastIndexByte(host, ':')
	switch {
	case len(told) > 0:
		o.Field("X-Forwarded-Port", told)
	case colon > bytes.LastIndexByte(host, ']') && colon+1 < len(host):
		o.Field("X-Forwarded-Port", host[colon+1:])
	case len(host) == 0:
	case http1.EqualFold(proto, "https"):
		o.RawString("X-Forwarded-Port: 443\r\n")
	case http1.EqualFold(proto, "http"):
		o.RawString("X-Forwarded-Port: 80\r\n")
	}
}

// writeChain writes X-Forwarded-For.
func (x *exchange) writeChain() {
	o, r := &x.msg, &x.req
	o.RawString("X-Forwarded-For: ")
	switch {
	case x.origin.forwarded:
		for i := r.Find(http1.NameForwarded, 0); i >= 0; i = r.Find(http1.NameForwarded, i+1) {
			for rest := r.Value(i); len(rest) > 0; {
				var h hop
				h, rest, _ = nextHop(rest) // locate has read it
				writeAddress(o, h.addr)
				o.RawString(", ")
			}
		}
	default:
		for i := r.Find(http1.NameXForwardedFor, 0); i >= 0; i = r.Find(http1.NameXForwardedFor, i+1) {
			if v := r.Value(i); len(v) > 0 {
				o.Raw(v)
				o.RawString(", ")
			}
		}
	}
	o.Raw(x.from.address)
	o.RawString("\r\n")
}

// writeForwarded writes Forwarded. host and proto are what the client asked for.
func (x *exchange) writeForwarded(host, proto []byte) {
	o, r := &x.msg, &x.req
	o.RawString("Forwarded: ")
	listed := false
	switch {
	case !x.origin.trusted:
	case x.origin.both:
		for i := r.Find(http1.NameForwarded, 0); i >= 0; i = r.Find(http1.NameForwarded, i+1) {
			if v := r.Value(i); len(v) > 0 {
				o.Raw(v)
				o.RawString(", ")
				listed = true
			}
		}
	default:
		n := 0
		for i := r.Find(http1.NameXForwardedFor, 0); i >= 0; i = r.Find(http1.NameXForwardedFor, i+1) {
			for item, rest := http1.NextItem(r.Value(i)); item != nil; item, rest = http1.NextItem(rest) {
				writeFor(o, parseNode(item))
				if n == x.origin.at {
					writeAsked(o, host, proto)
					listed = true
				}
				o.RawString(", ")
				n++
			}
		}
	}
	if listed {
		host, proto = r.Host, x.from.proto // what we have seen, after what they have
	}
	o.Raw(x.from.element)
	writeAsked(o, host, proto)
	o.RawString("\r\n")
}

// writeFor writes the parameter for with a node of RFC 7239 section 6.
func writeFor(o *http1.Out, a netip.Addr) {
	if !a.Is6() {
		o.RawString("for=")
		writeAddress(o, a)
		return
	}
	o.RawString(`for="[`)
	writeAddress(o, a)
	o.RawString(`]"`)
}

// writeAddress writes an address as X-Forwarded-For has it.
func writeAddress(o *http1.Out, a netip.Addr) {
	if !a.IsValid() {
		o.RawString("unknown")
		return
	}
	var text [maxAddress]byte
	o.Raw(a.AppendTo(text[:0]))
}

// writeAsked writes the parameters host and proto.
func writeAsked(o *http1.Out, host, proto []byte) {
	if len(host) > 0 {
		o.RawString(";host=")
		writeQuoted(o, host)
	}
	if len(proto) > 0 {
		o.RawString(";proto=")
		writeQuoted(o, proto)
	}
}

// writeQuoted writes v as a token, or as a quoted string if it is none.
func writeQuoted(o *http1.Out, v []byte) {
	if http1.IsToken(v) {
		o.Raw(v)
		return
	}
	o.RawString("\"")
	for len(v) > 0 {
		i := bytes.IndexAny(v, "\"\\")
		if i < 0 {
			i = len(v)
		}
		o.Raw(v[:i])
		if i < len(v) {
			o.RawString("\\")
			o.Raw(v[i : i+1])
			i++
		}
		v = v[i:]
	}
	o.RawString("\"")
}
