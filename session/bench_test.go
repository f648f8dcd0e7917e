package session

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
)

// pair starts two members on the network of this machine, under TLS, and returns
// one of them.
func pair(b *testing.B) *Manager {
	b.Helper()
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}})
	if err != nil {
		b.Fatal(err)
	}
	dir := newDirectory()
	start := func(name string, boot uint32) *Manager {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		self := cluster.Member{Name: name, Boot: boot, Replication: ln.Addr().String()}
		dir.join(self)
		m, err := New(Config{Cluster: &seat{dir, self}, Codec: codec, Listener: ln, Keys: [][]byte{bytes.Repeat([]byte{9}, 32)}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Close(ctx)
		})
		return m
	}
	first, second := start("a", 1), start("b", 2)
	await(b, "ready", func() bool {
		for _, c := range dir.members {
			if c.State != cluster.Running {
				return false
			}
		}
		up, _ := first.links.get(second.self).isUp()
		return up
	})
	return first
}

// BenchmarkRequest measures one request of one session, without HTTP: reading
// it, and changing a counter that the secondary acknowledges.
func BenchmarkRequest(b *testing.B) {
	for _, kind := range []string{"read", "change"} {
		b.Run("kind="+kind, func(b *testing.B) {
			m := pair(b)
			h := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				s := FromContext(r.Context())
				n, _ := counterKey.Get(s)
				if kind == "change" || n == 0 {
					if err := counterKey.Set(s, n+1); err != nil {
						b.Error(err)
					}
				}
			}))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			r.Header.Set("Cookie", "JSESSIONID="+w.Result().Cookies()[0].Value)
			before := m.Stats().Peer.BytesOut
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			b.ReportMetric(float64(m.Stats().Peer.BytesOut-before)/float64(b.N), "wireB/op")
		})
	}
	b.Run("kind=change/parallel", func(b *testing.B) {
		m := pair(b)
		h := m.Handler(http.HandlerFunc(counting))
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			r.Header.Set("Cookie", "JSESSIONID="+w.Result().Cookies()[0].Value)
			for pb.Next() {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	})
}

// BenchmarkLarge measures a request that writes a 64 KiB attribute anew, which the
// secondary acknowledges; B/op is of both members.
func BenchmarkLarge(b *testing.B) {
	m := pair(b)
	value := bytes.Repeat([]byte("understudy "), 6000)[:64<<10]
	key := NewKey[[]byte]("v")
	h := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		value[0]++
		if err := key.Set(FromContext(r.Context()), value); err != nil {
			b.Error(err)
		}
	}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	r.Header.Set("Cookie", "JSESSIONID="+w.Result().Cookies()[0].Value)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// BenchmarkSessionMemory reports the live heap of a session with a 1 KiB
// attribute, on its primary and its secondary together.
func BenchmarkSessionMemory(b *testing.B) {
	m := pair(b)
	h := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := NewKey[[]byte]("v").Set(FromContext(r.Context()), make([]byte, 1024)); err != nil {
			b.Error(err)
		}
	}))
	b.Run("both", func(b *testing.B) {
		before := heapBytes()
		for range b.N {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		b.ReportMetric(float64(heapBytes()-before)/float64(b.N), "heapB/session")
	})
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// BenchmarkSweep looks at a million sessions once, in steps, as a member does. A
// request waits at most for what one step holds: a shard's lock for 64 entries,
// and each session's own for its own. The metrics are how long a step takes the
// processor: in the middle, for one in a hundred, and the longest, which on a
// busy machine is one that was itself interrupted. The lock is held for a small
// part of a quarter of that.
func BenchmarkSweep(b *testing.B) {
	const sessions = 1_000_000
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{make([]byte, 32)}})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	dir := newDirectory()
	self := cluster.Member{Name: "a", Boot: 1, Replication: ln.Addr().String()}
	dir.join(self)
	m, err := New(Config{Cluster: &seat{dir, self}, Codec: codec, Listener: ln, MaxSessions: -1, SweepInterval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.Close(ctx)
	}()
	for range sessions {
		e, c := m.found(nil)
		m.end(e, c)
	}
	if got := m.Stats().Primary; got != sessions {
		b.Fatalf("%d sessions", got)
	}
	b.Run("sessions=1000000", func(b *testing.B) {
		var steps []time.Duration
		for b.Loop() {
			var s sweeper
			for done := false; !done; {
				start := time.Now()
				done = s.step(m)
				steps = append(steps, time.Since(start))
			}
		}
		slices.Sort(steps)
		b.ReportMetric(float64(steps[len(steps)-1].Microseconds()), "longest-µs")
		b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), "p99-µs")
		b.ReportMetric(float64(steps[len(steps)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(len(steps))/float64(b.N), "steps/op")
	})
}
