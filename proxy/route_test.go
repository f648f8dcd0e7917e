package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/status"
)

// several is a world with two balancers, which share the member b, and member c
// alone. The lb of the harness has a and b.
const several = "worker.lb2.type=lb\nworker.lb2.balance_workers=b,d\nworker.list=lb2,c\n" +
	"worker.d.type=http\nworker.d.host=10.0.1.4\nworker.d.port=8080\n"

// twoLBs runs f in a world with the workers lb (a, b), lb2 (b, d) and c.
func twoLBs(t *testing.T, o options, f func(t *testing.T, w *world)) {
	t.Helper()
	o.lines = several + o.lines
	o.members = []string{"a", "b"}
	host := func(w *world, name, ip string) {
		w.members[name] = newFake(w.t, w.net, ip, name, counter)
		if h := o.serve[name]; h != nil {
			w.members[name].handler = h
		}
		w.members[name].start()
	}
	o.lines += "worker.c.type=http\nworker.c.host=10.0.1.3\nworker.c.port=8080\n"
	every(t, o, func(t *testing.T, w *world) {
		host(w, "c", "10.0.1.3")
		host(w, "d", "10.0.1.4")
		f(t, w)
	})
}

// The path is compared in its normal form, and forwarded as it came (mod_jk.md
// 5.4, 5.5, 5.8). What no rule maps is answered by us.
func TestRules(t *testing.T) {
	o := options{rules: `
/app|/*=lb
!/app/static/*=*
!/app/*.gif=lb
-/old/*=lb
/*.jsp=lb2
/one/*=c
/typo/*=nobody
/a/b=c
/a/*=lb2
/a/??=lb
`}
	tests := []struct {
		path   string
		status int
		by     string // members that may serve it
	}{
		{"/app", 200, "ab"},
		{"/app/", 200, "ab"},
		{"/app2", 404, ""},
		{"/app/static/x.css", 404, ""},
		{"/app/a/b.gif", 404, ""},
		{"/old/x", 404, ""},
		{"/t.jsp", 200, "bd"},
		{"/t.jsp?x=/app/", 200, "bd"},
		{"/a/b", 200, "c"},
		{"/a/bc", 200, "ab"},
		{"/a/bcd", 200, "bd"},
		{"/app/./x", 200, "ab"},
		{"//app///x", 200, "ab"},
		{"/app/../old", 404, ""},
		{"/app;v=1/x", 200, "ab"},
		{"/app/%78%2e%2e", 200, "ab"},
		{"/one/%C3%A4?q=%2F&&", 200, "c"},
		{"/app/static/../x", 200, "ab"},
		{"/../x", 400, ""},
		{"/app/%00", 400, ""},
		{"/app/..%3B/one/x", 400, ""},
		{"/app/..;/one/x", 200, "c"}, // CVE-2018-11759: it is /one/x
		{"/typo/x", 500, ""},
	}
	twoLBs(t, o, func(t *testing.T, w *world) {
		for _, tt := range tests {
			a := w.get(tt.path, "")
			switch {
			case a.status != tt.status:
				t.Errorf("GET %s = %d, want %d", tt.path, a.status, tt.status)
			case a.status == 200 && !strings.Contains(tt.by, a.member):
				t.Errorf("GET %s was served by %q, want one of %q", tt.path, a.member, tt.by)
			case a.status == 200 && a.body != "GET "+tt.path+" ":
				t.Errorf("GET %s reached its member as %q", tt.path, a.body)
			}
		}
		for _, word := range []string{`"failure":"unmapped"`, `"failure":"path"`, `"failure":"no-worker"`} {
			if !strings.Contains(w.lastAccess(), word) {
				t.Errorf("the access log has no %s", word)
			}
		}
	})
}

// "*" is not mapped (mod_jk.md 5.5), not even by a rule for everything: the proxy
// answers itself, as Apache httpd does in front of mod_jk.
func TestAsteriskIsNotMapped(t *testing.T) {
	one(t, options{rules: "/*=lb\n"}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
		if a, err := c.hear("OPTIONS"); err != nil || a.status != 200 || a.header.Get("Allow") == "" {
			t.Errorf("OPTIONS * = %d %v, %v; want 200 and Allow", a.status, a.header, err)
		}
		for name, m := range w.members {
			if got := m.requests(); len(got) > 0 {
				t.Errorf("member %s got %q", name, got)
			}
		}
	})
}

