package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Whatever we accept, net/http accepts, with the same framing: then no reader as
// strict as it sees another message than we do. It is the same for what we
// write from what we accepted, which besides must not change when it is passed
// on again. Differences, and why they are right:
//   - one empty line before the request line: RFC 9112 section 2.2 wants it
//     skipped; it is never written;
//   - net/http parses the target as a URL and refuses some that we pass on
//     unchanged (bad percent-encoding in the path, odd ports in the authority);
//   - it limits chunk extensions by a rule of its own, and refuses some trailer
//     keys; we do not write either.
//
// What is compared is therefore what we write.
func FuzzRequestHead(f *testing.F) {
	for _, s := range []string{
		benchRequest, benchPost,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 003\r\n\r\nabcGET / HTTP/1.1\r\n",
		"OPTIONS http://a.test HTTP/1.1\r\nHost: b\r\n\r\n",
		"GET http://a.test?x HTTP/1.0\r\n\r\n",
		"\r\nCONNECT a:1 HTTP/1.1\r\nHost: [::1]:1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: a, b\r\nA: 1\r\nTE: trailers\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, wholeBody, wholeErr := readRequest(in, 0)
		parts, _, partsErr := readRequest(in, 1)
		if !bytes.Equal(whole, parts) || (wholeErr == nil) != (partsErr == nil) {
			t.Fatalf("in one read %q, %v; byte by byte %q, %v", whole, wholeErr, parts, partsErr)
		}
		if wholeErr != nil {
			checkError(t, wholeErr)
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(whole)))
		if err != nil {
			if explained(whole, err) {
				return
			}
			t.Fatalf("net/http refuses what we pass on, %q: %v", whole, err)
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil || !bytes.Equal(body, wholeBody) {
			t.Fatalf("%q: net/http reads %q, %v; we read %q", whole, body, err, wholeBody)
		}
		again, _, err := readRequest(whole, 0)
		if err != nil || !bytes.Equal(again, whole) {
			t.Fatalf("passed on twice: %q, %v; once: %q", again, err, whole)
		}
	})
}

// explained reports whether net/http's err about a request that we pass on is
// one of the differences listed at FuzzRequestHead.
func explained(msg []byte, err error) bool {
	s := err.Error()
	return strings.Contains(s, "invalid URL escape") || strings.Contains(s, "parse \"") ||
		strings.Contains(s, "invalid URI for request") || bytes.HasPrefix(msg, []byte("CONNECT "))
}

// readRequest reads one request and returns what a proxy would pass on, and the
// content.
func readRequest(in []byte, step int) (passed, body []byte, err error) {
	c, _ := newScript(string(in), step)
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		return nil, nil, err
	}
	var out Out
	out.Init(c.bufs)
	out.RequestLine(&r)
	for i := range r.Lines {
		l := &r.Lines[i]
		l.Drop = l.Name.HopByHop() || l.Name == NameContentLength || l.Name == NameHost
	}
	out.Lines(&r.Head)
	out.Field("Host", r.Host)
	if len(r.Host) == 0 {
		out.Truncate(out.Len() - len("Host: \r\n"))
		out.FieldString("Host", "none.test")
	}
	f := out.FrameRequest(&r.Body)
	out.EndHead()
	got, err := content(&r.Body)
	if err != nil {
		return nil, nil, err
	}
	if got != "" {
		out.Piece(f, []byte(got))
	}
	out.EndBody(f, nil)
	return append([]byte(nil), out.Bytes()...), []byte(got), nil
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var refused *Error
	switch {
	case errors.As(err, &refused):
		if refused.Status < 400 || http.StatusText(refused.Status) == "" {
			t.Errorf("refused with status %d", refused.Status)
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrHTTP2):
	default:
		t.Errorf("unexpected error %v", err)
	}
}

