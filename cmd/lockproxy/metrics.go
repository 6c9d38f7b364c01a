package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Source is where the metrics come from. Snapshot is called once for each scrape,
// from any goroutine.
type Source interface{ Snapshot() Snapshot }

// Snapshot is what the data plane has counted since it started. Labels are bounded:
// commands are those of the table (what is not in it counts as "other"), nodes are
// those of the upstream; keys and locks are never labels.
type Snapshot struct {
	Clients         int64             // connected now
	ClientsAccepted uint64            // since the start
	ClientsRejected uint64            // over maxclients
	Blocked         int64             // clients in a command that blocks now
	OwnUsed         int64             // connections to the upstream that one client each has for itself now
	OwnIdle         int64             // of that kind those that nobody has now
	OwnWaiting      int64             // wanted now, and there is no place for them
	ClosedFull      map[string]uint64 // clients closed because of client-output-buffer-limit, by class
	Memory          int64             // bytes that all clients take now
	MaxMemory       int64             // bytes that they may take; 0: any number
	Evicted         uint64            // clients closed because of maxmemory-clients
	ScriptBytes     int64             // sources of scripts that are remembered
	AuthTimeouts    uint64            // clients closed because of auth-timeout
	AuthFailures    map[string]uint64 // attempts to get in that failed, by kind
	Subscriptions   map[string]int64  // of clients now, by kind
	Messages        uint64            // published ones that clients were given
	Waiting         int64             // clients that wait for a lock now
	Waits           uint64            // LOCKs that had to wait
	WaitTimeouts    uint64            // of them those that waited in vain
	NoReplicas      uint64            // grants given back for want of replicas
	Kept            int64             // holds that are kept alive now
	Renewals        uint64            // of such holds
	Lost            map[string]uint64 // of such holds, by reason
	BytesIn         uint64            // from clients
	BytesOut        uint64            // to clients
	Bounds          []float64         // upper bounds of CommandCount.Buckets in seconds, rising
	Commands        []CommandCount
	Nodes           []NodeCount
	Redirects       map[string]uint64 // by kind: moved, ask, tryagain, ...
	GivenUp         uint64            // commands whose retry-budget was used up
	Locks           []LockCount
	Masters         []MasterState // of RedLock
}

// MasterState is how a master of RedLock is now.
type MasterState struct {
	Addr      string
	Up, Votes bool
}

// CommandCount counts one command, or subcommand ("config|get").
type CommandCount struct {
	Name    string
	Calls   uint64
	Errors  uint64   // of the calls
	Seconds float64  // from read to answered, all calls together
	Buckets []uint64 // calls by duration, not cumulative; one more than Bounds for the rest
}

// NodeCount counts what one node of the upstream did.
type NodeCount struct {
	Addr          string
	Requests      uint64 // replies that came
	Errors        uint64 // error replies among them
	Connects      uint64
	ConnectErrors uint64
	Connections   int64 // open now
}

// LockCount counts how often a verb ended so.
type LockCount struct {
	Verb    string // lock, rlock, unlock, renew
	Outcome string // granted, refused, failed, released, renewed, not_held
	Count   uint64
}

// newRegistry returns the metrics of /metrics: those of s, of the build and of
// the process.
func newRegistry(s Source, ready func() error) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collector{s, ready},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lockproxy_"+name, help, labels, nil)
}

