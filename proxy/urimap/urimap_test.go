package urimap

import (
	"strings"
	"testing"
	"time"
)

// parse reads rules that have no errors.
func parse(t testing.TB, rules string, cfg Config) *Map {
	t.Helper()
	m, err := Parse("uriworkermap.properties", strings.NewReader(rules), cfg)
	if err != nil {
		t.Fatalf("Parse(%q): %v", rules, err)
	}
	return m
}

// local is the result of a path that no worker gets, in the words of mod_jk.md.
const local = "local"

// result returns what becomes of a path: the worker, local, or the status.
func result(m *Map, path string) string {
	r, ok := m.Match([]byte(path), nil)
	switch {
	case ok:
		return r.Worker
	case r.Outcome.Status() == 404:
		return local
	}
	return "400"
}

// TestMatch has the vectors [T] of mod_jk.md 5 and 10, and of peers.md 4B.
func TestMatch(t *testing.T) {
	const (
		table = `
/app|/*=lb1;reply_timeout=1000
!/app/static/*=*
!/app/*.gif=lb1
-/old/*=solo
/*.jsp=lb1
/a/b=solo
/a/*=lb1
/a/??=stat
`
		shop = `
/shop|/*=shoplb
/*.jsp=shoplb
/*.do = shoplb
!/*.gif=shoplb
!/*.css=shoplb
!/shop/static|/*=*
/jkstatus=jkstatus
`
		portal = `
# per-application rules
/portal|/*=portal;reply_timeout=60000;fail_on_status=-404,503
/portal/report/*=portal;reply_timeout=0;sticky_ignore=1
/portal/health=portal;stateless=1;active=n3;stopped=n1,n2
/portal/err/*=portal;use_server_errors=500
-/portal/beta/*=portal
!/portal/img/*=portal
-!/portal/img/live/*=portal
`
		dc = `
/*=dc
!/favicon.ico=dc
`
	)
	tests := []struct {
		name  string
		rules string
		want  map[string]string
	}{{
		name:  "5.5 vectors",
		rules: table,
		want: map[string]string{
			"/app": "lb1", "/app/": "lb1", "/app2": local,
			"/app/static/x.css": local, "/app/a/b.gif": local, "/old/x": local,
			"/t.jsp": "lb1", "/app;jsessionid=1/x": "lb1",
			"/a/b": "solo", "/a/bc": "stat", "/a/bcd": "lb1",
			"/app/./x": "lb1", "//app///x": "lb1", "/app/../old": local,
			"/../x": "400", "*": local,
		},
	}, {
		name:  "10.1 old shop file",
		rules: shop,
		want: map[string]string{
			"/shop": "shoplb", "/shop/": "shoplb",
			"/shop/a.gif": local, "/shop/static": local, "/shop/static/a.jsp": local,
			"/other/x.jsp": "shoplb", "/x.do": "shoplb", "/shopping": local,
			"/jkstatus": "jkstatus", "/jkstatus/": local,
		},
	}, {
		name:  "10.2 extensions, disabled rules and exclusions",
		rules: portal,
		want: map[string]string{
			"/portal": "portal", "/portal/report/2024": "portal", "/portal/report": "portal",
			"/portal/health": "portal", "/portal/health;psession=abc.app-paris-2": "portal",
			"/portal/beta/x": "portal", "/portal/img/live/1": local, "/portal/err/1": "portal",
		},
	}, {
		name:  "10.3 everything but one",
		rules: dc,
		want:  map[string]string{"/": "dc", "/x/y": "dc", "/favicon.ico": local, "/favicon.ico/": "dc"},
	}, {
		name:  "5.3 slashes and length, not exactness, decide",
		rules: "/a/b=exact\n/a/?*=wild\n/shop/*=shop\n/*.jsp=jsp\n/shop=x\n",
		want:  map[string]string{"/a/b": "wild", "/shop/x.jsp": "shop", "/shop": "x", "/x.jsp": "jsp"},
	}, {
		name:  "5.3 a tie goes to the exact rule, then to the first",
		rules: "/?b=wild\n/ab=exact\n/x?=one\n/?x=two\n",
		want:  map[string]string{"/ab": "exact", "/xx": "one", "/cb": "wild", "/yx": "two"},
	}, {
		name:  "5.4 the second-best rule does not get what is excluded",
		rules: "/a/*=one\n/*=two\n!/a/x*=one\n!/a/y=two\n",
		want:  map[string]string{"/a/x1": local, "/a/y": "one", "/b": "two"},
	}, {
		name:  "5.2 wildcards match slashes, and any number of them stands anywhere",
		rules: "/*/private/*.pdf=p\n/?????x=q\n/a*b*c*=r\n/**z=s\n/q/*ab*b*=t\n",
		want: map[string]string{
			"/u/private/a/b.pdf": "p", "/u/v/private/.pdf": "p", "/private/a.pdf": local,
			"/ab/cdx": "q", "/acdb": local, "/a1b2c3": "r", "/abcc": "r", "/acb": local, "/z": "s", "/a/zz": "s", "/q/ab": local, "/q/abb": "t", "/q/xabxbx": "t",
		},
	}, {
		name:  "5.2 a second '|' is an ordinary character",
		rules: "/a|/b|c=w\n",
		want:  map[string]string{"/a": "w", "/a/b|c": "w", "/a/b": local},
	}, {
		name:  "5.2 case matters",
		rules: "/App/*=w\n/Exact=w\n",
		want:  map[string]string{"/app/x": local, "/App/x": "w", "/exact": local},
	}, {
		name:  "5.5 the order of the steps (CVE-2018-11759)",
		rules: "/app/*=app\n/manager|/*=manager\n",
		want: map[string]string{
			"/app/..;/manager": "manager", "/app/..;x=y/manager/html": "manager",
			"/app/;/../manager": "manager", "/app/.;a/x": "app", "/;/app/x": "app", "/;x/../manager": "400",
			"/app/%2e%2e/manager": "manager", "/app/%2E%2e;x/manager": "manager", "/%61pp/x": "app",
			"/app/%252e%252e/manager": "app", // members decode once
			"/app/..":                 local, "/app/../..": "400", "/app/x/.": "app", "/app/x/..": "app", "/app/.": "app",
		},
	}, {
		name:  "5.5 what is no path",
		rules: "/*=w\n",
		want: map[string]string{
			"": "400", "x": "400", "http://h/": "400", "%2Fx": "400", "**": "400",
			"/%": "400", "/%4": "400", "/%4g": "400", "/x%00": "400", "/x\x00": "400",
			"/x%2Fy": local, "/x%2fy": local,
		},
	}, {
		name:  "5.5 bytes that servers read in two ways must not matter",
		rules: "/*=w\n!/admin|/*=w\n/*.jsp=w\n/app/*=app\n",
		want: map[string]string{
			"/app/a%3Bb": "app", "/app/%3b/x": "app", `/app/a\b`: "app", "/app/a%5Cb": "app",
			"/admin%3Bx": "400", "/admin%3bx/y": "400", "/x%3B.jsp": "400", "/app/..%3B/admin": "400",
			`/app/..\admin`: "400", "/app/..%5cadmin": "400", `/app/..\..\..\x`: "400", `/\app/x`: "400",
			"/app/;%3B/../x": "w", "/app/;%3B/x": "app",
		},
	}, {
		name:  "B22, B23: bytes beyond ASCII, and dots and slashes",
		rules: "/café/*=w\n/b/c=bc\n/a/b=ab\n",
		want: map[string]string{
			"/café/x": "w", "/caf%C3%A9/x": "w", "/caf%c3%a9/x": "w",
			"/a/../b/./c": "bc", "//a//b": "ab",
		},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, tt.rules, Config{})
			for path, want := range tt.want {
				if got := result(m, path); got != want {
					t.Errorf("Match(%q) = %s, want %s\n%s", path, got, want, m.Explain(path))
				}
			}
		})
	}
}

