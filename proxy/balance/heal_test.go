package balance

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHeal checks what the answer to a probe does to a member in error, and the want of
// one.
func TestHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("a", "b"), Maintain: time.Hour})
		pick(t, b, sticky("a", ""), Unreachable)
		b.Heal("a")
		wantState(t, b, "a", StateIdle)
		for _, o := range []Outcome{StatusFailed, ReplyTimeout} {
			pick(t, b, sticky("a", ""), o)
			time.Sleep(time.Minute - time.Nanosecond)
			b.Heal("a")
			wantState(t, b, "a", StateError)
			time.Sleep(time.Nanosecond)
			wantState(t, b, "a", StateRecover)
			pick(t, b, sticky("a", ""), OK)
		}
		pick(t, b, sticky("a", ""), StatusFailed)
		for range 120 {
			time.Sleep(time.Second)
			b.Ail("a")
			wantState(t, b, "a", StateError)
		}
		if in := status(t, b, "a").RecoverIn; in != time.Minute {
			t.Errorf("RecoverIn = %v, want a minute from the last probe", in)
		}
		b.Heal("a")
		wantState(t, b, "a", StateRecover)
		b.Heal("b")
		b.Ail("b")
		b.Heal("nobody")
		b.Ail("nobody")
		wantState(t, b, "b", StateIdle)
	})
}

// TestCompat checks what Config.Compat restores of mod_jk.md 3.7.
func TestCompat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("a", "b"), ErrorEscalationTime: 30 * time.Second, RecoverTime: 10 * time.Second, Compat: true})
		other := began(t, b, sticky("a", ""))
		pick(t, b, sticky("a", ""), Unreachable)
		wantState(t, b, "a", StateOK) // another request runs there, so the error is local
		other.Done(Unreachable)
		wantState(t, b, "a", StateError)
		time.Sleep(time.Minute - time.Nanosecond)
		wantState(t, b, "a", StateError) // recover_time is over, but there was no maintenance
		time.Sleep(time.Nanosecond)
		trial := began(t, b, sticky("a", ""))
		if trial.Route() != "a" {
			t.Fatalf("the trial went to %q", trial.Route())
		}
		b.Fail("b")
		if got := pick(t, b, sticky("a", ""), OK); got != "b" {
			t.Errorf("picked %q, want b by force: a trial runs at a", got)
		}
		trial.Done(OK)
		wantState(t, b, "a", StateOK)

		pick(t, b, sticky("a", ""), Unreachable)
		time.Sleep(time.Minute)
		began(t, b, sticky("a", ""))
		wantState(t, b, "a", StateProbe)
		time.Sleep(time.Minute)
		wantState(t, b, "a", StateError) // the maintenance ends a trial that is left over
	})
}
