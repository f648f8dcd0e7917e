package status

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// jkSample is a state that a real mod_jk 1.2.48 was brought into: its reply for it is
// what the golden files are to look like.
func jkSample() Snapshot {
	begin := time.Date(2026, 11, 30, 11, 41, 12, 0, time.UTC)
	reach := func(port int) Connection {
		return Connection{Host: "127.0.0.1", Port: port, PingTimeout: 10 * time.Second, Retries: 2, RetryInterval: 100 * time.Millisecond, MaxPacketSize: 8192}
	}
	plain := func(uri string) Rule { return Rule{URI: uri, Source: "uriworkermap"} }
	static, off, shop := plain("/shop/static/*"), plain("/off/*"), plain("/shop/*")
	static.Exclude, off.Disabled = true, true
	shop.ReplyTimeout, shop.ReplyTimeoutSet, shop.Stateless = 5*time.Second, true, true
	shop.FailOnStatus, shop.Active, shop.UseServerErrors = "503,-404", "n1", 500
	return Snapshot{
		Proxy: "localhost", Version: "v0.1.0", Statuses: []string{"jkstatus"},
		Properties: []Property{{"worker.list", "shop,solo,jkstatus"}, {"my var", `<"hello">`}, {"worker.shop.type", "lb"}},
		Workers: []Worker{{
			Name: "shop", Type: "lb", Method: "Request", Sticky: true, Retries: 2, RetryInterval: 100 * time.Millisecond,
			RecoverTime: time.Minute, ErrorEscalationTime: 30 * time.Second, MaxBusy: 1,
			ResetAt: begin, Maintain: time.Minute, MaintainIn: 59 * time.Second,
			Rules: []Rule{static, shop, off, plain("/exact")},
			Members: []Member{{
				Name: "n1", Type: "ajp13", Address: "127.0.0.1:18011", Route: "n1", Domain: "east", Activation: "ACT", State: "ERR", Connection: reach(18011),
				LBFactor: 2, LBMult: 1, LBValue: 4, Served: 4, NewSessions: 3, Errors: 2, ClientErrors: 7, Timeouts: 1, MaxInFlight: 1, InFlight: 1,
				BytesRead: 1000, BytesWritten: 500, Open: 1, MaxOpen: 3, RecoverIn: 60 * time.Second, ResetAt: begin, FailedAt: begin.Add(time.Second),
			}, {
				Name: "n2", Type: "ajp13", Address: "127.0.0.1:18012", Route: "n2", Redirect: "n1", Activation: "DIS", State: "OK/IDLE",
				Connection: reach(18012), LBFactor: 1, LBMult: 2, ResetAt: begin,
			}},
		}, {
			Name: "solo", Type: "ajp13", ResetAt: begin, Rules: []Rule{plain("/solo/*")}, Members: []Member{{
				Name: "solo", Type: "ajp13", Address: "127.0.0.1:18013", Activation: "ACT", State: "OK/IDLE", Connection: reach(18013), Served: 2, ResetAt: begin,
			}},
		}},
	}
}

// jkWorker is the status worker of a file that sets nothing.
func jkWorker() JKConfig {
	return JKConfig{
		Snapshot: jkSample, Name: "jkstatus", Good: []string{"a.o", "a.i", "a.b", "a.r"}, Bad: []string{"s", "e"},
		NS: "jk:", XMLNS: `xmlns:jk="http://tomcat.apache.org"`,
	}
}

// jkNow is two seconds after jkSample's beginning.
func jkNow(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 11, 41, 14, 0, time.UTC)))
		test(t)
	})
}

// ask asks a status worker.
func ask(t *testing.T, cfg JKConfig, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	j, err := NewJK(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "127.0.0.1:18080"
	w := httptest.NewRecorder()
	j.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, cfg JKConfig, query string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, cfg, httptest.NewRequest(http.MethodGet, "/jk?"+query, http.NoBody))
}

