package pipenet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	ipA = "10.0.0.1"
	ipB = "10.0.0.2"
)

// bubble runs f with two hosts; b listens on port 7000.
func bubble(t *testing.T, f func(t *testing.T, n *Net, a, b *Host, ln net.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := n.Host(ipA), n.Host(ipB)
		ln, err := b.Listen("tcp", ":7000")
		if err != nil {
			t.Fatal(err)
		}
		f(t, n, a, b, ln)
	})
}

// connect returns both ends of a connection from a to the listener of b.
func connect(t *testing.T, a *Host, ln net.Listener) (near, far net.Conn) {
	t.Helper()
	near, err := a.Dial(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

func write(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if n, err := io.WriteString(w, s); n != len(s) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", s, n, err)
	}
}

func wantRead(t *testing.T, r io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
}

func wantErr(t *testing.T, call string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", call, err, want)
	}
}

// ok checks the error of a call that cannot fail here.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// after calls f in a goroutine and returns its error, to be received.
func after(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return ch
}

// stillWaits checks that the call has not returned although nothing else runs.
func stillWaits(t *testing.T, call string, ch <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-ch:
		t.Fatalf("%s returned %v, should wait", call, err)
	default:
	}
}

func readByte(c io.Reader) func() error {
	return func() error {
		_, err := c.Read(make([]byte, 1))
		return err
	}
}

func TestStreamCarriesBytesAndAddresses(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		write(t, near, "to b") // nobody reads yet
		write(t, far, "to a")
		wantRead(t, far, "to b")
		wantRead(t, near, "to a")
		if got, want := near.RemoteAddr().String(), ipB+":7000"; got != want {
			t.Errorf("RemoteAddr = %q, want %q", got, want)
		}
		if near.LocalAddr().String() != far.RemoteAddr().String() {
			t.Errorf("LocalAddr %v, seen from afar %v", near.LocalAddr(), far.RemoteAddr())
		}
		if got := near.LocalAddr().(*net.TCPAddr).IP.String(); got != ipA {
			t.Errorf("local IP = %s, want %s", got, ipA)
		}
	})
}

func TestWriterWaitsForRoom(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		big := bytes.Repeat([]byte("x"), 3*maxInFlight)
		done := after(func() error { _, err := near.Write(big); return err })
		stillWaits(t, "Write", done)
		got := make([]byte, len(big))
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, big) {
			t.Fatalf("other bytes arrived, %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestCloseWriteLeavesTheOtherDirection(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		write(t, near, "last")
		if err := near.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(far); string(b) != "last" || err != nil {
			t.Fatalf("ReadAll = %q, %v", b, err)
		}
		_, err := near.Write([]byte("x"))
		wantErr(t, "Write after CloseWrite", err, syscall.EPIPE)
		write(t, far, "answer")
		wantRead(t, near, "answer")
	})
}

func TestClose(t *testing.T) {
	t.Run("the reader gets what was written, then EOF", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
			near, far := connect(t, a, ln)
			write(t, near, "bye")
			ok(t, near.Close())
			if b, err := io.ReadAll(far); string(b) != "bye" || err != nil {
				t.Fatalf("ReadAll = %q, %v", b, err)
			}
			wantErr(t, "second Close", near.Close(), net.ErrClosed)
			wantErr(t, "Read", readByte(near)(), net.ErrClosed)
		})
	})
	t.Run("who writes to a closed end is reset", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
			near, far := connect(t, a, ln)
			ok(t, far.Close())
			write(t, near, "too late") // the kernel cannot know yet
			_, err := near.Write([]byte("x"))
			wantErr(t, "Write", err, syscall.ECONNRESET)
		})
	})
	t.Run("unread bytes make it a reset", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
			near, far := connect(t, a, ln)
			write(t, near, "unread")
			ok(t, far.Close())
			wantErr(t, "Read", readByte(near)(), syscall.ECONNRESET)
		})
	})
	t.Run("it wakes a reader and a writer of this side", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
			near, _ := connect(t, a, ln)
			read := after(readByte(near))
			wrote := after(func() error { _, err := near.Write(make([]byte, 2*maxInFlight)); return err })
			synctest.Wait()
			ok(t, near.Close())
			wantErr(t, "Read", <-read, net.ErrClosed)
			wantErr(t, "Write", <-wrote, net.ErrClosed)
		})
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		start := time.Now()
		ok(t, near.SetReadDeadline(start.Add(time.Second)))
		err := readByte(near)()
		wantErr(t, "Read", err, os.ErrDeadlineExceeded)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%v is no time-out of net", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("Read waited %v, want 1s", d)
		}
		ok(t, near.SetReadDeadline(time.Time{}))
		write(t, far, "x")
		wantRead(t, near, "x")

		ok(t, near.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err := near.Write(make([]byte, 2*maxInFlight))
		wantErr(t, "Write", err, os.ErrDeadlineExceeded)
		if n != maxInFlight {
			t.Errorf("Write took %d bytes, want %d", n, maxInFlight)
		}

		read := after(readByte(far)) // of what was written; then one that waits
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		pending := after(readByte(near))
		stillWaits(t, "Read", pending)
		ok(t, near.SetDeadline(time.Now()))
		wantErr(t, "Read", <-pending, os.ErrDeadlineExceeded)
	})
}

