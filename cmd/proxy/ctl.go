package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/understudy-lb/understudy/proxy/status"
)

// ctl is what an operator wants of a proxy that runs.
type ctl struct {
	Drain   ctlOrder   `cmd:"" help:"Send a node no new sessions; an app node hands over those that it has. Says how many are left until none is."`
	Resume  ctlOrder   `cmd:"" help:"Undo drain."`
	Members ctlMembers `cmd:"" help:"Show the members and how they stand."`
	Set     ctlSet     `cmd:"" help:"Change settings of a worker or of one of its members, on this proxy: activation=D, lbfactor=2, recover_time=30 …, as in workers.properties."`
	Reset   ctlSubject `cmd:"" help:"Set the counts of a worker or of one of its members to zero, and forget their failures."`
	Recover ctlSubject `cmd:"" help:"Let the next request try a member in error."`
	Changes ctlChanges `cmd:"" help:"Show the settings that were changed and are not as in workers.properties."`
}

// ctlProxy says which proxy.
type ctlProxy struct {
	Admin string `default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Admin listener of the proxy."`
}

type ctlOrder struct {
	ctlProxy
	ctlToken
	Node string        `arg:"" help:"Name of the node."`
	Wait time.Duration `default:"60s" help:"How long drain waits until no session is left; 0: not at all."`
}

type ctlMembers struct{ ctlProxy }

type ctlChanges struct{ ctlProxy }

// ctlTimeout bounds one exchange with the proxy.
const ctlTimeout = 10 * time.Second

