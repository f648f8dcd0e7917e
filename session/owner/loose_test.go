package owner

import "testing"

// newLooseScript is newScript with replies that do not wait for copies.
func newLooseScript(t *testing.T, n int) *script {
	return scriptIn(t, newWorldOf(t, n, 1, true))
}

// TestLoose is 36: replies that do not wait for the copies, and what is said of
// them after a failover.
func TestLoose(t *testing.T) {
	t.Run("the reply leaves before the copy answers", func(t *testing.T) {
		s := newLooseScript(t, 2)
		s.hold("A", "B")
		w1 := s.do(write, "A", s.c1)
		s.served(w1, "A!B!1A", w1)
		s.release("A", "B")
		s.settle()
		if a, b := s.holds("A"), s.holds("B"); b.Version != a.Version {
			t.Errorf("want the copy to follow: %s", s.state())
		}
	})
	t.Run("what was lost is flagged", func(t *testing.T) {
		s := newLooseScript(t, 2)
		s.hold("A", "B")
		w1 := s.do(write, "A", s.c1)
		s.served(w1, "A!B!1A", w1)
		s.fault = true
		s.release("A", "B")
		s.kill("A") // and with it what was on its way
		r := s.do(read, "B", s.jar)
		if !r.result.Flagged || r.result.Outcome != Served {
			t.Errorf("after the loss: %+v, want served and flagged", r.result)
		}
		if again := s.do(read, "B", s.jar); again.result.Flagged {
			t.Errorf("once the client knows: %+v, want no flag", again.result)
		}
	})
	t.Run("an earlier epoch is all there", func(t *testing.T) {
		s := newLooseScript(t, 3)
		old := s.c1
		s.part("A B") // C is the copy now
		w1 := s.do(write, "A", s.c1)
		s.served(w1, "A!C!2A", w1)
		s.fault = true
		s.kill("A")
		if r := s.do(read, "C", old); r.result.Flagged || r.result.Outcome != Served {
			t.Errorf("with a cookie of the epoch before: %+v, want no flag", r.result)
		}
	})
	t.Run("who gives it away has all of it", func(t *testing.T) {
		s := newLooseScript(t, 3)
		w1 := s.do(write, "A", s.c1)
		if r := s.do(read, "C", s.jar); r.result.Flagged || r.result.Outcome != Served {
			t.Errorf("taken from its primary: %+v, want no flag", r.result)
		}
		s.served(w1, "A!B!1A", w1)
	})
	t.Run("who gave it away and gets it back does not have all of it", func(t *testing.T) {
		s := newLooseScript(t, 2)
		s.served(s.do(read, "B", s.jar), "B!A!2A")
		s.hold("B", "A")
		w1 := s.do(write, "B", s.jar)
		s.served(w1, "B!A!2A", w1)
		s.fault = true
		s.release("B", "A")
		s.kill("B") // A has heard nothing since it gave the session away
		if r := s.do(read, "A", s.jar); !r.result.Flagged || r.result.Outcome != Served {
			t.Errorf("after the loss: %+v, want served and flagged", r.result)
		}
	})
	t.Run("a primary that lives after all reports what it had", func(t *testing.T) {
		s := newLooseScript(t, 2)
		w1 := s.do(write, "A", s.c1)
		s.hold("A", "B")
		w2 := s.do(write, "A", s.jar) // never reaches B
		s.served(w2, "A!B!1A", w1, w2)
		s.part("A B")
		s.release("A", "B")
		s.do(write, "B", s.c1)
		s.do(write, "B", s.jar)
		s.do(write, "B", s.jar)
		s.join("A B")
		if len(s.conflicts) == 0 {
			t.Errorf("want a conflict reported: %s", s.state())
		}
	})
	t.Run("an invalidation waits all the same", func(t *testing.T) {
		s := newLooseScript(t, 2)
		s.hold("A", "B")
		r := s.do(invalidate, "A", s.c1)
		s.waits(r)
		s.release("A", "B")
		s.settle()
		s.replies(r, Ended)
	})
	t.Run("a member that waits does not reply early with another's loose record", func(t *testing.T) {
		s := newLooseScript(t, 2)
		s.nodes[0].m.rec.Loose = false // as one that a strict member gave away
		s.hold("A", "B")
		s.waits(s.do(write, "A", s.c1))
		s.release("A", "B")
		s.settle()
	})
}
