package http1_test

import (
	"fmt"
	"log"
	"net"
	"strings"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// A request is read, and passed on without the lines that concern one
// connection only.
func Example() {
	client, server := net.Pipe()
	go func() {
		_, _ = fmt.Fprint(client, "GET /cart?item=17 HTTP/1.1\r\nHost: shop.test\r\n"+
			"Connection: X-Hop\r\nX-Hop: 1\r\nAccept: text/html\r\n\r\n")
	}()

	bufs := http1.NewBuffers(http1.BuffersConfig{})
	c := http1.NewConn(server, http1.ConnConfig{Buffers: bufs})
	defer func() { _ = c.Close() }()

	var req http1.Request
	if err := c.ReadRequest(&req); err != nil {
		log.Fatal(err)
	}
	for i := range req.Lines {
		l := &req.Lines[i]
		l.Drop = l.Name.HopByHop() || l.Nominated
	}
	var out http1.Out
	out.Init(bufs)
	out.RequestLine(&req)
	out.Lines(&req.Head)
	out.FieldString("Via", "1.1 understudy")
	out.FrameRequest(&req.Body)
	out.EndHead()
	fmt.Println(strings.ReplaceAll(string(out.Bytes()), "\r\n", "\n"))
	out.Free()
	c.Release()
	// Output:
	// GET /cart?item=17 HTTP/1.1
	// Host: shop.test
	// Accept: text/html
	// Via: 1.1 understudy
}
