package admin

import (
	"runtime"
	"strings"
	"time"

	"lockproxy/cluster/master"
	"lockproxy/cluster/pipe"
	"lockproxy/commands/lock"
	"lockproxy/proxy"
	"lockproxy/proxy/stats"
	"lockproxy/redlock/locks"
)

// metrics are all of the proxy's own; docs/operations.md has the same table for people. Labels are
// bounded: commands are those of the table (what is not in it counts as "other"), nodes are those of the
// upstream; keys and locks are never labels.
var metrics = []metric{
	{gauge, "build_info", "1, with what the binary was built from.",
		[]string{"version", "commit", "goversion"},
		func(s *scrape, to teller) { to.number(1, s.version, s.commit, runtime.Version()) }},
	// Not what /readyz says without strict: an alert wants to know of each part that is not served.
	{gauge, "ready", "1 if all commands can be served now, as /readyz?strict says.", nil,
		one(func(s *scrape) int64 { return oneIf(s.ready) })},
	// Negative once it has ended: an alert on a low number goes on then.
	{gauge, "certificate_remaining_seconds", "How long a certificate in use is still good: the first to " +
		"end of its chain, of an authority's file the last.", []string{"setting"},
		func(s *scrape, to teller) {
			for _, read := range s.reloads {
				for setting, end := range read.Ends {
					to.number(time.Until(end).Seconds(), setting)
				}
			}
		}},
	{gauge, "reload_success", "1 if what was read last could be used, 0 if what was read before it stays " +
		"in use: settings, certificates, passwords.", []string{"of"},
		func(s *scrape, to teller) {
			for _, read := range s.reloads {
				to.number(float64(oneIf(!read.Failed)), read.Of)
			}
		}},

	{gauge, "clients", "Clients that are connected.", nil, one(func(s *scrape) int { return s.Clients })},
	{counter, "clients_accepted_total", "Clients that connected.", nil,
		one(func(s *scrape) uint64 { return s.ClientsTotal })},
	{counter, "clients_rejected_total", "Clients turned away because of maxclients.", nil,
		one(func(s *scrape) uint64 { return s.ClientsRejected })},
	{gauge, "blocked_clients", "Clients in a command that blocks, such as BLPOP.", nil,
		one(func(s *scrape) int { return s.Blocked + s.Queued })},
	// waiting: clients that need one and have none, since all are used.
	{gauge, "own_connections", "Connections to the upstream for one client each: used, idle, or waiting " +
		"for a place (upstream-own-connections).", []string{"state"},
		each(func(s *scrape) map[string]int64 {
			return map[string]int64{"used": s.Own.Used, "idle": s.Own.Idle, "waiting": s.Own.Waiting}
		})},
	{counter, "clients_closed_full_total", "Clients closed because of client-output-buffer-limit.",
		[]string{"class"}, each(func(s *scrape) map[string]uint64 { return s.ClosedFull })},
	{gauge, "clients_memory_bytes", "Memory that all clients take.", nil,
		one(func(s *scrape) int64 { return s.Memory })},
	{gauge, "clients_memory_limit_bytes", "Memory that they may take (maxmemory-clients); 0: any.", nil,
		one(func(s *scrape) int64 { return s.MaxMemory })},
	{counter, "clients_evicted_total", "Clients closed because of maxmemory-clients.", nil,
		one(func(s *scrape) uint64 { return s.Evicted })},
	{gauge, "script_cache_bytes", "Sources of scripts that are kept.", nil,
		one(func(s *scrape) int { return s.ScriptBytes })},
	{counter, "auth_timeouts_total", "Clients closed because they did not authenticate within auth-timeout.",
		nil, one(func(s *scrape) uint64 { return s.AuthTimeouts })},
	{counter, "auth_failures_total", "Attempts to get in that failed: at the proxy's password, at a user " +
		"of the upstream, at the TLS handshake.", []string{"kind"},
		each(func(s *scrape) map[string]uint64 { return s.AuthFailures })},
	{gauge, "subscriptions", "Channels, patterns and shard channels that clients listen to.",
		[]string{"kind"}, each(func(s *scrape) map[string]int64 { return s.Subscriptions })},
	{counter, "messages_total", "Published messages given to clients, each as often as there were listeners.",
		nil, one(func(s *scrape) uint64 { return s.Messages })},
	{counter, "received_bytes_total", "Bytes from clients.", nil,
		one(func(s *scrape) uint64 { return s.BytesIn })},
	{counter, "sent_bytes_total", "Bytes to clients.", nil,
		one(func(s *scrape) uint64 { return s.BytesOut })},

	// Commands that do not exist count as "other", or anybody could make as many labels as there are words.
	{counter, "commands_total", "Commands answered.", []string{"command"},
		ofCommands(func(c *stats.CommandCount) uint64 { return c.Calls })},
	{counter, "command_errors_total", "Commands answered with an error.", []string{"command"},
		ofCommands(func(c *stats.CommandCount) uint64 { return c.Errors })},
	{histogram, "command_duration_seconds", "From a command's arrival to its answer, without waiting for " +
		"locks (lock_wait_seconds).", []string{"command"}, commandTimes},
	{counter, "redirects_total", "Requests sent again, by what the node had answered.", []string{"kind"},
		each(func(s *scrape) map[string]uint64 { return s.Redirects })},
	{counter, "given_up_total", "Commands answered with an error because their retry-budget was used up.",
		nil, one(func(s *scrape) uint64 { return s.GivenUp })},
	{counter, "shed_total", "Commands refused (-BUSY) because their node is overloaded.", nil,
		one(func(s *scrape) uint64 { return s.Shed })},

	{counter, "node_requests_total", "Replies of a node.", []string{"node"},
		ofNodes(func(n *pipe.NodeStats) uint64 { return n.Requests })},
	{counter, "node_errors_total", "Error replies of a node.", []string{"node"},
		ofNodes(func(n *pipe.NodeStats) uint64 { return n.Errors })},
	{counter, "node_connects_total", "Connections made to a node.", []string{"node"},
		ofNodes(func(n *pipe.NodeStats) uint64 { return n.Connects })},
	{counter, "node_connect_errors_total", "Connections to a node that failed.", []string{"node"},
		ofNodes(func(n *pipe.NodeStats) uint64 { return n.DialErrors })},
	{counter, "node_garbled_total", "Connections to a node given up because its replies were none, or out " +
		"of step.", []string{"node"}, ofNodes(func(n *pipe.NodeStats) uint64 { return n.Garbled })},
	{gauge, "node_connections", "Connections to a node that are open.", []string{"node"},
		ofNodes(func(n *pipe.NodeStats) int64 { return n.Connections })},

	// Of locks: the counters of package locks, by their number there.
	{gauge, "lock_waiters", "Clients that wait for a lock.", nil, ofLocks(locks.Waiters)},
	{counter, "lock_waits_total", "LOCKs that had to wait.", nil, ofLocks(locks.Waits)},
	{counter, "lock_wait_timeouts_total", "LOCKs that waited in vain.", nil, ofLocks(locks.TimedOut)},
	{counter, "lock_no_replicas_total", "Grants given back because too few replicas had them (SYNC).", nil,
		ofLocks(locks.NoReplicas)},
	{gauge, "lock_kept", "Holds that are kept alive.", nil, ofLocks(locks.Kept)},
	{gauge, "lock_lingering", "Holds that are kept alive although their connections broke (LINGER).", nil,
		ofLocks(locks.Lingering)},
	{counter, "lock_renewals_total", "Renewals of holds that are kept alive.", nil, ofLocks(locks.Renewals)},
	{counter, "lock_lost_total", "Holds that were lost although they were kept alive.", []string{"reason"},
		func(s *scrape, to teller) {
			for c, n := range s.Locks {
				if why, ok := locks.Tally(c).Loss(); ok {
					to.number(float64(n), why)
				}
			}
		}},
	{counter, "lock_outcomes_total", "How lock verbs ended.", []string{"verb", "outcome"},
		func(s *scrape, to teller) {
			for c, n := range s.Locks {
				if verb, outcome, ok := strings.Cut(locks.Counters[c].Outcome, " "); ok {
					to.number(float64(n), verb, outcome)
				}
			}
		}},
	{histogram, "lock_wait_seconds", "From a LOCK's arrival to its grant, or until it has waited in vain, " +
		"by the prefixes of metrics-lock-prefixes.", []string{"verb", "prefix", "outcome"},
		lockTimes(func(t *lock.Times) []lock.Durations { return t.Waits })},
	{histogram, "lock_hold_seconds", "From a grant to its end, as far as this proxy sees it, by the same " +
		"prefixes.", []string{"verb", "prefix", "outcome"},
		lockTimes(func(t *lock.Times) []lock.Durations { return t.Holds })},
	{counter, "lock_holds_unmeasured_total", "Holds left out of lock_hold_seconds, since there were too " +
		"many at a time.", nil, one(func(s *scrape) uint64 { return s.LockTimes.Unmeasured })},
	{counter, "audit_events_total", "Events for the audit log, if there is one: written, or lost since " +
		"they could not be.", []string{"outcome"},
		ofEvents("written", func(s *scrape) proxy.EventCounts { return s.Audit })},
	{counter, "lock_events_total", "Events for LOCKCTL WATCH, with lock-events: published, or lost since " +
		"they could not be.", []string{"outcome"},
		ofEvents("published", func(s *scrape) proxy.EventCounts { return s.LockEvents })},
	{counter, "lock_unnoted_total", "Holds that LOCKCTL LIST may lack, since a million others were held.",
		nil, one(func(s *scrape) uint64 { return s.Unnoted })},
	{counter, "peer_questions_dropped_total", "Questions of other proxies about locks that came too fast, " +
		"or had too long an answer.", nil, one(func(s *scrape) uint64 { return s.PeersDropped })},
	{gauge, "peers_differing", "Other proxies that keep locks in another way, as their settings say: two " +
		"clients may get one lock.", nil, one(func(s *scrape) int { return s.PeersDiffer })},

	// Without RedLock these have no values.
	{gauge, "redlock_node_up", "1 if the master of RedLock answers.", []string{"node"},
		ofMasters(func(m *master.Health) bool { return m.Up })},
	{gauge, "redlock_node_votes", "1 if its answers count, 0 also for a while after a restart or a step of " +
		"its clock.", []string{"node"}, ofMasters(func(m *master.Health) bool { return m.Votes })},
	{gauge, "node_evicts", "1 if a master may evict locks (maxmemory-policy, maxmemory).", []string{"node"},
		func(s *scrape, to teller) {
			for node, evicts := range s.Evicts {
				to.number(float64(oneIf(evicts)), node)
			}
		}},
}

