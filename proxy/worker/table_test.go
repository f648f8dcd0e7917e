package worker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A row is one directive of mod_jk.md 2 or 1.8: what it is by default, and what
// values make of it.
type row struct {
	name   string // worker.<of>.<name>, or worker.<name>
	of     string // a: a member of lb, of type ajp13; h: one of type http; lb; s: a status worker; "" for a global one
	read   func(f *File) any
	def    any
	values map[string]any
	with   string // further lines
}

// TestDirectives goes through the tables of mod_jk.md 2 row by row: the default, what
// a value does, the limits and the quirks.
func TestDirectives(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	a := func(read func(m *Member) any) func(*File) any {
		return func(f *File) any { return read(f.member("a")) }
	}
	lb := func(read func(lb *LB) any) func(*File) any {
		return func(f *File) any { return read(f.LBs[0]) }
	}
	st := func(read func(s *Status) any) func(*File) any {
		return func(f *File) any { return read(f.Statuses[0]) }
	}
	members := lb(func(lb *LB) any {
		var all []string
		for i := range lb.Members {
			all = append(all, lb.Members[i].Name)
		}
		return strings.Join(all, " ")
	})
	mounts := func(all []Mount) any {
		var text []string
		for _, m := range all {
			text = append(text, m.Pattern)
		}
		return strings.Join(text, " ")
	}
	rows := []row{
		// 2.1
		{"list", "", func(f *File) any { return strings.Join(f.List, " ") }, "lb s", map[string]any{"a": "lb s a", "a, lb": "lb s a"}, ""},
		{"maintain", "", func(f *File) any { return f.Maintain }, 60 * s, map[string]any{"10": 10 * s, "0": Never, "-5": Never, "x": 60 * s}, ""},
		// 2.2
		{"type", "a", a(func(m *Member) any { return m.Type }), TypeAJP13, map[string]any{"http": TypeHTTP, "ajp14": TypeAJP14}, ""},
		{"host", "a", a(func(m *Member) any { return m.Host }), "localhost", map[string]any{"::1": "::1", "n1": "n1"}, ""},
		{"port", "a", a(func(m *Member) any { return fmt.Sprint(m.Port, m.Activation) }), "8009 ACT", map[string]any{"8010": "8010 ACT", "8009x": "8009 ACT", "0": "0 STP", "70000": "0 STP"}, ""},
		{"source", "a", a(func(m *Member) any { return m.Source }), "", map[string]any{"10.0.0.1": "10.0.0.1"}, ""},
		{"prefer_ipv6", "a", a(func(m *Member) any { return m.PreferIPv6 }), false, map[string]any{"1": true, "disabled": false}, ""},
		{"socket_timeout", "a", a(func(m *Member) any { return m.SocketTimeout }), 0 * s, map[string]any{"3": 3 * s, "-1": 0 * s}, ""},
		{"socket_connect_timeout", "a", a(func(m *Member) any { return m.SocketConnectTimeout }), 500 * ms, map[string]any{"700": 700 * ms, "0": 0 * s}, ""}, // mod_jk: 0
		{"socket_timeout", "a", a(func(m *Member) any { return m.SocketConnectTimeout }), 500 * ms, map[string]any{"3": 3 * s}, ""},                          // trap 6
		{"socket_keepalive", "a", a(func(m *Member) any { return m.SocketKeepalive }), false, map[string]any{"True": true}, ""},
		{"socket_buffer", "a", a(func(m *Member) any { return m.SocketBuffer }), 0, map[string]any{"1": 8192, "9000": 9000, "-1": 0}, ""},
		{"max_packet_size", "a", a(func(m *Member) any { return m.MaxPacketSize }), 8192, map[string]any{"8193": 9216, "1": 8192, "64k": 65536, "70000": 65536}, ""},
		{"secret", "a", a(func(m *Member) any { return m.Secret }), "", map[string]any{"x": "x"}, ""},
		{"secretkey", "a", a(func(m *Member) any { return m.SecretKey }), "", map[string]any{"x": "x"}, ""},
		// 2.3
		{"connection_pool_size", "a", a(func(m *Member) any { return m.PoolSize }), 0, map[string]any{"7": 7, "0": -1, "-3": 0}, ""},
		{"connection_pool_minsize", "a", a(func(m *Member) any { return m.PoolMinSize }), 4, map[string]any{"1": 1, "-1": 0}, "worker.a.connection_pool_size=7\n"},
		{"connection_pool_timeout", "a", a(func(m *Member) any { return m.PoolTimeout }), 0 * s, map[string]any{"60": 60 * s, "-1": 0 * s}, ""},
		{"connection_acquire_timeout", "a", a(func(m *Member) any { return m.AcquireTimeout }), 200 * ms, map[string]any{"50": 50 * ms, "0": 0 * s}, ""},
		{"connection_ping_interval", "a", a(func(m *Member) any { return m.PingInterval }), 0 * s, map[string]any{"30": 30 * s}, ""},
		{"connection_ping_interval", "a", a(func(m *Member) any { return m.PingInterval }), 100 * s, map[string]any{"30": 30 * s}, "worker.a.ping_mode=I\n"},
		// 2.4
		{"ping_mode", "a", a(func(m *Member) any { return m.PingMode }), PingMode(0), map[string]any{"A": PingConnect | PingPrepost | PingInterval, "cpX": PingConnect | PingPrepost}, ""},
		{"ping_timeout", "a", a(func(m *Member) any { return m.ConnectTimeout }), 10 * s, map[string]any{"2000": 2 * s}, "worker.a.ping_mode=C\n"},
		{"connect_timeout", "a", a(func(m *Member) any { return m.ConnectTimeout }), 0 * s, map[string]any{"500": 500 * ms}, ""},
		{"prepost_timeout", "a", a(func(m *Member) any { return fmt.Sprint(m.PrepostTimeout, m.ProbeIdle) }), "500ms 1s", map[string]any{"700": "700ms 0s", "0": "0s 0s"}, ""}, // mod_jk: 0
		{"reply_timeout", "a", a(func(m *Member) any { return m.ReplyTimeout }), 0 * s, map[string]any{"30000": 30 * s, "-1": 0 * s}, ""},
		{"retries", "a", a(func(m *Member) any { return m.Retries }), 2, map[string]any{"5": 5, "0": 1, "-1": 1}, ""},
		{"retry_interval", "a", a(func(m *Member) any { return m.RetryInterval }), 100 * ms, map[string]any{"250": 250 * ms, "-1": -1 * ms}, ""},
		{"recovery_options", "a", a(func(m *Member) any { return fmt.Sprint(int(m.RecoveryOptions), m.RecoverySet) }), "0 false", map[string]any{"0": "0 true", "25": "25 true"}, ""},
		{"fail_on_status", "a", a(func(m *Member) any { return fmt.Sprint(m.FailOnStatus) }), "[]", map[string]any{"500,-503 404": "[{500 false} {503 true} {404 false}]"}, ""},
		{"busy_limit", "a", a(func(m *Member) any { return m.BusyLimit }), 0, map[string]any{"8": 8, "-1": 0}, ""},
		{"mount", "a", a(func(m *Member) any { return mounts(m.Mount) }), "", map[string]any{"/a/* /b": "/a/* /b"}, ""},
		{"reference", "a", a(func(m *Member) any { return fmt.Sprint(m.Address()+" ", m.LBFactor) }), "localhost:8009 1", map[string]any{"worker.t": "tpl:8009 4"}, "worker.t.host=tpl\nworker.t.lbfactor=4\n"},
		// 2.5
		{"lbfactor", "a", a(func(m *Member) any { return m.LBFactor }), 1, map[string]any{"3": 3, "0": 1, "-2": 1}, ""},
		{"distance", "a", a(func(m *Member) any { return m.Distance }), 0, map[string]any{"2": 2, "-1": -1}, ""},
		{"domain", "a", a(func(m *Member) any { return m.Domain }), "", map[string]any{"east": "east"}, ""},
		{"route", "a", a(func(m *Member) any { return m.Route + "/" + m.Domain }), "a/", map[string]any{"east.a.b": "east.a.b/east"}, ""},
		{"redirect", "a", a(func(m *Member) any { return m.Redirect }), "", map[string]any{"b": "b"}, ""},
		{"activation", "a", a(func(m *Member) any { return m.Activation }), Active, map[string]any{"d": Disabled, "Stopped": Stopped, "1": Disabled, "2": Stopped, "x": Active}, ""},
		// 2.6
		{"balance_workers", "lb", members, "a b", map[string]any{"c": "a b c"}, ""},
		{"sticky_session", "lb", lb(func(lb *LB) any { return lb.Sticky }), true, map[string]any{"0": false, "disabled": true, "No": false}, ""},
		{"sticky_session_force", "lb", lb(func(lb *LB) any { return lb.StickyForce }), false, map[string]any{"1": true}, ""},
		{"method", "lb", lb(func(lb *LB) any { return lb.Method }), ByRequest, map[string]any{"S": BySession, "ByRequests": ByBusyness, "4": ByNext, "1": ByTraffic, "p2c": P2C}, ""},
		{"lock", "lb", lb(func(lb *LB) any { return lb.Pessimistic }), false, map[string]any{"P": true, "1": true, "O": false}, ""},
		{"retries", "lb", lb(func(lb *LB) any { return lb.Retries }), 2, map[string]any{"3": 3, "0": 1}, ""},
		{"lb_retries", "lb", lb(func(lb *LB) any { return fmt.Sprint(lb.LBRetries, lb.LBRetriesSet) }), "2 false", map[string]any{"3": "3 true", "0": "1 true"}, ""},
		{"retry_interval", "lb", lb(func(lb *LB) any { return lb.RetryInterval }), 100 * ms, map[string]any{"20": 20 * ms}, ""},
		{"recover_time", "lb", lb(func(lb *LB) any { return fmt.Sprint(lb.RecoverTime, lb.ErrorEscalationTime) }), "1m0s 30s", map[string]any{"5": "5s 2s", "0": "1s 0s"}, ""},
		{"error_escalation_time", "lb", lb(func(lb *LB) any { return lb.ErrorEscalationTime }), 30 * s, map[string]any{"0": 0 * s, "7": 7 * s}, ""},
		{"max_reply_timeouts", "lb", lb(func(lb *LB) any { return lb.MaxReplyTimeouts }), 0, map[string]any{"3": 3, "-1": 0}, ""},
		{"session_cookie", "lb", lb(func(lb *LB) any { return lb.SessionCookie }), "JSESSIONID", map[string]any{"SID": "SID"}, ""},
		{"session_path", "lb", lb(func(lb *LB) any { return lb.SessionParam() }), "jsessionid", map[string]any{";sid": "sid", "sid": "sid"}, ""},
		{"set_session_cookie", "lb", lb(func(lb *LB) any { return lb.SetSessionCookie }), false, map[string]any{"1": true}, ""},
		{"session_cookie_path", "lb", lb(func(lb *LB) any { return lb.SessionCookiePath }), "/", map[string]any{"/shop": "/shop"}, ""},
		{"secret", "lb", a(func(m *Member) any { return m.Secret }), "", map[string]any{"x": "x"}, ""},
		{"secret", "lb", a(func(m *Member) any { return m.Secret }), "own", map[string]any{"x": "own"}, "worker.a.secret=own\n"},
		{"mount", "lb", lb(func(lb *LB) any { return mounts(lb.Mount) }), "", map[string]any{"/a": "/a"}, ""},
		// 2.7
		{"css", "s", st(func(s *Status) any { return s.CSS }), "", map[string]any{"/x.css": "/x.css"}, ""},
		{"read_only", "s", st(func(s *Status) any { return s.ReadOnly }), false, map[string]any{"on": true}, ""},
		{"user", "s", st(func(s *Status) any { return strings.Join(s.User, " ") }), "", map[string]any{"ann, bob": "ann bob"}, ""},
		{"user_case_insensitive", "s", st(func(s *Status) any { return s.UserCaseInsensitive }), false, map[string]any{"y": true}, ""},
		{"good", "s", st(func(s *Status) any { return strings.Join(s.Good, " ") }), "a.o a.i a.b a.r", map[string]any{"a": "a"}, ""},
		{"bad", "s", st(func(s *Status) any { return strings.Join(s.Bad, " ") }), "s e", map[string]any{"d s": "d s"}, ""},
		{"prefix", "s", st(func(s *Status) any { return s.Prefix }), "worker", map[string]any{"w": "w"}, ""},
		{"ns", "s", st(func(s *Status) any { return s.NS }), "jk:", map[string]any{"-": "", "x:": "x:"}, ""},
		{"xmlns", "s", st(func(s *Status) any { return s.XMLNS }), `xmlns:jk="http://tomcat.apache.org"`, map[string]any{"-none": "", "x": "x"}, ""},
		{"doctype", "s", st(func(s *Status) any { return s.Doctype }), "", map[string]any{"<!x>": "<!x>"}, ""},
		{"mount", "s", st(func(s *Status) any { return mounts(s.Mount) }), "", map[string]any{"/status": "/status"}, ""},
		// 1.8
		{"balanced_workers", "lb", members, "a b", map[string]any{"c": "a b"}, ""},
		{"cachesize", "a", a(func(m *Member) any { return m.PoolSize }), 0, map[string]any{"7": 7}, ""},
		{"cachesize", "a", a(func(m *Member) any { return m.PoolSize }), 3, map[string]any{"7": 3}, "worker.a.connection_pool_size=3\n"},
		{"cache_timeout", "a", a(func(m *Member) any { return m.PoolTimeout }), 0 * s, map[string]any{"60": 60 * s}, ""},
		{"cache_timeout", "a", a(func(m *Member) any { return m.PoolTimeout }), 5 * s, map[string]any{"60": 5 * s}, "worker.a.connection_pool_timeout=5\n"},
		{"recycle_timeout", "a", a(func(m *Member) any { return m.PoolTimeout }), 0 * s, map[string]any{"60": 0 * s}, ""},
		{"jvm_route", "a", a(func(m *Member) any { return m.Route }), "a", map[string]any{"x": "x"}, ""},
		{"jvm_route", "a", a(func(m *Member) any { return m.Route }), "y", map[string]any{"x": "y"}, "worker.a.route=y\n"},
		{"disabled", "a", a(func(m *Member) any { return m.Activation }), Active, map[string]any{"1": Disabled}, ""},
		{"disabled", "a", a(func(m *Member) any { return m.Activation }), Stopped, map[string]any{"1": Stopped}, "worker.a.stopped=1\n"},
		{"stopped", "a", a(func(m *Member) any { return m.Activation }), Active, map[string]any{"1": Stopped}, ""},
		{"stopped", "a", a(func(m *Member) any { return m.Activation }), Active, map[string]any{"1": Active}, "worker.a.activation=A\n"},
		{"local_worker", "a", a(func(m *Member) any { return m.Distance }), 0, map[string]any{"1": 0}, ""},
		{"local_worker_only", "lb", lb(func(lb *LB) any { return lb.StickyForce }), false, map[string]any{"1": false}, ""},
	}
	for _, name := range []string{"sysprops", "stdout", "stderr", "mx", "ms", "class_path", "bridge", "jvm_lib", "ld_path", "cmd_line", "native_lib"} {
		rows = append(rows, row{name, "a", a(func(m *Member) any { return m.Host }), "localhost", map[string]any{"x": "localhost"}, ""})
	}
	const base = "worker.list=lb s\nworker.lb.type=lb\nworker.lb.balance_workers=a b\nworker.s.type=status\nworker.c.port=1\n"
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.name] = true
		key := "worker." + r.of + "." + r.name
		if r.of == "" {
			key = "worker." + r.name
		}
		if f, _, _ := parse(base + r.with); r.read(f) != r.def {
			t.Errorf("%s is %v by default, want %v", key, r.read(f), r.def)
		}
		for _, value := range slices.Sorted(maps.Keys(r.values)) {
			f, problems, _ := parse(base + r.with + key + "=" + value + "\n")
			if got := r.read(f); got != r.values[value] {
				t.Errorf("%s=%s is %v, want %v\n%s", key, value, got, r.values[value], strings.Join(problems, "\n"))
			}
			deprecated := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, " is deprecated") && strings.Contains(p, r.name) })
			if d := directives()[r.name]; deprecated != (d.old != "") {
				t.Errorf("%s=%s: said to be deprecated: %v", key, value, deprecated)
			}
		}
	}
	for name := range directives() {
		if !seen[name] {
			t.Errorf("no row for %s", name)
		}
	}
}
