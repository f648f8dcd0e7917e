package proxy

import (
	"net"
	"strconv"
	"strings"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// Snapshot returns how the proxy's workers and their members stand. What it does
// not know (its own name and version, gossip, and how many sessions a member has)
// is for the caller to fill in.
func (p *Proxy) Snapshot() status.Snapshot {
	p.gossip.mu.Lock()
	known := p.gossip.known
	p.gossip.mu.Unlock()
	snap := status.Snapshot{Started: p.started, Counts: p.Counts(), Spool: status.Spool{
		Bytes: p.spool.used.Load(), Refused: p.spool.refused.Load(), Failed: p.spool.failed.Load(),
	}}
	t := p.table.Load()
	for _, l := range t.workers {
		w := l.snapshot(known)
		w.Rules = t.rulesOf(l.name)
		snap.Workers = append(snap.Workers, w)
	}
	for _, s := range t.file.Statuses {
		snap.Statuses = append(snap.Statuses, s.Name)
	}
	for _, p := range t.file.Properties {
		snap.Properties = append(snap.Properties, status.Property(p))
	}
	return snap
}

// rulesOf returns the rules of a worker, those for all workers among them.
func (t *table) rulesOf(name string) []status.Rule {
	if t.uris == nil {
		return nil
	}
	var all []status.Rule
	for _, r := range t.uris.Rules {
		if r.Worker != name && (!r.Exclude || r.Worker != "*") {
			continue
		}
		e := &r.Extensions
		all = append(all, status.Rule{
			URI: r.Pattern, Exclude: r.Exclude, Disabled: r.Disabled, Source: r.Source.String(),
			ReplyTimeout: e.ReplyTimeout, ReplyTimeoutSet: e.ReplyTimeoutSet, StickyIgnore: e.StickyIgnore, Stateless: e.Stateless,
			FailOnStatus: e.FailOnStatusText(), Active: strings.Join(e.Active, ","), Disable: strings.Join(e.Disabled, ","), Stop: strings.Join(e.Stopped, ","),
			UseServerErrors: e.UseServerErrors,
		})
	}
	return all
}

func (l *lb) snapshot(known map[string]Member) status.Worker {
	load, tuning, own := l.balancer.Load(), l.balancer.Tuning(), l.tuning.Load()
	w := status.Worker{
		Name: l.name, Type: string(l.typ),
		Sticky: own.sticky, StickyForce: tuning.StickyForce, Pessimistic: own.pessimistic, Retries: own.rounds, RetryInterval: own.interval,
		RecoverTime: tuning.RecoverTime, ErrorEscalationTime: tuning.ErrorEscalationTime, MaxReplyTimeouts: tuning.MaxReplyTimeouts,
		Busy: load.Busy, MaxBusy: load.MaxBusy, ResetAt: load.ResetAt, Maintain: l.balancing.Maintain, MaintainIn: load.MaintainIn,
	}
	if l.typ == worker.TypeLB {
		w.Method = tuning.Method.String()
	}
	for _, s := range l.balancer.Snapshot() {
		m := s.Value.(*member)
		e := m.endpoint()
		stats := e.Stats()
		state := s.State
		if stats.Full && state <= balance.StateOK {
			state = balance.StateBusy
		}
		sm := status.Member{
			Name: m.name, Type: string(m.settings().Type), Route: s.Route, Address: e.Address(), Connection: m.connection(),
			Activation: s.Activation.String(), State: state.String(),
			InService: s.State <= balance.StateForce && s.Activation != balance.Stopped && s.Phase != balance.Starting,
			ByGossip:  !m.fromFile,
			LBFactor:  s.LBFactor, LBMult: s.LBMult, LBValue: s.LBValue,
			Distance: s.Distance, Domain: s.Domain, Redirect: s.Redirect,
			Sessions: status.Unknown, InFlight: s.Busy, MaxInFlight: s.MaxBusy, Tunnels: int(m.tunnels.Load()), Open: stats.Open, MaxOpen: stats.MaxOpen,
			Waiting: stats.Waiting, Busy: stats.Busy,
			Served: s.Served, NewSessions: s.Sessions, Errors: s.Errors, ClientErrors: s.ClientErrors, Timeouts: s.ReplyTimeouts,
			Retries:   m.counts.retries.Load(),
			BytesRead: m.counts.read.Load(), BytesWritten: m.counts.written.Load(),
			LastErrorAt: s.LastError, RecoverIn: s.RecoverIn, FailedAt: s.LastError, ResetAt: s.ResetAt,
		}
		if !s.Drain.Since.IsZero() {
			sm.Draining = &status.Draining{Since: s.Drain.Since, Left: s.Drain.Left, EndsIn: s.Drain.EndsIn}
		}
		if g, ok := known[m.route]; ok {
			sm.Boot, sm.Phase = g.Boot, s.Phase.String()
		}
		if t := m.counts.last.Load(); t != nil {
			sm.LastError, sm.LastErrorAt = t.text, t.at
		}
		w.Members = append(w.Members, sm)
	}
	return w
}

// connection returns how m is reached.
func (m *member) connection() status.Connection {
	w := m.settings()
	c := status.Connection{
		Source: w.Source, PoolTimeout: w.PoolTimeout, PingTimeout: w.PingTimeout, ConnectTimeout: w.ConnectTimeout,
		PrepostTimeout: w.PrepostTimeout, ReplyTimeout: w.ReplyTimeout, PingInterval: w.PingInterval, Retries: w.Retries,
		RetryInterval: w.RetryInterval, RecoveryOptions: int(w.RecoveryOptions), BusyLimit: w.BusyLimit, MaxPacketSize: w.MaxPacketSize,
	}
	if w.Type == worker.TypeHTTP {
		c.ConnectTimeout = w.SocketConnectTimeout // proxy/worker/doc.go
	}
	if host, port, err := net.SplitHostPort(m.endpoint().Address()); err == nil {
		c.Host = host
		c.Port, _ = strconv.Atoi(port) // zero, which is none, if it has a name
	}
	return c
}