// ofCommands are the values of each command that was used: hundreds never are.
func ofCommands(value func(c *stats.CommandCount) uint64) func(*scrape, teller) {
	return func(s *scrape, to teller) {
		for _, c := range s.Commands {
			if c.Calls > 0 {
				to.number(float64(value(&c)), c.Name)
			}
		}
	}
}

// commandTimes are the durations of each command that was used.
func commandTimes(s *scrape, to teller) {
	for _, c := range s.Commands {
		if c.Calls > 0 {
			to.times(c.Calls, c.Took.Seconds(), cumulative(c.Buckets[:]), c.Name)
		}
	}
}

// cumulative makes the buckets of Prometheus, each of which holds those below it. The last one has no bound.
func cumulative(buckets []uint64) map[float64]uint64 {
	all := make(map[float64]uint64, len(buckets))
	sum := uint64(0)
	// Prometheus adds the one without a bound, +Inf, by itself: it is the count.
	for i, n := range buckets[:len(buckets)-1] {
		sum += n
		all[stats.BucketLimit(i).Seconds()] = sum
	}
	return all
}

// ofNodes are the values of each node that the proxy has had to do with, by its address.
func ofNodes[N amount](value func(n *pipe.NodeStats) N) func(*scrape, teller) {
	return func(s *scrape, to teller) {
		for _, n := range s.Nodes {
			to.number(float64(value(&n)), n.Addr)
		}
	}
}

// ofMasters are yes or no of each master of RedLock, as 1 or 0.
func ofMasters(is func(m *master.Health) bool) func(*scrape, teller) {
	return func(s *scrape, to teller) {
		for _, m := range s.Masters {
			to.number(float64(oneIf(is(&m))), m.Addr)
		}
	}
}

// ofEvents are events told and lost. Without the log or the watch that they are for there are no values, in
// place of zeros that would look as if all were well.
func ofEvents(told string, counts func(s *scrape) proxy.EventCounts) func(*scrape, teller) {
	return func(s *scrape, to teller) {
		if n := counts(s); n.On {
			to.number(float64(n.Told), told)
			to.number(float64(n.Lost), "lost")
		}
	}
}

func ofLocks(c locks.Tally) func(*scrape, teller) {
	return one(func(s *scrape) uint64 { return s.Locks[c] })
}

// lockTimes are histograms of lock verbs, waits or holds.
func lockTimes(of func(t *lock.Times) []lock.Durations) func(*scrape, teller) {
	return func(s *scrape, to teller) {
		for _, t := range of(&s.LockTimes) {
			to.times(t.Count, t.Sum, t.Below, t.Verb, t.Prefix, t.Outcome)
		}
	}
}
