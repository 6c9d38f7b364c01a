// Package wait has the clients of this proxy that wait for locks. The waiters of one lock share one
// subscription and one timer, which the first of them looks after. Each has a goroutine, which sleeps.
//
//	Expect    a request is sent that may have to wait: from now on it can be handed the lock
//	Wait      it stands in the queue of its lock:
//
//	          sleep --> handed the lock by a release at this proxy --> granted
//	            ^  \--> woken by a message, or its time has come   --> Engine.Attempt --> granted
//	            |___________________________________________________________/
//
//	Forget    it need not be told anything any more
//
// Which of them asks next is up to an order. With Redis the queue is in Redis, and the scripts say who is
// next. With Local the queue is here, and a lock that is released goes to the first in it.
package wait

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

const (
	// pulse is how often a proxy with waiters asks for the lock at least. It keeps the proxy alive in the
	// queue (for 15 s) and bounds what a lost message costs.
	pulse = time.Second
	// deafPulse takes its place while there is no subscription.
	deafPulse = 100 * time.Millisecond
	// offer is how long the scripts reserve a free lock for a waiter.
	offer = 500 * time.Millisecond
)

// Engine is what waiters need of the engine that keeps their locks.
type Engine interface {
	// Attempt asks for a lock once, until ctx ends.
	Attempt(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error)
	// Listen subscribes to the channel of a lock. It never blocks.
	Listen(slot int, channel string, notify func(subscription.Change)) (cancel func())
}

// waitOrder decides which waiter here asks next: Redis, where the queue is in Redis, or Local, where it is
// here. It and Queues are one thing in two parts: it sees queues and waiters as they are.
type waitOrder interface {
	// admitWaiter returns an error if w cannot wait.
	admitWaiter(w *waiter) error
	// waiterLeaves is called before w leaves. Queues.mu is not held.
	waiterLeaves(w *waiter)
	// waiterLeft is called after w left and while others still wait. first: w was the first of them. ttl: the
	// lease that w was granted, or 0. Queues.mu is held, here and below.
	waiterLeft(q *queue, w *waiter, first bool, ttl time.Duration)
	// heardMessage takes a message on the channel of the lock.
	heardMessage(q *queue, message []byte)
	// missedMessages wakes the waiters that may have missed a message.
	missedMessages(q *queue)
	// waitEnded returns what the client of w is told, which was not granted the lock. err is the reason, or
	// nil if the wait is over. The result nil means that others hold the lock.
	waitEnded(w *waiter, err error) error
}

// Queues has the queues of all locks. It owns the state of each wait: it finds an Acquire by its address, and
// the Acquire knows nothing of it. A wait takes a goroutine of its caller, and none of Queues.
type Queues struct {
	engine Engine
	order  waitOrder
	names  *redlock.Names
	log    *slog.Logger
	deaf   journal.Again

	mu    sync.Mutex
	byKey map[string]*queue            // by key of the lock
	byID  map[string]*waiter           // by id of the request
	byAsk map[*redlock.Acquire]*waiter // the same waiters
}

func newQueues(e Engine, by waitOrder, names *redlock.Names, log *slog.Logger) *Queues {
	return &Queues{engine: e, order: by, names: names, log: log, byKey: make(map[string]*queue),
		byID: make(map[string]*waiter), byAsk: make(map[*redlock.Acquire]*waiter)}
}

// Close checks that nobody is waiting any more.
func (ws *Queues) Close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if n := len(ws.byAsk) + len(ws.byKey); n > 0 {
		ws.log.Debug(leftBehind, "waiters", len(ws.byAsk), "queues", len(ws.byKey))
	}
}

// leftBehind is logged when clients may have gone in an unexpected way.
const leftBehind = "closed while clients may still wait for locks"

// Wait waits on for the lock that a is queued for, until a.Wait is over; then ok is false. What a left in
// Redis stays, for the engine to take back. It blocks.
func (ws *Queues) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	w := ws.waiterOf(a, time.Now())
	if err := ws.order.admitWaiter(w); err != nil {
		ws.Forget(a)
		return g, false, err
	}
	q := ws.enterQueue(w)
	g, ok, err = ws.awaitLock(ctx, q, w)
	ws.leaveQueue(q, w, g.TTL)
	if w.told != nil { // its client is going to have it, whatever else has happened
		g, ok = *w.told, true
	}
	if ok {
		return g, true, nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return g, false, ws.order.waitEnded(w, err)
}