func FuzzReplyHead(f *testing.F) {
	for _, s := range []string{
		benchReply, benchChunks,
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0 200\r\n\r\nuntil close",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		method := MethodGet
		if head {
			method = MethodHead
		}
		whole, wholeBody, wholeErr := readReply(in, 0, method)
		_, partsBody, partsErr := readReply(in, 1, method)
		if wholeErr == nil && !bytes.Equal(wholeBody, partsBody) || (wholeErr == nil) != (partsErr == nil) {
			t.Fatalf("in one read %v, byte by byte %v", wholeErr, partsErr)
		}
		if wholeErr != nil {
			checkError(t, wholeErr)
			return
		}
		name := http.MethodGet
		if head {
			name = http.MethodHead
		}
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(whole)), &http.Request{Method: name})
		if err != nil {
			t.Fatalf("net/http refuses what we pass on, %q: %v", whole, err)
		}
		defer func() { _ = theirs.Body.Close() }()
		if theirs.StatusCode == http.StatusSwitchingProtocols {
			return // its Body is the connection
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil || !bytes.Equal(body, wholeBody) {
			t.Fatalf("%q: net/http reads %q, %v; we read %q", whole, body, err, wholeBody)
		}
	})
}

func readReply(in []byte, step int, to Method) (passed, body []byte, err error) {
	c, _ := newScript(string(in), step)
	var r Reply
	if err := c.ReadReply(&r, to); err != nil {
		return nil, nil, err
	}
	var out Out
	out.Init(c.bufs)
	out.StatusLine(r.Status, r.Reason)
	dropHopByHop(&r.Head)
	out.Lines(&r.Head)
	f := out.FrameReply(&r, 1)
	out.EndHead()
	got, err := content(&r.Body)
	if err != nil {
		return nil, nil, err
	}
	if got != "" {
		out.Piece(f, []byte(got))
	}
	out.EndBody(f, nil)
	if to == MethodHead && r.Body.Framing() != NoBody {
		return nil, nil, errors.New("a body in the reply to HEAD")
	}
	return append([]byte(nil), out.Bytes()...), []byte(got), nil
}

// A chunked body that we accept is the one net/http reads, and ends where it
// ends; what is behind it stays untouched.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"3\r\nabc\r\n0\r\n\r\nrest", "0A;x=y\r\n0123456789\r\n00\r\nA: b\r\n\r\n",
		"3\nabc\n0\n\n", "ffffffffffffffff\r\n", "0\r\n", "1;\r\na\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	const head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, rest, err := readChunked(head, in, 0)
		parts, _, partsErr := readChunked(head, in, 1)
		if (err == nil) != (partsErr == nil) || err == nil && ours != parts {
			t.Fatalf("in one read %q, %v; byte by byte %q, %v", ours, err, parts, partsErr)
		}
		if err != nil {
			checkError(t, err)
			return
		}
		br := bufio.NewReader(strings.NewReader(head + string(in)))
		theirs, err := http.ReadRequest(br)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil {
			if s := err.Error(); strings.Contains(s, "trailer") || strings.Contains(s, "malformed MIME") ||
				strings.Contains(s, "chunked encoding contains too much non-data") {
				return // see FuzzRequestHead
			}
			t.Fatalf("net/http refuses %q: %v", in, err)
		}
		if string(body) != ours {
			t.Fatalf("%q: net/http reads %q, we %q", in, body, ours)
		}
		if left, _ := io.ReadAll(br); !bytes.Equal(left, rest) {
			t.Fatalf("%q: net/http leaves %q, we %q", in, left, rest)
		}
	})
}

func readChunked(head string, in []byte, step int) (body string, rest []byte, err error) {
	c, s := newScript(head+string(in), step)
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		return "", nil, err
	}
	if body, err = content(&r.Body); err != nil {
		return "", nil, err
	}
	_, rest = c.Detach()
	return body, append(rest, s.in...), nil
}

func FuzzParseLength(f *testing.F) {
	f.Add("003")
	f.Add("9223372036854775808")
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseLength([]byte(s))
		want, err := strconv.ParseUint(s, 10, 63)
		if ok != (err == nil) || ok && got != int64(want) {
			t.Errorf("parseLength(%q) = %d, %v; strconv says %d, %v", s, got, ok, want, err)
		}
	})
}