func TestDialIsRefusedWhereNobodyListens(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
		_, err := a.Dial(t.Context(), "tcp", ipB+":7001")
		wantErr(t, "Dial of a port without listener", err, syscall.ECONNREFUSED)
		waiting, err := a.Dial(t.Context(), "tcp", ipB+":7000")
		if err != nil {
			t.Fatal(err)
		}
		ok(t, ln.Close())
		wantErr(t, "Read on a connection that was never accepted", readByte(waiting)(), syscall.ECONNRESET)
		_, err = a.Dial(t.Context(), "tcp", ipB+":7000")
		wantErr(t, "Dial after Close", err, syscall.ECONNREFUSED)
		_, err = ln.Accept()
		wantErr(t, "Accept after Close", err, net.ErrClosed)
	})
}

func TestListenErrors(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, _, b *Host, _ net.Listener) {
		_, err := b.Listen("tcp", ":7000")
		wantErr(t, "second Listen", err, syscall.EADDRINUSE)
		_, err = b.Listen("tcp", ipA+":7001")
		wantErr(t, "Listen on the address of another", err, syscall.EADDRNOTAVAIL)
		first, err := b.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		if first.Addr().String() == second.Addr().String() {
			t.Errorf("port 0 gave %v twice", first.Addr())
		}
	})
}

func TestDialIntoACutLinkWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		cut  func(*Net)
	}{
		{"both ways", func(n *Net) { n.Cut(ipA, ipB) }},
		{"there", func(n *Net) { n.CutOneWay(ipA, ipB) }},
		{"back", func(n *Net) { n.CutOneWay(ipB, ipA) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *Net, a, _ *Host, _ net.Listener) {
				tt.cut(n)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := a.Dial(ctx, "tcp", ipB+":7000")
				wantErr(t, "Dial", err, context.DeadlineExceeded)
				if d := time.Since(start); d != time.Minute {
					t.Errorf("Dial waited %v, want 1m", d)
				}
				dial := after(func() error { _, err := a.Dial(t.Context(), "tcp", ipB+":7000"); return err })
				stillWaits(t, "Dial", dial)
				n.Heal(ipA, ipB)
				if err := <-dial; err != nil {
					t.Errorf("Dial after the heal: %v", err)
				}
			})
		})
	}
}

func TestDialOfAnUnknownHostWaits(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, _ *Host, _ net.Listener) {
		ctx, cancel := context.WithCancel(t.Context())
		dial := after(func() error { _, err := a.Dial(ctx, "tcp", "10.0.0.9:7000"); return err })
		stillWaits(t, "Dial", dial)
		cancel()
		wantErr(t, "Dial", <-dial, context.Canceled)
		_, err := a.Dial(t.Context(), "tcp", "b.example:7000")
		if err == nil {
			t.Error("Dial of a name succeeded")
		}
		n.Host("10.0.0.9") // it is there now, and nobody listens
		_, err = a.Dial(t.Context(), "tcp", "10.0.0.9:7000")
		wantErr(t, "Dial", err, syscall.ECONNREFUSED)
	})
}

