package accesslog_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/understudy-lb/understudy/proxy/accesslog"
)

// entry is a request with everything.
func entry() accesslog.Entry {
	return accesslog.Entry{
		Time:   time.Date(2026, 11, 30, 9, 0, 0, 123456789, time.FixedZone("", 3600)),
		ID:     []byte("5f0c1e6d2b7a49388d1f00c2a4b6e801"),
		Client: []byte("10.0.2.1"),
		Method: []byte("POST"), Host: []byte("shop.test"), Path: []byte("/cart;jsessionid=SECRET.b/tea;v=1"),
		Query: []byte("?n=1&jsessionid=SECRET.b&x=2"), Protocol: "HTTP/1.1",
		Referer: []byte("https://me:SECRET@shop.test/list;jsessionid=SECRET.b?page=2"), UserAgent: []byte(`curl "8"`),
		Status: 200, Bytes: 2326, Body: 17, LB: "lb", Route: []byte("b"), Member: "c", Attempts: 2, Resends: 1,
		Failure: "dropped", Err: errors.New(`endpoint: "b": EOF`), Sessions: []string{"jsessionid"},
		Phases: accesslog.Phases{
			Total: 25*time.Millisecond + 1500*time.Nanosecond, Read: 40 * time.Microsecond, Wait: 5 * time.Millisecond,
			Connect: 300 * time.Microsecond, Send: 20 * time.Microsecond, First: 15 * time.Millisecond,
		},
	}
}

// stranger is one that could not be read.
func stranger() accesslog.Entry {
	return accesslog.Entry{
		Time: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), ID: []byte("00"), Client: []byte("2001:db8::1"),
		Status: 400, Failure: "client-error", Err: errors.New("http1: no version"),
		Phases: accesslog.Phases{Total: time.Millisecond, Read: time.Millisecond},
	}
}

