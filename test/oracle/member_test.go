package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// Packets of AJP13 (mod_jk.md 7.1).
const (
	toMember  = 0x1234
	toFront   = 0x4142
	typeForw  = 2
	typeChunk = 3
	typeHead  = 4
	typeEnd   = 5
	typeAsk   = 6
	typePong  = 9
	typePing  = 10
)

const (
	smallestPacket = 8192
	largestPacket  = 65536
	settling       = 3 * time.Second // for exchanges that go on when the client has its reply
	patience       = 8 * time.Second // of a member that says nothing, with a front that waits for ever
)

// A kind is what a member does in one step of a scenario.
type kind string

const (
	answers     kind = "answers"
	refused     kind = "refused"                             // nobody listens, and no connection is left
	dropped     kind = "drops connections"                   // closes each as soon as it is there
	stale       kind = "has dropped idle connections"        // new ones work
	mutePing    kind = "does not answer CPING"               //
	hangupPing  kind = "hangs up at CPING"                   //
	wrongPong   kind = "answers CPING by another packet"     //
	hangupHead  kind = "hangs up after the request head"     //
	resetHead   kind = "resets after the request head"       //
	hangupBody  kind = "hangs up after one asked body chunk" // or after the head, if there is no body
	hangupReply kind = "hangs up after SEND_HEADERS"         //
	hangupChunk kind = "hangs up in the middle of a chunk"   //
	hangupEnd   kind = "hangs up before END_RESPONSE"        //
	muteHead    kind = "is silent after the request head"    //
	muteReply   kind = "is silent after SEND_HEADERS"        //
	muteEnd     kind = "is silent before END_RESPONSE"       //
	wrongMagic  kind = "answers with a wrong magic"          //
	tooLong     kind = "answers with a packet too long"      //
	wrongType   kind = "answers with an unknown packet"      //
	twoHeads    kind = "sends SEND_HEADERS twice"            //
	noHead      kind = "sends a chunk before SEND_HEADERS"   //
	lyingChunk  kind = "sends a chunk longer than its packet"
	endsFirst   kind = "sends END_RESPONSE before SEND_HEADERS"
	lateFlush   kind = "flushes after END_RESPONSE" // and so says something before the next request
)

// An act is what one member does with the requests of one step. The zero value
// answers 200.
type act struct {
	kind   kind
	times  int           // how often, then it answers; 0 for each time
	status int           // of answers; 0 for 200
	reason string        // "" for the status as text, as Tomcat sends
	size   int           // of the body
	length bool          // with Content-Length
	close  bool          // END_RESPONSE without reuse
	early  bool          // answers without asking for the rest of the body
	flush  bool          // flushes after the head
	delay  time.Duration // before the head
	fields []field       // more of the head
}

func (a act) String() string {
	s := string(a.kind)
	if a.kind == "" {
		s = string(answers)
	}
	if a.times > 0 {
		s += fmt.Sprintf(" (%d times)", a.times)
	}
	return s + fmt.Sprintf(" %d size=%d length=%t close=%t early=%t flush=%t delay=%v %v",
		a.code(), a.size, a.length, a.close, a.early, a.flush, a.delay, a.fields)
}

func (a act) code() int {
	if a.status == 0 {
		return 200
	}
	return a.status
}

// body is what the member name sends.
func (a act) body(name string) []byte {
	b := make([]byte, 0, a.size+len(name))
	for len(b) < a.size {
		b = append(b, name...)
		b = append(b, byte('0'+len(b)%10))
	}
	return b[:a.size]
}

// A field is a header or an attribute.
type field struct{ name, value string }

func (f field) String() string { return fmt.Sprintf("%s=%.80q", f.name, f.value) }

// An attempt is one request that a member got.
type attempt struct {
	member   string
	fresh    bool // the first on its connection
	pinged   bool // a CPING came before it
	method   string
	protocol string
	uri      string
	remote   string // address
	host     string // remote_host
	server   string
	port     int
	tls      bool
	fields   []field
	attrs    []field
	body     []byte
	packets  []int // data bytes of each body packet that came
	oddities []string
}

