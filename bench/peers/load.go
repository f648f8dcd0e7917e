package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
)

// A load is one way to use a proxy.
type load struct {
	name  string
	bytes int  // of a reply
	conns int  // connections at a time
	close bool // one request per connection
}

func loads() []load {
	return []load{
		{"128 B, 64 kept connections", 128, 64, false},
		{"10 KiB, 64 kept connections", 10 << 10, 64, false},
		{"1 MiB, 16 kept connections", 1 << 20, 16, false},
		{"128 B, one connection per request", 128, 32, true},
	}
}

// A sample is what a stretch of load gave.
type sample struct {
	requests  int
	perSecond float64
	p50, p99  time.Duration
	perCPU    float64 // requests per CPU-second of the proxy
}

// saturate lets wrk ask as fast as it can for d.
func saturate(ctx context.Context, c *contestant, l load, d time.Duration) (s sample, err error) {
	script := filepath.Join(c.Dir, "wrk.lua")
	if err := os.WriteFile(script, []byte(lua(c, l)), 0o600); err != nil {
		return s, err
	}
	before, err := stage.CPU(c.PIDs())
	if err != nil {
		return s, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(l.conns), fmt.Sprintf("-d%.0fs", max(d.Seconds(), 1)),
		"--latency", "-s", script, "http://"+c.addr+"/").CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("wrk: %w: %s", err, out)
	}
	after, err := stage.CPU(c.PIDs())
	if err != nil {
		return s, err
	}
	if err := s.parse(string(out)); err != nil {
		return s, err
	}
	if s.requests == 0 || after == before {
		return s, fmt.Errorf("nothing was answered: %s", out)
	}
	s.perCPU = float64(s.requests) / (after - before).Seconds()
	return s, nil
}

// parse reads wrk's report. Errors are errors: a proxy that refuses is fast.
func (s *sample) parse(out string) error {
	var errs []error
	field := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(out)
		if m == nil {
			errs = append(errs, fmt.Errorf("wrk said nothing like %s", pattern))
			return "0"
		}
		return m[1]
	}
	var err error
	s.requests, err = strconv.Atoi(field(`(\d+) requests in`))
	errs = append(errs, err)
	s.perSecond, err = strconv.ParseFloat(field(`Requests/sec: +([\d.]+)`), 64)
	errs = append(errs, err)
	s.p50, err = time.ParseDuration(field(`50% +([\d.]+[a-z]+)`))
	errs = append(errs, err)
	s.p99, err = time.ParseDuration(field(`99% +([\d.]+[a-z]+)`))
	errs = append(errs, err)
	if m := regexp.MustCompile(`Non-2xx.*|Socket errors: .*`).FindString(out); m != "" && !strings.HasPrefix(m, "Socket errors: connect 0, read 0, write 0") {
		errs = append(errs, errors.New(m))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// lua is a script for wrk that sends one session's cookie after the other.
func lua(c *contestant, l load) string {
	var b strings.Builder
	b.WriteString("local r = {}\nlocal i = 0\nfunction init(args)\n")
	for i, cookie := range c.cookies {
		fmt.Fprintf(&b, "  r[%d] = wrk.format('GET', '/%d', {['Cookie'] = %q%s})\n", i, l.bytes, cookie, map[bool]string{true: ", ['Connection'] = 'close'"}[l.close])
	}
	fmt.Fprintf(&b, "end\nfunction request()\n  i = (i + 1) %% %d\n  return r[i]\nend\n", len(c.cookies))
	return b.String()
}

// A client is one kept connection.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request string
}

func dial(ctx context.Context, c *contestant, i, bytes int) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, in: bufio.NewReaderSize(conn, 512),
		request: fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: bench\r\nCookie: %s\r\n\r\n", bytes, c.cookies[i%len(c.cookies)]),
	}, nil
}

func (k *client) ask() error {
	if err := k.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(k.conn, k.request); err != nil {
		return err
	}
	rep, err := http.ReadResponse(k.in, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rep.Body)
	if err = errors.Join(err, rep.Body.Close()); err == nil && rep.StatusCode != http.StatusOK {
		err = errors.New(rep.Status)
	}
	return err
}

// paced asks rate times a second for d and returns the 99th percentile. What
// could not begin in time counts from when it should have.
func paced(ctx context.Context, c *contestant, l load, d time.Duration, rate float64) (p99 time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	took := make([][]time.Duration, l.conns)
	errs := make([]error, l.conns)
	every := time.Duration(float64(time.Second) * float64(l.conns) / rate)
	start := time.Now()
	var all sync.WaitGroup
	for i := range l.conns {
		all.Go(func() {
			k, err := dial(ctx, c, i, l.bytes)
			if err != nil {
				errs[i] = err
				return
			}
			defer k.conn.Close() //nolint:errcheck // nothing is lost with it
			next := start.Add(every * time.Duration(i) / time.Duration(l.conns))
			for stage.Pause(ctx, time.Until(next)) {
				if errs[i] = k.ask(); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(next))
				next = next.Add(every)
			}
		})
	}
	all.Wait()
	flat := slices.Concat(took...)
	if err := errors.Join(errs...); err != nil || len(flat) == 0 {
		return 0, fmt.Errorf("paced: %d answers: %w", len(flat), err)
	}
	slices.Sort(flat)
	return flat[len(flat)*99/100], nil
}

// idle opens n connections, lets each ask once, and returns how much more memory
// the proxy has per connection then.
func idle(ctx context.Context, c *contestant, n int) (int, error) {
	settle := func() (int, error) {
		if c.admin != "" { // one collection, as design 6 has it
			if err := stage.Answers(ctx, "http://"+c.admin+"/debug/pprof/heap?gc=1"); err != nil {
				return 0, err
			}
		}
		stage.Pause(ctx, time.Second)
		return stage.Resident(c.PIDs())
	}
	before, err := settle()
	if err != nil {
		return 0, err
	}
	var held []*client
	defer func() {
		for _, k := range held {
			k.conn.Close() //nolint:errcheck // nothing is lost with it
		}
	}()
	for i := range n {
		k, err := dial(ctx, c, i, 128)
		if err != nil {
			return 0, err
		}
		held = append(held, k)
		if err := k.ask(); err != nil {
			return 0, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	after, err := settle()
	return (after - before) / n, err
}
