// Package locks is all that clients ask of locks: a Locker takes, renews, frees, lists and counts them.
//
//	    verbs:  LOCK            UNLOCK, RENEW, ...      KEEPALIVE
//	              |                    |                    |
//	Locker:    Acquire, Wait     Release, Renew ...     Keep: renews until it is let go or lost
//	           Try, Confirm        /                        |
//	              \_______________/                  keepalive.Renewer
//	                      |                                 |
//	                    engine:      typed requests, typed answers
//	                    /                          \
//	          single.Engine                    quorum.Engine: RedLock
//	          one Redis, Sentinel, cluster     independent masters, whose answers it combines
//	          compat.Engine
//	          the same, in the form of other libraries
//
// New, NewRedlock and NewCompat choose the engine; nothing else knows which one it is. A LOCK calls
// NewAcquire and Acquire, which answer on the loop of the client. A LOCK that has to wait continues on a
// goroutine of its own: in the queue (Wait), or with a few more attempts (Try). A grant that replicas must
// have is confirmed (Confirm). What a client no longer wants is taken back (Undo).
package locks

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/redlock"
	"lockproxy/redlock/compat"
	"lockproxy/redlock/index"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/quorum"
	"lockproxy/redlock/single"
)

// Options configure a Locker. Zero values mean those of DefaultOptions.
type Options struct {
	Prefix     string        // of all keys
	Lease      time.Duration // if a LOCK asks for none
	MaxLease   time.Duration // the longest lease that may be asked for
	MaxWait    time.Duration // the longest wait
	MaxQueue   int           // waiters of one lock, at most
	MaxReaders int           // readers of one lock, at most; a Redis takes a few ms to look at 1,000
	MaxKept    int           // holds that are kept alive, at most
	// FailoverGrace is how long a new master grants no new locks; 0: no time. It should be the longest lease
	// in use. Independent masters do not fail over.
	FailoverGrace time.Duration
	// Sync is how many replicas must have a grant if SYNC is not given, and SyncTimeout how long they are
	// waited for. Independent masters have no replicas.
	Sync        int
	SyncTimeout time.Duration
	Log         *slog.Logger
	Names       journal.NameStyle // how the log shows those of locks
	// Index has the grants of this proxy; nil: the Locker has its own, and List looks through all keys.
	Index *index.Index
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
	if o.Index == nil {
		o.Index = index.New(nil, index.Options{})
	}
	return o
}

// Locker takes and frees locks. Whoever has called Acquire calls Granted or Refused. Safe for concurrent use.
type Locker struct {
	engine
	*keepalive.Renewer // the holds that it keeps alive
	*index.Index       // Options.Index

	o      Options
	names  *redlock.Names
	home   redlock.Home // that has the locks; nil: independent masters have them
	beside beside       // the engine, if GUARD works with it; otherwise nil, and
	// unguarded says why it does not.
	unguarded error
	longest   string // name of the setting that bounds leases
	stats     counters
	broken    journal.Lines
	untold    journal.Lines
	// selfWaits are lines about clients that wait for themselves.
	selfWaits journal.Lines
}

// New returns a Locker with its locks on u: one Redis, a Sentinel group or a cluster.
func New(u redlock.Upstream, o Options) *Locker {
	o = o.withDefaults()
	names := redlock.NewNames(o.Prefix)
	e := single.New(u, names, single.Options{MaxQueue: o.MaxQueue, MaxReaders: o.MaxReaders,
		FailoverGrace: o.FailoverGrace, Log: o.Log, Grants: o.Index})
	l := newLocker(e, names, o)
	l.home, l.beside = u, e
	return l
}

// NewRedlock returns a Locker with its locks on a majority of nodes: independent masters, an odd number.
func NewRedlock(nodes []quorum.Node, of quorum.Options, o Options) *Locker {
	o = o.withDefaults()
	o.Sync = 0
	names := redlock.NewNames(o.Prefix)
	of.MaxQueue, of.MaxReaders, of.Log = o.MaxQueue, o.MaxReaders, o.Log
	l := newLocker(quorum.New(nodes, names, of), names, o)
	l.longest, l.unguarded = "redlock-max-lease", errGuardQuorum
	return l
}

