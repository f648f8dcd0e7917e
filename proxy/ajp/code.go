package ajp

// methodCode returns the code of a method, or 0.
func methodCode(m []byte) byte {
	switch string(m) {
	case "OPTIONS":
		return 1
	case "GET":
		return 2
	case "HEAD":
		return 3
	case "POST":
		return 4
	case "PUT":
		return 5
	case "DELETE":
		return 6
	case "TRACE":
		return 7
	case "PROPFIND":
		return 8
	case "PROPPATCH":
		return 9
	case "MKCOL":
		return 10
	case "COPY":
		return 11
	case "MOVE":
		return 12
	case "LOCK":
		return 13
	case "UNLOCK":
		return 14
	case "ACL":
		return 15
	case "REPORT":
		return 16
	case "VERSION-CONTROL":
		return 17
	case "CHECKIN":
		return 18
	case "CHECKOUT":
		return 19
	case "UNCHECKOUT":
		return 20
	case "SEARCH":
		return 21
	case "MKWORKSPACE":
		return 22
	case "UPDATE":
		return 23
	case "LABEL":
		return 24
	case "MERGE":
		return 25
	case "BASELINE-CONTROL":
		return 26
	case "MKACTIVITY":
		return 27
	}
	return 0
}

// headerCode returns the second byte of the code of a request's header, or 0. The
// length decides first, so that most names cost one comparison or none.
func headerCode(name []byte) byte {
	switch len(name) {
	case 4:
		return pick(name, "host", 0x0B)
	case 6:
		switch name[0] | 0x20 {
		case 'a':
			return pick(name, "accept", 0x01)
		case 'c':
			return pick(name, "cookie", 0x09)
		case 'p':
			return pick(name, "pragma", 0x0C)
		}
	case 7:
		switch name[0] | 0x20 {
		case 'c':
			return pick(name, "cookie2", 0x0A)
		case 'r':
			return pick(name, "referer", 0x0D)
		}
	case 10:
		switch name[0] | 0x20 {
		case 'c':
			return pick(name, "connection", 0x06)
		case 'u':
			return pick(name, "user-agent", 0x0E)
		}
	case 12:
		return pick(name, "content-type", 0x07)
	case 13:
		return pick(name, "authorization", 0x05)
	case 14:
		switch name[0] | 0x20 {
		case 'a':
			return pick(name, "accept-charset", 0x02)
		case 'c':
			return pick(name, "content-length", 0x08)
		}
	case 15:
		if equalFold(name, "accept-encoding") {
			return 0x03
		}
		return pick(name, "accept-language", 0x04)
	}
	return 0
}

func pick(name []byte, lower string, code byte) byte {
	if equalFold(name, lower) {
		return code
	}
	return 0
}

// equalFold reports whether b is lower, ignoring the case of ASCII letters in b.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// replyName returns the name of a reply's header that has a code.
func replyName(code byte) string {
	switch code {
	case 0x01:
		return "Content-Type"
	case 0x02:
		return "Content-Language"
	case 0x03:
		return "Content-Length"
	case 0x04:
		return "Date"
	case 0x05:
		return "Last-Modified"
	case 0x06:
		return "Location"
	case 0x07:
		return "Set-Cookie"
	case 0x08:
		return "Set-Cookie2"
	case 0x09:
		return "Servlet-Engine"
	case 0x0A:
		return "Status"
	case 0x0B:
		return "WWW-Authenticate"
	}
	return ""
}
