package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/understudy-lb/understudy/proxy"
)

// A tape is a member that writes down the bytes that it gets, and says the same to
// every request.
type tape struct {
	w     *world
	reply string
	ln    net.Listener
	done  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	heads []string   // without the lines that all requests get
	text  []string   // bodies, decoded
	conns []net.Conn
	raw   []*lines // all that came over each of conns
}

// taped are options for a world whose only member is a tape.
func taped() options { return options{members: []string{"a"}, without: []string{"a"}} }

// newTape starts a tape as member a.
func newTape(w *world, reply string) *tape {
	w.t.Helper()
	ln, err := w.net.Host(w.members["a"].ip).Listen("tcp", ":8080")
	if err != nil {
		w.t.Fatal(err)
	}
	p := &tape{w: w, reply: reply, ln: ln}
	p.done.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			raw := new(lines)
			p.conns, p.raw = append(p.conns, nc), append(p.raw, raw)
			p.mu.Unlock()
			p.done.Go(func() { p.serve(nc, raw) })
		}
	})
	return p
}

func (p *tape) serve(nc net.Conn, raw *lines) {
	defer func() { _ = nc.Close() }()
	for br := bufio.NewReader(io.TeeReader(nc, raw)); ; {
		var head, kept strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if !strings.HasPrefix(line, "X-Forwarded-") && !strings.HasPrefix(line, "Forwarded: ") && !strings.HasPrefix(line, "X-Request-ID: ") {
				kept.WriteString(line)
			}
		}
		r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head.String()), br)))
		if err != nil {
			p.w.t.Errorf("net/http does not understand what the member got, %q: %v", head.String(), err)
			return
		}
		body, err := io.ReadAll(r.Body)
		p.mu.Lock()
		p.heads = append(p.heads, kept.String())
		p.text = append(p.text, string(body))
		p.mu.Unlock()
		if _, werr := io.WriteString(nc, p.reply); err != nil || werr != nil {
			return
		}
	}
}

// stop ends the tape and returns what it has.
func (p *tape) stop() (heads, text []string) {
	_ = p.ln.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
	return p.heads, p.text
}

// bytes returns what came over each connection. The tape has stopped.
func (p *tape) bytes() (all []string) {
	for _, r := range p.raw {
		all = append(all, r.String())
	}
	return all
}

