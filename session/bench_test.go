package session

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

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
		before := heap()
		for range b.N {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		b.ReportMetric(float64(heap()-before)/float64(b.N), "heapB/session")
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}
