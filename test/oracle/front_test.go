package oracle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// A front is Apache with mod_jk, or our proxy.
type front struct {
	*stage.Process
	addr string
}

// modules are where Debian has those of httpd.
const modules = "/usr/lib/apache2/modules/"

// needApache skips the test without httpd and mod_jk, and fails it where no test
// may skip.
func needApache(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	var missing []string
	if _, err := exec.LookPath("apache2"); err != nil {
		missing = append(missing, "apache2-bin")
	}
	if _, err := os.Stat(modules + "mod_jk.so"); err != nil {
		missing = append(missing, "libapache2-mod-jk")
	}
	if missing == nil {
		return
	}
	if os.Getenv("UNDERSTUDY_TEST_ALL") == "1" { //nolint:forbidigo // set by .ci/run, where no test may skip
		t.Fatalf("missing: %v", missing)
	}
	t.Skipf("needs %v", missing)
}

// directory is one that httpd's user can read.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func file(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// httpdConf is all that httpd gets: nothing of the system's own configuration.
// With -X it is one process and one only, so that all requests see one balancer,
// and nothing outlives the test.
const httpdConf = `ServerRoot "%[1]s"
DefaultRuntimeDir "%[1]s"
PidFile "%[1]s/pid"
Mutex file:%[1]s default
LoadModule mpm_event_module %[2]smod_mpm_event.so
LoadModule authz_core_module %[2]smod_authz_core.so
LoadModule jk_module %[2]smod_jk.so
Listen %[3]s
User www-data
Group www-data
ServerName oracle.test
DocumentRoot "%[1]s"
ErrorLog "%[1]s/error.log"
StartServers 1
ServerLimit 1
ThreadsPerChild 8
MaxRequestWorkers 8
JkWorkersFile "%[1]s/workers.properties"
JkShmFile "%[1]s/jk.shm"
JkLogFile "%[1]s/jk.log"
JkLogLevel info
JkMountFile "%[1]s/uriworkermap.properties"
JkMountFileReload 0
%[4]s`

// apache starts httpd with mod_jk over the files in dir; more is what its
// configuration has besides.
func apache(t *testing.T, dir, more string) *front {
	t.Helper()
	addr := stage.FreeAddr(t)
	conf := file(t, filepath.Join(dir, "httpd.conf"), fmt.Sprintf(httpdConf, dir, modules, addr, more))
	return newFront(t, addr, stage.Command{Name: "apache", Binary: "apache2", Args: []string{"-X", "-f", conf}})
}

// understudy starts our proxy over the same files. What its flags change is not to
// be compared: how often a request may be sent again, which mod_jk does not limit.
func understudy(t *testing.T, dir string) *front {
	t.Helper()
	return understudyWith(t, dir)
}

// understudyWith is understudy with further flags.
func understudyWith(t *testing.T, dir string, flags ...string) *front {
	t.Helper()
	addr := stage.FreeAddr(t)
	args := []string{
		"serve", "--workers", filepath.Join(dir, "workers.properties"), "--urimap", filepath.Join(dir, "uriworkermap.properties"),
		"--listen", addr, "--admin", "none", "--compat", "--max-resend=-1", "--retry-budget", "0", "--stop-timeout", "1s",
	}
	return newFront(t, addr, stage.Command{Name: "understudy", Binary: binaries.Proxy, Args: append(args, flags...)})
}

func newFront(t *testing.T, addr string, c stage.Command) *front {
	t.Helper()
	f := &front{Process: stage.Start(t, c), addr: addr}
	stage.Wait(t, c.Name+" listens", func() bool {
		if !f.Running() {
			t.Fatalf("%s has ended:\n%s", c.Name, f.Output())
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return f
}

// stop ends the front in order.
func (f *front) stop() {
	f.Signal(syscall.SIGTERM)
	timer := time.NewTimer(settling)
	defer timer.Stop()
	select {
	case <-f.Done():
	case <-timer.C:
		f.Kill()
	}
}

// A request is what the client sends, to each front the same.
type request struct {
	method, target string
	fields         []field
	body           []byte
	chunked        bool
}

func (r *request) String() string {
	s := fmt.Sprintf("%s %s %v", r.method, r.target, r.fields)
	if len(r.body) > 0 {
		s += fmt.Sprintf(" body=%d chunked=%t", len(r.body), r.chunked)
	}
	return s
}

// bytes are the request as it stands on the wire.
func (r *request) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.method, r.target)
	for _, f := range r.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	switch {
	case r.chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := r.body; len(rest) > 0; {
			n := min(len(rest), 5000)
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	case r.body != nil:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(r.body), r.body)
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// A reply is what the client got.
type reply struct {
	status int // 0 for none
	header http.Header
	body   []byte
	broken bool   // ends before it should
	port   string // of the client
}

func (r *reply) String() string {
	s := fmt.Sprintf("%d by %q, %d bytes", r.status, r.by(), len(r.body))
	if r.broken {
		s += ", broken off"
	}
	return s
}

// by is the member whose reply it is; "" if it is the front's own.
func (r *reply) by() string { return r.header.Get("X-Member") }

// answered bounds one request: eight tries, each with a reply_timeout, and more.
const answered = 30 * time.Second

// ask sends one request over a connection of its own.
func (f *front) ask(r *request) (*reply, error) {
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(answered))
	got := &reply{port: strconv.Itoa(conn.LocalAddr().(*net.TCPAddr).Port)}
	if _, err := conn.Write(r.bytes()); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return nil, err
	}
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, &http.Request{Method: r.method})
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				return nil, err
			}
			got.broken = true
			return got, nil
		}
		if res.StatusCode < 200 {
			continue
		}
		got.status, got.header = res.StatusCode, res.Header
		if res.ContentLength >= 0 {
			got.header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
		}
		got.body, err = io.ReadAll(res.Body)
		got.broken = err != nil
		// The client may have it all, and the front still be at work. The next
		// request on the connection, which is none, ends it.
		conn.Write([]byte("over\r\n\r\n"))
		if _, err := io.Copy(io.Discard, in); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			return nil, fmt.Errorf("wait for the end of the exchange: %w", err)
		}
		return got, nil
	}
}
