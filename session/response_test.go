package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// serveResponse runs h behind a response that notes, for each settle, how many
// bytes had left before.
func serveResponse(t *testing.T, limit int, settle func(n int) error, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		res := &response{
			w: w, head: r.Method == http.MethodHead, limit: limit,
			settle:  func(bool) error { n++; return settle(n) },
			refused: func(http.Header, int) error { return nil },
			prepare: func(_ http.Header, body []byte, _ bool) []byte { return body },
		}
		h(res, r)
		if err := res.finish(); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestResponseHoldsTheHead(t *testing.T) { // SESS-9
	var settled atomic.Bool
	srv := serveResponse(t, 8, func(int) error { settled.Store(true); return nil }, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		if settled.Load() {
			t.Error("settled before the buffer was full")
		}
		_, _ = io.WriteString(w, "bcdefghij")
		if !settled.Load() {
			t.Error("not settled when the buffer was full")
		}
	})
	if got := body(t, srv.URL); got != "abcdefghij" {
		t.Errorf("body = %q", got)
	}
}

// D5: a reply of known length ends with its last byte.
func TestResponseHoldsTheLastByte(t *testing.T) {
	settled := make(chan int, 10)
	release := make(chan struct{})
	srv := serveResponse(t, 4, func(n int) error {
		if n == 2 {
			<-release
		}
		settled <- n
		return nil
	}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		for range 5 {
			_, _ = io.WriteString(w, "ab")
			w.(http.Flusher).Flush()
		}
	})
	res, err := client(t).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got := make([]byte, 9)
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != "ababababa" {
		t.Fatalf("first nine bytes = %q, %v", got, err)
	}
	if n := <-settled; n != 1 || len(settled) != 0 {
		t.Fatalf("settled %d times before the last byte, want once", n+len(settled))
	}
	close(release)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "b" {
		t.Errorf("the rest = %q, %v; want the last byte", rest, err)
	}
}

func TestResponseReplies(t *testing.T) {
	long := strings.Repeat("x", 5000)
	tests := []struct {
		name   string
		method string
		h      http.HandlerFunc
		status int
		body   string
		length int64 // of the reply; -1 for chunked
	}{
		{"nothing written", "GET", func(http.ResponseWriter, *http.Request) {}, 200, "", 0},
		{"status only", "GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, http.StatusNotFound, "", 0},
		{"the first status counts", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusOK)
		}, http.StatusNotFound, "", 0},
		{"no content", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("Write after 204 = %v", err)
			}
			w.(http.Flusher).Flush()
		}, 204, "", 0},
		{"held whole", "GET", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }, 200, long, 5000},
		{"in pieces", "GET", func(w http.ResponseWriter, _ *http.Request) {
			for range 5 {
				_, _ = io.WriteString(w, long)
			}
		}, 200, strings.Repeat(long, 5), -1},
		{"head", "HEAD", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			for range 5 {
				_, _ = io.WriteString(w, long)
			}
		}, 200, "", -1},
		{"head, short", "HEAD", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }, 200, "", 5000},
		{"length given", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "15000")
			for range 3 {
				_, _ = io.WriteString(w, long)
			}
		}, 200, strings.Repeat(long, 3), 15000},
		{"flushed", "GET", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "b")
		}, 200, "ab", -1},
		{"early hints", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		}, http.StatusCreated, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := serveResponse(t, 8192, func(int) error { return nil }, tt.h)
			req, _ := http.NewRequestWithContext(t.Context(), tt.method, srv.URL, nil)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			got, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tt.status || string(got) != tt.body || res.ContentLength != tt.length {
				t.Errorf("status %d, %d bytes, length %d, %v; want %d, %d bytes, length %d", res.StatusCode, len(got), res.ContentLength, err, tt.status, len(tt.body), tt.length)
			}
		})
	}
}

// A reply of known length ends with its last byte however little is held.
func TestResponseHoldsTheLastByteWithoutBuffer(t *testing.T) {
	srv := serveResponse(t, 0, func(int) error { return nil }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "6")
		for range 2 {
			if _, err := io.WriteString(w, "abc"); err != nil {
				t.Error(err)
			}
		}
		if n, err := io.WriteString(w, "d"); n != 0 || !errors.Is(err, http.ErrContentLength) {
			t.Errorf("Write past the length = %d, %v; want 0, %v", n, err, http.ErrContentLength)
		}
	})
	if got := body(t, srv.URL); got != "abcabc" {
		t.Errorf("body = %q", got)
	}
}

func TestResponseTrailers(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"announced": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Sum")
			_, _ = io.WriteString(w, "abc")
			w.Header().Set("Sum", "3")
		},
		"not announced": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "abc")
			w.Header().Set(http.TrailerPrefix+"Sum", "3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serveResponse(t, 8192, func(int) error { return nil }, h)
			if res, got := fetch(t, client(t), srv.URL); got != "abc" || res.Trailer.Get("Sum") != "3" {
				t.Errorf("body %q, trailer %v", got, res.Trailer)
			}
		})
	}
}

func TestResponseSettleFails(t *testing.T) {
	bad := errors.New("no copy")
	t.Run("before the head", func(t *testing.T) {
		srv := serveResponse(t, 8, func(int) error { return bad }, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Vary", "Accept")
			if _, err := io.WriteString(w, "ok, and done"); !errors.Is(err, bad) {
				t.Errorf("Write = %v, want %v", err, bad)
			}
		})
		res, err := client(t).Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if got, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusServiceUnavailable || bytes.Contains(got, []byte("ok")) {
			t.Errorf("reply %d %q, want a 503 without what the handler wrote", res.StatusCode, got)
		}
		h := res.Header
		if h.Get("Content-Encoding") != "" || h.Get("ETag") != "" || h.Get("Cache-Control") != "no-store" || h.Get("Vary") == "" {
			t.Errorf("header %v, want nothing that describes the handler's body", h)
		}
	})
	t.Run("at the end", func(t *testing.T) {
		srv := serveResponse(t, 8, func(int) error { return bad }, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
		res, err := client(t).Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if got, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusServiceUnavailable || bytes.HasPrefix(got, []byte("ok")) {
			t.Errorf("reply %d %q, want a 503", res.StatusCode, got)
		}
	})
	t.Run("after the head", func(t *testing.T) {
		srv := serveResponse(t, 8, func(n int) error {
			if n > 1 {
				return bad
			}
			return nil
		}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 100)) })
		res, err := client(t).Get(srv.URL)
		if err != nil {
			return // cut off before anything left the server's own buffer
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("the reply ended as if all were well")
		}
	})
}

func TestResponseHijack(t *testing.T) { // I14
	n := 0
	srv := serveResponse(t, 8, func(int) error { n++; return nil }, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil || n != 1 {
			t.Errorf("Hijack = %v after %d settles, want nil after 1", err, n)
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("Write after Hijack = %v", err)
		}
		_, _ = fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\n\r\nhello")
		_ = rw.Flush()
	})
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	got, _ := io.ReadAll(conn)
	if !bytes.HasSuffix(got, []byte("hello")) {
		t.Errorf("read %q", got)
	}
}

// A client that was told that a change is not safe is not talked to after that.
func TestResponseHijackAfterFailure(t *testing.T) {
	bad := errors.New("no copy")
	srv := serveResponse(t, 8, func(n int) error {
		if n == 1 {
			return bad
		}
		return nil
	}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusSwitchingProtocols)
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, bad) {
			t.Errorf("Hijack = %v, want %v", err, bad)
		}
	})
	res, err := client(t).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", res.StatusCode)
	}
}

func body(t *testing.T, url string) string {
	t.Helper()
	res, err := client(t).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
