package accesslog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Config sets up a [Log].
type Config struct {
	// Open opens what lines go to, at the start and for each [Log.Reopen]. It
	// must be set. What it returns is closed in the end.
	Open func() (io.WriteCloser, error)

	// Format is how lines look.
	Format Format

	// Query says that queries are logged too, those of the Referer included. A
	// query may hold what is nobody's business.
	Query bool

	// MaxPending is how many bytes of lines may wait to be written; lines that
	// come then are dropped. If zero, it is 8 MiB.
	MaxPending int

	// Log gets an event when lines are lost, and when they are not any more. Its
	// zero value is silent.
	Log zerolog.Logger
}

// How lines gather.
const (
	defaultPending = 8 << 20
	flushEvery     = 200 * time.Millisecond
	flushBytes     = 64 << 10
	keepBytes      = 1 << 20          // of a buffer between two writes
	complainEvery  = 10 * time.Second // events about dropped lines
)

// A Log is an access log. It is safe for concurrent use.
type Log struct {
	open       func() (io.WriteCloser, error)
	format     Format
	query      bool
	maxPending int
	log        zerolog.Logger

	first          chan struct{}     // capacity one: there is something to write
	much           chan struct{}     // capacity one: there is much of it
	reopens        chan chan<- error // requests of Reopen
	stop           chan struct{}     // closed by Close
	done           chan struct{}     // closed when the writer has ended
	dropped, lines atomic.Uint64

	mu      sync.Mutex // guards what follows; held to copy one line, never across I/O
	pending []byte
	late    uint64 // lines that did not fit since the writer looked last
	ended   bool

	w writer // the goroutine's
}

// writer is what only the goroutine has.
type writer struct {
	to         io.WriteCloser
	spare      []byte // to swap with pending
	failing    bool   // the last write failed
	torn       bool   // the last write ended within a line
	complained time.Time
	late       uint64 // dropped and not complained about yet
}

// New opens the log and starts its writer.
func New(cfg Config) (*Log, error) {
	if cfg.Open == nil {
		return nil, errors.New("accesslog: Config.Open is not set")
	}
	if cfg.MaxPending < 0 {
		return nil, fmt.Errorf("accesslog: Config.MaxPending is %d, want 0 or more", cfg.MaxPending)
	}
	to, err := cfg.Open()
	if err != nil {
		return nil, err
	}
	l := &Log{
		open: cfg.Open, format: cfg.Format, query: cfg.Query, log: cfg.Log,
		maxPending: cmp.Or(cfg.MaxPending, defaultPending),
		first:      make(chan struct{}, 1), much: make(chan struct{}, 1),
		reopens: make(chan chan<- error), stop: make(chan struct{}), done: make(chan struct{}),
		w: writer{to: to},
	}
	go l.run()
	return l, nil
}

// Timed reports whether the log wants the phases of requests.
func (l *Log) Timed() bool { return l != nil && l.format.Timed() }

// Put hands over a line as [Log.Append] makes it, and does not retain it. It
// never waits for a write.
func (l *Log) Put(line []byte) {
	l.mu.Lock()
	before := len(l.pending)
	if l.ended || before+len(line) > l.maxPending {
		l.late++
		l.mu.Unlock()
		l.dropped.Add(1)
		return
	}
	l.pending = append(l.pending, line...)
	after := len(l.pending)
	l.mu.Unlock()
	l.lines.Add(1)
	switch {
	case before == 0:
		announce(l.first)
	case before < flushBytes && after >= flushBytes:
		announce(l.much)
	}
}

func announce(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a token is waiting already
	}
}

// Stats are counts since the start.
type Stats struct {
	Lines   uint64 // taken
	Dropped uint64 // never written: there was no room, or the write failed
}

// Stats returns the counts; of a nil Log, zeros.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	return Stats{Lines: l.lines.Load(), Dropped: l.dropped.Load()}
}

// ErrClosed is returned by [Log.Reopen] after [Log.Close].
var ErrClosed = errors.New("accesslog: the log is closed")

// Reopen writes what is pending, opens the log anew and closes the old one, as
// after its file was renamed. If that fails the log goes on with the old one.
func (l *Log) Reopen() error {
	result := make(chan error, 1)
	select {
	case l.reopens <- result:
		return <-result
	case <-l.done:
		return ErrClosed
	}
}

// Close writes what is pending and closes the log. Lines that come afterwards
// are dropped. The error is that of the file, or of ctx if the file takes nothing
// any more; what was pending is lost then.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	l.mu.Unlock()
	if first {
		close(l.stop)
	}
	select {
	case <-l.done:
		if l.w.failing {
			return errors.New("accesslog: the last lines could not be written")
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("accesslog: write the last lines: %w", ctx.Err())
	}
}

// run is the writer.
func (l *Log) run() {
	defer close(l.done)
	pause := time.NewTimer(flushEvery)
	defer pause.Stop()
	for {
		select {
		case <-l.first:
			l.flush()
			// The next lines gather.
			pause.Reset(flushEvery)
			select {
			case <-pause.C:
			case <-l.much:
			case r := <-l.reopens:
				r <- l.reopen()
			case <-l.stop:
			}
		case r := <-l.reopens:
			r <- l.reopen()
		case <-l.stop:
			l.flush()
			if err := l.w.to.Close(); err != nil {
				l.log.Error().Err(err).Msg("access log not closed")
			}
			return
		}
	}
}

// flush writes what is pending.
func (l *Log) flush() {
	w := &l.w
	l.mu.Lock()
	lines := l.pending
	l.pending = w.spare
	w.late += l.late
	l.late = 0
	l.mu.Unlock()
	w.spare = nil
	if len(lines) > 0 {
		l.write(lines)
	}
	if cap(lines) <= keepBytes {
		w.spare = lines[:0]
	}
	if w.late > 0 && time.Since(w.complained) >= complainEvery {
		l.log.Warn().Uint64("lines", w.late).Msg("access log too slow, lines dropped")
		w.complained, w.late = time.Now(), 0
	}
}

// write writes lines. What cannot be written is lost: there may be a hole in the
// log, but no line that is not whole, or that stands for two.
func (l *Log) write(lines []byte) {
	w := &l.w
	if w.torn {
		if _, err := w.to.Write([]byte{'\n'}); err != nil {
			l.failed(lines, err)
			return
		}
		w.torn = false
	}
	n, err := w.to.Write(lines)
	if err != nil {
		w.torn = n > 0 && lines[n-1] != '\n'
		l.failed(lines[n:], err)
		return
	}
	if w.failing {
		w.failing = false
		l.log.Info().Msg("access log written again")
	}
}

func (l *Log) failed(lost []byte, err error) {
	l.dropped.Add(uint64(bytes.Count(lost, []byte{'\n'})))
	if !l.w.failing {
		l.w.failing = true
		l.log.Error().Err(err).Msg("access log not written")
	}
}

// reopen is Reopen for the goroutine.
func (l *Log) reopen() error {
	l.flush()
	to, err := l.open()
	if err != nil {
		return err
	}
	old := l.w.to
	l.w.to, l.w.torn = to, false
	if err := old.Close(); err != nil {
		return fmt.Errorf("accesslog: close the old log: %w", err)
	}
	return nil
}
