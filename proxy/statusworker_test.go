package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// withStatus is a world with the status worker jk at /jk.
func withStatus(t *testing.T, o options, f func(t *testing.T, w *world)) {
	t.Helper()
	o.lines += "worker.list=jk\nworker.jk.type=status\nworker.jk.prefix=w\nsecret.word=hidden\n"
	o.rules += "/jk=jk\n!/static/*=*\n/app/*=lb;reply_timeout=9000;fail_on_status=503 -404;disabled=b\n/*=lb\n"
	var w *world
	o.config = func(cfg *proxy.Config) {
		cfg.Status = func(s *worker.Status) (http.Handler, error) {
			return status.NewJK(status.JKConfig{
				Snapshot: func() status.Snapshot { return w.proxy.Snapshot() },
				Name:     s.Name, Good: s.Good, Bad: s.Bad, Prefix: s.Prefix, NS: s.NS, XMLNS: s.XMLNS,
			})
		}
	}
	both(t, o, func(t *testing.T, now *world) {
		w = now
		f(t, w)
	})
}

// fieldOf returns the value of a field in the line of a machine format (txt) that
// begins so.
func fieldOf(t *testing.T, text, begins, name string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begins) {
			if _, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n")+" ", " "+name+"="); ok {
				value, _, _ := strings.Cut(rest, " ")
				return strings.Trim(value, `"`)
			}
		}
	}
	t.Errorf("no %s in the line that begins with %q of\n%s", name, begins, text)
	return ""
}

// TestStatusWorker: design.md 4, a status worker is a step of the pipeline that
// answers itself; mod_jk.md 6.4, what it counts.
func TestStatusWorker(t *testing.T) {
	withStatus(t, options{members: []string{"a", "b"}, lines: "worker.b.lbfactor=3\n"}, func(t *testing.T, w *world) {
		for range 4 {
			if a := w.get("/x", ""); a.status != 200 {
				t.Fatalf("/x: %d", a.status)
			}
		}
		w.get("/x", "id.a")
		a := w.get("/jk?mime=txt", "")
		if a.status != 200 || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasSuffix(a.body, "Result: type=OK message=\"Action finished\"\n") {
			t.Fatalf("/jk: %d %v\n%s", a.status, a.header, a.body)
		}
		for _, tt := range []struct{ begins, name, want string }{
			{"Server:", "name", strings.Split(proxyAddr, ":")[0]},
			{"Balancer Workers:", "count", "1"},
			{"Balancer Worker: name=lb", "member_count", "2"},
			{"Balancer Worker: name=lb", "good", "2"},
			{"Balancer Worker: name=lb", "max_busy", "1"},
			{"Balancer Worker: name=lb", "map_count", "3"},
			{"Balancer Worker: name=lb", "error_escalation_time", "30"},
			{"Member: name=a", "type", "http"},
			{"Member: name=a", "address", "10.0.1.1:8080"},
			{"Member: name=a", "port", "8080"},
			{"Member: name=a", "elected", "2"},
			{"Member: name=a", "sessions", "1"},
			{"Member: name=a", "lbmult", "3"},
			{"Member: name=a", "lbvalue", "6"},
			{"Member: name=a", "state", "OK"},
			{"Member: name=a", "connected", "1"},
			{"Member: name=a", "max_connected", "1"},
			{"Member: name=b", "elected", "3"},
			{"Member: name=b", "lbfactor", "3"},
			{"Map: id=1", "type", "Unmount"},
			{"Map: id=2", "fail_on_status", "503,-404"},
			{"Map: id=2", "reply_timeout", "9000"},
			{"Map: id=2", "disabled", "b"},
			{"AJP Workers:", "count", "0"},
		} {
			if got := fieldOf(t, a.body, tt.begins, tt.name); got != tt.want {
				t.Errorf("%s %s=%s, want %s", tt.begins, tt.name, got, tt.want)
			}
		}
		if read := fieldOf(t, a.body, "Member: name=a", "read"); read == "0" {
			t.Error("nothing was read from a")
		}
		if n := len(w.members["a"].requests()) + len(w.members["b"].requests()); n != 5 {
			t.Errorf("members got %d requests, want 5: /jk is not theirs", n)
		}
		if c, err := w.proxy.Explain("h", "/jk"); err != nil || c.Err == nil || c.Err.Error() != "proxy: a status worker answers this itself" {
			t.Errorf("Explain(/jk) = %+v, %v", c, err)
		}
		if line := w.lastAccess(); !strings.Contains(line, `"path":"/jk"`) || !strings.Contains(line, `"attempts":0`) || strings.Contains(line, "failure") {
			t.Errorf("the access log has %s", line)
		}
		if c := w.proxy.Counts(); c.Requests != 6 || c.Failed != 0 {
			t.Errorf("Counts = %+v, want 6 requests and no failure", c)
		}
	})
}

