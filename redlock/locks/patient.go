package locks

import (
	"context"

	"lockproxy/redlock"
)

// This file asks the engine for those who wait for the answer.

// patient is a Caller that waits until ctx ends. It serves one request.
func (l *Locker) patient(ctx context.Context) *redlock.Patient {
	return &redlock.Patient{Ctx: ctx, Home: l.home}
}

// attemptOnce makes one attempt, whatever becomes of its client meanwhile. Without ok and without an error a
// is in the queue if it may wait. It blocks.
func (l *Locker) attemptOnce(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	by := l.patient(context.WithoutCancel(ctx))
	if g, ok, err = by.Acquire(l.engine.Acquire, a); !ok && by.Told {
		l.Refused(a)
	}
	return g, ok, err
}

// releaseHold frees a hold. It blocks.
func (l *Locker) releaseHold(ctx context.Context, r *redlock.Release) (redlock.Released, error) {
	l.o.Index.Changed(r.Name) // a Patient is not told if a request may have run twice, which plain locks need
	return l.patient(context.WithoutCancel(ctx)).Release(l.engine.Release, r)
}

// renewHold makes the lease of a hold longer. It blocks.
func (l *Locker) renewHold(ctx context.Context, r *redlock.Renew) (redlock.Renewed, error) {
	return redlock.Ask(l.patient(context.WithoutCancel(ctx)),
		func(by *redlock.Patient, then func(redlock.Renewed, error) []byte) { l.engine.Renew(by, r, then) })
}

// readState reads a lock. It blocks, at the latest until ctx ends.
func (l *Locker) readState(ctx context.Context, name string) (redlock.State, error) {
	return redlock.Ask(l.patient(ctx), func(by *redlock.Patient, then func(redlock.State, error) []byte) {
		l.engine.Inspect(by, name, "", then)
	})
}
