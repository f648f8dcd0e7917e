package owner

import (
	"fmt"
	"slices"
	"testing"
)

// script is a world with the words of the test vectors.
type script struct {
	*world
	c1 cookie // A!B!1A
}

// newScript is the start of every vector: n members, A!B, epoch 1A, version 1.
func newScript(t *testing.T, n int) *script { return newScriptOf(t, n, 1) }

// newScriptOf is newScript with so many secondaries.
func newScriptOf(t *testing.T, n int, want uint8) *script { return scriptIn(t, newWorld(t, n, want)) }

func scriptIn(t *testing.T, w *world) *script {
	w.tracing = true
	t.Cleanup(func() {
		if w.violation != "" {
			t.Errorf("violation: %s", w.violation)
		}
		if t.Failed() {
			for _, l := range w.trace {
				t.Log(l)
			}
		}
	})
	return &script{world: w, c1: w.jar}
}

func at(name string) int { return int(name[0] - 'A') }

// send lets a request arrive and delivers nothing.
func (s *script) send(k kind, where string, c cookie) *client {
	r := &client{kind: k, cookie: c, invAtAll: s.invalidated}
	if k == write {
		r.bit = 1 << s.nextBit
		s.nextBit++
	}
	s.requests = append(s.requests, r)
	s.arrive(r, s.nodes[at(where)])
	return r
}

// do lets a request arrive and delivers what can be delivered.
func (s *script) do(k kind, where string, c cookie) *client {
	r := s.send(k, where, c)
	s.settle()
	return r
}

// slow lets a write arrive whose handler does not return by itself.
func (s *script) slow(where string, c cookie) *client {
	s.auto = false
	r := s.do(write, where, c)
	r.slow, s.auto = true, true
	return r
}

// over has A find that the session is over.
func (s *script) over() {
	s.note("A finds the session over")
	s.nodes[0].step(Event{Kind: Expire})
	s.settle()
}

func (s *script) hold(from, to string)    { s.held[at(from)][at(to)] = true }
func (s *script) release(from, to string) { s.held[at(from)][at(to)] = false }

// pass delivers one frame.
func (s *script) pass(from, to string) {
	s.t.Helper()
	n := s.nodes[at(to)]
	if c := n.conns[at(from)]; c == nil || len(c.in) == 0 {
		s.t.Fatalf("nothing is on its way from %s to %s", from, to)
	}
	s.deliver(n, at(from))
}

// part breaks connections, "A B" or "A C", and all leases over them end.
func (s *script) part(pairs ...string) {
	for _, p := range pairs {
		s.cut(at(p), at(p[2:]))
	}
	s.settle()
	for _, p := range pairs {
		s.expire(p[:1], p[2:])
	}
	s.settle()
}

func (s *script) expire(a, b string) {
	s.lapse(at(a), at(b))
	s.lapse(at(b), at(a))
}

func (s *script) join(pairs ...string) {
	for _, p := range pairs {
		s.connect(at(p), at(p[2:]))
	}
	s.settle()
	for _, p := range pairs {
		s.lease[at(p)][at(p[2:])], s.lease[at(p[2:])][at(p)] = true, true
	}
}

func (s *script) kill(name string) {
	s.die(at(name))
	for j := range s.n {
		s.lapse(j, at(name))
	}
	s.settle()
}

func (s *script) start(name string) {
	s.restart(at(name), func(j int) bool { return s.nodes[j].up })
	s.settle()
	for j := range s.n {
		s.lease[at(name)][j] = j != at(name) && s.nodes[j].up
		s.lease[j][at(name)] = s.lease[at(name)][j]
	}
}

// pair is the cookie's A!B!1A, the reign by the member whose boot it is.
func pair(h *Header) string {
	c := "NONE"
	if len(h.Copies) > 0 {
		c = h.Copies[0].Name
	}
	return fmt.Sprintf("%s!%s!%d%c", h.Primary.Name, c, h.Epoch.N, 'A'+rune((h.Epoch.Reign.Boot-1)%10))
}

// served checks the reply: not flagged, with these writes in it, and the pair
// that its cookie names, if want is not empty.
func (s *script) served(r *client, want string, with ...*client) {
	s.t.Helper()
	s.replies(r, Served)
	if r.result.Flagged {
		s.t.Errorf("%v is flagged", r.kind)
	}
	if got := pair(&r.result.Header); want != "" && got != want {
		s.t.Errorf("the cookie says %s, want %s", got, want)
	}
	s.includes(r, with...)
}

func (s *script) includes(r *client, with ...*client) {
	s.t.Helper()
	for _, c := range with {
		if r.replied&c.bit == 0 {
			s.t.Errorf("the reply stands for %b, without %b", r.replied, c.bit)
		}
	}
}

func (s *script) replies(r *client, want Outcome) {
	s.t.Helper()
	if r.result.Outcome != want {
		s.t.Fatalf("outcome %d, want %d", r.result.Outcome, want)
	}
}

func (s *script) waits(r *client) {
	s.t.Helper()
	if r.over {
		s.t.Fatalf("outcome %d, want no answer yet", r.result.Outcome)
	}
}

func (s *script) holds(name string) Record { return s.nodes[at(name)].rec() }

// lineage checks that one of the living members is the primary and that
// whoever else holds something holds a part of the same history.
func (s *script) lineage() {
	s.t.Helper()
	var best Header
	primaries := 0
	for _, n := range s.nodes {
		r := n.rec()
		if n.up && r.Above(&best) {
			best = r.Header
		}
		if n.up && n.m != nil && n.m.Primary(n.self) {
			primaries++
		}
	}
	if primaries != 1 {
		s.t.Errorf("%d primaries: %s", primaries, s.state())
	}
	for _, n := range s.nodes {
		if r := n.rec(); n.up && r.Held() && !best.Descends(r.Epoch) {
			s.t.Errorf("two branches: %s", s.state())
		}
	}
}

