package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/test/pipenet"
)

func TestAwaitHoldsNoBuffer(t *testing.T) {
	near, far := loopback(t)
	bufs := NewBuffers(BuffersConfig{})
	c := NewConn(near, ConnConfig{Buffers: bufs})
	done := make(chan error)
	go func() { done <- c.Await() }()
	if _, err := far.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("Await = %v", err)
	}
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if small, _ := bufs.Free(); small == 0 || c.buf != nil {
		t.Errorf("after Release %d buffers are free, want all", small)
	}
	_ = far.Close()
	if err := c.Await(); !errors.Is(err, io.EOF) {
		t.Errorf("Await at the end = %v, want EOF", err)
	}
	if small, _ := bufs.Free(); small == 0 || c.buf != nil {
		t.Error("Await at the end holds a buffer")
	}
}

// Waits that begin after the bytes have come must end too (dataplane.md, trap of
// trick 1).
func TestAwaitPingPong(t *testing.T) {
	rounds := 100_000
	if testing.Short() {
		rounds = 5_000
	}
	near, far := loopback(t)
	cfg := ConnConfig{Buffers: NewBuffers(BuffersConfig{})}
	go func() {
		c := NewConn(far, cfg)
		var r Request
		for c.Await() == nil && c.ReadRequest(&r) == nil {
			if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")); err != nil {
				return
			}
		}
	}()
	c := NewConn(near, cfg)
	if err := near.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var r Reply
	for i := range rounds {
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := c.Await(); err != nil {
			t.Fatalf("round %d: Await = %v", i, err)
		}
		if err := c.ReadReply(&r, MethodGet); err != nil {
			t.Fatalf("round %d: ReadReply = %v", i, err)
		}
		if err := r.Body.Discard(2); err != nil {
			t.Fatal(err)
		}
	}
}

// networks runs f over TCP and over the in-memory network.
func networks(t *testing.T, f func(t *testing.T, near, far net.Conn)) {
	t.Run("tcp", func(t *testing.T) {
		near, far := loopback(t)
		f(t, near, far)
	})
	t.Run("pipenet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			near, far := inMemory(t)
			f(t, near, far)
		})
	})
}

// inMemory returns the two ends of a connection of test/pipenet.
func inMemory(t *testing.T) (near, far net.Conn) {
	t.Helper()
	mem := pipenet.New()
	ln, err := mem.Host("10.0.0.1").Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	near, err = mem.Host("10.0.0.2").Dial(t.Context(), "tcp", "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	far, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ln.Close()
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// lookUntil looks until the sight is want, which takes a moment on a network.
func lookUntil(t *testing.T, c *Conn, want Sight) {
	t.Helper()
	var got Sight
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if got = c.Look(); got == want {
			return
		}
	}
	t.Errorf("Look = %d, want %d", got, want)
}

func TestLook(t *testing.T) {
	networks(t, func(t *testing.T, near, far net.Conn) {
		c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{})})
		if got := c.Look(); got != Quiet {
			t.Errorf("Look on a quiet connection = %d", got)
		}
		if _, err := far.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		lookUntil(t, c, Readable)
		var r Reply
		if err := c.ReadReply(&r, MethodGet); err != nil || r.Status != 200 {
			t.Errorf("after Look the reply is %d, %v", r.Status, err)
		}
		c.Release()
		if got := c.Look(); got != Quiet {
			t.Errorf("Look behind the reply = %d", got)
		}
		_ = far.Close()
		lookUntil(t, c, Closed)
	})
}

func TestLookReset(t *testing.T) {
	near, far := loopback(t)
	c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{})})
	if err := far.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	lookUntil(t, c, Closed)
}

func TestInterrupt(t *testing.T) {
	networks(t, func(t *testing.T, near, far net.Conn) {
		c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{}), ReadTimeout: time.Minute})
		var r Request
		done := make(chan error)
		go func() { done <- c.ReadRequest(&r) }()
		c.Interrupt()
		if err := <-done; !errors.Is(err, ErrInterrupted) {
			t.Errorf("interrupted ReadRequest = %v", err)
		}
		if err := c.Await(); !errors.Is(err, ErrInterrupted) {
			t.Errorf("Await after Interrupt = %v", err)
		}
		c.Resume()
		if _, err := io.WriteString(far, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := c.ReadRequest(&r); err != nil || string(r.Path) != "/x" {
			t.Errorf("ReadRequest after Resume = %v, path %q", err, r.Path)
		}
	})
}

// The longest silence, not the total time; at most an eighth late.
func TestReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := inMemory(t)
		c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{}), ReadTimeout: 4 * time.Second})
		go func() {
			for _, b := range []byte("GET / HTTP/1.1\r\n") {
				_, _ = far.Write([]byte{b})
				time.Sleep(3900 * time.Millisecond)
			}
		}()
		var r Request
		begun := time.Now()
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadRequest = %v, want a time-out", err)
		}
		// The last byte goes out at 15 × 3.9 s.
		if d := time.Since(begun) - 15*3900*time.Millisecond; d < 4*time.Second || d > 4500*time.Millisecond {
			t.Errorf("the time-out came after %v of silence, want 4 s to 4.5 s", d)
		}
	})
}

// A head has to be complete by its deadline however it trickles in.
func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := inMemory(t)
		c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{}), ReadTimeout: time.Minute})
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for {
				if _, err := far.Write([]byte("a")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		if err := c.Await(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		c.SetReadDeadline(begun.Add(10 * time.Second))
		var r Request
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadRequest = %v, want a time-out", err)
		}
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("the time-out came after %v, want 10 s", d)
		}
		_ = near.Close()
		<-stop
	})
}

