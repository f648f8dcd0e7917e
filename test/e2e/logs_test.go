package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestAccessLogRotation does what logrotate does: it renames the file and sends
// SIGUSR1. No line is lost, none stands in the wrong file, and every line is one
// that the usual tools read.
func TestAccessLogRotation(t *testing.T) {
	combined := regexp.MustCompile(`^127\.0\.0\.1 - - \[[^]]+\] "POST /counter HTTP/1\.1" 200 \d+ "-" "Go-http-client/1\.1"$`)
	s := newCluster(t, "a")
	file := filepath.Join(s.dir, "access.log")
	p := s.proxy(s.workers("a"), false, "--access-log", file, "--access-format", "combined")
	c := s.client(p.listen)
	c.CountN(3)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	c.CountN(2)
	p.Signal(syscall.SIGUSR1)
	stage.Wait(t, "the log is reopened", func() bool { return p.Logged("access log reopened", file) })
	c.CountN(4)
	if code := p.Stop(); code != 0 {
		t.Errorf("the proxy ends with status %d, want 0", code)
	}
	for name, want := range map[string]int{file + ".1": 5, file: 4} {
		lines := readLines(t, name)
		if len(lines) != want {
			t.Errorf("%s has %d lines, want %d:\n%s", filepath.Base(name), len(lines), want, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if !combined.MatchString(line) {
				t.Errorf("%s: %s", filepath.Base(name), line)
			}
		}
	}
}

// TestRequestID: one name for a request, in the proxy's access log, in the log of
// the node whose handler failed, and in replies of the proxy itself. A session
// that came in the path stands in none of them (D1).
func TestRequestID(t *testing.T) {
	s := newCluster(t, "a")
	p := s.proxy(s.workers("a"), false, "--access-log", "-", "--access-query", "--log-level", "debug")
	c := s.client(p.listen)
	c.Count()
	id := func(method, path string) string {
		t.Helper()
		var line struct{ ID, Query string }
		before := len(p.Lines(`"path":"` + path + `"`))
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.listen+path+";jsessionid="+c.Session+"?jsessionid="+c.Session, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := quick.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		stage.Wait(t, "a line of the access log", func() bool { return len(p.Lines(`"path":"`+path+`"`, `"status":`)) > before })
		lines := p.Lines(`"path":"`+path+`"`, `"status":`)
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil || line.ID == "" || line.Query != "?jsessionid=-" {
			t.Fatalf("line %s: %v", lines[len(lines)-1], err)
		}
		if ours := res.Header.Get("X-Request-ID"); ours != "" && ours != line.ID {
			t.Errorf("the reply has id %q, the log %q", ours, line.ID)
		}
		return line.ID
	}
	failed := id(http.MethodGet, "/exception")
	stage.Wait(t, "the node names the request", func() bool { return s.nodes["a"].Logged("handler panicked", `"id":"`+failed+`"`) })
	s.nodes["a"].Kill()
	if again := id(http.MethodPost, "/counter"); again == failed {
		t.Error("two requests have one id")
	}
	for _, text := range []string{p.Output(), s.nodes["a"].Output()} {
		if strings.Contains(text, c.Session) || strings.Contains(text, c.Last().SessionID) {
			t.Errorf("a session stands in a log:\n%s", text)
		}
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines
}
