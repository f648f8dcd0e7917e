package accesslog

import (
	"fmt"
	"strconv"
	"time"
)

// A Format is how a line looks.
type Format uint8

// The formats.
const (
	JSON     Format = iota // everything, for programs
	CLF                    // the Common Log Format, as of NCSA httpd; Apache's "common"
	Combined               // the same with Referer and User-Agent, as of Apache and nginx
)

// ParseFormat returns the format called s: "json", "clf" or "combined".
func ParseFormat(s string) (Format, error) {
	switch s {
	case "json":
		return JSON, nil
	case "clf":
		return CLF, nil
	case "combined":
		return Combined, nil
	}
	return 0, fmt.Errorf("accesslog: unknown format %q, want json, clf or combined", s)
}

// Timed reports whether lines have the phases of a request, so that it is worth
// measuring them.
func (f Format) Timed() bool { return f == JSON }

// Longest fields, in bytes before escaping. A field that is cut ends in "...".
const (
	maxShort = 256
	maxLong  = 2048
)

// Append appends the line of e to dst, with its line end.
func (l *Log) Append(dst []byte, e *Entry) []byte {
	t := text{b: dst, json: l.format == JSON}
	if l.format == JSON {
		l.appendJSON(&t, e)
	} else {
		l.appendCLF(&t, e)
	}
	return append(t.b, '\n')
}

// appendCLF appends
//
//	10.0.2.1 - - [30/Nov/2026:09:00:00 +0000] "GET /cart HTTP/1.1" 200 2326
//
// and for the combined format the two quoted fields.
func (l *Log) appendCLF(t *text, e *Entry) {
	t.bare(e.Client, maxShort)
	t.b = append(t.b, " - - ["...)
	t.b = e.Time.AppendFormat(t.b, "02/Jan/2006:15:04:05 -0700")
	t.b = append(t.b, `] "`...)
	if len(e.Method) == 0 {
		t.b = append(t.b, '-')
	} else {
		t.put(e.Method, maxShort)
		t.b = append(t.b, ' ')
		t.path(e.Path)
		if l.query {
			t.query(e.Query, e.Sessions)
		}
		t.b = append(t.b, ' ')
		t.b = append(t.b, e.Protocol...)
	}
	t.b = append(t.b, `" `...)
	t.b = strconv.AppendInt(t.b, int64(e.Status), 10)
	t.b = append(t.b, ' ')
	if e.Bytes == 0 {
		t.b = append(t.b, '-')
	} else {
		t.b = strconv.AppendInt(t.b, e.Bytes, 10)
	}
	if l.format == CLF {
		return
	}
	t.b = append(t.b, ` "`...)
	t.referer(e.Referer, e.Sessions, l.query)
	t.b = append(t.b, `" "`...)
	t.orDash(e.UserAgent)
	t.b = append(t.b, '"')
}

// appendJSON appends an object. Names are never changed, only added.
func (l *Log) appendJSON(t *text, e *Entry) {
	t.b = append(t.b, `{"time":"`...)
	t.b = e.Time.AppendFormat(t.b, "2006-01-02T15:04:05.000Z07:00")
	t.b = append(t.b, '"')
	t.bytes("id", e.ID)
	t.bytes("client", e.Client)
	t.bytes("method", e.Method)
	t.bytes("host", e.Host)
	if len(e.Path) > 0 {
		t.open("path")
		t.path(e.Path)
		t.b = append(t.b, '"')
	}
	if l.query && len(e.Query) > 1 {
		t.open("query")
		t.query(e.Query, e.Sessions)
		t.b = append(t.b, '"')
	}
	if len(e.Method) > 0 {
		t.string("protocol", e.Protocol)
	}
	t.int("status", int64(e.Status))
	t.int("bytes", e.Bytes)
	if e.Body > 0 {
		t.int("body", e.Body)
	}
	t.string("lb", e.LB)
	t.bytes("route", e.Route)
	t.string("member", e.Member)
	t.int("attempts", int64(e.Attempts))
	if e.Resends > 0 {
		t.int("resends", int64(e.Resends))
	}
	t.string("failure", e.Failure)
	if e.Err != nil {
		t.string("error", e.Err.Error())
	}
	t.ms("ms", e.Total)
	t.ms("read_ms", e.Read)
	if e.Attempts > 0 {
		t.ms("wait_ms", e.Wait)
		t.ms("connect_ms", e.Connect)
		t.ms("send_ms", e.Send)
		t.ms("first_ms", e.First)
	}
	if len(e.Referer) > 0 {
		t.open("referer")
		t.referer(e.Referer, e.Sessions, l.query)
		t.b = append(t.b, '"')
	}
	if len(e.UserAgent) > 0 {
		t.open("user_agent")
		t.put(e.UserAgent, maxLong)
		t.b = append(t.b, '"')
	}
	t.b = append(t.b, '}')
}

// open begins a member whose value is a string.
func (t *text) open(name string) {
	t.b = append(t.b, ',', '"')
	t.b = append(t.b, name...)
	t.b = append(t.b, `":"`...)
}

func (t *text) bytes(name string, value []byte) {
	if len(value) > 0 {
		t.open(name)
		t.put(value, maxShort)
		t.b = append(t.b, '"')
	}
}

func (t *text) string(name, value string) {
	if value != "" {
		t.open(name)
		t.puts(value, maxLong)
		t.b = append(t.b, '"')
	}
}

func (t *text) int(name string, value int64) {
	t.number(name)
	t.b = strconv.AppendInt(t.b, value, 10)
}

// ms appends d in milliseconds, to the microsecond.
func (t *text) ms(name string, d time.Duration) {
	us := max(d.Microseconds(), 0)
	t.number(name)
	t.b = strconv.AppendInt(t.b, us/1000, 10)
	us %= 1000
	t.b = append(t.b, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}

func (t *text) number(name string) {
	t.b = append(t.b, ',', '"')
	t.b = append(t.b, name...)
	t.b = append(t.b, `":`...)
}
