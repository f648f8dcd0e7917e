package oracle

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A scenario is a pair of files and what happens then. One seed is one scenario.
type scenario struct {
	seed    uint64
	members []string        // the ajp13 workers
	lines   []line          // of workers.properties
	rules   []string        // of uriworkermap.properties
	packets map[string]int  // max_packet_size as it comes out, by member
	routes  []string        // that members have
	silence bool            // members may be silent: each has a reply_timeout
	cookie  string          // their names
	path    string          //
	steps   []step          //
	pings   map[string]bool // members with any CPING
}

// A line is one directive.
type line struct{ worker, key, value string }

// A step is one request and what the members do with it.
type step struct {
	request request
	acts    map[string]act
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", &s.request)
	names := make([]string, 0, len(s.acts))
	for name := range s.acts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "\n      %s %v", name, s.acts[name])
	}
	return b.String()
}

// value is what the file says of a worker, or "".
func (s *scenario) value(worker, key string) string {
	for _, l := range s.lines {
		if l.worker == worker && l.key == key {
			return l.value
		}
	}
	return ""
}

// workersFile is the text of workers.properties. Without members' addresses it is
// the same for a seed each time.
func (s *scenario) workersFile(c *cast) string {
	var b strings.Builder
	for _, l := range s.lines {
		if l.worker == "" {
			fmt.Fprintf(&b, "worker.%s=%s\n", l.key, l.value)
		} else {
			fmt.Fprintf(&b, "worker.%s.%s=%s\n", l.worker, l.key, l.value)
		}
	}
	if c != nil {
		for _, m := range c.members {
			host, port, _ := net.SplitHostPort(m.addr)
			fmt.Fprintf(&b, "worker.%s.host=%s\nworker.%[1]s.port=%[3]s\n", m.name, host, port)
		}
	}
	return b.String()
}

func (s *scenario) rulesFile() string { return strings.Join(s.rules, "\n") + "\n" }

// dice make choices.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

//nolint:ireturn // T is whatever it picks from
func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// generate makes the scenario of a seed.
func generate(seed uint64) *scenario {
	d := dice{rand.New(rand.NewPCG(seed, 0x0a9ec1e))}
	s := &scenario{seed: seed, packets: map[string]int{}, pings: map[string]bool{}, cookie: "JSESSIONID", path: ";jsessionid"}
	s.silence = d.chance(35)
	for i := range 1 + d.IntN(5) {
		s.members = append(s.members, fmt.Sprintf("m%d", i+1))
	}
	for _, name := range s.members {
		s.member(d, name)
	}
	s.balancer(d, "lb", s.members)
	list := "lb"
	if d.chance(15) {
		s.balancer(d, "lb2", s.members[:1+d.IntN(len(s.members))])
		list += ", lb2"
	}
	if d.chance(30) {
		s.members = append(s.members, "solo")
		s.member(d, "solo")
		list += " solo"
	}
	s.set("", "list", list)
	s.set("", "maintain", "3600")
	s.rulesOf(d)
	for i := range 16 {
		s.step(d, i)
	}
	return s
}

func (s *scenario) set(worker, key string, value any) {
	s.lines = append(s.lines, line{worker, key, fmt.Sprint(value)})
}

// maybe sets a directive in so many percent of all cases.
func maybe[T any](s *scenario, d dice, percent int, worker, key string, of ...T) {
	if d.chance(percent) {
		s.set(worker, key, pick(d, of...))
	}
}

