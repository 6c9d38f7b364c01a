package locks

import (
	"context"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
)

// engine keeps locks: single on one Redis, a Sentinel group or a cluster; quorum on a majority of independent
// masters. It is given typed requests and gives typed answers; how it says them to Redis is its own affair.
// Safe for concurrent use.
//
// The first methods act for a client and do not block: the answer of the client is what the function or
// method returns that is told the outcome. The others may block.
type engine interface {
	keepalive.Engine

	Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer)
	Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser)
	Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte)
	Break(by redlock.Caller, name string, then func(broken bool, err error) []byte)
	Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte)

	// Follows says that others of this proxy wait for the lock that a wants, and that a need not ask before
	// them.
	Follows(a *redlock.Acquire) bool
	// Wait goes on with an a that stands in the queue, or follows others, until a.Wait is over: ok is false
	// then. What a has made is taken back unless it is granted.
	Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error)
	// Attempt asks once more for a lock, and does not queue.
	Attempt(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error)
	// Confirm waits until a.Sync replicas have g: acked do, and left remains of its lease.
	Confirm(ctx context.Context, a *redlock.Acquire, g redlock.Grant) (left time.Duration,
		acked int, err error)
	// UndoOnce is one attempt to take back what a has made; undo goes on in the background until it is.
	UndoOnce(a *redlock.Acquire) error
	Undo(a *redlock.Acquire)
	State(ctx context.Context, name string) (redlock.State, error)
	// Scan is one page of the keys of the i-th of masters.
	Scan(ctx context.Context, i int, cursor, glob string) (keys []string, next string, err error)
	Masters() int
	// Close ends what is still under way, when ctx ends at the latest.
	Close(ctx context.Context)
}

// Acquire asks for a lock. It may be sent again by itself, and does not block: to is told how it went. From
// now on an a that may wait can be told that it has the lock.
func (l *Locker) Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer) {
	l.engine.Acquire(by, a, to)
}

// Release frees or counts down what a token holds. It does not block.
func (l *Locker) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	l.engine.Release(by, r, to)
}

// Renew makes the lease of a hold longer, never shorter. It does not block.
func (l *Locker) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	l.engine.Renew(by, r, then)
}

// Break ends whatever holds the lock of that name. broken: it was not free. It does not block.
func (l *Locker) Break(by redlock.Caller, name string, then func(broken bool, err error) []byte) {
	l.engine.Break(by, name, then)
}

// Inspect reads a lock. token, if not "", is of a client who relies on the answer, which tells of no other
// reader: no LOCK that made its hold what the answer says is taken back any more. It does not block.
func (l *Locker) Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte) {
	l.engine.Inspect(by, name, token, then)
}