// awaitLock is the wait of w in q. A lock that was handed over goes before an attempt and before the end of
// the wait: Redis has granted it already.
func (ws *Queues) awaitLock(ctx context.Context, q *queue, w *waiter) (g redlock.Grant, ok bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(ws.sleepTime(q, w))
		try := false
		select {
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		case g := <-w.given:
			return g, true, nil
		case <-w.wake:
			try = true
		case <-w.rearm:
		case <-timer.C:
			try = ws.sleepTime(q, w) <= 0 // it may have been put off meanwhile
		}
		select {
		case g := <-w.given: // it came together with something else
			return g, true, nil
		default:
		}
		if time.Until(w.deadline) <= 0 {
			return g, false, nil
		}
		if !try || !ws.rise(w) {
			continue
		}
		switch g, ok, err = ws.attemptFor(ctx, w); {
		case err == errOverdue:
			return redlock.Grant{}, false, nil
		case ok || err != nil:
			return g, ok, err
		}
		ws.lieDown(w)
	}
}

// rise notes that w is going to make an attempt. It says false if the client of w was told of a grant.
func (ws *Queues) rise(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.sleeps = w.told != nil
	return !w.sleeps
}

// lieDown notes that the attempt of w is over, and was refused. If w was handed the lock meanwhile, it asks
// again: either the attempt came before that, and the next one finds the grant; or it came behind a BREAK
// that ended the grant, and w stands in the queue once more, in a place that nobody else would take back.
func (ws *Queues) lieDown(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.sleeps = true
	select {
	case <-w.given:
		w.nudge()
	default:
	}
}

// errOverdue is why an attempt is ended when the wait is over.
var errOverdue = errors.New("the wait is over")

// attemptFor asks once for w, for no longer than w waits. It blocks; mu is not held.
func (ws *Queues) attemptFor(ctx context.Context, w *waiter) (redlock.Grant, bool, error) {
	limited, cancel := context.WithDeadlineCause(ctx, w.deadline, errOverdue)
	defer cancel()
	return ws.engine.Attempt(limited, w.a)
}

// queue has the waiters of one lock at this proxy, in the order in which they came. They share one
// subscription and one timer, which the first of them looks after.
type queue struct {
	place   redlock.LockPlace
	waiters []*waiter // guarded by Queues.mu, as are the fields below
	due     time.Time // when the first waiter tries next, while the subscription lasts
	planned time.Time // when due was set; without a subscription the next try is a deafPulse later
	live    bool      // the subscription stands
	passed  int       // Local: how often in a row the lock was passed on within this proxy
	behind  string    // Local: the release behind which it was passed on
	stop    func()    // ends the subscription
}

// waiter is one Acquire that may wait. It is known from before its first request is sent, because the lock
// may be handed to it before the reply is read.
type waiter struct {
	id       string
	a        *redlock.Acquire
	place    redlock.LockPlace
	deadline time.Time
	wake     chan struct{}      // capacity 1: try now
	rearm    chan struct{}      // capacity 1: look at the timer again
	given    chan redlock.Grant // capacity 1: a release handed the lock over
	due      time.Time          // when the next attempt is due, as far as it knows; guarded by Queues.mu
	turn     turnState
	stood    int64          // Redis: see Stood; guarded by Queues.mu
	sleeps   bool           // it is in its queue, and no attempt is under way; guarded by Queues.mu
	told     *redlock.Grant // what Acquire.Handed was told; guarded by Queues.mu until it has left
}

// Expect says that a, which was asked then, may wait for the lock until the time that is returned. From now
// on it can be handed the lock. That ends with Forget, or with Wait.
func (ws *Queues) Expect(a *redlock.Acquire, asked time.Time) (until time.Time) {
	return ws.waiterOf(a, asked).deadline
}

// waiterOf returns the waiter of a, which was asked then, a new one if needed.
func (ws *Queues) waiterOf(a *redlock.Acquire, asked time.Time) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byAsk[a]; w != nil {
		return w
	}
	w := &waiter{
		a: a, id: a.ID, place: ws.names.Place(a.Name), deadline: asked.Add(a.Wait),
		wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1), given: make(chan redlock.Grant, 1),
	}
	ws.byID[w.id], ws.byAsk[a] = w, w
	return w
}

// Waited says that others already wait here for the lock that a wants.
func (ws *Queues) Waited(a *redlock.Acquire) bool {
	key := ws.names.Place(a.Name).Key
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byKey[key] != nil
}

// Forget drops the waiter of a, if there is one: it need not be told anything any more.
func (ws *Queues) Forget(a *redlock.Acquire) {
	if a.Wait > 0 {
		ws.withWaiter(a, ws.dropWaiter)
	}
}

// withWaiter calls f, with mu held, for the waiter of a, if there is one.
func (ws *Queues) withWaiter(a *redlock.Acquire, f func(w *waiter)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byAsk[a]; w != nil {
		f(w)
	}
}

