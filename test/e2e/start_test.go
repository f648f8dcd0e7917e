package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// TestWrongStart: whatever is wrong, one line on standard error says where to
// mend it, and the exit status is 255.
func TestWrongStart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out, err := exec.Command(binaries.Proxy, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	key := file("good.key", "# a comment\n\n"+string(out))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := "worker.list=lb\nworker.a.type=http\nworker.a.host=127.0.0.1\nworker.a.port=1\nworker.lb.type=lb\nworker.lb.balance_workers=a\n"
	serve := func(workers string, args ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "none", "--workers", workers}, args...)
	}
	appnode := func(args ...string) []string {
		return append([]string{"--name", "a", "--cluster-key", key}, args...)
	}

	tests := []struct {
		name   string
		binary string
		args   []string
		want   string // part of the line
	}{
		{"unknown directive", binaries.Proxy, serve(file("directive.properties", good+"worker.a.hots=x\n")), "directive.properties:7: "},
		{"lb without members", binaries.Proxy, serve(file("empty.properties", "worker.list=lb\nworker.lb.type=lb\n")), "empty.properties:"},
		{"lb names itself", binaries.Proxy, serve(file("itself.properties", good+"worker.lb.balance_workers=lb\n")), "itself.properties:7: "},
		{"wrong value in an http worker", binaries.Proxy, serve(file("value.properties", good+"worker.a.socket_timeout=soon\n")), "value.properties:7: "},
		{"unknown type", binaries.Proxy, serve(file("type.properties", "worker.list=w\nworker.w.type=ajp15\n")), "type.properties:2: "},
		{"no lb and no rules", binaries.Proxy, serve(file("single.properties", "worker.list=w\nworker.w.type=ajp13\n")), "single.properties: worker.list: "},
		{"workers file is not there", binaries.Proxy, serve(filepath.Join(dir, "none.properties")), "none.properties"},
		{"unknown flag", binaries.Proxy, serve(file("good.properties", good), "--wrokers=x"), "--wrokers"},
		{"unknown setting", binaries.Proxy, serve(file("good.properties", good), "--config", file("s.yaml", "admin: none\nlistne: x\n")), "s.yaml:2: "},
		{"port taken", binaries.Proxy, []string{"serve", "--workers", file("good.properties", good), "--admin", "none", "--listen", taken.Addr().String()}, taken.Addr().String()},
		{"admin port taken", binaries.Proxy, []string{"serve", "--workers", file("good.properties", good), "--listen", "127.0.0.1:0", "--admin", taken.Addr().String()}, taken.Addr().String()},
		{"key file is not there", binaries.Proxy, serve(file("good.properties", good), "--cluster-key", filepath.Join(dir, "none.key")), "none.key"},
		{"key is short", binaries.Proxy, serve(file("good.properties", good), "--cookie-keys", file("short.key", "# ok\nabcdef\n")), "short.key:2: "},
		{"trusted network that is none", binaries.Proxy, serve(file("good.properties", good), "--trusted-networks", "10.0.0.0/8,10.1"), "--trusted-networks"},
		{"rules file is not there", binaries.Proxy, serve(file("good.properties", good), "--urimap", filepath.Join(dir, "none.map")), "--urimap: open " + filepath.Join(dir, "none.map")},
		{"a wrong line in the rules", binaries.Proxy, serve(file("good.properties", good), "--urimap", file("wrong.map", "/*=lb\nworker.a.port=1\n")), "wrong.map:2: "},
		{"a wrong value in a rule", binaries.Proxy, serve(file("good.properties", good), "--urimap", file("value.map", "/*=lb;session_cookie=a b\n")), "value.map:1: "},
		{"two balancers and no rules", binaries.Proxy, serve(file("two.properties", good+"worker.list=lb2\nworker.lb2.type=lb\nworker.lb2.balance_workers=a\n")), "two.properties:8: "},
		{"newcomers join nobody", binaries.Proxy, serve(file("good.properties", good), "--newcomers", "a"), "--newcomers: "},
		{"error page is not there", binaries.Proxy, serve(file("good.properties", good), "--error-page", "503="+filepath.Join(dir, "none.html")), "none.html"},
		{"error page without a type", binaries.Proxy, serve(file("good.properties", good), "--error-page", file("page.php", "x")), "page.php"},
		{"TLS without a certificate", binaries.Proxy, serve(file("good.properties", good), "--tls-listen", "127.0.0.1:0"), "--tls-cert"},
		{"a certificate without TLS", binaries.Proxy, serve(file("good.properties", good), "--tls-cert", key), "--tls-listen"},
		{"a certificate that is none", binaries.Proxy, serve(file("good.properties", good), "--tls-listen", "127.0.0.1:0", "--tls-cert", key), "good.key: has no block CERTIFICATE"},
		{"no listener at all", binaries.Proxy, []string{"serve", "--workers", file("good.properties", good), "--admin", "none", "--listen", "none"}, "--tls-listen"},
		{"open gossip without key", binaries.Proxy, serve(file("good.properties", good), "--gossip", "0.0.0.0:0"), "--cluster-key"},

		{"no name", binaries.AppNode, []string{}, "--name"},
		{"bad name", binaries.AppNode, []string{"--name", "a!b"}, "--name"},
		{"name NONE", binaries.AppNode, []string{"--name", "NONE"}, "--name"},
		{"node port taken", binaries.AppNode, appnode("--listen", taken.Addr().String()), taken.Addr().String()},
		{"replication port taken", binaries.AppNode, appnode("--replication", taken.Addr().String()), "--replication"},
		{"gossip port taken", binaries.AppNode, appnode("--gossip", taken.Addr().String()), "--gossip"},
		{"node key is short", binaries.AppNode, []string{"--name", "a", "--cluster-key", file("short.key", "# ok\nabcdef\n")}, "short.key:2: "},
		{"key file is a folder", binaries.AppNode, []string{"--name", "a", "--cluster-key", dir}, "--cluster-key"},
		{"open gossip, node without key", binaries.AppNode, []string{"--name", "a", "--gossip", "0.0.0.0:0"}, "--cluster-key"},
		{"open replication without key", binaries.AppNode, []string{"--name", "a", "--replication", "0.0.0.0:0"}, "--cluster-key"},
		{"wrong placement", binaries.AppNode, appnode("--placement", "best"), "--placement"},
		{"no number of secondaries", binaries.AppNode, appnode("--secondaries", "0"), "--secondaries 0: "},
		{"wrong time", binaries.AppNode, appnode("--idle-timeout", "0s"), "--idle-timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, tt.name, tt.binary, tt.args...)
			code := p.Wait()
			text := strings.TrimSpace(p.Output())
			var lines []string
			for line := range strings.SplitSeq(text, "\n") {
				if !strings.HasPrefix(line, "{") { // events are JSON
					lines = append(lines, line)
				}
			}
			if code != 255 || len(lines) != 1 || !strings.Contains(lines[0], tt.want) {
				t.Errorf("exit status %d, %q; want 255 and one line with %q", code, text, tt.want)
			}
		})
	}
}

