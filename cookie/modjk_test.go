package cookie

import (
	"os"
	"strings"
	"testing"
)

// TestFindVectors has the vectors of mod_jk.md 3.5 and trap 13, [T] where mod_jk was
// observed, in a balancer with the members c and d. Where we differ the row names
// its deviation, as docs/deviations.md begins it.
func TestFindVectors(t *testing.T) {
	docs, err := os.ReadFile("../docs/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	const (
		places = "a plain session id with"
		dead   = "a dead id in the URL beside a good cookie"
		white  = "a cookie after bare white space (`foo JSESSIONID=x`)"
	)
	tests := []struct {
		vector  string
		path    string
		cookies []string
		jk, our string // the member; "-" if there is an id and none is found, "" if there is none
		differ  string
	}{
		{"[T] path parameter beats cookie", "/a;jsessionid=abc.c", []string{"JSESSIONID=def.d"}, "c", "c", ""},
		{"[T] several cookies, the first names nobody", "/", []string{"JSESSIONID=abc.zzz; JSESSIONID=def.c"}, "c", "c", ""},
		{"[T] several cookies, both name members", "/", []string{"JSESSIONID=abc.d; JSESSIONID=def.c"}, "d", "d", ""},
		{"[T] several cookies in several lines", "/", []string{"JSESSIONID=abc.zzz", "a=b; JSESSIONID=def.c"}, "c", "c", ""},
		{"several cookies, the first has no route", "/", []string{"JSESSIONID=abc; JSESSIONID=def.c"}, "c", "c", ""},
		{"path: a query is not searched", "/a?;jsessionid=abc.c", nil, "", "", ""},
		{"path: any segment", "/a;jsessionid=abc.c/b", nil, "c", "c", ""},
		{"path: ends at ;", "/a;jsessionid=abc.c;x=y", nil, "c", "c", ""},
		{"path: case", "/a;JSESSIONID=abc.c", nil, "", "", ""},
		{"path: at least one character", "/a;jsessionid=", []string{"JSESSIONID=def.d"}, "d", "d", ""},
		{"path: the first alone", "/a;jsessionid=abc.zzz/b;jsessionid=abc.c", nil, "-", "c", places},
		{"path: as it stands", "/a;jsessionid=abc%2Ec", nil, "-", "c", places},
		{"path: no member, and the cookie is not looked at", "/a;jsessionid=abc.zzz", []string{"JSESSIONID=def.d"}, "-", "d", dead},
		{"cookie: a name that ends so", "/", []string{"XJSESSIONID=abc.c"}, "", "", ""},
		{"cookie: white space before and after =", "/", []string{"JSESSIONID =  abc.c"}, "c", "c", ""},
		{"cookie: case", "/", []string{"jsessionid=abc.c"}, "", "", ""},
		{"cookie: after a comma", "/", []string{"a=b,JSESSIONID=abc.c"}, "c", "c", ""},
		{"cookie: ends at a comma", "/", []string{"JSESSIONID=abc.c,a=b"}, "c", "c", ""},
		{"cookie: after bare white space", "/", []string{"foo JSESSIONID=abc.c"}, "c", "", white},
		{"cookie: in quotes", "/", []string{`JSESSIONID="abc.c"`}, "c", "c", ""},
		{"cookie: empty", "/", []string{"JSESSIONID="}, "", "", ""},
		{"cookie: empty quotes", "/", []string{`JSESSIONID=""`}, "", "", ""},
		{"route: behind the first dot", "/", []string{"JSESSIONID=abc.e.f"}, "e.f", "e.f", ""},
		{"route: compared as a whole", "/", []string{"JSESSIONID=abc.x.c"}, "-", "c", places},
		{"route: a candidate without a dot has none", "/", []string{"JSESSIONID=c"}, "-", "-", ""},
		{"route: a list", "/", []string{"JSESSIONID=abc.zzz:c"}, "-", "c", places},
	}
	members := func(route []byte) bool { return string(route) == "c" || string(route) == "d" || string(route) == "e.f" }
	f := newFinder(t, newCodec(t, newKey))
	for _, tt := range tests {
		t.Run(tt.vector, func(t *testing.T) {
			if (tt.jk == tt.our) != (tt.differ == "") {
				t.Errorf("mod_jk finds %q, we %q, and the deviation is %q", tt.jk, tt.our, tt.differ)
			}
			if tt.differ != "" && !strings.Contains(string(docs), "\n| "+tt.differ) {
				t.Errorf("docs/deviations.md has no row %q", tt.differ)
			}
			ref := f.FindStrings(tt.path, tt.cookies, members, new(Scratch))
			got := string(ref.Primary)
			if got == "" && ref.Present {
				got = "-"
			}
			if got != tt.our {
				t.Errorf("Find(%q, %q) = %q, want %q", tt.path, tt.cookies, got, tt.our)
			}
		})
	}
}
