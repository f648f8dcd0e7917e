package proxy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s suspects
		get, path, alice, bob := []byte("GET"), []byte("/crash"), []byte("alice"), []byte("bob")
		if s.has(get, path, alice) {
			t.Fatal("has before any add")
		}
		if s.add(get, path, alice) {
			t.Error("the first add knew it already")
		}
		if !s.has(get, path, alice) {
			t.Error("forgotten at once")
		}
		if s.has(get, path, bob) || s.has([]byte("PUT"), path, alice) || s.has(get, []byte("/"), alice) {
			t.Error("another session, method or path is suspect too")
		}
		time.Sleep(suspectFor - time.Nanosecond)
		if !s.has(get, path, alice) {
			t.Errorf("forgotten before %v", suspectFor)
		}
		time.Sleep(time.Nanosecond)
		if s.has(get, path, alice) {
			t.Errorf("remembered after %v", suspectFor)
		}
	})
}

func TestSuspectsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s suspects
		for i := range maxSuspect + 10 {
			s.add([]byte("GET"), fmt.Appendf(nil, "/%d", i), nil)
			time.Sleep(time.Millisecond)
		}
		if n := len(s.seen); n > maxSuspect {
			t.Errorf("%d entries, want at most %d", n, maxSuspect)
		}
		if !s.has([]byte("GET"), fmt.Appendf(nil, "/%d", maxSuspect+9), nil) {
			t.Error("the newest is forgotten")
		}
		if s.has([]byte("GET"), []byte("/0"), nil) {
			t.Error("the oldest did not make way")
		}
	})
}