// A worker that is no balancer is tried by every request, also while it fails, and
// is used the moment it is back (mod_jk.md 3.9).
func TestSingleWorker(t *testing.T) {
	twoLBs(t, options{rules: "/*=c\n"}, func(t *testing.T, w *world) {
		if a := w.get("/", "s.b"); a.member != "c" {
			t.Errorf("a session of another worker's member went to %q", a.member)
		}
		w.members["c"].kill()
		for range 3 {
			if a := w.get("/", ""); a.status != 503 {
				t.Errorf("without its server: %d, want 503", a.status)
			}
		}
		w.members["c"].start()
		if a := w.get("/", ""); a.member != "c" {
			t.Errorf("back again: %d by %q, want c", a.status, a.member)
		}
	})
}

// A member of two balancers fails for each on its own, and is one server to both
// (mod_jk.md 3.12).
func TestMemberOfTwoBalancers(t *testing.T) {
	o := options{rules: "/two/*=lb2\n/*=lb\n", lines: "worker.b.fail_on_status=500\n", serve: map[string]handler{
		"b": func(m *fake, c *memberConn, r *http.Request) bool {
			if r.URL.Path == "/bad" {
				c.say("HTTP/1.1 500 Bad\r\nX-Member: b\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			return counter(m, c, r)
		},
	}}
	twoLBs(t, o, func(t *testing.T, w *world) {
		if a := w.get("/two/x", "s.b"); a.member != "b" {
			t.Fatalf("served by %q", a.member)
		}
		if a, err := w.do("POST", "/bad", "s.b", nil); err != nil || a.status != 503 {
			t.Fatalf("POST = %d, %v; want 503", a.status, err)
		}
		states := map[string]string{}
		for _, wk := range w.proxy.Snapshot().Workers {
			for _, m := range wk.Members {
				states[wk.Name+" "+m.Name] = m.State
				if m.Name == "b" && m.Open != 1 {
					t.Errorf("%s sees %d connections to b, want the only one", wk.Name, m.Open)
				}
			}
		}
		if states["lb b"] != "ERR" || states["lb2 b"] != "OK" {
			t.Errorf("states %v, want b in error for lb alone", states)
		}
		if a := w.get("/two/x", "s.b"); a.member != "b" {
			t.Errorf("a session behind the other balancer went to %q", a.member)
		}
		if a := w.get("/", "s.b"); a.member != "a" {
			t.Errorf("a session behind this balancer went to %q, want a", a.member)
		}
	})
}

// Workers are shown in the order of worker.list, and each with its members.
func TestSnapshotOfSeveralWorkers(t *testing.T) {
	one(t, options{lines: "worker.lb2.type=lb\nworker.lb2.balance_workers=b\nworker.list=lb2,c\n", rules: "/*=lb\n"}, func(t *testing.T, w *world) {
		synctest.Wait() // until the proxy serves
		var got []string
		for _, wk := range w.proxy.Snapshot().Workers {
			got = append(got, fmt.Sprintf("%s: %s %q %d", wk.Name, wk.Type, wk.Method, len(wk.Members)))
		}
		want := []string{`lb: lb "Request" 3`, `lb2: lb "Request" 1`, `c: http "" 1`}
		if !slices.Equal(got, want) {
			t.Errorf("workers %q, want %q", got, want)
		}
	})
}

// E13: a rule's reply_timeout wins over the worker's, in both directions.
func TestReplyTimeoutOfARule(t *testing.T) {
	slow := func(m *fake, c *memberConn, _ *http.Request) bool {
		time.Sleep(3 * time.Second)
		return c.reply(m, "")
	}
	o := options{
		members: []string{"a"}, serve: map[string]handler{"a": slow}, lines: "worker.a.reply_timeout=2000\n",
		rules: "/poll/*=lb;reply_timeout=60000\n/ever/*=lb;reply_timeout=0\n/own/*=lb;reply_timeout=-1\n/quick/*=lb;reply_timeout=1000\n/*=lb\n",
	}
	every(t, o, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			path   string
			status int
			after  time.Duration
		}{
			{"/poll/x", 200, 3 * time.Second},
			{"/ever/x", 200, 3 * time.Second},
			{"/own/x", 504, 2 * time.Second},
			{"/quick/x", 504, time.Second},
			{"/x", 504, 2 * time.Second},
		} {
			begun := time.Now()
			a := w.post(tt.path, "", "")
			if took := time.Since(begun); a.status != tt.status || took < tt.after || took > tt.after+tt.after/8+time.Second/10 {
				t.Errorf("POST %s = %d after %v, want %d after %v", tt.path, a.status, took, tt.status, tt.after)
			}
		}
	})
}

