package cluster

import (
	"bytes"
	"strings"
	"testing"

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
