package proxy_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The members of tests over AJP13 are those of tests over HTTP: here what they get
// is made HTTP, and what they say is made AJP13.

// ajpNames are the names of a request's headers by code (mod_jk.md 7.2).
var ajpNames = strings.Fields("accept accept-charset accept-encoding accept-language authorization connection content-type content-length cookie cookie2 host pragma referer user-agent")

// ajpMethods are the methods by code (mod_jk.md 7.2).
var ajpMethods = strings.Fields("OPTIONS GET HEAD POST PUT DELETE TRACE PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK ACL REPORT VERSION-CONTROL CHECKIN CHECKOUT UNCHECKOUT SEARCH MKWORKSPACE UPDATE LABEL MERGE BASELINE-CONTROL MKACTIVITY")

// An ajpRequest is a FORWARD_REQUEST taken apart.
type ajpRequest struct {
	method, protocol, uri, addr, host, server string
	port                                      int
	secure                                    bool
	headers                                   [][2]string
	attributes                                map[string]string
}

// cursor reads a packet. It panics where there is nothing more to read, which a test
// does not survive.
type cursor struct{ b []byte }

func (c *cursor) byte() byte { v := c.b[0]; c.b = c.b[1:]; return v }

func (c *cursor) int() int {
	v := binary.BigEndian.Uint16(c.b)
	c.b = c.b[2:]
	return int(v)
}

func (c *cursor) string() string {
	n := c.int()
	if n == 0xFFFF {
		return ""
	}
	s := string(c.b[:n])
	if c.b[n] != 0 {
		panic("a string without its zero")
	}
	c.b = c.b[n+1:]
	return s
}

// parseAJP reads the payload of a FORWARD_REQUEST.
func parseAJP(b []byte) *ajpRequest {
	c := &cursor{b}
	c.byte()
	r := &ajpRequest{attributes: map[string]string{}}
	if code := int(c.byte()); code <= len(ajpMethods) {
		r.method = ajpMethods[code-1]
	}
	r.protocol, r.uri, r.addr, r.host, r.server = c.string(), c.string(), c.string(), c.string(), c.string()
	r.port, r.secure = c.int(), c.byte() == 1
	for range c.int() {
		name := ""
		if c.b[0] == 0xA0 {
			name = ajpNames[c.int()&0xFF-1]
		} else {
			name = c.string()
		}
		r.headers = append(r.headers, [2]string{name, c.string()})
	}
	names := map[byte]string{3: "remote_user", 4: "auth_type", 5: "query_string", 6: "route", 7: "ssl_cert", 8: "ssl_cipher", 9: "ssl_session", 12: "secret", 13: "stored_method"}
	for code := c.byte(); code != 0xFF; code = c.byte() {
		switch code {
		case 0x0A:
			name := c.string()
			r.attributes[name] = c.string()
		case 0x0B:
			r.attributes["ssl_key_size"] = strconv.Itoa(c.int())
		default:
			r.attributes[names[code]] = c.string()
		}
	}
	if len(c.b) > 0 {
		panic("bytes behind the end of a request")
	}
	if r.method == "" {
		r.method = r.attributes["stored_method"]
	}
	return r
}

// readAJP reads one packet of the proxy.
func readAJP(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if head[0] != 0x12 || head[1] != 0x34 {
		return nil, fmt.Errorf("a packet begins with % x", head)
	}
	b := make([]byte, binary.BigEndian.Uint16(head[2:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// ajpPacket is a packet of a member.
func ajpPacket(payload ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0x41, 0x42}, uint16(len(payload))), payload...)
}

func ajpString(b []byte, s string) []byte {
	return append(append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...), 0)
}

// serveAJP is serve over AJP13.
func (m *fake) serveAJP(nc net.Conn) {
	r := bufio.NewReader(nc)
	for {
		b, err := readAJP(r)
		switch {
		case err != nil:
			return
		case len(b) == 1 && b[0] == 10:
			if _, err := nc.Write(ajpPacket(9)); err != nil {
				return
			}
			continue
		}
		forwarded := parseAJP(b)
		m.mu.Lock()
		m.forwarded = append(m.forwarded, forwarded)
		m.mu.Unlock()
		req, body := forwarded.http(nc, r)
		m.note(req)
		reply := &ajpReply{Conn: nc, to: req.Method}
		if !m.handler(m, &memberConn{Conn: reply, r: r}, req) {
			reply.finish()
			return
		}
		if !body.first { // it comes unasked
			if _, err := body.packet(); err != nil {
				return
			}
		}
	}
}

