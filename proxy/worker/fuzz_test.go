package worker

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// FuzzParse checks that no file makes Parse panic, that it says the same twice,
// and that what it accepts can be used: every balancer has members, and all
// numbers are within their bounds.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.properties")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("worker.a.reference=worker\nworker.list=a")
	f.Add("worker.list=a\nworker.a.type=$(x)\nx=$(x\n\x00#=")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("w", strings.NewReader(text), env)
		again, err2 := Parse("w", strings.NewReader(text), env)
		if file == nil || !reflect.DeepEqual(file, again) || file.String() != again.String() || (err == nil) != (err2 == nil) {
			t.Fatalf("Parse is not deterministic:\n%v %v\n%v %v", file, err, again, err2)
		}
		if len(file.Problems) > properties.MaxProblems {
			t.Fatalf("%d problems", len(file.Problems))
		}
		if err != nil {
			if _, ok := err.(*properties.SyntaxError); !ok { //nolint:errorlint // it must not be wrapped either
				t.Fatalf("Parse = %T", err)
			}
			return
		}
		for _, lb := range file.LBs {
			if len(lb.Members) == 0 || lb.Retries < 1 || lb.LBRetries < 1 || lb.RecoverTime <= 0 || lb.ErrorEscalationTime < 0 {
				t.Fatalf("unusable: %+v", lb)
			}
			for i := range lb.Members {
				usable(t, &lb.Members[i])
			}
		}
		for _, m := range file.Members {
			usable(t, m)
		}
	})
}

func usable(t *testing.T, m *Member) {
	t.Helper()
	if m.Type != TypeHTTP && m.Type != TypeAJP13 || m.Host == "" || m.Port < 0 || m.Port > 65535 || m.Retries < 1 || m.LBFactor < 1 ||
		m.Route == "" || len(m.Route) > MaxName || m.SocketTimeout < 0 || m.SocketConnectTimeout < 0 ||
		m.PrepostTimeout < 0 || m.ReplyTimeout < 0 || m.PoolTimeout < 0 || m.AcquireTimeout < 0 || m.PoolSize < 0 && m.Type == TypeHTTP ||
		m.MaxPacketSize < 8192 || m.MaxPacketSize > 65536 || m.Port == 0 && m.Activation != Stopped {
		t.Fatalf("unusable: %+v", m)
	}
}
