package soak

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// What the model of a session refuses, and what it lets pass.
func TestCounter(t *testing.T) {
	did := func(call, end int64, count bool, value int) porcupine.Operation {
		return porcupine.Operation{Call: call, Return: end, Input: op{count}, Output: result{value: value}}
	}
	lost := func(call int64) porcupine.Operation { // a request that counts, without a reply
		return porcupine.Operation{Call: call, Return: 1 << 62, Input: op{true}, Output: result{unknown: true}}
	}
	for name, tt := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"counted and seen":                 {[]porcupine.Operation{did(1, 2, true, 1), did(3, 4, true, 2), did(5, 6, false, 2)}, true},
		"an acknowledged count is lost":    {[]porcupine.Operation{did(1, 2, true, 1), did(3, 4, true, 2), did(5, 6, false, 1)}, false},
		"two counted the same":             {[]porcupine.Operation{did(1, 4, true, 1), did(2, 3, true, 1)}, false},
		"counted twice for one request":    {[]porcupine.Operation{did(1, 2, true, 1), did(3, 4, true, 3)}, false},
		"without a reply, done":            {[]porcupine.Operation{did(1, 2, true, 1), lost(3), did(5, 6, false, 2)}, true},
		"without a reply, not done":        {[]porcupine.Operation{did(1, 2, true, 1), lost(3), did(5, 6, false, 1)}, true},
		"without a reply, done later":      {[]porcupine.Operation{lost(1), did(3, 4, false, 0), did(5, 6, false, 1)}, true},
		"without a reply, done and undone": {[]porcupine.Operation{lost(1), did(3, 4, false, 1), did(5, 6, false, 0)}, false},
	} {
		if got := porcupine.CheckOperations(counter, tt.history); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