// TestChangesWin is 35: after a partition the branch in which more was changed
// wins, whatever was done to the pair in the other.
func TestChangesWin(t *testing.T) {
	for _, tt := range []struct {
		name string
		// heal connects A, which has the changes, with the others.
		heal func(s *script)
	}{
		{"the primaries meet first", func(s *script) { s.join("A C", "A B") }},
		{"the primary meets a copy first", func(s *script) { s.join("A B", "A C") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, 3)
			s.part("A B", "A C")
			w1 := s.do(write, "A", s.c1)
			w2 := s.do(write, "A", s.jar)
			s.served(w2, "A!NONE!2A", w1, w2)
			mine := s.jar
			// Elsewhere the session is read, and so changes hands.
			s.do(read, "B", s.c1)
			s.do(read, "C", s.jar)
			s.do(read, "B", s.jar)
			s.served(s.do(read, "C", s.jar), "C!B!5B")
			theirs := s.jar
			tt.heal(s)
			for _, c := range s.conflicts {
				if c.Exact && len(c.Lost) > 0 {
					t.Errorf("%v is reported: nobody has changed anything there", c.Lost)
				}
			}
			s.served(s.do(read, "A", mine), "", w1, w2)
			s.lineage()
			// A client that only looked meanwhile has seen nothing that is gone,
			// but an epoch that is: it is told.
			r := s.do(read, "B", theirs)
			s.includes(r, w1, w2)
			if !r.result.Flagged {
				t.Error("a cookie of the other branch is not flagged")
			}
		})
	}
}

// TestAloneYields: of two branches in which nobody has changed anything, and with
// equal counters, that of a member which was alone yields: so a request that has
// waited in its socket does not win over what a client has seen since.
func TestAloneYields(t *testing.T) {
	for _, alone := range []string{"A", "B"} {
		t.Run(alone, func(t *testing.T) {
			s := newScript(t, 3)
			if s.part("A B", alone+" C"); alone == "B" {
				s.do(read, "A", s.c1) // first, so that B's is the later one
				s.served(s.do(read, "B", s.c1), "B!NONE!2B")
				s.served(s.do(read, "A", s.c1), "A!C!2A")
			} else {
				s.do(read, "A", s.c1)
				s.served(s.do(read, "B", s.c1), "B!C!2B")
			}
			seen := s.jar
			s.join("A B", alone+" C")
			s.served(s.do(read, alone, seen), "")
			s.lineage()
		})
	}
}

// TestCopyOfChangesIsKept: whoever holds a copy of the branch in which more was
// changed keeps it when it meets the other, and leaves it to the primary.
func TestCopyOfChangesIsKept(t *testing.T) {
	s := newScript(t, 4)
	s.part("A B", "A C", "B D", "C D")
	w1 := s.do(write, "A", s.c1)
	s.served(w1, "A!D!2A", w1)
	mine := s.jar
	s.do(read, "B", s.c1)
	s.served(s.do(read, "C", s.jar), "C!B!3B")
	theirs := s.jar
	s.join("B D", "C D")
	if r := s.holds("D"); bitsOf(r.Attrs)&w1.bit == 0 {
		t.Fatalf("D has not kept its copy: %s", s.state())
	}
	s.kill("A")
	s.served(s.do(read, "D", mine), "", w1)
	s.includes(s.do(read, "B", theirs), w1)
	s.lineage()
}

