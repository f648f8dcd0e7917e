package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestRules: uriworkermap.properties spreads paths over two balancers, which share
// a node, and a single server; what no rule maps gets our error page (PLUG-34).
// Nodes that only gossip knows join the balancer that is set.
func TestRules(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	workers := s.file("workers.properties", s.servers("a", "b", "c")+`
worker.list=one,two,c,ghost
worker.ghost.type=http
worker.ghost.host=127.0.0.1
worker.ghost.port=1
worker.one.type=lb
worker.one.balance_workers=a,b
worker.two.type=lb
worker.two.balance_workers=b
worker.c.mount=/healthz
`)
	rules := s.file("uriworkermap.properties", `
/counter|/*=one
/peek=one
!/counter/secret=*
/set=two;sticky_ignore=1
/typo=three
/ghost=ghost
`)
	page := s.file("sorry.html", "<h1>Sorry</h1>\n")
	p := s.proxy(workers, true, "--urimap", rules, "--newcomers", "two", "--error-page", page, "--error-page", "500="+s.file("500.txt", "five hundred\n"))

	c := s.client(p.listen)
	first := c.Count()
	for range 3 {
		if r := c.Count(); r.Node == "c" || r.Node != first.Node {
			t.Fatalf("%v after %v: want a or b, and the same one", r, first)
		}
	}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/":                {404, "<h1>Sorry</h1>\n"},
		"/counter/secret":  {404, "<h1>Sorry</h1>\n"},
		"/counter/../peek": {307, ""}, // by /peek, to a node that gets the path as it came
		"/%2e%2e/counter":  {400, "<h1>Sorry</h1>\n"},
		"/typo":            {500, "five hundred\n"},
		"/ghost":           {503, "<h1>Sorry</h1>\n"},
		"/healthz":         {200, ""},
	} {
		status, body := ask(t, "http://"+p.listen+path)
		if status != want.status || want.body != "" && body != want.body {
			t.Errorf("GET %s = %d %q, want %d %q", path, status, body, want.status, want.body)
		}
	}
	for _, m := range []string{`understudy_member_in_service{member="b",worker="one"}`, `understudy_member_in_service{member="b",worker="two"}`, `understudy_member_in_service{member="c",worker="c"}`} {
		if metric(t, p.admin, m) != 1 {
			t.Errorf("metric %s is not 1", m)
		}
	}

	// One worker without a server is no reason to send the others' requests elsewhere.
	if status, text := ask(t, "http://"+p.admin+"/readyz"); status != 200 {
		t.Errorf("readyz = %d %q, want 200", status, text)
	}

	// A newcomer joins two, and only it.
	s.add("d")
	s.ready("d")
	stage.Wait(t, "the newcomer is behind two", func() bool {
		return metric(t, p.admin, `understudy_member_in_service{member="d",worker="two"}`) == 1
	})
	if metric(t, p.admin, `understudy_member_in_service{member="d",worker="one"}`) != 0 {
		t.Error("the newcomer is behind one too")
	}
}

