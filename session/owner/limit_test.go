package owner

import (
	"bytes"
	"slices"
	"testing"
)

// A still world is one primary a with a copy on b, both connected; facts says how
// a stands with everybody.
type still struct {
	self, other Member
	facts       Facts
}

func (v *still) Self() Member         { return v.self }
func (v *still) Peer(Member) Facts    { return v.facts }
func (v *still) Connected() []Member  { return []Member{v.other} }
func (v *still) Candidates() []Member { return []Member{v.other} }
func (v *still) NextReign() Reign     { return Reign{1, 1} }

// begin makes a session at v that holds so many bytes, acknowledged by its copy.
func (v *still) begin(t *testing.T, m *Machine, size int) {
	t.Helper()
	op := &Op{ID: 1}
	v.facts = Connected | Leased
	out := m.Step(v, &Event{Kind: Create, Op: op, Changes: Changes{{Key: "k", Value: make([]byte, size-1)}}}, nil)
	v.ack(m, m.Step(v, &Event{Kind: Return, Op: op}, out))
	if m.Busy() {
		t.Fatal("the session is not made")
	}
}

// ack answers what was sent to the copy, and what that leads to.
func (v *still) ack(m *Machine, out []Action) (all []Action) {
	all = out
	for len(out) > 0 {
		a := out[0]
		out = out[1:]
		if a.Kind == Send && a.Message.Kind == Update {
			h := a.Message.Header
			next := m.Step(v, &Event{Kind: Receive, Peer: v.other, Message: &Message{
				Kind: Ack, About: h.Epoch, Serial: a.Message.Serial, Header: Header{Version: h.Version},
			}}, nil)
			out, all = append(out, next...), append(all, next...)
		}
	}
	return all
}

// Changes that fit one by one and come together after a fence: those that come
// second fail, as a whole, and what makes the session smaller does not.
func TestChangesThatDoNotFitTogether(t *testing.T) {
	tests := []struct {
		name  string
		held  int // bytes
		sizes []int
		fit   []bool
		want  int // bytes
	}{
		{"both fit", 10, []int{40, 50}, []bool{true, true}, 100},
		{"the second is too large", 10, []int{40, 51}, []bool{true, false}, 50},
		{"the first is too large", 10, []int{91, 50}, []bool{false, true}, 60},
		{"it is too large already, and grows", 150, []int{1}, []bool{false}, 150},
		{"it is too large already, and shrinks", 150, []int{-1}, []bool{true}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := &still{self: Member{"a", 1}, other: Member{"b", 2}}
			m := &Machine{}
			v.begin(t, m, tt.held)
			m.MaxBytes = 100
			v.facts = Connected // the lease is over
			var out []Action
			for i, size := range tt.sizes {
				ch := Changes{{Key: string(rune('m' + i)), Value: bytes.Repeat([]byte("x"), max(size-1, 0))}}
				if size < 0 {
					ch = Changes{{Key: "k", Removed: true}}
				}
				out = append(out, m.Step(v, &Event{Kind: Receive, Peer: v.other, Message: &Message{Kind: Forward, Tag: Tag{uint64(10 + i), 1}, Changes: ch}}, nil)...)
			}
			if m.Record().Version != 1 {
				t.Fatal("changes were done before the fence")
			}
			fit := make([]bool, len(tt.sizes))
			for _, a := range v.ack(m, out) {
				if a.Kind == Send && a.Message.Kind == Forwarded {
					fit[a.Message.Tag.Op-10] = a.Message.Reason == NoReason
				}
			}
			if got := m.Record().Attrs.size(); !slices.Equal(fit, tt.fit) || got != tt.want || m.Busy() {
				t.Errorf("done: %v, the session has %d bytes, busy %v; want %v, %d, not busy", fit, got, m.Busy(), tt.fit, tt.want)
			}
		})
	}
}

// A question that is not answered ends what waits for it as an error, and leaves
// nothing behind (G8).
func TestUnanswered(t *testing.T) {
	v := &still{self: Member{"a", 1}, other: Member{"b", 2}, facts: Connected}
	m := &Machine{}
	first, second := &Op{ID: 1}, &Op{ID: 2}
	var out []Action
	for _, op := range []*Op{first, second} {
		out = append(out, m.Step(v, &Event{Kind: Request, Op: op, Cookie: Epoch{1, Reign{7, 7}}, Primary: v.other}, nil)...)
	}
	answers := map[*Op]Outcome{}
	for questions := 0; m.Busy(); questions++ {
		if questions > 2*(maxTries+1) {
			t.Fatal("they ask for ever")
		}
		var tag Tag
		for _, a := range out {
			switch a.Kind {
			case Send:
				tag = a.Message.Tag
			case Reply:
				answers[a.Op] = a.Result.Outcome
			default:
			}
		}
		m.Step(v, &Event{Kind: Unanswered, Message: &Message{Tag: Tag{tag.Op, tag.Step + 1}}}, nil) // of another question
		out = m.Step(v, &Event{Kind: Unanswered, Message: &Message{Tag: tag}}, nil)
	}
	for _, a := range out {
		if a.Kind == Reply {
			answers[a.Op] = a.Result.Outcome
		}
	}
	if answers[first] != Failed || answers[second] != Failed {
		t.Errorf("the requests ended with %v, want two that failed", answers)
	}
}
