package proxy

import (
	"time"

	"lockproxy/cluster"
	"lockproxy/redlock"
)

// Stats is what the proxy has counted since it started.
type Stats struct {
	Clients, ClientsTotal, ClientsRejected uint64
	ClosedFull                             map[string]uint64 // by class: normal, pubsub, unauthenticated
	AuthFailures                           map[string]uint64 // by kind: password, user, tls
	Memory, MaxMemory                      int64             // bytes that all clients take, and may take; 0: any number
	Evicted                                uint64            // clients closed because of that
	ScriptBytes                            int               // sources that are remembered
	AuthTimeouts                           uint64            // clients closed because they did not authenticate in time
	Subscriptions                          map[string]int64  // of clients now, by kind: channel, pattern, shard
	Messages                               uint64            // given to clients
	BytesIn, BytesOut                      uint64
	Blocked                                int // clients in a command that blocks
	Own                                    cluster.OwnStats
	Commands                               []CommandStats
	Nodes                                  []cluster.NodeStats
	Redirects                              map[string]uint64 // by reason
	GivenUp                                uint64            // requests whose retry budget was used up
	Locks                                  redlock.Stats
	Masters                                []cluster.MasterHealth // of RedLock
}

// CommandStats counts one command, by its name in the upstream's table.
type CommandStats struct {
	Name          string
	Calls, Errors uint64
	Took          time.Duration           // sum, from reading the command to the whole reply
	Buckets       [durationBuckets]uint64 // calls by duration, not cumulative; see BucketLimit
}

// Stats returns the counters as they are now.
func (s *Server) Stats() Stats {
	st := Stats{
		Clients:         uint64(max(s.clients.Load(), 0)),
		ClientsTotal:    uint64(s.lastID.Load()),
		ClientsRejected: s.rejected.Load(),
		Blocked:         int(s.blocked.Load() + s.queued.Load()),
		Own:             s.pipeStats.Own(),
		Nodes:           s.pipeStats.Nodes(),
		GivenUp:         s.pipeStats.GivenUp.Load(),
		Masters:         s.masters(),
		Redirects:       make(map[string]uint64),
		Locks:           s.lockStats(),
	}
	st.ClosedFull = map[string]uint64{"normal": s.outputs.closedNormal.Load(), "pubsub": s.outputs.closedPubSub.Load(),
		"unauthenticated": s.outputs.closedStrangers.Load()}
	st.Memory, st.MaxMemory, st.Evicted = max(s.memory.used.Load(), 0), s.memory.limit.Load(), s.memory.evicted.Load()
	st.ScriptBytes = s.scripts.Bytes()
	st.AuthTimeouts = s.authTimeouts.Load()
	st.AuthFailures = s.failures.totals()
	st.Subscriptions, st.Messages = s.subscriptions()
	for i := range s.pipeStats.Redirects {
		st.Redirects[cluster.Redirect(i).String()] = s.pipeStats.Redirects[i].Load()
	}
	for _, w := range s.workers {
		st.BytesIn += w.bytesIn.Load()
		st.BytesOut += w.bytesOut.Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := make(map[string]int)
	for _, c := range s.counters {
		i, ok := at[c.name]
		if !ok {
			i = len(st.Commands)
			at[c.name] = i
			st.Commands = append(st.Commands, CommandStats{Name: c.name})
		}
		sum := &st.Commands[i]
		sum.Calls += c.calls.Load()
		sum.Errors += c.errors.Load()
		sum.Took += time.Duration(c.nanos.Load())
		for b := range c.buckets {
			sum.Buckets[b] += c.buckets[b].Load()
		}
	}
	return st
}
