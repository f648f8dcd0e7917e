package cluster

import (
	"bytes"
	"net"
	"testing"
)

// A dialogue reads what was prepared and keeps what is written.
type dialogue struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (d *dialogue) Read(b []byte) (int, error)  { return d.in.Read(b) }
func (d *dialogue) Write(b []byte) (int, error) { return d.out.Write(b) }

// FuzzIdentityAnswer: whatever a stranger asks, it learns nothing.
func FuzzIdentityAnswer(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(bytes.Repeat([]byte{0}, nonceSize+macSize), false)
	f.Fuzz(func(t *testing.T, q []byte, leaving bool) {
		id := newIdentity("a#1", [][]byte{keyOld, keyNew})
		id.leaving.Store(leaving)
		d := &dialogue{in: bytes.NewReader(q)}
		if id.answer(d) || d.out.Len() > 0 {
			t.Fatalf("the question %x was answered", q)
		}
	})
}

// FuzzIdentityAsk: whatever a stranger answers, it is believed nothing.
func FuzzIdentityAsk(f *testing.F) {
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(append([]byte{statusHere, 0, 3, 'b', '#', '2'}, make([]byte, macSize)...))
	f.Fuzz(func(t *testing.T, a []byte) {
		if got, err := newIdentity("a#1", [][]byte{keyOld}).ask(&dialogue{in: bytes.NewReader(a)}); err == nil {
			t.Fatalf("the answer %x is believed: %+v", a, got)
		}
	})
}

func TestAnswerCannotBeReplayed(t *testing.T) {
	asker, b := newIdentity("a#1", [][]byte{keyOld}), newIdentity("b#2", [][]byte{keyOld})
	question := &dialogue{in: bytes.NewReader(nil)}
	_, _ = asker.ask(question) // no answer: it is only asked
	reply := &dialogue{in: bytes.NewReader(question.out.Bytes()[1:])}
	if !b.answer(reply) {
		t.Fatal("b does not answer")
	}
	if got, err := asker.ask(&dialogue{in: bytes.NewReader(reply.out.Bytes())}); err == nil {
		t.Errorf("an old answer is believed: %+v", got)
	}
}
