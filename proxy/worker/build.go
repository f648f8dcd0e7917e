package worker

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// named is everything the file says of one worker.
type named struct {
	props []*property // in the order of the file, inherited ones last
	roles role        // what it is used as
	line  int         // where it is first written, or first named
}

// group sorts the properties by worker: worker.<name>.<directive>.
func (p *parser) group() {
	for _, prop := range p.order {
		rest, ok := strings.CutPrefix(prop.key, "worker.")
		dot := strings.LastIndexByte(rest, '.')
		if !ok {
			continue
		}
		if dot < 0 {
			if rest != "list" && rest != "maintain" {
				p.warn(prop.line, "%s: has no effect, the name of a worker is missing", properties.Show(prop.key))
			}
			continue
		}
		name := rest[:dot]
		w := p.workers[name]
		if w == nil {
			w = &named{line: prop.line}
			p.workers[name] = w
			p.folded[strings.ToLower(name)] = name
		}
		if prop.origin == prop.key {
			w.line = min(w.line, prop.line)
		}
		w.props = append(w.props, prop)
	}
}

// build makes the typed workers of worker.list.
func (p *parser) build() {
	global := section{parser: p, prefix: "worker."}
	p.file.Maintain = global.duration("maintain", time.Second, time.Minute)
	if p.file.Maintain == 0 {
		p.file.Maintain = Never
		if prop := global.get("maintain"); prop != nil {
			p.warn(prop.line, "worker.maintain: with 0 a member that failed comes back only when no other is left")
		}
	}
	list, by := global.get("list"), "worker.list"
	if list == nil {
		list = &property{value: string(TypeAJP13)}
		by = "worker.list (missing, so it is ajp13)"
	}
	seen := map[string]bool{}
	for _, e := range list.elements() {
		if seen[e.value] {
			p.warn(e.line, "worker.list: %s stands there twice", properties.Show(e.value))
			continue
		}
		seen[e.value] = true
		if p.built > maxMembers {
			return
		}
		p.file.List = append(p.file.List, e.value)
		p.listed(usage{name: e.value, line: e.line, by: by})
	}
}

// listed makes the worker that an element of worker.list names.
func (p *parser) listed(use usage) {
	switch p.typeOf(use) {
	case TypeLB:
		p.file.LBs = append(p.file.LBs, p.lb(use))
	case TypeStatus:
		p.file.Statuses = append(p.file.Statuses, p.status(use))
	default:
		m := p.member(use)
		p.file.Members = append(p.file.Members, &m)
	}
}

// A usage is a place of the file that names a worker.
type usage struct {
	name string
	line int
	by   string // the property that names it
}

// typeOf returns the type of a worker and reports what is wrong with it.
func (p *parser) typeOf(use usage) Type {
	s := section{parser: p, prefix: "worker." + use.name + "."}
	if len(use.name) > MaxName {
		p.fail(use.line, "%s: the name %s has %d bytes, want at most %d", use.by, properties.Quote(use.name), len(use.name), MaxName)
	}
	t, where := TypeAJP13, s.get("type")
	if where != nil {
		t = Type(where.value)
	}
	known := slices.Contains([]Type{TypeHTTP, TypeLB, TypeAJP13, TypeAJP14, TypeAJP12, TypeStatus}, t)
	w := p.workers[use.name]
	switch {
	case !known:
		p.fail(where.line, "%s: unknown type %s", properties.Show(where.origin), properties.Quote(where.value))
	case t.Supported():
	default: // ajp13 needs not be written
		p.fail(where.line, "%s: type=%s is not supported yet", properties.Show(where.origin), t)
	}
	if t == TypeAJP14 && s.get("secretkey") == nil {
		p.fail(where.line, "worker.%s.secretkey: type=ajp14 needs it", properties.Show(use.name))
	}
	if w == nil {
		p.warn(use.line, "%s: no worker %s: it has no directives, so it is an ajp13 worker at localhost:8009%s", use.by, properties.Quote(use.name), p.otherCase(use.name))
	}
	return t
}

// otherCase returns a hint if a worker is defined whose name differs from name in
// case only.
func (p *parser) otherCase(name string) string {
	if other := p.folded[strings.ToLower(name)]; other != "" && other != name {
		return ", but there is " + properties.Quote(other)
	}
	return ""
}

// use notes that a worker is used in a role, and returns the place of its first
// property.
func (p *parser) use(use usage, r role) (line int) {
	w := p.workers[use.name]
	if w == nil {
		w = &named{line: use.line}
		p.workers[use.name] = w
	}
	w.roles |= r
	return w.line
}

// lb makes a balancer.
func (p *parser) lb(use usage) *LB {
	s := section{parser: p, prefix: "worker." + use.name + "."}
	lb := &LB{
		Name:              use.name,
		Line:              p.use(use, asLB),
		Sticky:            s.boolean("sticky_session", true),
		StickyForce:       s.boolean("sticky_session_force", false),
		Method:            s.method(),
		Pessimistic:       s.choice("lock", 0, "optimistic", "pessimistic") == 1,
		Retries:           s.count("retries", 2),
		LBRetries:         s.count("lb_retries", 2),
		LBRetriesSet:      s.get("lb_retries") != nil,
		RetryInterval:     s.signed("retry_interval", time.Millisecond, 100*time.Millisecond),
		RecoverTime:       s.signed("recover_time", time.Second, time.Minute),
		MaxReplyTimeouts:  max(0, s.integer("max_reply_timeouts", 0)),
		SessionCookie:     s.text("session_cookie", "JSESSIONID"),
		SessionPath:       s.text("session_path", ";jsessionid"),
		SetSessionCookie:  s.boolean("set_session_cookie", false),
		SessionCookiePath: s.text("session_cookie_path", "/"),
		Mount:             s.mounts(),
	}
	if lb.RecoverTime < time.Second {
		lb.RecoverTime = time.Second
		s.complain(s.get("recover_time"), "is too low", lb.RecoverTime)
	}
	// Half of it in whole seconds: mod_jk divides integers.
	half := (lb.RecoverTime / 2).Truncate(time.Second)
	lb.ErrorEscalationTime = s.duration("error_escalation_time", time.Second, half)
	s.members(lb)
	s.attempts(lb)
	return lb
}

// mounts returns the URI patterns of a worker.
func (s *section) mounts() []Mount {
	var all []Mount
	for _, e := range s.get("mount").elements() {
		all = append(all, Mount{Pattern: e.value, Line: e.line})
	}
	return all
}

// DomainOf returns the domain of a member that is given none: what its route has
// before its first dot.
func DomainOf(route string) string {
	domain, _, dotted := strings.Cut(route, ".")
	if !dotted {
		return ""
	}
	return domain
}

// method returns the balancing method, by mod_jk's order of digits. Ours count by
// their whole name, which mod_jk takes for R.
func (s *section) method() Method {
	if prop := s.get("method"); prop != nil {
		if m, ours := ownMethod(prop.value); ours {
			return m
		}
	}
	n := s.choice("method", 0, "request", "traffic", "busyness", "session", "next")
	return [...]Method{ByRequest, ByTraffic, ByBusyness, BySession, ByNext}[n]
}

// ownMethod returns the method of ours that value names.
func ownMethod(value string) (Method, bool) {
	switch strings.ToLower(value) {
	case "p2c":
		return P2C, true
	case "least-time":
		return LeastTime, true
	case "rendezvous":
		return Rendezvous, true
	}
	return 0, false
}

// MethodOf returns the method that value, which must not be anything else, is for.
func MethodOf(value string) (Method, error) {
	if m, ours := ownMethod(value); ours {
		return m, nil
	}
	switch strings.ToUpper(value) {
	case "R":
		return ByRequest, nil
	case "S":
		return BySession, nil
	case "N":
		return ByNext, nil
	case "T":
		return ByTraffic, nil
	case "B":
		return ByBusyness, nil
	}
	return 0, errors.New("want R, S, N, T, B, p2c, least-time or rendezvous")
}

