package cookie

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// members says which routes are usable in the tests of this file.
func members(route []byte) bool {
	switch string(route) {
	case "n1", "n2", "d1.n3", "node1", "node2.1", "node3.1":
		return true
	}
	return false
}

func newFinder(t testing.TB, c *Codec) *Finder {
	t.Helper()
	f, err := NewFinder(FinderConfig{Codec: c})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFindPlain holds the rows of spec peers 4A that are about reading. Not here,
// since other packages do it: A29's "byte for byte" (proxy/http1 forwards), A31
// (session writes Path=/) and A34 (nobody rewrites a Set-Cookie). A26 is read as
// no route until its issue.
func TestFindPlain(t *testing.T) {
	tests := []struct {
		id      string
		path    string
		cookies []string
		want    string // id>primary,secondary; "new" without a route, "none" without a candidate
	}{
		{"A01 value in quotes", "/", []string{`JSESSIONID="abc.n2"`}, "abc>n2"},
		{"A02 two cookies of the name", "/", []string{"JSESSIONID=abc.n1; JSESSIONID=def.n2"}, "abc>n1"},
		{"A02 the first is not usable", "/", []string{"JSESSIONID=abc.gone; JSESSIONID=def.n2"}, "def>n2"},
		{"A04 dot inside the id", "/", []string{"JSESSIONID=a.b.n2"}, "a.b>n2"},
		{"A05 dot inside the route", "/", []string{"JSESSIONID=abc.d1.n3"}, "abc>d1.n3"},
		{"A05 the longest suffix counts", "/", []string{"JSESSIONID=n1.d1.n3"}, "n1>d1.n3"},
		{"A07 case of the route", "/", []string{"JSESSIONID=abc.N2"}, "new"},
		{"A07 case of the name", "/", []string{"jsessionid=abc.n2"}, "none"},
		{"A08 a name that ends so", "/", []string{"XJSESSIONID=abc.n1; JSESSIONID=def.n2"}, "def>n2"},
		{"A08 a name that begins so", "/", []string{"JSESSIONIDX=abc.n1; JSESSIONID=def.n2"}, "def>n2"},
		{"A10 comma", "/", []string{"JSESSIONID=abc.n2,other=1"}, "abc>n2"},
		{"A10 the whole value first", "/", []string{"JSESSIONID=abc.n1,def.n2"}, "abc.n1,def>n2"},
		{"A10 quotes before the comma", "/", []string{`JSESSIONID="abc.n2",other=1`}, "abc>n2"},
		{"A10 quotes around the comma", "/", []string{`JSESSIONID="abc.n2,other=1"`}, `"abc>n2`},
		{"A11 semicolon in quotes", "/", []string{`other="x; JSESSIONID=abc.n1"; JSESSIONID=def.n2`}, "def>n2"},
		{"A13 no id", "/", []string{"JSESSIONID=.n2"}, ">n2"},
		{"A13 no dot", "/", []string{"JSESSIONID=n2"}, "new"},
		{"A13 percent-encoded in a cookie", "/", []string{"JSESSIONID=abc%2En2"}, "new"},
		{"A13 empty", "/", []string{"JSESSIONID="}, "none"},
		{"A13 empty quotes", "/", []string{`JSESSIONID=""`}, "none"},
		{"A13 nothing behind the dot", "/", []string{"JSESSIONID=abc."}, "new"},
		{"A13 no equals sign", "/", []string{"JSESSIONID"}, "none"},
		{"A14 another parameter behind", "/a;jsessionid=abc.n2;v=1", nil, "abc>n2"},
		{"A14 another parameter in front", "/a;v=1;jsessionid=abc.n2", nil, "abc>n2"},
		{"A14 a query behind", "/a;jsessionid=abc.n2?x=1", nil, "abc>n2"},
		{"A16 two segments", "/a;jsessionid=abc.n2/b;jsessionid=def.n1", nil, "abc>n2"},
		{"A16 two segments, the first not usable", "/a;jsessionid=abc.gone/b;jsessionid=def.n1", nil, "def>n1"},
		{"A01 quotes mean nothing in a path", "/a;jsessionid=\"abc.n2\"", nil, "new"},
		{"A17 another name", "/a;xjsessionid=abc.n2", nil, "none"},
		{"A17 case of the name", "/a;JSESSIONID=abc.n2", nil, "none"},
		{"A17 a name that begins so", "/a;jsessionidx=abc.n2", nil, "none"},
		{"A19 percent-encoded", "/a;jsessionid=abc%2En2", nil, "abc>n2"},
		{"A19 decoded once", "/a;jsessionid=abc%252En2", nil, "new"},
		{"A19 cut short", "/a;jsessionid=abc.n1%2", nil, "new"},
		{"A19 equals sign too", "/a;jsessionid%3Dabc%2en2", nil, "abc>n2"},
		{"A19 slash in the value", "/a;jsessionid=a%2Fb.n2/c", nil, "a/b>n2"},
		{"A20 query", "/a?jsessionid=abc.n2", nil, "none"},
		{"A20 parameter in a query", "/a?x=/b;jsessionid=abc.n2", nil, "none"},
		{"A22 stale id in the path", "/a;jsessionid=gone.zz", []string{"JSESSIONID=def.n2"}, "def>n2"},
		{"A22 path before cookie", "/a;jsessionid=abc.n1", []string{"JSESSIONID=def.n2"}, "abc>n1"},
		{"A23 empty parameter", "/a;jsessionid=", []string{"JSESSIONID=def.n2"}, "def>n2"},
		{"A23 empty parameter, no cookie", "/a;jsessionid=/b", nil, "none"},
		{"A25 ranked", "/", []string{"JSESSIONID=id.node1:node2.1:node3.1"}, "id>node1,node2.1"},
		{"A25 ranked, the first not usable", "/", []string{"JSESSIONID=id.zz:node2.1:node3.1"}, "id>node2.1,node3.1"},
		{"A25 ranked, one usable", "/", []string{"JSESSIONID=id.zz:node2.1:yy"}, "id>node2.1"},
		{"A25 ranked, empty ones", "/", []string{"JSESSIONID=id.node1::node2.1::"}, "id>node1,node2.1"},
		{"A25 ranked, the same twice", "/", []string{"JSESSIONID=id.node1:node1"}, "id>node1"},
		{"A26 WebLogic", "/", []string{"JSESSIONID=SID!-2032354160!-457294087!1308677666322"}, "new"},
		{"A28 two lines", "/", []string{"a=1", "JSESSIONID=x.n1"}, "x>n1"},
		{"A28 two lines, both with one", "/", []string{"JSESSIONID=y.gone", "JSESSIONID=x.n1"}, "x>n1"},
		{"A28 lines joined with a comma", "/", []string{"a=1, JSESSIONID=x.n1"}, "x>n1"},
		{"A28 joined, then another", "/", []string{"a=1, JSESSIONID=x.n1; JSESSIONID=y.n2"}, "x>n1"},
		{"A29 JSON before it", "/", []string{`pref={"a":1}; JSESSIONID=x.n1`}, "x>n1"},
		{"A29 bytes beyond ASCII before it", "/", []string{"c=caf\xc3\xa9; d=\xff\x00; JSESSIONID=x.n1"}, "x>n1"},
		{"A29 backslash before it", "/", []string{`c=a\b; JSESSIONID=x.n1`}, "x>n1"},
		{"mod_jk: blanks around the equals sign", "/", []string{"JSESSIONID =  abc.n2 "}, "abc>n2"},
		{"RFC 2965 attributes", "/", []string{`$Version=1; JSESSIONID="abc.n2"; $Path="/"`}, "abc>n2"},
		{"empty pairs", "/", []string{";;; ; JSESSIONID=abc.n2;"}, "abc>n2"},
		{"nothing", "", []string{""}, "none"},
		{"a value beyond the bound", "/", []string{"JSESSIONID=" + strings.Repeat("a", MaxLength) + ".n1; JSESSIONID=b.n2"}, "b>n2"},
		{"the same in the path", "/;jsessionid=%61" + strings.Repeat("a", MaxLength) + ".n1", []string{"JSESSIONID=b.n2"}, "b>n2"},
	}
	for _, withCodec := range []bool{false, true} {
		var c *Codec
		if withCodec {
			c = newCodec(t, newKey)
		}
		f := newFinder(t, c)
		for _, tt := range tests {
			t.Run(fmt.Sprintf("codec=%v/%s", withCodec, tt.id), func(t *testing.T) {
				ref := f.FindStrings(tt.path, tt.cookies, members, new(Scratch))
				got := "none"
				switch {
				case len(ref.Primary) > 0:
					got = fmt.Sprintf("%s>%s", ref.ID, ref.Primary)
					if len(ref.Secondary) > 0 {
						got += "," + string(ref.Secondary)
					}
				case ref.Present:
					got = "new"
				}
				if got != tt.want || ref.Signed || ref.Forged != 0 {
					t.Errorf("Find(%q, %q) = %s, signed %v, %d forged; want %s", tt.path, tt.cookies, got, ref.Signed, ref.Forged, tt.want)
				}
				if inPath := strings.Contains(tt.path, "n1") || strings.Contains(tt.path, "n2"); len(ref.Primary) > 0 && ref.FromPath != (inPath && len(tt.path) < MaxLength) {
					t.Errorf("Find(%q, %q): FromPath = %v", tt.path, tt.cookies, ref.FromPath)
				}
			})
		}
	}
}

// TestFindSigned holds the order of design D1 and the ways in which a signed
// value reaches us. In path and cookies, NEW and OLD are good values (of both
// keys in the rotation), LONG is the longest, PATH is a good one for the path,
// BAD is signed by a foreign key, and CUT lacks its end.
func TestFindSigned(t *testing.T) {
	vNew, vOld, vPath := usual, usual, usual
	vOld.ID, vPath.ID = "old", "path"
	c := newCodec(t, newKey, oldKey)
	bad := encode(t, usual, foreignKey)
	text := strings.NewReplacer(
		"NEW", encode(t, vNew, newKey), "OLD", encode(t, vOld, oldKey), "PATH", encode(t, vPath, newKey),
		"LONG", encode(t, longest, newKey), "BAD", bad, "CUT", encode(t, vNew, newKey)[:120],
	)
	escaped := strings.NewReplacer("=", "%3D")
	if escaped.Replace(text.Replace("NEW")) == text.Replace("NEW") {
		t.Fatal("NEW has no padding: choose another value")
	}
	tests := []struct {
		name    string
		path    string
		cookies []string
		want    Value
		path2   bool // FromPath
		forged  int
	}{
		{"a cookie", "/", []string{"a=b; JSESSIONID=NEW"}, vNew, false, 0},
		{"a cookie of the old key", "/", []string{"JSESSIONID=OLD; a=b"}, vOld, false, 0},
		{"a path parameter", "/a;jsessionid=PATH?x=y", nil, vPath, true, 0},
		{"a path parameter in an inner segment", "/a;v=1;jsessionid=PATH;w=2/b", nil, vPath, true, 0},
		{"D1: the cookie first", "/a;jsessionid=PATH", []string{"JSESSIONID=NEW"}, vNew, false, 0},
		{"D1: the signed path before a plain cookie", "/a;jsessionid=PATH", []string{"JSESSIONID=x.n1"}, vPath, true, 0},
		{"D1: the signed cookie before a plain path", "/a;jsessionid=x.n1", []string{"JSESSIONID=NEW"}, vNew, false, 0},
		{"D1: the signed cookie before a plain one", "/", []string{"JSESSIONID=x.n1; JSESSIONID=NEW"}, vNew, false, 0},
		{"A22: a forged path", "/a;jsessionid=BAD", []string{"JSESSIONID=NEW"}, vNew, false, 0},
		{"A32: a forged cookie before a good one", "/", []string{"JSESSIONID=BAD", "JSESSIONID=NEW"}, vNew, false, 1},
		{"A32: a forged cookie before a good path", "/a;jsessionid=PATH", []string{"JSESSIONID=BAD; JSESSIONID=CUT"}, vPath, true, 2},
		{"A32: forged in both segments", "/a;jsessionid=BAD/b;jsessionid=PATH", nil, vPath, true, 1},
		{"A01: quotes", "/", []string{`JSESSIONID="NEW"`}, vNew, false, 0},
		{"A10: comma", "/", []string{`JSESSIONID=NEW,other=1`}, vNew, false, 0},
		{"A10: quotes and comma", "/", []string{`JSESSIONID="NEW",other=1`}, vNew, false, 0},
		{"A11: one stray quote", "/", []string{`a="b; JSESSIONID=OLD"; JSESSIONID=NEW`}, vNew, false, 1},
		{"A23: an empty parameter before a good one", "/;jsessionid=/;jsessionid=PATH", nil, vPath, true, 0},
		{"an encoded padding in a cookie", "/", []string{escaped.Replace(text.Replace("NEW")) + "", "JSESSIONID=" + escaped.Replace(text.Replace("NEW"))}, vNew, false, 0},
		{"an encoded padding in the path", "/;jsessionid=" + escaped.Replace(text.Replace("PATH")), nil, vPath, true, 0},
		{"everything encoded in the path", "/;jsessionid%3D" + percent(text.Replace("PATH")), nil, vPath, true, 0},
		{"an encoded forged one is counted", "/;jsessionid=" + percent(bad), []string{"JSESSIONID=" + percent(bad)}, Value{}, false, 2},
		{"the longest", "/;jsessionid=PATH", []string{`JSESSIONID="LONG"`}, longest, false, 0},
		{"the longest, all of it encoded", "/;jsessionid=" + percent(text.Replace("LONG")), nil, longest, true, 0},
		{"behind a comma it is not believed", "/", []string{"search=x,JSESSIONID=NEW"}, Value{}, false, 0},
		{"in a query it is not looked for", "/?jsessionid=NEW", nil, Value{}, false, 0},
		{"forged ones only", "/", []string{"JSESSIONID=BAD; JSESSIONID=BAD,x"}, Value{}, false, 2},
	}
	f := newFinder(t, c)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var cookies []string
			for _, line := range tt.cookies {
				cookies = append(cookies, text.Replace(line))
			}
			path := text.Replace(tt.path)
			ref := f.FindStrings(path, cookies, members, new(Scratch))
			if want := tt.want != (Value{}); ref.Signed != want {
				t.Fatalf("Find(%q, %q): Signed = %v, want %v", path, cookies, ref.Signed, want)
			}
			if ref.Signed && ref.Value() != tt.want || ref.FromPath != tt.path2 || ref.Forged != tt.forged {
				t.Errorf("Find(%q, %q) = %+v, from path %v, %d forged; want %+v, %v, %d",
					path, cookies, ref.Value(), ref.FromPath, ref.Forged, tt.want, tt.path2, tt.forged)
			}
			if !ref.Signed && len(ref.Primary) > 0 {
				t.Errorf("Find(%q, %q) has the route %q from nowhere", path, cookies, ref.Primary)
			}
		})
	}
}

