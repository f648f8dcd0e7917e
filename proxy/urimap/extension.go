package urimap

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// Extensions are what a rule sets for its requests, behind the worker's name
// (mod_jk.md 5.6). The zero value sets nothing. Those of several rules are never
// merged: the rule that maps a request brings all of its own.
type Extensions struct {
	// ReplyTimeout takes the place of the worker's reply_timeout, if
	// ReplyTimeoutSet: the longest silence of the member while a reply is awaited
	// or under way. Zero: no bound.
	ReplyTimeout    time.Duration
	ReplyTimeoutSet bool

	// StickyIgnore: balance the request as if it had no session.
	StickyIgnore bool

	// Stateless: the request creates no session.
	Stateless bool

	// Active, Disabled and Stopped name workers, not routes, that are members of
	// the balancer, and have that activation for these requests. No name is in
	// two of them.
	Active, Disabled, Stopped []string

	// FailOnStatus takes the place of the worker's whole list unless it is empty.
	// It is tested in order, the first hit decides.
	FailOnStatus []StatusRule

	// UseServerErrors: a status of the member at or above it is answered with an
	// error page of the proxy's. Zero: never.
	UseServerErrors int

	SessionCookie     string // in place of the balancer's session_cookie; "": not set
	SessionPath       string // in place of session_path, with its ';' if it has one; "": not set
	SetSessionCookie  bool   // switches set_session_cookie on; false changes nothing
	SessionCookiePath string // in place of session_cookie_path; "": not set
}

// A StatusRule is one element of `fail_on_status`.
type StatusRule struct {
	Status int  // of the member's reply, which then is a failure
	Soft   bool // written with a '-': the member stays in service
}

// extensionKind says how an extension behaves.
type extensionKind struct {
	known bool
	once  bool // of several on one rule the first counts, else the last
	lb    bool // means something for a balancer only
}

// kindOf returns what is known of an extension.
func kindOf(name string) extensionKind {
	switch name {
	case "reply_timeout", "sticky_ignore", "stateless", "use_server_errors":
		return extensionKind{known: true}
	case "fail_on_status":
		return extensionKind{known: true, once: true}
	case "active", "disabled", "stopped", "session_cookie", "session_path", "session_cookie_path":
		return extensionKind{known: true, once: true, lb: true}
	case "set_session_cookie":
		return extensionKind{known: true, lb: true}
	}
	return extensionKind{}
}

// value reads what stands right of '=': a worker's name and extensions.
func (p *parser) value(r *Rule, value string) {
	parts := strings.Split(value, ";")
	r.Worker = p.trim(r, parts[0])
	given := map[string]bool{}
	for i := 1; i < len(parts); i++ {
		text := p.trim(r, parts[i])
		if text == "" {
			continue
		}
		name, arg, ok := strings.Cut(text, "=")
		kind := kindOf(name)
		switch {
		case !kind.known:
			p.warnRule(r, "unknown extension %s, it is ignored", properties.Quote(text))
			continue
		case !ok:
			p.warnRule(r, "extension %s has no '=', it is ignored", name)
			continue
		}
		if name == "session_path" && arg == "" && i+1 < len(parts) && !isExtension(parts[i+1]) {
			i++ // the ';' is the beginning of the value
			arg = ";" + p.trim(r, parts[i])
		}
		if given[name] && kind.once {
			p.warnRule(r, "extension %s again: the first counts", name)
			continue
		}
		if given[name] {
			p.warnRule(r, "extension %s again: the last counts", name)
		}
		given[name] = true
		p.extension(r, name, arg)
	}
	if r.Exclude && len(given) > 0 {
		p.warnRule(r, "extensions have no effect on an exclusion")
		r.Extensions = Extensions{}
	}
	p.disjoint(r)
}

// trim strips blanks of a part of a value, and warns if there were any.
func (p *parser) trim(r *Rule, part string) string {
	text := strings.Trim(part, properties.Blanks)
	if text != part {
		p.warnRule(r, "blanks around ';' belong to the names beside it in mod_jk; here they are ignored")
	}
	return text
}

