package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
)

// MaxSecondaries bounds [Config.Secondaries].
const MaxSecondaries = owner.MaxCopies

// Defaults of [Config].
const (
	DefaultCookie      = "JSESSIONID"
	DefaultParam       = "jsessionid"
	DefaultIdleTimeout = time.Hour      // SESS-70
	DefaultLifetime    = 24 * time.Hour // also how long a tombstone is kept
	DefaultSweep       = time.Minute    // SESS-71
	DefaultBuffer      = 8192           // SESS-9
	DefaultMaxBytes    = 12 << 20       // one frame to a peer carries a whole session
	DefaultAckTimeout  = 500 * time.Millisecond

	DefaultPool       = 25     // TC-M3
	DefaultCompress   = 4096   // bytes
	DefaultQueueLimit = 65_536 // sessions; some hundred bytes each

	DefaultExclusiveWait = 10 * time.Second
	DefaultWarnBytes     = 64 << 10 // SESS-7
	DefaultMaxSessions   = 1_000_000
	DefaultMaxTombstones = 100_000 // half a kilobyte each

	DefaultRestoreRate  = 10_000   // sessions a second
	DefaultRestoreBytes = 64 << 20 // bytes a second
)

// A Cluster says who the members are. [*cluster.Cluster] is one.
type Cluster interface {
	// Self returns this member.
	Self() cluster.Member

	// Members returns the living members with this one. The slice is never
	// written again.
	Members() []cluster.Member

	// Subscribe returns a channel of capacity one that has a token after the
	// members have changed, until stop is called.
	Subscribe() (changed <-chan struct{}, stop func())

	// Gone reports whether the member name#boot is proven gone: it left, or
	// another boot of its name has replaced it. Silence proves nothing.
	Gone(id string) bool

	// SetState announces this member's state to the others.
	SetState(cluster.State)
}

