package proxy_test

import (
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy"
)

// TestExplain: what is explained is what happens, one member after the other.
func TestExplain(t *testing.T) {
	codec := testCodec(t)
	o := options{
		lines:  "worker.c.activation=D\nworker.b.distance=1\n",
		rules:  "/*=lb\n/free/*=lb;sticky_ignore=1;active=c;stopped=a\n!/not/*=lb\n/odd=odd\n",
		config: func(cfg *proxy.Config) { cfg.Codec = codec },
	}
	good := signed(t, codec, "s", "b", "c")
	tests := []struct {
		path, cookie string
		want         string // members as they are asked, and why
		session      string
	}{
		{"/", "", "a value, b value", ""},
		{"/;jsessionid=x.c", "", "c primary, a value, b value", "c"},
		{"/", "JSESSIONID=x.nobody; JSESSIONID=x.b", "b primary, a value", "b"},
		{"/", "JSESSIONID=" + good, "b primary, c secondary, a value", "b c signed"},
		{"/", "JSESSIONID=" + good[:len(good)-2] + "xx", "a value, b value", "forged"},
		{"/free/x", "JSESSIONID=x.b", "c value, b value", ""},
		{"/not/x", "", "", "not mapped, excluded"},
		{"/../x", "", "", "refused"},
		{"/odd", "", "", "the rule's worker does not exist"},
	}
	one(t, o, func(t *testing.T, w *world) {
		for _, tt := range tests {
			c, err := w.proxy.Explain("h", tt.path, tt.cookie)
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			for _, a := range c.Asked {
				asked = append(asked, a.Member+" "+a.Reason)
			}
			if got := strings.Join(asked, ", "); got != tt.want {
				t.Errorf("Explain(%q, %q) asks %s, want %s", tt.path, tt.cookie, got, tt.want)
			}
			got := strings.TrimSpace(c.Primary + " " + c.Secondary)
			switch {
			case c.Err != nil:
				got = c.Err.Error()
			case c.Signed:
				got += " signed"
			case c.Forged > 0:
				got = "forged"
			}
			if !strings.Contains(got, tt.session) || tt.session == "" && got != "" {
				t.Errorf("Explain(%q, %q) has session %q, want %q", tt.path, tt.cookie, got, tt.session)
			}
			if n := len(c.Asked) + len(c.Left); c.Worker != "" && n != 3 {
				t.Errorf("Explain(%q, %q): %d members asked or left, want 3", tt.path, tt.cookie, n)
			}
			if tt.want == "" {
				continue
			}
			if a := w.get(tt.path, strings.TrimPrefix(tt.cookie, "JSESSIONID=")); a.status != 200 || a.member != tt.want[:1] {
				t.Errorf("GET %s with %q goes to %s, and was explained to go to %s", tt.path, tt.cookie, a.member, tt.want)
			}
		}
		for _, m := range w.proxy.Snapshot().Workers[0].Members {
			if m.InFlight != 0 {
				t.Errorf("%s has %d requests in flight", m.Name, m.InFlight)
			}
		}
		if _, err := w.proxy.Explain("h", "no path"); err == nil {
			t.Error("Explain of no URI: no error")
		}
	})
}
