package http1

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"testing"
)

// Whatever bytes come, net/http reads the same request as we do, or a row of
// [requestDifferences] says why not. It is the same for what we write from what we
// have read; which besides does not change when it is passed on again.
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
	table := slices.Concat(framingDifferences, requestDifferences)
	for _, d := range requestDifferences {
		f.Add([]byte(d.example))
	}
	for _, d := range framingDifferences {
		f.Add([]byte(d.request()))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		first := readBothRequests(in)
		first.check(t, table, in)
		whole, err := readRequest(in)
		if err != nil {
			checkError(t, err)
			return
		}
		v := readBothRequests(whole)
		v.check(t, table, whole)
		if v.ours.body != first.ours.body {
			t.Fatalf("%q has body %q; passed on as %q", in, first.ours.body, whole)
		}
		again, err := readRequest(whole)
		if err != nil || !bytes.Equal(again, whole) {
			t.Fatalf("passed on twice: %q, %v; once: %q", again, err, whole)
		}
	})
}

// readRequest reads one request and returns what a proxy would pass on.
func readRequest(in []byte) (passed []byte, err error) {
	c, _ := newScript(string(in), 0)
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		return nil, err
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
		return nil, err
	}
	if got != "" {
		out.Piece(f, []byte(got))
	}
	out.EndBody(f, nil)
	return bytes.Clone(out.Bytes()), nil
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
	table := slices.Concat(framingDifferences, replyDifferences)
	for _, d := range replyDifferences {
		f.Add([]byte(d.example), false)
	}
	for _, d := range framingDifferences {
		f.Add([]byte(d.reply()), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		method := MethodGet
		if head {
			method = MethodHead
		}
		first := readBothReplies(in, method)
		first.check(t, table, in)
		whole, err := readReply(in, method)
		if err != nil {
			checkError(t, err)
			return
		}
		v := readBothReplies(whole, method)
		if v.ourErr != nil || v.theirErr != nil {
			t.Fatalf("%q: what is passed on is refused: %v", whole, v)
		}
		v.check(t, table, whole)
		if v.ours.body != first.ours.body || v.ours.start != first.ours.start {
			t.Fatalf("%q is %+v; passed on as %q", in, first.ours, whole)
		}
	})
}

func readReply(in []byte, to Method) (passed []byte, err error) {
	c, _ := newScript(string(in), 0)
	var r Reply
	if err := c.ReadReply(&r, to); err != nil {
		return nil, err
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
		return nil, err
	}
	if got != "" {
		out.Piece(f, []byte(got))
	}
	out.EndBody(f, nil)
	if to == MethodHead && r.Body.Framing() != NoBody {
		return nil, errors.New("a body in the reply to HEAD")
	}
	return bytes.Clone(out.Bytes()), nil
}

// Chunked bodies of both kinds of message, and what is behind them.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"3\r\nabc\r\n0\r\n\r\nrest", "0A;x=y\r\n0123456789\r\n00\r\nA: b\r\n\r\n",
		"3\nabc\n0\n\n", "ffffffffffffffff\r\n", "0\r\n", "1;\r\na\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	requests := slices.Concat(framingDifferences, requestDifferences)
	replies := slices.Concat(framingDifferences, replyDifferences)
	f.Fuzz(func(t *testing.T, in []byte) {
		m := append([]byte("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"), in...)
		v := readBothRequests(m)
		v.check(t, requests, m)
		if v.ourErr != nil {
			checkError(t, v.ourErr)
		}
		m = append([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), in...)
		readBothReplies(m, MethodGet).check(t, replies, m)
	})
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