// TestLayout: mod_jk.md 6.4 [T], the layout of the machine formats, and the page.
func TestLayout(t *testing.T) {
	tests := []struct {
		query, file, contentType string
	}{
		{"mime=xml", "jk.xml", "text/xml; charset=utf-8"},
		{"mime=txt", "jk.txt", "text/plain; charset=utf-8"},
		{"mime=prop", "jk.prop", "text/plain; charset=utf-8"},
		{"", "jk.html", "text/html; charset=utf-8"},
		{"mime=xml&cmd=dump", "jk-dump.xml", "text/xml; charset=utf-8"},
		{"mime=txt&cmd=dump", "jk-dump.txt", "text/plain; charset=utf-8"},
		{"mime=prop&cmd=dump", "jk-dump.prop", "text/plain; charset=utf-8"},
		{"mime=xml&cmd=show&w=solo", "jk-solo.xml", "text/xml; charset=utf-8"},
		{"mime=prop&cmd=show&w=solo&opt=2", "jk-solo.prop", "text/plain; charset=utf-8"},
		{"cmd=edit&w=shop&sw=n1", "jk-edit.html", "text/html; charset=utf-8"},
	}
	jkNow(t, func(t *testing.T) {
		for _, tt := range tests {
			w := get(t, jkWorker(), tt.query)
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != tt.contentType {
				t.Errorf("%s: %d, %s", tt.query, w.Code, got)
			}
			golden(t, tt.file, w.Body.Bytes())
		}
		cfg := jkWorker()
		cfg.NS, cfg.XMLNS, cfg.Doctype, cfg.Prefix = "", "", "<!DOCTYPE status>", "foo"
		golden(t, "jk-plain.xml", get(t, cfg, "mime=xml&opt=7").Body.Bytes())
		golden(t, "jk-plain.prop", get(t, cfg, "mime=prop&opt=2").Body.Bytes())
	})
}

// TestMessages: mod_jk.md 6.1 to 6.3 [T], the order of checks and what is said. The
// statuses are ours: mod_jk's is always 200.
func TestMessages(t *testing.T) {
	const ok = `Result: type=OK message="Action finished"`
	tests := []struct {
		query  string
		status int
		last   string // line
		lines  int
	}{
		{"mime=txt&cmd=version", 200, ok, 4},
		{"mime=txt&cmd=version&opt=32", 200, ok, 4},
		{"mime=txt&cmd=show&w=jkstatus", 200, ok, 4},
		{"mime=txt&cmd=edit&w=shop", 200, ok, 2},
		{"mime=txt&cmd=show&w=shop&sw=n2", 200, ok, 10},
		{"mime=txt&cmd=show&w=%73hop&opt=2&w=solo", 200, ok, 5}, // the last one counts
		{"mime=txt&opt=1", 200, ok, 13},
		{"mime=txt&opt=2", 200, ok, 10},
		{"mime=txt&opt=8", 200, ok, 7},
		{"mime=txt&opt=0x8", 200, ok, 15}, // atoi: 0
		{"mime=txt&opt=16", 200, ok, 12},
		{"mime=txt&opt=31", 200, ok, 4},
		{"mime=txt&opt=448", 200, ok, 15}, // of the page alone
		{"mime=txt&cmd=foo", 400, `Result: type=ERROR message="Invalid command."`, 1},
		{"mime=txt&cmd=LIST", 400, `Result: type=ERROR message="Invalid command."`, 1},
		{"mime=foo", 400, "worker.result.message=Invalid mime type.", 2},
		{"mime=TXT", 400, "worker.result.message=Invalid mime type.", 2},
		{"mime=foo&cmd=bar", 400, "worker.result.message=Invalid command.", 2},
		{"mime=txt&cmd=show", 400, `Result: type=ERROR message="NULL or EMPTY worker param"`, 1},
		{"mime=txt&cmd=show&w=", 400, `Result: type=ERROR message="NULL or EMPTY worker param"`, 1},
		{"mime=txt&w&cmd=show", 400, `Result: type=ERROR message="NULL or EMPTY worker param"`, 1},
		{"mime=txt&cmd=show&w=nope", 404, `Result: type=ERROR message="Could not find given worker"`, 1},
		{"mime=txt&cmd=show&w=shop&sw=n9", 404, `Result: type=ERROR message="could not find sub worker"`, 1},
		{"mime=txt&cmd=show&w=shop&sw=n*", 400, `Result: type=ERROR message="wildcard not allowed in sub worker for this command"`, 1},
		{"mime=txt&cmd=show&w=solo&sw=n9", 400, `Result: type=ERROR message="worker type has no sub workers"`, 1},
		{"mime=txt&cmd=edit&w=nope&opt=32", 403, `Result: type=ERROR message="This command is not allowed in read only mode."`, 1},
		{"mime=txt&cmd=update&w=shop&vlt=9", 405, `Result: type=ERROR message="changes go by POST"`, 1},
		{"mime=txt&cmd=foo&opt=32", 400, `Result: type=ERROR message="Invalid command."`, 1},
	}
	jkNow(t, func(t *testing.T) {
		for _, tt := range tests {
			w := get(t, jkWorker(), tt.query)
			lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
			if w.Code != tt.status || lines[len(lines)-1] != tt.last || len(lines) != tt.lines {
				t.Errorf("%s: %d, %d lines, the last is %s; want %d, %d lines, and %s", tt.query, w.Code, len(lines), lines[len(lines)-1], tt.status, tt.lines, tt.last)
			}
		}
	})
}

