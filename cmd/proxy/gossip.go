package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/keyfile"
	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/settings"
)

// joinCluster makes the proxy a member that serves nothing, as --join and
// --gossip say. It returns nil if the settings want no gossip.
func joinCluster(cfg serveConfig, keys []keyfile.Key, log zerolog.Logger) (*cluster.Cluster, error) {
	if len(cfg.Join) == 0 && cfg.Gossip == "" {
		return nil, nil //nolint:nilnil // no gossip is a choice, not a failure
	}
	bind := cfg.Gossip
	switch {
	case bind != "":
	case len(keys) == 0:
		bind = "127.0.0.1:0"
	default:
		bind = bindFor(cfg.Join)
	}
	if len(keys) == 0 && !settings.OnLoopback(bind) {
		return nil, fmt.Errorf("--gossip %s: an address outside loopback needs --cluster-key (make one with: proxy keygen)", bind)
	}
	// A proxy has no name that anybody asks for; this one only has to differ.
	var suffix [6]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return nil, err
	}
	c, err := cluster.New(cluster.Config{
		Self: cluster.Member{
			Name: "proxy-" + hex.EncodeToString(suffix[:]), Boot: cluster.NewBoot(time.Now()),
			State: cluster.Running, Proxy: true,
		},
		Bind: bind, Join: cfg.Join, Keys: keyfile.DeriveAll(keys, "gossip"), Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--gossip: %w", err)
	}
	return c, nil
}

// bindFor is where gossip listens if only members to join are given: loopback
// if all of them are there, else every address.
func bindFor(join []string) string {
	for _, addr := range join {
		if !settings.OnLoopback(addr) {
			return net.JoinHostPort("", "0")
		}
	}
	return "127.0.0.1:0"
}

// follow tells p of every change of the membership until ctx is done.
func follow(ctx context.Context, c *cluster.Cluster, p *proxy.Proxy) {
	changed, stop := c.Subscribe()
	defer stop()
	for {
		p.SetMembers(appNodes(c.Members())) //nolint:contextcheck // its probes live as long as the proxy
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// appNodes are the members that serve requests.
func appNodes(members []cluster.Member) []proxy.Member {
	var nodes []proxy.Member
	for _, m := range members {
		if m.Proxy || m.HTTP == "" {
			continue
		}
		n := proxy.Member{Route: m.Name, Address: m.HTTP, Boot: m.Boot, ID: uint64(m.Digest())}
		for _, d := range m.Restored {
			if d != 0 {
				n.Restored = append(n.Restored, uint64(d))
			}
		}
		switch m.State {
		case cluster.Starting:
			n.State = proxy.Starting
		case cluster.Draining:
			n.State = proxy.Draining
		case cluster.Overloaded:
			n.State = proxy.Overloaded
		default:
			n.State = proxy.Running
		}
		nodes = append(nodes, n)
	}
	return nodes
}
