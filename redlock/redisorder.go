package redlock

import (
	"bytes"
	"math/rand/v2"
	"time"
)

// redisOrder is the order of a queue in Redis: first come, first served across all proxies. The scripts say
// who is next.
type redisOrder struct{ e *single }

func (redisOrder) follows(*Acquire) bool                         { return false }
func (redisOrder) admit(*waiter) error                           { return nil }
func (redisOrder) leaves(*waiter)                                {}
func (redisOrder) left(*waitQueue, *waiter, bool, time.Duration) {}

// heard implements order: the message has the ids of those whom the lock is offered.
func (o redisOrder) heard(q *waitQueue, message []byte) {
	if string(message) == "?" { // who is first is not known yet, see state.lua
		q.waiters[0].nudge()
	}
	for id := range bytes.FieldsSeq(message) {
		if w := o.e.queues.waiters[string(id)]; w != nil {
			w.nudge()
		}
	}
	// The lock is offered to somebody: see that it is taken.
	q.expect(time.Now().Add(offer + time.Millisecond + rand.N(2*time.Millisecond)))
}

// missed implements order: the first one tries, whom the reply tells who else should, and readers, who may
// all have been called.
func (redisOrder) missed(q *waitQueue) {
	for i, w := range q.waiters {
		if i == 0 || w.mode == Read {
			w.nudge()
		}
	}
}

// ended implements order: its place in the queue is taken back before its client is told.
func (o redisOrder) ended(a *Acquire, err error) error {
	if err == nil {
		err = o.e.undoOnce(a)
	}
	if err != nil {
		o.e.undo(a)
	}
	return err
}

// queued notes what the script told w: how long until something happens by
// itself, and which waiters should try now.
func (ws *waitQueues) queued(w *waiter, pause time.Duration, try []byte) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// A little later than the event, and not in step with other proxies.
	w.due = time.Now().Add(min(pause+time.Millisecond, pulse) + rand.N(2*time.Millisecond))
	q := ws.byKey[w.place.key]
	if q != nil {
		q.due = w.due
		q.expect(w.due)
		signal(q.waiters[0].rearm)
	}
	for id := range bytes.FieldsSeq(try) {
		if string(id) == "*" && q != nil {
			for _, other := range q.waiters {
				if other != w {
					other.nudge()
				}
			}
		} else if other := ws.waiters[string(id)]; other != nil && other != w {
			other.nudge()
		}
	}
}
