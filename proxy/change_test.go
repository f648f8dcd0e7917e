package proxy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/status"
)

// set is the change of settings, name after value.
func set(worker, member string, pairs ...string) status.Change {
	ch := status.Change{Worker: worker, Member: member}
	for i := 0; i < len(pairs); i += 2 {
		ch.Set = append(ch.Set, status.Property{Name: pairs[i], Value: pairs[i+1]})
	}
	return ch
}

// change makes a change that must succeed.
func change(t *testing.T, w *world, ch status.Change) {
	t.Helper()
	if err := w.proxy.Apply(ch); err != nil {
		t.Fatalf("Apply(%+v) = %v", ch, err)
	}
}

// TestApplySettings: mod_jk.md 6.5, each setting is shown as it was set, and the
// ones that can be felt are felt.
func TestApplySettings(t *testing.T) {
	one(t, options{}, func(t *testing.T, w *world) {
		change(t, w, set("lb", "", "retries", "3", "retry_interval", "50", "recover_time", "7", "error_escalation_time", "0",
			"max_reply_timeouts", "4", "sticky_session", "F", "sticky_session_force", "T", "method", "N", "lock", "P"))
		lb := w.proxy.Snapshot().Workers[0]
		if lb.Retries != 3 || lb.RetryInterval != 50*time.Millisecond || lb.RecoverTime != 7*time.Second || lb.ErrorEscalationTime != 0 ||
			lb.MaxReplyTimeouts != 4 || lb.Sticky || !lb.StickyForce || lb.Method != "Next" || !lb.Pessimistic {
			t.Errorf("after the change the lb is %+v", lb)
		}
		if got := w.get("/x", "id.c").member; got == "c" {
			t.Errorf("without sticky_session a session of c went to %q", got)
		}
		change(t, w, set("lb", "", "sticky_session", "T", "method", "R"))
		if got := w.get("/x", "id.c").member; got != "c" {
			t.Errorf("with sticky_session a session of c went to %q", got)
		}

		change(t, w, set("lb", "a", "activation", "D", "lbfactor", "5", "route", "east.1", "redirect", "b", "distance", "2"))
		a := w.member("a")
		if a.Activation != "DIS" || a.LBFactor != 5 || a.Route != "east.1" || a.Domain != "east" || a.Redirect != "b" || a.Distance != 2 {
			t.Errorf("after the change a is %+v", a)
		}
		if got := w.get("/x", "id.east.1").member; got != "a" {
			t.Errorf("a session that names a's new route went to %q", got)
		}
		change(t, w, set("lb", "a", "redirect", "", "domain", ""))
		if a := w.member("a"); a.Redirect != "" || a.Domain != "" {
			t.Errorf("redirect %q and domain %q are not empty", a.Redirect, a.Domain)
		}

		change(t, w, set("lb", "b", "connection_pool_timeout", "9", "connect_timeout", "250", "prepost_timeout", "0", "reply_timeout", "1200",
			"retries", "4", "retry_interval", "30", "recovery_options", "3", "busy_limit", "8"))
		k := w.member("b").Connection
		if k.PoolTimeout != 9*time.Second || k.ConnectTimeout != 250*time.Millisecond || k.PrepostTimeout != 0 || k.ReplyTimeout != 1200*time.Millisecond ||
			k.Retries != 4 || k.RetryInterval != 30*time.Millisecond || k.RecoveryOptions != 3 || k.BusyLimit != 8 {
			t.Errorf("after the change b is reached by %+v", k)
		}
		if got := w.get("/x", "id.b").member; got != "b" {
			t.Errorf("after that a session of b went to %q", got)
		}
		// b is found elsewhere: where c is.
		change(t, w, set("lb", "b", "host", "10.0.1.3"))
		if got := w.get("/x", "id.b").member; got != "c" {
			t.Errorf("at its new address b answers %q, want c's", got)
		}
		for _, want := range []string{`"setting":"lbfactor","value":"5","message":"setting changed"`, `"member":"b","setting":"host"`} {
			if !strings.Contains(w.log.String(), want) {
				t.Errorf("no %s in the log", want)
			}
		}
	})
}