// http makes an HTTP request of r, whose body is asked for over nc as it is read.
func (r *ajpRequest) http(nc net.Conn, from *bufio.Reader) (*http.Request, *ajpBody) {
	var text strings.Builder
	target := r.uri
	if q, ok := r.attributes["query_string"]; ok {
		target += "?" + q
	}
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", r.method, target)
	body := &ajpBody{nc: nc, r: from, left: -1, first: true}
	for _, h := range r.headers {
		if strings.EqualFold(h[0], "content-length") {
			body.left, _ = strconv.ParseInt(h[1], 10, 64)
			body.first = body.left == 0
			continue // the body is not in the text
		}
		fmt.Fprintf(&text, "%s: %s\r\n", h[0], h[1])
	}
	text.WriteString("\r\n")
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text.String())))
	if err != nil {
		panic(fmt.Sprintf("%v: %q", err, text.String()))
	}
	req.Body, req.ContentLength = body, body.left
	if body.left < 0 {
		req.TransferEncoding = []string{"chunked"}
	}
	return req, body
}

// An ajpBody is the body of a request, which is asked for as Tomcat does.
type ajpBody struct {
	nc    net.Conn
	r     *bufio.Reader
	left  int64 // to come; negative if nobody knows
	first bool  // the first packet was read, or there is none that comes unasked
	end   bool
	have  []byte
}

func (b *ajpBody) Close() error { return nil }

func (b *ajpBody) Read(p []byte) (int, error) {
	for len(b.have) == 0 {
		if b.end || b.left == 0 {
			return 0, io.EOF
		}
		if b.first {
			if _, err := b.nc.Write(ajpPacket(6, 0x1F, 0xFA)); err != nil {
				return 0, err
			}
		}
		var err error
		if b.have, err = b.packet(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.have)
	b.have = b.have[n:]
	return n, nil
}

// packet reads one.
func (b *ajpBody) packet() ([]byte, error) {
	p, err := readAJP(b.r)
	switch {
	case err != nil:
		return nil, err
	case len(p) == 0:
		b.end = true
		if b.left > 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, nil
	case len(p) < 3 || int(binary.BigEndian.Uint16(p)) != len(p)-2 || len(p) > 8188:
		return nil, fmt.Errorf("a body packet of %d bytes begins with % x", len(p), p[:min(2, len(p))])
	}
	b.first = true
	if b.left > 0 {
		b.left -= int64(len(p) - 2)
	}
	return p[2:], nil
}

// An ajpReply takes what a member says as HTTP and says it over AJP13, as it comes.
// What is no HTTP is passed on as it is.
type ajpReply struct {
	net.Conn
	to string // the method that it answers

	raw, begun bool
	text       []byte // of the head, or of the framing of chunks
	left       int64  // of the body, or of the chunk; negative: up to the end
	chunked    bool
	close      bool
	over       bool
}

func (a *ajpReply) Write(p []byte) (int, error) {
	a.text = append(a.text, p...)
	for {
		n := len(a.text)
		if err := a.step(); err != nil {
			return 0, err
		}
		if len(a.text) == n {
			return len(p), nil
		}
	}
}

// step passes on one thing.
func (a *ajpReply) step() error {
	switch {
	case len(a.text) == 0:
		return nil
	case a.raw, !a.begun && !strings.HasPrefix("HTTP/1.", string(a.text[:min(7, len(a.text))])):
		a.raw = true
		_, err := a.Conn.Write(a.text)
		a.text = nil
		return err
	case !a.begun:
		return a.head()
	case a.over:
		return a.say(a.take(len(a.text))) // more than there may be
	case a.chunked && a.left == 0:
		return a.chunk()
	}
	n := len(a.text)
	if a.left >= 0 {
		n = int(min(a.left, int64(n)))
		a.left -= int64(n)
	}
	if err := a.say(a.take(n)); err != nil {
		return err
	}
	if a.chunked || a.left != 0 {
		return nil
	}
	return a.end()
}

func (a *ajpReply) take(n int) []byte {
	p := a.text[:n]
	a.text = a.text[n:]
	return p
}

// head passes on SEND_HEADERS.
func (a *ajpReply) head() error {
	i := bytes.Index(a.text, []byte("\r\n\r\n"))
	if i < 0 {
		return nil
	}
	lines := strings.Split(string(a.take(i + 4)[:i]), "\r\n")
	var minor, status int
	var reason string
	if _, err := fmt.Sscanf(lines[0]+" -", "HTTP/1.%d %d %s", &minor, &status, &reason); err != nil {
		return err
	}
	if status < 200 {
		return nil // AJP13 cannot say that
	}
	a.begun, a.left, a.close = true, -1, minor == 0
	b := binary.BigEndian.AppendUint16([]byte{4}, uint16(status))
	b = ajpString(b, reason)
	b = binary.BigEndian.AppendUint16(b, uint16(len(lines)-1))
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ":")
		value = strings.TrimSpace(value)
		switch code := slices.Index(ajpReplyNames, strings.ToLower(name)); {
		case code >= 0:
			b = append(b, 0xA0, byte(code+1))
		default:
			b = ajpString(b, name)
		}
		b = ajpString(b, value)
		switch strings.ToLower(name) {
		case "content-length":
			a.left, _ = strconv.ParseInt(value, 10, 64)
		case "transfer-encoding":
			a.chunked, a.left = true, 0
		case "connection":
			a.close = a.close || strings.EqualFold(value, "close")
		}
	}
	if _, err := a.Conn.Write(ajpPacket(b...)); err != nil {
		return err
	}
	if a.to == http.MethodHead || status == 204 || status == 304 || a.left == 0 && !a.chunked {
		return a.end()
	}
	return nil
}

