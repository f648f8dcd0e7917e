package http1

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// script is a connection whose peer sends in, at most step bytes a read, then
// closes. What is written to it is in out.
type script struct {
	in, out []byte
	step    int
	end     error // instead of io.EOF
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		if s.end != nil {
			return 0, s.end
		}
		return 0, io.EOF
	}
	n := len(s.in)
	if s.step > 0 {
		n = min(n, s.step)
	}
	n = copy(p, s.in[:n])
	s.in = s.in[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.out = append(s.out, p...)
	return len(p), nil
}

func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return nil }
func (s *script) RemoteAddr() net.Addr             { return nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// newScript returns a Conn that reads in.
func newScript(in string, step int) (*Conn, *script) {
	s := &script{in: []byte(in), step: step}
	return NewConn(s, ConnConfig{Buffers: NewBuffers(BuffersConfig{})}), s
}

// content reads a body to its end.
func content(b *Body) (string, error) {
	var got []byte
	for {
		p, err := b.Next()
		if errors.Is(err, io.EOF) {
			return string(got), nil
		}
		if err != nil {
			return string(got), err
		}
		if len(p) == 0 {
			return string(got), io.ErrNoProgress
		}
		got = append(got, p...)
	}
}

// loopback returns the two ends of a TCP connection, closed with the test.
func loopback(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nc.Close()
		_ = peer.Close()
	})
	return nc.(*net.TCPConn), peer.(*net.TCPConn)
}
