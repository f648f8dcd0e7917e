// Command member is what stands behind the proxies of the benchmark: it answers
// GET /N with N bytes and does as little else as it can, so that the machine's
// time is the proxy's. It speaks HTTP/1.1 and AJP13.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

func main() {
	plain := flag.String("http", "", "address for HTTP")
	ajp := flag.String("ajp", "", "address for AJP13")
	flag.Parse()
	failed := make(chan error)
	go func() { failed <- listen(*plain, http) }()
	go func() { failed <- listen(*ajp, packets) }()
	fmt.Fprintln(os.Stderr, <-failed)
	os.Exit(1)
}

func listen(addr string, serve func(net.Conn) error) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			_ = serve(c) // the proxy has ended it, or sees that we did
			c.Close()    //nolint:errcheck // likewise
		}()
	}
}

// size reads the number in the path /N. It is zero for *, which is how a proxy
// asks whether somebody is there.
func size(path []byte) (int, error) {
	if string(path) == "*" {
		return 0, nil
	}
	return strconv.Atoi(string(bytes.TrimPrefix(path, []byte("/"))))
}

// http answers requests without a body, one after the other.
func http(c net.Conn) error {
	in := bufio.NewReaderSize(c, 8<<10)
	replies := map[int][]byte{}
	for {
		first, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		f := bytes.Fields(first)
		if len(f) != 3 {
			return fmt.Errorf("request line %q", first)
		}
		n, err := size(f[1])
		if err != nil {
			return err
		}
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) <= 2 {
				break
			}
		}
		if replies[n] == nil {
			head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", n)
			replies[n] = append([]byte(head), make([]byte, n)...)
		}
		if _, err := c.Write(replies[n]); err != nil {
			return err
		}
	}
}

// Packets of AJP13, as far as a request without a body needs them.
const (
	forwardRequest = 2
	cping          = 10
	cpong          = 9
	sendHeaders    = 4
	sendBody       = 3
	endResponse    = 5
	maxBody        = 8184 // of one packet of 8 KiB
)

// packets answers AJP13 requests, one after the other.
func packets(c net.Conn) error {
	in := bufio.NewReaderSize(c, 16<<10)
	buf := make([]byte, 64<<10)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		p := buf[:binary.BigEndian.Uint16(head[2:])]
		if _, err := io.ReadFull(in, p); err != nil {
			return err
		}
		switch {
		case len(p) > 0 && p[0] == cping:
			if _, err := c.Write([]byte{'A', 'B', 0, 1, cpong}); err != nil {
				return err
			}
		case len(p) > 2 && p[0] == forwardRequest:
			// code, method, protocol, then the path: both are strings with a length.
			rest := p[2:]
			rest = rest[2+int(binary.BigEndian.Uint16(rest))+1:]
			n, err := size(rest[2 : 2+binary.BigEndian.Uint16(rest)])
			if err != nil {
				return err
			}
			if _, err := c.Write(reply(n)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("packet % x", p[:min(len(p), 8)])
		}
	}
}

// reply is the packets of a reply with n bytes.
func reply(n int) []byte {
	text := func(b []byte, s string) []byte {
		return append(append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...), 0)
	}
	packet := func(b, p []byte) []byte {
		return append(binary.BigEndian.AppendUint16(append(b, 'A', 'B'), uint16(len(p))), p...)
	}
	h := binary.BigEndian.AppendUint16([]byte{sendHeaders}, 200)
	h = binary.BigEndian.AppendUint16(text(h, "OK"), 2)
	h = text(binary.BigEndian.AppendUint16(h, 0xA001), "text/plain")
	h = text(binary.BigEndian.AppendUint16(h, 0xA003), strconv.Itoa(n))
	b := packet(nil, h)
	for n > 0 {
		k := min(n, maxBody)
		chunk := append(binary.BigEndian.AppendUint16([]byte{sendBody}, uint16(k)), make([]byte, k+1)...)
		b, n = packet(b, chunk), n-k
	}
	return packet(b, []byte{endResponse, 1})
}