// Config sets up a [Manager].
type Config struct {
	// Cluster says who the members are. It is required. The manager announces
	// [cluster.Running] when it is ready, and [cluster.Draining] when it is
	// closed.
	Cluster Cluster

	// Codec signs and verifies the cookie. It is required.
	Codec *cookie.Codec

	// Listener takes the connections of the other members, at the address that
	// Self().Replication announces. It is required; the manager closes it.
	Listener net.Listener

	// Dial connects to another member's replication address. If nil, it is
	// that of a [net.Dialer].
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Keys are the cluster's secrets for replication, newest first, each of 32
	// bytes (D11). Without keys a Listener outside loopback is an error.
	Keys [][]byte

	// Cookie is the cookie's name and Param that of the path parameter, as
	// every proxy in front must know them (SESS-51). If empty, they are
	// "JSESSIONID" and "jsessionid". A name that begins with __Secure- needs
	// Secure; one with __Host- also Path "/" and no Domain (RFC 6265bis 4.1.3).
	Cookie, Param string

	// Path is the path of the cookie, Domain its domain. If empty, they are "/"
	// and the host that set it (SESS-80, SESS-81).
	Path, Domain string

	// SameSite says which requests from other sites carry the cookie. If zero,
	// it is [http.SameSiteLaxMode]; [http.SameSiteNoneMode] needs Secure.
	SameSite http.SameSite

	// Partitioned keeps the cookie of a page embedded in another site apart for
	// each such site (CHIPS). It needs Secure.
	Partitioned bool

	// Secure marks every cookie Secure. If false, only those of requests that
	// came by TLS to this process, or with TrustForwarded to the proxy, are.
	Secure bool

	// TrustForwarded believes X-Forwarded-Proto, because only our own proxy can
	// reach this process (I17).
	TrustForwarded bool

	// URLRewriting lets clients without cookies carry the session in links
	// (SESS-49): [Session.EncodeURL] rewrites, and a path parameter is believed
	// if the request has no valid cookie.
	URLRewriting bool

	// IdleTimeout ends a session that was not used for so long; each session
	// can have its own ([Session.SetIdleTimeout]). If zero, it is one hour. At
	// least a second.
	IdleTimeout time.Duration

	// Lifetime ends a session so long after it was created, used or not. It is
	// also how long it is remembered that a session was invalidated, so no
	// cookie outlives it. If zero, it is 24 hours; at least IdleTimeout.
	Lifetime time.Duration

	// SweepInterval is the pause between two searches for expired sessions. An
	// expired session is never served; it only takes memory until the next
	// search. If zero, it is one minute.
	SweepInterval time.Duration

	// AckTimeout is how long an answer of another member is waited for before
	// the connection to it is broken (C4). All members need the same. If zero,
	// it is 500 ms.
	AckTimeout time.Duration

	// Mode says what a reply waits for. The zero value is [Synchronous]. A member
	// of another mode makes the sessions that it takes over its own mode's only
	// when their pair changes next.
	Mode Mode

	// NoAck has the replies of [Synchronous] and [Pooled] not wait for the
	// acknowledgements (waitForAck=false, TC-M5). The asynchronous modes never
	// wait for them.
	NoAck bool

	// Pool is how many replies may wait for their secondaries at a time in
	// [Pooled]. If zero, it is 25.
	Pool int

	// QueueLimit is how many sessions may wait to be sent in the asynchronous
	// modes. Beyond it replies wait as in [Synchronous]. If zero, it is 65,536.
	QueueLimit int

	// CompressFrom is from how many bytes on a session that is sent as a whole is
	// compressed, up to 2 MiB and if it becomes an eighth smaller. Changes are
	// not. If zero, it is 4096; nothing is compressed if negative.
	CompressFrom int

	// WireVersion is the highest version of what members say to each other that
	// this one speaks, for an upgrade in which the new version is to be tried
	// later than the program. Whatever it is, two members speak the highest that
	// both know, and each program knows the one before its own. If zero, it is
	// [peer.MaxVersion]; at least [peer.MinVersion].
	WireVersion uint8

	// RequireReplica refuses what would change a session while no other member
	// can hold its copy, rather than acknowledge what this member alone has:
	// requests whose method is not safe before their handler runs, so that the
	// next member is tried (D8); and [Key.Set] in all others, with
	// [ErrNoReplica]. If the last copy is lost while a reply waits, it becomes
	// a 503. Without it such replies are counted (Stats.Unprotected).
	RequireReplica bool

	// JoinTimeout is how long a member that sees no other one waits for one
	// before it is ready. Set it if others are to be there: before a member
	// has found them it would take their sessions for lost. If zero, it does
	// not wait.
	JoinTimeout time.Duration

	// Secondaries is how many copies of each session other members hold, as far
	// as there are so many of them. Every reply that has changed something
	// waits for all. The cookie names the first. If zero, it is 1; all other
	// members, at most [MaxSecondaries], if negative. All members need the same.
	Secondaries int

	// Placement chooses among equal candidates for the secondary.
	Placement Placement

	// Buffer is how many bytes of a reply are held until it must be committed
	// before the handler returns. If zero, it is 8192; a negative value
	// commits with the first byte.
	Buffer int

	// MaxBytes bounds the encoded attributes of one session with their names.
	// Of requests at one time that exceed it together the later ones fail.
	// If zero, it is 12 MiB; at most that.
	MaxBytes int

	// WarnBytes is from what size on a session is logged as large: it costs memory
	// twice, and time whenever it gets a new copy (SESS-7). Each is logged once by
	// its primary, at most one a second. If zero, it is 64 KiB; never if negative.
	WarnBytes int

	// MaxSessions bounds the sessions of which this member is the primary:
	// beyond it no new one is made ([ErrTooManySessions]). Those that exist go
	// on, also those that it takes over from others, and it takes twice as many
	// copies. If zero, it is 1,000,000; without limit if negative.
	MaxSessions int

	// MaxMemory bounds what the sessions, copies and tombstones of this member
	// take, in bytes: names and values, and half a kilobyte each. Beyond nine
	// tenths of it no new session is made, beyond it no further copy taken;
	// what is there may grow on, each up to MaxBytes. If zero, it is half of
	// the process's memory limit (GOMEMLIMIT), or without limit if that is not
	// set; without limit if negative.
	MaxMemory int64

	// MaxTombstones bounds of how many sessions that have ended this member
	// knows so; the oldest are forgotten first. A forgotten one can return only
	// from a member that was cut off when it ended, and a client that comes
	// with its cookie is told that it is lost. If zero, it is 100,000; without
	// limit if negative.
	MaxTombstones int

	// FirstIdleTimeout is the idle time-out of a session until its client has
	// come back with it, so that a flood of requests without cookies leaves no
	// sessions behind for long (H32). The next request raises it to
	// IdleTimeout, unless [Session.SetIdleTimeout] has changed it. If zero, it
	// is IdleTimeout; at least a second, at most IdleTimeout. All members need
	// the same.
	FirstIdleTimeout time.Duration

	// Exclusive lets the requests of one session run one after the other; see
	// [Exclusive], which does it for some handlers.
	Exclusive bool

	// ExclusiveWait is how long a request waits for the others. If zero, it is
	// 10 s.
	ExclusiveWait time.Duration

	// RollbackOnPanic takes back what a request has changed if its handler
	// panics (TC-8), as [Session.Rollback] does. Without it, what was set before
	// the panic is kept and copied. A panic that a middleware inside of
	// [Manager.Handler] recovers is none: let that call Rollback.
	RollbackOnPanic bool

	// OnEvent is called for what happens to sessions on this member. If nil,
	// nobody is told.
	//
	// It is called by one goroutine, with no lock held, one event after the
	// other: those of one session, and OnConflict, in the order in which they
	// happened. It may use the [Manager], but not wait for its Close, which
	// waits for it. Events that it has not taken wait, some 65,000 of them; then
	// they are dropped and counted, for no request waits for a listener.
	OnEvent func(Event)

	// OnConflict is called, after the heal of a partition, for each session of
	// which this member knows that changes accepted on the other side of it
	// were lost (G4), and for each request whose changes came too late;
	// [Key.Lost] gives the values. It must not block. If nil, they are only logged and counted.
	OnConflict func(Conflict)

	// RestoreRate and RestoreBytes bound what is done in the background for
	// sessions that lost a copy, or whose copy moves (D7): so many sessions and so
	// many bytes a second. If zero, they are 10,000 and 64 MiB.
	RestoreRate  int
	RestoreBytes int64

	// Now is the wall clock, for expiry only. If nil, it is time.Now.
	Now func() time.Time

	// Log gets one line for each change of state, and never an id or a value.
	Log zerolog.Logger
}

