// Package wait is who waits here for locks. The waiters of one lock share one subscription and one timer,
// which the first of them has; each has a goroutine, which sleeps.
//
//	Expect    a request is sent that may have to wait: from now on it can be given the lock
//	Wait      it stands in the queue of its lock:
//
//	          sleep --> given the lock by a release at this proxy  --> granted
//	            ^  \--> woken by a message, or its time has come   --> Engine.Attempt --> granted
//	            |___________________________________________________________/
//
//	Forget    nothing need be told to it any more
//
// Who of them asks next is the affair of an order. Redis: the queue is in Redis, and the scripts say who.
// Local: the queue is here, and a lock that is released goes on to the first.
package wait

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

const (
	// pulse is how often at least a proxy with waiters asks for the lock: it
	// keeps the proxy alive in the queue (3 s) and bounds what a lost message costs.
	pulse = time.Second
	// deafPulse is the same while there is no subscription.
	deafPulse = 100 * time.Millisecond
	// listenTimeout bounds one attempt to subscribe.
	listenTimeout = 5 * time.Second
	// offer is how long the scripts reserve a free lock for a waiter.
	offer = 500 * time.Millisecond
)

// Engine is what those who wait need of the engine that keeps their locks.
type Engine interface {
	// Attempt asks once for a lock, until ctx ends.
	Attempt(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error)
	// Listen subscribes to the channel of a lock.
	Listen(ctx context.Context, slot int, channel string,
		notify func(subscription.Event)) (cancel func(), err error)
}

// order is who of those who wait here for a lock asks for it next: Redis, where the queue is in Redis,
// or Local, where it is here.
type order interface {
	// admit says why w cannot wait.
	admit(w *waiter) error
	// leaves is called before w leaves. Queues.mu is not held.
	leaves(w *waiter)
	// left is called when others still wait. first: w was the first of them; ttl: the lease that it was
	// granted, or 0. Queues.mu is held, as in those that follow.
	left(q *queue, w *waiter, first bool, ttl time.Duration)
	// heard is what a message on the channel of the lock says.
	heard(q *queue, message []byte)
	// missed has those try who may have missed a message.
	missed(q *queue)
	// ended is what the client of w is told, who was not granted the lock; err is why, nil: the wait is over.
	// nil: others hold the lock.
	ended(w *waiter, err error) error
}

// Queues are those who wait here for locks. They own the state of each wait: an Acquire is found by its
// address, and knows nothing of it.
type Queues struct {
	engine Engine
	order  order
	names  *redlock.Names
	log    *slog.Logger

	ctx       context.Context // of the subscriptions
	cancel    context.CancelFunc
	listening sync.WaitGroup

	mu    sync.Mutex
	byKey map[string]*queue            // by key of the lock
	byID  map[string]*waiter           // by id of the request
	byAsk map[*redlock.Acquire]*waiter // the same ones
}

func newQueues(e Engine, by order, names *redlock.Names, log *slog.Logger) *Queues {
	ws := &Queues{engine: e, order: by, names: names, log: log, byKey: make(map[string]*queue),
		byID: make(map[string]*waiter), byAsk: make(map[*redlock.Acquire]*waiter)}
	ws.ctx, ws.cancel = context.WithCancel(context.Background())
	return ws
}

// Close ends the subscriptions. Nobody waits any more.
func (ws *Queues) Close() {
	ws.cancel()
	ws.listening.Wait()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if n := len(ws.byAsk) + len(ws.byKey); n > 0 {
		ws.log.Debug(leftBehind, "waiters", len(ws.byAsk), "queues", len(ws.byKey))
	}
}

// leftBehind is logged when clients have gone in a way that nobody expects.
const leftBehind = "closed while clients may still wait for locks"

// Wait goes on waiting for the lock that a stands in the queue for, until a.Wait is over: ok is false then.
// It blocks. What a has made stays, for the engine to take back.
func (ws *Queues) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	w := ws.waiterOf(a)
	if err := ws.order.admit(w); err != nil {
		ws.Forget(a)
		return g, false, err
	}
	q := ws.enter(w)
	g, ok, err = ws.stay(ctx, q, w)
	ws.leave(q, w, g.TTL)
	if ok {
		return g, true, nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return g, false, ws.order.ended(w, err)
}

