package oracle

import (
	"bytes"
	"cmp"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A deviation excuses one kind of difference. Its predicate is as narrow as what
// one step shows allows.
type deviation struct {
	name    string   // what the report calls it
	row     string   // first cell of its row in docs/deviations.md
	classes []string // of differences, or their beginnings up to a blank
	parts   bool     // the members are in different states afterwards
	excuses func(x *exchange, d difference) bool
}

// excuse returns the deviation that d is, or nil.
func excuse(x *exchange, d difference) *deviation {
	for i := range deviations {
		v := &deviations[i]
		for _, class := range v.classes {
			if (d.class == class || strings.HasPrefix(d.class, class+" ")) && v.excuses(x, d) {
				return v
			}
		}
	}
	return nil
}

// outcome is what differs if a request is served by another member or by none.
var outcome = []string{"attempts", "served by", "status", "broken reply"}

var deviations = []deviation{{
	name:    "an ambiguous path is refused",
	row:     "a path that servers read in different ways",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		path, _, _ := strings.Cut(strings.ToLower(x.request.target), "?")
		dots := strings.Contains(path, ";") && (strings.Contains(path, "..") || strings.Contains(path, "%2e"))
		if dots || strings.Contains(path, "%2f") && x.ours.reply.status == 404 && len(x.ours.attempts) == 0 {
			return true
		}
		odd := strings.Contains(path, "%2f") || strings.Contains(path, "%3b") || strings.Contains(path, "%5c") || strings.Contains(path, `\`)
		return x.ours.reply.status == 400 && len(x.ours.attempts) == 0 && odd
	},
}, {
	name:    "nothing is served but by members",
	row:     "what no rule maps, or an exclusion takes out",
	classes: []string{"status"},
	excuses: func(x *exchange, d difference) bool {
		local := slices.Contains([]string{"200", "403", "404", "405", "501"}, d.jk) // httpd's own, of OPTIONS, POST and so on
		return local && d.ours == "404" && len(x.jk.attempts)+len(x.ours.attempts) == 0
	},
}, {
	name:    "a range is the member's business",
	row:     "`Range`",
	classes: []string{"status"},
	excuses: func(x *exchange, d difference) bool {
		return x.has("Range") && d.jk == "206" && d.ours == "200"
	},
}, {
	name:    "a NUL in a path is refused",
	row:     "`%00` in a path",
	classes: outcome,
	excuses: func(x *exchange, d difference) bool {
		dots := strings.Contains(x.request.target, "%2e") || strings.Contains(x.request.target, "/..") // that take it out again, for httpd
		return strings.Contains(x.request.target, "%00") && x.ours.reply.status == 400 && (dots || d.class == "status" && d.jk == "404")
	},
}, {
	name:    "a path goes on as it came",
	row:     "the forwarded path",
	classes: []string{"request uri"},
	excuses: func(x *exchange, d difference) bool {
		path, _, _ := strings.Cut(x.request.target, "?")
		return d.ours == path && normal(path) == normal(d.jk)
	},
}, {
	name:    "a rule without a / at its start counts",
	row:     "a rule without a `/` at its start",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		path, _, _ := strings.Cut(x.request.target, "?")
		path = parameters.ReplaceAllString(normal(path), "")
		for _, rule := range x.rules {
			pattern, _, _ := strings.Cut(strings.TrimLeft(rule, "-!"), "=")
			if pattern = strings.TrimSpace(pattern); strings.HasPrefix(pattern, "/") {
				continue
			}
			for _, side := range sides("/" + pattern) {
				if matches(side, path) {
					return true
				}
			}
		}
		return false
	},
}, {
	name:    "a member is told its own route",
	row:     "the route that a member is told",
	classes: []string{"request attribute route"},
	excuses: func(x *exchange, d difference) bool {
		return slices.Contains(x.routes, d.ours) && (!printable.MatchString(d.jk) || x.failing() > 0 || len(x.jk.attempts) > 1)
	},
}, {
	name:    "cookies are joined with a semicolon",
	row:     "several `Cookie` lines",
	classes: []string{"request header cookie"},
	excuses: func(_ *exchange, d difference) bool { return strings.ReplaceAll(d.jk, ", ", "; ") == d.ours },
}, {
	name:    "repeated fields are not joined",
	row:     "a field that comes several times",
	classes: []string{"request header"},
	excuses: func(_ *exchange, d difference) bool { return strings.ReplaceAll(d.jk, ", ", " | ") == d.ours },
}, {
	name:    "fields of the client's connection stay here",
	row:     "hop-by-hop lines, `Expect` and trailers to an `ajp13` member",
	classes: []string{"request header connection", "request header transfer-encoding"},
	excuses: func(_ *exchange, d difference) bool { return d.ours == "" },
}, {
	name:    "fields by their codes",
	row:     "`Accept-Language`, `Accept-Charset` and `Accept-Encoding` in AJP13",
	classes: []string{"request header order"},
	excuses: func(_ *exchange, d difference) bool {
		return strings.NewReplacer("Accept-Language", "accept-language", "Accept-Encoding", "accept-encoding").Replace(d.jk) == d.ours
	},
}, {
	name:    "nobody is believed where a request comes from",
	row:     "where a request comes from",
	classes: []string{"request header x-forwarded-for"},
	excuses: func(_ *exchange, d difference) bool { return d.jk == "192.0.2.1" && d.ours == "" },
}, {
	name:    "a request has an id",
	row:     "a request's id",
	classes: []string{"request header x-request-id"},
	excuses: func(_ *exchange, d difference) bool { return d.jk == "" && requestID.MatchString(d.ours) },
}, {
	name:    "no reply is held back to be counted",
	row:     "the `Content-Length` of a reply",
	classes: []string{"reply header Content-Length"},
	excuses: func(x *exchange, d difference) bool {
		if x.request.method == "HEAD" && d.jk == "" && d.ours == "0" {
			return true
		}
		return d.ours == "" && d.jk == strconv.Itoa(len(x.ours.reply.body)) && !x.acts[x.ours.reply.by()].length
	},
}, {
	name:    "a reply without a body stays as it is",
	row:     "a reply of 400 or more without a body",
	classes: []string{"served by"},
	excuses: func(x *exchange, d difference) bool {
		do := x.acts[d.ours]
		return d.jk == "" && do.code() >= 400 && x.jk.reply.status == do.code() && (do.size == 0 || x.request.method == "HEAD")
	},
}, {
	name:    "a reply that broke off is not sent again",
	row:     "a reply that breaks off",
	classes: append([]string{"reply body", "reply header"}, outcome...),
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		last := x.last()
		return last != "" && x.acts[last].breaksOff() && x.ours.reply.status == x.acts[last].code()
	},
}, {
	name:    "one more try after a drop",
	row:     "a connection that is dropped before the reply, by a member that lives",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, d difference) bool {
		// The same members one after the other, but not as often; then who answers
		// may depend on how often.
		jk, ours := slices.Compact(x.jk.order()), slices.Compact(x.ours.order())
		drops := slices.ContainsFunc(jk, func(name string) bool { return slices.Contains(drops, x.acts[name].kind) })
		return slices.Equal(jk, ours) && drops && len(x.jk.attempts) != len(x.ours.attempts) && (d.class == "attempts" || x.counted(jk))
	},
}, {
	name:    "what may not be done twice is not sent again",
	row:     "sending again after a member got the request",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		name := x.stopped()
		if x.acts[name].kind == dropped && len(x.request.body) > 0 {
			return true // while the body was sent: mod_jk takes that for not sent
		}
		return name != "" && x.value(name, "recovery_options") == "" && !slices.Contains(idempotent, x.request.method)
	},
}, {
	name:    "nonsense is not asked for again",
	row:     "an answer over AJP13 that breaks the protocol",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		return x.ours.reply.status == 502 && slices.Contains(nonsense, x.acts[x.last()].kind)
	},
}, {
	name:    "one round, if a member has run the request",
	row:     "a second round over the members",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		jk, ours := slices.Compact(x.jk.order()), slices.Compact(x.ours.order())
		return len(ours) > 0 && len(jk) > len(ours) && slices.Equal(jk[:len(ours)], ours) &&
			!slices.ContainsFunc(jk, func(name string) bool { return !slices.Contains(ours, name) })
	},
}, {
	name:    "a body that was kept is sent again",
	row:     "bodies that can be sent again",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		jk, ours := x.jk.order(), x.ours.order()
		return x.kept() && len(ours) > len(jk) && len(jk) > 0 && ours[0] == jk[0]
	},
}, {
	name:    "a body goes on as it comes",
	row:     "packets of a body over AJP13",
	classes: []string{"request body"}, // of members that do not read it all, too
	excuses: func(x *exchange, d difference) bool {
		if d.class == "request body" && !x.partial() {
			return false
		}
		return x.request.chunked && !slices.ContainsFunc(x.ours.attempts, func(a *attempt) bool {
			return slices.ContainsFunc(a.packets, func(n int) bool { return n > x.packets[a.member]-6 })
		})
	},
}, {
	name:    "what is refused with 413 does not count",
	row:     "a request with a head too long for `max_packet_size` (413)",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool { return x.tooLong || x.has("X-Long-0") },
}, {
	name:    "the status says what happened last",
	row:     "the status when all have failed",
	classes: []string{"status"},
	parts:   true,
	excuses: func(x *exchange, d difference) bool {
		return d.jk == "503" && (d.ours == "502" || d.ours == "504") && x.failing() > 0
	},
}, {
	name:    "a reset is no time-out",
	row:     "a reset while a reply is awaited, with `reply_timeout`",
	classes: []string{"status"},
	parts:   true, // for mod_jk's max_reply_timeouts
	excuses: func(x *exchange, d difference) bool {
		return d.jk == "504" && d.ours == "502" && x.acting(drops...)
	},
}, {
	name:    "a connection ends after a late flush",
	row:     "a packet after `END_RESPONSE`",
	classes: []string{"request on a new connection"},
	excuses: func(x *exchange, _ difference) bool {
		return slices.ContainsFunc(x.steps[:x.index], func(s step) bool {
			return slices.ContainsFunc(x.members, func(name string) bool { return s.acts[name].kind == lateFlush })
		})
	},
}, {
	name:    "a connection that was idle is asked first",
	row:     "a kept connection that was idle for more than 1 s",
	classes: []string{"request after CPING"},
	excuses: func(_ *exchange, d difference) bool { return d.jk == "false (kept)" && d.ours == "true (kept)" },
}, {
	name:    "a member that dropped a connection is asked whether it lives",
	row:     "a connection that is dropped before the reply, by a member that lives",
	classes: []string{"request after CPING"},
	excuses: func(x *exchange, d difference) bool {
		return d.jk == "false (new)" && d.ours == "true (new)" &&
			slices.ContainsFunc(x.steps[:x.index], func(s step) bool { return (&exchange{step: s}).acting(drops...) })
	},
}, {
	name:    "a connection on which a member said that it lives is there already",
	row:     "a connection that is dropped before the reply, by a member that lives",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		return slices.Contains(pingings, x.acts[x.last()].kind) &&
			slices.ContainsFunc(x.steps[:x.index], func(s step) bool { return slices.Contains(drops, s.acts[x.last()].kind) })
	},
}, {
	name:    "no route cookie without sessions",
	row:     "`set_session_cookie` where no session is looked for",
	classes: []string{"reply header Set-Cookie"},
	excuses: func(x *exchange, d difference) bool {
		own, others := routeCookies(d.jk)
		sticky := x.value("lb", "sticky_session") + x.value("lb2", "sticky_session") + strings.Join(x.rules, " ")
		without := strings.ContainsAny(sticky, "0F") || strings.Contains(sticky, ";sticky_ignore=1")
		return without && len(own) > 0 && strings.Join(others, " | ") == d.ours
	},
}, {
	name:    "one secret for a server in two balancers",
	row:     "a worker in several balancers, or in one and listed",
	classes: []string{"request attribute secret"},
	excuses: func(x *exchange, d difference) bool {
		both := x.value("lb", "secret") + x.value("lb2", "secret") // the value is the same
		return x.value("lb2", "type") != "" && both != "" && (d.jk == "" && d.ours == "lbsecret" || d.jk == "lbsecret" && d.ours == "")
	},
}, {
	name:    "one pool for a server in two balancers",
	row:     "a worker in several balancers, or in one and listed",
	classes: []string{"request on a new connection"},
	excuses: func(x *exchange, _ difference) bool { return x.value("lb2", "type") != "" },
}, {
	name:    "a request's id is traffic",
	row:     "load values in `method=T`",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		return strings.ContainsAny(x.value("lb", "method")[:min(1, len(x.value("lb", "method")))], "T1") && x.failing() == 0
	},
}, {
	name:    "one route cookie, of the member that served",
	row:     "`set_session_cookie`",
	classes: []string{"reply header Set-Cookie"},
	excuses: func(x *exchange, d difference) bool {
		jk, jkOthers := routeCookies(d.jk)
		ours, oursOthers := routeCookies(d.ours)
		if !slices.Equal(jkOthers, oursOthers) {
			return false
		}
		switch {
		case len(ours) == 1 && len(jk) > 1:
			return ours[0] == jk[len(jk)-1]
		case len(ours) == 1 && len(jk) == 0:
			return !strings.ContainsAny(x.value("lb", "balance_workers"), " ,") || !strings.ContainsAny(x.value("lb2", "balance_workers"), " ,")
		case len(ours) == 0 && len(jk) > 0:
			name, _, _ := strings.Cut(jk[0], "=")
			return slices.ContainsFunc(jkOthers, func(c string) bool { return strings.HasPrefix(c, name+"=") })
		}
		return false
	},
}, {
	name:    "a rule's own session cookie",
	row:     "`;session_cookie=` and `;session_cookie_path=` of a rule with `set_session_cookie`",
	classes: []string{"reply header Set-Cookie"},
	excuses: func(x *exchange, d difference) bool {
		jk, jkOthers := routeCookies(d.jk)
		ours, oursOthers := routeCookies(d.ours)
		if !slices.Equal(jkOthers, oursOthers) || len(jk) == 0 {
			return false
		}
		_, theirs, _ := strings.Cut(jk[len(jk)-1], "=")
		for _, rule := range x.rules {
			_, name, found := strings.Cut(rule, ";session_cookie=")
			name, _, _ = strings.Cut(name, ";")
			switch {
			case !found:
			case len(ours) == 1 && ours[0] == name+"="+theirs:
				return true
			case len(ours) == 0 && slices.ContainsFunc(oursOthers, func(c string) bool { return strings.HasPrefix(c, name+"=") }):
				return true
			}
		}
		return false
	},
}, {
	name:    "socket_timeout is a time-out",
	row:     "`socket_timeout` while a reply is awaited",
	classes: []string{"status"},
	excuses: func(x *exchange, d difference) bool {
		return d.jk == "502" && d.ours == "504" && x.acting(silences...) && x.value(x.last(), "socket_timeout") != ""
	},
}, {
	name:    "a dead id in the URL",
	row:     "a dead id in the URL beside a good cookie",
	classes: append([]string{"reply header Set-Cookie"}, outcome...),
	parts:   true,
	excuses: func(x *exchange, d difference) bool {
		path, _, _ := strings.Cut(x.request.target, "?")
		if d.class == "reply header Set-Cookie" && d.ours != "" {
			return false
		}
		return strings.Contains(path, x.path+"=") && slices.ContainsFunc(x.ours.order(), x.inCookie)
	},
}, {
	name:    "a second session counts in each attempt",
	row:     "several sessions in one request",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool {
		several := slices.ContainsFunc(x.request.fields, func(f field) bool { return f.name == "Cookie" && strings.Count(f.value, x.cookie+"=") > 1 })
		return several && x.failing() > 0 && slices.ContainsFunc(x.ours.order(), x.inCookie)
	},
}, {
	name:    "of two equal rules, the exact one",
	row:     "two rules with as many slashes and bytes",
	classes: outcome,
	parts:   true,
	excuses: func(x *exchange, _ difference) bool { return x.tie() },
}, {
	name:    "a connection with a reply that nobody wants is not kept",
	row:     "the connection after a reply that the client does not get",
	classes: []string{"request on a new connection"},
	excuses: func(x *exchange, _ difference) bool {
		unwanted := strings.Contains(strings.Join(x.rules, " "), ";use_server_errors=") || strings.Contains(strings.Join(x.rules, " "), ";fail_on_status=") ||
			slices.ContainsFunc(x.members, func(name string) bool { return x.value(name, "fail_on_status") != "" })
		return unwanted && slices.ContainsFunc(x.steps[:x.index], func(s step) bool {
			return slices.ContainsFunc(x.members, func(name string) bool { return s.acts[name].code() >= 400 })
		})
	},
}}

var (
	parameters = regexp.MustCompile(`;[^/]*`)
	requestID  = regexp.MustCompile(`^[0-9a-f]{32}$`)
	printable  = regexp.MustCompile(`^[\w.-]+$`)
)

// idempotent are the methods that may be sent again without being asked.
var idempotent = strings.Fields("GET HEAD PUT DELETE OPTIONS TRACE")

// drops are the failures before a reply that are the end of a connection.
var drops = []kind{dropped, hangupHead, resetHead, hangupBody}

// acting reports whether a member acts in one of these ways.
func (x *exchange) acting(kinds ...kind) bool {
	for _, do := range x.acts {
		if slices.Contains(kinds, do.kind) {
			return true
		}
	}
	return false
}

// failing counts the members that fail.
func (x *exchange) failing() int {
	n := 0
	for _, do := range x.acts {
		if do.kind != "" && do.kind != answers {
			n++
		}
	}
	return n
}

// counted reports whether one of these members fails so many times only.
func (x *exchange) counted(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return x.acts[name].times > 0 })
}

// last is the member that got the request last from us, or "".
func (x *exchange) last() string {
	if len(x.ours.attempts) == 0 {
		return ""
	}
	return x.ours.attempts[len(x.ours.attempts)-1].member
}

// stopped is the member after whose failure we sent the request to nobody else,
// and mod_jk did; or "".
func (x *exchange) stopped() string {
	jk, ours := slices.Compact(x.jk.order()), slices.Compact(x.ours.order())
	if len(jk) <= len(ours) || !slices.Equal(jk[:len(ours)], ours) || x.ours.reply.by() != "" {
		return ""
	}
	if len(ours) > 0 {
		return ours[len(ours)-1]
	}
	for name, do := range x.acts { // who got it is not seen
		if do.kind == dropped {
			return name
		}
	}
	return ""
}

// breaksOff reports whether the client may have got part of a reply that then ends.
func (a act) breaksOff() bool {
	return slices.Contains([]kind{hangupReply, hangupChunk, hangupEnd, muteReply, muteEnd, twoHeads, lyingChunk}, a.kind)
}

// partial reports whether each member that got another body than from mod_jk has
// read the beginning only, and that was the same.
func (x *exchange) partial() bool {
	for _, name := range x.members {
		a, b := first(x.jk.attempts, name), first(x.ours.attempts, name)
		if a == nil || b == nil || bytes.Equal(a.body, b.body) {
			continue
		}
		do := x.acts[name]
		if !do.early && do.kind != hangupBody || !bytes.HasPrefix(a.body, b.body) && !bytes.HasPrefix(b.body, a.body) {
			return false
		}
	}
	return true
}

// routeCookies takes the cookies that a front has set itself from all of a reply.
func routeCookies(all string) (own, others []string) {
	for c := range strings.SplitSeq(all, " | ") {
		switch {
		case strings.Contains(c, "=.") && strings.HasSuffix(c, ";HttpOnly"):
			own = append(own, c)
		case c != "":
			others = append(others, c)
		}
	}
	return own, others
}

// inCookie reports whether a cookie of the request names the route of a member.
func (x *exchange) inCookie(member string) bool {
	route := cmp.Or(x.value(member, "route"), member)
	domain := x.value(member, "domain")
	if d, _, found := strings.Cut(route, "."); domain == "" && found {
		domain = d
	}
	return slices.ContainsFunc(x.request.fields, func(f field) bool {
		return f.name == "Cookie" && (strings.Contains(f.value, "."+route) || domain != "" && strings.Contains(f.value, "."+domain))
	})
}

// byCookie reports whether a member got the request because of a cookie, while mod_jk
// saw an id in the path alone, which does not name it, and so chose by value. That
// may be the same member, but the next choice by value begins behind it there only.
func (x *exchange) byCookie() bool {
	path, _, _ := strings.Cut(x.request.target, "?")
	_, id, found := strings.Cut(path, x.path+"=")
	id, _, _ = strings.Cut(id, "/")
	id, _, _ = strings.Cut(id, ";")
	_, route, _ := strings.Cut(id, ".")
	return found && slices.ContainsFunc(x.ours.order(), func(member string) bool {
		return x.inCookie(member) && route != cmp.Or(x.value(member, "route"), member)
	})
}

// kept reports whether we keep the body for another member where mod_jk may not.
func (x *exchange) kept() bool {
	return len(x.request.body) > smallestPacket-6 || x.request.chunked
}

// triedUnseen reports whether we may have tried another member after one that had
// got a body that is kept: one that fails before it gets a request shows nowhere, but
// is in error for the next step.
func (x *exchange) triedUnseen() bool {
	return x.kept() && x.last() != "" && x.ours.reply.by() == "" && (x.acting(pingings...) || x.acting(refused, dropped))
}

// tie reports whether mod_jk's order does not say which of two rules is first.
func (x *exchange) tie() bool {
	path, _, _ := strings.Cut(x.request.target, "?")
	path = parameters.ReplaceAllString(normal(path), "")
	type rank struct{ slashes, bytes int }
	best, n := rank{}, 0
	for _, rule := range x.rules {
		pattern, _, _ := strings.Cut(rule, "=")
		if pattern = strings.TrimSpace(pattern); !strings.HasPrefix(pattern, "/") {
			continue
		}
		for _, side := range sides(pattern) {
			switch r := (rank{strings.Count(side, "/"), len(side)}); {
			case !matches(side, path):
			case r == best:
				n++
			case r.slashes > best.slashes || r.slashes == best.slashes && r.bytes > best.bytes:
				best, n = r, 1
			}
		}
	}
	return n > 1
}

// uncertain reports whether members may be in different states after this step
// although nothing else differed: mod_jk takes some nonsense for the death of a
// member, and a reset for a reply time-out, of which it tolerates a number; and two
// deviations need not show in the step itself, a dead id in the URL and a body that
// was kept.
func (x *exchange) uncertain() bool {
	return x.byCookie() || x.triedUnseen() || slices.ContainsFunc(x.ours.order(), func(name string) bool {
		tolerant := x.value("lb", "max_reply_timeouts")+x.value("lb2", "max_reply_timeouts") != ""
		return slices.Contains(nonsense, x.acts[name].kind) || tolerant && slices.Contains(drops, x.acts[name].kind)
	})
}

// normal is a path as httpd has it when mod_jk gets it: decoded, and without empty
// segments and those of dots.
func normal(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	var segments []string
	all := strings.Split(path, "/")
	for i, segment := range all {
		last := i == len(all)-1
		switch segment {
		case "", ".":
			if last {
				segments = append(segments, "")
			}
		case "..":
			segments = segments[:max(len(segments)-1, 0)]
			if last {
				segments = append(segments, "")
			}
		default:
			segments = append(segments, segment)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// matches reports whether a pattern with * and ? is about a path.
func matches(pattern, path string) bool {
	r := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("^(?s:" + r + ")$").MatchString(path)
}

// unseen are the rows of docs/deviations.md that cannot show here, and why.
var unseen = map[string]string{
	"a member without a free connection, or at its `busy_limit`": "one request at a time",
	"`type`":                        "all members speak AJP13",
	"a wrong value in":              "of members that speak HTTP",
	"TCP connect":                   "loopback refuses at once",
	"silence while":                 "silent members answer other connections",
	"`reply_timeout`":               "a time, not an outcome",
	"`retries` of a member (c)":     "with --compat as in mod_jk",
	"`lb_retries`":                  "with --compat as in mod_jk",
	"`fail_on_status` (c":           "with --compat as in mod_jk",
	"`host=[::1]`":                  "members have IPv4 addresses",
	"`host=name:8010`":              "members have a port of their own",
	"host names":                    "members have addresses",
	"`connection_acquire_timeout`":  "one request at a time",
	"a refused connection while":    "one request at a time",
	"without a map":                 "there is one always",
	"`;session_path=;sid`":          "no request has another name that ends in it",
	"`workers.properties`":          "nothing is loaded again",
	"`uriworkermap.properties` has": "nothing is loaded again",
	"a member in error (c)":         "with --compat as in mod_jk; maintenance is an hour away",
	"a member whose trial":          "one request at a time",
	"rules for one host":            "the files are a real mod_jk's",
	"a disabled member":             "drains until its last session ends, which none of these does",
	"slow start":                    "off",
	"all members in error":          "the same, unless --fast-fail is given",
	"`method`":                      "the files are a real mod_jk's",
	"load values in `method=B`":     "nothing is reset",
	"`sticky_session_force`, `red":  "sessions of our own nodes",
	"`recovery_options` with 1, 8":  "the files have not all three",
	"a plain session id with":       "no id has a route behind its second dot, an escape, a list or another beside it in the path",
	"a cookie after bare":           "no client sends it, nor does this one",
	"`Upgrade`":                     "no request has it",
	"a status below 200":            "members send none",
	"the end of an AJP13":           "seen as a drop",
	"`Connection`, what it names":   "members send none",
	"`ssl_session`":                 "clients come without TLS",
	"`Last-Modified` after":         "members send none",
	"remote port, over":             "nobody is trusted",
	"several equal":                 "the client sends one",
	"query strings in the access":   "nobody reads a log",
	"field names with underscores":  "the client sends none",
}

// TestRows checks that each row of docs/deviations.md is known here, and each
// deviation there.
func TestRows(t *testing.T) {
	text, err := os.ReadFile("../../docs/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "\n## ") // what follows is about pages
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(table, -1) {
		if m[1] != "what" && m[1] != "---" {
			rows = append(rows, m[1])
		}
	}
	for _, v := range deviations {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, v.row) }) {
			t.Errorf("docs/deviations.md has no row %q, for %q", v.row, v.name)
		}
	}
	for row := range unseen {
		if !slices.ContainsFunc(rows, func(r string) bool { return strings.HasPrefix(r, row) }) {
			t.Errorf("docs/deviations.md has no row %q", row)
		}
	}
	for _, row := range rows {
		known := slices.ContainsFunc(deviations, func(v deviation) bool { return strings.HasPrefix(row, v.row) })
		for begin := range unseen {
			known = known || strings.HasPrefix(row, begin)
		}
		if !known {
			t.Errorf("row %q of docs/deviations.md is neither excused here nor in the list of what cannot show", row)
		}
	}
}
