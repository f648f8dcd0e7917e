package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTicks is USER_HZ, which is 100 on every Linux that Go runs on.
const clockTicks = 100

// cpu is the processor time that the processes have used so far, user and
// system.
func cpu(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The name in parentheses may hold anything; the fields after it do not.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, s := range f[11:13] { // utime, stime
			n, err := strconv.Atoi(s)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * time.Second / clockTicks
		}
	}
	return sum, nil
}

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
	rep, err := client().Do(req)
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

// median of v, which it sorts; zero without any.
func median[T float64 | int](v []T) T { //nolint:ireturn // T is a number
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}
