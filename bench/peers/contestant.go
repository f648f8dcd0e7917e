package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/keyfile"
)

// Names of the contestants, in the order of the report. Ours is the first.
const ours = "understudy"

// names are those whose members speak HTTP, as most can, or AJP13 with all.
func names(ajp bool) []string {
	if ajp {
		return []string{ours, "apache-mod_jk", "apache-mod_proxy_ajp"}
	}
	return []string{ours, "haproxy", "nginx", "caddy", "apache-balancer", "apache-mod_jk"}
}

// A contestant is a proxy that runs, as a sticky balancer over the members.
type contestant struct {
	*stage.Troupe
	name    string
	addr    string
	admin   string   // of ours: where a collection can be asked for
	cookies []string // what clients send, one a session
}

// A bill is what contestants stand between.
type bill struct {
	*stage.Stage
	proxy    string   // our binary
	members  []string // addresses for HTTP
	ajp      []string // the same members' for AJP13
	overAJP  bool     // that is what ours speaks to members
	sessions int
	conns    uint64 // that a proxy may take
}

func route(i int) string { return fmt.Sprintf("m%d", i) }

// Of a Tomcat among the members: a page that is N bytes at /N.
const (
	bytesJSP = `<%@ page session="false" trimDirectiveWhitespaces="true" contentType="text/plain" %><%
byte[] b = new byte[Integer.parseInt(request.getRequestURI().substring(1))];
response.setContentLength(b.length);
response.getOutputStream().write(b);
%>`
	bytesXML = `<?xml version="1.0" encoding="UTF-8"?>
<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
  <servlet><servlet-name>bytes</servlet-name><jsp-file>/bytes.jsp</jsp-file></servlet>
  <servlet-mapping><servlet-name>bytes</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
</web-app>
`
	bytesServer = `<Server port="%d" shutdown="SHUTDOWN">
  <Service name="Catalina">
    <Connector address="127.0.0.1" port="%s" protocol="HTTP/1.1" maxKeepAliveRequests="-1" maxThreads="200" connectionTimeout="60000"/>
    <Connector address="127.0.0.1" port="%s" protocol="AJP/1.3" secretRequired="false" maxThreads="600"/>
    <Engine name="Catalina" defaultHost="localhost" jvmRoute="%s">
      <Host name="localhost" appBase="webapps" unpackWARs="false" autoDeploy="false"/>
    </Engine>
  </Service>
</Server>
`
)

// startTomcats starts n Tomcats as members, on the cores of the load.
func (b *bill) startTomcats(ctx context.Context, n int) (*stage.Troupe, error) {
	t, err := b.Troupe("members", false)
	if err != nil {
		return nil, err
	}
	for i := range n {
		b.members, b.ajp = append(b.members, b.Addr()), append(b.ajp, b.Addr())
		_, plain, _ := strings.Cut(b.members[i], ":")
		_, packets, _ := strings.Cut(b.ajp[i], ":")
		base := filepath.Join(t.Dir, route(i))
		err = errors.Join(err,
			stage.TomcatBase(base, fmt.Sprintf(bytesServer, b.Port(), plain, packets, route(i)), map[string]string{"WEB-INF/web.xml": bytesXML, "bytes.jsp": bytesJSP}),
			t.Start(ctx, stage.TomcatEnv(base, "512m"), stage.Catalina(), "run"))
	}
	for _, addr := range b.members {
		err = errors.Join(err, stage.Answers(ctx, "http://"+addr+"/1"))
	}
	return t, err
}

// startMembers starts n members, on the cores of the load.
func (b *bill) startMembers(ctx context.Context, n int) (*stage.Troupe, error) {
	bin, err := b.Build(ctx, "./peers/member")
	if err != nil {
		return nil, err
	}
	t, err := b.Troupe("members", false)
	if err != nil {
		return nil, err
	}
	for range n {
		b.members, b.ajp = append(b.members, b.Addr()), append(b.ajp, b.Addr())
		err = errors.Join(err, t.Start(ctx, nil, bin, "-http", b.members[len(b.members)-1], "-ajp", b.ajp[len(b.ajp)-1]))
	}
	for _, addr := range b.members {
		err = errors.Join(err, stage.Answers(ctx, "http://"+addr+"/1"))
	}
	return t, err
}