// isExtension reports whether a part of a value is an extension of its own.
func isExtension(part string) bool {
	name, _, ok := strings.Cut(strings.Trim(part, properties.Blanks), "=")
	return ok && kindOf(name).known
}

// extension sets one extension of a rule.
func (p *parser) extension(r *Rule, name, arg string) {
	e := &r.Extensions
	switch name {
	case "reply_timeout":
		n := p.integer(r, name, arg)
		e.ReplyTimeoutSet = n >= 0
		e.ReplyTimeout = time.Duration(max(0, n)) * time.Millisecond
		if 0 < n && n < 500 {
			p.warnRule(r, "%s: %d milliseconds, is that meant?", name, n)
		}
	case "sticky_ignore":
		e.StickyIgnore = p.flag(r, name, arg)
	case "stateless":
		e.Stateless = p.flag(r, name, arg)
	case "set_session_cookie":
		e.SetSessionCookie = p.flag(r, name, arg)
	case "use_server_errors":
		e.UseServerErrors = max(0, p.integer(r, name, arg))
	case "fail_on_status":
		e.FailOnStatus = p.statuses(r, name, arg)
	case "active":
		e.Active = p.names(r, name, arg)
	case "disabled":
		e.Disabled = p.names(r, name, arg)
	case "stopped":
		e.Stopped = p.names(r, name, arg)
	case "session_cookie":
		e.SessionCookie = p.word(r, name, arg)
	case "session_path":
		e.SessionPath = p.word(r, name, arg)
	case "session_cookie_path":
		e.SessionCookiePath = p.word(r, name, arg)
	}
}

// atoi reads a number as C's atoi does: properties.Blanks, a sign and digits. It returns what
// stands behind them. Without digits it is zero; beyond 32 bits it is the nearest
// number of 32 bits, where C leaves it open.
func atoi(s string) (n int, rest string) {
	s = strings.TrimLeft(s, properties.Blanks)
	digits := strings.TrimPrefix(s, "-")
	negative := digits != s
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	i := 0
	for ; i < len(digits) && digits[i] >= '0' && digits[i] <= '9'; i++ {
		n = min(n*10+int(digits[i]-'0'), math.MaxInt32+1)
	}
	if negative {
		n = -n
	}
	return max(math.MinInt32, min(n, math.MaxInt32)), digits[i:]
}

// integer reads a number, and warns if it is none.
func (p *parser) integer(r *Rule, name, arg string) int {
	n, rest := atoi(arg)
	if rest != "" || strings.Trim(arg, properties.Blanks+"+-") == "" {
		p.warnRule(r, "%s: %s is not a number; mod_jk makes it %d", name, properties.Quote(arg), n)
	}
	return n
}

// flag reads 0 or 1.
func (p *parser) flag(r *Rule, name, arg string) bool {
	n, _ := atoi(arg)
	if arg != "0" && arg != "1" {
		p.warnRule(r, "%s: %s is neither 0 nor 1; mod_jk makes it %d", name, properties.Quote(arg), n)
	}
	return n != 0
}

