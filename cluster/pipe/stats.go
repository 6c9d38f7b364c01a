package pipe

import (
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/journal"
	"lockproxy/internal/slot"
)

// Stats counts what all loops do with the upstream. Safe for concurrent use.
type Stats struct {
	Redirects [retry.Reasons]atomic.Uint64
	GivenUp   atomic.Uint64 // requests whose budget was used up
	Shed      atomic.Uint64 // requests that were refused because their node is overloaded
	own       owned.Counters
	Stuck     atomic.Int64 // pipes whose oldest request is a script that has run for long
	moving    movingSlots
	garbled   journal.Lines
	inquiries inquiries

	mu    sync.Mutex
	nodes map[string]*nodeCounters
}

type nodeCounters struct {
	requests, errors, connects, dialErrors, garbled atomic.Uint64
	up                                              atomic.Int64
}

// NodeStats counts what went to one node. There is one for each address that the upstream ever had.
type NodeStats struct {
	Addr        string
	Requests    uint64 // replies received
	Errors      uint64 // of them errors
	Connects    uint64
	DialErrors  uint64
	Garbled     uint64 // connections given up because their replies were none, or out of step
	Connections int64  // now
}

// Nodes returns the counters of each node.
func (s *Stats) Nodes() []NodeStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]NodeStats, 0, len(s.nodes))
	for addr, n := range s.nodes {
		all = append(all, NodeStats{
			Addr: addr, Requests: n.requests.Load(), Errors: n.errors.Load(),
			Connects: n.connects.Load(), DialErrors: n.dialErrors.Load(), Connections: n.up.Load(),
			Garbled: n.garbled.Load(),
		})
	}
	return all
}

func (s *Stats) node(addr string) *nodeCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		s.nodes = make(map[string]*nodeCounters)
	}
	n := s.nodes[addr]
	if n == nil {
		n = new(nodeCounters)
		s.nodes[addr] = n
	}
	return n
}

// movingSlots are when a node last said, by ASK or TRYAGAIN, that some keys of a slot are at another node:
// the time since born, which no change of the clock affects; 0: never. Safe for concurrent use.
type movingSlots [slot.Count]atomic.Int64

var born = time.Now()

// note notes that a node says so of slot n now.
func (m *movingSlots) note(n int16, now time.Time) {
	if n >= 0 {
		m[n].Store(int64(now.Sub(born)))
	}
}

// at is when a node last said so of slot n; the zero time: never.
func (m *movingSlots) at(n int) time.Time {
	if at := m[n].Load(); at != 0 {
		return born.Add(time.Duration(at))
	}
	return time.Time{}
}

// Own returns the connections of all loops that are not shared.
func (s *Stats) Own() owned.Stats { return s.own.Now() }
