package locks

import (
	"context"
	"time"

	"lockproxy/redlock"
)

// engine keeps locks: single on one Redis, a Sentinel group or a cluster; quorum on a majority of independent
// masters. Requests and answers are typed; how they are put to Redis is up to the engine. Safe for concurrent
// use.
//
// The first methods serve a client and do not block. The client's answer is whatever the given function or
// method returns when it is told the outcome. A goroutine that waits for it is a redlock.Patient. The other
// methods may block.
type engine interface {
	// Acquire asks for a lock. It may resend the request by itself. An a with a Wait can be handed the lock
	// from now on.
	Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer)
	// Release lowers the count of a token's hold, and frees it at zero.
	Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser)
	// Renew makes the lease of a hold longer, never shorter.
	Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte)
	// Break ends all holds of the lock. broken says that there were any.
	Break(by redlock.Caller, name string, then func(broken bool, err error) []byte)
	// Inspect reads a lock. A token that is not "" is the client's own: the client relies on the answer, so
	// no LOCK of that token that the answer includes is taken back any more, and the answer names no other
	// reader. What this proxy is taking back is not told of.
	Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte)

	// Follows says that others of this proxy already wait for the lock that a wants. Then a need not ask
	// before they do: call Wait at once.
	Follows(a *redlock.Acquire) bool
	// Wait goes on waiting with an a that stands in the queue or follows others, until a.Wait is over; then
	// ok is false. Unless it is granted, what a left in Redis is taken back.
	Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error)
	// Confirm waits until a.Sync replicas have g, or timeout is over. acked is how many do; left is what is
	// left of the lease.
	Confirm(ctx context.Context, a *redlock.Acquire, g redlock.Grant, timeout time.Duration) (
		left time.Duration, acked int, err error)
	// UndoOnce makes one attempt to take back what a left in Redis: its place in the queue, its hold, or its
	// re-entry.
	UndoOnce(a *redlock.Acquire) error
	// Undo does so in the background. It keeps trying while there may be something to take back: the wait of
	// a plus one lease. If the outcome of a is unknown it keeps looking until then, since a may still take
	// effect.
	Undo(a *redlock.Acquire)
	// Scan returns one page of the keys of the i-th of masters.
	Scan(ctx context.Context, i int, cursor, glob string) (keys []string, next string, err error)
	Masters() int
	// Close ends what is still under way, at the latest when ctx ends.
	Close(ctx context.Context)
}

// beside is an engine whose locks lie beside data, and beside each other: a Redis decides in one step about
// more than a lock.
type beside interface {
	// Guard runs a command if a hold goes on. It does not block.
	Guard(by redlock.Caller, g *redlock.Guard, then func(reply []byte, err error) []byte)
	// GuardRequest is the request of a Guard, for somebody else to send.
	GuardRequest(g *redlock.Guard) []byte
	// TakeAll tries to take several locks of one slot, or of the only master, for one token. No grants and no
	// error: others hold all[held], and nothing was taken. redlock.ErrOneByOne: ask for each by itself. It
	// blocks.
	TakeAll(all []*redlock.Acquire) (grants []redlock.Grant, held int, err error)
}

// Why GUARD does not work for a lock that has no Redis of its own kind.
var (
	errGuardQuorum = redlock.ReplyError("ERR GUARD is not for locks of RedLock: no single Redis knows who " +
		"holds them, so none can look and run a command in one step. Send the fence along instead")
	errGuardCompat = redlock.ReplyError("ERR GUARD is not for locks of lock-compat: use a lock of " +
		"lockproxy's own form for it, under a name without that prefix")
)

// Guard runs a command if a hold goes on. The reply is that of the command, or begins with redlock.NotHeld.
// It does not block.
func (l *Locker) Guard(by redlock.Caller, g *redlock.Guard, then func(reply []byte, err error) []byte) {
	if l.beside == nil {
		by.Await(func(done func([]byte)) { done(nil) },
			func([]byte) []byte { return then(nil, l.unguarded) }, nil)
		return
	}
	l.beside.Guard(by, g, then)
}

// GuardRequest is the request of a Guard, for a transaction.
func (l *Locker) GuardRequest(g *redlock.Guard) ([]byte, error) {
	if l.beside == nil {
		return nil, l.unguarded
	}
	return l.beside.GuardRequest(g), nil
}
