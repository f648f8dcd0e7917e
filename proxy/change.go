package proxy

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"time"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// Apply does what an operator wants of a worker or of one of its members (mod_jk.md
// 6.3, 6.5), for all requests that follow. Either all of ch is done or none of it.
// The error wraps [status.ErrNoWorker], [status.ErrNoMember], [status.ErrSetting] or
// [status.ErrNotInError], and says what is wrong.
//
// What is set holds until the proxy ends, or reads a file that asks for another value
// than before.
func (p *Proxy) Apply(ch status.Change) error {
	p.gossip.mu.Lock() // nothing moves, and no file is taken over meanwhile
	defer p.gossip.mu.Unlock()
	l := p.table.Load().worker(ch.Worker)
	if l == nil {
		return fmt.Errorf("%w %q", status.ErrNoWorker, ch.Worker)
	}
	m, err := l.subject(ch.Member)
	if err != nil {
		return err
	}
	log := p.log.With().Str("worker", ch.Worker).Logger()
	if ch.Member != "" {
		log = log.With().Str("member", ch.Member).Logger()
	}
	switch ch.Do {
	case status.DeedReset:
		l.reset(m)
		log.Info().Msg("counts reset")
	case status.DeedRecover:
		if m == nil || !l.balancer.Recover(l.routeOf(m)) {
			return status.ErrNotInError
		}
		log.Info().Msg("recovery asked for")
	case status.DeedSet:
		c := newEdit(l, m)
		for _, s := range ch.Set {
			if err := c.set(s.Name, s.Value); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		if err := c.apply(p); err != nil {
			return err
		}
		p.watchDrains()
		for _, s := range ch.Set {
			log.Info().Str("setting", s.Name).Str("value", s.Value).Msg("setting changed")
		}
	}
	return nil
}

// subject returns the member of a name; nil is the worker itself, unless that is a
// single server.
func (l *lb) subject(name string) (*member, error) {
	for _, s := range l.balancer.Snapshot() {
		if m := s.Value.(*member); m.name == name || name == "" && l.from == nil {
			return m, nil
		}
	}
	if name != "" {
		return nil, fmt.Errorf("there is %w %q in worker %q", status.ErrNoMember, name, l.name)
	}
	return nil, nil //nolint:nilnil // it is about the worker itself
}

// reset sets the counts of m to zero, or all of l's if it is nil.
func (l *lb) reset(m *member) {
	if m == nil || l.from == nil {
		l.balancer.ResetAll()
	} else {
		l.balancer.Reset(l.routeOf(m))
	}
	for _, s := range l.balancer.Snapshot() {
		if is := s.Value.(*member); m == nil || m == is {
			is.counts.read.Store(0)
			is.counts.written.Store(0)
			is.endpoint().ForgetMost()
		}
	}
}

// An edit is a change of settings that is being put together.
type edit struct {
	l *lb
	m *member // nil: l itself

	tuning  tuning         // of l
	balance balance.Tuning // likewise

	inLB    []func(*balance.Member) // what changes of m within l
	reached worker.Member           // how m is reached
	address string                  // of m
	anew    bool                    // reached or address has changed
}

func newEdit(l *lb, m *member) *edit {
	e := &edit{l: l, m: m, tuning: *l.tuning.Load(), balance: l.balancer.Tuning()}
	if m != nil {
		e.reached, e.address = *m.settings(), m.endpoint().Address()
	}
	return e
}

// apply makes it count.
func (e *edit) apply(p *Proxy) error {
	if e.m == nil {
		if err := e.l.balancer.Tune(e.balance); err != nil {
			return err
		}
		e.l.tuning.Store(&e.tuning)
		return nil
	}
	if e.anew && (e.address != e.m.endpoint().Address() || !reflect.DeepEqual(&e.reached, e.m.settings())) {
		n, err := p.newEndpoint(&e.reached, e.address)
		if err != nil {
			return err
		}
		e.m.set.Store(&e.reached)
		old := e.m.at.Swap(n)
		p.task(old.Retire)
	}
	if len(e.inLB) == 0 {
		return nil
	}
	return e.l.balancer.Update(e.l.routeOf(e.m), func(m *balance.Member) {
		for _, f := range e.inLB {
			f(m)
		}
	})
}

// set notes that a setting is to have a value, as a file would have it.
func (e *edit) set(name, value string) error {
	switch {
	case e.m == nil:
		return e.setLB(name, value)
	case e.l.from == nil && name != "activation":
		return e.setServer(name, value)
	}
	err := e.setMember(name, value)
	if errors.Is(err, errNotHere) {
		return e.setServer(name, value)
	}
	return err
}

// errNotHere: there is no such setting in this place.
var errNotHere = fmt.Errorf("it %w: there is no such setting here", status.ErrSetting)

// wrong says that a value is none.
func wrong(value, want string) error {
	return fmt.Errorf("%q %w: want %s", value, status.ErrSetting, want)
}

// number reads one from least to most.
func number(value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, wrong(value, fmt.Sprintf("%d to %d", least, most))
	}
	return n, nil
}

