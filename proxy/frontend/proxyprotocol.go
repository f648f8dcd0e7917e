package frontend

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
)

// This file reads the header of the PROXY protocol, versions 1 and 2, with which
// a balancer in front says whose connection it passes on (haproxy.org,
// proxy-protocol.txt). It reads not one byte more: what follows is read from the
// connection itself, by the kernel's own calls.

// errProxyHeader is the end of a connection that has to begin with a header and
// does not.
var errProxyHeader = errors.New("no PROXY header, or a malformed one")

// Sizes of headers.
const (
	prefixSize = 12   // of the signature of version 2; shorter than any header of version 1
	line1Size  = 107  // longest line of version 1, with its end
	body2Size  = 4096 // what version 2 may add: addresses and extensions, which are not read
)

// signature2 is how version 2 begins.
const signature2 = "\r\n\r\n\x00\r\nQUIT\n"

// readProxyHeader reads the header and returns whose connection it is: the zero
// AddrPort if the balancer speaks for itself (LOCAL) or does not know (UNKNOWN).
func readProxyHeader(r io.Reader) (netip.AddrPort, error) {
	var b [line1Size]byte
	if _, err := io.ReadFull(r, b[:prefixSize]); err != nil {
		return netip.AddrPort{}, err
	}
	if string(b[:prefixSize]) == signature2 {
		return readHeader2(r)
	}
	n := prefixSize
	for ; b[n-1] != '\n'; n++ {
		if n == len(b) {
			return netip.AddrPort{}, errProxyHeader
		}
		if _, err := io.ReadFull(r, b[n:n+1]); err != nil {
			return netip.AddrPort{}, err
		}
	}
	return parseLine1(b[:n])
}

// parseLine1 parses "PROXY TCP4 SOURCE DESTINATION PORT PORT\r\n".
func parseLine1(b []byte) (netip.AddrPort, error) {
	line, ok := bytes.CutSuffix(b, []byte("\r\n"))
	if !ok || bytes.IndexByte(line, '\n') >= 0 {
		return netip.AddrPort{}, errProxyHeader
	}
	f := strings.Split(string(line), " ")
	if f[0] != "PROXY" || len(f) < 2 {
		return netip.AddrPort{}, errProxyHeader
	}
	if f[1] == "UNKNOWN" {
		return netip.AddrPort{}, nil
	}
	if len(f) != 6 || f[1] != "TCP4" && f[1] != "TCP6" {
		return netip.AddrPort{}, errProxyHeader
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		end, err := netip.ParseAddrPort(net.JoinHostPort(f[2+i], f[4+i]))
		if err != nil || end.Addr().Is4() != (f[1] == "TCP4") || end.Addr().Zone() != "" {
			return netip.AddrPort{}, errProxyHeader
		}
		ends[i] = end
	}
	return ends[0], nil
}

// readHeader2 reads what follows the signature of version 2.
func readHeader2(r io.Reader) (netip.AddrPort, error) {
	var b [4 + body2Size]byte
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return netip.AddrPort{}, err
	}
	command, family, size := b[0], b[1], int(binary.BigEndian.Uint16(b[2:]))
	if size > body2Size {
		return netip.AddrPort{}, errProxyHeader
	}
	body := b[4 : 4+size]
	if _, err := io.ReadFull(r, body); err != nil {
		return netip.AddrPort{}, err
	}
	const local, proxy = 0x20, 0x21
	switch {
	case command == local:
		return netip.AddrPort{}, nil
	case command != proxy:
		return netip.AddrPort{}, errProxyHeader
	}
	width := 0
	switch family >> 4 {
	case 1:
		width = 4
	case 2:
		width = 16
	default: // none, or a Unix socket
		return netip.AddrPort{}, nil
	}
	if len(body) < 2*width+4 {
		return netip.AddrPort{}, errProxyHeader
	}
	addr, _ := netip.AddrFromSlice(body[:width])
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(body[2*width:])), nil
}

// proxied reports whether the connection comes from a balancer that says whose it
// is.
func (s *Server) proxied(nc net.Conn) bool {
	if len(s.proxyFrom) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, p := range s.proxyFrom {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