// stay is the wait of w in q.
func (ws *Queues) stay(ctx context.Context, q *queue, w *waiter) (g redlock.Grant, ok bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(ws.sleep(q, w))
		try := false
		select {
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		case g := <-w.given:
			g.Token = w.a.Token
			return g, true, nil
		case <-w.wake:
			try = true
		case <-w.rearm:
		case <-timer.C:
			try = ws.due(q, w)
		}
		if time.Until(w.deadline) <= 0 {
			select {
			case g := <-w.given: // it came at the last moment
				g.Token = w.a.Token
				return g, true, nil
			default:
				return g, false, nil
			}
		}
		if !try {
			continue
		}
		switch g, ok, err = ws.attempt(ctx, w); {
		case err == errOverdue:
			return redlock.Grant{}, false, nil
		case err == redlock.ErrAgain:
			w.nudge()
		case ok || err != nil:
			return g, ok, err
		}
	}
}

// errOverdue is why an attempt ends whose waiter's wait is over.
var errOverdue = errors.New("the wait is over")

// attempt has w ask once, for no longer than it waits.
func (ws *Queues) attempt(ctx context.Context, w *waiter) (redlock.Grant, bool, error) {
	limited, cancel := context.WithDeadlineCause(ctx, w.deadline, errOverdue)
	defer cancel()
	return ws.engine.Attempt(limited, w.a)
}

// queue is where the local waiters of one lock wait, in the order in which they
// came. They share one subscription and one timer, which the first of them has.
type queue struct {
	place   redlock.Place
	waiters []*waiter // guarded by Queues.mu, as all below
	due     time.Time // when the first one is to try
	live    bool      // the subscription is
	lost    bool      // it was, and is lost
	passed  int       // Local: how often in a row the lock went on within this proxy
	behind  string    // Local: the release that it went on behind

	ctx   context.Context // ends with the queue
	close context.CancelFunc
	stop  func() // ends the subscription
}

// waiter is one Acquire that may wait. It is known from before its first request is
// sent, because by the time the reply is read the lock may have been handed to it.
type waiter struct {
	id       string
	a        *redlock.Acquire
	place    redlock.Place
	mode     redlock.Mode
	deadline time.Time
	wake     chan struct{}      // capacity 1: try now
	rearm    chan struct{}      // capacity 1: look at the timer again
	given    chan redlock.Grant // capacity 1: a release handed the lock over
	due      time.Time          // when the next attempt is due, as far as it was told; guarded by Queues.mu
	turn     turnState
}

// Expect says that a is going to ask, and may wait for the lock until the time that it returns. From now on
// it can be told that it has the lock. Forget ends that, or Wait.
func (ws *Queues) Expect(a *redlock.Acquire) (until time.Time) { return ws.waiterOf(a).deadline }

// waiterOf is the waiter of a, made unless there is one.
func (ws *Queues) waiterOf(a *redlock.Acquire) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byAsk[a]; w != nil {
		return w
	}
	w := &waiter{
		a: a, id: a.ID, place: ws.names.Place(a.Name), mode: a.Mode, deadline: time.Now().Add(a.Wait),
		wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1), given: make(chan redlock.Grant, 1),
	}
	ws.byID[w.id], ws.byAsk[a] = w, w
	return w
}

// Waited says that somebody waits here already for the lock that a wants.
func (ws *Queues) Waited(a *redlock.Acquire) bool {
	key := ws.names.Place(a.Name).Key
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byKey[key] != nil
}

// Forget drops the waiter of a, if there is one: nothing need be told to it any more.
func (ws *Queues) Forget(a *redlock.Acquire) {
	if a.Wait <= 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byAsk[a]; w != nil {
		ws.drop(w)
	}
}

// drop is forget of w. mu is held.
func (ws *Queues) drop(w *waiter) {
	delete(ws.byID, w.id)
	delete(ws.byAsk, w.a)
}

