package balance

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestDrain checks that the sessions of a disabled member are counted, each once and
// for as long as it is used, and that it is stopped at the deadline.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWith(t, Config{Members: routes("a", "b"), DrainDeadline: time.Hour, DrainIdle: 10 * time.Minute, Maintain: -1})
		serve := func(i int) string {
			t.Helper()
			return pick(t, b, Request{Primary: []byte("a"), Session: true, Key: fmt.Append(nil, i)}, OK)
		}
		left := func() Drain { return status(t, b, "a").Drain }
		serve(1)
		if d := left(); d != (Drain{}) {
			t.Errorf("an active member: %+v", d)
		}
		begun := time.Now()
		activate(t, b, "a", Disabled)
		for i := range 30 {
			if got := serve(i % 3); got != "a" {
				t.Fatalf("a session of a went to %q", got)
			}
		}
		if d := left(); d.Left != 3 || !d.Since.Equal(begun) || d.EndsIn != time.Hour {
			t.Errorf("three sessions, 30 requests: %+v", d)
		}
		time.Sleep(9 * time.Minute)
		serve(1)
		time.Sleep(time.Minute)
		if d := left(); d.Left != 1 || d.EndsIn != 50*time.Minute {
			t.Errorf("ten minutes later, one still used: %+v", d)
		}
		time.Sleep(50*time.Minute - time.Nanosecond)
		if got := serve(1); got != "a" {
			t.Errorf("just before the deadline its session went to %q", got)
		}
		time.Sleep(time.Nanosecond)
		if got := serve(1); got != "b" {
			t.Errorf("after the deadline its session went to %q", got)
		}
		if s := status(t, b, "a"); s.Activation != Stopped || s.Drain.Left != 1 {
			t.Errorf("after the deadline: %v, %+v", s.Activation, s.Drain)
		}
		activate(t, b, "a", Active)
		if got := serve(1); got != "a" || left() != (Drain{}) {
			t.Errorf("active again: went to %q, %+v", got, left())
		}
	})
}

// Others' sessions that fail over to a member that drains count too, requests without a
// session do not, and there is a bound.
func TestDrainBounds(t *testing.T) {
	b := newBalancer(t, Member{Route: "a", Activation: Stopped, Redirect: "b"}, Member{Route: "b", Activation: Disabled})
	pick(t, b, Request{Key: []byte("client")}, OK) // the hot standby
	for i := range 2 * maxSeen {
		pick(t, b, Request{Primary: []byte("a"), Session: true, Key: fmt.Append(nil, i)}, OK)
	}
	if d := status(t, b, "b").Drain; d.Left != maxSeen || d.EndsIn != 0 {
		t.Errorf("%+v, want %d left", d, maxSeen)
	}
}
