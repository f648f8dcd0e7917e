package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A difference is one reason for which net/http and this package read a message
// differently. What is in no row below is a fault of one of the two: the fuzz
// targets fail.
type difference struct {
	name    string
	why     string
	ours    *Error              // our refusal; nil if we take the message
	theirs  string              // part of net/http's error; "" if it takes the message
	what    string              // if both take it: the part that they read differently
	about   func(m string) bool // finds what the row is about in another way than the parser
	example string              // a message; in framingDifferences what is behind the last line of a head
	old     bool                // the example is HTTP/1.0
}

func (d *difference) version() string {
	if d.old {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// request and reply are the messages of a row of framingDifferences.
func (d *difference) request() string { return "POST / " + d.version() + "\r\nHost: x" + d.example }
func (d *difference) reply() string   { return d.version() + " 200 OK" + d.example }

// explain returns the row for a message that one of the two refuses, or that
// they read differently in a part of it.
func explain(table []difference, m []byte, ours, theirs error, what string) *difference {
	for i := range table {
		d := &table[i]
		switch {
		case d.what != what, (ours == nil) != (d.ours == nil), (theirs == nil) != (d.theirs == ""):
			continue
		case ours != nil && ours.Error() != d.ours.Error():
			continue
		case theirs != nil && !strings.Contains(theirs.Error(), d.theirs):
			continue
		}
		if d.about(string(m)) {
			return d
		}
	}
	return nil
}

// about makes a test of a regular expression, in which (?s) is on.
func about(expr string) func(string) bool { return regexp.MustCompile("(?s)" + expr).MatchString }

// target makes a test of a message of one of its request target.
func target(test func(string) bool) func(string) bool {
	return func(m string) bool {
		line, _, _ := strings.Cut(strings.TrimPrefix(m, "\r\n"), "\n")
		_, line, _ = strings.Cut(line, " ")
		end := strings.LastIndexByte(line, ' ')
		return end > 0 && test(line[:end])
	}
}

// longer says that a message, or one line of it, is longer than n bytes.
func longer(n int) func(string) bool { return func(m string) bool { return len(m) > n } }

// inLine is the rest of a line in an expression.
const inLine = `[^\n]*`

// framingDifferences are those of both kinds of message. The message begins with
// its start line.
var framingDifferences = []difference{{
	name:    "bare LF",
	why:     "RFC 9112 section 2.2 lets a recipient take it for a line end, and many do not: two readers, two messages (B08, B10)",
	ours:    errLineEnd,
	about:   about(`(?:^|[^\r])\n`),
	example: "\nA: b\r\n\r\n",
}, {
	name:    "folded line",
	why:     "RFC 9112 section 5.2: a server must refuse it or replace it; who does neither sees a line of its own",
	ours:    errFolded,
	about:   about(`\n[ \t]`),
	example: "\r\nA: b\r\n c\r\n\r\n",
}, {
	name:    "blank in a field name",
	why:     "RFC 9112 section 5.1: refused, since readers differ about which field it is (B04, C14); net/http keeps a name that nobody asks for",
	ours:    errFieldName,
	about:   about(`\n[^:\n]* [^:\n]*:`),
	example: "\r\nX-A : 1\r\n\r\n",
}, {
	name:    "both lengths",
	why:     "RFC 9112 section 6.1: it ought to be handled as an error (B01, C05)",
	ours:    errBothLengths,
	about:   about(`(?i)\ncontent-length *:.*\ntransfer-encoding *:|\ntransfer-encoding *:.*\ncontent-length *:`),
	example: "\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
}, {
	name:    "equal lengths twice",
	why:     "RFC 9112 section 6.3 lets them be merged; what is said twice was put together by somebody (B02)",
	ours:    errLengths,
	about:   about(`(?i)\ncontent-length *:.*\ncontent-length *:`),
	example: "\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
}, {
	name:    "chunked in HTTP/1.0",
	why:     "RFC 9112 section 6.1: its framing is faulty whatever else it says; net/http reads it as if the line were not there (B07)",
	ours:    errCodingOld,
	about:   about(`(?i)^` + inLine + `HTTP/1\.0.*\ntransfer-encoding *:`),
	example: "\r\nTransfer-Encoding: chunked\r\n\r\n",
	old:     true,
}, {
	name:    "another coding in HTTP/1.0",
	why:     "the same, for a coding that we do not know either",
	ours:    errCodingOther,
	about:   about(`(?i)^` + inLine + `HTTP/[01]\.0.*\ntransfer-encoding *:`),
	example: "\r\nTransfer-Encoding: gzip\r\n\r\n",
	old:     true,
}, {
	name:    "a coding that is no token in HTTP/1.0",
	why:     "the same",
	ours:    errCoding,
	about:   about(`(?i)^` + inLine + `HTTP/[01]\.0.*\ntransfer-encoding *:`),
	example: "\r\nTransfer-Encoding: a, b\r\n\r\n",
	old:     true,
}, {
	name:    "several codings in HTTP/1.0",
	why:     "the same",
	ours:    errCodings,
	about:   about(`(?i)^` + inLine + `HTTP/[01]\.0.*\ntransfer-encoding *:.*\ntransfer-encoding *:`),
	example: "\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	old:     true,
}, {
	name:    "Connection is no list of tokens",
	why:     "RFC 9110 section 7.6.1: what it nominates must be known to drop it; half a name drops nothing",
	ours:    errConnection,
	about:   about(`(?i)\nconnection *:`),
	example: "\r\nConnection: a b\r\n\r\n",
}, {
	name:    "Connection names too much",
	why:     "each name is compared with all lines: a bound on work; nobody needs more than a few",
	ours:    errNominated,
	about:   about(`(?i)\nconnection *:(?:[^,]*,){20}`),
	example: "\r\nConnection: " + strings.Repeat("a,", 40) + "\r\n\r\n",
}, {
	name:    "many lines",
	why:     "a limit of ours (B41); net/http has one of bytes alone, and in its server",
	ours:    errHeadLines,
	about:   func(m string) bool { return strings.Count(m, "\n") > 200 },
	example: "\r\n" + strings.Repeat("A: b\r\n", 201) + "\r\n",
}, {
	name:    "long head",
	why:     "a limit of ours (B41); net/http has one in its server",
	ours:    errHeadLong,
	about:   longer(60 << 10),
	example: "\r\nA: " + strings.Repeat("a", 70<<10) + "\r\n\r\n",
}, {
	name:    "blanks behind a chunk size",
	why:     "RFC 9112 section 7.1 has none there, and readers differ about them (B08)",
	ours:    errChunkSize,
	about:   about(`\n[0-9A-Fa-f]+[ \t]+[;\r]`),
	example: "\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
}, {
	name:    "chunk extension with control bytes",
	why:     "RFC 9112 section 7.1.1 allows tokens and quoted strings; net/http looks at nothing behind the semicolon",
	ours:    errChunkExt,
	about:   about(`\n[0-9A-Fa-f]+;` + inLine + `[\x00-\x08\x0b-\x1f\x7f]`),
	example: "\r\nTransfer-Encoding: chunked\r\n\r\n1;\x01\r\na\r\n0\r\n\r\n",
}, {
	name:    "long chunk line",
	why:     "RFC 9112 section 7.1.1: a recipient ought to limit extensions; net/http's limit is 4096 bytes",
	ours:    errChunkLong,
	about:   about(`\n[0-9A-Fa-f]+;[^\n]{200}`),
	example: "\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 300) + "\r\na\r\n0\r\n\r\n",
}, {
	name:    "much chunk framing",
	why:     "the same bound in another shape: net/http credits two bytes of framing for one of data, we one",
	ours:    errChunkPadding,
	about:   longer(16 << 10),
	example: "\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("80;"+strings.Repeat("a", 220)+"\r\n"+strings.Repeat("b", 128)+"\r\n", 300) + "0\r\n\r\n",
}, {
	name:    "Trailer names a framing field",
	why:     "the line only announces (RFC 9110 section 6.6.2); what may not stand in the trailer is dropped when it comes",
	theirs:  "bad trailer key",
	about:   about(`(?i)\ntrailer *:` + inLine + `(?:transfer-encoding|trailer|content-length)`),
	example: "\r\nTransfer-Encoding: chunked\r\nTrailer: content-length\r\n\r\n0\r\n\r\n",
}, {
	name:    "trailer longer than a buffer",
	why:     "net/http looks for its end within 4096 bytes; our limit is 8 KiB",
	theirs:  "suspiciously long trailer",
	about:   longer(4 << 10),
	example: "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("a", 5000) + "\r\n\r\n",
}, {
	name:    "Pragma makes a Cache-Control",
	why:     "net/http adds the line that it takes to be meant; we pass on what was sent",
	what:    "lines",
	about:   about(`(?i)\npragma *: *no-cache`),
	example: "\r\nPragma: no-cache\r\n\r\n",
}}

// requestDifferences are those of requests alone.
var requestDifferences = []difference{{
	name:    "empty line before the request",
	why:     "RFC 9112 section 2.2: a server should skip at least one",
	theirs:  "malformed HTTP request",
	about:   about(`^\r\n`),
	example: "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "preface of HTTP/2",
	why:     "RFC 9113 section 3.4: it is told from a request, and given to a server of that protocol",
	ours:    &Error{Reason: strings.TrimPrefix(ErrHTTP2.Error(), "http1: ")},
	about:   about(`^(?:\r\n)?PRI \* HTTP/2\.0\r\n`),
	example: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}, {
	name:    "long method",
	why:     "nobody has one of more than 64 bytes; it costs a table or a log line",
	ours:    errMethod,
	about:   about(`^(?:\r\n)?[^ ]{65}`),
	example: strings.Repeat("A", 65) + " / HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name: "bytes that no target has",
	why:  "RFC 3986 section 2: ASCII without blanks, controls and, in a request, a fragment; readers differ about the rest (B22)",
	ours: errTarget,
	about: target(func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' })
	}),
	example: "GET /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "asterisk for another method than OPTIONS",
	why:     "RFC 9112 section 3.2.4",
	ours:    errTarget,
	about:   target(func(s string) bool { return s == "*" }),
	example: "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "CONNECT to no authority",
	why:     "RFC 9112 section 3.2.3: host and port; net/http takes paths, for its package rpc, and hosts alone",
	ours:    errTarget,
	about:   about(`^(?:\r\n)?CONNECT `),
	example: "CONNECT /rpc HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "CONNECT to nothing",
	why:     "RFC 9112 section 3.2.3: there is a host; net/http puts a scheme in front of nothing",
	ours:    errRequestLine,
	about:   about(`^(?:\r\n)?CONNECT  HTTP/`),
	example: "CONNECT  HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "absolute target with a user, an empty host or an opaque part",
	why:     "RFC 9110 section 4.2: a host must be there, and a user is refused; readers take different parts for the host (B16)",
	ours:    errTarget,
	about:   target(about(`^[A-Za-z][A-Za-z0-9+.-]*:`)),
	example: "GET http://u@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
}, {
	name:    "scheme of another protocol",
	why:     "we cannot serve it, and must not pass it on as if it were HTTP (RFC 9110 section 7.4)",
	ours:    errScheme,
	about:   target(about(`^[A-Za-z][A-Za-z0-9+.-]*://`)),
	example: "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
}, {
	name:    "other versions",
	why:     "RFC 9110 section 2.5: 505 for what we do not speak; net/http's server says so too, its parser not",
	ours:    errVersion,
	about:   about(`^(?:\r\n)?[^ ]+ [^ ]+ HTTP/[0-9]\.[0-9]\r\n`),
	example: "GET / HTTP/1.2\r\nHost: x\r\n\r\n",
}, {
	name:    "no Host",
	why:     "RFC 9112 section 3.2 (B14); net/http's server refuses it, its parser not",
	ours:    errNoHost,
	about:   func(m string) bool { return !about(`(?i)\nhost:`)(m) },
	example: "GET / HTTP/1.1\r\n\r\n",
}, {
	name:    "Host that is none",
	why:     "RFC 9110 section 7.2, RFC 3986 section 3.2.2 (B16, B17): a path, a user or a list in it is taken apart differently by others",
	ours:    errHost,
	about:   about(`(?i)\nhost:`),
	example: "GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n",
}, {
	name:    "unknown expectation",
	why:     "RFC 9110 section 10.1.1: 417; net/http's server says so too, its parser not",
	ours:    errExpectation,
	about:   about(`(?i)\nexpect:`),
	example: "GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n",
}, {
	name:    "long request line",
	why:     "a limit of ours (B41): 414",
	ours:    errTargetLong,
	about:   longer(60 << 10),
	example: "GET /" + strings.Repeat("a", 70<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "percent signs that escape nothing",
	why:     "the target is passed on byte for byte, whatever it means to the member (B26)",
	theirs:  "invalid URL escape",
	about:   target(func(s string) bool { return strings.Contains(s, "%") }),
	example: "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "hosts of absolute targets that package url does not like",
	why:     "RFC 3986 section 3.2.2 allows sub-delims and percent-encoding in a name, and looser literals do no harm: the host is passed on as one token",
	theirs:  "parse \"",
	about:   target(about(`^(?:[A-Za-z]+://)?[^/?]*[\[\]%!$&'()*+,;=:~_]`)),
	example: "GET http://[1.2:3]/ HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "percent-encoding in the host of an absolute target",
	why:     "net/http decodes it; we pass on the host as it was sent",
	what:    "host",
	about:   target(about(`^(?:[A-Za-z]+://)?[^/?]*%`)),
	example: "GET http://caf%C3%A9.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
}, {
	name:    "CONNECT ends the connection",
	why:     "behind it is a tunnel or nothing: it is answered 405 (B28)",
	what:    "close",
	about:   about(`^(?:\r\n)?CONNECT `),
	example: "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
}}

// replyDifferences are those of replies alone.
var replyDifferences = []difference{{
	name:    "Trailer of a body that is not sent",
	why:     "net/http takes the line away together with the coding; ours is the head as it was sent, and package proxy drops the line",
	what:    "lines",
	about:   about(`(?i)\ntransfer-encoding *:.*\ntrailer *:|\ntrailer *:.*\ntransfer-encoding *:`),
	example: "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n",
}, {
	name:    "status line that is none",
	why:     "RFC 9112 section 4: one blank, HTTP/1.0 or 1.1; net/http takes several blanks, and any version",
	ours:    errStatusLine,
	about:   about(`^HTTP/(?:1\.[01] \s*[+-]?[0-9]|[02-9]\.|1\.[2-9])`),
	example: "HTTP/1.1  200 OK\r\n\r\n",
}, {
	name:    "status below 100",
	why:     "RFC 9110 section 15: three digits, the first of which is a class (C08)",
	ours:    errStatus,
	about:   about(`^HTTP/1\.[01] 0[0-9][0-9]`),
	example: "HTTP/1.1 099 Odd\r\n\r\n",
}, {
	name:    "control byte in the reason",
	why:     "RFC 9112 section 4; net/http keeps it",
	ours:    errControl,
	about:   about(`^HTTP/1\.[01] [0-9]{3}` + inLine + `[\x00-\x08\x0b-\x1f\x7f]`),
	example: "HTTP/1.1 200 O\x01K\r\n\r\n",
}, {
	name:    "framing where no body may be",
	why:     "RFC 9112 section 6.3: none follows; we end the connection if a length or a coding says so all the same (C02)",
	what:    "close",
	about:   about(`(?i)^HTTP/1\.[01] (?:1[0-9][0-9]|204).*\n(?:content-length|transfer-encoding):`),
	example: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
}}

// Every row happens: what no longer differs has to go.
func TestDifferences(t *testing.T) {
	requests := slices.Concat(framingDifferences, requestDifferences)
	replies := slices.Concat(framingDifferences, replyDifferences)
	readReplies := func(in []byte) verdict { return readBothReplies(in, MethodGet) }
	for _, d := range framingDifferences {
		checkRow(t, d, requests, d.request(), readBothRequests)
		checkRow(t, d, replies, d.reply(), readReplies)
	}
	for _, d := range requestDifferences {
		checkRow(t, d, requests, d.example, readBothRequests)
	}
	for _, d := range replyDifferences {
		checkRow(t, d, replies, d.example, readReplies)
	}
}

func checkRow(t *testing.T, want difference, table []difference, m string, read func([]byte) verdict) {
	t.Helper()
	v := read([]byte(m))
	got, agreed := v.find(table, []byte(m))
	switch {
	case agreed:
		t.Errorf("%s: %.200q: both read the same, %v", want.name, m, v)
	case got == nil:
		t.Errorf("%s: %.200q: not explained: %v", want.name, m, v)
	case got.name != want.name:
		t.Errorf("%s: %.200q: explained by %q", want.name, m, got.name)
	}
}

// A message is what a reader has made of some bytes.
type message struct {
	start   string // method and target, or status
	host    string
	close   bool
	lines   []string // name: value, sorted; without those that frame
	body    string
	trailer []string
	rest    string // what is behind it
}

// A verdict is what both readers say.
type verdict struct {
	ours, theirs     message
	ourErr, theirErr error
	split            bool // we read it otherwise if it comes byte by byte
}

func (v verdict) String() string {
	return fmt.Sprintf("ours %+v, %v; net/http %+v, %v", v.ours, v.ourErr, v.theirs, v.theirErr)
}

// find returns the row for a verdict. agreed says that none is needed.
func (v verdict) find(table []difference, m []byte) (d *difference, agreed bool) {
	switch {
	case v.ourErr != nil && v.theirErr != nil:
		return nil, true
	case v.ourErr != nil || v.theirErr != nil:
		return explain(table, m, v.ourErr, v.theirErr, ""), false
	}
	agreed = true
	for _, part := range []struct {
		what string
		same bool
	}{
		{"start", v.ours.start == v.theirs.start},
		{"host", v.ours.host == v.theirs.host},
		{"close", v.ours.close == v.theirs.close},
		{"lines", slices.Equal(v.ours.lines, v.theirs.lines)},
		{"body", v.ours.body == v.theirs.body && v.ours.rest == v.theirs.rest},
		{"trailer", slices.Equal(v.ours.trailer, v.theirs.trailer)},
	} {
		if part.same {
			continue
		}
		agreed = false
		if d = explain(table, m, nil, nil, part.what); d == nil {
			return nil, false
		}
	}
	return d, agreed
}

// check fails the test unless the two agree or a row says why not.
func (v verdict) check(t *testing.T, table []difference, m []byte) {
	t.Helper()
	if d, agreed := v.find(table, m); !agreed && d == nil {
		t.Fatalf("%q: no row explains this: %v", m, v)
	}
	if v.split {
		t.Fatalf("%q: read otherwise byte by byte: %v", m, v)
	}
}

func readBothRequests(in []byte) (v verdict) {
	v.ours, v.ourErr = readOurRequest(in, 0)
	parts, err := readOurRequest(in, 1)
	v.split = (err == nil) != (v.ourErr == nil) || err == nil && !reflect.DeepEqual(parts, v.ours)
	br := bufio.NewReader(bytes.NewReader(in))
	r, err := http.ReadRequest(br)
	if err != nil {
		v.theirErr = err
		return v
	}
	v.theirs = message{start: r.Method + " " + r.RequestURI, host: r.Host, close: r.Close, lines: headerLines(r.Header)}
	v.theirErr = v.theirs.readBody(r.Body, br)
	v.theirs.trailer = headerLines(r.Trailer)
	return v
}

func readOurRequest(in []byte, step int) (m message, err error) {
	c, s := newScript(string(in), step)
	var r Request
	if err := c.ReadRequest(&r); err != nil {
		return m, err
	}
	m = message{
		start: string(r.MethodName) + " " + string(r.Target), host: string(r.Host), close: r.Close,
		lines: ownLines(&r.Head, r.Body.Framing() == Chunked),
	}
	return m, m.readOwn(c, s, &r.Body)
}

func readBothReplies(in []byte, to Method) (v verdict) {
	v.ours, v.ourErr = readOurReply(in, 0, to)
	parts, err := readOurReply(in, 1, to)
	v.split = (err == nil) != (v.ourErr == nil) || err == nil && !reflect.DeepEqual(parts, v.ours)
	name := http.MethodGet
	if to == MethodHead {
		name = http.MethodHead
	}
	br := bufio.NewReader(bytes.NewReader(in))
	r, err := http.ReadResponse(br, &http.Request{Method: name})
	if err != nil {
		v.theirErr = err
		return v
	}
	defer func() { _ = r.Body.Close() }()
	v.theirs = message{start: fmt.Sprint(r.StatusCode), close: r.Close, lines: headerLines(r.Header)}
	if r.Close {
		v.theirs.lines = headerLines(r.Header, "Connection") // it takes the line away
		v.ours.lines = slices.DeleteFunc(slices.Clone(v.ours.lines), func(s string) bool { return strings.HasPrefix(s, "Connection: ") })
	}
	v.theirErr = v.theirs.readBody(r.Body, br)
	v.theirs.trailer = headerLines(r.Trailer)
	return v
}

func readOurReply(in []byte, step int, to Method) (m message, err error) {
	c, s := newScript(string(in), step)
	var r Reply
	if err := c.ReadReply(&r, to); err != nil {
		return m, err
	}
	m = message{start: fmt.Sprint(r.Status), close: r.Close, lines: ownLines(&r.Head, r.Body.Framing() == Chunked)}
	return m, m.readOwn(c, s, &r.Body)
}

func (m *message) readOwn(c *Conn, s *script, b *Body) (err error) {
	if m.body, err = content(b); err != nil {
		return err
	}
	if b.Framing() == Chunked {
		m.trailer = ownLines(b.Trailer(), false)
	}
	_, rest := c.Detach()
	m.rest = string(rest) + string(s.in)
	return nil
}

func (m *message) readBody(body io.Reader, br *bufio.Reader) error {
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m.body = string(b)
	rest, err := io.ReadAll(br)
	m.rest = string(rest)
	return err
}

// framing are the lines that net/http takes out of a header, or keeps as it likes.
var framing = []string{"Content-Length", "Transfer-Encoding", "Host"}

// headerLines returns the lines of a header, sorted.
func headerLines(h http.Header, without ...string) (lines []string) {
	for name, values := range h {
		if slices.Contains(framing, name) || slices.Contains(without, name) {
			continue
		}
		for _, v := range values {
			lines = append(lines, name+": "+v)
		}
	}
	slices.Sort(lines)
	return lines
}

// ownLines returns the lines of a head, sorted, with names as net/http spells
// them.
func ownLines(h *Head, chunked bool) (lines []string) {
	for i := range h.Lines {
		name := textproto.CanonicalMIMEHeaderKey(string(h.FieldName(i)))
		if slices.Contains(framing, name) || chunked && name == "Trailer" {
			continue
		}
		lines = append(lines, name+": "+string(h.Value(i)))
	}
	slices.Sort(lines)
	return lines
}
