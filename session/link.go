package session

import (
	"strings"
)

// rewrite returns link with ";param=value" at the end of its path, before query
// and fragment (SESS-49), in place of any that is there. It returns link as it
// is if that does not surely lead to where the page itself comes from: the
// value is a credential. strip removes the parameter from a path; current is
// the path of the page, to which a link without one leads.
func rewrite(link, param, value, current string, strip func(string) string) string {
	if !ownLink(link) {
		return link
	}
	end := strings.IndexAny(link, "?#")
	if end < 0 {
		end = len(link)
	}
	path, rest := strip(link[:end]), link[end:]
	if path == "" {
		// RFC 3986 5.2.2: an empty path is that of the page. Its last segment
		// says the same in whatever way the page was reached.
		path = strip(current)
		path = "./" + path[strings.LastIndexByte(path, '/')+1:]
	}
	if last := path[strings.LastIndexByte(path, '/')+1:]; last == "." || last == ".." {
		path += "/" // with a parameter it would be a name like any other
	}
	return path + ";" + param + "=" + value + rest
}

// ownLink reports whether link is a relative reference without authority (RFC
// 3986 4.2) for every browser: these also drop white space and control bytes
// and read '\' as '/'.
func ownLink(link string) bool {
	if link == "" || link[0] == '#' || strings.HasPrefix(link, "//") {
		return false
	}
	for i := range len(link) {
		if c := link[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return false
		}
	}
	colon := strings.IndexByte(link, ':')
	return colon < 0 || strings.ContainsAny(link[:colon], "/?#")
}