// members fills in the members of a balancer.
func (s *section) members(lb *LB) {
	list, by := s.get("balance_workers"), "balance_workers"
	if list == nil {
		list, by = s.get("balanced_workers"), "balanced_workers"
	}
	key := s.prefix + by
	elements := list.elements()
	if len(elements) == 0 {
		s.fail(lb.Line, "%sbalance_workers: it is missing, a balancer needs members", s.prefix)
	}
	seen := map[string]int{}
	for _, e := range elements {
		if seen[e.value] != 0 {
			s.fail(e.line, "%s: %s stands there twice", properties.Show(key), properties.Show(e.value))
			continue
		}
		seen[e.value] = e.line
		if s.built++; s.built > maxMembers {
			s.fail(e.line, "%s: more than %d members in all balancers", properties.Show(key), maxMembers)
			break
		}
		use := usage{name: e.value, line: e.line, by: key}
		t := s.typeOf(use)
		if t == TypeLB || t == TypeStatus {
			s.fail(e.line, "%s: %s has type=%s and cannot be a member", properties.Show(key), properties.Show(e.value), t)
			s.use(use, asListed)
			continue
		}
		m := s.member(use)
		s.use(use, asMember)
		if m.Type != TypeHTTP && m.Secret == "" {
			m.Secret = s.text("secret", "")
		}
		lb.Members = append(lb.Members, m)
	}
	s.routes(lb)
}

// routes checks that members can be told apart by route.
func (s *section) routes(lb *LB) {
	byRoute := map[string]string{}
	for i := range lb.Members {
		m := &lb.Members[i]
		if other, taken := byRoute[m.Route]; taken {
			line := m.Line
			if prop := s.props["worker."+m.Name+".route"]; prop != nil {
				line = prop.line
			}
			s.fail(line, "worker.%s.route: %s is the route of %s too", properties.Show(m.Name), properties.Quote(m.Route), properties.Show(other))
		}
		byRoute[m.Route] = m.Name
	}
	for i := range lb.Members {
		m := &lb.Members[i]
		if _, ok := byRoute[m.Redirect]; !ok && m.Redirect != "" {
			prop := s.props["worker."+m.Name+".redirect"]
			s.warn(prop.line, "%s: no member of %s has the route %s (a redirect names a route, not a worker)", properties.Show(prop.origin), properties.Show(lb.Name), properties.Quote(m.Redirect))
		}
	}
}

// attempts warns of retries that multiply.
func (s *section) attempts(lb *LB) {
	worst := 0
	for i := range lb.Members {
		worst = max(worst, lb.Members[i].Retries)
	}
	n := float64(worst) * float64(min(lb.LBRetries, len(lb.Members))) * float64(lb.Retries)
	if n > 16 {
		s.warn(lb.Line, "worker.%s.retries: rounds, members and tries multiply: one request may be sent %.0f times", properties.Show(lb.Name), n)
	}
}

// member makes a single server.
func (p *parser) member(use usage) Member {
	s := section{parser: p, prefix: "worker." + use.name + "."}
	m := Member{Name: use.name, Type: TypeAJP13}
	if prop := s.get("type"); prop != nil {
		m.Type = Type(prop.value)
	}
	s.strict = m.Type == TypeHTTP
	if s.strict {
		m.Line = p.use(use, asHTTP)
	} else {
		m.Line = p.use(use, asAJP)
	}
	s.address(&m)
	s.socket(&m)
	s.connections(&m)
	s.retries(&m)
	s.standing(&m)
	s.probes(&m)
	s.times(&m)
	m.Mount = s.mounts()
	return m
}

