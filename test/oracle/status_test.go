package oracle

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// statusFiles are a state that shows most of what a status worker can show.
func statusFiles() *scenario {
	s := &scenario{rules: []string{
		"/shop/*=shop;reply_timeout=5000;stateless=1;fail_on_status=503,-404;active=m1;use_server_errors=500",
		"!/shop/static/*=shop", "-/off/*=shop", "/exact=shop", "/other|/*=shop", "!/*.gif=*", "/solo/*=m3", "/jk=jk",
		"/shop2/*=shop2;sticky_ignore=1;disabled=m4",
	}}
	s.set("", "list", "shop,shop2,m3,jk,watch")
	for i, name := range []string{"m1", "m2", "m3", "m4", "m5"} {
		s.set(name, "type", "ajp13")
		s.set(name, "reply_timeout", 3000*(i+1))
		s.set(name, "prepost_timeout", 1000)
	}
	s.set("m1", "lbfactor", 3)
	s.set("m1", "domain", "east")
	s.set("m1", "connection_pool_timeout", 600)
	s.set("m2", "lbfactor", 2)
	s.set("m2", "route", "west.two")
	s.set("m2", "redirect", "m1")
	s.set("m2", "distance", 1)
	s.set("m2", "recovery_options", 7)
	s.set("m2", "max_packet_size", 9000)
	s.set("m2", "busy_limit", 50)
	s.set("m2", "secret", "nobody knows")
	s.set("shop", "type", "lb")
	s.set("shop", "balance_workers", "m1,m2")
	s.set("shop2", "type", "lb")
	s.set("shop2", "balance_workers", "m4,m5")
	s.set("shop", "retries", 3)
	s.set("shop", "recover_time", 77)
	s.set("shop2", "method", "S")
	s.set("shop2", "sticky_session", "0")
	s.set("shop2", "lock", "P")
	s.set("shop2", "max_reply_timeouts", 4)
	s.set("jk", "type", "status")
	s.set("watch", "type", "status")
	s.set("watch", "read_only", 1)
	return s
}

// TestStatus compares the machine formats of the status worker with a real
// mod_jk's (mod_jk.md 6.4): after the start, after requests, after changes, after
// failures and after a reset. Names and order are equal; values, but for those that
// volatile names.
func TestStatus(t *testing.T) {
	needApache(t)
	s := statusFiles()
	c := newCast(t, []string{"m1", "m2", "m3", "m4", "m5"}, map[string]int{"m1": smallestPacket, "m2": 9216, "m3": smallestPacket, "m4": smallestPacket, "m5": smallestPacket})
	dir := directory(t)
	file(t, filepath.Join(dir, "workers.properties"), s.workersFile(c))
	file(t, filepath.Join(dir, "uriworkermap.properties"), s.rulesFile())
	const secret = "a token that nobody guesses"
	token := file(t, filepath.Join(dir, "admin.token"), secret)

	jk := &asked{front: apache(t, dir, "")}
	addr := stage.FreeAddr(t)
	ours := &asked{token: secret, front: newFront(t, addr, stage.Command{Name: "understudy", Binary: binaries.Proxy, Args: []string{
		"serve", "--workers", filepath.Join(dir, "workers.properties"), "--urimap", filepath.Join(dir, "uriworkermap.properties"),
		"--listen", addr, "--admin", "none", "--admin-token", token, "--stop-timeout", "1s",
	}})}
	queries := []string{
		"", "cmd=version", "cmd=dump", "cmd=show&w=shop", "cmd=show&w=shop&sw=m2", "cmd=show&w=m3", "cmd=show&w=jk", "cmd=edit&w=shop",
		"opt=1", "opt=2", "opt=8", "opt=16", "opt=27", "opt=448", "cmd=zz", "cmd=show", "cmd=show&w=no", "cmd=show&w=shop&sw=no",
		"cmd=show&w=m3&sw=no", "cmd=show&w=shop&sw=m*", "cmd=edit&w=shop&opt=32", "cmd=recover&w=shop&sw=m2&opt=32",
	}
	compared := 0
	var apart []string // names whose values are deviations from here on
	compare := func(when string) {
		t.Helper()
		for _, q := range queries {
			for _, mime := range []string{"xml", "txt", "prop"} {
				q := "mime=" + mime + "&" + q
				compared += compareStatus(t, when+", "+q, mime, jk.get(t, q), ours.get(t, q), apart...)
			}
		}
	}
	compare("after the start")

	get := func(path string, fields ...field) step {
		return step{request: request{method: "GET", target: path, fields: append([]field{{"Host", "oracle.test"}}, fields...)}}
	}
	s.steps = []step{
		get("/exact"), get("/exact"), get("/exact"), get("/exact", field{"Cookie", "JSESSIONID=x.west.two"}),
		get("/exact", field{"Cookie", "JSESSIONID=x.m1"}), get("/shop2/x"), get("/solo/1"), get("/solo/2"), get("/solo/3"),
	}
	play(t, s, c, jk.front)
	play(t, s, c, ours.front)
	compare("after requests")

	for _, q := range []string{
		"cmd=update&w=shop&vlr=4&vlt=90&vlee=9&vlx=2&vls=0&vlf=1&vlm=T&vll=P",
		"cmd=update&w=shop&sw=m1&vwa=D&vwf=7&vwr=west.two&vwc=north&vwd=3",
		"cmd=update&w=shop&sw=m2&vwn=south.2&vwr=&vwc=",
		"cmd=update&w=shop2&sw=m*&vwf=5",
		"cmd=update&w=shop2&att=vwa&val0=S&val1=D",
		"cmd=update&w=m3&vacpt=9&vapng=8000&vact=700&vapt=500&vart=4000&var=3&vacpi=40&varo=3&vabl=12",
		"cmd=update&w=shop2&att=zz&val0=1",
		"cmd=update&w=shop&sw=no*&vwf=1", "cmd=update&w=jk", "cmd=reset&w=jk", "cmd=recover&w=shop", "cmd=recover&w=shop&sw=m1", "cmd=recover&w=m3",
	} {
		q := "mime=txt&" + q
		compared += compareStatus(t, q, "txt", jk.get(t, q), ours.post(t, q))
	}
	apart = []string{"connected", "max_connected"} // connections were made anew, and reset leaves what is open
	compare("after changes")

	for _, q := range []string{
		"cmd=update&w=shop&vlm=R&vlf=0&vls=1", "cmd=update&w=shop&att=vwa&val0=A&val1=S", "cmd=reset&w=shop", "cmd=reset&w=shop2", "cmd=reset&w=m3",
	} {
		q := "mime=prop&" + q
		compared += compareStatus(t, q, "prop", jk.get(t, q), ours.post(t, q))
	}
	compare("after a reset")

	s.steps = []step{{request: get("/exact").request, acts: map[string]act{"m1": {kind: refused}}}}
	play(t, s, c, jk.front)
	play(t, s, c, ours.front)
	for _, f := range []*asked{jk, ours} {
		if body := f.get(t, "mime=txt&cmd=show&w=shop&sw=m1&opt=2"); !strings.Contains(body, " state=ERR ") {
			t.Errorf("%s: m1 is not in error:\n%s", f.Name, body)
		}
	}
	compare("after a failure")
	q := "mime=xml&cmd=recover&w=shop&sw=m1"
	compared += compareStatus(t, q, "xml", jk.get(t, q), ours.post(t, q))
	compare("after recover")
	t.Logf("%d values compared", compared)
	if compared < 20_000 {
		t.Errorf("only %d values were compared", compared)
	}
	ours.stop()
	jk.stop()
}

