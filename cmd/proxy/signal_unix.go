//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReopen has c told of SIGUSR1: whoever rotates logs sends it. SIGUSR2
// is kept for handing over to another process, as in nginx and HAProxy.
func notifyReopen(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// notifyReload has c told of SIGHUP, which asks for settings to be read again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
