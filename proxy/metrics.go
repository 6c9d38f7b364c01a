package proxy

import (
	"lockproxy/cluster/master"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pubsub"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/commands/lock"
	"lockproxy/proxy/memory"
	"lockproxy/proxy/stats"
)

// Stats is what the proxy has counted since it started: what INFO shows as well, and more for the metrics.
type Stats struct {
	commands.Stats
	ClosedFull    map[string]uint64 // by class: normal, pubsub, unauthenticated
	AuthFailures  map[string]uint64 // by kind: password, user, tls
	ScriptBytes   int               // sources that are remembered
	AuthTimeouts  uint64            // clients closed because they did not authenticate in time
	Subscriptions map[string]int64  // of clients now, by kind: channel, pattern, shard
	Messages      uint64            // given to clients
	Own           owned.Stats
	Commands      []stats.CommandCount
	Nodes         []pipe.NodeStats
	GivenUp       uint64          // requests whose retry budget was used up
	Shed          uint64          // commands that were refused because their node is overloaded
	Masters       []master.Health // of RedLock
	Evicts        map[string]bool // by address of each master whether it may evict locks, if it tells
	LockTimes     lock.Times      // for how long locks were waited for and held
	Audit         EventCounts
	LockEvents    EventCounts // for LOCKCTL WATCH
	Unnoted       uint64      // holds that LOCKCTL LIST may lack
	PeersDropped  uint64      // questions of other proxies that were not answered
	PeersDiffer   int         // other proxies that have other settings of locks
}

// Stats returns the counters as they are now. They are read one after the other while clients are served, so
// they need not fit each other exactly. Safe for concurrent use.
func (s *Server) Stats() Stats {
	st := Stats{
		Stats:   s.totals(),
		Own:     s.shared.Pipes.Own(),
		Nodes:   s.shared.Pipes.Nodes(),
		GivenUp: s.shared.Pipes.GivenUp.Load(), Shed: s.shared.Pipes.Shed.Load(),
		Masters: s.locks.health(),
		Evicts:  s.evictions.Stats(),
	}
	st.Audit, st.LockEvents = s.events.counts()
	st.LockTimes = s.locks.engines.Ledger.Times()
	st.Unnoted, st.PeersDropped = s.locks.index.Unnoted(), s.locks.peers.Dropped()
	st.PeersDiffer = len(s.locks.peers.Differing())
	for _, m := range st.Masters {
		st.Evicts[m.Addr] = m.Evicts
	}
	st.ClosedFull = make(map[string]uint64)
	for class := range s.shared.Memory.Full {
		st.ClosedFull[memory.Class(class).String()] = s.shared.Memory.Full[class].Load()
	}
	st.ScriptBytes = s.shared.Scripts.Bytes()
	st.AuthTimeouts = s.shared.Login.Timeouts.Load()
	st.AuthFailures = s.shared.Login.Failures.Totals()
	st.Subscriptions, st.Messages = subscriptions(s.workers)
	st.Commands = s.shared.Counters.Commands()
	return st
}

// totals are what INFO shows as well, since the start, regardless of CONFIG RESETSTAT.
func (s *Server) totals() commands.Stats {
	st := commands.Stats{
		Clients:         s.Clients(),
		Blocked:         int(s.shared.Blocked.AtNode.Load()),
		Queued:          int(s.shared.Blocked.Queued.Load()),
		Tracking:        int(s.shared.Trackers.On.Load()),
		Held:            int(s.shared.Clients.Held.Load()),
		ClientsTotal:    s.Came(),
		ClientsRejected: s.Rejected(),
		Evicted:         s.shared.Memory.Evicted.Load(),
		Memory:          s.shared.Memory.Used(),
		MaxMemory:       s.shared.Memory.Limit(),
		Redirects:       make(map[string]uint64),
		Locks:           s.locks.engines.Stats(),
	}
	for i := range s.shared.Pipes.Redirects {
		st.Redirects[retry.Reason(i).String()] = s.shared.Pipes.Redirects[i].Load()
	}
	for _, w := range s.workers {
		st.BytesIn += w.bytesIn.Load()
		st.BytesOut += w.bytesOut.Load()
	}
	st.Calls = s.shared.Counters.Calls()
	return st
}

// subscriptions counts the subscriptions of the clients of workers, by kind, and the messages that they were
// given. Any goroutine may call it: the loops keep these counts as atomics.
func subscriptions(workers []*worker) (now map[string]int64, messages uint64) {
	kinds := []string{pubsub.Classic: "channel", pubsub.Pattern: "pattern", pubsub.Shard: "shard"}
	now = make(map[string]int64)
	for _, w := range workers {
		taken, given := w.hub.Counts()
		for kind, name := range kinds {
			now[name] += taken[kind]
		}
		messages += given
	}
	return now, messages
}