// ask sends one request to the proxy. An error says what the proxy said.
func (c *ctlProxy) ask(ctx context.Context, method, path, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, ctlTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", c.Admin, res.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// A ctlMember is what ctl reads of /api/members.
type ctlMember struct {
	Worker     string `json:"worker"`
	Name       string `json:"name"`
	Route      string `json:"route"`
	Address    string `json:"address"`
	Activation string `json:"activation"`
	State      string `json:"state"`
	Phase      string `json:"phase"`
	Sessions   *int64 `json:"sessions"`
	Copies     int64  `json:"copies"`
	Lacking    int64  `json:"lackingCopy"`
	InFlight   int    `json:"inFlight"`
}

func (c *ctlProxy) members(ctx context.Context) ([]ctlMember, error) {
	body, err := c.ask(ctx, http.MethodGet, "/api/members", "")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Members []ctlMember `json:"members"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("%s: /api/members: %w", c.Admin, err)
	}
	return doc.Members, nil
}

// A ctlToken says where the token is that changes need.
type ctlToken struct {
	AdminToken string `placeholder:"FILE" help:"File with the token of the proxy's --admin-token."`
}

func (c *ctlToken) read() (string, error) {
	if c.AdminToken == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.AdminToken)
	if err != nil {
		return "", fmt.Errorf("--admin-token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// A ctlSubject is what ctl set, reset and recover are about.
type ctlSubject struct {
	ctlProxy
	ctlToken
	Worker string `arg:"" name:"worker[/member]" help:"Name of a worker of worker.list, and of one of its members."`
}

type ctlSet struct {
	ctlSubject
	Settings []string `arg:"" name:"setting=value" help:"What to change."`
}

// run is ctl reset and ctl recover, and the end of ctl set.
func (c *ctlSubject) run(ctx context.Context, e env, do string, settings url.Values) error {
	token, err := c.read()
	if err != nil {
		return err
	}
	name, member, of := strings.Cut(c.Worker, "/")
	if of {
		settings.Set("member", member)
	}
	said, err := c.ask(ctx, http.MethodPost, "/api/workers/"+url.PathEscape(name)+"/"+do+"?"+settings.Encode(), token)
	if err != nil {
		say(e.stderr, "proxy: ctl %s %s: %v\n", do, c.Worker, err)
		return errFailed
	}
	say(e.stdout, "%s", said)
	return nil
}

// run is ctl set.
func (c *ctlSet) run(ctx context.Context, e env) error {
	settings := url.Values{}
	for _, s := range c.Settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "member" || name == "token" {
			return fmt.Errorf("ctl set: %q is no setting=value", s)
		}
		settings.Set(name, value)
	}
	return c.ctlSubject.run(ctx, e, "set", settings)
}

// run is ctl drain and ctl resume.
func (c *ctlOrder) run(ctx context.Context, e env, order string) error {
	token, err := c.read()
	if err != nil {
		return err
	}
	said, err := c.ask(ctx, http.MethodPost, "/api/members/"+url.PathEscape(c.Node)+"/"+order, token)
	if err != nil {
		return c.failed(e, order, err)
	}
	say(e.stdout, "%s", said)
	if order != "drain" || c.Wait <= 0 {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	return c.watch(wait, e)
}

func (c *ctlOrder) failed(e env, order string, err error) error {
	say(e.stderr, "proxy: ctl %s %s: %v\n", order, c.Node, err)
	return errFailed
}

// errLeft says that the time to wait is over.
var errLeft = errors.New("sessions are left")

// watch says how many sessions are left on the node until none is, or it does not
// say, or ctx is done. What the proxy knows of it is up to some seconds old.
func (c *ctlOrder) watch(ctx context.Context, e env) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, none := int64(-1), 0
	for {
		all, err := c.members(ctx)
		if err != nil && ctx.Err() == nil {
			return c.failed(e, "drain", err)
		}
		left, draining, found := int64(0), false, err != nil
		for _, m := range all {
			if m.Route != c.Node || m.Phase == "" {
				continue
			}
			found = true
			if m.Sessions != nil { // else it has not said yet
				left, draining = *m.Sessions+m.Copies, m.Phase == "draining"
			}
		}
		switch {
		case !found:
			return nil // it does not gossip, or is gone
		case draining && left != last:
			say(e.stdout, "%d sessions and copies left\n", left)
			last = left
		}
		if draining && left == 0 {
			none++
		} else {
			none = 0
		}
		if none == 2 { // the first may be from before
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c.failed(e, "drain", errLeft)
		}
	}
}

// run is ctl members.
func (c *ctlMembers) run(ctx context.Context, e env) error {
	all, err := c.members(ctx)
	if err != nil {
		say(e.stderr, "proxy: ctl members: %v\n", err)
		return errFailed
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	say(w, "WORKER\tMEMBER\tADDRESS\tACTIVATION\tSTATE\tSAYS\tSESSIONS\tCOPIES\tLACKING\tIN FLIGHT\n")
	for _, m := range all {
		sessions, copies, lacking := "-", "-", "-"
		if m.Sessions != nil {
			sessions, copies, lacking = fmt.Sprint(*m.Sessions), fmt.Sprint(m.Copies), fmt.Sprint(m.Lacking)
		}
		says := m.Phase
		if says == "" {
			says = "-"
		}
		say(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", m.Worker, m.Name, m.Address, m.Activation, m.State, says, sessions, copies, lacking, m.InFlight)
	}
	return w.Flush()
}

// run is ctl changes.
func (c *ctlChanges) run(ctx context.Context, e env) error {
	body, err := c.ask(ctx, http.MethodGet, "/api/changes", "")
	var doc struct {
		Changes []status.Changed `json:"changes"`
	}
	if err == nil {
		err = json.Unmarshal(body, &doc)
	}
	if err != nil {
		say(e.stderr, "proxy: ctl changes: %v\n", err)
		return errFailed
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	say(w, "WORKER\tMEMBER\tSETTING\tVALUE\tIN THE FILE\n")
	for _, s := range doc.Changes {
		say(w, "%s\t%s\t%s\t%s\t%s\n", s.Worker, cmp.Or(s.Member, "-"), s.Setting, cmp.Or(s.Value, "-"), cmp.Or(s.File, "-"))
	}
	return w.Flush()
}
