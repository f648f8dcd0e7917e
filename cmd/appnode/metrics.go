package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/understudy-lb/understudy/cluster"
	"github.com/understudy-lb/understudy/session"
	"github.com/understudy-lb/understudy/session/peer"
)

// newMetrics returns what /metrics shows: sessions by role, what replication
// did, and the process. No label ever names a session.
func newMetrics(sessions *session.Manager, members *cluster.Cluster) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(&collector{sessions: sessions, members: members})
	return reg
}

// A collector reads the counts of the sessions and of gossip.
type collector struct {
	sessions *session.Manager
	members  *cluster.Cluster
}

// Describe implements [prometheus.Collector]; the metrics are described as they
// are collected.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	put := func(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("understudy_"+name, help, names, nil), kind, value, values...)
	}
	gauge := func(name, help string, value int, labels ...string) {
		put(prometheus.GaugeValue, name, help, float64(value), labels...)
	}
	count := func(name, help string, value uint64) { put(prometheus.CounterValue, name, help, float64(value)) }

	s := c.sessions.Stats()
	const held = "Sessions that this node holds, by its role."
	gauge("sessions", held, s.Primary, "role", "primary")
	gauge("sessions", held, s.Secondary, "role", "secondary")
	const bytes = "What the names and values of those sessions take, by its role."
	put(prometheus.GaugeValue, "session_bytes", bytes, float64(s.PrimaryBytes), "role", "primary")
	put(prometheus.GaugeValue, "session_bytes", bytes, float64(s.SecondaryBytes), "role", "secondary")
	put(prometheus.GaugeValue, "sweep_seconds", "How long it took the last time to look for sessions that are over.", s.SweepTook.Seconds())
	gauge("tombstones", "Sessions that this node knows to have ended.", s.Tombstones)
	count("sessions_created_total", "Sessions made here.", s.Created)
	count("sessions_refused_total", "Sessions not made because this node has as many as it may.", s.TooMany)
	count("copies_refused_total", "Copies not taken, likewise.", s.NoRoom)
	count("sessions_ended_total", "Requests whose session had been invalidated, or was by them.", s.Ended)
	count("sessions_expired_total", "Sessions found to be over here.", s.Expired)
	count("sessions_lost_total", "Requests whose session nobody holds.", s.Lost)
	count("sessions_flagged_total", "Requests that went on with a state that does not descend from what the client had seen.", s.Flagged)
	count("sessions_conflicts_total", "Sessions of which accepted changes were lost when a partition healed.", s.Conflicts)
	count("late_changes_total", "Requests that failed because others had changed the same attributes since, on a node that the session had moved to.", s.Late)
	count("unprotected_replies_total", "Replies that no other node has acknowledged.", s.Unprotected)
	count("flushes_total", "Times that changes or a reply waited for an acknowledgement.", s.Flushes)
	count("no_replica_total", "Requests refused, and sessions not made or changed, because no other node could hold the copy.", s.NoReplica)
	gauge("replication_queue", "Sessions that wait to be copied, in the asynchronous modes.", s.Queued)
	put(prometheus.GaugeValue, "replication_queue_seconds", "How long the oldest of them has waited: what was changed since is lost if this node dies.", s.QueueLag.Seconds())
	count("replication_queue_full_total", "Replies that waited for copies because that queue was full.", s.QueueFull)
	count("replication_coalesced_total", "Changes that became one message with those that waited before them.", s.Coalesced)
	count("replication_batches_total", "Times that the queue was emptied, or as much as the other nodes take.", s.Batches)
	count("replication_pool_waits_total", "Replies that waited for their turn in pooled mode.", s.PoolWaits)
	count("replication_sent_bytes_total", "Bytes of all that was sent to other nodes about sessions, without frames and TLS.", s.Sent)
	count("replication_skipped_total", "Messages of a later version that this node can do without.", s.Skipped)
	count("updates_total", "Records and changes sent to copies.", s.Updates)
	count("takes_total", "Sessions asked for from other nodes.", s.Takes)
	count("grants_total", "Sessions given to other nodes.", s.Grants)
	count("strikes_total", "Copies given up because their node did not answer.", s.Strikes)
	r := c.sessions.Redundancy()
	restoring := 0
	if r.Restoring {
		restoring = 1
	}
	gauge("sessions_lacking_copy", "Sessions that this node has to find another holder for.", r.Lacking)
	gauge("restoring", "1 while this node finds other holders for sessions; 0 when it has, or nobody could hold them.", restoring)
	gauge("restored_sessions_per_second", "Sessions that were dealt with in the background in the last second.", s.RestoreRate)
	count("restored_sessions_total", "Sessions that got another holder in the background.", s.Restored)
	count("not_executed_total", "Requests refused before their handler ran.", s.NotExecuted)
	count("failed_replies_total", "Replies that could not be acknowledged.", s.Failed)
	count("forged_references_total", "Session references that looked signed and did not verify.", s.Forged)
	count("events_dropped_total", "Events of sessions that a listener did not take in time.", s.Unheard)
	count("replication_garbage_total", "Connections and messages on the replication port that were no replication.",
		s.Garbage+s.Peer.Garbage+s.Peer.Refused)

	up, worse := 0, 0
	peers := c.sessions.Peers()
	for _, p := range peers {
		if p.State == peer.Up {
			up++
		}
	}
	if degraded(peers) != "" {
		worse = 1
	}
	gauge("peers_up", "Other nodes that are connected and have compared sessions with this one.", up)
	gauge("replication_degraded", "1 while this node is not connected with one that may live, or with none at all; /healthz says with whom.", worse)
	g := c.members.Stats()
	gauge("members", "Living members, this one included.", len(c.members.Members()))
	count("gossip_garbage_total", "Packets and streams on the gossip port that were no gossip.", g.Packets+g.Streams+g.Garbage)
}
