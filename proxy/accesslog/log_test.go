package accesslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/proxy/accesslog"
)

// A disk is a file that a test fills, breaks and stalls.
type disk struct {
	mu     sync.Mutex // guards what follows
	b      bytes.Buffer
	writes int
	room   int           // bytes until it is full; negative: no limit
	gate   chan struct{} // a write waits until it is closed; nil: none does
	closed bool
}

func newDisk() *disk { return &disk{room: -1} }

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.room >= 0 && len(p) > d.room {
		n, _ := d.b.Write(p[:d.room])
		d.room = 0
		return n, errors.New("no space left on device")
	}
	if d.room > 0 {
		d.room -= len(p)
	}
	return d.b.Write(p)
}

func (d *disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func (d *disk) state() (text string, writes int, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.b.String(), d.writes, d.closed
}

func (d *disk) set(room int, gate chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room, d.gate = room, gate
}

func open(t *testing.T, cfg accesslog.Config) *accesslog.Log {
	t.Helper()
	l, err := accesslog.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// The first line is there at once, later ones together.
func TestLinesGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := open(t, accesslog.Config{Open: func() (io.WriteCloser, error) { return d, nil }})
		l.Put([]byte("1\n"))
		synctest.Wait()
		if text, writes, _ := d.state(); text != "1\n" || writes != 1 {
			t.Fatalf("after one line: %q in %d writes", text, writes)
		}
		for i := range 100 {
			l.Put(fmt.Appendf(nil, "%d\n", i+2))
		}
		time.Sleep(200*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		if _, writes, _ := d.state(); writes != 1 {
			t.Fatalf("%d writes within 200 ms of the first, want 1", writes)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		text, writes, _ := d.state()
		if n := strings.Count(text, "\n"); n != 101 || writes != 2 {
			t.Fatalf("%d lines in %d writes, want 101 in 2", n, writes)
		}

		big := []byte(strings.Repeat("x", 1023) + "\n")
		for range 64 {
			l.Put(big) // 64 KiB do not wait
		}
		synctest.Wait()
		if text, _, _ := d.state(); strings.Count(text, "\n") != 101+64 {
			t.Errorf("%d lines, want all", strings.Count(text, "\n"))
		}
		if got, want := l.Stats(), (accesslog.Stats{Lines: 101 + 64}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
}

// A file that takes nothing costs lines, not requests.
func TestStalledDiskDropsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, gate := newDisk(), make(chan struct{})
		d.set(-1, gate)
		var events bytes.Buffer
		l := open(t, accesslog.Config{
			Open: func() (io.WriteCloser, error) { return d, nil }, MaxPending: 100, Log: zerolog.New(&events),
		})
		line := []byte("nine byte\n")
		l.Put(line)
		synctest.Wait() // it is being written, for as long as the gate is shut
		for range 25 {
			l.Put(line)
		}
		if got, want := l.Stats(), (accesslog.Stats{Lines: 11, Dropped: 15}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v, want the deadline", err)
		}
		close(gate)
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if text, _, closed := d.state(); strings.Count(text, "\n") != 11 || !closed {
			t.Errorf("%d lines, closed %v; want the 11 that were taken, and closed", strings.Count(text, "\n"), closed)
		}
		if want := `{"level":"warn","lines":15,"message":"access log too slow, lines dropped"}` + "\n"; events.String() != want {
			t.Errorf("events %s, want %s", &events, want)
		}
		l.Put(line) // too late, and no harm
		if got := l.Stats().Dropped; got != 16 {
			t.Errorf("%d lines dropped, want 16", got)
		}
	})
}

// After a full disk no line is glued to half of another.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		var events bytes.Buffer
		l := open(t, accesslog.Config{Open: func() (io.WriteCloser, error) { return d, nil }, Log: zerolog.New(&events)})
		d.set(15, nil)
		for i := range 4 { // the first fits, the second in half, the others not at all
			l.Put(fmt.Appendf(nil, "row %d....\n", i))
			time.Sleep(time.Second)
		}
		d.set(-1, nil)
		l.Put([]byte("row 4....\n"))
		synctest.Wait()
		if text, _, _ := d.state(); text != "row 0....\nrow 1\nrow 4....\n" {
			t.Errorf("file %q", text)
		}
		if got, want := l.Stats(), (accesslog.Stats{Lines: 5, Dropped: 3}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		want := `{"level":"error","error":"no space left on device","message":"access log not written"}` + "\n" +
			`{"level":"info","message":"access log written again"}` + "\n"
		if events.String() != want {
			t.Errorf("events\n%s, want one for each change\n%s", &events, want)
		}
	})
}

// As logrotate does it: rename, then tell.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	broken := false
	l := open(t, accesslog.Config{Open: func() (io.WriteCloser, error) {
		if broken {
			return nil, errors.New("no such folder")
		}
		return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}})
	l.Put([]byte("before\n"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Put([]byte("still before\n"))
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Put([]byte("after\n"))
	broken = true
	if err := l.Reopen(); err == nil {
		t.Error("Reopen that cannot open: no error")
	}
	l.Put([]byte("still after\n"))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); !errors.Is(err, accesslog.ErrClosed) {
		t.Errorf("Reopen after Close = %v, want ErrClosed", err)
	}
	for name, want := range map[string]string{path + ".1": "before\nstill before\n", path: "after\nstill after\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", filepath.Base(name), got, err, want)
		}
	}
}

func TestNewChecks(t *testing.T) {
	if _, err := accesslog.New(accesslog.Config{}); err == nil {
		t.Error("without Open: no error")
	}
	nowhere := func() (io.WriteCloser, error) { return nil, os.ErrNotExist }
	if _, err := accesslog.New(accesslog.Config{Open: nowhere}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("New = %v, want the error of Open", err)
	}
	if _, err := accesslog.New(accesslog.Config{Open: nowhere, MaxPending: -1}); err == nil {
		t.Error("MaxPending -1: no error")
	}
	if _, err := accesslog.ParseFormat("common"); err == nil {
		t.Error(`ParseFormat("common"): no error`)
	}
}

// Putting a line costs no allocation in the long run.
func TestAllocations(t *testing.T) {
	l := open(t, accesslog.Config{Open: func() (io.WriteCloser, error) { return newDiscard(), nil }, Query: true})
	e := entry()
	var line []byte
	put := func() {
		line = l.Append(line[:0], &e)
		l.Put(line)
	}
	for range 10000 {
		put()
	}
	if got := testing.AllocsPerRun(10000, put); got != 0 {
		t.Errorf("%v allocations a line, want 0", got)
	}
}

type discard struct{ io.Writer }

func newDiscard() discard { return discard{io.Discard} }

func (discard) Close() error { return nil }