// TestMatchSettings tests what does not come from the file.
func TestMatchSettings(t *testing.T) {
	const rules = "/app/*=app\n/other/*=other\n/app/x/*=x\n"
	tests := []struct {
		name string
		cfg  Config
		want map[string]Outcome
	}{{
		name: "by default",
		want: map[string]Outcome{
			"/app/a%2Fb": EncodedSlash, "/app/a%5Cb": Mapped, "/app/a%25b": Mapped, `/app/a\b`: Mapped,
		},
	}, {
		name: "encoded slashes are accepted where they make no difference",
		cfg:  Config{EncodedSlashes: true},
		want: map[string]Outcome{
			"/app/a%2Fb": Mapped, "/app/a%2f%2F..%2Fb": Mapped, "/app%2Fa": Ambiguous,
			"/app/..%2Fother/x": Ambiguous, "/app/..%2f..%2f..": Ambiguous, "/app/x%2Fy": Ambiguous,
			"/app/;a%2F../other/x":   Ambiguous, // a parameter "a%2F..", or "a" before "/.."
			"/app/y;a%2Fx":           Mapped,
			"/other/..%2F%3B/app/x/": Ambiguous,
		},
	}, {
		name: "RejectUnsafeURI",
		cfg:  Config{RejectUnsafe: true},
		want: map[string]Outcome{
			"/app/a%25b": Unsafe, "/app/a%5Cb": Unsafe, `/app/a\b`: Unsafe, "/app/a%20b": Mapped, "/app/a%2Fb": EncodedSlash,
		},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, rules, tt.cfg)
			for path, want := range tt.want {
				if got, ok := m.Match([]byte(path), nil); got.Outcome != want || ok != (want == Mapped) {
					t.Errorf("Match(%q) = %v, %v, want %v\n%s", path, got.Outcome, ok, want, m.Explain(path))
				}
			}
		})
	}
}