// start starts the proxy name and waits until it answers.
func (b *bill) start(ctx context.Context, name string) (_ *contestant, err error) {
	t, err := b.Troupe(name, true)
	if err != nil {
		return nil, err
	}
	c := &contestant{Troupe: t, name: name, addr: b.Addr()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", name, err), c.Stop())
		}
	}()
	for i := range b.sessions {
		c.cookies = append(c.cookies, fmt.Sprintf("JSESSIONID=0123456789abcdef%d.%s", i, route(i%len(b.members))))
	}
	switch name {
	case ours:
		err = b.understudy(ctx, c)
	case "haproxy":
		err = c.run(ctx, "haproxy.cfg", b.haproxy(c), "haproxy", "-db", "-f")
	case "nginx":
		err = c.run(ctx, "nginx.conf", b.nginx(c), "nginx", "-e", "stderr", "-g", "daemon off;", "-c")
	case "caddy":
		err = c.run(ctx, "Caddyfile", b.caddy(c), "caddy", "run", "--adapter", "caddyfile", "--config")
	case "apache-balancer":
		err = c.run(ctx, "apache.conf", b.apache(c)+b.balancer("http", b.members), "apache2", "-DFOREGROUND", "-f")
	case "apache-mod_proxy_ajp":
		err = c.run(ctx, "apache.conf", b.apache(c)+b.balancer("ajp", b.ajp), "apache2", "-DFOREGROUND", "-f")
	case "apache-mod_jk":
		err = errors.Join(c.write("workers.properties", b.workers("ajp13", b.ajp)),
			c.run(ctx, "apache.conf", b.apache(c)+b.modJK(c), "apache2", "-DFOREGROUND", "-f"))
	}
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := stage.Answers(wait, "http://"+c.addr+"/1"); err != nil {
		return nil, err
	}
	if name == "caddy" {
		return c, b.learn(ctx, c)
	}
	return c, nil
}

// program is what has to be installed for a contestant; empty for ours.
func program(name string) string {
	switch name {
	case ours:
		return ""
	case "apache-balancer", "apache-mod_jk", "apache-mod_proxy_ajp":
		return "apache2"
	default:
		return name
	}
}

func missing(name string) string {
	if p := program(name); p != "" {
		if _, err := exec.LookPath(p); err != nil {
			return "Debian's package " + p
		}
	}
	if _, err := os.Stat(modules + "mod_jk.so"); err != nil && name == "apache-mod_jk" {
		return "Debian's package libapache2-mod-jk"
	}
	return ""
}

func (c *contestant) write(name, text string) error {
	return os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o600)
}

// run writes the configuration and starts the program with it as the last
// argument. Each has one thread for one core.
func (c *contestant) run(ctx context.Context, file, config, program string, args ...string) error {
	if err := c.write(file, config); err != nil {
		return err
	}
	env := []string{"GOMAXPROCS=1", "HOME=" + c.Dir, "XDG_DATA_HOME=" + c.Dir, "XDG_CONFIG_HOME=" + c.Dir}
	return c.Start(ctx, env, program, append(args, filepath.Join(c.Dir, file))...)
}

// workers is a workers.properties.
func (b *bill) workers(kind string, addrs []string) string {
	var w strings.Builder
	var list []string
	for i, addr := range addrs {
		host, port, _ := strings.Cut(addr, ":")
		fmt.Fprintf(&w, "worker.%[1]s.type=%[2]s\nworker.%[1]s.host=%[3]s\nworker.%[1]s.port=%[4]s\n", route(i), kind, host, port)
		list = append(list, route(i))
	}
	fmt.Fprintf(&w, "worker.list=lb\nworker.lb.type=lb\nworker.lb.balance_workers=%s\n", strings.Join(list, ","))
	return w.String()
}

func (b *bill) understudy(ctx context.Context, c *contestant) error {
	key := keyfile.Generate()
	if err := c.write("keys", key.Hex()+"\n"); err != nil {
		return err
	}
	codec, err := cookie.New(cookie.Config{Keys: keyfile.DeriveAll([]keyfile.Key{key}, "cookie")})
	if err != nil {
		return err
	}
	for i := range c.cookies {
		v, err := codec.Encode(cookie.Value{
			ID: fmt.Sprintf("0123456789abcdef0123456789abcd%02d", i), Primary: route(i % len(b.members)), Secondary: route((i + 1) % len(b.members)),
			Epoch: cookie.Epoch{N: 1, Boot: 1234567, Seq: 1},
		})
		if err != nil {
			return err
		}
		c.cookies[i] = "JSESSIONID=" + v
	}
	c.admin = b.Addr()
	workers := b.workers("http", b.members)
	if b.overAJP {
		workers = b.workers("ajp13", b.ajp)
	}
	if err := c.write("workers.properties", workers); err != nil {
		return err
	}
	return c.Start(ctx, []string{"GOMAXPROCS=1"}, b.proxy, "serve", "--workers", filepath.Join(c.Dir, "workers.properties"),
		"--listen", c.addr, "--admin", c.admin, "--cookie-keys", filepath.Join(c.Dir, "keys"), "--access-log", "off")
}

