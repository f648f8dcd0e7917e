package http1

import "testing"

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