// ajpReplyNames are the names of a reply's headers by code (mod_jk.md 7.4).
var ajpReplyNames = strings.Fields("content-type content-language content-length date last-modified location set-cookie set-cookie2 servlet-engine status www-authenticate")

// chunk reads the framing between two chunks.
func (a *ajpReply) chunk() error {
	text := bytes.TrimPrefix(a.text, []byte("\r\n"))
	line, rest, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok {
		return nil
	}
	size, _, _ := strings.Cut(string(line), ";")
	n, err := strconv.ParseInt(size, 16, 64)
	if err != nil {
		return a.Close() // it is not worth a word of AJP13
	}
	if n > 0 {
		a.text, a.left = rest, n
		return nil
	}
	if _, rest, ok := bytes.Cut(text, []byte("\r\n\r\n")); ok {
		a.text = rest
		return a.end()
	}
	return nil
}

// say sends a piece of the body.
func (a *ajpReply) say(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), 8184)
		b := binary.BigEndian.AppendUint16([]byte{3}, uint16(n))
		b = append(append(b, p[:n]...), 0)
		if _, err := a.Conn.Write(ajpPacket(b...)); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (a *ajpReply) end() error {
	a.over = true
	reuse := byte(1)
	if a.close {
		reuse = 0
	}
	_, err := a.Conn.Write(ajpPacket(5, reuse))
	a.begun, a.over = false, false
	return err
}

// finish ends a reply that the end of the connection ends.
func (a *ajpReply) finish() {
	if a.begun && !a.chunked && a.left < 0 {
		a.close = true
		_ = a.end() // the proxy may have gone
	}
}

// overAJP is a whole reply of HTTP over AJP13.
func overAJP(reply []byte) []byte {
	var b bytes.Buffer
	a := &ajpReply{Conn: recorder{Buffer: &b}}
	if _, err := a.Write(reply); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A recorder keeps what is written to it.
type recorder struct {
	net.Conn
	*bytes.Buffer
}

func (r recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }
func (r recorder) Read(p []byte) (int, error)  { return r.Buffer.Read(p) }
