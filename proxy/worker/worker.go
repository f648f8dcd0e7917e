package worker

import (
	"net"
	"strconv"
	"time"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// Type is the protocol or role of a worker, as `type` spells it.
type Type string

// The types. [Parse] reads all of them; those that are not [Type.Supported] are
// errors where a worker of that type would be used.
const (
	TypeHTTP   Type = "http"   // HTTP/1.1; ours, mod_jk does not know it (design.md 5)
	TypeLB     Type = "lb"     // a balancer over members
	TypeAJP13  Type = "ajp13"  // the default
	TypeAJP14  Type = "ajp14"  // experimental in mod_jk
	TypeAJP12  Type = "ajp12"  // obsolete in mod_jk
	TypeStatus Type = "status" // the status worker
)

// Supported reports whether this version can run a worker of type t. A type
// that becomes supported is added here, and nowhere else in this package.
func (t Type) Supported() bool {
	return t == TypeHTTP || t == TypeLB || t == TypeAJP13 || t == TypeStatus
}

// Never is the value of an interval that is switched off.
const Never time.Duration = -1

// Activation is what the operator wants of a member (directive `activation`).
type Activation uint8

// The activations, in mod_jk's words.
const (
	Active   Activation = iota // serves every request
	Disabled                   // serves only sessions that name it
	Stopped                    // serves nothing
)

// String returns mod_jk's short form: ACT, DIS or STP.
func (a Activation) String() string { return [...]string{"ACT", "DIS", "STP"}[a] }

// Method is how a balancer measures load (directive `method`).
type Method uint8

// The methods. mod_jk takes the last three, which are ours, for ByRequest.
const (
	ByRequest  Method = iota // R: requests sent
	BySession                // S: requests without a session
	ByNext                   // N: as S, with another decay
	ByTraffic                // T: bytes in both directions
	ByBusyness               // B: requests in flight
	P2C                      // p2c: of two members drawn by chance the one with fewer requests in flight
	LeastTime                // least-time: how long it takes to answer, times the requests in flight
	Rendezvous               // rendezvous: a hash of the session, or of the client
)

// String returns the method's name as mod_jk's status worker shows it.
func (m Method) String() string {
	return [...]string{"Request", "Sessions", "Next", "Traffic", "Busyness", "P2C", "LeastTime", "Rendezvous"}[m]
}

// RecoveryOptions is the bit mask of `recovery_options` (mod_jk.md 4.4): what is
// not sent again after a failure.
type RecoveryOptions int

// The bits of [RecoveryOptions].
const (
	NoRecoveryAfterSend    RecoveryOptions = 1  // not if the member failed after getting the request
	NoRecoveryAfterHeaders RecoveryOptions = 2  // not if it failed after the reply's headers went to the client
	CloseOnClientError     RecoveryOptions = 4  // close the member's connection if the client's broke
	RecoverHEAD            RecoveryOptions = 8  // HEAD always, in spite of 1
	RecoverGET             RecoveryOptions = 16 // GET always, in spite of 1

)

const allRecoveryOptions = NoRecoveryAfterSend | NoRecoveryAfterHeaders | CloseOnClientError | RecoverHEAD | RecoverGET

// Defaults of workers where mod_jk waits for ever (design.md D10).
const (
	defaultConnect   = 500 * time.Millisecond
	defaultProbe     = 500 * time.Millisecond
	defaultProbeIdle = time.Second
)

// defaultPacketSize is the default and the minimum of max_packet_size.
const defaultPacketSize = 8192

// A PingMode is a set of occasions for a probe (directive `ping_mode`).
type PingMode uint8

// The occasions of [PingMode].
const (
	PingConnect  PingMode = 1 << iota // C: after connecting
	PingPrepost                       // P: before each request
	PingInterval                      // I: when idle
)

// A StatusRule is one entry of `fail_on_status`: a reply with this status counts
// as a failure of the member.
type StatusRule struct {
	Status int
	Soft   bool // written with a minus sign: fail over, but leave the member's state alone
}

// An LB is a worker of type lb.
//
// All times are real durations; where zero has a meaning the field says so.
type LB struct {
	Name string
	Line int // of its first property

	// Members are the workers of `balance_workers`, in order; at least one. A
	// worker that belongs to several balancers appears once in each.
	Members []Member

	Sticky              bool          // sticky_session; true unless set
	StickyForce         bool          // sticky_session_force
	Method              Method        // how load is measured
	Pessimistic         bool          // lock=P; no difference in one process
	Retries             int           // rounds over the members; at least 1
	LBRetries           int           // lb_retries: members tried in one round; at least 1
	LBRetriesSet        bool          // the file has it: only then it is to be obeyed
	RetryInterval       time.Duration // pause between two rounds; zero or less: none
	RecoverTime         time.Duration // how long a member in error is left alone; at least 1 s
	ErrorEscalationTime time.Duration // how long failures under load are tolerated; zero: not at all
	MaxReplyTimeouts    int           // reply time-outs that are tolerated, decayed
	SessionCookie       string        // the cookie with the session's name; "JSESSIONID" unless set
	SessionPath         string        // the path parameter with it, as configured; ";jsessionid" unless set
	SetSessionCookie    bool          // clients get a cookie with their member's route
	SessionCookiePath   string        // of that cookie; "/" unless set
	Mount               []Mount       // URI patterns of rules that send requests here
}

// SessionParam returns the name of the path parameter that carries the session:
// [LB.SessionPath] without its leading semicolon.
func (lb *LB) SessionParam() string {
	if lb.SessionPath != "" && lb.SessionPath[0] == ';' {
		return lb.SessionPath[1:]
	}
	return lb.SessionPath
}

// A Member is one server: a worker of type http or of an ajp type, listed or behind
// an [LB] or both. Fields that are marked
// "parsed only" have no effect yet.
type Member struct {
	Name string
	Type Type
	Line int // of its first property

	Host string // name or IP literal, IPv6 without brackets
	Port int    // zero: provisioned but unusable, and Activation is then [Stopped]

	Source          string // local address for connections; "" for any, of http an IP address
	PreferIPv6      bool   // of several addresses take an IPv6 one first
	SocketKeepalive bool   // TCP keep-alive
	SocketBuffer    int    // send and receive buffer in bytes; zero: the system's
	MaxPacketSize   int    // ajp only
	Secret          string // ajp only; the lb's if the member has none
	SecretKey       string // ajp14 only

	// SocketConnectTimeout bounds the TCP connect; zero means the system's limit. It
	// is socket_connect_timeout, else (for http alone) connect_timeout, else
	// socket_timeout, else 500 ms (doc.go has the reason).
	SocketConnectTimeout time.Duration

	// SocketTimeout bounds a single read from or write to the member; zero: no
	// bound.
	SocketTimeout time.Duration

	// ConnectTimeout bounds the CPING right after an ajp connect; zero: none is
	// sent. It is always zero for http.
	ConnectTimeout time.Duration

	// PrepostTimeout bounds the probe on a connection before a request is sent
	// on it; zero: no probe. It is 500 ms unless set.
	PrepostTimeout time.Duration

	// ProbeIdle is how long a kept connection must have been idle to be probed;
	// zero: before every request, also on a new connection. It is 1 s unless prepost_timeout or ping_mode=P is set, which make it zero.
	ProbeIdle time.Duration

	// ReplyTimeout is the longest silence of the member while a reply is
	// awaited or under way; zero: no bound.
	ReplyTimeout time.Duration

	Retries       int           // tries on this member for one request, the first included; at least 1
	RetryInterval time.Duration // pause before tries after the first; zero or less: none

	// RecoveryOptions is `recovery_options`; it is to be obeyed only if
	// RecoverySet: without it the safe rules of design.md D8 apply.
	RecoveryOptions RecoveryOptions
	RecoverySet     bool

	// FailOnStatus is tested in order, the first hit decides.
	FailOnStatus []StatusRule

	BusyLimit int // requests in flight at which the member is passed over; zero: no limit

	// PoolSize bounds the requests in flight, one connection each; zero: no
	// bound (mod_jk's default, the number of threads, means nothing here).
	// Negative: never usable, which is what connection_pool_size=0 means.
	PoolSize int

	PoolMinSize    int           // idle closing leaves so many connections open
	PoolTimeout    time.Duration // idle connections older than this are closed; zero: never
	AcquireTimeout time.Duration // wait for a free connection when PoolSize is reached; zero: one try
	PingMode       PingMode      // as configured; already worked into the times above and below
	PingTimeout    time.Duration // as configured; likewise
	PingInterval   time.Duration // idle connections are probed at this age; zero: never

	Route      string     // by which cookies name it; its Name unless set; unique in an LB
	LBFactor   int        // share of the load; at least 1
	Activation Activation // what the operator wants of it
	Distance   int        // the members with the lowest one are chosen while one of them can be
	Domain     string     // part of Route before its first dot unless set
	Redirect   string     // route of the member to fail over to
	Mount      []Mount    // URI patterns of rules that send requests here, if it is listed
}

// A Mount is one element of `mount`.
type Mount struct {
	Pattern string // as written; package urimap knows what it means
	Line    int
}

// Address returns host:port, with brackets around an IPv6 literal.
func (m *Member) Address() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Port)) }

// A Status is a worker of type status; package status has what its fields mean.
type Status struct {
	Name                string
	Line                int
	CSS                 string
	ReadOnly            bool
	User                []string
	UserCaseInsensitive bool
	Good, Bad           []string
	Prefix              string
	NS                  string // "" for none
	XMLNS               string // "" for none
	Doctype             string
	Mount               []Mount
}

// A File is a parsed workers.properties with everything resolved. Nothing in it
// changes after [Parse] returned.
type File struct {
	Name string // as given to Parse

	List     []string  // worker.list: the workers that URIs can be mapped to, repeated names once
	LBs      []*LB     // those of List that are balancers, in order
	Members  []*Member // those of List that are single servers, in order
	Statuses []*Status // those of List that are status workers, in order

	// Maintain is worker.maintain: how often load values decay. [Never] (which
	// also means: no recovery but the forced one) if the file says 0.
	Maintain time.Duration

	// Properties are all names and values of the file in its order, with variables and
	// references resolved. Those that are a secret, and others with the same value, are
	// left out.
	Properties []Property

	// Problems is everything that [Parse] found, by line.
	Problems []properties.Problem
}