// TestApplyErrors: nothing is done if anything is wrong, and the error says what.
func TestApplyErrors(t *testing.T) {
	tests := []struct {
		ch   status.Change
		is   error
		want string
	}{
		{set("nope", "", "retries", "1"), status.ErrNoWorker, `no worker "nope"`},
		{set("lb", "z", "lbfactor", "1"), status.ErrNoMember, `there is no member "z" in worker "lb"`},
		{set("lb", "a", "lbfactor", "0"), status.ErrSetting, `lbfactor: "0" cannot be set so: want 1 to 2147483647`},
		{set("lb", "a", "lbfactor", "2", "activation", "x"), status.ErrSetting, `activation: "x" cannot be set so: want one of [active disabled stopped]`},
		{set("lb", "a", "lbfactor", "2", "no_such", "x"), status.ErrSetting, "no_such: it cannot be set so: there is no such setting here"},
		{set("lb", "a", "lbfactor", "2", "secret", "x"), status.ErrSetting, "secret: it cannot be set so: there is no such setting here"},
		{set("lb", "a", "route", "b"), status.ErrSetting, `route: "b" cannot be set so: it is the route of b`},
		{set("lb", "a", "route", ""), status.ErrSetting, `route: "" cannot be set so: want a route`},
		{set("lb", "a", "redirect", "x;y"), status.ErrSetting, `redirect: "x;y" cannot be set so: want a route, or nothing`},
		{set("lb", "a", "port", "0"), status.ErrSetting, `port: "0" cannot be set so: want 1 to 65535`},
		{set("lb", "a", "host", "http://x"), status.ErrSetting, `host: it cannot be set so: "http://x" is not a host but a URL`},
		{set("lb", "a", "max_packet_size", "9000"), status.ErrSetting, "max_packet_size: it cannot be set so: a member of type=http has no use for it"},
		{set("lb", "", "recover_time", "0"), status.ErrSetting, `recover_time: "0" cannot be set so: want 1 to 2147483647`},
		{set("lb", "", "method", "Q"), status.ErrSetting, `method: "Q" cannot be set so: want R, S, N, T, B, p2c, least-time or rendezvous`},
		{set("lb", "", "lbfactor", "2"), status.ErrSetting, "lbfactor: it cannot be set so: there is no such setting here"},
		{status.Change{Do: status.DeedRecover, Worker: "lb", Member: "a"}, status.ErrNotInError, "not in error"},
		{status.Change{Do: status.DeedRecover, Worker: "lb"}, status.ErrNotInError, "not in error"},
	}
	one(t, options{}, func(t *testing.T, w *world) {
		w.get("/x", "")
		for _, tt := range tests {
			if err := w.proxy.Apply(tt.ch); !errors.Is(err, tt.is) || err.Error() != tt.want {
				t.Errorf("Apply(%+v) = %v, want %s", tt.ch, err, tt.want)
			}
		}
		if a := w.member("a"); a.LBFactor != 1 || a.Activation != "ACT" {
			t.Errorf("a has changed: %+v", a)
		}
		w.proxy.SetMembers([]proxy.Member{{Route: "a", Address: "10.0.1.1:8080", Boot: 1, ID: 1, State: proxy.Running}})
		if err := w.proxy.Apply(set("lb", "a", "route", "x")); !errors.Is(err, status.ErrSetting) {
			t.Errorf("a new route for a member that gossips = %v", err)
		}
	})
}

// TestApplyResetAndRecover: mod_jk.md 6.3.
func TestApplyResetAndRecover(t *testing.T) {
	one(t, options{without: []string{"b"}}, func(t *testing.T, w *world) {
		for range 6 {
			if a := w.get("/x", ""); a.status != 200 {
				t.Fatalf("/x: %d", a.status)
			}
		}
		if b := w.member("b"); b.State != "ERR" || b.Errors == 0 {
			t.Fatalf("b is %+v, want it in error", b)
		}
		change(t, w, status.Change{Do: status.DeedRecover, Worker: "lb", Member: "b"})
		if b := w.member("b"); b.State != "ERR/REC" {
			t.Errorf("after recover b is %s, want ERR/REC", b.State)
		}
		w.members["b"].start()
		for range 3 {
			w.get("/x", "")
		}
		if b := w.member("b"); b.State != "OK" {
			t.Errorf("after its trial b is %s, want OK", b.State)
		}
		change(t, w, status.Change{Do: status.DeedReset, Worker: "lb", Member: "a"})
		if a, c := w.member("a"), w.member("c"); a.Served != 0 || a.BytesRead != 0 || a.State != "OK/IDLE" || a.Open != 1 || c.Served == 0 {
			t.Errorf("after reset of a: %+v, and c %+v", a, c)
		}
		change(t, w, status.Change{Do: status.DeedReset, Worker: "lb"})
		for _, name := range []string{"a", "b", "c"} {
			if m := w.member(name); m.Served != 0 || m.Errors != 0 || m.BytesWritten != 0 || m.LBValue != 0 || m.MaxInFlight != 0 {
				t.Errorf("after reset of all: %+v", m)
			}
		}
	})
}

// TestReloadKeepsWhatWasSet: what an operator has changed stays, unless the file asks
// for another value than before.
func TestReloadKeepsWhatWasSet(t *testing.T) {
	one(t, options{members: []string{"a", "b"}}, func(t *testing.T, w *world) {
		w.get("/x", "id.a")
		change(t, w, set("lb", "", "retries", "5", "retry_interval", "7", "recover_time", "9"))
		change(t, w, set("lb", "a", "reply_timeout", "300", "lbfactor", "4"))
		w.reload("a b", "worker.lb.retry_interval=70\n", "")
		if lb := w.proxy.Snapshot().Workers[0]; lb.Retries != 5 || lb.RetryInterval != 70*time.Millisecond || lb.RecoverTime != 9*time.Second {
			t.Errorf("after a reload the lb is %+v, want 5 retries, 9 s, and the file's 70 ms", lb)
		}
		if a := w.member("a"); a.Connection.ReplyTimeout != 300*time.Millisecond || a.LBFactor != 4 {
			t.Errorf("after a reload a is %+v, want what was set", a)
		}
		w.reload("a b", "worker.a.reply_timeout=500\n", "")
		if a := w.member("a"); a.Connection.ReplyTimeout != 500*time.Millisecond || a.LBFactor != 4 {
			t.Errorf("after the file has changed a is %+v, want its 500 ms", a)
		}
	})
}
