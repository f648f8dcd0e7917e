package worker

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy/properties"
)

var update = flag.Bool("update", false, "write the golden files")

// env is the environment of the tests.
func env(name string) (string, bool) {
	v, ok := map[string]string{"NODE_HOST": "10.0.0.7", "EMPTY": "", "port": "from the environment"}[name]
	return v, ok
}

// parse returns the file that text is, and its problems as lines.
func parse(text string) (f *File, problems []string, err error) {
	f, err = Parse("w.properties", strings.NewReader(text), env)
	for _, p := range f.Problems {
		problems = append(problems, p.Severity.String()+" "+p.String())
	}
	return f, problems, err
}

// TestGolden resolves the worked examples of mod_jk.md 10, whose results are
// mod_jk's own, and files of ours.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.properties")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := Parse("workers.properties", strings.NewReader(string(text)), env)
			var got strings.Builder
			fmt.Fprintf(&got, "# error: %v\n", err)
			for _, p := range f.Problems {
				fmt.Fprintf(&got, "# %s: %s\n", p.Severity, p)
			}
			fmt.Fprintf(&got, "\n%s", f)
			golden := strings.TrimSuffix(path, ".properties") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("%s differs (go test -update writes it); got\n%s", golden, got.String())
			}
		})
	}
}

