package session

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
)

// solo serves h with a manager of its own, on the network of this machine.
func solo(t *testing.T, cfg Config, h http.HandlerFunc) (*httptest.Server, *Manager) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self := cluster.Member{Name: "solo", Boot: 1, Replication: ln.Addr().String()}
	dir := newDirectory()
	dir.join(self)
	cfg.Cluster, cfg.Listener = &seat{dir, self}, ln
	if cfg.Codec, err = cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}}); err != nil {
		t.Fatal(err)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(m.Handler(h))
	t.Cleanup(func() {
		srv.Close()
		if err := m.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	await(t, "ready", func() bool { return m.Ready() == nil })
	return srv, m
}

// await waits for a condition of the real world.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s after 10 s", what)
		}
	}
}

func client(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// fetch returns the reply and all of its body.
func fetch(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v after %q", url, err, body)
	}
	return res, string(body)
}

func counting(w http.ResponseWriter, r *http.Request) {
	s := FromContext(r.Context())
	n, _ := counterKey.Get(s)
	if err := counterKey.Set(s, n+1); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprint(w, n+1)
}

func TestCookieAttributes(t *testing.T) {
	tests := []struct {
		name   string
		cfg    Config
		header string // X-Forwarded-Proto
		want   string // behind the value
	}{
		{name: "default", want: "; Path=/; HttpOnly; SameSite=Lax"}, // I16, A31
		{name: "secure", cfg: Config{Secure: true}, want: "; Path=/; HttpOnly; Secure; SameSite=Lax"},
		{name: "I17: TLS ends at a proxy that is trusted", cfg: Config{TrustForwarded: true}, header: "https", want: "; Path=/; HttpOnly; Secure; SameSite=Lax"},
		{name: "I17: plain at the proxy", cfg: Config{TrustForwarded: true}, header: "http", want: "; Path=/; HttpOnly; SameSite=Lax"},
		{name: "I17: not trusted", header: "https", want: "; Path=/; HttpOnly; SameSite=Lax"},
		{name: "other name and path", cfg: Config{Cookie: "SID", Path: "/app"}, want: "; Path=/app; HttpOnly; SameSite=Lax"},
		{name: "strict", cfg: Config{SameSite: http.SameSiteStrictMode}, want: "; Path=/; HttpOnly; SameSite=Strict"},
		{name: "embedded", cfg: Config{SameSite: http.SameSiteNoneMode, Secure: true, Partitioned: true}, want: "; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"},
		{name: "domain", cfg: Config{Domain: "shop.example.com"}, want: "; Path=/; Domain=shop.example.com; HttpOnly; SameSite=Lax"}, // SESS-81
		{name: "host only", cfg: Config{Cookie: "__Host-SID", Secure: true}, want: "; Path=/; HttpOnly; Secure; SameSite=Lax"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, _ := solo(t, tt.cfg, counting)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
			req.Header.Set("X-Forwarded-Proto", tt.header)
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			set := res.Header["Set-Cookie"]
			if len(set) != 1 {
				t.Fatalf("Set-Cookie = %q, want one", set)
			}
			name := "JSESSIONID="
			if tt.cfg.Cookie != "" {
				name = tt.cfg.Cookie + "="
			}
			if _, attributes, _ := strings.Cut(set[0], ";"); !strings.HasPrefix(set[0], name) || ";"+attributes != tt.want {
				t.Errorf("Set-Cookie = %q, want %s…%s", set[0], name, tt.want)
			}
		})
	}
}