// An asked is a front whose status worker is asked.
type asked struct {
	*front
	token string // of changes; empty: they go by GET
}

func (f *asked) get(t *testing.T, query string) string {
	t.Helper()
	return f.do(t, http.MethodGet, query)
}

func (f *asked) post(t *testing.T, query string) string {
	t.Helper()
	return f.do(t, http.MethodPost, query)
}

func (f *asked) do(t *testing.T, method, query string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, (&url.URL{Scheme: "http", Host: f.addr, Path: "/jk", RawQuery: query}).String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if f.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.token)
	}
	res, err := (&http.Client{Timeout: answered}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// volatile are the names whose values cannot be equal: when and where it runs, who
// we are, and bytes that depend on what each front adds to a request.
var volatile = []string{
	"name@Server", "port@Server", "datetime", "unix", "web_server", "jk_version", "server", "server_name", "server_port",
	"time_datetime", "time_unix", "last_reset_at", "last_reset_ago", "error_time_datetime", "error_time_unix_seconds", "error_time_ago",
	"error_time_unix seconds", "error_time_ago seconds", "time_to_maintenance_min", "time_to_maintenance_max", "time_to_recover_min",
	"time_to_recover_max", "transferred", "read",
}

// compareStatus compares two replies field by field, but for the values of apart, and
// returns how many fields they have.
func compareStatus(t *testing.T, what, mime, jk, ours string, apart ...string) int {
	t.Helper()
	a, b := statusFields(t, mime, jk), statusFields(t, mime, ours)
	a = slices.DeleteFunc(a, func(f field) bool { return strings.HasSuffix(f.name, "ServerRoot") }) // of httpd, as a variable
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			t.Errorf("%s: mod_jk ends, and we go on with %v", what, b[i])
			return i
		case i >= len(b):
			t.Errorf("%s: we end, and mod_jk goes on with %v", what, a[i])
			return i
		case a[i].name != b[i].name:
			t.Errorf("%s: field %d is %v of mod_jk, %v of ours", what, i, a[i], b[i])
			return i
		case a[i].value != b[i].value && !isVolatile(a[i].name, apart):
			t.Errorf("%s: %v of mod_jk, %v of ours", what, a[i], b[i])
		}
	}
	return len(a)
}

// isVolatile reports whether a name, which ends in that of a field, is volatile or
// among others that may differ.
func isVolatile(name string, apart []string) bool {
	last := name[strings.LastIndexAny(name, ".@")+1:]
	return slices.Contains(volatile, last) || slices.Contains(apart, last) || strings.HasPrefix(name, "Server:@") || strings.HasPrefix(name, "server@")
}

// pair is one field of a line of mime=txt.
var pair = regexp.MustCompile(`([a-z_]+)=("[^"]*"|\S*)`)

// statusFields takes a reply apart. A field is named by where it stands and what it
// is: "Member:@lbvalue", "worker.m1.lbvalue", "member@lbvalue".
func statusFields(t *testing.T, mime, text string) []field {
	t.Helper()
	var all []field
	if mime != "xml" {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			label, rest, _ := strings.Cut(line, ": ")
			name, value, plain := strings.Cut(line, "=")
			switch {
			case mime == "txt" && rest != "":
				for _, m := range pair.FindAllStringSubmatch(rest, -1) {
					all = append(all, field{label + ":@" + m[1], m[2]})
				}
			case plain:
				all = append(all, field{name, value})
			default:
				all = append(all, field{line, ""})
			}
		}
		return all
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			all = append(all, field{"<" + e.Name.Local, ""})
			for _, a := range e.Attr {
				all = append(all, field{e.Name.Local + "@" + a.Name.Local, a.Value})
			}
		case xml.EndElement:
			all = append(all, field{"</" + e.Name.Local, ""})
		}
	}
}
