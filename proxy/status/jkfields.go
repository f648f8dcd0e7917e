package status

import (
	"strconv"
	"time"
)

// A field is one value of an object of a machine format. Names and their order are
// mod_jk's (mod_jk.md 6.4): scripts rely on them.
type field struct {
	name, value string
	quoted      bool // in mime=txt
	outer       bool // in mime=prop it stands under the name of the balancer, as in mod_jk
}

// fields are those of one object.
type fields []field

func (f *fields) text(name, value string)              { *f = append(*f, field{name: name, value: value}) }
func (f *fields) number(name string, n int)            { f.text(name, strconv.Itoa(n)) }
func (f *fields) count(name string, n uint64)          { f.text(name, strconv.FormatUint(n, 10)) }
func (f *fields) seconds(name string, d time.Duration) { f.number(name, int(max(0, d)/time.Second)) }

func (f *fields) millis(name string, d time.Duration) {
	f.number(name, int(max(0, d)/time.Millisecond))
}

func (f *fields) quote(name, value string) {
	*f = append(*f, field{name: name, value: value, quoted: true})
}
func (f *fields) quoteNumber(name string, n int) { f.quote(name, strconv.Itoa(n)) }
func (f *fields) flag(name string, on bool) {
	f.text(name, map[bool]string{true: "True", false: "False"}[on])
}

func (f *fields) quoteFlag(name string, on bool) {
	f.quote(name, map[bool]string{true: "1", false: "0"}[on])
}
func (f *fields) when(name string, at time.Time) { f.text(name, strconv.FormatInt(at.Unix(), 10)) }
func (f *fields) since(name string, now, then time.Time) {
	f.number(name, int(max(0, now.Sub(then))/time.Second))
}

// stamp is how points in time are written, and zone their zone.
const (
	stamp = "20060102150405"
	zone  = "-0700"
)

// lock is the name of how an lb locks.
func lock(w *Worker) string {
	if w.Pessimistic {
		return "Pessimistic"
	}
	return "Optimistic"
}

// balancerFields are those of an lb.
func (c *call) balancerFields(w *Worker) fields {
	var f fields
	rated := map[rating]int{}
	for i := range w.Members {
		rated[c.rate(&w.Members[i])]++
	}
	f.text("type", w.Type)
	f.flag("sticky_session", w.Sticky)
	f.flag("sticky_session_force", w.StickyForce)
	f.number("retries", w.Retries)
	f.seconds("recover_time", w.RecoverTime)
	f.seconds("error_escalation_time", w.ErrorEscalationTime)
	f.number("max_reply_timeouts", w.MaxReplyTimeouts)
	f.text("method", w.Method)
	f.text("lock", lock(w))
	f.number("member_count", len(w.Members))
	f.number("good", rated[good])
	f.number("degraded", rated[degraded])
	f.number("bad", rated[bad])
	f.number("busy", w.Busy)
	f.number("max_busy", w.MaxBusy)
	f.number("map_count", len(w.Rules))
	f.seconds("time_to_maintenance_min", w.MaintainIn)
	f.seconds("time_to_maintenance_max", w.latestMaintenance())
	f.when("last_reset_at", w.ResetAt)
	f.since("last_reset_ago", c.now, w.ResetAt)
	return f
}

// latestMaintenance is until when maintenance has run in mod_jk, where a request
// has to come for it.
func (w *Worker) latestMaintenance() time.Duration {
	if w.Maintain <= 0 {
		return 0
	}
	return w.MaintainIn + w.Maintain
}

// connectionFields are those of a server, whichever worker it serves.
func (c *call) connectionFields(f *fields, m *Member) {
	k := &m.Connection
	address := m.Address
	if k.Port == 0 {
		address = "invalid"
	}
	source := k.Source
	if source == "" {
		source = "undefined"
	}
	f.text("type", m.Type)
	f.text("host", k.Host)
	f.number("port", k.Port)
	f.text("address", address)
	f.text("source", source)
	f.seconds("connection_pool_timeout", k.PoolTimeout)
	f.millis("ping_timeout", k.PingTimeout)
	f.millis("connect_timeout", k.ConnectTimeout)
	f.millis("prepost_timeout", k.PrepostTimeout)
	f.millis("reply_timeout", k.ReplyTimeout)
	if c.mime == mimeXML {
		f.seconds("connection_ping_interval", k.PingInterval)
		f.number("retries", k.Retries)
	} else {
		f.number("retries", k.Retries)
		f.seconds("connection_ping_interval", k.PingInterval)
	}
	f.number("recovery_options", k.RecoveryOptions)
	f.number("busy_limit", k.BusyLimit)
	f.number("max_packet_size", k.MaxPacketSize)
}