// elements splits a list.
func elements(arg string) []string {
	return strings.FieldsFunc(arg, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
}

// statuses reads a list of status codes.
func (p *parser) statuses(r *Rule, name, arg string) []StatusRule {
	var all []StatusRule
	for _, e := range elements(arg) {
		n, rest := atoi(e)
		rule := StatusRule{Status: max(n, -n), Soft: n < 0}
		if rest != "" || rule.Status < 100 || rule.Status > 999 {
			p.warnRule(r, "%s: %s is not a status; mod_jk makes it %d", name, properties.Quote(e), n)
		}
		all = append(all, rule)
	}
	if all == nil {
		p.warnRule(r, "%s: the list is empty, so the worker's counts", name)
	}
	return all
}

// names reads a list of members.
func (p *parser) names(r *Rule, name, arg string) []string {
	all := elements(arg)
	if len(all) == 0 {
		p.warnRule(r, "%s: names nobody", name)
		return nil
	}
	return all
}

// word reads a text.
func (p *parser) word(r *Rule, name, arg string) string {
	if arg == "" {
		p.warnRule(r, "%s: there is nothing behind '=', so the worker's counts", name)
	}
	return arg
}

// disjoint leaves each member in one list only: the lists are applied in the order
// active, disabled, stopped.
func (p *parser) disjoint(r *Rule) {
	e := &r.Extensions
	without := func(list []string, name string, later ...[]string) []string {
		var kept []string
		for i, m := range list {
			again := slices.Contains(list[:i], m)
			for _, l := range later {
				again = again || slices.Contains(l, m)
			}
			if again {
				p.warnRule(r, "%s: member %s is named again; of active, disabled and stopped the last counts", name, properties.Quote(m))
				continue
			}
			kept = append(kept, m)
		}
		return kept
	}
	e.Active = without(e.Active, "active", e.Disabled, e.Stopped)
	e.Disabled = without(e.Disabled, "disabled", e.Stopped)
	e.Stopped = without(e.Stopped, "stopped")
}

// fit warns of extensions that do not suit the worker, and takes back those that
// mod_jk ignores then.
func (p *parser) fit(r *Rule, w *Worker) {
	e := &r.Extensions
	if !w.Balancer {
		for _, f := range e.fields() {
			if f.set && kindOf(f.name).lb {
				p.warnRule(r, "%s: has no effect, because worker %s is no balancer", f.name, properties.Quote(w.Name))
			}
		}
		e.Active, e.Disabled, e.Stopped = nil, nil, nil
		e.SessionCookie, e.SessionPath, e.SetSessionCookie, e.SessionCookiePath = "", "", false, ""
		return
	}
	for _, l := range [][]string{e.Active, e.Disabled, e.Stopped} {
		for _, m := range l {
			if !slices.Contains(w.Members, m) {
				p.warnRule(r, "balancer %s has no member %s (the names of workers count, not their routes)", properties.Quote(w.Name), properties.Quote(m))
			}
		}
	}
}

// FailOnStatusText returns fail_on_status as a file would have it.
func (e *Extensions) FailOnStatusText() string {
	var all []string
	for _, s := range e.FailOnStatus {
		n := s.Status
		if s.Soft {
			n = -n
		}
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// A field is one extension with its value, as it would be written.
type field struct {
	name  string
	value string
	set   bool
}

// fields returns all extensions in a fixed order.
func (e *Extensions) fields() []field {
	list := func(name string, all []string) field {
		return field{name, strings.Join(all, ","), len(all) > 0}
	}
	flag := func(name string, on bool) field { return field{name, "1", on} }
	word := func(name, value string) field { return field{name, value, value != ""} }
	return []field{
		{"reply_timeout", strconv.FormatInt(e.ReplyTimeout.Milliseconds(), 10), e.ReplyTimeoutSet},
		flag("sticky_ignore", e.StickyIgnore),
		flag("stateless", e.Stateless),
		list("active", e.Active),
		list("disabled", e.Disabled),
		list("stopped", e.Stopped),
		word("fail_on_status", e.FailOnStatusText()),
		{"use_server_errors", strconv.Itoa(e.UseServerErrors), e.UseServerErrors > 0},
		word("session_cookie", e.SessionCookie),
		word("session_path", e.SessionPath),
		flag("set_session_cookie", e.SetSessionCookie),
		word("session_cookie_path", e.SessionCookiePath),
	}
}

// String returns the extensions as the file would have them, each with a ';' in
// front.
func (e *Extensions) String() string {
	var b strings.Builder
	for _, f := range e.fields() {
		if f.set {
			b.WriteString(";" + f.name + "=" + f.value)
		}
	}
	return b.String()
}