// TestStatusWorkerOfAHost: a host that has rules of its own has no others, of status
// workers neither.
func TestStatusWorkerOfAHost(t *testing.T) {
	withStatus(t, options{members: []string{"a"}, hosts: []string{"shop.test", "admin.test"}, rules: "/shop.test/*=lb\n/admin.test/jk=jk\n"}, func(t *testing.T, w *world) {
		for host, own := range map[string]bool{"": true, "shop.test": false, "admin.test": true} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+proxyAddr+"/jk?mime=txt", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			if a, err := w.send(r); err != nil || strings.Contains(a.body, "Action finished") != own {
				t.Errorf("%q: %d %.40q, %v; want the status worker's: %v", host, a.status, a.body, err, own)
			}
		}
	})
}

// TestStatusWorkerReplies: what it refuses comes with its own status and words, and
// the connection can be used again.
func TestStatusWorkerReplies(t *testing.T) {
	withStatus(t, options{}, func(t *testing.T, w *world) {
		for range 2 {
			a, err := w.do(http.MethodPost, "/jk?mime=prop", "", strings.NewReader("cmd=reset&w=lb"))
			if err != nil || a.status != 401 && a.status != 200 {
				t.Fatalf("POST: %v, %d %s", err, a.status, a.body)
			}
		}
		a := w.get("/jk?mime=prop&cmd=zz", "")
		if a.status != 400 || a.body != "w.result.type=ERROR\nw.result.message=Invalid command.\n" {
			t.Errorf("%d %q", a.status, a.body)
		}
		a = w.get("/jk?mime=prop&cmd=reset&w=lb", "")
		if a.status != 405 || a.header.Get("Allow") != "POST" {
			t.Errorf("reset by GET: %d, Allow: %s", a.status, a.header.Get("Allow"))
		}
		a = w.get("/jk", "")
		if a.status != 200 || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(a.body, "<h1>Status of ") {
			t.Errorf("%d, %v\n%s", a.status, a.header, a.body)
		}
		a, err := w.do(http.MethodHead, "/jk", "", nil)
		if err != nil || a.status != 200 || a.body != "" {
			t.Errorf("HEAD: %v, %d %q", err, a.status, a.body)
		}
		a = w.get("/jk?mime=txt&cmd=dump", "")
		if !strings.Contains(a.body, "\nConfiguration:\nworker.a.type=http\n") || !strings.Contains(a.body, "\nworker.jk.type=status\n") || !strings.Contains(a.body, "\nworker.list=lb,jk\n") {
			t.Errorf("dump: %s", a.body)
		}
		big, err := w.do(http.MethodPost, "/jk", "", strings.NewReader(strings.Repeat("x", 100<<10)))
		if err == nil && big.status != 405 && big.status != 200 && big.status != 401 {
			t.Errorf("a body of 100 KiB: %d", big.status)
		}
		if a := w.get("/x", ""); a.status != 200 {
			t.Errorf("afterwards /x: %d", a.status)
		}
	})
}