// member returns the member of that name, listed or in a balancer.
func (f *File) member(name string) *Member {
	for _, lb := range f.LBs {
		for i := range lb.Members {
			if lb.Members[i].Name == name {
				return &lb.Members[i]
			}
		}
	}
	for _, m := range f.Members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// an ajp worker a, so that every quirk of mod_jk is allowed.
const ajp = "worker.list=a\nworker.a.type=ajp13\n"

// TestGrammar checks the lines and values of mod_jk.md 1, mostly its [T] vectors.
func TestGrammar(t *testing.T) {
	tests := []struct {
		name, text string
		got        func(*File) any
		want       any
		problem    string // in one of the warnings; empty: none is wanted
	}{{
		name: "a backslash continues nothing (1.1)",
		text: "worker.a.port=8010 \\\nworker.a.host=x",
		got:  func(f *File) any { return f.member("a").Address() }, want: "x:8010",
		problem: `w.properties:3: worker.a.port: '\' at the end is a part of the value`,
	}, {
		name: "# cuts inside a value (1.1)",
		text: "worker.a.secret=pa#ss",
		got:  func(f *File) any { return f.member("a").Secret }, want: "pa",
		problem: "w.properties:3: worker.a.secret: '#' begins a comment",
	}, {
		name: "further = belong to the value (1.1)",
		text: "worker.a.secret=s3c=ret",
		got:  func(f *File) any { return f.member("a").Secret }, want: "s3c=ret",
	}, {
		name: "quotes are ordinary (1.1)",
		text: `worker.a.secret="x"`,
		got:  func(f *File) any { return f.member("a").Secret }, want: `"x"`,
	}, {
		name: "CRLF, tabs, form feeds, comments behind values (1.1)",
		text: "\t worker.a.port\t=\v8010\f  # node\r\n",
		got:  func(f *File) any { return f.member("a").Port }, want: 8010,
	}, {
		name: "no = (1.1)",
		text: "worker.a.port 8010",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
		problem: `w.properties:3: no '=' in "worker.a.port 8010": the line is ignored`,
	}, {
		name: "nothing can be set to nothing (1.1)",
		text: "worker.a.secret=x\nworker.a.secret= # none",
		got:  func(f *File) any { return f.member("a").Secret }, want: "x",
		problem: "w.properties:4: worker.a.secret: no value, so the line is ignored",
	}, {
		name: "no name (1.1)",
		text: "=novalue",
		got:  func(f *File) any { return f.List[0] }, want: "a",
		problem: "w.properties:3: no name before '=': the line is ignored",
	}, {
		name: "a long line is split, and its tail is another line (1.1)",
		text: "#" + strings.Repeat("x", properties.MaxLine-1) + "worker.a.port=8010",
		got:  func(f *File) any { return f.member("a").Port }, want: 8010,
		problem: "w.properties:3: longer than 8191 bytes",
	}, {
		name: "a line that just fits is not split",
		text: "#" + strings.Repeat("x", properties.MaxLine-2) + "\nworker.a.port=8010",
		got:  func(f *File) any { return f.member("a").Port }, want: 8010,
	}, {
		name: "a zero byte ends a line",
		text: "worker.a.port=8010\x00x",
		got:  func(f *File) any { return f.member("a").Port }, want: 8010,
		problem: "w.properties:3: has a zero byte",
	}, {
		name: "only the suffix of a name is checked (1.2)",
		text: "worker.template.maintain=30\nworker.a.b.port=1",
		got:  func(f *File) any { return f.Maintain }, want: time.Minute,
		problem: "w.properties:4: worker.a.b: it is defined, but neither listed nor a member",
	}, {
		name: "a worker's name may have dots (1.2)",
		text: "worker.list=g1.x\nworker.g1.x.type=ajp13\nworker.g1.x.port=7",
		got:  func(f *File) any { return f.member("g1.x").Port }, want: 7,
	}, {
		name: "a wrong prefix is a variable (1.2)",
		text: "wrker.a.port=7",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
		problem: `w.properties:3: wrker.a.port: a variable and not a property`,
	}, {
		name: "left-overs are harmless variables (1.2)",
		text: "workers.tomcat_home=/opt/tomcat\nworkers.java_home=/usr\nps=/",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
	}, {
		name: "variables, also other properties (1.3)",
		text: "p=80\nworker.a.port=$(p)10\nworker.a.secret=$(worker.a.port)-$(p)",
		got:  func(f *File) any { return f.member("a").Secret }, want: "8010-80",
	}, {
		name: "the environment comes after the file (1.3)",
		text: "port=7\nworker.a.secret=$(port) $(NODE_HOST)",
		got:  func(f *File) any { return f.member("a").Secret }, want: "7 10.0.0.7",
	}, {
		name: "a variable is not defined below (1.3)",
		text: "worker.a.secret=$(p)\np=1",
		got:  func(f *File) any { return f.member("a").Secret }, want: "$(p)",
		problem: "w.properties:3: worker.a.secret: $(p) is not defined above",
	}, {
		name: "what is inserted is not looked at again (1.3)",
		text: "a=1\nb=$\nc=$(b)(a)\nworker.a.secret=$(c)",
		got:  func(f *File) any { return f.member("a").Secret }, want: "$(a)",
	}, {
		name: "$( without ) stops the scan (1.3)",
		text: "a=1\nworker.a.secret=$(a)$(a",
		got:  func(f *File) any { return f.member("a").Secret }, want: "1$(a",
		problem: `w.properties:4: worker.a.secret: "$(" without ")"`,
	}, {
		name: "21 substitutions (1.3)",
		text: "a=1\nworker.a.secret=" + strings.Repeat("$(a)", 22),
		got:  func(f *File) any { return f.member("a").Secret }, want: strings.Repeat("1", 21) + "$(a)",
	}, {
		name: "names are not substituted (1.3)",
		text: "a=port\nworker.a.$(a)=1\nworker.a.secret=x",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
		problem: `error w.properties:4: worker.a.$(a): unknown directive "$(a)"`,
	}, {
		name: "lists append (1.4)",
		text: "worker.list=b\nworker.a.fail_on_status=500 503\nworker.a.fail_on_status=-404\nworker.b.type=ajp13",
		got:  func(f *File) any { return fmt.Sprint(f.List, f.member("a").FailOnStatus) },
		want: "[a b] [{500 false} {503 false} {404 true}]",
	}, {
		name: "the last of a single value wins (1.4)",
		text: "worker.a.port=1\nworker.a.port=2",
		got:  func(f *File) any { return f.member("a").Port }, want: 2,
		problem: "w.properties:4: worker.a.port: set again, line 3 has no effect any more",
	}, {
		name: "of distance the first wins (1.4)",
		text: "worker.a.distance=1\nworker.a.distance=2",
		got:  func(f *File) any { return f.member("a").Distance }, want: 1,
		problem: `w.properties:4: worker.a.distance: set again; with line 3 the value is "1*2"`,
	}, {
		name: "of maintain the first wins (1.4)",
		text: "worker.maintain=5\nworker.maintain=7",
		got:  func(f *File) any { return f.Maintain }, want: 5 * time.Second,
		problem: `w.properties:4: worker.maintain: set again; with line 3 the value is "5*7"`,
	}, {
		name: "variables are joined with * (1.4)",
		text: "foo=a\nfoo=b\nworker.a.secret=$(foo)",
		got:  func(f *File) any { return f.member("a").Secret }, want: "a*b",
		problem: `w.properties:4: foo: set again; with line 3 the value is "a*b"`,
	}, {
		name: "balanced_workers are joined with * (1.4)",
		text: "worker.list=lb\nworker.lb.type=lb\nworker.lb.balanced_workers=x\nworker.lb.balanced_workers=y",
		got:  func(f *File) any { return f.LBs[0].Members[0].Name }, want: "x*y",
		problem: `w.properties:6: worker.lb.balanced_workers: no worker "x*y"`,
	}, {
		name: "the list is ajp13 if there is none (1.6)",
		text: "#",
		got: func(*File) any {
			f, _, _ := parse("")
			return fmt.Sprint(f.List, " ", f.Members[0].Address())
		},
		want: "[ajp13] localhost:8009",
	}, {
		name: "no such member (1.6)",
		text: "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=nobody",
		got:  func(f *File) any { return f.LBs[0].Members[0].Address() }, want: "localhost:8009",
		problem: `warning w.properties:5: worker.lb.balance_workers: no worker "nobody": it has no directives`,
	}, {
		name: "an IPv6 address in brackets (2.2, 12)",
		text: "worker.a.host=[::1]",
		got:  func(f *File) any { return f.member("a").Address() }, want: "[::1]:8009",
		problem: "warning w.properties:3: worker.a.host: an IPv6 address is written without brackets",
	}, {
		name: "host and port in one (2.2, 12)",
		text: "worker.a.host=h:8010",
		got:  func(f *File) any { return f.member("a").Address() }, want: "h:8010",
		problem: `warning w.properties:3: worker.a.host: "h" belongs into host and 8010 into port`,
	}, {
		name: "host and port in one, and a port (12)",
		text: "worker.a.host=h:8010\nworker.a.port=8011",
		got:  func(f *File) any { return f.member("a").Address() }, want: "h:8011",
		problem: `warning w.properties:3: worker.a.host: "h" belongs into host and 8010 into port`,
	}, {
		name: "what is no host (1.6)",
		text: "worker.a.host=http://h",
		got:  func(f *File) any { return fmt.Sprint(f.member("a").Port, f.member("a").Activation) }, want: "0 STP",
		problem: `warning w.properties:3: worker.a.host: "http://h" is not a host but a URL`,
	}, {
		name: "an ajp worker connects and probes as an http worker does (D10)",
		text: "worker.a.connect_timeout=7000",
		got: func(f *File) any {
			m := f.member("a")
			return fmt.Sprint(m.SocketConnectTimeout, m.ConnectTimeout, m.PrepostTimeout, m.ProbeIdle)
		},
		want: "500ms 7s 500ms 1s",
	}, {
		name: "a name twice in the list (1.6)",
		text: "worker.list=a , a",
		got:  func(f *File) any { return len(f.Members) }, want: 1,
		problem: "w.properties:3: worker.list: a stands there twice",
	}, {
		name: "a worker may be listed and a member",
		text: "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a",
		got:  func(f *File) any { return f.Members[0].Address() == f.LBs[0].Members[0].Address() }, want: true,
	}, {
		name: "names are case sensitive (1.6, 10.4)",
		text: "worker.list=LoadBalancer\nworker.loadbalancer.type=lb\nworker.loadbalancer.balance_workers=a",
		got:  func(f *File) any { return f.member("LoadBalancer").Address() }, want: "localhost:8009",
		problem: `warning w.properties:3: worker.list: no worker "LoadBalancer": it has no directives, so it is an ajp13 worker at localhost:8009, but there is "loadbalancer"`,
	}, {
		name: "references: what is explicit wins, ancestors fill (1.6)",
		text: "worker.a.reference=worker.b\nworker.b.reference=worker.c\nworker.b.port=2\nworker.c.port=3\nworker.c.host=c\nworker.c.secret=s\nworker.a.secret=mine",
		got:  func(f *File) any { return f.member("a").Address() + " " + f.member("a").Secret }, want: "c:2 mine",
	}, {
		name: "a reference to a name without its prefix (1.6)",
		text: "worker.a.reference=b\nworker.b.port=2",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
		problem: `error w.properties:3: worker.a.reference: nothing begins with "b." (a reference is a complete prefix, such as worker.template)`,
	}, {
		name: "a reference to nothing (1.6)",
		text: "worker.a.reference=worker.none",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
		problem: `error w.properties:3: worker.a.reference: nothing begins with "worker.none."`,
	}, {
		name: "references in a circle (1.6)",
		text: "worker.a.reference=worker.b\nworker.b.reference=worker.a",
		got:  func(f *File) any { return f.member("a").Port }, want: 8009,
		problem: "w.properties:3: worker.a.reference: references go in a circle, or deeper than 20",
	}, {
		name: "cachesize if there is no connection_pool_size (1.8)",
		text: "worker.a.cachesize=10\nworker.a.cache_timeout=600",
		got: func(f *File) any {
			return fmt.Sprint(f.member("a").PoolSize, f.member("a").PoolMinSize, f.member("a").PoolTimeout)
		},
		want: "10 5 10m0s", problem: "w.properties:3: worker.a.cachesize: cachesize is deprecated: write connection_pool_size",
	}, {
		name: "connection_pool_size before cachesize (1.8)",
		text: "worker.a.connection_pool_size=16k\nworker.a.cachesize=10\nworker.a.connection_pool_timeout=5\nworker.a.cache_timeout=6",
		got:  func(f *File) any { return fmt.Sprint(f.member("a").PoolSize, f.member("a").PoolTimeout) },
		want: "16384 5s", problem: "cachesize is deprecated",
	}, {
		name: "stopped before disabled (1.8)",
		text: "worker.a.disabled=true\nworker.a.stopped=1",
		got:  func(f *File) any { return f.member("a").Activation }, want: Stopped,
		problem: "w.properties:4: worker.a.stopped: stopped is deprecated: write activation=S",
	}, {
		name: "activation before both (1.8)",
		text: "worker.a.activation=A\nworker.a.disabled=true\nworker.a.stopped=1",
		got:  func(f *File) any { return f.member("a").Activation }, want: Active,
		problem: "is deprecated",
	}, {
		name: "jvm_route if there is no route (1.8)",
		text: "worker.a.jvm_route=old",
		got:  func(f *File) any { return f.member("a").Route }, want: "old",
		problem: "jvm_route is deprecated: write route",
	}, {
		name: "JNI is ignored (1.8)",
		text: "worker.a.class_path=/x\nworker.a.class_path=/y\nworker.a.cmd_line=-a\nworker.a.cmd_line=-b\nworker.a.recycle_timeout=5",
		got:  func(f *File) any { return f.member("a").PoolTimeout }, want: time.Duration(0),
		problem: `w.properties:4: worker.a.class_path: set again; with line 3 the value is "/x:/y"`,
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, problems, _ := parse(ajp + tt.text)
			if got := tt.got(f); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			wantProblem(t, problems, tt.problem)
		})
	}
}