// percent encodes every byte of s.
func percent(s string) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", "\x00"+s), " ", "%")[2:]
}

// TestForgedIsAbsentAndCounted checks A32 for every place of a value: the plain
// cookie behind it is used, nothing fails, and the counter says one.
func TestForgedIsAbsentAndCounted(t *testing.T) {
	f := newFinder(t, newCodec(t, newKey))
	raw := encode(t, usual, newKey)
	var s Scratch
	for i := range raw {
		for _, b := range []byte("AzM9-_=.!%x ") {
			if raw[i] == b {
				continue
			}
			bad := raw[:i] + string(b) + raw[i+1:]
			if bad[0] == ' ' || bad[len(bad)-1] == ' ' {
				continue // trimmed: cut by one byte, which TestEveryChangedByte has
			}
			ref := f.FindStrings("/", []string{"JSESSIONID=" + bad + "; JSESSIONID=id.n1"}, members, &s)
			if ref.Signed || ref.Forged != 1 || string(ref.Primary) != "n1" || !ref.Present {
				t.Fatalf("byte %d changed to %q: Find = signed %v, %d forged, route %q; want the plain n1 and 1 forged",
					i, b, ref.Signed, ref.Forged, ref.Primary)
			}
		}
	}
}

// TestOrdinaryIDsAreNotForged: the counter is an alarm, so ids of other servers
// must not move it.
func TestOrdinaryIDsAreNotForged(t *testing.T) {
	f := newFinder(t, newCodec(t, newKey))
	for _, id := range []string{
		"E5D7C2C1F4A0B9E8D7C6B5A493827160.n9", "node01x5gk2v0b3c0v1h7q1q2n9b0e1.n9", strings.Repeat("0123456789abcdef", 8),
		"SID!-2032354160!-457294087!1308677666322", strings.Repeat("A", 200), strings.Repeat("M", 100), strings.Repeat("x", 5000),
	} {
		ref := f.FindStrings("/;jsessionid="+id, []string{"JSESSIONID=" + id}, members, new(Scratch))
		if ref.Forged != 0 || ref.Signed || !ref.Present {
			t.Errorf("Find of %.60q = %d forged, signed %v, present %v; want 0, false, true", id, ref.Forged, ref.Signed, ref.Present)
		}
	}
}

