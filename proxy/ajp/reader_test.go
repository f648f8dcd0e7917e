package ajp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// say puts what a server says into words: its events, and the error that ends them.
// It is read in pieces of step bytes.
func say(b []byte, limit, step int) string {
	var words []string
	var r Reader
	r.Reset(limit)
	for have := 0; ; {
		e, n, err := r.Next(b[:have])
		b, have = b[n:], have-n
		switch {
		case err != nil:
			return strings.Join(append(words, "! "+strings.TrimPrefix(err.Error(), "ajp: ")), ", ")
		case e.Kind == More && have == len(b):
			if have > 0 {
				words = append(words, fmt.Sprintf("%d left", have))
			}
			return strings.Join(words, ", ")
		case e.Kind == More:
			have = min(have+step, len(b))
		case e.Kind == Data:
			if last := len(words) - 1; last >= 0 && strings.HasPrefix(words[last], "data ") {
				words[last] += string(e.Data)
			} else {
				words = append(words, "data "+string(e.Data))
			}
		case e.Kind == Head:
			words = append(words, head(e.Data))
		case e.Kind == Ask:
			words = append(words, fmt.Sprintf("ask %d", e.Size))
		default:
			words = append(words, map[Kind]string{Flush: "flush", End: fmt.Sprintf("end %v", e.Reuse)}[e.Kind])
		}
	}
}

// head puts a SEND_HEADERS into words.
func head(b []byte) string {
	h, err := ParseHead(b)
	if err != nil {
		return "head ! " + err.Error()
	}
	s := fmt.Sprintf("head %d %q", h.Status, h.Reason)
	for {
		name, value, err := h.Next()
		switch {
		case err != nil:
			return s + " ! " + strings.TrimPrefix(err.Error(), "ajp: ")
		case name == nil:
			return s
		}
		s += fmt.Sprintf(" %s=%q", name, value)
	}
}

const (
	okHead  = "41 42 00 08 04 00 c8 00 00 00 00 00 " // 200, no reason, no headers
	endKeep = "41 42 00 02 05 01 "
)

func TestReader(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"keep (7.2)", okHead + "41 42 00 02 05 01", `head 200 "", end true`},
		{"close (7.2)", okHead + "41 42 00 02 05 00", `head 200 "", end false`},
		{"GET_BODY_CHUNK of 8186 (7.2)", "41 42 00 03 06 1F FA", "ask 8186"},
		{"flush (7.2)", okHead + "41 42 00 04 03 00 00 00", `head 200 "", flush`},
		{"a late flush of the response before (7.4)", "41 42 00 04 03 00 00 00" + okHead, `flush, head 200 ""`},
		{"flush without its zero", okHead + "41 42 00 03 03 00 00", `head 200 "", flush`},
		{"body (7.4)", okHead + "41 42 00 06 03 00 02 6f 6b 00" + endKeep, `head 200 "", data ok, end true`},
		{"body in two chunks, without their zeros", okHead + "41 42 00 05 03 00 02 6f 6b 41 42 00 04 03 00 01 21" + endKeep, `head 200 "", data ok!, end true`},
		{"asks before and after the head (7.3)", "41 42 00 03 06 00 01" + okHead + "41 42 00 03 06 00 02", `ask 1, head 200 "", ask 2`},
		{
			"coded names (7.4)", "41 42 LLLL 04 01 94 00 01 4e 00 00 0b" +
				"a0 01 00 00 00 a0 02 00 00 00 a0 03 00 00 00 a0 04 00 00 00 a0 05 00 00 00 a0 06 00 00 00 a0 07 00 00 00 a0 08 00 00 00 a0 09 00 00 00 a0 0a 00 00 00 a0 0b 00 00 00",
			`head 404 "N" Content-Type="" Content-Language="" Content-Length="" Date="" Last-Modified="" Location="" Set-Cookie="" Set-Cookie2="" Servlet-Engine="" Status="" WWW-Authenticate=""`,
		},
		{"other names, several of one, and null strings (7.1)", "41 42 LLLL 04 00 c8 ffff 00 02 00 01 58 00 00 03 5a fc 72 00 00 01 58 00 ffff", `head 200 "" X="Z\xfcr" X=""`},

		{"wrong magic (7.5)", "41 43 00 02 05 01", "! a packet does not begin with 41 42"},
		{"HTTP", "48", "! a packet does not begin with 41 42"},
		{"our own magic", "12 34 00 02 05 01", "! a packet does not begin with 41 42"},
		{"longer than the packet size (7.5)", "41 42 1f fd 05", "! a packet is longer than the packet size"},
		{"as long as the packet size", "41 42 1f fc 04", "5 left"},
		{"an empty packet", "41 42 00 00 00", "! a packet is empty"},
		{"unknown type (7.5)", "41 42 00 01 02", "! a packet has an unknown type"},
		{"a CPONG that nobody has asked for", "41 42 00 01 09", "! an answer to a ping that was not sent"},
		{"a second head (7.5)", okHead + okHead, `head 200 "", ! a second head`},
		{"body before the head (7.4)", "41 42 00 05 03 00 01 78 00", "! a body or the end without a head"},
		{"end before the head", endKeep, "! a body or the end without a head"},
		{"a chunk longer than its packet (7.5)", okHead + "41 42 00 05 03 00 03 78 00", `head 200 "", ! a body chunk is longer than its packet`},
		{"a chunk with two bytes behind it", okHead + "41 42 00 06 03 00 01 78 00 00", `head 200 "", ! the length of a packet does not fit its type`},
		{"a chunk without a length", okHead + "41 42 00 02 03 00", `head 200 "", ! the length of a packet does not fit its type`},
		{"an end that is too long", okHead + "41 42 00 03 05 01 00", `head 200 "", ! the length of a packet does not fit its type`},
		{"an end that is too short", okHead + "41 42 00 01 05", `head 200 "", ! the length of a packet does not fit its type`},
		{"an ask that is too short", "41 42 00 02 06 01", "! the length of a packet does not fit its type"},
		{"an ask for nothing", "41 42 00 03 06 00 00", "! it asks for no bytes of the request's body"},
		{"after the end", okHead + endKeep + "41 42 00 04 03 00 00 00", `head 200 "", end true, ! something after the end of the response`},
		{"too many flushes", strings.Repeat("41 42 00 04 03 00 00 00", 17), strings.Repeat("flush, ", 16) + "! too many flushes before the head"},
		{"an unknown code", "41 42 00 0d 04 00 c8 00 00 00 00 01 a0 0c 00 00 00", `head 200 "" ! an unknown code of a header`},
		{"no code", "41 42 00 0d 04 00 c8 00 00 00 00 01 a0 00 00 00 00", `head 200 "" ! an unknown code of a header`},
		{"a header without a name", "41 42 00 0e 04 00 c8 00 00 00 00 01 00 00 00 00 00 00", `head 200 "" ! an unknown code of a header`},
		{"fewer headers than it says", "41 42 00 08 04 00 c8 00 00 00 00 01", `head 200 "" ! a string is longer than its packet, or does not end with a zero`},
		{"more headers than it says", "41 42 00 0d 04 00 c8 00 00 00 00 00 a0 01 00 00 00", `head 200 "" ! bytes behind the last header`},
		{"a string that is longer than its packet", "41 42 00 0d 04 00 c8 00 00 00 00 01 a0 01 00 09 00", `head 200 "" ! a string is longer than its packet, or does not end with a zero`},
		{"a string without its zero", "41 42 00 0d 04 00 c8 00 00 00 00 01 a0 01 00 00 01", `head 200 "" ! a string is longer than its packet, or does not end with a zero`},
		{"a head of one byte", "41 42 00 02 04 00", "head ! ajp: the length of a packet does not fit its type"},
		{"a head that ends in the reason", "41 42 00 05 04 00 c8 00 09", "head ! ajp: a string is longer than its packet, or does not end with a zero"},
		{"a head that ends before the number of headers", "41 42 00 06 04 00 c8 00 00 00", "head ! ajp: the length of a packet does not fit its type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := unhex(t, strings.ReplaceAll(tt.in, "LL", "00"))
			if strings.Contains(tt.in, "LL") {
				in[3] = byte(len(in) - 4)
			}
			for _, step := range []int{1, 2, 3, 7, 1000} {
				if got := say(in, MinPacket, step); got != tt.want {
					t.Errorf("in pieces of %d: %s\nwant %s", step, got, tt.want)
				}
			}
		})
	}
}

