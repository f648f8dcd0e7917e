package http1

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReplyAccepted(t *testing.T) {
	tests := []struct {
		name    string
		in      string
		to      Method
		status  int
		reason  string
		close   bool
		framing Framing
		length  int64 // ContentLength
		body    string
		rest    string // what is left on the connection
	}{{
		name: "length",
		in:   "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", to: MethodGet,
		status: 200, reason: "OK", framing: Length, length: 2, body: "ok",
	}, {
		name: "C07 bytes behind the length",
		in:   "HTTP/1.1 200 OK\nContent-Length: 2\n\nokay", to: MethodGet,
		status: 200, reason: "OK", framing: Length, length: 2, body: "ok", rest: "ay",
	}, {
		name: "chunked",
		in:   "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\nX-Sum: 1\n\n", to: MethodGet,
		status: 200, reason: "OK", framing: Chunked, length: -1, body: "ok",
	}, {
		name: "until close",
		in:   "HTTP/1.1 200 OK\n\nall there is", to: MethodGet,
		status: 200, reason: "OK", framing: UntilClose, length: -1, body: "all there is", close: true,
	}, {
		name: "until close, nothing",
		in:   "HTTP/1.1 200 OK\n\n", to: MethodPost,
		status: 200, reason: "OK", framing: UntilClose, length: -1, close: true,
	}, {
		name: "HTTP/1.0",
		in:   "HTTP/1.0 200 OK\nContent-Length: 2\n\nok", to: MethodGet,
		status: 200, reason: "OK", framing: Length, length: 2, body: "ok", close: true,
	}, {
		name: "HTTP/1.0 kept",
		in:   "HTTP/1.0 200 OK\nContent-Length: 2\nConnection: keep-alive\n\nok", to: MethodGet,
		status: 200, reason: "OK", framing: Length, length: 2, body: "ok",
	}, {
		name: "close",
		in:   "HTTP/1.1 404 Not Found\nConnection: close\nContent-Length: 0\n\n", to: MethodGet,
		status: 404, reason: "Not Found", framing: Length, close: true,
	}, {
		name: "C01 HEAD answered with a body",
		in:   "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", to: MethodHead,
		status: 200, reason: "OK", length: 2, rest: "ok",
	}, {
		name: "HEAD, chunked",
		in:   "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", to: MethodHead,
		status: 200, reason: "OK", length: -1,
	}, {
		name: "HEAD, nothing",
		in:   "HTTP/1.1 200 OK\n\n", to: MethodHead,
		status: 200, reason: "OK", length: -1,
	}, {
		name: "304 with a length",
		in:   "HTTP/1.1 304 Not Modified\nContent-Length: 500\n\n", to: MethodGet,
		status: 304, reason: "Not Modified", length: 500,
	}, {
		name: "204",
		in:   "HTTP/1.1 204 No Content\n\n", to: MethodGet,
		status: 204, reason: "No Content", length: -1,
	}, {
		name: "C02 204 with a length",
		in:   "HTTP/1.1 204 No Content\nContent-Length: 5\n\nhello", to: MethodGet,
		status: 204, reason: "No Content", length: -1, close: true, rest: "hello",
	}, {
		name: "C02 204 chunked",
		in:   "HTTP/1.1 204 No Content\nTransfer-Encoding: chunked\n\n0\n\n", to: MethodGet,
		status: 204, reason: "No Content", length: -1, close: true, rest: "0\n\n",
	}, {
		name: "205 has a body like others",
		in:   "HTTP/1.1 205 Reset Content\nContent-Length: 0\n\n", to: MethodGet,
		status: 205, reason: "Reset Content", framing: Length,
	}, {
		name: "103",
		in:   "HTTP/1.1 103 Early Hints\nLink: </a>\n\n", to: MethodGet,
		status: 103, reason: "Early Hints", length: -1,
	}, {
		name: "101",
		in:   "HTTP/1.1 101 Switching Protocols\nUpgrade: foo\nConnection: upgrade\n\nfoo bytes", to: MethodGet,
		status: 101, reason: "Switching Protocols", length: -1, rest: "foo bytes",
	}, {
		name: "no reason",
		in:   "HTTP/1.1 200\nContent-Length: 0\n\n", to: MethodGet,
		status: 200, framing: Length,
	}, {
		name: "empty reason",
		in:   "HTTP/1.1 200 \nContent-Length: 0\n\n", to: MethodGet,
		status: 200, framing: Length,
	}, {
		name: "odd status",
		in:   "HTTP/1.1 999 caf\xe9\nContent-Length: 0\n\n", to: MethodGet,
		status: 999, reason: "caf\xe9", framing: Length,
	}}
	for _, tt := range tests {
		for _, step := range []int{0, 1} {
			c, _ := newScript(crlf(tt.in), step)
			var r Reply
			if err := c.ReadReply(&r, tt.to); err != nil {
				t.Errorf("%s, step %d: ReadReply = %v", tt.name, step, err)
				continue
			}
			if r.Status != tt.status || string(r.Reason) != tt.reason || r.Close != tt.close ||
				r.Body.Framing() != tt.framing || r.ContentLength != tt.length {
				t.Errorf("%s, step %d: ReadReply gives status %d %q, close %v, framing %d, length %d",
					tt.name, step, r.Status, r.Reason, r.Close, r.Body.Framing(), r.ContentLength)
			}
			if got, err := content(&r.Body); got != crlf(tt.body) || err != nil {
				t.Errorf("%s, step %d: body = %q, %v; want %q", tt.name, step, got, err, tt.body)
			}
			if !r.Body.Ended() {
				t.Errorf("%s, step %d: the body has not ended", tt.name, step)
			}
			if _, rest := c.Detach(); step == 0 && string(rest) != crlf(tt.rest) {
				t.Errorf("%s: left on the connection: %q, want %q", tt.name, rest, tt.rest)
			}
		}
	}
}

