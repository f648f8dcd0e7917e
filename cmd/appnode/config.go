package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/session"
	"github.com/understudy-lb/understudy/session/peer"
	"github.com/understudy-lb/understudy/settings"
)

// config is what an operator sets. The tags are the documentation.
type config struct {
	Name           string   `required:""            placeholder:"NAME"          help:"This node's name: what the session cookie says, and the member's route in workers.properties."`
	Listen         string   `default:"127.0.0.1:0"  placeholder:"HOST:PORT"     help:"Address for requests; port 0 lets the kernel choose."`
	Gossip         string   `default:"127.0.0.1:0"  placeholder:"HOST:PORT"     help:"Address for gossip, TCP and UDP."`
	Replication    string   `placeholder:"HOST:PORT"                            help:"Address for session copies. Without it the kernel chooses a port on the host of --gossip."`
	Admin          string   `placeholder:"HOST:PORT"                            help:"Address for metrics, health and the list of sessions; none by default."`
	AdminToken     string   `placeholder:"FILE"                                 help:"File with the token that changes through --admin ask for; without it there are none."`
	Advertise      string   `placeholder:"HOST"                                 help:"Host under which others reach this node, for those of --listen, --gossip and --replication that are every address of the machine. Without it, its first private IPv4 address."`
	Join           []string `placeholder:"HOST:PORT"                            help:"Gossip addresses of other members; names are resolved again at each try."`
	Machine        string   `placeholder:"NAME"                                 help:"Hardware this node runs on: a copy goes to another machine if there is one."`
	Group          string   `placeholder:"NAME"                                 help:"Replication group this node is in."`
	SecondaryGroup string   `placeholder:"NAME"                                 help:"Replication group in which this node prefers to keep its copies."`
	ClusterKey     string   `placeholder:"FILE"                                 help:"Key file that protects gossip and replication, and session cookies unless --cookie-keys is given."`
	CookieKeys     string   `placeholder:"FILE"                                 help:"Key file that signs session cookies."`
	Secondaries    string   `default:"1" placeholder:"N"                        help:"Nodes that hold a copy of each session, as far as there are so many: 1 to 64, or all."`
	Placement      string   `default:"hash" enum:"hash,ring"                    help:"Which of equally good nodes holds a copy: chosen by the session (hash), or the next by name (ring)."`

	Cookie       string        `default:"JSESSIONID" placeholder:"NAME"         help:"Name of the session cookie."`
	PathParam    string        `default:"jsessionid" placeholder:"NAME"         help:"Name of the path parameter that carries the session in rewritten links."`
	Exclusive    bool          `help:"Let the requests of one session run one after the other."`
	Rollback     bool          `name:"rollback-on-panic"                        help:"Take back what a request has changed if its handler panics, instead of keeping what was set before."`
	RewriteLinks bool          `default:"true" negatable:""                     help:"Put the session into links for clients without cookies."`
	SecureCookie bool          `help:"Mark the session cookie Secure on plain connections too, as behind a proxy that speaks TLS."`
	CookieDomain string        `placeholder:"DOMAIN"                            help:"Domain of the session cookie; without it, the host that set it."`
	SameSite     string        `name:"cookie-same-site" default:"lax" enum:"lax,strict,none" help:"Which requests from other sites carry the session cookie; none needs --secure-cookie."`
	Partitioned  bool          `name:"cookie-partitioned"                       help:"Keep the session cookie apart for each site that embeds this one; needs --secure-cookie."`
	IdleTimeout  time.Duration `default:"30m"                                   help:"A session that nobody used for so long ends."`
	FirstIdle    time.Duration `name:"first-idle-timeout" placeholder:"DURATION" help:"The same for a session until its client has come back with it; --idle-timeout if 0."`
	Lifetime     time.Duration `default:"24h"                                   help:"A session ends so long after its creation in any case."`
	MaxSessions  int           `default:"1000000" placeholder:"N"               help:"New sessions are refused beyond so many on this node, and go to another one; -1 for no limit."`
	MaxMemory    int64         `name:"max-session-memory" default:"0" placeholder:"BYTES" help:"What sessions and copies may take; 0 for half of GOMEMLIMIT, or no limit if that is not set; -1 for no limit."`
	MaxBytes     int           `name:"max-session-bytes" default:"0" placeholder:"BYTES" help:"What one session may take; 0 for 12 MiB, which is also the most."`
	WarnBytes    int           `name:"warn-session-bytes" default:"65536" placeholder:"BYTES" help:"From what size on a session is logged as large; -1 for never."`
	MaxGraves    int           `name:"max-tombstones" default:"100000" placeholder:"N" help:"Of how many sessions that have ended this node knows so; -1 for no limit."`
	Mode         string        `name:"replication-mode" default:"synchronous" enum:"synchronous,asynchronous,pooled,fastasyncqueue" help:"What a reply waits for: synchronous and pooled for the copies, the others for nothing: docs/replication.md."`
	WaitForAck   bool          `default:"true" negatable:""                     help:"Let replies of the synchronous and pooled modes wait until the copies have answered; else only until the changes are sent."`
	Pool         int           `name:"replication-pool" default:"25"            help:"Replies that may wait for copies at a time in pooled mode."`
	QueueLimit   int           `name:"replication-queue" default:"65536" placeholder:"N" help:"Sessions that may wait to be copied in the asynchronous modes; beyond it replies wait."`
	NeedReplica  bool          `name:"require-replica"                          help:"Refuse changes of sessions while no other node can hold the copy."`
	CompressFrom int           `default:"4096" placeholder:"BYTES"              help:"Sessions that are sent as a whole are compressed from this size on; -1 for never."`
	WireVersion  uint8         `default:"0" placeholder:"N"                     help:"Highest version of the replication protocol that this node speaks; 0 for the newest."`
	AckTimeout   time.Duration `default:"500ms"                                 help:"How long a reply waits for a copy before that node is struck."`
	RestoreRate  int           `default:"10000"                                 help:"Sessions a second that get another copy in the background, after a node died or came."`
	RestoreBytes int64         `default:"67108864"                              help:"Bytes a second of such copies."`
	DrainTimeout time.Duration `default:"60s"                                   help:"How long a node that is told to stop waits for the others to take over its sessions."`
	StopTimeout  time.Duration `default:"30s"                                   help:"How long requests may finish when the node stops, after its sessions are handed over."`
	CountVisits  bool          `help:"Keep a second counter in each session, as a later version of the application might: for trying out a deploy that adds an attribute."`
	LogLevel     string        `default:"info" enum:"debug,info,warn,error"     help:"Least level of events on standard error."`
	Config       string        `placeholder:"FILE"                              help:"YAML file with more of these settings."`
}