func TestLines(t *testing.T) {
	tests := []struct {
		name   string
		format accesslog.Format
		query  bool
		entry  accesslog.Entry
		want   string
	}{{
		name: "clf", format: accesslog.CLF, entry: entry(),
		want: `10.0.2.1 - - [30/Nov/2026:09:00:00 +0100] "POST /cart/tea HTTP/1.1" 200 2326`,
	}, {
		name: "clf with queries", format: accesslog.CLF, query: true, entry: entry(),
		want: `10.0.2.1 - - [30/Nov/2026:09:00:00 +0100] "POST /cart/tea?n=1&jsessionid=-&x=2 HTTP/1.1" 200 2326`,
	}, {
		name: "combined", format: accesslog.Combined, entry: entry(),
		want: `10.0.2.1 - - [30/Nov/2026:09:00:00 +0100] "POST /cart/tea HTTP/1.1" 200 2326 "https://shop.test/list" "curl \"8\""`,
	}, {
		name: "combined with queries", format: accesslog.Combined, query: true, entry: entry(),
		want: `10.0.2.1 - - [30/Nov/2026:09:00:00 +0100] "POST /cart/tea?n=1&jsessionid=-&x=2 HTTP/1.1" 200 2326 "https://shop.test/list?page=2" "curl \"8\""`,
	}, {
		name: "json", format: accesslog.JSON, entry: entry(),
		want: `{"time":"2026-11-30T09:00:00.123+01:00","id":"5f0c1e6d2b7a49388d1f00c2a4b6e801","client":"10.0.2.1",` +
			`"method":"POST","host":"shop.test","path":"/cart/tea","protocol":"HTTP/1.1","status":200,"bytes":2326,"body":17,` +
			`"lb":"lb","route":"b","member":"c","attempts":2,"resends":1,"failure":"dropped","error":"endpoint: \"b\": EOF",` +
			`"ms":25.001,"read_ms":0.040,"wait_ms":5.000,"connect_ms":0.300,"send_ms":0.020,"first_ms":15.000,` +
			`"referer":"https://shop.test/list","user_agent":"curl \"8\""}`,
	}, {
		name: "clf, unreadable", format: accesslog.CLF, entry: stranger(),
		want: `2001:db8::1 - - [30/Nov/2026:09:00:00 +0000] "-" 400 -`,
	}, {
		name: "combined, unreadable", format: accesslog.Combined, entry: stranger(),
		want: `2001:db8::1 - - [30/Nov/2026:09:00:00 +0000] "-" 400 - "-" "-"`,
	}, {
		name: "json, unreadable", format: accesslog.JSON, entry: stranger(),
		want: `{"time":"2026-11-30T09:00:00.000Z","id":"00","client":"2001:db8::1","status":400,"bytes":0,"attempts":0,` +
			`"failure":"client-error","error":"http1: no version","ms":1.000,"read_ms":1.000}`,
	}}
	for _, tt := range tests {
		l := open(t, accesslog.Config{Open: toNowhere, Format: tt.format, Query: tt.query})
		if got := string(l.Append(nil, &tt.entry)); got != tt.want+"\n" {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func toNowhere() (io.WriteCloser, error) { return newDiscard(), nil }

// D1: who can read a log must not get a session with it.
func TestSessionsAreRedacted(t *testing.T) {
	tests := []struct{ path, query, want string }{
		{"/a;jsessionid=SECRET", "", "/a"},
		{"/a;jsessionid=SECRET/b;x=1/c", "", "/a/b/c"},
		{"/;jsessionid=SECRET", "", "/"},
		{"//a;x//b", "", "//a//b"},
		{"/a%3Bjsessionid=SECRET", "", "/a"},
		{"/a%3bjsessionid=SECRET/b", "", "/a/b"},
		{"/a%25253Bjsessionid%253DSECRET", "", "/a"},
		{"/a%3Ab%25", "", "/a%3Ab%25"},
		{"/a", "?jsessionid=SECRET", "/a?jsessionid=-"},
		{"/a", "?b=1&JSESSIONID=SECRET.b!c&d=2", "/a?b=1&JSESSIONID=-&d=2"},
		{"/a", "?%6asessioni%64=SECRET", "/a?%6asessioni%64=-"},
		{"/a", "?next=/b;jsessionid=SECRET?c=1&d=2", "/a?next=/b;jsessionid=-&d=2"},
		{"/a", "?next=%2Fb%3Bjsessionid%3DSECRET%26c&d=2", "/a?next=%2Fb%3Bjsessionid=-&d=2"},
		{"/a", "?next=%252Fb%253Bjsessionid%253DSECRET", "/a?next=%252Fb%253Bjsessionid=-"},
		{"/a", "?jsessionid", "/a?jsessionid"},
		{"/a", "?jsessionid&sid=SECRET&jsessionid=SECRET", "/a?jsessionid&sid=-&jsessionid=-"},
		{"/a", "?sid=SECRET&next=%3Bsid%3DSECRET", "/a?sid=-&next=%3Bsid=-"},
		{"/a", "?inside=1&sideways=2", "/a?inside=1&sideways=2"}, // a short name counts as a word only
		{"/a", "?", "/a?"},
	}
	for _, tt := range tests {
		e := entry()
		e.Path, e.Query, e.Sessions = []byte(tt.path), []byte(tt.query), []string{"jsessionid", "sid"}
		e.Referer = []byte("http://h" + tt.path + tt.query)
		l := open(t, accesslog.Config{Open: toNowhere, Format: accesslog.Combined, Query: true})
		got := string(l.Append(nil, &e))
		if want := `"POST ` + tt.want + ` HTTP/1.1" `; !strings.Contains(got, want) || strings.Contains(got, "SECRET") {
			t.Errorf("%s%s: %s, want %s", tt.path, tt.query, got, want)
		}
		if want := ` "http://h` + tt.want + `" `; !strings.Contains(got, want) {
			t.Errorf("Referer %s%s: %s, want %s", tt.path, tt.query, got, want)
		}
	}
}

func TestLongFieldsAreCut(t *testing.T) {
	e := entry()
	long := strings.Repeat("x", 70000)
	e.Path, e.Query, e.UserAgent, e.Referer = []byte("/"+long), []byte("?"+long), []byte(long), []byte("http://h/"+long)
	e.ID, e.Host, e.Client, e.Err = []byte(long), []byte(long), []byte(long), errors.New(long)
	for _, f := range []accesslog.Format{accesslog.JSON, accesslog.CLF, accesslog.Combined} {
		l := open(t, accesslog.Config{Open: toNowhere, Format: f, Query: true})
		got := string(l.Append(nil, &e))
		if n := len(got); n > 16<<10 || !strings.Contains(got, "xxx...") {
			t.Errorf("format %d: %d bytes", f, n)
		}
		check(t, f, got)
	}
}

// What tools that read access logs look for.
var (
	clf      = regexp.MustCompile(`^(\S+) (\S+) (\S+) \[([\w:/]+\s[+\-]\d{4})\] "(-|[!-~]+ (?:[^"\\]|\\.)* HTTP/\d(?:\.\d)?)" (\d{3}) (\d+|-)$`)
	combined = regexp.MustCompile(strings.TrimSuffix(clf.String(), "$") + ` "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"$`)
)

// check reads a line as a program does, and returns the object if it is JSON.
func check(t *testing.T, f accesslog.Format, line string) (object map[string]any) {
	t.Helper()
	body, ok := strings.CutSuffix(line, "\n")
	if !ok || strings.ContainsFunc(body, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Fatalf("not one line of printable ASCII: %q", line)
	}
	if f == accesslog.JSON {
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			t.Fatalf("%v: %q", err, body)
		}
		return object
	}
	re := clf
	if f == accesslog.Combined {
		re = combined
	}
	fields := re.FindStringSubmatch(body)
	if fields == nil {
		t.Fatalf("no line of this format: %q", body)
	}
	if _, err := time.Parse("02/Jan/2006:15:04:05 -0700", fields[4]); err != nil {
		t.Fatal(err)
	}
	return nil
}

// Nobody writes a second line, ends a field, or moves the cursor of who reads.
func FuzzLine(f *testing.F) {
	f.Add("GET", "/", "?a=b", "h", "http://r/", "agent", "id")
	f.Add("A\"B", "/\x1b[2J\r\n127.0.0.1 - - [", "?\\\"", "\u202e", "\xff\xfe", "\u0085\U0001f600\x7f", "\",\"x\":\"")
	f.Add("GET", "/%3bjsessionid=x%", "?next=%3Bjsessionid%3DX%26", "h", "https://u@v@w?;jsessionid=1", "\\", "")
	var logs []*accesslog.Log // made here, as goroutines of an input would pass for new coverage
	formats := []accesslog.Format{accesslog.JSON, accesslog.CLF, accesslog.Combined}
	for _, format := range formats {
		for _, query := range []bool{true, false} {
			l, err := accesslog.New(accesslog.Config{Open: toNowhere, Format: format, Query: query})
			if err != nil {
				f.Fatal(err)
			}
			f.Cleanup(func() { _ = l.Close(context.Background()) })
			logs = append(logs, l)
		}
	}
	f.Fuzz(func(t *testing.T, method, path, query, host, referer, agent, id string) {
		const secret = "SECRET.b"
		e := entry()
		e.Method, e.Host, e.UserAgent, e.ID = []byte(method), []byte(host), []byte(agent), []byte(id)
		e.Path = []byte(path + ";jsessionid=" + secret)
		e.Query = []byte(query + "&jsessionid=" + secret)
		e.Referer = []byte(referer + ";jsessionid=" + secret + "?sid=" + secret)
		e.Err, e.Sessions = errors.New(agent), []string{"jsessionid", "sid"}
		planted := strings.Contains(method+path+query+host+referer+agent+id, "SECRET")
		for i, l := range logs {
			line := string(l.Append(nil, &e))
			if strings.Contains(line, "SECRET") && !planted {
				t.Errorf("a session in %q", line)
			}
			if method != "" && !isToken(method) {
				continue // the parser lets no such method through
			}
			object := check(t, formats[i/2], line)
			if object == nil {
				continue
			}
			if got, _ := object["user_agent"].(string); len(agent) <= 2048 && got != valid(agent) {
				t.Errorf("user_agent %q became %q", agent, got)
			}
		}
	})
}

// valid is s with each byte that is not UTF-8 replaced, as encoding/json does it.
func valid(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r) // ranging yields utf8.RuneError for each
	}
	return b.String()
}

func isToken(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// stdout is not closed with the log.
type stdout struct{ io.Writer }

func (stdout) Close() error { return nil }

func ExampleLog() {
	l, err := accesslog.New(accesslog.Config{
		Open:   func() (io.WriteCloser, error) { return stdout{os.Stdout}, nil },
		Format: accesslog.CLF,
	})
	if err != nil {
		panic(err)
	}
	line := l.Append(nil, &accesslog.Entry{
		Time: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), Client: []byte("10.0.2.1"),
		Method: []byte("GET"), Path: []byte("/cart;jsessionid=k7Qx.b"), Protocol: "HTTP/1.1", Status: 200, Bytes: 2326,
	})
	l.Put(line)
	if err := l.Reopen(); err != nil { // as on SIGUSR1; here it only has the line written
		panic(err)
	}
	// Output: 10.0.2.1 - - [30/Nov/2026:09:00:00 +0000] "GET /cart HTTP/1.1" 200 2326
}
