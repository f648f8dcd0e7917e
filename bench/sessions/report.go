package main

import (
	"context"
	"fmt"
	"html"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/bench/stage"
)

// A report collects what was measured.
type report struct {
	opts        options
	who         []string
	absent      []string
	cells       []*cell
	heap        []int // by who; nil if not measured
	memoryNodes int
	pinned      bool
	started     time.Time
}

// A cell is one contestant under one load.
type cell struct {
	Name   string    `json:"name"`
	Nodes  int       `json:"nodes"`
	Load   string    `json:"load"`
	PerCPU []float64 `json:"requestsPerCPUSecond"` // by round
	Wire   []int     `json:"replicationBytesPerRequest"`
	P50    []float64 `json:"saturatedP50ms"`
	P99    []float64 `json:"saturatedP99ms"`
	Paced  []float64 `json:"pacedP50ms"`
	Paced9 []float64 `json:"pacedP99ms"`
}

func (r *report) find(name string, n int, l load) *cell {
	for _, c := range r.cells {
		if c.Name == name && c.Nodes == n && c.Load == l.String() {
			return c
		}
	}
	return nil
}

func (r *report) add(name string, n int, l load, m measurement) {
	c := r.find(name, n, l)
	if c == nil {
		c = &cell{Name: name, Nodes: n, Load: l.String()}
		r.cells = append(r.cells, c)
	}
	ms := stage.Milliseconds
	c.PerCPU = append(c.PerCPU, m.perCPU)
	c.Wire = append(c.Wire, m.wire)
	c.P50, c.P99 = append(c.P50, ms(m.saturated.p50)), append(c.P99, ms(m.saturated.p99))
	c.Paced, c.Paced9 = append(c.Paced, ms(m.paced.p50)), append(c.Paced9, ms(m.paced.p99))
}

// write writes sessions.md, sessions.svg and sessions.json.
func (r *report) write(ctx context.Context) error {
	return stage.Write(r.opts.out, "sessions", r.text(ctx), r.chart(), r.cells)
}

func (r *report) text(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Sessions: what a replicated one costs\n\nWritten by `make bench-sessions` on %s, in %s.\n\n",
		r.started.Format(time.DateOnly), time.Since(r.started).Round(time.Second))
	fmt.Fprintf(&b, "%d users, each with a session and a connection, post to the node that holds their session and check the counter; medians of %d rounds of %v,\n"+
		"interleaved, with the lowest and highest. Everything is on loopback of one machine with %d cores; ",
		r.opts.users, r.opts.rounds, r.opts.stretch, runtime.NumCPU())
	if r.pinned {
		b.WriteString("all servers share one core, the load has the rest. ")
	}
	fmt.Fprintf(&b, "Only ratios within a run mean\nanything. \"held\": the session has that much data, and only the counter changes; \"rewritten\": the data is new with each request.\n\n")
	b.WriteString(stage.Versions(ctx,
		[]string{"java", "-version"},
		[]string{"redis-server", "--version"},
		[]string{"dpkg-query", "-W", "tomcat10"}))
	for _, a := range r.absent {
		b.WriteString(stage.List([]string{"not measured: " + a}))
	}
	for _, n := range r.opts.nodes {
		for _, l := range loads() {
			r.table(&b, n, l)
		}
	}
	if r.heap != nil {
		fmt.Fprintf(&b, "\n## Memory\n\nLive heap per session with a counter and 1 KiB, all of %d nodes together (and Redis), %d sessions.\n\n| | bytes |\n| --- | ---: |\n", r.memoryNodes, r.opts.sessions)
		for i, name := range r.who {
			fmt.Fprintf(&b, "| %s | %d |\n", name, r.heap[i])
		}
	}
	return b.String()
}

func (r *report) table(b *strings.Builder, n int, l load) {
	us := r.find(ours, n, l)
	fmt.Fprintf(b, "\n## %d nodes, %s\n\n| | requests per CPU-second of all nodes | ours is | replication bytes | p50 / p99 ms, saturated | at %d/s |\n| --- | ---: | ---: | ---: | ---: | ---: |\n", n, l, r.opts.rate)
	for _, name := range r.who {
		c := r.find(name, n, l)
		if c == nil {
			continue
		}
		v := stage.Median(slices.Clone(c.PerCPU))
		ratio := ""
		if us != nil && name != ours {
			ratio = fmt.Sprintf("%.2f ×", stage.Median(slices.Clone(us.PerCPU))/v)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %.2f / %.2f | %.2f / %.2f |\n", name, stage.Spread(c.PerCPU, 0),
			ratio, stage.Median(slices.Clone(c.Wire)), stage.Median(slices.Clone(c.P50)), stage.Median(slices.Clone(c.P99)),
			stage.Median(slices.Clone(c.Paced)), stage.Median(slices.Clone(c.Paced9)))
	}
}

// chart shows requests per CPU-second of the first load, a bar per contestant
// and number of nodes.
func (r *report) chart() string {
	const width, bar, gap, left = 760, 16, 14, 230
	l := loads()[0]
	best := 1.0
	for _, c := range r.cells {
		if c.Load == l.String() {
			best = max(best, stage.Median(slices.Clone(c.PerCPU)))
		}
	}
	var b strings.Builder
	y := 40
	for _, name := range r.who {
		for i, n := range r.opts.nodes {
			c := r.find(name, n, l)
			if c == nil {
				continue
			}
			if i == 0 {
				fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-50, y+bar-4, html.EscapeString(name))
			}
			v := stage.Median(slices.Clone(c.PerCPU))
			w := int(v / best * (width - left - 80))
			color := "#9aa5b1"
			if name == ours {
				color = "#2f6f4f"
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#666">%d nodes</text><rect x="%d" y="%d" width="%d" height="%d" fill="%s"/><text x="%d" y="%d">%.0f</text>`+"\n",
				left-4, y+bar-4, n, left, y, w, bar-2, color, left+w+5, y+bar-4, v)
			y += bar
		}
		y += gap
	}
	return stage.Chart(width, y+10, l.String()+": requests per CPU-second of all nodes", b.String())
}