func (a *attempt) String() string {
	return fmt.Sprintf("%s: %s %s %s from %s (%s) at %s:%d %v; %v; body %d %v %v",
		a.member, a.method, a.uri, a.protocol, a.remote, a.host, a.server, a.port, a.fields, a.attrs, len(a.body), a.packets, a.oddities)
}

// A cast is the members behind both fronts, one after the other, and what they
// have seen in the present step.
type cast struct {
	members []*member

	mu       sync.Mutex // guards all below, and what members have
	acts     map[string]act
	attempts []*attempt
	busy     int // exchanges that go on
}

// A member is a server that speaks AJP13 by a script.
type member struct {
	name, addr string
	packet     int // size that its worker has
	cast       *cast

	ln    net.Listener
	gone  chan struct{}     // closed when nobody accepts from ln any more: only then its port is free
	conns map[net.Conn]bool // whether an exchange goes on
	wg    sync.WaitGroup
}

// ownHost is an address on loopback that no other test has: nobody must take the
// port of a member while it refuses connections.
var ownHost = fmt.Sprintf("127.%d.%d.1", 1+os.Getpid()/250%250, 1+os.Getpid()%250)

// newCast opens members of these names.
func newCast(t *testing.T, names []string, packets map[string]int) *cast {
	t.Helper()
	c := &cast{acts: map[string]act{}}
	for _, name := range names {
		_, port, _ := net.SplitHostPort(stage.FreeAddr(t))
		m := &member{name: name, addr: net.JoinHostPort(ownHost, port), packet: packets[name], cast: c, conns: map[net.Conn]bool{}}
		c.members = append(c.members, m)
		m.listen(t)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.refuse()
		}
		for _, m := range c.members {
			m.wg.Wait()
		}
	})
	return c
}

// begin sets the scene for one step.
func (c *cast) begin(t *testing.T, acts map[string]act) {
	t.Helper()
	c.mu.Lock()
	c.acts = map[string]act{}
	for name, a := range acts {
		if a.times == 0 {
			a.times = -1
		}
		c.acts[name] = a
	}
	c.attempts = nil
	c.mu.Unlock()
	for _, m := range c.members {
		switch acts[m.name].kind {
		case refused:
			m.refuse()
			continue
		case dropped, stale:
			m.hangUp()
		default:
		}
		m.listen(t)
	}
}

// end waits until no member is at work and returns what they got.
func (c *cast) end() []*attempt {
	for end := time.Now().Add(settling); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		busy := c.busy
		c.mu.Unlock()
		if busy == 0 {
			break
		}
	}
	c.mu.Lock()
	for _, m := range c.members {
		for conn, working := range m.conns {
			if working {
				conn.Close() // whose front has left it open
			}
		}
	}
	c.mu.Unlock()
	for {
		c.mu.Lock()
		if c.busy == 0 {
			defer c.mu.Unlock()
			return c.attempts
		}
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

// reset ends all connections, so that another front begins with none.
func (c *cast) reset() {
	for _, m := range c.members {
		m.hangUp()
	}
}

// take is what m does at an event that these kinds belong to; an act without
// reply is used up by it.
func (m *member) take(kinds ...kind) act {
	m.cast.mu.Lock()
	defer m.cast.mu.Unlock()
	a := m.cast.acts[m.name]
	if a.times == 0 {
		a.kind = answers
		return a
	}
	if !slices.Contains(kinds, a.kind) {
		a.kind = answers
		return a
	}
	if a.times > 0 {
		b := a
		b.times--
		m.cast.acts[m.name] = b
	}
	return a
}

func (m *member) listen(t *testing.T) {
	t.Helper()
	m.cast.mu.Lock()
	defer m.cast.mu.Unlock()
	if m.ln != nil {
		return
	}
	ln, err := net.Listen("tcp", m.addr)
	for end := time.Now().Add(settling); err != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		ln, err = net.Listen("tcp", m.addr) // a process that is about to start has the old one
	}
	if err != nil {
		t.Fatalf("%s at %s: %v", m.name, m.addr, err)
	}
	gone := make(chan struct{})
	m.ln, m.gone = ln, gone
	m.wg.Go(func() {
		defer close(gone)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if m.take(dropped).kind == dropped {
				conn.Close()
				continue
			}
			m.cast.mu.Lock()
			if m.ln != ln {
				m.cast.mu.Unlock()
				conn.Close()
				return
			}
			m.conns[conn] = false
			m.cast.mu.Unlock()
			m.wg.Go(func() { m.serve(conn) })
		}
	})
}