// parseConfig reads the settings and checks what can be checked before a
// socket is opened.
func parseConfig(args []string, getenv func(string) string, stdout io.Writer) (config, error) {
	var cfg config
	if _, err := settings.Parse(&cfg, settings.Config{
		Name: "appnode", Description: "A demo application whose sessions survive their node.",
		Args: args, Getenv: getenv, Stdout: stdout,
	}); err != nil {
		return config{}, err
	}
	if err := cookie.ValidName(cfg.Name); err != nil {
		return config{}, fmt.Errorf("--name: %w", err)
	}
	if cfg.Replication == "" {
		host, _, err := net.SplitHostPort(cfg.Gossip)
		if err != nil {
			return config{}, fmt.Errorf("--gossip: %w", err)
		}
		cfg.Replication = net.JoinHostPort(host, "0")
	}
	if _, err := secondaries(cfg.Secondaries); err != nil {
		return config{}, err
	}
	if cfg.IdleTimeout <= 0 || cfg.Lifetime <= 0 || cfg.AckTimeout <= 0 || cfg.StopTimeout <= 0 || cfg.DrainTimeout < 0 {
		return config{}, errors.New("--idle-timeout, --lifetime, --ack-timeout, --stop-timeout: want more than 0, --drain-timeout: not less")
	}
	if cfg.RestoreRate <= 0 || cfg.RestoreBytes <= 0 {
		return config{}, errors.New("--restore-rate, --restore-bytes: want more than 0")
	}
	if cfg.IdleTimeout > cfg.Lifetime {
		return config{}, fmt.Errorf("--idle-timeout %v: want at most --lifetime, %v", cfg.IdleTimeout, cfg.Lifetime)
	}
	if cfg.Pool <= 0 || cfg.QueueLimit <= 0 || cfg.CompressFrom == 0 || cfg.CompressFrom < -1 {
		return config{}, errors.New("--replication-pool, --replication-queue: want more than 0, --compress-from: or -1")
	}
	if cfg.WireVersion > peer.MaxVersion {
		return config{}, fmt.Errorf("--wire-version %d: want %d to %d, or 0", cfg.WireVersion, peer.MinVersion, peer.MaxVersion)
	}
	switch {
	case (cfg.SameSite == "none" || cfg.Partitioned) && !cfg.SecureCookie:
		return config{}, errors.New("--cookie-same-site none, --cookie-partitioned: browsers drop such a cookie without --secure-cookie")
	case cfg.FirstIdle < 0 || cfg.FirstIdle > cfg.IdleTimeout:
		return config{}, fmt.Errorf("--first-idle-timeout %v: want at most --idle-timeout, %v", cfg.FirstIdle, cfg.IdleTimeout)
	case cfg.MaxBytes < 0 || cfg.MaxBytes > session.DefaultMaxBytes:
		return config{}, fmt.Errorf("--max-session-bytes %d: want 0 to %d", cfg.MaxBytes, session.DefaultMaxBytes)
	}
	return cfg, nil
}

