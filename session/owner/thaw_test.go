package owner

import "testing"

// frozen is A!B!C's session after A was frozen with a request running: B has
// promoted over it and gone on, and A has just seen its connections end.
func frozen(t *testing.T) (s *script, w1, w2 *client) {
	s = newScript(t, 3)
	w1 = s.slow("A", s.c1)
	s.hold("B", "A")
	s.hold("C", "A")
	s.part("A B", "A C")
	w2 = s.do(write, "B", s.c1)
	s.served(w2, "B!C!2B", w2)
	s.comesBack = func() bool { return true } // to A; to the others it was silent
	s.release("B", "A")
	s.release("C", "A")
	s.settle()
	return s, w1, w2
}

// TestThawedPrimaryWaits: a member that was frozen meets only ends of
// connections when it goes on. It must not strike one candidate after the
// other, for its stale branch would outbid the one that lives.
func TestThawedPrimaryWaits(t *testing.T) {
	s, w1, w2 := frozen(t)
	s.finish(w1)
	s.settle()
	s.waits(w1)
	if r := s.holds("A"); r.Epoch.N != 1 {
		t.Errorf("A raised to %v while its copies may be back", r.Epoch)
	}
	s.join("A B", "A C")
	s.served(w1, "", w1, w2)
	if len(s.conflicts) > 0 {
		t.Errorf("%d conflicts, want none: nothing was lost", len(s.conflicts))
	}
	s.lineage()
}

// TestThawedReaderWaits is the same for a request that arrives after the thaw.
func TestThawedReaderWaits(t *testing.T) {
	s, w1, w2 := frozen(t)
	r := s.do(read, "A", s.c1)
	s.waits(r)
	s.join("A B", "A C")
	s.finish(w1)
	s.settle()
	s.includes(r, w2)
	s.served(w1, "", w1, w2)
}

// TestThawedSecondaryWaits is the same for a secondary: it must not promote over
// a primary that has only ended the connection because of the pause.
func TestThawedSecondaryWaits(t *testing.T) {
	for _, back := range []bool{true, false} {
		s := newScript(t, 3)
		s.hold("A", "B")
		s.hold("C", "B")
		s.part("A B", "B C")
		w1 := s.do(write, "A", s.c1) // it strikes B
		s.served(w1, "A!C!2A", w1)
		s.comesBack = func() bool { return true } // to B; to the others it was silent
		s.release("A", "B")
		s.release("C", "B")
		s.settle()
		w2 := s.do(write, "B", s.c1)
		s.waits(w2)
		if back {
			s.join("A B", "B C")
			s.served(w2, "B!A!3A", w1, w2)
			s.lineage()
			continue
		}
		s.away(s.nodes[at("B")], s.nodes[at("A")].self)
		s.away(s.nodes[at("B")], s.nodes[at("C")].self)
		s.settle()
		s.served(w2, "B!NONE!2B", w2)
	}
}

// TestNotBackInTime: who does not come back is struck, as R13 says.
func TestNotBackInTime(t *testing.T) {
	s := newScript(t, 3)
	s.comesBack = func() bool { return true }
	w1 := s.slow("A", s.c1)
	s.cut(at("A"), at("B"))
	s.settle()
	s.finish(w1)
	s.settle()
	s.waits(w1)
	s.away(s.nodes[at("A")], s.nodes[at("B")].self)
	s.settle()
	s.served(w1, "A!C!2A", w1)
}

// TestLateChanges is 34: what a handler made of a value that others have changed
// since, on the member that has the session now, does not replace theirs. None of
// its changes is done, its client gets an error, and it is reported.
func TestLateChanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		// back gives the session back to A before the handler returns.
		back bool
	}{{"forwarded", false}, {"after the session has come back", true}} {
		t.Run(tt.name, func(t *testing.T) {
			s, w1, w2 := frozen(t)
			w3 := s.do(write, "B", s.jar) // the counter is two ahead of what w1 saw
			s.served(w3, "", w2, w3)
			s.join("A B", "A C")
			if tt.back {
				s.served(s.do(read, "A", s.jar), "A!B!3B", w2, w3)
			}
			s.finish(w1)
			s.settle()
			s.replies(w1, Failed)
			if !w1.result.Executed {
				t.Error("the reply says that the handler has not run")
			}
			last := s.do(read, "C", s.jar)
			s.served(last, "", w2, w3)
			if last.replied&w1.bit != 0 {
				t.Error("half of w1's changes are done")
			}
			if s.late != 1 || len(s.conflicts) != 0 {
				t.Errorf("%d requests reported as late and %d conflicts, want one and none", s.late, len(s.conflicts))
			}
			s.lineage()
		})
	}
}

// TestLateChangesOfOtherKeys: what nobody else has changed is no conflict.
func TestLateChangesOfOtherKeys(t *testing.T) {
	s, w1, w2 := frozen(t)
	s.join("A B", "A C")
	s.nodes[0].step(Event{Kind: Return, Op: w1.op, Changes: Changes{{Key: key(9), Value: []byte("1")}, {Key: "gone", Removed: true}}})
	w1.running = false
	w1.bit = 1 << 9
	s.settle()
	s.served(w1, "", w1, w2)
}

// TestStoodStill: a primary that was frozen and over which nobody has promoted
// does not know either what its clients have done since: with the lease it has
// lost the right to let the last writer win.
func TestStoodStill(t *testing.T) {
	s := newScript(t, 3)
	w1 := s.slow("A", s.c1)
	s.expire("A", "B")
	w2 := s.do(write, "A", s.c1)
	w3 := s.do(write, "A", s.jar)
	s.served(w3, "A!B!1A", w2, w3)
	s.finish(w1)
	s.settle()
	s.replies(w1, Failed)
	s.served(s.do(read, "A", s.jar), "A!B!1A", w2, w3)
}

// TestLastWriterWins is N6: of requests at one primary the last one wins.
func TestLastWriterWins(t *testing.T) {
	s := newScript(t, 3)
	w1 := s.slow("A", s.c1)
	w2 := s.do(write, "A", s.c1)
	w3 := s.do(write, "A", s.jar)
	s.finish(w1)
	s.settle()
	s.served(w1, "A!B!1A", w1, w2, w3)
}

// TestSentAgain: what a copy has not acknowledged may have been on a connection
// that broke. It is sent again on the next one although the copy does not say in
// the comparison that it lacks it: it holds another branch, for whose primary it
// leaves that (35).
func TestSentAgain(t *testing.T) {
	s := newScript(t, 2)
	s.comesBack = func() bool { return true }
	s.hold("A", "B")
	w1 := s.do(write, "A", s.c1)
	a, b := s.nodes[at("A")], s.nodes[at("B")]
	a.conns[b.i].end.in = nil // lost
	s.release("A", "B")
	a.step(Event{Kind: PeerUp, Peer: b.self})
	s.settle()
	s.served(w1, "A!B!1A", w1)
}