func TestCutHoldsStreamsAndLosesPackets(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		pa, err := a.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		pb, err := b.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		n.Cut(ipA, ipB)
		write(t, near, "held")
		if _, err := pa.WriteTo([]byte("lost"), pb.LocalAddr()); err != nil {
			t.Errorf("WriteTo into a cut: %v", err)
		}
		read := after(readByte(far))
		stillWaits(t, "Read", read)
		n.Heal(ipA, ipB)
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		wantRead(t, far, "eld")
		if _, err := pa.WriteTo([]byte("after"), pb.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		k, from, err := pb.ReadFrom(buf)
		if err != nil || string(buf[:k]) != "after" || from.String() != pa.LocalAddr().String() {
			t.Errorf("ReadFrom = %q from %v, %v", buf[:k], from, err)
		}
	})
}

func TestCutOneWay(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, _ *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		n.CutOneWay(ipA, ipB)
		write(t, far, "passes")
		wantRead(t, near, "passes")
		write(t, near, "x")
		stillWaits(t, "Read", after(readByte(far)))
		n.Heal(ipA, ipB)
	})
}

func TestKill(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		pb, err := b.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		pending, own := after(readByte(near)), after(readByte(far))
		accept := after(func() error { _, err := ln.Accept(); return err })
		receive := after(func() error { _, _, err := pb.ReadFrom(nil); return err })
		synctest.Wait()
		b.Kill()
		wantErr(t, "Read of the peer", <-pending, syscall.ECONNRESET)
		wantErr(t, "Read of the killed", <-own, net.ErrClosed)
		wantErr(t, "Accept", <-accept, net.ErrClosed)
		wantErr(t, "ReadFrom", <-receive, net.ErrClosed)
		_, err = a.Dial(t.Context(), "tcp", ipB+":7000")
		wantErr(t, "Dial", err, syscall.ECONNREFUSED)
		_, err = b.Dial(t.Context(), "tcp", ipA+":7000")
		wantErr(t, "Dial by the killed", err, net.ErrClosed)
		_, err = b.Listen("tcp", ":7000")
		wantErr(t, "Listen by the killed", err, net.ErrClosed)

		again := n.Host(ipB)
		if again == b {
			t.Fatal("Host returns the killed process")
		}
		ln, err = again.Listen("tcp", ":7000")
		if err != nil {
			t.Fatalf("Listen after the restart: %v", err)
		}
		near, far = connect(t, a, ln)
		write(t, near, "x")
		wantRead(t, far, "x")
	})
}

func TestKillBehindACutIsNoticedAfterTheHeal(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b *Host, ln net.Listener) {
		near, _ := connect(t, a, ln)
		n.Cut(ipA, ipB)
		b.Kill()
		pending := after(readByte(near))
		stillWaits(t, "Read", pending)
		n.Heal(ipA, ipB)
		wantErr(t, "Read", <-pending, syscall.ECONNRESET)
	})
}

func TestFreeze(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, b *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		pb, err := b.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		pa, err := a.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		write(t, far, "left before")
		b.Freeze()
		wantRead(t, near, "left before")

		write(t, near, "x") // the kernel of b takes it
		ok(t, far.SetReadDeadline(time.Now().Add(time.Second)))
		read := after(readByte(far))
		wrote := after(func() error { _, err := far.Write([]byte("late")); return err })
		accept := after(func() error { _, err := ln.Accept(); return err })
		if _, err := a.Dial(t.Context(), "tcp", ipB+":7000"); err != nil {
			t.Errorf("Dial to a frozen process: %v", err)
		}
		for range maxPackets + 10 {
			if _, err := pa.WriteTo([]byte("p"), pb.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		dial := after(func() error { _, err := b.Dial(t.Context(), "tcp", ipA+":1"); return err })
		time.Sleep(time.Hour)
		stillWaits(t, "Read", read)
		stillWaits(t, "Write", wrote)
		stillWaits(t, "Accept", accept)
		stillWaits(t, "Dial", dial)

		b.Thaw()
		wantErr(t, "Read", <-read, os.ErrDeadlineExceeded)
		if err := errors.Join(<-wrote, <-accept); err != nil {
			t.Error(err)
		}
		wantErr(t, "Dial", <-dial, syscall.ECONNREFUSED)
		wantRead(t, near, "late")
		ok(t, far.SetReadDeadline(time.Time{}))
		wantRead(t, far, "x")
		for range maxPackets {
			if _, _, err := pb.ReadFrom(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		ok(t, pb.SetReadDeadline(time.Now()))
		_, _, err = pb.ReadFrom(make([]byte, 1))
		wantErr(t, "ReadFrom past what the socket holds", err, os.ErrDeadlineExceeded)
	})
}

func TestFrozenCloseHappensAtTheThaw(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, b *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		b.Freeze()
		if err := errors.Join(far.Close(), ln.Close()); err != nil {
			t.Fatal(err)
		}
		pending := after(readByte(near))
		stillWaits(t, "Read", pending)
		b.Thaw()
		wantErr(t, "Read", <-pending, io.EOF)
		_, err := a.Dial(t.Context(), "tcp", ipB+":7000")
		wantErr(t, "Dial", err, syscall.ECONNREFUSED)
	})
}

func TestBacklogIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, _ *Host, ln net.Listener) {
		for range maxBacklog {
			if _, err := a.Dial(t.Context(), "tcp", ipB+":7000"); err != nil {
				t.Fatal(err)
			}
		}
		dial := after(func() error { _, err := a.Dial(t.Context(), "tcp", ipB+":7000"); return err })
		stillWaits(t, "Dial", dial)
		if _, err := ln.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := <-dial; err != nil {
			t.Error(err)
		}
	})
}

func TestLatency(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b *Host, ln net.Listener) {
		n.SetLatency(10 * time.Millisecond)
		start := time.Now()
		near, far := connect(t, a, ln)
		if d := time.Since(start); d != 20*time.Millisecond {
			t.Errorf("Dial took %v, want a round trip of 20ms", d)
		}
		start = time.Now()
		write(t, near, "1")
		write(t, near, "2")
		if d := time.Since(start); d != 0 {
			t.Errorf("Write took %v", d)
		}
		wantRead(t, far, "12")
		if d := time.Since(start); d != 10*time.Millisecond {
			t.Errorf("bytes took %v, want 10ms", d)
		}
		pb, err := b.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		pa, err := a.ListenPacket(":0")
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		if _, err := pa.WriteTo([]byte("p"), pb.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := pb.ReadFrom(make([]byte, 1)); err != nil || time.Since(start) != 10*time.Millisecond {
			t.Errorf("packet took %v, %v; want 10ms", time.Since(start), err)
		}
	})
}

func TestBandwidth(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, _ *Host, ln net.Listener) {
		near, far := connect(t, a, ln)
		other, otherFar := connect(t, a, ln)
		n.SetBandwidth(1000)
		n.SetLatency(time.Millisecond)
		start := time.Now()
		write(t, near, "0123456789")
		write(t, other, "0123456789")
		write(t, far, "back") // the other direction is its own
		wantRead(t, near, "back")
		if d := time.Since(start); d != 5*time.Millisecond {
			t.Errorf("4 bytes back took %v, want 5ms", d)
		}
		wantRead(t, far, "0123456789")
		if d := time.Since(start); d != 11*time.Millisecond {
			t.Errorf("10 bytes took %v, want 11ms", d)
		}
		wantRead(t, otherFar, "0123456789")
		if d := time.Since(start); d != 21*time.Millisecond {
			t.Errorf("10 bytes behind 10 took %v, want 21ms", d)
		}
	})
}

func TestPackets(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Net, a, b *Host, _ net.Listener) {
		pa, err := a.ListenPacket(":0")
		if err != nil {
			t.Fatal(err)
		}
		to := &net.UDPAddr{IP: net.ParseIP(ipB), Port: 7946}
		if _, err := pa.WriteTo([]byte("nobody"), to); err != nil {
			t.Errorf("WriteTo where nobody listens: %v", err)
		}
		pb, err := b.ListenPacket(":7946")
		if err != nil {
			t.Fatal(err)
		}
		_, err = pa.WriteTo(make([]byte, maxPacket+1), to)
		wantErr(t, "WriteTo of too much", err, syscall.EMSGSIZE)
		receive := after(func() error { _, _, err := pb.ReadFrom(make([]byte, 1)); return err })
		stillWaits(t, "ReadFrom", receive)
		ok(t, pb.Close())
		wantErr(t, "ReadFrom", <-receive, net.ErrClosed)
	})
}