// wantProblem checks that a problem with the text is among problems, or, if the
// text is empty, that there is none but those that an ajp worker always has.
func wantProblem(t *testing.T, problems []string, text string) {
	t.Helper()
	if text != "" {
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, text) }) {
			t.Errorf("no problem with %q among\n%s", text, strings.Join(problems, "\n"))
		}
		return
	}
	for _, p := range problems {
		if !strings.Contains(p, "that is no member") {
			t.Errorf("unexpected problem: %s", p)
		}
	}
}

// TestIntegers checks mod_jk.md 1.5 [T], in an ajp worker and in an http one.
func TestIntegers(t *testing.T) {
	tests := []struct {
		value   string
		want    int    // of retries
		problem string // in an ajp worker; what is one there is an error in http
	}{
		{"10", 10, ""},
		{" +10", 10, ""},
		{"10s", 10, `"10s" is not a number; mod_jk makes it 10`},
		{"1.5", 1, `"1.5" is not a number; mod_jk makes it 1`},
		{"0x1F", 1, `"0x1F" is not a number; mod_jk makes it 0`},
		{"abc", 2, `"abc" is not a number of at most 32 bits; mod_jk makes it 2`},
		{"-", 2, `"-" is not a number of at most 32 bits; mod_jk makes it 2`},
		{"5m", 5242880, ""},
		{"2K", 2048, ""},
		{"2kb", 2048, `"2kb" is not a number; mod_jk makes it 2048`},
		{"2 k", 2, `"2 k" is not a number; mod_jk makes it 2`},
		{"8009x", 8009, `"8009x" is not a number; mod_jk makes it 8009`},
		{"2147483647", 2147483647, ""},
		{"2147483648", 2, `"2147483648" is not a number of at most 32 bits`},
		{"4000m", 2, `"4000m" is not a number of at most 32 bits`},
		{"99999999999999999999999999", 2, "is not a number of at most 32 bits"},
		{"0", 1, `"0" is too low; mod_jk makes it 1`},
		{"-3", 1, `"-3" is too low; mod_jk makes it 1`},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			f, problems, _ := parse(ajp + "worker.a.retries=" + tt.value)
			if got := f.member("a").Retries; got != tt.want {
				t.Errorf("retries=%s is %d, want %d", tt.value, got, tt.want)
			}
			wantProblem(t, problems, tt.problem)

			_, _, err := parse("worker.list=a\nworker.a.type=http\nworker.a.host=h\nworker.a.port=1\nworker.a.retries=" + tt.value)
			if (err != nil) != (tt.problem != "") {
				t.Errorf("in an http worker retries=%s: %v", tt.value, err)
			}
		})
	}
}