func (s *scenario) member(d dice, name string) {
	if d.chance(80) {
		s.set(name, "type", "ajp13") // which is the default too
	}
	maybe(s, d, 40, name, "lbfactor", 1, 2, 3, 5)
	maybe(s, d, 20, name, "distance", 0, 1, 2)
	maybe(s, d, 20, name, "domain", "east", "west")
	route := name
	if d.chance(30) {
		route = pick(d, "r-", "east.", "west.", "R") + name
		s.set(name, "route", route)
	}
	s.routes = append(s.routes, route)
	maybe(s, d, 20, name, "activation", "A", "disabled", "Stopped", "d", "active")
	maybe(s, d, 15, name, "secret", "s3c=ret", "hush")

	// Without these two, how often a member is tried differs by a named deviation.
	switch {
	case d.chance(60):
		s.set(name, "retries", 1)
	case d.chance(40):
		s.set(name, "retries", 3)
	}
	s.set(name, "retry_interval", 5)
	maybe(s, d, 60, name, "recovery_options", 0, 0, 1, 2, 3, 4, 7, 8, 16, 24, 19)

	if d.chance(25) {
		s.set(name, "fail_on_status", pick(d, "500", "503", "-503", "500 503", "-404,500", "404"))
	}
	if d.chance(20) {
		size := pick(d, 8192, 9000, 16384, 65536, 100)
		s.set(name, "max_packet_size", size)
		s.packets[name] = min(max((size+1023)/1024*1024, smallestPacket), largestPacket)
	} else {
		s.packets[name] = smallestPacket
	}
	if d.chance(35) {
		s.pings[name] = true
		switch d.IntN(4) {
		case 0:
			s.set(name, "connect_timeout", 400)
		case 1:
			s.set(name, "prepost_timeout", 400)
		case 2:
			s.set(name, "ping_mode", pick(d, "CP", "A", "P", "C"))
			s.set(name, "ping_timeout", 400)
		default:
			s.set(name, "connect_timeout", 400)
			s.set(name, "prepost_timeout", 300)
		}
	}
	switch {
	case s.silence && d.chance(15):
		s.set(name, "socket_timeout", 1)
	case s.silence:
		s.set(name, "reply_timeout", pick(d, 400, 500))
	default:
		maybe(s, d, 15, name, "reply_timeout", 5000)
	}
	maybe(s, d, 10, name, "busy_limit", 5)
	maybe(s, d, 10, name, "connection_pool_size", 1, 4, 8)
	maybe(s, d, 10, name, "connection_pool_timeout", 60)
	maybe(s, d, 10, name, "socket_keepalive", "true", "1")
	maybe(s, d, 10, name, "socket_connect_timeout", 1000)
}

func (s *scenario) balancer(d dice, name string, members []string) {
	s.set(name, "type", "lb")
	s.set(name, "balance_workers", strings.Join(members, pick(d, ",", " ", ", ")))
	maybe(s, d, 70, name, "method", "R", "S", "N", "T", "B", "Request", "Session", "Next", "Traffic", "Busyness", "0", "3")
	maybe(s, d, 20, name, "sticky_session", "0", "1", "true", "False")
	maybe(s, d, 20, name, "sticky_session_force", "1", "0", "true")
	maybe(s, d, 40, name, "retries", 1, 1, 3)
	if d.chance(60) {
		s.set(name, "lb_retries", len(members)+d.IntN(2))
	} else {
		maybe(s, d, 40, name, "lb_retries", 1, 2)
	}
	s.set(name, "retry_interval", pick(d, 5, 10))
	maybe(s, d, 15, name, "error_escalation_time", 0)
	maybe(s, d, 20, name, "max_reply_timeouts", 0, 1, 3)
	maybe(s, d, 15, name, "secret", "lbsecret")
	maybe(s, d, 15, name, "lock", "P", "Optimistic")
	if name == "lb" {
		if d.chance(15) {
			s.cookie = pick(d, "SID", "SESSION")
			s.set(name, "session_cookie", s.cookie)
		}
		if d.chance(15) {
			s.path = ";sid"
			s.set(name, "session_path", s.path)
		}
	}
	maybe(s, d, 20, name, "set_session_cookie", "1", "true")
	maybe(s, d, 10, name, "session_cookie_path", "/app")
	for _, m := range members {
		if s.value(m, "redirect") == "" {
			maybe(s, d, 10, m, "redirect", s.routes[d.IntN(len(s.routes))])
		}
	}
}

// targets are paths that rules and requests have.
var targets = []string{
	"/app", "/app/", "/app/a", "/app/b/c.jsp", "/app/static/x.css", "/app/static/", "/x.jsp", "/solo", "/solo/a", "/two/a",
	"/two", "/other", "/app/d%20e", "/app/%7Euser/x", "/app//a", "/app/./a", "/app/b/../a", "/app/a;v=1/b", "/app/a$b,c+d",
	"/app/%C3%A9", "/app/x:y@z", "/app/'(1)'", "/app/a%25b", "/app/a%3Fb",
}