// trafficFields are those of what was sent to a server.
func (f *fields) trafficFields(m *Member) {
	f.count("errors", m.Errors)
	f.count("client_errors", m.ClientErrors)
	f.count("reply_timeouts", m.Timeouts)
	f.count("transferred", m.BytesWritten)
	f.count("read", m.BytesRead)
	f.number("busy", m.InFlight)
	f.number("max_busy", m.MaxInFlight)
	f.number("connected", m.Open)
	f.number("max_connected", m.MaxOpen)
}

// memberFields are those of a member of an lb.
func (c *call) memberFields(m *Member) fields {
	var f fields
	c.connectionFields(&f, m)
	f.text("activation", m.Activation)
	f.number("lbfactor", m.LBFactor)
	f.quote("route", m.Route)
	f.quote("redirect", m.Redirect)
	f.quote("domain", m.Domain)
	f.number("distance", m.Distance)
	f.text("state", m.State)
	f.count("lbmult", m.LBMult)
	f.count("lbvalue", m.LBValue)
	f.count("elected", m.Served)
	f.count("sessions", m.NewSessions)
	f.trafficFields(m)
	f.seconds("time_to_recover_min", m.RecoverIn)
	f.seconds("time_to_recover_max", m.RecoverIn)
	begin := len(f)
	c.timeFields(&f, m)
	for i := range f[begin:] {
		f[begin+i].outer = true
	}
	return f
}

// timeFields are when a server was last reset, and when it failed.
func (c *call) timeFields(f *fields, m *Member) {
	f.when("last_reset_at", m.ResetAt)
	f.since("last_reset_ago", c.now, m.ResetAt)
	if m.FailedAt.IsZero() {
		return
	}
	unix, ago := "error_time_unix_seconds", "error_time_ago"
	if c.mime == mimeProp {
		unix, ago = "error_time_unix seconds", "error_time_ago seconds" // as in mod_jk
	}
	f.text("error_time_datetime", m.FailedAt.Format(stamp))
	f.text("error_time_tz", m.FailedAt.Format(zone))
	f.when(unix, m.FailedAt)
	f.since(ago, c.now, m.FailedAt)
}

// serverFields are those of a worker that is a single server.
func (c *call) serverFields(w *Worker, m *Member) fields {
	var f fields
	c.connectionFields(&f, m)
	f.count("used", m.Served)
	f.trafficFields(m)
	f.number("map_count", len(w.Rules))
	c.timeFields(&f, m)
	return f
}

// fields are those of a rule. server is the proxy that goes by it, which takes the
// place of mod_jk's virtual host; there may be none.
func (r *Rule) fields(server string) fields {
	var f fields
	if server != "" {
		f.quote("server", server)
	}
	timeout := -1
	if r.ReplyTimeoutSet {
		timeout = int(r.ReplyTimeout / time.Millisecond)
	}
	f.quote("uri", r.URI)
	f.quote("type", r.kind())
	f.quote("source", r.Source)
	f.quoteNumber("reply_timeout", timeout)
	f.quoteFlag("sticky_ignore", r.StickyIgnore)
	f.quoteFlag("stateless", r.Stateless)
	f.quote("fail_on_status", r.FailOnStatus)
	f.quote("active", r.Active)
	f.quote("disabled", r.Disable)
	f.quote("stopped", r.Stop)
	f.quoteNumber("use_server_errors", r.UseServerErrors)
	return f
}

// kind is mod_jk's name of how a rule matches.
func (r *Rule) kind() string {
	kind := "Exact"
	for _, c := range r.URI {
		if c == '*' || c == '?' {
			kind = "Wildchar"
		}
	}
	if r.Exclude {
		kind = "Unmount " + kind
	}
	if r.Disabled {
		kind = "Disabled " + kind
	}
	return kind
}
