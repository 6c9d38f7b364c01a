package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lockproxy/internal/subscription"
)

const (
	// pulse is how often at least a proxy with waiters asks for the lock: it
	// keeps the proxy alive in the queue (3 s) and bounds what a lost message costs.
	pulse = time.Second
	// deafPulse is the same while there is no subscription.
	deafPulse = 100 * time.Millisecond
	// offer is how long the scripts reserve a free lock for a waiter.
	offer = 500 * time.Millisecond
)

// waitEngine is what those who wait need of the engine that keeps their locks.
type waitEngine interface {
	// Attempt asks once for a lock, until ctx ends.
	Attempt(ctx context.Context, a *Acquire) (g Grant, ok bool, err error)
	// Listen subscribes to the channel of a lock.
	Listen(ctx context.Context, slot int, channel string,
		notify func(subscription.Event)) (cancel func(), err error)
}

// order is who of those who wait here for a lock asks for it next: redisOrder, where the queue is in Redis,
// or localOrder, where it is here.
type order interface {
	// admit says why w cannot wait.
	admit(w *waiter) error
	// leaves is called before w leaves. waitQueues.mu is not held.
	leaves(w *waiter)
	// left is called when others still wait. first: w was the first of them; ttl: the lease that it was
	// granted, or 0. waitQueues.mu is held, as in those that follow.
	left(q *waitQueue, w *waiter, first bool, ttl time.Duration)
	// heard is what a message on the channel of the lock says.
	heard(q *waitQueue, message []byte)
	// missed has those try who may have missed a message.
	missed(q *waitQueue)
	// ended is what the client of w is told, who was not granted the lock; err is why, nil: the wait is over.
	// nil: others hold the lock.
	ended(w *waiter, err error) error
}

// waitQueues are those who wait here for locks. They own the state of each wait: an Acquire is found by its
// address, and knows nothing of it.
type waitQueues struct {
	engine waitEngine
	order  order
	names  *naming
	log    *slog.Logger

	ctx       context.Context // of the subscriptions
	cancel    context.CancelFunc
	listening sync.WaitGroup

	mu    sync.Mutex
	byKey map[string]*waitQueue // by key of the lock
	byID  map[string]*waiter    // by id of the request
	byAsk map[*Acquire]*waiter  // the same ones
}

func newWaitQueues(e waitEngine, by order, names *naming, log *slog.Logger) *waitQueues {
	ws := &waitQueues{engine: e, order: by, names: names, log: log, byKey: make(map[string]*waitQueue),
		byID: make(map[string]*waiter), byAsk: make(map[*Acquire]*waiter)}
	ws.ctx, ws.cancel = context.WithCancel(context.Background())
	return ws
}

// close ends the subscriptions. Nobody waits any more.
func (ws *waitQueues) close() {
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

// wait goes on waiting for the lock that a stands in the queue for, until a.Wait is over: ok is false then.
// It blocks. What a has made stays, for the engine to take back.
func (ws *waitQueues) wait(ctx context.Context, a *Acquire) (g Grant, ok bool, err error) {
	w := ws.expect(a)
	if err := ws.order.admit(w); err != nil {
		ws.forget(a)
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
func (ws *waitQueues) stay(ctx context.Context, q *waitQueue, w *waiter) (g Grant, ok bool, err error) {
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
			return Grant{}, false, nil
		case err == ErrAgain:
			w.nudge()
		case ok || err != nil:
			return g, ok, err
		}
	}
}

// errOverdue is why an attempt ends whose waiter's wait is over.
var errOverdue = errors.New("the wait is over")

// attempt has w ask once, for no longer than it waits.
func (ws *waitQueues) attempt(ctx context.Context, w *waiter) (Grant, bool, error) {
	limited, cancel := context.WithDeadlineCause(ctx, w.deadline, errOverdue)
	defer cancel()
	return ws.engine.Attempt(limited, w.a)
}

// waitQueue is where the local waiters of one lock wait, in the order in which they
// came. They share one subscription and one timer, which the first of them has.
type waitQueue struct {
	place   place
	waiters []*waiter // guarded by waitQueues.mu, as all below
	due     time.Time // when the first one is to try
	live    bool      // the subscription is
	lost    bool      // it was, and is lost
	passed  int       // localOrder: how often in a row the lock went on within this proxy
	behind  string    // localOrder: the release that it went on behind

	ctx   context.Context // ends with the queue
	close context.CancelFunc
	stop  func() // ends the subscription
}

// waiter is one Acquire that may wait. It is known from before its first request is
// sent, because by the time the reply is read the lock may have been handed to it.
type waiter struct {
	id       string
	a        *Acquire
	place    place
	mode     Mode
	deadline time.Time
	wake     chan struct{} // capacity 1: try now
	rearm    chan struct{} // capacity 1: look at the timer again
	given    chan Grant    // capacity 1: a release handed the lock over
	due      time.Time     // when the next attempt is due, as far as it was told; guarded by waitQueues.mu
	turn     turnState
}

// expect makes the waiter of a, unless there is one.
func (ws *waitQueues) expect(a *Acquire) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byAsk[a]; w != nil {
		return w
	}
	w := &waiter{
		a: a, id: a.ID, place: ws.names.place(a.Name), mode: a.Mode, deadline: time.Now().Add(a.Wait),
		wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1), given: make(chan Grant, 1),
	}
	ws.byID[w.id], ws.byAsk[a] = w, w
	return w
}