// TestBooleans checks mod_jk.md 1.5; [T] is "disabled", which is the default.
func TestBooleans(t *testing.T) {
	for value, want := range map[string]bool{
		"1": true, "on": true, "true": true, "True": true, "yes": true, "Y": true, "tomorrow": true,
		"0": false, "off": false, "false": false, "F": false, "no": false, "never": false,
		"disabled": true, "ON": true, "2": true, // unknown: the default
	} {
		f, problems, _ := parse("worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\nworker.lb.sticky_session=" + value)
		if got := f.LBs[0].Sticky; got != want {
			t.Errorf("sticky_session=%s is %v, want %v", value, got, want)
		}
		warned := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "neither true nor false") })
		if odd := slices.Contains([]string{"tomorrow", "never", "disabled", "2"}, value); warned != odd {
			t.Errorf("sticky_session=%s: warned %v, want %v", value, warned, odd)
		}
	}
}

func TestEnumerations(t *testing.T) {
	methods := []struct {
		value string
		want  Method
		odd   bool
	}{
		{"R", ByRequest, false},
		{"Request", ByRequest, false},
		{"RoundRobin", ByRequest, true},
		{"ByRequests", ByBusyness, true},
		{"session", BySession, false},
		{"BUSYNESS", ByBusyness, false},
		{"ByBusyness", ByBusyness, true},
		{"Next", ByNext, false},
		{"T", ByTraffic, false},
		{"0", ByRequest, false},
		{"1", ByTraffic, false},
		{"2", ByBusyness, false},
		{"3", BySession, false},
		{"4", ByNext, false},
		{"5", ByRequest, true},
		{"x", ByRequest, true},
		{"P2C", P2C, false},
		{"least-time", LeastTime, false},
		{"rendezvous", Rendezvous, false},
		{"rendez", ByRequest, true},
		{"p", ByRequest, true},
	}
	for _, tt := range methods {
		f, problems, _ := parse("worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\nworker.lb.method=" + tt.value)
		if got := f.LBs[0].Method; got != tt.want {
			t.Errorf("method=%s is %v, want %v", tt.value, got, tt.want)
		}
		odd := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "is none of") })
		if odd != tt.odd {
			t.Errorf("method=%s: warned %v, want %v: %q", tt.value, odd, tt.odd, problems)
		}
	}
	activations := map[string]Activation{"A": Active, "d": Disabled, "Stopped": Stopped, "0": Active, "1": Disabled, "2": Stopped, "x": Active}
	for value, want := range activations {
		f, _, _ := parse(ajp + "worker.a.activation=" + value)
		if got := f.member("a").Activation; got != want {
			t.Errorf("activation=%s is %v, want %v", value, got, want)
		}
	}
}