// TestPeersRequests is the table of peers.md 4B: what is refused reaches nobody and
// ends the connection; what is not is passed on byte for byte but for the lines that
// a rule takes. B34 and B35 are in tunnel_test.go, B37 in forwarded_test.go, B38, B40
// and B43 in wire_test.go, B44 in http2_test.go.
func TestPeersRequests(t *testing.T) {
	const (
		get  = "GET / HTTP/1.1\r\n"
		post = "POST / HTTP/1.1\r\nHost: x\r\n"
	)
	tests := []struct {
		id, name string
		send     string
		status   int    // of the first reply; 200 if 0
		head     string // as the member gets it; "" if nobody may get anything
		body     string
		last     bool // the connection ends with the reply
	}{
		{id: "B01", name: "length and chunked", send: post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", status: 400},
		{id: "B01", name: "the other way round", send: post + "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nG", status: 400},
		{id: "B02", name: "equal lengths", send: post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", status: 400},
		{id: "B04", name: "different lengths", send: post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", status: 400},
		{id: "B04", name: "empty length", send: post + "Content-Length:\r\n\r\n", status: 400},
		{id: "B04", name: "plus", send: post + "Content-Length: +3\r\n\r\nabc", status: 400},
		{id: "B04", name: "minus", send: post + "Content-Length: -1\r\n\r\n", status: 400},
		{id: "B04", name: "blank before the colon", send: post + "Content-Length : 3\r\n\r\nabc", status: 400},
		{id: "B05", name: "leading zeros", send: post + "Content-Length: 003\r\n\r\nabc", head: post + "Content-Length: 3\r\n\r\n", body: "abc"},
		{id: "B07", name: "chunked in HTTP/1.0", send: "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400},
		{id: "B08", name: "bare LF behind a chunk size", send: post + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", status: 400},
		{id: "B08", name: "bare LF behind a chunk", send: post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", status: 400},
		{id: "B08", name: "bare LF behind the last chunk", send: post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\n\r\n", status: 400},
		{id: "B10", name: "bare LF behind lines", send: "GET / HTTP/1.1\nHost: x\n\n", status: 400},
		{id: "B10", name: "bare LF behind one line", send: get + "Host: x\nA: b\r\n\r\n", status: 400},
		{id: "B11", name: "NUL in a value", send: get + "Host: x\r\nA: b\x00c\r\n\r\n", status: 400},
		{id: "B13", name: "no colon", send: get + "Host: x\r\nAbc\r\n\r\n", status: 400},
		{id: "B13", name: "name that is not ASCII", send: get + "Host: x\r\nCaf\xc3\xa9: 1\r\n\r\n", status: 400},
		{id: "B13", name: "empty name", send: get + "Host: x\r\n: 1\r\n\r\n", status: 400},
		{id: "B14", name: "no Host", send: get + "\r\n", status: 400},
		{id: "B16", name: "path in Host", send: get + "Host: a.test/x\r\n\r\n", status: 400},
		{id: "B16", name: "user in Host", send: get + "Host: u@a.test\r\n\r\n", status: 400},
		{id: "B17", name: "IPv6 without brackets", send: get + "Host: ::1\r\n\r\n", status: 400},
		{id: "B19", name: "absolute target", send: "GET http://real.test/p?q=1 HTTP/1.1\r\nHost: evil.test\r\n\r\n", head: "GET /p?q=1 HTTP/1.1\r\nHost: real.test\r\n\r\n"},
		{id: "B20", name: "absolute target without a path", send: "GET http://real.test?q=1 HTTP/1.1\r\nHost: real.test\r\n\r\n", head: "GET /?q=1 HTTP/1.1\r\nHost: real.test\r\n\r\n"},
		{id: "B22", name: "UTF-8 in the target", send: "GET /caf\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", status: 400},
		{id: "B23", name: "dots and slashes", send: "GET /a/../b/./c HTTP/1.1\r\nHost: x\r\n\r\n", head: "GET /a/../b/./c HTTP/1.1\r\nHost: x\r\n\r\n"},
		{id: "B23", name: "double slashes", send: "GET //a//b HTTP/1.1\r\nHost: x\r\n\r\n", head: "GET //a//b HTTP/1.1\r\nHost: x\r\n\r\n"},
		{id: "B25", name: "semicolon in the query", send: "GET /?x=1;y=2&z=3 HTTP/1.1\r\nHost: x\r\n\r\n", head: "GET /?x=1;y=2&z=3 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{id: "B26", name: "bad escape in the query", send: "GET /?x=%zz&y=1 HTTP/1.1\r\nHost: x\r\n\r\n", head: "GET /?x=%zz&y=1 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{id: "B28", name: "CONNECT", send: "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", status: 405},
		{id: "B29", name: "OPTIONS *, answered here", send: "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", status: 200, last: true},
		{id: "B31", name: "nominated", send: get + "Host: x\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nX-Open: 2\r\n\r\n", head: get + "Host: x\r\nX-Open: 2\r\n\r\n", last: true},
		{
			id: "B32", name: "end-to-end fields cannot be nominated",
			send: get + "Host: x\r\nConnection: Cookie, X-Forwarded-For, Authorization, Host, Forwarded\r\nCookie: a=1\r\nAuthorization: y\r\n\r\n",
			head: get + "Host: x\r\nCookie: a=1\r\nAuthorization: y\r\n\r\n",
		},
		{id: "B41", name: "head of 70 KB", send: get + "Host: x\r\nA: " + strings.Repeat("a", 70_000) + "\r\n\r\n", status: 431},
		{id: "B41", name: "head of 1.1 MB", send: get + "Host: x\r\nA: " + strings.Repeat("a", 1_100_000) + "\r\n\r\n", status: 431},
		{id: "B41", name: "5000 lines", send: get + "Host: x\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n", status: 431},
		{id: "B41", name: "201 lines", send: get + "Host: x\r\n" + strings.Repeat("A: b\r\n", 200) + "\r\n", status: 431},
		{id: "B41", name: "200 lines", send: get + "Host: x\r\n" + strings.Repeat("A: b\r\n", 199) + "\r\n", head: get + "Host: x\r\n" + strings.Repeat("A: b\r\n", 199) + "\r\n"},
		{id: "B41", name: "URI of 70 KB", send: "GET /" + strings.Repeat("a", 70_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", status: 414},
		{id: "B46", name: "nothing is added", send: get + "Host: x\r\n\r\n", head: get + "Host: x\r\n\r\n"},
		{
			id: "faithful", name: "names, values and order byte for byte",
			send: "FOO /%41%2f;a=b/?x=%zz HTTP/1.1\r\nhOST:  x:80  \r\nx-ODD:\t \"caf\xc3\xa9, \xe9\\ \t\r\nEmpty:\r\nAccept: */*\r\nX-ODD: 2\r\n\r\n",
			head: "FOO /%41%2f;a=b/?x=%zz HTTP/1.1\r\nhOST:  x:80  \r\nx-ODD:\t \"caf\xc3\xa9, \xe9\\ \t\r\nEmpty:\r\nAccept: */*\r\nX-ODD: 2\r\n\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			one(t, taped(), func(t *testing.T, w *world) {
				member := newTape(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				c := w.raw()
				sent := make(chan struct{})
				go func() { // a long one is not read to its end
					defer close(sent)
					_, _ = io.WriteString(c.Conn, tt.send+"GET /behind HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				}()
				a, err := c.hear(http.MethodGet)
				if want := max(tt.status, 200); err != nil || tt.status == 0 && a.status != 200 || tt.status != 0 && a.status != want {
					t.Errorf("status %d, %v; want %d", a.status, err, want)
				}
				rest := c.all()
				if ends := tt.status >= 400 || tt.last; ends != (rest == "") || ends != a.close {
					t.Errorf("behind it: %q, Connection: close is %v; the connection should end: %v", rest, a.close, ends)
				}
				_ = c.Close()
				<-sent
				heads, text := member.stop()
				var want, bodies []string
				if tt.head != "" {
					want, bodies = append(want, tt.head), append(bodies, tt.body)
				}
				if tt.status < 400 && !tt.last {
					want, bodies = append(want, "GET /behind HTTP/1.1\r\nHost: x\r\n\r\n"), append(bodies, "")
				}
				if !slices.Equal(heads, want) || !slices.Equal(text, bodies) {
					t.Errorf("the member got %q with bodies %q; want %q with %q", heads, text, want, bodies)
				}
			})
		})
	}
}

// TestPeersReplies is the table of peers.md 4C, and what a member that does not keep
// to the rules does to the next request. C17 is in wire_test.go.
func TestPeersReplies(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		id, name string
		method   string // GET if empty
		reply    string
		want     string // all that an HTTP/1.1 client gets, but for Connection: close; "502" for our own
		kept     bool   // the member's connection is used again
	}{
		{id: "C01", name: "HEAD answered with a body", method: "HEAD", reply: ok + "Content-Length: 4\r\n\r\nbody", want: ok + "Content-Length: 4\r\n\r\n"},
		{id: "C01", name: "HEAD answered without", method: "HEAD", reply: ok + "Content-Length: 4\r\n\r\n", want: ok + "Content-Length: 4\r\n\r\n", kept: true},
		{id: "C02", name: "204 with a length and a body", reply: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", want: "HTTP/1.1 204 No Content\r\n\r\n"},
		{id: "C02", name: "204 chunked", reply: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "HTTP/1.1 204 No Content\r\n\r\n"},
		{id: "C04", name: "different lengths", reply: ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", want: "502"},
		{id: "C05", name: "length and chunked", reply: ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "502"},
		{id: "C07", name: "bytes behind the length", reply: ok + "Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", want: ok + "Content-Length: 2\r\n\r\nok"},
		{id: "C08", name: "status 099", reply: "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", want: "502"},
		{id: "C10", name: "unasked 101", reply: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n", want: "502"},
		{
			id: "C11", name: "103 with hop-by-hop lines", reply: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-N\r\nX-N: 1\r\nKeep-Alive: timeout=5\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n",
			want: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", kept: true,
		},
		{id: "C13", name: "no Content-Type", reply: ok + "Content-Length: 6\r\n\r\n<html>", want: ok + "Content-Length: 6\r\n\r\n<html>", kept: true},
		{id: "C14", name: "blank before the colon", reply: ok + "X-A : 1\r\nContent-Length: 0\r\n\r\n", want: "502"},
		{
			id: "C16", name: "Set-Cookie2 among Set-Cookie", reply: ok + "Set-Cookie: a=1\r\nSet-Cookie2: b=2; Version=1\r\nSet-Cookie: c=3\r\nX-Z: 1\r\nContent-Length: 0\r\n\r\n",
			want: ok + "Set-Cookie: a=1\r\nSet-Cookie2: b=2; Version=1\r\nSet-Cookie: c=3\r\nX-Z: 1\r\nContent-Length: 0\r\n\r\n", kept: true,
		},
		{id: "C20", name: "Upgrade in an answer", reply: ok + "Upgrade: h2,h2c\r\nConnection: Upgrade, close\r\nContent-Length: 0\r\n\r\n", want: ok + "Content-Length: 0\r\n\r\n"},
		{
			id: "faithful", name: "reason, names, values and order byte for byte",
			reply: "HTTP/1.1 299 caf\xe9  !\r\nx-ODD:\t \"\xc3\xa9\\ \t\r\nEmpty:\r\nETag: W/\"x\"\r\nx-odd: 2\r\nVia: 1.1 b\r\nServer: y\r\nContent-Length: 2\r\n\r\nok",
			want:  "HTTP/1.1 299 caf\xe9  !\r\nx-ODD:\t \"\xc3\xa9\\ \t\r\nEmpty:\r\nETag: W/\"x\"\r\nx-odd: 2\r\nVia: 1.1 b\r\nServer: y\r\nContent-Length: 2\r\n\r\nok", kept: true,
		},
		{id: "faithful", name: "no reason, and a 304 that keeps its length", reply: "HTTP/1.1 304 \r\nContent-Length: 500\r\n\r\n", want: "HTTP/1.1 304 \r\nContent-Length: 500\r\n\r\n", kept: true},
	}
	for _, tt := range tests {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			one(t, taped(), func(t *testing.T, w *world) {
				member := newTape(w, tt.reply)
				if tt.method == "" {
					tt.method = "GET"
				}
				for range 3 { // what one reply leaves behind must not become the next one
					c := w.raw()
					c.say(tt.method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
					got := strings.Replace(c.all(), "Connection: close\r\n", "", 1)
					switch tt.want {
					case "502":
						if !strings.HasPrefix(got, "HTTP/1.1 502 ") {
							t.Errorf("got %q, want 502", got)
						}
					default:
						if got != tt.want {
							t.Errorf("got %q, want %q", got, tt.want)
						}
					}
					synctest.Wait()
				}
				if m := w.member("a"); !m.InService {
					t.Errorf("the member is out of service: %+v", m) // C04: one bad page is not the member's end
				}
				if heads, _ := member.stop(); len(heads) != 3 || (len(member.conns) == 1) != tt.kept {
					t.Errorf("%d requests over %d connections; kept should be %v", len(heads), len(member.conns), tt.kept)
				}
			})
			bubble(t, true, taped(), func(t *testing.T, w *world) {
				member := newTape(w, tt.reply)
				a, err := w.do(tt.method, "/", "", nil)
				_, want, _ := strings.Cut("HTTP/1.1 "+tt.want, "HTTP/1.1 ")
				if i := strings.LastIndex(tt.want, "HTTP/1.1 "); i >= 0 {
					want = tt.want[i+len("HTTP/1.1 "):]
				}
				if err != nil || a.status != int(want[0]-'0')*100+int(want[1]-'0')*10+int(want[2]-'0') {
					t.Errorf("HTTP/2: %d, %v; want %.3s", a.status, err, want)
				}
				for _, name := range []string{"Upgrade", "Connection", "Keep-Alive", "X-N"} {
					if v := a.header.Get(name); v != "" {
						t.Errorf("HTTP/2: %s: %s", name, v)
					}
				}
				member.stop()
			})
		})
	}
}

// RFC 9110 section 7.6.2: Max-Forwards counts down in OPTIONS and TRACE, and whom it
// ends with answers.
func TestMaxForwards(t *testing.T) {
	tests := []struct {
		name, send string
		head       string // as the member gets it
		status     int
		body       string
	}{{
		name: "counted down", send: "OPTIONS /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 010\r\nA: b\r\n\r\n",
		head: "OPTIONS /x HTTP/1.1\r\nHost: x\r\nA: b\r\nMax-Forwards: 9\r\n\r\n", status: 200, body: "ok",
	}, {
		name: "down to 0", send: "TRACE /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 1\r\n\r\n",
		head: "TRACE /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n", status: 200, body: "ok",
	}, {
		name: "more than anybody counts", send: "OPTIONS /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 99999999999999999999\r\n\r\n",
		head: "OPTIONS /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 999999999\r\n\r\n", status: 200, body: "ok",
	}, {
		name: "OPTIONS ends here", send: "OPTIONS /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n", status: 200,
	}, {
		name:   "TRACE ends here, and tells no secrets",
		send:   "TRACE /x?y HTTP/1.1\r\nHost: x\r\nCookie: secret\r\nAuthorization: secret\r\nX-Token: secret\r\nVia: 1.0 a\r\nMax-Forwards: 0\r\n\r\n",
		status: 200, body: "TRACE /x?y HTTP/1.1\r\nHost: x\r\nVia: 1.0 a\r\nMax-Forwards: 0\r\n\r\n",
	}, {
		name: "no number", send: "TRACE /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: -1\r\n\r\n", status: 400, body: "Bad Request\n",
	}, {
		name: "empty", send: "TRACE /x HTTP/1.1\r\nHost: x\r\nMax-Forwards:\r\n\r\n", status: 400, body: "Bad Request\n",
	}, {
		name: "twice", send: "TRACE /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 3\r\nMax-Forwards: 3\r\n\r\n", status: 400, body: "Bad Request\n",
	}, {
		name: "of no meaning elsewhere", send: "GET /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: zero\r\n\r\n",
		head: "GET /x HTTP/1.1\r\nHost: x\r\nMax-Forwards: zero\r\n\r\n", status: 200, body: "ok",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one(t, taped(), func(t *testing.T, w *world) {
				member := newTape(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				c := w.raw()
				c.say(tt.send)
				a, err := c.hear(http.MethodGet)
				if err != nil || a.status != tt.status || a.body != tt.body || a.close != (tt.status == 400) {
					t.Errorf("%d %q, close %v, %v; want %d %q", a.status, a.body, a.close, err, tt.status, tt.body)
				}
				heads, _ := member.stop()
				if got := strings.Join(heads, ""); got != tt.head {
					t.Errorf("the member got %q, want %q", got, tt.head)
				}
			})
		})
	}
}

// The same over both protocols, with content that is not read.
func TestAnsweredHere(t *testing.T) {
	every(t, options{}, func(t *testing.T, w *world) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+proxyAddr+"/x", strings.NewReader("content"))
		r.Header.Set("Max-Forwards", "0")
		a, err := w.send(r)
		if err != nil || a.status != 200 || a.body != "" || !strings.Contains(a.header.Get("Allow"), "TRACE") || a.header.Get("Content-Type") != "" {
			t.Errorf("OPTIONS = %d %q %v, %v", a.status, a.body, a.header, err)
		}
		r, _ = http.NewRequestWithContext(t.Context(), http.MethodTrace, "http://"+proxyAddr+"/x", nil)
		r.Header.Set("Max-Forwards", "0")
		a, err = w.send(r)
		if err != nil || a.status != 200 || !strings.HasPrefix(a.body, "TRACE /x HTTP/1.1\r\nHost: ") || a.header.Get("Content-Type") != "message/http" {
			t.Errorf("TRACE = %d %q %v, %v", a.status, a.body, a.header, err)
		}
		if c := w.proxy.Counts(); c.Failed != 0 || c.Requests != 2 {
			t.Errorf("counts %+v", c)
		}
		for name, m := range w.members {
			if got := m.requests(); len(got) > 0 {
				t.Errorf("member %s got %q", name, got)
			}
		}
	})
}

// Fields that a member may take for others: a dash and an underscore are the same
// in variables of CGI, and its HTTP_PROXY is the field Proxy (CVE-2016-5385).
func TestFieldsInDisguise(t *testing.T) {
	one(t, taped(), func(t *testing.T, w *world) {
		member := newTape(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		c := w.raw()
		c.say("POST / HTTP/1.1\r\nHost: x\r\nContent_Length: 5\r\ntransfer_encoding: chunked\r\nX_Forwarded_For: 1.2.3.4\r\nX-Forwarded_Server: y\r\n" +
			"True_Client-IP: 1.2.3.4\r\nUnderstudy_Not_Executed: x\r\nUnderstudy_New: x\r\nProxy: http://evil\r\nProxy_Authorization: z\r\nX_Mine: kept\r\n" +
			"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\nX-Forwarded-Server: y\r\nContent_Length: 5\r\nProxy: y\r\nX-Sum: 1\r\n\r\n")
		if a, err := c.hear(http.MethodPost); err != nil || a.status != 200 {
			t.Errorf("POST = %d, %v", a.status, err)
		}
		heads, text := member.stop()
		want := "POST / HTTP/1.1\r\nHost: x\r\nX_Mine: kept\r\nTransfer-Encoding: chunked\r\n\r\n"
		if len(heads) != 1 || heads[0] != want || text[0] != "hi" {
			t.Errorf("the member got %q %q, want %q", heads, text, want)
		}
	})
}

// C19: what a member, or who sits between, says before the handshake of TLS is no
// reply. Members are reached over TLS by [proxy.Config.Dial].
func TestBytesBeforeTheHandshake(t *testing.T) {
	o := taped()
	o.config = func(c *proxy.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return tls.Client(nc, &tls.Config{ServerName: "a.test", MinVersion: tls.VersionTLS12}), nil
		}
	}
	one(t, o, func(t *testing.T, w *world) {
		ln, err := w.net.Host(w.members["a"].ip).Listen("tcp", ":8080")
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		done.Go(func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
				_, _ = io.Copy(io.Discard, nc)
				_ = nc.Close()
			}
		})
		if a := w.get("/", ""); a.status < 500 || strings.Contains(a.body, "evil") {
			t.Errorf("GET = %d %q, want an error of our own", a.status, a.body)
		}
		_ = ln.Close()
		done.Wait()
	})
}
