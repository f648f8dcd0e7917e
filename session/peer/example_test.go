package peer_test

import (
	"fmt"
	"net"

	"github.com/understudy-lb/understudy/session/peer"
)

// A clerk answers every question, and asks one when it is connected.
type clerk struct {
	question string
	answer   chan string
}

func (k *clerk) Open(*peer.Conn) func() error { return nil } // no sessions, nothing to compare

func (k *clerk) Up(c *peer.Conn) {
	if k.question != "" {
		_, _ = c.Ask([]byte(k.question)) // an error is told to Down
	}
}

func (k *clerk) Frame(c *peer.Conn, f peer.Frame) {
	if f.Kind == peer.Ask {
		_ = c.Answer(f.Number, fmt.Appendf(nil, "%s, said %v", f.Data, c.ID())) // an error is told to Down
		return
	}
	k.answer <- string(f.Data)
}

func (k *clerk) Down(*peer.Conn, error)      {}
func (k *clerk) Failed(peer.ID, bool, error) {}

// start starts a member on a port of loopback, where no key is needed.
func start(name string, k *clerk) (*peer.Set, peer.Member) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	id := peer.ID{Name: name, Boot: 1}
	s, err := peer.New(peer.Config{Self: id, Listener: ln, Handler: k})
	if err != nil {
		panic(err)
	}
	return s, peer.Member{ID: id, Addr: ln.Addr().String()}
}

func ExampleSet() {
	asker := &clerk{question: "who is there", answer: make(chan string, 1)}
	a, ma := start("a", asker)
	b, mb := start("b", &clerk{})
	defer a.Close() //nolint:errcheck // an example
	defer b.Close() //nolint:errcheck // an example

	a.Members([]peer.Member{ma, mb})
	b.Members([]peer.Member{ma, mb})
	fmt.Println(<-asker.answer)
	// Output: who is there, said a#1
}
