package status

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// A Collector gives a snapshot's numbers to Prometheus. Its labels are worker and
// member alone, so there are as many series as members.
type Collector struct {
	snapshot func() Snapshot
	metrics  []metric
	totals   []total
	gossip   *prometheus.Desc
	lines    *prometheus.Desc
	dropped  *prometheus.Desc
	spool    [3]*prometheus.Desc // bytes, refused, failed
}

// metric is one number of every member.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Member) (v float64, ok bool)
}

// total is one number of the proxy as a whole.
type total struct {
	desc  *prometheus.Desc
	value func(Counts) uint64
}

// NewCollector returns a collector that calls snapshot at each scrape.
func NewCollector(snapshot func() Snapshot) *Collector {
	c := &Collector{
		snapshot: snapshot,
		gossip:   prometheus.NewDesc("understudy_gossip_members", "Members that gossip knows, proxies included.", nil, nil),
		lines:    prometheus.NewDesc("understudy_access_log_lines_total", "Lines of the access log.", nil, nil),
		dropped: prometheus.NewDesc("understudy_access_log_dropped_total",
			"Lines that were never written: there was no room for them, or the write failed.", nil, nil),
	}
	c.spool = [...]*prometheus.Desc{
		prometheus.NewDesc("understudy_spool_bytes", "Bytes of requests that are kept on disk, so that they can be sent again.", nil, nil),
		prometheus.NewDesc("understudy_spool_refused_total", "Requests over a limit of the spool: they could not have been sent again.", nil, nil),
		prometheus.NewDesc("understudy_spool_failed_total", "Requests that the disk did not take: they could not have been sent again.", nil, nil),
	}
	gauge := func(name, help string, value func(Member) float64) {
		c.add(prometheus.GaugeValue, name, help, value)
	}
	counter := func(name, help string, value func(Member) uint64) {
		c.add(prometheus.CounterValue, name+"_total", help, func(m Member) float64 { return float64(value(m)) })
	}
	total := func(name, help string, value func(Counts) uint64) {
		c.totals = append(c.totals, total{prometheus.NewDesc("understudy_"+name+"_total", help, nil, nil), value})
	}
	total("requests", "Requests that have ended.", func(n Counts) uint64 { return n.Requests })
	total("requests_failed", "Requests answered by the proxy itself, or cut.", func(n Counts) uint64 { return n.Failed })
	total("requests_gone", "Requests whose client went away.", func(n Counts) uint64 { return n.Gone })
	total("resends", "Requests sent again after a member had got them.", func(n Counts) uint64 { return n.Resent })
	total("resends_held", "Requests that may have killed a member, and waited until redundancy was restored.", func(n Counts) uint64 { return n.Held })
	total("resends_unrestored", "Of these, requests that were not sent again because it was not restored in time.", func(n Counts) uint64 { return n.Unrestored })
	total("retries_unpaid", "Requests not tried again because the retry budget was spent.", func(n Counts) uint64 { return n.Unpaid })
	total("forged_references", "Session references that looked signed and did not verify.", func(n Counts) uint64 { return n.Forged })
	gauge("in_service", "1 if the member gets requests, if only those of its sessions.", func(m Member) float64 {
		if m.InService {
			return 1
		}
		return 0
	})
	gauge("in_flight", "Requests under way.", func(m Member) float64 { return float64(m.InFlight) })
	gauge("tunnels", "Requests under way that have become tunnels.", func(m Member) float64 { return float64(m.Tunnels) })
	gauge("waiting", "Requests that wait for their turn.", func(m Member) float64 { return float64(m.Waiting) })
	gauge("connections", "Open connections, busy and idle.", func(m Member) float64 { return float64(m.Open) })
	gauge("lb_value", "Load value; the lowest is chosen next.", func(m Member) float64 { return float64(m.LBValue) })
	gauge("reply_timeouts", "Replies that did not come in time; halved by each maintenance.", func(m Member) float64 { return float64(m.Timeouts) })
	counter("requests", "Requests sent; each attempt counts.", func(m Member) uint64 { return m.Served })
	counter("new_sessions", "Requests sent that had no session.", func(m Member) uint64 { return m.NewSessions })
	counter("errors", "Attempts that failed.", func(m Member) uint64 { return m.Errors })
	counter("client_errors", "Attempts that ended because the client was gone.", func(m Member) uint64 { return m.ClientErrors })
	counter("busy", "Requests that found no room in time.", func(m Member) uint64 { return m.Busy })
	counter("retries", "Attempts that followed a failure.", func(m Member) uint64 { return m.Retries })
	counter("read_bytes", "Bytes read from the member.", func(m Member) uint64 { return m.BytesRead })
	counter("written_bytes", "Bytes written to the member.", func(m Member) uint64 { return m.BytesWritten })
	gauge("sessions", "Live sessions of which the member is the primary, if it says so.", func(m Member) float64 { return float64(m.Sessions) })
	last := &c.metrics[len(c.metrics)-1]
	last.value = func(m Member) (float64, bool) { return float64(m.Sessions), m.Sessions != Unknown }
	return c
}

func (c *Collector) add(kind prometheus.ValueType, name, help string, value func(Member) float64) {
	c.metrics = append(c.metrics, metric{
		desc:  prometheus.NewDesc("understudy_member_"+name, help, []string{"worker", "member"}, nil),
		kind:  kind,
		value: func(m Member) (float64, bool) { return value(m), true },
	})
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
	for _, t := range c.totals {
		ch <- t.desc
	}
	ch <- c.gossip
	ch <- c.lines
	ch <- c.dropped
	for _, d := range c.spool {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.snapshot()
	type series struct{ worker, member string }
	seen := map[series]bool{}
	for _, w := range s.Workers {
		for _, m := range w.Members {
			is := series{label(w.Name), label(m.Name)}
			if seen[is] {
				continue // a scrape with a series twice is refused as a whole
			}
			seen[is] = true
			for _, metric := range c.metrics {
				if v, ok := metric.value(m); ok {
					ch <- prometheus.MustNewConstMetric(metric.desc, metric.kind, v, is.worker, is.member)
				}
			}
		}
	}
	for _, t := range c.totals {
		ch <- prometheus.MustNewConstMetric(t.desc, prometheus.CounterValue, float64(t.value(s.Counts)))
	}
	ch <- prometheus.MustNewConstMetric(c.gossip, prometheus.GaugeValue, float64(len(s.Gossip)))
	if l := s.AccessLog; l != nil {
		ch <- prometheus.MustNewConstMetric(c.lines, prometheus.CounterValue, float64(l.Lines))
		ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(l.Dropped))
	}
	ch <- prometheus.MustNewConstMetric(c.spool[0], prometheus.GaugeValue, float64(s.Spool.Bytes))
	ch <- prometheus.MustNewConstMetric(c.spool[1], prometheus.CounterValue, float64(s.Spool.Refused))
	ch <- prometheus.MustNewConstMetric(c.spool[2], prometheus.CounterValue, float64(s.Spool.Failed))
}

// label makes a name from a file fit for Prometheus, which panics on a label that
// is not UTF-8.
func label(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
