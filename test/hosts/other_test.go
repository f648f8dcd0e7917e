//go:build !linux

package hosts

import (
	"os"
	"testing"
)

func TestHosts(t *testing.T) {
	if os.Getenv("UNDERSTUDY_TEST_ALL") == "1" && !testing.Short() { //nolint:forbidigo // set by .ci/run, where no test may skip
		t.Fatal("network namespaces need Linux")
	}
	t.Skip("network namespaces need Linux")
}