// mostNumber bounds all numbers.
const mostNumber = 1<<31 - 1

// span reads a time of so many units, least at least.
func span(value string, unit time.Duration, least int) (time.Duration, error) {
	n, err := number(value, least, mostNumber)
	return time.Duration(n) * unit, err
}

// choice returns which of the words the first letter of value is that of.
func choice(value string, words ...string) (int, error) {
	for i, w := range words {
		if value != "" && value[0]|0x20 == w[0] {
			return i, nil
		}
	}
	return 0, wrong(value, fmt.Sprintf("one of %v", words))
}

// setLB is set for an lb.
func (e *edit) setLB(name, value string) (err error) {
	n := 0
	switch name {
	case "retries":
		e.tuning.rounds, err = number(value, 1, mostNumber)
	case "retry_interval":
		e.tuning.interval, err = span(value, time.Millisecond, 1)
	case "recover_time":
		e.balance.RecoverTime, err = span(value, time.Second, 1)
	case "error_escalation_time":
		e.balance.ErrorEscalationTime, err = span(value, time.Second, 0)
	case "max_reply_timeouts":
		e.balance.MaxReplyTimeouts, err = number(value, 0, mostNumber)
	case "sticky_session":
		n, err = choice(value, "false", "true")
		e.tuning.sticky = n == 1
	case "sticky_session_force":
		n, err = choice(value, "false", "true")
		e.balance.StickyForce = n == 1
	case "method":
		var m worker.Method
		if m, err = worker.MethodOf(value); err != nil {
			err = fmt.Errorf("%q %w: %w", value, status.ErrSetting, err)
		}
		e.balance.Method = balance.Method(m)
	case "lock":
		n, err = choice(value, "optimistic", "pessimistic")
		e.tuning.pessimistic = n == 1
	default:
		err = errNotHere
	}
	return err
}

// setMember is set for what a member is within its lb.
func (e *edit) setMember(name, value string) error {
	switch name {
	case "activation":
		n, err := choice(value, "active", "disabled", "stopped")
		if err != nil {
			return err
		}
		if unusable(e.m.settings()) && n != int(balance.Stopped) {
			return fmt.Errorf("it %w: the file makes it a member that nothing can be sent to", status.ErrSetting)
		}
		e.inLB = append(e.inLB, func(m *balance.Member) { m.Activation = balance.Activation(n) })
	case "lbfactor":
		n, err := number(value, 1, mostNumber)
		if err != nil {
			return err
		}
		e.inLB = append(e.inLB, func(m *balance.Member) { m.LBFactor = n })
	case "distance":
		n, err := number(value, 0, mostNumber)
		if err != nil {
			return err
		}
		e.inLB = append(e.inLB, func(m *balance.Member) { m.Distance = n })
	case "route":
		return e.rename(value)
	case "redirect":
		if len(value) > worker.MaxName || !inCookie(value) {
			return wrong(value, "a route, or nothing")
		}
		e.inLB = append(e.inLB, func(m *balance.Member) { m.Redirect = value })
	case "domain":
		if len(value) > worker.MaxName || !inCookie(value) {
			return wrong(value, "a domain, or nothing")
		}
		e.inLB = append(e.inLB, func(m *balance.Member) { m.Domain = value })
	default:
		return errNotHere
	}
	return nil
}

