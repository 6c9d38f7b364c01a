package redlock

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// localOrder is the order of those who wait for a lock on independent masters, which have no queue: the
// clients of one proxy are first come, first served; proxies are in no order. A lock that is released here
// goes on to the first who waits here, some times in a row.
type localOrder struct {
	queues   *waitQueues
	engine   preparer
	maxQueue int
}

// preparer is what localOrder needs of the engine.
type preparer interface {
	waitEngine
	// prepare is an attempt of a that no master has been asked for yet; an error: it would be in vain.
	prepare(a *Acquire) (prepared, error)
	// Undo takes back what a has made, in the background.
	Undo(a *Acquire)
}

// prepared is an attempt that a release was made for.
type prepared interface {
	// giveUp makes it a lost one, unless it is decided already.
	giveUp() bool
}

// newLocalOrder are the waiters of e; of one lock not more than maxQueue.
func newLocalOrder(e preparer, names *naming, maxQueue int, log *slog.Logger) *localOrder {
	o := &localOrder{engine: e, maxQueue: maxQueue}
	o.queues = newWaitQueues(e, o, names, log)
	return o
}

// mostPassed is how often in a row a lock goes on within one proxy, before those who wait in other ones have
// the same chance.
const mostPassed = 4

// turnState is how a waiter stands in a localOrder. Guarded by waitQueues.mu.
type turnState struct {
	next    prepared // was made for it when the lock was released
	asks    bool     // an attempt is being made, by it or for it
	refused bool     // a majority has said that others hold the lock
	doubt   string   // the last attempt does not know it: why
	up      bool     // a reader who waits to be the writer
}

// refusal is what a majority has said to a waiter: others hold the lock.
type refusal struct {
	up    bool          // it is a reader who wants to write, and waits for other readers
	pause time.Duration // until it may get the lock
	doubt string        // why it may have the lock all the same, or ""
}

// overtakes says that others wait for the lock that a wants, before a if it waits too.
func (o *localOrder) overtakes(a *Acquire) bool {
	key := o.queues.names.place(a.Name).key
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	q := o.queues.byKey[key]
	return q != nil && q.waiters[0] != o.queues.byAsk[a]
}

// follows says that others of this proxy wait for the lock that a wants, and that a need not ask before them.
func (o *localOrder) follows(a *Acquire) bool {
	if !a.fresh || a.Wait <= 0 || !o.overtakes(a) {
		return false
	}
	o.queues.expect(a)
	return true
}

// admit implements order.
func (o *localOrder) admit(w *waiter) error {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	q := o.queues.byKey[w.place.key]
	if q == nil {
		return nil
	}
	if n := len(q.waiters); n >= o.maxQueue {
		return ReplyError(fmt.Sprintf("QUEUEFULL %d clients of this proxy wait for this lock already: "+
			"try again later, or raise lock-max-queue", n))
	}
	if w.turn.up && q.waiters[0].turn.up {
		return ReplyError("DEADLOCK another reader waits already to become the writer, " +
			"and each would wait for the other: " +
			"release the shared hold, then lock again")
	}
	return nil
}

// goesOn says that the first of those who wait here for a lock is going to ask for it right behind the
// release id.
func (o *localOrder) goesOn(p place, id string) bool {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	q := o.queues.byKey[p.key]
	if q == nil || !q.live || q.lost {
		return false
	}
	if q.passed == mostPassed {
		q.passed = 0
		return false
	}
	q.passed++
	q.behind = id
	return true
}

// next is the attempt of the first who waits for what the release id frees, unless it asks already; nil:
// there is none. The caller asks all nodes for it, and then calls wakeNext.
func (o *localOrder) next(p place, id string) prepared {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	q := o.queues.byKey[p.key]
	if q == nil || q.behind != id {
		return nil
	}
	w := q.waiters[0]
	if w.turn.asks || time.Until(w.deadline) <= 0 {
		return nil
	}
	if next, err := o.engine.prepare(w.a); err == nil {
		w.turn.next, w.turn.asks = next, true
	}
	return w.turn.next
}

// wakeNext has that one see what becomes of it, or ask.
func (o *localOrder) wakeNext(p place, id string) {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	if q := o.queues.byKey[p.key]; q != nil && q.behind == id {
		q.waiters[0].nudge()
	}
}

// take is the attempt that was made for a when the lock was released; nil: there is none, and a makes one.
// Call took when that is decided.
func (o *localOrder) take(a *Acquire) (next prepared) {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	if w := o.queues.byAsk[a]; w != nil {
		next = w.turn.next
		w.turn.next, w.turn.asks = nil, true
	}
	return next
}

// took notes that a has asked.
func (o *localOrder) took(a *Acquire) {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	if w := o.queues.byAsk[a]; w != nil {
		w.turn.asks = false
	}
}

// refused notes that a majority refused a, or that others were before it.
func (o *localOrder) refused(a *Acquire, r refusal) {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	w := o.queues.byAsk[a]
	if w == nil {
		return
	}
	w.turn.up = r.up
	w.turn.refused = w.turn.refused || r.doubt == ""
	w.turn.doubt = r.doubt
	// Not in step with other proxies.
	w.due = time.Now().Add(min(r.pause+rand.N(2*time.Millisecond), pulse-rand.N(pulse/4)))
	if q := o.queues.byKey[w.place.key]; q != nil && q.waiters[0] == w {
		q.due = w.due
		q.expect(w.due)
	}
}

// leaves implements order: the attempt that was made for w is taken back, and no other is made.
func (o *localOrder) leaves(w *waiter) {
	if next := o.take(w.a); next != nil && !next.giveUp() {
		o.engine.Undo(w.a)
	}
}

// left implements order: two readers go in together, others wait for a message.
func (o *localOrder) left(q *waitQueue, w *waiter, first bool, ttl time.Duration) {
	switch {
	case ttl > 0:
		q.due = time.Now()
		if w.mode == Write || q.waiters[0].mode == Write {
			q.due = q.due.Add(pulse)
		}
	case first: // the lock may have gone on to w
		q.waiters[0].nudge()
	}
}

// heard implements order: the lock is free, unless it has gone on here already.
func (o *localOrder) heard(q *waitQueue, message []byte) {
	if string(message) != q.behind {
		q.waiters[0].nudge()
	}
}

// missed implements order.
func (o *localOrder) missed(q *waitQueue) { q.waiters[0].nudge() }

// ended implements order. A client whose wait was in vain is told that others hold the lock only if a majority
// has refused its token meanwhile.
func (*localOrder) ended(w *waiter, err error) error {
	if err != nil || w.a.fresh || w.turn.refused || w.turn.doubt == "" {
		return err
	}
	return ReplyError(w.turn.doubt)
}