// A cookie that browsers drop is an error at the start, which says why.
func TestCookieThatBrowsersDrop(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want string // in the error; "" for none
	}{
		{"None without Secure", Config{SameSite: http.SameSiteNoneMode}, "Config.SameSite"},
		{"no such SameSite", Config{SameSite: 9}, "Config.SameSite"},
		{"the SameSite that says nothing", Config{SameSite: http.SameSiteDefaultMode}, "Config.SameSite"},
		{"Partitioned without Secure", Config{Partitioned: true}, "Config.Partitioned"},
		{"__Secure- without Secure", Config{Cookie: "__Secure-SID"}, "Config.Secure"},
		{"__Secure-", Config{Cookie: "__Secure-SID", Secure: true, Path: "/app", Domain: "example.com"}, ""},
		{"__Host- without Secure", Config{Cookie: "__Host-SID"}, "Config.Secure"},
		{"__Host- with a domain", Config{Cookie: "__Host-SID", Secure: true, Domain: "example.com"}, "Config.Domain"},
		{"__Host- with a path", Config{Cookie: "__Host-SID", Secure: true, Path: "/app"}, "Config.Path"},
		{"browsers do not look at the case of a prefix", Config{Cookie: "__HOST-SID"}, "Config.Secure"},
		{"path without /", Config{Path: "app"}, "Config.Path"},
		{"path with an attribute", Config{Path: "/; Domain=example.com"}, "Config.Path"},
		{"path with a line", Config{Path: "/\r\n"}, "Config.Path"},
		{"top domain", Config{Domain: "com"}, "Config.Domain"},
		{"address", Config{Domain: "10.0.0.1"}, "Config.Domain"},
		{"domain with an attribute", Config{Domain: "example.com; Secure"}, "Config.Domain"},
		{"name that is no token", Config{Cookie: "a b"}, "Config.Cookie"},
	}
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		m := f.nodes["a"].m
		for _, tt := range tests {
			cfg := tt.cfg
			cfg.Cluster, cfg.Codec = m.cluster, m.cookies
			if tt.want == "" {
				cfg.Cluster = &seat{f.dir, cluster.Member{Name: "!"}} // stops New behind the check
			}
			cfg.Listener = refusing{}
			_, err := New(cfg)
			if want := tt.want; err == nil || !strings.Contains(err.Error(), cmp.Or(want, "Self().Name")) {
				t.Errorf("%s: New = %v, want an error that names %q", tt.name, err, want)
			}
		}
	})
}

// A shared cache that may keep the page must not hand out the cookie (RFC 9111
// 5.2.2.4).
func TestCookieIsNotCached(t *testing.T) {
	srv, _ := solo(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		counting(w, r)
	})
	res, _ := fetch(t, client(t), srv.URL)
	if got := strings.Join(res.Header["Cache-Control"], ", "); len(res.Cookies()) != 1 || got != `public, max-age=60, no-cache="Set-Cookie"` {
		t.Errorf("%d cookies, Cache-Control: %s", len(res.Cookies()), got)
	}
}

func TestCookieOverTLS(t *testing.T) {
	srv, m := solo(t, Config{}, counting)
	tlsSrv := httptest.NewTLSServer(m.Handler(http.HandlerFunc(counting)))
	defer tlsSrv.Close()
	_ = srv
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own server
	defer tr.CloseIdleConnections()
	res, _ := fetch(t, &http.Client{Transport: tr}, tlsSrv.URL)
	if got := res.Header.Get("Set-Cookie"); !strings.Contains(got, "; Secure") {
		t.Errorf("Set-Cookie = %q, want Secure", got)
	}
}

