package status

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Change is what an operator wants done to a worker or to one of its members.
type Change struct {
	Do     Deed
	Worker string     // of worker.list
	Member string     // name of one of its members; empty: the worker itself
	Set    []Property // of DeedSet: directives of workers.properties, without "worker.NAME.", and values as there
}

// A Deed is the kind of a [Change].
type Deed uint8

// The deeds.
const (
	DeedSet     Deed = iota // change settings
	DeedReset               // set counts to zero and forget failures
	DeedRecover             // let a member in error be tried at once
)

// What Config.Change and JKConfig.Change return, perhaps wrapped.
var (
	// ErrNoWorker: there is none of that name.
	ErrNoWorker = errors.New("no worker")

	// ErrSetting: there is no such setting, or that is no value of it.
	ErrSetting = errors.New("cannot be set so")

	// ErrNotInError: only a member in error can recover.
	ErrNotInError = errors.New("not in error")
)

// A setting is one that can be changed while the proxy runs (mod_jk.md 6.5).
type setting struct {
	param string // of cmd=update
	name  string // the directive
	label string // for people, with its unit
	words []word // of an enumeration, mod_jk's in the order of its digits
	value func(*Worker, *Member) string
	kind  settingKind
}

// A word is one value of an enumeration.
type word struct{ value, text string }

type settingKind uint8

const (
	isNumber settingKind = iota
	isText
	isChoice
	isFlag
)

// balancerSettings are those of an lb.
func balancerSettings() []setting {
	number := func(param, name, label string, get func(*Worker) int) setting {
		return setting{param: param, name: name, label: label, value: func(w *Worker, _ *Member) string { return strconv.Itoa(get(w)) }}
	}
	flag := func(param, name, label string, get func(*Worker) bool) setting {
		return setting{param: param, name: name, label: label, kind: isFlag, words: []word{{"T", "True"}, {"F", "False"}}, value: func(w *Worker, _ *Member) string {
			if get(w) {
				return "T"
			}
			return "F"
		}}
	}
	return []setting{
		number("vlr", "retries", "Retries", func(w *Worker) int { return w.Retries }),
		number("vlri", "retry_interval", "Retry interval, ms", func(w *Worker) int { return in(time.Millisecond, w.RetryInterval) }),
		number("vlt", "recover_time", "Recover time, s", func(w *Worker) int { return in(time.Second, w.RecoverTime) }),
		number("vlee", "error_escalation_time", "Error escalation time, s", func(w *Worker) int { return in(time.Second, w.ErrorEscalationTime) }),
		number("vlx", "max_reply_timeouts", "Reply time-outs tolerated", func(w *Worker) int { return w.MaxReplyTimeouts }),
		flag("vls", "sticky_session", "Sticky sessions", func(w *Worker) bool { return w.Sticky }),
		flag("vlf", "sticky_session_force", "Force sticky sessions", func(w *Worker) bool { return w.StickyForce }),
		{
			param: "vlm", name: "method", label: "Method", kind: isChoice, words: methods(),
			value: func(w *Worker, _ *Member) string {
				for _, m := range methods() {
					if m.text == w.Method {
						return m.value
					}
				}
				return ""
			},
		},
		{
			param: "vll", name: "lock", label: "Locking", kind: isChoice, words: []word{{"O", "Optimistic"}, {"P", "Pessimistic"}},
			value: func(w *Worker, _ *Member) string { return initial(lock(w)) },
		},
	}
}

// methods are those of balancing, first mod_jk's and then ours, which count by their
// whole name.
func methods() []word {
	return []word{
		{"R", "Request"},
		{"T", "Traffic"},
		{"B", "Busyness"},
		{"S", "Sessions"},
		{"N", "Next"},
		{"p2c", "P2C"},
		{"least-time", "LeastTime"},
		{"rendezvous", "Rendezvous"},
	}
}

