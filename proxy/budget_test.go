package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// drain takes what b has.
func drain(b *budget) (n int) {
	for b.take() {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(20)
		const saved = budgetSaved / token
		if n := drain(b); n != saved {
			t.Errorf("a full budget has %d retries, want %d", n, saved)
		}
		for range 100 {
			b.earn()
		}
		if n := drain(b); n != 20 {
			t.Errorf("100 requests bring %d retries, want 20", n)
		}
		time.Sleep(3 * time.Second)
		if n := drain(b); n != 30 {
			t.Errorf("3 seconds bring %d retries, want 30", n)
		}
		n := 0
		for range 40_000 { // 20 kHz of failures do not take the floor away
			time.Sleep(50 * time.Microsecond)
			if b.take() {
				n++
			}
		}
		if n != 20 {
			t.Errorf("2 seconds bring %d retries, want 20", n)
		}
		time.Sleep(24 * time.Hour)
		for range 10 * saved {
			b.earn()
		}
		if n := drain(b); n != saved {
			t.Errorf("a day saves %d retries, want %d", n, saved)
		}
	})
	if b := newBudget(-1); !b.take() {
		t.Error("without a limit there is no retry")
	}
}