// address reads host and port.
func (s *section) address(m *Member) {
	port := 8009
	if m.Type == TypeAJP14 {
		port = 8011
	}
	host := s.get("host")
	m.Host = s.text("host", "localhost")
	if bare, ok := unbracketed(m.Host); ok {
		m.Host = bare
		if !s.strict { // mod_jk has no http workers that it could be wrong for
			s.warn(host.line, "%s: an IPv6 address is written without brackets; mod_jk does not find this one", properties.Show(host.origin))
		}
	} else if name, n, ok := withPort(m.Host); ok && !s.strict {
		m.Host, port = name, n
		s.warn(host.line, "%s: %s belongs into host and %d into port; mod_jk does not find this one", properties.Show(host.origin), properties.Quote(name), n)
	}
	m.Port = s.integer("port", port)
	if s.strict {
		for _, name := range []string{"host", "port"} {
			if s.get(name) == nil {
				s.fail(m.Line, "worker.%s.%s: it is missing, and type=http has no default for it", properties.Show(m.Name), name)
			}
		}
	}
	if host != nil {
		if err := checkHost(m.Host); err != nil {
			s.complain(host, err.Error(), "an unusable worker")
			defer func() { m.Port = 0 }() // as in mod_jk, which cannot resolve it
		}
	}
	switch prop := s.get("port"); {
	case prop == nil:
	case m.Port < 0 || m.Port > 65535:
		s.complain(prop, properties.Quote(prop.value)+" is not a port", "an unusable worker")
		m.Port = 0
	case m.Port == 0:
		s.warn(prop.line, "%s: 0 means that the worker is never used", properties.Show(prop.origin))
	}
	m.Source = s.text("source", "")
	if _, err := netip.ParseAddr(m.Source); err != nil && m.Source != "" && s.strict {
		s.fail(s.get("source").line, "worker.%s.source: %s is no IP address", properties.Show(m.Name), properties.Quote(m.Source))
	}
	m.PreferIPv6 = s.boolean("prefer_ipv6", false)
}

// unbracketed returns an IPv6 address that is written as in a URL as mod_jk wants
// it.
func unbracketed(host string) (string, bool) {
	bare, begins := strings.CutPrefix(host, "[")
	bare, ends := strings.CutSuffix(bare, "]")
	a, err := netip.ParseAddr(bare)
	return bare, begins && ends && err == nil && a.Is6()
}

// withPort takes host:port apart. mod_jk's documentation has that, its code has not.
func withPort(host string) (name string, port int, ok bool) {
	name, text, ok := strings.Cut(host, ":")
	port, err := strconv.Atoi(text)
	return name, port, ok && err == nil && port > 0 && port <= 65535 && checkHost(name) == nil
}

// Host returns a host as an http worker has it, without the brackets of an IPv6
// address; the error says that it is none.
func Host(host string) (string, error) {
	if bare, ok := unbracketed(host); ok {
		host = bare
	}
	if host == "" || len(host) > MaxName {
		return "", fmt.Errorf("a host has 1 to %d bytes", MaxName)
	}
	return host, checkHost(host)
}

