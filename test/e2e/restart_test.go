package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// idlers gives n clients of the proxy a session, which they leave alone.
func (s *cluster) idlers(p *proxy, n int) []*client {
	s.t.Helper()
	all := make([]*client, n)
	for i := range all {
		all[i] = s.client(p.listen)
		all[i].Count()
		all[i].Close()
	}
	return all
}

// TestChainOfDeaths is TC-5 without a request in between: nodes are killed one
// after the other, each as soon as all others say that redundancy is restored,
// and 1,000 sessions that nobody uses meanwhile go on at the last one.
func TestChainOfDeaths(t *testing.T) { // SESS-30, D7
	left := []string{"a", "b", "c", "d"}
	s := newCluster(t, left...)
	p := s.proxy(s.workers(left...), true)
	idle := s.idlers(p, 1000)
	for deaths := 1; len(left) > 1; deaths++ {
		victim := s.nodes[left[0]]
		left = left[1:]
		began := time.Now()
		victim.Kill()
		if len(left) == 1 {
			break
		}
		for _, name := range left {
			n := s.nodes[name]
			stage.Wait(t, "node "+name+" has restored redundancy", func() bool {
				return len(n.Lines("redundancy restored")) == deaths &&
					metric(t, n.admin, "understudy_restoring") == 0 && metric(t, n.admin, "understudy_sessions_lacking_copy") == 0
			})
		}
		t.Logf("redundancy restored %v after the death of %s", time.Since(began).Round(time.Millisecond), victim.name)
	}
	for i, c := range idle {
		if r := c.Count(); r.Node != "d" || r.Counter != 2 {
			t.Fatalf("session %d: %v, want 2 from d", i, r)
		}
		c.Close()
	}
}

// A visitor counts by POST and looks by GET, in turns. Unlike [counting] it takes
// no error for granted: nobody dies here.
type visitor struct {
	*client
	posts, gets int
	visits      int // what the second counter was last, of nodes that have one
	faults      []string
}

func (v *visitor) visit(halted context.Context, think time.Duration) {
	for n := 0; halted.Err() == nil; n++ {
		before := v.Last()
		method, path, want := http.MethodPost, "/counter", before.Counter+1
		if n%2 == 1 {
			method, path, want = http.MethodGet, "/peek", before.Counter
			v.gets++
		} else {
			v.posts++
		}
		r, err := v.Do(context.WithoutCancel(halted), method, path)
		switch {
		case err != nil:
			v.fault("%v; the reply before: %v", err, before)
		case r.Counter != want, r.Lost, r.SessionID != before.SessionID:
			v.fault("%s %s: %v after %v", method, path, r, before)
		case r.Visits > 0:
			if method == http.MethodPost {
				v.visits++
			}
			if r.Visits != v.visits {
				v.fault("%s %s at %s: visits %d, want %d", method, path, r.Node, r.Visits, v.visits)
			}
		}
		stage.Sleep(halted, think)
	}
}

func (v *visitor) fault(format string, a ...any) {
	v.faults = append(v.faults, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, a...))
}

// TestRollingRestart restarts every node in turn, three times, under 200 clients:
// no session is lost, no request fails, and all counters are exact.
func TestRollingRestart(t *testing.T) { // SESS-39
	const rounds, visitors = 3, 200
	names := []string{"a", "b", "c", "d"}
	s := newCluster(t, names...)
	p := s.proxy(s.workers(names...), true)
	idle := s.idlers(p, 200)
	halted, halt := context.WithCancel(t.Context())
	defer halt()
	var wg sync.WaitGroup
	all := make([]*visitor, visitors)
	for i := range all {
		v := &visitor{client: s.client(p.listen)}
		v.Count()
		all[i] = v
		wg.Go(func() { v.visit(halted, time.Duration(150+i)*time.Millisecond) })
	}
	for round := range rounds {
		for _, name := range names {
			n := s.nodes[name]
			began := time.Now()
			if code := n.Stop(); code != 0 {
				t.Errorf("round %d: node %s ended with %d", round, name, code)
			}
			stopped := time.Since(began)
			if !n.Logged("sessions handed over", `"left":0,`) {
				t.Errorf("round %d: node %s did not hand over all its sessions: %q", round, name, n.Lines("sessions handed over"))
			}
			s.launch(n)
			s.ready(name)
			t.Logf("round %d: %s stopped in %v, back after %v", round, name, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		}
	}
	halt()
	wg.Wait()
	posts, gets, faults := 0, 0, 0
	for i, v := range all {
		posts, gets, faults = posts+v.posts, gets+v.gets, faults+len(v.faults)
		if want := v.posts + 1; v.Last().Counter != want {
			t.Errorf("visitor %d: counter %d after %d requests that count", i, v.Last().Counter, want)
		}
		for _, f := range v.faults[:min(len(v.faults), 3)] {
			t.Errorf("visitor %d: %s", i, f)
		}
		v.Close()
	}
	for _, c := range idle {
		c.Count()
		c.Close()
	}
	t.Logf("%d requests that count and %d that look, %d faults", posts, gets, faults)
	if posts < visitors*10 {
		t.Errorf("%d requests: hardly a load", posts)
	}
}

// ctl runs proxy ctl and returns its output and whether it went well.
func (s *cluster) ctl(p *proxy, args ...string) (string, bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stage.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, binaries.Proxy, append([]string{"ctl"}, append(args, "--admin", p.admin)...)...).CombinedOutput()
	return string(out), err == nil
}

