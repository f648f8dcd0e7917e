package oracle

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// httpdHosts is the part of a configuration that proxy check translates in
// TestTranslation: everything by which mod_jk can be told who gets what.
const httpdHosts = `
Define APP app
JkWorkerProperty worker.w3.retries=1
JkMount /main|/* w3
JkUnMount /main/static/* w3
IncludeOptional "%[1]s/none-*.conf"
<VirtualHost *>
ServerName first.test
JkMount /${APP}|/* \
  w1
JkMount "/*.jsp" 'w2'
JkUnMount /app/static/* *
JkUnMount /*.gif w2
<Location /status>
JkMount w3
</Location>
</VirtualHost>
<VirtualHost *>
ServerName second.test
ServerAlias also.test
JkMountCopy On
JkMount /app/* w2
JkMount /app/xy w1
</VirtualHost>
<VirtualHost *>
ServerName third.test
JkMountFile "%[1]s/third.properties"
JkMount /app/* w3
JkMount /a/? w3
<IfModule mod_rewrite.c>
JkMount /app/only-with-rewrite w1
</IfModule>
<IfModule mod_jk.c>
JkMount /b/* w2
</IfModule>
</VirtualHost>
<VirtualHost *>
ServerName copy.test
JkMountCopy On
</VirtualHost>
`

// TestTranslation: what proxy check makes of an httpd's configuration maps each path
// of each host to the worker that httpd with mod_jk maps it to.
func TestTranslation(t *testing.T) {
	needApache(t)
	names := []string{"w1", "w2", "w3"}
	packets := map[string]int{}
	workers := &scenario{}
	for _, name := range names {
		packets[name] = smallestPacket
		workers.set(name, "retries", 1)
	}
	workers.set("", "list", strings.Join(names, ","))
	c := newCast(t, names, packets)
	dir := directory(t)
	file(t, filepath.Join(dir, "workers.properties"), workers.workersFile(c))
	file(t, filepath.Join(dir, "uriworkermap.properties"), "/shared/*=w2\n!/shared/no/*=w2\n")
	file(t, filepath.Join(dir, "third.properties"), "/app/*=w1\n/a*=w2\n!/a/secret=*\n-/b/*=w3\n")
	jk := apache(t, dir, fmt.Sprintf(httpdHosts, dir))
	defer jk.stop()

	check := stage.Start(t, stage.Command{Name: "check", Binary: binaries.Proxy, Args: []string{"check", "--httpd", filepath.Join(dir, "httpd.conf")}})
	if code := check.Wait(); code != 0 {
		t.Fatalf("check ends with %d:\n%s", code, check.Output())
	}
	section := func(name string) string {
		_, text, _ := strings.Cut(check.Output(), "# ---- "+name+" ----\n")
		text, _, _ = strings.Cut(text, "# ---- ")
		return text
	}
	own := directory(t)
	file(t, filepath.Join(own, "workers.properties"), section("workers.properties"))
	file(t, filepath.Join(own, "uriworkermap.properties"), section("uriworkermap.properties"))
	var flags []string
	for word := range strings.FieldsSeq(section("to serve it")) {
		if strings.HasPrefix(word, "--map-hosts=") {
			flags = append(flags, word)
		}
	}
	if len(flags) == 0 {
		t.Errorf("check names no hosts:\n%s", check.Output())
	}
	ours := understudyWith(t, own, flags...)
	defer ours.stop()

	d := dice{rand.New(rand.NewPCG(1, 0x4774))}
	s := &scenario{members: names, rules: []string{
		"/app|/*=", "/*.jsp=", "/app/static/*=", "/*.gif=", "/status=", "/main|/*=", "/main/static/*=", "/app/xy=", "/a/?=", "/b/*=", "/a*=",
		"/a/secret=", "/shared/*=", "/shared/no/x=", "/app/only-with-rewrite=", "/first.test/app/x=",
	}}
	mapped := 0
	for range 900 {
		host := pick(d, "first.test", "second.test", "also.test", "third.test", "copy.test", "unknown.test", "THIRD.test:80")
		r := &request{method: "GET", target: s.target(d), fields: []field{{"Host", host}}}
		who := func(f *front) string {
			c.begin(t, nil)
			reply, err := f.ask(r)
			attempts := c.end()
			switch {
			case err != nil:
				t.Fatalf("%s: %v: %v", f.Name, r, err)
			case len(attempts) > 0:
				return attempts[len(attempts)-1].member
			case reply.status == 400 || reply.status == 404:
				return "nobody"
			}
			return fmt.Sprint("nobody, ", reply.status)
		}
		theirs, we := who(jk), who(ours)
		if theirs != we && (strings.ContainsAny(r.target, `\`) || strings.Contains(strings.ToLower(r.target), "%")) && we == "nobody" {
			continue // servers read it in different ways: docs/deviations.md; the rules are compared by TestMapping
		}
		if theirs != we {
			t.Errorf("%s to %s goes to %s, and with mod_jk to %s", r.target, host, we, theirs)
		}
		if we != "nobody" {
			mapped++
		}
	}
	if mapped < 150 {
		t.Errorf("only %d of 900 requests are mapped: hardly a test", mapped)
	}
	if t.Failed() {
		t.Logf("%s", check.Output())
	}
}
