package cluster

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestLogWriter(t *testing.T) {
	tests := []struct {
		line    string
		want    string
		garbage uint64
	}{
		{
			line: "2026/01/02 15:04:05 [DEBUG] memberlist: Stream connection from=10.0.0.1:3\n",
			want: `{"level":"trace","from":"memberlist","message":"Stream connection from=10.0.0.1:3"}`,
		},
		{
			line: "2026/01/02 15:04:05 [INFO] memberlist: Suspect b#2 has failed, no acks received\n",
			want: `{"level":"debug","from":"memberlist","message":"Suspect b#2 has failed, no acks received"}`,
		},
		{
			line: "2026/01/02 15:04:05 [WARN] memberlist: Refuting a suspect message (from: b#2)\n",
			want: `{"level":"info","from":"memberlist","message":"Refuting a suspect message (from: b#2)"}`,
		},
		{
			line: "2026/01/02 15:04:05 [ERR] memberlist: Push/Pull with b#2 failed: i/o timeout\n",
			want: `{"level":"warn","from":"memberlist","message":"Push/Pull with b#2 failed: i/o timeout"}`,
		},
		{
			line:    "2026/01/02 15:04:05 [ERR] memberlist: Decrypt packet failed: no key from=10.0.0.9:1\n",
			want:    `{"level":"debug","from":"memberlist","message":"Decrypt packet failed: no key from=10.0.0.9:1"}`,
			garbage: 1,
		},
		{
			line: "Err: Could not set the deadline\n",
			want: `{"level":"debug","from":"memberlist","message":"Err: Could not set the deadline"}`,
		},
		{line: "[", want: `{"level":"debug","from":"memberlist","message":"["}`},
	}
	for _, tt := range tests {
		var buf bytes.Buffer
		var garbage counter
		w := &logWriter{log: zerolog.New(&buf).Level(zerolog.TraceLevel), garbage: &garbage}
		if n, err := w.Write([]byte(tt.line)); n != len(tt.line) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		if got := strings.TrimSpace(buf.String()); got != tt.want || garbage.n.Load() != tt.garbage {
			t.Errorf("%q is logged as %s, garbage %d; want %s, %d", tt.line, got, garbage.n.Load(), tt.want, tt.garbage)
		}
	}
}

// An unreachable network costs a few lines a minute, not one a packet.
func TestLogWriterLimitsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		var garbage counter
		w := &logWriter{log: zerolog.New(&buf), garbage: &garbage}
		write := func(format string, args ...any) {
			fmt.Fprintf(w, "2026/01/02 15:04:05 [ERR] memberlist: "+format+"\n", args...) //nolint:errcheck // it never fails
		}
		unreachable := func(n int) {
			for i := range n {
				write("Failed to send gossip to 10.0.0.%d:7946: sendto: network is unreachable", i)
			}
		}
		unreachable(1000)
		write("Push/Pull with b#7 failed: timeout") // another kind is not hidden by it
		if n := strings.Count(buf.String(), "Failed to send gossip"); n != 3 {
			t.Errorf("%d of 1000 lines, want 3", n)
		}
		if !strings.Contains(buf.String(), "Push/Pull with b#7") {
			t.Error("a line of another kind was suppressed")
		}

		time.Sleep(time.Minute)
		buf.Reset()
		unreachable(1)
		want := `{"level":"warn","from":"memberlist","suppressed":997,"message":"Failed to send gossip to 10.0.0.0:7946: sendto: network is unreachable"}`
		if got := strings.TrimSpace(buf.String()); got != want {
			t.Errorf("a minute later: %s, want %s", got, want)
		}

		buf.Reset()
		for i := range 1000 {
			write("Kind %s", strings.Repeat("x", i))
		}
		if n := strings.Count(buf.String(), "\n"); n > maxKinds+kindLines || len(w.kinds) > maxKinds+1 {
			t.Errorf("%d lines and %d kinds of 1000 kinds, want at most %d", n, len(w.kinds), maxKinds)
		}
	})
}
