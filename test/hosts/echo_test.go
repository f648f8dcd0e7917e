//go:build linux

package hosts

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// quick is how long the test of the bed waits for what must not come.
const quick = 500 * time.Millisecond

// echo connects from one host to another and gets one byte back.
func echo(from, to *host, l lan) error {
	var ln net.Listener
	if err := within(to.ns, func() (err error) {
		ln, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", to.addr(l)+":0")
		return err
	}); err != nil {
		return err
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			io.CopyN(conn, conn, 1)
			conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), quick)
	defer cancel()
	conn, err := from.dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(quick))
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// datagram sends a packet from one host to another on the replication lan.
func datagram(from, to *host) error {
	var in net.PacketConn
	if err := within(to.ns, func() (err error) {
		in, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", to.addr(replication)+":0")
		return err
	}); err != nil {
		return err
	}
	defer in.Close()
	out, err := from.dial(context.Background(), "udp", in.LocalAddr().String())
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.Write([]byte{1}); err != nil {
		return err
	}
	in.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _, err = in.ReadFrom(make([]byte, 1))
	return err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}