func (b *bill) haproxy(c *contestant) string {
	var s strings.Builder
	fmt.Fprintf(&s, `global
  nbthread 1
  maxconn %d
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  timeout http-keep-alive 300s
  option http-keep-alive
  http-reuse safe
frontend in
  bind %s
  default_backend lb
backend lb
  balance roundrobin
  option redispatch
  retries 3
  cookie ROUTE
`, b.conns, c.addr)
	for i, addr := range b.members {
		fmt.Fprintf(&s, "  server %[1]s %[2]s cookie %[1]s check\n", route(i), addr)
	}
	b.alsoRoute(c)
	return s.String()
}

// alsoRoute adds a cookie with the bare route, for those who cannot find it at
// the end of another one.
func (b *bill) alsoRoute(c *contestant) {
	for i := range c.cookies {
		c.cookies[i] += "; ROUTE=" + route(i%len(b.members))
	}
}

func (b *bill) nginx(c *contestant) string {
	var up, choose strings.Builder
	for i := range b.members {
		fmt.Fprintf(&choose, "    %[1]s %[1]s;\n", route(i))
		fmt.Fprintf(&up, "  upstream %s {\n", route(i))
		for j, addr := range b.members {
			backup := ""
			if j != i {
				backup = " backup"
			}
			fmt.Fprintf(&up, "    server %s%s;\n", addr, backup)
		}
		up.WriteString("    keepalive 256;\n  }\n")
	}
	b.alsoRoute(c)
	return fmt.Sprintf(`worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 30000; }
http {
  access_log off;
  keepalive_timeout 300s;
  keepalive_requests 100000000;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  map $cookie_ROUTE $member {
    default m0;
%[2]s  }
%[3]s  server {
    listen %[4]s backlog=4096;
    location / {
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_pass http://$member;
    }
  }
}
`, c.Dir, choose.String(), up.String(), c.addr)
}

func (b *bill) caddy(c *contestant) string {
	return fmt.Sprintf(`{
  admin off
  auto_https off
  log {
    level ERROR
  }
}
http://%s {
  reverse_proxy %s {
    lb_policy cookie ROUTE secret
  }
}
`, c.addr, strings.Join(b.members, " "))
}

// learn gets cookies by asking as new clients do.
func (b *bill) learn(ctx context.Context, c *contestant) error {
	for i := range c.cookies {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+"/1", nil)
		if err != nil {
			return err
		}
		rep, err := stage.Client().Do(req)
		if err != nil {
			return err
		}
		set, _, _ := strings.Cut(rep.Header.Get("Set-Cookie"), ";")
		if err := rep.Body.Close(); err != nil || set == "" {
			return fmt.Errorf("%s gave no cookie: %w", c.name, err)
		}
		c.cookies[i] += "; " + set
	}
	return nil
}

// modules is where Debian's Apache has its modules.
const modules = "/usr/lib/apache2/modules/"

func (b *bill) apache(c *contestant) string {
	_, port, _ := strings.Cut(c.addr, ":")
	return fmt.Sprintf(`ServerName bench
ServerRoot %[1]s
PidFile %[1]s/pid
DefaultRuntimeDir %[1]s
ErrorLog %[1]s/error.log
LogLevel error
Listen 127.0.0.1:%[2]s
LoadModule mpm_event_module %[3]smod_mpm_event.so
LoadModule authz_core_module %[3]smod_authz_core.so
ServerLimit 16
ThreadLimit 64
ThreadsPerChild 64
StartServers 16
MinSpareThreads 1024
MaxSpareThreads 1024
MaxConnectionsPerChild 0
MaxRequestWorkers 1024
AsyncRequestWorkerFactor 200
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 300
User www-data
Group www-data
`, c.Dir, port, modules)
}

// balancer is mod_proxy_balancer over members that speak scheme.
func (b *bill) balancer(scheme string, addrs []string) string {
	var s strings.Builder
	for _, m := range []string{"proxy", "proxy_" + scheme, "proxy_balancer", "slotmem_shm", "lbmethod_byrequests"} {
		fmt.Fprintf(&s, "LoadModule %[1]s_module %[2]smod_%[1]s.so\n", m, modules)
	}
	s.WriteString("<Proxy balancer://lb>\n")
	for i, addr := range addrs {
		fmt.Fprintf(&s, "  BalancerMember %s://%s route=%s\n", scheme, addr, route(i))
	}
	s.WriteString("  ProxySet stickysession=JSESSIONID\n</Proxy>\nProxyPass / balancer://lb/\n")
	return s.String()
}

func (b *bill) modJK(c *contestant) string {
	return fmt.Sprintf("LoadModule jk_module %smod_jk.so\nJkWorkersFile %[2]s/workers.properties\nJkLogFile %[2]s/jk.log\nJkLogLevel error\nJkShmFile %[2]s/jk.shm\nJkMount /* lb\n", modules, c.Dir)
}
