package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files below a new directory and returns it.
func write(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCheckHTTPD: what an httpd's configuration amounts to is printed, checked, and
// explained.
func TestCheckHTTPD(t *testing.T) {
	dir := write(t, map[string]string{
		"apache2.conf": "Include mods-enabled/*.conf\nIncludeOptional sites-enabled/*.conf\n",
		"mods-enabled/jk.conf": "<IfModule jk_module>\nJkWorkersFile workers.properties\nJkLogFile x\n" +
			"JkOptions +RejectUnsafeURI\n</IfModule>\n",
		"workers.properties": "worker.list=shop,api\nworker.shop.type=http\nworker.shop.host=127.0.0.1\nworker.shop.port=8081\nworker.shop.secret=$(ServerRoot)\n" +
			"worker.api.type=http\nworker.api.host=127.0.0.1\nworker.api.port=8082\n",
		"sites-enabled/shop.conf": "<VirtualHost *:80>\nServerName shop.test\nJkMount /* shop\nJkUnMount /static/* *\n</VirtualHost>\n" +
			"<VirtualHost *:80>\nServerName api.test\nJkMountFile api.properties\n</VirtualHost>\n",
		"api.properties": "/v1/*=api\n",
	})
	conf := filepath.Join(dir, "apache2.conf")
	out, _, err := command(t, "check", "--httpd", conf, "--explain", "http://api.test/v1/x")
	if err != nil {
		t.Fatalf("check: %v\n%s", err, out)
	}
	for _, want := range []string{
		"jk.conf:3: warning: JkLogFile: events go to standard error",
		"# ---- workers.properties ----\nworker.list=shop,api\n",
		"shop.conf:3\n/*=shop\n", "api.properties:1\n/api.test/v1/*=api\n",
		"\n# proxy serve --workers=workers.properties --urimap=uriworkermap.properties --map-hosts=api.test --reject-unsafe\n",
		"worker api is a single server: 127.0.0.1:8082\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for uri, want := range map[string]string{
		"http://api.test/x":         "/x: 404, not mapped, no rule matches\n",
		"http://shop.test/static/x": "/static/x: 404, not mapped, excluded\n",
		"http://other.test/x":       "worker shop is a single server",
		"http://api.test/v1/a%25":   "404, not mapped, it has a '%'",
	} {
		if out, _, err := command(t, "check", "--httpd", conf, "--explain", uri); err != nil || !strings.Contains(out, want) {
			t.Errorf("--explain %s: %v, it does not say %q:\n%s", uri, err, want, out)
		}
	}
	// What it prints are files that serve as well.
	section := func(name string) string {
		_, text, _ := strings.Cut(out, "# ---- "+name+" ----\n")
		text, _, _ = strings.Cut(text, "# ---- ")
		return text
	}
	printed := write(t, map[string]string{"w": section("workers.properties"), "u": section("uriworkermap.properties")})
	again, _, err := command(t, "check", "--workers", filepath.Join(printed, "w"), "--urimap", filepath.Join(printed, "u"), "--map-hosts", "api.test", "--explain", "http://api.test/v1/x")
	if err != nil || !strings.Contains(again, "worker api is a single server") {
		t.Errorf("check of the files that are printed: %v\n%s", err, again)
	}
	if out, _, err := command(t, "check", "--httpd", filepath.Join(dir, "none")); err == nil {
		t.Errorf("check of a configuration that is not there: no error\n%s", out)
	}
}
