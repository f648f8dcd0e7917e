package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/urimap"
)

// reload makes the proxy serve by other files: members at 10.0.1.1, 10.0.1.2 … in
// the order of the alphabet, and lines.
func (w *world) reload(members, lines, rules string) proxy.Change {
	w.t.Helper()
	var text strings.Builder
	for name := range strings.FieldsSeq(members) {
		fmt.Fprintf(&text, "worker.%s.type=http\nworker.%[1]s.host=10.0.1.%d\nworker.%[1]s.port=8080\n", name, name[0]-'a'+1)
	}
	fmt.Fprintf(&text, "worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n%s", members, lines)
	var uris *urimap.Map
	if rules != "" {
		uris = parseRules(w.t, rules)
	}
	c, err := w.proxy.Reload(parseWorkers(w.t, text.String()), uris)
	if err != nil {
		w.t.Fatalf("Reload: %v", err)
	}
	return c
}

func TestReloadKeepsWhatStays(t *testing.T) { // mod_jk.md 12, SESS-39
	one(t, options{members: []string{"a", "b", "c"}, lines: "worker.lb.recover_time=600\n"}, func(t *testing.T, w *world) {
		d := newFake(t, w.net, "10.0.1.4", "d", counter)
		d.start()
		w.members["d"] = d
		w.serves(30)
		change(t, w, set("lb", "b", "activation", "D"))
		w.members["c"].kill()
		w.get("/", "s.c") // c is in error now
		a, b, c := w.member("a"), w.member("b"), w.member("c")
		if a.Served < 10 || b.Activation != "DIS" || c.State != "ERR" {
			t.Fatalf("before: %+v, %+v, %+v", a, b, c)
		}
		dials := w.members["a"].dials()

		change := w.reload("a b c d", "worker.lb.recover_time=600\nworker.b.lbfactor=2\nworker.c.reply_timeout=5000\n", "")
		if want := (proxy.Change{Added: []string{"d"}, Changed: []string{"c"}}); fmt.Sprint(change) != fmt.Sprint(want) {
			t.Errorf("Reload = %+v, want %+v", change, want)
		}
		if got := w.member("a"); got.Served != a.Served || got.BytesRead != a.BytesRead || got.Open != a.Open {
			t.Errorf("a has lost its counts or connections: %+v, before %+v", got, a)
		}
		if got := w.member("b"); got.Activation != "DIS" || got.LBFactor != 2 || got.Served != b.Served {
			t.Errorf("b drains no more, or has not its new factor: %+v", got)
		}
		if got := w.member("c"); got.State != "ERR" || got.Errors != c.Errors || got.BytesRead != c.BytesRead {
			t.Errorf("c, whose time-out has changed, is not in error any more: %+v, before %+v", got, c)
		}
		by := w.serves(20)
		if by["b"] != 0 || by["c"] != 0 || by["a"] == 0 || by["d"] < by["a"] {
			t.Errorf("afterwards %v serve, want a and d alone, d most", by)
		}
		if n := w.members["a"].dials(); n != dials {
			t.Errorf("a had %d connections before, and %d now", dials, n)
		}
		// What the file asks for anew counts.
		w.reload("a b c d", "worker.b.activation=S\n", "")
		if got := w.member("b"); got.Activation != "STP" {
			t.Errorf("b is %s, want STP as the file says", got.Activation)
		}
		w.reload("a b", "", "")
		if got := w.proxy.Snapshot().Workers[0].Members; len(got) != 2 || got[1].Activation != "ACT" {
			t.Errorf("at last: %+v", got)
		}
	})
}

func TestReloadHarmsNothingInFlight(t *testing.T) {
	hold := make(chan struct{})
	slow := func(m *fake, c *memberConn, r *http.Request) bool {
		if r.URL.Path == "/slow" {
			<-hold
		}
		return c.reply(m, "slow")
	}
	o := options{members: []string{"a", "b"}, serve: map[string]handler{"a": slow}, rules: "/*=lb;fail_on_status=200\n/slow=lb\n"}
	both(t, o, func(t *testing.T, w *world) {
		hold = make(chan struct{})
		got := make(chan answer)
		go func() { got <- w.get("/slow", "s.a") }()
		synctest.Wait()
		w.reload("b", "", "/*=lb\n")
		if by := w.serves(4); by["b"] != 4 {
			t.Errorf("after the reload %v serve, want b alone, and by the new rules", by)
		}
		close(hold)
		if a := <-got; a.status != 200 || a.member != "a" {
			t.Errorf("the request in flight: %d by %q, want 200 by a", a.status, a.member)
		}
		synctest.Wait()
		a := w.members["a"]
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.open) != 0 {
			t.Errorf("%d connections to a member that is gone are kept", len(a.open))
		}
	})
}

