// Package compose brings docker-compose.yml up and takes it apart: what it
// asserts is what docs/compose.md promises to whoever walks through it. It
// imports nothing of ours.
package compose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait for an event that must come. It is no performance
// claim.
const patience = time.Minute

// A stage is the composition as one test runs it, under a name, in networks and
// with images of its own.
type stage struct {
	t       *testing.T
	project string
	env     []string
	nets    map[string]string // network: the first three bytes of its addresses
	proxies []string          // host:port
	admins  []string          // the same proxies' admin listeners
}

// newStage builds the images, starts everything and waits until all is well.
// Nothing is left of it after the test.
func newStage(t *testing.T) *stage {
	t.Helper()
	needDocker(t)
	id := fmt.Sprintf("understudytest%d", os.Getpid())
	pick := 1 + rand.IntN(120)
	s := &stage{t: t, project: id, nets: map[string]string{
		"clients":     fmt.Sprintf("10.199.%d", 2*pick),
		"replication": fmt.Sprintf("10.199.%d", 2*pick+1),
	}}
	ports := freePorts(t, 4)
	s.proxies, s.admins = ports[:2], ports[2:]
	s.env = append(os.Environ(),
		"UNDERSTUDY_TAG="+id, "UNDERSTUDY_CLIENTS_NET="+s.nets["clients"], "UNDERSTUDY_REPLICATION_NET="+s.nets["replication"],
		"UNDERSTUDY_PROXY1_PORT="+port(ports[0]), "UNDERSTUDY_PROXY2_PORT="+port(ports[1]),
		"UNDERSTUDY_ADMIN1_PORT="+port(ports[2]), "UNDERSTUDY_ADMIN2_PORT="+port(ports[3]),
	)
	t.Cleanup(s.remove)
	s.run("make", "-C", filepath.Dir(composeFile(t)), "-s", "images", "TAG="+id)
	s.compose("up", "-d")
	s.wait("all nodes are members at both proxies", func() string { return s.members(true, "a", "b", "c", "d") })
	return s
}

// remove ends and removes all that the stage has started, and says so if
// something is left.
func (s *stage) remove() {
	if s.t.Failed() {
		for _, name := range []string{"proxy1", "a", "b", "c", "d"} {
			text, _ := s.try("docker", "logs", s.container(name))
			s.t.Logf("---- %s:\n%s", name, tail(events(text), 40))
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.try("docker", "unpause", s.container(name)) // an error: it was not paused
	}
	if text, err := s.try(s.composeCommand("down", "-v", "-t", "5")...); err != nil {
		s.t.Errorf("down: %v\n%s", err, text)
	}
	s.try("docker", "image", "rm", "understudy-appnode:"+s.project, "understudy-proxy:"+s.project)
	for _, kind := range []string{"container", "network", "volume"} {
		args := []string{"docker", kind, "ls", "-q", "--filter", "label=com.docker.compose.project=" + s.project}
		if kind == "container" {
			args = append(args, "-a")
		}
		if text, err := s.try(args...); err != nil || text != "" {
			s.t.Errorf("left over: %s %s (%v)", kind, text, err)
		}
	}
}

func (s *stage) composeCommand(args ...string) []string {
	return append([]string{"docker-compose", "-p", s.project, "-f", composeFile(s.t)}, args...)
}

func (s *stage) compose(args ...string) string {
	s.t.Helper()
	return s.run(s.composeCommand(args...)...)
}

func (s *stage) docker(args ...string) string {
	s.t.Helper()
	return s.run(append([]string{"docker"}, args...)...)
}

// run runs a command that must succeed.
func (s *stage) run(command ...string) string {
	s.t.Helper()
	text, err := s.try(command...)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, tail(text, 20))
	}
	return text
}

func (s *stage) try(command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = s.env
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// container is the id of a service's container, by its labels: its name differs
// between the versions of Compose.
func (s *stage) container(service string) string {
	id, _ := s.try("docker", "ps", "-aq", "--filter", "label=com.docker.compose.project="+s.project,
		"--filter", "label=com.docker.compose.service="+service)
	return id
}

// disconnect takes a node out of a network: its cable there is cut.
func (s *stage) disconnect(network, node string) {
	s.t.Helper()
	s.docker("network", "disconnect", s.project+"_"+network, s.container(node))
}

// connect puts a node back where it was.
func (s *stage) connect(network, node string) {
	s.t.Helper()
	host := 11 + strings.Index("abcd", node)
	s.docker("network", "connect", "--ip", fmt.Sprintf("%s.%d", s.nets[network], host),
		"--alias", node+"-"+network, s.project+"_"+network, s.container(node))
}

// health is what Docker says of a service: "healthy".
func (s *stage) health(service string) string {
	text, err := s.try("docker", "inspect", "-f", "{{.State.Health.Status}}", s.container(service))
	if err != nil {
		return err.Error()
	}
	return text
}

// members returns "" if gossip at both proxies has each of names (or, if there
// is false, none of them) and they serve, else what is wrong.
func (s *stage) members(there bool, names ...string) string {
	for _, admin := range s.admins {
		var page struct {
			Members []struct {
				Name      string `json:"name"`
				InService bool   `json:"inService"`
			} `json:"members"`
			Gossip []struct {
				Name string `json:"name"`
			} `json:"gossip"`
		}
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + admin + "/api/members")
		if err != nil {
			return err.Error()
		}
		err = json.NewDecoder(res.Body).Decode(&page)
		res.Body.Close()
		if err != nil {
			return err.Error()
		}
		for _, name := range names {
			gossiped, serves := false, false
			for _, m := range page.Gossip {
				gossiped = gossiped || m.Name == name
			}
			for _, m := range page.Members {
				serves = serves || m.Name == name && m.InService
			}
			if gossiped != there || there && !serves {
				return fmt.Sprintf("at %s, %s: in gossip %v, in service %v", admin, name, gossiped, serves)
			}
		}
	}
	return ""
}

// wait polls until wrong says nothing: containers have no other way to tell.
func (s *stage) wait(what string, wrong func() string) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		why := wrong()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("waited %v until %s: %s", patience, what, why)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// freePorts returns addresses on loopback on which nothing listens.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var addrs []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// events are the lines of a log without those of the access log.
func events(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.Contains(line, `"method":`)
	}), "\n")
}

func lastLine(text []byte) string { return tail(strings.TrimSpace(string(text)), 1) }
