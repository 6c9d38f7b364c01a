package wait

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"time"

	"lockproxy/redlock"
)

// Redis orders waiters by the queue in Redis: first come, first served across all proxies. The scripts say
// who is next.
type Redis struct{ *Queues }

// NewRedis returns the queues of e.
func NewRedis(e Engine, names *redlock.Names, log *slog.Logger) *Redis {
	o := &Redis{}
	o.Queues = newQueues(e, o, names, log)
	return o
}

// Whether it may wait, and what becomes of its place when it leaves, are up to the scripts and to the engine.

func (*Redis) admitWaiter(*waiter) error                       { return nil }
func (*Redis) waiterLeaves(*waiter)                            {}
func (*Redis) waiterLeft(*queue, *waiter, bool, time.Duration) {}
func (*Redis) waitEnded(_ *waiter, err error) error            { return err }

// heardMessage implements waitOrder: the message has the ids of those that the lock is offered to.
func (o *Redis) heardMessage(q *queue, message []byte) {
	if string(message) == "?" { // who is first is not known yet: see state.lua
		q.waiters[0].nudge()
	}
	for id := range bytes.FieldsSeq(message) {
		if w := o.byID[string(id)]; w != nil {
			w.nudge()
		}
	}
	// The lock is offered to another proxy's waiter: check soon that it was taken.
	q.expectTry(time.Now().Add(offer + time.Millisecond + rand.N(2*time.Millisecond)))
}

// missedMessages implements waitOrder. It wakes the first waiter, which learns from its reply who else should
// try, and those who may share it: they may all have been called.
func (*Redis) missedMessages(q *queue) {
	for i, w := range q.waiters {
		if i == 0 || w.a.Mode == redlock.Read || i < w.a.Permits {
			w.nudge()
		}
	}
}

// Stood is the last place that the script told a, or 0.
func (o *Redis) Stood(a *redlock.Acquire) (place int64) {
	o.withWaiter(a, func(w *waiter) { place = w.stood })
	return place
}

// Queued notes what the script told a: its place, how long until something happens by itself, and which
// waiters should try now. try has ids with blanks between them; * stands for all of this proxy.
func (o *Redis) Queued(a *redlock.Acquire, place int64, pause time.Duration, try []byte) {
	o.withWaiter(a, func(w *waiter) {
		w.stood = place
		// A little later than the event, and not in step with other proxies.
		w.due = time.Now().Add(min(pause+time.Millisecond, pulse) + rand.N(2*time.Millisecond))
		q := o.byKey[w.place.Key]
		if q != nil {
			// What is planned already stays: this reply may be older than the message about an offer.
			if !q.nextTry().After(time.Now()) {
				q.planTry(w.due)
			}
			q.expectTry(w.due)
			signal(q.waiters[0].rearm)
		}
		for id := range bytes.FieldsSeq(try) {
			if string(id) == "*" && q != nil {
				q.nudgeOthers(w)
			} else if other := o.byID[string(id)]; other != nil && other != w {
				other.nudge()
			}
		}
	})
}

// nudgeOthers has all but w try now.
func (q *queue) nudgeOthers(w *waiter) {
	for _, other := range q.waiters {
		if other != w {
			other.nudge()
		}
	}
}
