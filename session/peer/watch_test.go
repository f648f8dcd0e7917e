package peer

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// waits against a list that is searched.
func TestWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type wait struct {
			number uint64
			at     int64
		}
		var w waits
		var model []wait
		var last uint64
		for now := range int64(rapid.IntRange(0, 400).Draw(t, "steps")) {
			if rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				last++
				if n := w.add(now); n != last {
					t.Fatalf("add = %d, want %d", n, last)
				}
				model = append(model, wait{last, now})
			} else {
				number := rapid.Uint64Range(0, last+2).Draw(t, "number")
				i := slices.IndexFunc(model, func(m wait) bool { return m.number == number })
				at, ok := w.answer(number)
				if ok != (i >= 0) || ok && at != model[i].at {
					t.Fatalf("answer(%d) = %d, %v; model %v", number, at, ok, model)
				}
				if ok {
					model = slices.Delete(model, i, i+1)
				}
			}
			want := int64(answeredWait)
			if len(model) > 0 {
				want = model[0].at
			}
			if got := w.oldest(); got != want {
				t.Fatalf("oldest = %d, want %d", got, want)
			}
		}
		for _, m := range model {
			if _, ok := w.answer(m.number); !ok {
				t.Fatalf("answer(%d) at the end: no such wait", m.number)
			}
		}
		if len(w.sent) > 0 {
			t.Fatalf("%d waits left", len(w.sent))
		}
	})
}

func TestWaitsKeepLittle(t *testing.T) {
	var w waits
	for i := range int64(1_000_000) {
		n := w.add(i)
		if n > 5 { // five are always under way
			if _, ok := w.answer(n - 5); !ok {
				t.Fatal(n)
			}
		}
	}
	if cap(w.sent) > 1024 {
		t.Errorf("%d waits are kept for 5", cap(w.sent))
	}
}

func TestWatch(t *testing.T) {
	type step struct {
		now, oldest int64
		up          bool
		beat        bool
		next        int64 // 0: an error is wanted
	}
	const none = answeredWait
	tests := []struct {
		name  string
		steps []step
	}{{
		name:  "quiet: a heartbeat every 125",
		steps: []step{{1000, none, true, true, 1125}, {1125, none, true, true, 1250}, {1250, none, true, true, 1375}},
	}, {
		name:  "an answer is late by exactly 500",
		steps: []step{{1000, none, true, true, 1125}, {1125, 1010, true, true, 1250}, {1250, 1010, true, true, 1375}, {1375, 1010, true, true, 1500}, {1500, 1010, true, true, 1510}, {1510, 1010, true, false, 0}},
	}, {
		name:  "the answer comes in the last moment",
		steps: []step{{1375, 1010, true, true, 1500}, {1500, 1010, true, true, 1510}, {1510, 1011, true, false, 1511}, {1511, none, true, false, 1625}},
	}, {
		name:  "this process was frozen: the reader gets one heartbeat's time",
		steps: []step{{1000, none, true, true, 1125}, {1125, 1120, true, true, 1250}, {9000, 1120, true, true, 9125}, {9125, 9000, true, true, 9250}},
	}, {
		name:  "it was, and the answer is not there either",
		steps: []step{{1125, 1120, true, true, 1250}, {9000, 1120, true, true, 9125}, {9125, 1120, true, false, 0}},
	}, {
		name:  "it is late all the time: grace ends",
		steps: []step{{1125, 1120, true, true, 1250}, {1800, 1120, true, true, 1925}, {2100, 1120, true, true, 2225}, {2400, 1120, true, false, 0}},
	}, {
		name:  "the compare takes too long",
		steps: []step{{9999, none, false, true, 10124}, {10124, none, false, false, 0}},
	}, {
		name:  "the compare has ended in time",
		steps: []step{{9999, none, false, true, 10124}, {10124, none, true, true, 10249}},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := watch{every: 125, patience: 500, limit: 10_000}
			for i, s := range tt.steps {
				got := w.look(s.now, s.oldest, s.up)
				if s.next == 0 {
					if !errors.Is(got.err, ErrSilent) {
						t.Errorf("step %d: look(%d) = %+v, want %v", i, s.now, got, ErrSilent)
					}
				} else if got != (look{beat: s.beat, next: s.next}) {
					t.Errorf("step %d: look(%d) = %+v, want beat %v, next %d", i, s.now, got, s.beat, s.next)
				}
			}
		})
	}
}
