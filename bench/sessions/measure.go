package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"

	"github.com/understudy-lb/understudy/bench/stage"
)

// heap is the live memory of the sessions' holders, in bytes, as each of them
// says after a collection.
func heap(ctx context.Context, c *contestant) (int, error) {
	sum := 0
	for _, addr := range c.addrs {
		n, err := number(ctx, "http://"+addr+"/heap")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if c.redis != "" {
		out, err := exec.CommandContext(ctx, "redis-cli", "-u", "redis://"+c.redis, "info", "memory").Output()
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(string(out), "used_memory:")
		n, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func number(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	rep, err := stage.Client().Do(req)
	if err != nil {
		return 0, err
	}
	b, err := io.ReadAll(rep.Body)
	if err = errors.Join(err, rep.Body.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// A wire counts the bytes to and from sets of ports, headers included, in this
// network namespace. A nil one counts nothing.
type wire struct{ table string }

// newWire sets one counter per name.
func newWire(ctx context.Context, ports map[string][]int) (*wire, error) {
	var b strings.Builder
	b.WriteString("add table inet bench\nadd chain inet bench out { type filter hook output priority 0 ; }\n")
	for name, list := range ports {
		var set []string
		for _, p := range list {
			set = append(set, strconv.Itoa(p))
		}
		ports := strings.Join(set, ", ")
		fmt.Fprintf(&b, "add counter inet bench %q\n", name)
		fmt.Fprintf(&b, "add rule inet bench out tcp dport { %s } counter name %q\n", ports, name)
		fmt.Fprintf(&b, "add rule inet bench out tcp sport { %s } counter name %q\n", ports, name)
	}
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(b.String(), `"`, ""))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("nft: %w: %s", err, out)
	}
	return &wire{table: "bench"}, nil
}

// bytes is what the counter name has seen so far.
func (w *wire) bytes(ctx context.Context, name string) (int, error) {
	if w == nil {
		return 0, nil
	}
	out, err := exec.CommandContext(ctx, "nft", "-j", "list", "counter", "inet", w.table, name).Output()
	if err != nil {
		return 0, err
	}
	var reply struct {
		NFTables []struct {
			Counter *struct {
				Bytes int `json:"bytes"`
			} `json:"counter"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &reply); err != nil {
		return 0, err
	}
	for _, o := range reply.NFTables {
		if o.Counter != nil {
			return o.Counter.Bytes, nil
		}
	}
	return 0, fmt.Errorf("nft: no counter %s", name)
}