// TestVectors has every vector of spec/ownership.md, section 8, but 19, which
// is of another policy.
func TestVectors(t *testing.T) {
	tests := []struct {
		name    string
		members int
		run     func(s *script)
	}{{
		name: "1: a read waits until what it has seen is acknowledged", members: 3,
		run: func(s *script) {
			s.hold("A", "B")
			s.do(write, "A", s.c1)
			read1 := s.do(read, "A", s.c1)
			s.waits(read1)
			s.kill("A")
			s.release("A", "B")
			s.settle()
			s.served(s.do(read, "B", s.c1), "B!C!2B")
			if v := s.holds("B").Version; v != 1 {
				s.t.Errorf("B serves version %d, want 1", v)
			}
		},
	}, {
		name: "2: a second invalidation waits for the acknowledgements of the first", members: 3,
		run: func(s *script) {
			s.hold("A", "B")
			s.hold("A", "C")
			s.do(invalidate, "A", s.c1)
			second := s.do(invalidate, "A", s.c1)
			s.waits(second)
			s.kill("A")
			s.release("A", "B")
			s.release("A", "C")
			s.settle()
			s.replies(s.do(write, "B", s.c1), Served)
		},
	}, {
		name: "2: with the acknowledgements the second is answered", members: 3,
		run: func(s *script) {
			s.hold("A", "B")
			first, second := s.do(invalidate, "A", s.c1), s.do(invalidate, "A", s.c1)
			s.release("A", "B")
			s.settle()
			s.replies(first, Ended)
			s.replies(second, Ended)
			s.kill("A")
			s.replies(s.do(write, "B", s.c1), Ended)
		},
	}, {
		name: "3: a higher epoch of another branch is served flagged", members: 3,
		run: func(s *script) {
			s.alone = true
			s.part("A B", "B C")
			w1 := s.do(write, "A", s.c1)
			s.served(w1, "A!NONE!2A", w1)
			ca := s.jar
			s.served(s.do(write, "B", s.c1), "B!NONE!2B")
			w3 := s.do(write, "B", ca)
			s.replies(w3, Served)
			if !w3.result.Flagged {
				s.t.Error("w3 is not flagged")
			}
		},
	}, {
		name: "4: only a holder promotes", members: 4,
		run: func(s *script) {
			s.kill("A")
			w1, w2 := s.send(write, "C", s.c1), s.send(write, "D", s.c1)
			s.settle()
			s.served(w1, "")
			s.served(w2, "")
			s.lineage()
			s.served(s.do(read, "B", s.jar), "", w1, w2)
		},
	}, {
		name: "5: what was on a broken connection never arrives", members: 2,
		run: func(s *script) {
			s.alone = true
			s.hold("A", "B")
			w1, w2 := s.do(write, "A", s.c1), s.do(write, "A", s.c1)
			late := s.nodes[1].conns[0].in[0].msg
			s.keep = func(n int) int { return n }
			s.part("A B")
			s.served(w1, "A!NONE!2A", w1)
			s.served(w2, "A!NONE!2A", w2)
			s.release("A", "B")
			s.join("A B")
			if r := s.holds("B"); r.Held() {
				s.t.Fatalf("B did not discard: %s", s.state())
			}
			// If a connection did let it through, it would be refused.
			s.nodes[1].step(Event{Kind: Receive, Peer: s.nodes[0].self, Message: &late})
			s.kill("A")
			s.replies(s.do(read, "B", s.c1), Lost)
		},
	}, {
		name: "6: members compare before they are connected", members: 3,
		run: func(s *script) {
			s.part("A B", "B C")
			s.replies(s.do(invalidate, "B", s.c1), Ended)
			s.join("A B", "B C")
			s.replies(s.do(write, "A", s.c1), Ended)
		},
	}, {
		name: "7: whoever learns of a tombstone passes it on", members: 3,
		run: func(s *script) {
			s.part("A B", "B C")
			s.replies(s.do(invalidate, "B", s.c1), Ended)
			s.join("B C")
			s.replies(s.do(write, "A", s.c1), Ended)
		},
	}, {
		name: "8: a member that starts gets the tombstones", members: 3,
		run: func(s *script) {
			s.part("A B", "B C")
			s.replies(s.do(invalidate, "A", s.c1), Ended)
			reach := func(j int) bool { return j != 1 }
			s.kill("C")
			s.restart(2, reach)
			s.settle()
			s.kill("A")
			s.restart(0, reach)
			s.settle()
			s.join("A B", "B C")
			s.replies(s.do(write, "B", s.c1), Ended)
		},
	}, {
		name: "9: a promotion waits for the end of the promise", members: 3,
		run: func(s *script) {
			s.hold("B", "A") // A is frozen
			s.hold("C", "A")
			s.cut(0, 1)
			s.cut(0, 2)
			w1 := s.do(write, "B", s.c1)
			s.waits(w1)
			s.expire("A", "B")
			s.settle()
			s.served(w1, "B!C!2B", w1)
			s.release("B", "A")
			s.release("C", "A")
			s.join("A B", "A C")
			s.served(s.do(read, "A", s.c1), "", w1)
			s.lineage()
		},
	}, {
		name: "9b: a promotion starts over when the old primary is back", members: 2,
		run: func(s *script) {
			s.cut(0, 1)
			s.settle()
			w1 := s.do(write, "B", s.c1)
			s.waits(w1)
			s.connect(0, 1)
			s.settle()
			s.expire("A", "B")
			s.settle()
			s.served(w1, "B!A!2A", w1)
			s.join("A B")
			s.served(s.do(read, "A", s.c1), "", w1)
			s.lineage()
		},
	}, {
		name: "10: who has a Take under way answers an Ask afterwards", members: 3,
		run: func(s *script) {
			s.hold("A", "C")
			w1 := s.do(write, "C", s.c1)
			s.keep = func(n int) int { return n }
			s.kill("A")
			read1 := s.do(read, "B", s.c1)
			s.waits(read1)
			s.release("A", "C")
			s.settle()
			s.served(w1, "", w1)
			s.served(read1, "")
			s.lineage()
			if h := s.holds("B").Header; !h.Descends(Epoch{N: 2, Reign: Reign{1, 1}}) {
				s.t.Errorf("B did not take from C: %s", s.state())
			}
		},
	}, {
		name: "11: one search per session and member", members: 2,
		run: func(s *script) {
			s.served(s.do(write, "B", s.c1), "B!A!2A")
			s.hold("B", "A")
			w1 := s.do(write, "A", s.c1)
			s.keep = func(n int) int { return n }
			s.die(1)
			w2 := s.do(write, "A", s.c1)
			s.waits(w1)
			s.waits(w2)
			s.release("B", "A")
			s.settle()
			s.expire("A", "B")
			s.settle()
			s.served(w1, "A!NONE!4A", w1)
			s.served(w2, "A!NONE!4A", w1, w2)
			s.lineage()
		},
	}, {
		name: "12: if somebody becomes unreachable the rest is asked once more", members: 3,
		run: func(s *script) {
			s.alone = true
			w1 := s.do(write, "C", s.c1)
			s.served(w1, "C!A!2A", w1)
			s.kill("A")
			s.start("A")
			s.hold("C", "B")
			read1 := s.send(read, "B", s.c1)
			s.pass("B", "A")
			s.pass("A", "B") // nothing
			s.alone = false
			s.nodes[2].step(Event{Kind: PeerUp, Peer: s.nodes[0].self})
			s.settle()
			if r := s.holds("A"); !r.Held() {
				s.t.Fatalf("A has no copy again: %s", s.state())
			}
			s.waits(read1)
			s.kill("C")
			s.release("C", "B")
			s.settle()
			s.served(read1, "", w1)
			s.lineage()
		},
	}, {
		name: "13: if the own record changes during the questions they start over", members: 3,
		run: func(s *script) {
			s.alone = true
			s.part("A B", "A C")
			w1 := s.do(write, "B", s.c1)
			s.served(w1, "B!NONE!2B", w1)
			s.join("A C")
			s.hold("C", "A")
			read1 := s.do(read, "A", s.jar) // A's own branch does not descend from it
			s.waits(read1)
			s.join("A B")
			s.release("C", "A")
			s.settle()
			s.served(read1, "A!B!3B", w1)
		},
	}, {
		name: "14: who is named but disowns the session is replaced", members: 3,
		run: func(s *script) {
			s.cut(0, 1)
			s.cut(1, 2)
			s.settle()
			w1 := s.slow("C", s.c1)
			s.alone = true
			s.expire("A", "B")
			s.served(s.do(write, "B", s.c1), "B!NONE!2B")
			s.join("B C") // C steps down, but keeps 2A, which w1 uses
			if r := s.holds("C"); r.Epoch != s.holds("A").Epoch || r.Primary != s.nodes[1].self {
				s.t.Fatalf("C has not just stepped down: %s", s.state())
			}
			s.kill("B")
			s.served(s.do(write, "A", s.c1), "A!NONE!4A") // B began 3B when it met C (35)
			s.finish(w1)
			s.settle()
		},
	}, {
		name: "15: after the handler has run there is no Not-Executed", members: 3,
		run: func(s *script) {
			w1 := s.slow("A", s.c1)
			s.served(s.do(write, "C", s.c1), "C!A!2A")
			s.part("A C")
			s.finish(w1)
			s.settle()
			s.replies(w1, Failed)
			if w1.runs != 1 || !w1.result.Executed {
				s.t.Errorf("%d runs, executed %v", w1.runs, w1.result.Executed)
			}
		},
	}, {
		name: "15: the same by a refused flush", members: 3,
		run: func(s *script) {
			s.hold("A", "B")
			w1 := s.do(write, "A", s.c1) // Update to B held
			s.served(s.do(write, "C", s.c1), "C!A!2A")
			c := s.nodes[2]
			c.step(Event{Kind: Receive, Peer: s.nodes[0].self, Message: &Message{Kind: Compare}})
			b := s.nodes[1] // C has dropped B's copy for a newer one
			b.step(Event{Kind: Receive, Peer: c.self, Message: &Message{Kind: Compare, Header: s.holds("C").Header, Now: true}})
			s.cut(0, 2)
			s.hold("C", "A")
			s.deliver(s.nodes[2], 0)
			s.release("A", "B")
			s.settle()
			s.waits(w1) // forwarded to C, or what is left of it
			s.release("C", "A")
			s.settle()
			s.replies(w1, Failed)
		},
	}, {
		name: "16: changes are applied again if the record was replaced", members: 2,
		run: func(s *script) {
			s.hold("B", "A")
			s.hold("A", "B")
			w1 := s.do(write, "A", s.c1) // version 2, not acknowledged
			a, b := s.nodes[0], s.nodes[1]
			rec := s.holds("B")
			rec.raise(Reign{2, 1}, false, 0, b.self, []Member{a.self})
			s.content[version{rec.Epoch, rec.Version}] = bitsOf(rec.Attrs)
			a.step(Event{Kind: Receive, Peer: b.self, Message: &Message{Kind: Update, Header: rec.Header, Attrs: rec.Attrs, Full: true, NewCopy: true}})
			s.waits(w1)
			s.fault = true
			b.up, a.conns[1], a.gone[b.self] = false, nil, true // the next request is the first to notice
			w2 := s.do(write, "A", s.c1)
			s.waits(w1)
			s.served(w2, "A!NONE!3A", w2)
			a.step(Event{Kind: PeerDown, Peer: b.self})
			s.served(w1, "A!NONE!3A", w1, w2)
		},
	}, {
		name: "17: the acknowledgement of a record that was replaced does not count", members: 3,
		run: func(s *script) {
			s.cut(0, 1)
			s.cut(1, 2)
			s.settle()
			s.alone = true
			s.hold("A", "C")
			w1 := s.do(write, "C", s.c1)
			s.pass("A", "C") // the Grant; the Ack stays
			s.expire("A", "B")
			s.served(s.do(write, "B", s.c1), "B!NONE!2B")
			more := s.slow("B", s.jar) // more than C has (35), and not what w1 changes (34)
			more.plain = true
			s.finish(more)
			s.alone = false
			s.join("B C")
			if r := s.holds("C"); !r.Descends(Epoch{N: 2, Reign: Reign{2, 1}}) {
				s.t.Fatalf("C was not overwritten: %s", s.state())
			}
			s.waits(w1)
			s.release("A", "C")
			s.settle()
			s.replies(w1, Served)
			s.includes(w1, w1)
			if bitsOf(s.holds("B").Attrs)&w1.bit == 0 {
				s.t.Errorf("B lacks w1: %s", s.state())
			}
		},
	}, {
		name: "18: the reply is compared with the cookie once more", members: 4,
		run: func(s *script) {
			s.part("A B", "A C", "B D", "C D")
			wa := s.do(write, "A", s.c1)
			s.served(wa, "A!D!2A", wa)
			ca := s.jar
			s.served(s.do(write, "B", s.c1), "B!C!2B")
			s.served(s.do(write, "C", s.c1), "C!B!3B")
			s.served(s.do(write, "B", s.c1), "B!C!4C")
			w1 := s.slow("D", ca)
			if r := s.holds("D"); r.Primary != s.nodes[3].self || w1.runs != 1 {
				s.t.Fatalf("w1 does not run on D: %s", s.state())
			}
			s.join("B D")
			w1.plain = true // else it is late as well (34)
			s.finish(w1)
			s.settle()
			s.replies(w1, Served)
			s.includes(w1, w1)
			if !w1.result.Flagged {
				s.t.Error("w1 is not flagged")
			}
		},
	}, {
		name: "20: only a No to a Take sent afterwards disowns", members: 3,
		run: func(s *script) {
			s.kill("A")
			s.start("A")
			s.hold("A", "C")
			read1 := s.send(read, "A", s.c1)
			s.pass("A", "B")
			s.pass("B", "A") // 1A
			w := s.do(write, "B", s.c1)
			s.served(w, "B!C!2B", w)
			s.waits(read1)
			s.release("A", "C")
			s.settle()
			s.served(read1, "A!B!3B", w)
			s.lineage()
		},
	}, {
		name: "21: the primary is gone, the request comes to the secondary", members: 3,
		run: func(s *script) {
			w1 := s.do(write, "A", s.c1)
			s.kill("A")
			clear(s.sent)
			w2 := s.do(write, "B", s.jar)
			s.served(w2, "B!C!2B", w1, w2)
			if s.sent[Ask] != 1 || s.sent[Update] != 1 || s.sent[Take] != 0 {
				s.t.Errorf("sent %v, want one Ask and one Update", s.sent)
			}
			clear(s.sent)
			w3 := s.do(write, "B", s.jar)
			s.served(w3, "B!C!2B", w1, w2, w3)
			if s.sent[Ask] != 0 || s.sent[Update] != 1 || s.sent[Ack] != 1 {
				s.t.Errorf("sent %v, want one Update and its Ack", s.sent)
			}
		},
	}, {
		name: "22: the primary is gone, the request comes elsewhere", members: 3,
		run: func(s *script) {
			w1 := s.do(write, "A", s.c1)
			s.kill("A")
			w := s.do(write, "C", s.jar)
			s.served(w, "C!B!2B", w1, w)
			s.lineage()
		},
	}, {
		name: "23: the session follows the requests", members: 3,
		run: func(s *script) {
			s.served(s.do(write, "A", s.jar), "A!B!1A")
			s.served(s.do(write, "B", s.jar), "B!A!2A")
			s.served(s.do(write, "A", s.jar), "A!B!3B")
			w := s.do(write, "B", s.jar)
			s.served(w, "B!A!4A")
			if s.sent[Take] != 3 {
				s.t.Errorf("%d Takes, want 3", s.sent[Take])
			}
			if w.replied != 0b11111 {
				s.t.Errorf("the reply stands for %b", w.replied)
			}
		},
	}, {
		name: "24: two members take turns in going", members: 2,
		run: func(s *script) {
			s.kill("A")
			s.served(s.do(write, "B", s.c1), "B!NONE!2B")
			s.start("A")
			s.served(s.do(write, "B", s.jar), "B!A!3B")
			s.kill("B")
			w := s.do(write, "A", s.jar)
			s.served(w, "A!NONE!4A")
			if w.replied != 0b1111 {
				s.t.Errorf("the reply stands for %b", w.replied)
			}
		},
	}, {
		name: "25: both holders are gone", members: 3,
		run: func(s *script) {
			s.die(0)
			s.kill("B")
			s.replies(s.do(write, "C", s.c1), Lost)
		},
	}, {
		name: "26: an older holder with an older cookie (N1)", members: 3,
		run: func(s *script) {
			s.hold("A", "B") // Drop (R17) is lost
			w1 := s.do(write, "C", s.c1)
			s.served(w1, "C!A!2A", w1)
			s.die(0)
			s.die(2)
			s.release("A", "B")
			s.settle()
			s.gone = true // this is what cannot be prevented
			newest := s.do(write, "B", s.jar)
			s.replies(newest, Lost)
			older := s.do(read, "B", s.c1)
			s.served(older, "B!NONE!2B")
			if older.replied != 1 {
				s.t.Errorf("the reply stands for %b", older.replied)
			}
		},
	}, {
		name: "27: an invalidation that reached one side only (N4)", members: 3,
		run: func(s *script) {
			s.part("A B", "A C")
			s.replies(s.do(invalidate, "A", s.c1), Ended)
			s.kill("A")
			s.served(s.do(write, "B", s.c1), "B!C!2B")
		},
	}, {
		name: "28: a silent secondary is struck", members: 3,
		run: func(s *script) {
			s.hold("A", "B")
			w1 := s.do(write, "A", s.c1)
			s.waits(w1)
			s.part("A B") // after 500 ms
			s.served(w1, "A!C!2A", w1)
			s.served(s.do(write, "A", s.jar), "A!C!2A", w1)
		},
	}, {
		name: "29: somebody else is connected with the primary", members: 3,
		run: func(s *script) {
			s.part("A B")
			w := s.do(write, "B", s.c1)
			s.replies(w, NotExecuted)
			if w.result.Elsewhere != s.nodes[0].self || w.runs != 0 {
				s.t.Errorf("elsewhere is %v after %d runs", w.result.Elsewhere, w.runs)
			}
		},
	}, {
		name: "37: who reaches no holder leaves it to one that others reach", members: 4,
		run: func(s *script) {
			s.part("A D", "B D")
			w := s.do(write, "D", s.c1) // C, which holds nothing, is connected with A
			s.replies(w, NotExecuted)
			if w.result.Elsewhere != s.nodes[0].self || w.runs != 0 {
				s.t.Errorf("elsewhere is %v after %d runs", w.result.Elsewhere, w.runs)
			}
			s.kill("A")
			w = s.do(write, "D", s.c1)
			s.replies(w, NotExecuted)
			if w.result.Elsewhere != s.nodes[1].self {
				s.t.Errorf("elsewhere is %v, want the secondary", w.result.Elsewhere)
			}
		},
	}, {
		name: "37: a connection that has just broken may be back", members: 4,
		run: func(s *script) {
			s.lease[0][3] = true // D has answered A a moment ago
			s.cut(0, 3)
			s.cut(1, 3)
			w := s.do(write, "D", s.c1)
			s.waits(w)
			s.join("A D")
			s.served(w, "D!A!2A", w)
		},
	}, {
		name: "37: who stood still finds its connections ended, and waits for them", members: 4,
		run: func(s *script) {
			s.comesBack = func() bool { return true }
			s.part("A D", "B D", "C D")
			w := s.do(write, "D", s.c1)
			s.waits(w)
			s.join("C D")
			s.waits(w)
			s.join("B D")
			s.waits(w)
			s.join("A D")
			s.served(w, "D!A!2A", w)
		},
	}, {
		name: "37: as before, and a holder does not come back", members: 4,
		run: func(s *script) {
			s.comesBack = func() bool { return true }
			s.part("A D", "B D", "C D")
			w := s.do(write, "D", s.c1)
			s.join("C D")
			s.away(s.nodes[3], s.nodes[0].self)
			s.waits(w)
			s.away(s.nodes[3], s.nodes[1].self)
			s.settle()
			s.replies(w, NotExecuted)
			if w.result.Elsewhere != s.nodes[0].self {
				s.t.Errorf("elsewhere is %v, want the primary", w.result.Elsewhere)
			}
		},
	}, {
		name: "37: nobody reaches a holder: lost, once it is known what has become of them", members: 4,
		run: func(s *script) {
			s.lease[0][3] = true
			s.cut(0, 3)
			s.cut(1, 3)
			s.part("A C", "B C")
			w := s.do(write, "D", s.c1)
			s.waits(w)
			s.expire("A", "D")
			s.settle()
			s.waits(w) // B may be back as well
			s.expire("B", "D")
			s.settle()
			s.replies(w, Lost)
		},
	}, {
		name: "38: a session that was over on one side of a cut goes on where it is used", members: 3,
		run: func(s *script) {
			s.part("A B", "A C")
			w1 := s.do(write, "B", s.c1)
			s.served(w1, "B!C!2B", w1)
			s.over()
			s.join("A B", "A C")
			s.served(s.do(read, "B", s.jar), "B!C!2B", w1)
			s.served(s.do(read, "A", s.jar), "A!B!3B", w1)
		},
	}, {
		name: "38: the same with two on that side, which have all leases", members: 4,
		run: func(s *script) {
			s.part("A B", "A C", "D B", "D C")
			s.served(s.do(read, "A", s.c1), "A!D!2A")
			w1 := s.do(write, "B", s.c1)
			s.served(w1, "B!C!2B", w1)
			s.over()
			if r := s.holds("D"); !r.Expired() {
				s.t.Fatalf("D was not told: %s", s.state())
			}
			s.join("D B") // D tells, and is told better
			s.served(s.do(read, "D", s.jar), "D!B!3B", w1)
			s.join("A C", "A B", "D C")
			for _, name := range []string{"A", "B", "C", "D"} {
				if r := s.holds(name); r.Dead {
					s.t.Errorf("a tombstone is left: %s", s.state())
				}
			}
		},
	}, {
		name: "38: a member that has only the tombstone searches for the other branch", members: 4,
		run: func(s *script) {
			s.part("A B", "A C", "D A")
			w1 := s.do(write, "B", s.c1)
			s.served(w1, "B!C!2B", w1)
			s.part("B D", "C D")
			s.join("A D")
			s.over()
			s.replies(s.do(read, "D", s.c1), Ended)
			s.auto = false
			r := s.do(read, "D", s.jar)
			s.replies(r, Lost) // nobody who has it can be reached
			s.auto = true
			s.join("B D")
			s.served(s.do(read, "D", s.jar), "D!B!3B", w1)
		},
	}, {
		name: "38: without a cut it is over everywhere", members: 3,
		run: func(s *script) {
			s.over()
			for _, name := range []string{"A", "B", "C"} {
				s.replies(s.do(read, name, s.c1), Ended)
			}
		},
	}, {
		name: "38: an invalidation is above it", members: 3,
		run: func(s *script) {
			s.part("A B", "A C")
			s.over()
			s.replies(s.do(invalidate, "B", s.c1), Ended)
			s.join("A B", "A C")
			for _, name := range []string{"A", "B", "C"} {
				if r := s.holds(name); !r.Dead || r.Expired() {
					s.t.Errorf("%s: %s", name, s.state())
				}
			}
		},
	}, {
		name: "41: the winner is used as long as either branch was", members: 3,
		run: func(s *script) {
			s.part("A B", "A C")
			w1 := s.do(write, "B", s.c1)
			s.served(w1, "B!C!2B", w1)
			s.do(write, "A", s.c1) // which loses
			s.nodes[0].m.rec.Expiry.Access = 900
			s.join("A B", "A C")
			for _, name := range []string{"B", "C"} {
				if r := s.holds(name); r.Expiry.Access != 900 {
					s.t.Errorf("%s takes the session to have been used at %d, want 900", name, r.Expiry.Access)
				}
			}
		},
	}, {
		name: "39: who stood still asks before it ends a session that seems over", members: 3,
		run: func(s *script) {
			s.hold("B", "A")
			s.hold("C", "A")
			s.part("A B", "A C")
			w1 := s.do(write, "B", s.c1)
			s.served(w1, "B!C!2B", w1)
			s.comesBack = func() bool { return true }
			s.release("B", "A")
			s.release("C", "A")
			s.settle()
			s.over()
			if r := s.holds("A"); r.Dead {
				s.t.Errorf("A has ended what it does not own: %s", s.state())
			}
			s.over() // the sweep comes by again
			s.join("A B", "A C")
			if r := s.holds("A"); r.Dead || s.nodes[0].m != nil && s.nodes[0].m.Busy() {
				s.t.Errorf("A has ended what it does not own: %s", s.state())
			}
			s.served(s.do(read, "B", s.jar), "B!C!2B", w1)
		},
	}, {
		name: "39: it was used while its copies were asked", members: 3,
		run: func(s *script) {
			s.expire("A", "B")
			s.hold("A", "B")
			s.over()
			s.hold("B", "A")
			w := s.send(write, "A", s.c1)
			s.nodes[0].m.rec.Expiry.Access++ // it has begun
			s.release("A", "B")
			s.release("B", "A")
			s.settle()
			s.served(w, "A!B!1A", w)
		},
	}, {
		name: "40: who is asked reads first what the gone primary has sent", members: 3,
		run: func(s *script) {
			s.keep = func(n int) int { return n }
			s.hold("A", "C")
			s.nodes[0].step(Event{Kind: Relocate, Peer: s.nodes[1].self})
			s.settle()
			s.kill("A")
			w := s.do(write, "B", s.c1)
			s.waits(w) // C is still to read that it has the copy
			s.release("A", "C")
			s.settle()
			s.served(w, "B!C!3C", w)
			if len(s.conflicts) != 0 {
				s.t.Errorf("%d conflicts: %s", len(s.conflicts), s.state())
			}
			s.lineage()
		},
	}, {
		name: "40: the same for who has to fetch the session", members: 4,
		run: func(s *script) {
			s.keep = func(n int) int { return n }
			s.hold("A", "C")
			s.nodes[0].step(Event{Kind: Relocate, Peer: s.nodes[1].self})
			s.settle()
			s.kill("A")
			w := s.do(write, "D", s.c1)
			s.waits(w)
			s.release("A", "C")
			s.settle()
			s.served(w, "D!C!3C", w)
			s.lineage()
		},
	}, {
		name: "40: who is said to be gone, and lives, answers for itself", members: 3,
		run: func(s *script) {
			s.part("A B")
			s.nodes[1].gone[s.nodes[0].self] = true // B is refused, C is not
			s.hold("A", "C")
			w := s.do(write, "B", s.c1)
			s.waits(w)
			s.release("A", "C")
			s.settle()
			s.replies(w, Served)
		},
	}, {
		name: "30: a Grant is lost, the giver waits for its promise", members: 2,
		run: func(s *script) {
			s.hold("A", "B")
			s.do(write, "B", s.c1) // Take read, Grant held
			s.cut(0, 1)            // and lost
			w := s.do(write, "A", s.c1)
			s.waits(w)
			s.expire("A", "B")
			s.settle()
			s.served(w, "A!NONE!3A", w)
		},
	}, {
		name: "30: the taker says that it has nothing", members: 2,
		run: func(s *script) {
			s.hold("A", "B")
			w1 := s.do(write, "B", s.c1)
			s.cut(0, 1)
			s.release("A", "B")
			s.join("A B")
			w := s.do(write, "A", s.c1)
			s.served(w, "", w)
			s.served(w1, "", w1)
			s.lineage()
		},
	}, {
		name: "30: nobody waits for the Grant any more", members: 3,
		run: func(s *script) {
			s.hold("A", "C")
			w := s.do(write, "C", s.c1)
			s.nodes[2].step(Event{Kind: Unanswered, Message: &Message{Tag: Tag{w.op.ID, 1}}})
			s.replies(w, Failed)
			s.release("A", "C")
			s.settle()
			if r := s.holds("A"); !r.Primary.IsZero() {
				s.t.Fatalf("A takes C for the primary: %s", s.state())
			}
			s.served(s.do(read, "B", s.c1), "B!A!3A")
		},
	}, {
		name: "38: who searched for another branch has lost it, whatever ended here", members: 3,
		run: func(s *script) {
			s.part("A B", "B C")
			s.served(s.do(read, "A", s.c1), "A!C!2A")
			s.served(s.do(write, "B", s.c1), "B!NONE!2B")
			s.comesBack = func() bool { return true }
			s.part("A C")
			s.over()
			r := s.do(read, "A", s.jar)
			s.waits(r) // for C, to go on with what A has, flagged
			s.away(s.nodes[0], s.nodes[2].self)
			s.settle()
			s.replies(r, Lost)
		},
	}, {
		name: "31: the cookie names the pair that acknowledged", members: 3,
		run: func(s *script) {
			s.hold("B", "A")
			s.hold("A", "C")
			w1 := s.do(write, "A", s.c1)
			s.do(write, "C", s.c1) // A gives, the Grant stays
			s.waits(w1)
			s.release("B", "A")
			s.settle()
			s.served(w1, "A!B!1A", w1)
			s.kill("A") // and the Grant is lost
			s.release("A", "C")
			s.settle()
			s.served(s.do(read, "B", s.jar), "", w1)
		},
	}, {
		name: "32: a primary whose copy holds nothing starts a new epoch", members: 3,
		run: func(s *script) {
			s.alone = true
			s.part("A B", "A C")
			w1 := s.do(write, "C", s.c1)
			s.served(w1, "C!B!2B", w1)
			s.part("B C")
			s.served(s.do(write, "C", s.jar), "C!NONE!3C", w1)
			s.join("B C")
			if r := s.holds("B"); r.Held() {
				s.t.Fatalf("B did not discard: %s", s.state())
			}
			s.join("A B")
			w2 := s.do(write, "A", s.c1)
			s.served(w2, "A!NONE!2A", w2)
			s.join("A C")
			if s.reported&w2.bit == 0 {
				s.t.Errorf("reported %b, without w2", s.reported)
			}
			if r := s.holds("C"); r.Epoch.N != 3 || len(s.conflicts) != 1 {
				s.t.Errorf("%d reports, %s", len(s.conflicts), s.state())
			}
		},
	}, {
		name: "32: the same by a refused Update", members: 3,
		run: func(s *script) {
			s.alone = true
			s.nodes[1].m = nil // B has forgotten
			w2 := s.do(write, "A", s.c1)
			s.served(w2, "A!NONE!2A", w2)
			if s.sent[Refused] != 1 {
				s.t.Errorf("%d Refused, want 1", s.sent[Refused])
			}
		},
	}, {
		name: "33: a reign ends when the record is lost", members: 3,
		run: func(s *script) {
			s.alone = true
			s.part("A B", "B C")
			s.served(s.do(write, "A", s.c1), "A!NONE!2A")
			w1 := s.do(write, "C", s.c1)
			s.served(w1, "C!A!3A", w1)
			s.part("A C")
			s.served(s.do(write, "C", s.jar), "C!NONE!4C", w1)
			s.join("A C")
			if r := s.holds("A"); r.Held() {
				s.t.Fatalf("A did not discard: %s", s.state())
			}
			s.part("A C")
			s.join("A B")
			w2 := s.do(write, "A", s.c1)
			s.served(w2, "A!B!2B", w2)
			s.join("B C")
			w3 := s.do(write, "A", s.c1)
			s.served(w3, "A!NONE!3A", w2, w3)
			if got, want := s.holds("A").Epoch, (Epoch{3, Reign{1, 2}}); got != want {
				s.t.Errorf("A is in epoch %v, want %v", got, want)
			}
			c := s.holds("C")
			if c.Descends(s.holds("A").Epoch) || !c.Descends(Epoch{3, Reign{1, 1}}) {
				s.t.Errorf("C descends from what it does not know: %v", c.Lineage)
			}
			s.join("A C")
			if s.reported&(w2.bit|w3.bit) != w2.bit|w3.bit {
				s.t.Errorf("reported %b, without w2 %b", s.reported, w2.bit)
			}
		},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(newScript(t, tt.members)) })
	}
	numbers := map[string]bool{}
	for _, tt := range tests {
		var n int
		_, _ = fmt.Sscanf(tt.name, "%d", &n)
		numbers[fmt.Sprint(n)] = true
	}
	for n := 1; n <= 33; n++ {
		if n != 19 && !numbers[fmt.Sprint(n)] {
			t.Errorf("no test of vector %d", n)
		}
	}
	if !slices.ContainsFunc(tests, func(x struct {
		name    string
		members int
		run     func(s *script)
	},
	) bool {
		return x.name[:2] == "9b"
	}) {
		t.Error("no test of vector 9b")
	}
}

