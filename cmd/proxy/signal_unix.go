//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReopen has c told of SIGUSR1: whoever rotates logs sends it. SIGHUP and
// SIGUSR2 are kept for reading settings again and for handing over to another
// process, as in nginx and HAProxy.
func notifyReopen(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }
