package http1

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

// crlf makes a message of lines that end with LF in the source.
func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

func TestRequestAccepted(t *testing.T) {
	tests := []struct {
		name    string
		in      string
		method  Method
		form    Form
		host    string
		path    string
		query   string
		minor   uint8
		close   bool
		expect  bool
		upgrade bool
		framing Framing
		body    string
	}{{
		name:   "simple",
		in:     "GET /a?b=c HTTP/1.1\nHost: x.test\n\n",
		method: MethodGet, host: "x.test", path: "/a", query: "?b=c", minor: 1,
	}, {
		name:   "empty line before",
		in:     "\nGET / HTTP/1.1\nHost: x.test:80\n\n",
		method: MethodGet, host: "x.test:80", path: "/", minor: 1,
	}, {
		name:   "length",
		in:     "POST / HTTP/1.1\nHost: x\nContent-Length: 3\n\nabc",
		method: MethodPost, host: "x", path: "/", minor: 1, framing: Length, body: "abc",
	}, {
		name:   "B05 leading zeros",
		in:     "POST / HTTP/1.1\nHost: x\nContent-Length: 003\n\nabc",
		method: MethodPost, host: "x", path: "/", minor: 1, framing: Length, body: "abc",
	}, {
		name:   "length zero",
		in:     "POST / HTTP/1.1\nHost: x\ncontent-length:0\n\n",
		method: MethodPost, host: "x", path: "/", minor: 1, framing: Length,
	}, {
		name:   "chunked",
		in:     "PUT / HTTP/1.1\nhost: x\nTRANSFER-ENCODING: Chunked\n\n3\nabc\n0A;x=\"y z\"\n0123456789\n0\n\n",
		method: MethodPut, host: "x", path: "/", minor: 1, framing: Chunked, body: "abc0123456789",
	}, {
		name:   "B19 absolute target outranks Host",
		in:     "GET http://real.test/p?q=1 HTTP/1.1\nHost: evil.test\n\n",
		method: MethodGet, form: FormAbsolute, host: "real.test", path: "/p", query: "?q=1", minor: 1,
	}, {
		name:   "B20 absolute target without a path",
		in:     "GET http://real.test?q=1 HTTP/1.1\nHost: real.test\n\n",
		method: MethodGet, form: FormAbsolute, host: "real.test", path: "/", query: "?q=1", minor: 1,
	}, {
		name:   "absolute target without anything",
		in:     "GET HTTPS://real.test:8443 HTTP/1.1\nHost: real.test\n\n",
		method: MethodGet, form: FormAbsolute, host: "real.test:8443", path: "/", minor: 1,
	}, {
		name:   "OPTIONS with an absolute target without a path",
		in:     "OPTIONS http://real.test HTTP/1.1\nHost: real.test\n\n",
		method: MethodOptions, form: FormAbsolute, host: "real.test", path: "*", minor: 1,
	}, {
		name:   "B23 path is not touched",
		in:     "GET /a/../b/./c//d HTTP/1.1\nHost: x\n\n",
		method: MethodGet, host: "x", path: "/a/../b/./c//d", minor: 1,
	}, {
		name:   "B25 B26 query is not touched",
		in:     "GET /?x=1;y=2&z=%zz? HTTP/1.1\nHost: x\n\n",
		method: MethodGet, host: "x", path: "/", query: "?x=1;y=2&z=%zz?", minor: 1,
	}, {
		name:   "B28 CONNECT",
		in:     "CONNECT a.test:443 HTTP/1.1\nHost: a.test:443\n\n",
		method: MethodConnect, form: FormAuthority, host: "a.test:443", minor: 1, close: true,
	}, {
		name:   "B29 OPTIONS *",
		in:     "OPTIONS * HTTP/1.1\nHost: x\n\n",
		method: MethodOptions, form: FormAsterisk, host: "x", path: "*", minor: 1,
	}, {
		name:   "HTTP/1.0 closes",
		in:     "GET / HTTP/1.0\n\n",
		method: MethodGet, path: "/", close: true,
	}, {
		name:   "HTTP/1.0 keeps on request, and Expect means nothing",
		in:     "GET / HTTP/1.0\nConnection: Keep-Alive\nExpect: 100-continue\n\n",
		method: MethodGet, path: "/",
	}, {
		name:   "Connection: close among others",
		in:     "GET / HTTP/1.1\nHost: x\nConnection: keep-alive , Close,\n\n",
		method: MethodGet, host: "x", path: "/", minor: 1, close: true,
	}, {
		name:   "B38 Expect",
		in:     "PUT / HTTP/1.1\nHost: x\nExpect: 100-Continue\nContent-Length: 1\n\nz",
		method: MethodPut, host: "x", path: "/", minor: 1, expect: true, framing: Length, body: "z",
	}, {
		name:   "E05 Upgrade",
		in:     "GET / HTTP/1.1\nHost: x\nUpgrade: foo\nUpgrade: websocket\nConnection: Upgrade\n\n",
		method: MethodGet, host: "x", path: "/", minor: 1, upgrade: true,
	}, {
		name:   "Upgrade that Connection does not name",
		in:     "GET / HTTP/1.1\nHost: x\nUpgrade: foo\n\n",
		method: MethodGet, host: "x", path: "/", minor: 1,
	}, {
		name:   "IPv6 host",
		in:     "GET / HTTP/1.1\nHost: [::1]:8080\n\n",
		method: MethodGet, host: "[::1]:8080", path: "/", minor: 1,
	}, {
		name:   "unknown method",
		in:     "get / HTTP/1.1\nHost: x\n\n",
		method: MethodOther, host: "x", path: "/", minor: 1,
	}}
	for _, tt := range tests {
		for _, step := range []int{0, 1, 7} {
			c, _ := newScript(crlf(tt.in)+"GET /next HTTP/1.1\r\nHost: n\r\n\r\n", step)
			var r Request
			if err := c.ReadRequest(&r); err != nil {
				t.Errorf("%s, step %d: ReadRequest = %v", tt.name, step, err)
				continue
			}
			if r.Method != tt.method || r.Form != tt.form || r.Minor != tt.minor || r.Close != tt.close ||
				r.ExpectContinue != tt.expect || r.Upgrade != tt.upgrade || r.Body.Framing() != tt.framing {
				t.Errorf("%s, step %d: ReadRequest gives %+v", tt.name, step, r)
			}
			for _, f := range []struct{ what, got, want string }{
				{"Host", string(r.Host), tt.host},
				{"Path", string(r.Path), tt.path},
				{"Query", string(r.Query), tt.query},
			} {
				if f.got != f.want {
					t.Errorf("%s, step %d: %s = %q, want %q", tt.name, step, f.what, f.got, f.want)
				}
			}
			if got, err := content(&r.Body); got != tt.body || err != nil {
				t.Errorf("%s, step %d: body = %q, %v; want %q", tt.name, step, got, err, tt.body)
			}
			if err := c.ReadRequest(&r); err != nil || string(r.Path) != "/next" {
				t.Errorf("%s, step %d: the request behind it is %q, %v; want /next", tt.name, step, r.Path, err)
			}
			if err := c.ReadRequest(&r); !errors.Is(err, io.EOF) {
				t.Errorf("%s, step %d: at the end ReadRequest = %v, want EOF", tt.name, step, err)
			}
		}
	}
}