// TestMatchLong: longer than 4095 bytes is not mapped (mod_jk.md 5.5), and that
// is the length of what is compared.
func TestMatchLong(t *testing.T) {
	m := parse(t, "/*=w\n", Config{})
	a := strings.Repeat("a", maxPath-1)
	tests := []struct {
		path string
		want Outcome
	}{
		{"/" + a, Mapped},
		{"/" + a + "a", TooLong},
		{"//" + a, Mapped},
		{"/" + a + ";" + a, Mapped},
		{"/" + strings.Repeat("%61", maxPath-1), Mapped},
		{"/" + strings.Repeat("%61", maxPath), TooLong},
		{"/" + a + a + "/../" + a, Mapped},
		{"/" + strings.Repeat("x/", 100_000) + strings.Repeat("../", 100_000), Mapped},
	}
	var s Scratch
	for _, tt := range tests {
		if got, _ := m.Match([]byte(tt.path), &s); got.Outcome != tt.want {
			t.Errorf("Match(%.20q…, %d bytes) = %v, want %v", tt.path, len(tt.path), got.Outcome, tt.want)
		}
		if cap(s.buf) > maxScratch {
			t.Errorf("Match(%.20q…, %d bytes) leaves a Scratch of %d bytes, want at most %d", tt.path, len(tt.path), cap(s.buf), maxScratch)
		}
	}
}

// TestRule: a match names its rule and brings that rule's extensions and no others
// (mod_jk.md 10.2).
func TestRule(t *testing.T) {
	m := parse(t, `# per-application rules
/portal|/*=portal;reply_timeout=60000;fail_on_status=-404,503
/portal/report/*=portal;reply_timeout=0;sticky_ignore=1
!/portal/img/*=portal
!/portal/img/a|b=*
!/portal/img|/ab*=portal
`, Config{})
	tests := []struct {
		path    string
		line    int
		pattern string
		timeout time.Duration
		fails   int
		ignore  bool
	}{
		{"/portal", 2, "/portal", time.Minute, 2, false},
		{"/portal/x", 2, "/portal/*", time.Minute, 2, false},
		{"/portal/report/2024", 3, "/portal/report/*", 0, 0, true},
		{"/portal/report", 2, "/portal/*", time.Minute, 2, false},
		{"/portal/img/x", 4, "/portal/img/*", 0, 0, false},
		{"/portal/img/a", 5, "/portal/img/a", 0, 0, false},
		{"/portal/img/ab", 6, "/portal/img/ab*", 0, 0, false},
	}
	for _, tt := range tests {
		got, _ := m.Match([]byte(tt.path), nil)
		r := got.Rule
		if r == nil || r.Line != tt.line || r.Pattern != tt.pattern {
			t.Errorf("Match(%q) is by rule %v, want %s of line %d", tt.path, r, tt.pattern, tt.line)
			continue
		}
		e := r.Extensions
		if e.ReplyTimeout != tt.timeout || e.ReplyTimeoutSet == r.Exclude || len(e.FailOnStatus) != tt.fails || e.StickyIgnore != tt.ignore {
			t.Errorf("Match(%q) brings %s, want reply_timeout %v, %d statuses, sticky_ignore %v", tt.path, &e, tt.timeout, tt.fails, tt.ignore)
		}
	}
}