// TestFatal checks what mod_jk dies of, what is wrong in an http worker, and what
// this version cannot do: each is one error that names the line to edit.
func TestFatal(t *testing.T) {
	long := strings.Repeat("x", 64)
	const lb = "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\n"
	const http = lb + "worker.a.type=http\nworker.a.host=h\nworker.a.port=1\n"
	tests := []struct {
		name, text, want string
	}{
		{"unknown directive (1.2)", http + "worker.lists=a", `w.properties:7: worker.lists: unknown directive "lists", did you mean list?`},
		{"misspelt directive (1.2)", http + "worker.a.foo=1", `w.properties:7: worker.a.foo: unknown directive "foo"`},
		{"no connection_ping_timeout (2.3)", http + "worker.a.connection_ping_timeout=1", `w.properties:7: worker.a.connection_ping_timeout: unknown directive "connection_ping_timeout"`},
		{"doc is not a directive (2.7)", http + "worker.a.doc=1", `w.properties:7: worker.a.doc: unknown directive "doc"`},
		{"unknown type (1.7)", "worker.list=a\nworker.a.type=jni", `w.properties:2: worker.a.type: unknown type "jni"`},
		{"type is case sensitive (1.7)", "worker.list=a\nworker.a.type=LB", `w.properties:2: worker.a.type: unknown type "LB"`},
		{"lb without members", "worker.list=lb\nworker.lb.type=lb", "w.properties:2: worker.lb.balance_workers: it is missing, a balancer needs members"},
		{"lb with a list of nothing", "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=,", "w.properties:2: worker.lb.balance_workers: it is missing, a balancer needs members"},
		{"lb in an lb (1.7)", lb + "worker.a.type=lb\nworker.a.balance_workers=b", "w.properties:3: worker.lb.balance_workers: a has type=lb and cannot be a member"},
		{"two members of one route", http + "worker.lb.balance_workers=b\nworker.b.reference=worker.a\nworker.b.route=a", `w.properties:9: worker.b.route: "a" is the route of a too`},
		{"two members that inherit one route", http + "worker.a.route=x\nworker.lb.balance_workers=b\nworker.b.reference=worker.a", `w.properties:7: worker.b.route: "x" is the route of a too`},
		{"a member twice", http + "worker.lb.balance_workers=a", "w.properties:7: worker.lb.balance_workers: a stands there twice"},
		{"a name of 64 bytes (1.5)", http + "worker.a.route=" + long, "w.properties:7: worker.a.route: has 64 bytes, want at most 63"},
		{"a worker's name of 64 bytes (1.5)", "worker.list=" + long + "\nworker." + long + ".type=http\nworker." + long + ".host=h\nworker." + long + ".port=1", `w.properties:1: worker.list: the name "` + long + `" has 64 bytes, want at most 63`},
		{"a session cookie of 64 bytes (1.5)", http + "worker.lb.session_cookie=" + long, "w.properties:7: worker.lb.session_cookie: has 64 bytes, want at most 63"},
		{"ajp14 without secretkey (1.6)", "worker.list=a\nworker.a.type=ajp14", "w.properties:2: worker.a.type: type=ajp14 is not supported yet (and 1 more)"},

		{"ajp14 in a template", "worker.list=a\nworker.t.type=ajp14\nworker.t.secretkey=k\nworker.a.reference=worker.t", "w.properties:2: worker.t.type: type=ajp14 is not supported yet"},

		{"http without host", "worker.list=a\nworker.a.type=http\nworker.a.port=1", "w.properties:2: worker.a.host: it is missing, and type=http has no default for it"},
		{"http without port", "worker.list=a\nworker.a.type=http\nworker.a.host=h", "w.properties:2: worker.a.port: it is missing, and type=http has no default for it"},
		{"http with a wrong port", http + "worker.a.port=80O1", `w.properties:7: worker.a.port: "80O1" is not a number`},
		{"http with a port beyond 65535", http + "worker.a.port=65536", `w.properties:7: worker.a.port: "65536" is not a port`},
		{"http with a negative port", http + "worker.a.port=-1", `w.properties:7: worker.a.port: "-1" is not a port`},
		{"http with brackets around no IPv6 address", http + "worker.a.host=[127.0.0.1]", `w.properties:7: worker.a.host: "[127.0.0.1]": an IPv6 address is written without brackets`},
		{"http with one bracket", http + "worker.a.host=[::1", `w.properties:7: worker.a.host: "[::1": an IPv6 address is written without brackets`},
		{"D40: a name that is much too long", http + "worker.lb.balance_workers=" + strings.Repeat("n", 5000), "w.properties:7: worker.lb.balance_workers: the name \"" + strings.Repeat("n", 80) + "\"… has 5000 bytes, want at most 63"},
		{"http with a source that is a name", http + "worker.a.source=h", `w.properties:7: worker.a.source: "h" is no IP address`},
		{"http with host and port in one", http + "worker.a.host=h:8080", `w.properties:7: worker.a.host: "h:8080" is not a host; "h" belongs into host and "8080" into port`},
		// D32: nothing in the file can make a probe ask somebody else.
		{"D32, http with a path of its own for probes", http + "worker.a.health_path=http://other/", `w.properties:7: worker.a.health_path: unknown directive "health_path"`},
		{"http with a URL", http + "worker.a.host=http://h", `w.properties:7: worker.a.host: "http://h" is not a host but a URL`},
		{"http with blanks in its host", http + "worker.a.host=h 8080", `w.properties:7: worker.a.host: "h 8080" is not a host: it has the character ' '`},
		{"http with dots", http + "worker.a.host=a..b", `w.properties:7: worker.a.host: "a..b" is not a host`},
		{"http with an unknown activation", http + "worker.a.activation=x", `w.properties:7: worker.a.activation: "x" is none of active, disabled, stopped`},
		{"http with a strange activation", http + "worker.a.activation=drain", `w.properties:7: worker.a.activation: "drain" is none of active, disabled, stopped; the first letter decides`},
		{"http with a strange truth", http + "worker.a.socket_keepalive=maybe", `w.properties:7: worker.a.socket_keepalive: "maybe" is neither true nor false`},
		{"http with minutes", http + "worker.a.reply_timeout=5m", `w.properties:7: worker.a.reply_timeout: "5m": k and m multiply by 1024 and 1048576, they are no units of time`},
		{"http with a negative time", http + "worker.a.socket_timeout=-1", "w.properties:7: worker.a.socket_timeout: is negative"},
		{"http with no connections", http + "worker.a.connection_pool_size=0", "w.properties:7: worker.a.connection_pool_size: 0 connections cannot serve anything"},
		{"http with lbfactor 0", http + "worker.a.lbfactor=0", `w.properties:7: worker.a.lbfactor: "0" is too low`},
		{"http with an unknown ping_mode", http + "worker.a.ping_mode=CX", `w.properties:7: worker.a.ping_mode: "CX" has a letter that is none of C, P, I, A`},
		{"http with a strange status", http + "worker.a.fail_on_status=5xx", `w.properties:7: worker.lb.fail_on_status`},
		{"http with odd recovery_options", http + "worker.a.recovery_options=32", `w.properties:7: worker.a.recovery_options: "32" has bits beyond 31`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems, err := parse(tt.text)
			se, ok := errors.AsType[*properties.SyntaxError](err)
			if !ok {
				t.Fatalf("Parse = %v, want a *SyntaxError; problems\n%s", err, strings.Join(problems, "\n"))
			}
			want := strings.Replace(tt.want, "worker.lb.fail_on_status", `worker.a.fail_on_status: "5xx" is not a status`, 1)
			if err.Error() != want {
				t.Errorf("Parse = %v\nwant    %s", err, want)
			}
			for _, p := range se.Problems {
				if p.Severity != properties.Error {
					t.Errorf("a %v in the SyntaxError: %v", p.Severity, p)
				}
			}
		})
	}
}

