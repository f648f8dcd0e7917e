package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ask sends one request over HTTP/2 in frames of the test's own making: fields, as
// name and value in turn, and data if it is not nil. It returns the status, or what
// the stream or the connection ends with instead.
func (c *rawConn) ask(fields []string, data []byte) string {
	c.t.Helper()
	c.say(http2.ClientPreface)
	fr := http2.NewFramer(c.Conn, c.r)
	fr.AllowIllegalWrites = true
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	err := fr.WriteSettings()
	if err == nil {
		err = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: data == nil})
	}
	if err == nil && data != nil {
		err = fr.WriteData(1, true, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return f.ErrCode.String()
		case *http2.GoAwayFrame:
			return "connection: " + f.ErrCode.String()
		}
	}
}

// B44, and how HTTP/2 is turned into HTTP/1.1: what a member would read otherwise
// than the client's server did is refused, by a stream error or by 400 (RFC 9113
// section 8.1.1 allows both), and reaches nobody.
func TestPeersHTTP2(t *testing.T) {
	const broken = "PROTOCOL_ERROR or 400"
	plain := []string{":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/"}
	with := func(more ...string) []string { return slices.Concat(plain, more) }
	pseudo := func(method, authority, path string) []string {
		return []string{":method", method, ":scheme", "http", ":authority", authority, ":path", path}
	}
	tests := []struct {
		name   string
		fields []string
		data   []byte
		want   string
		head   string // as the member gets it
		text   string // and the body
	}{
		{name: "B44 Connection", fields: with("connection", "close"), want: broken},
		{name: "B44 Keep-Alive", fields: with("keep-alive", "1"), want: broken},
		{name: "B44 Proxy-Connection", fields: with("proxy-connection", "close"), want: broken},
		{name: "B44 Transfer-Encoding", fields: with("transfer-encoding", "chunked"), data: []byte("0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"), want: broken},
		{name: "B44 Upgrade", fields: with("upgrade", "websocket"), want: broken},
		{name: "B44 TE other than trailers", fields: with("te", "deflate"), want: broken},
		{name: "B44 pseudo-header behind a field", fields: []string{":method", "GET", ":scheme", "http", "a", "b", ":authority", "x", ":path", "/"}, want: broken},
		{name: "B44 pseudo-header twice", fields: with(":path", "/other"), want: broken},
		{name: "B44 unknown pseudo-header", fields: []string{":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/", ":odd", "1"}, want: broken},
		{name: "no path", fields: []string{":method", "GET", ":scheme", "http", ":authority", "x"}, want: broken},
		{name: "upper case", fields: with("Foo", "bar"), want: broken},
		{name: "name with a colon", fields: with("a:b", "c"), want: broken},
		{name: "name with a line end", fields: with("a\r\nb", "c"), want: broken},
		{name: "value with a line end", fields: with("a", "b\r\nTransfer-Encoding: chunked"), want: broken},
		{name: "value with NUL", fields: with("a", "b\x00c"), want: broken},
		{name: "path with a line end", fields: pseudo("GET", "x", "/ HTTP/1.1\r\nHost: y\r\n\r\nGET /smuggled"), want: broken},
		{name: "path with a blank", fields: pseudo("GET", "x", "/ HTTP/1.1"), want: broken},
		{name: "path with a fragment", fields: pseudo("GET", "x", "/#a"), want: broken},
		{name: "absolute path", fields: pseudo("GET", "x", "http://evil.test/"), want: broken},
		{name: "relative path", fields: pseudo("GET", "x", "evil"), want: broken},
		{name: "asterisk for GET", fields: pseudo("GET", "x", "*"), want: broken},
		{name: "method with a blank", fields: pseudo("GET /smuggled", "x", "/"), want: broken},
		{name: "method with a line", fields: pseudo("GET / HTTP/1.1\r\nA: b", "x", "/"), want: broken},
		{name: "user in the authority", fields: pseudo("GET", "u@x", "/"), want: broken},
		{name: "path in the authority", fields: pseudo("GET", "x/y", "/"), want: broken},
		{name: "no authority", fields: []string{":method", "GET", ":scheme", "http", ":path", "/"}, want: broken},
		{name: "length longer than the content", fields: with("content-length", "5"), data: []byte("abc"), want: "INTERNAL_ERROR"},
		{name: "length beside no content", fields: with("content-length", "5"), want: broken},
		{name: "length of the content", fields: with("content-length", "03"), data: []byte("abc"), want: "200", head: "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", text: "abc"},
		{name: "length shorter than the content", fields: with("content-length", "1"), data: []byte("abc"), want: broken},
		{name: "length that is none", fields: with("content-length", "+3"), data: []byte("abc"), want: broken},
		{name: "two lengths", fields: with("content-length", "3", "content-length", "4"), data: []byte("abc"), want: broken},
		{name: "CONNECT", fields: []string{":method", "CONNECT", ":authority", "x:1"}, want: "405"},
		{name: "Host beside the authority", fields: with("host", "evil.test"), want: "200", head: "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{name: "cookies in crumbs", fields: with("cookie", "a=1", "cookie", "b=2"), want: "200", head: "GET / HTTP/1.1\r\nHost: x\r\nCookie: a=1; b=2\r\n\r\n"},
		{name: "TE: trailers", fields: with("te", "trailers"), want: "200", head: "GET / HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: TE\r\n\r\n"},
		{name: "fields in disguise", fields: with("content_length", "3", "x_forwarded_for", "1.2.3.4"), want: "200", head: "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{
			name: "content without a length", fields: with("a", "b"), data: []byte("abc"), want: "200",
			head: "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n", text: "abc",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one(t, taped(), func(t *testing.T, w *world) {
				member := newTape(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				c := w.raw()
				got := c.ask(tt.fields, tt.data)
				if got != tt.want && (tt.want != broken || got != "PROTOCOL_ERROR" && got != "connection: PROTOCOL_ERROR" && got != "400") {
					t.Errorf("the answer is %s, want %s", got, tt.want)
				}
				_ = c.Close()
				heads, text := member.stop()
				if strings.Join(heads, "") != tt.head || fmt.Sprint(text) != fmt.Sprintf("[%s]", tt.text) {
					t.Errorf("the member got %q with %q; want %q with %q", heads, text, tt.head, tt.text)
				}
			})
		})
	}
}

// A body of a known length has ended with its last byte: the member's answer to that
// finds the request complete, and its connection is kept.
func TestLastByteIsTheEnd(t *testing.T) {
	one(t, options{members: []string{"a"}}, func(t *testing.T, w *world) {
		c := w.raw()
		defer func() { _ = c.Close() }()
		fr := http2.NewFramer(c.Conn, c.r)
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		const size = 10_000
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "POST"},
			{Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: "x"},
			{Name: ":path", Value: "/"},
			{Name: "content-length", Value: fmt.Sprint(size)},
		} {
			if err := enc.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		c.say(http2.ClientPreface)
		err := errors.Join(
			fr.WriteSettings(),
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}),
			fr.WriteData(1, false, make([]byte, size)), // and no end of the stream
		)
		if err != nil {
			t.Fatal(err)
		}
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				if status := h.PseudoValue("status"); status != "200" {
					t.Errorf("status %s, want 200", status)
				}
				break
			}
		}
		synctest.Wait() // until the reply has ended as well
		w.get("/", "")
		if n := w.members["a"].dials(); n != 1 {
			t.Errorf("the member had %d connections, want one that is kept", n)
		}
	})
}
