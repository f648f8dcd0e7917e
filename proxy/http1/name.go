package http1

import "bytes"

// A Name stands for a field name that the proxy has a rule for, so that a
// policy over lines is a switch instead of string comparisons.
type Name uint8

// The names the parser recognises, in any case of letters.
const (
	NameOther Name = iota
	NameAge
	NameAuthorization
	NameCacheControl
	NameConnection
	NameContentEncoding
	NameContentLength
	NameContentRange
	NameContentType
	NameCookie
	NameDate
	NameExpect
	NameExpires
	NameForwarded
	NameHost
	NameHTTP2Settings
	NameKeepAlive
	NameLocation
	NameMaxForwards
	NameNotExecuted // Understudy-Not-Executed, design D8
	NameOrigin
	NamePragma
	NameProxyAuthenticate
	NameProxyAuthorization
	NameProxyConnection
	NameRange
	NameReferer
	NameServer
	NameSetCookie
	NameTE
	NameTrailer
	NameTransferEncoding
	NameUpgrade
	NameUserAgent
	NameVary
	NameVia
	NameWWWAuthenticate
	NameXForwardedFor
	NameXForwardedHost
	NameXForwardedPort
	NameXForwardedProto
	NameXRealIP
	NameXRequestID
)

// lookup returns the Name of b. The length decides first, so that most names
// cost one comparison or none.
func lookup(b []byte) Name {
	switch len(b) {
	case 2:
		return pick(b, "te", NameTE)
	case 3:
		switch b[0] | 0x20 {
		case 'a':
			return pick(b, "age", NameAge)
		case 'v':
			return pick(b, "via", NameVia)
		}
	case 4:
		switch b[0] | 0x20 {
		case 'h':
			return pick(b, "host", NameHost)
		case 'd':
			return pick(b, "date", NameDate)
		case 'v':
			return pick(b, "vary", NameVary)
		}
	case 5:
		return pick(b, "range", NameRange)
	case 6:
		switch b[0] | 0x20 {
		case 'c':
			return pick(b, "cookie", NameCookie)
		case 'e':
			return pick(b, "expect", NameExpect)
		case 'o':
			return pick(b, "origin", NameOrigin)
		case 'p':
			return pick(b, "pragma", NamePragma)
		case 's':
			return pick(b, "server", NameServer)
		}
	case 7:
		switch b[0] | 0x20 {
		case 'e':
			return pick(b, "expires", NameExpires)
		case 'r':
			return pick(b, "referer", NameReferer)
		case 't':
			return pick(b, "trailer", NameTrailer)
		case 'u':
			return pick(b, "upgrade", NameUpgrade)
		}
	case 8:
		return pick(b, "location", NameLocation)
	case 9:
		switch b[0] | 0x20 {
		case 'f':
			return pick(b, "forwarded", NameForwarded)
		case 'x':
			return pick(b, "x-real-ip", NameXRealIP)
		}
	case 10:
		switch b[0] | 0x20 {
		case 'c':
			return pick(b, "connection", NameConnection)
		case 'k':
			return pick(b, "keep-alive", NameKeepAlive)
		case 's':
			return pick(b, "set-cookie", NameSetCookie)
		case 'u':
			return pick(b, "user-agent", NameUserAgent)
		}
	default:
		return lookupLong(b)
	}
	return NameOther
}

func lookupLong(b []byte) Name {
	switch len(b) {
	case 12:
		switch b[0] | 0x20 {
		case 'c':
			return pick(b, "content-type", NameContentType)
		case 'm':
			return pick(b, "max-forwards", NameMaxForwards)
		case 'x':
			return pick(b, "x-request-id", NameXRequestID)
		}
	case 13:
		switch b[0] | 0x20 {
		case 'a':
			return pick(b, "authorization", NameAuthorization)
		case 'c':
			if EqualFold(b, "cache-control") {
				return NameCacheControl
			}
			return pick(b, "content-range", NameContentRange)
		}
	case 14:
		switch b[0] | 0x20 {
		case 'c':
			return pick(b, "content-length", NameContentLength)
		case 'h':
			return pick(b, "http2-settings", NameHTTP2Settings)
		}
	case 15:
		return pick(b, "x-forwarded-for", NameXForwardedFor)
	case 16:
		switch b[0] | 0x20 {
		case 'c':
			return pick(b, "content-encoding", NameContentEncoding)
		case 'p':
			return pick(b, "proxy-connection", NameProxyConnection)
		case 'w':
			return pick(b, "www-authenticate", NameWWWAuthenticate)
		case 'x':
			if EqualFold(b, "x-forwarded-host") {
				return NameXForwardedHost
			}
			return pick(b, "x-forwarded-port", NameXForwardedPort)
		}
	case 17:
		switch b[0] | 0x20 {
		case 't':
			return pick(b, "transfer-encoding", NameTransferEncoding)
		case 'x':
			return pick(b, "x-forwarded-proto", NameXForwardedProto)
		}
	case 18:
		return pick(b, "proxy-authenticate", NameProxyAuthenticate)
	case 19:
		return pick(b, "proxy-authorization", NameProxyAuthorization)
	case 23:
		return pick(b, "understudy-not-executed", NameNotExecuted)
	}
	return NameOther
}

func pick(b []byte, lower string, n Name) Name {
	if EqualFold(b, lower) {
		return n
	}
	return NameOther
}

// longestName is the length of the longest name that lookup knows.
const longestName = len("Understudy-Not-Executed")

// lookupAlias is lookup of b with dashes for underscores.
func lookupAlias(b []byte) Name {
	if len(b) > longestName || bytes.IndexByte(b, '_') < 0 {
		return NameOther
	}
	var dashed [longestName]byte
	for i, c := range b {
		if dashed[i] = c; c == '_' {
			dashed[i] = '-'
		}
	}
	return lookup(dashed[:len(b)])
}

// HopByHop reports whether a line of this name concerns one connection only and
// is never passed on (RFC 9110 section 7.6.1; HTTP2-Settings by RFC 7540
// section 3.2.1). Trailer and TE are among them: a proxy that passes trailers
// on writes its own.
func (n Name) HopByHop() bool {
	switch n {
	case NameConnection, NameKeepAlive, NameProxyConnection, NameProxyAuthenticate,
		NameProxyAuthorization, NameTE, NameTrailer, NameTransferEncoding, NameUpgrade,
		NameHTTP2Settings:
		return true
	default:
		return false
	}
}

// trailing reports whether a line of this name may stand in a trailer. What
// frames, routes, authenticates or describes the content may not (RFC 9110
// section 6.5.1), and what our own rules read at the head may not either.
func (n Name) trailing() bool { return n == NameOther }
