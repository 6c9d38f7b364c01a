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
// who waits here (package wait), which master had a slot (masters.go, grace.go), what is still to be taken
// back (redlock.Undoer). An attempt of a client goes from its loop (Caller.SendHome), all others by the
// Upstream.
package single

import (
	"log/slog"
	"sync"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/wait"
)

// Engine is the engine of locks that one Redis keeps, or a cluster, each lock on the master of its slot. One
// script decides each transition, and the queue is part of the lock.
type Engine struct {
	*masters
	*releaser
	firsts sync.Pool // of *firstAttempt
}

// Options are those of an Engine.
type Options struct {
	MaxQueue      int           // waiters of one lock
	MaxReaders    int           // readers of one lock
	FailoverGrace time.Duration // a new master grants nothing new for that; 0: it does
	Grants        *index.Index  // of this proxy; nil: of this Engine
	Log           *slog.Logger
}

// New is an Engine that reaches its Redis by u.
func New(u redlock.Upstream, names *redlock.Names, o Options) *Engine {
	m := &masters{upstream: u, names: names, o: o}
	m.grace.period = o.FailoverGrace
	e := &Engine{masters: m, releaser: &releaser{masters: m, grants: o.Grants}}
	e.firsts.New = func() any { return new(firstAttempt) }
	e.releases.New = func() any { return new(sentRelease) }
	if e.grants == nil {
		e.grants = index.New(nil, index.Options{})
	}
	e.waiters = wait.NewRedis(e, names, o.Log)
	m.Undoer = redlock.NewUndoer(o.Log, e.waiters, e.undoOnce)
	return e
}
