package proxy_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// An accessLine is a line of the JSON access log.
type accessLine struct {
	Time                                time.Time
	ID, Client, Method, Host, Path      string
	Query, Protocol, Referer, LB, Route string
	Member, Failure, Error              string
	Status, Bytes, Body, Attempts       int
	Resends                             int
	Ms                                  float64
	Read                                float64 `json:"read_ms"`
	Wait                                float64 `json:"wait_ms"`
	Connect                             float64 `json:"connect_ms"`
	Send                                float64 `json:"send_ms"`
	First                               float64 `json:"first_ms"`
	Agent                               string  `json:"user_agent"`
}

// accessLines returns the lines so far.
func (w *world) accessLines() []accessLine {
	w.t.Helper()
	var all []accessLine
	for dec := json.NewDecoder(strings.NewReader(w.lastAccess())); ; {
		var l accessLine
		if err := dec.Decode(&l); err == io.EOF {
			return all
		} else if err != nil {
			w.t.Fatalf("%v in %s", err, w.access)
		}
		all = append(all, l)
	}
}

func TestAccessLog(t *testing.T) {
	every(t, options{}, func(t *testing.T, w *world) {
		r, _ := http.NewRequest(http.MethodPost, "http://"+proxyAddr+"/a;jsessionid=secret.b/c;v=1?token=secret", strings.NewReader("12345"))
		r.Host = "shop.test"
		r.Header.Set("Cookie", "JSESSIONID=secret.b")
		r.Header.Set("User-Agent", "a \"quoted\" \xff agent")
		r.Header.Set("Referer", "http://shop.test/from;jsessionid=secret.b?token=secret")
		if a, err := w.send(r); err != nil || a.status != 200 {
			t.Fatalf("%+v, %v", a, err)
		}
		lines := w.accessLines()
		if len(lines) != 1 || strings.Contains(w.access.String(), "secret") {
			t.Fatalf("log: %s", w.access)
		}
		got := lines[0]
		protocol := "HTTP/1.1"
		if strings.HasSuffix(t.Name(), "http2") {
			protocol = "HTTP/2.0"
		}
		want := accessLine{
			Time: got.Time, ID: got.ID, Bytes: got.Bytes, Ms: got.Ms,
			Client: "10.0.2.1", Method: "POST", Host: "shop.test", Path: "/a/c", Protocol: protocol,
			Referer: "http://shop.test/from", Agent: "a \"quoted\" \ufffd agent",
			LB: "lb", Route: "b", Member: "b", Status: 200, Body: 5, Attempts: 1,
		}
		if got != want || got.Bytes == 0 || time.Since(got.Time) > time.Minute {
			t.Errorf("line\n%+v, want\n%+v", got, want)
		}
	})
}

// What cannot be read leaves a line too.
func TestAccessLogOfNoRequest(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		c := w.raw()
		c.say("GET /\x1b]0;evil\x07 HTTP/1.1\r\n\r\n")
		if a, err := c.hear(http.MethodGet); err != nil || a.status != 400 || a.header.Get("X-Request-ID") == "" {
			t.Fatalf("%+v, %v; want 400 with a request id", a, err)
		}
		got := w.accessLines()[0]
		if got.Status != 400 || got.Failure != "client-error" || got.Method+got.Path != "" || got.ID == "" || got.Attempts != 0 {
			t.Errorf("line %+v", got)
		}
	})
}

// The failure word, the attempts and where the time went: a member that is cut
// off, then one that works for a second.
func TestAccessLogOfAFailover(t *testing.T) {
	slow := func(m *fake, c *memberConn, _ *http.Request) bool {
		time.Sleep(time.Second)
		return c.reply(m, "late")
	}
	o := options{members: []string{"a", "b"}, serve: map[string]handler{"b": slow}}
	every(t, o, func(t *testing.T, w *world) {
		w.net.Cut("10.0.0.1", "10.0.1.1")
		if a := w.get("/x", "s.a"); a.member != "b" {
			t.Fatalf("served by %q, want b", a.member)
		}
		got := w.accessLines()[0]
		if got.Status != 200 || got.Member != "b" || got.Route != "a" || got.Attempts != 2 || got.Resends != 0 || got.Failure != "" {
			t.Errorf("line %+v", got)
		}
		// Connecting to a costs 500 ms by default, the answer of b one second.
		if got.Wait < 499 || got.Wait > 510 || got.First < 999 || got.First > 1010 || got.Ms < got.Wait+got.First {
			t.Errorf("phases of %+v", got)
		}
		w.members["b"].kill()
		if a := w.get("/y", "s.a"); a.status != 503 {
			t.Fatalf("status %d, want 503", a.status)
		}
		got = w.accessLines()[1]
		if got.Status != 503 || got.Failure != "connect" || got.Error == "" {
			t.Errorf("line %+v", got)
		}
	})
}