func TestReloadRefusesAWrongFile(t *testing.T) {
	one(t, options{members: []string{"a", "b"}}, func(t *testing.T, w *world) {
		w.serves(4)
		for text, want := range map[string]string{
			"worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=x\nworker.x.type=http\nworker.x.port=1\nworker.x.host=h\nworker.x.route=a.b;c\nworker.lb.set_session_cookie=1\n": "workers.properties:2: worker.lb: ",
			"worker.list=x\nworker.x.type=http\nworker.x.host=h\nworker.x.port=1\n":                                                                                                        "no worker of type lb",
		} {
			_, err := w.proxy.Reload(parseWorkers(t, text), nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Reload(%q) = %v, want an error with %q", text, err, want)
			}
		}
		if by := w.serves(4); by["a"] != 2 || by["b"] != 2 {
			t.Errorf("afterwards %v serve, want as before", by)
		}
		if got := w.member("a"); got.Served != 4 {
			t.Errorf("a has served %d, want 4", got.Served)
		}
	})
}

func TestReloadMovesAMember(t *testing.T) {
	one(t, options{members: []string{"a", "b"}, without: []string{"b"}}, func(t *testing.T, w *world) {
		w.get("/", "s.b")
		if got := w.member("b"); got.State != "ERR" {
			t.Fatalf("b is %s, want ERR", got.State)
		}
		elsewhere := newFake(t, w.net, "10.0.1.9", "b", counter)
		elsewhere.start()
		w.members["b"] = elsewhere
		text := "worker.a.type=http\nworker.a.host=10.0.1.1\nworker.a.port=8080\nworker.b.type=http\nworker.b.host=10.0.1.9\nworker.b.port=8080\n" +
			"worker.lb.type=lb\nworker.lb.balance_workers=a b\nworker.list=lb\n"
		if _, err := w.proxy.Reload(parseWorkers(t, text), nil); err != nil {
			t.Fatal(err)
		}
		if a := w.get("/", "s.b"); a.member != "b" {
			t.Errorf("its session went to %q, want b at its new address at once", a.member)
		}
	})
}

func TestReloadAndGossip(t *testing.T) { // D3
	one(t, options{members: []string{"a", "b"}}, func(t *testing.T, w *world) {
		c := newFake(t, w.net, "10.0.1.3", "c", counter)
		c.start()
		w.members["c"] = c
		w.proxy.SetMembers([]proxy.Member{nodeA, nodeB, nodeC})
		served := w.serves(30)["c"]
		names := func() string {
			var all []string
			for _, m := range w.proxy.Snapshot().Workers[0].Members {
				all = append(all, fmt.Sprintf("%s %v %s", m.Name, m.ByGossip, m.Phase))
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		w.reload("a b", "worker.lb.recover_time=20\n", "")
		if got, want := names(), "a false running, b false running, c true running"; got != want {
			t.Errorf("a newcomer: %s, want %s", got, want)
		}
		if got := w.member("c"); int(got.Served) != served {
			t.Errorf("c has served %d, want %d", got.Served, served)
		}
		// b leaves the file, which is no reason for a node that runs to get nothing;
		// a's settings are those of newcomers.
		w.reload("a", "worker.a.reply_timeout=9000\n", "")
		if got, want := names(), "a false running, b true running, c true running"; got != want {
			t.Errorf("without b in the file: %s, want %s", got, want)
		}
		// And it is in the file again.
		w.reload("a b c", "", "")
		if got, want := names(), "a false running, b false running, c false running"; got != want {
			t.Errorf("with all in the file: %s, want %s", got, want)
		}
		if by := w.serves(30); len(by) != 3 {
			t.Errorf("%v serve, want all", by)
		}
		for _, name := range []string{"a", "b", "c"} {
			if a := w.get("/", "s."+name); a.member != name {
				t.Errorf("the session of %s went to %q", name, a.member)
			}
		}
	})
}