func TestReplyRefused(t *testing.T) {
	const start = "HTTP/1.1 200 OK\r\n"
	tests := []struct{ name, in string }{
		{"C04 different lengths", start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"},
		{"C05 length and chunked", start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"C08 status 099", "HTTP/1.1 099 Odd\r\n\r\n"},
		{"four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
		{"two digits", "HTTP/1.1 20\r\n\r\n"},
		{"sign", "HTTP/1.1 +20 OK\r\n\r\n"},
		{"C14 blank before the colon", start + "X-A : 1\r\n\r\n"},
		{"folded line", start + "A: b\r\n c\r\n\r\n"},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
		{"NUL", start + "A: \x00\r\n\r\n"},
		{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"other coding", start + "Transfer-Encoding: gzip\r\n\r\n"},
		{"HTTP/2", "HTTP/2 200\r\n\r\n"},
		{"empty line before", "\r\nHTTP/1.1 200 OK\r\n\r\n"},
		{"no HTTP, no line end", "SSH-2.0-OpenSSH"},
		{"ICY", "ICY 200 OK\r\n\r\n"},
		{"control byte in the reason", "HTTP/1.1 200 O\x01K\r\n\r\n"},
		{"endless head", start + "A: " + strings.Repeat("a", 70<<10)},
		{"endless status line", "HTTP/1.1 200 " + strings.Repeat("a", 70<<10)},
		{"many lines", start + strings.Repeat("A: b\r\n", 201) + "\r\n"},
		{"broken chunk", start + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
	}
	for _, tt := range tests {
		for _, step := range []int{0, 1} {
			c, _ := newScript(tt.in, step)
			var r Reply
			err := c.ReadReply(&r, MethodGet)
			if err == nil {
				_, err = content(&r.Body)
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Status != 502 {
				t.Errorf("%s, step %d: %v, want status 502", tt.name, step, err)
			}
		}
	}
}

// A body that the end of the connection ends is complete only if the connection
// ends in order.
func TestUntilCloseBroken(t *testing.T) {
	c, s := newScript("HTTP/1.1 200 OK\r\n\r\nhalf", 0)
	s.end = io.ErrClosedPipe
	var r Reply
	if err := c.ReadReply(&r, MethodGet); err != nil {
		t.Fatal(err)
	}
	if got, err := content(&r.Body); got != "half" || !errors.Is(err, io.ErrClosedPipe) || r.Body.Ended() {
		t.Errorf("content = %q, %v, ended %v; want the error and no end", got, err, r.Body.Ended())
	}
}

func TestInterimReplies(t *testing.T) {
	c, _ := newScript("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 5)
	var r Reply
	for _, want := range []int{100, 103, 200} {
		if err := c.ReadReply(&r, MethodGet); err != nil || r.Status != want {
			t.Fatalf("ReadReply: status %d, %v; want %d", r.Status, err, want)
		}
		if r.Interim() != (want < 200) {
			t.Errorf("status %d: Interim = %v", want, r.Interim())
		}
	}
	if got, err := content(&r.Body); got != "ok" || err != nil {
		t.Errorf("body = %q, %v", got, err)
	}
}

func TestTrailerFieldsDropped(t *testing.T) {
	c, _ := newScript("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"+
		"X-Sum: 1\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\nUnderstudy-Not-Executed: x\r\nGrpc-Status: 0\r\n\r\n", 3)
	var r Reply
	if err := c.ReadReply(&r, MethodGet); err != nil {
		t.Fatal(err)
	}
	if _, err := content(&r.Body); err != nil {
		t.Fatal(err)
	}
	var out Out
	out.Init(NewBuffers(BuffersConfig{}))
	out.EndBody(Chunked, r.Body.Trailer())
	if want := "0\r\nX-Sum: 1\r\nGrpc-Status: 0\r\n\r\n"; string(out.Bytes()) != want {
		t.Errorf("the trailer passed on is %q, want %q", out.Bytes(), want)
	}
}

func TestDiscard(t *testing.T) {
	tests := []struct {
		name  string
		in    string
		limit int64
		want  error
	}{
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", 0, nil},
		{"short enough", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", 4, nil},
		{"too long by its length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 4, ErrTooLong},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", 4, nil},
		{"chunks too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", 4, ErrTooLong},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", 9, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		c, _ := newScript(tt.in, 0)
		var r Reply
		if err := c.ReadReply(&r, MethodGet); err != nil {
			t.Fatal(err)
		}
		if err := r.Body.Discard(tt.limit); !errors.Is(err, tt.want) {
			t.Errorf("%s: Discard(%d) = %v, want %v", tt.name, tt.limit, err, tt.want)
		}
		if tt.want == nil && !r.Body.Ended() {
			t.Errorf("%s: the body has not ended", tt.name)
		}
	}
}

func TestBodyAsReader(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n0123456789",
	} {
		c, _ := newScript(in, 0)
		var r Reply
		if err := c.ReadReply(&r, MethodGet); err != nil {
			t.Fatal(err)
		}
		var got []byte
		p := make([]byte, 3)
		for {
			n, err := r.Body.Read(p)
			got = append(got, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if string(got) != "0123456789" || r.Body.Count() != 10 {
			t.Errorf("Read gives %q, Count %d", got, r.Body.Count())
		}
	}
}
