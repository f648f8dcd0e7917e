package stage

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Binaries are the paths of the built commands.
type Binaries struct {
	Proxy, AppNode string
}

// Build builds the commands into dir.
func Build(dir string) (Binaries, error) {
	const cmd = "github.com/understudy-lb/understudy/cmd/"
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), cmd+"proxy", cmd+"appnode")
	if text, err := build.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("stage: build the commands: %w\n%s", err, text)
	}
	return Binaries{Proxy: filepath.Join(dir, "proxy"), AppNode: filepath.Join(dir, "appnode")}, nil
}

// Main runs the tests of a package with the commands built into *bin, and returns
// the exit status for its TestMain. With -short it builds nothing: every test that
// needs the commands skips. prefix names the folder, which is removed.
func Main(m *testing.M, prefix string, bin *Binaries) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", prefix)
	if err == nil {
		defer os.RemoveAll(dir)
		*bin, err = Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
