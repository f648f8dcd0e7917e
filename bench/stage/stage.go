// Package stage is what the benchmarks share: processes that are started on one
// core and end with the benchmark, a network namespace of its own, and the
// processor time that processes used.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Stage is where processes are started.
type Stage struct {
	Dir string // for files; removed by Close
	Pin bool   // what is measured runs on the first core, the load on the others

	next int // the last port that was given away
}

// New returns a stage with a folder of its own.
func New() (*Stage, error) {
	dir, err := os.MkdirTemp("", "understudy-bench-")
	if err != nil {
		return nil, err
	}
	_, err = exec.LookPath("taskset")
	return &Stage{Dir: dir, Pin: err == nil && runtime.NumCPU() > 1, next: 20_000}, nil
}

// Close removes the folder, unless the benchmark failed with err: then what the
// processes said may tell why.
func (s *Stage) Close(err error) error {
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, s.Dir)
	}
	return os.RemoveAll(s.Dir)
}

// Port returns a port that nobody else on the stage has.
func (s *Stage) Port() int { s.next++; return s.next }

// Addr returns an address on loopback with a port of its own.
func (s *Stage) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.Port()) }

// Build compiles the package in the folder to the stage's, and returns the path.
func (s *Stage) Build(ctx context.Context, folder string) (string, error) {
	to := filepath.Join(s.Dir, filepath.Base(folder)+".bin")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, ".")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", folder, err, out)
	}
	return to, nil
}

// A Troupe is some processes that belong together.
type Troupe struct {
	Dir string // for their files and output
	Pin bool   // to the first core; else, on a stage that pins, to the others

	stage *Stage
	cmds  []*exec.Cmd
}

// Troupe returns one without processes.
func (s *Stage) Troupe(name string, pin bool) (*Troupe, error) {
	dir := filepath.Join(s.Dir, name)
	return &Troupe{Dir: dir, Pin: pin, stage: s}, os.MkdirAll(dir, 0o755)
}

// Start starts a process. It ends with Stop, and in any case with this one.
func (t *Troupe) Start(ctx context.Context, env []string, name string, args ...string) error {
	if t.stage.Pin {
		cores := "0"
		if !t.Pin {
			cores = fmt.Sprintf("1-%d", runtime.NumCPU()-1)
		}
		args = append([]string{"-c", cores, name}, args...)
		name = "taskset"
	}
	out, err := os.Create(filepath.Join(t.Dir, fmt.Sprintf("out%d", len(t.cmds))))
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the process has its own
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, t.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.cmds = append(t.cmds, cmd)
	return nil
}

// PIDs are those of the processes and of what they have started.
func (t *Troupe) PIDs() []int {
	var pids []int
	for _, cmd := range t.cmds {
		pids = append(pids, cmd.Process.Pid)
	}
	for i := 0; i < len(pids); i++ {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pids[i])) // none if it is gone
		for f := range strings.FieldsSeq(string(b)) {
			var pid int
			if _, err := fmt.Sscan(f, &pid); err == nil && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Stop ends every process and waits for it. Those that have children get the
// time to end them.
func (t *Troupe) Stop() error {
	var errs []error
	for _, cmd := range t.cmds {
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		errs = append(errs, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // ended by a signal: it cannot end well
		kill.Stop()
	}
	t.cmds = nil
	return errors.Join(errs...)
}

// Answers waits until url is answered with 200, at most a few minutes: eight
// Java machines that start on one core take their time.
func Answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for !ok(ctx, url) {
		if !Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s: no answer", url)
		}
	}
	return nil
}

func ok(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	rep, err := Client().Do(req)
	if err != nil {
		return false
	}
	return rep.Body.Close() == nil && rep.StatusCode == http.StatusOK
}

// Client asks one question.
func Client() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

// Pause waits, and reports whether ctx let it.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// namespaced tells a process that it has been started in its own namespace.
const namespaced = "UNDERSTUDY_BENCH_NAMESPACE"

// Isolate starts this program again in a network namespace of its own, where
// packets are those of a cable, and ends with its exit status. Where that cannot
// be done, or has been done, it returns.
func Isolate(ctx context.Context) {
	if os.Getenv(namespaced) != "" || os.Geteuid() != 0 {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	// Build has no network to fetch modules from once it is in there: neither ours
	// nor those of the module above, the proxy's.
	for _, dir := range []string{".", ".."} {
		if out, err := exec.CommandContext(ctx, "go", "-C", dir, "mod", "download").CombinedOutput(); err != nil {
			Fatalf("go -C %s mod download: %v: %s", dir, err, out)
		}
	}
	// With segmentation offload one packet of 64 KiB would count for all.
	const up = "ip link set lo mtu 1500 gso_max_segs 1 up || ip link set lo up; exec \"$@\""
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--net", "sh", "-c", up, "sh", self}, os.Args[1:]...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), namespaced+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	}
}

// Logf says on standard error how far a benchmark is.
func Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// Fatalf is Logf, and the end.
func Fatalf(format string, args ...any) {
	Logf(format, args...)
	os.Exit(1)
}