// A Conflict says what was lost of one session when two sides of a partition
// met again, or a member that had stood still went on.
type Conflict struct {
	ID    string   // of the session: a secret, not for logs
	Keys  []string // attributes whose values the side that won does not have
	Exact bool     // else the other side's values were not at hand, and Keys are all there were

	// Late says that Keys are what one request has changed, on a member that
	// had lost the session meanwhile, and the session does not have, because
	// others have changed some of the same attributes since its handler saw
	// them. Its client got an error.
	Late bool

	lost  owner.Attrs // nil if too much of it was waiting for OnConflict
	codec codec
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Cluster == nil:
		return c, errors.New("session: Config.Cluster is nil")
	case c.Codec == nil:
		return c, errors.New("session: Config.Codec is nil")
	case c.Listener == nil:
		return c, errors.New("session: Config.Listener is nil")
	}
	set(&c.Cookie, DefaultCookie)
	set(&c.Param, DefaultParam)
	set(&c.Path, "/")
	set(&c.SameSite, http.SameSiteLaxMode)
	set(&c.IdleTimeout, DefaultIdleTimeout)
	set(&c.Lifetime, max(DefaultLifetime, c.IdleTimeout))
	set(&c.FirstIdleTimeout, c.IdleTimeout)
	set(&c.SweepInterval, DefaultSweep)
	set(&c.ExclusiveWait, DefaultExclusiveWait)
	set(&c.AckTimeout, DefaultAckTimeout)
	set(&c.Pool, DefaultPool)
	if set(&c.CompressFrom, DefaultCompress); c.CompressFrom < 0 {
		c.CompressFrom = math.MaxInt
	}
	set(&c.QueueLimit, DefaultQueueLimit)
	set(&c.RestoreRate, DefaultRestoreRate)
	set(&c.RestoreBytes, DefaultRestoreBytes)
	set(&c.Buffer, DefaultBuffer)
	set(&c.Secondaries, 1)
	if c.Secondaries < 0 {
		c.Secondaries = MaxSecondaries
	}
	set(&c.MaxBytes, DefaultMaxBytes)
	if set(&c.WarnBytes, DefaultWarnBytes); c.WarnBytes < 0 {
		c.WarnBytes = math.MaxInt
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	switch {
	case c.IdleTimeout < time.Second:
		return c, fmt.Errorf("session: Config.IdleTimeout is %v, want at least 1s", c.IdleTimeout)
	case c.Lifetime < c.IdleTimeout:
		return c, fmt.Errorf("session: Config.Lifetime is %v, want at least Config.IdleTimeout, %v", c.Lifetime, c.IdleTimeout)
	case c.FirstIdleTimeout < time.Second || c.FirstIdleTimeout > c.IdleTimeout:
		return c, fmt.Errorf("session: Config.FirstIdleTimeout is %v, want at least 1s and at most Config.IdleTimeout, %v", c.FirstIdleTimeout, c.IdleTimeout)
	case c.SweepInterval < 0: // H29
		return c, fmt.Errorf("session: Config.SweepInterval is %v, want a positive time", c.SweepInterval)
	case c.ExclusiveWait < 0:
		return c, fmt.Errorf("session: Config.ExclusiveWait is %v, want a positive time", c.ExclusiveWait)
	case c.AckTimeout < 0 || c.JoinTimeout < 0:
		return c, fmt.Errorf("session: Config.AckTimeout is %v and Config.JoinTimeout %v, want no negative time", c.AckTimeout, c.JoinTimeout)
	case c.MaxBytes < 0 || c.MaxBytes > DefaultMaxBytes:
		return c, fmt.Errorf("session: Config.MaxBytes is %d, want at most %d", c.MaxBytes, DefaultMaxBytes)
	case c.RestoreRate < 0 || c.RestoreBytes < 0:
		return c, fmt.Errorf("session: Config.RestoreRate is %d and Config.RestoreBytes %d, want positive numbers", c.RestoreRate, c.RestoreBytes)
	case c.Secondaries > MaxSecondaries:
		return c, fmt.Errorf("session: Config.Secondaries is %d, want at most %d, or -1 for all", c.Secondaries, MaxSecondaries)
	case c.Mode >= modes:
		return c, fmt.Errorf("session: Config.Mode is %v, want one of %q", c.Mode, modeNames)
	case c.Pool < 0 || c.QueueLimit < 0:
		return c, fmt.Errorf("session: Config.Pool is %d and Config.QueueLimit %d, want positive numbers", c.Pool, c.QueueLimit)
	case c.Placement > Ring:
		return c, fmt.Errorf("session: Config.Placement is %d, want Hash or Ring", c.Placement)
	}
	c.Buffer = max(c.Buffer, 0)
	return c, c.checkCookie()
}

