package stage

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait for an event that must come. It is no
// performance claim: a loaded machine may need seconds for what takes
// milliseconds.
const Patience = 40 * time.Second

// A Command says what to start.
type Command struct {
	// Name is what the test calls the process, in failures.
	Name string

	// Binary and Args are the command line.
	Binary string
	Args   []string

	// Enter, if set, is called before the fork on the thread that forks: a test
	// bed moves it into a network namespace there. That thread runs nothing
	// else, before or after.
	Enter func() error
}

// A Process is a command that a test has started. It ends with the test, and
// with the test binary however that one ends (on Linux).
type Process struct {
	Command

	t    testing.TB
	cmd  *exec.Cmd
	out  output
	done chan struct{} // closed when the process has ended
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Start runs c until the test ends, at the latest. If the test has failed then,
// the end of what the process wrote is in the test's log.
func Start(t testing.TB, c Command) *Process {
	t.Helper()
	p := &Process{Command: c, t: t, cmd: exec.Command(c.Binary, c.Args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	bind(p.cmd)
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", c.Name, err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("---- %s %v:\n%s", c.Name, c.Args, tail(p.Output(), 60))
		}
	})
	return p
}

// run forks on a thread of its own and stays there until the process has
// ended: the kernel ends a process that is bound to its parent when the
// thread that forked it ends.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends here, in whatever namespace it is
	if p.Enter != nil {
		if err := p.Enter(); err != nil {
			started <- err
			return
		}
	}
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.cmd.Wait()
	close(p.done)
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Output is what the process has written so far, to both of its streams.
func (p *Process) Output() string { return p.out.String() }

// Logged reports whether one line of the output contains all of words.
func (p *Process) Logged(words ...string) bool { return len(p.Lines(words...)) > 0 }

// Lines are the lines of the output that contain all of words.
func (p *Process) Lines(words ...string) []string {
	var lines []string
	for line := range strings.Lines(p.Output()) {
		ok := true
		for _, w := range words {
			ok = ok && strings.Contains(line, w)
		}
		if ok {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Running reports whether the process has not ended; a frozen one runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and returns when it is gone.
func (p *Process) Kill() {
	p.Signal(os.Kill)
	<-p.done
}

// Freeze stops the process where it stands (SIGSTOP), and returns when it
// stands; its sockets stay open.
func (p *Process) Freeze() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
	Wait(p.t, p.Name+" stands still", func() bool { return stands(p.PID()) || !p.Running() })
}

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw() { p.Signal(syscall.SIGCONT) }

// Signal sends sig; a process that has ended gets none.
func (p *Process) Signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("send %v to %s: %v", sig, p.Name, err)
	}
}

// Stop asks the process to end in order (SIGTERM) and returns its exit status.
func (p *Process) Stop() int {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait()
}

// Wait returns the exit status of the process, which must end by itself; -1
// if a signal ended it.
func (p *Process) Wait() int {
	p.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.t.Fatalf("%s does not end", p.Name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Wait polls until ok, at most for [Patience]: processes have no other way to
// tell.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	WaitFor(t, Patience, what, ok)
}

// WaitFor is [Wait] with a deadline of its own, for events that take long by
// design.
func WaitFor(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
