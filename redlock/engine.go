package redlock

import (
	"context"
	"time"
)

// engine keeps locks: single on one Redis, a Sentinel group or a cluster; quorum on a majority of independent
// masters. It is given typed requests and gives typed answers; how it says them to Redis is its own affair.
// Safe for concurrent use.
//
// The first methods act for a client and do not block: the answer of the client is what the function or
// method returns that is told the outcome. The others may block.
type engine interface {
	keptEngine

	Acquire(by Caller, a *Acquire, to Acquirer)
	Release(by Caller, r *Release, to Releaser)
	Renew(by Caller, r *Renew, then func(Renewed, error) []byte)
	Break(by Caller, name string, then func(broken bool, err error) []byte)
	Inspect(by Caller, name, token string, then func(State, error) []byte)

	// Follows says that others of this proxy wait for the lock that a wants, and that a need not ask before
	// them.
	Follows(a *Acquire) bool
	// Wait goes on with an a that stands in the queue, or follows others, until a.Wait is over: ok is false
	// then. What a has made is taken back unless it is granted.
	Wait(ctx context.Context, a *Acquire) (g Grant, ok bool, err error)
	// Attempt asks once more for a lock, and does not queue.
	Attempt(ctx context.Context, a *Acquire) (g Grant, ok bool, err error)
	// Confirm waits until a.Sync replicas have g: acked do, and left remains of its lease.
	Confirm(ctx context.Context, a *Acquire, g Grant) (left time.Duration, acked int, err error)
	// UndoOnce is one attempt to take back what a has made; undo goes on in the background until it is.
	UndoOnce(a *Acquire) error
	Undo(a *Acquire)
	State(ctx context.Context, name string) (State, error)
	// Scan is one page of the keys of the i-th of masters.
	Scan(ctx context.Context, i int, cursor, glob string) (keys []string, next string, err error)
	Masters() int
	// Close ends what is still under way, when ctx ends at the latest.
	Close(ctx context.Context)
}

// Caller is the client that asks for something. It answers its commands in their order.
type Caller interface {
	// Room is where a request for SendHome, or an answer, may be appended: empty, with room for most of them.
	// It is for one at a time, until SendHome returns or the answer is given.
	Room() []byte
	// SendHome sends req, one whole command that is copied, to the master of slot and answers with what then
	// makes of the reply. resend: req may be sent again when its reply was lost. lost may be nil.
	SendHome(slot int, req []byte, resend bool, then Exchange, lost Delivery)
	// Await has start ask for something, which calls done once, maybe before it returns and on any goroutine,
	// and answers with what then makes of what done was given. lost may be nil.
	Await(start func(done func(reply []byte)), then func(reply []byte) []byte, lost Delivery)
}

// Exchange is a request that is on its way.
type Exchange interface {
	// Answer makes the client's answer of the reply, which is valid until it returns. It is called once. It
	// may send on instead and return nil.
	Answer(reply []byte) []byte
}

// Delivery is an answer on its way to the client.
type Delivery interface {
	// Lost is called when it does not reach the client.
	Lost()
}

// Acquirer is told how an Acquire goes.
type Acquirer interface {
	// Acquired makes the client's answer. ok: the lock is granted. Not ok and no error: others hold it, and
	// if a may wait it stands in the queue: call Wait, or Undo. After an error call Undo, unless Refused says
	// that there is no need.
	Acquired(g Grant, ok bool, err error) []byte
	Delivery // of that answer
}

// Releaser is told how a Release went.
type Releaser interface {
	// Released makes the client's answer.
	Released(r Released, err error) []byte
}

// Acquire asks for a lock. It may be sent again by itself, and does not block: to is told how it went. From
// now on an a that may wait can be told that it has the lock.
func (l *Locker) Acquire(by Caller, a *Acquire, to Acquirer) { l.engine.Acquire(by, a, to) }

// Release frees or counts down what a token holds. It does not block.
func (l *Locker) Release(by Caller, r *Release, to Releaser) { l.engine.Release(by, r, to) }

// Renew makes the lease of a hold longer, never shorter. It does not block.
func (l *Locker) Renew(by Caller, r *Renew, then func(Renewed, error) []byte) {
	l.engine.Renew(by, r, then)
}

// Break ends whatever holds the lock of that name. broken: it was not free. It does not block.
func (l *Locker) Break(by Caller, name string, then func(broken bool, err error) []byte) {
	l.engine.Break(by, name, then)
}

// Inspect reads a lock. token, if not "", is of a client who relies on the answer, which tells of no other
// reader: no LOCK that made its hold what the answer says is taken back any more. It does not block.
func (l *Locker) Inspect(by Caller, name, token string, then func(State, error) []byte) {
	l.engine.Inspect(by, name, token, then)
}
