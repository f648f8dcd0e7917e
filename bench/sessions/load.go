package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
)

// A user is one browser: a connection to one node and a session there. It knows
// what its counter must be, so a store that forgets is found out.
type user struct {
	addr   string
	conn   net.Conn
	in     *bufio.Reader
	cookie string
	count  int
}

// hit counts once. bytes and rewrite say what else the session holds.
func (u *user) hit(ctx context.Context, bytes int, rewrite bool) error {
	if u.conn == nil {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", u.addr)
		if err != nil {
			return err
		}
		u.conn, u.in = c, bufio.NewReader(c)
	}
	path := "/hit?bytes=" + strconv.Itoa(bytes)
	if rewrite {
		path += "&rewrite=1"
	}
	req := "POST " + path + " HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n"
	if u.cookie != "" {
		req += "Cookie: " + u.cookie + "\r\n"
	}
	if err := u.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(u.conn, req+"\r\n"); err != nil {
		return err
	}
	rep, err := http.ReadResponse(u.in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(rep.Body)
	if err = errors.Join(err, rep.Body.Close()); err != nil {
		return err
	}
	if rep.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", rep.Status, bytesOf(body))
	}
	for _, c := range rep.Header.Values("Set-Cookie") {
		u.cookie, _, _ = strings.Cut(c, ";")
	}
	n, err := strconv.Atoi(string(bytesOf(body)))
	if u.count++; err != nil || n != u.count {
		return fmt.Errorf("counter %q, want %d", bytesOf(body), u.count)
	}
	return nil
}

func bytesOf(body []byte) []byte { return bytes.TrimSpace(body) }

func (u *user) close() {
	if u.conn != nil {
		u.conn.Close() //nolint:errcheck // nothing is lost with it
		u.conn = nil
	}
}

// newUsers returns n users, spread over the nodes.
func newUsers(n int, addrs []string) []*user {
	users := make([]*user, n)
	for i := range users {
		users[i] = &user{addr: addrs[i%len(addrs)]}
	}
	return users
}

// A sample is what a stretch of load gave.
type sample struct {
	requests int
	elapsed  time.Duration
	p50, p99 time.Duration
}

// drive lets the users hit for d: one after the other as fast as they can if
// rate is zero, else rate hits a second over all of them. With a rate a hit that
// could not begin in time counts from when it should have.
func drive(ctx context.Context, users []*user, d time.Duration, rate, bytes int, rewrite bool) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	took := make([][]time.Duration, len(users))
	errs := make([]error, len(users))
	var all sync.WaitGroup
	for i, u := range users {
		all.Go(func() {
			var every time.Duration
			next := start
			if rate > 0 {
				every = time.Second * time.Duration(len(users)) / time.Duration(rate)
				next = start.Add(every * time.Duration(i) / time.Duration(len(users)))
			}
			for ctx.Err() == nil {
				if rate == 0 {
					next = time.Now()
				} else if !stage.Pause(ctx, time.Until(next)) {
					return
				}
				if err := u.hit(context.WithoutCancel(ctx), bytes, rewrite); err != nil {
					errs[i] = fmt.Errorf("user %d at %s: %w", i, u.addr, err)
					cancel()
					return
				}
				took[i] = append(took[i], time.Since(next))
				next = next.Add(every)
			}
		})
	}
	all.Wait()
	s := sample{elapsed: time.Since(start)}
	flat := slices.Concat(took...)
	slices.Sort(flat)
	if s.requests = len(flat); s.requests > 0 {
		s.p50, s.p99 = flat[s.requests/2], flat[s.requests*99/100]
	}
	return s, errors.Join(errs...)
}