// TestCompat: mod_jk.md 6 and 12, status 200 for all but who has to bring a password.
func TestCompat(t *testing.T) {
	cfg := jkWorker()
	cfg.Compat = true
	for _, query := range []string{"cmd=zz", "cmd=show", "cmd=show&w=no", "cmd=edit&w=shop&opt=32", "cmd=reset&w=shop"} {
		if w := get(t, cfg, "mime=txt&"+query); w.Code != 200 || !strings.Contains(w.Body.String(), "type=ERROR") {
			t.Errorf("%s with Compat: %d %s, want an error with status 200", query, w.Code, w.Body)
		}
	}
	cfg.User = []string{"bob"}
	if w := get(t, cfg, "mime=txt"); w.Code != 401 {
		t.Errorf("without a password: %d, want 401", w.Code)
	}
}

// TestReadOnly: mod_jk.md 2.7, read_only.
func TestReadOnly(t *testing.T) {
	cfg := jkWorker()
	cfg.ReadOnly = true
	for cmd, status := range map[string]int{
		cmdList: 200, cmdShow: 200, cmdDump: 200, cmdVersion: 200, cmdEdit: 403, cmdUpdate: 403, cmdReset: 403, cmdRecover: 403,
	} {
		if w := get(t, cfg, "mime=txt&w=shop&cmd="+cmd); w.Code != status {
			t.Errorf("%s with read_only: %d, want %d", cmd, w.Code, status)
		}
	}
	if body := get(t, cfg, "").Body.String(); strings.Contains(body, "cmd=edit") {
		t.Error("the page of a worker with read_only has links to edit")
	}
}

// TestUser: mod_jk.md 2.7 and 6.2, user and user_case_insensitive. That password and
// token are one is ours.
func TestUser(t *testing.T) {
	tests := []struct {
		name, user, password string
		anyCase              bool
		want                 int
	}{
		{"nobody", "", "", false, 401},
		{"a user", "bob", secret, false, 200},
		{"in another case", "Bob", secret, false, 401},
		{"in any case", "Bob", secret, true, 200},
		{"somebody else", "eve", secret, false, 401},
		{"without the password", "bob", "guess", false, 401},
	}
	for _, tt := range tests {
		cfg := jkWorker()
		cfg.User, cfg.UserCaseInsensitive, cfg.Token = []string{"al", "bob"}, tt.anyCase, token(t, secret)
		r := httptest.NewRequest(http.MethodGet, "/jk?mime=txt", http.NoBody)
		if tt.user != "" {
			r.SetBasicAuth(tt.user, tt.password)
		}
		w := ask(t, cfg, r)
		if w.Code != tt.want || (w.Code == 401) != strings.Contains(w.Body.String(), "Access denied.") {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.want)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (w.Code == 401) {
			t.Errorf("%s: %d with the challenge %q", tt.name, w.Code, challenge)
		}
	}
	cfg := jkWorker()
	cfg.User = []string{"bob"} // and no token: nobody knows the password
	r := httptest.NewRequest(http.MethodGet, "/jk", http.NoBody)
	r.SetBasicAuth("bob", "")
	if w := ask(t, cfg, r); w.Code != 401 {
		t.Errorf("without a token: %d, want 401", w.Code)
	}
}

