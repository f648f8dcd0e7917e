package proxy

import (
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
	for _, l := range p.table.Load().workers {
		snap.Workers = append(snap.Workers, l.snapshot(known))
	}
	return snap
}

func (l *lb) snapshot(known map[string]Member) status.Worker {
	w := status.Worker{Name: l.name, Type: string(l.typ)}
	if l.typ == worker.TypeLB {
		w.Method = l.balancer.Tuning().Method.String()
	}
	for _, s := range l.balancer.Snapshot() {
		m := s.Value.(*member)
		e := m.endpoint()
		stats := e.Stats()
		sm := status.Member{
			Name: m.name, Route: m.route, Address: e.Address(),
			Activation: s.Activation.String(), State: s.State.String(),
			InService: s.State <= balance.StateForce && s.Activation != balance.Stopped && s.Phase != balance.Starting,
			ByGossip:  !m.fromFile,
			LBFactor:  s.LBFactor, LBValue: s.LBValue,
			Sessions: status.Unknown, InFlight: s.Busy, MaxInFlight: s.MaxBusy, Tunnels: int(m.tunnels.Load()), Open: stats.Open,
			Waiting: stats.Waiting, Busy: stats.Busy,
			Served: s.Served, NewSessions: s.Sessions, Errors: s.Errors, ClientErrors: s.ClientErrors,
			Retries:   m.counts.retries.Load(),
			BytesRead: m.counts.read.Load(), BytesWritten: m.counts.written.Load(),
			LastErrorAt: s.LastError, RecoverIn: s.RecoverIn,
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
