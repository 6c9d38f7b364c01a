package main

import (
	"runtime"

	"lockproxy/proxy"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Source is where the metrics come from. Stats is called once for each scrape, from any goroutine. Labels are
// bounded: commands are those of the table (what is not in it counts as "other"), nodes are those of the
// upstream; keys and locks are never labels.
type Source interface{ Stats() proxy.Stats }

// newRegistry returns the metrics of /metrics: those of s, of the build, of the process, and more.
func newRegistry(s Source, ready func() error, more ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collector{s, ready},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.MustRegister(more...)
	return r
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lockproxy_"+name, help, labels, nil)
}

var (
	buildInfo = desc("build_info", "1, with what the binary was built from.", "version", "commit",
		"goversion")
	readyGauge      = desc("ready", "1 if all commands can be served now, as /readyz?strict says.")
	clients         = desc("clients", "Clients that are connected.")
	clientsAccepted = desc("clients_accepted_total", "Clients that connected.")
	clientsRejected = desc("clients_rejected_total", "Clients turned away because of maxclients.")
	clientsBlocked  = desc("blocked_clients", "Clients in a command that blocks, such as BLPOP.")
	ownConnections  = desc("own_connections",
		"Connections to the upstream for one client each: used, idle, or waiting for a place "+
			"(upstream-own-connections).", "state")
	closedFull = desc("clients_closed_full_total",
		"Clients closed because of client-output-buffer-limit.", "class")
	memory    = desc("clients_memory_bytes", "Memory that all clients take.")
	maxMemory = desc("clients_memory_limit_bytes",
		"Memory that they may take (maxmemory-clients); 0: any.")
	evicted      = desc("clients_evicted_total", "Clients closed because of maxmemory-clients.")
	scriptBytes  = desc("script_cache_bytes", "Sources of scripts that are kept.")
	authTimeouts = desc("auth_timeouts_total",
		"Clients closed because they did not authenticate within auth-timeout.")
	authFailures = desc("auth_failures_total",
		"Attempts to get in that failed: at the proxy's password, at a user of the upstream, at the TLS "+
			"handshake.", "kind")
	subscriptions = desc("subscriptions", "Channels, patterns and shard channels that clients listen to.",
		"kind")
	messages = desc("messages_total",
		"Published messages given to clients, each as often as there were listeners.")
	received       = desc("received_bytes_total", "Bytes from clients.")
	sent           = desc("sent_bytes_total", "Bytes to clients.")
	commandCalls   = desc("commands_total", "Commands answered.", "command")
	commandErrors  = desc("command_errors_total", "Commands answered with an error.", "command")
	commandSeconds = desc("command_duration_seconds",
		"From a command's arrival to its answer, without waiting for locks (lock_wait_seconds).", "command")
	redirects = desc("redirects_total", "Requests sent again, by what the node had answered.", "kind")
	givenUp   = desc("given_up_total",
		"Commands answered with an error because their retry-budget was used up.")
	shed           = desc("shed_total", "Commands refused (-BUSY) because their node is overloaded.")
	nodeRequests   = desc("node_requests_total", "Replies of a node.", "node")
	nodeErrors     = desc("node_errors_total", "Error replies of a node.", "node")
	nodeConnects   = desc("node_connects_total", "Connections made to a node.", "node")
	nodeDialErrors = desc("node_connect_errors_total", "Connections to a node that failed.", "node")
	nodeGarbled    = desc("node_garbled_total", "Connections to a node given up because its replies "+
		"were none, or out of step.", "node")
	nodeConnections = desc("node_connections", "Connections to a node that are open.", "node")
	lockWaiters     = desc("lock_waiters", "Clients that wait for a lock.")
	lockWaits       = desc("lock_waits_total", "LOCKs that had to wait.")
	lockTimeouts    = desc("lock_wait_timeouts_total", "LOCKs that waited in vain.")
	lockNoReplicas  = desc("lock_no_replicas_total",
		"Grants given back because too few replicas had them (SYNC).")
	lockWait = desc("lock_wait_seconds",
		"From a LOCK's arrival to its grant, or until it has waited in vain, by the prefixes of "+
			"metrics-lock-prefixes.", "verb", "prefix", "outcome")
	lockHold = desc("lock_hold_seconds",
		"From a grant to its end, as far as this proxy sees it, by the same prefixes.",
		"verb", "prefix", "outcome")
	auditEvents = desc("audit_events_total",
		"Events for the audit log, if there is one: written, or lost since they could not be.", "outcome")
	lockEvents = desc("lock_events_total",
		"Events for LOCKCTL WATCH, with lock-events: published, or lost since they could not be.", "outcome")
	lockUnmeasured = desc("lock_holds_unmeasured_total",
		"Holds left out of lock_hold_seconds, since there were too many at a time.")
	lockUnnoted = desc("lock_unnoted_total",
		"Holds that LOCKCTL LIST may lack, since a million others were held.")
	peersDropped = desc("peer_questions_dropped_total",
		"Questions of other proxies about locks that came too fast, or had too long an answer.")
	peersDiffer = desc("peers_differing",
		"Other proxies that keep locks in another way, as their settings say: two clients may get one lock.")
	lockKept      = desc("lock_kept", "Holds that are kept alive.")
	lockLingering = desc("lock_lingering",
		"Holds that are kept alive although their connections broke (LINGER).")
	lockRenewals = desc("lock_renewals_total", "Renewals of holds that are kept alive.")
	lockLost     = desc("lock_lost_total", "Holds that were lost although they were kept alive.", "reason")
	redlockUp    = desc("redlock_node_up", "1 if the master of RedLock answers.", "node")
	redlockVotes = desc("redlock_node_votes",
		"1 if its answers count, 0 also for a while after a restart or a step of its clock.", "node")
	nodeEvicts   = desc("node_evicts", "1 if a master may evict locks (maxmemory-policy, maxmemory).", "node")
	lockOutcomes = desc("lock_outcomes_total", "How lock verbs ended.", "verb", "outcome")
)

// collector turns Stats into metrics.
type collector struct {
	source Source
	ready  func() error
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, readyGauge, clients, clientsAccepted, clientsRejected, clientsBlocked, ownConnections,
		closedFull, authFailures, authTimeouts, memory, maxMemory,
		evicted, scriptBytes, received, sent, subscriptions, messages,
		commandCalls, commandErrors, commandSeconds, redirects, givenUp, shed,
		nodeRequests, nodeErrors, nodeConnects, nodeDialErrors, nodeGarbled, nodeConnections,
		lockWaiters, lockWaits, lockTimeouts, lockNoReplicas, lockKept, lockLingering, lockRenewals, lockLost,
		lockOutcomes, lockWait, lockHold, lockUnmeasured, auditEvents, lockEvents,
		lockUnnoted, peersDropped, peersDiffer,
		redlockUp, redlockVotes, nodeEvicts,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.source.Stats()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(buildInfo, 1, version, buildCommit(), runtime.Version())
	gauge(readyGauge, oneIf(c.ready() == nil))
	gauge(clients, int64(s.Clients))
	count(clientsAccepted, s.ClientsTotal)
	count(clientsRejected, s.ClientsRejected)
	gauge(clientsBlocked, int64(s.Blocked+s.Queued))
	gauge(ownConnections, s.Own.Used, "used")
	gauge(ownConnections, s.Own.Idle, "idle")
	gauge(ownConnections, s.Own.Waiting, "waiting")
	for class, n := range s.ClosedFull {
		count(closedFull, n, class)
	}
	gauge(memory, s.Memory)
	gauge(maxMemory, s.MaxMemory)
	count(evicted, s.Evicted)
	gauge(scriptBytes, int64(s.ScriptBytes))
	count(authTimeouts, s.AuthTimeouts)
	for kind, n := range s.AuthFailures {
		count(authFailures, n, kind)
	}
	for kind, n := range s.Subscriptions {
		gauge(subscriptions, n, kind)
	}
	count(messages, s.Messages)
	count(received, s.BytesIn)
	count(sent, s.BytesOut)
	for _, cmd := range s.Commands {
		if cmd.Calls == 0 {
			continue // hundreds of commands are never used
		}
		count(commandCalls, cmd.Calls, cmd.Name)
		count(commandErrors, cmd.Errors, cmd.Name)
		ch <- prometheus.MustNewConstHistogram(commandSeconds, cmd.Calls, cmd.Took.Seconds(),
			cumulative(cmd.Buckets[:]), cmd.Name)
	}
	for kind, n := range s.Redirects {
		count(redirects, n, kind)
	}
	count(givenUp, s.GivenUp)
	count(shed, s.Shed)
	for _, node := range s.Nodes {
		count(nodeRequests, node.Requests, node.Addr)
		count(nodeErrors, node.Errors, node.Addr)
		count(nodeConnects, node.Connects, node.Addr)
		count(nodeDialErrors, node.DialErrors, node.Addr)
		count(nodeGarbled, node.Garbled, node.Addr)
		gauge(nodeConnections, node.Connections, node.Addr)
	}
	gauge(lockWaiters, int64(s.Locks.Waiting))
	count(lockWaits, s.Locks.Waits)
	count(lockTimeouts, s.Locks.TimedOut)
	count(lockNoReplicas, s.Locks.Unsynced)
	gauge(lockKept, int64(s.Locks.Kept))
	gauge(lockLingering, int64(s.Locks.Lingering))
	count(lockRenewals, s.Locks.Renewals)
	for why, n := range s.Locks.Lost {
		count(lockLost, n, string(why))
	}
	times := func(d *prometheus.Desc, all []proxy.LockDurations) {
		for _, t := range all {
			ch <- prometheus.MustNewConstHistogram(d, t.Count, t.Sum.Seconds(), t.Below,
				t.Verb, t.Prefix, t.Outcome)
		}
	}
	times(lockWait, s.LockTimes.Waits)
	times(lockHold, s.LockTimes.Holds)
	count(lockUnmeasured, s.LockTimes.Unmeasured)
	count(lockUnnoted, s.Unnoted)
	count(peersDropped, s.PeersDropped)
	gauge(peersDiffer, int64(s.PeersDiffer))
	if s.Audit.On {
		count(auditEvents, s.Audit.Told, "written")
		count(auditEvents, s.Audit.Lost, "lost")
	}
	if s.LockEvents.On {
		count(lockEvents, s.LockEvents.Told, "published")
		count(lockEvents, s.LockEvents.Lost, "lost")
	}
	for _, m := range s.Masters {
		gauge(redlockUp, oneIf(m.Up), m.Addr)
		gauge(redlockVotes, oneIf(m.Votes), m.Addr)
	}
	for node, evicts := range s.Evicts {
		gauge(nodeEvicts, oneIf(evicts), node)
	}
	for _, l := range []struct {
		verb, outcome string // LOCK and WLOCK are one verb
		n             uint64
	}{
		{"lock", "granted", s.Locks.Granted.Write},
		{"lock", "refused", s.Locks.Refused.Write},
		{"lock", "failed", s.Locks.Failed.Write},
		{"rlock", "granted", s.Locks.Granted.Read},
		{"rlock", "refused", s.Locks.Refused.Read},
		{"rlock", "failed", s.Locks.Failed.Read},
		{"semlock", "granted", s.Locks.Granted.Permit},
		{"semlock", "refused", s.Locks.Refused.Permit},
		{"semlock", "failed", s.Locks.Failed.Permit},
		{"unlock", "released", s.Locks.Released},
		{"unlock", "not_held", s.Locks.NotHeld},
		{"renew", "renewed", s.Locks.Renewed},
		{"renew", "not_held", s.Locks.NotRenewed},
		{"guard", "run", s.Locks.Guarded},
		{"guard", "not_held", s.Locks.NotGuarded},
		{"mlock", "granted", s.Locks.Sets},
		{"mlock", "refused", s.Locks.NoSets},
		{"mlock", "failed", s.Locks.FailedSets},
	} {
		count(lockOutcomes, l.n, l.verb, l.outcome)
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// cumulative makes the buckets of Prometheus, each of which holds those below it. The last one has no bound.
func cumulative(buckets []uint64) map[float64]uint64 {
	all := make(map[float64]uint64, len(buckets))
	sum := uint64(0)
	for i, n := range buckets[:len(buckets)-1] {
		sum += n
		all[proxy.BucketLimit(i).Seconds()] = sum
	}
	return all
}