// mod_jk.md 5.6: what a rule sets for its requests.
func TestExtensions(t *testing.T) {
	bad := func(m *fake, c *memberConn, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/bad") {
			c.say("HTTP/1.1 500 Bad\r\nX-Member: %s\r\nContent-Length: 0\r\n\r\n", m.name)
			return true
		}
		return counter(m, c, r)
	}
	o := options{
		serve: map[string]handler{"a": bad, "b": bad, "c": bad},
		lines: "worker.a.fail_on_status=404\nworker.c.activation=disabled\nworker.c.route=third\n",
		rules: `
/ignore/*=lb;sticky_ignore=1
/fos/*=lb;fail_on_status=-500
/health=lb;stateless=1;active=c;stopped=a,b
/a-off/*=lb;disabled=a
/own/*=lb;session_cookie=MINE;session_path=;mine
/*=lb
`,
	}
	every(t, o, func(t *testing.T, w *world) {
		by := map[string]int{}
		for range 10 {
			by[w.get("/ignore/", "s.b").member]++
		}
		if by["a"] != 5 || by["b"] != 5 {
			t.Errorf("sticky_ignore: requests of a session went to %v", by)
		}
		if a := w.post("/fos/bad", "s.b", ""); a.status != 503 {
			t.Errorf("fail_on_status: %d, want 503", a.status)
		}
		if m := w.member("b"); m.State != "OK" {
			t.Errorf("after a soft fail_on_status b is %s", m.State)
		}
		if a := w.post("/bad", "s.b", ""); a.status != 500 {
			t.Errorf("another rule: %d, want 500", a.status)
		}
		before := w.member("c").NewSessions
		for _, session := range []string{"", "s.a", "s.b", "s.third"} {
			if a := w.get("/health", session); a.member != "c" {
				t.Errorf("active=c;stopped=a,b: session %q went to %q", session, a.member)
			}
		}
		if n := w.member("c").NewSessions - before; n != 0 {
			t.Errorf("stateless: %d new sessions were counted", n)
		}
		for _, tt := range [][2]string{{"s.a", "a"}, {"", "b"}, {"", "b"}} {
			if a := w.get("/a-off/", tt[0]); a.member != tt[1] {
				t.Errorf("disabled=a: session %q went to %q, want %q", tt[0], a.member, tt[1])
			}
		}
		for range 3 {
			if a := w.get("/own/x;mine=s.b", "s.a"); a.member != "b" {
				t.Errorf("session_path: went to %q, want b", a.member)
			}
			r, _ := http.NewRequest(http.MethodGet, "http://"+proxyAddr+"/own/", nil)
			r.Header.Set("Cookie", "JSESSIONID=s.a; MINE=s.b")
			if a, err := w.send(r); err != nil || a.member != "b" {
				t.Errorf("session_cookie: went to %q, %v; want b", a.member, err)
			}
		}
	})
}

// A member that the file makes unusable is not made usable by a rule.
func TestActiveDoesNotRaiseTheDead(t *testing.T) {
	file := parseWorkers(t, "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a,b\n"+
		"worker.a.type=http\nworker.a.host=10.0.1.1\nworker.a.port=0\nworker.b.type=http\nworker.b.host=10.0.1.2\nworker.b.port=8080\n")
	one(t, options{members: []string{"a", "b"}, without: []string{"a"}, rules: "/*=lb;active=a\n", config: func(c *proxy.Config) { c.Workers = file }}, func(t *testing.T, w *world) {
		if a := w.get("/", "s.a"); a.member != "b" || len(w.member("a").LastError) > 0 {
			t.Errorf("%d by %q, want b without a try of a", a.status, a.member)
		}
	})
}

