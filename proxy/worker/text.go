package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the resolved configuration: every directive that the file could
// have set with the value that counts, one a line, always in the same order and
// with units. Secrets are not shown.
func (f *File) String() string {
	var t text
	t.put("worker.list", strings.Join(f.List, " "))
	t.put("worker.maintain", interval(f.Maintain))
	shown := map[string]bool{}
	for _, lb := range f.LBs {
		t.lb(lb)
		for i := range lb.Members {
			t.once(shown, &lb.Members[i], true)
		}
	}
	for _, m := range f.Members {
		t.once(shown, m, false)
	}
	for _, st := range f.Statuses {
		t.status(st)
	}
	return t.String()
}

// text collects lines.
type text struct {
	strings.Builder
	prefix string
}

func (t *text) put(name string, value any) {
	_, _ = fmt.Fprintf(t, "%s%s = %v\n", t.prefix, name, value) // a Builder cannot fail
}

// worker begins the lines of one worker.
func (t *text) worker(name string, typ Type) {
	t.prefix = "\n"
	t.put("worker."+name+".type", typ)
	t.prefix = "worker." + name + "."
}

func (t *text) lb(lb *LB) {
	t.worker(lb.Name, TypeLB)
	names := make([]string, len(lb.Members))
	for i := range lb.Members {
		names[i] = lb.Members[i].Name
	}
	t.put("balance_workers", strings.Join(names, " "))
	t.put("method", lb.Method)
	t.put("sticky_session", lb.Sticky)
	t.put("sticky_session_force", lb.StickyForce)
	t.put("session_cookie", lb.SessionCookie)
	t.put("session_path", lb.SessionPath)
	t.put("set_session_cookie", lb.SetSessionCookie)
	t.put("session_cookie_path", lb.SessionCookiePath)
	t.put("retries", fmt.Sprintf("%d (rounds)", lb.Retries))
	if lb.LBRetriesSet {
		t.put("lb_retries", fmt.Sprintf("%d (members a round)", lb.LBRetries))
	} else {
		t.put("lb_retries", "not set: all members in a round")
	}
	t.put("retry_interval", pause(lb.RetryInterval))
	t.put("recover_time", lb.RecoverTime)
	t.put("error_escalation_time", lb.ErrorEscalationTime)
	t.put("max_reply_timeouts", lb.MaxReplyTimeouts)
	t.mount(lb.Mount)
}

func (t *text) mount(all []Mount) {
	patterns := make([]string, len(all))
	for i, m := range all {
		patterns[i] = m.Pattern
	}
	t.put("mount", list(patterns))
}

// once writes a member unless it was written.
func (t *text) once(shown map[string]bool, m *Member, inLB bool) {
	if shown[m.Name] {
		return
	}
	shown[m.Name] = true
	t.worker(m.Name, m.Type)
	if m.Type == TypeHTTP && strings.Contains(m.Host, ":") {
		t.put("host", "["+m.Host+"]") // so that nobody takes its end for a port (peers.md F07)
	} else {
		t.put("host", m.Host)
	}
	t.put("port", m.Port)
	if inLB {
		t.put("route", m.Route)
		t.put("lbfactor", m.LBFactor)
		t.put("activation", m.Activation)
		t.put("distance", m.Distance)
		t.put("domain", none(m.Domain))
		t.put("redirect", none(m.Redirect))
	}
	t.put("source", none(m.Source))
	t.put("prefer_ipv6", m.PreferIPv6)
	t.put("socket_timeout", limit(m.SocketTimeout))
	t.put("socket_connect_timeout", limit(m.SocketConnectTimeout))
	t.put("socket_keepalive", m.SocketKeepalive)
	t.put("socket_buffer", number(m.SocketBuffer, "the system's"))
	if m.Type != TypeHTTP {
		t.put("max_packet_size", m.MaxPacketSize)
		t.put("connect_timeout", probe(m.ConnectTimeout))
		t.put("secret", hidden(m.Secret))
	}
	if m.Type == TypeAJP14 {
		t.put("secretkey", hidden(m.SecretKey))
	}
	t.put("prepost_timeout", m.prepost())
	t.put("reply_timeout", limit(m.ReplyTimeout))
	t.connections(m)
	t.mount(m.Mount)
}

func (t *text) connections(m *Member) {
	t.put("connection_pool_size", number(m.PoolSize, "no limit"))
	t.put("connection_pool_minsize", m.PoolMinSize)
	t.put("connection_pool_timeout", interval(m.PoolTimeout))
	t.put("connection_acquire_timeout", m.AcquireTimeout)
	t.put("connection_ping_interval", interval(m.PingInterval))
	t.put("retries", fmt.Sprintf("%d (tries)", m.Retries))
	t.put("retry_interval", pause(m.RetryInterval))
	if m.RecoverySet {
		t.put("recovery_options", int(m.RecoveryOptions))
	} else {
		t.put("recovery_options", "not set: what was sent is sent again only if its method is idempotent")
	}
	var rules []string
	for _, r := range m.FailOnStatus {
		if r.Soft {
			r.Status = -r.Status
		}
		rules = append(rules, strconv.Itoa(r.Status))
	}
	t.put("fail_on_status", list(rules))
	t.put("busy_limit", number(m.BusyLimit, "none"))
}

func (t *text) status(st *Status) {
	t.worker(st.Name, TypeStatus)
	t.put("css", none(st.CSS))
	t.put("read_only", st.ReadOnly)
	t.put("user", list(st.User))
	t.put("user_case_insensitive", st.UserCaseInsensitive)
	t.put("good", list(st.Good))
	t.put("bad", list(st.Bad))
	t.put("prefix", st.Prefix)
	t.put("ns", none(st.NS))
	t.put("xmlns", none(st.XMLNS))
	t.put("doctype", none(st.Doctype))
	t.mount(st.Mount)
}

// prepost returns when a connection is probed before a request.
func (m *Member) prepost() string {
	switch {
	case m.PrepostTimeout == 0:
		return "no probe"
	case m.ProbeIdle == 0:
		return fmt.Sprintf("%v, before every request", m.PrepostTimeout)
	}
	return fmt.Sprintf("%v, if the connection was idle for more than %v", m.PrepostTimeout, m.ProbeIdle)
}

func interval(d time.Duration) string {
	if d <= 0 {
		return "never"
	}
	return d.String()
}

func limit(d time.Duration) string {
	if d <= 0 {
		return "no limit"
	}
	return d.String()
}

func pause(d time.Duration) string {
	if d <= 0 {
		return "no pause"
	}
	return d.String()
}

func probe(d time.Duration) string {
	if d <= 0 {
		return "no probe"
	}
	return d.String()
}

func number(n int, zero string) string {
	switch {
	case n == 0:
		return zero
	case n < 0:
		return "0: never usable"
	}
	return strconv.Itoa(n)
}

func list(all []string) string { return none(strings.Join(all, " ")) }

func none(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func hidden(s string) string {
	if s == "" {
		return "none"
	}
	return "(set)"
}
