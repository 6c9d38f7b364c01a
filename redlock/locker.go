package redlock

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/subscription"
)

// Upstream reaches the Redis that keeps the locks. Safe for concurrent use.
type Upstream interface {
	// Do runs req, one whole command, on the master of slot and returns the
	// node's RESP2 reply, error replies included. Redirects, lost scripts and
	// fail-over are dealt with inside. resend: req may be sent again when its
	// reply was lost. An error means that nobody could be asked, or that it is not
	// known whether req has run.
	Do(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
	// Synced runs req, which must be idempotent, as Do does and then waits on that master
	// until replicas of its replicas have everything that it had done by then, or
	// timeout is over. acked is how many have.
	Synced(ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration) (reply []byte, acked int, err error)
	// Subscribe listens on channel, which belongs to slot, until cancel is
	// called. It returns when the subscription is confirmed. notify is called in order
	// and must not block.
	Subscribe(ctx context.Context, slot int, channel string, notify func(subscription.Event)) (cancel func(), err error)
	// Masters is how many masters there are now.
	Masters() int
	// Master names the master that has slot now; "" if nobody knows it.
	Master(slot int) string
	// DoMaster is Do for the i-th master, in the order of their lowest slots.
	DoMaster(ctx context.Context, i int, req []byte, resend bool) (reply []byte, err error)
	// Sharded says that messages go by SPUBLISH and not by PUBLISH.
	Sharded() bool
}

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
	// new; 0: it does not wait. It should be the longest lease in use.
	FailoverGrace time.Duration
	// Sync is how many replicas must have a grant for which nothing else is asked, and SyncTimeout for how
	// long they are waited for.
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
	o        Options
	upstream Upstream
	quorum   *Quorum // the upstream, if it is one
	id       string  // of this proxy, in the queues
	ids      requestIDs
	fences   string // what the keys of the slots' fences begin with

	keepers atomic.Uint64 // ids so far
	grace   grace

	ctx    context.Context // of what goes on in the background
	cancel context.CancelFunc
	work   sync.WaitGroup
	late   lateness

	mu      sync.Mutex
	rooms   map[string]*room   // by key of the lock
	waiters map[string]*waiter // by id of the request

	keep  keeping
	stats counters
}

// New returns a Locker over u.
func New(u Upstream, o Options) *Locker {
	o = o.withDefaults()
	l := &Locker{o: o, upstream: u, id: newID(), fences: o.Prefix + "fence:{", rooms: make(map[string]*room), waiters: make(map[string]*waiter)}
	if l.quorum, _ = u.(*Quorum); l.quorum != nil {
		l.quorum.heirs = l
	} else {
		l.grace.period = o.FailoverGrace // independent masters do not fail over
	}
	l.ids.start()
	l.keep.start(l)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// ID is the id of this proxy: 16 letters and digits, others at each start.
func (l *Locker) ID() string { return l.id }

// Lease is the default lease.
func (l *Locker) Lease() time.Duration { return l.o.Lease }

// MaxLease is the longest lease that may be asked for.
func (l *Locker) MaxLease() time.Duration { return l.o.MaxLease }

// MaxWait is the longest wait.
func (l *Locker) MaxWait() time.Duration { return l.o.MaxWait }

// Close forgets the holds that are kept alive, and waits until everything that is to be taken
// back or freed is, or ctx ends. Nobody may call Wait or Try meanwhile.
func (l *Locker) Close(ctx context.Context) {
	l.keep.close()
	done := make(chan struct{})
	go func() { // ends with the work, which l.cancel ends
		l.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	l.cancel()
	l.keep.abandon()
	<-done
	l.late.running.Wait()
	if l.quorum != nil {
		l.quorum.close(ctx)
	}
}
