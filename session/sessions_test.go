package session

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// TestEndByHash is the operator's list and end: on the primary, and on who holds
// the copy.
func TestEndByHash(t *testing.T) {
	bubble(t, Config{Placement: Ring, IdleTimeout: time.Hour}, "abc", func(t *testing.T, f *farm) {
		for _, at := range []string{"a", "b"} {
			b := &browser{t: t}
			id := b.count(f.nodes["a"], 1, "a!b").ID
			other := &browser{t: t}
			other.count(f.nodes["a"], 1, "a!b")
			time.Sleep(time.Minute)
			m := f.nodes[at].m
			all := slices.Collect(m.Sessions())
			k := slices.IndexFunc(all, func(i Info) bool { return i.Hash == HashID(id) })
			if k < 0 {
				t.Fatalf("%s does not list it: %+v", at, all)
			}
			want := Info{
				Hash: HashID(id), Role: map[string]string{"a": "primary", "b": "secondary"}[at], Primary: "a", Secondary: "b",
				Bytes: len("counter") + 1 + attrOverhead, Version: 1, Idle: time.Minute, Left: 59 * time.Minute,
			}
			if got := all[k]; got != want {
				t.Errorf("%s lists %+v, want %+v", at, got, want)
			}
			if !m.End(HashID(id)) || m.End(HashID(newID())) {
				t.Errorf("%s: End says that it has not found it, or one that is not there", at)
			}
			synctest.Wait()
			for _, name := range []string{"a", "b", "c"} {
				if got := (&browser{t: t, value: b.value}).get(f.nodes[name], "/peek"); got.Counter != 0 || got.Lost {
					t.Errorf("ended at %s, at %s: %+v; want a new session, not lost", at, name, got)
				}
			}
			if m.End(HashID(id)) {
				t.Errorf("%s has ended it twice", at)
			}
			other.count(f.nodes["a"], 2, "a!b")
			other.get(f.nodes["a"], "/invalidate")
		}
	})
}

// A sink keeps all that is logged.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// TestLogsHoldNoSecrets: whatever happens to a session, neither its id, nor its
// cookie, nor what is in it gets into the log, at any level; its hash does.
func TestLogsHoldNoSecrets(t *testing.T) {
	var logged sink
	bubble(t, Config{Placement: Ring, MaxBytes: 1000, IdleTimeout: time.Minute}, "abc", func(t *testing.T, f *farm) {
		for _, n := range f.nodes {
			n.m.log = zerolog.New(&logged)
		}
		const value = "4111111111111111"
		secrets := []string{value}
		know := func(b *browser, id string) {
			raw, _ := base64.RawURLEncoding.DecodeString(id)
			secrets = append(secrets, id, b.value, string(raw))
		}
		set := func(b *browser, n *node) {
			t.Helper()
			got := b.with(n, func(s *Session) {
				n, _ := counterKey.Get(s)
				must(t, counterKey.Set(s, n+1))
				must(t, NewKey[string]("card").Set(s, value))
			})
			if got.code != http.StatusOK {
				t.Fatalf("set at %s: %d", n.name, got.code)
			}
			know(b, got.ID)
		}
		one, two := &browser{t: t}, &browser{t: t}
		set(one, f.nodes["a"])
		set(two, f.nodes["a"])
		before := one.value
		// A partition with a conflict, a renewal, a change that is too large, a
		// forged cookie, a failover, a loss, an end by the operator, an expiry.
		f.net.Cut(f.nodes["a"].ip, f.nodes["b"].ip)
		f.net.Cut(f.nodes["a"].ip, f.nodes["c"].ip)
		time.Sleep(time.Second)
		set(one, f.nodes["a"])
		one.value = before
		for range 3 {
			set(one, f.nodes["b"])
		}
		f.net.Heal(f.nodes["a"].ip, f.nodes["b"].ip)
		f.net.Heal(f.nodes["a"].ip, f.nodes["c"].ip)
		time.Sleep(3 * time.Second)
		know(two, two.get(f.nodes["a"], "/rotate").ID)
		two.with(f.nodes["a"], func(s *Session) {
			if NewKey[[]byte]("big").Set(s, make([]byte, 2000)) == nil {
				t.Error("nothing is too large")
			}
		})
		(&browser{t: t, value: two.value + "x"}).get(f.nodes["a"], "/peek")
		two.get(f.nodes["b"], "/counter")
		f.nodes["a"].m.End(HashID(secrets[len(secrets)-3]))
		f.nodes["b"].m.End(HashID(secrets[len(secrets)-3]))
		three := &browser{t: t}
		set(three, f.nodes["a"])
		f.nodes["b"].host.Kill()
		f.kill("a")
		f.kill("b")
		if got := three.get(f.nodes["c"], "/peek"); !got.Lost {
			t.Errorf("the third is not lost: %+v", got)
		}
		set(three, f.nodes["c"])
		time.Sleep(3 * time.Minute)
		logged.mu.Lock()
		defer logged.mu.Unlock()
		log := logged.buf.String()
		for _, secret := range secrets {
			if secret != "" && strings.Contains(log, secret) {
				t.Errorf("%q is in the log", secret)
			}
		}
		for _, want := range []string{"session conflict", "session lost", "session ended by the operator", HashID(secrets[1])} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %q, so this test has not shown much:\n%s", want, log)
			}
		}
	})
}
