package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/understudy-lb/understudy/proxy"
)

// patience is how long one exchange may take before it counts as hung.
const patience = 30 * time.Second

// A wait that begins after what it waits for has come must end too (the trap of
// dataplane.md, trick 1; the wrong form hung once in two thousand exchanges). And
// what a million exchanges have opened is closed in the end.
func TestPingPong(t *testing.T) {
	total := 1_000_000
	if testing.Short() {
		total = 8_000
	}
	leaks := goleak.IgnoreCurrent()
	before := descriptors(t)
	t.Run("exchanges", func(t *testing.T) {
		l := newLoop(t, proxy.Config{}, "", 128)
		get := string(l.request)
		post := strings.TrimSuffix(strings.Replace(get, "GET ", "POST ", 1), "\r\n") + "Content-Length: 4\r\n\r\n"
		const clients = 8
		errs := make(chan error, clients)
		var done sync.WaitGroup
		for i := range clients {
			done.Go(func() {
				if i%2 == 0 {
					errs <- pingPong(l, get, "", i, total/clients)
				} else { // content that comes later than the head, and ends as serveLoop wants
					errs <- pingPong(l, post, "\r\n\r\n", i, total/clients)
				}
			})
		}
		done.Wait()
		for range clients {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
	goleak.VerifyNone(t, leaks)
	for end := time.Now().Add(patience); descriptors(t) > before; { // a closed socket takes a moment
		if time.Now().After(end) {
			t.Errorf("%d descriptors are open, %d at the start", descriptors(t), before)
			break
		}
		runtime.Gosched()
	}
}

// pingPong sends n requests over one connection, with pauses of all lengths
// between the halves, so that each side is sometimes first.
func pingPong(l *loop, head, content string, seed, n int) error {
	c, err := net.Dial("tcp", l.client.RemoteAddr().String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	buf := make([]byte, l.want)
	for i := range n {
		if i%100 == 0 {
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				return err
			}
		}
		if _, err = io.WriteString(c, head); err == nil && content != "" {
			for range (i*7 + seed) % 5 {
				runtime.Gosched()
			}
			_, err = io.WriteString(c, content)
		}
		if err == nil {
			for range (i*5 + seed) % 7 {
				runtime.Gosched()
			}
			_, err = io.ReadFull(c, buf)
		}
		if err != nil {
			return fmt.Errorf("exchange %d of connection %d: %w", i, seed, err)
		}
	}
	return nil
}

// descriptors counts the open descriptors of this process. Where there is no /proc
// it is 0.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}
