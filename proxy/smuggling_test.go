package proxy_test

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A reader is a model of how loosely a server or a client reads HTTP/1.1. What
// real ones do, Tomcat, nginx, httpd, IIS, CGI gateways and old Go among them, is
// some mixture of these; request smuggling is two mixtures in a row.
type reader struct {
	bareLF     bool // LF ends a line
	bareCR     bool // so does CR
	fold       bool // a line that begins with a blank belongs to the one before
	trimName   bool // blanks around a name, and control bytes, are not seen
	underscore bool // an underscore is a dash
	lengthWins bool // Content-Length outranks Transfer-Encoding
	looseTE    bool // whatever holds "chunked" is chunked
	lastLength bool // of several Content-Length lines the last one counts
	looseSize  bool // a number ends where its digits end; a sign is skipped
}

// readers are all of them.
func readers() []reader {
	all := make([]reader, 0, 1<<9)
	for i := range 1 << 9 {
		bit := func(n int) bool { return i>>n&1 != 0 }
		all = append(all, reader{bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7), bit(8)})
	}
	return all
}

// A seen is a message as a reader sees it.
type seen struct{ line, body string }

// split reads messages until b ends, or something is not complete. A reply has a
// body that the end of b ends if nothing else does, and none where RFC 9112 section
// 6.3 says so.
func (r reader) split(b string, replies, head bool) (all []seen) {
	for b != "" {
		var m seen
		var lines []string
		for {
			line, rest, ok := r.line(b)
			if !ok {
				return append(all, seen{line: "incomplete"})
			}
			b = rest
			if line == "" && m.line != "" {
				break
			}
			switch {
			case m.line == "":
				m.line = line
			case r.fold && (line[0] == ' ' || line[0] == '\t') && len(lines) > 0:
				lines[len(lines)-1] += line
			default:
				lines = append(lines, line)
			}
		}
		length, chunked := r.framing(lines)
		status := ""
		if replies {
			_, status, _ = strings.Cut(m.line, " ")
		}
		switch {
		case replies && (head || strings.HasPrefix(status, "1") || strings.HasPrefix(status, "204") || strings.HasPrefix(status, "304")):
		case chunked && (!r.lengthWins || length < 0):
			m.body, b = r.chunks(b)
		case length >= 0:
			n := min(length, len(b))
			m.body, b = b[:n], b[n:]
		case replies:
			m.body, b = b, ""
		}
		all = append(all, m)
	}
	return all
}

func (r reader) line(b string) (line, rest string, ok bool) {
	for i := range len(b) {
		switch {
		case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
			return b[:i], b[i+2:], true
		case b[i] == '\n' && r.bareLF, b[i] == '\r' && r.bareCR:
			return b[:i], b[i+1:], true
		}
	}
	return "", "", false
}

func (r reader) framing(lines []string) (length int, chunked bool) {
	length = -1
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		if r.trimName {
			name = strings.TrimFunc(name, func(c rune) bool { return c <= ' ' })
			value = strings.TrimFunc(value, func(c rune) bool { return c <= ' ' })
		}
		if r.underscore {
			name = strings.ReplaceAll(name, "_", "-")
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "content-length":
			if n, ok := r.number(value, 10); ok && (length < 0 || r.lastLength) {
				length = n
			}
		case "transfer-encoding":
			v := strings.ToLower(value)
			chunked = chunked || v == "chunked" || r.looseTE && strings.Contains(v, "chunked")
		}
	}
	return length, chunked
}

