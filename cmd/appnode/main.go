// Command appnode is an app node: a demo application whose sessions survive
// the death of the node that holds them. It is also the model of how a program
// of your own uses package session.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/understudy-lb/understudy/settings"
)

// exitStart is the exit status of a start that failed (OVER-25).
const exitStart = 255

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, stop, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "appnode:", err)
		os.Exit(exitStart)
	}
}

// run is main without the process: it returns nil after an orderly stop. It
// calls signalled when a first signal has been seen, so that a second one ends
// the process at once.
func run(ctx context.Context, signalled func(), args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := parseConfig(args, getenv, stdout)
	if errors.Is(err, settings.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := newNode(ctx, cfg, stderr)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop while it was starting
		}
		return err
	}
	return n.serve(ctx, signalled)
}