// secondaries returns the number that [session.Config] wants.
func secondaries(s string) (int, error) {
	if s == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > session.MaxSecondaries {
		return 0, fmt.Errorf("--secondaries %s: want 1 to %d, or all", s, session.MaxSecondaries)
	}
	return n, nil
}

// keys are what the key files give.
type keys struct {
	gossip, replication [][]byte // none: plain text, loopback only
	cookie              [][]byte
}

// readKeys reads the key files. Without any, a node whose addresses are all on
// loopback signs with [keyfile.Loopback], which everybody knows; elsewhere
// that is an error.
func readKeys(cfg config) (keys, error) {
	var k keys
	if cfg.ClusterKey != "" {
		cluster, err := keyfile.Read(cfg.ClusterKey)
		if err != nil {
			return keys{}, fmt.Errorf("--cluster-key: %w", err)
		}
		k.gossip = keyfile.DeriveAll(cluster, "gossip")
		k.replication = keyfile.DeriveAll(cluster, "replication")
		k.cookie = keyfile.DeriveAll(cluster, "cookie")
	}
	if cfg.CookieKeys != "" {
		signing, err := keyfile.Read(cfg.CookieKeys)
		if err != nil {
			return keys{}, fmt.Errorf("--cookie-keys: %w", err)
		}
		k.cookie = keyfile.DeriveAll(signing, "cookie")
	}
	if k.gossip == nil {
		for _, a := range []struct{ flag, addr string }{{"--gossip", cfg.Gossip}, {"--replication", cfg.Replication}} {
			if !settings.OnLoopback(a.addr) {
				return keys{}, fmt.Errorf("%s %s: an address outside loopback needs --cluster-key (make one with: proxy keygen)", a.flag, a.addr)
			}
		}
	}
	if k.cookie == nil {
		if !settings.OnLoopback(cfg.Listen) {
			return keys{}, fmt.Errorf("--listen %s: an address outside loopback needs --cluster-key or --cookie-keys (make one with: proxy keygen)", cfg.Listen)
		}
		k.cookie = keyfile.DeriveAll([]keyfile.Key{keyfile.Loopback()}, "cookie")
	}
	return k, nil
}
