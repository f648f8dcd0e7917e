package main

import (
	"net/netip"
	"time"
)

// commands is the command line. The tags are the documentation.
type commands struct {
	Demo    demoConfig  `cmd:"" help:"Start app nodes and a proxy on this machine, with keys made up, and say what to open and what to kill."`
	Serve   serveConfig `cmd:"" help:"Serve: balance requests over the members of a workers file."`
	Check   checkConfig `cmd:"" help:"Print what the files mean, each problem in them, and what becomes of a URI."`
	Ctl     ctl         `cmd:"" help:"Tell a proxy that runs what to do: drain a node, resume it, show the members."`
	Keygen  keygen      `cmd:"" help:"Print a new key for a key file, or put it into one."`
	Version struct{}    `cmd:"" help:"Print the version."`
	Health  health      `cmd:"" help:"Ask a health page; exit 0 if it is well, 1 if not."`
}

// keyConfig is where keys are.
type keyConfig struct {
	CookieKeys string `placeholder:"FILE" help:"Key file that session cookies are signed with."`
	ClusterKey string `placeholder:"FILE" help:"Key file that protects gossip, and session cookies unless --cookie-keys is given."`
}

// serveConfig is what an operator sets for serve.
type serveConfig struct {
	Workers string `required:"" placeholder:"FILE"                      help:"workers.properties, as mod_jk reads it."`
	rulesConfig
	URIMapReload time.Duration `name:"urimap-reload" default:"60s" help:"How often to look whether the file of --urimap has changed, and to read it again then (mod_jk's JkMountFileReload); 0 for never. SIGHUP has it and the workers file read at once."`

	Listen []string `default:"127.0.0.1:8080" placeholder:"HOST:PORT"    help:"Addresses for requests without TLS; may be given several times; unix:PATH is a socket; \"none\" for none."`
	tlsConfig
	Admin      string   `default:"127.0.0.1:9090" placeholder:"HOST:PORT"    help:"Address of the status page, metrics and health; \"none\" for none."`
	Join       []string `placeholder:"HOST:PORT"                             help:"Gossip addresses of members; names are resolved again at each try."`
	Gossip     string   `placeholder:"HOST:PORT"                             help:"Address for gossip, TCP and UDP. Only opened with this or --join; then the kernel chooses by default."`
	AdminToken string   `placeholder:"FILE"                                  help:"File with the token that changes by the admin listener need, and /debug/pprof/ if --admin is not on loopback."`
	State      string   `placeholder:"FILE"                                  help:"File that keeps what is changed of workers and members over a restart; it is written at each change."`
	Newcomers  string   `placeholder:"WORKER"                                help:"lb worker that nodes join which only gossip knows; by default the only one, and none if there are several."`
	Config     string   `placeholder:"FILE"                                  help:"YAML file with more of these settings."`

	keyConfig
	retryConfig
	timeoutConfig
	balanceConfig

	ErrorPage []string `placeholder:"[STATUS=]FILE" help:"Content of the proxy's own replies, such as 503: for one status, or for all others. Its type is told by .html, .txt, .json or .xml."`

	TrustedNetworks []netip.Prefix `placeholder:"CIDR" help:"Networks of the proxies in front whose X-Forwarded-* and Forwarded are believed; by default nobody's are."`

	ProxyProtocol []netip.Prefix `placeholder:"CIDR" help:"Networks of balancers whose connections begin with a header of the PROXY protocol, version 1 or 2, which says whose they are; those from there without one are closed."`

	AccessLog     string        `default:"off" placeholder:"FILE"             help:"Where the access log goes: a file, which is opened anew on SIGUSR1, \"-\" for standard output, or \"off\"."`
	AccessFormat  string        `default:"json" enum:"json,clf,combined" help:"How its lines look: json has most; clf and combined are Apache's."`
	AccessQuery   bool          `help:"Log queries too, also those of Referer. Session ids in them are left out all the same."`
	IdleTimeout   time.Duration `default:"60s"                               help:"How long a client's connection may be idle."`
	HeadTimeout   time.Duration `default:"10s"                                help:"How long a client may take to send the head of a request."`
	StopTimeout   time.Duration `default:"30s"                                help:"How long requests may finish when the proxy stops."`
	MaxConns      int           `default:"20000"                              help:"Client connections at a time. One more takes the place of the one that has been idle for longest; if none is idle it waits."`
	TunnelTimeout time.Duration `default:"1h"                              help:"How long nothing may come through a tunnel, such as a WebSocket; 0 for no limit."`
	ReplayMemory  int           `default:"65536"                           help:"Bytes of a request that are kept in memory until a member has answered, so that another one can be sent the same."`
	SpoolDir      string        `placeholder:"DIR"                         help:"Directory for what is longer, in files without a name; by default that for temporary files."`
	SpoolRequest  int64         `default:"16777216"                        help:"Bytes of one request in there; 0 for none. What is longer is sent once only."`
	SpoolTotal    int64         `default:"268435456"                       help:"Bytes of all requests in there; 0 for none."`
	MaxTunnels    int           `default:"0"                               help:"Tunnels at a time; a request for one more is answered 503. 0 for no limit but --max-conns."`
	MaxBody       int64         `default:"0"                                  help:"Longest body of a request in bytes; 0 for no limit."`
	LogLevel      string        `default:"info" enum:"debug,info,warn,error"  help:"Least level of events on standard error."`
}

// checkConfig is what an operator sets for check.
type checkConfig struct {
	Workers string `default:"workers.properties" placeholder:"FILE" help:"The workers file."`
	HTTPD   string `name:"httpd" placeholder:"FILE" help:"Configuration of an Apache httpd with mod_jk, such as /etc/apache2/apache2.conf: print the workers file and the rules that are equal to it, and what cannot be translated, and check these."`
	rulesConfig
	Strict bool `help:"Fail on warnings too."`
	keyConfig
	Explain string   `placeholder:"URI" help:"Also say which rule maps this URI, why, to which worker, and which members get it, one after the other."`
	Cookie  []string `sep:"none" placeholder:"NAME=VALUE" help:"Cookies that a request for the URI of --explain has; may be given several times."`
}

// demoConfig is what somebody who tries the demo sets.
type demoConfig struct {
	Nodes  int    `default:"3"              help:"App nodes, 1 to 9."`
	Listen string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the proxy."`
	Admin  string `default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Address of the status page."`
}
