package endpoint

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// maxProbeBody is how much an answer to a probe may have to say.
const maxProbeBody = 64 << 10

// probeRequest is the smallest request that every server of HTTP/1.1 answers
// (RFC 9110 section 9.3.7: "a no-op … allows the client to test the
// capabilities of the server").
func probeRequest(cfg Config) []byte {
	var out http1.Out
	out.Init(cfg.Buffers)
	out.RawString("OPTIONS * HTTP/1.1\r\n")
	out.FieldString("Host", cfg.Host)
	out.EndHead()
	p := append([]byte(nil), out.Bytes()...)
	out.Free()
	return p
}

// Probe asks the member whether it lives: a new connection and an answer on it,
// at most ConnectTimeout and ProbeTimeout. Nil means that it does; it decides
// what gossip only supposes (design D3). If the member is silent the kept
// connections are closed.
func (e *Endpoint) Probe(ctx context.Context) *Failure {
	c, f := e.connectTo(ctx)
	if f != nil {
		if f.Kind == ConnectTimeout {
			e.CloseKept()
		}
		return f
	}
	answered, usable, err := e.ask(c, e.probeTimeout)
	if !usable || !e.keep(c) {
		c.drop()
	}
	if answered {
		return nil
	}
	if errors.Is(err, errSilent) {
		e.CloseKept()
	}
	return e.fail(ProbeFailed, err)
}

// check probes a kept connection if that is due. answered says that the member
// lives, usable that the request may go over this connection; err says why not.
func (e *Endpoint) check(c *Conn) (answered, usable bool, err error) {
	wait := e.prepost
	if wait <= 0 {
		if e.probeAfter < 0 || time.Since(c.idle) <= e.probeAfter {
			return false, true, nil
		}
		wait = e.probeTimeout
	}
	answered, usable, err = e.ask(c, wait)
	if errors.Is(err, errSilent) {
		// The others were idle for even longer. Each of them would cost wait.
		e.CloseKept()
	}
	return answered, usable, err
}

// checkNew probes a new connection if that is due: also if the member has been silent
// on a kept one, since a process that is frozen is connected to all the same. If the member answers and
// closes, the connection is replaced by another, which is not probed.
func (e *Endpoint) checkNew(ctx context.Context, c *Conn, silent bool) (*Conn, *Failure) {
	wait := e.connectProbe
	if wait <= 0 {
		wait = e.prepost
	}
	switch {
	case wait > 0:
	case silent:
		wait = e.probeTimeout
	default:
		return c, nil
	}
	answered, usable, err := e.ask(c, wait)
	if usable {
		return c, nil
	}
	c.drop()
	if answered {
		return e.connectTo(ctx)
	}
	return nil, e.fail(ProbeFailed, err)
}

// ask sends a probe over c, which is a CPING over AJP13, and waits for the complete
// answer, whatever its status (seeds.md 4.7).
func (e *Endpoint) ask(c *Conn, wait time.Duration) (answered, usable bool, err error) {
	e.counts.probes.Add(1)
	defer func() {
		if !answered {
			e.counts.probeFailures.Add(1)
		}
	}()
	by := time.Now().Add(wait)
	c.wire.SetReadDeadline(by)
	defer c.wire.SetReadTimeout(e.wire.ReadTimeout)
	if e.packet > 0 {
		err = c.askAJP()
		usable = err == nil && c.wire.Buffered() == 0
	} else {
		usable, err = c.askHTTP()
	}
	c.wire.Release()
	switch {
	case err == nil:
		return true, usable, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, false, errSilent
	}
	return false, false, ended(err)
}

// askHTTP sends the probe and reads the answer.
func (c *Conn) askHTTP() (usable bool, err error) {
	if _, err := c.wire.Write(c.e.probe); err != nil {
		return false, err
	}
	var rep http1.Reply
	for range maxInterims {
		if err = c.wire.ReadReply(&rep, http1.MethodOptions); err != nil || !rep.Interim() {
			break
		}
	}
	if err == nil && rep.Interim() {
		err = errManyInterims
	}
	if err == nil {
		err = rep.Body.Discard(maxProbeBody)
	}
	return err == nil && !rep.Close && !rep.Switched() && c.wire.Buffered() == 0, err
}