// Peers 4F, the side of the file: an address is kept as it is written.
func TestAddresses(t *testing.T) {
	long := strings.Repeat("n", 63)
	tests := []struct {
		id, host, want string
	}{
		{"F01", "app.example", "app.example:80"}, // a name stays one: it is resolved at each dial
		{"F05", "localhost", "localhost:80"},     // with all its addresses
		{"F07", "2001:db8::1", "[2001:db8::1]:80"},
		{"F07", "[2001:db8::1]", "[2001:db8::1]:80"},
		{"F07", "fe80::1%eth0", "[fe80::1%eth0]:80"},
		{"F07", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80"},
		{"D40", long, long + ":80"},
	}
	for _, tt := range tests {
		f, problems, err := parse("worker.list=a\nworker.a.type=http\nworker.a.host=" + tt.host + "\nworker.a.port=80")
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: host=%s: %v, %q", tt.id, tt.host, err, problems)
			continue
		}
		if got := f.Members[0].Address(); got != tt.want {
			t.Errorf("%s: host=%s has address %s, want %s", tt.id, tt.host, got, tt.want)
		}
		if want := "worker.a.host = " + strings.TrimSuffix(tt.want, ":80") + "\n"; !strings.Contains(f.String(), want) {
			t.Errorf("%s: host=%s is not shown as %q", tt.id, tt.host, want)
		}
	}
}

