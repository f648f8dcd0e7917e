package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy/balance"
	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// stopQuiet is how long a tunnel must have been quiet to be ended when the proxy
// stops: between two messages, as far as that can be told without knowing their
// protocol.
const stopQuiet = time.Second

// A member that holds a tunnel is asked by TCP keep-alive whether its machine is
// still there, for silence is no fault in a tunnel. It is found out after aliveEvery
// times one more than aliveTries.
const (
	aliveEvery = 15 * time.Second
	aliveTries = 4
)

// maxProtocols bounds the protocols that one request may ask for; further ones are
// not passed on.
const maxProtocols = 16

var (
	errTunnels     = errors.New("proxy: as many tunnels as Config.MaxTunnels")
	errUnasked     = errors.New("proxy: 101 Switching Protocols to what nobody asked for")
	errEarly       = errors.New("proxy: 101 Switching Protocols before the request had ended")
	errTunnelIdle  = errors.New("proxy: the tunnel was idle for Config.TunnelTimeout")
	errTunnelStops = errors.New("proxy: the tunnel ends with the proxy")
)

// protocols returns what the Upgrade lines of h name and may be switched to, each
// once (peers.md B35, E05, E08).
//
// HTTP is left out, and TLS, which would hold HTTP: what comes through such a
// tunnel would pass by all checks (B34).
func protocols(h *http1.Head) [][]byte {
	var list [][]byte
	for i := h.Find(http1.NameUpgrade, 0); i >= 0; i = h.Find(http1.NameUpgrade, i+1) {
		item, rest := http1.NextItem(h.Value(i))
		for ; item != nil && len(list) < maxProtocols; item, rest = http1.NextItem(rest) {
			if mayUpgrade(item) && !names(list, item) {
				list = append(list, item)
			}
		}
	}
	return list
}

// mayUpgrade reports whether a connection may be switched to p, which is a name
// with or without a version (RFC 9110 section 7.8).
func mayUpgrade(p []byte) bool {
	for _, c := range p {
		if c <= ' ' || c >= 0x7f || c == '"' || c == ';' {
			return false
		}
	}
	name, _, _ := bytes.Cut(bytes.ToLower(p), []byte("/"))
	switch string(name) {
	case "", "http", "h2", "tls":
		return false
	}
	return !bytes.HasPrefix(name, []byte("h2c"))
}

// names reports whether list has p.
func names(list [][]byte, p []byte) bool {
	return slices.ContainsFunc(list, func(q []byte) bool { return bytes.EqualFold(p, q) })
}

// writeUpgrade writes the Upgrade line for list. Who calls it has named it in the
// one Connection line.
func writeUpgrade(o *http1.Out, list [][]byte) {
	o.Field("Upgrade", bytes.Join(list, []byte(", ")))
}

// switched looks at a 101. The client must have asked for what it names, and its
// request must be with the member as a whole (RFC 9110 section 7.8).
func (x *exchange) switched() failure {
	got := protocols(&x.rep.Head)
	asked := protocols(&x.req.Head)
	if !x.upgrade || len(got) == 0 || slices.ContainsFunc(got, func(p []byte) bool { return !names(asked, p) }) {
		return x.stop(x.failed(failMalformed, errUnasked)) // peers.md C10, E04
	}
	if x.pump.halt(x); !x.pump.complete() {
		return x.stop(x.failed(failMalformed, errEarly))
	}
	return failNone
}

// A tunnel is a connection of a client and one of a member that have left HTTP, and
// pass on each other's bytes. Two goroutines work on it, one for each direction.
type tunnel struct {
	client *http1.Conn
	member *http1.Conn
	conn   *endpoint.Conn // of member
	idle   time.Duration  // zero: no limit

	last     atomic.Int64 // when something was last passed on; nanoseconds of Unix time
	stopping atomic.Bool
	up, down direction

	once    sync.Once
	failure failure // of the end, set once
	cause   error
}

// A direction of a tunnel. Its goroutine alone writes n.
type direction struct {
	n     int64       // bytes passed on
	ended atomic.Bool // by its sender, and that was passed on
}

// tunnel passes 101 on to the client and then, until both sides have ended or one
// is broken, everything either way. Each end of a side is passed on as such, so the
// other direction goes on (peers.md E02).
//
// A tunnel keeps its place in the member's requests in flight, and no buffer while
// it is quiet.
func (x *exchange) tunnel() failure {
	o := &x.one.head
	o.StatusLine(x.rep.Status, x.rep.Reason)
	o.Lines(&x.rep.Head)
	o.RawString("Connection: Upgrade\r\n")
	writeUpgrade(o, protocols(&x.rep.Head))
	o.EndHead()
	t := &tunnel{client: x.one.conn, member: x.conn.Wire(), conn: x.conn, idle: x.p.tunnelIdle}
	if err := t.client.Send(o); err != nil {
		return x.stop(x.failed(failGone, err))
	}
	x.settle(t)
	x.p.tunnels.add(t)
	x.member.tunnels.Add(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.pass(t.member, t.client, &t.down)
	}()
	t.pass(t.client, t.member, &t.up)
	<-done
	x.member.tunnels.Add(-1)
	x.p.tunnels.remove(t)
	x.read += t.up.n
	x.beyond += t.up.n
	x.written = t.down.n
	x.lost = t.conn.Abandoned()
	x.conn.Close()
	x.conn = nil
	return x.failed(t.failure, t.cause)
}