// NewCompat returns a Locker with its locks on u, in the form of another library. The key of each is its
// name.
func NewCompat(u redlock.Upstream, o Options) *Locker {
	o = o.withDefaults()
	names := redlock.NewNames(o.Prefix)
	names.Bare = true
	l := newLocker(compat.New(u, names, o.MaxQueue, o.Log), names, o)
	l.home, l.unguarded = u, errGuardCompat
	return l
}

// newLocker returns a Locker over e.
func newLocker(e interface {
	engine
	keepalive.Engine
}, names *redlock.Names, o Options) *Locker {
	return &Locker{o: o, names: names, engine: e, Index: o.Index, longest: "lock-max-lease",
		Renewer: keepalive.New(e, names, keepalive.Options{
			Lease: o.Lease, Most: o.MaxKept, Log: o.Log, Names: o.Names,
			Renewed: func(name, token string, until time.Time) {
				o.Index.Renewed(name, token, until, nil, true)
			},
		})}
}

// Unlocked says that the connection by has released a hold of token whole, of which keeper is told in a
// redlock.Released, and how it has ended; ok: it was granted here. fence is as in index.Index.Freed.
func (l *Locker) Unlocked(name, token, keeper string, fence int64, by redlock.HoldOwner) (
	e index.Ended, ok bool) {
	e, ok = l.Freed(name, token, fence, by)
	l.Renewer.Unlocked(name, token, keeper)
	return e, ok
}

// ID is the id of this proxy: 16 letters and digits, new at each start.
func (l *Locker) ID() string { return l.names.ID }

// Key returns the key of the lock of that name.
func (l *Locker) Key(name string) string { return l.names.Place(name).Key }

// Lease is the default lease.
func (l *Locker) Lease() time.Duration { return l.o.Lease }

// MaxLease is the longest lease that may be asked for.
func (l *Locker) MaxLease() time.Duration { return l.o.MaxLease }

// MaxLeaseSetting is the name of the setting that bounds it.
func (l *Locker) MaxLeaseSetting() string { return l.longest }

// MaxWait is the longest wait.
func (l *Locker) MaxWait() time.Duration { return l.o.MaxWait }

// Sync is how many replicas must have a grant if SYNC is not given; 0: none.
func (l *Locker) Sync() int { return l.o.Sync }

// TellBroken logs that a client has broken a lock.
func (l *Locker) TellBroken(name, client, user string) {
	attrs := l.o.Names.Lock([]any{"client", client, "user", user}, name)
	l.broken.Write(l.o.Log, slog.LevelWarn, "lock broken", attrs...)
}

// TellUntold logs that nobody may have been told of a grant.
func (l *Locker) TellUntold(name, text string, err error) {
	l.untold.Write(l.o.Log, slog.LevelWarn, text, l.o.Names.Lock([]any{"err", err}, name)...)
}

// NewAcquire returns a copy of a, completed by Complete.
func (l *Locker) NewAcquire(a redlock.Acquire) *redlock.Acquire {
	l.Complete(&a)
	return &a
}

// NewRequest makes an id for a request.
func (l *Locker) NewRequest() [redlock.IDBytes]byte { return l.names.NewRequest() }

// Complete makes a new request of a: it adds an id, unless it has one of NewRequest and its client does not
// name it, a token if none is named, the default lease if none is asked for, a lease no shorter than
// AtLeast, and a keeper if it needs one.
func (l *Locker) Complete(a *redlock.Acquire) {
	if a.Token == "" {
		a.Token, a.Fresh = redlock.NewToken(), true
	}
	if a.Lease == 0 {
		a.Lease = l.o.Lease
	}
	a.Lease = max(a.Lease, a.AtLeast)
	if a.ID == "" || a.Named != "" {
		a.ID = l.names.NewID(a)
	}
	if a.Keep {
		a.Keeper = l.NewKeeper()
	}
}

// NewKeeper returns an id under which this proxy keeps one hold alive.
func (l *Locker) NewKeeper() string { return l.names.NewKeeper() }

// Close forgets the holds that are kept alive, then waits until everything that must be taken back or freed
// is, or until ctx ends. Nobody may call Wait or Try meanwhile.
func (l *Locker) Close(ctx context.Context) {
	l.Renewer.Close(ctx)
	l.engine.Close(ctx)
}