// memberSettings are those of a member within its lb.
func memberSettings() []setting {
	text := func(param, name, label string, get func(*Member) string) setting {
		return setting{param: param, name: name, label: label, kind: isText, value: func(_ *Worker, m *Member) string { return get(m) }}
	}
	number := func(param, name, label string, get func(*Member) int) setting {
		return setting{param: param, name: name, label: label, value: func(_ *Worker, m *Member) string { return strconv.Itoa(get(m)) }}
	}
	return []setting{
		{
			param: "vwa", name: "activation", label: "Activation", kind: isChoice, words: []word{{"A", "Active"}, {"D", "Disabled"}, {"S", "Stopped"}},
			value: func(_ *Worker, m *Member) string { return initial(m.Activation) },
		},
		number("vwf", "lbfactor", "LB factor", func(m *Member) int { return m.LBFactor }),
		text("vwn", "route", "Route", func(m *Member) string { return m.Route }),
		text("vwr", "redirect", "Redirect route", func(m *Member) string { return m.Redirect }),
		text("vwc", "domain", "Cluster domain", func(m *Member) string { return m.Domain }),
		number("vwd", "distance", "Distance", func(m *Member) int { return m.Distance }),
	}
}

// serverSettings are those of how a server is reached.
func serverSettings() []setting {
	number := func(param, name, label string, get func(*Connection) int) setting {
		return setting{param: param, name: name, label: label, value: func(_ *Worker, m *Member) string { return strconv.Itoa(get(&m.Connection)) }}
	}
	return []setting{
		{param: "vahst", name: "host", label: "Host", kind: isText, value: func(_ *Worker, m *Member) string { return m.Connection.Host }},
		number("vaprt", "port", "Port", func(k *Connection) int { return k.Port }),
		number("vacpt", "connection_pool_timeout", "Connection pool time-out, s", func(k *Connection) int { return in(time.Second, k.PoolTimeout) }),
		number("vapng", "ping_timeout", "Ping time-out, ms", func(k *Connection) int { return in(time.Millisecond, k.PingTimeout) }),
		number("vact", "connect_timeout", "Connect time-out, ms", func(k *Connection) int { return in(time.Millisecond, k.ConnectTimeout) }),
		number("vapt", "prepost_timeout", "Prepost time-out, ms", func(k *Connection) int { return in(time.Millisecond, k.PrepostTimeout) }),
		number("vart", "reply_timeout", "Reply time-out, ms", func(k *Connection) int { return in(time.Millisecond, k.ReplyTimeout) }),
		number("var", "retries", "Retries", func(k *Connection) int { return k.Retries }),
		number("vari", "retry_interval", "Retry interval, ms", func(k *Connection) int { return in(time.Millisecond, k.RetryInterval) }),
		number("vacpi", "connection_ping_interval", "Connection ping interval, s", func(k *Connection) int { return in(time.Second, k.PingInterval) }),
		number("varo", "recovery_options", "Recovery options", func(k *Connection) int { return k.RecoveryOptions }),
		number("vabl", "busy_limit", "Busy limit", func(k *Connection) int { return k.BusyLimit }),
		number("vamps", "max_packet_size", "Max packet size, bytes", func(k *Connection) int { return k.MaxPacketSize }),
	}
}

func in(unit, d time.Duration) int { return int(max(0, d) / unit) }

func initial(s string) string { return s[:min(1, len(s))] }

// settings returns those of what w and sw name.
func (c *call) settings() []setting {
	switch {
	case c.member != nil:
		return append(memberSettings(), serverSettings()...)
	case c.worker == nil:
		return nil // a status worker
	case c.worker.balances():
		return balancerSettings()
	}
	return serverSettings()
}

// attribute returns the setting that att names, of all members.
func (c *call) attribute() *setting {
	if c.worker == nil || !c.worker.balances() || c.member != nil {
		return nil
	}
	for _, s := range append(memberSettings(), serverSettings()...) {
		if s.param == c.q["att"] && s.name != "host" && s.name != "port" {
			return &s
		}
	}
	return nil
}

