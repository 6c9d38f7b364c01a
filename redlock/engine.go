package redlock

import (
	"context"
	"time"

	"lockproxy/internal/subscription"
)

// engine keeps locks: single on one Redis, a Sentinel group or a cluster; quorum on a majority of independent
// masters. It is given typed requests and gives typed answers; how it says them to Redis is its own affair.
// Safe for concurrent use.
//
// The first methods act for a client and do not block: the answer of the client is what the function or
// method returns that is told the outcome. The others may block.
type engine interface {
	acquire(by Caller, a *Acquire, to Acquirer)
	release(by Caller, r *Release, to Releaser)
	renew(by Caller, r *Renew, then func(Renewed, error) []byte)
	breakLock(by Caller, name string, then func(broken bool, err error) []byte)
	inspect(by Caller, name, token string, then func(State, error) []byte)

	// attempt asks once for a lock that is waited for, or tried again.
	attempt(ctx context.Context, a *Acquire) (g Grant, ok bool, err error)
	// confirm waits until a.Sync replicas have g: acked do, and left remains of its lease.
	confirm(ctx context.Context, a *Acquire, g Grant) (left time.Duration, acked int, err error)
	// undoOnce is one attempt to take back what a has made; undo goes on in the background until it is.
	undoOnce(a *Acquire) error
	undo(a *Acquire)
	// keep renews holds of one slot. It returns what remains of each in ms; 0: it is gone; below: another
	// keeper has it.
	keep(ctx context.Context, slot int, batch []question) ([]int64, error)
	// detach frees a hold, if keeper still has it.
	detach(ctx context.Context, h holdName, keeper string) error
	state(ctx context.Context, name string) (State, error)
	// scan is one page of the keys of the i-th of masters.
	scan(ctx context.Context, i int, cursor, glob string) (keys []string, next string, err error)
	masters() int
	// master names the master of a slot; "": nobody knows it, or all masters have it.
	master(slot int) string
	// listen subscribes to a channel, as Upstream.Subscribe does. The slot of keepers' channels is -1.
	listen(ctx context.Context, slot int, channel string,
		notify func(subscription.Event)) (cancel func(), err error)
	// close ends what is still under way, when ctx ends at the latest.
	close(ctx context.Context)
}

// Caller is the client that asks for something. It answers its commands in their order.
type Caller interface {
	// SendHome sends req, one whole command that is copied, to the master of slot and answers with what then
	// makes of the reply, which is valid during then. resend: req may be sent again when its reply was lost.
	// then may ask on instead and return nil. lost, if not nil, is called when the answer does not reach the
	// client.
	SendHome(slot int, req []byte, resend bool, then func(reply []byte) []byte, lost func())
	// Await has start ask for something, which calls done once, maybe before it returns and on any goroutine,
	// and answers with what then makes of what done was given.
	Await(start func(done func(reply []byte)), then func(reply []byte) []byte, lost func())
}

// Acquirer is told how an Acquire goes.
type Acquirer interface {
	// Acquired makes the client's answer. ok: the lock is granted. Not ok and no error: others hold it, and
	// if a may wait it stands in the queue: call Wait, or Undo. After an error call Undo, unless Refused says
	// that there is no need.
	Acquired(g Grant, ok bool, err error) []byte
	// Lost is called when that answer does not reach the client.
	Lost()
}

// Releaser is told how a Release went.
type Releaser interface {
	// Released makes the client's answer.
	Released(r Released, err error) []byte
}

// Acquire asks for a lock. It may be sent again by itself, and does not block: to is told how it went. From
// now on an a that may wait can be told that it has the lock.
func (l *Locker) Acquire(by Caller, a *Acquire, to Acquirer) { l.engine.acquire(by, a, to) }

// Release frees or counts down what a token holds. It does not block.
func (l *Locker) Release(by Caller, r *Release, to Releaser) { l.engine.release(by, r, to) }

// Renew makes the lease of a hold longer, never shorter. It does not block.
func (l *Locker) Renew(by Caller, r *Renew, then func(Renewed, error) []byte) {
	l.engine.renew(by, r, then)
}

// Break ends whatever holds the lock of that name. broken: it was not free. It does not block.
func (l *Locker) Break(by Caller, name string, then func(broken bool, err error) []byte) {
	l.engine.breakLock(by, name, then)
}

// Inspect reads a lock. token, if not "", is of a client who relies on the answer, which tells of no other
// reader: no LOCK that made its hold what the answer says is taken back any more. It does not block.
func (l *Locker) Inspect(by Caller, name, token string, then func(State, error) []byte) {
	l.engine.inspect(by, name, token, then)
}
