//go:build !unix

package main

import "os"

// notifyReopen does nothing: there is no such signal.
func notifyReopen(chan<- os.Signal) {}

// notifyReload does nothing either.
func notifyReload(chan<- os.Signal) {}
