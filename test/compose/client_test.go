package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// giveUp is how long a client waits for a reply: as a person would.
	giveUp = 10 * time.Second
	// think is the pause of a client between two requests.
	think = 50 * time.Millisecond
)

// A reply is what the demo application says.
type reply struct {
	Counter   int    `json:"counter"`
	Node      string `json:"node"`
	SessionID string `json:"sessionID"`
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
	Epoch     string `json:"epoch"`
	IsNew     bool   `json:"isNew"`
	Lost      bool   `json:"lost"`
}

// A client counts by POST until it is stopped, and keeps the account of
// design 5: what is said never falls below what was acknowledged, and never
// rises above that and the requests that failed. One of those may be carried
// out late, by a node that was paused.
type client struct {
	http   http.Client
	cookie string

	mu       sync.Mutex // guards the following
	bases    []string   // URLs of the proxies; the first is asked
	last     reply      // that acknowledged a count
	counts   int        // acknowledged since the last step began
	failed   []string   // errors since then
	open     int        // requests that failed and may have counted, or still will
	flagged  int        // replies since then that said lost
	faults   []string   // whatever must not be, since then
	worst    time.Duration
	mayFlag  bool // whether a reply may say lost in this step
	stopping chan struct{}
}

func (c *client) run() {
	for {
		select {
		case <-c.stopping:
			return
		default:
		}
		start := time.Now()
		r, err := c.post()
		c.note(r, err, time.Since(start))
		time.Sleep(think)
	}
}

// post counts once.
func (c *client) post() (reply, error) {
	c.mu.Lock()
	base := c.bases[0]
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/counter", nil)
	if err != nil {
		return reply{}, err
	}
	if c.cookie != "" {
		req.Header.Set("Cookie", "JSESSIONID="+c.cookie)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	for _, set := range res.Cookies() {
		if set.Name == "JSESSIONID" {
			c.cookie = set.Value
		}
	}
	if res.StatusCode != http.StatusOK {
		return reply{}, fmt.Errorf("%s: %.100s", res.Status, body)
	}
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return reply{}, fmt.Errorf("%w: %.100s", err, body)
	}
	return r, nil
}

// note enters what a request came to into the account.
func (c *client) note(r reply, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worst = max(c.worst, took)
	if err != nil {
		c.failed = append(c.failed, fmt.Sprintf("%s after %v", strings.TrimSpace(err.Error()), took.Round(time.Millisecond)))
		c.open++
		if _, ok := errors.AsType[*url.Error](err); ok && len(c.bases) > 1 {
			c.bases = append(c.bases[1:], c.bases[0]) // as a browser does with two addresses
		}
		return
	}
	late := r.Counter - c.last.Counter - 1 // counts of requests that had failed
	switch {
	case r.Lost && c.mayFlag:
		c.flagged++
		c.open = 0
	case r.Lost, late < 0, late > c.open, c.last.SessionID != "" && r.SessionID != c.last.SessionID:
		c.faults = append(c.faults, fmt.Sprintf("%+v after %+v, with %d requests that failed", r, c.last, c.open))
		c.open = 0
	default:
		c.open -= late
	}
	c.last = r
	c.counts++
}

// A step is what a client has seen since a step began.
type step struct {
	last    reply
	counts  int
	failed  []string
	flagged int
	faults  []string
	worst   time.Duration
}

func (c *client) seen() step {
	c.mu.Lock()
	defer c.mu.Unlock()
	return step{c.last, c.counts, c.failed, c.flagged, c.faults, c.worst}
}

// begin starts the account of a step.
func (c *client) begin(mayFlag bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.failed, c.flagged, c.faults, c.worst, c.mayFlag = 0, nil, 0, nil, 0, mayFlag
}

// newClients starts n counting clients that end with the test; each asks one of
// the proxies, and the other one if that is gone.
func newClients(t *testing.T, n int, proxies []string) []*client {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
	cs := make([]*client, n)
	for i := range cs {
		c := &client{http: http.Client{Transport: &http.Transport{}}, stopping: stop}
		for j := range proxies {
			c.bases = append(c.bases, "http://"+proxies[(i+j)%len(proxies)])
		}
		cs[i] = c
		wg.Go(func() {
			defer c.http.CloseIdleConnections()
			c.run()
		})
	}
	return cs
}