// nudge has w try now.
func (w *waiter) nudge() { signal(w.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// HandOver gives the waiter of the request id the lock that went to it by a release or a cancel. One that has
// left takes the grant back by itself.
func (ws *Queues) HandOver(id string, g redlock.Grant) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byID[id]; w != nil {
		select {
		case w.given <- g:
		default: // the same, told twice
		}
	}
}

// enter has w wait.
func (ws *Queues) enter(w *waiter) *queue {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	q := ws.byKey[w.place.Key]
	if q == nil {
		q = &queue{place: w.place, due: w.due}
		q.ctx, q.close = context.WithCancel(ws.ctx)
		ws.byKey[w.place.Key] = q
		// ends when the subscription is confirmed, or with the queue
		ws.listening.Go(func() { ws.subscribe(q) })
	}
	q.stand(w)
	if !w.due.IsZero() { // else it follows others, who will say when
		q.expect(w.due)
	}
	return q
}

// stand puts w where it belongs: last, or first if the others wait for its own shared hold to end. The caller
// holds Queues.mu.
func (q *queue) stand(w *waiter) {
	if w.turn.up {
		q.waiters = slices.Insert(q.waiters, 0, w)
		return
	}
	q.waiters = append(q.waiters, w)
}

// leave takes w out and forgets it. The next one takes the timer over; the last
// one ends the subscription. ttl is the lease that w was granted, or 0.
func (ws *Queues) leave(q *queue, w *waiter, ttl time.Duration) {
	ws.order.leaves(w) // before the next one asks
	ws.mu.Lock()
	ws.drop(w)
	i := slices.Index(q.waiters, w)
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if len(q.waiters) > 0 {
		ws.order.left(q, w, i == 0, ttl)
		if ttl > 0 {
			q.expect(time.Now().Add(ttl))
		}
		signal(q.waiters[0].rearm)
		ws.mu.Unlock()
		return
	}
	delete(ws.byKey, q.place.Key)
	stop := q.stop
	ws.mu.Unlock()
	q.close()
	if stop != nil {
		stop()
	}
}

// expect has the first waiter try at the given time at the latest, or at the
// next pulse. The caller holds Queues.mu.
func (q *queue) expect(at time.Time) {
	most := pulse
	if !q.live || q.lost {
		most = deafPulse
	}
	if limit := time.Now().Add(most); limit.Before(at) {
		at = limit
	}
	if at.Before(q.due) {
		q.due = at
		signal(q.waiters[0].rearm)
	}
}

// sleep is how long w may sleep: until its deadline, and the first one until
// its next attempt.
func (ws *Queues) sleep(q *queue, w *waiter) time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	until := w.deadline
	if q.waiters[0] == w && q.due.Before(until) {
		until = q.due
	}
	return time.Until(until)
}

// due says whether it is for w to try, and the time has come.
func (ws *Queues) due(q *queue, w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return q.waiters[0] == w && !time.Now().Before(q.due)
}

// subscribe listens for a queue, for as long as it takes.
func (ws *Queues) subscribe(q *queue) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(q.ctx, listenTimeout)
		stop, err := ws.engine.Listen(ctx, q.place.Slot, q.place.Key,
			func(e subscription.Event) { ws.heard(q, e) })
		cancel()
		if err == nil {
			ws.mu.Lock()
			open := ws.byKey[q.place.Key] == q
			q.stop, q.live = stop, true
			ws.mu.Unlock()
			if !open {
				stop()
			}
			ws.rouse(q)
			return
		}
		if q.ctx.Err() != nil {
			return
		}
		ws.log.Warn("waiting for a lock without its messages", "err", err)
		select {
		case <-time.After(pause):
		case <-q.ctx.Done():
			return
		}
	}
}

// heard is what the subscription of q tells.
func (ws *Queues) heard(q *queue, e subscription.Event) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case len(q.waiters) == 0:
	case e.Kind == subscription.Message:
		ws.order.heard(q, e.Payload)
	default:
		q.lost = e.Kind == subscription.Lost
		q.expect(time.Now().Add(deafPulse))
		ws.order.missed(q)
	}
}

// rouse has waiters try that may have missed a message.
func (ws *Queues) rouse(q *queue) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(q.waiters) > 0 {
		ws.order.missed(q)
	}
}