// TestRating: mod_jk.md 6.6.
func TestRating(t *testing.T) {
	member := func(activation, state string) *Member { return &Member{Activation: activation, State: state} }
	usual, bads := []string{"a.o", "a.i", "a.b", "a.r"}, []string{"s", "e"}
	tests := []struct {
		m           *Member
		goods, bads []string
		want        rating
	}{
		{member("ACT", "OK"), usual, bads, good},
		{member("ACT", "OK/IDLE"), usual, bads, good},
		{member("ACT", "OK/BUSY"), usual, bads, good},
		{member("ACT", "ERR/REC"), usual, bads, good},
		{member("ACT", "ERR/PRB"), usual, bads, good},
		{member("ACT", "ERR/FRC"), usual, bads, good},
		{member("ACT", "ERR"), usual, bads, bad},
		{member("DIS", "OK"), usual, bads, degraded},
		{member("STP", "OK"), usual, bads, bad},
		{member("DIS", "ERR"), usual, bads, bad},
		{member("DIS", "OK/IDLE"), []string{"disabled.never"}, nil, good}, // n is IDLE as well, and first letters count
		{member("DIS", "OK"), []string{"disabled.idle", "active"}, []string{"stopped"}, degraded},
		{member("ACT", "OK"), []string{"a"}, []string{"Active"}, bad}, // bad comes first
		{member("ACT", "OK"), []string{"", "x", ".o"}, []string{"a."}, degraded},
	}
	for _, tt := range tests {
		if got := rate(tt.m, tt.goods, tt.bads); got != tt.want {
			t.Errorf("%s %s is %v by good=%q bad=%q, want %v", tt.m.Activation, tt.m.State, got, tt.goods, tt.bads, tt.want)
		}
	}
}

