package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/http1"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// Config sets up a [Proxy].
type Config struct {
	// Workers is a workers.properties without errors. It must be set.
	Workers *worker.File

	// URIMap chooses a worker of worker.list for each path. What it does not map
	// is answered 404: there is no local content. If nil, all paths go to the only
	// worker of type lb, of which there must be exactly one.
	URIMap *urimap.Map

	// Status returns what answers requests for a worker of type status: it is asked
	// for at New. If nil, such workers do not exist.
	Status func(*worker.Status) (http.Handler, error)

	// Newcomers names the worker of type lb that members join which only
	// [Proxy.SetMembers] names. If empty, it is the only one; if there are
	// several, such members join none.
	Newcomers string

	// Codec verifies signed session cookies. If nil, only the plain form id.route
	// is read.
	//
	// With it, members of type http count as app nodes of ours, which have been
	// given the same keys: their Understudy-Not-Executed is believed (design D8).
	// Without, only that of members that [Proxy.SetMembers] names is.
	Codec *cookie.Codec

	// ErrorPages are what replies of our own have as content, by status; that of 0
	// is for all statuses without one. If there is none, it is the status in words.
	ErrorPages map[int]ErrorPage

	// MaxResend is how often a request may be sent again after a member has got
	// it. If zero, it is 1. If negative, as often as there are members, and
	// without the guards that keep one request from killing a cluster (TC-7).
	MaxResend int

	// MaxBody is the longest body of a request, in bytes; a longer one is
	// answered 413. If zero, there is no limit.
	MaxBody int64

	// ResendWait is how long a request that was in flight when a member died, and
	// may have killed it, is held until the cluster reports redundancy restored
	// (design D8); then it is sent again or, if that was not in time, answered
	// 502. If zero, it is 5 seconds. If negative, no such request is sent again.
	// Without gossip there is no wait.
	ResendWait time.Duration

	// RetryBudget is how many of an lb's requests may be tried again after a member
	// has worked at them, in percent of all (see budget.go). If zero, it is 20. If
	// negative, there is no limit.
	RetryBudget int

	// HealthInterval is how often a member in error is asked whether it lives; if it
	// does, it is used again, without a request of a client as a trial. If zero, only
	// members that gossip names are asked, once a second.
	HealthInterval time.Duration

	// SlowStart is how long a member that is back takes until it gets its whole share
	// of requests without a session. If zero, it gets it at once.
	SlowStart time.Duration

	// DrainDeadline is how long a disabled member serves its sessions; then it is
	// stopped. If zero, there is no end, as in mod_jk.
	DrainDeadline time.Duration

	// DrainIdle is how long after its last request a session counts as one that a
	// disabled member still has. If zero, it is 30 minutes.
	DrainIdle time.Duration

	// FastFail answers 503 at once when all members of an lb are in error and each has
	// a request that tries it. Otherwise every request tries them.
	FastFail bool

	// Compat restores mod_jk's behaviour where that is not unsafe (docs/deviations.md).
	Compat bool

	// BodyTimeout is the longest silence of a client that has to send a body.
	// If zero, it is 60 seconds.
	BodyTimeout time.Duration

	// RequestTimeout is how long a request may take, from its first byte to the end
	// of its reply; a tunnel's, to its opening. Then it is answered 504, or cut if
	// the reply has begun. If zero, there is no limit: a reply may be a stream.
	RequestTimeout time.Duration

	// ConnectionAge is how long a connection to a member is used for further
	// requests: the name of a member may lead elsewhere since (peers.md F01). If
	// zero, it is 5 minutes. If negative, there is no limit.
	ConnectionAge time.Duration

	// WriteTimeout is the longest time that a client may take to accept one
	// write. If zero, it is 60 seconds.
	WriteTimeout time.Duration

	// HeadTimeout is how long a client may take to send the head of a request.
	// If zero, it is 10 seconds.
	HeadTimeout time.Duration

	// TrustedNetworks are where proxies stand that requests come through: what
	// they say of the client in X-Forwarded-For, -Proto, -Host, -Port and
	// Forwarded is believed and continued. Such a proxy must not let a client's
	// X-Forwarded-For pass as it is. If empty, nobody is believed: these lines
	// are dropped, and replaced by what the proxy sees itself.
	TrustedNetworks []netip.Prefix

	// TunnelTimeout is how long nothing may come through a tunnel, such as a
	// WebSocket, in either direction; it ends a second later at most. If zero, it
	// is an hour; if negative, there is no limit.
	TunnelTimeout time.Duration

	// MaxTunnels is how many tunnels there may be at a time; a request for one
	// more is answered 503 (seeds.md PLUG-48). If zero, there is no limit.
	MaxTunnels int

	// Spool bounds what is kept of requests so that they can be sent again.
	Spool SpoolConfig

	// Limits bounds the messages of clients and members.
	Limits http1.Limits

	// Dial connects to members. If nil, it is a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Log gets one line per change of a member's state. Its zero value is
	// silent.
	Log zerolog.Logger

	// Access gets one line per request. If nil, there is none. The proxy does not
	// close it.
	Access *accesslog.Log
}

// What zero means in Config.
const (
	defaultMaxResend    = 1
	defaultResendWait   = 5 * time.Second
	defaultRetryBudget  = 20
	defaultAge          = 5 * time.Minute
	defaultBodyTimeout  = time.Minute
	defaultWriteTimeout = time.Minute
	defaultHeadTimeout  = 10 * time.Second
	defaultTunnel       = time.Hour
)