// TestBounds states what one request can cost.
func TestBounds(t *testing.T) {
	f := newFinder(t, newCodec(t, newKey, oldKey))
	bad, good := "JSESSIONID="+encode(t, usual, foreignKey)+";", "JSESSIONID="+encode(t, usual, newKey)
	if ref := f.FindStrings("/", []string{strings.Repeat(bad, maxVerify-1) + good}, nil, new(Scratch)); !ref.Signed || ref.Forged != maxVerify-1 {
		t.Errorf("behind %d forged cookies: signed %v, %d forged", maxVerify-1, ref.Signed, ref.Forged)
	}
	if ref := f.FindStrings("/", []string{strings.Repeat(bad, maxVerify) + good}, nil, new(Scratch)); ref.Signed {
		t.Errorf("behind %d forged cookies one more signature was checked", maxVerify)
	}

	// What does not have the shape of a signed value costs no MAC and is no bound.
	if ref := f.FindStrings("/", []string{strings.Repeat("JSESSIONID=a.b;", 3000) + good}, nil, new(Scratch)); !ref.Signed {
		t.Error("a good cookie is hidden by plain ones")
	}

	asked, bytesAsked := 0, 0
	count := func(route []byte) bool {
		asked++
		bytesAsked += len(route)
		return false
	}
	for _, tt := range []struct {
		name, path, cookie string
		asked              int
	}{
		{"no dots", "/", strings.Repeat("JSESSIONID=a;", 5000), 0},
		{"many cookies", "/", strings.Repeat("JSESSIONID=a.b;", 5000), maxRoutes},
		{"many segments", strings.Repeat("/;jsessionid=a.b", 5000), "", maxRoutes},
		{"many dots", "/", "JSESSIONID=" + strings.Repeat(".a", MaxLength/2), maxDots},
		{"many ranks", "/", "JSESSIONID=" + strings.Repeat(".a:a", MaxLength/4), maxRoutes},
		{"many commas", "/", strings.Repeat("JSESSIONID=a.b,", 5000), maxRoutes},
		{"a long tail", "/", "JSESSIONID=a." + strings.Repeat("b", maxTail+1), 0},
		{"a tail that is not too long", "/", "JSESSIONID=a." + strings.Repeat("b", maxTail), 1},
		{"behind the last byte that is read", "/", strings.Repeat(" ", maxScan) + "; JSESSIONID=a.b", 0},
	} {
		asked, bytesAsked = 0, 0
		f.FindStrings(tt.path, []string{tt.cookie}, count, new(Scratch))
		if asked != tt.asked || bytesAsked > maxRoutes*maxTail {
			t.Errorf("%s: asked for %d routes of %d bytes together, want %d of at most %d", tt.name, asked, bytesAsked, tt.asked, maxRoutes*maxTail)
		}
	}
}