// waited says that somebody waits here for the lock of w already.
func (ws *waitQueues) waited(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byKey[w.place.key] != nil
}

// forget drops the waiter of a, if there is one: nothing need be told to it any more.
func (ws *waitQueues) forget(a *Acquire) {
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
func (ws *waitQueues) drop(w *waiter) {
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

// handOver gives the waiter of the request id the lock that went to it by a release or a cancel. One that has left takes the grant
// back by itself.
func (ws *waitQueues) handOver(id string, g Grant) {
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
func (ws *waitQueues) enter(w *waiter) *waitQueue {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	q := ws.byKey[w.place.key]
	if q == nil {
		q = &waitQueue{place: w.place, due: w.due}
		q.ctx, q.close = context.WithCancel(ws.ctx)
		ws.byKey[w.place.key] = q
		ws.listening.Go(func() { ws.subscribe(q) }) // ends when the subscription is confirmed, or with the queue
	}
	q.stand(w)
	if !w.due.IsZero() { // else it follows others, who will say when
		q.expect(w.due)
	}
	return q
}

// stand puts w where it belongs: last, or first if the others wait for its own shared hold to end. The caller
// holds waitQueues.mu.
func (q *waitQueue) stand(w *waiter) {
	if w.turn.up {
		q.waiters = slices.Insert(q.waiters, 0, w)
		return
	}
	q.waiters = append(q.waiters, w)
}

// leave takes w out and forgets it. The next one takes the timer over; the last
// one ends the subscription. ttl is the lease that w was granted, or 0.
func (ws *waitQueues) leave(q *waitQueue, w *waiter, ttl time.Duration) {
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
	delete(ws.byKey, q.place.key)
	stop := q.stop
	ws.mu.Unlock()
	q.close()
	if stop != nil {
		stop()
	}
}

// expect has the first waiter try at the given time at the latest, or at the
// next pulse. The caller holds waitQueues.mu.
func (q *waitQueue) expect(at time.Time) {
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
func (ws *waitQueues) sleep(q *waitQueue, w *waiter) time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	until := w.deadline
	if q.waiters[0] == w && q.due.Before(until) {
		until = q.due
	}
	return time.Until(until)
}

// due says whether it is for w to try, and the time has come.
func (ws *waitQueues) due(q *waitQueue, w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return q.waiters[0] == w && !time.Now().Before(q.due)
}

// subscribe listens for a queue, for as long as it takes.
func (ws *waitQueues) subscribe(q *waitQueue) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(q.ctx, undoTimeout)
		stop, err := ws.engine.Listen(ctx, q.place.slot, q.place.key, func(e subscription.Event) { ws.heard(q, e) })
		cancel()
		if err == nil {
			ws.mu.Lock()
			open := ws.byKey[q.place.key] == q
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
func (ws *waitQueues) heard(q *waitQueue, e subscription.Event) {
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
func (ws *waitQueues) rouse(q *waitQueue) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(q.waiters) > 0 {
		ws.order.missed(q)
	}
}
