package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/understudy-lb/understudy/session/owner"
	"github.com/understudy-lb/understudy/session/peer"
)

// FuzzDecodeWire: no panic, only ErrWire, and what is understood is spelled in
// the one way there is.
func FuzzDecodeWire(f *testing.F) {
	for _, tt := range wireMessages() {
		b, err := hex.DecodeString(tt.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	m := owner.Message{Kind: owner.Grant, Header: headerA, Attrs: owner.Attrs{{Key: "x", Value: make([]byte, 1000)}}}
	f.Add(format{peer.MaxVersion, 1}.append(nil, wireID, &m))
	f.Fuzz(func(t *testing.T, frame []byte) {
		id, m, err := parseMessage(frame, peer.MaxVersion)
		if err != nil {
			if !errors.Is(err, ErrWire) {
				t.Errorf("parseMessage = %v, want an ErrWire", err)
			}
			return
		}
		if h := &m.Header; h.Start > h.Version || m.Base > h.Version || h.Version > maxVersion || m.Full && h.Epoch.N > maxCounter || len(h.Copies) > owner.MaxCopies || twice(h.Copies) {
			t.Errorf("%x: %+v", frame, m)
		}
		got := appendMessage(nil, id, &m)
		if frame[0]&flagPacked != 0 && m.Kind != owner.Ack { // it can be compressed in many ways
			if _, again, err := parseMessage(got, peer.MaxVersion); err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("%x is encoded again as %x: %v", frame, got, err)
			}
			return
		}
		if !bytes.HasPrefix(frame, got) {
			t.Errorf("%x is encoded again as %x", frame, got)
		}
	})
}
