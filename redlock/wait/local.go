package wait

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"lockproxy/redlock"
)

// Local orders those who wait for a lock on independent masters, which have no queue. The clients of one
// proxy are served first come, first served; proxies are in no order. A lock that is released here goes to
// the first who waits here, a few times in a row.
type Local struct {
	*Queues
	prepares Preparer // the engine; nil: it is not one
	maxQueue int
}

// Preparer is an engine that sends the attempt of the next one right behind a release.
type Preparer interface {
	Engine
	// Prepare makes an attempt of a that has not been sent yet. An error means that it would be in vain.
	Prepare(a *redlock.Acquire) (Prepared, error)
	// Undo takes back, in the background, what a left on the masters.
	Undo(a *redlock.Acquire)
}

// Prepared is an attempt that a release made for a waiter.
type Prepared interface {
	// GiveUp ends the attempt as lost, unless it is decided already.
	GiveUp() bool
}

// NewLocal returns the queues of e. A lock has at most maxQueue waiters here.
func NewLocal(e Engine, names *redlock.Names, maxQueue int, log *slog.Logger) *Local {
	o := &Local{maxQueue: maxQueue}
	o.prepares, _ = e.(Preparer)
	o.Queues = newQueues(e, o, names, log)
	return o
}

// mostPassed is how often in a row a lock is passed on within one proxy before waiters of other proxies get
// an equal chance.
const mostPassed = 4

// turnState is the state of a waiter in a Local. Guarded by Queues.mu. It is empty with Redis, where the
// queue in Redis says the same.
type turnState struct {
	next    Prepared // the attempt that a release made for it
	asks    bool     // an attempt is under way, by it or for it
	refused bool     // a majority has said that others hold the lock
	doubt   error    // why the last attempt is in doubt, or nil
	up      bool     // a reader that waits to become the writer
}

// Refused is the answer of a majority to a waiter: others hold the lock.
type Refused struct {
	Up    bool          // a reader that wants to write, and waits for other readers to leave
	Pause time.Duration // how long until another try is worthwhile
	Doubt error         // why the token may hold the lock after all, or nil
}

// OthersFirst says that others wait for the lock that a wants, ahead of a if it waits too.
func (o *Local) OthersFirst(a *redlock.Acquire) bool {
	var space [128]byte
	key := o.names.AppendKey(space[:0], a.Name)
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.byKey[string(key)]
	return q != nil && q.waiters[0] != o.byAsk[a]
}

// Follows says that others of this proxy already wait for the lock that a wants, so that a need not ask
// before they do.
func (o *Local) Follows(a *redlock.Acquire) bool {
	if !a.Fresh || a.Wait <= 0 || !o.OthersFirst(a) {
		return false
	}
	o.Expect(a, time.Now())
	return true
}

// admitWaiter implements waitOrder.
func (o *Local) admitWaiter(w *waiter) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.byKey[w.place.Key]
	if q == nil {
		return nil
	}
	if n := len(q.waiters); n >= o.maxQueue {
		return redlock.ReplyError(fmt.Sprintf("QUEUEFULL %d clients of this proxy wait for this lock "+
			"already: "+
			"try again later, or raise lock-max-queue", n))
	}
	if w.turn.up && q.waiters[0].turn.up {
		return redlock.ReplyError("DEADLOCK another reader waits already to become the writer, " +
			"and each would wait for the other: " +
			"release the shared hold, then lock again")
	}
	return nil
}

// PassOn says that the first who waits here for a lock is going to ask for it right behind the release id.
// next is its attempt, or nil: it is asking already, or will by itself. The caller sends both to all nodes,
// then calls WakeNext. It asks the engine for an attempt with mu held, which must not ask o in turn.
func (o *Local) PassOn(p redlock.LockPlace, id string) (next Prepared, passed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.byKey[p.Key]
	if q == nil || !q.live {
		return nil, false
	}
	if q.passed == mostPassed {
		q.passed = 0
		return nil, false
	}
	q.passed++
	q.behind = id
	w := q.waiters[0]
	if w.turn.asks || time.Until(w.deadline) <= 0 {
		return nil, true
	}
	if next, err := o.prepares.Prepare(w.a); err == nil {
		w.turn.next, w.turn.asks = next, true
	}
	return w.turn.next, true
}

// WakeNext wakes that waiter, which waits for the outcome, or asks.
func (o *Local) WakeNext(p redlock.LockPlace, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.byKey[p.Key]; q != nil && q.behind == id {
		q.waiters[0].nudge()
	}
}

// Take returns the attempt that a release made for a. If it is nil, a makes one. Call Took when that is
// decided.
func (o *Local) Take(a *redlock.Acquire) (next Prepared) {
	o.withWaiter(a, func(w *waiter) {
		next = w.turn.next
		w.turn.next, w.turn.asks = nil, true
	})
	return next
}

// Took notes that the attempt of a is over.
func (o *Local) Took(a *redlock.Acquire) {
	o.withWaiter(a, func(w *waiter) { w.turn.asks = false })
}

// Refused notes that a majority refused a, or that others were ahead of it.
func (o *Local) Refused(a *redlock.Acquire, r Refused) {
	o.withWaiter(a, func(w *waiter) {
		w.turn.up = r.Up
		w.turn.refused = w.turn.refused || r.Doubt == nil
		w.turn.doubt = r.Doubt
		// Random, so that proxies do not ask in step.
		w.due = time.Now().Add(min(r.Pause+rand.N(2*time.Millisecond), pulse-rand.N(pulse/4)))
		if q := o.byKey[w.place.Key]; q != nil && q.waiters[0] == w {
			q.planTry(w.due)
		}
	})
}

// waiterLeaves implements waitOrder: it takes back the attempt that was made for w, and no other is made.
func (o *Local) waiterLeaves(w *waiter) {
	if next := o.Take(w.a); next != nil && !next.GiveUp() {
		o.prepares.Undo(w.a)
	}
}

// waiterLeft implements waitOrder: another reader goes in at once, others wait for a message.
func (o *Local) waiterLeft(q *queue, w *waiter, first bool, ttl time.Duration) {
	switch {
	case ttl > 0:
		next := time.Now()
		if w.a.Mode == redlock.Write || q.waiters[0].a.Mode == redlock.Write {
			next = next.Add(pulse)
		}
		q.planTry(next)
	case first: // the lock may have gone on to w
		q.waiters[0].nudge()
	}
}

// heardMessage implements waitOrder: the lock is free, unless it has been passed on here already.
func (o *Local) heardMessage(q *queue, message []byte) {
	if string(message) != q.behind {
		q.waiters[0].nudge()
	}
}

// missedMessages implements waitOrder.
func (o *Local) missedMessages(q *queue) { q.waiters[0].nudge() }

// waitEnded implements waitOrder. A client whose wait was in vain is told that others hold the lock only if a
// majority has refused its token meanwhile.
func (*Local) waitEnded(w *waiter, err error) error {
	if err != nil || w.a.Fresh || w.turn.refused {
		return err
	}
	return w.turn.doubt
}