// TestRelocate has copies that live replaced by better ones (D7, R16).
func TestRelocate(t *testing.T) {
	move := func(s *script, from string) {
		n := s.nodes[0]
		n.step(Event{Kind: Relocate, Peer: s.nodes[at(from)].self})
	}
	t.Run("the old copy is discarded once the new one is acknowledged", func(t *testing.T) {
		s := newScript(t, 3)
		s.hold("A", "C")
		move(s, "B")
		s.settle()
		if r := s.holds("B"); !r.Held() || s.holds("C").Epoch.N != 0 {
			t.Fatalf("nobody but A holds the session: %s", s.state())
		}
		s.release("A", "C")
		s.settle()
		if r, c := s.holds("B"), s.holds("C"); r.Held() || pair(&c.Header) != "A!C!2A" {
			t.Fatalf("want the copy at C alone: %s", s.state())
		}
		s.kill("A")
		s.served(s.do(read, "C", s.c1), "")
		s.lineage()
	})
	t.Run("the primary goes before the new copy has anything", func(t *testing.T) {
		s := newScript(t, 3)
		s.hold("A", "C")
		move(s, "B")
		s.settle()
		s.kill("A")
		s.release("A", "C")
		s.settle()
		s.served(s.do(read, "C", s.c1), "")
		s.lineage()
	})
	t.Run("a write waits for the new copy", func(t *testing.T) {
		s := newScript(t, 3)
		s.hold("A", "B")
		w1 := s.do(write, "A", s.c1)
		s.hold("A", "C")
		move(s, "B")
		s.release("A", "B")
		s.settle()
		s.waits(w1)
		s.release("A", "C")
		s.settle()
		s.served(w1, "A!C!2A", w1)
	})
	t.Run("nobody could take its place", func(t *testing.T) {
		s := newScript(t, 2)
		move(s, "B")
		s.settle()
		if r := s.holds("A"); pair(&r.Header) != "A!B!1A" || s.sent[Compare] != 0 {
			t.Errorf("want nothing done: %s", s.state())
		}
	})
}

