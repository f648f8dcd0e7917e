// Command proxy is a front door for web applications: a load balancer that
// hands a live session to the node that already holds its copy.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/understudy-lb/understudy/settings"
)

// Exit statuses (design of the commands, OVER-25).
const (
	exitFailed = 1   // check found an error; health got no good answer
	exitStart  = 255 // a start that failed
)

// errFailed ends a command with status 1 after it has said why itself.
var errFailed = errors.New("failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	reopen := make(chan os.Signal, 1)
	notifyReopen(reopen) // for every command: by default the signal ends the process
	err := run(ctx, env{
		signalled: stop, reopen: reopen, args: os.Args[1:], getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr,
	})
	stop()
	switch {
	case errors.Is(err, errFailed):
		os.Exit(exitFailed)
	case err != nil:
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(exitStart)
	}
}

// env is what a command has of the process around it.
type env struct {
	signalled      func()           // called once a first signal has been seen: a second one ends the process at once
	reopen         <-chan os.Signal // asks for logs to be opened anew; nil: nobody asks
	reload         <-chan os.Signal // asks for the files to be read again; likewise
	args           []string
	getenv         func(string) string
	stdout, stderr io.Writer
}

// run is main without the process.
func run(ctx context.Context, e env) error {
	var c commands
	command, err := settings.Parse(&c, settings.Config{
		Name: "proxy", Description: "A front door for web applications whose sessions survive their node.",
		Args: e.args, Getenv: e.getenv, Stdout: e.stdout,
	})
	if errors.Is(err, settings.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	switch command {
	case "demo":
		return c.Demo.run(ctx, e)
	case "serve":
		return c.Serve.run(ctx, e)
	case "check":
		return c.Check.run(e)
	case "keygen":
		return c.Keygen.run(e)
	case "version":
		return version(e)
	case "ctl drain <node>":
		return c.Ctl.Drain.run(ctx, e, "drain")
	case "ctl resume <node>":
		return c.Ctl.Resume.run(ctx, e, "resume")
	case "ctl set <worker[/member]> <setting=value>":
		return c.Ctl.Set.run(ctx, e)
	case "ctl reset <worker[/member]>":
		return c.Ctl.Reset.run(ctx, e, "reset", url.Values{})
	case "ctl recover <worker[/member]>":
		return c.Ctl.Recover.run(ctx, e, "recover", url.Values{})
	case "ctl changes":
		return c.Ctl.Changes.run(ctx, e)
	case "ctl members":
		return c.Ctl.Members.run(ctx, e)
	default:
		return c.Health.run(ctx, e)
	}
}
