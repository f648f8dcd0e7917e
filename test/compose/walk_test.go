package compose

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// enough is how many counts of every client make a step: a second or two.
const enough = 20

// A scene is one step of the walk: something happens to one node, the clients
// go on, and it is undone.
type scene struct {
	name  string
	cut   func(s *stage, node string)
	until func(s *stage, node string) string // "" once the cluster has noticed; nil if it need not
	mend  func(s *stage, node string)

	// Of a client whose primary the node is: how many requests may fail, those
	// in flight there, and whether a reply may say that something is lost.
	errors  int
	mayFlag bool
}

// scenes are the steps of docs/compose.md. Each is played twice, with the
// primary of the first client and with its secondary.
func scenes() []scene {
	noticed := func(s *stage, node string) string { return s.members(false, node) }
	compose := func(command string) func(*stage, string) {
		return func(s *stage, node string) { s.compose(command, node) }
	}
	return []scene{
		{name: "kill", cut: compose("kill"), until: noticed, mend: compose("start"), errors: 1},
		{
			name: "pause", cut: compose("pause"), until: noticed, mend: compose("unpause"), errors: 2,
		},
		{
			name: "cut from the nodes", until: noticed, mayFlag: true, // G4
			cut:  func(s *stage, node string) { s.disconnect("replication", node) },
			mend: func(s *stage, node string) { s.connect("replication", node) },
		},
		{
			name: "cut from the proxies", errors: 2,
			cut:  func(s *stage, node string) { s.disconnect("clients", node) },
			mend: func(s *stage, node string) { s.connect("clients", node) },
		},
		{
			name: "stop", until: noticed, mend: compose("start"),
			cut: func(s *stage, node string) {
				s.compose("stop", node)
				if code := s.docker("inspect", "-f", "{{.State.ExitCode}}", s.container(node)); code != "0" {
					s.t.Errorf("node %s ended with status %s after SIGTERM, want 0", node, code)
				}
			},
		},
	}
}

// TestWalk does what docs/compose.md tells the reader to do, while clients count
// at both proxies (TC-1 to 4, 9, 10): no acknowledged count is lost, and
// nothing fails but what was in flight at a node that died or fell silent.
func TestWalk(t *testing.T) {
	s := newStage(t)
	clients := newClients(t, 6, s.proxies)
	ok := t.Run("the pair", func(t *testing.T) {
		onward(t, s, clients)
		for _, c := range clients {
			// The other group, and there the other machine (SESS-23).
			want := map[string]string{"a": "d", "b": "c", "c": "b", "d": "a"}
			if r := c.seen().last; r.Secondary != want[r.Primary] {
				t.Errorf("the pair is %s and %s, want %s", r.Primary, r.Secondary, want[r.Primary])
			}
		}
	})
	ok = ok && t.Run("a long upload", func(t *testing.T) { upload(t, s) })
	for _, sc := range scenes() {
		ok = ok && t.Run(sc.name+"/primary", func(t *testing.T) { sc.play(t, s, clients, clients[0].seen().last.Primary) })
		ok = ok && t.Run(sc.name+"/secondary", func(t *testing.T) { sc.play(t, s, clients, clients[0].seen().last.Secondary) })
	}
	ok = ok && t.Run("a node crashes", func(t *testing.T) { crash(t, s, clients) })
	ok = ok && t.Run("kill a proxy", func(t *testing.T) {
		begin(clients, false)
		s.compose("kill", "proxy1")
		onward(t, s, clients)
		s.compose("start", "proxy1")
		s.wait("the proxy is back", func() string { return s.members(true, "a", "b", "c", "d") })
		judge(t, clients, 1)
	})
	ok = ok && t.Run("up again", func(t *testing.T) {
		begin(clients, false)
		before := s.compose("ps", "-q")
		s.compose("up", "-d") // keygen runs again and leaves the key
		s.wait("all are healthy", func() string {
			for _, name := range []string{"proxy1", "proxy2", "a", "b", "c", "d"} {
				if h := s.health(name); h != "healthy" {
					return name + ": " + h
				}
			}
			return ""
		})
		onward(t, s, clients)
		judge(t, clients, 0)
		if after := s.compose("ps", "-q"); after != before {
			t.Errorf("containers were %s before, and are %s", before, after)
		}
	})
	if ok {
		isolatedAndDead(t, s, clients)
	}
}

// play does one scene to node and judges what the clients have seen.
func (sc scene) play(t *testing.T, s *stage, clients []*client, node string) {
	allowed := make([]int, len(clients))
	for i, c := range clients {
		served := c.seen().last.Primary == node
		c.begin(sc.mayFlag && served)
		if served {
			allowed[i] = sc.errors
		}
	}
	t.Logf("%s %s; the pairs are %s", sc.name, node, pairs(clients))
	sc.cut(s, node)
	if sc.until != nil {
		s.wait("both proxies have heard that "+node+" is gone", func() string { return sc.until(s, node) })
	}
	onward(t, s, clients)
	t.Logf("the pairs are %s, the longest wait was %v", pairs(clients), worst(clients))
	sc.mend(s, node)
	s.wait(node+" is back", func() string { return s.members(true, node) })
	onward(t, s, clients)
	s.wait("every session has its copy again", func() string {
		for _, c := range clients {
			if r := c.seen().last; r.Secondary == "NONE" {
				return fmt.Sprintf("%+v", r)
			}
		}
		return ""
	})
	t.Logf("the pairs are %s, the longest wait was %v", pairs(clients), worst(clients))
	judge(t, clients, allowed...)
}

