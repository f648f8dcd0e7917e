package stage

import (
	"os/exec"
	"syscall"
)

// bind makes the process of cmd end when the thread that forks it ends, so
// that none outlives a test binary that is killed.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