func (r reader) number(s string, base int) (int, bool) {
	if r.looseSize {
		s = strings.TrimLeft(s, " \t+")
		end := strings.IndexFunc(s, func(c rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF"[:base+6*(base/16)], c) })
		if end >= 0 {
			s = s[:end]
		}
	}
	n, err := strconv.ParseUint(s, base, 31)
	return int(n), err == nil
}

func (r reader) chunks(b string) (body, rest string) {
	var all strings.Builder
	for {
		line, rest, ok := r.line(b)
		if !ok {
			return all.String() + " incomplete", ""
		}
		line, _, _ = strings.Cut(line, ";")
		n, ok := r.number(line, 16)
		if !ok {
			return all.String() + " malformed", ""
		}
		b = rest
		if n == 0 {
			for {
				line, rest, ok := r.line(b)
				if b = rest; line == "" || !ok {
					return all.String(), b
				}
			}
		}
		if n+2 > len(b) {
			return all.String() + " incomplete", ""
		}
		all.WriteString(b[:n])
		if b = b[n:]; strings.HasPrefix(b, "\r\n") {
			b = b[2:]
		}
	}
}

// agree fails the test if two readers see b differently.
func agree(t *rapid.T, b string, replies, head bool) {
	var first []seen
	for i, r := range readers() {
		if r.underscore && replies {
			continue // no client makes variables of fields
		}
		got := r.split(b, replies, head)
		if i == 0 {
			first = got
		} else if !slices.Equal(got, first) {
			t.Fatalf("%q: reader %+v sees %q, the strict one %q", b, r, got, first)
		}
	}
}

// odd draws a line that frames, or seems to. Most are nearly right: what is wrong
// in every way is refused by everybody.
func odd(t *rapid.T) string {
	name := rapid.SampledFrom([]string{
		"Content-Length", "Transfer-Encoding", "content-length", "TRANSFER-ENCODING", "Content_Length", "Transfer_Encoding", "Transfer-Encoding ",
		" Transfer-Encoding", "\tContent-Length", "Content-Length\x00", "Transfer\x00-Encoding", "Transfer-Encoding\xff", "X", "Connection", "Trailer", "TE", "Upgrade", "Expect",
	}).Draw(t, "name")
	sep := rapid.SampledFrom([]string{": ", ": ", ": ", ": ", ": ", ":", " : ", ":\t", ":\x0b", ":\r\n ", ";", ""}).Draw(t, "separator")
	lengths := []string{
		"0", "3", "5", "44", "003", "+3", "-1", "3,3", "3, 5", "0x3", "3 ", "3\t", "3\x00", "3\r", "3.0", "", "9223372036854775808", "18446744073709551619",
	}
	codings := []string{
		"chunked", "Chunked", "chunked ", "x, chunked", "chunked, chunked", "chunked, identity", "identity", "chunked\x0b", "\"chunked\"", "chunked;q=1", "gzip", "\x00chunked",
	}
	values := []string{"close, Content-Length", "transfer-encoding", "keep-alive", "trailers", "h2c", "100-continue", "a\r\nb", "3", "chunked"}
	switch lower := strings.ToLower(name); {
	case strings.Contains(lower, "length"):
		values = lengths
	case strings.Contains(lower, "encoding"):
		values = codings
	}
	return name + sep + rapid.SampledFrom(values).Draw(t, "value")
}

// oddLines draws header lines with ends of all kinds.
func oddLines(t *rapid.T) string {
	end := rapid.SampledFrom(append(slices.Repeat([]string{"\r\n"}, 20), "\n", "\r", "\r\r\n", "\n\r\n", "\r\n "))
	var b strings.Builder
	for range rapid.IntRange(0, 3).Draw(t, "lines") {
		b.WriteString(odd(t) + end.Draw(t, "end"))
	}
	return b.String()
}

// content draws what may be taken for a body, or for the next message.
func content(t *rapid.T, next string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
		"", "0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "abc", "3;x=\"\r\n\"\r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "0\r\nContent-Length: 3\r\n\r\n", "03 \r\nabc\r\n0\r\n\r\n",
		"3\r\nabcX\r\n0\r\n\r\n", "-1\r\n\r\n", "ffffffffffffffff\r\nabc", "2c\r\n", next, "0\r\nTransfer_Encoding: chunked\r\n\r\n",
	}), 0, 3).Draw(t, "content"), "")
}

// smuggled is what no reader may see unless all do.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// checkOften is rapid.Check with ten times its number of cases, but for -short.
func checkOften(t *testing.T, f func(*rapid.T)) {
	rounds := 10
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		rapid.Check(t, f)
	}
}

// What reaches a member is read in one way by whoever reads it, and it is as many
// requests as we think.
func TestNothingSmuggledToMembers(t *testing.T) {
	checkOften(t, func(rt *rapid.T) {
		var sent strings.Builder
		for range rapid.IntRange(1, 3).Draw(rt, "requests") {
			start := rapid.SampledFrom([]string{"POST / HTTP/1.1", "GET / HTTP/1.1", "POST / HTTP/1.0", "POST http://y/ HTTP/1.1", "OPTIONS * HTTP/1.1", "GET /a\tb HTTP/1.1", "POST /\x0b HTTP/1.1"}).Draw(rt, "start")
			sent.WriteString(start + "\r\nHost: x\r\n" + oddLines(rt) + "\r\n" + content(rt, smuggled))
		}
		sent.WriteString(smuggled)
		var got, heads []string
		log := ""
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, taped())
			member := newTape(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			c := w.raw()
			_, _ = io.WriteString(c.Conn, sent.String()) // the proxy may end the connection first
			time.Sleep(time.Second)                      // all that can be answered is
			_ = c.Close()
			time.Sleep(time.Second)
			heads, _ = member.stop()
			w.close() // which writes the last lines of the log
			got, log = member.bytes(), w.access.String()
		})
		for _, b := range got {
			agree(rt, b, false, false)
		}
		if passed := strings.Count(log, `"attempts":1`); passed != len(heads) || strings.Contains(log, `"attempts":2`) {
			rt.Errorf("%q: the log has %d requests, the member %d: %q", sent.String(), passed, len(heads), heads)
		}
	})
}

// The same for what reaches a client of a member that does not keep to the rules.
func TestNothingSmuggledToClients(t *testing.T) {
	next := "HTTP/1.1 200 OK\r\nX-Smuggled: 1\r\nContent-Length: 0\r\n\r\n"
	checkOften(t, func(rt *rapid.T) {
		start := rapid.SampledFrom([]string{"HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "HTTP/1.1 204 No", "HTTP/1.1 304 Not", "HTTP/1.1 103 Hints", "HTTP/1.1 404", "HTTP/1.1 200 a\rb"}).Draw(rt, "start")
		reply := start + "\r\n" + oddLines(rt) + "\r\n" + content(rt, next)
		method := rapid.SampledFrom([]string{"GET", "HEAD", "POST"}).Draw(rt, "method")
		got := ""
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, taped())
			defer w.close()
			member := newTape(w, reply)
			c := w.raw()
			c.say(strings.Repeat(method+" / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 2))
			time.Sleep(time.Second)
			member.stop() // ends what has no other end
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			got = c.all()
		})
		got, _, _ = strings.Cut(got, " <") // why it ended
		agree(rt, got, true, method == "HEAD")
		if n := strings.Count(got, "X-Smuggled"); n > 2*strings.Count(reply, "X-Smuggled") {
			rt.Errorf("%q: the client sees %d smuggled replies in %q", reply, n, got)
		}
	})
}
