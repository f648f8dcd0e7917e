package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/admin"
	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// stateWorkers is a workers.properties with two members; more is what it has besides.
func stateWorkers(t *testing.T, more string) *worker.File {
	t.Helper()
	text := "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a,b\n"
	for _, name := range []string{"a", "b"} {
		text += fmt.Sprintf("worker.%s.type=http\nworker.%[1]s.host=127.0.0.1\nworker.%[1]s.port=1\n", name)
	}
	file, err := worker.Parse("workers.properties", strings.NewReader(text+more), nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// stated is a server that has started over a file, without listeners.
func stated(t *testing.T, path string, file *worker.File) (*server, *bytes.Buffer) {
	t.Helper()
	var events bytes.Buffer
	s := &server{log: zerolog.New(&events), file: file}
	var err error
	if s.proxy, err = proxy.New(proxy.Config{Workers: file}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Close)
	s.kept.path, s.kept.log = path, s.log
	if s.kept.all, err = readState(path); err != nil {
		t.Fatal(err)
	}
	if err := s.resume(file, nil); err != nil {
		t.Fatal(err)
	}
	return s, &events
}

// put changes a setting of lb or of its member, which must succeed.
func put(t *testing.T, s *server, member, name, value string) {
	t.Helper()
	if err := s.change(status.Change{Worker: "lb", Member: member, Set: []status.Property{{Name: name, Value: value}}}); err != nil {
		t.Fatal(err)
	}
}

// TestStateSurvives: what was changed counts after a restart, as long as the file asks
// for what it asked for then (mod_jk.md 12).
func TestStateSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, _ := stated(t, path, stateWorkers(t, ""))
	put(t, s, "a", "activation", "D")
	put(t, s, "a", "lbfactor", "5")
	put(t, s, "b", "reply_timeout", "700")
	put(t, s, "b", "lbfactor", "2")
	put(t, s, "b", "lbfactor", "1") // as in the file again: nothing to keep
	put(t, s, "", "recover_time", "9")
	if err := s.change(status.Change{Do: status.DeedReset, Worker: "lb"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want mode 0600", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || left != nil {
		t.Errorf("files are left: %v, %v", left, err)
	}

	s, _ = stated(t, path, stateWorkers(t, ""))
	lb := s.proxy.Snapshot().Workers[0]
	if a, b := lb.Members[0], lb.Members[1]; lb.RecoverTime.Seconds() != 9 || a.Activation != "DIS" || a.LBFactor != 5 || b.Connection.ReplyTimeout.Milliseconds() != 700 {
		t.Errorf("after a restart: %+v", lb)
	}
	if n := len(s.kept.all); n != 4 {
		t.Errorf("%d changes are kept, want 4: %v", n, s.kept.all)
	}

	// The file asks for another factor now, and has no b any more.
	without := strings.NewReader("worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=a\nworker.a.type=http\nworker.a.host=127.0.0.1\nworker.a.port=1\nworker.a.lbfactor=3\n")
	file, err := worker.Parse("workers.properties", without, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, events := stated(t, path, file)
	if a := s.proxy.Snapshot().Workers[0].Members[0]; a.Activation != "DIS" || a.LBFactor != 3 {
		t.Errorf("with another file: %+v, want it disabled, and the file's factor", a)
	}
	for _, want := range []string{
		`"member":"a","setting":"lbfactor","value":"5","error":"the files ask for another value than then"`,
		`"member":"b","setting":"reply_timeout","value":"700","error":"the files do not have it any more"`,
	} {
		if !strings.Contains(events.String(), want) {
			t.Errorf("no %s in\n%s", want, events)
		}
	}
	if again, err := readState(path); err != nil || len(again) != 2 {
		t.Errorf("the file has %v, %v; want 2 changes", again, err)
	}
}

// TestStateOfReload: a reload drops what the new file asks for otherwise.
func TestStateOfReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, _ := stated(t, path, stateWorkers(t, ""))
	put(t, s, "a", "lbfactor", "5")
	put(t, s, "b", "lbfactor", "6")
	s.replace(stateWorkers(t, "worker.a.lbfactor=2\n"), nil)
	members := s.proxy.Snapshot().Workers[0].Members
	if members[0].LBFactor != 2 || members[1].LBFactor != 6 {
		t.Errorf("after a reload the factors are %d and %d, want 2 of the file and 6 as changed", members[0].LBFactor, members[1].LBFactor)
	}
	if again, err := readState(path); err != nil || len(again) != 1 || again[0].Member != "b" {
		t.Errorf("the file has %v, %v; want the change of b", again, err)
	}
}

// TestStateThatCannotBeWritten: the operator hears of it.
func TestStateThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s, events := stated(t, filepath.Join(dir, "state.json"), stateWorkers(t, ""))
	err := s.change(status.Change{Worker: "lb", Member: "a", Set: []status.Property{{Name: "lbfactor", Value: "5"}}})
	if err == nil || !strings.Contains(err.Error(), "the change counts, but is not kept") || !strings.Contains(events.String(), "change not kept") {
		t.Errorf("change = %v, events %s", err, events)
	}
	if a := s.proxy.Snapshot().Workers[0].Members[0]; a.LBFactor != 5 {
		t.Errorf("the change does not count: %+v", a)
	}
}

func TestParseState(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"version":1,"changes":[]}`, ""},
		{`{"version":1,"changes":null}`, ""},
		{"", "it is not what a proxy has written: EOF"},
		{"\x00\xff", "it is not what a proxy has written: invalid character '\\x00' looking for beginning of value"},
		{`{"version":2,"changes":[]}`, "it has version 2, want 1"},
		{`{"version":1,"changes":[],"x":1}`, `it is not what a proxy has written: json: unknown field "x"`},
		{`{"version":1,"changes":[]} {}`, "something follows what a proxy has written"},
		{`{"version":1,"changes":[{"worker":"","setting":"s","value":""}]}`, "its change 1 has no worker, no setting, or a value of more than 4096 bytes"},
		{`{"version":1,"changes":[]}` + strings.Repeat(" ", maxState), "it is larger than 1048576 bytes"},
		{`{"version":1,"changes":[` + strings.TrimSuffix(strings.Repeat(`{"worker":"w","setting":"s"},`, maxKept+1), ",") + `]}`, "it has 20001 settings, want at most 20000"},
	}
	for _, tt := range tests {
		_, err := parseState([]byte(tt.text))
		if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && got != tt.want {
			t.Errorf("parseState(%.60q) = %v, want %s", tt.text, err, tt.want)
		}
	}
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readState(path); err == nil || !strings.HasPrefix(err.Error(), "--state: "+path+": it has version 0, want 1; without the file") {
		t.Errorf("readState = %v", err)
	}
}

// FuzzParseState: nothing that stands in the file makes the proxy panic, and what it
// takes can be written and read again.
func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"version":1,"changes":[{"worker":"lb","member":"a","setting":"lbfactor","value":"5","file":"1"}]}`))
	f.Add([]byte(`{"version":1,"changes":[{"worker":"lb","setting":"method","value":"","file":"R"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseState(text)
		if err != nil {
			return
		}
		s, _ := stated(t, "", stateWorkers(t, ""))
		s.kept.path = filepath.Join(t.TempDir(), "state.json")
		s.kept.all = all
		if err := s.resume(s.file, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.kept.save(); err != nil {
			t.Fatal(err)
		}
		if again, err := readState(s.kept.path); err != nil || len(again) != len(s.kept.all) {
			t.Errorf("%v is read again as %v, %v", s.kept.all, again, err)
		}
	})
}

// TestCtlChanges: ctl set, reset and recover, from the command line to the proxy.
func TestCtlChanges(t *testing.T) {
	const secret = "a token that nobody guesses"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := admin.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := stated(t, "", stateWorkers(t, ""))
	h, err := status.New(status.Config{Snapshot: s.proxy.Snapshot, Change: s.change, Changed: s.changed, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	tests := []struct {
		args []string
		out  string // empty: it fails
		err  string
	}{
		{[]string{"set", "lb/a", "activation=D", "lbfactor=7"}, "done\n", ""},
		{[]string{"set", "lb", "recover_time=5"}, "done\n", ""},
		{[]string{"set", "lb/a", "redirect="}, "done\n", ""},
		{[]string{"reset", "lb"}, "done\n", ""},
		{[]string{"reset", "lb/b"}, "done\n", ""},
		{[]string{"recover", "lb/b"}, "", "409 Conflict: not in error"},
		{[]string{"set", "lb/a", "lbfactor=0"}, "", `400 Bad Request: lbfactor: "0" cannot be set so: want 1 to 2147483647`},
		{[]string{"set", "lb/z", "lbfactor=1"}, "", `404 Not Found: there is no member "z" in worker "lb"`},
		{[]string{"set", "x%2Fy", "lbfactor=1"}, "", `404 Not Found: no worker "x%2Fy"`},
	}
	for _, tt := range tests {
		args := append([]string{"ctl"}, append(tt.args, "--admin", srv.Listener.Addr().String(), "--admin-token", path)...)
		out, errs, err := command(t, args...)
		if (tt.out == "") != errors.Is(err, errFailed) || out != tt.out || !strings.Contains(errs, tt.err) {
			t.Errorf("%v: %v, %q, %q; want %q, %q", tt.args, err, out, errs, tt.out, tt.err)
		}
	}
	if _, _, err := command(t, "ctl", "set", "lb", "recover_time"); err == nil || !strings.Contains(err.Error(), "is no setting=value") {
		t.Errorf("ctl set without a value: %v", err)
	}
	if _, errs, err := command(t, "ctl", "reset", "lb", "--admin", srv.Listener.Addr().String()); err == nil || !strings.Contains(errs, "401") {
		t.Errorf("ctl reset without a token: %v, %q", err, errs)
	}
	out, _, err := command(t, "ctl", "changes", "--admin", srv.Listener.Addr().String())
	const want = "WORKER  MEMBER  SETTING       VALUE  IN THE FILE\n" +
		"lb      -       recover_time  5      60\n" +
		"lb      a       activation    D      A\n" +
		"lb      a       lbfactor      7      1\n"
	if err != nil || out != want {
		t.Errorf("ctl changes: %v\n%swant\n%s", err, out, want)
	}
	lb := s.proxy.Snapshot().Workers[0]
	if a := lb.Members[0]; a.Activation != "DIS" || a.LBFactor != 7 || lb.RecoverTime.Seconds() != 5 {
		t.Errorf("after all that: %+v", lb)
	}
}
