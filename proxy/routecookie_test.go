package proxy_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy"
)

// mod_jk.md 3.11 [T]: a client without a session here gets the route of the member that
// served it, exactly once, also after a failover.
func TestRouteCookie(t *testing.T) {
	serve := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/login" {
			c.say("HTTP/1.1 200 OK\r\nX-Member: %s\r\nSet-Cookie: MINE=new.%[1]s; Path=/\r\nContent-Length: 0\r\n\r\n", m.name)
			return true
		}
		return counter(m, c, r)
	}
	o := options{
		members: []string{"a", "b"}, serve: map[string]handler{"a": serve, "b": serve},
		lines: "worker.lb.set_session_cookie=1\nworker.lb.session_cookie=MINE\nworker.b.route=second\n",
		rules: "/own/*=lb;session_cookie=OWN;session_cookie_path=/own\n/none/*=lb;sticky_ignore=1\n/*=lb\n",
		config: func(c *proxy.Config) {
			c.Codec = testCodec(t)
		},
	}
	every(t, o, func(t *testing.T, w *world) {
		ask := func(path, cookie string) (answer, []string) {
			t.Helper()
			r, _ := http.NewRequest(http.MethodGet, "http://"+proxyAddr+path, nil)
			if cookie != "" {
				r.Header.Set("Cookie", cookie)
			}
			a, err := w.send(r)
			if err != nil || a.status != 200 {
				t.Fatalf("GET %s = %d, %v", path, a.status, err)
			}
			return a, a.header["Set-Cookie"]
		}
		route := map[string]string{"a": "a", "b": "second"}
		for range 4 {
			a, set := ask("/", "")
			if want := "MINE=." + route[a.member] + ";PATH=/;HttpOnly"; len(set) != 1 || set[0] != want {
				t.Errorf("no session: set %q, want %q", set, want)
			}
			b, again := ask("/", strings.TrimSuffix(set[0], ";PATH=/;HttpOnly"))
			if b.member != a.member || len(again) != 0 {
				t.Errorf("with that cookie: %q set %q, want %q and nothing", b.member, again, a.member)
			}
		}
		for _, tt := range []struct {
			path, cookie, want string
		}{
			{"/", "MINE=x.second", ""},
			{"/;jsessionid=x.second", "", ""},
			{"/own/", "MINE=x.second; OWN=x.a", ""},
			{"/none/", "MINE=x.second", ""},                                    // no session is looked for
			{"/", "MINE=" + signed(t, testCodec(t), "id", "gone", "lost"), ""}, // a session of ours stays as it is
			{"/login", "", "MINE=new."},                                        // the member knows better
			{"/own/", "MINE=x.second; OWN=x.gone", "OWN=."},                    // and not MINE
		} {
			_, set := ask(tt.path, tt.cookie)
			if len(set) > 1 || tt.want == "" && len(set) > 0 || tt.want != "" && (len(set) != 1 || !strings.HasPrefix(set[0], tt.want)) {
				t.Errorf("GET %s with %s: set %q, want %q", tt.path, tt.cookie, set, tt.want)
			}
		}
		if _, set := ask("/own/", ""); len(set) != 1 || !strings.HasSuffix(set[0], ";PATH=/own;HttpOnly") {
			t.Errorf("a rule's path: set %q", set)
		}
		w.members["a"].kill()
		if a, set := ask("/", "MINE=x.a"); a.member != "b" || len(set) != 1 || set[0] != "MINE=.second;PATH=/;HttpOnly" {
			t.Errorf("after a failover: %q set %q", a.member, set)
		}
	})
}

// A route that would end the cookie early is an error that names its place.
func TestRouteCookieErrors(t *testing.T) {
	text := oneMember + "worker.a.route=x;y\nworker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\n"
	if _, err := proxy.New(proxy.Config{Workers: parseWorkers(t, text+"worker.lb.set_session_cookie=1\n")}); err == nil || !strings.HasPrefix(err.Error(), "workers.properties:6: worker.lb: set_session_cookie: ") {
		t.Errorf("New = %v", err)
	}
	if _, err := proxy.New(proxy.Config{Workers: parseWorkers(t, text), URIMap: parseRules(t, "/*=lb;set_session_cookie=1\n")}); err == nil || !strings.HasPrefix(err.Error(), "uriworkermap.properties:1: /*: set_session_cookie: ") {
		t.Errorf("New = %v", err)
	}
}

// The cookie is Secure if the client came over TLS, also to a proxy in front.
// It is set with one member as well, where mod_jk sets none (mod_jk.md 3.6 [T]).
func TestRouteCookieIsSecure(t *testing.T) {
	o := options{members: []string{"a"}, lines: "worker.lb.set_session_cookie=1\n", config: func(c *proxy.Config) {
		c.TrustedNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")}
	}}
	every(t, o, func(t *testing.T, w *world) {
		r, _ := http.NewRequest(http.MethodGet, "http://"+proxyAddr+"/", nil)
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		r.Header.Set("X-Forwarded-Proto", "https")
		a, err := w.send(r)
		if got := a.header.Get("Set-Cookie"); err != nil || got != "JSESSIONID=.a;PATH=/;HttpOnly;Secure" {
			t.Errorf("%v, set %q", err, got)
		}
	})
}