// TestMounts: rules of mount directives are in the same table, behind equal ones
// of the file (mod_jk.md 5.3, 10.2).
func TestMounts(t *testing.T) {
	m := parse(t, "# line 5 is below\n/*=portal\n\n\n\n/ops/jk=file\n/?x=file\n", Config{Mounts: []Mount{
		{File: "workers.properties", Line: 5, Worker: "jk-watch", Patterns: []string{"/ops/jk", "/ops/jk/*", "/?*", "/ax", "nothing"}},
	}})
	for path, want := range map[string]string{"/ops/jk": "file", "/ops/jk/x": "jk-watch", "/x": "jk-watch", "/": "portal", "/ax": "file"} {
		if got := result(m, path); got != want {
			t.Errorf("Match(%q) = %s, want %s", path, got, want)
		}
	}
	wantProblems(t, m,
		`workers.properties:5: worker.jk-watch.mount: "nothing" does not begin with '/', so it is no rule`,
		"workers.properties:5: /ops/jk: /ops/jk has no effect, because uriworkermap.properties:6: /ops/jk has the same pattern and comes first",
		"workers.properties:5: /ax: /ax never counts: uriworkermap.properties:7: /?x comes first and matches all that it does",
	)
}

// TestHosts: a host that has rules of its own goes by these alone, and no other host
// gets to them by a path that looks like it.
func TestHosts(t *testing.T) {
	m := parse(t, `/*=front
!/www.test/static/*=*
/www.test/*.jsp=a
/www.test/app|/*=b
!/www.test/app/x=b
!/app/y=*
/api.test/*=c
/other.test/*=d
`, Config{Hosts: []string{"WWW.test", "api.test", "none.test"}})
	tests := []struct{ host, path, want string }{
		{"www.test", "/x.jsp", "a"},
		{"www.test", "/static/x.jsp", local},
		{"www.test", "/", local},
		{"www.test", "/app/", "b"},
		{"www.test", "/app/x", local},
		{"www.test", "/app/y", "b"},
		{"www.test", "/other/../x.jsp;a=b", "a"},
		{"WWW.TEST.:8080", "/x.jsp", "a"},
		{"api.test", "/x.jsp", "c"},
		{"api.test", "/www.test/x.jsp", "c"},
		{"none.test", "/", local},
		{"other.test", "/x", "front"},
		{"", "/www.test/x.jsp", "front"},
		{"[::1]:80", "/other.test/x", "d"},
		{strings.Repeat("x", 300), "/", "front"},
	}
	for _, tt := range tests {
		host := []byte(tt.host)
		if got := result(m.For(host), tt.path); got != tt.want {
			t.Errorf("to %q, Match(%q) = %s, want %s\n%s", tt.host, tt.path, got, tt.want, m.Explain("http://"+tt.host+tt.path))
		}
		if n := testing.AllocsPerRun(100, func() { m.For(host) }); n != 0 {
			t.Errorf("For(%q) makes %v allocations, want 0", tt.host, n)
		}
		if e := m.Explain("http://" + tt.host + tt.path); e.Match.Worker != tt.want && tt.want != local {
			t.Errorf("Explain of %q at %q is for %s, want %s", tt.path, tt.host, e.Match.Worker, tt.want)
		}
	}
	wantProblems(t, m, "uriworkermap.properties: no rule begins with /none.test/, so requests to this host are not mapped")
	if !strings.Contains(m.String(), ": !/www.test/app/x=b\n") {
		t.Errorf("the table does not show the host:\n%s", m)
	}
	_, err := Parse("u", strings.NewReader("/*=w\n"), Config{Hosts: []string{"a/b"}})
	if err == nil {
		t.Error("a host with a slash in its name is accepted")
	}
}

