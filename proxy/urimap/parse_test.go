package urimap

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// wantProblems checks all problems of a map.
func wantProblems(t *testing.T, m *Map, want ...string) {
	t.Helper()
	var got []string
	for _, p := range m.Problems {
		got = append(got, p.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems of %q:\n%s\nwant:\n%s", m.String(), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOrder has the order of 10.1, and of 5.3.
func TestOrder(t *testing.T) {
	tests := []struct {
		rules string
		want  []string
	}{{
		rules: "/shop|/*=shoplb\n/*.jsp=shoplb\n/*.do = shoplb\n!/*.gif=shoplb\n!/*.css=shoplb\n!/shop/static|/*=*\n/jkstatus=jkstatus\n",
		want: []string{
			"!/shop/static/*=*", "!/shop/static=*", "/shop/*=shoplb", "/jkstatus=jkstatus", "/*.jsp=shoplb",
			"!/*.gif=shoplb", "!/*.css=shoplb", "/shop=shoplb", "/*.do=shoplb",
		},
	}, {
		rules: "/a/?=1\n/a/b=2\n/?/b=3\n-/a/c/d=4\n",
		want:  []string{"-/a/c/d=4", "/a/b=2", "/a/?=1", "/?/b=3"},
	}}
	for _, tt := range tests {
		var got []string
		for _, r := range parse(t, tt.rules, Config{}).Rules {
			got = append(got, r.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Rules of %q are %q, want %q", tt.rules, got, tt.want)
		}
	}
}

// TestRules has the lines of mod_jk.md 1.1, 5.1, 5.2 and 5.6: what they become, and
// what is said of them.
func TestRules(t *testing.T) {
	const at = "uriworkermap.properties:"
	tests := []struct {
		name     string
		text     string
		want     []string // rules in the order of the table
		problems []string // without the file's name
	}{{
		name: "properties.Blanks, CRLF and tabs (10.6)",
		text: "  /*\t= lb \r\n\t/a|/* =w# comment\r\n",
		want: []string{"/a/*=w", "/a=w", "/*=lb"},
		problems: []string{
			"2: /a|/*: '#' begins a comment, also in the middle of a pattern or a value",
		},
	}, {
		name: "lines without a name, a value or '='",
		text: "=w\n/x=\nnot a rule\n# /x=w\n\n/y=w # =\n",
		want: []string{"/y=w"},
		problems: []string{
			"1: no pattern before '=': the line is ignored",
			"2: /x: no value, so the line is ignored; nothing can be set to the empty string",
			`3: no '=' in "not a rule": the line is ignored`,
		},
	}, {
		name: "the first '=' splits, '#' cuts anywhere",
		text: "/a=b=c\n/x#y=w\n",
		want: []string{"/a=b=c"},
		problems: []string{
			`2: no '=' in "/x": the line is ignored`,
		},
	}, {
		name: "no continued lines",
		text: "/a=w\\\n/b=w\n",
		want: []string{`/a=w\`, "/b=w"},
		problems: []string{
			`1: /a: '\' at the end is a part of the value; there are no continued lines`,
		},
	}, {
		name: "a pattern again (D38, 5.1 [T]): the last counts",
		text: "/app/*=w1\n/app/*=w2\n",
		want: []string{"/app/*=w2"},
		problems: []string{
			"2: /app/*: set again, line 1 has no effect any more",
		},
	}, {
		name: "a pattern again in other words (5.1 [T]): both rules exist",
		text: "/app|/*=w1\n/app/*=w2\n",
		want: []string{"/app/*=w1", "/app/*=w2", "/app=w1"},
		problems: []string{
			"2: /app/*: /app/* has no effect, because uriworkermap.properties:1: /app|/* has the same pattern and comes first",
		},
	}, {
		name: "variables (5.1 [T])",
		text: "lb=w1\n/a=$(lb);reply_timeout=$(T)\n/b=$(no)\n/c=$(/a)\n/d=$(later)\nlater=x\n",
		want: []string{"/a=w1;reply_timeout=7000", "/b=$(no)", "/c=w1;reply_timeout=7000", "/d=$(later)"},
		problems: []string{
			"3: /b: $(no) is not defined above in this file, so it stays as it is",
			"5: /d: $(later) is not defined above in this file, so it stays as it is",
			"6: later: does not begin with '/', so this is no rule, and nothing uses it as a variable",
		},
	}, {
		name: "prefixes",
		text: "-/a=w\n!/b=w\n-!/c=w\n!-/d=w\n/w=w\n--/e=w\n",
		want: []string{"-/a=w", "!/b=w", "-!/c=w", "/w=w"},
		problems: []string{
			"4: !-/d: '-' must stand before '!', so this is no rule",
			"6: --/e: does not begin with '/', so this is no rule, and nothing uses it as a variable",
		},
	}, {
		name: "'-' does not switch off an equal rule",
		text: "-/a=w\n/a|/b=w\n",
		want: []string{"/a/b=w", "-/a=w", "/a=w"},
		problems: []string{
			"1: -/a: '-' disables this rule only; uriworkermap.properties:2: /a|/b has the same pattern and is in force",
		},
	}, {
		name: "patterns without '/' at their start (5.2 [T])",
		text: "*.jsp=w\n!*.html=*\napp/*=w\n?x=w\n|/x=w\n-*|y=w\n",
		want: []string{"!/*.html=*", "/*.jsp=w", "-/*y=w", "/x=w", "-/*=w"},
		problems: []string{
			"1: *.jsp: mod_jk refuses a pattern without '/' at its start; it is read as /*.jsp",
			"2: !*.html: mod_jk refuses a pattern without '/' at its start; it is read as /*.html",
			"3: app/*: does not begin with '/', so this is no rule, and nothing uses it as a variable",
			"4: ?x: does not begin with '/', so this is no rule, and nothing uses it as a variable",
			`5: |/x: "" does not begin with '/', so this half is no rule`,
			"6: -*|y: mod_jk refuses a pattern without '/' at its start; it is read as /*|y",
		},
	}, {
		name: "both halves have the prefixes and the extensions",
		text: "-!/a|/*=w\n/b|/*=w;sticky_ignore=1\n",
		want: []string{"-!/a/*=w", "/b/*=w;sticky_ignore=1", "-!/a=w", "/b=w;sticky_ignore=1"},
	}, {
		name: "blanks around ';' (5.6 [T])",
		text: "/x=w ; reply_timeout=1000\n",
		want: []string{"/x=w;reply_timeout=1000"},
		problems: []string{
			"1: /x: blanks around ';' belong to the names beside it in mod_jk; here they are ignored",
		},
	}, {
		name: "unknown and empty extensions",
		text: "/x=w;;foo=1;;reply_timeout;reply_timeout =5;Stateless=1;\n",
		want: []string{"/x=w"},
		problems: []string{
			`1: /x: unknown extension "foo=1", it is ignored`,
			"1: /x: extension reply_timeout has no '=', it is ignored",
			`1: /x: unknown extension "reply_timeout =5", it is ignored`,
			`1: /x: unknown extension "Stateless=1", it is ignored`,
		},
	}, {
		name: "numbers as atoi reads them",
		text: "/a=w;reply_timeout=5m\n/b=w;reply_timeout=x\n/c=w;reply_timeout=-1\n/d=w;reply_timeout= 9999999999\n/e=w;reply_timeout=-\n/f=w;reply_timeout=\n",
		want: []string{
			"/a=w;reply_timeout=5", "/b=w;reply_timeout=0", "/c=w", "/d=w;reply_timeout=2147483647", "/e=w;reply_timeout=0", "/f=w;reply_timeout=0",
		},
		problems: []string{
			`1: /a: reply_timeout: "5m" is not a number; mod_jk makes it 5`,
			"1: /a: reply_timeout: 5 milliseconds, is that meant?",
			`2: /b: reply_timeout: "x" is not a number; mod_jk makes it 0`,
			`5: /e: reply_timeout: "-" is not a number; mod_jk makes it 0`,
			`6: /f: reply_timeout: "" is not a number; mod_jk makes it 0`,
		},
	}, {
		name: "flags: true is 0",
		text: "/a=w;sticky_ignore=true\n/b=w;sticky_ignore=2;stateless=0;set_session_cookie=0\n",
		want: []string{"/a=w", "/b=w;sticky_ignore=1"},
		problems: []string{
			`1: /a: sticky_ignore: "true" is neither 0 nor 1; mod_jk makes it 0`,
			`2: /b: sticky_ignore: "2" is neither 0 nor 1; mod_jk makes it 2`,
		},
	}, {
		name: "repeated extensions: numbers last, others first",
		text: "/a=w;reply_timeout=1000;fail_on_status=500;reply_timeout=2000;fail_on_status=503\n",
		want: []string{"/a=w;reply_timeout=2000;fail_on_status=500"},
		problems: []string{
			"1: /a: extension reply_timeout again: the last counts",
			"1: /a: extension fail_on_status again: the first counts",
		},
	}, {
		name: "lists",
		text: "/a=w;fail_on_status=-404,503 500,,x7;active=a b,c\n/b=w;fail_on_status= , ;active=\n",
		want: []string{"/a=w;active=a,b,c;fail_on_status=-404,503,500,0", "/b=w"},
		problems: []string{
			`1: /a: fail_on_status: "x7" is not a status; mod_jk makes it 0`,
			"2: /b: blanks around ';' belong to the names beside it in mod_jk; here they are ignored",
			"2: /b: fail_on_status: the list is empty, so the worker's counts",
			"2: /b: active: names nobody",
		},
	}, {
		name: "a member in two lists gets the later",
		text: "-/a=w;stopped=c;active=a,b,a;disabled=b,c\n",
		want: []string{"-/a=w;active=a;disabled=b;stopped=c"},
		problems: []string{
			`1: -/a: active: member "b" is named again; of active, disabled and stopped the last counts`,
			`1: -/a: active: member "a" is named again; of active, disabled and stopped the last counts`,
			`1: -/a: disabled: member "c" is named again; of active, disabled and stopped the last counts`,
		},
	}, {
		name: "session_path keeps its ';' (5.6 [T])",
		text: "-/a=w;session_path=;sid;sticky_ignore=1\n-/b=w;session_path=;sticky_ignore=1\n-/c=w;session_path=sid\n-/d=w;session_path=\n",
		want: []string{"-/a=w;sticky_ignore=1;session_path=;sid", "-/b=w;sticky_ignore=1", "-/c=w;session_path=sid", "-/d=w"},
		problems: []string{
			"2: -/b: session_path: there is nothing behind '=', so the worker's counts",
			"4: -/d: session_path: there is nothing behind '=', so the worker's counts",
		},
	}, {
		name: "all extensions that are no lists",
		text: "/a=w;stateless=1;use_server_errors=500;session_cookie=S;session_path=;s;set_session_cookie=1;session_cookie_path=/\n/b=w;disabled=x;stopped=y\n-/c=w;stateless=1\n/d=w;stateless=0;use_server_errors=0;set_session_cookie=0\n",
		want: []string{
			"/a=w;stateless=1;use_server_errors=500;session_cookie=S;session_path=;s;set_session_cookie=1;session_cookie_path=/",
			"/b=w;disabled=x;stopped=y", "-/c=w;stateless=1", "/d=w",
		},
	}, {
		name: "extensions on an exclusion",
		text: "!/a=*;reply_timeout=1000;active=x\n",
		want: []string{"!/a=*"},
		problems: []string{
			"1: !/a: extensions have no effect on an exclusion",
		},
	}, {
		name: "rules that cannot do what they say",
		text: "/a//b=w\n/a/./b=w\n/a/..=w\n/a;x=w\n/a%20b=w\n!/b/=other\n/c=;reply_timeout=0\n/d=*\n/100%=w\n/.../*=w\n",
		want: []string{
			"/a/./b=w", "/a//b=w", "/.../*=w", "/a/..=w", "!/b/=other", "/a%20b=w", "/100%=w", "/a;x=w", "/c=;reply_timeout=0", "/d=*",
		},
		problems: []string{
			"1: /a//b: /a//b can never match: several slashes are one when it is compared",
			`2: /a/./b: /a/./b can never match: "." and ".." are resolved when it is compared`,
			`3: /a/..: /a/.. can never match: "." and ".." are resolved when it is compared`,
			"4: /a;x: /a;x can never match: path parameters are cut off when it is compared",
			"5: /a%20b: /a%20b can never match: paths are decoded when it is compared",
			`6: !/b/: excludes nothing: no rule maps to worker "other"`,
			"7: /c: no worker before ';'; its requests get 500",
			`8: /d: "*" is every worker only in an exclusion; its requests get 500`,
		},
	}, {
		name: "a byte order mark and a zero byte",
		text: "\ufeff/a=w\n/b=w\x00x\n",
		want: []string{"/b=w"},
		problems: []string{
			"1: begins with a byte order mark, which becomes a part of the first pattern",
			"1: \"\\ufeff/a\": does not begin with '/', so this is no rule, and nothing uses it as a variable",
			"2: has a zero byte: nothing behind it is read",
		},
	}}
	env := func(name string) (string, bool) { return "7000", name == "T" }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, tt.text, Config{Getenv: env})
			var got []string
			for _, r := range m.Rules {
				got = append(got, r.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("rules are %q, want %q", got, tt.want)
			}
			for i := range tt.problems {
				tt.problems[i] = at + tt.problems[i]
			}
			wantProblems(t, m, tt.problems...)
		})
	}
}

// TestLongLine: mod_jk reads the tail of a long line as the next one.
func TestLongLine(t *testing.T) {
	m := parse(t, "/a="+strings.Repeat("w", properties.MaxLine-3)+"/b=x\n/c=y\n", Config{})
	wantProblems(t, m, "uriworkermap.properties:1: longer than 8191 bytes: what follows is read as another line")
	for path, line := range map[string]int{"/b": 1, "/c": 2} {
		if r, ok := m.Match([]byte(path), nil); !ok || r.Rule.Line != line {
			t.Errorf("Match(%q) = %v, want line %d", path, r.Outcome, line)
		}
	}
}

// TestWorkers: what rules say of workers, when it is known which there are
// (mod_jk.md 5.6, 5.7, 12). The rules stay.
func TestWorkers(t *testing.T) {
	m := parse(t, `/a=lb;active=n1,zz;sticky_ignore=1
/b=solo;stopped=n1;session_cookie=X;session_path=;x;set_session_cookie=1;session_cookie_path=/;sticky_ignore=1
/c=nobody
/d=LB
/e=n1
-/f=nobody
!/g=*
!/h=lB
`, Config{Workers: []Worker{
		{Name: "lb", Balancer: true, Members: []string{"n1", "n2"}},
		{Name: "solo"},
		{Name: "idle"},
	}})
	const at = "uriworkermap.properties:"
	wantProblems(t, m,
		at+` no rule maps to worker "idle", so it gets no requests`,
		at+`1: /a: balancer "lb" has no member "zz" (the names of workers count, not their routes)`,
		at+`2: /b: stopped: has no effect, because worker "solo" is no balancer`,
		at+`2: /b: session_cookie: has no effect, because worker "solo" is no balancer`,
		at+`2: /b: session_path: has no effect, because worker "solo" is no balancer`,
		at+`2: /b: set_session_cookie: has no effect, because worker "solo" is no balancer`,
		at+`2: /b: session_cookie_path: has no effect, because worker "solo" is no balancer`,
		at+`3: /c: no worker "nobody" in worker.list; its requests get 500`,
		at+`4: /d: no worker "LB" in worker.list; there is "lb"; its requests get 500`,
		at+`5: /e: worker "n1" is a member of a balancer and not in worker.list; its requests get 500`,
		at+`8: !/h: excludes nothing: no rule maps to worker "lB"; there is "lb"`,
	)
	if r, ok := m.Match([]byte("/c"), nil); !ok || r.Worker != "nobody" {
		t.Errorf("Match(/c) = %q, %v, want the worker that does not exist", r.Worker, ok)
	}
	if r, _ := m.Match([]byte("/b"), nil); r.Rule.Extensions.String() != ";sticky_ignore=1" {
		t.Errorf("extensions of a worker that is no balancer are %q, want those that suit it", r.Rule.Extensions.String())
	}
}

// TestErrors: what makes the file useless, and that the good rules are there all
// the same.
func TestErrors(t *testing.T) {
	tests := []struct {
		name string
		text string
		want string
	}{{
		name: "a directive of workers.properties (5.1)",
		text: "/a=w\nworker.list=a\nworker.n1.foo=b\n",
		want: "uriworkermap.properties:2: worker.list: belongs into workers.properties; mod_jk refuses all rules if it does not know the directive (and 1 more)",
	}, {
		name: "a file without end",
		text: "/a=w\n" + strings.Repeat(strings.Repeat("#", 99)+"\n", properties.MaxFile/100+1),
		want: "uriworkermap.properties: the file is larger than 1048576 bytes",
	}, {
		name: "variables that grow",
		text: "/a=w\nv0=" + strings.Repeat("x", 8000) + "\n" + strings.Repeat("v0=$(v0)$(v0)\n", 5),
		want: "uriworkermap.properties:6: v0: the value has more than 65536 bytes",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse("uriworkermap.properties", strings.NewReader(tt.text), Config{})
			if _, ok := errors.AsType[*properties.SyntaxError](err); !ok || err.Error() != tt.want {
				t.Errorf("Parse = %v, want %s", err, tt.want)
			}
			if got := result(m, "/a"); got != "w" {
				t.Errorf("Match(/a) = %s, want w", got)
			}
		})
	}
}

