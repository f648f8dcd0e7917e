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
	if testing.Short() || missing() != "" {
		return m.Run() // every test skips, or fails
	}
	sweep() // of runs that were killed
	defer sweep()
	return stage.Main(m, fmt.Sprintf("%s%d-", prefix, os.Getpid()), &binaries)
}
