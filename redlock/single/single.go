// Package single keeps locks on one Redis, a Sentinel group or a cluster, each lock on the master of its
// slot.
//
//	Acquire --> acquire.lua --> granted
//	                       \-> others hold it --> Null
//	                       \-> queued (Wait) --> woken, or its time --> acquire.lua ...
//	Release --> release.lua --> the lock is gone (or a command first, where Redis has one for plain locks)
//	                       \-> it goes to the first waiter: the reply has its id and its grant
//	Undo    --> cancel.lua, again and again until it has run
//
// One script decides each transition, and the queue is part of the lock, so that an Engine has little state:
// who waits here (package wait), which master had a slot (grace.go), what is still to be taken back (undo.go,
// late.go). An attempt of a client goes from its loop (Caller.SendHome), all others by the Upstream.
package single

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// Upstream reaches the Redis that keeps the locks. Safe for concurrent use.
type Upstream interface {
	redlock.Home
	// Synced runs req, which must be idempotent, as Do does and then waits on that master
	// until replicas of its replicas have everything that it had done by then, or
	// timeout is over. acked is how many have.
	Synced(
		ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration,
	) (reply []byte, acked int, err error)
	// Subscribe listens on channel, which belongs to slot, until cancel is called. It never blocks. notify is
	// called in order and must not block.
	Subscribe(slot int, channel string, notify func(subscription.Change)) (cancel func())
	// Masters is how many masters there are now.
	Masters() int
	// Master names the master that has slot now; "" if nobody knows it.
	Master(slot int) string
	// DoMaster is Do for the i-th master, in the order of their lowest slots.
	DoMaster(ctx context.Context, i int, req []byte, resend bool) (reply []byte, err error)
	// Sharded says that messages go by SPUBLISH and not by PUBLISH.
	Sharded() bool
	// DeleteIf is the command of all nodes that deletes a key if it has a certain value: DELIFEQ, DELEX; ""
	// if there is none.
	DeleteIf() string
	// Evicting says that there may be a slot for which Evicts is not nil.
	Evicting() bool
	// Evicts says why the master of slot may delete locks by itself, so that no new ones are to be made
	// there. nil: it does not, as far as that is known.
	Evicts(slot int) error
	// Parted is when a node last said that some keys of slot are at another node; the zero time: never.
	Parted(slot int) time.Time
}

// Engine is the engine of locks that one Redis keeps, or a cluster, each lock on the master of its slot. One
// script decides each transition, and the queue is part of the lock.
type Engine struct {
	upstream Upstream
	names    *redlock.Names
	o        Options
	waiters  *wait.Redis
	grace    grace
	late     lateUndo
	grants   *index.Index
	undone   redlock.Undone
	undoing  undoings
	scripted atomic.Bool // plain locks are freed by release.lua, whatever the upstream says of a command

	// What goes on when nobody waits for it ends with ctx.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // that close waits for

	firsts    sync.Pool // of *firstAttempt
	releases  sync.Pool // of *sentRelease
	deletions sync.Pool // of *sentDeletion
}

// Options are those of an Engine.
type Options struct {
	MaxQueue      int           // waiters of one lock
	MaxReaders    int           // readers of one lock
	FailoverGrace time.Duration // a new master grants nothing new for that; 0: it does
	SyncTimeout   time.Duration // replicas are waited for so long
	Grants        *index.Index  // of this proxy; nil: of this Engine
	Log           *slog.Logger
}

// New is an Engine that reaches its Redis by u.
func New(u Upstream, names *redlock.Names, o Options) *Engine {
	e := &Engine{upstream: u, names: names, o: o, grants: o.Grants}
	if e.grants == nil {
		e.grants = index.New(nil, index.Options{})
	}
	e.grace.period = o.FailoverGrace
	e.waiters = wait.NewRedis(e, names, o.Log)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// exchange is an Exchange that is made of a function.
type exchange func(reply []byte) []byte

// Answer implements Exchange.
func (f exchange) Answer(reply []byte) []byte { return f(reply) }

// granter is the replication id of the master that may make new locks in slot, "" if any may.
func (e *Engine) granter(slot int) string {
	if e.upstream.Evicts(slot) != nil {
		return unmet
	}
	return e.grace.master(slot)
}

// freeing says how the scripts free a lock. apart: the lock is their only key. A new master grants nothing
// yet, and one that evicts nothing at all.
func (e *Engine) freeing(name string, apart bool) scripts.Freeing {
	f := scripts.Freeing{Proxy: e.names.ID, Publish: e.publish(), Next: scripts.GrantNext, Apart: apart}
	if apart || e.granter(e.slot(name)) != "" {
		f.Next = scripts.OfferNext
	}
	return f
}

// slot is that of a lock.
func (e *Engine) slot(name string) int {
	var space [128]byte
	return slot.Of(e.names.AppendKey(space[:0], name))
}

// publish is the command that wakes waiters.
func (e *Engine) publish() string {
	if e.upstream.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Scan implements locks.engine.
func (e *Engine) Scan(ctx context.Context, i int,
	cursor, glob string) (keys []string, next string, err error) {
	reply, err := e.upstream.DoMaster(ctx, i, scripts.ScanRequest(cursor, glob), true)
	if err != nil {
		return nil, "", err
	}
	return scripts.ReadKeys(reply)
}

func (e *Engine) Masters() int           { return e.upstream.Masters() }
func (e *Engine) Master(slot int) string { return e.upstream.Master(slot) }

// Listen implements locks.engine.
func (e *Engine) Listen(slot int, channel string, notify func(subscription.Change)) (cancel func()) {
	return e.upstream.Subscribe(slot, channel, notify)
}

// Close implements locks.engine: it waits until what is to be taken back is.
func (e *Engine) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	e.work.Wait()
	e.cancel()
	e.late.running.Wait()
	e.waiters.Close()
}
