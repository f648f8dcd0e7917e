package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/accesslog"
	"github.com/understudy-lb/understudy/proxy/frontend"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
	"github.com/understudy-lb/understudy/test/pipenet"
)

// clients are the two ways into the pipeline. Every test of what it does runs
// over both.
var clients = []struct {
	name  string
	http2 bool
}{{"http1", false}, {"http2", true}}

// every is both, and once more with members that speak AJP13.
func every(t *testing.T, o options, f func(t *testing.T, w *world)) {
	t.Helper()
	both(t, o, f)
	if o.http {
		return
	}
	o.ajp = true
	t.Run("ajp", func(t *testing.T) { bubble(t, false, o, f) })
}

// both runs f in a bubble with a world of its own, once for each way in.
func both(t *testing.T, o options, f func(t *testing.T, w *world)) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { bubble(t, c.http2, o, f) })
	}
}

// one is both for what only HTTP/1 can show.
func one(t *testing.T, o options, f func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, false, o, f)
}

func bubble(t *testing.T, http2 bool, o options, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http2, o)
		defer w.close()
		f(t, w)
	})
}

// options are what a test wants different.
type options struct {
	members []string // "a", "b", "c" if nil
	lines   string   // further lines of workers.properties
	rules   string   // uriworkermap.properties; none if empty
	hosts   []string // that have rules of their own there
	query   bool     // the access log has queries
	config  func(*proxy.Config)
	serve   map[string]handler // by member; see [counter]
	without []string           // members that nobody has started
	front   frontend.Config
	ajp     bool // the members speak AJP13
	http    bool // they have to speak HTTP
}

// A handler is how a fake member answers one request on the wire. It returns
// false to end the connection.
type handler func(m *fake, c *memberConn, r *http.Request) bool

// A world is a proxy, fake members and a client on a network in memory.
type world struct {
	t       *testing.T
	ajp     bool // options.ajp
	net     *pipenet.Net
	members map[string]*fake
	proxy   *proxy.Proxy
	front   *frontend.Server
	client  *http.Client
	host    *pipenet.Host // the client's
	served  chan error
	log     *lines
	access  *lines // written by accessLog

	accessLog *accesslog.Log
	file      *worker.File
}

const proxyAddr = "10.0.0.1:80"

