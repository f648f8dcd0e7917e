package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// A conduct is what both members of a vector do with each request that they get.
type conduct struct {
	asks bool   // for all of the body first (GET_BODY_CHUNK)
	says string // packets, or what is none
	ends ending
}

type ending int

const (
	closes ending = iota // which is a reset if part of the request was not read
	hangs
	keeps // the connection
)

func (c conduct) serve(m *fake, conn *memberConn, r *http.Request) bool {
	if c.asks {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return false
		}
	}
	conn.say("%s", c.says)
	switch c.ends {
	case keeps:
		return true
	case hangs:
		return mute(m, conn, r)
	case closes:
		time.Sleep(10 * time.Millisecond) // all of the request is there
	}
	return false
}

// packet is one of a member.
func packet(payload string) string { return string(ajpPacket([]byte(payload)...)) }

// An outcome is what becomes of a request for which both members do the same.
type outcome struct {
	status int
	again  bool // it is sent more than once
	twice  bool // the client gets one reply behind the other
}

// TestResultVectors has the vectors of mod_jk.md section 4 over AJP13, [T] where mod_jk
// was observed. Where we differ the row names its deviation, as docs/deviations.md
// begins it; rows that agree name none. Rows of 4.2 that say nothing of a reply are in
// TestEveryFailureHasItsStatus.
func TestResultVectors(t *testing.T) {
	docs, err := os.ReadFile("../docs/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	const (
		rt   = "worker.%[1]s.reply_timeout=700\n"
		bits = "worker.%[1]s.recovery_options="

		breaks = "an answer over AJP13 that breaks the protocol"
		again  = "sending again after a member got the request"
		reset  = "a reset while a reply is awaited, with `reply_timeout`"
		half   = "a reply that breaks off"
		bodies = "bodies that can be sent again"
	)
	var (
		head  = packet("\x04\x00\xc8\x00\x00\x00\x00\x00")
		small = strings.Repeat("x", 8186) // fits one packet
		large = strings.Repeat("x", 20_000)
	)
	part := head + packet("\x03\x00\x04half\x00")
	lost := outcome{200, true, true}
	cut := outcome{200, false, false}

	tests := []struct {
		vector string
		method string // GET if empty
		body   string
		header string // a header's value, cut to 8 KiB
		lines  string // for each member, whose name is %[1]s
		member conduct
		jk     outcome
		our    outcome // without a limit of resends
		differ string
	}{
		// 4.2, row by row.
		{vector: "4.2 the head does not fit max_packet_size", header: large, jk: outcome{413, false, false}, our: outcome{413, false, false}},
		{vector: "4.2 closes before a packet", jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.2 [T] reply_timeout passes", lines: rt, member: conduct{ends: hangs}, jk: outcome{504, true, false}, our: outcome{504, true, false}},
		{vector: "4.2 [T] resets while a reply is awaited, with reply_timeout", method: "PUT", body: large, lines: rt, jk: outcome{504, true, false}, our: outcome{502, true, false}, differ: reset},
		{vector: "4.2 socket_timeout", lines: "worker.%[1]s.socket_timeout=1\n", member: conduct{ends: hangs}, jk: outcome{502, true, false}, our: outcome{504, true, false}, differ: "`socket_timeout` while a reply is awaited"},
		{vector: "4.2 bad magic", member: conduct{says: "XY\x00\x02\x05\x01"}, jk: outcome{502, true, false}, our: outcome{502, false, false}, differ: breaks},
		{vector: "4.2 a packet larger than the buffer", member: conduct{says: "AB\xff\xff\x04"}, jk: outcome{502, true, false}, our: outcome{502, false, false}, differ: breaks},
		{vector: "4.2 the end inside a packet", member: conduct{says: head[:6]}, jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.2 an unknown packet", member: conduct{says: packet("\x55")}, jk: outcome{500, true, false}, our: outcome{502, false, false}, differ: breaks},
		{vector: "4.2 a body before its head", member: conduct{says: packet("\x03\x00\x01x\x00")}, jk: outcome{500, true, false}, our: outcome{502, false, false}, differ: breaks},
		{vector: "4.2 fail_on_status", lines: "worker.%[1]s.fail_on_status=503\n", member: conduct{says: packet("\x04\x01\xf7\x00\x00\x00\x00\x00") + packet("\x05\x01"), ends: keeps}, jk: outcome{503, true, false}, our: outcome{503, true, false}},
		{vector: "4.2 ok", member: conduct{says: head + packet("\x05\x01"), ends: keeps}, jk: outcome{200, false, false}, our: outcome{200, false, false}},

		{vector: "4.3 [T] a server that hangs, 0.7 s again and again", lines: rt, member: conduct{ends: hangs}, jk: outcome{504, true, false}, our: outcome{504, true, false}},

		// 4.4. 0 is what mod_jk has without the directive.
		{vector: "4.4 [T] a POST, a broken reply", method: "POST", body: "x", jk: outcome{502, true, false}, our: outcome{502, false, false}, differ: again},
		{vector: "4.4 [T] a POST, a time-out", method: "POST", body: "x", lines: rt, member: conduct{ends: hangs}, jk: outcome{504, true, false}, our: outcome{504, false, false}, differ: again},
		{vector: "4.4 [T] a POST and 0, a broken reply", method: "POST", body: "x", lines: bits + "0\n", jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.4 [T] a POST and 0, a time-out", method: "POST", body: "x", lines: rt + bits + "0\n", member: conduct{ends: hangs}, jk: outcome{504, true, false}, our: outcome{504, true, false}},
		{vector: "4.4 [T] a GET, after head and part of the body", member: conduct{says: part}, jk: lost, our: cut, differ: half},
		{vector: "4.4 [T] a POST and 0, after head and part of the body", method: "POST", body: "x", lines: bits + "0\n", member: conduct{says: part}, jk: lost, our: cut, differ: half},
		{vector: "4.4 a GET and 2, after head and part of the body", lines: bits + "2\n", member: conduct{says: part}, jk: cut, our: cut},
		{vector: "4.4 a GET and 1", lines: bits + "1\n", jk: outcome{502, false, false}, our: outcome{502, false, false}},
		{vector: "4.4 a HEAD and 9", method: "HEAD", lines: bits + "9\n", jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.4 a GET and 17", lines: bits + "17\n", jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.4 [T] a GET and 25: 8 hides 16", lines: bits + "25\n", jk: outcome{502, false, false}, our: outcome{502, true, false}, differ: "`recovery_options` with 1, 8 and 16"},
		{vector: "4.4 [T] a GET and 31: 8 hides 16", lines: bits + "31\n", jk: outcome{502, false, false}, our: outcome{502, true, false}, differ: "`recovery_options` with 1, 8 and 16"},
		{vector: "4.4 a HEAD and 25", method: "HEAD", lines: bits + "25\n", jk: outcome{502, true, false}, our: outcome{502, true, false}},

		// 4.5, with the 0 that mod_jk has by itself.
		{vector: "4.5 a POST of one packet", method: "POST", body: small, lines: bits + "0\n", jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.5 a larger POST, nothing more asked for", method: "POST", body: large, lines: bits + "0\n", jk: outcome{502, true, false}, our: outcome{502, true, false}},
		{vector: "4.5 a larger POST, GET_BODY_CHUNK answered", method: "POST", body: large, lines: bits + "0\n", member: conduct{asks: true}, jk: outcome{502, false, false}, our: outcome{502, true, false}, differ: bodies},
		{vector: "4.5 a POST of one packet, bit 1", method: "POST", body: small, lines: bits + "1\n", jk: outcome{502, false, false}, our: outcome{502, false, false}},
	}
	for _, tt := range tests {
		t.Run(tt.vector, func(t *testing.T) {
			if (tt.jk == tt.our) != (tt.differ == "") {
				t.Errorf("mod_jk's %+v, ours %+v, and the deviation is %q", tt.jk, tt.our, tt.differ)
			}
			if tt.differ != "" && !strings.Contains(string(docs), "\n| "+tt.differ) {
				t.Errorf("docs/deviations.md has no row %q", tt.differ)
			}
			o := tt.member.options(tt.lines)
			one(t, o, func(t *testing.T, w *world) {
				method := tt.method
				if method == "" {
					method = http.MethodGet
				}
				r, _ := http.NewRequestWithContext(t.Context(), method, "http://"+proxyAddr+"/", strings.NewReader(tt.body))
				if tt.header != "" {
					r.Header.Set("X-Long", tt.header[:8192])
				}
				start := time.Now()
				a, err := w.send(r)
				took := time.Since(start)
				got := outcome{a.status, w.total() > 1, strings.Count(a.body, "half") > 1}
				if got != tt.our || err != nil {
					t.Errorf("%+v, %v; want %+v", got, err, tt.our)
				}
				times := 1
				switch {
				case tt.our.again:
					times = 8 // 2 tries * 2 members * 2 rounds
				case tt.our.status == 413:
					times = 0
				}
				if n := w.total(); n != times {
					t.Errorf("it was sent %d times, want %d", n, times)
				}
				// 8 time-outs of 700 ms, with pauses between; theirs took 6.9 s.
				if strings.Contains(tt.vector, "4.3") && (took < 5600*time.Millisecond || took > 6900*time.Millisecond) {
					t.Errorf("it took %v", took)
				}
				if broken := strings.Contains(tt.vector, "part of the body"); (a.err != nil) != broken {
					t.Errorf("the reply's body ends with %v", a.err)
				}
			})
		})
	}
}

func (c conduct) options(lines string) options {
	o := options{
		ajp: true, members: []string{"a", "b"}, serve: map[string]handler{"a": c.serve, "b": c.serve},
		config: func(c *proxy.Config) { c.MaxResend, c.Compat = -1, true },
	}
	if lines != "" {
		o.lines = fmt.Sprintf(lines, "a") + fmt.Sprintf(lines, "b")
	}
	return o
}

// TestPoolVectors has the vectors [T] of mod_jk.md 2.2 and 2.3, of one member.
func TestPoolVectors(t *testing.T) {
	for _, tt := range []struct {
		vector, line string
		status       int
	}{
		{"2.2 port 0: never used", "port=0", 503},
		{"2.3 no connections: never usable", "connection_pool_size=0", 503},
		{"2.3 no time to wait: one try at least (mod_jk: 503)", "connection_acquire_timeout=0", 200},
		{"2.3 no pause, hence no time to wait: likewise", "retry_interval=0", 200},
	} {
		t.Run(tt.vector, func(t *testing.T) {
			overOne(t, options{lines: "worker.a." + tt.line + "\n"}, func(t *testing.T, w *world) {
				for range 2 {
					if a := w.get("/", ""); a.status != tt.status {
						t.Errorf("status %d, want %d", a.status, tt.status)
					}
				}
			})
		})
	}
}

// TestWorkedSessions has what mod_jk.md 10.2 and 10.3 [T] say of sessions: which members
// get three requests, one after the other. The files are those of package worker.
func TestWorkedSessions(t *testing.T) {
	const (
		portal = "modjk-10.2-portal.properties"
		dc     = "modjk-10.3-dc.properties"
		health = "/portal/health=portal;stateless=1;active=n3;stopped=n1,n2\n/portal|/*=portal\n"
	)
	for _, tt := range []struct {
		vector, file string
		more         string // lines
		path, cookie string
		dead         string // members
		want         string
	}{
		{vector: "10.2 a rule that stops two of three", file: portal, path: "/portal/health", want: "n3-n3-n3"},
		{vector: "10.2 its session's member is stopped", file: portal, path: "/portal/health;psession=abc.app-paris-2", want: "n3-n3-n3"},
		{vector: "10.2 its session's member is stopped and has a redirect", file: portal, path: "/portal/health;psession=abc.app-paris-1", want: "n3-n3-n3"},
		{vector: "10.2 a redirect to the standby", file: portal, path: "/portal/x;psession=abc.app-paris-1", dead: "n1", want: "n3-n3-n3"},
		{vector: "10.2 nobody else gets to the standby", file: portal, path: "/portal/x", dead: "n1", want: "n2-n2-n2"},
		{vector: "10.3 new sessions stay near", file: dc, path: "/", want: "e1-e2-e1"},
		{vector: "10.3 one of the near ones is left", file: dc, path: "/", dead: "e1", want: "e2-e2-e2"},
		{vector: "10.3 none is left", file: dc, path: "/", dead: "e1 e2", want: "w1-w2-w1"},
		{vector: "10.3 id.e1", file: dc, path: "/", cookie: "id.e1", want: "e1-e1-e1"},
		{vector: "10.3 id.e1, its domain", file: dc, path: "/", cookie: "id.e1", dead: "e1", want: "e2-e2-e2"},
		{vector: "10.3 id.e1, its domain is gone", file: dc, path: "/", cookie: "id.e1", dead: "e1 e2", want: "w1-w2-w1"},
		{vector: "10.3 id.west.w2 in spite of the distance", file: dc, path: "/", cookie: "id.west.w2", want: "w2-w2-w2"},
		{vector: "10.3 id.east, a domain only", file: dc, path: "/", cookie: "id.east", want: "e1-e1-e1"},
		{vector: "10.3 id.east.zzz, a domain only", file: dc, path: "/", cookie: "id.east.zzz", dead: "e1", want: "e2-e2-e2"},
		{vector: "10.3 id.nope, by value", file: dc, path: "/", cookie: "id.nope", want: "e1-e2-e1"},
		{vector: "10.3 id.nope, forced", file: dc, more: "worker.dc.sticky_session_force=1\n", path: "/", cookie: "id.nope", want: "503-503-503"},
	} {
		t.Run(tt.vector, func(t *testing.T) {
			text, err := os.ReadFile("worker/testdata/" + tt.file)
			if err != nil {
				t.Fatal(err)
			}
			at := map[string]string{"127.0.0.1:18001": "10.0.1.1:8080", "127.0.0.1:18002": "10.0.1.2:8080", "127.0.0.1:18003": "10.0.1.3:8080", "127.0.0.1:18004": "10.0.1.4:8080"}
			o := options{ajp: true, members: []string{"e1", "e2", "w1", "w2"}, rules: "/*=dc\n!/favicon.ico=dc\n"}
			if tt.file == portal {
				at = map[string]string{"127.0.0.1:8009": "10.0.1.1:8080", "127.0.0.2:8009": "10.0.1.2:8080", "127.0.0.3:8009": "10.0.1.3:8080"}
				o.members, o.rules = []string{"n1", "n2", "n3"}, health
			}
			o.config = func(c *proxy.Config) {
				dial := c.Dial
				c.Workers = parseWorkers(t, string(text)+"\n"+tt.more)
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					return dial(ctx, network, at[address])
				}
			}
			o.without = strings.Fields(tt.dead)
			one(t, o, func(t *testing.T, w *world) {
				var got []string
				for range 3 {
					a := w.get(tt.path, tt.cookie)
					if a.status != 200 {
						a.member = strconv.Itoa(a.status)
					}
					got = append(got, a.member)
				}
				if s := strings.Join(got, "-"); s != tt.want {
					t.Errorf("served by %s, want %s", s, tt.want)
				}
			})
		})
	}
}

// TestRouteToldInDomain: mod_jk.md 3.6 [T], a member that serves a session of its domain
// is told its own route; mod_jk's is garbage then. And 3.8: so is one after a failover.
func TestRouteToldInDomain(t *testing.T) {
	o := options{ajp: true, members: []string{"a", "b"}, without: []string{"a"}, lines: "worker.a.domain=east\nworker.b.domain=east\n"}
	one(t, o, func(t *testing.T, w *world) {
		for _, session := range []string{"s.a", "s.a", "s.east", "s.east.gone"} {
			a := w.get("/", session)
			b := w.members["b"]
			b.mu.Lock()
			told := b.forwarded[len(b.forwarded)-1].attributes["route"]
			b.mu.Unlock()
			if a.member != "b" || told != "b" {
				t.Errorf("%s: served by %q, which is told the route %q", session, a.member, told)
			}
		}
	})
}
