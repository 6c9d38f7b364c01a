package pipe

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/journal"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// Stats counts what all loops do with the upstream. Safe for concurrent use.
type Stats struct {
	Redirects [retry.Reasons]atomic.Uint64
	GivenUp   atomic.Uint64 // requests whose budget was used up
	Shed      atomic.Uint64 // requests that were refused because their node is overloaded
	own       owned.Totals
	Stuck     atomic.Int64 // pipes whose oldest request is a script that has run for long
	moving    movingSlots
	garbled   journal.Lines
	inquiries inquiries

	mu    sync.Mutex
	nodes map[string]*nodeCounters
}

// nodeCounters are those of one node, for all loops: up is how many connections there are now. They stay when
// the node has gone, because metrics must not fall.
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

// node finds or makes the counters of addr. A pipe asks once, and keeps them.
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

// born is where movingSlots begin to count.
var born = time.Now()

// noteMoving notes that a node says so of slot n now.
func (m *movingSlots) noteMoving(n int16, now time.Time) {
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

// inquiryMost is how many connections a question is about at most.
const inquiryMost = 512

// connInquiry is what one loop asks a node: about these connections.
type connInquiry struct {
	ids    []string
	answer func(settled map[string]string, err error) // may have more than the ids
}

// inquiries asks each node one question at a time, for all loops. Safe for concurrent use.
type inquiries struct {
	mu      sync.Mutex
	waiting map[string][]connInquiry // by the address of each node that is asked: what it is to be asked next
}

// putInquiry has the node at addr asked, together with what others ask it. It does not block. ctx ends with
// the loops, limit bounds one question. The answer comes on a goroutine of its own.
func (q *inquiries) putInquiry(ctx context.Context, nodes cluster.NodeDialer, limit time.Duration,
	addr string, one connInquiry,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = make(map[string][]connInquiry)
	}
	before, asked := q.waiting[addr]
	q.waiting[addr] = append(before, one)
	if asked {
		return
	}
	go func() { // ends with the last question, each of which the limit or ctx ends
		for all := q.takeInquiries(addr); len(all) > 0; all = q.takeInquiries(addr) {
			var ids []string
			for _, one := range all {
				ids = append(ids, one.ids...)
			}
			bounded, cancel := context.WithTimeout(ctx, limit)
			settled, err := cluster.Settled(bounded, nodes, addr, ids)
			cancel()
			for _, one := range all {
				one.answer(settled, err)
			}
		}
	}()
}

// takeInquiries takes what the node at addr is to be asked now: nothing ends it. As long as its entry stands,
// even an empty one, others wait there instead of asking beside it.
func (q *inquiries) takeInquiries(addr string) (all []connInquiry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, n := q.waiting[addr], 0
	for len(all) < len(waiting) && n+len(waiting[len(all)].ids) <= inquiryMost {
		n += len(waiting[len(all)].ids)
		all = waiting[:len(all)+1]
	}
	if q.waiting[addr] = waiting[len(all):]; len(all) == 0 {
		delete(q.waiting, addr)
	}
	return all
}

// Control is what pipes need of the control plane. Upstream is one.
type Control interface {
	Topology() *cluster.Topology
	// Refresh hints that the topology may be out of date, Suspect that a master may be in trouble. They
	// never block.
	Refresh()
	Suspect()
	// Outages tell which masters are down. nil: nobody knows, and all masters are taken to answer.
	Outages() *cluster.Outages
	// Member is where the node is reached that a redirect calls addr; "" if no node of the cluster is
	// known by that.
	Member(addr string) string
	// Login is how connections authenticate that are dialled now. It is another pointer when the login is
	// another one.
	Login() *cluster.Login
	// Dial returns a connection that is ready for requests: authenticated, and in mode m. before, if not
	// nil, is the connection that it replaces: the node ends that one first, if it can; then before becomes
	// the identity of the new one.
	Dial(ctx context.Context, addr string, m cluster.Mode, before *cluster.Identity) (net.Conn, error)
}

// Options are the limits of the data plane. Zero values mean those of
// DefaultOptions.
type Options struct {
	// bytes that one loop queues for a node before it stops reading from clients
	QueueLimit     int
	ConnectTimeout time.Duration // to connect and log in
	Timeout        time.Duration // a node that owes replies and sends nothing for so long is given up
	MaxOwn         int           // connections that are not shared, of one loop
	// how long a request is sent again and again while its shard has a master that answers; see outage.go
	Budget time.Duration
	// how long a request may wait in all for a node to take it; 0: three times the Budget
	MaxWait   time.Duration
	ShedAfter time.Duration // how late a node may answer before Overloaded says so; 0: it never does
	// Source is the script with this SHA1 (40 hex digits), for nodes that have lost it. nil: NOSCRIPT is
	// passed on.
	Source func(sha []byte) (source []byte, ok bool)
	// Flushes is how often all nodes were told to forget their scripts. nil: never.
	Flushes func() uint64
	Within  *resp.Bounds // of each reply; nil: only those that its Receiver has (Longer)
	Log     *slog.Logger
}

// DefaultOptions are the defaults.
func DefaultOptions() Options {
	return Options{
		QueueLimit: 16 << 20, ConnectTimeout: cluster.ConnectTimeout, Timeout: 30 * time.Second,
		MaxOwn: 1024, Budget: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	o.QueueLimit = cmp.Or(o.QueueLimit, d.QueueLimit)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, d.ConnectTimeout)
	o.Timeout = cmp.Or(o.Timeout, d.Timeout)
	o.MaxOwn = cmp.Or(o.MaxOwn, d.MaxOwn)
	o.Budget = cmp.Or(o.Budget, d.Budget)
	o.MaxWait = max(o.Budget, cmp.Or(o.MaxWait, waitOfBudget*o.Budget))
	o.Log = cmp.Or(o.Log, d.Log)
	return o
}

const (
	// waitOfBudget is how many times the Budget MaxWait is if nobody says otherwise.
	waitOfBudget = 3
	// redialAfter is how long a node that could not be reached is left alone.
	redialAfter = 50 * time.Millisecond
	// retireAfter is how long requests to a node that has left the topology
	// may still be answered.
	retireAfter = time.Second
	// patrol is how often pipes are checked for silence.
	patrol = time.Second
)
