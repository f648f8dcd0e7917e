//go:build linux

package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/test/stage"
)

// The same on every host.
const (
	port       = "8080" // requests, on the service lan
	gossipPort = "7946" // on the replication lan
	adminPage  = "http://127.0.0.1:9090"
)

// giveUp is how long a client waits for one reply. No request may take that
// long: every wait of the product has a bound.
const giveUp = 60 * time.Second

// A node is an app node on a host of its own.
type node struct {
	*stage.Process
	*host
	args []string
}

// A proxy is one on a host of its own.
type proxy struct {
	*stage.Process
	*host
}

// A cluster is app nodes and proxies on a bed, and a host for clients.
type cluster struct {
	*bed

	dir     string
	key     string // file
	clients *host
	nodes   map[string]*node
	proxies []*proxy
}

// setting says what a case wants to be different.
type setting struct {
	nodes  []string
	args   []string // of every node
	slow   []lan    // of every node
	kind   string   // type of every member there; http if empty
	member []string // of every member in workers.properties, "name=value"
	lb     []string // of the balancer there
	gossip bool     // of the proxies
}

// newCluster starts the nodes and waits until each is ready and connected with
// all others.
func newCluster(t *testing.T, s setting) *cluster {
	t.Helper()
	c := &cluster{bed: newBed(t), nodes: map[string]*node{}}
	// Beside the commands: what a test leaves behind that was killed, the next one sweeps.
	dir, err := os.MkdirTemp(filepath.Dir(binaries.Proxy), "") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	c.dir = dir
	c.key = filepath.Join(c.dir, "cluster.key")
	out, err := exec.CommandContext(t.Context(), binaries.Proxy, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.key, out, 0o600); err != nil {
		t.Fatal(err)
	}
	c.clients = c.add("client", 9)
	for i, name := range s.nodes {
		c.nodes[name] = &node{host: c.add(name, 11+i, s.slow...), args: s.args}
	}
	for _, name := range s.nodes {
		c.launch(name)
	}
	c.settled(s.nodes...)
	return c
}

// seeds are the gossip addresses of all nodes but one.
func (c *cluster) seeds(but string) string {
	var seeds []string
	for name, n := range c.nodes {
		if name != but {
			seeds = append(seeds, n.addr(replication)+":"+gossipPort)
		}
	}
	slices.Sort(seeds)
	return strings.Join(seeds, ",")
}

// launch starts a node, also again.
func (c *cluster) launch(name string) {
	c.t.Helper()
	n := c.nodes[name]
	args := append([]string{
		"--name", name, "--listen", n.addr(service) + ":" + port, "--gossip", n.addr(replication) + ":" + gossipPort,
		"--admin", "127.0.0.1:9090", "--cluster-key", c.key, "--stop-timeout", "5s",
	}, n.args...)
	if seeds := c.seeds(name); seeds != "" {
		args = append(args, "--join", seeds)
	}
	n.Process = stage.Start(c.t, stage.Command{Name: "node " + name, Binary: binaries.AppNode, Args: args, Enter: n.enter})
}

// settled waits until these nodes are ready and connected with each other.
func (c *cluster) settled(names ...string) {
	c.t.Helper()
	for _, name := range names {
		stage.Wait(c.t, "node "+name+" is ready", func() bool { return c.ready(c.nodes[name].host) })
		c.connected(name, len(names)-1)
	}
}

// connected waits until a node is connected with so many others.
func (c *cluster) connected(name string, others int) {
	c.t.Helper()
	stage.Wait(c.t, fmt.Sprintf("node %s is connected with %d others", name, others), func() bool {
		return c.metric(name, "understudy_peers_up") == float64(others)
	})
}

func (c *cluster) ready(h *host) bool {
	_, err := stage.Page(c.t.Context(), adminPage+"/readyz", h.dial)
	return err == nil
}

