// Package status shows how a proxy and its members stand: a page for people,
// JSON, Prometheus, health checks and profiles, for the admin listener
// (design.md 5).
//
// It knows nothing of the proxy: whoever serves fills in a [Snapshot] each time
// one is asked for, and carries out the orders of those who may give them.
package status

import (
	"time"
)

// Unknown is the value of a count that is not known.
const Unknown = -1

// A Snapshot is the state of a proxy at one moment. It is not retained.
type Snapshot struct {
	Proxy   string    // what to call this proxy, such as its first listener; may be empty
	Version string    // may be empty
	Started time.Time // when the proxy began; zero if not known
	Workers []Worker  // in the order of worker.list
	Spool   Spool     // what is kept of requests on disk
	Gossip  []Node    // everybody whom gossip knows, proxies included; nil without gossip

	Counts    Counts
	AccessLog *AccessLog // nil without one

	Statuses   []string   // status workers in worker.list
	Properties []Property // what workers.properties amounts to, secrets left out
}

// A Property is one line of workers.properties, after its variables and references
// were resolved.
type Property struct{ Name, Value string }

// Counts are of requests since the proxy began.
type Counts struct {
	Requests   uint64 // with a reply, or at their end without one
	Failed     uint64 // of these: answered by the proxy itself, or cut
	Gone       uint64 // of these: the client went away
	Resent     uint64 // sent again after a member had got them
	Held       uint64 // that may have killed a member, and waited until redundancy was restored
	Unrestored uint64 // of these: in vain, so they were not sent again
	Unpaid     uint64 // not tried again because the retry budget was spent
	Forged     uint64 // session values that looked signed and did not verify
}

// AccessLog counts lines since the start.
type AccessLog struct {
	Lines   uint64
	Dropped uint64 // never written
}

// A Spool is what a proxy keeps of requests' bodies in files, so that they can be
// sent again.
type Spool struct {
	Bytes   int64  // in files now
	Refused uint64 // requests that were over a limit, and could not be sent again any more
	Failed  uint64 // likewise, because of the disk
}

// A Worker is a balancer or a single server that requests can be mapped to.
type Worker struct {
	Name    string
	Type    string // "lb", "http"
	Method  string // of a balancer, such as "Request"; else empty
	Members []Member
	Rules   []Rule // that lead to it, or keep paths from it, in the order in which they are tried

	// Of a balancer; names as in workers.properties.
	Sticky, StickyForce bool
	Pessimistic         bool // lock
	Retries             int
	RetryInterval       time.Duration
	RecoverTime         time.Duration
	ErrorEscalationTime time.Duration
	MaxReplyTimeouts    int

	Busy, MaxBusy int           // requests under way: now, and the most since ResetAt
	ResetAt       time.Time     // since when it is counted
	Maintain      time.Duration // between two runs of maintenance; negative: there is none
	MaintainIn    time.Duration // until the next
}

// A Rule is one of uriworkermap.properties.
type Rule struct {
	URI             string
	Exclude         bool   // what matches goes to nobody
	Disabled        bool   // it has no effect
	Source          string // uriworkermap, worker definition
	ReplyTimeout    time.Duration
	ReplyTimeoutSet bool
	StickyIgnore    bool
	Stateless       bool
	FailOnStatus    string // as in the file; so the next three
	Active          string
	Disable         string // the members that it disables
	Stop            string // the members that it stops
	UseServerErrors int
}

// A Connection is how a member is reached; names as in workers.properties.
type Connection struct {
	Host            string
	Port            int // zero: it can not be reached
	Source          string
	PoolTimeout     time.Duration // connection_pool_timeout
	PingTimeout     time.Duration
	ConnectTimeout  time.Duration
	PrepostTimeout  time.Duration
	ReplyTimeout    time.Duration
	PingInterval    time.Duration // connection_ping_interval
	Retries         int
	RetryInterval   time.Duration
	RecoveryOptions int
	BusyLimit       int
	MaxPacketSize   int
}

// A Member is one server behind a worker.
type Member struct {
	Name    string // the worker's name, or an app node's that came by gossip; not empty
	Route   string // by which sessions name it
	Type    string // "http", "ajp13"
	Address string // host:port
	Boot    uint32 // of an app node; zero if not known

	Activation string // ACT, DIS or STP
	State      string // as mod_jk shows it: OK, OK/IDLE, ERR, ERR/REC, ERR/FRC, ERR/PRB
	Phase      string // what gossip says: running, draining, overloaded, starting; empty without gossip
	InService  bool   // gets requests, if only those of its sessions
	ByGossip   bool   // it is not in the file

	LBFactor int
	LBMult   uint64 // what one request adds to LBValue
	LBValue  uint64 // load value; the lowest is chosen next
	Distance int
	Domain   string
	Redirect string

	Connection Connection

	Sessions    int64     // live sessions that it holds as primary; [Unknown] if it does not say
	Copies      int64     // of sessions of others that it holds, if it says so
	Lacking     int64     // sessions of which it has to find another holder, if it says so
	Draining    *Draining // nil if it is not disabled
	InFlight    int
	MaxInFlight int
	Tunnels     int // those in flight that have become tunnels, such as WebSockets
	Waiting     int // requests, for their turn at it
	Open        int // connections, busy and idle
	MaxOpen     int // the most since ResetAt

	Served       uint64 // requests sent to it, each attempt counts
	NewSessions  uint64 // those without a session
	Errors       uint64
	ClientErrors uint64
	Timeouts     uint64 // replies that did not come in time; it decays
	Busy         uint64 // requests that found no room in time
	Retries      uint64 // attempts that followed a failure on the same or another member
	BytesRead    uint64 // from the member
	BytesWritten uint64 // to the member

	LastError   string    // text of the last error, also if it worked since; empty if none
	LastErrorAt time.Time // zero if none
	RecoverIn   time.Duration
	FailedAt    time.Time // when it last failed without a success since; zero if it did not
	ResetAt     time.Time // since when all of this is counted
}

// A Node is somebody whom gossip knows.
type Node struct {
	Name    string
	Boot    uint32
	Address string // of its gossip
	State   string // starting, running, draining, overloaded
	Proxy   bool   // it serves no sessions
}

// InService returns how many members of the worker get requests.
func (w *Worker) InService() int {
	n := 0
	for _, m := range w.Members {
		if m.InService {
			n++
		}
	}
	return n
}

// A Draining is how far a disabled member is, as this proxy has seen.
type Draining struct {
	Since  time.Time
	Left   int           // sessions that it has served since then, and lately
	EndsIn time.Duration // until it is stopped; zero for never
}
