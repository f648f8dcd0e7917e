package frontend_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/frontend"
	"github.com/understudy-lb/understudy/proxy/worker"
	"github.com/understudy-lb/understudy/test/pipenet"
)

const workers = `
worker.a.type=http
worker.a.host=10.0.1.1
worker.a.port=80
worker.lb.type=lb
worker.lb.balance_workers=a
worker.list=lb
`

// A front is a frontend on a network in memory, with one member that answers
// /sleep after a minute, everything else at once, and /origin and /client with
// what it was told of the client.
type front struct {
	t      *testing.T
	net    *pipenet.Net
	server *frontend.Server
	served chan error
	ln     net.Listener
	end    []func()
}

func inBubble(t *testing.T, cfg frontend.Config, f func(t *testing.T, w *front)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFront(t, cfg, nil)
		defer w.close()
		f(t, w)
	})
}

func newFront(t *testing.T, cfg frontend.Config, wrap func(net.Listener) net.Listener) *front {
	t.Helper()
	w := &front{t: t, net: pipenet.New(), served: make(chan error, 1)}
	ln, err := w.net.Host("10.0.1.1").Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	member := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sleep" {
			timer := time.NewTimer(time.Minute)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
			}
		}
		if r.URL.Path == "/client" {
			_, _ = io.WriteString(rw, r.Header.Get("X-Forwarded-For"))
			return
		}
		if r.URL.Path == "/origin" {
			_, _ = fmt.Fprintf(rw, "%s %s", r.Header.Get("X-Forwarded-Proto"), r.Header.Values("Client-Cert"))
			return
		}
		_, _ = io.WriteString(rw, r.URL.Path)
	})}
	go func() { _ = member.Serve(ln) }()
	file, err := worker.Parse("workers.properties", strings.NewReader(workers), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(proxy.Config{Workers: file, Dial: w.net.Host("10.0.0.1").Dial})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Proxy = p
	if w.server, err = frontend.New(cfg); err != nil {
		t.Fatal(err)
	}
	if w.ln, err = w.net.Host("10.0.0.1").Listen("tcp", ":80"); err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		w.ln = wrap(w.ln)
	}
	go func() { w.served <- w.server.Serve(w.ln) }()
	w.end = append(w.end, p.Close, func() { _ = member.Close() })
	return w
}

func (w *front) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.server.Shutdown(ctx)
	if err := <-w.served; err != nil {
		w.t.Errorf("Serve: %v", err)
	}
	for _, f := range w.end {
		f()
	}
}

// A client is one connection.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (w *front) dial() *client {
	w.t.Helper()
	c, err := w.net.Host("10.0.2.1").Dial(context.Background(), "tcp", "10.0.0.1:80")
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{Conn: c, t: w.t, r: bufio.NewReader(c)}
}

func (c *client) ask(path string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		c.t.Errorf("ask %s: %v", path, err)
	}
}

// answer reads a reply: its status, body, and whether it is the last one.
func (c *client) answer() (status int, body string, last bool, err error) {
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, "", false, err
	}
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Close, err
}

// get is ask and a good answer.
func (c *client) get() {
	c.t.Helper()
	const path = "/"
	c.ask(path)
	if status, body, _, err := c.answer(); status != 200 || body != path || err != nil {
		c.t.Errorf("GET %s = %d %q, %v", path, status, body, err)
	}
}

// closedAfter reports how long it takes until the connection ends.
func (c *client) closedAfter() time.Duration {
	start := time.Now()
	_, _ = io.Copy(io.Discard, c.r)
	return time.Since(start)
}

func TestShutdownInOrder(t *testing.T) {
	inBubble(t, frontend.Config{}, func(t *testing.T, w *front) {
		idle, fresh, busy := w.dial(), w.dial(), w.dial()
		idle.get()
		busy.ask("/sleep")
		synctest.Wait()
		done := make(chan error, 1)
		start := time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			done <- w.server.Shutdown(ctx)
		}()
		if d := idle.closedAfter(); d != 0 {
			t.Errorf("the idle connection was closed after %v", d)
		}
		if d := fresh.closedAfter(); d != 0 {
			t.Errorf("the connection without a request was closed after %v", d)
		}
		if c, err := w.net.Host("10.0.2.1").Dial(context.Background(), "tcp", "10.0.0.1:80"); err == nil {
			t.Error("a connection was accepted after Shutdown")
			_ = c.Close()
		}
		if status, body, last, err := busy.answer(); status != 200 || body != "/sleep" || !last || err != nil {
			t.Errorf("the request under way = %d %q, last=%v, %v", status, body, last, err)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if d := time.Since(start); d < time.Minute || d > time.Minute+time.Millisecond {
			t.Errorf("Shutdown took %v, want the minute of the request", d)
		}
		if err := w.server.Serve(w.ln); !errors.Is(err, frontend.ErrStopped) {
			t.Errorf("Serve after Shutdown = %v", err)
		}
	})
}

