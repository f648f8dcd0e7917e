package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// rewrite replaces a file as an editor does.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// hammer asks for url in a loop, with a connection that is kept and without one in
// turns, until halted, and returns what went wrong.
func hammer(url string, halted <-chan struct{}) (good int, faults []string) {
	keeps := &http.Client{Timeout: stage.Patience, Transport: &http.Transport{}}
	defer keeps.CloseIdleConnections()
	for ; ; good++ {
		select {
		case <-halted:
			return good, faults
		default:
		}
		client := keeps
		if good%2 == 1 {
			client = quick
		}
		res, err := client.Get(url)
		switch {
		case err != nil:
			faults = append(faults, err.Error())
			continue
		case res.StatusCode != http.StatusOK:
			faults = append(faults, res.Status)
		}
		res.Body.Close()
	}
}

// TestReloadUnderLoad: ten reloads (members come, go, change, and a file is wrong)
// under clients that ask all the time, some of which have a request in flight at
// each of them. No request fails.
func TestReloadUnderLoad(t *testing.T) {
	s := newCluster(t, "a", "b", "c")
	text := func(members, more string) string {
		return s.servers("a", "b", "c") + "worker.lb.type=lb\nworker.lb.balance_workers=" + members + "\nworker.list=lb\n" + more
	}
	workers := s.file("workers.properties", text("a b c", ""))
	rules := s.file("uriworkermap.properties", "/*=lb\n")
	p := s.proxy(workers, false, "--urimap", rules, "--urimap-reload", "50ms")

	halt := make(chan struct{})
	var wg sync.WaitGroup
	for i, path := range []string{"/readyz", "/readyz", "/peek?name=x", "/sleep?ms=300", "/sleep?ms=700"} {
		wg.Go(func() {
			good, faults := hammer("http://"+p.listen+path, halt)
			if len(faults) > 0 || good == 0 {
				t.Errorf("client %d, GET %s: %d good, these are not: %s", i, path, good, strings.Join(faults, "; "))
			}
		})
	}
	var counting []*stage.Counting
	for range 3 {
		counting = append(counting, stage.StartCounting(s.client(p.listen).Client, 0))
	}
	for i, step := range []struct{ members, more, want string }{
		{"a b", "", `"removed":["c"]`},
		{"a b c", "", `"added":["c"]`},
		{"a b c", "worker.a.reply_timeout=30000\n", `"changed":["a"]`},
		{"a b c", "worker.a.nonsense=1\n", `"line":13`},
		{"c", "", `"removed":["a","b"]`},
		{"c b", "worker.lb.method=R\nworker.b.lbfactor=3\n", `"added":["b"]`},
		{"a b c", "worker.lb.session_cookie=OTHER\n", `"added":["a"]`},
		{"a b c", "worker.c.connection_pool_size=500\n", `"changed":["c"]`},
		{"a b c", "", `"changed":["c"]`},
		{"a", "", `"removed":["b","c"]`},
	} {
		stage.Sleep(t.Context(), 200e6) // of load
		before := len(p.Lines("files read again")) + len(p.Lines("files not taken over"))
		rewrite(t, workers, text(step.members, step.more))
		p.Signal(syscall.SIGHUP)
		stage.Wait(t, fmt.Sprintf("reload %d", i), func() bool {
			return len(p.Lines("files read again"))+len(p.Lines("files not taken over")) > before
		})
		if !p.Logged(step.want) {
			t.Errorf("reload %d: no event has %s", i, step.want)
		}
	}
	stage.Sleep(t.Context(), 200e6) // of load
	close(halt)
	wg.Wait()
	for i, c := range counting {
		log := c.Stop()
		for _, x := range log {
			if x.Err != nil || x.Fault != "" {
				t.Errorf("counting client %d: %v %s", i, x.Err, x.Fault)
			}
		}
		if len(log) == 0 {
			t.Errorf("counting client %d did nothing", i)
		}
	}

	// The rules are read again when their file changes, without being asked.
	rewrite(t, rules, "/*=lb\n!/peek=*\n")
	stage.Wait(t, "the rules are read again", func() bool { status, _ := ask(t, "http://"+p.listen+"/peek"); return status == 404 })
	if err := os.Remove(rules); err != nil {
		t.Fatal(err)
	}
	stage.Wait(t, "that they are gone is logged", func() bool { return p.Logged("files not taken over", "uriworkermap.properties") })
	if status, _ := ask(t, "http://"+p.listen+"/peek"); status != 404 {
		t.Errorf("without a file of rules GET /peek = %d, want 404 as by the last one", status)
	}
	if status, _ := ask(t, "http://"+p.listen+"/readyz"); status != 200 {
		t.Errorf("GET /readyz = %d, want 200", status)
	}
}
