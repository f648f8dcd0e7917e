package frontend

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

// Whatever comes, the header is bounded, nothing behind it is read, and an address
// is one that stands in it.
func FuzzProxyHeader(f *testing.F) {
	for _, s := range []string{
		"PROXY TCP4 198.51.100.7 10.0.0.1 12345 80\r\nGET", "PROXY UNKNOWN\r\n", "PROXY TCP6 2001:db8::7 ::1 1 2\r\n",
		signature2 + "\x21\x11\x00\x0c\xc6\x33\x64\x07\x0a\x00\x00\x01\x30\x39\x00\x50GET", signature2 + "\x20\x00\x00\x00", signature2 + "\x21\x21\x00\x24",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		addr, err := readProxyHeader(r)
		used := b[:len(b)-r.Len()]
		if len(used) > prefixSize+4+body2Size {
			t.Fatalf("%d bytes read", len(used))
		}
		if err != nil {
			return
		}
		if string(used[:prefixSize]) == signature2 {
			if want := prefixSize + 4 + int(used[14])<<8 + int(used[15]); len(used) != want {
				t.Fatalf("%d bytes read, want %d", len(used), want)
			}
			return
		}
		if !bytes.HasPrefix(used, []byte("PROXY ")) || bytes.Index(used, []byte("\r\n")) != len(used)-2 {
			t.Fatalf("read %q", used)
		}
		if (addr != netip.AddrPort{}) {
			if f := strings.Fields(string(used)); netip.MustParseAddr(f[2]).Unmap() != addr.Addr().Unmap() {
				t.Fatalf("%q is of %v", used, addr)
			}
		}
	})
}
