package cluster

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A counter counts, and is safe for concurrent use.
type counter struct{ n atomic.Uint64 }

func (c *counter) add() { c.n.Add(1) }

// A logWriter turns the log lines of memberlist into events. memberlist calls
// it with one line at a time, and says in it what it thinks of its weight:
//
//	2026/01/02 15:04:05 [WARN] memberlist: Refuting a suspect message (from: b#2)
//
// That a member is suspected, or not reached, is everyday life for gossip and
// no error for an operator; what becomes of the members is logged by Cluster. So
// each level is one lower here. A complaint about what came from outside names
// the sender as from=ADDRESS; those are counted, and logged at debug level
// only, since a stranger could fill the log with them.
//
// While a network is unreachable memberlist has a line for each packet. Of one
// kind at most kindLines pass within kindTime; the next one that does says how
// many have not.
type logWriter struct {
	log     zerolog.Logger
	garbage *counter

	mu    sync.Mutex // guards kinds; held for a few instructions
	kinds map[string]*kind
}

// Bounds of what memberlist may log above debug level.
const (
	kindLines = 3
	kindTime  = time.Minute
	maxKinds  = 64 // further ones count as one
)

// A kind is lines of memberlist that differ only in whom they are about.
type kind struct {
	since      time.Time
	lines      int
	suppressed int // in all, since one has passed
}

// kindOf returns what lines of the same kind have in common: the words before the
// first one that has a digit in it, as names with their boot and addresses have.
func kindOf(text string) string {
	digit := strings.IndexAny(text, "0123456789")
	if digit < 0 {
		return text
	}
	return text[:strings.LastIndexByte(text[:digit], ' ')+1]
}

// admit reports whether a line may pass, and how many like it have not since the
// last one did.
func (w *logWriter) admit(text string) (suppressed int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := kindOf(text)
	k := w.kinds[name]
	if k == nil && len(w.kinds) >= maxKinds {
		name = ""
		k = w.kinds[name]
	}
	if k == nil {
		if w.kinds == nil {
			w.kinds = make(map[string]*kind)
		}
		k = new(kind)
		w.kinds[name] = k
	}
	if now := time.Now(); now.Sub(k.since) >= kindTime {
		k.since, k.lines = now, 0
	}
	if k.lines >= kindLines {
		k.suppressed++
		return 0, false
	}
	k.lines++
	suppressed = k.suppressed
	k.suppressed = 0
	return suppressed, true
}

// Write is io.Writer's.
func (w *logWriter) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	level := zerolog.DebugLevel
	if _, rest, ok := bytes.Cut(text, []byte("[")); ok {
		if tag, msg, ok := bytes.Cut(rest, []byte("] ")); ok {
			text = bytes.TrimPrefix(msg, []byte("memberlist: "))
			foreign := bytes.Contains(msg, []byte("from="))
			switch string(tag) {
			case "ERR", "ERROR":
				level = zerolog.WarnLevel
			case "WARN":
				level = zerolog.InfoLevel
			case "INFO":
				level = zerolog.DebugLevel
			case "DEBUG":
				level, foreign = zerolog.TraceLevel, false
			}
			if foreign {
				level = zerolog.DebugLevel
				w.garbage.add()
			}
		}
	}
	suppressed := 0
	if level > zerolog.DebugLevel {
		var ok bool
		if suppressed, ok = w.admit(string(text)); !ok {
			return len(line), nil
		}
	}
	e := w.log.WithLevel(level).Str("from", "memberlist")
	if suppressed > 0 {
		e.Int("suppressed", suppressed)
	}
	e.Msg(string(text))
	return len(line), nil
}