func (m *member) refuse() {
	m.cast.mu.Lock()
	ln, gone := m.ln, m.gone
	m.ln = nil
	m.cast.mu.Unlock()
	if ln != nil {
		ln.Close()
		<-gone
	}
	m.hangUp()
}

// hangUp ends all connections. The front sees that when nobody reads from them any
// more, which is waited for.
func (m *member) hangUp() {
	for end := time.Now().Add(settling); time.Now().Before(end); time.Sleep(time.Millisecond) {
		m.cast.mu.Lock()
		for conn := range m.conns {
			conn.Close()
		}
		left := len(m.conns)
		m.cast.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

// working says whether an exchange goes on over conn.
func (m *member) working(conn net.Conn, is bool) {
	m.cast.mu.Lock()
	defer m.cast.mu.Unlock()
	if was := m.conns[conn]; was != is {
		m.conns[conn] = is
		if is {
			m.cast.busy++
		} else {
			m.cast.busy--
		}
	}
}

var errHangUp = errors.New("hang up")

// serve reads packets of one connection until it ends.
func (m *member) serve(conn net.Conn) {
	defer func() {
		m.working(conn, false)
		conn.Close()
		m.cast.mu.Lock()
		delete(m.conns, conn)
		m.cast.mu.Unlock()
	}()
	fresh, pinged := true, false
	for {
		p, err := readPacket(conn)
		if err != nil || len(p) == 0 {
			return
		}
		m.working(conn, true)
		switch p[0] {
		case typePing:
			pinged = true
			switch m.take(mutePing, hangupPing, wrongPong).kind {
			case mutePing:
				mute(conn)
				return
			case hangupPing:
				return
			case wrongPong:
				write(conn, []byte{typeEnd, 1})
			default:
				write(conn, []byte{typePong})
			}
		case typeForw:
			a := parse(p)
			a.member, a.fresh, a.pinged = m.name, fresh, pinged
			m.cast.mu.Lock()
			m.cast.attempts = append(m.cast.attempts, a)
			m.cast.mu.Unlock()
			fresh, pinged = false, false
			if err := m.perform(conn, a); err != nil {
				return
			}
		default:
			m.cast.mu.Lock()
			m.cast.attempts = append(m.cast.attempts, &attempt{member: m.name, oddities: []string{fmt.Sprintf("packet of type %d", p[0])}})
			m.cast.mu.Unlock()
			return
		}
		m.working(conn, false)
	}
}

// mute says nothing until the front gives up.
func mute(conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(patience))
	io.Copy(io.Discard, conn)
}

// perform answers one request, or does whatever else the script says. An error
// ends the connection.
func (m *member) perform(conn net.Conn, a *attempt) error {
	do := m.take(answers, hangupHead, resetHead, hangupBody, hangupReply, hangupChunk, hangupEnd, muteHead, muteReply,
		muteEnd, wrongMagic, tooLong, wrongType, twoHeads, noHead, lyingChunk, endsFirst, lateFlush)
	switch do.kind {
	case hangupHead:
		return errHangUp
	case resetHead:
		conn.(*net.TCPConn).SetLinger(0)
		return errHangUp
	default:
	}
	if err := m.readBody(conn, a, do); err != nil {
		return err
	}
	time.Sleep(do.delay)
	head := do.head(m.name)
	switch do.kind {
	case hangupBody:
		return errHangUp
	case muteHead:
		mute(conn)
		return errHangUp
	case wrongMagic:
		conn.Write([]byte{0x12, 0x34, 0, 1, typePong})
	case tooLong:
		conn.Write([]byte{0x41, 0x42, 0xff, 0xff, typeHead})
	case wrongType:
		write(conn, []byte{99, 0, 0})
	case noHead:
		write(conn, chunk([]byte("early")))
	case endsFirst:
		write(conn, []byte{typeEnd, 1})
		return nil
	default:
		write(conn, head)
	}
	if do.flush {
		write(conn, chunk(nil))
	}
	switch do.kind {
	case hangupReply:
		return errHangUp
	case muteReply, wrongMagic, tooLong, wrongType, noHead:
		mute(conn)
		return errHangUp
	case twoHeads:
		write(conn, head)
		mute(conn)
		return errHangUp
	case lyingChunk:
		write(conn, []byte{typeChunk, 0x1f, 0, 'x', 0})
		mute(conn)
		return errHangUp
	default:
	}
	body := do.body(m.name)
	if a.method == "HEAD" {
		body = nil
	}
	if do.kind == hangupChunk {
		p := packet(chunk(append(body, "the rest"...)[:min(len(body)+8, m.packet-8)]))
		conn.Write(p[:len(p)/2])
		return errHangUp
	}
	for len(body) > 0 {
		n := min(len(body), m.packet-8)
		write(conn, chunk(body[:n]))
		body = body[n:]
	}
	switch do.kind {
	case hangupEnd:
		return errHangUp
	case muteEnd:
		mute(conn)
		return errHangUp
	default:
	}
	reuse := byte(1)
	if do.close {
		reuse = 0
	}
	write(conn, []byte{typeEnd, reuse})
	if do.kind == lateFlush {
		write(conn, chunk(nil))
	}
	if do.close {
		return errHangUp
	}
	return nil
}

// readBody reads what the front sends unasked, and then asks for the rest.
func (m *member) readBody(conn net.Conn, a *attempt, do act) error {
	length := int64(-1)
	for _, f := range a.fields {
		if strings.EqualFold(f.name, "content-length") {
			length, _ = strconv.ParseInt(f.value, 10, 64)
		}
	}
	ask := make([]byte, 3)
	ask[0] = typeAsk
	binary.BigEndian.PutUint16(ask[1:], uint16(m.packet-6))
	for unasked := length > 0; length < 0 || int64(len(a.body)) < length; unasked = false {
		if !unasked {
			if do.early {
				return nil
			}
			write(conn, ask)
		}
		p, err := readPacket(conn)
		if err != nil {
			m.note(a, "body: "+err.Error())
			return err
		}
		if len(p) < 2 {
			m.note(a, "") // the end
			return nil
		}
		n := int(binary.BigEndian.Uint16(p))
		if n > len(p)-2 {
			m.note(a, "body packet longer than it is")
			return errHangUp
		}
		m.cast.mu.Lock()
		a.packets = append(a.packets, n)
		a.body = append(a.body, p[2:2+n]...)
		m.cast.mu.Unlock()
		if n == 0 || do.kind == hangupBody && !unasked {
			return nil
		}
	}
	return nil
}

// note adds what is odd about a; an empty text is the end of a body that was
// asked for.
func (m *member) note(a *attempt, text string) {
	m.cast.mu.Lock()
	defer m.cast.mu.Unlock()
	if text == "" {
		a.packets = append(a.packets, 0)
		return
	}
	a.oddities = append(a.oddities, text)
}

// replyCodes are the coded names of a reply's header.
var replyCodes = map[string]byte{
	"Content-Type": 1, "Content-Language": 2, "Content-Length": 3, "Date": 4, "Last-Modified": 5, "Location": 6,
	"Set-Cookie": 7, "Set-Cookie2": 8, "Servlet-Engine": 9, "Status": 10, "WWW-Authenticate": 11,
}

// head is the SEND_HEADERS packet.
func (a act) head(name string) []byte {
	fields := append([]field{{"X-Member", name}}, a.fields...)
	if a.size > 0 {
		fields = append(fields, field{"Content-Type", "text/plain;charset=utf-8"})
	}
	if a.length {
		fields = append(fields, field{"Content-Length", strconv.Itoa(a.size)})
	}
	reason := a.reason
	if reason == "" {
		reason = strconv.Itoa(a.code())
	}
	p := binary.BigEndian.AppendUint16([]byte{typeHead}, uint16(a.code()))
	p = text(p, reason)
	p = binary.BigEndian.AppendUint16(p, uint16(len(fields)))
	for _, f := range fields {
		if code, ok := replyCodes[f.name]; ok {
			p = append(p, 0xa0, code)
		} else {
			p = text(p, f.name)
		}
		p = text(p, f.value)
	}
	return p
}

func chunk(data []byte) []byte {
	p := binary.BigEndian.AppendUint16([]byte{typeChunk}, uint16(len(data)))
	return append(append(p, data...), 0)
}

func text(p []byte, s string) []byte {
	p = binary.BigEndian.AppendUint16(p, uint16(len(s)))
	return append(append(p, s...), 0)
}

func packet(payload []byte) []byte {
	p := binary.BigEndian.AppendUint16(nil, toFront)
	p = binary.BigEndian.AppendUint16(p, uint16(len(payload)))
	return append(p, payload...)
}

// write sends one packet; if the front is gone the next read says so.
func write(conn net.Conn, payload []byte) {
	conn.SetWriteDeadline(time.Now().Add(patience))
	conn.Write(packet(payload))
}

func readPacket(conn net.Conn) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	if magic := binary.BigEndian.Uint16(head[:]); magic != toMember {
		return nil, fmt.Errorf("magic %04x", magic)
	}
	p := make([]byte, binary.BigEndian.Uint16(head[2:]))
	_, err := io.ReadFull(conn, p)
	return p, err
}