// TestDuplicateName is D12: a second node of a living name does not start, and
// says where the first one is.
func TestDuplicateName(t *testing.T) {
	s := newCluster(t, "a", "b")
	gossip := stage.FreeAddr(t)
	p := start(t, "second a", binaries.AppNode, "--name", "a", "--cluster-key", s.key, "--gossip", gossip, "--join", s.nodes["b"].gossip)
	code := p.Wait()
	text := p.Output()
	if code != 255 || !strings.Contains(text, s.nodes["a"].gossip) || !strings.Contains(text, gossip) {
		t.Errorf("exit status %d, %q; want 255 and both addresses", code, text)
	}
	select {
	case <-s.nodes["a"].Done():
		t.Error("the first node has ended")
	default:
	}
}

// TestCheck: proxy check prints what a file means and where it is wrong.
func TestCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "workers.properties")
	good := "worker.list=lb\nworker.a.type=http\nworker.a.host=127.0.0.1\nworker.a.port=1\nworker.lb.type=lb\nworker.lb.balance_workers=a\n"
	check := func(text string, args ...string) (string, int) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, "check", binaries.Proxy, append([]string{"check", "--workers", path}, args...)...)
		code := p.Wait()
		return p.Output(), code
	}
	if out, code := check(good); code != 0 || !strings.Contains(out, "balance_workers") {
		t.Errorf("a good file: exit %d, %q", code, out)
	}
	if out, code := check(good + "worker.a.frobnicate=1\n"); code != 1 || !strings.Contains(out, "workers.properties:7: ") {
		t.Errorf("an unknown directive: exit %d, %q", code, out)
	}
	warns := good + "worker.a.reply_timeout=1000\nworker.a.reply_timeout=2000\n"
	if out, code := check(warns); code != 0 || !strings.Contains(out, "workers.properties:8: ") {
		t.Errorf("a warning: exit %d, %q", code, out)
	}
	if _, code := check(warns, "--strict"); code != 1 {
		t.Errorf("a warning with --strict: exit %d, want 1", code)
	}
}
