package stage

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Binaries are the paths of the built commands.
type Binaries struct {
	Proxy, AppNode string
}

// Build builds the commands into dir. Tests call it once, from TestMain.
func Build(dir string) (Binaries, error) {
	const cmd = "github.com/understudy-lb/understudy/cmd/"
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), cmd+"proxy", cmd+"appnode")
	if text, err := build.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("stage: build the commands: %w\n%s", err, text)
	}
	return Binaries{Proxy: filepath.Join(dir, "proxy"), AppNode: filepath.Join(dir, "appnode")}, nil
}