// metric reads a number of a node; -1 if it does not answer.
func (c *cluster) metric(name, series string) float64 {
	v, err := stage.Metric(c.t.Context(), adminPage+"/metrics", series, c.nodes[name].dial)
	if err != nil {
		return -1
	}
	return v
}

// sum adds up a number of these nodes; those that do not answer count for 0.
func (c *cluster) sum(series string, names ...string) float64 {
	total := 0.0
	for _, name := range names {
		total += max(0, c.metric(name, series))
	}
	return total
}

// workers writes workers.properties with these nodes as members.
func (c *cluster) workers(s setting) string {
	c.t.Helper()
	var b strings.Builder
	for _, name := range s.nodes {
		fmt.Fprintf(&b, "worker.%s.type=%s\nworker.%[1]s.host=%[3]s\nworker.%[1]s.port=%[4]s\n", name, cmp.Or(s.kind, "http"), c.nodes[name].addr(service), port)
		for _, line := range s.member {
			fmt.Fprintf(&b, "worker.%s.%s\n", name, line)
		}
	}
	fmt.Fprintf(&b, "worker.lb.type=lb\nworker.lb.balance_workers=%s\nworker.list=lb\n", strings.Join(s.nodes, ","))
	for _, line := range s.lb {
		fmt.Fprintf(&b, "worker.lb.%s\n", line)
	}
	path := filepath.Join(c.dir, fmt.Sprintf("workers-%d.properties", len(c.proxies)))
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// proxy starts a proxy on a host of its own and returns it when it answers.
func (c *cluster) proxy(s setting) *proxy {
	c.t.Helper()
	name := fmt.Sprintf("p%d", 1+len(c.proxies))
	p := &proxy{host: c.add(name, 1+len(c.proxies))}
	args := []string{
		"serve", "--workers", c.workers(s), "--listen", p.addr(service) + ":" + port, "--cluster-key", c.key, "--stop-timeout", "5s",
	}
	if s.gossip {
		args = append(args, "--gossip", p.addr(replication)+":"+gossipPort, "--join", c.seeds(""))
	}
	c.proxies = append(c.proxies, p)
	p.Process = stage.Start(c.t, stage.Command{Name: "proxy " + name, Binary: binaries.Proxy, Args: args, Enter: p.enter})
	stage.Wait(c.t, name+" is ready", func() bool { return c.ready(p.host) })
	if s.gossip {
		stage.Wait(c.t, name+" knows all nodes by gossip", func() bool {
			v, err := stage.Metric(c.t.Context(), adminPage+"/metrics", "understudy_gossip_members", p.dial)
			return err == nil && v >= float64(len(s.nodes)+1)
		})
	}
	return p
}

// client returns a browser on the clients' host.
func (c *cluster) client(p *proxy) *stage.Client {
	return stage.NewClient(c.t, p.addr(service)+":"+port, giveUp, c.clients.dial)
}

// protected counts until the session has a secondary that runs.
func (c *cluster) protected(client *stage.Client) stage.Reply {
	c.t.Helper()
	return client.CountUntil("the session has a secondary", func(r stage.Reply) bool {
		n := c.nodes[r.Secondary]
		return n != nil && n.Running()
	})
}

// session returns a client whose session has this primary, and this secondary
// unless that is "".
func (c *cluster) session(p *proxy, primary, secondary string) *stage.Client {
	c.t.Helper()
	var client *stage.Client
	stage.Wait(c.t, "a session on "+primary+"!"+secondary, func() bool {
		client = c.client(p)
		r := c.protected(client)
		return r.Primary == primary && (secondary == "" || r.Secondary == secondary)
	})
	return client
}

// crowd are clients that count in the background.
type crowd []*stage.Counting

// count makes n clients of p, each with a session that has a secondary, and
// lets them count with a pause of think between two requests.
func (c *cluster) count(p *proxy, n int, think time.Duration) crowd {
	c.t.Helper()
	clients := make([]*stage.Client, n)
	for i := range clients {
		clients[i] = c.client(p)
		c.protected(clients[i])
	}
	var all crowd
	for _, client := range clients {
		all = append(all, stage.StartCounting(client, think))
	}
	return all
}

// moving waits until each of the crowd had good replies to requests that were
// sent after since, and returns when the last of them had.
func (cr crowd) moving(t *testing.T, limit time.Duration, since time.Time) {
	t.Helper()
	stage.WaitFor(t, limit, "every client has good replies again", func() bool {
		for _, n := range cr {
			if n.Good(since) < 3 {
				return false
			}
		}
		return true
	})
}

// logs are the exchanges of the crowd so far.
func (cr crowd) logs() [][]stage.Exchange {
	logs := make([][]stage.Exchange, len(cr))
	for i, n := range cr {
		logs[i] = n.Log()
	}
	return logs
}

// stop ends the counting and reports whatever may not be.
func (cr crowd) stop(t *testing.T) [][]stage.Exchange {
	t.Helper()
	logs := cr.halt()
	faults(t, logs)
	return logs
}

// halt ends the counting.
func (cr crowd) halt() [][]stage.Exchange {
	for _, n := range cr {
		n.Stop()
	}
	return cr.logs()
}

// faults reports what clients saw and may not see.
func faults(t *testing.T, logs [][]stage.Exchange) {
	t.Helper()
	for i, log := range logs {
		for _, x := range log {
			if x.Fault != "" {
				t.Errorf("client %d at %s, after %v: %s", i, x.End.Format("15:04:05.000"), x.Before, x.Fault)
			}
		}
	}
}

// of keeps the logs of clients whose session, by their last reply before at,
// pleases ok.
func of(logs [][]stage.Exchange, at time.Time, ok func(stage.Reply) bool) [][]stage.Exchange {
	var kept [][]stage.Exchange
	for _, log := range logs {
		for _, x := range log {
			if x.End.After(at) {
				if ok(x.Before) {
					kept = append(kept, log)
				}
				break
			}
		}
	}
	return kept
}

// never reports requests that took longer than the protocol allows at worst.
func never(t *testing.T, s *stage.Seen, longest time.Duration) {
	t.Helper()
	if got := max(s.InFlight, s.Worst); got > longest {
		t.Errorf("a request took %v, never more than %v is allowed", got, longest)
	}
}

// saw logs what clients saw, to be compared with design 6.
func saw(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("SEEN %s: "+format, append([]any{t.Name()}, args...)...)
}

// flagged are the replies that say that something is lost.
func flagged(logs [][]stage.Exchange) []string {
	var all []string
	for i, log := range logs {
		for _, x := range log {
			if x.Err == nil && x.Reply.Lost {
				all = append(all, fmt.Sprintf("client %d at %s: %v after %v", i, x.End.Format("15:04:05.000"), x.Reply, x.Before))
			}
		}
	}
	return all
}

// unflagged reports replies that say that something is lost, in a case in
// which nothing needs to be: all members live, or all but one.
func unflagged(t *testing.T, logs [][]stage.Exchange) {
	t.Helper()
	if all := flagged(logs); len(all) > 0 {
		t.Errorf("%d replies were flagged, though nothing needs to be lost:\n%s", len(all), strings.Join(all[:min(5, len(all))], "\n"))
	}
}

// elapse lets time pass in which the load runs; it waits for nothing.
func elapse(d time.Duration) { stage.Sleep(context.Background(), d) }

// status is the status of a reply; 0 if the client got none.
func status(c *stage.Client, method, path string) (int, time.Duration) {
	begin := time.Now()
	_, err := c.Ask(context.Background(), method, path)
	took := time.Since(begin)
	if err == nil {
		return http.StatusOK, took
	}
	if s, ok := errors.AsType[*stage.StatusError](err); ok {
		return s.Code, took
	}
	return 0, took
}
