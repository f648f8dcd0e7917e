package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/understudy-lb/understudy/proxy"
)

// A WebSocket library of others, on both sides of the proxy: fragments, pings and
// closing handshakes of either side arrive as they were sent, and what the library
// finds odd about a 101 it refuses (peers.md 5a, E07, E08).
func TestWebSocket(t *testing.T) {
	defer goleak.VerifyNone(t)
	ended := make(chan error, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}, CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			ended <- err
			return
		}
		c.SetReadLimit(-1)
		if r.URL.Path == "/bye" {
			ended <- c.Close(websocket.StatusServiceRestart, "later")
			return
		}
		for {
			typ, in, err := c.Reader(r.Context())
			if err != nil {
				ended <- err
				return
			}
			out, err := c.Writer(r.Context(), typ)
			if err == nil {
				_, err = io.Copy(out, in)
				err = errors.Join(err, out.Close())
			}
			if err != nil {
				ended <- err
				return
			}
		}
	})
	w := newTCP(t, proxy.Config{}, nil)
	defer w.close()
	member := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { _ = member.Serve(w.lns[1]) })
	defer func() { _ = member.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	dial := func(t *testing.T, path string, mode websocket.CompressionMode) *websocket.Conn {
		t.Helper()
		c, _, err := websocket.Dial(ctx, "ws://"+w.addr+path, &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{"chat"}, CompressionMode: mode,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(-1)
		if c.Subprotocol() != "chat" {
			t.Errorf("subprotocol %q, want chat", c.Subprotocol())
		}
		return c
	}
	for name, mode := range map[string]websocket.CompressionMode{"plain": websocket.CompressionDisabled, "compressed": websocket.CompressionContextTakeover} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, "/", mode)
			for _, typ := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
				for _, size := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20} {
					for _, fragment := range []int{size + 1, 1000} {
						want := []byte(strings.Repeat("x", size))
						if typ == websocket.MessageBinary {
							want = pattern(size)
						}
						sent := make(chan error, 1)
						go func() { sent <- message(ctx, c, typ, want, fragment) }()
						gotTyp, got, err := c.Read(ctx)
						if err := errors.Join(err, <-sent); err != nil || gotTyp != typ || !bytes.Equal(got, want) {
							t.Fatalf("%v of %d bytes in fragments of %d: %v of %d bytes, %v", typ, size, fragment, gotTyp, len(got), err)
						}
					}
				}
			}
			reading := c.CloseRead(ctx)
			for range 3 {
				if err := c.Ping(ctx); err != nil {
					t.Errorf("ping: %v", err)
				}
			}
			if err := c.Close(websocket.StatusGoingAway, "tab closed"); err != nil {
				t.Errorf("closing handshake: %v", err)
			}
			<-reading.Done()
			var closed websocket.CloseError
			if err := <-ended; !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway || closed.Reason != "tab closed" {
				t.Errorf("the member saw %v", err)
			}
		})
	}
	t.Run("closed by the member", func(t *testing.T) {
		c := dial(t, "/bye", websocket.CompressionDisabled)
		var closed websocket.CloseError
		if _, _, err := c.Read(ctx); !errors.As(err, &closed) || closed.Code != websocket.StatusServiceRestart || closed.Reason != "later" {
			t.Errorf("the client saw %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("closing handshake: %v", err)
		}
	})
	t.Run("a client that is gone", func(t *testing.T) {
		c := dial(t, "/", websocket.CompressionDisabled)
		_ = c.CloseNow()
		if err := <-ended; err == nil {
			t.Error("the member saw nothing")
		}
	})
}

// message sends b in frames of so many bytes.
func message(ctx context.Context, c *websocket.Conn, typ websocket.MessageType, b []byte, fragment int) error {
	out, err := c.Writer(ctx, typ)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), fragment)
		if _, err := out.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return out.Close()
}
