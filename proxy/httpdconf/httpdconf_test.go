package httpdconf

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// files makes a file system of texts by absolute path.
func files(texts map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, text := range texts {
		m[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// rules returns the lines of a translation that are rules.
func rules(t *Translation) string {
	var b strings.Builder
	for line := range strings.Lines(t.Rules) {
		if line[0] != '#' {
			b.WriteString(line)
		}
	}
	return b.String()
}

const workers = "worker.list=w,v\n"

func TestTranslate(t *testing.T) {
	tests := []struct {
		name     string
		conf     string
		more     map[string]string // further files
		rules    string
		flags    string
		workers  string   // if not that of the file
		problems []string // a part of each, in order
	}{{
		name:  "the main server",
		conf:  "JkMount /a|/* w\njkmount \"/b c/*\" 'w;reply_timeout=5'\nJkUnMount /a/static/* *\nJkMount /a|/* v\n",
		rules: "/b c/*=w;reply_timeout=5\n!/a/static/*=*\n/a|/*=v\n",
		problems: []string{
			"/etc/httpd/httpd.conf:5: JkMount /a|/*: set again, /etc/httpd/httpd.conf:2 has no effect any more",
		},
	}, {
		name:  "a file of rules comes before JkMount, and its patterns win",
		conf:  "JkMountFile conf/map.properties\nJkMountFileReload 5\nJkMount /a/* v\nJkMount /b/* v\n",
		more:  map[string]string{"/etc/httpd/conf/map.properties": "# c\n/a/* = w # x\nvar=1\nnothing\n/c=w\n/c=v\n"},
		rules: "/a/*=w\nvar=1\n/c=v\n/b/*=v\n",
		flags: "--urimap-reload=5s",
	}, {
		name: "continued lines, comments, variables, quotes",
		conf: "Define APP shop\nDefine dir \\\n  /${APP}/${NOT}\n# JkMount /no w\nJkMount ${dir}/* \\\n   w\nJkMount \"/q\\\"x\" w\nUnDefine APP\nJkMount /${APP} w\n" +
			"JkMount /${ENV}/x w\nJkMount /${LOG} w\n",
		more:  map[string]string{"/etc/httpd/envvars": "#!/bin/sh\nexport LOG=/var/log$SUFFIX\nfor i in $x\n"},
		rules: "/shop/${NOT}/*=w\n/q\"x=w\n/${APP}=w\n/env/x=w\n//var/log=w\n",
		problems: []string{
			":3: ${NOT} is not defined", ":10: ${APP} is not defined",
		},
	}, {
		name: "Debian's layout: links of enabled modules and sites",
		conf: "ServerRoot \"/etc/apache2\"\nIncludeOptional mods-enabled/*.load\nIncludeOptional mods-enabled/*.conf\nIncludeOptional none/*\nInclude sites-enabled/\n",
		more: map[string]string{
			"/etc/apache2/mods-enabled/jk.load":   "LoadModule jk_module /usr/lib/apache2/modules/mod_jk.so\n",
			"/etc/apache2/mods-enabled/jk.conf":   "<IfModule mod_jk.c>\nJkMountCopy All\n<Location /jk-status>\nJkMount v\nRequire ip 127.0.0.1\n</Location>\n</IfModule>\n",
			"/etc/apache2/sites-enabled/000.conf": "<VirtualHost *:80>\nServerName www.test\nJkMount /app/* w\n</VirtualHost>\n",
			"/etc/apache2/sites-enabled/.hidden":  "JkMount /hidden w\n",
		},
		rules:    "/app/*=w\n/jk-status=v\n",
		problems: []string{"/etc/apache2/mods-enabled/jk.conf:5: Require of <Location /jk-status>: the proxy lets everybody in"},
	}, {
		name: "virtual hosts with rules of their own",
		conf: "JkMount /main w\n" +
			"<VirtualHost *:80>\nServerName www.test:80\nServerAlias test\nJkMount /*.jsp w\n</VirtualHost>\n" +
			"<VirtualHost *:80>\nServerName https://API.test\nServerAlias *.api.test\nJkMount /|/* v\nJkUnMount /x v\nJkMountCopy On\n</VirtualHost>\n" +
			"<VirtualHost *:80>\nJkMount /nameless w\n</VirtualHost>\n" +
			"<VirtualHost *:80>\nServerName static.test\n</VirtualHost>\n" +
			"<VirtualHost *:443>\nServerName www.test\nServerAlias test\nJkMount /*.jsp w\n</VirtualHost>\n" +
			"<VirtualHost *:443>\nServerName test\nJkMount /tls w\n</VirtualHost>\n",
		rules: "/*.jsp=w\n/api.test/|/*=v\n!/api.test/x=v\n/api.test/main=w\n",
		flags: "--map-hosts=api.test",
		problems: []string{
			":8: ServerAlias *.api.test: rules by host want whole names", ":15: the virtual host has rules, but no ServerName",
			":18: virtual host static.test maps nothing; here its requests go by the rules of /etc/httpd/httpd.conf:3", ":26: test has other rules at /etc/httpd/httpd.conf:3",
		},
	}, {
		name: "rules of the main server that no virtual host has",
		conf: "JkMount /main w\n<VirtualHost *>\nJkMount /a w\n</VirtualHost>\n", rules: "/a=w\n",
		problems: []string{":1: no virtual host has the rules of the main server"},
	}, {
		name: "conditions",
		conf: "Define YES\n<IfDefine YES>\nJkMount /1 w\n</IfDefine>\n<IfDefine !YES>\nJkMount /2 w\n</IfDefine>\n<IfModule !jk_module>\nJkMount /3 w\n</IfModule>\n" +
			"<IfModule mod_rewrite.c>\nServerName x\n<IfModule jk_module>\nJkMount /4 w\n</IfModule>\n</IfModule>\nLoadModule rewrite_module m.so\n<IfModule mod_rewrite.c>\nJkMount /5 w\n</IfModule>\n" +
			"<IfFile httpd.conf>\nJkMount /6 w\n</IfFile>\n<LocationMatch ^/x>\nJkMount w\n</LocationMatch>\n<Directory /var>\nSetHandler jakarta-servlet\n</Directory>\n<Macro m>\nJkMount /7 w\n</Macro>\nUse m\n",
		rules: "/1=w\n/5=w\n/6=w\n",
		problems: []string{
			":7: JkMount is left out: <ifdefine !YES> does not hold", ":10: JkMount is left out: <ifmodule !jk_module> does not hold", ":15: JkMount is left out: <ifmodule mod_rewrite.c> does not hold",
			":26: JkMount is left out: it stands in <locationmatch ^/x>", ":29: SetHandler is left out: it stands in <directory /var>", ":32: JkMount is left out: it stands in <macro m>", ":34: Use: macros are not followed",
		},
	}, {
		name:    "properties within the configuration come first",
		conf:    "JkWorkerProperty worker.v.port=1\nJkWorkerProperty worker.list = x\nJkMount /* w\n",
		rules:   "/*=w\n",
		workers: "# /etc/httpd/httpd.conf:2\nworker.v.port=1\n# /etc/httpd/httpd.conf:3\nworker.list = x\n# /etc/httpd/workers.properties\n" + workers,
	}, {
		name: "what is ours, or nobody's",
		conf: "AllowEncodedSlashes NoDecode\nJkOptions +RejectUnsafeURI -ForwardDirectories\nJkOptions ForwardURIProxy FlushPackets\nJkLogFile logs/x\nJkShmFile x\nJkWatchdogInterval 60\n" +
			"JkEnvVar X\nJkStripSession On ;x\nJkAutoAlias /var\nJkRequestLogFormat \"%w %V\"\nSetEnvIf Request_URI \\.gif$ no-jk\nJkFoo\nRewriteRule ^/a /b [E=JK_ROUTE:x]\nProxyPass /p http://h/\n",
		flags: "--encoded-slashes --reject-unsafe --access-log=-",
		problems: []string{
			":4: JkOptions ForwardURIProxy: paths are forwarded byte for byte", ":4: JkOptions FlushPackets: has no counterpart", ":5: JkLogFile: events go", ":6: JkShmFile", ":7: JkWatchdogInterval",
			":8: JkEnvVar", ":9: JkStripSession", ":10: JkAutoAlias", ":11: JkRequestLogFormat", ":12: SetEnvIf \"Request_URI \\\\.gif$ no-jk\": variables that steer", ":13: JkFoo is not known",
			":14: RewriteRule \"^/a /b [E=JK_ROUTE:x]\": variables that steer", ":15: ProxyPass \"/p http://h/\": is done by httpd",
		},
	}, {
		name:  "mistakes",
		conf:  "JkMount /a\nJkMount a w\n<Location /l>\nJkMount /l w\n</Location>\nJkMount \"/x w\nInclude none.conf\nJkMountFile none\nJkMount /#a w\nJkMountCopy Maybe\nJkWorkerProperty x\n</IfModule>\n<VirtualHost>\nInclude open.conf\n</VirtualHost>\nInclude loop.conf\n",
		more:  map[string]string{"/etc/httpd/loop.conf": "Include loop.conf\n", "/etc/httpd/open.conf": "\n<Location /x>\nJkMount w\n"},
		rules: "/x=w\n",
		problems: []string{
			":2: JkMount: want a path and a worker", ":3: JkMount a: a path begins with", ":5: JkMount: in <Location> of one path", ":7: \"JkMount \\\"/x w\": a quote does not end", ":8: Include /etc/httpd/none.conf: there is no such file",
			":10: JkMount /#a: a rule in a file cannot have", ":11: JkMountCopy Maybe", ":12: JkWorkerProperty x: there is no '='", "</IfModule> ends no section", "open.conf:2: <location> does not end in this file", ":1: no virtual host has the rules of the main server", "loop.conf:1: files include each other more than 16 deep",
		},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			texts := map[string]string{"/etc/httpd/httpd.conf": "JkWorkersFile workers.properties\n" + tt.conf, "/etc/httpd/workers.properties": workers, "/etc/apache2/workers.properties": workers}
			maps.Copy(texts, tt.more)
			// A relative path in the first line is one of the first ServerRoot.
			got, _ := Translate("/etc/httpd/httpd.conf", Config{FS: files(texts), Getenv: func(name string) (string, bool) { return "env", name == "ENV" }})
			if rules := rules(got); rules != tt.rules {
				t.Errorf("rules:\n%s\nwant:\n%s", rules, tt.rules)
			}
			if flags := strings.Join(got.Flags, " "); flags != tt.flags {
				t.Errorf("flags: %s, want: %s", flags, tt.flags)
			}
			if want := tt.workers; got.Workers != want && (want != "" || got.Workers != workers) {
				t.Errorf("workers:\n%s\nwant:\n%s", got.Workers, want)
			}
			wantProblems(t, got.Problems, tt.problems)
		})
	}
}

// wantProblems looks for each of want among all, and for nothing else.
func wantProblems(t *testing.T, all []properties.Problem, want []string) {
	t.Helper()
	for _, p := range all {
		if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(p.String(), w) }) {
			t.Errorf("unexpected: %v", p)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(all, func(p properties.Problem) bool { return strings.Contains(p.String(), w) }) {
			t.Errorf("no problem %q among %v", w, all)
		}
	}
}

// TestBounds: hostile configurations end, with an error that says why.
func TestBounds(t *testing.T) {
	const name = "/c/httpd.conf"
	many := map[string]string{name: "Include d/*\n"}
	for i := range maxFiles + 1 {
		many[fmt.Sprintf("/c/d/%d", i)] = "\n"
	}
	wide := map[string]string{name: "Include */*\n"}
	for i := range maxEntries + 1 {
		wide[fmt.Sprintf("/c/d/x/%d", i)] = ""
		wide[fmt.Sprintf("/c/d%d/y", i)] = ""
	}
	tests := []struct {
		what string
		fs   map[string]string
		want string
	}{
		{"files", many, "more than 1000 files"},
		{"names", wide, "more than 10000 names to look at"},
		{"bytes", map[string]string{name: strings.Repeat("#"+strings.Repeat("x", 100)+"\n", maxText/100)}, "larger than 8388608 bytes"},
		{"sections", map[string]string{name: strings.Repeat("<IfModule jk>\n", maxDepth*4+1)}, "sections in each other"},
		{"rules", map[string]string{name: strings.Repeat("<IfModule jk>\n</IfModule>\n", 2) + manyRules()}, "more than 5000 rules"},
		{"hosts", map[string]string{name: strings.Repeat("<VirtualHost *>\n</VirtualHost>\n", maxServers+1)}, "more than 1000 virtual hosts"},
		{"names of hosts", map[string]string{name: strings.Repeat("ServerAlias"+strings.Repeat(" a", 100)+"\n", 101)}, "more than 10000 names of virtual hosts"},
		{"lines of rules", map[string]string{name: "JkMountCopy All\nJkMountFile m\n" + strings.Repeat("<VirtualHost *>\n</VirtualHost>\n", 20), "/c/m": strings.ReplaceAll(strings.ReplaceAll(manyRules(), "JkMount ", ""), " w", "=w")}, "more than 50000 lines of rules"},
		{"a lot of variables", map[string]string{name: "Define a " + strings.Repeat("x", 8000) + "\n" + strings.Repeat("X ${a}\n", 2000)}, "all text together is larger"},
		{"a long line", map[string]string{name: "JkMount /" + strings.Repeat("x", properties.MaxLine) + " w\n"}, "longer than 8191 bytes"},
		{"variables", map[string]string{name: "Define a " + strings.Repeat("x", 4000) + "\nDefine b ${a}${a}\nJkMount /${b}${b} w\n"}, "bytes with its variables"},
		{"doubling", map[string]string{name: "Define a aa\n" + strings.Repeat("Define a ${a}${a}\n", 60) + "JkMount /${a} w\n"}, "bytes with its variables"},
		{"a directory in place of a file", map[string]string{name: "JkWorkersFile /c\n"}, "it is no file"},
	}
	for _, tt := range tests {
		if _, err := Translate(name, Config{FS: files(tt.fs)}); err == nil || !strings.Contains(fmt.Sprint(problemsOf(err)), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.what, err, tt.want)
		}
	}
}