// TestCtl drains a node from the command line, and resumes it: all proxies send it
// no new sessions meanwhile, and it has none left.
func TestCtl(t *testing.T) { // SESS-39, D11
	names := []string{"a", "b", "c"}
	s := newCluster(t, names...)
	token := s.file("admin.token", "a token that nobody guesses\n")
	p := s.proxy(s.workers(names...), true, "--admin-token", token)
	other := s.proxy(s.workers(names...), true)
	idle := s.idlers(p, 60)
	if out, ok := s.ctl(p, "drain", "a"); ok || !strings.Contains(out, "401") {
		t.Fatalf("without the token: %q", out)
	}
	if out, ok := s.ctl(p, "drain", "x", "--admin-token", token); ok || !strings.Contains(out, `no member "x"`) {
		t.Fatalf("of nobody: %q", out)
	}
	out, ok := s.ctl(p, "drain", "a", "--admin-token", token)
	if !ok || !strings.Contains(out, "\n0 sessions and copies left\n") {
		t.Fatalf("drain says %q, want that none is left", out)
	}
	for _, role := range []string{"primary", "secondary"} {
		if n := metric(t, s.nodes["a"].admin, `understudy_sessions{role="`+role+`"}`); n != 0 {
			t.Errorf("a is %s of %v sessions", role, n)
		}
	}
	for range 30 {
		for _, q := range []*proxy{p, other} {
			if r := s.client(q.listen).Count(); r.Node == "a" {
				t.Fatalf("a new session on the node that drains: %v", r)
			}
		}
	}
	for _, c := range idle {
		if r := c.Count(); r.Node == "a" || r.Secondary == "a" {
			t.Fatalf("an idle session: %v", r)
		}
		c.Close()
	}
	if out, ok := s.ctl(other, "members"); !ok || !strings.Contains(out, "draining") || strings.Count(out, "running") != 2 {
		t.Errorf("members says\n%s", out)
	}
	if out, ok := s.ctl(p, "resume", "a", "--admin-token", token); !ok {
		t.Fatalf("resume says %q", out)
	}
	s.ready("a")
	stage.Wait(t, "a gets new sessions", func() bool { return s.client(other.listen).Count().Node == "a" })

	// A proxy that does not gossip can disable a member for itself.
	alone := s.proxy(s.workers(names...), false, "--admin-token", token)
	if out, ok := s.ctl(alone, "drain", "b", "--admin-token", token); !ok || !strings.Contains(out, "on this proxy alone") {
		t.Fatalf("without gossip: %q", out)
	}
	for range 20 {
		if r := s.client(alone.listen).Count(); r.Node == "b" {
			t.Fatalf("a new session on a member that is disabled: %v", r)
		}
	}
}