func TestShutdownDeadline(t *testing.T) {
	inBubble(t, frontend.Config{}, func(t *testing.T, w *front) {
		busy := w.dial()
		busy.ask("/sleep")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := w.server.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 connections") {
			t.Errorf("Shutdown: %v", err)
		}
		if d := time.Since(start); d > 12*time.Second {
			t.Errorf("Shutdown took %v, want 10 s", d)
		}
	})
}

func TestTimeouts(t *testing.T) {
	inBubble(t, frontend.Config{}, func(t *testing.T, w *front) {
		within := func(what string, d, want time.Duration) {
			t.Helper()
			if d < want || d > want+want/8+time.Second {
				t.Errorf("%s ended after %v, want %v", what, d, want)
			}
		}
		c := w.dial()
		within("a connection that says nothing", c.closedAfter(), 10*time.Second)
		c = w.dial()
		c.get()
		within("an idle connection", c.closedAfter(), time.Minute)
		c = w.dial()
		_, _ = io.WriteString(c, "GET / HT")
		start := time.Now()
		if status, _, _, err := c.answer(); status != http.StatusRequestTimeout || err != nil {
			t.Errorf("half a head = %d, %v; want 408", status, err)
		}
		within("half a head", time.Since(start), 10*time.Second)
		c = w.dial()
		dropped := make(chan struct{})
		go func() { // one byte a second keeps nothing open
			defer close(dropped)
			for {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		start = time.Now()
		_, _, _, _ = c.answer()
		within("a head by drops", time.Since(start), 10*time.Second)
		_ = c.Close()
		<-dropped
	})
}

func TestMaxConns(t *testing.T) {
	var events bytes.Buffer
	inBubble(t, frontend.Config{MaxConns: 2, Log: zerolog.New(&events)}, func(t *testing.T, w *front) {
		old, young := w.dial(), w.dial()
		old.get()
		time.Sleep(time.Second)
		young.get()
		third := w.dial()
		third.get()
		if d := old.closedAfter(); d != 0 {
			t.Errorf("the connection that was idle for longest was closed after %v", d)
		}
		young.ask("/sleep")
		third.ask("/sleep")
		synctest.Wait()
		// Both are busy: the next one waits for a place.
		fourth := w.dial()
		start := time.Now()
		fourth.get()
		if d := time.Since(start); d < time.Minute || d > time.Minute+time.Millisecond {
			t.Errorf("a connection too many was served after %v, want a minute", d)
		}
		for _, c := range []*client{young, third} {
			if status, _, _, err := c.answer(); status != 200 || err != nil {
				t.Errorf("a busy connection got %d, %v", status, err)
			}
		}
	})
	// The fourth came within ten seconds of the third.
	if want := `{"level":"warn","max_conns":2,"message":"connection limit reached"}` + "\n"; events.String() != want {
		t.Errorf("events %s, want one line", &events)
	}
}

func http2Client(w *front) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: &protocols, DialContext: w.net.Host("10.0.2.1").Dial}}
}

func TestHTTP2(t *testing.T) {
	inBubble(t, frontend.Config{}, func(t *testing.T, w *front) {
		c := http2Client(w)
		defer c.CloseIdleConnections()
		get := func(path string) error {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://10.0.0.1"+path, nil)
			if err != nil {
				return err
			}
			resp, err := c.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if b, err := io.ReadAll(resp.Body); resp.ProtoMajor != 2 || string(b) != path || err != nil {
				return fmt.Errorf("HTTP/%d, %q, %w", resp.ProtoMajor, b, err)
			}
			return nil
		}
		if err := get("/"); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- get("/sleep") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := w.server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("the request under way: %v", err)
		}
	})
}

func TestHTTP2Deadline(t *testing.T) {
	inBubble(t, frontend.Config{}, func(t *testing.T, w *front) {
		c := http2Client(w)
		done := make(chan error, 1)
		go func() {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://10.0.0.1/sleep", nil)
			resp, err := c.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err == nil {
			t.Error("a request that was cut got a reply")
		}
	})
}

// flaky is a listener that sometimes has no descriptor left.
type flaky struct {
	net.Listener
	failures atomic.Int32
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(flaky)
		f.failures.Store(5)
		w := newFront(t, frontend.Config{}, func(ln net.Listener) net.Listener {
			f.Listener = ln
			return f
		})
		defer w.close()
		w.dial().get()
	})
	synctest.Test(t, func(t *testing.T) {
		w := newFront(t, frontend.Config{}, nil)
		_ = w.ln.Close()
		if err := <-w.served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve on a closed listener = %v", err)
		}
		w.served <- nil
		w.close()
	})
}

func TestNew(t *testing.T) {
	if _, err := frontend.New(frontend.Config{}); err == nil {
		t.Error("New without a proxy succeeded")
	}
}
