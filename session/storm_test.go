package session

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A rider is a client that counts, and knows what it must see: never less than
// the last value acknowledged, never more than that and its errors (design 5).
type rider struct {
	browser
	rand   *rand.Rand
	last   int // acknowledged
	errors int // since then, each may have counted
	lost   int // replies that were flagged

	orderly  bool // members stop in good order, so that every reply counts
	failures int  // all errors
}

func newRider(t *testing.T, seed uint64) *rider {
	return &rider{browser: browser{t: t}, rand: rand.New(rand.NewPCG(seed, 7)), orderly: true}
}

// ride sends one request as the proxy does: to the primary that the cookie
// names, else to the secondary, else to anybody; sometimes to a wrong one; on to
// the next on Not-Executed.
func (r *rider) ride(f *farm, alive []string) {
	order := append([]string(nil), alive...)
	r.rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	if v, err := f.codec.Decode(r.value); err == nil && r.rand.IntN(5) > 0 {
		order = append([]string{v.Primary, v.Secondary}, order...)
	}
	tried := map[string]bool{}
	for _, name := range order {
		f.mu.Lock()
		n := f.nodes[name]
		up := n != nil && !f.down[name]
		f.mu.Unlock()
		if !up || tried[name] {
			continue
		}
		tried[name] = true
		got := r.get(n, "/counter")
		f.mu.Lock()
		died := !r.orderly && (f.down[name] || f.nodes[name] != n)
		f.mu.Unlock()
		switch {
		case died: // the client got no reply, and its cookie is what it was
			if got.header.Get("Set-Cookie") != "" {
				r.value = r.before
			}
			r.fail()
			return
		case got.header.Get(NotExecuted) != "":
			continue
		case got.code != http.StatusOK:
			r.fail()
			return
		}
		if got.Lost {
			r.lost++
		} else if got.Counter <= r.last || got.Counter > r.last+r.errors+1 {
			r.t.Errorf("at %s: counter %d after %d and %d errors: %+v", name, got.Counter, r.last, r.errors, got)
		}
		r.last, r.errors = got.Counter, 0
		return
	}
	r.fail() // nobody took it: it has not counted, which the bounds allow
}

func (r *rider) fail() {
	r.errors++
	r.failures++
}

// TestStorm has clients count while members die and come back, and while links
// are cut and heal. As long as only members go, one after the other, nothing is
// lost (G1); whatever happens, no client sees its counter go back without being
// told (G2).
func TestStorm(t *testing.T) {
	for seed := range uint64(10) {
		for _, cuts := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d/cuts=%v", seed, cuts), func(t *testing.T) { storm(t, Config{}, seed, cuts) })
		}
	}
}

// TestStormInEveryMode: where replies do not wait changes are lost, and clients are
// told (G2).
func TestStormInEveryMode(t *testing.T) {
	for _, cfg := range []Config{{NoAck: true}, {Mode: Asynchronous}, {Mode: Pooled, Pool: 2}, {Mode: FastAsyncQueue}, {Mode: FastAsyncQueue, QueueLimit: 2}} {
		seeds := uint64(8)
		if testing.Short() {
			seeds = 1
		}
		for seed := range seeds {
			for _, cuts := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/ack=%v/limit=%d/seed=%d/cuts=%v", cfg.Mode, !cfg.NoAck, cfg.QueueLimit, seed, cuts), func(t *testing.T) { storm(t, cfg, seed, cuts) })
			}
		}
	}
}

func storm(t *testing.T, cfg Config, seed uint64, cuts bool) {
	const clients, steps = 6, 12
	waits := !cfg.NoAck && !cfg.Mode.queued()
	bubble(t, cfg, "abcd", func(t *testing.T, f *farm) {
		var wg sync.WaitGroup
		var riders []*rider
		stop := make(chan struct{})
		all := []string{"a", "b", "c", "d"}
		for n := range clients {
			r := &rider{browser: browser{t: t}, rand: rand.New(rand.NewPCG(seed, uint64(n)))}
			riders = append(riders, r)
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					r.ride(f, all)
					time.Sleep(time.Duration(r.rand.IntN(50)) * time.Millisecond)
				}
			})
		}
		f.weather(rand.New(rand.NewPCG(seed, 99)), all, steps, cuts)
		close(stop)
		wg.Wait()
		synctest.Wait()
		for n, r := range riders {
			if r.lost > 0 && !cuts && waits {
				t.Errorf("client %d: %d replies were flagged though only members went", n, r.lost)
			}
			if r.last == 0 {
				t.Errorf("client %d has counted nothing", n)
			}
		}
	})
}

// weather kills, restarts, cuts and heals.
func (f *farm) weather(rnd *rand.Rand, all []string, steps int, cuts bool) {
	var cut [][2]string
	for range steps {
		time.Sleep(time.Second + time.Duration(rnd.IntN(1000))*time.Millisecond)
		one, other := all[rnd.IntN(len(all))], all[rnd.IntN(len(all))]
		switch kind := rnd.IntN(3); {
		case cuts && kind == 0 && one != other:
			f.net.Cut(f.nodes[one].ip, f.nodes[other].ip)
			cut = append(cut, [2]string{f.nodes[one].ip, f.nodes[other].ip})
		case cuts && kind == 1:
			for _, c := range cut {
				f.net.Heal(c[0], c[1])
			}
			cut = nil
		case f.down[one]:
			f.start(one)
			f.mu.Lock()
			f.down[one] = false
			f.mu.Unlock()
		case len(f.down) == 0 || f.alive(all) > 2:
			f.mu.Lock()
			f.down[one] = true
			f.mu.Unlock()
			f.kill(one)
		}
	}
	for _, c := range cut {
		f.net.Heal(c[0], c[1])
	}
	time.Sleep(5 * time.Second)
}

func (f *farm) alive(all []string) (n int) {
	for _, name := range all {
		if !f.down[name] {
			n++
		}
	}
	return n
}