// TestParams: mod_jk.md 6.1, how parameters are read.
func TestParams(t *testing.T) {
	q := params{}
	q.parse(`a=1&b&=x&c=%3Cb%22+d%3f&a=2&d==e&%66=%zz%4&g=%0a&h=%ff&i=`)
	for name, want := range map[string]string{
		"a": "2", "c": "@b@ d@", "d": "=e", "f": "%zz%4", "g": "@", "h": "@", "i": "",
	} {
		if got, ok := q[name]; !ok || got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if len(q) != 7 {
		t.Errorf("%d parameters in %v, want 7", len(q), q)
	}
	for text, want := range map[string]int{"": 0, "7": 7, " 8x": 8, "-3": -3, "+4": 4, "x": 0, "99999999999": 1<<31 - 1} {
		if got := atoi(text); got != want {
			t.Errorf("atoi(%q) = %d, want %d", text, got, want)
		}
	}
}

// FuzzJK: whoever asks, and whatever, it is answered, and nothing of it becomes
// markup or a line of its own.
func FuzzJK(f *testing.F) {
	f.Add("mime=xml&cmd=show&w=shop&sw=n%2A&opt=1", "example.org:80", "text/plain", "")
	f.Add("cmd=edit&w=shop&att=vwf&from=%22><script>", "[::1]:1", "application/x-www-form-urlencoded", "cmd=update&w=shop&vlt=9")
	f.Fuzz(func(t *testing.T, query, host, kind, body string) {
		j, err := NewJK(jkWorker())
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/jk", strings.NewReader(body))
		r.URL.RawQuery, r.Host = query, host
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		j.ServeHTTP(w, r)
		if w.Code < 200 || strings.Contains(strings.ToLower(w.Body.String()), "<script") {
			t.Errorf("%q: %d\n%s", query, w.Code, w.Body)
		}
		if kind := w.Header().Get("Content-Type"); strings.HasPrefix(kind, "text/plain") && strings.Contains(w.Body.String(), "Result: type=OK") && !strings.HasSuffix(w.Body.String(), "Action finished\"\n") {
			t.Errorf("%q: a forged line in\n%s", query, w.Body)
		}
	})
}

// TestUpdates: mod_jk.md 6.5 [T], which parameters ask for which changes.
func TestUpdates(t *testing.T) {
	set := func(worker, member string, pairs ...string) Change {
		ch := Change{Worker: worker, Member: member}
		for i := 0; i < len(pairs); i += 2 {
			ch.Set = append(ch.Set, Property{pairs[i], pairs[i+1]})
		}
		return ch
	}
	tests := []struct {
		query string
		want  []Change
	}{
		{"cmd=update&w=shop&vlt=90&vlm=T&vlee=0", []Change{set("shop", "", "recover_time", "90", "error_escalation_time", "0", "method", "T")}},
		{"cmd=update&w=shop&vlt=60&vls=on&vlf=no&vlm=0&vll=opt", nil}, // all of it counts already
		{"cmd=update&w=shop&vls=0&vlf=yes&vlm=4&vll=1", []Change{set("shop", "", "sticky_session", "F", "sticky_session_force", "T", "method", "N", "lock", "P")}},
		{"cmd=update&w=shop&vlm=rendezvous", []Change{set("shop", "", "method", "rendezvous")}},
		{"cmd=update&w=shop&vlm=Sess", []Change{set("shop", "", "method", "S")}},
		{"cmd=update&w=shop&vlm=x", []Change{set("shop", "", "method", "x")}},
		{"cmd=update&w=shop&vwa=S", nil}, // a member's
		{"cmd=update&w=shop&sw=n1&vwa=d&vwf=5x&vwr=a%3Cb&vwc=&vwd=2", []Change{set("shop", "n1", "activation", "D", "lbfactor", "5", "redirect", "a@b", "domain", "", "distance", "2")}},
		{"cmd=update&w=shop&sw=n*&vwf=3&vart=300", []Change{set("shop", "n1", "lbfactor", "3", "reply_timeout", "300"), set("shop", "n2", "lbfactor", "3", "reply_timeout", "300")}},
		{"cmd=update&w=shop&sw=*2&vwf=1&vwa=0", []Change{set("shop", "n2", "activation", "A")}},
		{"cmd=update&w=shop&att=vwa&val0=2&val1=A&val7=S", []Change{set("shop", "n1", "activation", "S"), set("shop", "n2", "activation", "A")}},
		{"cmd=update&w=shop&att=vwf&val1=7&val0=x", []Change{set("shop", "n1", "lbfactor", "0"), set("shop", "n2", "lbfactor", "7")}},
		{"cmd=update&w=shop&att=zzz&val0=S", nil},
		{"cmd=update&w=shop&att=vahst&val0=h", nil},
		{"cmd=update&w=solo&vart=300&vwf=3&vahst=h&vaprt=1&var=3", []Change{set("solo", "", "host", "h", "port", "1", "reply_timeout", "300", "retries", "3")}},
		{"cmd=reset&w=shop", []Change{{Do: DeedReset, Worker: "shop"}}},
		{"cmd=reset&w=shop&sw=n2", []Change{{Do: DeedReset, Worker: "shop", Member: "n2"}}},
		{"cmd=reset&w=solo", []Change{{Do: DeedReset, Worker: "solo"}}},
		{"cmd=recover&w=shop&sw=n1", []Change{{Do: DeedRecover, Worker: "shop", Member: "n1"}}},
	}
	for _, tt := range tests {
		var got []Change
		cfg := jkWorker()
		cfg.Token = token(t, secret)
		cfg.Change = func(ch Change) error { got = append(got, ch); return nil }
		// By the query, as scripts do it, and by a form, as the page does.
		r := httptest.NewRequest(http.MethodPost, "/jk?mime=txt&"+tt.query, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+secret)
		if w := ask(t, cfg, r); w.Code != 200 || !equalChanges(got, tt.want) {
			t.Errorf("%s: %d, changes %+v; want %+v", tt.query, w.Code, got, tt.want)
		}
		got = nil
		r = httptest.NewRequest(http.MethodPost, "/jk?mime=txt", strings.NewReader(tt.query+"&token="+url.QueryEscape(secret)))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		if w := ask(t, cfg, r); w.Code != 200 || !equalChanges(got, tt.want) {
			t.Errorf("%s in a form: %d, changes %+v; want %+v", tt.query, w.Code, got, tt.want)
		}
	}
}

func equalChanges(a, b []Change) bool {
	return slices.EqualFunc(a, b, func(a, b Change) bool {
		return a.Do == b.Do && a.Worker == b.Worker && a.Member == b.Member && slices.Equal(a.Set, b.Set)
	})
}

// TestUpdateRefused: what is said when something cannot be done, and who may not do
// anything.
func TestUpdateRefused(t *testing.T) {
	tests := []struct {
		name, query string
		header      map[string]string
		status      int
		message     string
	}{
		{"no such setting", "cmd=update&w=shop&sw=n*&vwf=0", nil, 400, `Update failed: lbfactor: "0": cannot be set so`},
		{"the second one", "cmd=update&w=shop&att=vwf&val0=9&val1=0", nil, 400, `Update failed (at least partially): lbfactor: "0": cannot be set so`},
		{"a status worker", "cmd=update&w=jkstatus", nil, 409, "Update failed"},
		{"a status worker", "cmd=reset&w=jkstatus", nil, 409, "Reset failed"},
		{"recover without a member", "cmd=recover&w=shop", nil, 409, "Marking worker for recovery failed"},
		{"recover of one that is well", "cmd=recover&w=shop&sw=n2", nil, 409, "Marking worker for recovery failed"},
		{"nobody of that name", "cmd=update&w=shop&sw=x*&vwf=3", nil, 404, "could not find sub worker"},
		{"without the token", "cmd=reset&w=shop", map[string]string{"Authorization": "Bearer guess"}, 401, "changes need the token of --admin-token"},
		{"from another site", "cmd=reset&w=shop", map[string]string{"Origin": "http://evil.example"}, 403, "cross-origin request detected"},
	}
	for _, tt := range tests {
		done := 0
		cfg := jkWorker()
		cfg.Token = token(t, secret)
		cfg.Change = func(ch Change) error {
			switch {
			case ch.Do == DeedRecover:
				return ErrNotInError
			case len(ch.Set) == 1 && ch.Set[0].Value == "0":
				return fmt.Errorf("%s: %q: %w", ch.Set[0].Name, "0", ErrSetting)
			}
			done++
			return nil
		}
		r := httptest.NewRequest(http.MethodPost, "/jk?mime=prop&"+tt.query, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+secret)
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		w := ask(t, cfg, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), "worker.result.type=ERROR\nworker.result.message="+tt.message) {
			t.Errorf("%s: %d %s, want %d and %s", tt.name, w.Code, w.Body, tt.status, tt.message)
		}
		if tt.header != nil && done > 0 {
			t.Errorf("%s: %d changes were made", tt.name, done)
		}
	}
	big := httptest.NewRequest(http.MethodPost, "/jk", strings.NewReader(strings.Repeat("x", maxJKForm+1)))
	big.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if w := ask(t, jkWorker(), big); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of more than %d bytes: %d, want 413", maxJKForm, w.Code)
	}
}