func manyRules() string {
	var b strings.Builder
	for i := range maxRules + 1 {
		fmt.Fprintf(&b, "JkMount /%d w\n", i)
	}
	return b.String()
}

func problemsOf(err error) []properties.Problem {
	if e, ok := err.(*properties.SyntaxError); ok { //nolint:errorlint // it is not wrapped
		return e.Problems
	}
	return nil
}

// FuzzTranslate: any text ends without a panic, and its rules are lines of the form
// that the file wants.
func FuzzTranslate(f *testing.F) {
	f.Add("JkMount /a|/* w\n", "/b=w\n")
	f.Add("Include m\n<VirtualHost *>\nServerName a.b\nJkMountFile m\n</VirtualHost>\n<VirtualHost *>\nServerName c\nJkMount /x \"w\"\n</VirtualHost>", "-!/x=y\n*.jsp=z\n")
	f.Add("<Location \"/a\">\nJkMount w\n</Location>\nDefine x ${x}\nInclude [*\n", "")
	f.Fuzz(func(t *testing.T, conf, other string) {
		got, _ := Translate("/c/httpd.conf", Config{FS: files(map[string]string{"/c/httpd.conf": conf, "/c/m": other, "/c/workers.properties": ""})})
		for line := range strings.Lines(rules(got)) {
			if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); !ok || key == "" || value == "" {
				t.Errorf("of %q, %q: the line %q is no rule", conf, other, line)
			}
		}
	})
}
