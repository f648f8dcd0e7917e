package session

import (
	"slices"
	"testing"
	"time"
)

// What is due comes in order, whatever else is to come, and at its time.
func TestDeadlines(t *testing.T) {
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		m := f.nodes["a"].m
		began := time.Now()
		met := make(chan time.Duration, 3)
		for _, s := range []int{3600, 2, 3, 1} {
			m.timers.after(newID(), time.Duration(s)*time.Second, func(*entry) { met <- time.Since(began) })
		}
		time.Sleep(time.Minute)
		var got []time.Duration
		for len(met) > 0 {
			got = append(got, <-met)
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("met after %v, want %v", got, want)
		}
	})
}