// TestPageOfJK: what a browser gets to see and to send.
func TestPageOfJK(t *testing.T) {
	cfg := jkWorker()
	cfg.Token, cfg.Change = token(t, secret), func(Change) error { return nil }
	cfg.CSS = "https://static.example/jk.css"
	w := get(t, cfg, "cmd=edit&w=shop&att=vwf&from=list")
	body := w.Body.String()
	for _, want := range []string{`name="val0" value="2"`, `name="val1" value="1"`, `type="password" name="token"`, `name="att" value="vwf"`, `href="https://static.example/jk.css"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "style-src 'unsafe-inline' https://static.example;") || !strings.Contains(policy, "form-action 'self'") {
		t.Errorf("Content-Security-Policy = %s", policy)
	}
	r := httptest.NewRequest(http.MethodPost, "/jk", strings.NewReader("cmd=reset&w=shop&from=show&token="+url.QueryEscape(secret)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if body := ask(t, cfg, r).Body.String(); !strings.Contains(body, `content="3;url=?cmd=show&amp;w=shop"`) || !strings.Contains(body, "Result: OK - Action finished") {
		t.Errorf("after a change the page is %s", body)
	}
	if body := get(t, cfg, "re=7").Body.String(); !strings.Contains(body, `<meta http-equiv="refresh" content="7">`) {
		t.Errorf("re=7 does not refresh: %s", body)
	}
	j, err := NewJK(cfg)
	if err != nil {
		t.Fatal(err)
	}
	snap := jkSample()
	c := &call{JK: j, q: params{}, now: time.Now(), snap: snap}
	table := c.memberTable(&c.snap.Workers[0])
	if len(table.Heads) != 24 || len(table.Rows) != 2 || len(table.Rows[0].Cells) != 24 {
		t.Errorf("%d columns, %d cells; want 24", len(table.Heads), len(table.Rows[0].Cells))
	}
}

// A pattern of names is anybody's: however many stars it has, it does not take long.
func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "abc", true},
		{"a*", "a", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"*b*", "abc", true},
		{"*b", "abcb", true},
		{"a*b*c", "abbc", true},
		{"a*b*c", "acb", false},
		{"a**c", "abc", true},
		{strings.Repeat("*", 2000) + "~", strings.Repeat("a", 100), false},
		{strings.Repeat("*a", 50) + "~", strings.Repeat("a", 100), false},
	} {
		if got := glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("glob(%.20q, %.20q) = %v, want %v", tt.pattern, tt.s, got, tt.want)
		}
	}
}
