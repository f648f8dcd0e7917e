package urimap

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// slow is the obvious matcher: mod_jk.md 5.2 to 5.5 step by step, with regular
// expressions. It tries every reading of every path.
type slow struct {
	cfg   Config
	rules []*Rule
	exprs map[*Rule]*regexp.Regexp
}

func newSlow(m *Map, cfg Config) *slow {
	s := &slow{cfg, slices.Clone(m.Rules), map[*Rule]*regexp.Regexp{}}
	// What is left open there is decided by line and half, so that is the order
	// to start from.
	slices.SortStableFunc(s.rules, func(a, b *Rule) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return len(a.Pattern) - len(b.Pattern)
	})
	before := []func(r *Rule) int{
		func(r *Rule) int { return -strings.Count(r.Pattern, "/") },
		func(r *Rule) int { return -len(r.Pattern) },
		func(r *Rule) int {
			if strings.ContainsAny(r.Pattern, "*?") {
				return 1
			}
			return 0
		},
	}
	slices.SortStableFunc(s.rules, func(a, b *Rule) int {
		for _, key := range before {
			if key(a) != key(b) {
				return key(a) - key(b)
			}
		}
		return 0
	})
	return s
}

// latin makes a character of each byte, so that '.' is one byte.
func latin(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

func (s *slow) describes(r *Rule, path string) bool {
	if s.exprs[r] == nil {
		expr := regexp.QuoteMeta(latin(r.Pattern))
		expr = strings.ReplaceAll(strings.ReplaceAll(expr, `\*`, ".*"), `\?`, ".")
		s.exprs[r] = regexp.MustCompile(`(?s)\A` + expr + `\z`)
	}
	return s.exprs[r].MatchString(latin(path))
}

func (s *slow) find(path string) Match {
	if len(path) > 4095 {
		return Match{Outcome: TooLong}
	}
	for _, r := range s.rules {
		if r.Exclude || r.Disabled || !s.describes(r, path) {
			continue
		}
		for _, x := range s.rules {
			if x.Exclude && !x.Disabled && (x.Worker == r.Worker || x.Worker == "*") && s.describes(x, path) {
				return Match{Outcome: Excluded, Rule: x}
			}
		}
		return Match{Outcome: Mapped, Worker: r.Worker, Rule: r}
	}
	return Match{}
}

var (
	escape     = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	badEscape  = regexp.MustCompile(`%([^0-9a-fA-F]|.[^0-9a-fA-F]|.?\z)`)
	parameters = regexp.MustCompile(`;[^/]*`)
	slashes    = regexp.MustCompile(`/+`)
)

// decode decodes a path, and lets keep stand as it is.
func decode(path, keep string) string {
	return escape.ReplaceAllStringFunc(path, func(e string) string {
		if strings.EqualFold(e, keep) {
			return strings.ToUpper(e)
		}
		c, _ := byteAt([]byte(e), 0)
		return string([]byte{c})
	})
}

// slowResolve is steps 3 to 5 of mod_jk.md 5.5.
func slowResolve(path string) (string, bool) {
	path = slashes.ReplaceAllString(path, "/")
	var out []string
	segments := strings.Split(path, "/")[1:]
	for i, seg := range segments {
		last := i == len(segments)-1
		switch {
		case seg == ".." && len(out) == 0:
			return "", false
		case seg == "..":
			out = out[:len(out)-1]
		case seg != ".":
			out = append(out, seg)
		}
		if last && (seg == "." || seg == "..") {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/"), true
}

func (s *slow) match(path string) Match {
	switch {
	case path == "*":
		return Match{}
	case !strings.HasPrefix(path, "/"), strings.Contains(decode(path, ""), "\x00"), badEscape.MatchString(latin(path)):
		return Match{Outcome: Malformed}
	case !s.cfg.EncodedSlashes && strings.Contains(strings.ToLower(path), "%2f"):
		return Match{Outcome: EncodedSlash}
	case s.cfg.RejectUnsafe && strings.ContainsAny(decode(path, ""), `%\`):
		return Match{Outcome: Unsafe}
	}
	var results []Match
	for _, late := range []bool{true, false} { // parameters are cut after decoding
		for _, keep := range []string{"", "%2F"} {
			for _, back := range []string{"/", `\`} {
				text := path
				if !late {
					text = decode(parameters.ReplaceAllString(text, ""), keep)
				}
				if late {
					text = decode(text, keep)
				}
				text = strings.ReplaceAll(text, `\`, back)
				if late {
					text = parameters.ReplaceAllString(text, "")
				}
				r := Match{Outcome: Malformed}
				if normal, ok := slowResolve(text); ok {
					r = s.find(normal)
				}
				results = append(results, r)
			}
		}
	}
	for _, r := range results {
		if r != results[0] {
			return Match{Outcome: Ambiguous}
		}
	}
	return results[0]
}

// compareMatchers fails unless Match, Explain and the slow matcher agree.
func compareMatchers(t rapid.TB, rules string, cfg Config, paths ...string) {
	m, _ := Parse("f", strings.NewReader(rules), cfg)
	if len(m.Rules) > 50 {
		return // for the slow matcher's sake
	}
	s := newSlow(m, cfg)
	for _, path := range paths {
		comparePath(t, m, s, path)
	}
}

func comparePath(t rapid.TB, m *Map, s *slow, path string) {
	raw := []byte(path)
	got, ok := m.Match(raw, nil)
	want := s.match(path)
	if got != want || ok != (want.Outcome == Mapped) {
		t.Fatalf("Match(%q) = %v %v, %v, want %v %v\n%s", path, got.Outcome, got.Rule, ok, want.Outcome, want.Rule, m.Explain(path))
	}
	if string(raw) != path {
		t.Fatalf("Match(%q) has made %q of its argument", path, raw)
	}
	if strings.ContainsAny(path, "?#") || strings.Contains(path, "://") {
		return // Explain takes it for a URI
	}
	e := m.Explain(path)
	_ = e.String()
	if e.Match != got {
		t.Fatalf("Explain(%q) says %v, want %v", path, e.Match, got)
	}
	for _, r := range e.Readings {
		if again, ok := Normalise(nil, []byte(r.Normal)); r.Match.Outcome != Malformed && !strings.Contains(r.Normal, ";") && (!ok || string(again) != r.Normal) {
			t.Fatalf("Explain(%q): the normal form %q normalised is %q", path, r.Normal, again)
		}
		var decides *Rule
		for _, s := range r.Steps {
			if s.Decides {
				decides = s.Rule
			}
		}
		if decides != r.Match.Rule {
			t.Fatalf("Explain(%q): rule %v decides, want %v", path, decides, r.Match.Rule)
		}
		if len(e.Readings) == 1 && r.Match != got {
			t.Fatalf("Explain(%q): its only reading says %v, want %v", path, r.Match, got)
		}
	}
}

// TestRandom compares the matchers on rules and paths that are made for each
// other.
func TestRandom(t *testing.T) {
	from := func(pieces ...string) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8), func(all []string) string { return strings.Join(all, "") })
	}
	prefix := rapid.SampledFrom([]string{"", "", "", "!", "!", "-", "-!"})
	pattern := from("/", "/", "a", "b", "*", "?", "/*", "/a", "/a/", ".", "..", "|", `\`, ";", "%2F")
	worker := rapid.SampledFrom([]string{"=v\n", "=w\n", "=w\n", "=*\n"})
	path := from("/", "/", "a", "b", "c", "/a", "/a/", "/./", "/../", "..", ";", ";x", `\`, "%2F", "%2f", "%3B", "%5C", "%61", "%2e", "%25", "%", "%00")
	rapid.Check(t, func(t *rapid.T) {
		var rules strings.Builder
		for range rapid.IntRange(1, 8).Draw(t, "rules") {
			rules.WriteString(prefix.Draw(t, "prefix") + "/" + pattern.Draw(t, "pattern") + worker.Draw(t, "worker"))
		}
		cfg := Config{EncodedSlashes: rapid.Bool().Draw(t, "slashes"), RejectUnsafe: rapid.Bool().Draw(t, "reject")}
		var paths []string
		for range 30 {
			paths = append(paths, "/"+path.Draw(t, "path"))
		}
		compareMatchers(t, rules.String(), cfg, paths...)
	})
}

func FuzzMatch(f *testing.F) {
	const rules = "/app|/*=lb\n!/app/static/*=*\n!/app/*.gif=lb\n-/old/*=w\n/*.jsp=lb\n/a/b=w\n/a/*=lb\n/a/??=s\n/*/x*y/*=w\n/*?b=w\n"
	for _, path := range []string{
		"/app", "/app/static/x", "/app/a.gif", "/old/x", "/t.jsp", "/a/b", "/a/bc", "/a/bcd", "//app/./x", "/../x", "*",
		"/app;x/y", "/app/..;/a/b", "/app%3Bx", "/app%2Fx", `/app\x`, "/app/%2e%2e/a", "/%zz", "/q/x1y/z", "/bb", "/a\x00", "/\xff",
	} {
		for _, flags := range []byte{0, 1, 2} {
			f.Add(rules, path, flags)
		}
	}
	f.Fuzz(func(t *testing.T, rules, path string, flags byte) {
		compareMatchers(t, rules, Config{EncodedSlashes: flags&1 != 0, RejectUnsafe: flags&2 != 0}, path)
	})
}

// FuzzNormalise: the normal form is what the steps of 5.5 give; it is below the
// root; its own normal form is itself; and working in place changes nothing.
func FuzzNormalise(f *testing.F) {
	for _, path := range []string{"/", "/a/../b", "/..", "/a;x/..;y/./b//c", "*", "", "/a/..", "/.;/..;", "/...", "/a%2e;/"} {
		f.Add([]byte(path))
	}
	f.Fuzz(func(t *testing.T, path []byte) {
		input := bytes.Clone(path)
		got, ok := Normalise(nil, path)
		want, wantOK := "", false
		if bytes.HasPrefix(path, []byte("/")) {
			want, wantOK = slowResolve(parameters.ReplaceAllString(string(path), ""))
		}
		if ok != wantOK || ok && string(got) != want {
			t.Fatalf("Normalise(%q) = %q, %v, want %q, %v", path, got, ok, want, wantOK)
		}
		if !bytes.Equal(input, path) {
			t.Fatalf("Normalise(%q) has made %q of its argument", input, path)
		}
		if !ok {
			return
		}
		for segment := range bytes.SplitSeq(got, []byte("/")) {
			if s := string(segment); s == "." || s == ".." || strings.Contains(s, ";") {
				t.Fatalf("Normalise(%q) = %q, which has a segment %q", path, got, s)
			}
		}
		if got[0] != '/' || bytes.Contains(got, []byte("//")) || len(got) > len(path) {
			t.Fatalf("Normalise(%q) = %q", path, got)
		}
		if again, ok := Normalise(nil, got); !ok || !bytes.Equal(again, got) {
			t.Fatalf("Normalise(%q) = %q, and that normalised is %q", path, got, again)
		}
		if inPlace, ok := Normalise(input[:0], input); !ok || !bytes.Equal(inPlace, got) {
			t.Fatalf("Normalise(%q) in place = %q, want %q", path, inPlace, got)
		}
	})
}

// FuzzParse: no panic; the error says what the problems say; rules are in order;
// and a table that is written out is read as the same table.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"/app|/*=lb1;reply_timeout=1000;sticky_ignore=1\n!/app/static/*=*\n-/old/*=solo # no\n",
		"*.jsp=w\nv=1\n/x=$(v)$(HOME)$(no\nworker.a.port=1\n",
		"/a=w;active=a,b;disabled=b c;stopped=c;fail_on_status=-404,503 x;use_server_errors=500\n",
		"/b=w ; session_path=;sid;session_cookie=x;set_session_cookie=1;session_cookie_path=/y;stateless=1;;\n",
		"|=|\n-!=x\n!-/x=y\n/=\n=/\n\x00\n\ufeff/x=y\r\n",
	} {
		f.Add(text)
	}
	env := func(name string) (string, bool) { return "/home/$(v)", name == "HOME" }
	cfg := Config{
		Getenv:  env,
		Workers: []Worker{{Name: "lb", Balancer: true, Members: []string{"a", "b"}}, {Name: "w"}},
		Mounts:  []Mount{{File: "workers.properties", Line: 1, Worker: "w", Patterns: []string{"/m", "/m/*"}}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse("f", strings.NewReader(text), cfg)
		bad := 0
		for _, p := range m.Problems {
			if p.Severity == properties.Error {
				bad++
			}
			if s := p.String(); !strings.Contains(s, ":") || strings.ContainsAny(s, "\n\x00") {
				t.Fatalf("problem %q", s)
			}
		}
		if (err != nil) != (bad > 0) {
			t.Fatalf("Parse = %v with %d errors", err, bad)
		}
		for i, r := range m.Rules {
			if i > 0 && compare(m.Rules[i-1], r) > 0 {
				t.Fatalf("rule %v is behind %v", r, m.Rules[i-1])
			}
			if !strings.HasPrefix(r.Pattern, "/") || r.Exclude && r.Extensions.String() != "" {
				t.Fatalf("rule %v", r)
			}
		}
		writeAndRead(t, m, cfg)
	})
}

// writeAndRead checks that a table that is written out as a file is read as the
// same table, unless it is one that no file can have.
func writeAndRead(t *testing.T, m *Map, cfg Config) {
	seen := map[string]bool{}
	var text strings.Builder
	var want []string
	for _, r := range m.Rules {
		s := r.String()
		key, _, _ := strings.Cut(s, "=")
		if r.Source == FromMount || seen[key] || r.Worker == "" || strings.ContainsAny(r.Pattern, "|=") || strings.Contains(s, "$(") ||
			strings.ContainsAny(s, "#\x00\n\r\v\f\t ") || len(s) > properties.MaxLine/2 {
			continue
		}
		seen[key] = true
		text.WriteString(s + "\n")
		want = append(want, s)
	}
	cfg.Mounts = nil
	again, err := Parse("f", strings.NewReader(text.String()), cfg)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text.String(), err)
	}
	var got []string
	for _, r := range again.Rules {
		got = append(got, r.String())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q is read as %q", want, got)
	}
}