// What is wrong in a rule is an error that names its line.
func TestRuleErrors(t *testing.T) {
	file := parseWorkers(t, oneMember+"worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\n")
	for text, want := range map[string]string{
		"/a=lb\n/x=lb;session_cookie=a b\n": "uriworkermap.properties:2: /x: ",
		"/x=lb;session_path=a/b\n":          "uriworkermap.properties:1: /x: ",
	} {
		if _, err := proxy.New(proxy.Config{Workers: file, URIMap: parseRules(t, text)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New with %q: %v, want %q…", text, err, want)
		}
	}
	if _, err := proxy.New(proxy.Config{Workers: file, Newcomers: "a"}); err == nil || !strings.Contains(err.Error(), `no worker "a" of type lb`) {
		t.Errorf("New with Newcomers a: %v", err)
	}
}

// What gossip says of a route holds in all balancers, and newcomers join the one
// that is set.
func TestGossipWithSeveralBalancers(t *testing.T) {
	o := options{rules: "/two/*=lb2\n/*=lb\n", config: func(c *proxy.Config) { c.Newcomers = "lb2" }}
	twoLBs(t, o, func(t *testing.T, w *world) {
		nodes := []proxy.Member{nodeA, nodeB, node("d", "10.0.1.4:8080", 1)}
		w.proxy.SetMembers(nodes)
		nodes[1].State = proxy.Draining
		w.proxy.SetMembers(nodes)
		for _, wk := range w.proxy.Snapshot().Workers {
			for _, m := range wk.Members {
				if want := map[string]string{"a": "running", "b": "draining", "d": "running"}[m.Name]; m.Phase != want {
					t.Errorf("%s: member %s is %q, want %q", wk.Name, m.Name, m.Phase, want)
				}
			}
		}
		e := newFake(t, w.net, "10.0.1.5", "e", counter)
		e.start()
		w.members["e"] = e
		w.proxy.SetMembers(append(nodes, node("e", "10.0.1.5:8080", 1)))
		if a := w.get("/two/", "s.e"); a.member != "e" {
			t.Errorf("a newcomer's session behind lb2 went to %q", a.member)
		}
		if a := w.get("/", "s.e"); a.member == "e" {
			t.Error("the newcomer is behind lb too")
		}
		// b is gone: probed once, in error for both; back: usable for both at once.
		w.members["b"].kill()
		w.proxy.SetMembers([]proxy.Member{nodes[0], nodes[2]})
		synctest.Wait()
		if got := w.states("b"); !slices.Equal(got, []string{"ERR", "ERR"}) {
			t.Errorf("b is gone: %q", got)
		}
		w.members["b"].start()
		w.proxy.SetMembers([]proxy.Member{nodes[0], node("b", "10.0.1.2:8080", 2), nodes[2]})
		if got := w.states("b"); !slices.Equal(got, []string{"OK/IDLE", "OK/IDLE"}) {
			t.Errorf("b is back: %q", got)
		}
	})
}

// Without a setting a newcomer joins none of several balancers, and that is said.
func TestNewcomerWithoutABalancer(t *testing.T) {
	twoLBs(t, options{http: true, rules: "/two/*=lb2\n/*=lb\n"}, func(t *testing.T, w *world) {
		synctest.Wait() // until the proxy serves
		for range 2 {
			w.proxy.SetMembers([]proxy.Member{node("e", "10.0.1.5:8080", 1)})
		}
		for _, wk := range w.proxy.Snapshot().Workers {
			if slices.ContainsFunc(wk.Members, func(m status.Member) bool { return m.Name == "e" }) {
				t.Errorf("%s has it", wk.Name)
			}
		}
		if n := strings.Count(w.log.String(), `"member has no worker"`); n != 1 {
			t.Errorf("it was said %d times, want 1", n)
		}
	})
}

// states returns the state of a member in each worker that has it.
func (w *world) states(name string) []string {
	var all []string
	for _, wk := range w.proxy.Snapshot().Workers {
		for _, m := range wk.Members {
			if m.Name == name {
				all = append(all, m.State)
			}
		}
	}
	return all
}

// What is not mapped is answered whatever the method, and its body is no reason to
// end the connection.
func TestUnmappedBody(t *testing.T) {
	one(t, options{rules: "/app/*=lb\n"}, func(t *testing.T, w *world) {
		c := w.raw()
		for range 2 {
			c.say("POST /other HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
			if a, err := c.hear("POST"); err != nil || a.status != 404 || a.close {
				t.Fatalf("POST = %d, %v, close %v; want 404 on a kept connection", a.status, err, a.close)
			}
		}
	})
}
