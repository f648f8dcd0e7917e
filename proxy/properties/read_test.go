package properties_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// parse reads text into the lines that were set.
func parse(text string, cfg properties.Config) (set []string, problems properties.Problems, ok bool) {
	values := map[string]string{}
	cfg.Name, cfg.Left = "f", "name"
	cfg.Set = func(line int, name, value string) bool {
		values[name] = value
		set = append(set, fmt.Sprintf("%d %s=%s", line, name, value))
		return name != "stop"
	}
	cfg.Lookup = func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	ok = properties.Read(strings.NewReader(text), cfg, &problems)
	return set, problems, ok
}

func TestRead(t *testing.T) {
	env := properties.Config{
		Getenv: func(name string) (string, bool) { return "env", name == "E" },
		Secret: func(name string) bool { return name == "secret" },
	}
	tests := []struct {
		name, text string
		want       []string
		problems   []string
	}{{
		name: "blanks, CRLF, comments (mod_jk.md 1.1)",
		text: " a = 1 \r\n\n# b=2\n\tc=3 # d\n e=f=g",
		want: []string{"1 a=1", "4 c=3", "5 e=f=g"},
	}, {
		name:     "what is ignored",
		text:     "a\n=b\nc=\n",
		problems: []string{`f:1: no '=' in "a": the line is ignored`, "f:2: no name before '=': the line is ignored", "f:3: c: no value, so the line is ignored; nothing can be set to the empty string"},
	}, {
		name:     "'#' within a value, and in the line of a secret",
		text:     "a=b#c\nsecret=d #e\n",
		want:     []string{"1 a=b", "2 secret=d"},
		problems: []string{"f:1: a: '#' begins a comment, also in the middle of a name or a value", "f:2: secret: '#' begins a comment, also in the middle of a name or a value"},
	}, {
		name:     "no continued lines",
		text:     "a=b\\\nc=d\n",
		want:     []string{"1 a=b\\", "2 c=d"},
		problems: []string{`f:1: a: '\' at the end is a part of the value; there are no continued lines`},
	}, {
		name:     "variables (1.3)",
		text:     "a=$(b)\nb=$(E)\nc=x$(b)$(a)\nd=$(b\n",
		want:     []string{"1 a=$(b)", "2 b=env", "3 c=xenv$(b)", "4 d=$(b"},
		problems: []string{"f:1: a: $(b) is not defined above in this file, so it stays as it is", `f:4: d: "$(" without ")"`},
	}, {
		name: "21 substitutions",
		text: "a=" + strings.Repeat("$(E)", 22),
		want: []string{"1 a=" + strings.Repeat("env", 21) + "$(E)"},
	}, {
		name:     "a byte order mark and a zero byte",
		text:     "\ufeffa=b\nc=d\x00e\n",
		want:     []string{"1 \ufeffa=b", "2 c=d"},
		problems: []string{"f:1: begins with a byte order mark, which becomes a part of the first name", "f:2: has a zero byte: nothing behind it is read"},
	}, {
		name:     "a line that mod_jk reads in two parts",
		text:     "#" + strings.Repeat("x", properties.MaxLine-1) + "a=b\n",
		want:     []string{"1 a=b"},
		problems: []string{"f:1: longer than 8191 bytes: what follows is read as another line"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, problems, ok := parse(tt.text, env)
			var got []string
			for _, p := range problems.Sorted() {
				got = append(got, p.String())
			}
			if !ok || !slices.Equal(set, tt.want) || !slices.Equal(got, tt.problems) {
				t.Errorf("Read = %v, set %q, problems %q\nwant %q, %q", ok, set, got, tt.want, tt.problems)
			}
		})
	}
}

func TestReadStops(t *testing.T) {
	if set, _, ok := parse("stop=1\nb=2\n", properties.Config{}); ok || len(set) != 1 {
		t.Errorf("Set said no: Read = %v, set %q", ok, set)
	}
	_, problems, ok := parse(strings.Repeat("#\n", properties.MaxFile), properties.Config{})
	if err := problems.Err(); ok || err == nil || err.Error() != "f: the file is larger than 1048576 bytes" {
		t.Errorf("a large file: %v, %v", ok, err)
	}
}

// An error is kept when there is no room for warnings, and said once.
func TestProblems(t *testing.T) {
	var c properties.Problems
	if c.Err() != nil {
		t.Errorf("Err of nothing = %v", c.Err())
	}
	for i := range 2 * properties.MaxProblems {
		c.Add(properties.Warning, "f", 1000-i, "warning")
	}
	for range 2 {
		c.Add(properties.Error, "f", 7, "error")
	}
	err, ok := errors.AsType[*properties.SyntaxError](c.Err())
	if !ok || len(err.Problems) != 1 || err.Error() != "f:7: error" {
		t.Errorf("Err = %v", c.Err())
	}
	if got := c.Sorted(); len(got) > properties.MaxProblems || !slices.IsSortedFunc(got, func(a, b properties.Problem) int { return a.Line - b.Line }) {
		t.Errorf("%d problems, sorted or not", len(got))
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a=1\nb=$(a)#x\n\\=\\\n")
	f.Add("\ufeff=\x00\r\n$(=$(")
	f.Fuzz(func(t *testing.T, text string) {
		set, problems, _ := parse(text, properties.Config{})
		for _, line := range set {
			if strings.ContainsAny(line, "\n\x00#") {
				t.Errorf("%q was set", line)
			}
		}
		if n := len(problems.Sorted()); n > properties.MaxProblems {
			t.Errorf("%d problems", n)
		}
	})
}

func Example() {
	var problems properties.Problems
	properties.Read(strings.NewReader("host=n1 # the first\nport\n"), properties.Config{
		Name: "f.properties", Left: "name",
		Set:    func(line int, name, value string) bool { fmt.Println(line, name, value); return true },
		Lookup: func(string) (string, bool) { return os.LookupEnv("NONE") },
	}, &problems)
	for _, p := range problems.Sorted() {
		fmt.Println(p.Severity, p)
	}

	// Output:
	// 1 host n1
	// warning f.properties:2: no '=' in "port": the line is ignored
}
