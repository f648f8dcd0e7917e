package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// sample has a member in every mood.
func sample() Snapshot {
	return Snapshot{
		Proxy:   "127.0.0.1:8080",
		Version: "v0.1.0",
		Started: now.Add(-26 * time.Hour),
		Workers: []Worker{{
			Name: "shop", Type: "lb", Method: "Request",
			Members: []Member{{
				Name: "a", Route: "a", Address: "127.0.0.1:8001", Boot: 7, Activation: "ACT", State: "OK", Phase: "running", InService: true,
				LBFactor: 2, LBValue: 12, Sessions: 42, InFlight: 3, MaxInFlight: 9, Tunnels: 2, Waiting: 6, Busy: 13, Open: 5, Served: 1200, NewSessions: 40, Retries: 1,
				BytesRead: 3 << 20, BytesWritten: 1500,
			}, {
				Name: "b", Route: "east.b", Address: "[::1]:8002", Activation: "ACT", State: "ERR", Sessions: Unknown, LBFactor: 1,
				Served: 7, Errors: 2, LastError: `dial tcp: <refused> & "gone"`, LastErrorAt: now.Add(-3 * time.Second), RecoverIn: 57 * time.Second,
			}, {
				Name: "c", Route: "c", Address: "127.0.0.1:8003", Boot: 9, Activation: "DIS", State: "OK/IDLE", Phase: "draining", InService: true,
				ByGossip: true, LBFactor: 1, Distance: 2, Domain: "east", Redirect: "a", Timeouts: 4, MaxOpen: 3, Type: "http", ResetAt: now.Add(-time.Hour), Sessions: 0, Copies: 31, ClientErrors: 1, LastErrorAt: now.Add(-2 * time.Hour),
			}},
		}, {
			Name: "empty", Type: "lb", Method: "Request",
		}},
		Gossip: []Node{
			{Name: "a", Boot: 7, Address: "127.0.0.1:7001", State: "running"},
			{Name: "proxy-x", Boot: 1, Address: "127.0.0.1:7000", State: "running", Proxy: true},
		},
		Counts: Counts{Requests: 1300, Failed: 9, Gone: 8, Resent: 7, Held: 6, Unrestored: 5, Unpaid: 4, Forged: 3},
	}
}

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it); got\n%s", path, got)
	}
}

func TestHTML(t *testing.T) {
	var page bytes.Buffer
	if err := WriteHTML(&page, sample(), Page{Now: now, Refresh: 5}); err != nil {
		t.Fatal(err)
	}
	golden(t, "page.html", page.Bytes())
	page.Reset()
	if err := WriteHTML(&page, Snapshot{}, Page{Now: now}); err != nil {
		t.Fatal(err)
	}
	golden(t, "empty.html", page.Bytes())
	page.Reset()
	if err := WriteHTML(&page, sample(), Page{
		Now: now, Orders: true, Asked: &Asked{Order: "drain", Route: "a", Why: "<why>"}, Last: &Done{"c was told to drain", now.Add(-time.Minute)},
	}); err != nil {
		t.Fatal(err)
	}
	golden(t, "ask.html", page.Bytes())
}

func TestJSON(t *testing.T) {
	var doc bytes.Buffer
	if err := WriteJSON(&doc, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "members.json", doc.Bytes())
	doc.Reset()
	if err := WriteJSON(&doc, Snapshot{}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(doc.String()), ""), `{"members":[],"gossip":[]}`; got != want {
		t.Errorf("without members the document is %s, want %s", got, want)
	}
}

