package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSeedThatComesLater(t *testing.T) {
	bubble(t, func(w *world) {
		w.net.Host(ipA) // the machine is there, and refuses
		b := w.start("b", ipB, gossipAt(ipA), gossipAt("10.0.9.9"))
		c := w.start("c", ipC, gossipAt(ipA))
		time.Sleep(10 * time.Minute)
		if got := b.names(); got != "b#1" {
			t.Fatalf("b sees %s", got)
		}
		if !b.log.contains("seed does not answer", gossipAt(ipA)) {
			t.Error("the log does not say that the seed does not answer")
		}
		a := w.start("a", ipA)
		w.meet(5*time.Second, a, b, c)
	})
}

// TestSeedNamesAreResolvedAtEachTry covers K11: the name gets other addresses,
// more of them, and is unknown for a while.
func TestSeedNamesAreResolvedAtEachTry(t *testing.T) {
	bubble(t, func(w *world) {
		var addrs atomic.Pointer[[]string]
		resolve := func(_ context.Context, host string) ([]string, error) {
			if p := addrs.Load(); p != nil && host == "seeds.example" {
				return *p, nil
			}
			return nil, errors.New("no such host")
		}
		b, err := w.try(ipB, Config{Self: Member{Name: "b"}, Join: []string{"seeds.example:7946"}, Resolve: resolve})
		if err != nil {
			t.Fatal(err)
		}
		a := w.start("a", ipA)
		time.Sleep(time.Minute)
		if len(b.Members()) != 1 {
			t.Fatal("b knows somebody")
		}
		addrs.Store(&[]string{ipD}) // nobody there
		time.Sleep(time.Minute)
		addrs.Store(&[]string{ipD, ipA, ipB})
		w.meet(5*time.Second, a, b)

		c := w.start("c", ipC) // nobody tells c of the others, nor them of c, but the name
		addrs.Store(&[]string{ipA, ipB, ipC})
		w.meet(seedsEvery+5*time.Second, a, b, c)
	})
}

// TestSeedBehindAnotherAddress: the address in Join is not the one the member
// announces. It must not be joined for ever.
func TestSeedBehindAnotherAddress(t *testing.T) {
	bubble(t, func(w *world) {
		var lookups atomic.Int32
		resolve := func(context.Context, string) ([]string, error) {
			lookups.Add(1)
			return []string{ipA}, nil
		}
		// a is reached at ipA, and announces the name of another address that
		// leads there too in real life; here it is its own other port.
		a, err := w.try(ipA, Config{Self: Member{Name: "a"}, Advertise: ipC + ":7946"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.try(ipB, Config{Self: Member{Name: "b"}, Join: []string{"a.example:7946"}, Resolve: resolve})
		if err != nil {
			t.Fatal(err)
		}
		w.within(2*time.Second, "they meet", func() bool { return len(b.Members()) == 2 && len(a.Members()) == 2 })
		before := lookups.Load()
		time.Sleep(3 * time.Second) // before gossip finds out that C leads nowhere
		if n := lookups.Load() - before; n > 1 {
			t.Errorf("%d lookups in 3s although all are found", n)
		}
	})
}

func TestLostAddressesAreTriedInTurns(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", ipA)
		for i := range uint32(50) {
			m := Member{Name: fmt.Sprint("x", i), Boot: 100 + i, Gossip: fmt.Sprintf("10.0.5.%d:7946", i)}
			a.view.alive(entry{Member: m})
			a.view.failed(m.ID())
		}
		living, lost := a.view.addresses()
		if len(living) != 1 || len(lost) != 50 {
			t.Fatalf("%d living, %d lost", len(living), len(lost))
		}
		b := w.start("b", "10.0.5.49") // comes where one was lost
		w.meet(30*time.Second, a, b)
	})
}

func TestLostMembersAreForgottenAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newView(entry{Member: Member{Name: "a", Boot: 1}})
		m := Member{Name: "b", Boot: 2, Gossip: gossipAt(ipB)}
		v.alive(entry{Member: m})
		v.failed(m.ID())
		time.Sleep(lostFor)
		if _, lost := v.addresses(); len(lost) != 1 {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Second)
		if _, lost := v.addresses(); len(lost) != 0 {
			t.Error("not forgotten")
		}
	})
}