// ask gets a page.
func ask(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := quick.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestExplain: proxy check --explain says which rule decides, and who may serve.
func TestExplain(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var servers strings.Builder
	for i, name := range []string{"n1", "n2", "n3"} {
		fmt.Fprintf(&servers, "worker.%s.type=http\nworker.%[1]s.host=::1\nworker.%[1]s.port=808%d\n", name, i+1)
	}
	text := servers.String() + "worker.shop.type=lb\nworker.shop.balance_workers=n1,n2,n3\nworker.n3.activation=d\nworker.list=shop\n"
	workers := file("w.properties", text)
	several := file("several.properties", text+"worker.list=n1\n")
	rules := file("u.properties", "/shop|/*=shop;stopped=n1\n!/shop/static/*=*\n/x=nobody\n/one=n1\n")
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{{
		name: "a rule, its worker, the members",
		args: []string{"--workers", several, "--urimap", rules, "--explain", "http://h/shop/..//shop/x;jsessionid=a.n2?y=1"},
		want: []string{
			"u.properties:3: warning: /x: no worker \"nobody\" in worker.list",
			"worker.shop.balance_workers = n1 n2 n3\n",
			"rules, in the order in which they are tried:\n",
			"is compared as /shop/x\n",
			"u.properties:1: /shop/*=shop;stopped=n1: matches, the first\n",
			"worker shop looks for a session in ;jsessionid= and the cookie JSESSIONID\nthe request names a session of route n2\n" +
				"it goes to the first of these that can be reached:\n" +
				"  1. n2 [::1]:8082, route n2, lbfactor 1, distance 0, which the session names\n" +
				"and not to:\n" +
				"  n1 [::1]:8081, route n1, lbfactor 1, distance 0: it is stopped\n" +
				"  n3 [::1]:8083, route n3, lbfactor 1, distance 0: it is disabled, and gets its own sessions only\n",
		},
	}, {
		name: "an exclusion",
		args: []string{"--workers", several, "--urimap", rules, "--explain", "/shop/static/x.css"},
		want: []string{"u.properties:2: !/shop/static/*=*: excludes from worker shop\n", "/shop/static/x.css: 404, not mapped, excluded\n"},
	}, {
		name: "above the root",
		args: []string{"--workers", several, "--urimap", rules, "--explain", "/../x"},
		want: []string{"/../x goes above the root\n", "/../x: 400, refused"},
	}, {
		name: "an encoded slash",
		args: []string{"--workers", several, "--urimap", rules, "--explain", "/shop/a%2Fb"},
		want: []string{"/shop/a%2Fb: 404, not mapped, it has an encoded slash\n"},
	}, {
		name: "an encoded slash that is allowed",
		args: []string{"--workers", several, "--urimap", rules, "--encoded-slashes", "--explain", "/shop/a%2Fb"},
		want: []string{"/shop/a%2Fb: worker shop;stopped=n1\n"},
	}, {
		name: "an unsafe path that is not wanted",
		args: []string{"--workers", several, "--urimap", rules, "--reject-unsafe", "--explain", "/shop/a%25b"},
		want: []string{"/shop/a%25b: 404, not mapped, it has a '%'"},
	}, {
		name: "nobody",
		args: []string{"--workers", several, "--urimap", rules, "--explain", "/x"},
		want: []string{"500: worker \"nobody\" is not in worker.list\n"},
	}, {
		name: "a single server",
		args: []string{"--workers", several, "--urimap", rules, "--explain", "/one"},
		want: []string{"worker n1 is a single server: [::1]:8081\n"},
	}, {
		name: "without rules",
		args: []string{"--workers", workers, "--explain", "/any"},
		want: []string{"/any: worker shop, there are no rules\n", "  1. n1 [::1]:8081, route n1, lbfactor 1, distance 0, by its share of the load\n"},
	}, {
		name: "a cookie of a member that is disabled, beside one of nobody",
		args: []string{"--workers", workers, "--explain", "/any", "--cookie", "JSESSIONID=x.nobody", "--cookie", "a=b; JSESSIONID=y.n3"},
		want: []string{"names a session of route n3\n", "  1. n3 [::1]:8083, route n3, lbfactor 1, distance 0, which the session names\n  2. n1 "},
	}, {
		name: "a cookie of nobody",
		args: []string{"--workers", workers, "--explain", "http://h?x", "--cookie", "JSESSIONID=x"},
		want: []string{"/?x: worker shop", "the request names a session, but no route that is served here\n", "  1. n1 "},
	}, {
		name: "no path",
		args: []string{"--workers", workers, "--explain", "any thing"}, code: 1,
		want: []string{"is no URI that can be asked for"},
	}, {
		name: "a warning with --strict",
		args: []string{"--workers", several, "--urimap", rules, "--strict", "--explain", "/x"}, code: 1,
		want: []string{"500: worker"},
	}, {
		name: "an error in the rules",
		args: []string{"--workers", workers, "--urimap", file("bad.properties", "/*=shop\nworker.x.y=z\n")}, code: 1,
		want: []string{"bad.properties:2: error: worker.x.y: belongs into workers.properties"},
	}, {
		name: "an error between the files",
		args: []string{"--workers", file("two.properties", text+"worker.list=lb2\nworker.lb2.type=lb\nworker.lb2.balance_workers=n1\n")}, code: 1,
		want: []string{"two.properties:", "without a uriworkermap all paths go to one"},
	}, {
		name: "a file that is not there",
		args: []string{"--workers", workers, "--urimap", filepath.Join(dir, "none")}, code: 255,
		want: []string{"proxy: --urimap: open "},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, "check", binaries.Proxy, append([]string{"check"}, tt.args...)...)
			code := p.Wait()
			out := p.Output()
			if code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			for _, w := range tt.want {
				if !strings.Contains(out, w) {
					t.Errorf("it does not say %q:\n%s", w, out)
				}
			}
		})
	}
}