// I10, A32: what does not verify is no session, and never an error.
func TestForeignCookies(t *testing.T) {
	srv, m := solo(t, Config{}, counting)
	res, _ := fetch(t, client(t), srv.URL)
	good := res.Cookies()[0].Value
	other, err := cookie.New(cookie.Config{Keys: [][]byte{append(make([]byte, 31), 1)}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Encode(cookie.Value{ID: "x", Primary: "solo", Epoch: cookie.Epoch{N: 1}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, line string
	}{
		{"empty", "JSESSIONID="},
		{"plain", "JSESSIONID=abc.solo"},
		{"cut", "JSESSIONID=" + good[:len(good)-5]},
		{"changed", "JSESSIONID=" + good[:20] + string(good[20]^1) + good[21:]},
		{"of another key", "JSESSIONID=" + foreign},
		{"huge", "JSESSIONID=" + strings.Repeat("A", 100_000)},
		{"many", strings.Repeat("JSESSIONID="+foreign+"; ", 200)},
		{"bytes", "JSESSIONID=\xff\xfe\"; ;;=;"},
		{"another cookie", "XJSESSIONID=" + good},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
			req.Header.Set("Cookie", tt.line)
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			got, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusOK || string(got) != "1" || len(res.Header["Set-Cookie"]) != 1 {
				t.Errorf("reply %d %q, Set-Cookie %q; want a new session", res.StatusCode, got, res.Header["Set-Cookie"])
			}
		})
	}
	if got := m.Stats(); got.Forged == 0 {
		t.Error("Forged = 0")
	}
}

func TestLinks(t *testing.T) { // SESS-49, SESS-50
	page := func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		n, _ := counterKey.Get(s)
		if err := counterKey.Set(s, n+1); err != nil {
			t.Error(err)
		}
		if strings.Contains(r.URL.Path+r.RequestURI+r.URL.EscapedPath(), "jsessionid") {
			t.Errorf("the handler sees the reference: %q, %q", r.URL, r.RequestURI)
		}
		_, _ = fmt.Fprintf(w, "%d %s %s", n+1, r.URL.Path, s.EncodeURL("/next?q=1"))
	}
	plain := func() *http.Client {
		c := client(t)
		c.Jar = nil
		return c
	}
	t.Run("without cookies", func(t *testing.T) {
		srv, _ := solo(t, Config{URLRewriting: true}, page)
		link := "/first"
		for n := 1; n <= 3; n++ {
			res, body := fetch(t, plain(), srv.URL+link)
			var got int
			var path, next string
			if _, err := fmt.Sscan(body, &got, &path, &next); err != nil || got != n {
				t.Fatalf("reply %d = %q", n, body)
			}
			if !strings.HasPrefix(next, "/next;jsessionid=") || !strings.HasSuffix(next, "?q=1") {
				t.Errorf("link = %q", next)
			}
			if res.Header.Get("Referrer-Policy") != "same-origin" {
				t.Errorf("Referrer-Policy = %q", res.Header.Get("Referrer-Policy"))
			}
			if n > 1 && (len(res.Header["Set-Cookie"]) != 0 || path != "/next") {
				t.Errorf("reply %d: path %q, Set-Cookie %q", n, path, res.Header["Set-Cookie"])
			}
			link = next
		}
	})
	t.Run("with cookies", func(t *testing.T) {
		srv, _ := solo(t, Config{URLRewriting: true}, page)
		c := client(t)
		fetch(t, c, srv.URL)
		if res, body := fetch(t, c, srv.URL); body != "2 / /next?q=1" || res.Header.Get("Referrer-Policy") != "" {
			t.Errorf("reply %q, want links as they are", body)
		}
	})
	t.Run("the cookie wins", func(t *testing.T) { // A22, A23
		srv, _ := solo(t, Config{URLRewriting: true}, page)
		_, body := fetch(t, plain(), srv.URL)
		link := strings.Fields(body)[2]
		c := client(t)
		fetch(t, c, srv.URL)
		if _, body := fetch(t, c, srv.URL+link); !strings.HasPrefix(body, "2 /next ") {
			t.Errorf("reply %q, want that of the cookie's session", body)
		}
		if _, body := fetch(t, c, srv.URL+"/x;jsessionid=gone.zz"); !strings.HasPrefix(body, "3 /x ") {
			t.Errorf("reply %q, want that of the cookie's session", body)
		}
	})
	t.Run("switched off", func(t *testing.T) {
		srv, m := solo(t, Config{}, page)
		c := client(t)
		res, _ := fetch(t, c, srv.URL)
		value := res.Cookies()[0].Value
		if _, body := fetch(t, plain(), srv.URL+"/x;jsessionid="+value); body != "1 /x /next?q=1" {
			t.Errorf("reply %q, want a new session and links as they are", body)
		}
		if got := m.Stats().Created; got != 2 {
			t.Errorf("%d sessions were created, want 2", got)
		}
	})
	t.Run("odd paths stay", func(t *testing.T) {
		var seen string
		srv, _ := solo(t, Config{URLRewriting: true}, func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.EscapedPath() })
		for in, want := range map[string]string{
			"/a%2Fb;v=1/c":              "/a%2Fb;v=1/c",
			"/a%2Fb;jsessionid=x;v=1/c": "/a%2Fb;v=1/c",
			"/a;jsessionid=x/b":         "/a/b",
			"/;jsessionid=x":            "/",
		} {
			if fetch(t, plain(), srv.URL+in); seen != want {
				t.Errorf("%s arrives as %s, want %s", in, seen, want)
			}
		}
	})
}

// A link that was made between RenewID and the flush leads to the session under
// its new id, also in a page that is too long to be held and changed.
func TestLinkAfterRenewID(t *testing.T) {
	bubble(t, Config{Placement: Ring, URLRewriting: true}, "ab", func(t *testing.T, f *farm) {
		f.use(func(w http.ResponseWriter, r *http.Request) {
			s := FromContext(r.Context())
			if s.Lost() {
				t.Errorf("%s: the session is lost", r.URL.Path)
			}
			n, _ := counterKey.Get(s)
			must(t, counterKey.Set(s, n+1))
			if r.URL.Path == "/login" {
				must(t, s.RenewID(0))
			}
			_, _ = fmt.Fprint(w, s.EncodeURL("x"), " ", n+1, strings.Repeat(" ", DefaultBuffer))
		})
		link, count := "x", ""
		for n, at := range []string{"a", "b", "a", "b", "a", "login", "a", "b"} { // the epoch rises
			path := "/" + link
			if at == "login" {
				at, path = "a", strings.Replace(path, "x", "login", 1)
			}
			b := &browser{t: t} // it keeps no cookies
			link, count, _ = strings.Cut(b.get(f.nodes[at], path).body, " ")
			if got := strings.TrimSpace(count); got != fmt.Sprint(n+1) {
				t.Fatalf("request %d counts %s", n+1, got)
			}
		}
	})
}