func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, _ := inMemory(t)
		c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{}), WriteTimeout: 8 * time.Second})
		begun := time.Now()
		n, err := c.Write(make([]byte, 1<<20))
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v; want some bytes and a time-out", n, err)
		}
		if d := time.Since(begun); d < 8*time.Second || d > 9*time.Second {
			t.Errorf("the time-out came after %v, want 8 s to 9 s", d)
		}
	})
}

// C17: the client reads its reply although it is still sending.
func TestLinger(t *testing.T) {
	near, far := loopback(t)
	c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{})})
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(far, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"+strings.Repeat("a", 4_000_000))
		sent <- err
	}()
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	lingered := make(chan error, 1)
	go func() { lingered <- c.Linger(8<<20, time.Minute) }()
	if err := <-sent; err != nil {
		t.Errorf("the client cannot send: %v", err)
	}
	got, err := io.ReadAll(far)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 413") {
		t.Errorf("the client reads %q, %v", got, err)
	}
	_ = far.Close()
	if err := <-lingered; err != nil {
		t.Errorf("Linger = %v", err)
	}
}

func TestLongBodies(t *testing.T) {
	const size = 5_000_000
	member, memberFar := loopback(t)
	client, clientFar := loopback(t)
	bufs := NewBuffers(BuffersConfig{})
	cfg := ConnConfig{Buffers: bufs, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	for _, head := range []string{"Content-Length: 5000000", "Transfer-Encoding: chunked"} {
		go func() {
			chunked := strings.HasPrefix(head, "T")
			_, _ = io.WriteString(memberFar, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n")
			if chunked {
				_, _ = io.WriteString(memberFar, "4c4b40\r\n")
			}
			_, _ = io.WriteString(memberFar, strings.Repeat("0123456789", size/10))
			if chunked {
				_, _ = io.WriteString(memberFar, "\r\n0\r\n\r\n")
			}
		}()
		got := make(chan string)
		go func() {
			c := NewConn(clientFar, cfg)
			defer c.Release()
			var r Reply
			if err := c.ReadReply(&r, MethodGet); err != nil {
				got <- err.Error()
				return
			}
			b, err := content(&r.Body)
			if err != nil {
				b = err.Error()
			}
			got <- b
		}()
		m, c := NewConn(member, cfg), NewConn(client, cfg)
		var r Reply
		if err := m.ReadReply(&r, MethodGet); err != nil {
			t.Fatal(err)
		}
		var out Out
		out.Init(bufs)
		out.StatusLine(r.Status, r.Reason)
		f := out.FrameReply(&r, 1)
		out.EndHead()
		n, rerr, werr := c.CopyBody(&out, f, &r.Body)
		if n != size || rerr != nil || werr != nil {
			t.Errorf("%s: CopyBody = %d, %v, %v", head, n, rerr, werr)
		}
		if b := <-got; b != strings.Repeat("0123456789", size/10) {
			t.Errorf("%s: the client got %d bytes: %.60q", head, len(b), b)
		}
		out.Free()
		m.Release()
		c.Release()
		if !r.Body.Ended() || m.Buffered() != 0 {
			t.Errorf("%s: the body has not ended", head)
		}
	}
}

// Long bodies are read with big buffers, and those go back.
func TestWiden(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n",
	} {
		want := strings.Repeat("0123456789", 30000)
		tail := ""
		if strings.Contains(head, "chunked") {
			tail = "\r\n0\r\n\r\n"
		}
		c, _ := newScript(head+want+tail, 0)
		var r Reply
		if err := c.ReadReply(&r, MethodGet); err != nil {
			t.Fatal(err)
		}
		longest := 0
		var got strings.Builder
		for {
			p, err := r.Body.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, len(p))
			got.Write(p)
		}
		if got.String() != want || longest < 32<<10 {
			t.Errorf("%q: %d bytes, in pieces of at most %d", head, got.Len(), longest)
		}
		if string(r.Reason) != "OK" {
			t.Errorf("%q: the head was overwritten: %q", head, r.Reason)
		}
		c.Release()
		if small, large := c.bufs.Free(); c.buf != nil || c.held != nil || small+large < 2 {
			t.Errorf("%q: %d and %d buffers are free", head, small, large)
		}
	}
}

// After an interruption or a time-out a body goes on where it was.
func TestBodyResumes(t *testing.T) {
	networks(t, func(t *testing.T, near, far net.Conn) {
		c := NewConn(near, ConnConfig{Buffers: NewBuffers(BuffersConfig{})})
		send := func(s string) {
			if _, err := io.WriteString(far, s); err != nil {
				t.Fatal(err)
			}
		}
		send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
		var r Request
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
		if p, err := r.Body.Next(); string(p) != "ab" || err != nil {
			t.Fatalf("Next = %q, %v", p, err)
		}
		c.Interrupt()
		if _, err := r.Body.Next(); !errors.Is(err, ErrInterrupted) || r.Body.Err() != nil {
			t.Errorf("interrupted Next = %v, Err = %v", err, r.Body.Err())
		}
		c.Resume()
		c.SetReadTimeout(10 * time.Millisecond)
		if _, err := r.Body.Next(); !errors.Is(err, os.ErrDeadlineExceeded) || r.Body.Err() != nil {
			t.Errorf("Next in time = %v, Err = %v", err, r.Body.Err())
		}
		c.SetReadTimeout(0)
		send("cde\r\n0\r\n\r\n")
		if got, err := content(&r.Body); got != "cde" || err != nil {
			t.Errorf("the rest is %q, %v", got, err)
		}
	})
}
