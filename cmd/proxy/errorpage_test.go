package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy"
)

func TestErrorPages(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	all, one := file("any.html", 10), file("busy.JSON", 20)
	pages, err := readErrorPages([]string{all, "503=" + one})
	if err != nil || len(pages) != 2 || len(pages[503].Body) != 20 || pages[503].ContentType != "application/json" || pages[0].ContentType != "text/html; charset=utf-8" {
		t.Errorf("readErrorPages = %v, %v", pages, err)
	}
	tests := []struct {
		name  string
		flags []string
		want  []string
	}{
		{"no such file", []string{filepath.Join(dir, "none.html")}, []string{"--error-page: ", "none.html", "no such file"}},
		{"a directory", []string{"503=" + dir}, []string{"--error-page: ", dir}},
		{"no type", []string{file("page.php", 10)}, []string{"page.php", ".html"}},
		{"empty", []string{file("empty.txt", 0)}, []string{"empty.txt", "empty"}},
		{"too long", []string{file("long.txt", proxy.MaxErrorPage+1)}, []string{"long.txt", "65536"}},
		{"no status of a failure", []string{"200=" + all}, []string{"200"}},
		{"one status twice", []string{"503=" + all, "503=" + one}, []string{"503=", "already"}},
	}
	for _, tt := range tests {
		_, err := readErrorPages(tt.flags)
		if err == nil {
			t.Errorf("%s: want an error", tt.name)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", tt.name, err, w)
			}
		}
	}
}