// TestRecover has members recover sessions that nobody asks for (R14, R16).
func TestRecover(t *testing.T) {
	rescue := func(s *script, name string, relieved Member) {
		o := s.newOp()
		o.Owner = &client{op: o, bg: true, at: s.nodes[at(name)]}
		s.nodes[at(name)].step(Event{Kind: Recover, Op: o, Peer: relieved})
		s.settle()
	}
	t.Run("the primary is gone", func(t *testing.T) {
		s := newScript(t, 3)
		s.kill("A")
		rescue(s, "B", s.nodes[0].self)
		if r := s.holds("B"); pair(&r.Header) != "B!C!2B" || s.holds("C").Epoch != r.Epoch {
			t.Errorf("want B!C: %s", s.state())
		}
	})
	t.Run("a copy that was left behind takes nothing", func(t *testing.T) {
		for _, first := range []string{"B", "C"} {
			s := newScript(t, 3)
			s.part("A B")
			w1 := s.do(write, "A", s.c1)
			s.served(w1, "A!C!2A", w1)
			gone := s.nodes[0].self
			s.kill("A")
			for _, name := range []string{first, "B", "C"} {
				rescue(s, name, gone)
			}
			r, b := s.holds("C"), s.holds("B")
			if pair(&r.Header) != "C!B!3C" || b.Epoch != r.Epoch {
				t.Errorf("%s first: want C!B: %s", first, s.state())
			}
		}
	})
	t.Run("the first in line holds only what came before", func(t *testing.T) {
		s := newScriptOf(t, 4, 2)
		s.hold("A", "B")
		s.nodes[0].step(Event{Kind: Relocate, Peer: s.nodes[2].self})
		s.settle()
		s.kill("A")
		s.release("A", "B")
		s.settle()
		rescue(s, "B", Member{}) // D holds the line B, D
		if r := s.holds("B"); r.Epoch.N != 1 {
			t.Fatalf("B promoted, and has not all: %s", s.state())
		}
		rescue(s, "D", Member{}) // whose turn it is if B has not done it
		if d, b := s.holds("D"), s.holds("B"); d.Primary != s.nodes[3].self || b.Epoch != d.Epoch {
			t.Errorf("want D as the primary, and B with it: %s", s.state())
		}
		s.lineage()
	})
	t.Run("the primary drains", func(t *testing.T) {
		s := newScript(t, 3)
		rescue(s, "B", s.nodes[0].self)
		if r := s.holds("B"); pair(&r.Header) != "B!A!2A" {
			t.Errorf("want B!A: %s", s.state())
		}
	})
	t.Run("the primary is there, and does not drain", func(t *testing.T) {
		s := newScript(t, 3)
		rescue(s, "B", Member{})
		if r := s.holds("A"); pair(&r.Header) != "A!B!1A" || s.holds("B").Epoch != r.Epoch {
			t.Errorf("want nothing done: %s", s.state())
		}
	})
}
