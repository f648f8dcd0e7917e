package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
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
	f.Fuzz(func(t *testing.T, frame []byte) {
		id, m, err := parseMessage(frame)
		if err != nil {
			if !errors.Is(err, ErrWire) {
				t.Errorf("parseMessage = %v, want an ErrWire", err)
			}
			return
		}
		if got := appendMessage(nil, id, &m); !bytes.HasPrefix(frame, got) {
			t.Errorf("%x is encoded again as %x", frame, got)
		}
	})
}
