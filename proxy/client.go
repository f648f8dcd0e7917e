package proxy

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/balance"
)

// A Client is what the pipeline knows of a client's connection beside its bytes.
// It serves all requests of the connection, one after the other.
type Client struct {
	addr     netip.Addr           // zero if it has none, as on a Unix socket
	address  []byte               // its text, for logs and lists
	port     []byte               // its port, as text
	local    []byte               // the address that it has connected to, without the port
	proto    []byte               // http or https
	tls      *tls.ConnectionState // nil without TLS
	facts    *tlsFacts            // of tls, once a member over AJP13 is told; else nil
	cert     []byte               // the line Client-Cert (RFC 9440), if the client has shown one
	lines    []byte               // X-Forwarded-For and -Proto of it alone
	element  []byte               // the parameter for of Forwarded
	trusted  bool                 // it is a proxy whose word is believed
	stopFlag *atomic.Bool
}

// NewClient describes a connection from addr to local, with TLS unless secured is nil. Once
// stopping, which may be nil, is true, each reply is the last one on its
// connection.
func (p *Proxy) NewClient(addr, local net.Addr, secured *tls.ConnectionState, stopping *atomic.Bool) *Client {
	return p.newClient(addr.String(), local.String(), secured, stopping)
}

func (p *Proxy) newClient(addr, local string, secured *tls.ConnectionState, stopping *atomic.Bool) *Client {
	c := &Client{tls: secured, stopFlag: stopping, proto: []byte("http"), port: []byte(unknownPort), local: []byte("localhost")}
	if ap, err := netip.ParseAddrPort(local); err == nil {
		c.local = ap.Addr().Unmap().WithZone("").AppendTo(nil)
	}
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		c.addr = ap.Addr().Unmap().WithZone("")
		c.address = c.addr.AppendTo(nil)
		c.port = strconv.AppendUint(nil, uint64(ap.Port()), 10)
		c.trusted = p.trusted.contain(c.addr)
	} else {
		c.address = []byte("unknown")
	}
	if secured != nil {
		c.proto = []byte("https")
		if certs := secured.PeerCertificates; len(certs) > 0 {
			c.cert = fmt.Appendf(nil, "Client-Cert: :%s:\r\n", base64.StdEncoding.EncodeToString(certs[0].Raw))
		}
	}
	c.lines = fmt.Appendf(nil, "X-Forwarded-For: %s\r\nX-Forwarded-Proto: %s\r\n", c.address, c.proto)
	c.element = fmt.Appendf(nil, "for=%s", c.address)
	if c.addr.Is6() {
		c.element = fmt.Appendf(nil, `for="[%s]"`, c.address)
	}
	return c
}

// clientOf describes the client of a request of net/http's server.
func (p *Proxy) clientOf(r *http.Request) *Client {
	local := ""
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		local = a.String()
	}
	return p.newClient(r.RemoteAddr, local, r.TLS, nil)
}

func (c *Client) stopping() bool { return c.stopFlag != nil && c.stopFlag.Load() }

// maxIdle bounds the exchanges that wait to be used again.
const maxIdle = 1024

// take returns an exchange for one request.
func (p *Proxy) take() *exchange {
	var x *exchange
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		x = p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
	}
	p.mu.Unlock()
	if x == nil {
		x = &exchange{p: p}
		x.one.x, x.two.x = x, x
		x.serves = func(route []byte) bool { return x.lb.balancer.Serves(route, &x.want) }
		x.knows = func(route []byte) bool { return x.lb.balancer.Knows(route) }
		x.msg.Init(p.bufs)
		x.pump.out.Init(p.bufs)
		x.spooled.s = p.spool
		x.one.head.Init(p.bufs)
		x.two.head.Init(p.bufs)
		x.two.lines.Init(p.bufs)
		x.two.got, x.two.cut = make(chan read, 1), make(chan struct{}, 1)
	}
	x.table = p.table.Load()
	return x
}

// give takes it back. It holds no buffer and no connection meanwhile.
func (p *Proxy) give(x *exchange) {
	x.msg.Free()
	x.pump.out.Free()
	x.ajp.free(p.bufs)
	x.spooled.free()
	x.one.head.Free()
	x.one.conn, x.one.last, x.one.cut = nil, false, false
	if x.two.w != nil {
		x.two.reset()
	}
	x.from, x.in, x.out = nil, nil, nil
	x.origin.used, x.origin.hop = 0, hop{}
	x.answer = ErrorPage{}
	x.table, x.lb, x.mapping, x.ref, x.want, x.round = nil, nil, nil, cookie.Reference{}, balance.Request{}, balance.Round{}
	x.rounds, x.inRound, x.attempts, x.resends = 0, 0, 0, 0
	x.full, x.patient, x.until = false, false, time.Time{}
	x.failure, x.cause, x.lost, x.busy, x.spare, x.wary, x.paid = failNone, nil, false, false, false, false, false
	x.upgrade, x.settled, x.beyond = false, false, 0
	x.status, x.begun, x.read, x.written, x.headBytes = 0, false, 0, 0, 0
	x.served, x.lines = nil, nil
	x.id, x.phases = nil, accesslog.Phases{}
	p.mu.Lock()
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, x)
	}
	p.mu.Unlock()
}

// reset forgets the request of net/http's server.
func (c *client2) reset() {
	c.end()
	c.w, c.r, c.err = nil, nil, nil
	c.head.Free()
	c.lines.Free()
	if c.buf != nil {
		c.x.p.bufs.Put(c.buf)
		c.buf = nil
	}
}