// submit fills in the form of a proxy's status page, as a browser does, and returns
// the page that the browser shows then, and its status.
func submit(t *testing.T, admin, order, route, token string) (page string, status int) {
	t.Helper()
	at := "http://" + admin
	form := get(t, at+"/?"+url.Values{order: {route}}.Encode())
	for _, part := range []string{`<form method="post" action="./"`, `type="hidden" name="` + order + `" value="` + route + `"`, `type="password" name="token"`, "form-action 'self'"} {
		if !strings.Contains(form, part) {
			t.Fatalf("the page has no %s:\n%s", part, form)
		}
	}
	fields := url.Values{order: {route}, "token": {token}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/", strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", at)
	res, err := quick.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSeeOther {
		where, err := res.Location()
		if err != nil || where.String() != at+"/" {
			t.Fatalf("redirected to %v, %v", where, err)
		}
		return get(t, where.String()), http.StatusOK
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), res.StatusCode
}

// TestPageDrains drains a node on the status page, and resumes it: the page says
// what was done, how many sessions are left, and that none is; another proxy's page
// shows the same.
func TestPageDrains(t *testing.T) { // SESS-39, D11; D34: told to one proxy, all see it
	names := []string{"a", "b", "c"}
	const token = "a token that nobody guesses"
	s := newCluster(t, names...)
	p := s.proxy(s.workers(names...), true, "--admin-token", s.file("admin.token", token+"\n"))
	other := s.proxy(s.workers(names...), true)
	idle := s.idlers(p, 60)
	if page := get(t, "http://"+other.admin+"/?drain=a"); strings.Contains(page, "<form") || !strings.Contains(page, "start the proxy with --admin-token") {
		t.Errorf("the page of a proxy without a token:\n%s", page)
	}
	if page, status := submit(t, p.admin, "drain", "a", token+"!"); status != http.StatusUnauthorized || !strings.Contains(page, "Not done: that is not the token") {
		t.Fatalf("another token: %d\n%s", status, page)
	}
	if page, status := submit(t, p.admin, "drain", "x", token); status != http.StatusNotFound || !strings.Contains(page, "Not done: there is no member") {
		t.Fatalf("of nobody: %d\n%s", status, page)
	}
	for _, n := range s.nodes {
		if lines := n.Lines("draining"); len(lines) > 0 {
			t.Fatalf("node %s drains: %q", n.name, lines)
		}
	}
	if page, status := submit(t, p.admin, "drain", "a", token); status != http.StatusOK || !strings.Contains(page, "a was told to drain") {
		t.Fatalf("drain: %d\n%s", status, page)
	}
	for _, q := range []*proxy{p, other} {
		stage.Wait(t, "the page says that nothing is left", func() bool {
			page := get(t, "http://"+q.admin+"/")
			return strings.Contains(page, "draining<br>") && strings.Contains(page, "nothing left")
		})
	}
	for _, c := range idle {
		if r := c.Count(); r.Node == "a" || r.Secondary == "a" {
			t.Fatalf("an idle session: %v", r)
		}
		c.Close()
	}
	// A proxy that starts anew learns of it (D25): the drain is the node's.
	anew := s.proxy(s.workers(names...), true)
	stage.Wait(t, "the new proxy says that a drains", func() bool {
		return strings.Contains(get(t, "http://"+anew.admin+"/"), "draining<br>")
	})
	if page, status := submit(t, p.admin, "resume", "a", token); status != http.StatusOK || !strings.Contains(page, "a was told to resume") {
		t.Fatalf("resume: %d\n%s", status, page)
	}
	s.ready("a")
	stage.Wait(t, "a gets new sessions", func() bool { return s.client(other.listen).Count().Node == "a" })
	if !p.Logged("order passed on", `"order":"drain"`) {
		t.Errorf("the proxy has not logged the order: %q", p.Lines("order"))
	}
	if strings.Contains(p.Output(), token) {
		t.Error("the token is in the log")
	}

	// Disabled by a proxy that does not gossip, and active again.
	alone := s.proxy(s.workers(names...), false, "--admin-token", s.file("admin.token", token+"\n"))
	page, status := submit(t, alone.admin, "drain", "b", token)
	if status != http.StatusOK || !strings.Contains(page, "on this proxy alone") || !strings.Contains(page, `disabled <a class="button" href="?resume=b">`) {
		t.Fatalf("without gossip: %d\n%s", status, page)
	}
	if page, status := submit(t, alone.admin, "resume", "b", token); status != http.StatusOK || strings.Contains(page, "disabled") {
		t.Fatalf("resume without gossip: %d\n%s", status, page)
	}
}
