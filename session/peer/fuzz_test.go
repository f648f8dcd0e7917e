package peer

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzHandshake: no panic; what is understood is understood again; an error is
// a malformed handshake or the end of the input.
func FuzzHandshake(f *testing.F) {
	f.Add(hello{Min: 1, Max: 2, Cluster: "c", Self: ID{"a", 1}, Want: ID{"b", 2}, Gen: 3}.encode())
	f.Add(reply{Verdict: staleGen, Version: 1, Self: ID{"node-b.example", 1 << 31}, Gen: 1 << 62}.encode())
	f.Add(encodeConfirm(7))
	f.Add(append([]byte(magic), whatHello, 0xff, 0xff))
	check := func(t *testing.T, err error) {
		if !errors.Is(err, errHandshake) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error %v", err)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := readHello(bytes.NewReader(b)); err != nil {
			check(t, err)
		} else if again, err := readHello(bytes.NewReader(h.encode())); err != nil || again != h {
			t.Errorf("%+v is read again as %+v, %v", h, again, err)
		}
		if r, err := readReply(bytes.NewReader(b)); err != nil {
			check(t, err)
		} else if again, err := readReply(bytes.NewReader(r.encode())); err != nil || again != r {
			t.Errorf("%+v is read again as %+v, %v", r, again, err)
		}
		if err := readConfirm(bytes.NewReader(b), 7); err != nil {
			check(t, err)
		}
	})
}

// FuzzFrame: no panic, only ErrFrame or the end of the input; the same frames
// whether bytes come one by one or all at once; each is spelled in the one way
// there is; the buffer stays in proportion to what came.
func FuzzFrame(f *testing.F) {
	var all []byte
	for k := Header; k <= done; k++ {
		one := appendFrame(nil, k, 300, nil)
		if !k.bare() {
			one = appendFrame(nil, k, 300, []byte("payload"))
		}
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f, byte(Plain)})
	f.Add([]byte{0})
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, slow := newReader(bytes.NewReader(b), limit), newReader(iotest.OneByteReader(bytes.NewReader(b)), limit)
		for rest := b; ; {
			x, size, err := whole.next()
			y, slowSize, slowErr := slow.next()
			if (err == nil) != (slowErr == nil) || size != slowSize || x.Kind != y.Kind || x.Number != y.Number || !bytes.Equal(x.Data, y.Data) {
				t.Fatalf("at once: %+v, %v; byte by byte: %+v, %v", x, err, y, slowErr)
			}
			if err != nil {
				if !errors.Is(err, ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("error %v", err)
				}
				break
			}
			if got := appendFrame(nil, x.Kind, x.Number, x.Data); !bytes.Equal(got, rest[:size]) {
				t.Errorf("%x is encoded again as %x", rest[:size], got)
			}
			rest = rest[size:]
		}
		if n := len(whole.buf); n > max(readBuffer, 2*len(b)) {
			t.Errorf("a buffer of %d bytes for %d", n, len(b))
		}
	})
}
