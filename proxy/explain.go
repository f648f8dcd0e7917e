package proxy

import (
	"fmt"

	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A Choice tells where a request would go.
type Choice struct {
	Worker string // empty: nowhere, and Err says why
	Err    error
	Type   worker.Type

	// Where a session is looked for; empty if it is not.
	Cookie, Param string

	Session            bool   // the request names one
	Signed             bool   // with a cookie of our nodes, which has been verified
	Forged             int    // values that looked like that, and are not
	Primary, Secondary string // the routes that count of those that it names

	// Asked are the members in the order in which they are asked if one after the
	// other cannot be reached. All others of the worker are Left.
	Asked, Left []Asked
}

// Asked is what a member has to do with a request.
type Asked struct {
	Member, Route, Address string
	Activation             string // for this request: ACT, DIS or STP
	LBFactor, Distance     int
	Reason                 string // why it is asked: a word of [balance.Reason]
}

// Explain sends a request for target with these Cookie lines through the pipeline up
// to where a member would get it, and says which ones would, in the state in which they
// are now. It leases members, so that its next requests are balanced as if this one
// had come; it is for a proxy that serves nobody.
//
// The error says what is wrong with the request itself.
func (p *Proxy) Explain(host, target string, cookies ...string) (Choice, error) {
	head := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n", target, host)
	for _, c := range cookies {
		head = fmt.Appendf(head, "Cookie: %s\r\n", c)
	}
	head = append(head, "\r\n"...)
	x := p.take()
	defer p.give(x)
	x.from = p.newClient("127.0.0.1:1", "127.0.0.1:1", nil, nil)
	x.req.Reset()
	if n, err := x.req.Parse(head, p.limits); err != nil || n != len(head) {
		return Choice{}, fmt.Errorf("proxy: %q is no URI that can be asked for: %w", target, err)
	}
	x.locate()
	x.want.Round = &x.round
	if x.route() != failNone {
		return Choice{Err: x.cause}, nil
	}
	c := Choice{
		Worker: x.lb.name, Type: x.lb.typ, Session: x.ref.Present, Signed: x.ref.Signed, Forged: x.ref.Forged,
		Primary: string(x.want.Primary), Secondary: string(x.want.Secondary),
	}
	if x.mapping.finder != nil && x.lb.tuning.Load().sticky {
		c.Cookie, c.Param = x.mapping.cookie, x.mapping.param
	}
	all := map[string]Asked{} // by route
	for _, s := range x.lb.balancer.Snapshot() {
		m := s.Value.(*member)
		a := Asked{
			Member: m.name, Route: s.Route, Address: m.endpoint().Address(),
			Activation: s.Activation.String(), LBFactor: s.LBFactor, Distance: s.Distance,
		}
		if is, ok := x.want.Activations[m.name]; ok {
			a.Activation = is.String()
		}
		all[s.Route] = a
		c.Left = append(c.Left, a)
	}
	for {
		lease, err := x.lb.balancer.Pick(x.want)
		if err != nil {
			break
		}
		a := all[lease.Route()]
		a.Reason = lease.Reason().String()
		c.Asked = append(c.Asked, a)
		lease.Done(balance.Unused)
		x.refind()
	}
	c.Left = without(c.Left, c.Asked)
	return c, nil
}

// without returns those of all whose routes are not among some.
func without(all, some []Asked) []Asked {
	var left []Asked
	for _, a := range all {
		found := false
		for _, s := range some {
			found = found || s.Route == a.Route
		}
		if !found {
			left = append(left, a)
		}
	}
	return left
}