var (
	buildInfo       = desc("build_info", "1, with what the binary was built from.", "version", "commit", "goversion")
	readyGauge      = desc("ready", "1 if commands can be served now, as /readyz says.")
	clients         = desc("clients", "Clients that are connected.")
	clientsAccepted = desc("clients_accepted_total", "Clients that connected.")
	clientsRejected = desc("clients_rejected_total", "Clients turned away because of maxclients.")
	clientsBlocked  = desc("blocked_clients", "Clients in a command that blocks, such as BLPOP.")
	ownConnections  = desc("own_connections", "Connections to the upstream for one client each: used, idle, or waiting for a place (upstream-own-connections).", "state")
	closedFull      = desc("clients_closed_full_total", "Clients closed because of client-output-buffer-limit.", "class")
	memory          = desc("clients_memory_bytes", "Memory that all clients take.")
	maxMemory       = desc("clients_memory_limit_bytes", "Memory that they may take (maxmemory-clients); 0: any.")
	evicted         = desc("clients_evicted_total", "Clients closed because of maxmemory-clients.")
	scriptBytes     = desc("script_cache_bytes", "Sources of scripts that are kept.")
	authTimeouts    = desc("auth_timeouts_total", "Clients closed because they did not authenticate within auth-timeout.")
	authFailures    = desc("auth_failures_total",
		"Attempts to get in that failed: at the proxy's password, at a user of the upstream, at the TLS handshake.", "kind")
	subscriptions   = desc("subscriptions", "Channels, patterns and shard channels that clients listen to.", "kind")
	messages        = desc("messages_total", "Published messages given to clients, each as often as there were listeners.")
	received        = desc("received_bytes_total", "Bytes from clients.")
	sent            = desc("sent_bytes_total", "Bytes to clients.")
	commandCalls    = desc("commands_total", "Commands answered.", "command")
	commandErrors   = desc("command_errors_total", "Commands answered with an error.", "command")
	commandSeconds  = desc("command_duration_seconds", "From a command's arrival to its answer, waiting for locks included.", "command")
	redirects       = desc("redirects_total", "Requests sent again, by what the node had answered.", "kind")
	givenUp         = desc("given_up_total", "Commands answered with an error because their retry-budget was used up.")
	nodeRequests    = desc("node_requests_total", "Replies of a node.", "node")
	nodeErrors      = desc("node_errors_total", "Error replies of a node.", "node")
	nodeConnects    = desc("node_connects_total", "Connections made to a node.", "node")
	nodeDialErrors  = desc("node_connect_errors_total", "Connections to a node that failed.", "node")
	nodeConnections = desc("node_connections", "Connections to a node that are open.", "node")
	lockWaiters     = desc("lock_waiters", "Clients that wait for a lock.")
	lockWaits       = desc("lock_waits_total", "LOCKs that had to wait.")
	lockTimeouts    = desc("lock_wait_timeouts_total", "LOCKs that waited in vain.")
	lockNoReplicas  = desc("lock_no_replicas_total", "Grants given back because too few replicas had them (SYNC).")
	lockKept        = desc("lock_kept", "Holds that are kept alive.")
	lockRenewals    = desc("lock_renewals_total", "Renewals of holds that are kept alive.")
	lockLost        = desc("lock_lost_total", "Holds that were lost although they were kept alive.", "reason")
	redlockUp       = desc("redlock_node_up", "1 if the master of RedLock answers.", "node")
	redlockVotes    = desc("redlock_node_votes", "1 if its answers count, 0 also for a while after a restart or a step of its clock.", "node")
	lockOutcomes    = desc("lock_outcomes_total", "How lock verbs ended.", "verb", "outcome")
)

// collector turns a Snapshot into metrics.
type collector struct {
	source Source
	ready  func() error
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, readyGauge, clients, clientsAccepted, clientsRejected, clientsBlocked, ownConnections, closedFull, authFailures, authTimeouts, memory, maxMemory,
		evicted, scriptBytes, received, sent, subscriptions, messages,
		commandCalls, commandErrors, commandSeconds, redirects, givenUp,
		nodeRequests, nodeErrors, nodeConnects, nodeDialErrors, nodeConnections,
		lockWaiters, lockWaits, lockTimeouts, lockNoReplicas, lockKept, lockRenewals, lockLost, lockOutcomes, redlockUp, redlockVotes,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.source.Snapshot()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(buildInfo, 1, version, buildCommit(), runtime.Version())
	gauge(readyGauge, oneIf(c.ready() == nil))
	gauge(clients, s.Clients)
	count(clientsAccepted, s.ClientsAccepted)
	count(clientsRejected, s.ClientsRejected)
	gauge(clientsBlocked, s.Blocked)
	gauge(ownConnections, s.OwnUsed, "used")
	gauge(ownConnections, s.OwnIdle, "idle")
	gauge(ownConnections, s.OwnWaiting, "waiting")
	for class, n := range s.ClosedFull {
		count(closedFull, n, class)
	}
	gauge(memory, s.Memory)
	gauge(maxMemory, s.MaxMemory)
	count(evicted, s.Evicted)
	gauge(scriptBytes, s.ScriptBytes)
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
		ch <- prometheus.MustNewConstHistogram(commandSeconds, cmd.Calls, cmd.Seconds, cumulative(s.Bounds, cmd.Buckets), cmd.Name)
	}
	for kind, n := range s.Redirects {
		count(redirects, n, kind)
	}
	count(givenUp, s.GivenUp)
	for _, node := range s.Nodes {
		count(nodeRequests, node.Requests, node.Addr)
		count(nodeErrors, node.Errors, node.Addr)
		count(nodeConnects, node.Connects, node.Addr)
		count(nodeDialErrors, node.ConnectErrors, node.Addr)
		gauge(nodeConnections, node.Connections, node.Addr)
	}
	gauge(lockWaiters, s.Waiting)
	count(lockWaits, s.Waits)
	count(lockTimeouts, s.WaitTimeouts)
	count(lockNoReplicas, s.NoReplicas)
	gauge(lockKept, s.Kept)
	count(lockRenewals, s.Renewals)
	for why, n := range s.Lost {
		count(lockLost, n, why)
	}
	for _, m := range s.Masters {
		gauge(redlockUp, oneIf(m.Up), m.Addr)
		gauge(redlockVotes, oneIf(m.Votes), m.Addr)
	}
	for _, l := range s.Locks {
		count(lockOutcomes, l.Count, l.Verb, l.Outcome)
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// cumulative makes the buckets of Prometheus, each of which holds those below it.
func cumulative(bounds []float64, buckets []uint64) map[float64]uint64 {
	all := make(map[float64]uint64, len(bounds))
	sum := uint64(0)
	for i, bound := range bounds {
		if i < len(buckets) {
			sum += buckets[i]
		}
		all[bound] = sum
	}
	return all
}