// The head may leave before the first link is made.
func TestReferrerPolicyOfAStream(t *testing.T) {
	srv, _ := solo(t, Config{URLRewriting: true}, func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		must(t, counterKey.Set(s, 1))
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, s.EncodeURL("x"))
	})
	res, got := fetch(t, client(t), srv.URL)
	if !strings.Contains(got, ";") || res.Header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("body %q, Referrer-Policy %q", got, res.Header.Get("Referrer-Policy"))
	}
}

// The links of a page name the pair that acknowledged it, also if that has
// changed since they were written.
func TestLinksFollowThePair(t *testing.T) {
	bubble(t, Config{Placement: Ring, URLRewriting: true}, "abc", func(t *testing.T, f *farm) {
		f.use(func(w http.ResponseWriter, r *http.Request) {
			s := FromContext(r.Context())
			n, _ := counterKey.Get(s)
			must(t, counterKey.Set(s, n+1))
			link := s.EncodeURL("/x")
			if n == 1 {
				f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(link)))
			_, _ = fmt.Fprint(w, link)
		})
		b := &browser{t: t}
		ask := func(n *node, path string) string {
			b.value = "" // it keeps no cookies
			return b.get(n, path).body
		}
		first := ask(f.nodes["a"], "/")
		second := ask(f.nodes["a"], first)
		value, err := f.codec.Decode(strings.TrimPrefix(second, "/x;jsessionid="))
		if err != nil || value.Primary != "a" || value.Secondary != "c" {
			t.Fatalf("the link names %+v, %v; want the pair a, c", value, err)
		}
		f.kill("a")
		third := ask(f.nodes["c"], second)
		if value, err := f.codec.Decode(strings.TrimPrefix(third, "/x;jsessionid=")); err != nil || value.Primary != "c" {
			t.Errorf("after the failover the link names %+v, %v", value, err)
		}
	})
}

func TestStreaming(t *testing.T) { // I14
	next := make(chan struct{})
	srv, m := solo(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		if err := counterKey.Set(s, 1); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", n)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-next
			if err := counterKey.Set(s, n+10); err != nil {
				t.Error(err)
			}
			if err := s.RenewID(0); err == nil {
				t.Error("RenewID after the head = nil")
			}
			if err := s.Flush(r.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	c := client(t)
	res, err := c.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if len(res.Cookies()) != 1 {
		t.Errorf("%d cookies", len(res.Cookies()))
	}
	lines := bufio.NewScanner(res.Body)
	for n := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", n) {
			t.Fatalf("line %d = %q", n, lines.Text())
		}
		lines.Scan()
		next <- struct{}{}
	}
	if lines.Scan() {
		t.Errorf("more: %q", lines.Text())
	}
	if got := m.Stats(); got.Primary != 1 {
		t.Errorf("%d sessions", got.Primary)
	}
}

func TestNoSessionAfterTheHead(t *testing.T) { // scs#215
	srv, m := solo(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		if err := counterKey.Set(FromContext(r.Context()), 1); err == nil || !strings.Contains(err.Error(), "the reply has begun") {
			t.Errorf("Set = %v", err)
		}
	})
	fetch(t, client(t), srv.URL)
	if got := m.Stats().Created; got != 0 {
		t.Errorf("%d sessions were created that no client knows", got)
	}
}

func TestUpgrade(t *testing.T) { // I14
	done := make(chan struct{})
	srv, m := solo(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		s := FromContext(r.Context())
		n, _ := counterKey.Get(s)
		if err := counterKey.Set(s, n+1); err != nil {
			t.Error(err)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		if got := w.Header()["Set-Cookie"]; len(got) != 1 {
			t.Errorf("Set-Cookie = %q, want one for the head that the handler writes", got)
		}
		if err := s.RenewID(0); err == nil { // the client would keep an id that is dead
			t.Error("RenewID after Hijack = nil")
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
		_ = rw.Flush()
		if err := counterKey.Set(s, 7); err != nil {
			t.Error(err)
		}
		if err := s.Flush(r.Context()); err != nil || s.Version() != 2 {
			t.Errorf("Flush = %v, version %d", err, s.Version())
		}
	})
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	if got, _ := io.ReadAll(conn); !strings.HasSuffix(string(got), "\r\n\r\nhello") {
		t.Errorf("read %q", got)
	}
	<-done
	await(t, "counted out", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.requests == 0 })
}