func (s *scenario) rulesOf(d dice) {
	lb := "lb"
	add := func(pattern, worker string) {
		for range d.IntN(2) * d.IntN(3) {
			worker += s.extension(d)
		}
		s.rules = append(s.rules, pattern+"="+worker)
	}
	// No two rules have as many slashes and bytes: which is first is not defined.
	add(pick(d, "/app|/*", "/app/*", "/app*", "/*"), lb)
	if d.chance(40) {
		add("/*.jsp", lb)
	}
	if d.chance(40) {
		s.rules = append(s.rules, pick(d, "!/app/static/*=", "!/app/static|/*=", "!/*.css=")+pick(d, lb, "*", "lb"))
	}
	if d.chance(30) {
		add(pick(d, "/app/b/*", "/app/a*", "/app/a?", "-/app/ab"), lb)
	}
	if slices.Contains(s.members, "solo") {
		add("/solo|/*", "solo")
	}
	if s.value("lb2", "type") != "" {
		add("/two|/*", "lb2")
	}
}

func (s *scenario) extension(d dice) string {
	name := func() string { return s.members[d.IntN(len(s.members))] }
	switch d.IntN(9) {
	case 0:
		return ";reply_timeout=" + pick(d, "600", "5000")
	case 1:
		return ";sticky_ignore=" + pick(d, "1", "0")
	case 2:
		return ";stateless=1"
	case 3:
		return ";" + pick(d, "active", "disabled", "stopped") + "=" + name()
	case 4:
		return ";fail_on_status=" + pick(d, "500", "-503,404", "502 503")
	case 5:
		return ";use_server_errors=" + pick(d, "400", "500")
	case 6:
		return ";session_cookie=" + pick(d, "SID", "JSESSIONID")
	case 7:
		return ";session_path=" + pick(d, "sid", "jsessionid")
	default:
		return ";set_session_cookie=1"
	}
}

// id is a session id: of a member, of a domain, of nobody, without a route.
func (s *scenario) id(d dice) string {
	switch {
	case d.chance(65):
		return "s" + strconv.Itoa(d.IntN(100)) + "." + s.routes[d.IntN(len(s.routes))]
	case d.chance(40):
		return "s1." + pick(d, "east", "west", "west.gone", "gone", "m9")
	case d.chance(50):
		return "s1"
	}
	return "s1." + s.routes[d.IntN(len(s.routes))] + ".x"
}

