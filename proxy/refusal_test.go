package proxy_test

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// pages are an ErrorPage for 502 and one for all others.
var pages = map[int]proxy.ErrorPage{
	0:   {ContentType: "text/html; charset=utf-8", Body: []byte("<h1>Back soon</h1>\n")},
	502: {ContentType: "application/json", Body: []byte(`{"sorry":true}`)},
}

// Every row of mod_jk.md 4.2 that exists without AJP gives its status, with the
// content of its ErrorPage if one is set (PLUG-34, PLUG-105).
func TestEveryFailureHasItsStatus(t *testing.T) {
	post := func(w *world) answer { return w.post("/app/x", "", "x") }
	get := func(path string) func(*world) answer {
		return func(w *world) answer { return w.get(path, "") }
	}
	silent := func(*fake, *memberConn, *http.Request) bool { time.Sleep(time.Hour); return false }
	says := func(text string) handler {
		return func(_ *fake, c *memberConn, _ *http.Request) bool { c.say("%s", text); return false }
	}
	tests := []struct {
		row    string
		serve  handler
		lines  string
		before func(w *world)
		do     func(w *world) answer
		status int
	}{
		{row: "request body too large: client error", do: func(w *world) answer { return w.post("/app/x", "", strings.Repeat("x", 5000)) }, status: 413},
		{row: "slot not available", serve: func(m *fake, c *memberConn, _ *http.Request) bool {
			time.Sleep(500 * time.Millisecond)
			return c.reply(m, "")
		}, lines: "worker.a.connection_pool_size=1\nworker.a.connection_acquire_timeout=10\n", before: func(w *world) {
			c := w.raw()
			c.say("GET /app/slow HTTP/1.1\r\nHost: x\r\n\r\n")
			time.Sleep(10 * time.Millisecond)
		}, do: post, status: 503},
		{row: "connect failed", before: func(w *world) { w.members["a"].kill() }, do: post, status: 503},
		{row: "connect timed out", before: func(w *world) { w.net.Cut("10.0.0.1", "10.0.1.1") }, do: post, status: 503},
		{row: "probe failed", before: func(w *world) {
			w.get("/app/x", "")
			time.Sleep(2 * time.Second)
			w.net.Cut("10.0.0.1", "10.0.1.1")
		}, do: post, status: 503},
		{row: "closes before the reply's head", serve: func(*fake, *memberConn, *http.Request) bool { return false }, do: post, status: 502},
		{row: "reply_timeout passes", serve: silent, lines: "worker.a.reply_timeout=1000\n", do: post, status: 504},
		{row: "closes while waiting with reply_timeout (mod_jk: 504)", serve: func(*fake, *memberConn, *http.Request) bool { return false }, lines: "worker.a.reply_timeout=1000\n", do: post, status: 502},
		{row: "socket_timeout fires (mod_jk: 502)", serve: silent, lines: "worker.a.socket_timeout=1\n", do: post, status: 504},
		{row: "bad magic: no HTTP", serve: says("SSH-2.0-OpenSSH_9.2\r\n\r\n"), do: post, status: 502},
		{row: "EOF inside a head", serve: says("HTTP/1.1 200 OK\r\nContent-Le"), do: post, status: 502},
		{row: "unasked protocol change", serve: says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), do: post, status: 502},
		{row: "status in fail_on_status", serve: says("HTTP/1.1 500 Internal\r\nX-Secret: 10.0.1.1\r\nContent-Length: 8\r\n\r\n10.0.1.1"), lines: "worker.a.fail_on_status=500\n", do: post, status: 503},
		{row: "above the root", do: get("/../x"), status: 400},
		{row: "mapped worker does not exist", do: get("/typo"), status: 500},
		{row: "not mapped", do: get("/nobody's"), status: 404},
	}
	for _, tt := range tests {
		t.Run(tt.row, func(t *testing.T) {
			for _, with := range []map[int]proxy.ErrorPage{nil, pages} {
				o := options{
					members: []string{"a"}, serve: map[string]handler{"a": tt.serve}, lines: tt.lines,
					rules:  "/app/*=lb\n/typo=nobody\n",
					config: func(c *proxy.Config) { c.ErrorPages, c.MaxBody = with, 4000 },
				}
				every(t, o, func(_ *testing.T, w *world) {
					if tt.before != nil {
						tt.before(w)
					}
					a := tt.do(w)
					w.checkRefusal(a, tt.status, with)
					if said := strings.Contains(w.log.String(), `"member busy"`); said != (tt.row == "slot not available") {
						w.t.Errorf("the log says that the member is busy: %v", said)
					}
				})
			}
		})
	}
}