func TestRequestRefused(t *testing.T) {
	const start = "POST / HTTP/1.1\r\nHost: x\r\n"
	tests := []struct {
		name   string
		in     string // CRLF as written
		status int
	}{
		{"B01 length and chunked", start + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"B01 the other way round", start + "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n", 400},
		{"B02 equal lengths", start + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400},
		{"B02 equal lengths in a list", start + "Content-Length: 3, 3\r\n\r\n", 400},
		{"B04 different lengths", start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
		{"B04 empty length", start + "Content-Length:\r\n\r\n", 400},
		{"B04 plus", start + "Content-Length: +3\r\n\r\n", 400},
		{"B04 minus", start + "Content-Length: -1\r\n\r\n", 400},
		{"B04 blank before the colon", start + "Content-Length : 3\r\n\r\n", 400},
		{"hexadecimal length", start + "Content-Length: 0x3\r\n\r\n", 400},
		{"length of 2^63", start + "Content-Length: 9223372036854775808\r\n\r\n", 400},
		{"B07 chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"B10 bare LF", "GET / HTTP/1.1\nHost: x\n\n", 400},
		{"B10 bare LF in the middle", start + "A: b\nC: d\r\n\r\n", 400},
		{"bare CR", start + "A: b\rC: d\r\n\r\n", 400},
		{"B11 NUL", start + "A: b\x00c\r\n\r\n", 400},
		{"other control byte", start + "A: b\x7fc\r\n\r\n", 400},
		{"B13 no colon", start + "Abc\r\n\r\n", 400},
		{"B13 non-ASCII name", start + "\xc3\xa9: 1\r\n\r\n", 400},
		{"B13 empty name", start + ": 1\r\n\r\n", 400},
		{"folded line", start + "A: b\r\n c\r\n\r\n", 400},
		{"folded first line", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400},
		{"B14 no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"several Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400},
		{"several Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", 400},
		{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
		{"B16 path in Host", "GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n", 400},
		{"B16 user in Host", "GET / HTTP/1.1\r\nHost: u@a.test\r\n\r\n", 400},
		{"B17 IPv6 without brackets", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", 400},
		{"port that is none", "GET / HTTP/1.1\r\nHost: a:http\r\n\r\n", 400},
		{"list of hosts", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400},
		{"user in an absolute target", "GET http://u@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 400},
		{"absolute target without a host", "GET http:///x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400},
		{"bad Host beside an absolute target", "GET http://a.test/ HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"B22 UTF-8 in the target", "GET /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"blank in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"tab for a blank", "GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"two blanks", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"fragment", "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"relative target", "GET a HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"other scheme", "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 400},
		{"asterisk for GET", "GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"CONNECT without a port", "CONNECT a.test HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"CONNECT to an IPv6 address without a port", "CONNECT [::1] HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"HTTP/0.9", "GET /\r\n", 400},
		{"lower-case version", "GET / http/1.1\r\nHost: x\r\n\r\n", 400},
		{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505},
		{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: x\r\n\r\n", 400},
		{"method with a slash", "GE/T / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"long method", strings.Repeat("A", 65) + " / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"codings twice", start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"coding list", start + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
		{"identity", start + "Transfer-Encoding: identity\r\n\r\n", 400},
		{"like chunked", start + "Transfer-Encoding: xchunked\r\n\r\n", 400},
		{"chunked with a vertical tab", start + "Transfer-Encoding: \x0bchunked\r\n\r\n", 400},
		{"quoted chunked", start + "Transfer-Encoding: \"chunked\"\r\n\r\n", 400},
		{"empty coding", start + "Transfer-Encoding:\r\n\r\n", 400},
		{"unknown coding", start + "Transfer-Encoding: gzip\r\n\r\n", 501},
		{"unknown expectation", start + "Expect: 200-ok\r\n\r\n", 417},
		{"Connection that is no list of tokens", start + "Connection: a b\r\n\r\n", 400},
		{"nominating for ever", start + "Connection: " + strings.Repeat("a,", 33) + "\r\n\r\n", 400},
		{"B41 long target", "GET /" + strings.Repeat("a", 70<<10), 414},
		{"B41 long header", start + "A: " + strings.Repeat("a", 70<<10), 431},
		{"B41 many lines", start + strings.Repeat("A: b\r\n", 200) + "\r\n", 431},
		{"B08 bare LF after a chunk size", start + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400},
		{"B08 bare LF after a chunk", start + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", 400},
		{"bare CR after a chunk", start + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\rX0\r\n\r\n", 400},
		{"chunk longer than its size", start + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400},
		{"chunk size with a sign", start + "Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", 400},
		{"chunk size with 0x", start + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", 400},
		{"chunk size with blanks", start + "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", 400},
		{"blank before an extension", start + "Transfer-Encoding: chunked\r\n\r\n3 ;a\r\nabc\r\n0\r\n\r\n", 400},
		{"empty chunk size", start + "Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n", 400},
		{"only an extension", start + "Transfer-Encoding: chunked\r\n\r\n;a\r\nabc\r\n0\r\n\r\n", 400},
		{"chunk size over 63 bits", start + "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\nabc", 400},
		{"chunk size that wraps", start + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", 400},
		{"zeros for ever", start + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 300), 400},
		{"control byte in an extension", start + "Transfer-Encoding: chunked\r\n\r\n3;a\x00\r\nabc\r\n0\r\n\r\n", 400},
		{"bare CR in an extension", start + "Transfer-Encoding: chunked\r\n\r\n3;a\rb\r\nabc\r\n0\r\n\r\n", 400},
		{"long extension", start + "Transfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("a", 300) + "\r\nabc\r\n0\r\n\r\n", 400},
		{"extensions for ever", start + "Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\nx\r\n", 100) + "0\r\n\r\n", 400},
		{"trailer line without a colon", start + "Transfer-Encoding: chunked\r\n\r\n0\r\nabc\r\n\r\n", 400},
		{"folded trailer", start + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n", 400},
		{"long trailer", start + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("a", 9<<10) + "\r\n\r\n", 431},
		{"many trailers", start + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", 201) + "\r\n", 431},
	}
	for _, tt := range tests {
		for _, step := range []int{0, 1} {
			c, _ := newScript(tt.in, step)
			var r Request
			err := c.ReadRequest(&r)
			if err == nil {
				_, err = content(&r.Body)
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Status != tt.status {
				t.Errorf("%s, step %d: %v, want status %d", tt.name, step, err, tt.status)
			}
		}
	}
}

func TestRequestCut(t *testing.T) {
	const in = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
	for n := range len(in) {
		c, _ := newScript(in[:n], 0)
		var r Request
		err := c.ReadRequest(&r)
		if err == nil {
			_, err = content(&r.Body)
		}
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if !errors.Is(err, want) {
			t.Errorf("cut after %q: %v, want %v", in[:n], err, want)
		}
	}
}

func TestHTTP2Preface(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, step := range []int{0, 1} {
		c, _ := newScript(preface, step)
		var r Request
		if err := c.ReadRequest(&r); !errors.Is(err, ErrHTTP2) {
			t.Errorf("step %d: ReadRequest = %v, want ErrHTTP2", step, err)
		}
		if _, rest := c.Detach(); !strings.HasPrefix(preface, string(rest)) || len(rest) < 16 {
			t.Errorf("step %d: Detach gives %q, want the preface", step, rest)
		}
	}
}

// B43: a bad request behind a good one does not touch the good one.
func TestBadAfterGood(t *testing.T) {
	c, _ := newScript("GET /good HTTP/1.1\r\nHost: x\r\n\r\nGET\r\n\r\n", 0)
	var r Request
	if err := c.ReadRequest(&r); err != nil || string(r.Path) != "/good" {
		t.Fatalf("ReadRequest = %v, path %q", err, r.Path)
	}
	var refused *Error
	if err := c.ReadRequest(&r); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("second ReadRequest = %v, want status 400", err)
	}
}

func TestNominated(t *testing.T) {
	c, _ := newScript("GET / HTTP/1.1\r\nHost: x\r\nX-Secret: 1\r\nCookie: a=b\r\n"+
		"Connection: close, x-secret\r\nConnection: COOKIE\r\nX-Kept: 2\r\n\r\n", 0)
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, l := range r.Lines {
		if l.Nominated {
			got = append(got, string(r.FieldName(i)))
		}
	}
	if want := "X-Secret Cookie"; strings.Join(got, " ") != want {
		t.Errorf("B31, B32: nominated lines are %q, want %q", got, want)
	}
}

func TestFind(t *testing.T) {
	var r Request
	in := []byte("GET / HTTP/1.1\r\nHost: x\r\nCookie: a\r\nX-Odd: \t v \r\ncookie: b\r\nEmpty:\r\n\r\n")
	if n, err := r.Parse(in, Limits{}); n != len(in) || err != nil {
		t.Fatalf("Parse = %d, %v", n, err)
	}
	var cookies []byte
	for i := r.Find(NameCookie, 0); i >= 0; i = r.Find(NameCookie, i+1) {
		cookies = append(cookies, r.Value(i)...)
	}
	if string(cookies) != "ab" {
		t.Errorf("the cookies are %q, want ab", cookies)
	}
	if i := r.FindField("x-odd", 0); i < 0 || string(r.Value(i)) != "v" {
		t.Errorf("FindField(x-odd) = %d", i)
	}
	if i := r.FindField("empty", 0); i < 0 || len(r.Value(i)) != 0 {
		t.Errorf("FindField(empty) = %d", i)
	}
	if r.Find(NameVia, 0) != -1 || r.FindField("via", 0) != -1 {
		t.Error("found a Via that is not there")
	}
}

// A head longer than an ordinary buffer, in pieces, behind another request.
func TestLongHead(t *testing.T) {
	for _, size := range []int{1000, 16 << 10, 40 << 10, 64<<10 - 200} {
		long := strings.Repeat("v", size)
		c, _ := newScript("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nA: "+long+
			"\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("b", 20000)+"GET /3 HTTP/1.1\r\nHost: x\r\n\r\n", 1000)
		var r Request
		for i := 1; i <= 3; i++ {
			if err := c.ReadRequest(&r); err != nil || string(r.Path) != "/"+strconv.Itoa(i) {
				t.Fatalf("size %d: request %d: %v, path %q", size, i, err, r.Path)
			}
			got, err := content(&r.Body)
			if err != nil || i == 2 && len(got) != 20000 {
				t.Fatalf("size %d: body has %d bytes, %v", size, len(got), err)
			}
			if i == 2 && string(r.Value(r.FindField("a", 0))) != long {
				t.Errorf("size %d: the head was overwritten by the body", size)
			}
		}
		c.Release()
		if c.buf != nil || c.held != nil {
			t.Errorf("size %d: buffers are held after the last request", size)
		}
	}
}

func TestMethodIdempotent(t *testing.T) {
	for m := MethodOther; m <= MethodPatch; m++ {
		want := m != MethodOther && m != MethodPost && m != MethodConnect && m != MethodPatch
		if m.Idempotent() != want {
			t.Errorf("Method(%d).Idempotent() = %v, want %v", m, !want, want)
		}
	}
}

func TestLookupEveryName(t *testing.T) {
	names := map[string]Name{
		"Age": NameAge, "Authorization": NameAuthorization, "Cache-Control": NameCacheControl,
		"Connection": NameConnection, "Content-Encoding": NameContentEncoding,
		"Content-Length": NameContentLength, "Content-Range": NameContentRange,
		"Content-Type": NameContentType, "Cookie": NameCookie, "Date": NameDate, "Expect": NameExpect,
		"Expires": NameExpires, "Forwarded": NameForwarded, "Host": NameHost,
		"HTTP2-Settings": NameHTTP2Settings, "Keep-Alive": NameKeepAlive, "Location": NameLocation,
		"Max-Forwards": NameMaxForwards, "Understudy-Not-Executed": NameNotExecuted,
		"Origin": NameOrigin, "Pragma": NamePragma, "Proxy-Authenticate": NameProxyAuthenticate,
		"Proxy-Authorization": NameProxyAuthorization, "Proxy-Connection": NameProxyConnection,
		"Range": NameRange, "Referer": NameReferer, "Server": NameServer, "Set-Cookie": NameSetCookie,
		"TE": NameTE, "Trailer": NameTrailer, "Transfer-Encoding": NameTransferEncoding,
		"Upgrade": NameUpgrade, "User-Agent": NameUserAgent, "Vary": NameVary, "Via": NameVia,
		"WWW-Authenticate": NameWWWAuthenticate, "X-Forwarded-For": NameXForwardedFor,
		"X-Forwarded-Host": NameXForwardedHost, "X-Forwarded-Port": NameXForwardedPort,
		"X-Forwarded-Proto": NameXForwardedProto, "X-Real-IP": NameXRealIP, "X-Request-ID": NameXRequestID,
		"X-Other": NameOther, "Hosts": NameOther, "X-Forwarded-Why": NameOther,
	}
	seen := map[Name]bool{}
	for s, want := range names {
		seen[want] = true
		for _, b := range [][]byte{[]byte(s), bytes.ToLower([]byte(s)), bytes.ToUpper([]byte(s))} {
			if got := lookup(b); got != want {
				t.Errorf("lookup(%q) = %d, want %d", b, got, want)
			}
		}
	}
	for n := NameOther; n <= NameXRequestID; n++ {
		if !seen[n] {
			t.Errorf("Name(%d) is not in this test", n)
		}
	}
}

func TestTokenBytes(t *testing.T) {
	for c := range 256 {
		want := strings.IndexByte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", byte(c)) >= 0
		if got := isToken(byte(c)); got != want {
			t.Errorf("isToken(%q) = %v, want %v", byte(c), got, want)
		}
	}
}

func TestParseLength(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"0017", 17, true},
		{"9223372036854775807", 1<<63 - 1, true},
		{"9223372036854775808", 0, false},
		{"92233720368547758070", 0, false},
		{"99999999999999999999", 0, false},
		{"", 0, false},
		{" 1", 0, false},
		{"1_0", 0, false},
	}
	for _, tt := range tests {
		if got, ok := parseLength([]byte(tt.in)); ok != tt.ok || ok && got != tt.want {
			t.Errorf("parseLength(%q) = %d, %v; want %d, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}
