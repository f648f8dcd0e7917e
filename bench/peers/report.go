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
	opts    options
	who     []string
	absent  []string
	cells   []*cell
	idle    map[string]int
	pinned  bool
	started time.Time
}

// A cell is one contestant under one load; its lists go by round.
type cell struct {
	Name    string    `json:"name"`
	Load    string    `json:"load"`
	PerCPU  []float64 `json:"requestsPerCPUSecond"`
	P50     []float64 `json:"saturatedP50ms"`
	P99     []float64 `json:"saturatedP99ms"`
	Paced99 []float64 `json:"halfLoadP99ms"`
}

func (r *report) find(name string, l load) *cell {
	for _, c := range r.cells {
		if c.Name == name && c.Load == l.name {
			return c
		}
	}
	return nil
}

func (r *report) add(name string, l load, s sample) {
	c := r.find(name, l)
	if c == nil {
		c = &cell{Name: name, Load: l.name}
		r.cells = append(r.cells, c)
	}
	ms := stage.Milliseconds
	c.PerCPU, c.P50, c.P99 = append(c.PerCPU, s.perCPU), append(c.P50, ms(s.p50)), append(c.P99, ms(s.p99))
}

// ratio is ours over the other's, the median over the rounds.
func ratio(us, other []float64) float64 {
	var v []float64
	for i := range min(len(us), len(other)) {
		v = append(v, us[i]/other[i])
	}
	return stage.Median(v)
}

// name is that of the report's files, and of the make target without "bench-".
func (r *report) name() string {
	if r.opts.ajp {
		return "ajp"
	}
	return "peers"
}

// other is whose time at half load is held against ours.
func (r *report) other() string {
	if r.opts.ajp {
		return "apache-mod_jk"
	}
	return "haproxy"
}

// write writes the report with its chart and its numbers.
func (r *report) write(ctx context.Context) error {
	return stage.Write(r.opts.out, r.name(), r.text(ctx), r.chart(), r.cells)
}

func (r *report) text(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proxies: what a request costs\n\nWritten by `make bench-%s` on %s, in %s.\n\n",
		r.name(), r.started.Format(time.DateOnly), time.Since(r.started).Round(time.Second))
	fmt.Fprintf(&b, "Each is a sticky balancer over the same three members, log off, one thread; medians of %d rounds of %v at saturation, with the lowest and\n"+
		"highest. Ours verifies a signed cookie with every request. Everything is on loopback of one machine with %d cores", r.opts.rounds, r.opts.stretch, runtime.NumCPU())
	if r.pinned {
		b.WriteString("; the proxy has one to itself")
	}
	b.WriteString(". Only ratios\nwithin a run mean anything: they are medians of the rounds' ratios.\n\n")
	b.WriteString(stage.Versions(ctx,
		[]string{"dpkg-query", "-W", "haproxy"},
		[]string{"dpkg-query", "-W", "nginx"},
		[]string{"dpkg-query", "-W", "caddy"},
		[]string{"dpkg-query", "-W", "apache2"},
		[]string{"dpkg-query", "-W", "libapache2-mod-jk"}))
	if r.opts.tomcat {
		b.WriteString(stage.List([]string{"the members are Tomcats (" + stage.CatalinaHome + "), whose pages are a byte array"}))
	}
	for _, a := range r.absent {
		b.WriteString(stage.List([]string{"not measured: " + a}))
	}
	for _, l := range loads() {
		us := r.find(ours, l)
		fmt.Fprintf(&b, "\n## %s\n\n| | requests per CPU-second | ours is | p50 / p99 ms, saturated | p99 ms at half of the slower one's load (ours, %s) |\n| --- | ---: | ---: | ---: | ---: |\n", l.name, r.other())
		for _, name := range r.who {
			c := r.find(name, l)
			if c == nil {
				continue
			}
			times := ""
			if us != nil && name != ours {
				times = fmt.Sprintf("%.2f ×", ratio(us.PerCPU, c.PerCPU))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %.2f / %.2f | %s |\n", name, stage.Spread(c.PerCPU, 0), times,
				stage.Median(slices.Clone(c.P50)), stage.Median(slices.Clone(c.P99)), stage.Spread(c.Paced99, 2))
		}
	}
	if len(r.idle) > 0 {
		fmt.Fprintf(&b, "\n## Resident memory per idle connection\n\n%d connections that have asked once; ours after one collection.\n\n| | bytes |\n| --- | ---: |\n", r.opts.idle)
		for _, name := range r.who {
			fmt.Fprintf(&b, "| %s | %d |\n", name, r.idle[name])
		}
	}
	return b.String()
}

// chart shows requests per CPU-second relative to the best, load by load.
func (r *report) chart() string {
	const width, bar, left = 760, 16, 130
	var b strings.Builder
	y := 40
	for _, l := range loads() {
		best := 1.0
		for _, c := range r.cells {
			if c.Load == l.name {
				best = max(best, stage.Median(slices.Clone(c.PerCPU)))
			}
		}
		fmt.Fprintf(&b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", y+bar-4, html.EscapeString(l.name))
		y += bar
		for _, name := range r.who {
			c := r.find(name, l)
			if c == nil {
				continue
			}
			v := stage.Median(slices.Clone(c.PerCPU))
			w := int(v / best * (width - left - 80))
			color := "#9aa5b1"
			if name == ours {
				color = "#2f6f4f"
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%d" height="%d" fill="%s"/><text x="%d" y="%d">%.0f</text>`+"\n",
				left-5, y+bar-4, html.EscapeString(name), left, y, w, bar-2, color, left+w+5, y+bar-4, v)
			y += bar
		}
		y += bar
	}
	return stage.Chart(width, y, "Requests per CPU-second of the proxy", b.String())
}