// TestNormalise has the steps of mod_jk.md 5.5.
func TestNormalise(t *testing.T) {
	tests := []struct {
		path, want string // want "" for 400
	}{
		{"/", "/"},
		{"/a/b", "/a/b"},
		{"/a/b/", "/a/b/"},
		{"/a;x=1/b;y", "/a/b"},
		{"/a;x;y=/z", "/a/z"},
		{"/;x", "/"},
		{"/a/;x/b", "/a/b"},
		{"//a///b//", "/a/b/"},
		{"/a/.", "/a/"},
		{"/./a/./b", "/a/b"},
		{"/a/../b", "/b"},
		{"/a/b/../../c", "/c"},
		{"/a/..", "/"},
		{"/a/b/..", "/a/"},
		{"/a//../b", "/b"},
		{"/a/..;x/b", "/b"},
		{"/a/.;x/b", "/a/b"},
		{"/...", "/..."},
		{"/.a/..b/c..", "/.a/..b/c.."},
		{"/a%2e%2e/%2e%2e", "/a%2e%2e/%2e%2e"}, // decoding comes before
		{"/..", ""},
		{"/../a", ""},
		{"/a/../..", ""},
		{"/./..", ""},
		{"", ""},
		{"*", ""},
		{"a/b", ""},
		{";/a", ""},
	}
	for _, tt := range tests {
		path := []byte(tt.path)
		got, ok := Normalise(nil, path)
		if ok != (tt.want != "") || ok && string(got) != tt.want {
			t.Errorf("Normalise(%q) = %q, %v, want %q", tt.path, got, ok, tt.want)
		}
		if string(path) != tt.path {
			t.Errorf("Normalise(%q) has made %q of its argument", tt.path, path)
		}
		if got, ok := Normalise(path[:0], path); ok != (tt.want != "") || ok && string(got) != tt.want {
			t.Errorf("Normalise(%q) in place = %q, %v, want %q", tt.path, got, ok, tt.want)
		}
	}
}

// TestOutcomes: every outcome has a text and the status of mod_jk.md 5.4 and 5.5.
func TestOutcomes(t *testing.T) {
	for o, want := range map[Outcome]int{
		Unmapped: 404, Mapped: 0, Excluded: 404, Malformed: 400, Ambiguous: 400, TooLong: 404, EncodedSlash: 404, Unsafe: 404,
	} {
		if got := o.Status(); got != want || strings.HasPrefix(o.String(), "Outcome") {
			t.Errorf("%v.Status() = %d, want %d", o, got, want)
		}
	}
}

// TestExplain: the explanation names what Match says, and why.
func TestExplain(t *testing.T) {
	m := parse(t, `/shop|/*=shoplb;reply_timeout=5000
/*.jsp=shoplb
-/shop/beta/*=other
!/shop/static/*=*
!/*.gif=other
/pics/*=other
`, Config{})
	tests := []struct {
		uri  string
		want string
	}{{
		uri: "http://www.example.org/shop/./x.jsp?y=/pics/z",
		want: `/shop/./x.jsp is compared as /shop/x.jsp
  uriworkermap.properties:3: -/shop/beta/*=other: is disabled
  uriworkermap.properties:1: /shop/*=shoplb;reply_timeout=5000: matches, the first
  uriworkermap.properties:2: /*.jsp=shoplb: matches too, but comes later: fewer slashes, 1 instead of 2
  uriworkermap.properties:4: !/shop/static/*=*: does not exclude
  uriworkermap.properties:5: !/*.gif=other: does not exclude
/shop/./x.jsp: worker shoplb;reply_timeout=5000
`,
	}, {
		uri: "/shop/static/beta.gif",
		want: `/shop/static/beta.gif is in normal form
  uriworkermap.properties:3: -/shop/beta/*=other: is disabled
  uriworkermap.properties:1: /shop/*=shoplb;reply_timeout=5000: matches, the first
  uriworkermap.properties:4: !/shop/static/*=*: excludes from worker shoplb
  uriworkermap.properties:5: !/*.gif=other: matches, but excludes from worker other only
/shop/static/beta.gif: 404, not mapped, excluded
`,
	}, {
		uri: "/x",
		want: `/x is in normal form
  uriworkermap.properties:3: -/shop/beta/*=other: is disabled
  uriworkermap.properties:1: /shop/*=shoplb;reply_timeout=5000: does not match
  uriworkermap.properties:6: /pics/*=other: does not match
  uriworkermap.properties:2: /*.jsp=shoplb: does not match
  uriworkermap.properties:1: /shop=shoplb;reply_timeout=5000: is not equal
/x: 404, not mapped, no rule matches
`,
	}, {
		uri: "/pics%3B/x",
		want: `/pics%3B/x is compared as /pics/x
  uriworkermap.properties:3: -/shop/beta/*=other: is disabled
  uriworkermap.properties:1: /shop/*=shoplb;reply_timeout=5000: does not match
  uriworkermap.properties:6: /pics/*=other: matches, the first
  uriworkermap.properties:4: !/shop/static/*=*: does not exclude
  uriworkermap.properties:5: !/*.gif=other: does not exclude
/pics%3B/x is compared as /pics;/x
  uriworkermap.properties:3: -/shop/beta/*=other: is disabled
  uriworkermap.properties:1: /shop/*=shoplb;reply_timeout=5000: does not match
  uriworkermap.properties:6: /pics/*=other: does not match
  uriworkermap.properties:2: /*.jsp=shoplb: does not match
  uriworkermap.properties:1: /shop=shoplb;reply_timeout=5000: is not equal
/pics%3B/x: 400, refused: servers read it in different ways, and that makes a difference
`,
	}, {
		uri:  "/shop/../..",
		want: "/shop/../.. goes above the root\n/shop/../..: 400, refused: no path, a broken escape, or above the root\n",
	}, {
		uri:  "/%zz",
		want: "/%zz: 400, refused: no path, a broken escape, or above the root\n",
	}, {
		uri: "http://www.example.org",
		want: `/ is in normal form
  uriworkermap.properties:3: -/shop/beta/*=other: is disabled
  uriworkermap.properties:1: /shop/*=shoplb;reply_timeout=5000: does not match
  uriworkermap.properties:6: /pics/*=other: does not match
  uriworkermap.properties:2: /*.jsp=shoplb: does not match
  uriworkermap.properties:1: /shop=shoplb;reply_timeout=5000: is not equal
/: 404, not mapped, no rule matches
`,
	}}
	for _, tt := range tests {
		if got := m.Explain(tt.uri).String(); got != tt.want {
			t.Errorf("Explain(%q) =\n%s\nwant\n%s", tt.uri, got, tt.want)
		}
	}
}

