package accesslog_test

import (
	"testing"

	"github.com/understudy-lb/understudy/proxy/accesslog"
)

func BenchmarkLine(b *testing.B) {
	for name, format := range map[string]accesslog.Format{"json": accesslog.JSON, "combined": accesslog.Combined} {
		b.Run(name, func(b *testing.B) {
			l, err := accesslog.New(accesslog.Config{Open: toNowhere, Format: format})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = l.Close(b.Context()) })
			e := entry()
			var line []byte
			b.ReportAllocs()
			for b.Loop() {
				line = l.Append(line[:0], &e)
				l.Put(line)
			}
		})
	}
}
