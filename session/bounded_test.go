package session

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

// A sphinx is a member that takes everything and answers nothing but heartbeats.
type sphinx struct {
	compares chan struct{} // closed when it has compared its sessions
}

func (s *sphinx) Open(*peer.Conn) func() error {
	return func() error {
		<-s.compares
		return nil
	}
}
func (s *sphinx) Up(*peer.Conn)                {}
func (s *sphinx) Frame(*peer.Conn, peer.Frame) {}
func (s *sphinx) Down(*peer.Conn, error)       {}
func (s *sphinx) Failed(peer.ID, bool, error)  {}

// sphinx adds one of that name to the farm. Its functions have it compare, and end.
func (f *farm) sphinx(name string) (compare, end func()) {
	f.t.Helper()
	f.boots++
	self := cluster.Member{Name: name, Boot: 100 + f.boots, State: cluster.Running, Replication: "10.0.0.200:7000"}
	host := f.net.Host("10.0.0.200")
	ln, err := host.Listen("tcp", ":7000")
	if err != nil {
		f.t.Fatal(err)
	}
	s := &sphinx{make(chan struct{})}
	set, err := peer.New(peer.Config{
		Self: peerID(ownerMember(self)), Listener: ln, Keys: [][]byte{bytes.Repeat([]byte{9}, 32)}, Handler: s, MaxFrame: maxFrame, MaxQueue: maxQueue,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) { return host.Dial(ctx, "tcp", addr) },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	members := []peer.Member{{ID: peerID(ownerMember(self)), Addr: self.Replication}}
	for _, n := range f.nodes {
		members = append(members, peer.Member{ID: peerID(ownerMember(n.self)), Addr: n.self.Replication})
	}
	set.Members(members)
	f.dir.join(self)
	time.Sleep(time.Second)
	compare = sync.OnceFunc(func() {
		close(s.compares)
		time.Sleep(100 * time.Millisecond)
	})
	return compare, func() {
		compare() // Close waits for it
		must(f.t, set.Close())
	}
}

// TestHolderThatAnswersHeartbeatsOnly is G8: no request waits for ever, also not
// for somebody who lives and says nothing.
func TestHolderThatAnswersHeartbeatsOnly(t *testing.T) {
	bubble(t, Config{ExclusiveWait: 2 * time.Second, Placement: Ring}, "ab", func(t *testing.T, f *farm) {
		compare, end := f.sphinx("z")
		defer end()
		compare()
		v := cookie.Value{ID: newID(), Primary: "z", Secondary: "a", Epoch: cookie.Epoch{N: 1, Boot: 1, Seq: 1}}
		value, err := f.codec.Encode(v)
		must(t, err)
		a := f.nodes["a"]
		for range 2 {
			client := &browser{t: t, value: value}
			start := time.Now()
			refused(t, client.get(a, "/peek"), "no answer")
			if took := time.Since(start); took > 6*(2*time.Second+answerSteps*DefaultAckTimeout) {
				t.Errorf("the answer took %v", took)
			}
		}
		synctest.Wait()
		e := a.m.table.hold(v.ID)
		if e.machine.Busy() {
			t.Error("something is under way for ever")
		}
		a.m.table.drop(e)
		if got := (&browser{t: t}).get(a, "/counter"); got.code != http.StatusOK {
			t.Errorf("another session: %d", got.code)
		}
	})
}

// What is kept for a member that does not end its compare is bounded.
func TestHeldIsBounded(t *testing.T) {
	bubble(t, Config{}, "a", func(t *testing.T, f *farm) {
		_, end := f.sphinx("z")
		m := f.nodes["a"].m
		var l *link
		for p, x := range m.links.snapshot() {
			if p.Name == "z" {
				l = x
			}
		}
		c := l.comparing()
		if c == nil {
			t.Fatal("a does not compare with z")
		}
		data := make([]byte, 1<<20)
		for range maxHeld/len(data) + 2 {
			l.send(owner.Ack, data)
		}
		l.mu.Lock()
		if l.heldSize > maxHeld {
			t.Errorf("%d bytes are held, want at most %d", l.heldSize, maxHeld)
		}
		l.mu.Unlock()
		synctest.Wait()
		if l.comparing() == c {
			t.Error("the connection lives on without what was dropped")
		}
		end()
	})
}
