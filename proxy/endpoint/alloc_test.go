package endpoint

import (
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// exchange is one request over a kept connection, with the reply read.
func exchange(t testing.TB, e *Endpoint, request []byte, rep *http1.Reply) {
	c, f := e.Send(t.Context(), request, Wait{})
	if f != nil {
		t.Fatal(f)
	}
	if f := c.ReadReply(rep, http1.MethodGet); f != nil {
		t.Fatal(f)
	}
	if err := rep.Body.Discard(100); err != nil {
		t.Fatal(err)
	}
	c.Done(rep)
}

// The gate of design section 6, for the member's side: the look, the deadlines
// and a limit included.
func TestSendAllocs(t *testing.T) {
	m := serve(t, listen(t), sayBytes([]byte(okReply)))
	e := newEndpoint(t, Config{
		Address: m.ln.Addr().String(), MaxConns: 4,
		ReplyTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	var rep http1.Reply
	request := []byte(getRequest)
	if n := testing.AllocsPerRun(500, func() { exchange(t, e, request, &rep) }); n != 0 {
		t.Errorf("%v allocations per exchange over a kept connection, want 0", n)
	}
	if s := e.Stats(); s.Dials != 1 {
		t.Errorf("Stats = %+v, want one dial", s)
	}
}

func BenchmarkSend(b *testing.B) {
	m := serve(b, listen(b), sayBytes([]byte(okReply)))
	e := newEndpoint(b, Config{Address: m.ln.Addr().String(), ReplyTimeout: time.Minute})
	var rep http1.Reply
	request := []byte(getRequest)
	b.ReportAllocs()
	for b.Loop() {
		exchange(b, e, request, &rep)
	}
}