// rename sets the route of a member. One that gossips has its own.
func (e *edit) rename(route string) error {
	switch {
	case route == "" || len(route) > worker.MaxName || !inCookie(route):
		return wrong(route, "a route")
	case e.m.gossiped.Load() || !e.m.fromFile:
		return fmt.Errorf("it %w: the member gossips under its route", status.ErrSetting)
	}
	if other := e.l.find(route); other != nil && other != e.m {
		return fmt.Errorf("%q %w: it is the route of %s", route, status.ErrSetting, other.name)
	}
	e.inLB = append(e.inLB, func(m *balance.Member) {
		if m.Route = route; m.Domain == "" {
			m.Domain = worker.DomainOf(route)
		}
	})
	return nil
}

// setServer is set for how a server is reached.
func (e *edit) setServer(name, value string) (err error) {
	w := &e.reached
	e.anew = true
	switch name {
	case "host", "port":
		return e.move(name, value)
	case "connection_pool_timeout":
		w.PoolTimeout, err = span(value, time.Second, 0)
	case "connect_timeout":
		return e.setConnect(value)
	case "prepost_timeout":
		w.PrepostTimeout, err = span(value, time.Millisecond, 0)
		w.ProbeIdle = 0 // as if the file had set it
	case "reply_timeout":
		w.ReplyTimeout, err = span(value, time.Millisecond, 0)
	case "retries":
		w.Retries, err = number(value, 1, mostNumber)
	case "retry_interval":
		w.RetryInterval, err = span(value, time.Millisecond, 1)
	case "recovery_options":
		var n int
		n, err = number(value, 0, mostNumber)
		w.RecoveryOptions, w.RecoverySet = worker.RecoveryOptions(n), true
	case "busy_limit":
		w.BusyLimit, err = number(value, 0, mostNumber)
	case "ping_timeout", "connection_ping_interval", "max_packet_size":
		if w.Type == worker.TypeHTTP {
			return fmt.Errorf("it %w: a member of type=http has no use for it", status.ErrSetting)
		}
		return e.setAJP(name, value)
	default:
		return errNotHere
	}
	return err
}

// setAJP is set for what only AJP has.
func (e *edit) setAJP(name, value string) (err error) {
	w := &e.reached
	switch name {
	case "ping_timeout":
		w.PingTimeout, err = span(value, time.Millisecond, 0)
	case "connection_ping_interval":
		w.PingInterval, err = span(value, time.Second, 1)
	case "max_packet_size":
		w.MaxPacketSize, err = number(value, 8192, 65536)
		w.MaxPacketSize = (w.MaxPacketSize + 1023) / 1024 * 1024
	}
	return err
}

// setConnect sets connect_timeout, which is another time for a member that speaks
// HTTP (proxy/worker/doc.go).
func (e *edit) setConnect(value string) (err error) {
	to := &e.reached.ConnectTimeout
	if e.reached.Type == worker.TypeHTTP {
		to = &e.reached.SocketConnectTimeout
	}
	*to, err = span(value, time.Millisecond, 0)
	return err
}

// move sets the host or the port that the member is found at.
func (e *edit) move(name, value string) error {
	host, port, err := net.SplitHostPort(e.address)
	if err != nil {
		return err
	}
	if name == "port" {
		if _, err := number(value, 1, 65535); err != nil {
			return err
		}
		port = value
	} else {
		if value, err = worker.Host(value); err != nil {
			return fmt.Errorf("it %w: %w", status.ErrSetting, err)
		}
		host = value
	}
	e.address = net.JoinHostPort(host, port)
	return nil
}
