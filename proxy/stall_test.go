package proxy_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// A client that pauses while it sends a body is no fault of the member that waits
// for the rest, however short its reply_timeout is.
func TestPausingUpload(t *testing.T) {
	for name, body := range map[string]func() io.Reader{
		"in memory": func() io.Reader { return &pausing{pieces: 3, size: 10} },
		"spooled":   func() io.Reader { return &pausing{pieces: 3, size: 100_000} },
	} {
		t.Run(name, func(t *testing.T) {
			o := options{lines: "worker.a.reply_timeout=1000\nworker.lb.max_reply_timeouts=1\n"}
			every(t, o, func(t *testing.T, w *world) {
				a, err := w.do(http.MethodPut, "/", "s.a", body())
				if err != nil || a.status != 200 || a.member != "a" {
					t.Errorf("%d from %q, %v; want 200 from a", a.status, a.member, err)
				}
				if m := w.member("a"); !m.InService || m.Errors != 0 {
					t.Errorf("member %+v", m)
				}
			})
		})
	}
}

// pausing is a body of so many pieces, with 5 s before each but the first.
type pausing struct{ pieces, size, n int }

func (p *pausing) Read(b []byte) (int, error) {
	if p.n == p.pieces*p.size {
		return 0, io.EOF
	}
	if p.n > 0 && p.n%p.size == 0 {
		time.Sleep(5 * time.Second)
	}
	n := min(len(b), p.size-p.n%p.size)
	for i := range n {
		b[i] = 'x'
	}
	p.n += n
	return n, nil
}

// A member that stops in the middle of a head, or of the framing of a chunk, is
// bounded and watched as one that stops between two bytes of content.
func TestStopsMidway(t *testing.T) {
	for name, text := range map[string]string{
		"in the status line": "HTTP/1.1 20",
		"in the head":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-",
		"in a chunk's size":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1",
		"after a chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r",
	} {
		ended := make(chan struct{})
		h := func(_ *fake, c *memberConn, _ *http.Request) bool {
			c.say("%s", text)
			_, _ = io.Copy(io.Discard, c.Conn)
			close(ended)
			return false
		}
		t.Run(name, func(t *testing.T) {
			t.Run("RequestTimeout", func(t *testing.T) {
				o := options{serve: map[string]handler{"a": h}, config: func(c *proxy.Config) { c.RequestTimeout = 3 * time.Second }}
				every(t, o, func(t *testing.T, w *world) {
					ended = make(chan struct{})
					start := time.Now()
					a, err := w.do(http.MethodPost, "/", "s.a", nil)
					if took := time.Since(start); took > 3200*time.Millisecond || err != nil && a.status == 200 && a.err == nil {
						t.Errorf("%d, %v, %v after %v; want an end after 3 s", a.status, err, a.err, took)
					}
					<-ended
				})
			})
			t.Run("client gone", func(t *testing.T) {
				every(t, options{serve: map[string]handler{"a": h}}, func(t *testing.T, w *world) {
					ended = make(chan struct{})
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+proxyAddr+"/", nil)
					r.Header.Set("Cookie", "JSESSIONID=s.a")
					start := time.Now()
					_, _ = w.send(r)
					<-ended
					if took := time.Since(start); took > 11100*time.Millisecond {
						t.Errorf("the member was held for %v", took)
					}
				})
			})
			t.Run("reply_timeout", func(t *testing.T) {
				o := options{serve: map[string]handler{"a": h}, lines: "worker.a.reply_timeout=2000\n"}
				every(t, o, func(t *testing.T, w *world) {
					ended = make(chan struct{})
					start := time.Now()
					_, _ = w.do(http.MethodPost, "/", "s.a", nil)
					if took := time.Since(start); took < 2*time.Second || took > 3300*time.Millisecond {
						t.Errorf("it took %v", took)
					}
					<-ended
				})
			})
		})
	}
}

// A client that stops in the middle of a body gets 408, whichever way it came.
func TestStalledUpload(t *testing.T) {
	for name, length := range map[string]int64{"short": 100, "long": 1_000_000, "unknown": -1} {
		t.Run(name, func(t *testing.T) {
			every(t, options{config: func(c *proxy.Config) { c.BodyTimeout = 10 * time.Second }}, func(t *testing.T, w *world) {
				pr, pw := io.Pipe()
				defer func() { _ = pw.Close() }()
				go func() { _, _ = pw.Write([]byte("half")) }()
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+proxyAddr+"/", pr)
				r.ContentLength = length
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				a, err := w.send(r.WithContext(ctx))
				if took := time.Since(start); err != nil || a.status != 408 || took < 10*time.Second || took > 12*time.Second {
					t.Errorf("%d, %v after %v; want 408 after 10 s", a.status, err, took)
				}
			})
		})
	}
}

// A client that takes nothing of its reply holds no member for ever.
func TestStalledReader(t *testing.T) {
	var ended chan struct{}
	h := func(_ *fake, c *memberConn, _ *http.Request) bool {
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
		_, _ = io.CopyN(c.Conn, neverEnding{}, 100_000_000)
		close(ended)
		return false
	}
	o := options{serve: map[string]handler{"a": h}, config: func(c *proxy.Config) { c.WriteTimeout = 10 * time.Second }}
	every(t, o, func(t *testing.T, w *world) {
		ended = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxyAddr+"/", nil)
		r.Header.Set("Cookie", "JSESSIONID=s.a")
		start := time.Now()
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		<-ended
		if d := time.Since(start); d > 12*time.Second {
			t.Errorf("the member was held for %v", d)
		}
		synctest.Wait()
		if m := w.member("a"); !m.InService || m.Errors != 0 || m.InFlight != 0 {
			t.Errorf("member %+v", m)
		}
	})
}
