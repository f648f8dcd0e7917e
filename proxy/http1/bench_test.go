package http1

import (
	"io"
	"strconv"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	b.Run("head=request", func(b *testing.B) {
		in := []byte(benchRequest)
		var r Request
		b.ReportAllocs()
		b.SetBytes(int64(len(in)))
		for b.Loop() {
			r.Reset()
			if n, err := r.Parse(in, Limits{}); n != len(in) || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("head=reply", func(b *testing.B) {
		in := []byte(benchReply)
		var r Reply
		b.ReportAllocs()
		b.SetBytes(int64(len(in)))
		for b.Loop() {
			r.Reset()
			if _, err := r.Parse(in, MethodGet, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkExchange(b *testing.B) {
	for _, bb := range []struct{ name, request, reply string }{
		{"framing=length", benchRequest, benchReply},
		{"framing=chunked", benchPost, benchChunks},
	} {
		b.Run(bb.name, func(b *testing.B) {
			x := newExchange(bb.request, bb.reply)
			b.ReportAllocs()
			for b.Loop() {
				x.run(b)
			}
		})
	}
}

// BenchmarkRelay passes long replies from one TCP connection to another. The
// time includes both ends.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{128 << 10, 1 << 20} {
		b.Run("body="+strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			member, memberFar := loopback(b)
			client, clientFar := loopback(b)
			go func() { _, _ = io.Copy(io.Discard, clientFar) }()
			message := append([]byte("HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(size)+"\r\n\r\n"), make([]byte, size)...)
			go func() {
				for {
					if _, err := memberFar.Write(message); err != nil {
						return
					}
				}
			}()
			bufs := NewBuffers(BuffersConfig{})
			m, c := NewConn(member, ConnConfig{Buffers: bufs}), NewConn(client, ConnConfig{Buffers: bufs})
			var r Reply
			var out Out
			out.Init(bufs)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := m.ReadReply(&r, MethodGet); err != nil {
					b.Fatal(err)
				}
				out.StatusLine(r.Status, r.Reason)
				f := out.FrameReply(&r, 1)
				out.EndHead()
				if _, rerr, werr := c.CopyBody(&out, f, &r.Body); rerr != nil || werr != nil {
					b.Fatal(rerr, werr)
				}
				out.Free()
			}
		})
	}
}
