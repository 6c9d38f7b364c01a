package redlock

import (
	"time"

	"lockproxy/internal/resp"
)

// waiter is one Acquire that may wait. It is known from before its first request is
// sent, because by the time the reply is read the lock may have been handed to it.
type waiter struct {
	id       string
	place    place
	mode     Mode
	deadline time.Time
	wake     chan struct{} // capacity 1: try now
	rearm    chan struct{} // capacity 1: look at the timer again
	given    chan Grant    // capacity 1: a release handed the lock over

	a    *Acquire
	next *attempt // was made for it when the lock was released; guarded by Locker.mu, only with a quorum
	asks bool     // an attempt is being made, by it or for it; the same

	refused bool   // a majority has said that others hold the lock; the same
	doubt   string // the last attempt does not know it: why; the same

	up  bool      // a reader who waits to be the writer; only with a quorum; guarded by Locker.mu
	due time.Time // when the next attempt is due, as far as it was told; guarded by Locker.mu
}

// expect makes the waiter of a.
func (l *Locker) expect(a *Acquire, p place) *waiter {
	w := &waiter{
		a: a, id: a.ID, place: p, mode: a.Mode, deadline: time.Now().Add(a.Wait),
		wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1), given: make(chan Grant, 1),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters[w.id] = w
	return w
}

// forget drops a waiter, if there is one, that nothing need be told any more.
func (l *Locker) forget(w *waiter) {
	if w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, w.id)
}

// nudge has w try now.
func (w *waiter) nudge() { signal(w.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// handOver tells the waiter that the lock was granted to by a release or a cancel: the reply is
// 1, id, fence, ttl in ms. One that has left takes the grant back by itself.
func (l *Locker) handOver(reply []resp.Value) {
	g := Grant{Fence: reply[2].Int, TTL: time.Duration(reply[3].Int) * time.Millisecond, Count: 1, At: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiters[reply[1].Text()]; w != nil {
		select {
		case w.given <- g:
		default: // the same, told twice
		}
	}
}