// TestAllAtOnce checks that the operator sees every mistake, by line, each once.
func TestAllAtOnce(t *testing.T) {
	_, _, err := parse(`worker.list=lb
worker.lb.type=lb
worker.lb.balance_workers=a,b,c
worker.t.type=http
worker.t.port=x
worker.a.reference=worker.t
worker.b.reference=worker.t
worker.c.reference=worker.t
worker.a.host=a
worker.b.host=b
worker.c.hst=c`)
	se, ok := errors.AsType[*properties.SyntaxError](err)
	if !ok {
		t.Fatal(err)
	}
	var got []string
	for _, p := range se.Problems {
		got = append(got, p.String())
	}
	want := []string{
		`w.properties:5: worker.t.port: "x" is not a number of at most 32 bits`,
		`w.properties:8: worker.c.host: it is missing, and type=http has no default for it`,
		`w.properties:11: worker.c.hst: unknown directive "hst", did you mean host?`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWarnings checks the traps that keep mod_jk's value (mod_jk.md 10.6, 11, 12).
func TestWarnings(t *testing.T) {
	const lb = "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\nworker.a.type=http\nworker.a.host=h\nworker.a.port=1\n"
	tests := []struct {
		name, text, want string
	}{
		{"seconds for milliseconds", "worker.a.socket_timeout=60000", "w.properties:7: worker.a.socket_timeout: 60000 seconds, is that meant?"},
		{"milliseconds for seconds", "worker.a.connect_timeout=5", "w.properties:7: worker.a.connect_timeout: 5 milliseconds, is that meant?"},
		{"and for the probe", "worker.a.prepost_timeout=10", "w.properties:7: worker.a.prepost_timeout: 10 milliseconds, is that meant?"},
		{"recover_time", "worker.lb.recover_time=30000", "w.properties:7: worker.lb.recover_time: 30000 seconds, is that meant?"},
		{"reply_timeout", "worker.a.reply_timeout=30", "w.properties:7: worker.a.reply_timeout: 30 milliseconds, is that meant?"},
		{"recover_time below its least", "worker.lb.recover_time=0", "w.properties:7: worker.lb.recover_time: is too low; mod_jk makes it 1s"},
		{"no wait for a connection (trap 7)", "worker.a.connection_acquire_timeout=0", "w.properties:7: worker.a.connection_acquire_timeout: mod_jk would refuse every request"},
		{"no wait because there is no pause (trap 7)", "worker.a.retry_interval=0", "w.properties:7: worker.a.retry_interval: mod_jk would refuse every request"},
		{"retries multiply (trap 8)", "worker.lb.retries=10\nworker.a.retries=3", "w.properties:2: worker.lb.retries: rounds, members and tries multiply: one request may be sent 30 times"},
		{"of an lb without effect (trap 9)", "worker.lb.recovery_options=3", "w.properties:7: worker.lb.recovery_options: has no effect on a balancer"},
		{"of a member on an lb", "worker.lb.lbfactor=3", "w.properties:7: worker.lb.lbfactor: has no effect on a balancer"},
		{"of ajp on http", "worker.a.max_packet_size=9000", "w.properties:7: worker.a.max_packet_size: has no effect on an http worker"},
		{"redirect names a route (trap 10)", "worker.a.route=x\nworker.a.redirect=a", `w.properties:8: worker.a.redirect: no member of lb has the route "a" (a redirect names a route, not a worker)`},
		{"no maintenance (trap 18)", "worker.maintain=0", "w.properties:7: worker.maintain: with 0 a member that failed comes back only when no other is left"},
		{"maintain of a worker", "worker.a.maintain=5", "w.properties:7: worker.a.maintain: has no effect, only worker.maintain counts"},
		{"never used", "worker.z.type=http", "w.properties:7: worker.z: it is defined, but neither listed nor a member"},
		{"without a name", "worker.port=8", "w.properties:7: worker.port: has no effect"},
		{"port 0 is provisioned", "worker.a.port=0", "w.properties:7: worker.a.port: 0 means that the worker is never used"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems, err := parse(lb + tt.text)
			if err != nil {
				t.Errorf("Parse: %v", err)
			}
			wantProblem(t, problems, "warning "+tt.want)
		})
	}
	for _, fine := range []string{
		"worker.lb.method=R", "worker.lb.sticky_session_force=0", "worker.a.distance=0", "worker.lb.lock=P",
		"worker.t.port=1\nworker.a.reference=worker.t",
		"ajp.port=8009\nworker.a.domain=", "worker.a.retry_interval=-1\nworker.a.connection_acquire_timeout=100",
	} {
		_, problems, err := parse(lb + fine)
		if n := len(problems); err != nil || n > strings.Count(fine, "domain=") {
			t.Errorf("%q: %v, %q", fine, err, problems)
		}
	}
	_, problems, _ := parse("\ufeff" + lb)
	wantProblem(t, problems, "warning w.properties:1: begins with a byte order mark")
}

// TestHTTPTimes checks the defaults of http workers and what AJP's CPING becomes
// (doc.go, design.md D10).
func TestHTTPTimes(t *testing.T) {
	tests := []struct {
		text                 string
		connect, probe, idle time.Duration
	}{
		{"", 500 * time.Millisecond, 500 * time.Millisecond, time.Second},
		{"worker.a.socket_timeout=3", 3 * time.Second, 500 * time.Millisecond, time.Second},
		{"worker.a.connect_timeout=700", 700 * time.Millisecond, 500 * time.Millisecond, time.Second},
		{"worker.a.connect_timeout=700\nworker.a.socket_timeout=3", 700 * time.Millisecond, 500 * time.Millisecond, time.Second},
		{"worker.a.connect_timeout=700\nworker.a.socket_connect_timeout=900", 900 * time.Millisecond, 500 * time.Millisecond, time.Second},
		{"worker.a.socket_connect_timeout=0", 0, 500 * time.Millisecond, time.Second},
		{"worker.a.prepost_timeout=400", 500 * time.Millisecond, 400 * time.Millisecond, 0},
		{"worker.a.prepost_timeout=0", 500 * time.Millisecond, 0, 0},
		{"worker.a.ping_mode=P\nworker.a.ping_timeout=2000", 500 * time.Millisecond, 2 * time.Second, 0},
		{"worker.a.ping_mode=A", 10 * time.Second, 10 * time.Second, 0},
		{"worker.a.ping_mode=i", 500 * time.Millisecond, 500 * time.Millisecond, time.Second},
	}
	for _, tt := range tests {
		f, problems, err := parse("worker.list=a\nworker.a.type=http\nworker.a.host=h\nworker.a.port=1\n" + tt.text)
		if err != nil || len(problems) != 0 {
			t.Errorf("%q: %v %q", tt.text, err, problems)
		}
		m := f.member("a")
		if m.SocketConnectTimeout != tt.connect || m.PrepostTimeout != tt.probe || m.ProbeIdle != tt.idle || m.ConnectTimeout != 0 {
			t.Errorf("%q: connect %v, probe %v after %v, CPING %v; want %v, %v, %v, 0", tt.text,
				m.SocketConnectTimeout, m.PrepostTimeout, m.ProbeIdle, m.ConnectTimeout, tt.connect, tt.probe, tt.idle)
		}
	}
}

// TestResolved checks single rules of mod_jk.md 2 that the golden files do not show.
func TestResolved(t *testing.T) {
	const lb = "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a,b\nworker.a.type=ajp13\nworker.b.type=ajp13\n"
	tests := []struct {
		name, text string
		got        func(*File) any
		want       any
	}{
		{"escalation is half of recover_time in whole seconds", "worker.lb.recover_time=61", func(f *File) any { return f.LBs[0].ErrorEscalationTime }, 30 * time.Second},
		{"escalation 0 is at once", "worker.lb.error_escalation_time=0", func(f *File) any { return f.LBs[0].ErrorEscalationTime }, time.Duration(0)},
		{"recover_time has a least", "worker.lb.recover_time=-5", func(f *File) any { return f.LBs[0].RecoverTime }, time.Second},
		{"port 0 is stopped", "worker.a.port=0\nworker.a.activation=A", func(f *File) any { return f.member("a").Activation }, Stopped},
		{"an lb's secret is for those without one", "worker.lb.secret=x\nworker.b.secret=y", func(f *File) any { return f.member("a").Secret + f.member("b").Secret }, "xy"},
		{"an lb may mix ajp and http", "worker.b.type=http\nworker.b.host=h\nworker.b.port=1\nworker.lb.secret=x", func(f *File) any { return f.member("a").Secret + f.member("b").Secret + string(f.member("b").Type) }, "xhttp"},
		{"domain is the first part of the route", "worker.a.route=east.a.1", func(f *File) any { return f.member("a").Domain }, "east"},
		{"no dot, no domain", "worker.a.route=east", func(f *File) any { return f.member("a").Domain }, ""},
		{"packets are rounded up, then limited", "worker.a.max_packet_size=9000\nworker.b.max_packet_size=99999", func(f *File) any { return f.member("a").MaxPacketSize*100000 + f.member("b").MaxPacketSize }, 9216*100000 + 65536},
		{"a small socket_buffer becomes a packet", "worker.a.socket_buffer=100", func(f *File) any { return f.member("a").SocketBuffer }, 8192},
		{"socket_connect_timeout is socket_timeout", "worker.a.socket_timeout=3", func(f *File) any { return f.member("a").SocketConnectTimeout }, 3 * time.Second},
		{"negative retry_interval is no pause", "worker.a.retry_interval=-1", func(f *File) any { return f.member("a").RetryInterval }, -time.Millisecond},
		{"acquire time is tries times pause", "worker.a.retries=3\nworker.a.retry_interval=50", func(f *File) any { return f.member("a").AcquireTimeout }, 150 * time.Millisecond},
		{"ping_mode gives times that are not set", "worker.a.ping_mode=c,p x\nworker.a.connect_timeout=1", func(f *File) any { return f.member("a").ConnectTimeout*100000 + f.member("a").PrepostTimeout }, time.Millisecond*100000 + 10*time.Second},
		{"connection_ping_interval with ping_mode I", "worker.a.ping_mode=I", func(f *File) any { return f.member("a").PingInterval }, 100 * time.Second},
		{"no connections is never usable", "worker.a.connection_pool_size=0", func(f *File) any { return f.member("a").PoolSize }, -1},
		{"a negative size counts as none", "worker.a.connection_pool_size=-4\nworker.a.cachesize=3", func(f *File) any { return f.member("a").PoolSize }, 3},
		{"recovery_options that are not set", "worker.a.recovery_options=0", func(f *File) any { return []bool{f.member("a").RecoverySet, f.member("b").RecoverySet}[1] }, false},
		{"a session path without its ;", "worker.lb.session_path=sid", func(f *File) any { return f.LBs[0].SessionParam() }, "sid"},
		{"and with it", "worker.lb.session_path=;sid", func(f *File) any { return f.LBs[0].SessionParam() }, "sid"},
		{"lock", "worker.lb.lock=Pessimistic", func(f *File) any { return f.LBs[0].Pessimistic }, true},
		{"balance_workers before balanced_workers", "worker.lb.balanced_workers=z", func(f *File) any { return len(f.LBs[0].Members) }, 2},
		{"ajp14 has another port", "worker.a.type=ajp14\nworker.a.secretkey=s", func(f *File) any { return f.member("a").Port }, 8011},
		{"status", "worker.list=s\nworker.s.type=status\nworker.s.ns=-\nworker.s.user=x y\nworker.s.user=z\nworker.s.bad=e", func(f *File) any {
			return fmt.Sprint(f.Statuses[0].NS, f.Statuses[0].User, f.Statuses[0].Bad, f.Statuses[0].Good)
		}, "[x y z] [e] [a.o a.i a.b a.r]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, problems, _ := parse(lb + tt.text)
			if got := tt.got(f); got != tt.want {
				t.Errorf("got %v, want %v; problems\n%s", got, tt.want, strings.Join(problems, "\n"))
			}
		})
	}
}