// upload sends each proxy more than it keeps in memory: it can put the rest in a
// file, though nothing else can be written in there.
func upload(t *testing.T, s *stage) {
	for i, proxy := range s.proxies {
		browser := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := browser.Post("http://"+proxy+"/counter", "application/octet-stream", bytes.NewReader(make([]byte, 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("the upload is answered %s, want 200", res.Status)
		}
		if res, err = browser.Get("http://" + s.admins[i] + "/metrics"); err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Contains(page, []byte("\nunderstudy_spool_failed_total 0\n")) {
			t.Errorf("the upload could not be kept (%v):\n%s", err, regexp.MustCompile(`understudy_spool.*`).FindAll(page, -1))
		}
	}
}

// crash has a node kill itself, which Docker starts again without anybody's
// help.
func crash(t *testing.T, s *stage, clients []*client) {
	begin(clients, false)
	browser := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := browser.Post("http://"+s.proxies[0]+"/crash", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadGateway {
		t.Errorf("POST /crash is answered %s, want 502", res.Status)
	}
	s.wait("Docker has started the node again", func() string {
		restarts := ""
		for _, node := range []string{"a", "b", "c", "d"} {
			restarts += s.docker("inspect", "-f", "{{.RestartCount}}", s.container(node))
		}
		if strings.Count(restarts, "0") != 3 || strings.Count(restarts, "1") != 1 {
			return "restarts of a, b, c, d: " + restarts
		}
		return s.members(true, "a", "b", "c", "d")
	})
	onward(t, s, clients)
	judge(t, clients, 1)
}

// isolatedAndDead is the end of TC-9: a node that could make no copies dies, and
// what it alone had acknowledged with it. No client is given an older state as
// if nothing had happened.
func isolatedAndDead(t *testing.T, s *stage, clients []*client) {
	t.Run("kill a primary that was cut from the nodes", func(t *testing.T) {
		node := clients[0].seen().last.Primary
		begin(clients, true)
		s.disconnect("replication", node)
		s.wait("the sessions of "+node+" have no copy", func() string {
			for _, c := range clients {
				if r := c.seen().last; r.Primary == node && r.Secondary != "NONE" {
					return fmt.Sprintf("%+v", r)
				}
			}
			return ""
		})
		var alone []*client
		for _, c := range clients {
			if c.seen().last.Primary == node {
				alone = append(alone, c)
			}
		}
		s.compose("kill", node)
		onward(t, s, clients)
		for i, c := range alone {
			if got := c.seen(); got.flagged != 1 {
				t.Errorf("client %d: lost was said %d times, want once: %+v", i, got.flagged, got.last)
			}
		}
		s.connect("replication", node)
		s.compose("start", node)
		s.wait(node+" is back", func() string { return s.members(true, node) })
		onward(t, s, clients)
		judge(t, clients, 1)
	})
}

func begin(clients []*client, mayFlag bool) {
	for _, c := range clients {
		c.begin(mayFlag)
	}
}

// onward waits until every client has counted enough from now on.
func onward(t *testing.T, s *stage, clients []*client) {
	t.Helper()
	var before []int
	for _, c := range clients {
		before = append(before, c.seen().counts)
	}
	s.wait("all clients go on", func() string {
		for i, c := range clients {
			if got := c.seen(); got.counts < before[i]+enough {
				return fmt.Sprintf("client %d has counted %d: %+v", i, got.counts-before[i], got)
			}
		}
		return ""
	})
}

// judge fails the test for what no client may see. The errors allowed are of
// each client, or the same for all.
func judge(t *testing.T, clients []*client, allowed ...int) {
	t.Helper()
	for i, c := range clients {
		got := c.seen()
		for _, f := range got.faults {
			t.Errorf("client %d: %s", i, f)
		}
		errors := allowed[min(i, len(allowed)-1)]
		if len(got.failed) > errors {
			t.Errorf("client %d: %d requests failed, want at most %d: %s", i, len(got.failed), errors, strings.Join(got.failed, "; "))
		} else if len(got.failed) > 0 {
			t.Logf("client %d: in flight: %s", i, strings.Join(got.failed, "; "))
		}
		if got.flagged > 0 {
			t.Logf("client %d: lost was said %d times", i, got.flagged)
		}
	}
}

// pairs says who serves whom: "a!d ×4".
func pairs(clients []*client) string {
	count := map[string]int{}
	var names []string
	for _, c := range clients {
		r := c.seen().last
		name := r.Primary + "!" + r.Secondary
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s ×%d", name, count[name])
	}
	return strings.Join(names, ", ")
}

func worst(clients []*client) time.Duration {
	var w time.Duration
	for _, c := range clients {
		w = max(w, c.seen().worst)
	}
	return w.Round(time.Millisecond)
}