// canonical returns a value as a [Change] has it: of what mod_jk takes for the same,
// one.
func (s *setting) canonical(value string) string {
	first := strings.ToUpper(initial(value))
	switch s.kind {
	case isText:
	case isNumber:
		return strconv.Itoa(atoi(value))
	case isChoice:
		for _, w := range s.words {
			if strings.EqualFold(value, w.value) {
				return w.value
			}
		}
		for i, w := range s.words {
			if len(w.value) == 1 && (first == w.value || first == strconv.Itoa(i)) {
				return w.value
			}
		}
	case isFlag:
		switch {
		case first == "1", first == "T", first == "Y", strings.EqualFold(value, "on"):
			return "T"
		case first == "0", first == "F", first == "N", strings.EqualFold(value, "off"):
			return "F"
		}
	}
	return value
}

// asked returns the change of one setting of m, and whether there is one: a value
// that is missing, and one that counts already, change nothing.
func (s *setting) asked(q params, param string, w *Worker, m *Member) (Property, bool) {
	value, ok := q[param]
	value = s.canonical(value)
	return Property{Name: s.name, Value: value}, ok && value != s.value(w, m)
}

// updates returns what cmd=update asks for, a change for each member.
func (c *call) updates() []Change {
	if c.q["sw"] == "" && c.q["att"] != "" {
		return c.attributes()
	}
	var all []Change
	for i := range c.worker.Members {
		m := &c.worker.Members[i]
		ch := Change{Worker: c.worker.Name}
		if c.member != nil {
			if !glob(c.q["sw"], m.Name) {
				continue
			}
			ch.Member = m.Name
		}
		for _, s := range c.settings() {
			if p, ok := s.asked(c.q, s.param, c.worker, m); ok {
				ch.Set = append(ch.Set, p)
			}
		}
		if len(ch.Set) > 0 {
			all = append(all, ch)
		}
		if c.member == nil {
			break
		}
	}
	return all
}

// attributes returns what att and val0, val1 … ask for.
func (c *call) attributes() []Change {
	s := c.attribute()
	if s == nil {
		return nil
	}
	var all []Change
	for i := range c.worker.Members {
		m := &c.worker.Members[i]
		if p, ok := s.asked(c.q, "val"+strconv.Itoa(i), c.worker, m); ok {
			all = append(all, Change{Worker: c.worker.Name, Member: m.Name, Set: []Property{p}})
		}
	}
	return all
}

// carryOut does what update, reset and recover ask for, if it may.
func (c *call) carryOut() *refusal {
	if status, why := c.token.Check(c.r); status != 0 {
		return refused(status, why)
	}
	failed := map[string]string{cmdUpdate: "Update failed", cmdReset: "Reset failed", cmdRecover: "Marking worker for recovery failed"}[c.cmd]
	if c.worker == nil || c.cmd == cmdRecover && c.member == nil || c.change == nil {
		return refused(http.StatusConflict, failed)
	}
	one := Change{Worker: c.worker.Name}
	if c.member != nil {
		one.Member = c.member.Name
	}
	var all []Change
	switch c.cmd {
	case cmdUpdate:
		all = c.updates()
	case cmdReset:
		one.Do = DeedReset
		all = []Change{one}
	case cmdRecover:
		one.Do = DeedRecover
		all = []Change{one}
	}
	for i, ch := range all {
		err := c.change(ch)
		switch {
		case err == nil:
			continue
		case c.cmd == cmdRecover:
			return refused(http.StatusConflict, failed)
		case i > 0:
			failed += " (at least partially)"
		}
		return refused(changeStatus(err), failed+": "+err.Error())
	}
	return nil
}

// changeStatus is the status of the reply to a change that was not made.
func changeStatus(err error) int {
	switch {
	case errors.Is(err, ErrNoWorker), errors.Is(err, ErrNoMember):
		return http.StatusNotFound
	case errors.Is(err, ErrSetting):
		return http.StatusBadRequest
	case errors.Is(err, ErrNotInError):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
