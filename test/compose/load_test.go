package compose

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeFile is the file that these tests are about, as an absolute path.
func composeFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// load loads the file as Docker Compose v2 does.
func load(t *testing.T) *types.Project {
	t.Helper()
	path := composeFile(t)
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(path),
		ConfigFiles: []types.ConfigFile{{Filename: path}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("understudy", true) })
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestLoad checks what the walk relies on.
func TestLoad(t *testing.T) {
	project := load(t)
	if got, want := project.ServiceNames(), []string{"a", "b", "c", "d", "keygen", "proxy1", "proxy2"}; !slices.Equal(got, want) {
		t.Errorf("services are %q, want %q", got, want)
	}
	for name, s := range project.Services {
		t.Run(name, func(t *testing.T) { hardened(t, s) })
	}
	for _, name := range []string{"proxy1", "proxy2"} {
		if got := project.Services[name].Tmpfs; len(got) != 1 || !strings.HasPrefix(got[0], "/tmp:") {
			t.Errorf("%s has %q in memory, want /tmp: long uploads are kept there", name, got)
		}
	}
	if !project.Networks["replication"].Internal {
		t.Error("the network replication has a way out")
	}
}

// hardened checks that a service can do no more than it must, and is not
// started again for ever.
func hardened(t *testing.T, s types.ServiceConfig) {
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Privileged || s.User == "" || s.User[0] == '0' {
		t.Errorf("read_only %v, cap_drop %q, privileged %v, user %q; want true, all, false, not root", s.ReadOnly, s.CapDrop, s.Privileged, s.User)
	}
	if s.Name == "keygen" {
		if s.Restart != types.RestartPolicyNo {
			t.Errorf("restart is %q, want no", s.Restart)
		}
		return
	}
	if s.Restart != "on-failure:3" {
		t.Errorf("restart is %q, want on-failure:3: a start that fails would fail again", s.Restart)
	}
	if got := s.DependsOn["keygen"].Condition; got != types.ServiceConditionCompletedSuccessfully {
		t.Errorf("waits for keygen with the condition %q, want %q", got, types.ServiceConditionCompletedSuccessfully)
	}
	if s.HealthCheck == nil || !slices.Contains(s.HealthCheck.Test, "health") {
		t.Error("has no health check by proxy health")
	}
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("port %s is published at %q, want 127.0.0.1", p.Published, p.HostIP)
		}
	}
}

// TestWalkNamesWhatIsThere checks that whoever copies the commands of the walk
// gives a node its own address and name back, and sets variables that are read.
func TestWalkNamesWhatIsThere(t *testing.T) {
	walk, err := os.ReadFile("../../docs/compose.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(composeFile(t))
	if err != nil {
		t.Fatal(err)
	}
	project := load(t)
	connects := regexp.MustCompile(`network connect --ip (\S+) --alias (\S+) understudy_(\S+) \$\(docker-compose ps -q (\w)\)`).FindAllSubmatch(walk, -1)
	if len(connects) == 0 {
		t.Error("the walk connects no node")
	}
	for _, c := range connects {
		ip, alias, network, node := string(c[1]), string(c[2]), string(c[3]), string(c[4])
		at := project.Services[node].Networks[network]
		if at == nil || at.Ipv4Address != ip || !slices.Equal(at.Aliases, []string{alias}) {
			t.Errorf("the walk says %s; in the file %s has %+v in %s", c[0], node, at, network)
		}
	}
	for _, name := range regexp.MustCompile(`UNDERSTUDY_\w+`).FindAll(walk, -1) {
		if !bytes.Contains(file, append([]byte("${"), name...)) {
			t.Errorf("the walk sets %s, which the file does not read", name)
		}
	}
}

// TestOldComposeLoads has docker-compose 1.29 load the file, which knows less
// (spec/dataplane 12).
func TestOldComposeLoads(t *testing.T) {
	if _, err := exec.LookPath("docker-compose"); err != nil {
		skip(t, "docker-compose is not installed")
	}
	if text, err := exec.CommandContext(t.Context(), "docker-compose", "-f", composeFile(t), "config", "-q").CombinedOutput(); err != nil {
		t.Errorf("docker-compose config: %v\n%s", err, text)
	}
}

// skip skips a test for want of something, or fails it where nothing may be
// wanting.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("UNDERSTUDY_TEST_ALL") == "1" { //nolint:forbidigo // set by .ci/run, where no test may skip
		t.Fatal(why)
	}
	t.Skip(why)
}

// needDocker skips a test without a Docker daemon that answers.
func needDocker(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts containers; not with -short")
	}
	for _, command := range [][]string{{"docker", "info"}, {"docker-compose", "version"}} {
		if text, err := exec.CommandContext(context.Background(), command[0], command[1:]...).CombinedOutput(); err != nil {
			skip(t, "needs Docker: "+command[0]+": "+err.Error()+": "+lastLine(text))
		}
	}
}