// methods by their codes, requestCodes the coded names of a request's header
// (mod_jk.md 7.2).
var (
	methods = strings.Fields("OPTIONS GET HEAD POST PUT DELETE TRACE PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK ACL REPORT" +
		" VERSION-CONTROL CHECKIN CHECKOUT UNCHECKOUT SEARCH MKWORKSPACE UPDATE LABEL MERGE BASELINE-CONTROL MKACTIVITY")
	requestCodes = strings.Fields("accept accept-charset accept-encoding accept-language authorization connection content-type" +
		" content-length cookie cookie2 host pragma referer user-agent")
	attributes = map[byte]string{
		3: "remote_user", 4: "auth_type", 5: "query_string", 6: "route", 7: "ssl_cert", 8: "ssl_cipher", 9: "ssl_session",
		12: "secret", 13: "stored_method",
	}
)

// A reader takes a packet apart; it notes what is wrong with it.
type reader struct {
	p   []byte
	bad string
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.p) {
		r.bad, n = "request head ends early", len(r.p)
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) int() int {
	if b := r.bytes(2); len(b) == 2 {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

// text is a string; "(null)" is the null string.
func (r *reader) text() string {
	n := r.int()
	if n == 0xffff {
		return "(null)"
	}
	s := string(r.bytes(n))
	if r.byte() != 0 {
		r.bad = "string without its end"
	}
	return s
}

// parse reads a request head.
func parse(p []byte) *attempt {
	r := &reader{p: p[1:]}
	a := &attempt{}
	code := int(r.byte())
	if code >= 1 && code <= len(methods) {
		a.method = methods[code-1]
	} else {
		a.method = fmt.Sprintf("(%#x)", code)
	}
	a.protocol, a.uri, a.remote, a.host, a.server = r.text(), r.text(), r.text(), r.text(), r.text()
	a.port, a.tls = r.int(), r.byte() != 0
	for n := r.int(); n > 0 && r.bad == ""; n-- {
		var f field
		if len(r.p) > 1 && r.p[0] == 0xa0 {
			if c := r.int() & 0xff; c >= 1 && c <= len(requestCodes) {
				f.name = requestCodes[c-1]
			} else {
				f.name = fmt.Sprintf("(a0%02x)", c)
			}
		} else {
			f.name = r.text()
		}
		f.value = r.text()
		a.fields = append(a.fields, f)
	}
	for r.bad == "" {
		switch c := r.byte(); c {
		case 0xff:
			if len(r.p) > 0 {
				r.bad = "bytes after the end of the request head"
			}
			if r.bad != "" {
				a.oddities = append(a.oddities, r.bad)
			}
			return a
		case 10:
			name := r.text()
			a.attrs = append(a.attrs, field{name, r.text()})
		case 11:
			a.attrs = append(a.attrs, field{"ssl_key_size", strconv.Itoa(r.int())})
		case 13:
			a.method = r.text()
		default:
			name, ok := attributes[c]
			if !ok {
				r.bad = fmt.Sprintf("attribute %#x", c)
				break
			}
			a.attrs = append(a.attrs, field{name, r.text()})
		}
	}
	a.oddities = append(a.oddities, r.bad)
	return a
}