func newWorld(t *testing.T, http2 bool, o options) *world {
	t.Helper()
	w := &world{ajp: o.ajp, t: t, net: pipenet.New(), members: map[string]*fake{}, log: new(lines), access: new(lines), served: make(chan error, 1)}
	if o.members == nil {
		o.members = []string{"a", "b", "c"}
	}
	var text strings.Builder
	for i, name := range o.members {
		ip := fmt.Sprintf("10.0.1.%d", i+1)
		typ := worker.TypeHTTP
		if o.ajp {
			typ = worker.TypeAJP13
		}
		fmt.Fprintf(&text, "worker.%[1]s.type=%[2]s\nworker.%[1]s.host=%[3]s\nworker.%[1]s.port=8080\n", name, typ, ip)
		h := o.serve[name]
		if h == nil {
			h = counter
		}
		w.members[name] = newFake(t, w.net, ip, name, h)
		w.members[name].ajp = o.ajp
		w.net.Host(ip) // it is there, so that it refuses while nobody listens
		if !slices.Contains(o.without, name) {
			w.members[name].start()
		}
	}
	fmt.Fprintf(&text, "worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n%s", strings.Join(o.members, ","), o.lines)
	file, err := worker.Parse("workers.properties", strings.NewReader(text.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.file = file
	w.accessLog, err = accesslog.New(accesslog.Config{Open: func() (io.WriteCloser, error) { return w.access, nil }, Query: o.query})
	if err != nil {
		t.Fatal(err)
	}
	host := w.net.Host("10.0.0.1")
	cfg := proxy.Config{
		Workers: file, Dial: host.Dial,
		Log: zerolog.New(w.log), Access: w.accessLog,
	}
	if o.rules != "" {
		cfg.URIMap = parseRules(t, o.rules, o.hosts...)
	}
	if o.config != nil {
		o.config(&cfg)
	}
	if w.proxy, err = proxy.New(cfg); err != nil {
		t.Fatal(err)
	}
	o.front.Proxy = w.proxy
	if w.front, err = frontend.New(o.front); err != nil {
		t.Fatal(err)
	}
	ln, err := host.Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	go func() { w.served <- w.front.Serve(ln) }()

	w.host = w.net.Host("10.0.2.1")
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	w.client = &http.Client{
		Transport: &http.Transport{
			DialContext: w.host.Dial, Protocols: &protocols, DisableCompression: true, MaxIdleConnsPerHost: 64,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

// parseWorkers reads a workers file that must have no errors.
func parseWorkers(tb testing.TB, text string) *worker.File {
	tb.Helper()
	f, err := worker.Parse("workers.properties", strings.NewReader(text), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// parseRules reads rules that must have no errors.
func parseRules(tb testing.TB, text string, hosts ...string) *urimap.Map {
	tb.Helper()
	m, err := urimap.Parse("uriworkermap.properties", strings.NewReader(text), urimap.Config{Hosts: hosts})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func (w *world) close() {
	w.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := w.front.Shutdown(ctx); err != nil {
		w.t.Errorf("Shutdown: %v", err)
	}
	if err := <-w.served; err != nil {
		w.t.Errorf("Serve: %v", err)
	}
	w.proxy.Close()
	if err := w.accessLog.Close(context.Background()); err != nil {
		w.t.Errorf("Close of the access log: %v", err)
	}
	for _, m := range w.members {
		m.stop()
	}
	if n := w.proxy.Wire().Buffers.InUse(); n != 0 {
		w.t.Errorf("%d buffers were not given back", n)
	}
	if w.t.Failed() {
		w.t.Logf("events:\n%s\nrequests:\n%s", w.log, w.access)
	}
}

// lines is a log in memory.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) Close() error { return nil }

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lastAccess returns the access log when all of it is written.
func (w *world) lastAccess() string {
	w.t.Helper()
	synctest.Wait() // a line comes after the reply
	if err := w.accessLog.Reopen(); err != nil {
		w.t.Fatal(err)
	}
	return w.access.String()
}

// An answer is a reply as the client got it.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	member  string // who says that it served, and whom the session is with
	close   bool   // the connection ends with it
	err     error  // of reading the body
}

// do sends a request and reads the reply. A session is "id.route" or a signed
// value, or empty.
func (w *world) do(method, path, session string, body io.Reader) (answer, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+proxyAddr+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if session != "" {
		r.Header.Set("Cookie", "JSESSIONID="+session)
	}
	return w.send(r)
}

func (w *world) send(r *http.Request) (answer, error) {
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{
		status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer,
		body: string(b), member: resp.Header.Get("X-Member"), err: err,
	}, nil
}

// get is do for a GET that must get a reply.
func (w *world) get(path, session string) answer {
	w.t.Helper()
	a, err := w.do(http.MethodGet, path, session, nil)
	if err != nil {
		w.t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

// post is do for a POST that must get a reply.
func (w *world) post(path, session, body string) answer {
	w.t.Helper()
	a, err := w.do(http.MethodPost, path, session, strings.NewReader(body))
	if err != nil {
		w.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

// raw opens a connection to the proxy.
func (w *world) raw() *rawConn {
	w.t.Helper()
	nc, err := w.host.Dial(context.Background(), "tcp", proxyAddr)
	if err != nil {
		w.t.Fatal(err)
	}
	return &rawConn{t: w.t, Conn: nc, r: bufio.NewReader(nc)}
}

// A rawConn is a client that writes what no client should.
type rawConn struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (c *rawConn) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// hear reads a reply to a request with the given method.
func (c *rawConn) hear(method string) (answer, error) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(resp.Body)
	return answer{
		status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer,
		body: string(b), member: resp.Header.Get("X-Member"), close: resp.Close, err: err,
	}, nil
}

// all reads up to the end of the connection.
func (c *rawConn) all() string {
	b, err := io.ReadAll(c.r)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return string(b) + " <" + err.Error() + ">"
	}
	return string(b)
}

// A fake is a member that answers as a test wants, on the wire.
type fake struct {
	t       *testing.T
	net     *pipenet.Net
	ip      string
	name    string
	handler handler
	world   *world // for a handler that needs it; set by its test

	ajp bool // it speaks AJP13

	mu        sync.Mutex    // guards what follows
	forwarded []*ajpRequest // over AJP13
	ln        net.Listener
	seen      []string // method and path of requests, probes left out
	conns     int
	open      map[net.Conn]struct{}
	done      sync.WaitGroup
}

func newFake(t *testing.T, network *pipenet.Net, ip, name string, h handler) *fake {
	return &fake{t: t, net: network, ip: ip, name: name, handler: h, open: map[net.Conn]struct{}{}}
}

// start lets the member listen, on port 8080 unless another address is given.
func (m *fake) start(address ...string) {
	m.t.Helper()
	at := ":8080"
	if len(address) > 0 {
		at = address[0]
	}
	ln, err := m.net.Host(m.ip).Listen("tcp", at)
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.ln = ln
	m.mu.Unlock()
	m.done.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns++
			m.open[nc] = struct{}{}
			m.mu.Unlock()
			m.done.Go(func() { m.serve(nc) })
		}
	})
}

// kill is kill -9.
func (m *fake) kill() { m.net.Host(m.ip).Kill() }

// stop ends everything.
func (m *fake) stop() {
	m.mu.Lock()
	if m.ln != nil {
		_ = m.ln.Close()
	}
	for c := range m.open {
		_ = c.Close()
	}
	m.mu.Unlock()
	m.done.Wait()
}

// A memberConn is a connection as a member sees it.
type memberConn struct {
	net.Conn
	r *bufio.Reader
}

func (m *fake) serve(nc net.Conn) {
	defer func() {
		_ = nc.Close()
		m.mu.Lock()
		delete(m.open, nc)
		m.mu.Unlock()
	}()
	if m.ajp {
		m.serveAJP(nc)
		return
	}
	c := &memberConn{Conn: nc, r: bufio.NewReader(nc)}
	for {
		r, err := http.ReadRequest(c.r)
		if err != nil {
			return
		}
		if r.Method == http.MethodOptions && r.RequestURI == "*" {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		m.note(r)
		if !m.handler(m, c, r) {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
	}
}

// note notes that the member has got r.
func (m *fake) note(r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, r.Method+" "+r.RequestURI)
}

// requests returns what the member has got so far.
func (m *fake) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// dials returns how many connections the member has had.
func (m *fake) dials() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns
}

func (c *memberConn) say(format string, args ...any) {
	fmt.Fprintf(c.Conn, format, args...) //nolint:errcheck // a proxy that has gone needs no answer
}

// reply says 200 with a body.
func (c *memberConn) reply(m *fake, body string) bool {
	c.say("HTTP/1.1 200 OK\r\nX-Member: %s\r\nContent-Length: %d\r\n\r\n%s", m.name, len(body), body)
	return true
}

// counter is the ordinary handler: it reads the body and says what it got.
func counter(m *fake, c *memberConn, r *http.Request) bool {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	return c.reply(m, fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, b))
}

// testCodec signs and verifies cookies in tests.
func testCodec(t *testing.T) *cookie.Codec {
	t.Helper()
	codec, err := cookie.New(cookie.Config{Keys: [][]byte{bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// signed returns a session cookie's value.
func signed(t *testing.T, codec *cookie.Codec, id, primary, secondary string) string {
	t.Helper()
	v, err := codec.Encode(cookie.Value{ID: id, Primary: primary, Secondary: secondary, Epoch: cookie.Epoch{N: 1, Boot: 1, Seq: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
