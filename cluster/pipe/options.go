package pipe

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
)

// Control is what pipes need of the control plane. Upstream is one.
type Control interface {
	Topology() *cluster.Topology
	// Refresh hints that the topology may be out of date. It never blocks.
	Refresh()
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
	ConnectTimeout time.Duration // as in Options
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

// env is what the pipes of one loop stand on.
type env struct {
	loop     *loop.Loop
	control  Control
	o        Options
	stats    *Stats
	felt     *cluster.Outages   // may be nil
	ownPipes map[*Pipe]struct{} // those that one client has to itself, connected or connecting
	born     time.Time
	refused  *cluster.Login // by a node, as it was told
	closed   bool
}

// Refresh hints that the topology may be out of date.
func (e *env) Refresh() { e.control.Refresh() }

// GaveUp counts a request whose budget is used up.
func (e *env) GaveUp() { e.stats.GivenUp.Add(1) }

// age is how long the pipes have been there.
func (e *env) age() time.Duration { return e.loop.Now().Sub(e.born) }