// dropWaiter forgets w. mu is held.
func (ws *Queues) dropWaiter(w *waiter) {
	delete(ws.byID, w.id)
	delete(ws.byAsk, w.a)
}

// nudge makes w try now.
func (w *waiter) nudge() { signal(w.wake) }

// signal never blocks: one signal that is not taken yet stands for all.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// HandOver hands the waiter of the request id the lock that a release or a cancel gave it. A waiter that has
// left takes the grant back itself.
func (ws *Queues) HandOver(id string, g redlock.Grant) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byID[id]; w != nil {
		g.Token = w.a.Token
		w.handGrant(g)
	}
}

// handGrant gives the lock to w. It tells its client, unless w does not sleep: then an attempt may still
// change what w asks for, or lieDown has it ask again. Queues.mu is held.
func (w *waiter) handGrant(g redlock.Grant) {
	select {
	case w.given <- g:
	default:
		return // the same, told twice
	}
	if w.sleeps && w.told == nil && w.a.Handed != nil {
		w.told = &g
		w.a.Handed(g)
	}
}

// enterQueue puts w into the queue of its lock. The first in a queue subscribes for it: the queue lasts until
// it has, since w stands there.
func (ws *Queues) enterQueue(w *waiter) *queue {
	q, was := ws.queueWith(w)
	if was {
		return q
	}
	stop := ws.engine.Listen(q.place.Slot, q.place.Key, func(e subscription.Change) { ws.heardEvent(q, e) })
	ws.mu.Lock()
	defer ws.mu.Unlock()
	q.stop = stop
	return q
}

// queueWith puts w into the queue of its lock. was says that there was one.
func (ws *Queues) queueWith(w *waiter) (q *queue, was bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	q, was = ws.byKey[w.place.Key]
	if !was {
		q = &queue{place: w.place}
		q.planTry(w.due)
		ws.byKey[w.place.Key] = q
	}
	at := len(q.waiters)
	if w.turn.up { // in front, since the others wait for its own shared hold to end
		at = 0
	}
	q.waiters = slices.Insert(q.waiters, at, w)
	w.sleeps = true
	if !w.due.IsZero() { // otherwise it follows others, which will wake it
		q.expectTry(w.due)
	}
	return q, was
}

// leaveQueue takes w out and forgets it. The next waiter takes over the timer; the last one ends the
// subscription. ttl is the lease that w was granted, or 0.
func (ws *Queues) leaveQueue(q *queue, w *waiter, ttl time.Duration) {
	ws.order.waiterLeaves(w) // before the next waiter asks
	ws.mu.Lock()
	ws.dropWaiter(w)
	i := slices.Index(q.waiters, w)
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if len(q.waiters) > 0 {
		ws.order.waiterLeft(q, w, i == 0, ttl)
		if ttl > 0 {
			q.expectTry(time.Now().Add(ttl))
		}
		signal(q.waiters[0].rearm)
		ws.mu.Unlock()
		return
	}
	delete(ws.byKey, q.place.Key)
	stop := q.stop
	ws.mu.Unlock()
	stop()
}

// planTry makes the first waiter try at that time, whatever was planned before. Queues.mu is held, here and
// below.
func (q *queue) planTry(at time.Time) { q.due, q.planned = at, time.Now() }

// expectTry makes the first waiter try at that time, unless it does so before.
func (q *queue) expectTry(at time.Time) {
	if at.Before(q.due) {
		q.due = at
		signal(q.waiters[0].rearm)
	}
}

// nextTry is when the first waiter tries. While the subscription does not stand, messages may be lost, so it
// tries often.
func (q *queue) nextTry() time.Time {
	if deaf := q.planned.Add(deafPulse); !q.live && deaf.Before(q.due) {
		return deaf
	}
	return q.due
}

// sleepTime is how long w may sleep: until its deadline, or if it is the first, until its next attempt.
func (ws *Queues) sleepTime(q *queue, w *waiter) time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	until := w.deadline
	if next := q.nextTry(); q.waiters[0] == w && next.Before(until) {
		until = next
	}
	return time.Until(until)
}

// heardEvent takes an event of the subscription of q. It may be called within Listen, or on any goroutine.
func (ws *Queues) heardEvent(q *queue, e subscription.Change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case len(q.waiters) == 0:
	case e.Kind == subscription.Message:
		ws.order.heardMessage(q, e.Payload)
	case e.Kind == subscription.Refused:
		ws.deaf.Write(ws.log, slog.LevelWarn, "waiting for a lock without its messages", "err", e.Err)
	default: // a message may have been missed
		q.live = e.Kind == subscription.Live
		q.planTry(q.due)
		signal(q.waiters[0].rearm)
		ws.order.missedMessages(q)
	}
}