// checkRefusal checks a reply of the proxy's own.
func (w *world) checkRefusal(a answer, status int, with map[int]proxy.ErrorPage) {
	w.t.Helper()
	want := proxy.ErrorPage{ContentType: "text/plain; charset=utf-8", Body: []byte(http.StatusText(status) + "\n")}
	if with != nil {
		want = with[0]
		if page, ok := with[status]; ok {
			want = page
		}
	}
	if a.status != status || a.body != string(want.Body) || a.header.Get("Content-Type") != want.ContentType {
		w.t.Errorf("%d %q %q, want %d %q %q", a.status, a.header.Get("Content-Type"), a.body, status, want.ContentType, want.Body)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		w.t.Errorf("Cache-Control %q, want no-store", got)
	}
	for name, values := range a.header {
		switch name {
		case "Content-Type", "Content-Length", "Cache-Control", "Connection", "Date", "Allow":
		case requestID:
			if len(values) != 1 || !madeID.MatchString(values[0]) {
				w.t.Errorf("%s is %q", name, values)
			}
		default:
			w.t.Errorf("it tells %s: %q", name, values)
		}
	}
}

// Requests that are wrong as such get the page too, and HEAD its length alone.
func TestErrorPageOfBadRequests(t *testing.T) {
	o := options{without: []string{"a", "b", "c"}, config: func(c *proxy.Config) { c.ErrorPages = pages }}
	one(t, o, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			say, method string
			status      int
		}{
			{"GET / HTTP/1.1\r\n\r\n", "GET", 400},
			{"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 70_000) + "\r\n\r\n", "GET", 431},
			{"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "GET", 405},
			{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", "POST", 400}, // client body read fails
		} {
			c := w.raw()
			c.say(tt.say)
			a, err := c.hear(tt.method)
			if err != nil {
				t.Fatal(err)
			}
			w.checkRefusal(a, tt.status, pages)
			_ = c.Close()
		}
	})
	every(t, o, func(t *testing.T, w *world) {
		a, err := w.do(http.MethodHead, "/", "", nil)
		if err != nil || a.status != 503 || a.body != "" || a.header.Get("Content-Length") != strconv.Itoa(len(pages[0].Body)) {
			t.Errorf("HEAD = %d, length %s, body %q, %v", a.status, a.header.Get("Content-Length"), a.body, err)
		}
	})
}

// mod_jk.md 5.6: use_server_errors puts our content in place of the member's; a 401
// keeps what the client needs to go on, and the member stays in service.
func TestUseServerErrors(t *testing.T) {
	serve := func(m *fake, c *memberConn, r *http.Request) bool {
		status := r.URL.Query().Get("s")
		c.say("HTTP/1.1 %s X\r\nX-Member: %s\r\nWWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Bearer\r\nAllow: PUT\r\nContent-Length: 5\r\n\r\nsorry", status, m.name)
		return true
	}
	o := options{members: []string{"a"}, serve: map[string]handler{"a": serve}, rules: "/x=lb;use_server_errors=401\n/*=lb\n", config: func(c *proxy.Config) { c.ErrorPages = pages }}
	every(t, o, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			path, body string
			challenges int
		}{
			{"/x?s=400", "sorry", 2},
			{"/x?s=401", string(pages[0].Body), 2},
			{"/x?s=403", string(pages[0].Body), 0},
			{"/x?s=405", string(pages[0].Body), 0},
			{"/x?s=502", string(pages[502].Body), 0},
			{"/y?s=502", "sorry", 2},
		} {
			a := w.get(tt.path, "")
			if a.body != tt.body || strconv.Itoa(a.status) != tt.path[len(tt.path)-3:] || len(a.header["Www-Authenticate"]) != tt.challenges {
				t.Errorf("GET %s = %d %q, challenges %q", tt.path, a.status, a.body, a.header["Www-Authenticate"])
			}
			if allow := a.header["Allow"]; strings.HasSuffix(tt.path, "405") && !slices.Equal(allow, []string{"PUT"}) {
				t.Errorf("GET %s has Allow %q, want the member's", tt.path, allow)
			}
		}
		if m := w.member("a"); m.State != "OK" || m.Errors != 0 || w.members["a"].dials() != 1 {
			t.Errorf("member %s, %d errors, %d dials; want OK, 0, 1", m.State, m.Errors, w.members["a"].dials())
		}
	})
}

func TestErrorPagesAreChecked(t *testing.T) {
	file := parseWorkers(t, oneMember+"worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\n")
	for name, pages := range map[string]map[int]proxy.ErrorPage{
		"a status of success": {200: {ContentType: "text/plain"}},
		"no type":             {503: {}},
		"too long":            {0: {ContentType: "text/plain", Body: make([]byte, proxy.MaxErrorPage+1)}},
	} {
		if _, err := proxy.New(proxy.Config{Workers: file, ErrorPages: pages}); err == nil {
			t.Errorf("%s: New succeeded", name)
		}
	}
}

// A page as long as one may be arrives whole.
func TestLongErrorPage(t *testing.T) {
	long := map[int]proxy.ErrorPage{0: {ContentType: "text/html", Body: []byte(strings.Repeat("sorry ", proxy.MaxErrorPage/6))}}
	every(t, options{rules: "/app=lb\n", config: func(c *proxy.Config) { c.ErrorPages = long }}, func(t *testing.T, w *world) {
		for range 2 {
			w.checkRefusal(w.get("/x", ""), 404, long)
			if _, err := w.do(http.MethodPost, "/x", "", io.LimitReader(strings.NewReader(strings.Repeat("x", 1000)), 1000)); err != nil {
				t.Error(err)
			}
		}
	})
}
