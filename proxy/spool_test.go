package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// put is a PUT with a body of known length or in chunks, of a session of member a.
func put(method, body string, chunked bool) *http.Request {
	var src io.Reader = strings.NewReader(body)
	if chunked {
		src = io.MultiReader(strings.NewReader(body[:len(body)/3]), strings.NewReader(body[len(body)/3:]))
	}
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+proxyAddr+"/", src)
	if err != nil {
		panic(err)
	}
	if chunked {
		r.Trailer = http.Header{"X-Sum": {"42"}}
	}
	r.Header.Set("Cookie", "JSESSIONID=s.a")
	return r
}

// sum answers with the length of the body, and whether it is pattern.
func sum(m *fake, c *memberConn, r *http.Request) bool {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	return c.reply(m, fmt.Sprint(len(b), " ", string(b) == string(pattern(len(b))), " ", r.Trailer.Get("X-Sum")))
}

// reading reads n bytes of the body, or all, and then does what next does.
func reading(n int64, next handler) handler {
	return func(m *fake, c *memberConn, r *http.Request) bool {
		_, _ = io.CopyN(io.Discard, r.Body, n)
		return next(m, c, r)
	}
}

func drop(*fake, *memberConn, *http.Request) bool { return false }

func die(m *fake, _ *memberConn, _ *http.Request) bool {
	m.kill()
	return false
}

func notExecuted(_ *fake, c *memberConn, _ *http.Request) bool {
	c.say("HTTP/1.1 503 Service Unavailable\r\nUnderstudy-Not-Executed: draining\r\nContent-Length: 0\r\n\r\n")
	return false
}

// once has a handler answer the first request only.
func once(first, then handler) handler {
	n := 0
	return func(m *fake, c *memberConn, r *http.Request) bool {
		if n++; n == 1 {
			return first(m, c, r)
		}
		return then(m, c, r)
	}
}

// The rows of D8 under which a body that is too long for memory is sent again: the
// next member sees the identical bytes (D07), also if the client is still sending.
func TestSpooledReplay(t *testing.T) {
	const all = 1 << 40
	codec := testCodec(t)
	tests := []struct {
		name   string
		method string
		first  func() handler // of member a
		config func(*proxy.Config)
		member string
		lines  string
		http   bool
	}{
		{name: "dropped by a living member half way", method: "PUT", first: func() handler { return once(reading(200_000, drop), sum) }, member: "a"},
		{name: "dropped by a living member at the end", method: "PUT", first: func() handler { return once(reading(all, drop), sum) }, member: "a"},
		{name: "death at the end", method: "PUT", first: func() handler { return reading(all, die) }},
		{name: "death half way", method: "PUT", first: func() handler { return reading(200_000, die) }},
		{
			name: "a POST of ours that is not executed", method: "POST", first: func() handler { return reading(200_000, notExecuted) },
			config: func(c *proxy.Config) { c.Codec = codec }, http: true,
		},
		{name: "a POST and 503 in fail_on_status", method: "POST", first: func() handler { return reading(100_000, notExecuted) }, lines: "worker.a.fail_on_status=503\n"},
		{
			name: "silence", method: "PUT", lines: "worker.a.reply_timeout=1000\n",
			first: func() handler {
				return reading(all, func(*fake, *memberConn, *http.Request) bool { time.Sleep(5 * time.Second); return false })
			},
		},
		{
			name: "hardly any memory", method: "PUT", first: func() handler { return reading(all, die) },
			config: func(c *proxy.Config) { c.Spool.Memory = 1 },
		},
		{
			name: "a lot of memory, and no files", method: "PUT", first: func() handler { return reading(all, die) },
			config: func(c *proxy.Config) { c.Spool = proxy.SpoolConfig{Memory: 8 << 20, Total: -1} },
		},
	}
	for _, tt := range tests {
		for _, size := range []int{70_000, 1_000_000} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/chunked=%v", tt.name, size, chunked), func(t *testing.T) {
					body := string(pattern(size))
					every(t, options{lines: tt.lines, config: tt.config, http: tt.http, serve: map[string]handler{"b": sum, "c": sum}}, func(t *testing.T, w *world) {
						w.members["a"].handler = tt.first()
						a, err := w.send(put(tt.method, body, chunked))
						want := fmt.Sprint(size, " true ")
						if chunked && !w.ajp { // it has no trailers
							want += "42"
						}
						if err != nil || a.status != 200 || a.body != want || (a.member == "a") != (tt.member == "a") {
							t.Errorf("%s = %d %q from %q, %v; want 200 %q", tt.method, a.status, a.body, a.member, err, want)
						}
						if n := w.total(); n != 2 {
							t.Errorf("it reached members %d times, want 2", n)
						}
						synctest.Wait()
						if s := w.proxy.Snapshot().Spool; s.Bytes != 0 || s.Refused != 0 || s.Failed != 0 {
							t.Errorf("spool: %+v", s)
						}
					})
				})
			}
		}
	}
}