// set gives *p its default.
func set[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// checkCookie refuses a cookie that a browser would drop, or that says nothing a
// browser understands.
func (c Config) checkCookie() error {
	prefix := func(p string) bool { return len(c.Cookie) >= len(p) && strings.EqualFold(c.Cookie[:len(p)], p) }
	switch {
	case c.Path[0] != '/' || strings.ContainsFunc(c.Path, unfit):
		return fmt.Errorf("session: Config.Path is %q, want a path that begins with / and has no ; or control character", c.Path)
	case c.Domain != "" && !validDomain(c.Domain):
		return fmt.Errorf("session: Config.Domain is %q, want a host name of at least two labels (SESS-81)", c.Domain)
	case c.SameSite < http.SameSiteLaxMode || c.SameSite > http.SameSiteNoneMode:
		return fmt.Errorf("session: Config.SameSite is %d, want Lax, Strict or None", c.SameSite)
	case c.SameSite == http.SameSiteNoneMode && !c.Secure:
		return errors.New("session: Config.SameSite is None: browsers drop such a cookie without Config.Secure")
	case c.Partitioned && !c.Secure:
		return errors.New("session: Config.Partitioned is set: browsers drop such a cookie without Config.Secure")
	case (prefix("__Secure-") || prefix("__Host-")) && !c.Secure:
		return fmt.Errorf("session: Config.Cookie is %q: browsers drop a cookie of that name without Config.Secure", c.Cookie)
	case prefix("__Host-") && (c.Path != "/" || c.Domain != ""):
		return fmt.Errorf("session: Config.Cookie is %q: browsers drop a cookie of that name with a Config.Domain, here %q, or a Config.Path other than /, here %q",
			c.Cookie, c.Domain, c.Path)
	}
	return nil
}

// unfit reports whether r may not be in an attribute of a cookie (RFC 6265
// 4.1.1).
func unfit(r rune) bool { return r < ' ' || r == ';' || r >= 0x7f }

// validDomain reports whether a browser takes d as a cookie's domain.
func validDomain(d string) bool {
	d = strings.TrimPrefix(d, ".")
	if net.ParseIP(d) != nil || !strings.Contains(d, ".") {
		return false
	}
	for label := range strings.SplitSeq(d, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return false
		}
	}
	return true
}