func TestPanic(t *testing.T) { // TC-8
	bubble(t, Config{Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		b.count(f.nodes["a"], 1, "a!b")
		func() {
			defer func() {
				if got := recover(); got != "exception" {
					t.Errorf("recover = %v, want the handler's own panic", got)
				}
			}()
			b.get(f.nodes["a"], "/exception")
		}()
		f.kill("a")
		b.count(f.nodes["b"], 3, "b!")
	})
}

// Whoever catches the panic outside can still tell the client its new session.
func TestPanicOfAFirstRequest(t *testing.T) {
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		b := &browser{t: t}
		got := b.through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				_ = recover()
				w.WriteHeader(http.StatusInternalServerError)
			}()
			f.nodes["a"].h.ServeHTTP(w, r)
		}), f.nodes["a"], "/exception")
		if got.code != http.StatusInternalServerError || b.value == "" {
			t.Errorf("reply %d, cookie %q", got.code, b.value)
		}
		b.count(f.nodes["a"], 2, "")
	})
}

func TestProbe(t *testing.T) { // PLUG-118
	_, m := solo(t, Config{}, counting)
	called := false
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	r := httptest.NewRequest(http.MethodOptions, "*", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || called || w.Body.Len() != 0 {
		t.Errorf("OPTIONS * = %d, %d bytes, handler called: %v", w.Code, w.Body.Len(), called)
	}
}

// refused checks that the handler has not run, and why.
func refused(t *testing.T, got reply, why string) {
	t.Helper()
	if got.code != http.StatusServiceUnavailable || got.header.Get(NotExecuted) != why {
		t.Errorf("reply %d, %s: %q; want 503, %q", got.code, NotExecuted, got.header.Get(NotExecuted), why)
	}
}

func TestNotExecuted(t *testing.T) { // D8
	t.Run("starting", func(t *testing.T) {
		bubble(t, Config{JoinTimeout: time.Minute}, "ab", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			f.net.Cut("10.0.0.99", f.nodes["a"].ip) // c does not reach a
			c := f.start("c")
			time.Sleep(time.Second)
			refused(t, b.get(c, "/counter"), "starting")
			if err := c.m.Ready(); err == nil || !strings.Contains(err.Error(), "a#") {
				t.Errorf("Ready = %v, want an error that names a", err)
			}
			time.Sleep(5 * time.Second) // it does not wait for ever
			b.count(c, 1, "")
		})
	})
	t.Run("draining", func(t *testing.T) {
		bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			began, end := make(chan struct{}), make(chan struct{})
			slow := &browser{t: t, value: b.value}
			done := make(chan reply)
			go func() {
				done <- slow.with(f.nodes["a"], func(s *Session) {
					close(began)
					<-end
					must(t, NewKey[int]("late").Set(s, 1))
				})
			}()
			<-began
			closed := make(chan error)
			go func() { closed <- f.nodes["a"].m.Close(t.Context()) }()
			time.Sleep(time.Second)
			refused(t, b.get(f.nodes["a"], "/counter"), "draining")
			b.count(f.nodes["b"], 2, "b!c") // it was handed over meanwhile
			close(end)
			if got := <-done; got.code != http.StatusOK || got.Primary != "b" {
				t.Errorf("the request under way: %+v", got)
			}
			if err := <-closed; err != nil {
				t.Errorf("Close = %v", err)
			}
			if got := b.count(f.nodes["b"], 3, "b!c"); len(got.Names) != 2 {
				t.Errorf("attributes %v, want the late one too", got.Names)
			}
			if err := f.nodes["a"].m.Ready(); !errors.Is(err, errDraining) {
				t.Errorf("Ready = %v", err)
			}
		})
	})
	t.Run("the owner is elsewhere", func(t *testing.T) { // ownership vector 29
		bubble(t, Config{Placement: Ring}, "abc", func(t *testing.T, f *farm) {
			b := &browser{t: t}
			b.count(f.nodes["a"], 1, "a!b")
			f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
			time.Sleep(time.Second)
			refused(t, b.get(f.nodes["b"], "/counter"), "owner; member=a")
			b.count(f.nodes["a"], 2, "a!c")
		})
	})
}
