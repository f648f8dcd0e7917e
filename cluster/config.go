package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"
)

// Config sets up a [Cluster].
type Config struct {
	// Self is what this member tells of itself. Name must be set, and Boot be a
	// number that no earlier boot of the name had. Gossip is ignored.
	Self Member

	// Bind is where gossip listens, for packets and streams: host:port. The
	// host may be a name; without one it is every address of the machine. Port
	// 0 is one from the kernel. If empty, Bind is 127.0.0.1:0. An address
	// outside loopback needs Keys.
	Bind string

	// Advertise is where others reach Bind, host:port, if that is something
	// else. Port 0 is that of Bind. If empty, it is the address of Bind or, if
	// that is every address of the machine, its first private one.
	Advertise string

	// Join names members that run already, each host:port. They need not all be
	// there: they are tried until they are members, and a name is resolved again
	// each time. A member's own address among them does no harm.
	Join []string

	// Keys protect gossip. Each has 16, 24 or 32 bytes; the first encrypts, all
	// are accepted. To rotate, append the new key on all members, then move it
	// to the front on all, then remove the old one; each step is a restart of
	// one member after the other. If empty, gossip is open, which is allowed on
	// loopback only.
	Keys [][]byte

	// Network is where to listen and dial. If nil, it is the operating
	// system's.
	Network Network

	// Resolve returns the addresses of a host name. If nil, it is
	// net.DefaultResolver.LookupHost.
	Resolve func(ctx context.Context, host string) ([]string, error)

	// Log gets an event for each change of a member.
	Log zerolog.Logger

	// ProbeInterval is how often a member probes another, taking turns. If
	// zero, it is 500 ms. A member that answers none for
	// SuspicionMult × ProbeInterval (longer in clusters of more than ten, and up
	// to four times that while others do not confirm it) has failed: with the
	// defaults 2 s after the first failed probe.
	ProbeInterval time.Duration

	// ProbeTimeout is how long the answer to a probe may take before others are
	// asked to probe too. If zero, it is half of ProbeInterval.
	ProbeTimeout time.Duration

	// SuspicionMult is explained at ProbeInterval. If zero, it is 4.
	SuspicionMult int

	// GossipInterval is how often news go to three others. If zero, it is
	// 100 ms.
	GossipInterval time.Duration

	// GossipToTheDead is how long news go to a failed member too, so that it may
	// contradict. If zero, it is 30 s.
	GossipToTheDead time.Duration

	// PushPullInterval is how often the complete state is compared with another
	// member, for what gossip has lost. If zero, it is 15 s.
	PushPullInterval time.Duration

	// StreamTimeout bounds a dial, and an exchange over a stream. If zero, it is
	// 2 s.
	StreamTimeout time.Duration

	// RejoinInterval is how often members that are missing are tried: those of
	// Join, those that have failed, and the older one of two boots of a name. If
	// zero, it is 1 s.
	RejoinInterval time.Duration
}

