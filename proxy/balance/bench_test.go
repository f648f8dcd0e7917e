package balance

import (
	"strconv"
	"testing"
)

func benchmarked(b *testing.B, n int) *Balancer {
	members := make([]Member, n)
	for i := range members {
		members[i].Route = "n" + strconv.Itoa(i)
	}
	return newBalancer(b, members...)
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{2, 8, 64} {
		b.Run("members="+strconv.Itoa(n), func(b *testing.B) {
			lb := benchmarked(b, n)
			b.ReportAllocs()
			for b.Loop() {
				l, err := lb.Pick(Request{})
				if err != nil {
					b.Fatal(err)
				}
				l.Done(OK)
			}
		})
	}
}

func BenchmarkPickSticky(b *testing.B) {
	lb := benchmarked(b, 8)
	req := sticky("n5", "n6")
	b.ReportAllocs()
	for b.Loop() {
		l, err := lb.Pick(req)
		if err != nil {
			b.Fatal(err)
		}
		l.Done(OK)
	}
}

func BenchmarkPickParallel(b *testing.B) {
	lb := benchmarked(b, 8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := lb.Pick(Request{})
			if err != nil {
				b.Error(err)
				return
			}
			l.Done(OK)
		}
	})
}
