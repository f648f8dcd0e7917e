package owner

import "testing"

// frozen is A!B!C's session after A was frozen with a request running: B has
// promoted over it and gone on, and A has just seen its connections end.
func frozen(t *testing.T) (s *script, w1, w2 *client) {
	s = newScript(t, 3)
	s.comesBack = func() bool { return true }
	w1 = s.slow("A", s.c1)
	s.hold("B", "A")
	s.hold("C", "A")
	s.part("A B", "A C")
	w2 = s.do(write, "B", s.c1)
	s.served(w2, "B!C!2B", w2)
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
