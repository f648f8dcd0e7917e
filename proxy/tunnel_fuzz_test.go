package proxy

import (
	"bytes"
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// Whatever a client asks for or a member names: what is passed on is one clean line
// of protocols, each once and asked for, none of which holds HTTP (B34, B35).
func FuzzProtocols(f *testing.F) {
	for _, s := range []string{"websocket", "foo, h2c\nbar", "HTTP/2.0, TLS/1.0", ",,a/1, A/1 ,", "h2", "H2C-14", "http", "a b", "\x80", strings.Repeat("a,b/2,", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, values string) {
		var text strings.Builder
		text.WriteString("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n")
		for v := range strings.SplitSeq(values, "\n") {
			text.WriteString("Upgrade: " + v + "\r\n")
		}
		text.WriteString("\r\n")
		var r http1.Request
		if n, err := r.Parse([]byte(text.String()), http1.Limits{}); err != nil || n != text.Len() {
			return // not a head, or one that ends earlier
		}
		list := protocols(&r.Head)
		if len(list) > maxProtocols {
			t.Fatalf("%d protocols", len(list))
		}
		for i, p := range list {
			name, _, _ := strings.Cut(strings.ToLower(string(p)), "/")
			if name == "" || name == "http" || name == "h2" || name == "tls" || strings.HasPrefix(name, "h2c") ||
				names(list[:i], p) || bytes.ContainsAny(p, ", \t\r\n\"") || !strings.Contains(values, string(p)) {
				t.Errorf("%q of %q", list, values)
			}
		}
		if len(list) == 0 {
			return
		}
		var o http1.Out
		o.Init(http1.NewBuffers(http1.BuffersConfig{}))
		o.RawString("GET / HTTP/1.1\r\nHost: x\r\n")
		writeUpgrade(&o, list)
		o.EndHead()
		var again http1.Request
		if n, err := again.Parse(o.Bytes(), http1.Limits{}); err != nil || n != o.Len() || len(protocols(&again.Head)) != len(list) {
			t.Errorf("%q is written as %q, which is read as %q, %v", list, o.Bytes(), protocols(&again.Head), err)
		}
		o.Free()
	})
}