// settle ends what HTTP has been for: buffers go back, and the member has proven
// itself however long the tunnel lasts.
func (x *exchange) settle(t *tunnel) {
	x.answered()
	x.req.Own() // for the log
	x.id = bytes.Clone(x.id)
	x.ref, x.want = cookie.Reference{}, balance.Request{}
	x.beyond += int64(x.msg.Len())
	x.msg.Free()
	x.one.head.Free()
	t.client.SetWriteTimeout(t.idle)
	t.member.SetWriteTimeout(t.idle)
	t.last.Store(time.Now().UnixNano())
	if tcp, ok := t.member.NetConn().(*net.TCPConn); ok {
		// If it cannot be had, the idle time-out has to do.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: aliveEvery, Interval: aliveEvery, Count: aliveTries})
	}
}

// pass is the work of one direction.
func (t *tunnel) pass(from, to *http1.Conn, d *direction) {
	for {
		from.SetReadTimeout(t.patience())
		n, rerr, werr := from.Forward(to)
		if n > 0 {
			d.n += n
			t.last.Store(time.Now().UnixNano())
		}
		switch {
		case werr != nil:
			t.broken(to, werr)
			return
		case rerr == nil:
		case errors.Is(rerr, io.EOF):
			d.ended.Store(true)
			if errors.Is(to.CloseWrite(), errors.ErrUnsupported) {
				t.end(failNone, nil) // there is no half of it
			}
			return
		case errors.Is(rerr, http1.ErrInterrupted), isTimeout(rerr):
			from.Resume() // the deadline may be one of drain's that came late
			if t.conn.Abandoned() {
				t.end(failTunnel, errLost)
				return
			}
			if t.over() {
				return
			}
		default:
			t.broken(from, rerr)
			return
		}
	}
}

// patience returns how long a direction may still be silent; zero is for ever.
func (t *tunnel) patience() time.Duration {
	limit := t.limit()
	if limit == 0 {
		return 0
	}
	return max(time.Millisecond, limit-time.Since(time.Unix(0, t.last.Load())))
}

func (t *tunnel) limit() time.Duration {
	if t.stopping.Load() && (t.idle == 0 || t.idle > stopQuiet) {
		return stopQuiet
	}
	return t.idle
}

// over ends the tunnel if it has been quiet for long enough.
func (t *tunnel) over() bool {
	limit := t.limit()
	if limit == 0 || time.Since(time.Unix(0, t.last.Load())) < limit {
		return false
	}
	if t.stopping.Load() {
		t.end(failIdle, errTunnelStops)
	} else {
		t.end(failIdle, errTunnelIdle)
	}
	return true
}

// broken ends the tunnel because of an error of one side. A side that has said all
// it had to say may go as it likes.
func (t *tunnel) broken(side *http1.Conn, err error) {
	switch {
	case side == t.client && t.up.ended.Load(), side == t.member && t.down.ended.Load():
		t.end(failNone, nil)
	case side == t.client:
		t.end(failGone, err)
	case isTimeout(err): // a write that the member did not take
		t.end(failIdle, errTunnelIdle)
	default:
		t.end(failTunnel, err)
	}
}

// end closes both connections, so that both directions end. What was broken on one
// side is broken on the other. The first one who calls it says why.
func (t *tunnel) end(f failure, cause error) {
	t.once.Do(func() {
		t.failure, t.cause = f, cause
		for _, c := range [...]*http1.Conn{t.client, t.member} {
			if f == failGone || f == failTunnel {
				_ = c.Abort() // one of them is broken already
			} else {
				_ = c.Close()
			}
		}
	})
}

// drain has the tunnel end when it is quiet.
func (t *tunnel) drain() {
	t.stopping.Store(true)
	t.client.Interrupt()
	t.member.Interrupt()
}

// tunnels are those that are open. The zero value is ready.
type tunnels struct {
	mu       sync.Mutex // guards what follows; held for O(open) when the proxy stops, never across I/O that waits
	open     map[*tunnel]struct{}
	draining bool
	taken    int // places taken by requests that ask for one, and by tunnels
}

// take takes a place for a request that may become a tunnel, if there are not as
// many as most already; zero is no limit.
func (s *tunnels) take(most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most > 0 && s.taken >= most {
		return false
	}
	s.taken++
	return true
}

// leave gives a place back.
func (s *tunnels) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
}

func (s *tunnels) add(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*tunnel]struct{})
	}
	s.open[t] = struct{}{}
	t.stopping.Store(s.draining)
}

func (s *tunnels) remove(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, t)
}

// DrainTunnels has each tunnel end as soon as nothing has come through it for a
// second, and those that begin later as well: the proxy stops. It does not wait.
func (p *Proxy) DrainTunnels() {
	s := &p.tunnels
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for t := range s.open {
		t.drain()
	}
}

// CutTunnels ends all tunnels at once. It does not wait for them.
func (p *Proxy) CutTunnels() {
	s := &p.tunnels
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.open {
		t.end(failIdle, errTunnelStops)
	}
}