// TestAddress checks that an address can be dialled as it is.
func TestAddress(t *testing.T) {
	for host, want := range map[string]string{"::1": "[::1]:80", "10.0.0.1": "10.0.0.1:80", "n1.example": "n1.example:80"} {
		m := Member{Host: host, Port: 80}
		if got := m.Address(); got != want {
			t.Errorf("Address of %s = %q, want %q", host, got, want)
		}
	}
}

// TestBounds checks that hostile files end in an error, and quickly.
func TestBounds(t *testing.T) {
	double := "a=" + strings.Repeat("x", 4000) + "\n"
	for i := range 30 {
		double += fmt.Sprintf("%c=$(%c)$(%c)\n", 'b'+i, 'a'+i, 'a'+i)
	}
	var many, heirs strings.Builder
	for i := range maxKeys + 1 {
		fmt.Fprintf(&many, "k%d=1\n", i)
	}
	for i := range 3000 {
		fmt.Fprintf(&heirs, "worker.t.x%d.port=1\nworker.h%d.reference=worker.t\n", i, i)
	}
	var members strings.Builder
	members.WriteString("worker.t.type=lb\n")
	for i := range 5000 {
		fmt.Fprintf(&members, "worker.l%d.reference=worker.t\nworker.t.balance_workers=m%d\nworker.list=l%d\n", i, i, i)
	}
	tests := []struct {
		name, text, want string
	}{
		{"variables that double", double, "the value has more than 65536 bytes"},
		{"a list that grows", strings.Repeat("worker.list="+strings.Repeat("a ", 4000)+"\n", 9), "the value has more than 65536 bytes"},
		{"too many keys", many.String(), "more than 50000 properties"},
		{"heirs that multiply", heirs.String(), "too many references"},
		{"a worker that inherits all workers", "worker.a.reference=worker\nworker.list=a", "too many references"},
		{"members that multiply", members.String(), "more than 20000 members in all balancers"},
		{"a large file", strings.Repeat("#\n", properties.MaxFile/2+1), "the file is larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems, err := parse(tt.text)
			if err == nil {
				t.Error("Parse = nil")
			}
			wantProblem(t, problems, tt.want)
		})
	}
	t.Run("an error is not lost in warnings", func(t *testing.T) {
		f, _, err := parse(strings.Repeat("no equals sign\n", 2000) + "worker.lists=1")
		if err == nil || len(f.Problems) > properties.MaxProblems {
			t.Errorf("Parse = %v, with %d problems", err, len(f.Problems))
		}
	})
	t.Run("reader fails", func(t *testing.T) {
		_, err := Parse("w.properties", errReader{}, nil)
		if err == nil || !strings.Contains(err.Error(), "w.properties:1: disk on fire") {
			t.Errorf("Parse = %v", err)
		}
	})
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }
