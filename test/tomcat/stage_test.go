// Package tomcat puts real Tomcats, with their own cluster of sessions, behind the
// proxy by AJP13. Everything is on loopback. Without Debian's tomcat10 and a JDK the
// tests are skipped, or fail if UNDERSTUDY_TEST_ALL is 1.
package tomcat

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// binaries are the built commands; zero with -short.
var binaries stage.Binaries

// classes is where compiled puts the application.
var classes string

func TestMain(m *testing.M) {
	status := stage.Main(m, "understudy-tomcat-", &binaries)
	os.RemoveAll(classes)
	os.Exit(status) //nolint:forbidigo // a TestMain ends the process
}

// home is where Debian has Tomcat.
const home = "/usr/share/tomcat10"

// need skips the test on a machine without Tomcat.
func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Tomcats; not with -short")
	}
	_, err := os.Stat(filepath.Join(home, "bin", "bootstrap.jar"))
	for _, tool := range []string{"java", "javac"} {
		if err == nil {
			_, err = exec.LookPath(tool)
		}
	}
	switch {
	case err == nil:
	case os.Getenv("UNDERSTUDY_TEST_ALL") == "1": //nolint:forbidigo // set by .ci/run, where no test may skip
		t.Fatal(err)
	default:
		t.Skip("no Tomcat: ", err)
	}
}

//go:embed testdata/server.xml
var serverXML string

//go:embed testdata/web.xml
var webXML string

// secret has what mod_jk's files may have in one.
const secret = "s3c=ret"

// A node is one Tomcat.
type node struct {
	*stage.Process
	base string

	Name        string
	Secret      string
	PacketSize  int
	Port        string // of AJP13
	Replication string
	ID          string
	Others      []*node
}

// A site is Tomcats with a proxy in front.
type site struct {
	t     *testing.T
	dir   string
	nodes map[string]*node
	order []string
	proxy *stage.Process
	addr  string // of the proxy
	admin string
}

// compiled is the application as classes, made once for all tests.
var compiled = sync.OnceValue(func() (err error) {
	if classes, err = os.MkdirTemp("", "understudy-tomcat-classes-"); err != nil {
		return err
	}
	out, err := exec.Command("javac", "-cp", filepath.Join(home, "lib", "servlet-api.jar"), "-d", classes, "testdata/App.java").CombinedOutput()
	if err != nil {
		return fmt.Errorf("javac: %w\n%s", err, out)
	}
	return nil
})

// newSite starts Tomcats of these names, but for those in later, and a proxy in front
// of all of them. lines are further lines of workers.properties, change what of a
// node is to be different.
func newSite(t *testing.T, names, later []string, lines string, change func(*node)) *site {
	t.Helper()
	need(t)
	s := &site{t: t, dir: t.TempDir(), nodes: map[string]*node{}, order: names}
	for i, name := range names {
		n := &node{Name: name, Secret: secret, PacketSize: 8192, Port: port(t), Replication: port(t), base: filepath.Join(s.dir, name)}
		n.ID = fmt.Sprintf("{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,%d}", i+1)
		if change != nil {
			change(n)
		}
		s.nodes[name] = n
	}
	for _, n := range s.nodes {
		for _, o := range names {
			if o != n.Name {
				n.Others = append(n.Others, s.nodes[o])
			}
		}
		s.furnish(n)
	}
	for _, name := range names {
		if !slices.Contains(later, name) {
			s.start(name)
		}
	}
	for _, name := range names {
		if !slices.Contains(later, name) {
			s.ready(name)
		}
	}
	s.together()
	s.serve(lines)
	return s
}

func port(t *testing.T) string {
	t.Helper()
	_, p, err := net.SplitHostPort(stage.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// furnish writes what a Tomcat needs to run from a directory of its own.
func (s *site) furnish(n *node) {
	s.t.Helper()
	s.must(compiled())
	inf := filepath.Join(n.base, "webapps", "shop", "WEB-INF")
	for _, d := range []string{"conf", "logs", "temp", "work"} {
		s.must(os.MkdirAll(filepath.Join(n.base, d), 0o755))
	}
	s.must(os.MkdirAll(inf, 0o755))
	s.must(os.CopyFS(filepath.Join(inf, "classes"), os.DirFS(classes)))
	s.must(os.WriteFile(filepath.Join(inf, "web.xml"), []byte(webXML), 0o644))
	s.must(os.WriteFile(filepath.Join(n.base, "conf", "web.xml"), []byte("<web-app/>"), 0o644))
	s.must(os.WriteFile(filepath.Join(n.base, "conf", "catalina.properties"), []byte(
		"common.loader=${catalina.home}/lib/*.jar\ntomcat.util.scan.StandardJarScanFilter.jarsToSkip=*\n"), 0o644))
	f, err := os.Create(filepath.Join(n.base, "conf", "server.xml"))
	s.must(err)
	s.must(template.Must(template.New("server.xml").Parse(serverXML)).Execute(f, n))
	s.must(f.Close())
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts a Tomcat, also again.
func (s *site) start(name string) {
	n := s.nodes[name]
	n.Process = stage.Start(s.t, stage.Command{Name: "Tomcat " + name, Binary: "java", Args: []string{
		"-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dmember=" + name, "-Dcatalina.home=" + home, "-Dcatalina.base=" + n.base,
		"-Djava.io.tmpdir=" + filepath.Join(n.base, "temp"), "-Djava.security.egd=file:/dev/urandom",
		"-cp", filepath.Join(home, "bin", "bootstrap.jar") + ":" + filepath.Join(home, "bin", "tomcat-juli.jar"),
		"org.apache.catalina.startup.Bootstrap", "start",
	}})
}

// ready waits until a Tomcat answers a CPING.
func (s *site) ready(name string) {
	s.t.Helper()
	n := s.nodes[name]
	stage.WaitFor(s.t, 2*stage.Patience, "Tomcat "+name+" answers", func() bool {
		nc, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", n.Port), time.Second)
		if err != nil {
			return false
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(time.Second))
		if _, err := nc.Write([]byte{0x12, 0x34, 0, 1, 10}); err != nil {
			return false
		}
		var b [5]byte
		_, err = io.ReadFull(nc, b[:])
		return err == nil && string(b[:]) == "AB\x00\x01\x09"
	})
}

// together waits until each Tomcat that runs knows each other one: until then a change
// of a session is not copied.
func (s *site) together() {
	s.t.Helper()
	for _, n := range s.nodes {
		for _, o := range n.Others {
			if n.Process == nil || o.Process == nil || !n.Running() || !o.Running() {
				continue
			}
			stage.Wait(s.t, n.Name+" knows "+o.Name, func() bool {
				added, gone := 0, 0
				for _, l := range n.Lines("ember", ":"+o.Replication+",") {
					switch {
					case strings.Contains(l, "Replication member added"):
						added++
					case strings.Contains(l, "Received member disappeared"):
						gone++
					}
				}
				return added > gone
			})
		}
	}
}

// serve starts the proxy.
func (s *site) serve(lines string) {
	s.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=%s\n", strings.Join(s.order, ","))
	for _, name := range s.order {
		n := s.nodes[name]
		fmt.Fprintf(&b, "worker.%s.host=127.0.0.1\nworker.%[1]s.port=%[2]s\nworker.%[1]s.secret=%[3]s\nworker.%[1]s.max_packet_size=%[4]d\n", name, n.Port, n.Secret, n.PacketSize)
	}
	b.WriteString(lines)
	file := filepath.Join(s.dir, "workers.properties")
	s.must(os.WriteFile(file, []byte(b.String()), 0o644))
	s.addr, s.admin = stage.FreeAddr(s.t), stage.FreeAddr(s.t)
	s.proxy = stage.Start(s.t, stage.Command{Name: "proxy", Binary: binaries.Proxy, Args: []string{
		"serve", "--workers", file, "--listen", s.addr, "--admin", s.admin,
	}})
	stage.Wait(s.t, "the proxy listens", func() bool {
		nc, err := net.Dial("tcp", s.addr)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// A browser is a client with a cookie.
type browser struct {
	s      *site
	cookie string // JSESSIONID
	http   *http.Client
}

func (s *site) browser() *browser {
	tr := &http.Transport{DisableCompression: true}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &browser{s: s, http: &http.Client{Transport: tr, Timeout: stage.Patience}}
}

// An answer is a reply with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

// member is who says that it has answered.
func (a answer) member() string { return a.header.Get("X-Member") }

// do sends a request to the application.
func (b *browser) do(method, path string, body io.Reader) (answer, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+b.s.addr+"/shop"+path, body)
	if err != nil {
		return answer{}, err
	}
	return b.send(r)
}

func (b *browser) send(r *http.Request) (answer, error) {
	if b.cookie != "" {
		r.Header.Set("Cookie", "JSESSIONID="+b.cookie)
	}
	resp, err := b.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		if c.Name == "JSESSIONID" {
			b.cookie = c.Value
		}
	}
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// must is do for a request that must get 200.
func (b *browser) must(method, path string, body io.Reader) answer {
	b.s.t.Helper()
	a, err := b.do(method, path, body)
	if err == nil && a.status != http.StatusOK {
		err = errors.New(a.body)
	}
	if err != nil {
		b.s.t.Fatalf("%s %s: %d from %q: %v", method, path, a.status, a.member(), err)
	}
	return a
}

// count adds one to the counter, which must then be want, and returns who has done it.
func (b *browser) count(want int) string {
	b.s.t.Helper()
	a := b.must(http.MethodGet, "/counter", nil)
	if got, _, _ := strings.Cut(a.body, " "); got != fmt.Sprint(want) {
		b.s.t.Fatalf("the counter at %q is %q, want %d", a.member(), a.body, want)
	}
	return a.member()
}
