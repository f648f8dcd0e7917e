package urimap

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// hundreds returns a map with rules for n applications, each with an exclusion,
// and some for all of them.
func hundreds(t testing.TB, n int) *Map {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "/app%d|/*=w%d\n!/app%d/static/*=w%d\n", i, i, i, i)
	}
	for i := range 20 {
		fmt.Fprintf(&b, "/*.ext%d=e%d\n!/*.x%d=*\n", i, i, i)
	}
	return parse(t, b.String(), Config{})
}

func BenchmarkMatch(b *testing.B) {
	paths := []struct{ name, path string }{
		{"normal", "/app7/cart/items/4711"},
		{"exact", "/app7"},
		{"suffix", "/other/page.ext7"},
		{"none", "/favicon.ico"},
		{"param", "/app7/cart;jsessionid=0123456789abcdef0123456789abcdef.n1"},
		{"escapes", "/app7/caf%C3%A9/./x"},
		{"ambiguous", "/app7/a%3Bb"},
		{"deep", strings.Repeat("/a", 2000)},
	}
	var s Scratch
	for _, n := range []int{10, 1000} {
		m := hundreds(b, n)
		for _, p := range paths {
			path := []byte(p.path)
			b.Run("rules="+strconv.Itoa(len(m.Rules))+"/path="+p.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.Match(path, &s)
				}
			})
		}
	}
}

// BenchmarkMatchWildcards has no literal directories to go by: every rule must be
// looked at.
func BenchmarkMatchWildcards(b *testing.B) {
	var rules strings.Builder
	for i := range 300 {
		fmt.Fprintf(&rules, "/*/x%d/*.do=w\n", i)
	}
	m := parse(b, rules.String(), Config{})
	var s Scratch
	for _, p := range []struct{ name, path string }{
		{"other", "/a/b/c"},
		{"alike", "/a/x/c.do"},
		{"hostile", "/" + strings.Repeat("/x", 2000)[1:] + ".do"},
	} {
		path := []byte(p.path)
		b.Run("path="+p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Match(path, &s)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := hundreds(b, 300).String()
	var lines strings.Builder
	for line := range strings.Lines(text) {
		_, rule, _ := strings.Cut(line, ": ")
		lines.WriteString(rule)
	}
	b.ReportAllocs()
	for b.Loop() {
		parse(b, lines.String(), Config{})
	}
}
