package proxy

import (
	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// Snapshot returns how the proxy's members stand. What it does not know (its own
// name and version, gossip, and how many sessions a member has) is for the caller
// to fill in.
func (p *Proxy) Snapshot() status.Snapshot {
	w := status.Worker{Name: p.lb.name, Type: string(worker.TypeLB), Method: worker.ByRequest.String()}
	p.gossip.mu.Lock()
	known := p.gossip.known
	p.gossip.mu.Unlock()
	for _, s := range p.lb.balancer.Snapshot() {
		m := s.Value.(*member)
		e := m.endpoint()
		stats := e.Stats()
		sm := status.Member{
			Name: m.name, Route: m.route, Address: e.Address(),
			Activation: s.Activation.String(), State: s.State.String(),
			InService: s.State <= balance.StateForce && s.Activation != balance.Stopped && s.Phase != balance.Starting,
			ByGossip:  !m.fromFile,
			LBFactor:  s.LBFactor, LBValue: s.LBValue,
			Sessions: status.Unknown, InFlight: s.Busy, MaxInFlight: s.MaxBusy, Open: stats.Open,
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
	return status.Snapshot{Started: p.started, Workers: []status.Worker{w}}
}