// checkHost returns what is wrong with a host.
func checkHost(host string) error {
	if strings.HasPrefix(host, "[") {
		return fmt.Errorf("%q: an IPv6 address is written without brackets", host)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if strings.Contains(host, "://") {
		return fmt.Errorf("%q is not a host but a URL", host)
	}
	if name, port, ok := strings.Cut(host, ":"); ok {
		return fmt.Errorf("%q is not a host; %q belongs into host and %q into port", host, name, port)
	}
	for i := range len(host) {
		switch c := host[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return fmt.Errorf("%q is not a host: it has the character %q", host, c)
		}
	}
	if strings.HasPrefix(host, ".") || strings.Contains(host, "..") {
		return errors.New(properties.Quote(host) + " is not a host")
	}
	return nil
}

// socket reads what concerns sockets.
func (s *section) socket(m *Member) {
	m.SocketTimeout = s.duration("socket_timeout", time.Second, 0)
	m.SocketConnectTimeout = s.duration("socket_connect_timeout", time.Millisecond, m.SocketTimeout)
	m.SocketKeepalive = s.boolean("socket_keepalive", false)
	// Up to a multiple of 1024, and then into the limits.
	size := s.integer("max_packet_size", defaultPacketSize)
	m.MaxPacketSize = min(max((size+1023)/1024*1024, defaultPacketSize), 65536)
	m.SocketBuffer = max(0, s.integer("socket_buffer", 0))
	if m.SocketBuffer > 0 && m.Type != TypeHTTP {
		m.SocketBuffer = max(m.SocketBuffer, m.MaxPacketSize)
	}
	m.Secret = s.text("secret", "")
	if prop := s.get("secretkey"); prop != nil {
		m.SecretKey = prop.value
	}
}

// connections reads how many connections are kept, and for how long.
func (s *section) connections(m *Member) {
	size, name := -1, "connection_pool_size"
	for _, n := range []string{"connection_pool_size", "cachesize"} {
		if size < 0 {
			size, name = s.integer(n, -1), n
		}
	}
	switch {
	case size > 0:
		m.PoolSize = size
	case size == 0:
		m.PoolSize = -1
		s.complain(s.get(name), "0 connections cannot serve anything", "an unusable worker")
	}
	m.PoolMinSize = max(0, s.integer("connection_pool_minsize", (max(0, size)+1)/2))
	m.PoolTimeout = s.duration("connection_pool_timeout", time.Second, -1)
	if m.PoolTimeout < 0 {
		m.PoolTimeout = s.duration("cache_timeout", time.Second, 0)
	}
}

// retries reads what happens after a failure on this member.
func (s *section) retries(m *Member) {
	m.Retries = s.count("retries", 2)
	m.RetryInterval = s.signed("retry_interval", time.Millisecond, 100*time.Millisecond)
	wait := time.Duration(m.Retries) * max(0, m.RetryInterval)
	m.AcquireTimeout = s.duration("connection_acquire_timeout", time.Millisecond, wait)
	if m.AcquireTimeout == 0 {
		prop := cmp.Or(s.get("connection_acquire_timeout"), s.get("retry_interval"))
		s.warn(prop.line, "%s: mod_jk would refuse every request, because it waits 0 ms for a connection; here there is at least one try", properties.Show(prop.origin))
	}
	m.ReplyTimeout = s.duration("reply_timeout", time.Millisecond, 0)
	m.RecoveryOptions = RecoveryOptions(s.integer("recovery_options", 0))
	prop := s.get("recovery_options")
	m.RecoverySet = prop != nil
	if m.RecoverySet && m.RecoveryOptions&^allRecoveryOptions != 0 {
		s.complain(prop, properties.Quote(prop.value)+" has bits beyond 31", int(m.RecoveryOptions))
	}
	for _, e := range s.get("fail_on_status").elements() {
		m.FailOnStatus = append(m.FailOnStatus, s.statusRule(e))
	}
	m.BusyLimit = max(0, s.integer("busy_limit", 0))
}

// statusRule reads one element of fail_on_status.
func (s *section) statusRule(e part) StatusRule {
	n, rest, _ := parseDigits(e.value)
	rule := StatusRule{Status: max(n, -n), Soft: n < 0}
	if rest != "" || rule.Status < 100 || rule.Status > 999 {
		s.complain(&property{origin: s.prefix + "fail_on_status", line: e.line}, properties.Quote(e.value)+" is not a status", n)
	}
	return rule
}

// standing reads what a member is within its balancer.
func (s *section) standing(m *Member) {
	m.Route = s.text("route", s.text("jvm_route", m.Name))
	m.LBFactor = s.count("lbfactor", 1)
	m.Distance = s.integer("distance", 0)
	m.Domain = s.text("domain", DomainOf(m.Route))
	m.Redirect = s.text("redirect", "")
	disabled, stopped := s.boolean("disabled", false), s.boolean("stopped", false)
	switch {
	case s.get("activation") != nil:
		m.Activation = Activation(s.choice("activation", 0, "active", "disabled", "stopped"))
	case stopped:
		m.Activation = Stopped
	case disabled:
		m.Activation = Disabled
	}
	if m.Port == 0 {
		m.Activation = Stopped
	}
}

// probes reads when a connection is probed, and how long an answer may take.
func (s *section) probes(m *Member) {
	m.ConnectTimeout = s.duration("connect_timeout", time.Millisecond, 0)
	m.PrepostTimeout = s.duration("prepost_timeout", time.Millisecond, 0)
	m.PingTimeout = s.duration("ping_timeout", time.Millisecond, 10*time.Second)
	if prop := s.get("ping_mode"); prop != nil {
		m.PingMode = s.pingMode(prop)
	}
	if m.PingMode&PingConnect != 0 && m.ConnectTimeout == 0 {
		m.ConnectTimeout = m.PingTimeout
	}
	if m.PingMode&PingPrepost != 0 && m.PrepostTimeout == 0 {
		m.PrepostTimeout = m.PingTimeout
	}
	var interval time.Duration
	if m.PingMode&PingInterval != 0 {
		// mod_jk: the milliseconds of the time-out by 100 are seconds.
		interval = time.Duration(m.PingTimeout.Milliseconds()/100) * time.Second
	}
	m.PingInterval = s.duration("connection_ping_interval", time.Second, interval)
}

// pingMode reads a set of letters.
func (s *section) pingMode(prop *property) PingMode {
	var mode PingMode
	for _, c := range strings.ToUpper(prop.value) {
		switch c {
		case 'A':
			mode |= PingConnect | PingPrepost | PingInterval
		case 'C':
			mode |= PingConnect
		case 'P':
			mode |= PingPrepost
		case 'I':
			mode |= PingInterval
		default:
			s.complain(prop, fmt.Sprintf("%q has a letter that is none of C, P, I, A", prop.value), "nothing")
		}
	}
	return mode
}

// times gives a worker defaults of ours where mod_jk waits for ever, and in one of
// type http a meaning to what is about AJP's CPING (doc.go says why).
func (s *section) times(m *Member) {
	if s.get("socket_connect_timeout") == nil && m.SocketTimeout == 0 {
		m.SocketConnectTimeout = defaultConnect
	}
	if s.strict {
		if s.get("socket_connect_timeout") == nil && m.ConnectTimeout > 0 {
			m.SocketConnectTimeout = m.ConnectTimeout
		}
		m.ConnectTimeout = 0
	}
	if m.PrepostTimeout == 0 && s.get("prepost_timeout") == nil {
		m.PrepostTimeout = defaultProbe
		m.ProbeIdle = defaultProbeIdle
	}
}

// status makes a status worker.
func (p *parser) status(use usage) *Status {
	s := section{parser: p, prefix: "worker." + use.name + "."}
	// As in mod_jk a value that begins with '-' means none.
	orNone := func(name, def string) string {
		if v := s.any(name, def); !strings.HasPrefix(v, "-") {
			return v
		}
		return ""
	}
	st := &Status{
		Name:                use.name,
		Line:                p.use(use, asStatus),
		CSS:                 s.any("css", ""),
		ReadOnly:            s.boolean("read_only", false),
		User:                s.get("user").values(),
		UserCaseInsensitive: s.boolean("user_case_insensitive", false),
		Good:                s.get("good").values(),
		Bad:                 s.get("bad").values(),
		Prefix:              s.any("prefix", "worker"),
		NS:                  orNone("ns", "jk:"),
		XMLNS:               orNone("xmlns", `xmlns:jk="http://tomcat.apache.org"`),
		Doctype:             s.any("doctype", ""),
		Mount:               s.mounts(),
	}
	if st.Good == nil {
		st.Good = []string{"a.o", "a.i", "a.b", "a.r"}
	}
	if st.Bad == nil {
		st.Bad = []string{"s", "e"}
	}
	return st
}

// any is text without a limit.
func (s *section) any(name, def string) string {
	if prop := s.get(name); prop != nil {
		return prop.value
	}
	return def
}
