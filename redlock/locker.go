// Package redlock keeps locks in Redis: one key holds the whole state of a lock, one script decides each
// transition, and a queue in the key makes waiting fair across all proxies. The scripts are in
// redlock/scripts.
//
//	    verbs:  LOCK            UNLOCK, RENEW, ...      KEEPALIVE
//	              |                    |                    |
//	Locker:    Acquire, Wait     Release, Renew ...     Keep: renews, over and over, until it is lost
//	              \____________________|____________________/
//	                                   |
//	engine:                 typed requests, typed answers
//	                        /                          \
//	              single                              quorum: RedLock
//	              one Redis, Sentinel, cluster        independent masters, whose answers it puts together
//	              (interface Upstream)                (interface Node)
//
// A LOCK that waits goes this way:
//
//	Acquire --> acquire.lua --> granted
//	                       \-> queued: subscribe, sleep --> woken, or timer --> acquire.lua ...
//	Release --> release.lua --> the first in the queue is granted, if it waits here, or woken
//
// A Locker has what all locks need: names (name.go), waiting (acquire.go, waitqueue.go), keeping alive
// (keep.go), listing, counting. Where locks are kept is the affair of its engine (engine.go). With single the
// queue is in Redis (redisorder.go); with quorum each proxy has its own (localorder.go), and a fence has to
// be agreed on (quorumfence.go).
package redlock

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"lockproxy/redlock/scripts"
)

// Options configure a Locker. Zero values mean those of DefaultOptions.
type Options struct {
	Prefix     string        // of all keys
	Lease      time.Duration // of a lock for which none is asked
	MaxLease   time.Duration // the longest that may be asked for
	MaxWait    time.Duration // the longest wait
	MaxQueue   int           // waiters of one lock
	MaxReaders int           // readers of one lock; 1,000 cost a Redis a few ms when they are looked at
	MaxKept    int           // holds that are kept alive
	// FailoverGrace is for how long a master that was not the master before grants nothing
	// new; 0: it does not wait. It should be the longest lease in use. Independent masters do not fail over.
	FailoverGrace time.Duration
	// Sync is how many replicas must have a grant for which nothing else is asked, and SyncTimeout for how
	// long they are waited for. Independent masters have none.
	Sync        int
	SyncTimeout time.Duration
	Log         *slog.Logger
}

// DefaultOptions are the defaults.
func DefaultOptions() Options {
	return Options{
		Prefix: "lock:", Lease: 30 * time.Second, MaxLease: 24 * time.Hour,
		MaxWait: 10 * time.Minute, MaxQueue: 10_000, MaxReaders: 1000, MaxKept: 1_000_000,
		SyncTimeout: time.Second, Log: slog.New(slog.DiscardHandler),
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	o.Prefix = cmp.Or(o.Prefix, d.Prefix)
	o.Lease = cmp.Or(o.Lease, d.Lease)
	o.MaxLease = cmp.Or(o.MaxLease, d.MaxLease)
	o.MaxWait = cmp.Or(o.MaxWait, d.MaxWait)
	o.MaxQueue = cmp.Or(o.MaxQueue, d.MaxQueue)
	o.MaxReaders = cmp.Or(o.MaxReaders, d.MaxReaders)
	o.MaxKept = cmp.Or(o.MaxKept, d.MaxKept)
	o.SyncTimeout = cmp.Or(o.SyncTimeout, d.SyncTimeout)
	o.Log = cmp.Or(o.Log, d.Log)
	return o
}

// Locker takes and frees locks. Safe for concurrent use.
type Locker struct {
	o      Options
	names  *naming
	engine engine
	order  order // of those who wait
	queues *waitQueues
	back   *background
	keep   keeping

	longest string // the setting that bounds leases

	stats counters
}

// background is what goes on when nobody waits for it, until the Locker is closed.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // that Close waits for
	log    *slog.Logger
}