// check returns cfg with defaults, or what is wrong with it.
func (cfg Config) check() (Config, error) {
	if err := checkName(cfg.Self.Name); err != nil {
		return cfg, fmt.Errorf("Config.Self.Name: %w", err)
	}
	for _, f := range []struct{ name, value string }{{"HTTP", cfg.Self.HTTP}, {"Replication", cfg.Self.Replication}} {
		if f.value == "" {
			continue
		}
		if err := checkAddress(f.value); err != nil {
			return cfg, fmt.Errorf("Config.Self.%s: %w", f.name, err)
		}
	}
	for _, f := range []struct{ name, value string }{
		{"Machine", cfg.Self.Machine}, {"Group", cfg.Self.Group}, {"SecondaryGroup", cfg.Self.SecondaryGroup},
	} {
		if err := checkText(f.value); err != nil {
			return cfg, fmt.Errorf("Config.Self.%s: %w", f.name, err)
		}
	}
	if host, _, err := net.SplitHostPort(cfg.Self.Replication); err == nil && len(cfg.Keys) == 0 {
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsLoopback() {
			return cfg, openError("Config.Self.Replication", cfg.Self.Replication)
		}
	}
	for i, k := range cfg.Keys {
		if len(k) != 16 && len(k) != 24 && len(k) != 32 {
			return cfg, fmt.Errorf("Config.Keys[%d] has %d bytes, want 16, 24 or 32", i, len(k))
		}
	}
	for i, s := range cfg.Join {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" {
			return cfg, fmt.Errorf("Config.Join[%d]: %q is not host:port", i, s)
		} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return cfg, fmt.Errorf("Config.Join[%d]: %q has no port number", i, s)
		}
	}
	cfg.Keys = slices.Clone(cfg.Keys)
	for i, k := range cfg.Keys {
		cfg.Keys[i] = slices.Clone(k)
	}
	cfg.Join = slices.Clone(cfg.Join)
	if cfg.Bind == "" {
		cfg.Bind = "127.0.0.1:0"
	}
	if cfg.Network == nil {
		cfg.Network = osNetwork{}
	}
	if cfg.Resolve == nil {
		cfg.Resolve = net.DefaultResolver.LookupHost
	}
	cfg.ProbeInterval = orElse(cfg.ProbeInterval, 500*time.Millisecond)
	cfg.ProbeTimeout = orElse(cfg.ProbeTimeout, cfg.ProbeInterval/2)
	cfg.GossipInterval = orElse(cfg.GossipInterval, 100*time.Millisecond)
	cfg.GossipToTheDead = orElse(cfg.GossipToTheDead, 30*time.Second)
	cfg.PushPullInterval = orElse(cfg.PushPullInterval, 15*time.Second)
	cfg.StreamTimeout = orElse(cfg.StreamTimeout, 2*time.Second)
	cfg.RejoinInterval = orElse(cfg.RejoinInterval, time.Second)
	if cfg.SuspicionMult == 0 {
		cfg.SuspicionMult = 4
	}
	return cfg, nil
}

func orElse(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// open listens at cfg.Bind and finds the address to announce.
func open(cfg Config) (net.Listener, net.PacketConn, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.StreamTimeout)
	defer cancel()
	fail := func(err error) (net.Listener, net.PacketConn, netip.AddrPort, error) {
		return nil, nil, netip.AddrPort{}, err
	}
	host, service, err := net.SplitHostPort(cfg.Bind)
	if err != nil {
		return fail(fmt.Errorf("Config.Bind: %q is not host:port", cfg.Bind))
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return fail(fmt.Errorf("Config.Bind: %q has no port number", cfg.Bind))
	}
	if host != "" {
		addrs, err := resolver(cfg.Resolve).resolve(ctx, cfg.Bind)
		if err != nil {
			return fail(fmt.Errorf("Config.Bind: %w", err))
		}
		host = addrs[0].Addr().String()
	}
	if ip, err := netip.ParseAddr(host); len(cfg.Keys) == 0 && (err != nil || !ip.IsLoopback()) {
		return fail(openError("Config.Bind", cfg.Bind))
	}
	ln, pc, bound, err := bind(cfg.Network, host, uint16(port))
	if err != nil {
		return fail(fmt.Errorf("Config.Bind: gossip at %s: %w", cfg.Bind, err))
	}
	advertise, err := announced(ctx, cfg, bound)
	if err != nil {
		_, _ = ln.Close(), pc.Close()
		return fail(err)
	}
	return ln, pc, advertise, nil
}

// openError says that the address in field needs a key (D11).
func openError(field, addr string) error {
	return fmt.Errorf("%s: open address without key: %s is outside loopback, so Config.Keys (--cluster-key) is needed", field, addr)
}

// announced returns the address to announce for what listens at bound.
func announced(ctx context.Context, cfg Config, bound netip.AddrPort) (netip.AddrPort, error) {
	switch {
	case cfg.Advertise != "":
		addrs, err := resolver(cfg.Resolve).resolve(ctx, cfg.Advertise)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("Config.Advertise: %w", err)
		}
		if len(cfg.Keys) == 0 && !addrs[0].Addr().IsLoopback() {
			return netip.AddrPort{}, openError("Config.Advertise", cfg.Advertise)
		}
		if addrs[0].Addr().IsUnspecified() {
			return netip.AddrPort{}, fmt.Errorf("Config.Advertise: nobody can reach %q", cfg.Advertise)
		}
		if addrs[0].Port() == 0 {
			return netip.AddrPortFrom(addrs[0].Addr(), bound.Port()), nil
		}
		return addrs[0], nil
	case bound.Addr().IsUnspecified():
		ip, err := PrivateAddress()
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("Config.Advertise is needed with Bind %q: %w", cfg.Bind, err)
		}
		return netip.AddrPortFrom(ip, bound.Port()), nil
	default:
		return bound, nil
	}
}
