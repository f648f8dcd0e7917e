package owner

import "testing"

// A Forward that waits for the acknowledgements of a tombstone, which then turns
// out to be of a branch that was left (38): it is answered that this member is not
// the primary, and does not look for the session as a request would, which has a
// handler.
func TestForwardToTombstoneThatIsNoMore(t *testing.T) {
	v := &still{self: Member{"a", 1}, other: Member{"b", 2}}
	m := &Machine{}
	v.begin(t, m, 10)
	m.Step(v, &Event{Kind: Expire}, nil)
	if r := m.Record(); !r.Expired() {
		t.Fatalf("the session is not over: %+v", r.Header)
	}
	tag := Tag{7, 1}
	m.Step(v, &Event{Kind: Receive, Peer: v.other, Message: &Message{Kind: Forward, Tag: tag, Changes: Changes{{Key: "x", Value: []byte("y")}}}}, nil)
	if !m.Busy() {
		t.Fatal("the answer does not wait")
	}
	out := m.Step(v, &Event{Kind: Receive, Peer: v.other, Message: &Message{
		Kind: Refused, About: m.Record().Epoch, Reason: Higher, Header: Header{Epoch: Epoch{2, Reign{9, 9}}, Primary: v.other, Version: 2, Start: 1},
	}}, nil)
	answered := false
	for _, a := range out {
		if a.Kind == Send && a.Message.Kind == Forwarded {
			answered = a.To == v.other && a.Message.Tag == tag && a.Message.Reason == NotPrimary
		}
	}
	if !answered || m.Busy() {
		t.Errorf("answered %v, busy %v: %+v", answered, m.Busy(), out)
	}
}

// An id that is to end whatever happens ends in all branches, also where the session
// has ended by itself before.
func TestInvalidationAfterExpiry(t *testing.T) {
	v := &still{self: Member{"a", 1}, other: Member{"b", 2}}
	m := &Machine{}
	v.begin(t, m, 10)
	m.Step(v, &Event{Kind: Expire}, nil)
	m.Step(v, &Event{Kind: Expire}, nil)
	if r := m.Record(); !r.Expired() {
		t.Fatalf("it has not ended by itself: %+v", r.Header)
	}
	m.Step(v, &Event{Kind: Expire, Invalidate: true}, nil)
	if r := m.Record(); !r.Dead || r.Expired() {
		t.Errorf("%+v, want the tombstone of an invalidation", r.Header)
	}
}