// TestManyProblems: errors are kept when there is no room for more warnings.
func TestManyProblems(t *testing.T) {
	m, err := Parse("f", strings.NewReader(strings.Repeat("x\n", 2*properties.MaxProblems)+"worker.x=1\n"), Config{})
	if err == nil || len(m.Problems) != properties.MaxProblems {
		t.Errorf("Parse = %v with %d problems, want an error and %d", err, len(m.Problems), properties.MaxProblems)
	}
}

// TestReach: rules that never count are warned of (mod_jk.md 12, unreachable rule),
// and no others.
func TestReach(t *testing.T) {
	tests := []struct{ a, b string }{
		{"/a/?*", "/a/b"}, {"/*", "/a"}, {"/*", "/*/*"}, {"/a*c", "/abbc"}, {"/a*b*c", "/a*b?c"}, {"/a**", "/a*"}, {"/?", "/?"}, {"/a*", "/a"}, {"*a*b", "/a/*ab"},
	}
	for _, tt := range tests {
		if !covers(tt.a, tt.b) {
			t.Errorf("covers(%q, %q) = false", tt.a, tt.b)
		}
	}
	for _, tt := range []struct{ a, b string }{
		{"/a/?*", "/a/*"}, {"/a/b", "/a/?"}, {"/a", "/a*"}, {"/?", "/*"}, {"/a*c", "/a*"}, {"/*.jsp", "/a*"}, {"/ab", "/a"}, {"", "/"}, {"/a?", "/a"},
	} {
		if covers(tt.a, tt.b) {
			t.Errorf("covers(%q, %q) = true", tt.a, tt.b)
		}
	}
	m := parse(t, "/a/?*=w\n/a/b=v\n/c/*=w\n!/c/*=*\n/d/x=w\n!/d/*=v\n-/e/?*=w\n/e/f=w\n/www.test/g/?*=w\n/g/h=w\n", Config{Hosts: []string{"www.test"}})
	wantProblems(t, m,
		"uriworkermap.properties:2: /a/b: /a/b never counts: uriworkermap.properties:1: /a/?* comes first and matches all that it does",
		"uriworkermap.properties:3: /c/*: /c/* never maps anything: uriworkermap.properties:4: !/c/* excludes all that it matches",
	)
}
