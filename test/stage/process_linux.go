package stage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// bind makes the process of cmd end when the thread that forks it ends, so
// that none outlives a test binary that is killed.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stands reports whether all threads of a process are stopped: the signal takes
// its time to reach those that run.
func stands(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			return false
		}
		// pid (command) state …; the command may contain anything.
		_, state, found := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if !found || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}