func (s *scenario) step(d dice, i int) {
	r := request{
		method: pick(d, "GET", "GET", "GET", "GET", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND", "PATCH", "FROB"),
		target: pick(d, targets[:3]...),
		fields: []field{{"Host", pick(d, "shop.example", "shop.example:8080", "10.0.0.7:81")}},
	}
	if d.chance(50) {
		r.target = pick(d, targets...)
	}
	if d.chance(35) {
		switch {
		case d.chance(40):
			r.target += s.path + "=" + s.id(d)
			if d.chance(40) {
				r.fields = append(r.fields, field{"Cookie", s.cookie + "=" + s.id(d)})
			}
		case d.chance(20):
			r.fields = append(r.fields, field{"Cookie", "a=b; " + s.cookie + "=\"" + s.id(d) + "\"; X" + s.cookie + "=q.m1"})
		case d.chance(20):
			r.fields = append(r.fields, field{"Cookie", s.cookie + "=" + s.id(d) + "; " + s.cookie + "=" + s.id(d)})
		case d.chance(15):
			r.fields = append(r.fields, field{"Cookie", "a=b"}, field{"Cookie", s.cookie + "=" + s.id(d)})
		default:
			r.fields = append(r.fields, field{"Cookie", s.cookie + "=" + s.id(d)})
		}
	}
	if d.chance(25) {
		r.target += "?" + pick(d, "", "q=1", "a=b&c=d%20e", "u=http://x/?y=;z")
	}
	r.fields = append(r.fields, s.headers(d)...)
	switch r.method {
	case "POST", "PUT", "PATCH", "PROPFIND":
		n := pick(d, 0, 5, 100, 8186, 8187, 20000, 70000)
		r.body = bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		r.chunked = d.chance(25)
	}
	s.steps = append(s.steps, step{request: r, acts: s.actsOf(d, i)})
}

func (s *scenario) headers(d dice) []field {
	var fields []field
	for _, f := range []field{
		{"User-Agent", "oracle/1"},
		{"Accept", "*/*"},
		{"Accept-Language", "de, en;q=0.5"},
		{"Accept-Encoding", "gzip"},
		{"Authorization", "Basic am9lOng="},
		{"Referer", "http://shop.example/app/"},
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"X-Custom", "one"},
		{"X-Custom", "two"},
		{"X-Empty", ""},
		{"X-Latin", "caf\xe9 \xc3\xa9"},
		{"Pragma", "no-cache"},
		{"Connection", "close"},
		{"X-Forwarded-For", "192.0.2.1"},
		{"If-None-Match", `"abc"`},
		{"Range", "bytes=0-3"},
	} {
		if d.chance(15) {
			fields = append(fields, f)
		}
	}
	if d.chance(4) {
		for i := range 3 {
			fields = append(fields, field{fmt.Sprintf("X-Long-%d", i), strings.Repeat("x", pick(d, 2000, 3000, 7000))})
		}
	}
	return fields
}

// failures are the acts other than an answer.
var (
	breaks   = []kind{refused, refused, dropped, stale, hangupHead, resetHead, hangupBody, hangupReply, hangupChunk, hangupEnd}
	nonsense = []kind{wrongMagic, tooLong, wrongType, twoHeads, noHead, lyingChunk, endsFirst, lateFlush}
	pingings = []kind{mutePing, hangupPing, wrongPong}
	silences = []kind{muteHead, muteReply, muteEnd}
)

// actsOf says what members do in step i. The first requests meet members that are
// well, and later ones some that are not.
func (s *scenario) actsOf(d dice, i int) map[string]act {
	acts := map[string]act{}
	for _, name := range s.members {
		acts[name] = s.answer(d)
	}
	if i < 4 || !d.chance(45) {
		return acts
	}
	for _, name := range s.members {
		if !d.chance(60) {
			continue
		}
		a := acts[name]
		switch {
		case s.silence && d.chance(25):
			a.kind = pick(d, silences...)
		case s.pings[name] && d.chance(40):
			a.kind = pick(d, pingings...)
		case d.chance(20):
			a.kind = pick(d, nonsense...)
		default:
			a.kind = pick(d, breaks...)
		}
		// What probes of ours meet as well is not counted.
		if d.chance(30) && a.kind != dropped && !slices.Contains(pingings, a.kind) {
			a.times = 1 + d.IntN(2)
		}
		acts[name] = a
	}
	return acts
}

func (s *scenario) answer(d dice) act {
	a := act{kind: answers, size: pick(d, 0, 10, 10, 300, 8184, 30000), length: d.chance(50)}
	if d.chance(25) {
		a.status = pick(d, 200, 201, 204, 302, 304, 400, 401, 404, 500, 503)
		if a.status == 204 || a.status == 304 {
			a.size, a.length = 0, false
		}
	}
	if d.chance(10) {
		a.reason = "Fine"
	}
	a.close, a.early, a.flush = d.chance(8), d.chance(8), d.chance(10)
	if d.chance(5) {
		a.delay = 30 * time.Millisecond
	}
	if d.chance(20) {
		a.fields = []field{
			{"Set-Cookie", s.cookie + "=new." + cmp.Or(s.routes[0], "x") + "; Path=/app"},
			{"Set-Cookie", "other=1"},
			{"X-Reply", "ok"},
		}
	}
	if a.code() == 302 {
		a.fields = append(a.fields, field{"Location", "http://shop.example/app/next"})
	}
	if a.code() == 401 {
		a.fields = append(a.fields, field{"WWW-Authenticate", `Basic realm="x"`})
	}
	return a
}
