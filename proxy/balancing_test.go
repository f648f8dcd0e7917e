package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// servedBy sends one request with a cookie line and returns who answered, or the
// status if nobody did.
func (w *world) servedBy(path, cookie string) string {
	w.t.Helper()
	r, _ := http.NewRequest(http.MethodGet, "http://"+proxyAddr+path, nil)
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	a, err := w.send(r)
	if err != nil {
		w.t.Fatalf("GET %s: %v", path, err)
	}
	if a.status != http.StatusOK {
		return fmt.Sprint(a.status)
	}
	return a.member
}

// What the file says of balancing reaches the balancer (mod_jk.md 2.5, 2.6, 3).
func TestBalancing(t *testing.T) {
	type step struct{ path, cookie, want string }
	tests := []struct {
		name, lines, rules string
		dead               string // members that nobody has started
		steps              []step
	}{{
		name:  "sticky_session_force: 503 without the session's member (trap 16)",
		lines: "worker.lb.sticky_session_force=1\nworker.b.activation=S\n",
		rules: "/*=lb\n/free/*=lb;sticky_ignore=1\n",
		steps: []step{{"/", "JSESSIONID=x.b", "503"}, {"/", "JSESSIONID=x.gone", "503"}, {"/", "JSESSIONID=x", "503"}, {"/", "JSESSIONID=x.c", "c"}, {"/", "", "a"}, {"/free/", "JSESSIONID=x.b", "c"}},
	}, {
		name:  "redirect names a route, and beats the domain",
		lines: "worker.a.redirect=third\nworker.c.route=third\nworker.a.domain=d\nworker.b.domain=d\n",
		dead:  "a",
		steps: []step{{"/", "JSESSIONID=x.a", "c"}, {"/", "JSESSIONID=x.a", "c"}, {"/", "JSESSIONID=x.a", "c"}},
	}, {
		name:  "hot standby",
		lines: "worker.a.redirect=c\nworker.c.activation=disabled\n",
		dead:  "ab",
		steps: []step{{"/", "", "c"}, {"/", "", "c"}},
	}, {
		name:  "domain by default is what a route has before its first dot",
		lines: "worker.b.route=east.b\nworker.c.route=east.c\n",
		dead:  "b",
		steps: []step{{"/", "JSESSIONID=x.east.b", "c"}, {"/", "JSESSIONID=x.east.b", "c"}, {"/", "JSESSIONID=x.east.new", "c"}},
	}, {
		name:  "distance",
		lines: "worker.a.distance=1\nworker.c.distance=1\n",
		steps: []step{{"/", "", "b"}, {"/", "", "b"}, {"/", "JSESSIONID=x.c", "c"}, {"/", "", "b"}},
	}, {
		name:  "activation is a member's: a worker on its own has none (2.5)",
		lines: "worker.list=lb,c\nworker.c.activation=stopped\n",
		rules: "/*=lb\n/c/*=c\n",
		steps: []step{{"/c/", "", "c"}, {"/", "JSESSIONID=x.c", "a"}},
	}, {
		name:  "several cookies: the next one counts when the first one's member has failed (3.5)",
		lines: "worker.a.lbfactor=100\n",
		dead:  "b",
		steps: []step{{"/", "JSESSIONID=x.b; JSESSIONID=y.c", "c"}, {"/", "JSESSIONID=x.b; JSESSIONID=y.c", "c"}},
	}, {
		name:  "of several, one that a redirect serves comes first",
		lines: "worker.a.redirect=c\n",
		dead:  "a",
		steps: []step{{"/", "JSESSIONID=x.a", "c"}, {"/", "JSESSIONID=x.a; JSESSIONID=y.b", "c"}},
	}, {
		name:  "S counts requests without a session alone (3.3)",
		lines: "worker.lb.method=S\n",
		steps: []step{{"/", "JSESSIONID=x.a", "a"}, {"/", "JSESSIONID=x.a", "a"}, {"/", "", "a"}, {"/", "", "b"}, {"/", "JSESSIONID=x", "c"}, {"/", "", "c"}},
	}, {
		name:  "T counts bytes (3.3)",
		lines: "worker.lb.method=Traffic\n",
		steps: []step{{"/" + strings.Repeat("x", 2000), "", "a"}, {"/", "", "b"}, {"/", "", "c"}, {"/", "", "b"}, {"/", "", "c"}, {"/", "", "b"}},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options{lines: tt.lines, rules: tt.rules, without: strings.Split(tt.dead, "")}
			both(t, o, func(t *testing.T, w *world) {
				for i, s := range tt.steps {
					if got := w.servedBy(s.path, s.cookie); got != s.want {
						t.Errorf("request %d, %.20s with %q: %s, want %s", i, s.path, s.cookie, got, s.want)
					}
				}
			})
		})
	}
}

// Who answers sooner gets more with method=least-time, and with rendezvous a session
// without a route, or a client, has its member.
func TestOwnMethods(t *testing.T) {
	both(t, options{lines: "worker.lb.method=rendezvous\n"}, func(t *testing.T, w *world) {
		by := map[string]string{}
		for i := range 40 {
			cookie := fmt.Sprintf("JSESSIONID=session%d", i)
			by[cookie] = w.servedBy("/", cookie)
		}
		all := map[string]int{}
		for cookie, member := range by {
			all[member]++
			if got := w.servedBy("/", cookie); got != member {
				t.Errorf("%s went to %s, and then to %s", cookie, member, got)
			}
		}
		if len(all) != 3 {
			t.Errorf("40 sessions went to %v, want all members", all)
		}
		first := w.servedBy("/", "")
		for range 5 {
			if got := w.servedBy("/", ""); got != first {
				t.Errorf("the same client went to %s, and then to %s", first, got)
			}
		}
	})
	slow := func(m *fake, c *memberConn, r *http.Request) bool {
		time.Sleep(time.Second)
		return counter(m, c, r)
	}
	both(t, options{lines: "worker.lb.method=least-time\n", serve: map[string]handler{"a": slow}}, func(t *testing.T, w *world) {
		n := 0
		for range 30 {
			if w.servedBy("/", "") == "a" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the slow member got %d of 30 requests, want the one that showed it", n)
		}
	})
	both(t, options{lines: "worker.lb.method=p2c\nworker.a.activation=D\n"}, func(t *testing.T, w *world) {
		var got []string
		for range 40 {
			got = append(got, w.servedBy("/", ""))
		}
		if slices.Contains(got, "a") || !slices.Contains(got, "b") || !slices.Contains(got, "c") {
			t.Errorf("40 requests went to %q, want b and c", got)
		}
	})
}