// TestFindStringsIsFind: lines beyond the bound and a scratch that was used for
// something longer change nothing.
func TestFindStringsIsFind(t *testing.T) {
	f := newFinder(t, newCodec(t, newKey))
	good := "JSESSIONID=" + encode(t, usual, newKey)
	var s Scratch
	for _, lines := range [][]string{
		{strings.Repeat("x", 3*maxScan), good},
		{strings.Repeat("x", maxScan-len(good)), good},
		{good},
		{"", "", good},
		nil,
		{"a=b"},
	} {
		var raw [][]byte
		for _, line := range lines {
			raw = append(raw, []byte(line))
		}
		for _, path := range []string{"/", "/" + strings.Repeat("p", 2*maxScan), ""} {
			want := f.Find([]byte(path), raw, nil, new(Scratch))
			if got := f.FindStrings(path, lines, nil, &s); got.Signed != want.Signed || got.Present != want.Present {
				t.Errorf("path of %d bytes, %d lines: FindStrings has signed %v, Find %v", len(path), len(lines), got.Signed, want.Signed)
			}
		}
	}
}

func TestNewFinder(t *testing.T) {
	f, err := NewFinder(FinderConfig{Cookie: "SID", Param: ";sid"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/;sid=a.n1": "n1", "/;jsessionid=a.n1": "", "/;;sid=a.n1": "n1"} {
		if ref := f.FindStrings(path, nil, members, new(Scratch)); string(ref.Primary) != want {
			t.Errorf("Find(%q) = %q, want %q", path, ref.Primary, want)
		}
	}
	if ref := f.FindStrings("/", []string{"SID=a.n2"}, members, new(Scratch)); string(ref.Primary) != "n2" {
		t.Errorf("Find of cookie SID = %q, want n2", ref.Primary)
	}
	for _, cfg := range []FinderConfig{
		{Cookie: "A B"},
		{Cookie: "A=B"},
		{Cookie: "A;"},
		{Cookie: "\x00"},
		{Cookie: "é"},
		{Param: "a;b"},
		{Param: "a/b"},
		{Param: "a=b"},
		{Param: "a?"},
		{Param: "a%41"},
		{Param: "a b"},
		{Param: ";;a"},
		{Param: "é"},
	} {
		if _, err := NewFinder(cfg); err == nil {
			t.Errorf("NewFinder(%+v) = nil, want an error", cfg)
		}
	}
}

func TestStripParam(t *testing.T) {
	tests := []struct{ path, want string }{
		{"", ""},
		{"/a/b", "/a/b"},
		{"/a;jsessionid=x", "/a"},
		{"/;jsessionid=x", "/"},
		{"/a;jsessionid=x/b", "/a/b"},
		{"/a;jsessionid=x/b;jsessionid=y/c", "/a/b/c"},
		{"/a;v=1;jsessionid=x;w=2/b", "/a;v=1;w=2/b"},
		{"/a;jsessionid=x;jsessionid=y;v=1", "/a;v=1"},
		{"/a;jsessionid=", "/a"},
		{"/a;jsessionid", "/a"},
		{"/a;jsessionid/b", "/a/b"},
		{"/a;jsessionidx=1", "/a;jsessionidx=1"},
		{"/a;xjsessionid=1", "/a;xjsessionid=1"},
		{"/a;JSESSIONID=1", "/a;JSESSIONID=1"},
		{"/a;jsessionid=x%2Fy%3B/b", "/a/b"},
		{"/a;jsessionid%3Dx%3d/b", "/a/b"},
		{"/a%3Bjsessionid=x/b", "/a%3Bjsessionid=x/b"},
		{"/a%20b;jsessionid=x/%C3%A9", "/a%20b/%C3%A9"},
		{"/a;jsessionid=x?y=1;jsessionid=z/w", "/a?y=1;jsessionid=z/w"},
		{"/a?y=1;jsessionid=z", "/a?y=1;jsessionid=z"},
		{"/a;", "/a;"},
		{"/a;;jsessionid=x;", "/a;;"},
		{";jsessionid=x", ""},
	}
	for _, tt := range tests {
		for _, param := range []string{"jsessionid", ";jsessionid"} {
			if got := StripParam(tt.path, param); got != tt.want {
				t.Errorf("StripParam(%q, %q) = %q, want %q", tt.path, param, got, tt.want)
			}
		}
	}
}

// slowFinder is Finder the obvious way, with strings, regular expressions and
// securecookie.
type slowFinder struct {
	keys   [][]byte
	ref    slowReference
	macs   int
	routes int
}

type slowReference struct {
	Value
	signed, fromPath, present bool
	forged                    int
}

var (
	slowPair    = regexp.MustCompile(`(?s)^[ \t]*JSESSIONID[ \t]*=[ \t]*(.*?)[ \t]*$`)
	slowQuoted  = regexp.MustCompile(`(?s)^"(.*)"$`)
	slowParam   = regexp.MustCompile(`(?s)^jsessionid(?:=|%3[Dd])(.+)$`)
	slowEscape  = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	slowForgery = regexp.MustCompile(`(?s)^(?:M[Tjz][AEIMQUYcgk].|M[Tjz].[w-z0-5]|M.[AEIMQUYcgk][w-z0-5]|.[Tjz][AEIMQUYcgk][w-z0-5])`)
)

func (f *slowFinder) find(path string, cookies []string) slowReference {
	path, _, _ = strings.Cut(path, "?")
	var params, pairs []string
	for seg := range strings.SplitSeq(path, "/") {
		for _, p := range strings.Split(seg, ";")[1:] {
			if m := slowParam.FindStringSubmatch(p); m != nil {
				params = append(params, m[1])
			}
		}
	}
	for _, line := range cookies {
		pairs = append(pairs, strings.Split(line, ";")...)
	}
	for _, pair := range pairs {
		m := slowPair.FindStringSubmatch(pair)
		if m == nil {
			continue
		}
		first, _, comma := strings.Cut(m[1], ",")
		values := []string{slowUnquote(m[1])}
		if comma {
			values = append(values, slowUnquote(strings.Trim(first, " \t")))
		}
		if f.signed(values...) {
			return f.ref
		}
	}
	for _, p := range params {
		if f.signed(p) {
			f.ref.fromPath = true
			return f.ref
		}
	}
	for _, p := range params {
		if v := slowUnescape(p); f.plain(v, p) {
			f.ref.fromPath = true
			return f.ref
		}
	}
	for _, pair := range pairs {
		parts := []string{pair}
		if strings.Contains(pair, ",") {
			parts = append(parts, strings.Split(pair, ",")...)
		}
		for _, part := range parts {
			if m := slowPair.FindStringSubmatch(part); m != nil {
				if v := slowUnquote(m[1]); f.plain(v, v) {
					return f.ref
				}
			}
		}
	}
	return f.ref
}

// signed tries the readings of one candidate.
func (f *slowFinder) signed(readings ...string) bool {
	forged := false
	for _, v := range readings {
		f.ref.present = f.ref.present || v != ""
		plain := slowUnescape(v)
		if f.macs < maxVerify {
			if value, ok := slowVerify(plain, f.keys...); ok {
				f.ref.Value, f.ref.signed = value, true
				return true
			}
			if slowShape(plain) {
				f.macs++
			}
		}
		for _, form := range []string{v, plain} {
			forged = forged || len(form) >= minSigned && slowForgery.MatchString(form)
		}
	}
	if forged {
		f.ref.forged++
	}
	return false
}

// slowShape reports whether a value is well-formed up to the MAC, by signing it
// again.
func slowShape(raw string) bool {
	c, err := New(Config{Keys: [][]byte{foreignKey}})
	if err != nil {
		panic(err)
	}
	_, hashed, _ := c.verify([]byte(raw), new(Scratch))
	return hashed
}

func (f *slowFinder) plain(v, raw string) bool {
	if raw == "" {
		return false
	}
	f.ref.present = true
	if f.ref.ID == "" {
		f.ref.ID = raw
	}
	if len(v) > MaxLength {
		return false
	}
	parts := strings.Split(v, ".")
	for i := max(1, len(parts)-maxDots); i < len(parts); i++ {
		route := strings.Join(parts[i:], ".")
		if len(route) > maxTail {
			continue
		}
		candidates := []string{route}
		if strings.Contains(route, ":") {
			candidates = append(candidates, strings.Split(route, ":")...)
		}
		var found []string
		for j, c := range candidates {
			if c == "" || f.routes == maxRoutes || len(found) == 2 || j > 0 && len(found) == 1 && found[0] == route {
				continue
			}
			if f.routes++; members([]byte(c)) && !slices.Contains(found, c) {
				found = append(found, c)
			}
		}
		if len(found) > 0 {
			f.ref.ID, f.ref.Primary = strings.Join(parts[:i], "."), found[0]
			if len(found) > 1 {
				f.ref.Secondary = found[1]
			}
			return true
		}
	}
	return false
}

func slowUnquote(v string) string {
	if m := slowQuoted.FindStringSubmatch(v); m != nil {
		return m[1]
	}
	return v
}

func slowUnescape(v string) string {
	if !strings.Contains(v, "%") {
		return v
	}
	out := slowEscape.ReplaceAllStringFunc(v, func(s string) string {
		return string([]byte{unhex(s[1])<<4 | unhex(s[2])})
	})
	if len(out) > MaxLength {
		return ""
	}
	return out
}

// slowStrip is StripParam the obvious way.
func slowStrip(path string) string {
	path, query, hasQuery := strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for i, seg := range segments {
		parts := strings.Split(seg, ";")
		kept := parts[:1]
		for _, p := range parts[1:] {
			if p != "jsessionid" && !strings.HasPrefix(p, "jsessionid=") && !strings.HasPrefix(strings.ToLower(p[:min(13, len(p))]), "jsessionid%3d") || !strings.HasPrefix(p, "jsessionid") {
				kept = append(kept, p)
			}
		}
		segments[i] = strings.Join(kept, ";")
	}
	if path = strings.Join(segments, "/"); hasQuery {
		path += "?" + query
	}
	return path
}

// FuzzFind compares Find with slowFinder, and checks that StripParam leaves no
// candidate. In the arguments \x01 stands for a value of the new key, \x02 for
// one of the old, \x03 for one of a foreign key, \x04 for "jsessionid=" and \x05
// for "JSESSIONID=".
func FuzzFind(f *testing.F) {
	codec := newCodec(f, newKey, oldKey)
	finder := newFinder(f, codec)
	old := usual
	old.ID = "old"
	text := strings.NewReplacer("\x01", encode(f, usual, newKey), "\x02", encode(f, old, oldKey), "\x03", encode(f, usual, foreignKey),
		"\x04", "jsessionid=", "\x05", "JSESSIONID=")
	f.Add("/a;\x04abc.n2;v=1/b;jsessionid%3D\x01?x", "a=b; \x05\x03; \x05\"\x02\"", "\x05x.n1,y")
	f.Add("/;\x04abc%2En1/;\x04", "\x05id.node1::node2.1:; \x05a.b.d1.n3", "c=1, \x05x.n1")
	f.Add("/;\x04\x03%3", "\x05 = \x01 ,", ";;\"")
	f.Add("/;\x04\"\x01\"", "\x05\"\x03,\"", "\x05\"\"")
	f.Add("/;\x04%%41", "\x05\x03,\x02", "\x05\"\x01\",\"")
	f.Fuzz(func(t *testing.T, path, line1, line2 string) {
		path, line1, line2 = text.Replace(path), text.Replace(line1), text.Replace(line2)
		if len(path)+len(line1)+len(line2) > 4096 {
			t.Skip("the bounds on length have their own test")
		}
		cookies := []string{line1, line2}
		ref := finder.FindStrings(path, cookies, members, new(Scratch))
		got := slowReference{ref.Value(), ref.Signed, ref.FromPath, ref.Present, ref.Forged}
		want := (&slowFinder{keys: [][]byte{newKey, oldKey}}).find(path, cookies)
		if got != want {
			t.Errorf("Find(%q, %q) =\n%+v; the slow finder says\n%+v", path, cookies, got, want)
		}

		stripped := StripParam(path, "jsessionid")
		if want := slowStrip(path); stripped != want {
			t.Errorf("StripParam(%q) = %q, want %q", path, stripped, want)
		}
		if again := StripParam(stripped, "jsessionid"); again != stripped {
			t.Errorf("StripParam(%q) = %q: it was not done before", stripped, again)
		}
		if ref := finder.FindStrings(stripped, nil, members, new(Scratch)); ref.Present {
			t.Errorf("Find(StripParam(%q)) finds %q", path, ref.ID)
		}
	})
}
