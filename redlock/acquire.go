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
	if l.quorum != nil {
		if err := l.admit(a.w); err != nil {
			l.forget(a.w)
			return g, false, err
		}
	}
	r := l.enter(a.w)
	g, ok, err = l.wait(ctx, a, r)
	l.leave(r, a.w, g.TTL)
	if !ok && err == nil {
		err = l.inVain(a)
	}
	if !ok && err == nil {
		l.stats.timedOut.Add(1)
		if l.quorum == nil { // else nothing was left
			err = l.undoOnce(a)
		}
	}
	if err != nil && l.quorum == nil {
		l.Undo(a)
	}
	return g, ok, err
}

func (l *Locker) wait(ctx context.Context, a *Acquire, r *room) (g Grant, ok bool, err error) {
	w := a.w
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(l.sleep(r, w))
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
			try = l.due(r, w)
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
		at, reply, err := l.attempt(ctx, a)
		switch {
		case err == errOverdue:
			return g, false, nil
		case err != nil:
			a.unsure = true
			return g, false, err
		}
		g, ok, err = l.readAcquire(a, reply)
		switch {
		case err == ErrAgain:
			w.nudge()
		case ok || err != nil:
			g.At = at
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
func (l *Locker) Try(ctx context.Context, a *Acquire, tries int, every time.Duration) (g Grant, ok bool, err error) {
	for range tries {
		select {
		case <-time.After(every/2 + rand.N(every+1)):
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		}
		a.ID = l.newID(a) // the attempt before this one has made nothing, and what is asked for meanwhile is older
		err = ErrAgain
		for n := 0; err == ErrAgain && n < mostSteps; n++ {
			var reply []byte
			at := time.Now()
			slot, req := l.AcquireRequest(a)
			if reply, err = l.upstream.Do(l.ctx, slot, req, true); err == nil {
				g, ok, err = l.ReadAcquire(a, reply)
				g.At = at
			}
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

// attempt asks for the lock; at is when that began. Nothing can be taken back on one Redis before the outcome
// is known, so it does not end with ctx there; a Quorum takes back by itself what comes too late.
func (l *Locker) attempt(ctx context.Context, a *Acquire) (at time.Time, reply []byte, err error) {
	if l.quorum != nil {
		return l.try(ctx, a)
	}
	at = time.Now()
	slot, req := l.AcquireRequest(a)
	reply, err = l.upstream.Do(l.ctx, slot, req, true)
	return at, reply, err
}