// What the spool does not take is sent once, and works as long as the member does.
func TestSpoolLimits(t *testing.T) {
	dir := t.TempDir()
	full := func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	tests := []struct {
		name            string
		spool           proxy.SpoolConfig
		create          func() (*os.File, error)
		size            int
		refused, failed uint64
	}{
		{name: "over the limit of a request", spool: proxy.SpoolConfig{PerRequest: 200_000}, size: 300_000, refused: 1},
		{name: "over the limit of all", spool: proxy.SpoolConfig{Total: 200_000}, size: 300_000, refused: 1},
		{name: "no directory", spool: proxy.SpoolConfig{Dir: filepath.Join(dir, "none")}, size: 300_000, failed: 1},
		{name: "no files wanted", spool: proxy.SpoolConfig{PerRequest: -1}, size: 300_000, refused: 1},
		{name: "disk full", create: full, size: 300_000, failed: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.create != nil && runtime.GOOS != "linux" {
				t.Skip("no /dev/full")
			}
			body := string(pattern(tt.size))
			o := options{config: func(c *proxy.Config) { c.Spool = tt.spool }, serve: everywhere(sum)}
			every(t, o, func(t *testing.T, w *world) {
				if tt.create != nil {
					w.proxy.SetSpoolFile(tt.create)
				}
				for i := range uint64(3) {
					a, err := w.send(put("PUT", body, true))
					want := fmt.Sprint(tt.size, " true 42")
					if w.ajp {
						want = fmt.Sprint(tt.size, " true ") // it has no trailers
					}
					if err != nil || a.status != 200 || a.body != want {
						t.Errorf("PUT = %d %q, %v; want 200", a.status, a.body, err)
					}
					synctest.Wait()
					if s := w.proxy.Snapshot().Spool; s.Bytes != 0 || s.Refused != (i+1)*tt.refused || s.Failed != (i+1)*tt.failed {
						t.Errorf("after %d requests: %+v, want each counted once", i+1, s)
					}
				}
				if full := strings.Contains(w.log.String(), `"spool full"`); full != (tt.spool.Total > 0) {
					t.Errorf("the log says that the spool is full: %v", full)
				}
				if n := strings.Count(w.log.String(), `"spool failed"`); n != int(tt.failed) {
					t.Errorf("%d lines of log, want %d", n, tt.failed)
				}
				w.members["a"].handler = reading(1<<40, drop)
				if a, err := w.send(put("PUT", body, true)); err != nil || a.status != 502 {
					t.Errorf("PUT that a member dropped = %d, %v; want 502", a.status, err)
				}
				w.members["a"].handler = sum
				if tt.failed == 0 {
					return
				}
				w.proxy.SetSpoolFile(func() (*os.File, error) { return proxy.CreateUnnamed(dir) })
				w.get("/", "s.a") // no trial any more
				if a, err := w.send(put("PUT", body, true)); err != nil || a.status != 200 {
					t.Errorf("PUT = %d, %v; want 200", a.status, err)
				}
				if n := strings.Count(w.log.String(), `"spool works again"`); n != 1 {
					t.Errorf("%d lines of log that all is well, want 1", n)
				}
			})
		})
	}
}

// The limit of all holds over all: who comes second does without.
func TestSpoolTotal(t *testing.T) {
	body := string(pattern(200_000))
	var hold chan struct{}
	h := reading(1<<40, func(m *fake, c *memberConn, _ *http.Request) bool {
		<-hold
		return c.reply(m, "ok")
	})
	every(t, options{serve: everywhere(h), config: func(c *proxy.Config) { c.Spool.Total = 250_000 }}, func(t *testing.T, w *world) {
		hold = make(chan struct{})
		done := make(chan int)
		for range 3 {
			go func() {
				a, err := w.send(put("PUT", body, false))
				if err != nil {
					t.Error(err)
				}
				done <- a.status
			}()
			synctest.Wait()
		}
		if s := w.proxy.Snapshot().Spool; s.Bytes == 0 || s.Bytes > 250_000 || s.Refused != 2 {
			t.Errorf("three bodies of %d bytes: %+v", len(body), s)
		}
		if n := strings.Count(w.log.String(), `{"level":"warn","limit":250000,"message":"spool full"}`); n != 1 {
			t.Errorf("%d lines of log, want 1", n)
		}
		close(hold)
		for range 3 {
			if status := <-done; status != 200 {
				t.Errorf("status %d", status)
			}
		}
	})
}