func TestAccessLogOfAResend(t *testing.T) {
	first := true
	drop := func(m *fake, c *memberConn, _ *http.Request) bool {
		if first {
			first = false
			return false
		}
		return c.reply(m, "second")
	}
	one(t, options{members: []string{"a"}, serve: map[string]handler{"a": drop}}, func(t *testing.T, w *world) {
		w.get("/", "")
		if got := w.accessLines()[0]; got.Attempts != 2 || got.Resends != 1 || got.Status != 200 {
			t.Errorf("line %+v", got)
		}
	})
}

// Names of the session that workers.properties gives are redacted in queries.
func TestAccessLogWithQueries(t *testing.T) {
	o := options{lines: "worker.lb.session_cookie=SID\nworker.lb.session_path=;sess\n", query: true}
	one(t, o, func(t *testing.T, w *world) {
		w.get("/;sess=secret.a?x=1&sid=secret.a&SESS=secret.a&jsessionid=secret.a&y", "")
		if got := w.accessLines()[0]; got.Query != "?x=1&sid=-&SESS=-&jsessionid=-&y" || got.Path != "/" {
			t.Errorf("line %+v", got)
		}
	})
}

// requestID is the field as net/http spells it.
var requestID = http.CanonicalHeaderKey("X-Request-ID")

var madeID = regexp.MustCompile("^[0-9a-f]{32}$")

func TestRequestID(t *testing.T) {
	got := make(chan []string, 1)
	echo := func(m *fake, c *memberConn, r *http.Request) bool {
		got <- r.Header.Values("X-Request-ID")
		return c.reply(m, "")
	}
	trusting := []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")}
	tests := []struct {
		name    string
		trusted bool
		sent    []string
		want    string // empty: a new one
	}{
		{"a new one", false, nil, ""},
		{"of a stranger", false, []string{"mine"}, ""},
		{"of a trusted proxy", true, []string{"mine-1.2_3~/+=:@"}, "mine-1.2_3~/+=:@"},
		{"a trusted proxy has none", true, nil, ""},
		{"empty", true, []string{""}, ""},
		{"two", true, []string{"a", "b"}, ""},
		{"with a blank", true, []string{"a b"}, ""},
		{"with a quote", true, []string{`a"b`}, ""},
		{"too long", true, []string{strings.Repeat("x", 129)}, ""},
		{"as long as can be", true, []string{strings.Repeat("x", 128)}, strings.Repeat("x", 128)},
	}
	for _, tt := range tests {
		o := options{members: []string{"a"}, serve: map[string]handler{"a": echo}, config: func(c *proxy.Config) {
			if tt.trusted {
				c.TrustedNetworks = trusting
			}
		}}
		t.Run(tt.name, func(t *testing.T) {
			every(t, o, func(t *testing.T, w *world) {
				got = make(chan []string, 2)
				var ids []string
				for range 2 {
					r, _ := http.NewRequest(http.MethodGet, "http://"+proxyAddr+"/", nil)
					r.Header[http.CanonicalHeaderKey("X-Request-ID")] = tt.sent
					if _, err := w.send(r); err != nil {
						t.Fatal(err)
					}
					at := <-got
					if len(at) != 1 || tt.want != "" && at[0] != tt.want || tt.want == "" && !madeID.MatchString(at[0]) {
						t.Fatalf("the member got %q, want %q", at, tt.want)
					}
					ids = append(ids, at[0])
				}
				if tt.want == "" && ids[0] == ids[1] {
					t.Errorf("two requests are called %q", ids[0])
				}
				for i, l := range w.accessLines() {
					if l.ID != ids[i] {
						t.Errorf("line %d has id %q, want %q", i, l.ID, ids[i])
					}
				}
				w.members["a"].kill()
				a := w.get("/", "")
				if lines := w.accessLines(); a.status != 503 || a.header.Get("X-Request-ID") != lines[len(lines)-1].ID {
					t.Errorf("our own reply: %d with id %q, want that of the log", a.status, a.header.Get("X-Request-ID"))
				}
			})
		})
	}
}

// W3C Trace Context: the proxy is no part of a trace, and passes it on.
func TestTraceContextPassesUntouched(t *testing.T) {
	seen := make(chan http.Header, 1)
	echo := func(m *fake, c *memberConn, r *http.Request) bool {
		seen <- r.Header
		return c.reply(m, "")
	}
	every(t, options{members: []string{"a"}, serve: map[string]handler{"a": echo}}, func(t *testing.T, w *world) {
		seen = make(chan http.Header, 1)
		r, _ := http.NewRequest(http.MethodGet, "http://"+proxyAddr+"/", nil)
		want := http.Header{
			"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			"Tracestate":  {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "other= a=b;c "},
		}
		maps.Copy(r.Header, want)
		if _, err := w.send(r); err != nil {
			t.Fatal(err)
		}
		got := <-seen
		want["Tracestate"][1] = strings.TrimSpace(want["Tracestate"][1]) // outer blanks are not of the value
		for name, v := range want {
			if !slices.Equal(got[name], v) {
				t.Errorf("%s is %q at the member, want %q", name, got[name], v)
			}
		}
	})
}
