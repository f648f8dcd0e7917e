package oracle

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// An observed is what one front made of one step.
type observed struct {
	reply    *reply
	attempts []*attempt
}

// order is who got the request, one after the other.
func (o *observed) order() []string {
	var names []string
	for _, a := range o.attempts {
		names = append(names, a.member)
	}
	return names
}

func (o *observed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", o.reply)
	for _, a := range o.attempts {
		fmt.Fprintf(&b, "\n        at %.1200v", a)
	}
	return b.String()
}

// play sends the requests of a scenario to one front.
func play(t *testing.T, s *scenario, c *cast, f *front) []*observed {
	t.Helper()
	var all []*observed
	for i := range s.steps {
		c.begin(t, s.steps[i].acts)
		r, err := f.ask(&s.steps[i].request)
		attempts := c.end()
		if err != nil {
			t.Errorf("seed %d, step %d: %s: %v\n    %v", s.seed, i, f.Name, err, s.steps[i])
			return all
		}
		all = append(all, &observed{reply: r, attempts: attempts})
	}
	return all
}

// An exchange is one step as both fronts did it.
type exchange struct {
	*scenario
	step
	index    int  // of the step
	tooLong  bool // an earlier request was answered 413
	jk, ours *observed
}

// has reports whether the request has a header of this name.
func (x *exchange) has(name string) bool {
	return slices.ContainsFunc(x.request.fields, func(f field) bool { return f.name == name })
}

// A difference is in one thing that is compared.
type difference struct{ class, jk, ours string }

func (d difference) String() string {
	return fmt.Sprintf("%s: mod_jk %.300q, we %.300q", d.class, d.jk, d.ours)
}

// compare lists all differences of a step, those in what happened first.
func (x *exchange) compare() []difference {
	var ds []difference
	add := func(class, jk, ours string) {
		if jk != ours {
			ds = append(ds, difference{class, jk, ours})
		}
	}
	jk, ours := x.jk.reply, x.ours.reply
	add("attempts", strings.Join(x.jk.order(), " "), strings.Join(x.ours.order(), " "))
	add("served by", jk.by(), ours.by())
	add("status", fmt.Sprint(jk.status), fmt.Sprint(ours.status))
	add("broken reply", fmt.Sprint(jk.broken), fmt.Sprint(ours.broken))
	if jk.by() != "" && jk.by() == ours.by() && jk.status == ours.status {
		compareHeader(jk.header, ours.header, add)
		if jk.broken == ours.broken {
			add("reply body", outline(jk.body), outline(ours.body))
		}
	}
	for _, name := range x.members {
		a, b := first(x.jk.attempts, name), first(x.ours.attempts, name)
		if a != nil && b != nil {
			x.compareAttempts(a, b, add)
		}
	}
	return ds
}

// account says of each difference what excuses it.
func (x *exchange) account() string {
	var b strings.Builder
	for _, d := range x.compare() {
		why := "NOT EXCUSED"
		if v := excuse(x, d); v != nil {
			why = v.name
		}
		fmt.Fprintf(&b, "\n    %v: %s", d, why)
	}
	return b.String()
}

// compareMapping lists the differences in where a request went, and as what.
func (x *exchange) compareMapping() []difference {
	var ds []difference
	for _, d := range x.compare() {
		if slices.Contains(outcome, d.class) || d.class == "request uri" {
			ds = append(ds, d)
		}
	}
	return ds
}

func first(attempts []*attempt, name string) *attempt {
	for _, a := range attempts {
		if a.member == name {
			return a
		}
	}
	return nil
}

// compareAttempts compares what one member got, byte for byte but for ports.
func (x *exchange) compareAttempts(jk, ours *attempt, add func(class, jk, ours string)) {
	add("request method", jk.method, ours.method)
	add("request uri", jk.uri, ours.uri)
	add("request protocol", jk.protocol, ours.protocol)
	add("request remote_addr", jk.remote, ours.remote)
	add("request remote_host", jk.host, ours.host)
	add("request server_name", jk.server, ours.server)
	add("request server_port", fmt.Sprint(jk.port), fmt.Sprint(ours.port))
	add("request is_ssl", fmt.Sprint(jk.tls), fmt.Sprint(ours.tls))
	compareFields("request header ", jk.fields, ours.fields, add)
	compareFields("request attribute ", ported(jk.attrs, x.jk.reply.port), ported(ours.attrs, x.ours.reply.port), add)
	add("request body", outline(jk.body), outline(ours.body))
	add("request body packets", fmt.Sprint(jk.packets), fmt.Sprint(ours.packets))
	add("request oddities", strings.Join(jk.oddities, ", "), strings.Join(ours.oddities, ", "))
	if ours.fresh && !jk.fresh {
		add("request on a new connection", "false", "true")
	}
	if jk.fresh == ours.fresh {
		age := map[bool]string{true: " (new)", false: " (kept)"}[jk.fresh]
		add("request after CPING", fmt.Sprint(jk.pinged)+age, fmt.Sprint(ours.pinged)+age)
	}
}

// ported are attributes with the client's port by that name: it is another one
// each time.
func ported(attrs []field, port string) []field {
	attrs = slices.Clone(attrs)
	for i := range attrs {
		if attrs[i] == (field{"AJP_REMOTE_PORT", port}) {
			attrs[i].value = "(the client's)"
		}
	}
	return attrs
}

// compareFields compares values by name, and then the order of all.
func compareFields(class string, jk, ours []field, add func(class, jk, ours string)) {
	a, b := byName(jk), byName(ours)
	var names [2][]string
	for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
		add(class+name, strings.Join(a[name], " | "), strings.Join(b[name], " | "))
	}
	for i, fields := range [][]field{jk, ours} {
		for _, f := range fields {
			name := strings.ToLower(f.name)
			if len(a[name]) == len(b[name]) {
				names[i] = append(names[i], f.name) // with its case
			}
		}
	}
	add(class+"order", strings.Join(names[0], " "), strings.Join(names[1], " "))
}

func byName(fields []field) map[string][]string {
	m := map[string][]string{}
	for _, f := range fields {
		name := strings.ToLower(f.name)
		m[name] = append(m[name], f.value)
	}
	return m
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// framing are fields of a reply that each front has of its own; how the body is
// framed is not the member's.
var framing = []string{"Date", "Server", "Connection", "Keep-Alive", "Transfer-Encoding"}

func compareHeader(jk, ours http.Header, add func(class, jk, ours string)) {
	for _, name := range slices.Sorted(maps.Keys(union(jk, ours))) {
		if !slices.Contains(framing, name) {
			add("reply header "+name, strings.Join(jk[name], " | "), strings.Join(ours[name], " | "))
		}
	}
}

// outline is a body in short.
func outline(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%d bytes %q…%q %x", len(b), b[:20], b[len(b)-20:], sum(b))
	}
	return string(b)
}

// sum tells bodies apart.
func sum(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}
