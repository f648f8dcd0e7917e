package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestReplicationModes kills the primary in each mode: the session goes on with
// what was copied, and the client is told that something may be missing, exactly
// if its replies did not wait for the copy (TC-M1 to TC-M5).
func TestReplicationModes(t *testing.T) {
	for _, tt := range []struct {
		args  string
		waits bool
	}{
		{"--replication-mode synchronous", true},
		{"--replication-mode synchronous --wait-for-ack=false", false},
		{"--replication-mode pooled --wait-for-ack=true", true},
		{"--replication-mode asynchronous --wait-for-ack=true", false},
		{"--replication-mode fastasyncqueue --require-replica", false},
	} {
		t.Run(strings.ReplaceAll(tt.args, " ", ""), func(t *testing.T) {
			s := newCluster(t)
			for _, name := range []string{"a", "b"} {
				s.add(name, strings.Fields(tt.args)...)
			}
			for _, name := range []string{"a", "b"} {
				s.ready(name)
			}
			c := s.client(s.nodes["a"].listen)
			c.CountN(20)
			queue := func() float64 { return metric(t, s.nodes["a"].admin, "understudy_replication_queue") }
			stage.Wait(t, "nothing waits to be copied", func() bool {
				return queue() == 0 && metric(t, s.nodes["b"].admin, `understudy_sessions{role="secondary"}`) == 1
			})
			s.nodes["a"].Kill()
			c.Close()
			c.Base = "http://" + s.nodes["b"].listen
			if strings.Contains(tt.args, "--require-replica") {
				stage.Wait(t, "b refuses changes that nobody else would have", func() bool {
					_, err := c.Do(t.Context(), http.MethodPost, "/counter")
					return err != nil && strings.Contains(err.Error(), "503")
				})
			}
			if r := c.Must(http.MethodGet, "/peek"); r.Counter < 19 || r.Counter > 20 || tt.waits && r.Counter != 20 || r.Lost == tt.waits || r.IsNew {
				t.Errorf("after the death of a: %v; want 20, lost %v", r, !tt.waits)
			}
			if r := c.Must(http.MethodGet, "/peek"); r.Lost {
				t.Errorf("once it was told: %v", r)
			}
			c.Close()
		})
	}
}
