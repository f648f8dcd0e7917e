//go:build linux

package hosts

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/understudy-lb/understudy/test/stage"
)

// binaries are the built commands; zero with -short, or if nothing can run.
var binaries stage.Binaries

func TestMain(m *testing.M) {
	os.Exit(testMain(m)) //nolint:forbidigo // a TestMain ends the process
}

func testMain(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run() // every test skips
	}
	if missing() != "" {
		return m.Run() // the same, or fails
	}
	sweep() // of runs that were killed
	defer sweep()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binaries, err = stage.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