// FuzzReader checks that a server can say what it likes: no panic, only an Error,
// the same events however the bytes are cut, and every byte is accounted for.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		okHead + "41 42 00 06 03 00 02 6f 6b 00" + endKeep,
		"41 42 00 03 06 1F FA" + okHead + "41 42 00 04 03 00 00 00" + endKeep,
		"41 42 00 0d 04 00 c8 00 00 00 00 01 a0 01 00 00 00",
		"41 42 ffff 03 ffff",
	} {
		f.Add(unhex(f, seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		whole := say(b, MaxPacket, len(b)+1)
		if cut := say(b, MaxPacket, int(step%16)+1); cut != whole {
			t.Errorf("in pieces of %d: %s\nas a whole: %s", step%16+1, cut, whole)
		}
		var r Reader
		r.Reset(MinPacket)
		for {
			e, n, err := r.Next(b)
			if n < 0 || n > len(b) || len(e.Data) > n || e.Kind == Data && len(e.Data) == 0 || e.Kind == Ask && e.Size < 1 {
				t.Fatalf("Next = %+v, %d, %v of %d bytes", e, n, err, len(b))
			}
			if err != nil {
				if broken := (*Error)(nil); !errors.As(err, &broken) {
					t.Fatalf("Next = %T", err)
				}
				return
			}
			if e.Kind == More {
				return
			}
			b = b[n:]
		}
	})
}

// FuzzMessage checks that a message says what was put into it, or that it is too long.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("GET"), []byte("/"), []byte("Host"), []byte("h"), []byte("q"))
	f.Add([]byte("PATCH"), []byte("/%41"), []byte("x"), []byte("\xfc"), []byte(""))
	f.Fuzz(func(t *testing.T, method, uri, name, value, query []byte) {
		var m Message
		m.Begin(make([]byte, MinPacket), MinPacket, &Start{Method: method, Protocol: "HTTP/1.1", URI: uri, ServerPort: 80})
		m.Header(name, value)
		m.Attribute(QueryString, query)
		got, err := m.End()
		if err != nil {
			if len(method)+len(uri)+len(name)+len(value)+len(query) < MinPacket-100 {
				t.Fatalf("End = %v", err)
			}
			return
		}
		if len(got) > MinPacket || int(got[2])<<8|int(got[3]) != len(got)-4 || got[len(got)-1] != 0xFF {
			t.Fatalf("% x is no packet", got)
		}
		rest := got[4+2:]
		for _, want := range [][]byte{[]byte("HTTP/1.1"), uri, nil} {
			var s []byte
			if s, rest, err = cutString(rest); err != nil || !bytes.Equal(s, want) {
				t.Fatalf("% x has %q, %v; want %q", got, s, err, want)
			}
		}
	})
}
