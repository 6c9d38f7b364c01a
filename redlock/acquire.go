package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Wait goes on waiting for the lock that a stands in the queue for, first come, first
// served, until a.Wait is over. ok is false when the wait was in vain. It blocks. When
// ctx ends it returns its cause. Whatever a has made is taken back then, and after
// errors, in the background; after a wait in vain it is before Wait returns, so that
// the same token may ask again at once.
func (l *Locker) Wait(ctx context.Context, a *Acquire) (g Grant, ok bool, err error) {
	l.stats.waiting.Add(1)
	defer l.stats.waiting.Add(-1)
	l.stats.waits.Add(1)
	if err := l.order.admit(a.w); err != nil {
		l.queues.forget(a.w)
		return g, false, err
	}
	q := l.queues.enter(a.w)
	g, ok, err = l.wait(ctx, a, q)
	l.queues.leave(q, a.w, g.TTL)
	if ok {
		return g, true, nil
	}
	if err = l.order.ended(a, err); err == nil {
		l.stats.timedOut.Add(1)
	}
	return g, false, err
}

func (l *Locker) wait(ctx context.Context, a *Acquire, q *waitQueue) (g Grant, ok bool, err error) {
	w := a.w
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(l.queues.sleep(q, w))
		try := false
		select {
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		case g := <-w.given:
			g.Token = a.Token
			return g, true, nil
		case <-w.wake:
			try = true
		case <-w.rearm:
		case <-timer.C:
			try = l.queues.due(q, w)
		}
		if time.Until(w.deadline) <= 0 {
			select {
			case g := <-w.given: // it came at the last moment
				g.Token = a.Token
				return g, true, nil
			default:
				return g, false, nil
			}
		}
		if !try {
			continue
		}
		switch g, ok, err = l.engine.attempt(ctx, a); {
		case err == errOverdue:
			return Grant{}, false, nil
		case err == ErrAgain:
			w.nudge()
		case ok || err != nil:
			return g, ok, err
		}
	}
}

// mostSteps is how often one attempt goes on with what a script has begun: with a queue of the dead, once for
// each 250.
const mostSteps = 4000

// Try makes exactly tries more attempts, each about every after the one before it: half as
// long up to one and a half times as long. It does not queue. ok is false when all were in
// vain. It blocks. What was made half-way is taken back in the background.
func (l *Locker) Try(
	ctx context.Context, a *Acquire, tries int, every time.Duration,
) (g Grant, ok bool, err error) {
	for range tries {
		select {
		case <-time.After(every/2 + rand.N(every+1)):
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		}
		// The attempt before this one has made nothing, and what is asked for meanwhile is older.
		a.ID = l.names.newID(a)
		err = ErrAgain
		for n := 0; err == ErrAgain && n < mostSteps; n++ {
			g, ok, err = l.engine.attempt(l.back.ctx, a)
		}
		if err != nil && !Refused(err) {
			a.unsure = true
			l.Undo(a)
		}
		if err != nil || ok {
			return g, ok, err
		}
	}
	return g, false, nil
}

// errOverdue is why an attempt ends whose waiter's wait is over.
var errOverdue = errors.New("the wait is over")

// Follows says that others of this proxy wait for the lock that a wants, and that a need not ask before them:
// call Wait at once.
func (l *Locker) Follows(a *Acquire) bool { return l.order.follows(a) }