// TestAllocations is the gate of design section 6 for the step from path to worker.
func TestAllocations(t *testing.T) {
	m := hundreds(t, 300)
	tests := []struct {
		name, path, want string
	}{
		{"normal", "/app200/cart/items", "w200"},
		{"exact", "/app200", "w200"},
		{"by suffix", "/other/x.ext7", "e7"},
		{"excluded", "/app200/static/logo.gif", local},
		{"nowhere", "/favicon.ico", local},
		{"parameter", "/app200/cart;jsessionid=0123456789abcdef.n1", "w200"},
		{"escapes", "/app200/caf%C3%A9/./x", "w200"},
		{"dots", "/app1/../app2/x", "w2"},
		{"two readings", "/app200/a%3Bb", "w200"},
		{"ambiguous", "/app200%3B/x", "400"},
		{"above the root", "/../x", "400"},
		{"long", "/app200/" + strings.Repeat("a", 4000), "w200"},
	}
	var s Scratch
	for _, tt := range tests {
		path := []byte(tt.path)
		if got := result(m, tt.path); got != tt.want {
			t.Errorf("%s: Match(%.40q) = %s, want %s", tt.name, tt.path, got, tt.want)
		}
		if n := testing.AllocsPerRun(100, func() { m.Match(path, &s) }); n != 0 {
			t.Errorf("%s: Match(%.40q) makes %v allocations, want 0", tt.name, tt.path, n)
		}
	}
	path := []byte("/a/b/c")
	if n := testing.AllocsPerRun(100, func() { Normalise(nil, path) }); n != 0 {
		t.Errorf("Normalise(%q) makes %v allocations, want 0", path, n)
	}
}

// TestMountHasNoShortcut: '|' in a mount directive is a character (mod_jk.md 2.4 [T]).
func TestMountHasNoShortcut(t *testing.T) {
	m := parse(t, "", Config{Mounts: []Mount{{File: "w.properties", Line: 3, Worker: "jk", Patterns: []string{"/p|/*"}}}})
	for path, want := range map[string]string{"/p": local, "/p/x": local, "/p|/x": "jk"} {
		if got := result(m, path); got != want {
			t.Errorf("Match(%q) = %s, want %s", path, got, want)
		}
	}
	wantProblems(t, m, `w.properties:3: worker.jk.mount: "/p|/*": '|' is a character like others here`)
}