// New returns a Locker whose locks are on u: one Redis, a Sentinel group or a cluster.
func New(u Upstream, o Options) *Locker {
	l := newLocker(o)
	e := &single{
		upstream: u, names: l.names, queues: l.queues, back: l.back,
		stats: &l.stats, maxQueue: l.o.MaxQueue, maxReaders: l.o.MaxReaders, syncTimeout: l.o.SyncTimeout,
	}
	e.grace.period = l.o.FailoverGrace
	l.longest = "lock-max-lease"
	return l.over(e, redisOrder{e})
}

// NewRedlock returns a Locker whose locks are on most of nodes: independent masters, an odd number of them.
func NewRedlock(nodes []Node, of QuorumOptions, o Options) *Locker {
	o.Sync, o.FailoverGrace = 0, 0
	l := newLocker(o)
	q := newQuorum(nodes, of, l)
	q.order = &localOrder{q: q, queues: l.queues, maxQueue: l.o.MaxQueue}
	l.longest = "redlock-max-lease"
	return l.over(q, q.order)
}

func newLocker(o Options) *Locker {
	o = o.withDefaults()
	l := &Locker{o: o, names: newNaming(o.Prefix), back: &background{log: o.Log}}
	l.back.ctx, l.back.cancel = context.WithCancel(context.Background())
	l.queues = &waitQueues{back: l.back, byKey: make(map[string]*waitQueue), waiters: make(map[string]*waiter)}
	l.keep.start(l)
	return l
}

// over has l keep its locks by e.
func (l *Locker) over(e engine, by order) *Locker {
	l.engine, l.order = e, by
	l.queues.order, l.queues.listen = by, e.listen
	return l
}

// Scripts are all scripts that locks may need, so that nodes that lost them can be given them again.
func Scripts() []scripts.Script { return scripts.All() }

// ID is the id of this proxy: 16 letters and digits, others at each start.
func (l *Locker) ID() string { return l.names.id }

// Key is the key of the lock of that name.
func (l *Locker) Key(name string) string { return l.names.place(name).key }

// Lease is the default lease.
func (l *Locker) Lease() time.Duration { return l.o.Lease }

// MaxLease is the longest lease that may be asked for.
func (l *Locker) MaxLease() time.Duration { return l.o.MaxLease }

// MaxLeaseSetting is the setting that bounds it.
func (l *Locker) MaxLeaseSetting() string { return l.longest }

// MaxWait is the longest wait.
func (l *Locker) MaxWait() time.Duration { return l.o.MaxWait }

// Sync is how many replicas must have a grant for which nothing else is asked; 0: none.
func (l *Locker) Sync() int { return l.o.Sync }

// NewAcquire completes a: a token where none is named, an id, the default lease, and
// a keeper if it needs one.
func (l *Locker) NewAcquire(a Acquire) *Acquire {
	if a.Token == "" {
		a.Token, a.fresh = NewToken(), true
	}
	if a.Lease == 0 {
		a.Lease = l.o.Lease
	}
	a.ID = l.names.newID(&a)
	if a.Keep {
		a.Keeper = l.NewKeeper()
	}
	return &a
}

// NewKeeper is an id under which this proxy keeps one hold alive.
func (l *Locker) NewKeeper() string { return l.names.newKeeper() }

// Undo takes back, in the background, whatever a has made: its place in the queue, its hold, or its re-entry.
// It goes on trying for as long as there may be anything to take back: its wait plus one lease. If the
// outcome of a is not known, it looks for what a makes late until then.
func (l *Locker) Undo(a *Acquire) {
	l.queues.forget(a.w)
	l.engine.undo(a)
}

// Close forgets the holds that are kept alive, and waits until everything that is to be taken
// back or freed is, or ctx ends. Nobody may call Wait or Try meanwhile.
func (l *Locker) Close(ctx context.Context) {
	l.keep.close()
	done := make(chan struct{})
	go func() { // ends with the work, which back.cancel ends
		l.back.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	l.back.cancel()
	l.keep.abandon()
	<-done
	l.engine.close(ctx)
}