// A file has no name, exists only where the request could be sent again, and is gone
// as soon as it cannot.
func TestSpoolFiles(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		method string
		files  int
		config func(*proxy.Config)
	}{
		{method: "PUT", files: 1},
		{method: "POST"},
		{method: "POST", files: 1, config: func(c *proxy.Config) { c.Codec = testCodec(t) }},
		{method: "PUT", config: func(c *proxy.Config) { c.Spool.Memory = 4 << 20 }},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i, " ", tt.method), func(t *testing.T) {
			var begin, end chan struct{}
			h := func(_ *fake, c *memberConn, r *http.Request) bool {
				_, _ = io.CopyN(io.Discard, r.Body, 500_000)
				<-begin
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				<-end
				n, _ := io.Copy(io.Discard, r.Body)
				c.say("%02d", n/100_000)
				return true
			}
			every(t, options{serve: everywhere(h), config: tt.config, http: i == 2}, func(t *testing.T, w *world) {
				begin, end = make(chan struct{}), make(chan struct{})
				files := 0
				w.proxy.SetSpoolFile(func() (*os.File, error) {
					files++
					return proxy.CreateUnnamed(dir)
				})
				pr, pw := io.Pipe()
				r, _ := http.NewRequestWithContext(context.Background(), tt.method, "http://"+proxyAddr+"/", pr)
				done := make(chan answer)
				go func() {
					a, err := w.send(r)
					if err != nil {
						t.Error(err)
					}
					done <- a
				}()
				if _, err := pw.Write(pattern(500_000)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if files != tt.files {
					t.Errorf("%d files, want %d", files, tt.files)
				}
				if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
					t.Errorf("names in the directory: %v, %v", names, err)
				}
				if s := w.proxy.Snapshot().Spool; (s.Bytes > 0) != (tt.files > 0) {
					t.Errorf("spool: %+v", s)
				}
				close(begin) // the reply begins: it will not be sent again
				synctest.Wait()
				if _, err := pw.Write(pattern(100_000)); err != nil {
					t.Fatal(err)
				}
				close(end)
				synctest.Wait()
				if s := w.proxy.Snapshot().Spool; s.Bytes != 0 {
					t.Errorf("the reply has begun, and the spool has %+v", s)
				}
				_ = pw.Close()
				if a := <-done; a.body != "01" {
					t.Errorf("%d %q", a.status, a.body)
				}
			})
		})
	}
}

// Nothing waits for the spool: a piece is at the member when it was sent.
func TestSpoolDoesNotDelay(t *testing.T) {
	var seen chan int
	h := func(m *fake, c *memberConn, r *http.Request) bool {
		buf := make([]byte, 40_000)
		for {
			if _, err := io.ReadFull(r.Body, buf); err != nil {
				return c.reply(m, "ok")
			}
			seen <- len(buf)
		}
	}
	every(t, options{serve: everywhere(h)}, func(t *testing.T, w *world) {
		seen = make(chan int, 10)
		pr, pw := io.Pipe()
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+proxyAddr+"/", pr)
		done := make(chan answer)
		go func() {
			a, _ := w.send(r)
			done <- a
		}()
		for i := range 10 {
			start := time.Now()
			if _, err := pw.Write(pattern(40_000)); err != nil {
				t.Fatal(err)
			}
			<-seen
			if d := time.Since(start); d > time.Millisecond {
				t.Errorf("piece %d took %v", i, d)
			}
			time.Sleep(10 * time.Second)
		}
		_ = pw.Close()
		if a := <-done; a.status != 200 {
			t.Errorf("status %d", a.status)
		}
	})
}

// A body that cannot be read back cannot be sent again: 502, as without a spool, and
// the member that lives is not punished.
func TestSpoolUnreadable(t *testing.T) {
	every(t, options{serve: map[string]handler{"b": sum, "c": sum}}, func(t *testing.T, w *world) {
		var file *os.File
		w.proxy.SetSpoolFile(func() (_ *os.File, err error) {
			file, err = proxy.CreateUnnamed("")
			return file, err
		})
		w.members["a"].handler = reading(1<<40, func(m *fake, c *memberConn, r *http.Request) bool {
			synctest.Wait() // until the last piece is kept, too
			if err := file.Truncate(1000); err != nil {
				t.Error(err)
			}
			return die(m, c, r)
		})
		if a, err := w.send(put("PUT", string(pattern(300_000)), false)); err != nil || a.status != 502 {
			t.Errorf("PUT = %d, %v; want 502", a.status, err)
		}
		for _, m := range []string{"b", "c"} {
			if s := w.member(m); !s.InService {
				t.Errorf("member %+v", s)
			}
		}
		if text := w.lastAccess(); !strings.Contains(text, `"failure":"spool"`) {
			t.Errorf("access log: %s", text)
		}
	})
}
