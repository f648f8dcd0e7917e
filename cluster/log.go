package cluster

import (
	"bytes"
	"sync/atomic"

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
type logWriter struct {
	log     zerolog.Logger
	garbage *counter
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
	w.log.WithLevel(level).Str("from", "memberlist").Msg(string(text))
	return len(line), nil
}
