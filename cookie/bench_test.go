package cookie

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gorilla/securecookie"
)

func BenchmarkCodec(b *testing.B) {
	c := newCodec(b, newKey, oldKey)
	var s Scratch
	for _, bb := range []struct {
		name string
		raw  string
	}{
		{"key=first", encode(b, usual, newKey)},
		{"key=second", encode(b, usual, oldKey)},
		{"key=foreign", encode(b, usual, foreignKey)},
	} {
		raw := []byte(bb.raw)
		b.Run("op=verify/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Verify(raw, &s)
			}
		})
		b.Run("op=decode/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Decode(bb.raw)
			}
		})
		codecs := []securecookie.Codec{newSigner(newKey), newSigner(oldKey)}
		b.Run("op=securecookie/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var plain []byte
				_ = securecookie.DecodeMulti(macName, bb.raw, &plain, codecs...)
			}
		})
	}
	b.Run("op=encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = c.Encode(usual)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	f := newFinder(b, newCodec(b, newKey, oldKey))
	signed := encode(b, usual, newKey)
	for _, bb := range []struct {
		name, path, cookie string
	}{
		{"form=signed", "/shop/cart?item=1", "lang=de; JSESSIONID=" + signed},
		{"form=path", "/shop/cart;jsessionid=" + signed, "lang=de"},
		{"form=plain", "/shop/cart?item=1", "lang=de; JSESSIONID=0123456789ABCDEF0123456789ABCDEF.n2"},
		{"form=none", "/shop/cart?item=1", "lang=de; theme=dark"},
		{"hostile=cookies/size=32KiB", "/", strings.Repeat("JSESSIONID=a;", 32<<10/13)},
		{"hostile=cookies/size=64KiB", "/", strings.Repeat("JSESSIONID=a;", 64<<10/13)},
		{"hostile=commas/size=64KiB", "/", strings.Repeat("JSESSIONID=a,", 64<<10/13)},
		{"hostile=semicolons/size=64KiB", "/", strings.Repeat(";", 64<<10)},
		{"hostile=segments/size=64KiB", strings.Repeat("/;jsessionid=a", 64<<10/14), ""},
		{"hostile=forged/size=64KiB", "/", strings.Repeat("JSESSIONID="+encode(b, usual, foreignKey)+";", 64<<10/190)},
	} {
		path, cookies := []byte(bb.path), [][]byte{[]byte(bb.cookie)}
		var s Scratch
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Find(path, cookies, isN2, &s)
			}
		})
	}
}

func isN2(route []byte) bool { return bytes.Equal(route, []byte("n2")) }
