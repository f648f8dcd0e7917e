package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A Dial makes connections; [net.Dialer.DialContext] is one.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Cookie is the name of the session cookie.
const Cookie = "JSESSIONID"

// A Reply is what the demo application says.
type Reply struct {
	Counter   int    `json:"counter"`
	Node      string `json:"node"`
	SessionID string `json:"sessionID"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	Epoch     string `json:"epoch"`
	Version   uint64 `json:"version"`
	IsNew     bool   `json:"isNew"`
	Lost      bool   `json:"lost"`
	Visits    int    `json:"visits"` // of nodes with --count-visits
}

// String names the reply in failures.
func (r Reply) String() string {
	s := fmt.Sprintf("%d from %s of %s!%s!%s", r.Counter, r.Node, r.Primary, r.Secondary, r.Epoch)
	if r.IsNew {
		s += " new"
	}
	if r.Lost {
		s += " lost"
	}
	return s
}

// A StatusError is a reply with a status from 400 on.
type StatusError struct {
	Request string // method and path
	Code    int
	Body    string // its beginning
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.Request, e.Code, http.StatusText(e.Code), e.Body)
}

// A Client is a browser: it keeps the session cookie and its connection. It is
// used by one goroutine at a time.
type Client struct {
	Base    string // scheme and address; may be changed, to another proxy
	Session string // the cookie's value as it was set, "" without one; may be changed
	OneShot bool   // each request has a connection of its own

	t    testing.TB
	http *http.Client
	last Reply
}

// NewClient returns a client of the proxy or node at addr that gives up a
// request after timeout. If dial is nil, it connects from where the test is.
func NewClient(t testing.TB, addr string, timeout time.Duration, dial Dial) *Client {
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{
		Base: "http://" + addr, t: t,
		http: &http.Client{
			Timeout: timeout, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes the connection; the next request makes another one.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Via has the client's requests go by rt from now on, such as over TLS.
func (c *Client) Via(rt http.RoundTripper) { c.http.Transport = rt }

// Last is the last good reply.
func (c *Client) Last() Reply { return c.last }

// SharedWith makes c a second window of the browser o: both have its session.
func (c *Client) SharedWith(o *Client) { c.Session, c.last = o.Session, o.last }

// Do sends one request and returns the application's reply. The error is a
// [*StatusError] for statuses from 400 on.
func (c *Client) Do(ctx context.Context, method, path string) (Reply, error) {
	body, err := c.Ask(ctx, method, path)
	if err != nil {
		return Reply{}, err
	}
	var r Reply
	if err := json.Unmarshal(body, &r); err != nil {
		return Reply{}, fmt.Errorf("%s %s: %w: %.200s", method, path, err, body)
	}
	c.last = r
	return r, nil
}

// Ask is [Client.Do] for pages that answer something else: it returns the body.
func (c *Client) Ask(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = c.OneShot
	if c.Session != "" {
		req.Header.Set("Cookie", Cookie+"="+c.Session)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	for _, set := range res.Cookies() {
		if set.Name == Cookie {
			c.Session = set.Value
			if set.MaxAge < 0 {
				c.Session = ""
			}
		}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, &StatusError{Request: method + " " + path, Code: res.StatusCode, Body: fmt.Sprintf("%.200s", body)}
	}
	return body, nil
}

// Must is [Client.Do] for requests that have to succeed.
func (c *Client) Must(method, path string) Reply {
	c.t.Helper()
	r, err := c.Do(c.t.Context(), method, path)
	if err != nil {
		c.t.Fatalf("%v (the reply before: %v)", err, c.last)
	}
	return r
}

// Count adds one by POST and checks that the session goes on where it stood.
func (c *Client) Count() Reply {
	c.t.Helper()
	before := c.last
	r := c.Must(http.MethodPost, "/counter")
	switch {
	case r.Counter != before.Counter+1:
		c.t.Fatalf("counted to %v after %v", r, before)
	case r.Lost || before.Counter > 0 && (r.IsNew || r.SessionID != before.SessionID):
		c.t.Fatalf("the session does not go on: %v after %v", r, before)
	}
	return r
}

// CountN counts n times.
func (c *Client) CountN(n int) Reply {
	c.t.Helper()
	var r Reply
	for range n {
		r = c.Count()
	}
	return r
}

// CountUntil counts until ok likes the reply: copies are made and moved in the
// background after a change of members.
func (c *Client) CountUntil(what string, ok func(Reply) bool) Reply {
	c.t.Helper()
	var r Reply
	Wait(c.t, what, func() bool {
		r = c.Count()
		return ok(r)
	})
	return r
}
