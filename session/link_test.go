package session

import (
	"strings"
	"testing"
)

func TestRewrite(t *testing.T) {
	strip := func(p string) string { // what cookie.StripParam does, for one segment
		p, _, _ = strings.Cut(p, ";s=")
		return p
	}
	tests := []struct {
		name, link, want string
	}{
		{"absolute path", "/a/b", "/a/b;s=V"},
		{"before the query", "/a?x=1", "/a;s=V?x=1"},
		{"before the fragment", "/a#top", "/a;s=V#top"},
		{"query and fragment", "/a?x=/y#z?", "/a;s=V?x=/y#z?"},
		{"the old value goes", "/a;s=OLD?x", "/a;s=V?x"},
		{"relative", "b/c", "b/c;s=V"},
		{"root", "/", "/;s=V"},
		{"query only leads to the page", "?x=1", "./page;s=V?x=1"},
		{"parent", "..", "../;s=V"},
		{"this folder", "./.", "././;s=V"},
		{"colon in a later segment", "/a:b", "/a:b;s=V"},
		{"colon in the query", "a?b:c", "a;s=V?b:c"},
		{"empty", "", ""},
		{"fragment only", "#top", "#top"},
		{"other origin", "https://other.example/a", "https://other.example/a"},
		{"other host", "//other.example/a", "//other.example/a"},
		{"other host for a browser", `/\other.example/a`, `/\other.example/a`},
		{"other host behind a tab", "/\t/other.example", "/\t/other.example"},
		{"other host behind a space", " //other.example", " //other.example"},
		{"script", "javascript:alert(1)", "javascript:alert(1)"},
		{"mail", "mailto:a@example.org", "mailto:a@example.org"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rewrite(tt.link, "s", "V", "/dir/page;s=OLD", strip); got != tt.want {
				t.Errorf("rewrite(%q) = %q, want %q", tt.link, got, tt.want)
			}
		})
	}
}