// serve returns the handler of a snapshot.
func serve(t *testing.T, s func() Snapshot, ready func() error) *httptest.Server {
	t.Helper()
	h, err := New(Config{Snapshot: s, Ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// do makes a request and returns the reply with its body.
func do(t *testing.T, srv *httptest.Server, method, path string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestMetrics(t *testing.T) {
	srv := serve(t, sample, nil)
	_, body := do(t, srv, http.MethodGet, "/metrics")
	var ours []string
	for line := range strings.SplitSeq(body, "\n") {
		if strings.Contains(line, "understudy_") {
			ours = append(ours, line)
		}
	}
	golden(t, "metrics.txt", []byte(strings.Join(ours, "\n")+"\n"))
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if !strings.Contains(body, "\n"+name+" ") {
			t.Errorf("/metrics has no %s", name)
		}
	}
}

// TestMetricsOddNames checks that no name makes a scrape fail: one that is not
// UTF-8, and one that comes twice.
func TestMetricsOddNames(t *testing.T) {
	odd := func() Snapshot {
		return Snapshot{Workers: []Worker{{Name: "w\xff", Members: []Member{{Name: "m\"\n"}, {Name: "m\"\n"}}}}}
	}
	srv := serve(t, odd, nil)
	res, body := do(t, srv, http.MethodGet, "/metrics")
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `understudy_member_in_flight{member="m\"\n",worker="w�"} 0`) {
		t.Errorf("/metrics = %d, %s", res.StatusCode, body)
	}
}

func TestHandler(t *testing.T) {
	var notReady error
	srv := serve(t, sample, func() error { return notReady })
	tests := []struct {
		method, path string
		status       int
		contentType  string
		has          string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8", `content="5"`},
		{"GET", "/?refresh=0", 200, "text/html; charset=utf-8", "paused"},
		{"GET", "/?refresh=99999999", 200, "text/html; charset=utf-8", `content="3600"`},
		{"GET", "/?refresh=-1", 200, "text/html; charset=utf-8", "paused"},
		{"HEAD", "/", 200, "text/html; charset=utf-8", ""},
		{"GET", "/api/members", 200, "application/json", `"route": "east.b"`},
		{"GET", "/metrics", 200, "", "understudy_member_in_flight"},
		{"GET", "/healthz", 200, "text/plain; charset=utf-8", "ok"},
		{"GET", "/readyz", 200, "text/plain; charset=utf-8", "ok"},
		{"GET", "/debug/pprof/", 200, "text/html; charset=utf-8", "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "text/plain; charset=utf-8", "goroutine profile"},
		{"GET", "/debug/pprof/none", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/other", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/", 405, "", ""},
		{"POST", "/api/members", 405, "", ""},
		{"DELETE", "/metrics", 405, "", ""},
		{"POST", "/debug/pprof/symbol", 405, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			res, body := do(t, srv, tt.method, tt.path)
			if res.StatusCode != tt.status {
				t.Errorf("status = %d, want %d", res.StatusCode, tt.status)
			}
			if got := res.Header.Get("Content-Type"); tt.contentType != "" && got != tt.contentType {
				t.Errorf("Content-Type = %q, want %q", got, tt.contentType)
			}
			if !strings.Contains(body, tt.has) {
				t.Errorf("no %q in %s", tt.has, body)
			}
			if got := res.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options = %q", got)
			}
		})
	}

	notReady = errors.New("no member is in service")
	if res, body := do(t, srv, http.MethodGet, "/readyz"); res.StatusCode != http.StatusServiceUnavailable || body != "no member is in service\n" {
		t.Errorf("/readyz = %d %q, want 503 and the reason", res.StatusCode, body)
	}
	if res, _ := do(t, srv, http.MethodGet, "/healthz"); res.StatusCode != http.StatusOK {
		t.Errorf("/healthz = %d while not ready, want 200", res.StatusCode)
	}
}

func TestMembersDocument(t *testing.T) {
	srv := serve(t, sample, nil)
	_, body := do(t, srv, http.MethodGet, "/api/members")
	var doc struct {
		Members []map[string]any `json:"members"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	// design.md 5: name, route, address, activation, state, sessions if known, in
	// flight, counts.
	for _, key := range []string{"name", "route", "address", "activation", "state", "inFlight", "served", "errors", "retries"} {
		if i := slices.IndexFunc(doc.Members, func(m map[string]any) bool { return m[key] == nil }); i >= 0 {
			t.Errorf("member %d has no %q", i, key)
		}
	}
	if doc.Members[0]["sessions"] != 42.0 || doc.Members[1]["sessions"] != nil || doc.Members[2]["sessions"] != 0.0 {
		t.Errorf("sessions = %v, %v, %v; want 42, not there, 0", doc.Members[0]["sessions"], doc.Members[1]["sessions"], doc.Members[2]["sessions"])
	}
}

// TestNoScript checks that what a member says cannot become markup (D35).
func TestNoScript(t *testing.T) {
	s := sample()
	const evil = `"><script>alert(1)</script>`
	s.Proxy, s.Version = evil, evil
	s.Workers[0].Name, s.Workers[0].Members[0].Name = evil, evil
	s.Workers[0].Members[1].LastError, s.Workers[0].Members[1].State = evil, evil
	s.Gossip[0] = Node{Name: evil, Address: evil, State: evil}
	var page bytes.Buffer
	if err := WriteHTML(&page, s, Page{Now: now}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script") {
		t.Error("a name became a script")
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("New without Snapshot = nil")
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(sample))
	if _, err := New(Config{Snapshot: sample, Registry: reg}); err == nil {
		t.Error("New with a registry that has the members already = nil")
	}
}

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s ago", 59 * time.Second: "59 s ago", time.Hour - 1: "59 min ago",
		47 * time.Hour: "47 h ago", 72 * time.Hour: "3 days ago",
	} {
		if got := ago(now, now.Add(-d)); got != want {
			t.Errorf("%v before: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 1<<64 - 1: "16.0 EiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
}
